// Whole kernels compiled by nvcc, against values computed on the host.
#include <cmath>
#include <numeric>

#include "vgpu/nvcc.h"

namespace musacoder::vgpu::test {
namespace {

std::vector<float> ramp(std::size_t n, float scale = 0.01f, float shift = -3) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = float((i * 37) % 1001) * scale + shift;
  return v;
}

TEST(Kernels, Relu) {
  MC_NEED_NVCC();
  Kernel k(compile("extern \"C\" __global__ void relu(const float* x, float* y, int n) {\n"
                   "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = fmaxf(x[i], 0.f);\n}\n"));
  auto x = ramp(1000);
  DevicePtr a = k.put(x), b = k.make<float>(1000);
  auto out = k.run("relu", {4}, {256}, a, b, 1000);
  EXPECT_RUNS(out);
  auto y = k.get<float>(b, 1000);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(y[i], std::max(x[i], 0.f)) << i;
  EXPECT_EQ(out.counters.global_load_bytes, 4000u);
  EXPECT_EQ(out.counters.global_store_bytes, 4000u);
  EXPECT_EQ(k.device.find(b)->kernel_written_bytes, 4000u);
}

TEST(Kernels, SharedTileMatmul) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[16][16], bs[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < k; t += 16) {
    as[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0;
    bs[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + col] : 0;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
})"));
  const int m = 37, n = 50, kk = 41;
  auto a = ramp(m * kk), b = ramp(kk * n, 0.003f, -1);
  DevicePtr da = k.put(a), db = k.put(b), dc = k.make<float>(m * n);
  for (bool reverse : {false, true}) {
    k.reverse = reverse;
    EXPECT_RUNS(k.run("matmul", {4, 3}, {16, 16}, da, db, dc, m, n, kk));
    auto c = k.get<float>(dc, m * n);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        float sum = 0;
        for (int t = 0; t < kk; ++t) sum = std::fmaf(a[i * kk + t], b[t * n + j], sum);
        ASSERT_EQ(c[i * n + j], sum) << i << ',' << j;
      }
  }
}

TEST(Kernels, SoftmaxWithShufflesAndDynamicShared) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
extern __shared__ float buffer[];
__device__ float warp_max(float v) { for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o)); return v; }
__device__ float warp_sum(float v) { for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o); return v; }
extern "C" __global__ void softmax(const float* x, float* y, int n) {
  const float* row = x + blockIdx.x * n;
  float m = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
  m = warp_max(m);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) buffer[warp] = m;
  __syncthreads();
  if (warp == 0) { m = lane < blockDim.x / 32 ? buffer[lane] : -INFINITY; m = warp_max(m); if (lane == 0) buffer[0] = m; }
  __syncthreads();
  m = buffer[0];
  __syncthreads();
  float s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += expf(row[i] - m);
  s = warp_sum(s);
  if (lane == 0) buffer[warp] = s;
  __syncthreads();
  if (warp == 0) { s = lane < blockDim.x / 32 ? buffer[lane] : 0; s = warp_sum(s); if (lane == 0) buffer[0] = s; }
  __syncthreads();
  s = buffer[0];
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = expf(row[i] - m) / s;
})"));
  const int rows = 5, n = 777;
  auto x = ramp(rows * n);
  DevicePtr a = k.put(x), b = k.make<float>(rows * n);
  EXPECT_RUNS(k.run_with("softmax", {rows}, {128}, 128, a, b, n));
  auto y = k.get<float>(b, rows * n);
  for (int r = 0; r < rows; ++r) {
    double m = -1e30, s = 0;
    for (int i = 0; i < n; ++i) m = std::max<double>(m, x[r * n + i]);
    for (int i = 0; i < n; ++i) s += std::exp(double(x[r * n + i]) - m);
    for (int i = 0; i < n; ++i) {
      double want = std::exp(double(x[r * n + i]) - m) / s;
      ASSERT_NEAR(y[r * n + i], want, 2e-6 * want + 1e-9);
    }
  }
}

// A 32-bit shared address may lie below zero in its register and come back by the offset.
TEST(Kernels, SharedAddressesWrapAtThirtyTwoBits) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
extern "C" __global__ void turned(const float* x, float* y) {
  __shared__ float mine[64];
  mine[threadIdx.x] = x[threadIdx.x];
  mine[threadIdx.x + 32] = x[threadIdx.x + 32];
  __syncthreads();
  float seen, old;
  asm volatile(
      "{\n.reg .u64 wide;\n.reg .u32 below;\ncvta.to.shared.u64 wide, %2;\ncvt.u32.u64 below, wide;\n"
      "sub.u32 below, below, 256;\nadd.u32 below, below, %3;\nld.shared.f32 %0, [below+384];\n"
      "atom.shared.add.f32 %1, [below+256], 0f3F800000;\n}\n"
      : "=f"(seen), "=f"(old) : "l"(mine), "r"(threadIdx.x * 4));
  y[threadIdx.x] = seen;
  y[threadIdx.x + 32] = old;
})"));
  auto x = ramp(64);
  DevicePtr a = k.put(x), b = k.make<float>(64);
  EXPECT_RUNS(k.run("turned", {1}, {32}, a, b));
  auto y = k.get<float>(b, 64);
  for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(y[i], x[(i + 32) % 64]) << i;
}

