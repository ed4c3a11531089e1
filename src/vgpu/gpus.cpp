#include <algorithm>
#include <iterator>

#include "vgpu/device.h"

namespace musacoder::vgpu {
namespace {

// Figures: NVIDIA H200 and A100 80GB data sheets and the CUDA C++ Programming Guide's table of compute capabilities.
// Moore Threads: S5000 as its musaInfo prints them (MUSA SDK 5.2 documentation: 56 multiprocessors, 3072 threads each,
// 192 KB of shared memory a block without opting in, 131072 registers a block, warp 32, L2 62914560 bytes, 1500 MHz, memory
// 20000 MHz x 640 bit, 79.91 GB, capability 3.1); warp width of S80 and S4000 from the MUSA programming guide's page on warp
// functions, capability from the SDK's list of architectures, S4000's 48 GB from its data sheet. What is not known of those
// two stays as the architecture before: they are presented to nobody, since a warp of 128 is not executed.
const GpuProperties kGpus[] = {
    {.name = "h200", .marketing_name = "NVIDIA H200", .sm_count = 132, .memory_bytes = 141ull << 30, .l2_bytes = 50ull << 20,
     .clock_khz = 1'980'000, .memory_clock_khz = 3'201'000, .memory_bus_bits = 6144},
    {.name = "a100", .marketing_name = "NVIDIA A100-SXM4-80GB", .sm_count = 108, .compute_major = 8, .compute_minor = 0,
     .shared_bytes_per_block_optin = 163 << 10, .shared_bytes_per_sm = 164 << 10, .memory_bytes = 80ull << 30,
     .l2_bytes = 40ull << 20, .clock_khz = 1'410'000, .memory_clock_khz = 1'593'000, .memory_bus_bits = 5120},
    {.name = "s5000", .marketing_name = "MTT S5000", .vendor = Vendor::kMooreThreads, .sm_count = 56, .max_threads_per_sm = 3072,
     .compute_major = 3, .compute_minor = 1, .shared_bytes_per_block = 192 << 10, .shared_bytes_per_block_optin = 192 << 10,
     .shared_bytes_per_sm = 192 << 10, .memory_bytes = 85'802'709'647ull, .l2_bytes = 62'914'560, .registers_per_block = 131072,
     .clock_khz = 1'500'000, .memory_clock_khz = 20'000'000, .memory_bus_bits = 640},
    {.name = "s4000", .marketing_name = "MTT S4000", .vendor = Vendor::kMooreThreads, .warp_size = 128, .compute_major = 2,
     .compute_minor = 2, .memory_bytes = 48ull << 30},
    {.name = "s80", .marketing_name = "MTT S80", .vendor = Vendor::kMooreThreads, .warp_size = 128, .compute_major = 2,
     .compute_minor = 1, .memory_bytes = 16ull << 30},
};

}  // namespace

Result<GpuProperties> gpu_properties(std::string_view name) {
  const auto* found = std::find_if(std::begin(kGpus), std::end(kGpus), [&](const GpuProperties& gpu) { return gpu.name == name; });
  if (found != std::end(kGpus)) return *found;
  std::string names;
  for (const auto& gpu : kGpus) names += (names.empty() ? "" : ", ") + gpu.name;
  return fail(Code::kNotFound, "no GPU is called '{}'; there are {}", name, names);
}

}  // namespace musacoder::vgpu
