// Schedules: ways to compute a part of a graph with one kernel or a few. The teacher cuts a graph into regions (plan.h), asks which
// schedules take a region, and has one of them write it.
//
// A region has one anchor (the operator that decides how threads are laid out) and element-wise neighbours that are computed in registers:
// the prologue on what the anchor reads, the epilogue on what it makes. A region without an anchor is element-wise altogether.
//
//   class WarpPerRow final : public Schedule {
//     std::string name() const override { return "row_reduce.warp"; }
//     bool takes(const Graph& g, const Region& r) const override { … }
//     Result<Unit> write(const Graph& g, const Region& r, Writer& w) const override { … }
//   };
//
// Adding one: a class in the file of its topic, and a line in that file's function below. tests/synth/teacher_test.cpp runs all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "synth/graph/graph.h"
#include "synth/teacher/teacher.h"
#include "synth/teacher/writer.h"

namespace musacoder::synth {

struct Region {
  int anchor = -1;             // node; −1: element-wise
  std::vector<int> prologue;   // nodes in order; element-wise, feed the anchor only
  std::vector<int> epilogue;   // nodes in order; element-wise on the anchor's result, or all nodes of a region without an anchor
  std::vector<int> inputs;     // values read from memory, each once
  std::vector<int> outputs;    // values written
};

// One extension function: what it launches, and how Python calls it.
struct Unit {
  std::string schedule;        // name()
  std::string kernels;         // device functions and __global__s, CUDA
  std::string host;            // the function's definition: torch::Tensor f(torch::Tensor x, …)
  std::string function;        // its name
  std::string signature;       // its declaration without ';', for cpp_sources
  std::vector<int> arguments;  // values, in the order of its tensor arguments
  std::vector<std::string> extra;  // Python expressions after them: "self.eps", "0.5"
  std::vector<int> results;    // values it returns
  std::vector<KernelFacts> facts;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual std::string name() const = 0;
  virtual bool takes(const Graph& graph, const Region& region) const = 0;
  virtual Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const = 0;
};
using Schedules = std::vector<std::unique_ptr<Schedule>>;

// By topic; each in the file of its name.
void add_elementwise_schedules(Schedules& all);
void add_reduction_schedules(Schedules& all);
void add_row_schedules(Schedules& all);
void add_layout_schedules(Schedules& all);
void add_matrix_schedules(Schedules& all);
void add_conv_schedules(Schedules& all);
void add_pool_schedules(Schedules& all);
void add_attention_schedules(Schedules& all);
void add_scan_schedules(Schedules& all);
void add_recurrent_schedules(Schedules& all);
const Schedules& all_schedules();

}  // namespace musacoder::synth
