// The roofline against rates worked out by hand from the GPUs' figures.
#include "vgpu/estimate.h"

#include <gtest/gtest.h>

namespace musacoder::vgpu {
namespace {

constexpr double kStartMs = 1.3e-3;

LaunchRecord launch(std::uint32_t blocks, std::uint32_t threads, Counters counters, std::uint64_t count = 1) {
  LaunchRecord out;
  out.kernel = "k";
  out.grid = {blocks, 1, 1};
  out.block = {threads, 1, 1};
  out.count = count;
  out.counters = counters;
  return out;
}

TEST(Estimate, BandwidthsOfTheDataSheets) {
  EXPECT_NEAR(memory_bandwidth(*gpu_properties("h200")), 4.9e12, 0.1e12);   // data sheet: 4.8 TB/s
  EXPECT_NEAR(memory_bandwidth(*gpu_properties("a100")), 2.04e12, 0.01e12);  // 2,039 GB/s
  EXPECT_NEAR(memory_bandwidth(*gpu_properties("s5000")), 1.6e12, 1e9);      // 1.6 TB/s
}

TEST(Estimate, WhatBoundsALaunch) {
  const GpuProperties gpu = *gpu_properties("h200");
  const auto of = [&](const LaunchRecord& one, std::uint64_t working_set) {
    WindowReport call;
    call.launches = {one};
    return estimate_time(call, gpu, working_set);
  };
  // 1 GiB read and written once, 10 instructions a warp: memory
  Counters copy{.warp_instructions = 10 * (1 << 20), .global_load_bytes = 1ull << 30, .global_store_bytes = 1ull << 30};
  TimeEstimate e = of(launch(1 << 17, 256, copy), 2ull << 30);
  EXPECT_EQ(e.bound, "memory");
  EXPECT_NEAR(e.ms, kStartMs + 2 * 1.073741824 / 4.917, 0.002);
  // The same bytes from 1 MiB: the first-level caches, 132 × 128 bytes × 1.98 GHz
  e = of(launch(1 << 17, 256, copy), 1 << 20);
  EXPECT_EQ(e.bound, "l1");
  EXPECT_NEAR(e.ms, kStartMs + 2147483648.0 / (132 * 128 * 1.98e9) * 1e3, 1e-4);
  // On one multiprocessor that takes 132 times as long
  EXPECT_NEAR(of(launch(1, 256, copy), 1 << 20).ms - kStartMs, (e.ms - kStartMs) * 132, 1e-2);
  // Arithmetic alone, many warps: four a cycle; one warp: one in eight cycles
  Counters busy{.warp_instructions = 1'000'000'000};
  EXPECT_NEAR(of(launch(132 * 8, 1024, busy), 0).ms, kStartMs + 1e9 / (132 * 4 * 1.98e9) * 1e3, 1e-4);
  EXPECT_NEAR(of(launch(1, 32, busy), 0).ms, kStartMs + 1e9 * 8 / 1.98e9 * 1e3, 1);
  EXPECT_EQ(of(launch(1, 32, busy), 0).bound, "issue");
  EXPECT_EQ(of(launch(1000, 256, {.shared_accesses = 100'000'000}), 0).bound, "shared");
  EXPECT_EQ(of(launch(1, 32, {.warp_instructions = 5}), 0).bound, "start");
}

TEST(Estimate, LaunchesCopiesAndFillsAddUp) {
  const GpuProperties gpu = *gpu_properties("s5000");
  WindowReport call;
  call.launches = {launch(1, 32, {}, 10), launch(1, 32, {.warp_instructions = 1'000'000}, 1)};
  call.launches[1].kernel = "slow";
  call.d2d_bytes = 1'600'000;    // read and written: 2 µs
  call.memset_bytes = 1'600'000;  // 1 µs
  const TimeEstimate e = estimate_time(call, gpu, 0);
  EXPECT_NEAR(e.ms, 11 * kStartMs + 1e6 * 8 / 1.5e9 * 1e3 + 3e-3, 1e-3);
  EXPECT_EQ(e.kernel, "slow");
  EXPECT_EQ(e.launches, 11u);
  EXPECT_EQ(e.gpu, "s5000");
  const TimeEstimate none = estimate_time({}, gpu, 0);
  EXPECT_EQ(none.ms, 0);
  EXPECT_EQ(none.bound, "");
}

}  // namespace
}  // namespace musacoder::vgpu
