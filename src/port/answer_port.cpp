// Markdown: the code blocks of a model's answer.
#include <algorithm>
#include <cctype>
#include <string>

#include "port/sheet.h"

namespace musacoder::port {
namespace {

std::string_view line_at(std::string_view text, std::size_t at) {
  const std::size_t end = std::min(text.find('\n', at), text.size());
  return text.substr(at, end - at);
}

// "```python" → the fence's length, 0 when the line is none. At most three blanks may stand before it.
std::size_t fence_of(std::string_view line, char* mark, std::string_view* info) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  if (indent > 3 || indent == line.size() || (line[indent] != '`' && line[indent] != '~')) return 0;
  *mark = line[indent];
  const std::size_t end = std::min(line.find_first_not_of(*mark, indent), line.size());
  *info = line.substr(end);
  return end - indent >= 3 ? end - indent : 0;
}

Language language_of_block(std::string_view info, std::string_view body) {
  const std::size_t begin = std::min(info.find_first_not_of(" \t"), info.size());
  const std::size_t end = std::min(info.find_first_of(" \t\r{,", begin), info.size());
  std::string name(info.substr(begin, end - begin));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name == "python" || name == "py" || name == "python3") return Language::kPython;
  if (name == "cmake" || name == "make" || name == "makefile") return Language::kBuild;
  for (const char* cpp : {"cpp", "c++", "c", "cu", "cuda", "musa", "mu", "cuda-cpp", "cc", "hpp"})
    if (name == cpp) return Language::kCpp;
  return name.empty() ? language_of_text(body) : Language::kText;
}

}  // namespace

void port_answer(Sheet& sheet, std::string_view code, std::size_t offset) {
  std::size_t around = 0;  // where the text around the blocks begins
  auto outside = [&](std::size_t end) {
    if (sheet.options().in_strings) port_prose(sheet, code.substr(around, end - around), offset + around);
  };
  for (std::size_t at = 0; at < code.size();) {
    const std::string_view line = line_at(code, at);
    char mark = 0;
    std::string_view info;
    const std::size_t fence = fence_of(line, &mark, &info);
    const std::size_t start = at;
    at += line.size() + 1;
    if (fence == 0) continue;
    outside(start);
    const std::size_t body = std::min(at, code.size());
    std::size_t end = body;
    while (end < code.size()) {
      const std::string_view inner = line_at(code, end);
      char close = 0;
      std::string_view rest;
      if (fence_of(inner, &close, &rest) >= fence && close == mark &&
          rest.find_first_not_of(" \t\r") == std::string_view::npos)
        break;
      end = std::min(end + inner.size() + 1, code.size());
    }
    const std::string_view block = code.substr(body, end - body);
    switch (language_of_block(info, block)) {
      case Language::kCpp:
        port_cpp(sheet, block, offset + body);
        break;
      case Language::kPython:
        port_python(sheet, block, offset + body);
        break;
      case Language::kBuild:
        port_build(sheet, block, offset + body);
        break;
      default:
        break;
    }
    around = end;
    at = end + line_at(code, end).size() + 1;
  }
  outside(code.size());
}

}  // namespace musacoder::port
