// CUDA texts to MUSA and back: C++, Python candidates and their sources, build files, and prose such as a
// compiler's messages.
//
//   MC_ASSIGN_OR_RETURN(RenameTable table, RenameTable::installed());
//   MC_ASSIGN_OR_RETURN(Ported ported, port_text(table, source, Language::kCpp, Dialect::kMusa, {}));
//   for (const Attention& item : ported.attention) …           // what a person has to look at, with lines
//
// Only CUDA's own names change (port/rename_table.h), as whole tokens: a text's own names, comments and
// strings stay, but for strings that are a device, a flag or C++ source in Python. Every line stays on its
// line. Porting a ported text changes nothing, and porting it back gives the original, byte for byte, unless
// `attention` says otherwise (kind "ambiguous" or "one_way"). Lines with MUSACODER_PORT_LINE, and those from
// MUSACODER_PORT_OFF to MUSACODER_PORT_ON, are left alone, as are Musify's MUSIFY_EXCL_LINE,
// MUSIFY_EXCL_START and MUSIFY_EXCL_STOP.
//
// All functions are pure and may run in any number of threads.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "port/rename_table.h"

namespace musacoder::port {

// kAnswer: Markdown, such as a model's raw answer. Its code blocks are ported, each in its language; what
// stands around them only with in_strings.
enum class Language { kCpp, kPython, kBuild, kText, kAnswer };

// The language of a file, by its name: .cu .cuh .mu .muh .cpp .h … are C++, .py Python, CMakeLists.txt,
// .cmake and Makefile build files, .md answers; all else is text.
Language language_of(std::string_view file_name);
// The language of a candidate, by its text: an answer where it has code blocks, C++ where it begins as no
// Python file does, else Python.
Language language_of_text(std::string_view text);

struct PortOptions {
  bool in_strings = false;  // names in strings too: messages, and whatever else a string says
  bool in_comments = false;
  // Mark C++ names of the other dialect with a comment, so that the way back leaves them alone.
  bool keep_marks = false;
  bool attention = true;  // look for what a person has to look at, and walk the way back
};

struct Rename {
  std::size_t line = 0, column = 0;  // from 1; column in bytes
  std::string from, to, group;
};

struct Attention {
  std::size_t line = 0, column = 0;
  // "inline_ptx", "warp_size", "libraries", …; "ambiguous", "one_way": the way back differs;
  // "already_ported": the text has names of the target only.
  std::string kind;
  std::string what;     // the token
  std::string why;      // and what to do
  std::size_t row = 0;  // of a JSONL file, from 1; lines count within its text. 0: no such file
};

struct Ported {
  std::string text;
  std::vector<Rename> renames;       // in the order of the text
  std::vector<Attention> attention;  // in the order of the text
  std::map<std::string, std::size_t> by_group() const;
  // Nothing was found that keeps the way back from giving the original.
  bool reversible() const;
};

// Errors: kInvalidArgument for a text larger than kMaxTextBytes or with a zero byte in it (no text).
inline constexpr std::size_t kMaxTextBytes = 64u << 20;
Result<Ported> port_text(const RenameTable& table, std::string_view text, Language language, Dialect to,
                         const PortOptions& options = {});

// Names in prose: "identifier \"cudaMalloc\" is undefined" in MUSA's names. Quotes are nothing special here.
std::string rename_words(const RenameTable& table, std::string_view prose, Dialect to);

}  // namespace musacoder::port
