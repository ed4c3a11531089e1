// The six steps from a task to its kernels, written from what the teacher knows, and a check that a text agrees with kernels.
//
//   const std::string text = derivation_text(graph, answer.kernels, seed);
//   Status agrees = check_derivation(text, task_graph, answer.file);        // kInvalidArgument names the first disagreement
//
// The steps: overall analysis; scalar formula; shapes; index and memory mapping; boundaries and types; likely errors
// (arXiv 2606.04847 §3.2.1). The check believes nothing of the writer's: it reads statements of fixed form in the text (launches, sizes,
// index formulas, bounds, accesses) and finds them again in the kernels and in the task.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "synth/graph/graph.h"
#include "synth/teacher/teacher.h"

namespace musacoder::synth {

std::string derivation_text(const Graph& graph, const std::vector<KernelFacts>& kernels, std::uint64_t seed);

// `file`: the answer's Python file.
Status check_derivation(std::string_view text, const Graph& graph, std::string_view file);

}  // namespace musacoder::synth
