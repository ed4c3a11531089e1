// Operators that are short for others, written out, so that the planner sees what can be fused: losses become element-wise operators and a
// mean, cross entropy a log-sum-exp less what the label picks. Recurrent layers become a product for all input projections and the recurrence,
// layer by layer; multi-head attention its projections, views that put heads beside each other, and scaled dot-product attention.
//
//   MC_ASSIGN_OR_RETURN(const Graph plain, lower(graph));   // the same inputs, state and outputs
#pragma once

#include "base/status.h"
#include "synth/graph/graph.h"

namespace musacoder::synth {

Result<Graph> lower(const Graph& graph);

}  // namespace musacoder::synth
