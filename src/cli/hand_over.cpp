#include "cli/hand_over.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

namespace musacoder::cli {

int hand_over(const std::string& command, const std::vector<std::string>& arguments) {
  std::error_code ignored;
  const std::string program =
      (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "musacoder-train").string();
  std::vector<std::string> words = {program, command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  fmt::print(stderr, "musacoder {}: cannot start {}: {}; it is built where the Python in .venv has torch (docs/llm.md)\n", command,
             program, std::strerror(errno));
  return 2;
}

}  // namespace musacoder::cli
