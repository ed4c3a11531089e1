// Families of tasks around operators that sum over much: matrix products, convolutions, pooling, attention, scans, and small networks of
// them, with the chains behind them that fused kernels are asked for.
//
//   GraphBuilder b;  Seeded draw(7);  std::string summary;
//   matrix_tasks()[0].make(b, draw, summary);        // inputs, nodes, outputs
//   Result<Graph> graph = b.build();
//
// Every size, type, variant and length of chain is drawn. Adding a family: a function, and a row in its file's table.
#pragma once

#include <string>
#include <vector>

#include "synth/graph/graph.h"
#include "synth/seeded.h"

namespace musacoder::synth {

struct HeavyTask {
  const char* family;
  void (*make)(GraphBuilder& builder, Seeded& draw, std::string& summary);
};

const std::vector<HeavyTask>& matrix_tasks();
const std::vector<HeavyTask>& conv_tasks();
const std::vector<HeavyTask>& pool_tasks();
const std::vector<HeavyTask>& attention_tasks();
const std::vector<HeavyTask>& scan_tasks();
const std::vector<HeavyTask>& network_tasks();

// `length` element-wise operators on value `x`, which becomes the last one's result: activations, scales, clamps, sums with parameters of
// shape `channel` (broadcastable) or with numbers. In words: " relu, a scale by 0.5".
std::string epilogue_chain(GraphBuilder& builder, Seeded& draw, int& x, const std::vector<Dim>& channel, int length);
// With some probability a softmax, norm or reduction along the last axis; in words.
std::string row_tail(GraphBuilder& builder, Seeded& draw, int& x);

}  // namespace musacoder::synth
