// The C++ half of port/tokens.h: translation phases 1 to 3 as far as renaming needs them.
#include <algorithm>

#include "port/tokens.h"

namespace musacoder::port {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) step();
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts(std::string_view with) const { return text_.substr(at_, with.size()) == with; }

  void push(Kind kind, std::size_t begin, std::size_t end) {
    tokens_.push_back({.kind = kind, .begin = begin, .end = end});
    at_ = end;
    line_start_ = false;
  }

  void step() {
    const char c = peek();
    if (c == '\n') {
      line_start_ = true;
      include_ = Include::kNo;
      ++at_;
    } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      at_ += peek(1) == '\n' ? 2 : 3;  // a spliced line goes on
    } else if (is_blank(c)) {
      ++at_;
    } else if (starts("//")) {
      comment_line();
    } else if (starts("/*")) {
      const std::size_t end = text_.find("*/", at_ + 2);
      const bool was_start = line_start_;
      push(Kind::kComment, at_, end == std::string_view::npos ? text_.size() : end + 2);
      line_start_ = was_start;
    } else if (include_ == Include::kPath && (c == '<' || c == '"')) {
      header(c == '<' ? '>' : '"');
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      number();
    } else if (is_word_start(c)) {
      word();
    } else if (c == '"') {
      quoted(Kind::kString, at_);
    } else if (c == '\'') {
      quoted(Kind::kChar, at_);
    } else {
      punct();
    }
  }

  void comment_line() {
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != '\n') {
      if (text_[end] == '\\' && end + 1 < text_.size()) ++end;  // a spliced comment goes on
      ++end;
    }
    push(Kind::kComment, at_, std::min(end, text_.size()));
  }

  void header(char close) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != close && text_[end] != '\n') ++end;
    const bool closed = end < text_.size() && text_[end] == close;
    const std::size_t begin = at_;
    push(Kind::kHeader, begin, closed ? end + 1 : end);
    tokens_.back().body_begin = begin + 1;
    tokens_.back().body_end = end;
    include_ = Include::kNo;
  }

  void number() {
    std::size_t end = at_ + 1;
    while (end < text_.size()) {
      const char c = text_[end];
      const bool exponent =
          (c == '+' || c == '-') && std::string_view("eEpP").find(text_[end - 1]) != std::string_view::npos;
      const bool separator = c == '\'' && end + 1 < text_.size() && is_word_char(text_[end + 1]);
      if (!is_word_char(c) && c != '.' && !exponent && !separator) break;
      ++end;
    }
    push(Kind::kNumber, at_, end);
  }

  void word() {
    const std::size_t begin = at_;
    std::size_t end = at_ + 1;
    while (end < text_.size() && is_word_char(text_[end])) ++end;
    const std::string_view word = text_.substr(begin, end - begin);
    if (end < text_.size() && (text_[end] == '"' || text_[end] == '\'')) {
      const bool raw = word == "R" || word == "LR" || word == "uR" || word == "UR" || word == "u8R";
      if (raw && text_[end] == '"' && raw_string(begin, end)) return;
      if (word == "L" || word == "u" || word == "U" || word == "u8") {
        at_ = end;
        quoted(text_[end] == '"' ? Kind::kString : Kind::kChar, begin);
        return;
      }
    }
    const bool hash = !tokens_.empty() && tokens_.back().text(text_) == "#" && directive_;
    push(Kind::kWord, begin, end);
    if (hash && (word == "include" || word == "include_next" || word == "import")) include_ = Include::kPath;
    if (word == "__has_include" || word == "__has_include_next") include_ = Include::kAfterParen;
    directive_ = false;
  }

  // R"delimiter( … )delimiter"; false when it is none.
  bool raw_string(std::size_t begin, std::size_t quote) {
    const std::size_t open = text_.find('(', quote);
    if (open == std::string_view::npos || open - quote > 17) return false;
    const std::string_view delimiter = text_.substr(quote + 1, open - quote - 1);
    if (delimiter.find_first_of(" \t\n\r\\\")") != std::string_view::npos) return false;
    const std::string end_mark = ")" + std::string(delimiter) + "\"";
    const std::size_t close = text_.find(end_mark, open + 1);
    const std::size_t body_end = close == std::string_view::npos ? text_.size() : close;
    push(Kind::kString, begin, close == std::string_view::npos ? text_.size() : close + end_mark.size());
    tokens_.back().body_begin = open + 1;
    tokens_.back().body_end = body_end;
    tokens_.back().raw = true;
    return true;
  }

  // at_ stands on the quote. A string ends at its line's end at the latest; what only looks like a character,
  // such as the apostrophe of prose, is punctuation.
  void quoted(Kind kind, std::size_t begin) {
    const char quote = peek();
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    end = std::min(end, text_.size());
    const bool closed = end < text_.size() && text_[end] == quote;
    if (kind == Kind::kChar && !closed) {
      if (begin < at_) push(Kind::kWord, begin, at_);
      push(Kind::kPunct, at_, at_ + 1);
      return;
    }
    const std::size_t body = at_ + 1;
    push(kind, begin, closed ? end + 1 : end);
    tokens_.back().body_begin = body;
    tokens_.back().body_end = end;
  }

  void punct() {
    static constexpr std::string_view kLong[] = {"<<<", ">>>", "<<=", ">>=", "->*", "...", "::", "->", "<<",
                                                 ">>",  "##",  "<=",  ">=",  "==",  "!=",  "&&", "||", "+=",
                                                 "-=",  "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "++", "--"};
    std::size_t size = 1;
    for (const std::string_view mark : kLong)
      if (starts(mark)) {
        size = mark.size();
        break;
      }
    const bool hash = peek() == '#' && size == 1 && line_start_;
    if (include_ == Include::kAfterParen) include_ = peek() == '(' ? Include::kPath : Include::kNo;
    push(Kind::kPunct, at_, at_ + size);
    directive_ = hash;
  }

  enum class Include { kNo, kPath, kAfterParen };

  std::string_view text_;
  std::size_t at_ = 0;
  bool line_start_ = true;
  bool directive_ = false;  // the last token is the "#" of a directive
  Include include_ = Include::kNo;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> cpp_tokens(std::string_view text) { return Lexer(text).run(); }

}  // namespace musacoder::port
