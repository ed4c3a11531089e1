// The Python half of port/tokens.h.
#include <algorithm>
#include <optional>

#include "port/tokens.h"

namespace musacoder::port {
namespace {

// Replacement fields nest in each other's format specifications and strings; real code does so once or twice.
constexpr int kMaxNesting = 8;
// Bytes that may be looked at for all f-strings, as a multiple of the text's: strings that nest without end
// cost no more.
constexpr std::size_t kMaxPasses = 8;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The quote at `at`: one or three characters.
std::size_t quote_size(std::string_view text, std::size_t at) {
  return text.substr(at, 3) == "\"\"\"" || text.substr(at, 3) == "'''" ? 3 : 1;
}

struct StringEnd {
  std::size_t body_end = 0, end = 0;
};

// The end of a string without replacement fields whose body begins at `body`.
StringEnd plain_end(std::string_view text, std::size_t body, std::string_view quote) {
  std::size_t i = body;
  while (i < text.size()) {
    if (text[i] == '\\') {
      i += 2;
      continue;
    }
    if (text.substr(i, quote.size()) == quote) return {i, i + quote.size()};
    if (quote.size() == 1 && text[i] == '\n') return {i, i};
    ++i;
  }
  return {text.size(), text.size()};
}

std::optional<StringEnd> formatted_end(std::string_view text, std::size_t body, std::string_view quote,
                                       bool raw, std::vector<Field>* fields, int depth, std::size_t& budget);

// From the "{" at `open` to after its "}"; nothing when the field does not end.
std::optional<std::size_t> field_end(std::string_view text, std::size_t open, std::string_view quote,
                                     bool raw, int depth, std::size_t& budget) {
  if (depth > kMaxNesting) return std::nullopt;
  std::vector<char> brackets;
  bool format = false;  // after the ":" of the field
  std::size_t i = open + 1;
  while (i < text.size()) {
    if (budget == 0) return std::nullopt;
    --budget;
    const char c = text[i];
    if (quote.size() == 1 && c == '\n' && format) return std::nullopt;
    if (!format && (c == '"' || c == '\'')) {
      // In Python before 3.12 the string's own quote cannot stand in a field, and ends the string.
      const std::size_t size = quote_size(text, i);
      const std::string_view inner = text.substr(i, size);
      bool inner_raw = false, inner_format = false;
      for (std::size_t p = i; p > open + 1 && is_word_char(text[p - 1]) && i - p < 2; --p) {
        inner_raw |= text[p - 1] == 'r' || text[p - 1] == 'R';
        inner_format |= text[p - 1] == 'f' || text[p - 1] == 'F';
      }
      StringEnd end = plain_end(text, i + size, inner);
      if (inner_format) {
        auto nested = formatted_end(text, i + size, inner, inner_raw, nullptr, depth + 1, budget);
        if (nested) end = *nested;
      }
      if (end.end == end.body_end) return std::nullopt;  // it does not end on its line
      i = end.end;
      continue;
    }
    if (c == '\n' && quote.size() == 1) return std::nullopt;
    if (format && c == '{') {
      const auto end = field_end(text, i, quote, raw, depth + 1, budget);
      if (!end) return std::nullopt;
      i = *end;
      continue;
    }
    if (!format && (c == '(' || c == '[' || c == '{')) brackets.push_back(c);
    if (c == '}' && (format || brackets.empty())) return i + 1;
    if (!format && (c == ')' || c == ']' || c == '}')) {
      if (brackets.empty()) return std::nullopt;
      brackets.pop_back();
    }
    if (!format && c == ':' && brackets.empty()) format = true;
    ++i;
  }
  return std::nullopt;
}

std::optional<StringEnd> formatted_end(std::string_view text, std::size_t body, std::string_view quote,
                                       bool raw, std::vector<Field>* fields, int depth, std::size_t& budget) {
  std::size_t i = body;
  while (i < text.size()) {
    if (budget == 0) return std::nullopt;
    --budget;
    const char c = text[i];
    if (c == '\\' && !raw && i + 1 < text.size() && text[i + 1] == 'N' && text.substr(i + 2, 1) == "{") {
      const std::size_t close = text.find('}', i);  // \N{name}
      i = close == std::string_view::npos ? i + 2 : close + 1;
      continue;
    }
    if (c == '\\' && text.substr(i + 1, 1) != "{" && text.substr(i + 1, 1) != "}") {
      i += 2;
      continue;
    }
    if (text.substr(i, quote.size()) == quote) return StringEnd{i, i + quote.size()};
    if (quote.size() == 1 && c == '\n') return StringEnd{i, i};
    if (c == '{' && text.substr(i + 1, 1) == "{") {
      i += 2;
      continue;
    }
    if (c == '{') {
      const auto end = field_end(text, i, quote, raw, depth, budget);
      if (!end) return std::nullopt;
      if (fields) fields->push_back({i, *end});
      i = *end;
      continue;
    }
    ++i;
  }
  return std::nullopt;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text), budget_(kMaxPasses * text.size()) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) step();
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void push(Kind kind, std::size_t end) {
    tokens_.push_back({.kind = kind, .begin = at_, .end = end});
    at_ = end;
  }

  void step() {
    const char c = peek();
    if (c == '\n') {
      if (depth_ == 0)
        push(Kind::kNewline, at_ + 1);
      else
        ++at_;
    } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      at_ += peek(1) == '\n' ? 2 : 3;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (c == '#') {
      push(Kind::kComment, std::min(text_.find('\n', at_), text_.size()));
    } else if (c == '"' || c == '\'') {
      string(at_);
    } else if (is_word_start(c)) {
      word();
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      std::size_t end = at_ + 1;
      while (end < text_.size() && (is_word_char(text_[end]) || text_[end] == '.')) ++end;
      push(Kind::kNumber, end);
    } else {
      if (c == '(' || c == '[' || c == '{') ++depth_;
      if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
      push(Kind::kPunct, at_ + 1);
    }
  }

  void word() {
    std::size_t end = at_ + 1;
    while (end < text_.size() && is_word_char(text_[end])) ++end;
    if (end - at_ <= 2 && end < text_.size() && (text_[end] == '"' || text_[end] == '\'')) {
      const std::string_view prefix = text_.substr(at_, end - at_);
      if (prefix.find_first_not_of("rRbBuUfFtT") == std::string_view::npos) {
        string(end);
        return;
      }
    }
    push(Kind::kWord, end);
  }

  void string(std::size_t open) {
    const std::string_view prefix = text_.substr(at_, open - at_);
    const std::string_view quote = text_.substr(open, quote_size(text_, open));
    const std::size_t body = open + quote.size();
    Token token{.kind = Kind::kString, .begin = at_, .end = 0, .body_begin = body};
    token.raw = prefix.find_first_of("rR") != std::string_view::npos;
    token.formatted = prefix.find_first_of("fFtT") != std::string_view::npos;
    StringEnd end = plain_end(text_, body, quote);
    if (token.formatted) {
      if (auto formatted = formatted_end(text_, body, quote, token.raw, &token.fields, 0, budget_))
        end = *formatted;
      else
        token.fields.clear();  // not an f-string that Python takes: a plain one
    }
    token.body_end = end.body_end;
    token.end = end.end;
    at_ = std::max(end.end, body);
    token.end = at_;
    token.body_end = std::max(token.body_end, body);
    tokens_.push_back(std::move(token));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t budget_;
  int depth_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> python_tokens(std::string_view text) { return Lexer(text).run(); }

}  // namespace musacoder::port
