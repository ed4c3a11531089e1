// Small pieces that the compilers' command lines are put together with. Internal to src/build.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace musacoder::build {

inline void append(std::vector<std::string>& to, const std::vector<std::string>& what) { to.insert(to.end(), what.begin(), what.end()); }

// Every `from` in `text` as `to`; an empty `from` changes nothing.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (from.empty()) return text;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

inline std::vector<std::string> replaced(std::vector<std::string> list, const std::string& from, const std::string& to) {
  for (auto& text : list) text = replaced(std::move(text), from, to);
  return list;
}

}  // namespace musacoder::build
