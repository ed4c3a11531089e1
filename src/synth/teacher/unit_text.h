// The parts of a unit that are alike in all schedules: names, the kernel's signature, and the host function around the launches.
//
//   UnitText u(graph, region, writer, "row_sum");           // names arguments; function row_sum_forward, kernel row_sum_kernel
//   u.size("features", "x.size(1)");                        // const int features = x.size(1);   an argument of the kernel
//   u.kernel(body, launch);                                 // __global__ void row_sum_kernel(…) { body }, and its launch
//   return u.finish("row_reduce.block");
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "synth/teacher/domain.h"
#include "synth/teacher/schedule.h"

namespace musacoder::synth {

// How a kernel is launched: host expressions, and the sizes for the task as it stands.
struct Launch {
  std::string grid, block, shared;       // shared: bytes, "" for none
  std::int64_t grid_size = 0, block_size = 0, shared_bytes = 0;
  std::string grid_name = "blocks", block_name = "threads";
};

class UnitText {
 public:
  UnitText(const Graph& graph, const Region& region, Writer& writer, const std::string& base);

  Names names;
  const std::string& tensor(int value) const;            // C name of an argument or a result
  const std::string& function() const { return unit_.function; }
  std::string kernel_name() const { return base_ + "_kernel"; }
  // Host lines before the launches; a variable that the kernels may take.
  void line(const std::string& text) { host_ += text + "\n"; }
  // `value` for the task's sizes; −1 where it does not follow from them (a stride).
  void size(const std::string& name, const std::string& host, std::int64_t value);
  void sizes_of(const Domain& domain);
  // An integer or float that Python passes: extra argument `name` of `type`, Python expression.
  void extra(const std::string& type, const std::string& name, const std::string& python);
  // Shape of a result, a host expression such as "{x.size(0), x.size(2)}"; without it that of the arguments broadcast.
  void result_shape(int value, const std::string& shape) { shapes_[value] = shape; }
  // A scratch tensor on the host that kernels get as a pointer.
  void scratch(const std::string& name, DType dtype, const std::string& count);

  // Writes `__global__ void <name>(pointers, sizes) { body }` and its launch. Pointers: (value or −1 and scratch name); results are written.
  struct Pointer {
    int value = -1;
    std::string scratch = {};
    bool write = false;
    const char* type = "float";  // of scratch
  };
  void kernel(const std::string& name, const std::vector<Pointer>& pointers, const std::vector<std::string>& sizes, const std::string& body,
              const Launch& launch, const std::string& comment);
  // An argument that the kernel writes to as well: running statistics.
  void changes(int value) { changed_.insert(value); }
  // An argument that is read through its strides: no contiguous() for it.
  void keep_strides(int value) { strided_.insert(value); }
  std::vector<Pointer> all_pointers() const;             // region inputs, then results
  std::vector<std::string> all_sizes() const;
  std::string index_variable(const char* shape) const;   // word for "idx", by style
  KernelFacts& facts() { return unit_.facts.back(); }    // of the last kernel
  Unit finish(const std::string& schedule);

 private:
  struct Size {
    std::string name, type, host;
    std::int64_t value;
    bool argument;
  };
  std::string allocation(int value) const;

  const Graph& graph_;
  const Region& region_;
  Writer& writer_;
  Unit unit_;
  std::string base_, host_, launches_, parameters_;
  std::map<int, std::string> tensors_, shapes_;
  std::string scratches_;
  std::set<int> changed_, strided_;
  std::vector<Size> sizes_;
};

// "relu_add": operators of a region for names; at most three.
std::string region_name(const Graph& graph, const Region& region);
// What it computes in words, for comments: "relu(x + bias)".
std::string region_words(const Graph& graph, const Region& region);

}  // namespace musacoder::synth
