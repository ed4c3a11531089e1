// The Python file around an answer's kernels: sources, load_inline, and ModelNew with the task's constructor and a forward of its units.
//
//   const std::string file = module_file(graph, {{.view = false, .unit = unit}}, writer);
#pragma once

#include <string>
#include <vector>

#include "synth/graph/graph.h"
#include "synth/teacher/schedule.h"

namespace musacoder::synth {

struct Part {
  bool view = false;
  int node = -1;  // of a view
  Unit unit = {};
};
std::string module_file(const Graph& graph, const std::vector<Part>& parts, Writer& writer);

}  // namespace musacoder::synth
