// C++ and prose.
#include <optional>
#include <unordered_set>

#include "port/sheet.h"

namespace musacoder::port {
namespace {

class CppPorter {
 public:
  CppPorter(Sheet& sheet, std::string_view code, std::size_t offset, std::vector<Token> tokens)
      : sheet_(sheet), code_(code), offset_(offset), tokens_(std::move(tokens)) {
    find_own();
  }

  void run() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      switch (token.kind) {
        case Kind::kWord:
          word(i);
          break;
        case Kind::kHeader:
          header(token);
          break;
        case Kind::kString:
          string(i);
          break;
        case Kind::kComment:
          if (sheet_.options().in_comments) port_prose(sheet_, token.text(code_), offset_ + token.begin);
          break;
        default:
          break;
      }
    }
    if (sheet_.options().attention) attend_cpp(sheet_, code_, offset_, tokens_);
  }

 private:
  std::string_view text(std::size_t i) const {
    return i == kNone ? std::string_view() : tokens_[i].text(code_);
  }

  // Macros that the text defines with a body, or with parameters, are its own, whatever else has their name.
  // A macro without a body is a switch of some header, and so that header's name.
  void find_own() {
    for (std::size_t i = 0; i + 2 < tokens_.size(); ++i) {
      if (text(i) != "#" || text(i + 1) != "define" || tokens_[i + 2].kind != Kind::kWord) continue;
      const std::size_t end = tokens_[i + 2].end;
      const std::size_t next = token_after(tokens_, i + 2);
      const bool body =
          next != kNone && code_.substr(end, tokens_[next].begin - end).find('\n') == std::string_view::npos;
      if (body) own_.insert(text(i + 2));
    }
  }

  // A constant of torch's that the text declares itself: `const int CUDA_NUM_THREADS = 256;`.
  bool declares(std::size_t i) const {
    const std::size_t before = token_before(tokens_, i), after = token_after(tokens_, i);
    return before != kNone && tokens_[before].kind == Kind::kWord && text(after) == "=" &&
           text(before) != "return";
  }

  std::optional<Renamed> lookup(std::size_t i, Dialect to) const {
    const std::string_view word = text(i);
    if (const auto* contexts = sheet_.table().cpp_contexts(word, to))
      for (const Context& context : *contexts)
        if (fits(context, code_, tokens_, i)) return Renamed{context.to, context.group};
    auto hit = sheet_.table().name(word, to);
    if (hit && hit->group == "torch" && declares(i)) hit.reset();
    return hit;
  }

  void word(std::size_t i) {
    const std::string_view word = text(i);
    const std::size_t begin = offset_ + tokens_[i].begin, end = offset_ + tokens_[i].end;
    if (own_.count(word)) return;
    const bool marked = code_.substr(tokens_[i].end, kKeepMark.size()) == kKeepMark;
    const auto hit = lookup(i, sheet_.to());
    const auto back = hit ? std::nullopt : lookup(i, other(sheet_.to()));
    if (!hit && !back) return;
    if (marked) {
      // The mark's way: put in on the way there, taken out on the way back.
      if (hit) sheet_.remove(end, end + kKeepMark.size());
      sheet_.attend(begin, "one_way", std::string(word),
                    "has a mark that keeps it; the way back does not bring the mark again");
    } else if (hit) {
      if (own_.count(hit->to))
        sheet_.attend(begin, "one_way", std::string(word),
                      fmt::format("becomes {}, which the text defines itself", hit->to));
      sheet_.rename(begin, end, *hit);
    } else {
      if (sheet_.options().keep_marks)
        sheet_.insert(end, kKeepMark);
      else
        sheet_.ambiguous(begin, word, back->to);
    }
  }

  void header(const Token& token) {
    const std::string_view path = token.body(code_);
    if (path.find('$') != std::string_view::npos) return;  // a placeholder
    const bool own = code_[token.begin] == '"';
    const std::size_t begin = offset_ + token.body_begin, end = offset_ + token.body_end;
    if (const auto hit = sheet_.table().header(path, own, sheet_.to()))
      sheet_.rename(begin, end, *hit);
    else if (const auto back = sheet_.table().header(path, own, other(sheet_.to())))
      sheet_.ambiguous(begin, path, back->to);
  }

  void string(std::size_t i) {
    const Token& token = tokens_[i];
    const std::size_t before = token_before(tokens_, i);
    if (text(before) == "(" && text(token_before(tokens_, before)) == "Device") {
      const std::size_t begin = offset_ + token.body_begin, end = offset_ + token.body_end;
      if (const auto hit = sheet_.table().device(token.body(code_), sheet_.to())) {
        sheet_.rename(begin, end, *hit);
        return;
      }
      if (const auto back = sheet_.table().device(token.body(code_), other(sheet_.to())))
        return sheet_.ambiguous(begin, token.body(code_), back->to);
    }
    if (sheet_.options().in_strings) port_prose(sheet_, token.body(code_), offset_ + token.body_begin);
  }

