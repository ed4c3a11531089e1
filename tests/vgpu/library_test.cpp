// What kernels use from the toolkit's own headers: mathematics, half types, warp primitives, cub, wmma, pipelines.
#include <cmath>
#include <numeric>

#include "vgpu/nvcc.h"

namespace musacoder::vgpu::test {
namespace {

TEST(Library, MathFunctions) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
extern "C" __global__ void run(const float* x, float* y, const double* dx, double* dy, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  float* o = y + i * 16;
  o[0] = expf(v); o[1] = logf(fabsf(v)); o[2] = sinf(v); o[3] = cosf(v); o[4] = tanhf(v); o[5] = erff(v); o[6] = powf(fabsf(v), 1.7f);
  o[7] = sqrtf(fabsf(v)); o[8] = rsqrtf(fabsf(v)); o[9] = log1pf(fabsf(v)); o[10] = expm1f(v); o[11] = atan2f(v, 0.3f);
  o[12] = fmodf(v, 0.7f); o[13] = cbrtf(v); o[14] = lgammaf(fabsf(v) + 1); o[15] = roundf(v);
  double d = dx[i];
  double* p = dy + i * 6;
  p[0] = exp(d); p[1] = log(fabs(d)); p[2] = sin(d); p[3] = tanh(d); p[4] = erf(d); p[5] = pow(fabs(d), 0.3);
})"));
  const int n = 333;
  std::vector<float> x(n);
  std::vector<double> dx(n);
  for (int i = 0; i < n; ++i) x[i] = float(i - 160) * 0.0373f + 0.001f, dx[i] = double(i - 160) * 0.0373 + 0.001;
  DevicePtr a = k.put(x), b = k.make<float>(n * 16), c = k.put(dx), d = k.make<double>(n * 6);
  EXPECT_RUNS(k.run("run", {6}, {64}, a, b, c, d, n));
  auto y = k.get<float>(b, n * 16);
  auto dy = k.get<double>(d, n * 6);
  for (int i = 0; i < n; ++i) {
    double v = x[i], m = std::fabs(v), q = dx[i];
    double want[16] = {std::exp(v), std::log(m), std::sin(v), std::cos(v), std::tanh(v), std::erf(v), std::pow(m, double(1.7f)), std::sqrt(m),
                       1 / std::sqrt(m), std::log1p(m), std::expm1(v), std::atan2(v, double(0.3f)), std::fmod(v, double(0.7f)), std::cbrt(v),
                       std::lgamma(m + 1), std::round(v)};
    for (int f = 0; f < 16; ++f) ASSERT_NEAR(y[i * 16 + f], want[f], 1e-6 * std::fabs(want[f]) + 6e-7) << f << " of " << v;
    double dwant[6] = {std::exp(q), std::log(std::fabs(q)), std::sin(q), std::tanh(q), std::erf(q), std::pow(std::fabs(q), 0.3)};
    for (int f = 0; f < 6; ++f) ASSERT_NEAR(dy[i * 6 + f], dwant[f], 4e-15 * std::fabs(dwant[f]) + 1e-15) << f << " of " << q;
  }
}

