// The Python file around an answer's kernels: sources, load_inline, and ModelNew with the task's constructor and a forward of its units.
//
//   const std::string file = module_file(graph, init_text(task_graph), {{.view = false, .unit = unit}}, writer);
//
// The constructor is the task's own: a lowered graph may have lost arguments that its operators no longer name.
#pragma once

#include <string>
#include <vector>

#include "synth/graph/graph.h"
#include "synth/graph/print.h"
#include "synth/teacher/schedule.h"

namespace musacoder::synth {

struct Part {
  bool view = false;
  int node = -1;  // of a view
  Unit unit = {};
};
std::string module_file(const Graph& graph, const InitText& init, const std::vector<Part>& parts, Writer& writer);

}  // namespace musacoder::synth