  Sheet& sheet_;
  std::string_view code_;
  std::size_t offset_;
  std::vector<Token> tokens_;
  std::unordered_set<std::string_view> own_;
};

// Words, "::", "->" and single characters: prose has no strings and comments.
std::vector<Token> prose_tokens(std::string_view text) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    Kind kind = Kind::kPunct;
    if (is_word_char(text[i])) {
      kind = Kind::kWord;
      while (end < text.size() && is_word_char(text[end])) ++end;
    } else if (text.substr(i, 2) == "::" || text.substr(i, 2) == "->") {
      ++end;
    }
    if (kind == Kind::kWord || static_cast<unsigned char>(text[i]) > ' ')
      tokens.push_back({.kind = kind, .begin = i, .end = end});
    i = end;
  }
  return tokens;
}

constexpr std::size_t kPathTokens = 32;

class ProsePorter {
 public:
  ProsePorter(Sheet& sheet, std::string_view code, std::size_t offset)
      : sheet_(sheet), code_(code), offset_(offset), tokens_(prose_tokens(code)) {}

  void run() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].kind != Kind::kWord) continue;
      // The longer reading counts, whichever dialect it is of: a path is a path before it is words.
      std::size_t last = i, other_last = i;
      const auto hit = lookup(i, sheet_.to(), &last);
      const auto back = lookup(i, other(sheet_.to()), &other_last);
      if (hit && (!back || last >= other_last)) {
        sheet_.rename(offset_ + tokens_[i].begin, offset_ + tokens_[last].end, *hit);
      } else if (back) {
        last = other_last;
        sheet_.ambiguous(offset_ + tokens_[i].begin,
                         code_.substr(tokens_[i].begin, tokens_[last].end - tokens_[i].begin), back->to);
      }
      i = last;
    }
  }

 private:
  bool touches(std::size_t i) const {
    return i + 1 < tokens_.size() && tokens_[i].end == tokens_[i + 1].begin;
  }

  // `last`: the last token of what is renamed, or of what belongs together without being renamed.
  std::optional<Renamed> lookup(std::size_t i, Dialect to, std::size_t* last) const {
    const RenameTable& table = sheet_.table();
    *last = i;
    // A path or a file name: words joined by "/", "." and "-".
    std::size_t end = i;
    while (touches(end) && end - i < kPathTokens) {
      const char c = code_[tokens_[end + 1].begin];
      if (tokens_[end + 1].kind != Kind::kWord && !(c == '/' || c == '.' || c == '-')) break;
      ++end;
    }
    while (end > i && tokens_[end].kind != Kind::kWord) --end;
    for (std::size_t e = end; e > i; --e) {
      const std::string_view path = code_.substr(tokens_[i].begin, tokens_[e].end - tokens_[i].begin);
      if (tokens_[e].kind != Kind::kWord || path.find('$') != std::string_view::npos) continue;
      if (auto hit = table.header(path, true, to)) {
        *last = e;
        return hit;
      }
    }
    const std::string_view word = tokens_[i].text(code_);
    // "cuda:0"
    if (touches(i) && code_[tokens_[i + 1].begin] == ':' && touches(i + 1) && i + 2 < tokens_.size()) {
      if (auto hit =
              table.device(code_.substr(tokens_[i].begin, tokens_[i + 2].end - tokens_[i].begin), to)) {
        *last = i + 2;
        return hit;
      }
    }
    for (const auto* contexts : {table.cpp_contexts(word, to), table.python_contexts(word, to)}) {
      if (!contexts) continue;
      for (const Context& context : *contexts)
        if (fits(context, code_, tokens_, i)) return Renamed{context.to, context.group};
    }
    if (auto hit = table.name(word, to)) return hit;
    if (auto hit = table.python_word(word, to)) return hit;
    return table.prose_word(word, to);
  }

  Sheet& sheet_;
  std::string_view code_;
  std::size_t offset_;
  std::vector<Token> tokens_;
};

}  // namespace

void port_cpp(Sheet& sheet, std::string_view code, std::size_t offset) {
  CppPorter(sheet, code, offset, cpp_tokens(code)).run();
}

void port_prose(Sheet& sheet, std::string_view code, std::size_t offset) {
  ProsePorter(sheet, code, offset).run();
}

}  // namespace musacoder::port