TEST(Library, HalfTypes) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void run(const float* x, float* y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  half h = __float2half(x[i]);
  half2 p = __floats2half2_rn(x[i], x[(i + 1) % n]);
  half2 q = __hfma2(p, p, __float2half2_rn(0.5f));
  __nv_bfloat16 b = __float2bfloat16(x[i]);
  __nv_bfloat162 c = __floats2bfloat162_rn(x[i], 2.f);
  c = __hmul2(c, c);
  y[i * 8 + 0] = __half2float(h);
  y[i * 8 + 1] = __half2float(__hadd(h, h));
  y[i * 8 + 2] = __low2float(q) + __high2float(q);
  y[i * 8 + 3] = __bfloat162float(b);
  y[i * 8 + 4] = __low2float(c) + __high2float(c);
  y[i * 8 + 5] = __half2float(hexp(h));
  y[i * 8 + 6] = __hgt(h, __float2half(0.f)) ? 1.f : 0.f;
  y[i * 8 + 7] = __half2float(__hmax(h, __float2half(0.25f)));
  atomicAdd((half*)nullptr == nullptr ? (half*)(y + n * 8) : nullptr, __float2half(1.f));
  atomicAdd((__nv_bfloat162*)(y + n * 8 + 1), __floats2bfloat162_rn(1.f, 2.f));
})"));
  const int n = 32;
  std::vector<float> x(n);
  for (int i = 0; i < n; ++i) x[i] = float(i - 16) * 0.125f;
  DevicePtr a = k.put(x), b = k.put(std::vector<float>(n * 8 + 2, 0.f));
  EXPECT_RUNS(k.run("run", {1}, {32}, a, b, n));
  auto y = k.get<float>(b, n * 8 + 2);
  for (int i = 0; i < n; ++i) {
    float v = x[i], u = x[(i + 1) % n];
    EXPECT_EQ(y[i * 8], v);
    EXPECT_EQ(y[i * 8 + 1], 2 * v);
    EXPECT_EQ(y[i * 8 + 2], v * v + 0.5f + u * u + 0.5f);
    EXPECT_EQ(y[i * 8 + 3], v);
    EXPECT_NEAR(y[i * 8 + 4], v * v + 4, 0.02);
    EXPECT_NEAR(y[i * 8 + 5], std::exp(v), 1e-3 * std::exp(v));
    EXPECT_EQ(y[i * 8 + 6], v > 0 ? 1 : 0);
    EXPECT_EQ(y[i * 8 + 7], std::max(v, 0.25f));
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[n * 8]) & 0xffff, 0x5000u);      // 32
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[n * 8 + 1]), 0x42804200u);       // 64, 32
}

TEST(Library, WarpPrimitives) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
extern "C" __global__ void run(unsigned* y) {
  unsigned t = threadIdx.x;
  unsigned* o = y + t * 12;
  o[0] = __ballot_sync(~0u, t % 3 == 0);
  o[1] = __any_sync(~0u, t == 7) * 2 + __all_sync(~0u, t < 32);
  o[2] = __match_any_sync(~0u, t % 5);
  int same; o[3] = __match_all_sync(~0u, t / 32, &same) + same;
  o[4] = __reduce_add_sync(~0u, t);
  o[5] = __reduce_max_sync(~0u, (t * 7) % 32);
  o[6] = __shfl_sync(~0u, t * t, (t + 5) % 32);
  o[7] = __shfl_up_sync(~0u, t, 3, 8);
  o[8] = __shfl_down_sync(~0u, t, 2, 16);
  o[9] = __shfl_xor_sync(~0u, t, 9);
  o[10] = 0;
  if (t & 1) o[10] = __activemask();
  unsigned lane, mask;
  asm("mov.u32 %0, %laneid;" : "=r"(lane));
  asm("mov.u32 %0, %lanemask_le;" : "=r"(mask));
  o[11] = lane * 100 + __popc(mask);
})"));
  DevicePtr p = k.make<unsigned>(32 * 12);
  EXPECT_RUNS(k.run("run", {1}, {32}, p));
  auto y = k.get<unsigned>(p, 32 * 12);
  unsigned third = 0;
  for (unsigned t = 0; t < 32; t += 3) third |= 1u << t;
  for (unsigned t = 0; t < 32; ++t) {
    const unsigned* o = &y[t * 12];
    EXPECT_EQ(o[0], third);
    EXPECT_EQ(o[1], 3u);
    unsigned match = 0;
    for (unsigned u = t % 5; u < 32; u += 5) match |= 1u << u;
    EXPECT_EQ(o[2], match);
    EXPECT_EQ(o[3], 0u);  // ~0u + 1
    EXPECT_EQ(o[4], 496u);
    EXPECT_EQ(o[5], 31u);
    unsigned s = (t + 5) % 32;
    EXPECT_EQ(o[6], s * s);
    EXPECT_EQ(o[7], t % 8 < 3 ? t : t - 3);
    EXPECT_EQ(o[8], t % 16 > 13 ? t : t + 2);
    EXPECT_EQ(o[9], t ^ 9);
    EXPECT_EQ(o[10], t & 1 ? 0xaaaaaaaau : 0u);
    EXPECT_EQ(o[11], t * 100 + t + 1);
  }
}

