// Chooses the engine for the processor at hand.
#include <cstdlib>
#include <string_view>

#include "vgpu/exec/code.h"

namespace musacoder::vgpu::exec {
#ifdef MC_VGPU_ENGINE_V2
namespace v2 { Handler lookup(const Spec&); }
#endif
#ifdef MC_VGPU_ENGINE_V3
namespace v3 { Handler lookup(const Spec&); }
#endif
#ifdef MC_VGPU_ENGINE_V4
namespace v4 { Handler lookup(const Spec&); }
#endif

Lookup engine_lookup(const char** name) {
  const char* wanted = std::getenv("MUSACODER_VGPU_ISA");
  [[maybe_unused]] std::string_view cap = wanted ? wanted : "v4";
  __builtin_cpu_init();
#ifdef MC_VGPU_ENGINE_V4
  if (cap == "v4" && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
    *name = "v4";
    return v4::lookup;
  }
#endif
#ifdef MC_VGPU_ENGINE_V3
  if (cap != "v2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
    *name = "v3";
    return v3::lookup;
  }
#endif
#ifdef MC_VGPU_ENGINE_V2
  *name = "v2";
  return v2::lookup;
#else
  *name = "none";
  return nullptr;
#endif
}

}  // namespace musacoder::vgpu::exec
