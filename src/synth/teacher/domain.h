// The index space of a kernel: axes of the full tensor, neighbours merged where every operand treats them alike, and the offsets of
// operands in it. What is broadcast has no part in a merged axis; what is reduced is kept apart from what stays.
//
//   // x: (N, C, H, W), bias: (C, 1, 1); summed over H, W
//   Domain d(graph, type_of_x, {false, false, true, true}, {{x, "x", {0, 1, 2, 3}}, {bias, "bias", {1, -1, -1}}}, names);
//   d.axes();                                    // n: N; c: C; i: H * W, reduced
//   d.offset(0, {"n", "c", "i"});                // "(n * channels + c) * inner + i"
//   d.offset(1, {"n", "c", "i"});                // "c"
#pragma once

#include <set>
#include <string>
#include <vector>

#include "synth/graph/graph.h"

namespace musacoder::synth {

// Names of one function's or kernel's arguments and locals, each once.
class Names {
 public:
  Names();
  std::string take(const std::string& wanted);

 private:
  std::set<std::string> used_;
};

struct Operand {
  int value = -1;
  std::string tensor;      // its name in host code and in the kernel
  std::vector<int> place;  // for each of its axes the axis of the full tensor, −1 where it is broadcast
};
// Places of a tensor that is broadcast against one of `rank` axes, from the right.
std::vector<int> aligned_place(const TensorType& type, int rank);

struct Axis {
  std::string size;        // name of the size argument: "channels"
  std::string coordinate;  // "c"
  std::string host;        // host expression: "x.size(1)"
  std::int64_t count = 1;  // for the task's sizes
  bool reduced = false;
  std::vector<int> dims;   // axes of the full tensor
};

class Domain {
 public:
  // `reduced` has an entry for each axis of `full`. Axes of size 1 that no operand needs vanish. `hosts`: host expressions of the axes' sizes
  // where they are not those of an operand's axes (a channel axis taken as groups and channels of a group).
  Domain(const Graph& graph, const TensorType& full, const std::vector<bool>& reduced, std::vector<Operand> operands, Names& names,
         const std::vector<std::string>& hosts = {});
  const std::vector<Axis>& axes() const { return axes_; }
  const std::vector<Operand>& operands() const { return operands_; }
  bool covers(std::size_t operand) const;                     // it has every axis: its offset is that of the full tensor
  bool has(std::size_t operand, std::size_t axis) const;
  // Offset of the operand's element; coordinates by axis. "0" for a single number.
  std::string offset(std::size_t operand, const std::vector<std::string>& coordinates) const;
  // Offset in a new tensor of the axes that are (not) reduced.
  std::string offset_of(const std::vector<std::string>& coordinates, bool kept_only) const;
  std::int64_t count(bool reduced) const;                     // product of the sizes
  std::string host_count(bool reduced) const;                 // host expression of it: names of size variables

 private:
  std::vector<Operand> operands_;
  std::vector<Axis> axes_;
};

}  // namespace musacoder::synth
