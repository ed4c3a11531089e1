// Reports of compute-sanitizer, as its documentation shows them and as CUDA 13.0 writes them.
#include "judge/sanitize.h"

#include <gtest/gtest.h>

namespace musacoder::judge {
namespace {

constexpr const char* kMemcheck = R"(========= COMPUTE-SANITIZER
what the program prints
========= Invalid __global__ write of size 4 bytes
=========     at past(float *, int)+0x90 in oob.cu:2
=========     by thread (100,0,0) in block (3,1,0)
=========     Access to 0x7fb2c0800190 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7fb2c0800000 of size 400 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0x8d12] in oob
========= 
========= Invalid __shared__ read of size 8 bytes
=========     at void tile<float>(const float *, float *, int)+0x1230 in /tmp/a b/cuda.cu:117
=========     by thread (0,1,2) in block (0,0,0)
=========     Access to 0x402 is misaligned
========= 
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to cudaDeviceSynchronize.
=========     Saved host backtrace up to driver entry point at error
========= 
========= ERROR SUMMARY: 3 errors
)";

TEST(SanitizerLog, MemcheckNamesKernelThreadAndLine) {
  const SanitizerLog log = read_sanitizer_log(kMemcheck);
  EXPECT_TRUE(log.complete);
  EXPECT_EQ(log.errors, 3);
  ASSERT_EQ(log.faults.size(), 2u) << "an error of the API is none of a kernel";
  const auto& first = log.faults[0];
  EXPECT_EQ(first.status, "runtime_error:illegal_access");
  EXPECT_EQ(first.fault.kind, vgpu::FaultKind::kOutOfBounds);
  EXPECT_EQ(first.fault.kernel, "past(float *, int)");
  EXPECT_EQ(first.fault.file, "oob.cu");
  EXPECT_EQ(first.fault.line, 2u);
  EXPECT_TRUE(first.fault.is_write);
  EXPECT_EQ(first.fault.access_bytes, 4u);
  EXPECT_EQ(first.fault.space, "global");
  EXPECT_EQ(first.fault.thread, (std::array<std::uint32_t, 3>{100, 0, 0}));
  EXPECT_EQ(first.fault.block, (std::array<std::uint32_t, 3>{3, 1, 0}));
  EXPECT_EQ(first.fault.address, 0x7fb2c0800190u);
  EXPECT_EQ(first.fault.tensor_bytes, 400u);
  EXPECT_EQ(first.fault.offset_bytes, 400);
  EXPECT_EQ(first.fault.message,
            "thread (100, 0, 0) of block (3, 1, 0) writes global memory out of bounds, of 4 bytes, 0 bytes past the end of an allocation "
            "of 400 bytes in past(float *, int) (oob.cu:2)");
  const auto& second = log.faults[1];
  EXPECT_EQ(second.status, "runtime_error:misaligned");
  EXPECT_EQ(second.fault.kernel, "void tile<float>(const float *, float *, int)");
  EXPECT_EQ(second.fault.file, "/tmp/a b/cuda.cu");
  EXPECT_EQ(second.fault.line, 117u);
  EXPECT_FALSE(second.fault.is_write);
}

TEST(SanitizerLog, BeforeAnAllocationAndWithoutLines) {
  const SanitizerLog log = read_sanitizer_log(
      "========= Invalid __global__ read of size 16 bytes\n"
      "=========     at k(float4*)+0x50\n"
      "=========     by thread (0,0,0) in block (0,0,0)\n"
      "=========     Access to 0x7f0000000000 is out of bounds\n"
      "=========     and is 64 bytes before the nearest allocation at 0x7f0000000040 of size 128 bytes\n");
  EXPECT_FALSE(log.complete);
  ASSERT_EQ(log.faults.size(), 1u);
  EXPECT_EQ(log.faults[0].fault.kernel, "k(float4*)");
  EXPECT_EQ(log.faults[0].fault.line, 0u);
  EXPECT_EQ(log.faults[0].fault.offset_bytes, -64);
}

TEST(SanitizerLog, RacesAndBarriers) {
  const SanitizerLog log = read_sanitizer_log(
      "========= COMPUTE-SANITIZER\n"
      "========= Error: Race reported between Write access at sum(float *)+0x120 in red.cu:14\n"
      "=========     and Read access at sum(float *)+0x1a0 in red.cu:16 [124 hazards]\n"
      "========= \n"
      "========= Barrier error detected. Divergent thread(s) in block.\n"
      "=========     at k(int*)+0x40 in sync.cu:9\n"
      "=========     by thread (32,0,0) in block (7,0,0)\n"
      "========= \n"
      "========= Warning: Race reported between Write access at w(float *)+0x1 in w.cu:1\n"
      "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n");
  EXPECT_TRUE(log.complete);
  ASSERT_EQ(log.faults.size(), 2u);
  EXPECT_EQ(log.faults[0].status, "runtime_error:race");
  EXPECT_EQ(log.faults[0].fault.kernel, "sum(float *)");
  EXPECT_EQ(log.faults[0].fault.file, "red.cu");
  EXPECT_EQ(log.faults[0].fault.line, 14u);
  EXPECT_EQ(log.faults[1].status, "runtime_error:barrier");
  EXPECT_EQ(log.faults[1].fault.kernel, "k(int*)");
  EXPECT_EQ(log.faults[1].fault.line, 9u);
  EXPECT_EQ(log.faults[1].fault.thread[0], 32u);
}

TEST(SanitizerLog, NothingFoundAndNonsense) {
  const SanitizerLog clean = read_sanitizer_log("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n");
  EXPECT_TRUE(clean.complete);
  EXPECT_EQ(clean.errors, 0);
  EXPECT_TRUE(clean.faults.empty());
  for (const std::string text : {"", "\n", "=========", "=========\n========= Invalid __\n", "========= Invalid __global__ read of size 99999999999999999999 bytes\n",
                                 "========= Invalid __global__ write of size 4 bytes\n=========     at \n=========     by thread (\n",
                                 "========= Race reported\n", "========= ERROR SUMMARY: many\n"})
    EXPECT_LE(read_sanitizer_log(text).faults.size(), 1u) << text;
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "========= Invalid __global__ write of size 4 bytes\n=========     at k()+0x1 in a.cu:3\n========= \n";
  EXPECT_EQ(read_sanitizer_log(many).faults.size(), SanitizerLog::kMaxFaults);
}

}  // namespace
}  // namespace musacoder::judge
