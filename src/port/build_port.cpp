// CMake and make: words, and the variables that strings name in ${…} and $(…).
#include <optional>

#include "port/sheet.h"

namespace musacoder::port {
namespace {

class BuildPorter {
 public:
  BuildPorter(Sheet& sheet, std::string_view code, std::size_t offset)
      : sheet_(sheet), code_(code), offset_(offset), tokens_(build_tokens(code)) {}

  void run() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.kind == Kind::kWord)
        word(token.text(code_), offset_ + token.begin);
      else if (token.kind == Kind::kString)
        string(token);
      else if (token.kind == Kind::kComment && sheet_.options().in_comments)
        port_prose(sheet_, token.text(code_), offset_ + token.begin);
    }
  }

 private:
  void word(std::string_view word, std::size_t at) {
    if (word.find('$') != std::string_view::npos)
      return variables(word, at);  // "${CUDA_INCLUDE_DIRS}/x" is one word with make
    attend(word, at);
    if (const auto hit = sheet_.table().build_word(word, sheet_.to()))
      sheet_.rename(at, at + word.size(), *hit);
    else if (const auto back = sheet_.table().build_word(word, other(sheet_.to())))
      sheet_.ambiguous(at, word, back->to);
  }

  void string(const Token& token) {
    const std::string_view body = token.body(code_);
    const std::size_t at = offset_ + token.body_begin;
    if (const auto hit = sheet_.table().file_name(body, sheet_.to())) {
      sheet_.rename(at, at + body.size(), *hit);
      return;
    }
    if (const auto back = sheet_.table().file_name(body, other(sheet_.to())))
      return sheet_.ambiguous(at, body, back->to);
    if (sheet_.options().in_strings) return port_prose(sheet_, body, at);
    variables(body, at);
  }

  // ${NAME} and $(NAME) in a string.
  void variables(std::string_view text, std::size_t at) {
    for (std::size_t open = text.find('$'); open != std::string_view::npos; open = text.find('$', open + 1)) {
      if (open + 1 >= text.size() || (text[open + 1] != '{' && text[open + 1] != '(')) continue;
      std::size_t end = open + 2;
      while (end < text.size() && is_word_char(text[end]) && text[end] != '$') ++end;
      if (end > open + 2) word(text.substr(open + 2, end - open - 2), at + open + 2);
    }
  }

  void attend(std::string_view word, std::size_t at) {
    if (sheet_.to() != Dialect::kMusa) return;
    if (word == "CMAKE_CUDA_ARCHITECTURES" || word == "CUDA_ARCHITECTURES" || word == "TORCH_CUDA_ARCH_LIST")
      sheet_.attend(at, "architecture", std::string(word), "MUSA's architectures are mp_21, mp_22 and mp_31");
    else if (word == "enable_language" || word == "LANGUAGES")
      sheet_.attend(at, "build", std::string(word),
                    "CMake has no language MUSA; add $MUSA_HOME/cmake to CMAKE_MODULE_PATH and use "
                    "musa_add_executable or musa_add_library");
    else if (word.starts_with("CMAKE_CUDA_"))
      sheet_.attend(at, "build", std::string(word),
                    "CMake has no language MUSA; mcc's flags are in MUSA_MCC_FLAGS");
  }

  Sheet& sheet_;
  std::string_view code_;
  std::size_t offset_;
  std::vector<Token> tokens_;
};

}  // namespace

void port_build(Sheet& sheet, std::string_view code, std::size_t offset) {
  BuildPorter(sheet, code, offset).run();
}

}  // namespace musacoder::port
