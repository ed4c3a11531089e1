#include "candidate/cuda_scan.h"

#include <algorithm>
#include <cctype>

namespace musacoder::candidate {
namespace {

// "musa_runtime.h", "mublas.h", "torch_musa/csrc/core/MUSAGuard.h", "tile.muh"
bool is_musa_header(std::string_view name) {
  for (const char* folder : {"torch_musa/", "c10/musa/", "ATen/musa/"})
    if (name.starts_with(folder)) return true;
  if (name.ends_with(".muh")) return true;
  for (const char* library : {"musa", "mublas", "mudnn", "mufft", "murand", "musparse", "musolver", "mupti", "mccl", "mtrtc"})
    if (name.starts_with(library) && name.ends_with(".h") && name.find('/') == std::string_view::npos) return true;
  return false;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Tokens one at a time: identifiers, numbers and single characters; literals come as "\"".
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  bool include_seen = false;
  std::string_view musa_include;
  bool ended_well = true;

  std::string_view next() {
    for (;;) {
      if (at_ >= text_.size()) return {};
      const char c = text_[at_];
      if (c == '\n') {
        line_start_ = true;
        ++at_;
      } else if (std::isspace(static_cast<unsigned char>(c))) {
        ++at_;
      } else if (c == '#' && line_start_) {
        skip_directive();
      } else if (c == '/' && peek(1) == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '/' && peek(1) == '*') {
        skip_to("*/", 2);
      } else {
        line_start_ = false;
        return token(c);
      }
    }
  }

 private:
  char peek(std::size_t n) const { return at_ + n < text_.size() ? text_[at_ + n] : '\0'; }

  void skip_to(std::string_view end, std::size_t skip) {
    const std::size_t found = text_.find(end, at_ + skip);
    ended_well &= found != std::string_view::npos;
    at_ = found == std::string_view::npos ? text_.size() : found + end.size();
  }

  void skip_directive() {
    std::size_t word = at_ + 1;
    while (word < text_.size() && (text_[word] == ' ' || text_[word] == '\t')) ++word;
    if (text_.substr(word).starts_with("include")) {
      include_seen = true;
      std::string_view line = text_.substr(word + 7, text_.find('\n', word) - word - 7);
      line.remove_prefix(std::min(line.find_first_of("<\""), line.size()));
      if (!line.empty()) {
        const std::string_view name = line.substr(1, line.find_first_of(">\"", 1) - 1);
        if (musa_include.empty() && is_musa_header(name)) musa_include = name;
      }
    }
    while (at_ < text_.size() && text_[at_] != '\n') {
      if (text_[at_] == '\\' && peek(1) == '\n') ++at_;
      ++at_;
    }
  }

  std::string_view token(char c) {
    const std::size_t start = at_;
    if (is_word(c)) {
      while (at_ < text_.size() && (is_word(text_[at_]) || (text_[at_] == '\'' && std::isdigit(static_cast<unsigned char>(c)))))
        ++at_;
      const std::string_view word = text_.substr(start, at_ - start);
      if (peek(0) == '"' && (word == "R" || word == "u8R" || word == "LR" || word == "uR" || word == "UR"))
        return raw_string();
      return word;
    }
    if (c == '"' || c == '\'') {
      for (++at_; at_ < text_.size() && text_[at_] != c && text_[at_] != '\n'; ++at_)
        if (text_[at_] == '\\') ++at_;
      at_ = std::min(at_ + 1, text_.size());
      return "\"";
    }
    ++at_;
    return text_.substr(start, 1);
  }

  std::string_view raw_string() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos || open - at_ > 18) {
      ++at_;
      return "\"";
    }
    std::string end(1, ')');
    end.append(text_.substr(at_ + 1, open - at_ - 1)).push_back('"');
    skip_to(end, 1);
    return "\"";
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool line_start_ = true;
};

// One declaration at namespace level, up to its body.
struct Declaration {
  std::string_view previous, name;   // name: the identifier before the first parenthesis
  bool tensor = false, device = false, is_namespace = false, is_type = false, parenthesis = false;
};

}  // namespace

CudaFacts scan_cuda(std::string_view source) {
  CudaFacts facts;
  Scanner scanner(source);
  Declaration now;
  std::vector<char> braces;   // 'n' for a namespace or extern "C", 'b' for any body
  int bodies = 0, parentheses = 0;
  for (std::string_view token = scanner.next(); !token.empty(); token = scanner.next()) {
    if (token == "__global__") facts.has_kernel = true;
    if (token == "{") {
      const bool transparent = parentheses == 0 && bodies == 0 &&
                               (now.is_namespace || (!now.parenthesis && now.previous == "\""));
      if (!transparent && bodies == 0 && parentheses == 0 && now.parenthesis && !now.is_type) {
        if (now.name == "PYBIND11_MODULE") facts.has_module = true;
        if (now.name == "TORCH_LIBRARY" || now.name == "TORCH_LIBRARY_IMPL" || now.name == "TORCH_LIBRARY_FRAGMENT")
          facts.has_library = true;
        if (now.tensor && !now.device && !now.name.empty()) facts.host_functions.emplace_back(now.name);
      }
      braces.push_back(transparent ? 'n' : 'b');
      bodies += !transparent;
      now = {};
      continue;
    }
    if (token == "}") {
      if (braces.empty()) {
        facts.balanced = false;
      } else {
        bodies -= braces.back() == 'b';
        braces.pop_back();
      }
      now = {};
      continue;
    }
    if (bodies > 0) continue;
    if (token == "(") {
      if (parentheses++ == 0 && !now.parenthesis) now.parenthesis = true, now.name = now.previous;
    } else if (token == ")") {
      parentheses = std::max(0, parentheses - 1);
    } else if (token == ";" && parentheses == 0) {
      now = {};
    } else if (parentheses == 0 && !now.parenthesis) {
      now.tensor |= token == "Tensor";
      now.device |= token == "__global__" || token == "__device__";
      now.is_namespace |= token == "namespace";
      now.is_type |= token == "struct" || token == "class" || token == "enum" || token == "union";
      now.previous = token;
    }
  }
  facts.musa_include = scanner.musa_include;
  facts.balanced &= braces.empty() && scanner.ended_well;
  std::vector<std::string> unique;
  for (std::string& name : facts.host_functions)
    if (std::find(unique.begin(), unique.end(), name) == unique.end()) unique.push_back(std::move(name));
  facts.host_functions = std::move(unique);
  return facts;
}

bool looks_like_cuda(const CudaFacts& facts, std::string_view source) {
  if (facts.has_module || facts.has_library || facts.has_kernel || !facts.host_functions.empty()) return true;
  Scanner scanner(source.substr(0, 64 << 10));
  while (!scanner.next().empty()) {
  }
  return scanner.include_seen;
}

}  // namespace musacoder::candidate
