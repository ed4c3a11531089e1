// Small safetensors files and folders for tests, made by hand rather than by the code under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"

namespace musacoder::llm {

// Length, header, data.
inline std::string safetensors_of(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  const std::uint64_t n = header.size();
  std::memcpy(length.data(), &n, 8);
  return length + header + data;
}

// A folder with the given files, removed at the end.
inline base::TempDir folder_of(const std::vector<std::pair<std::string, std::string>>& files) {
  auto dir = base::TempDir::create("llm-test").value();
  for (const auto& [name, text] : files) {
    const auto slash = name.find('/');
    if (slash != std::string::npos) (void)base::make_dirs(dir.file(name.substr(0, slash)));
    (void)base::write_file(dir.file(name), text);
  }
  return dir;
}

}  // namespace musacoder::llm
