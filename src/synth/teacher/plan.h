// Cuts a graph into what one kernel each computes.
//
//   Result<std::vector<Step>> plan = plan_graph(graph, {.fuse = true});
//   for (const Step& step : *plan) step.view ? … : schedule->write(graph, step.region, writer);
//
// Element-wise nodes join the operator before them (epilogue) where that is its only use, then the one after them (prologue of reductions
// and rows), then each other. Views become Python expressions on tensors (no kernel).
#pragma once

#include <vector>

#include "base/status.h"
#include "synth/graph/graph.h"
#include "synth/teacher/schedule.h"

namespace musacoder::synth {

struct PlanStyle {
  bool fuse = true;        // false: a kernel for each node
};
struct Step {
  bool view = false;
  int node = -1;           // of a view
  Region region;
};
Result<std::vector<Step>> plan_graph(const Graph& graph, const PlanStyle& style);

}  // namespace musacoder::synth
