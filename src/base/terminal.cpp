#include "base/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace musacoder::base {
namespace {

bool set_and_not_empty(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}

// Decodes one code point at i and moves on; invalid bytes give 0xFFFD and one step.
char32_t next_code_point(std::string_view text, std::size_t& i) {
  auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  unsigned char lead = byte(i);
  int more = lead < 0x80 ? 0 : lead >= 0xC2 && lead < 0xE0 ? 1 : lead >= 0xE0 && lead < 0xF0 ? 2 : lead >= 0xF0 && lead < 0xF5 ? 3 : -1;
  if (more < 0 || i + static_cast<std::size_t>(more) >= text.size()) {
    ++i;
    return 0xFFFD;
  }
  char32_t code = more == 0 ? lead : lead & (0x3F >> more);
  for (int k = 1; k <= more; ++k) {
    unsigned char b = byte(i + static_cast<std::size_t>(k));
    if ((b & 0xC0) != 0x80) {
      ++i;
      return 0xFFFD;
    }
    code = (code << 6) | (b & 0x3F);
  }
  static const char32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    ++i;
    return 0xFFFD;
  }
  i += static_cast<std::size_t>(more) + 1;
  return code;
}

int width_of(char32_t c) {
  if (c < 32 || (c >= 0x7F && c < 0xA0)) return 0;
  if ((c >= 0x300 && c < 0x370) || c == 0x200B || c == 0x200D || (c >= 0xFE00 && c < 0xFE10)) return 0;
  if ((c >= 0x1100 && c < 0x1160) || (c >= 0x2E80 && c < 0xA4D0) || (c >= 0xAC00 && c < 0xD7A4) ||
      (c >= 0xF900 && c < 0xFB00) || (c >= 0xFE30 && c < 0xFE70) || (c >= 0xFF00 && c < 0xFF61) ||
      (c >= 0x1F300 && c < 0x1F650) || (c >= 0x20000 && c < 0x30000))
    return 2;
  return 1;
}

// Skips a colour escape at i.
bool skip_escape(std::string_view text, std::size_t& i) {
  if (text[i] != '\x1b' || i + 1 >= text.size() || text[i + 1] != '[') return false;
  std::size_t k = i + 2;
  while (k < text.size() && !(text[k] >= '@' && text[k] <= '~')) ++k;
  i = std::min(k + 1, text.size());
  return true;
}

}  // namespace

Terminal::Terminal(std::FILE* stream) {
  int fd = ::fileno(stream);
  tty_ = ::isatty(fd) == 1;
  const char* term = std::getenv("TERM");
  bool dumb = !term || std::string_view(term) == "dumb";
  colour_ = tty_ && !dumb;
  const char* force = std::getenv("CLICOLOR_FORCE");
  if (force && *force && std::string_view(force) != "0") colour_ = true;
  if (set_and_not_empty("NO_COLOR")) colour_ = false;
  winsize size{};
  width_ = tty_ && ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

std::string Terminal::paint(const char* code, std::string_view s) const {
  if (!colour_ || s.empty()) return std::string(s);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, s);
}

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t i = 0; i < text.size();)
    if (!skip_escape(text, i)) width += width_of(next_code_point(text, i));
  return width;
}

std::string ellipsize(std::string_view text, int columns) {
  if (columns <= 0) return "";
  if (display_width(text) <= columns) return std::string(text);
  std::string cut;
  int used = 0;
  bool coloured = false;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t start = i;
    if (skip_escape(text, i)) {
      coloured = true;
      cut += text.substr(start, i - start);
      continue;
    }
    int width = width_of(next_code_point(text, i));
    if (used + width > columns - 1) break;
    used += width;
    cut += text.substr(start, i - start);
  }
  return cut + "…" + (coloured ? "\x1b[0m" : "");
}

std::string printable(std::string_view text, bool keep_newlines) {
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    std::size_t start = i;
    char32_t c = next_code_point(text, i);
    bool bidi = (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    if (c == '\t' || (c == '\n' && keep_newlines)) safe += static_cast<char>(c);
    else if (c < 32 || (c >= 0x7F && c < 0xA0) || bidi) safe += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else if (c == 0xFFFD) safe += "\xEF\xBF\xBD";
    else safe += text.substr(start, i - start);
  }
  return safe;
}

ProgressLine::ProgressLine(std::FILE* stream, Clock& clock, double plain_every_s)
    : stream_(stream), terminal_(stream), clock_(clock), plain_every_s_(plain_every_s) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
  drawn_ = false;
}

void ProgressLine::update(const std::string& text) {
  double now = clock_.now();
  if (terminal_.is_tty()) {
    if (now - last_ < 0.05) return;
    std::fputs(fmt::format("\r{}\x1b[K", ellipsize(text, terminal_.width() - 1)).c_str(), stream_);
    drawn_ = true;
  } else {
    if (now - last_ < plain_every_s_) return;
    std::fputs((text + "\n").c_str(), stream_);
  }
  last_ = now;
  std::fflush(stream_);
}

void ProgressLine::print(const std::string& line) {
  clear();
  std::fputs((line + "\n").c_str(), stream_);
  std::fflush(stream_);
}

void ProgressLine::finish(const std::string& text) {
  clear();
  if (!text.empty()) print(text);
}

Table::Table(std::vector<std::string> header, std::vector<Align> align) : header_(std::move(header)), align_(std::move(align)) {
  align_.resize(header_.size(), Align::kLeft);
}

void Table::add(std::vector<std::string> row) {
  row.resize(header_.size());
  rows_.push_back(std::move(row));
}

std::string Table::text(int width) const {
  std::vector<int> widths;
  for (std::size_t c = 0; c < header_.size(); ++c) {
    int w = display_width(header_[c]);
    for (const auto& row : rows_) w = std::max(w, display_width(row[c]));
    widths.push_back(w);
  }
  std::string out;
  auto line = [&](const std::vector<std::string>& row) {
    std::string text;
    for (std::size_t c = 0; c < row.size(); ++c) {
      std::string pad(static_cast<std::size_t>(std::max(0, widths[c] - display_width(row[c]))), ' ');
      if (c) text += "  ";
      text += align_[c] == Align::kRight ? pad + row[c] : row[c] + pad;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += (width > 0 ? ellipsize(text, width) : text) + "\n";
  };
  line(header_);
  std::vector<std::string> rule;
  for (int w : widths) {
    std::string dashes;
    for (int i = 0; i < w; ++i) dashes += "─";
    rule.push_back(dashes);
  }
  line(rule);
  for (const auto& row : rows_) line(row);
  return out;
}

std::string Table::markdown() const {
  std::string out;
  auto line = [&](const std::vector<std::string>& row) {
    out += "|";
    for (const auto& cell : row) {
      out += " ";
      for (char c : cell) {
        if (c == '|') out += '\\';
        out += c == '\n' ? ' ' : c;
      }
      out += " |";
    }
    out += "\n";
  };
  line(header_);
  out += "|";
  for (Align a : align_) out += a == Align::kRight ? "---:|" : "---|";
  out += "\n";
  for (const auto& row : rows_) line(row);
  return out;
}

std::string human_seconds(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string human_bytes(std::uint64_t bytes) {
  static const char* const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace musacoder::base
