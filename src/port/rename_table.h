// What CUDA's names are called on MUSA, and the other way round: the tables of runtime/musa/renames, loaded
// once.
//
//   MC_ASSIGN_OR_RETURN(RenameTable table, RenameTable::installed());
//   table.name("cudaMalloc", Dialect::kMusa)->to;            // "musaMalloc"
//   table.name("my_cuda_helper", Dialect::kMusa);            // nothing: not CUDA's, so it stays
//
// A table cannot be changed after it is loaded; any number of threads may read it. docs/port.md describes the
// files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "port/spelling.h"

namespace musacoder::port {

// Which names a text shall have.
enum class Dialect { kCuda, kMusa };
inline Dialect other(Dialect dialect) { return dialect == Dialect::kCuda ? Dialect::kMusa : Dialect::kCuda; }
const char* dialect_name(Dialect dialect);  // "cuda", "musa"

struct Renamed {
  std::string to;
  std::string_view group;  // "runtime", "cublas", "torch", …
};

// A word that is renamed only where certain tokens stand beside it.
struct Context {
  std::string group, from, to;
  // Alternatives of tokens right before and right after; "*" is any token. Empty: no condition.
  using Pattern = std::vector<std::string>;
  std::vector<Pattern> before, after;
};

// What a person has to look at: a word, and why.
struct AttentionRule {
  std::string kind, why;
};

class RenameTable {
 public:
  // Reads rules.toml, attention.toml and every names_*.toml of a folder. Errors: kNotFound for a missing
  // file; kInvalidArgument, with file and key, for what is malformed, an unknown version, or two names that
  // become the same one.
  static Result<RenameTable> load(const std::string& folder);
  // The tables of this installation (base::find_runtime_dir(), musa/renames).
  static Result<RenameTable> installed();

  // A C++ identifier.
  std::optional<Renamed> name(std::string_view word, Dialect to) const;
  // The path of an #include; `own`: in quotes, so that a text's own headers get the other dialect's file
  // name.
  std::optional<Renamed> header(std::string_view path, bool own, Dialect to) const;
  // The name of a source file: "a.cu" → "a.mu". Nothing when its end has no counterpart.
  std::optional<Renamed> file_name(std::string_view name, Dialect to) const;
  // A Python identifier; a whole Python string that is a flag, key or variable; a whole one that is a device.
  std::optional<Renamed> python_word(std::string_view word, Dialect to) const;
  std::optional<Renamed> python_string(std::string_view body, Dialect to) const;
  std::optional<Renamed> device(std::string_view body, Dialect to) const;
  // A product's name in prose: "CUDA", "cuBLAS".
  std::optional<Renamed> prose_word(std::string_view word, Dialect to) const;
  // A word of CMake or make.
  std::optional<Renamed> build_word(std::string_view word, Dialect to) const;

  // Words with a condition, by word, in the dialect that is left.
  const std::vector<Context>* cpp_contexts(std::string_view word, Dialect to) const;
  const std::vector<Context>* python_contexts(std::string_view word, Dialect to) const;

  // Where Python keeps C++ (docs/port.md).
  struct SourceCall {
    std::string name;
    std::vector<int> places;
  };
  const std::vector<std::string>& source_keywords() const { return source_keywords_; }
  const std::vector<SourceCall>& source_calls() const { return source_calls_; }
  const std::vector<std::string>& source_marks() const { return source_marks_; }
  // "import torch" and what it is with torch_musa.
  const std::string& import_of(Dialect dialect) const { return import_[dialect == Dialect::kMusa]; }

  // Words and included paths of CUDA texts that a person has to look at when they go to MUSA. Null: none.
  const AttentionRule* word_attention(std::string_view word, bool python) const;
  const AttentionRule* header_attention(std::string_view path) const;

  // A name that two others become, so that the way back from it may not give the original.
  bool is_one_way(std::string_view cuda_name) const;
  // SHA-256 over the files: the version of the tables in manifests and reports.
  const std::string& hash() const { return hash_; }
  std::size_t size() const { return names_[1].size(); }
  // Every listed CUDA name with its group and MUSA name, in order: for tests and for coverage figures.
  std::map<std::string, std::pair<std::string, std::string>> listed() const;

 private:
  friend class TableReader;
  struct Entry {
    std::string to;
    int group = 0;
  };
  using Map = std::unordered_map<std::string, Entry>;
  struct Open {
    int group = 0;
    std::string from, to;
    bool any = false;  // goes on with anything, not only with a capital or a digit
  };
  static std::optional<Renamed> find(const Map& map, std::string_view word,
                                     const std::vector<std::string>& groups);
  std::optional<Renamed> listed_or_suffixed(std::string_view word, Dialect to) const;

  // [0]: to CUDA, [1]: to MUSA.
  Map names_[2], headers_[2], python_words_[2], python_strings_[2], prose_words_[2], build_words_[2];
  std::unordered_map<std::string, std::vector<Context>> cpp_contexts_[2], python_contexts_[2];
  std::vector<Open> open_, build_open_;
  std::vector<std::pair<std::string, std::string>> folders_, extensions_;
  std::vector<std::string> suffixes_, groups_;
  std::string device_[2], import_[2];
  std::vector<std::string> source_keywords_, source_marks_;
  std::vector<SourceCall> source_calls_;
  std::unordered_map<std::string, AttentionRule> cpp_attention_, python_attention_;
  std::vector<std::pair<std::string, AttentionRule>> cpp_prefix_attention_, header_attention_;
  std::vector<std::string> one_way_;
  Spelling spelling_;
  std::string hash_;
};

}  // namespace musacoder::port
