// How different implementations of one task are: features of CUDA or MUSA sources, clusters of alike ones, and pools for training that
// keep several ways to write a kernel (rejection fine-tuning, arXiv 2606.04847 §4.2.4).
//
//   std::vector<Implementation> all;                      // verified answers to one prompt
//   for (…) all.push_back(implementation(source, speedup));
//   const std::vector<int> cluster = clusters(all, {});   // equal numbers: alike
//   const std::vector<std::size_t> pool = choose_pool(all, cluster, {.least = 4, .most = 8});
//   const std::size_t target = pool[draw_target(pool.size(), "level1/19", epoch, seed)];
//
// The paper clusters by code similarity, syntax tree, number of kernels, grid and block, shared memory, atomics, fusion and style of
// reduction, and gives no measure. Here two implementations are alike where their features are equal and their texts similar: the mean
// of the Jaccard indices of shingles of seven tokens (names by their order of appearance in the shingle, so that renaming changes
// nothing) and of shingles of five parts of their skeletons (control flow, barriers, assignments, calls) is at least `similarity`. Clusters
// are connected components.
// Sources are read as tokens, not parsed: macros and templates are taken as written.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace musacoder::synth {

enum class Reduction { kNone, kSerial, kSharedTree, kWarpShuffle, kAtomic, kLibrary };  // kLibrary: cub, thrust, cooperative groups' reduce
const char* reduction_name(Reduction reduction);

struct Features {
  int kernels = 0;                  // __global__ functions
  int launches = 0;                 // <<<…>>>: more than kernels where one is launched twice, fewer launches for more operators is fusion
  std::vector<int> grid_axes;       // of each launch: axes of its grid and its block, 1 to 3 where written as dim3(…), else 1
  std::vector<int> block_sizes;     // of each launch: threads where numbers say so, else 0
  bool static_shared = false, dynamic_shared = false, atomics = false, vectorised = false, grid_stride = false, tensor_cores = false;
  Reduction reduction = Reduction::kNone;
  // One line with all of it; equal for equal features. Launches in the order of the text.
  std::string key() const;
};
Features features(std::string_view source);

struct Implementation {
  Features features;
  std::set<std::uint64_t> shingles, skeleton;
  double speed = 0;  // larger is better; chooses among alike ones
};
Implementation implementation(std::string_view source, double speed = 0);

// In [0, 1]; 1 for two without any tokens.
double similarity(const Implementation& a, const Implementation& b);

struct ClusterConfig {
  double similarity = 0.6;
  bool by_features = true;  // false: by text alone
};
// Numbers from 0 in order of appearance. Time grows with the square of the number.
std::vector<int> clusters(const std::vector<Implementation>& all, const ClusterConfig& config);

struct PoolConfig {
  std::size_t least = 4, most = 8;
};
// Indices: the fastest of each cluster, larger clusters first (where there are more clusters than `most`, those of fewer members are left
// out, the fastest of equals stays); with fewer clusters than `least`, then whoever is least similar to all chosen, until `least` are found
// or all are in. With least = most = 1: keep-one-best, the fastest of all.
std::vector<std::size_t> choose_pool(const std::vector<Implementation>& all, const std::vector<int>& cluster, const PoolConfig& config);

// Index in [0, size): uniform, and the same for the same prompt, epoch and seed on every machine. size must not be 0.
std::size_t draw_target(std::size_t size, std::string_view prompt, std::int64_t epoch, std::uint64_t seed);

struct Diversity {
  int distinct = 0;      // clusters
  double entropy = 0;    // −Σ p ln p over shares of clusters, nats
  double effective = 0;  // exp(entropy): as many equally frequent ways
};
Diversity diversity(const std::vector<int>& cluster);

}  // namespace musacoder::synth
