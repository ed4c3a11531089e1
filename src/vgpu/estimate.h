// How long a call might take on a GPU, from the counters of its launches: a roofline, not a measurement.
//
//   MC_ASSIGN_OR_RETURN(GpuProperties gpu, gpu_properties("s5000"));
//   TimeEstimate e = estimate_time(window, gpu, bytes_of_inputs_and_outputs);      // window: the ledger of one call
//   fmt::print("{:.3f} ms, {} by {}", e.ms, e.kernel, e.bound);
//
// A launch takes a fixed start plus the largest of
//   memory   bytes that its threads asked for, at most the working set (what repeats comes from a cache), at the memory's bandwidth
//   l1       bytes that its threads asked for, at 128 bytes a cycle and multiprocessor
//   issue    warp instructions at four a cycle and multiprocessor, fewer where few warps are resident (each issues once in eight cycles)
//   shared   warp accesses of shared memory, one a cycle and multiprocessor
// over the multiprocessors that have a block; copies and fills run at the memory's bandwidth. Left out: whether neighbouring threads
// read neighbouring addresses, bank conflicts, contended atomics, what registers and shared memory leave of occupancy, tensor cores' own rate, overlap of launches.
// docs/benchmarks.md holds it against times on an H200. Moore Threads' rates a cycle are taken to be NVIDIA's.
#pragma once

#include <cstdint>
#include <string>

#include "vgpu/device.h"
#include "vgpu/server/control.h"

namespace musacoder::vgpu {

struct TimeEstimate {
  std::string gpu;       // "h200"
  double ms = 0;         // of the call
  std::string kernel;    // the launch group that takes most of it, demangled; "" when there is none
  std::string bound;     // what bounds that: start, memory, l1, issue, shared
  std::uint64_t launches = 0;
};

// Bytes a second of the GPU's memory.
double memory_bandwidth(const GpuProperties& gpu);
// working_set: bytes of the tensors that the call reads and writes; 0: not known, then nothing is taken to be cached.
TimeEstimate estimate_time(const WindowReport& call, const GpuProperties& gpu, std::uint64_t working_set);

}  // namespace musacoder::vgpu
