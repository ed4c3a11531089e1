// Which of the candidate's own compiler flags are kept. Kept: what changes the program's meaning (macros, language
// level, floating-point rules). Left out: target architectures (the virtual GPU takes PTX for compute_90), host
// optimisation levels and debug information (only compile time), libraries (stand-ins are linked already), paths that do
// not exist in the sandbox, and whatever could load code into a compiler.
#pragma once

#include <string>
#include <vector>

namespace musacoder::build {

std::vector<std::string> filter_cxx_flags(const std::vector<std::string>& flags);

struct NvccFlags {
  std::vector<std::string> kept;
  bool arch_specific = false;   // asks for compute_90a: warp-group instructions and the like
};
NvccFlags filter_nvcc_flags(const std::vector<std::string>& flags);

// Names of -l flags, e.g. {"cublas", "cuda"}.
std::vector<std::string> linked_libraries(const std::vector<std::string>& flags);

}  // namespace musacoder::build
