// What people see: colours where they are wanted, one live progress line, aligned tables.
//
//   Terminal term(stdout);
//   fmt::print("{} built\n", term.green("✓"));
//   ProgressLine progress(stderr);
//   progress.update("verified 12/100");        // redrawn in place; in a pipe, a plain line at most every 10 s
//   progress.finish("verified 100/100");
//   Table table({"task", "status"}, {Align::kLeft, Align::kLeft});
//   table.add({"relu", "ok"});  fmt::print("{}", table.text());
//
// NO_COLOR (https://no-color.org), TERM=dumb and pipes switch colours off; CLICOLOR_FORCE=1 switches them on.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace musacoder::base {

class Terminal {
 public:
  explicit Terminal(std::FILE* stream);
  Terminal(bool colour, int width) : tty_(false), colour_(colour), width_(width) {}
  bool is_tty() const { return tty_; }
  bool colour() const { return colour_; }
  int width() const { return width_; }     // columns; 100 when unknown
  std::string red(std::string_view s) const { return paint("31", s); }
  std::string green(std::string_view s) const { return paint("32", s); }
  std::string yellow(std::string_view s) const { return paint("33", s); }
  std::string blue(std::string_view s) const { return paint("34", s); }
  std::string cyan(std::string_view s) const { return paint("36", s); }
  std::string bold(std::string_view s) const { return paint("1", s); }
  std::string dim(std::string_view s) const { return paint("2", s); }
  std::string paint(const char* code, std::string_view s) const;

 private:
  bool tty_, colour_;
  int width_;
};

// Columns a UTF-8 text takes; colour escapes count nothing, wide East Asian characters two.
int display_width(std::string_view text);
// Cuts to `columns`, with "…" where something was cut.
std::string ellipsize(std::string_view text, int columns);
// Text from outside made safe to print: control characters and escapes become visible, invalid UTF-8 is replaced.
std::string printable(std::string_view text, bool keep_newlines = true);

class ProgressLine {
 public:
  explicit ProgressLine(std::FILE* stream, Clock& clock = real_clock(), double plain_every_s = 10);
  ~ProgressLine();
  void update(const std::string& text);
  // A permanent line above the live one.
  void print(const std::string& line);
  void finish(const std::string& text);

 private:
  void clear();
  std::FILE* stream_;
  Terminal terminal_;
  Clock& clock_;
  double plain_every_s_, last_ = -1e9;
  bool drawn_ = false;
};

enum class Align { kLeft, kRight };

class Table {
 public:
  explicit Table(std::vector<std::string> header, std::vector<Align> align = {});
  void add(std::vector<std::string> row);        // short rows are filled, long ones cut
  // Aligned columns with two spaces between; no trailing spaces. The last column is cut to `width` when it is > 0.
  std::string text(int width = 0) const;
  std::string markdown() const;
  std::size_t rows() const { return rows_.size(); }

 private:
  std::vector<std::string> header_;
  std::vector<Align> align_;
  std::vector<std::vector<std::string>> rows_;
};

// "1.3 s", "820 ms", "2 min 05 s"; "12.0 MiB".
std::string human_seconds(double seconds);
std::string human_bytes(std::uint64_t bytes);

}  // namespace musacoder::base