TEST(Kernels, DivergenceLoopsBreakContinueRecursion) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ int collatz(unsigned n) {
  int steps = 0;
  while (true) {
    if (n == 1) break;
    ++steps;
    if (n & 1) { n = 3 * n + 1; continue; }
    n /= 2;
  }
  return steps;
}
extern "C" __global__ void run(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int r = 0;
  switch (i % 7) {
    case 0: r = fib(i % 13); break;
    case 1: r = collatz(i + 1); break;
    case 2: r = 100; /* fall through */
    case 3: r += 5; break;
    case 4: for (int j = 0; j < i; ++j) { if (j % 3 == 0) continue; if (j > 50) break; r += j; } break;
    case 5: r = -i; break;
    default: do { r += 2; } while (r < i);
  }
  out[i] = r;
})"));
  const int n = 500;
  DevicePtr p = k.make<int>(n);
  auto o = k.run("run", {8}, {64}, p, n);
  EXPECT_RUNS(o);
  EXPECT_GT(o.counters.divergent_branches, 0u);
  auto fib = [](auto&& self, int m) -> int { return m < 2 ? m : self(self, m - 1) + self(self, m - 2); };
  auto got = k.get<int>(p, n);
  for (int i = 0; i < n; ++i) {
    int r = 0;
    switch (i % 7) {
      case 0: r = fib(fib, i % 13); break;
      case 1: for (unsigned v = unsigned(i) + 1; v != 1; v = v & 1 ? 3 * v + 1 : v / 2) ++r; break;
      case 2: r = 105; break;
      case 3: r = 5; break;
      case 4:
        for (int j = 0; j < i; ++j) {
          if (j % 3 == 0) continue;
          if (j > 50) break;
          r += j;
        }
        break;
      case 5: r = -i; break;
      default:
        do {
          r += 2;
        } while (r < i);
    }
    ASSERT_EQ(got[std::size_t(i)], r) << i;
  }
}

TEST(Kernels, AtomicsOfEveryKind) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
extern "C" __global__ void run(int* i, unsigned* u, unsigned long long* l, float* f, double* d, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  if (t < n) {
    atomicAdd(&i[0], t); atomicSub(&i[1], t); atomicMin(&i[2], -t); atomicMax(&i[3], t); atomicXor(&i[4], t); atomicOr(&i[5], t);
    atomicAnd(&i[6], ~t);
    atomicInc(&u[0], 9); atomicDec(&u[1], 9); atomicMax(&u[2], unsigned(t));
    atomicAdd(&l[0], 1ull << 33); atomicMax(&l[1], (unsigned long long)t << 40);
    atomicAdd(f, 0.5f); atomicAdd(d, 0.25);
    unsigned old = u[3], seen;
    do { seen = old; old = atomicCAS(&u[3], seen, seen + 2); } while (old != seen);
    atomicExch(&i[7], 77);
    atomicAdd(&s, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&i[8], s);
})"));
  const int n = 300;
  DevicePtr i = k.put(std::vector<int>{0, 0, 0, 0, 0, 0, -1, 0, 0}), u = k.put(std::vector<unsigned>(4, 0)),
            l = k.put(std::vector<unsigned long long>(2, 0)), f = k.put(std::vector<float>{1}), d = k.put(std::vector<double>{1});
  EXPECT_RUNS(k.run("run", {5}, {64}, i, u, l, f, d, n));
  auto gi = k.get<int>(i, 9);
  int x = 0, o = 0, a = -1;
  for (int t = 0; t < n; ++t) x ^= t, o |= t, a &= ~t;
  EXPECT_EQ(gi, (std::vector<int>{n * (n - 1) / 2, -n * (n - 1) / 2, -(n - 1), n - 1, x, o, a, 77, n}));
  auto gu = k.get<unsigned>(u, 4);
  EXPECT_EQ(gu[0], unsigned(n % 10));
  EXPECT_EQ(gu[1], unsigned((10 - n % 10) % 10));
  EXPECT_EQ(gu[2], unsigned(n - 1));
  EXPECT_EQ(gu[3], unsigned(2 * n));
  EXPECT_EQ(k.get<unsigned long long>(l, 2), (std::vector<unsigned long long>{(1ull << 33) * n, (n - 1ull) << 40}));
  EXPECT_EQ(k.get<float>(f, 1)[0], 1 + 0.5f * n);
  EXPECT_EQ(k.get<double>(d, 1)[0], 1 + 0.25 * n);
}

