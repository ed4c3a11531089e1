// CUDA statements for element-wise nodes: prologues, epilogues and whole element-wise regions, one element at a time in registers.
//
//   ScalarCode code(graph, writer);
//   code.bind(x, "v");                              // value x is at hand as `v`, in its compute type
//   for (int node : region.epilogue) code.add(node);
//   code.lines();                                   // "const float h = fmaxf(v, 0.0f);\n"
//   code.name(y);                                   // "h"
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "synth/graph/graph.h"
#include "synth/teacher/writer.h"

namespace musacoder::synth {

// Whether the operator has a CUDA expression here.
bool has_scalar(const Node& node);

class ScalarCode {
 public:
  ScalarCode(const Graph& graph, Writer& writer) : graph_(graph), writer_(writer) {}
  void bind(int value, std::string name) { names_[value] = std::move(name); }
  bool bound(int value) const { return names_.count(value) != 0; }
  // Locals are numbered from here on, so that two blocks of one kernel do not share names.
  void count_from(int first) { counter_ = first; }
  // A statement for the node's result; its inputs must be bound or added. kUnsupported for operators without an expression.
  Status add(int node);
  const std::string& name(int value) const { return names_.at(value); }
  std::string lines() const;             // each with a line break, not indented
  int count() const { return counter_; }
  const std::vector<std::string>& formulas() const { return formulas_; }  // "h = max(v, 0)" for texts

 private:
  const Graph& graph_;
  Writer& writer_;
  std::map<int, std::string> names_;
  std::vector<std::string> lines_, formulas_;
  int counter_ = 0;
};

// The expression alone, for operands given as texts in their compute types.
Result<std::string> scalar_expression(const Graph& graph, const Node& node, const std::vector<std::string>& operands);

}  // namespace musacoder::synth
