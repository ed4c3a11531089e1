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

// mcc's flags as nvcc would be given them: architectures and optimisation levels of mcc alone are left out, and so is what only
// nvcc knows; `remarks` says of the latter why. -ffast-math is --use_fast_math.
struct MccFlags {
  std::vector<std::string> nvcc, remarks;
};
MccFlags mcc_flags_for_nvcc(const std::vector<std::string>& flags);

// Names of -l flags, e.g. {"cublas", "cuda"}.
std::vector<std::string> linked_libraries(const std::vector<std::string>& flags);

}  // namespace musacoder::build
