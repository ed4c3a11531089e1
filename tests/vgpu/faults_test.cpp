// Every kind of fault, with what the report must name.
#include "vgpu/nvcc.h"

namespace musacoder::vgpu::test {
namespace {

using ::testing::Test;

Fault fault_of(const LaunchOutcome& out) {
  EXPECT_TRUE(out.fault) << "the launch should have failed";
  return out.fault.value_or(Fault{});
}

TEST(Faults, ReadPastTheEndNamesEverything) {
  MC_NEED_NVCC();
  Kernel k(compile("__global__ void relu(const float* x, float* y, int n) {\n"
                   "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                   "  y[i] = x[i] > 0 ? x[i] : 0;\n}\n"));
  DevicePtr x = k.make<float>(4096, "input 0 float32[64,64]"), y = k.make<float>(8192, "output 0 float32[128,64]");
  Fault f = fault_of(k.run("_Z4reluPKfPfi", {17}, {256}, x, y, 4096));
  EXPECT_EQ(f.kind, FaultKind::kOutOfBounds);
  EXPECT_EQ(f.message,
            "relu(float const*, float*, int): read of 4 bytes past the end of input 0 float32[64,64] (offset 16384 of 16384) "
            "by thread (0,0,0) of block (16,0,0), candidate.cu:3");
  EXPECT_EQ(f.tensor, "input 0 float32[64,64]");
  EXPECT_EQ(f.offset_bytes, 16384);
  EXPECT_EQ(f.line, 3u);
}

TEST(Faults, WritesBeforeTheStartAndPastTheEndOfASmallTensor) {
  MC_NEED_NVCC();
  Kernel k(compile("extern \"C\" __global__ void shift(float* y, int by) { y[(int)threadIdx.x + by] = 1; }"));
  DevicePtr y = k.make<float>(8, "output 0 float32[8]");
  Fault f = fault_of(k.run("shift", {1}, {8}, y, -3));
  EXPECT_EQ(f.kind, FaultKind::kOutOfBounds);
  EXPECT_TRUE(f.is_write);
  EXPECT_EQ(f.offset_bytes, -12);
  f = fault_of(k.run("shift", {1}, {8}, y, 1));
  EXPECT_EQ(f.offset_bytes, 32);
  EXPECT_EQ(f.thread[0], 7u);
  EXPECT_RUNS(k.run("shift", {1}, {8}, y, 0));
}

TEST(Faults, NullWildMisalignedFreed) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
extern "C" __global__ void load(const char* p, float* y, long offset) { *y = *(const float*)(p + offset); }
extern "C" __global__ void wide(const char* p, float* y, long offset) { float4 v = *(const float4*)(p + offset); *y = v.x + v.w; }
)"));
  DevicePtr p = k.make<float>(64, "input 0"), y = k.make<float>(1);
  Fault f = fault_of(k.run("load", {1}, {1}, DevicePtr(0), y, 0l));
  EXPECT_EQ(f.kind, FaultKind::kOutOfBounds);
  EXPECT_NE(f.message.find("null pointer"), std::string::npos) << f.message;
  for (long wild : {long(0x7fffffffffffffff), long(-4), long(0x123456789abc), long(1) << 62, -(long(1) << 62)}) {
    f = fault_of(k.run("load", {1}, {32}, p, y, wild / 4 * 4));
    EXPECT_EQ(f.kind, FaultKind::kOutOfBounds) << wild;
  }
  EXPECT_EQ(fault_of(k.run("load", {1}, {1}, p, y, 2l)).kind, FaultKind::kMisaligned);
  EXPECT_EQ(fault_of(k.run("wide", {1}, {1}, p, y, 8l)).kind, FaultKind::kMisaligned);
  EXPECT_EQ(fault_of(k.run("wide", {1}, {1}, p, y, 256l)).kind, FaultKind::kOutOfBounds);
  EXPECT_EQ(fault_of(k.run("load", {1}, {1}, p, y, 253l)).kind, FaultKind::kOutOfBounds);
  EXPECT_RUNS(k.run("wide", {1}, {1}, p, y, 240l));
  ASSERT_TRUE(k.device.free(p));
  f = fault_of(k.run("load", {1}, {1}, p, y, 4l));
  EXPECT_EQ(f.kind, FaultKind::kUseAfterFree);
  EXPECT_EQ(f.tensor, "input 0");
}

TEST(Faults, SharedLocalAndParameterBounds) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
extern "C" __global__ void sh(int* y, int i) { __shared__ int s[32]; s[threadIdx.x] = 1; __syncthreads(); y[0] = s[i + threadIdx.x]; }
extern "C" __global__ void lo(int* y, int i) { int a[8]; for (int k = 0; k < 8; ++k) a[k] = k + y[0]; y[1] = a[i]; }
)"));
  DevicePtr y = k.make<int>(4);
  Fault f = fault_of(k.run("sh", {1}, {32}, y, 4));
  EXPECT_EQ(f.kind, FaultKind::kOutOfBounds);
  EXPECT_EQ(f.space, "shared");
  EXPECT_RUNS(k.run("sh", {1}, {32}, y, 0));
  f = fault_of(k.run("lo", {1}, {1}, y, 100000));
  EXPECT_EQ(f.kind, FaultKind::kOutOfBounds);
  EXPECT_EQ(f.space, "local");
}