TEST(Kernels, ConstantLocalVirtualPrintfMalloc) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
#include <cstdio>
__constant__ float weights[5] = {1, 2, 4, 8, 16};
__device__ int counter = 5;
struct Shape { __device__ virtual float area(float x) const = 0; };
struct Square : Shape { __device__ float area(float x) const override { return x * x; } };
struct Twice : Shape { __device__ float area(float x) const override { return 2 * x; } };
extern "C" __global__ void run(float* out, int n) {
  int t = threadIdx.x;
  float local[16];
  for (int i = 0; i < 16; ++i) local[i] = t * i;
  for (int i = 0; i < n; ++i) local[(i * 7) % 16] += weights[(i + t) % 5];
  Shape* s = t % 2 ? (Shape*)new Square : (Shape*)new Twice;
  float a = s->area(t);
  delete s;
  out[t] = local[t % 16] + a;
  atomicAdd(&counter, 1);
  if (t == 3) printf("t=%d f=%5.2f s=%s l=%lld %%\n", t, 1.5, "word", 1ll << 40);
})"));
  const int n = 20;
  DevicePtr p = k.make<float>(40);
  EXPECT_RUNS(k.run("run", {1}, {40}, p, n));
  auto got = k.get<float>(p, 40);
  const float w[5] = {1, 2, 4, 8, 16};
  for (int t = 0; t < 40; ++t) {
    float local[16];
    for (int i = 0; i < 16; ++i) local[i] = float(t * i);
    for (int i = 0; i < n; ++i) local[(i * 7) % 16] += w[(i + t) % 5];
    ASSERT_EQ(got[std::size_t(t)], local[t % 16] + float(t % 2 ? t * t : 2 * t)) << t;
  }
  EXPECT_EQ(k.device.take_printf_output(), "t=3 f= 1.50 s=word l=1099511627776 %\n");
  std::uint64_t bytes = 0;
  auto address = k.device.global_address(k.module, "counter", &bytes);
  ASSERT_TRUE(address);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(k.get<int>(*address, 1)[0], 45);
}

TEST(Kernels, BlocksOverHostThreadsAndSpinningBlocks) {
  MC_NEED_NVCC();
  const std::string ptx = compile(R"(
extern "C" __global__ void count(int* total, float* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { atomicAdd(total, 1); atomicAdd(sum, 1.f); }
}
// Every block waits for the one before it: works in any order only because waiting blocks let others run.
extern "C" __global__ void chain(volatile int* turn, int* y) {
  if (threadIdx.x == 0) { while (*turn != blockIdx.x) { } }
  __syncthreads();
  y[blockIdx.x * 32 + threadIdx.x] = blockIdx.x;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) *turn = blockIdx.x + 1;
})");
  for (int threads : {1, 3}) {
    DeviceOptions o = Kernel::small();
    o.threads = threads;
    Kernel k(ptx, o);
    DevicePtr total = k.put(std::vector<int>{0}), sum = k.put(std::vector<float>{0});
    EXPECT_RUNS(k.run("count", {100}, {96}, total, sum, 9000));
    EXPECT_EQ(k.get<int>(total, 1)[0], 9000);
    EXPECT_EQ(k.get<float>(sum, 1)[0], 9000.f);
    for (bool reverse : {false, true}) {
      k.reverse = reverse;
      DevicePtr turn = k.put(std::vector<int>{0}), y = k.make<int>(10 * 32);
      EXPECT_RUNS(k.run("chain", {10}, {32}, turn, y));
      auto got = k.get<int>(y, 320);
      for (int i = 0; i < 320; ++i) ASSERT_EQ(got[i], i / 32);
    }
  }
}

TEST(Kernels, CooperativeGridSync) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void run(int* a, int* b, int n) {
  cg::grid_group g = cg::this_grid();
  int i = g.thread_rank();
  a[i] = i;
  g.sync();
  int s = a[(i + 64) % n];
  g.sync();
  b[i] = s + int(g.size());
})"));
  const int n = 512;
  DevicePtr a = k.make<int>(n), b = k.make<int>(n);
  k.cooperative = true;
  EXPECT_RUNS(k.run("run", {8}, {64}, a, b, n));
  auto got = k.get<int>(b, n);
  for (int i = 0; i < n; ++i) ASSERT_EQ(got[std::size_t(i)], (i + 64) % n + n);
}

}  // namespace
}  // namespace musacoder::vgpu::test
