// What tasks put behind an operator that sums over much: chains that fused kernels are asked for.
//
//   int y = b.op("matmul", {x, w});
//   summary += epilogue_chain(b, draw, y, {features}, 3);     // " relu, a scale by 0.5, a learned shift"; y is the last value
//   summary += row_tail(b, draw, y);                          // ", softmax", or nothing
#pragma once

#include <string>
#include <vector>

#include "synth/graph/graph.h"
#include "synth/seeded.h"

namespace musacoder::synth {

// `length` element-wise operators on value `x`, which becomes the last one's result: activations, scales, clamps, sums with parameters of
// shape `channel` (broadcastable) or with numbers. In words.
std::string epilogue_chain(GraphBuilder& builder, Seeded& draw, int& x, const std::vector<Dim>& channel, int length);
// With some probability a softmax or a reduction along the last axis of a matrix; in words.
std::string row_tail(GraphBuilder& builder, Seeded& draw, int& x);

}  // namespace musacoder::synth
