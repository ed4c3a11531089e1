#include "llm/chat/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "llm/chat/jinja/value.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm::jinja {
namespace {

constexpr std::array kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")",
                                   "{",  "}",  ">",  "<",  "=",  ".",  ":", "|", ",", ";"};

// "\r\n" and "\r" become "\n", and one newline at the end is dropped.
std::string with_plain_newlines(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      out += text[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_name_start(char32_t c) { return c == '_' || (c < 0x80 ? (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') : char_class(c) & kLetter); }
bool is_name_part(char32_t c) { return is_name_start(c) || (c < 0x80 ? c >= '0' && c <= '9' : char_class(c) & (kMark | kNumber)); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(with_plain_newlines(source)), text_(owned_) {}

  std::vector<Token> run() {
    bool line_starting = true;
    while (at_ < text_.size()) {
      const std::size_t open = find_open(at_);
      std::string_view data = text_.substr(at_, open == text_.npos ? text_.npos : open - at_);
      if (open == text_.npos) {
        emit_data(data);
        break;
      }
      const char kind = text_[open + 1];
      const char sign = open + 2 < text_.size() ? text_[open + 2] : ' ';
      if (sign == '-') {
        data = strip(data, false, true);
      } else if (sign != '+' && kind != '{') {
        const std::size_t newline = data.rfind('\n');
        const std::size_t start = newline == data.npos ? 0 : newline + 1;
        const std::string_view rest = data.substr(start);
        if ((start > 0 || line_starting) && strip(rest, true, false).empty()) data = data.substr(0, start);
      }
      emit_data(data);
      skip_lines(text_.substr(at_ + data.size(), open - at_ - data.size()));
      at_ = open + 2;
      // A sign belongs to the brackets; a '+' of an expression does not exist, for Jinja neither.
      if (sign == '-' || sign == '+') ++at_;
      if (kind == '#') comment();
      else if (kind == '%' && raw_block()) {}
      else inside(kind);
      line_starting = at_ > 0 && text_[at_ - 1] == '\n';
    }
    tokens_.push_back({TokenKind::kEnd, "", line_});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fault(const std::string& message) const {
    Fault f(message);
    f.line = line_;
    throw f;
  }

  std::size_t find_open(std::size_t from) const {
    for (std::size_t i = text_.find('{', from); i != text_.npos; i = text_.find('{', i + 1))
      if (i + 1 < text_.size() && (text_[i + 1] == '{' || text_[i + 1] == '%' || text_[i + 1] == '#')) return i;
    return text_.npos;
  }

  void skip_lines(std::string_view part) { line_ += static_cast<int>(std::count(part.begin(), part.end(), '\n')); }
  void emit_data(std::string_view data) {
    if (!data.empty()) tokens_.push_back({TokenKind::kData, std::string(data), line_});
    skip_lines(data);
  }
  void emit(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void skip_space() {
    while (at_ < text_.size()) {
      const CodePoint c = code_point(text_, at_);
      if (!is_space(c.value)) return;
      if (c.value == '\n') ++line_;
      at_ += c.length;
    }
  }

  // After a closing bracket: with '-' white space goes, else one newline does, unless '+' or a variable stood there.
  void after_close(char sign, bool block) {
    if (sign == '-') {
      skip_space();
    } else if (block && sign != '+' && at_ < text_.size() && text_[at_] == '\n') {
      ++line_;
      ++at_;
    }
  }

  void comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == text_.npos) fault("a comment is not closed; '#}' is missing");
    const char sign = end > at_ ? text_[end - 1] : ' ';
    skip_lines(text_.substr(at_, end - at_));
    at_ = end + 2;
    after_close(sign, true);
  }

  // {% raw %} … {% endraw %}: true if one began here.
  bool raw_block() {
    const std::size_t begin = at_;
    const int line = line_;
    skip_space();
    if (text_.substr(at_, 3) != "raw") return back(begin, line);
    at_ += 3;
    skip_space();
    const bool minus = text_.substr(at_, 1) == "-";
    if (text_.substr(at_ + minus, 2) != "%}") return back(begin, line);
    at_ += 2 + minus;
    if (minus) skip_space();
    for (std::size_t open = text_.find("{%", at_); open != text_.npos; open = text_.find("{%", open + 2)) {
      std::size_t i = open + 2;
      const char left = i < text_.size() ? text_[i] : ' ';
      if (left == '-' || left == '+') ++i;
      while (i < text_.size() && is_space(static_cast<unsigned char>(text_[i]))) ++i;
      if (text_.substr(i, 6) != "endraw") continue;
      i += 6;
      while (i < text_.size() && is_space(static_cast<unsigned char>(text_[i]))) ++i;
      const char right = i < text_.size() ? text_[i] : ' ';
      if (right == '-' || right == '+') ++i;
      if (text_.substr(i, 2) != "%}") continue;
      std::string_view data = text_.substr(at_, open - at_);
      if (left == '-') {
        data = strip(data, false, true);
      } else if (left != '+') {
        const std::size_t newline = data.rfind('\n');
        if (newline != data.npos && strip(data.substr(newline + 1), true, false).empty()) data = data.substr(0, newline + 1);
      }
      emit_data(data);
      skip_lines(text_.substr(at_ + data.size(), i - at_ - data.size()));
      at_ = i + 2;
      after_close(right, true);
      return true;
    }
    fault("a raw block is not closed; '{% endraw %}' is missing");
  }
  bool back(std::size_t at, int line) {
    at_ = at;
    line_ = line;
    return false;
  }

  // What stands between {{ and }} or {% and %}.
  void inside(char kind) {
    const bool block = kind == '%';
    const std::string close = block ? "%}" : "}}";
    emit(block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
    const int opened = line_;
    std::string stack;
    for (;;) {
      skip_space();
      if (at_ >= text_.size()) {
        line_ = opened;
        fault(fmt::format("'{}' is not closed; '{}' is missing", block ? "{%" : "{{", close));
      }
      if (stack.empty()) {
        const char sign = text_[at_];
        const bool signed_close = (sign == '-' || (sign == '+' && block)) && text_.substr(at_ + 1, 2) == close;
        if (signed_close || text_.substr(at_, 2) == close) {
          emit(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
          at_ += signed_close ? 3 : 2;
          after_close(signed_close ? sign : ' ', block);
          return;
        }
      }
      token(stack);
    }
  }

  void token(std::string& stack) {
    const CodePoint c = code_point(text_, at_);
    if (is_name_start(c.value)) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && is_name_part(code_point(text_, at_).value)) at_ += code_point(text_, at_).length;
      emit(TokenKind::kName, std::string(text_.substr(begin, at_ - begin)));
    } else if (is_digit(text_[at_])) {
      number();
    } else if (text_[at_] == '"' || text_[at_] == '\'') {
      string();
    } else {
      for (const char* op : kOperators) {
        const std::string_view text(op);
        if (text_.substr(at_, text.size()) != text) continue;
        const char first = text[0];
        if (text.size() == 1 && std::string_view("([{").find(first) != std::string_view::npos) stack += first;
        if (text.size() == 1 && std::string_view(")]}").find(first) != std::string_view::npos) {
          const char wanted = first == ')' ? '(' : first == ']' ? '[' : '{';
          if (stack.empty() || stack.back() != wanted) fault(fmt::format("unexpected '{}'", first));
          stack.pop_back();
        }
        emit(TokenKind::kOperator, op);
        at_ += text.size();
        return;
      }
      fault(fmt::format("unexpected character '{}'", text_.substr(at_, c.length)));
    }
  }

  void number() {
    const std::size_t begin = at_;
    const auto digits = [&](auto is) {
      std::string out;
      while (at_ < text_.size() && (is(text_[at_]) || (text_[at_] == '_' && at_ + 1 < text_.size() && is(text_[at_ + 1])))) {
        if (text_[at_] != '_') out += text_[at_];
        ++at_;
      }
      return out;
    };
    const auto is_hex = [](char c) { return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f'); };
    const char base = at_ + 1 < text_.size() ? static_cast<char>(text_[at_ + 1] | 32) : ' ';
    if (text_[at_] == '0' && (base == 'x' || base == 'o' || base == 'b') && at_ + 2 < text_.size() && is_hex(text_[at_ + 2])) {
      at_ += 2;
      const std::string text = digits(is_hex);
      std::size_t used = 0;
      try {
        const unsigned long long value = std::stoull(text, &used, base == 'x' ? 16 : base == 'o' ? 8 : 2);
        if (used == text.size()) return emit(TokenKind::kInteger, std::to_string(value));
      } catch (const std::exception&) {
      }
      fault(fmt::format("'{}' is not a number", text_.substr(begin, at_ - begin)));
    }
    std::string text = digits(is_digit);
    bool is_float = false;
    // "1.0" is a number, "1.real" and "list.0" are not; a dot counts only with a digit behind it.
    const bool after_dot = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator && tokens_.back().text == ".";
    if (!after_dot && at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])) {
      ++at_;
      text += "." + digits(is_digit);
      is_float = true;
    }
    if (!after_dot && at_ < text_.size() && (text_[at_] | 32) == 'e') {
      const std::size_t sign = at_ + 1 < text_.size() && (text_[at_ + 1] == '-' || text_[at_ + 1] == '+') ? 1 : 0;
      if (at_ + 1 + sign < text_.size() && is_digit(text_[at_ + 1 + sign])) {
        text += std::string(text_.substr(at_, 1 + sign));
        at_ += 1 + sign;
        text += digits(is_digit);
        is_float = true;
      }
    }
    emit(is_float ? TokenKind::kFloat : TokenKind::kInteger, text);
  }

  void string() {
    const char quote = text_[at_++];
    const int opened = line_;
    std::string out;
    const auto hex = [&](int n) {
      char32_t value = 0;
      for (int i = 0; i < n; ++i) {
        const char c = at_ < text_.size() ? text_[at_] : ' ';
        const int digit = is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0) fault("a '\\x', '\\u' or '\\U' in a text lacks digits");
        value = value * 16 + static_cast<char32_t>(digit);
        ++at_;
      }
      if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) fault("an escape in a text is no character");
      append_utf8(out, value);
    };
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '\\') {
        out += text_[at_++];
        continue;
      }
      if (++at_ >= text_.size()) break;
      const char c = text_[at_++];
      switch (c) {
        case 'n': out += '\n'; break;
        case 't': out += '\t'; break;
        case 'r': out += '\r'; break;
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'v': out += '\v'; break;
        case 'a': out += '\a'; break;
        case '\\': case '\'': case '"': out += c; break;
        case '\n': ++line_; break;
        case 'x': hex(2); break;
        case 'u': hex(4); break;
        case 'U': hex(8); break;
        case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': {
          char32_t value = static_cast<char32_t>(c - '0');
          for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) value = value * 8 + static_cast<char32_t>(text_[at_++] - '0');
          append_utf8(out, value);
          break;
        }
        default: out += '\\', out += c;   // as Python leaves what it does not know
      }
    }
    if (at_ >= text_.size()) {
      line_ = opened;
      fault("a text is not closed; its quote is missing");
    }
    ++at_;
    emit(TokenKind::kString, std::move(out));
  }

  std::string owned_;
  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace musacoder::llm::jinja
