// Writes a graph as a task file in KernelBench's form: a docstring, `class Model(nn.Module)`, constants that set sizes, get_inputs() and
// get_init_inputs().
//
//   const std::string file = print_task(graph, style_of(seed), "Softmax over rows, then a scale");
//
// One graph has many files: operators as torch functions, F functions, methods, symbols or nn members; the constants before or after the
// class; names of locals; type hints or none; one statement a line or nested calls. What its constructor takes is the graph's matter
// (Constructor, and the attributes that are constants), for the answer's constructor must be the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "synth/graph/graph.h"

namespace musacoder::synth {

struct PrintStyle {
  enum class Calls { kFunctions, kFunctional, kMethods, kMembers } calls = Calls::kFunctions;
  bool symbols = true;            // a + b instead of torch.add(a, b)
  bool hints = true;              // forward(self, x: torch.Tensor) -> torch.Tensor
  bool docstring_in_class = true;
  bool document_arguments = false;
  bool constants_first = false;   // before the class, else after it, as KernelBench has it
  bool rebind = true;             // x = relu(x) instead of a new local for each
  bool nested = false;            // calls inside calls where a value is used once
  bool old_super = false;         // super(Model, self).__init__()
  bool init_literals = false;     // get_init_inputs returns numbers where it would name constants that are no sizes
  std::uint64_t seed = 0;         // names of locals
};
// Every choice drawn from the seed; the same on every machine.
PrintStyle style_of(std::uint64_t seed);

std::string print_task(const Graph& graph, const PrintStyle& style, std::string_view summary);

// The same module's constructor for another class, such as ModelNew: what holds state and constants, without members that only compute.
struct InitText {
  std::string arguments;  // ", in_features, out_features", or ", in_features: int, bias: bool = True"
  std::string body;       // lines "self.linear = nn.Linear(in_features, out_features)\n", not indented; "" where there is no state
};
InitText init_text(const Graph& graph);

}  // namespace musacoder::synth
