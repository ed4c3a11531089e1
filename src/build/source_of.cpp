#include <charconv>

#include "build/build.h"

namespace musacoder::build {
namespace {

// "cuda_sources[3]" with prefix "cuda_sources[" → the fourth element.
const std::string* element(const std::vector<std::string>& sources, const std::string& file, std::string_view prefix) {
  if (file.rfind(prefix, 0) != 0) return nullptr;
  std::size_t index = 0;
  const char* begin = file.data() + prefix.size();
  auto [end, error] = std::from_chars(begin, file.data() + file.size(), index);
  if (error != std::errc() || end == begin || index >= sources.size()) return nullptr;
  return &sources[index];
}

}  // namespace

const std::string* source_of(const Extension& extension, const std::string& file) {
  if (auto it = extension.files.find(file); it != extension.files.end()) return &it->second;
  if (const auto* source = element(extension.cuda_sources, file, extension.musa ? "musa_sources[" : "cuda_sources[")) return source;
  return element(extension.cpp_sources, file, "cpp_sources[");
}

}  // namespace musacoder::build
