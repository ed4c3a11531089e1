// Features of kernels written in different ways, what counts as alike, and the pools that are made of them.
#include "synth/diversity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace musacoder::synth {
namespace {

const char* const kSerial = R"(
#include <torch/extension.h>
// one row a thread: atomicAdd and __shfl_down_sync in a comment are no features
__global__ void row_sum(const float* x, float* y, int rows, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float total = 0.f;
  for (int i = 0; i < n; ++i) total += x[row * n + i];
  y[row] = total;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  const int threads = 128;
  row_sum<<<(x.size(0) + threads - 1) / threads, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
  return y;
})";

// kSerial with other names, numbers' places, comments and spaces.
const char* const kSerialRenamed = R"(
#include <torch/extension.h>
__global__ void k(const float* in, float* result, int m, int width) {
  int r = blockIdx.x*blockDim.x+threadIdx.x;
  if (r >= m) return;
  float acc = 0.f;   /* the sum */
  for (int j = 0; j < width; ++j) acc += in[r * width + j];
  result[r] = acc;
}
torch::Tensor forward(torch::Tensor a) {
  auto b = torch::empty({a.size(0)}, a.options());
  const int block = 128;
  k<<<(a.size(0) + block - 1) / block, block>>>(a.data_ptr<float>(), b.data_ptr<float>(), a.size(0), a.size(1));
  return b;
})";

const char* const kTree = R"(
__global__ void row_sum(const float* x, float* y, int n) {
  __shared__ float part[256];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
void run(const float* x, float* y, int rows, int n) { row_sum<<<rows, 256>>>(x, y, n); })";

const char* const kShuffle = R"(
#define WARPS 8
__global__ void row_sum(const float4* x, float* y, int n) {
  extern __shared__ float part[];
  float sum = 0;
  for (int i = threadIdx.x; i < n / 4; i += blockDim.x) { float4 v = x[blockIdx.x * (n / 4) + i]; sum += v.x + v.y + v.z + v.w; }
  for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) atomicAdd(&y[blockIdx.x], sum);
}
void run(const float4* x, float* y, int rows, int n) {
  dim3 grid(rows, 1), block(32, WARPS);
  row_sum<<<grid, block, 64, 0>>>(x, y, n);
  row_sum<<<dim3(rows, 1, 1), dim3(32, 8)>>>(x, y, n);
})";

TEST(Diversity, FeaturesByHand) {
  EXPECT_EQ(features(kSerial).key(),
            "kernels 1 launches 1 axes 1,1 block 128 shared -- atomics false vector false stride false tensor false reduction serial");
  EXPECT_EQ(features(kTree).key(),
            "kernels 1 launches 1 axes 1,1 block 256 shared s- atomics false vector false stride true tensor false reduction shared_tree");
  EXPECT_EQ(features(kShuffle).key(),
            "kernels 1 launches 2 axes 2,2,3,2 block 256,256 shared -d atomics true vector true stride true tensor false reduction warp_shuffle");
  EXPECT_EQ(features("").key(), "kernels 0 launches 0 axes  block  shared -- atomics false vector false stride false tensor false reduction none");
  EXPECT_EQ(features("cub::BlockReduce<float, 256> r; wmma::mma_sync(a, b, c, d);").key(),
            "kernels 0 launches 0 axes  block  shared -- atomics false vector false stride false tensor true reduction library");
}

TEST(Diversity, AnyTextHasFeatures) {
  for (const char* odd : {"<<<", "<<<a", "<<<a, ", "dim3", "dim3 x", "dim3 x =", "dim3 x(", "for (", "#define A", "__shared__", "<<<((((", "x <<< y >>> z;", "\"", "k<<<1>>>();"})
    features(odd);
  EXPECT_EQ(features("k<<<1>>>();").launches, 1);
}

TEST(Diversity, RenamingChangesNothing) {
  const Implementation a = implementation(kSerial), b = implementation(kSerialRenamed), c = implementation(kTree), d = implementation(kShuffle);
  EXPECT_EQ(similarity(a, b), 1);
  EXPECT_LT(similarity(a, c), 0.4);
  EXPECT_LT(similarity(c, d), 0.4);
  EXPECT_EQ(similarity(c, d), similarity(d, c));
  EXPECT_EQ(similarity(implementation(""), implementation("")), 1);
  EXPECT_EQ(clusters({a, c, b, d, c}, {}), (std::vector<int>{0, 1, 0, 2, 1}));
}

TEST(Diversity, AnotherBlockSizeIsAnotherWayUnlessTextAloneCounts) {
  std::string other = kSerial;
  other.replace(other.find("= 128"), 5, "= 256");
  const std::vector<Implementation> two = {implementation(kSerial), implementation(other)};
  EXPECT_EQ(clusters(two, {}), (std::vector<int>{0, 1}));
  EXPECT_EQ(clusters(two, {.by_features = false}), (std::vector<int>{0, 0}));
}

TEST(Diversity, Pools) {
  // serial three times, tree twice, shuffle once; speeds as they are
  std::vector<Implementation> all;
  for (const auto& [source, speed] : {std::pair{kSerial, 1.0}, {kSerialRenamed, 1.5}, {kSerial, 1.2}, {kTree, 3.0}, {kTree, 2.0}, {kShuffle, 9.0}})
    all.push_back(implementation(source, speed));
  const std::vector<int> cluster = clusters(all, {});
  EXPECT_EQ(choose_pool(all, cluster, {.least = 2, .most = 8}), (std::vector<std::size_t>{1, 3, 5}));  // larger clusters first, their fastest
  EXPECT_EQ(choose_pool(all, cluster, {.least = 2, .most = 2}), (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(choose_pool(all, cluster, {.least = 1, .most = 1}), (std::vector<std::size_t>{5}));        // keep-one-best
  EXPECT_EQ(choose_pool(all, cluster, {.least = 4, .most = 8}).size(), 4u);                             // filled up
  EXPECT_EQ(choose_pool(all, cluster, {.least = 9, .most = 12}).size(), 6u);
  EXPECT_TRUE(choose_pool({}, {}, {}).empty());
}

TEST(Diversity, DrawsAreUniformAndRepeat) {
  std::map<std::size_t, int> seen;
  for (int epoch = 0; epoch < 4000; ++epoch) ++seen[draw_target(5, "level1/19", epoch, 7)];
  for (const auto& [index, count] : seen) EXPECT_NEAR(count, 800, 100) << index;
  EXPECT_EQ(draw_target(5, "a", 3, 7), draw_target(5, "a", 3, 7));
  int differ = 0;
  for (int epoch = 0; epoch < 100; ++epoch) differ += draw_target(8, "a", epoch, 7) != draw_target(8, "b", epoch, 7);
  EXPECT_GT(differ, 60);
}

TEST(Diversity, EntropyByHand) {
  const Diversity d = diversity({0, 0, 1, 2});  // shares 1/2, 1/4, 1/4
  EXPECT_EQ(d.distinct, 3);
  EXPECT_NEAR(d.entropy, 1.5 * std::log(2.0), 1e-12);
  EXPECT_NEAR(d.effective, std::pow(2, 1.5), 1e-12);
  EXPECT_EQ(diversity({5, 5}).entropy, 0);
  EXPECT_EQ(diversity({}).distinct, 0);
}

}  // namespace
}  // namespace musacoder::synth
