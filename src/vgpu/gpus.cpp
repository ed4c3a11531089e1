#include "vgpu/device.h"

namespace musacoder::vgpu {

// Figures: NVIDIA H200 and A100 80GB data sheets and the CUDA C++ Programming Guide's table of compute capabilities;
// Moore Threads MTT S5000: publicly stated memory size and warp width, the rest as compute capability 9.0 so that code
// translated for it runs.
Result<GpuProperties> gpu_properties(std::string_view name) {
  GpuProperties p;
  p.name = std::string(name);
  if (name == "h200") {
    p.marketing_name = "NVIDIA H200";
    p.sm_count = 132;
    p.memory_bytes = 141ull << 30;
    p.l2_bytes = 50ull << 20;
    p.clock_khz = 1'980'000;
    p.memory_clock_khz = 3'201'000;
    p.memory_bus_bits = 6144;
  } else if (name == "a100") {
    p.marketing_name = "NVIDIA A100-SXM4-80GB";
    p.sm_count = 108;
    p.compute_major = 8;
    p.compute_minor = 0;
    p.shared_bytes_per_block_optin = 163 << 10;
    p.shared_bytes_per_sm = 164 << 10;
    p.memory_bytes = 80ull << 30;
    p.l2_bytes = 40ull << 20;
    p.clock_khz = 1'410'000;
    p.memory_clock_khz = 1'593'000;
    p.memory_bus_bits = 5120;
  } else if (name == "s5000") {
    p.marketing_name = "MTT S5000";
    p.sm_count = 60;
    p.memory_bytes = 80ull << 30;
    p.l2_bytes = 32ull << 20;
    p.clock_khz = 1'800'000;
    p.memory_clock_khz = 1'600'000;
    p.memory_bus_bits = 4096;
  } else {
    return fail(Code::kNotFound, "no GPU is called '{}'; there are h200, a100, s5000", name);
  }
  return p;
}

}  // namespace musacoder::vgpu
