#include "vgpu/estimate.h"

#include <algorithm>
#include <utility>

namespace musacoder::vgpu {
namespace {

// The smallest kernels of the timing study take 1.2 to 1.5 µs of an H200 (bench/results/h200/timing_truth.json).
constexpr double kStartSeconds = 1.3e-6;
constexpr double kL1BytesACycle = 128, kIssuesACycle = 4, kCyclesBetweenIssues = 8;

double count(const Dim3& size) { return static_cast<double>(size.x) * size.y * size.z; }

}  // namespace

double memory_bandwidth(const GpuProperties& gpu) {
  // NVIDIA's memory clock moves two bits a cycle and line; Moore Threads' tools print the rate of bits itself.
  const double pump = gpu.vendor == Vendor::kNvidia ? 2 : 1;
  return gpu.memory_clock_khz * 1e3 * pump * gpu.memory_bus_bits / 8;
}

TimeEstimate estimate_time(const WindowReport& call, const GpuProperties& gpu, std::uint64_t working_set) {
  TimeEstimate out{.gpu = gpu.name};
  const double hz = gpu.clock_khz * 1e3, bandwidth = memory_bandwidth(gpu);
  if (hz <= 0 || bandwidth <= 0) return out;
  double seconds = 0, longest = 0;
  for (const LaunchRecord& launch : call.launches) {
    if (launch.count == 0) continue;
    const auto times = static_cast<double>(launch.count);
    const Counters& c = launch.counters;
    const auto each = [&](std::uint64_t sum) { return static_cast<double>(sum) / times; };
    const double blocks = std::max(1.0, count(launch.grid)), warps = std::max(1.0, count(launch.block) / gpu.warp_size);
    const double used = std::min<double>(gpu.sm_count, blocks);
    const double resident = std::min(warps * std::max(1.0, blocks / gpu.sm_count), static_cast<double>(gpu.max_threads_per_sm) / gpu.warp_size);
    const double rate = std::min(kIssuesACycle, resident / kCyclesBetweenIssues);
    const double bytes = each(c.global_load_bytes + c.global_store_bytes);
    const double from_memory = working_set > 0 ? std::min(bytes, static_cast<double>(working_set)) : bytes;
    const std::pair<const char*, double> bounds[] = {{"memory", from_memory / bandwidth},
                                                     {"l1", bytes / (used * kL1BytesACycle * hz)},
                                                     {"issue", each(c.warp_instructions) / (used * rate * hz)},
                                                     {"shared", each(c.shared_accesses) / (used * hz)}};
    const auto& [name, most] = *std::max_element(std::begin(bounds), std::end(bounds), [](const auto& a, const auto& b) { return a.second < b.second; });
    const double took = times * (kStartSeconds + most);
    seconds += took;
    out.launches += launch.count;
    if (took > longest) {
      longest = took;
      out.kernel = launch.kernel;
      out.bound = most < kStartSeconds ? "start" : name;
    }
  }
  seconds += (2.0 * static_cast<double>(call.d2d_bytes) + static_cast<double>(call.memset_bytes)) / bandwidth;
  out.ms = seconds * 1e3;
  return out;
}

}  // namespace musacoder::vgpu
