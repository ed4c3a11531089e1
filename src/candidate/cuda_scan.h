// A look at a bare .cu or .cpp file with a small C++ scanner: comments, strings and preprocessor lines are skipped, so that
// what is found is code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace musacoder::candidate {

struct CudaFacts {
  bool has_module = false;                  // PYBIND11_MODULE(…) at file level
  bool has_library = false;                 // TORCH_LIBRARY(…)
  bool has_kernel = false;                  // __global__
  std::vector<std::string> host_functions;  // defined at namespace level, returning a tensor or a vector or tuple of tensors
  bool balanced = true;                     // braces and strings end
  std::string musa_include;                 // the first MUSA header that it includes, "" when none
};
CudaFacts scan_cuda(std::string_view source);

// Text looks like C++ or CUDA at all: an #include, a kernel, a module or a host function.
bool looks_like_cuda(const CudaFacts& facts, std::string_view source);

}  // namespace musacoder::candidate