TEST(Faults, AssertTrapTimeoutStackOverflow) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
#include <cassert>
extern "C" __global__ void as(int n) {
  assert(threadIdx.x < n);
}
extern "C" __global__ void tr(int n) { if (threadIdx.x == n) __trap(); }
extern "C" __global__ void spin(volatile int* p) { while (*p == 0) { } }
__device__ __noinline__ int deep(int n, volatile int* p) { int a[64]; for (int i = 0; i < 64; ++i) a[i] = p[0] + i; return n == 0 ? a[p[0]] : deep(n - 1, p) + a[n & 63]; }
extern "C" __global__ void so(int* p) { p[1] = deep(1 << 28, p); }
)"));
  Fault f = fault_of(k.run("as", {1}, {8}, 5));
  EXPECT_EQ(f.kind, FaultKind::kAssert);
  EXPECT_EQ(f.detail, "threadIdx.x < n");
  EXPECT_EQ(f.line, 4u);
  EXPECT_EQ(f.thread[0], 5u);
  f = fault_of(k.run("tr", {1}, {64}, 40));
  EXPECT_EQ(f.kind, FaultKind::kTrap);
  EXPECT_EQ(f.thread[0], 40u);
  DevicePtr p = k.put(std::vector<int>{0, 0});
  k.device.set_limits(1'000'000, 0);
  EXPECT_EQ(fault_of(k.run("spin", {2}, {64}, p)).kind, FaultKind::kTimeout);
  k.device.set_limits(0, 0.05);
  f = fault_of(k.run("spin", {2}, {64}, p));
  EXPECT_EQ(f.kind, FaultKind::kTimeout);
  EXPECT_NE(f.detail.find("time limit"), std::string::npos);
  k.device.set_limits(0, 20);
  EXPECT_EQ(fault_of(k.run("so", {1}, {1}, p)).kind, FaultKind::kStackOverflow);
}

TEST(Faults, BarriersThatCannotComplete) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
extern "C" __global__ void half(int* y, int n) { if (threadIdx.x < n) { y[0] = 1; __syncthreads(); } else { y[1] = 2; } y[2] = y[0]; }
extern "C" __global__ void two(int* y) { if (threadIdx.x < 32) asm volatile("bar.sync 1;"); else asm volatile("bar.sync 2;"); y[0] = 1; }
extern "C" __global__ void leave(int* y, int n) { if (threadIdx.x >= n) return; __syncthreads(); y[threadIdx.x] = 1; }
extern "C" __global__ void count(int* y, int n) { y[threadIdx.x] = __syncthreads_count(threadIdx.x < n) * 100 + __syncthreads_and(threadIdx.x < n) * 10 + __syncthreads_or(threadIdx.x >= n); }
)"));
  DevicePtr y = k.make<int>(64);
  EXPECT_EQ(fault_of(k.run("half", {1}, {64}, y, 16)).kind, FaultKind::kBarrier);
  EXPECT_EQ(fault_of(k.run("two", {1}, {64}, y)).kind, FaultKind::kBarrier);
  EXPECT_RUNS(k.run("leave", {1}, {64}, y, 20));
  EXPECT_RUNS(k.run("count", {1}, {64}, y, 40));
  EXPECT_EQ(k.get<int>(y, 64), std::vector<int>(64, 40 * 100 + 1));
  EXPECT_RUNS(k.run("count", {1}, {64}, y, 64));
  EXPECT_EQ(k.get<int>(y, 64)[9], 64 * 100 + 10);
}

