#include "llm/kernels/cpu_kernels.h"

#include <string_view>

namespace musacoder::llm {
namespace avx512 {
extern const CpuKernels kKernels;
}
namespace avx2 {
extern const CpuKernels kKernels;
}
namespace base {
extern const CpuKernels kKernels;
}

const CpuKernels* cpu_kernels_named(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "avx512" && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return &avx512::kKernels;
  if (wanted == "avx2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &avx2::kKernels;
  if (wanted == "base") return &base::kKernels;
  return nullptr;
}

const CpuKernels& cpu_kernels() {
  static const CpuKernels& best = []() -> const CpuKernels& {
    for (const char* name : {"avx512", "avx2"})
      if (const CpuKernels* found = cpu_kernels_named(name)) return *found;
    return base::kKernels;
  }();
  return best;
}

}  // namespace musacoder::llm
