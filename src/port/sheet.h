// A text being ported: the edits and remarks that the porters of the languages collect. Not for use outside
// src/port.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "port/port.h"
#include "port/tokens.h"

namespace musacoder::port {

// The comment that keep_marks puts behind a name.
inline constexpr std::string_view kKeepMark = "/*MUSACODER_PORT_KEEP*/";

class Sheet {
 public:
  Sheet(const RenameTable& table, std::string_view text, Dialect to, const PortOptions& options);

  const RenameTable& table() const { return table_; }
  Dialect to() const { return to_; }
  const PortOptions& options() const { return options_; }
  std::string_view text() const { return text_; }
  bool excluded(std::size_t offset) const { return excluded_[line_of(offset)]; }

  // False on an excluded line.
  bool rename(std::size_t begin, std::size_t end, const Renamed& renamed);
  // Text put in or taken out that is no rename: the marks of keep_marks.
  void insert(std::size_t at, std::string_view what);
  void remove(std::size_t begin, std::size_t end);
  void attend(std::size_t offset, std::string kind, std::string what, std::string why);
  // The name is of the dialect that the text goes to, and would become `back` on the way back.
  void ambiguous(std::size_t offset, std::string_view name, std::string_view back);

  Ported finish();

 private:
  struct Edit {
    std::size_t begin = 0, end = 0;
    std::string to;
    std::string_view group;  // empty: no rename
  };
  std::size_t line_of(std::size_t offset) const;
  void already_there();

  const RenameTable& table_;
  std::string_view text_;
  Dialect to_;
  PortOptions options_;
  std::vector<std::size_t> lines_;  // offsets of line starts
  std::vector<bool> excluded_;      // by line
  std::vector<Edit> edits_;
  std::vector<std::pair<std::size_t, Attention>> attention_;
};

// The porters. `code` is what is looked at, as long as the part of the sheet's text that begins at `offset`:
// the text itself, or a string's body with its escapes blanked out.
void port_cpp(Sheet& sheet, std::string_view code, std::size_t offset);
void port_python(Sheet& sheet, std::string_view code, std::size_t offset);
void port_build(Sheet& sheet, std::string_view code, std::size_t offset);
void port_prose(Sheet& sheet, std::string_view code, std::size_t offset);
void port_answer(Sheet& sheet, std::string_view code, std::size_t offset);

// Remarks about C++ and Python tokens (attention.cpp).
void attend_cpp(Sheet& sheet, std::string_view code, std::size_t offset, const std::vector<Token>& tokens);
void attend_python(Sheet& sheet, std::string_view code, std::size_t offset, const std::vector<Token>& tokens);

// Do the tokens beside `at` fit? Comments are stepped over.
bool fits(const Context& context, std::string_view code, const std::vector<Token>& tokens, std::size_t at);
// The index of the token before or after `at` that is no comment; npos when there is none.
inline constexpr std::size_t kNone = static_cast<std::size_t>(-1);
std::size_t token_before(const std::vector<Token>& tokens, std::size_t at);
std::size_t token_after(const std::vector<Token>& tokens, std::size_t at);

}  // namespace musacoder::port