TEST(Faults, InvalidLaunches) {
  MC_NEED_NVCC();
  Kernel k(compile("extern \"C\" __global__ void __launch_bounds__(128) f(int* y) { __shared__ int s[64]; s[threadIdx.x % 64] = 1; y[0] = s[0]; }\n"
                   "extern \"C\" __global__ void g(int* y) { y[0] = 1; }"));
  DevicePtr y = k.make<int>(1);
  auto kind = [&](const char* name, Dim3 g, Dim3 b, std::uint32_t shared) { return fault_of(k.run_with(name, g, b, shared, y)).kind; };
  EXPECT_EQ(kind("f", {1}, {129}, 0), FaultKind::kInvalidLaunch);
  EXPECT_EQ(kind("g", {1}, {1025}, 0), FaultKind::kInvalidLaunch);
  EXPECT_EQ(kind("g", {0}, {32}, 0), FaultKind::kInvalidLaunch);
  EXPECT_EQ(kind("g", {1, 70000}, {32}, 0), FaultKind::kInvalidLaunch);
  EXPECT_EQ(kind("g", {1}, {32}, 300000), FaultKind::kInvalidLaunch);
  EXPECT_EQ(kind("nothing", {1}, {32}, 0), FaultKind::kInvalidLaunch);
  EXPECT_EQ(fault_of(k.run("g", {1}, {32})).kind, FaultKind::kInvalidLaunch);
  EXPECT_RUNS(k.run("g", {1}, {32}, y));
}

TEST(Faults, UnknownInstructionOnlyWhenExecuted) {
  const char* text = ".version 9.0\n.target sm_90\n.address_size 64\n"
                     ".visible .entry f(.param .u64 p, .param .u32 n) {\n"
                     " .reg .b64 %rd<2>; .reg .b32 %r<3>; .reg .pred %q;\n"
                     " ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];\n"
                     " setp.eq.u32 %q, %r1, 0;\n @%q bra done;\n frobnicate.u32 %r2, %r1;\n done: ret;\n}\n";
  Kernel k(text);
  DevicePtr p = k.make<int>(1);
  EXPECT_RUNS(k.run("f", {1}, {32}, p, 0));
  Fault f = fault_of(k.run("f", {1}, {32}, p, 1));
  EXPECT_EQ(f.kind, FaultKind::kUnsupported);
  EXPECT_EQ(f.detail, "frobnicate.u32");
}

TEST(Memory, AllocateFreeViewsAndLimits) {
  Device d({.memory_bytes = 1 << 20});
  auto a = d.allocate(1000, "a");
  ASSERT_TRUE(a);
  EXPECT_EQ(*a % 512, 0u);
  EXPECT_FALSE(d.allocate(1 << 20, "too large"));
  auto empty = d.allocate(0, "empty"), empty2 = d.allocate(0, "empty");
  ASSERT_TRUE(empty && empty2);
  EXPECT_NE(*empty, *empty2);
  EXPECT_NE(*empty, 0u);
  std::byte byte{};
  EXPECT_FALSE(d.read(*empty, {&byte, 1}));
  EXPECT_TRUE(d.read(*empty, {}));
  EXPECT_FALSE(d.read(*a + 1000, {&byte, 1}));
  EXPECT_TRUE(d.read(*a + 999, {&byte, 1}));
  EXPECT_FALSE(d.free(*a + 8));
  EXPECT_TRUE(d.free(*a));
  EXPECT_FALSE(d.free(*a));
  EXPECT_FALSE(d.find(*a));
  EXPECT_EQ(d.bytes_in_use(), 0u);
  // Addresses are reused only when the reserved range is used up.
  for (int i = 0; i < 100000; ++i) {
    auto p = d.allocate(900000, "again");
    ASSERT_TRUE(p) << i;
    ASSERT_TRUE(d.free(*p));
    if (i > 3000) i += 1000;
  }
}

}  // namespace
}  // namespace musacoder::vgpu::test