TEST(Library, CubAndCooperativeGroups) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
#include <cub/cub.cuh>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void run(const int* x, int* y, int n) {
  using Reduce = cub::BlockReduce<int, 128>;
  using Scan = cub::BlockScan<int, 128>;
  using Sort = cub::BlockRadixSort<int, 128, 2>;
  __shared__ union { Reduce::TempStorage r; Scan::TempStorage s; Sort::TempStorage o; } temp;
  int t = threadIdx.x, v = x[t];
  int sum = Reduce(temp.r).Sum(v);
  __syncthreads();
  int before;
  Scan(temp.s).ExclusiveSum(v, before);
  __syncthreads();
  int keys[2] = {x[2 * t], x[2 * t + 1]};
  Sort(temp.o).Sort(keys);
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int part = cg::reduce(tile, v, cg::plus<int>());
  if (t == 0) y[0] = sum;
  y[1 + t] = before;
  y[129 + 2 * t] = keys[0];
  y[130 + 2 * t] = keys[1];
  y[385 + t] = part;
})"));
  std::vector<int> x(256);
  for (int i = 0; i < 256; ++i) x[i] = (i * 7919) % 1009 - 300;
  DevicePtr a = k.put(x), b = k.make<int>(600);
  EXPECT_RUNS(k.run("run", {1}, {128}, a, b, 256));
  auto y = k.get<int>(b, 600);
  EXPECT_EQ(y[0], std::accumulate(x.begin(), x.begin() + 128, 0));
  int before = 0;
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(y[1 + i], before);
    before += x[i];
    EXPECT_EQ(y[385 + i], std::accumulate(x.begin() + i / 16 * 16, x.begin() + i / 16 * 16 + 16, 0));
  }
  std::sort(x.begin(), x.end());
  EXPECT_EQ(std::vector<int>(y.begin() + 129, y.begin() + 385), x);
}

TEST(Library, AsyncCopyAndNamedBarriers) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
#include <cuda_pipeline.h>
extern "C" __global__ void run(const float4* x, float* y, int n) {
  __shared__ float4 buffer[2][64];
  __shared__ float handed[32];
  int t = threadIdx.x;
  if (t < 64) {
    __pipeline_memcpy_async(&buffer[0][t], &x[t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    asm volatile("bar.sync 1, 64;");
    float4 v = buffer[0][63 - t];
    y[t] = v.x + v.y + v.z + v.w;
  }
  // Producer and consumer warps with arrive and sync.
  if (t >= 64 && t < 96) { handed[t - 64] = t; asm volatile("bar.arrive 2, 64;"); }
  if (t >= 96) { asm volatile("bar.sync 2, 64;"); y[t] = handed[t - 96]; }
})"));
  std::vector<float> x(256);
  std::iota(x.begin(), x.end(), 0.f);
  DevicePtr a = k.put(x), b = k.put(std::vector<float>(128, 0.f));
  for (bool reverse : {false, true}) {
    k.reverse = reverse;
    EXPECT_RUNS(k.run("run", {1}, {128}, a, b, 0));
    auto y = k.get<float>(b, 128);
    for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], 4 * 4 * (63 - t) + 6);
    for (int t = 96; t < 128; ++t) EXPECT_EQ(y[t], t - 32);
  }
}

TEST(Library, WmmaHalfBfloatTf32) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
using namespace nvcuda;
template <typename T> __device__ void multiply(const T* a, const T* b, float* c, int n) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 1.f);
  for (int k = 0; k < n; k += 16) {
    wmma::load_matrix_sync(fa, a + k, n);
    wmma::load_matrix_sync(fb, b + k, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= 2;
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
extern "C" __global__ void run(const float* a, const float* b, float* c, int n) {
  __shared__ half ha[16 * 64], hb[16 * 64];
  __shared__ __nv_bfloat16 ba[16 * 64], bb[16 * 64];
  for (int i = threadIdx.x; i < 16 * n; i += 32) {
    ha[i] = __float2half(a[i]); hb[i] = __float2half(b[i]); ba[i] = __float2bfloat16(a[i]); bb[i] = __float2bfloat16(b[i]);
  }
  __syncwarp();
  multiply(ha, hb, c, n);
  multiply(ba, bb, c + 256, n);
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
  wmma::fill_fragment(fc, 0.f);
  for (int k = 0; k < n; k += 8) {
    wmma::load_matrix_sync(fa, a + k, n);
    wmma::load_matrix_sync(fb, b + k, n);
    for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
    for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + 512, fc, 16, wmma::mem_col_major);
})"));
  const int n = 64;
  std::vector<float> a(16 * n), b(16 * n);
  for (int i = 0; i < 16 * n; ++i) a[i] = float((i * 5) % 9 - 4) * 0.5f, b[i] = float((i * 7) % 11 - 5) * 0.25f;
  DevicePtr da = k.put(a), db = k.put(b), dc = k.make<float>(768);
  EXPECT_RUNS(k.run("run", {1}, {32}, da, db, dc, n));
  auto c = k.get<float>(dc, 768);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      float s = 0;
      for (int t = 0; t < n; ++t) s += a[i * n + t] * b[j * n + t];
      ASSERT_EQ(c[i * 16 + j], 2 * (s + 1)) << i << ',' << j;
      ASSERT_EQ(c[256 + i * 16 + j], 2 * (s + 1));
      ASSERT_EQ(c[512 + j * 16 + i], s);
    }
}

