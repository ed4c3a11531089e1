// Generators of tasks: archetypes in seven domains with variants of type, shape, broadcast, axis, memory layout and range drawn from a seed, and
// random operator graphs.
//
//   Result<DrawnTask> task = make_task(*find_archetype("reduction.along_axis"), 42);
//   task->file        // Python, in KernelBench's form
//   task->graph       // what the programmatic teacher reads
//   Result<DrawnTask> other = random_task(7, {.most_nodes = 8});
//
// The domains are those of the MusaCoder paper's taxonomy (arXiv 2606.04847, App. F). One seed gives one task, on every machine.
// Adding an archetype: a function in the file of its domain, and a row in the table below it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "synth/graph/graph.h"
#include "synth/seeded.h"

namespace musacoder::synth {

struct Archetype {
  const char* domain;  // activation, maths, comparison_logic, layout, reduction, nn_layers, interpolation_cast
  const char* family;  // what mixtures are weighed by: "elementwise", "softmax", "norm", …
  const char* name;    // "reduction.along_axis"
  void (*make)(GraphBuilder& builder, Seeded& draw, std::string& summary);
};

const std::vector<Archetype>& elementwise_archetypes();
const std::vector<Archetype>& reduction_archetypes();
const std::vector<Archetype>& norm_archetypes();
const std::vector<Archetype>& layout_archetypes();
const std::vector<Archetype>& loss_archetypes();
const std::vector<Archetype>& matrix_archetypes();
const std::vector<Archetype>& conv_archetypes();
const std::vector<Archetype>& pool_archetypes();
const std::vector<Archetype>& attention_archetypes();
const std::vector<Archetype>& scan_archetypes();
const std::vector<Archetype>& network_archetypes();
// All of them.
const std::vector<Archetype>& archetypes();
const Archetype* find_archetype(std::string_view name);

struct DrawnTask {
  std::string file;
  Graph graph;
  std::string domain, family, archetype, summary;
  std::uint64_t seed = 0;
  int level = 1;            // KernelBench's: 1 one operator, 2 several, 3 a network
};

// kInvalidArgument where the seed's draw does not fit together (the next seed may).
Result<DrawnTask> make_task(const Archetype& archetype, std::uint64_t seed);

// The same task's file in another of its styles (print.h); `other` 0 is task.file. Its constructor and its forward take the same, so that an answer
// to one answers all.
std::string in_style(const DrawnTask& task, std::uint64_t other);

// Knobs of random graphs.
struct RandomKnobs {
  int least_nodes = 3, most_nodes = 9;
  std::vector<int> ranks = {2, 2, 3, 4};
  std::vector<DType> dtypes = {DType::kF32, DType::kF32, DType::kF32, DType::kF16, DType::kBF16};
  double row_operators = 0.15;   // share of reductions, softmax and norms among the nodes
  double layout_operators = 0.1;
  std::vector<std::string> include = {};  // only these operators where given
};
Result<DrawnTask> random_task(std::uint64_t seed, const RandomKnobs& knobs = {});

// A set of tasks, each graph with its sizes once.
struct DrawConfig {
  std::size_t count = 100;
  std::uint64_t seed = 1;
  std::vector<std::string> families = {};  // only these; empty: all
  double random_share = 0.15;         // of random graphs, where `families` is empty
};
// Every archetype in turn, in another order each round; those of families in which untrained models are weak (convolutions, reductions, norms,
// softmax, broadcasts, indexing: arXiv 2606.04847 §3.1.2) twice a round. Fewer than `count` only where too few are distinct.
// kInvalidArgument names a family that there is not.
Result<std::vector<DrawnTask>> draw_tasks(const DrawConfig& config);

// Draws that the domains share.
DType draw_float(Seeded& draw);                                        // mostly float32
// Axes with names that shape scaling understands; regular, unaligned or imbalanced sizes, at most 2^26 elements.
std::vector<Dim> draw_shape(GraphBuilder& builder, Seeded& draw, int rank);
std::vector<Dim> draw_shape_small(GraphBuilder& builder, Seeded& draw, int rank);   // at most 2^20 elements
Layout draw_layout(Seeded& draw, int rank);                            // mostly contiguous
std::string words(const std::string& op);                              // "leaky_relu" → "leaky ReLU"

}  // namespace musacoder::synth