TEST(Library, MmaSyncWithLdmatrix) {
  MC_NEED_NVCC();
  Kernel k(compile(R"(
#include <cuda_fp16.h>
#include <cstdint>
extern "C" __global__ void run(const half* a, const half* b, float* c, const float* ta, const float* tb, float* tc) {
  __shared__ __align__(16) half sa[16 * 16], sb[16 * 8];
  int t = threadIdx.x;
  for (int i = t; i < 256; i += 32) sa[i] = a[i];
  for (int i = t; i < 128; i += 32) sb[i] = b[i];
  __syncwarp();
  uint32_t ra[4], rb[2];
  uint32_t pa = __cvta_generic_to_shared(sa + (t % 16) * 16 + (t / 16) * 8), pb = __cvta_generic_to_shared(sb + (t % 16) * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
  float d[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) c[(t / 4 + 8 * (i / 2)) * 8 + t % 4 * 2 + i % 2] = d[i];
  uint32_t fa[4], fb[2];
  for (int i = 0; i < 4; ++i) fa[i] = __float_as_uint(ta[(t / 4 + 8 * (i % 2)) * 8 + t % 4 + 4 * (i / 2)]);
  for (int i = 0; i < 2; ++i) fb[i] = __float_as_uint(tb[(t % 4 + 4 * i) * 8 + t / 4]);
  float e[4] = {1, 1, 1, 1};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(e[0]), "+f"(e[1]), "+f"(e[2]), "+f"(e[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
  for (int i = 0; i < 4; ++i) tc[(t / 4 + 8 * (i / 2)) * 8 + t % 4 * 2 + i % 2] = e[i];
})"));
  auto half_of_int = [](int v) {  // exact for small integers
    if (v == 0) return std::uint16_t(0);
    int m = std::abs(v), e = 0;
    while (m >> (e + 1)) ++e;
    return std::uint16_t((v < 0 ? 0x8000 : 0) | (e + 15) << 10 | ((m << 10 >> e) & 1023));
  };
  std::vector<std::uint16_t> a(256), b(128);
  std::vector<float> ta(128), tb(64);
  auto va = [](int i) { return (i * 5) % 13 - 6; };
  auto vb = [](int i) { return (i * 3) % 7 - 3; };
  for (int i = 0; i < 256; ++i) a[i] = half_of_int(va(i));
  for (int i = 0; i < 128; ++i) b[i] = half_of_int(vb(i)), ta[i] = float(va(i));
  for (int i = 0; i < 64; ++i) tb[i] = float(vb(i));
  DevicePtr da = k.put(a), db = k.put(b), dc = k.make<float>(128), dta = k.put(ta), dtb = k.put(tb), dtc = k.make<float>(128);
  EXPECT_RUNS(k.run("run", {1}, {32}, da, db, dc, dta, dtb, dtc));
  auto c = k.get<float>(dc, 128), tc = k.get<float>(dtc, 128);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      int s = 0, ts = 1;
      for (int t = 0; t < 16; ++t) s += va(i * 16 + t) * vb(t * 8 + j);
      for (int t = 0; t < 8; ++t) ts += va(i * 8 + t) * vb(t * 8 + j);
      ASSERT_EQ(c[i * 8 + j], s) << i << ',' << j;
      ASSERT_EQ(tc[i * 8 + j], ts) << i << ',' << j;
    }
}

}  // namespace
}  // namespace musacoder::vgpu::test
