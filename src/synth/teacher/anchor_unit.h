// The parts that every extension function of one heavy operator has: arguments, sizes, kernels with their launches, and the element-wise
// epilogue that is computed in registers before the store. Schedules of matrix.cpp, conv.cpp, pool.cpp, attention.cpp and scan.cpp write
// the loops; this writes what surrounds them, and keeps the facts.
//
//   AnchorUnit unit(graph, region, writer, "matmul.naive", "matmul");
//   const std::string a = unit.tensor(node.inputs[0], "a"), b = unit.tensor(node.inputs[1], "b");
//   unit.size("m", a + ".size(0)", 128);  …
//   unit.result({{"row", "m"}, {"col", "n"}}, "{m, n}");
//   AnchorKernel kernel(unit, "matmul_kernel");
//   kernel.reads(a, "(m, k)");  kernel.sizes({"m", "n", "k"});
//   MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("sum"));   // epilogue and store
//   kernel.body = "…" + tail;
//   kernel.launch({"(n + 15) / 16", "(m + 15) / 16"}, {"16", "16"}, …);
//   return unit.done();
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "synth/teacher/schedule.h"
#include "synth/teacher/writer.h"

namespace musacoder::synth {

// An axis of the result as the kernel sees it: names of its coordinate and of its size, and how many axes of the tensor it merges.
struct OutAxis {
  std::string coordinate, size;
  int dims = 1;
};

// Whether the epilogue of the region can be computed at one element of the anchor's result: same shape, and other operands that cover or
// skip each of the axes as a whole. `merged` has OutAxis::dims. The anchor's result is its first; an epilogue that reads another does not fit.
bool epilogue_fits(const Graph& graph, const Region& region, const std::vector<int>& merged);

// `@name@` replaced by its text.
std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& names);

class AnchorKernel;
class AnchorUnit;

// A schedule from its name, what it takes, and how it is written.
using Takes = bool (*)(const Graph& graph, const Region& region);
using Write = Result<Unit> (*)(AnchorUnit& unit);
std::unique_ptr<Schedule> anchor_schedule(std::string name, std::string function, Takes takes, Write write);

// Sums over a warp and over a block (of at most 1024 threads; `float partial[32]` in shared memory is its second argument), as device functions
// of the file; their names.
std::string warp_sum(Writer& writer);
std::string block_sum(Writer& writer);

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
// "(n + 255) / 256", or with a constant "(n + TILE - 1) / TILE".
std::string ceil_div_text(const std::string& n, const std::string& by);

class AnchorUnit {
 public:
  AnchorUnit(const Graph& graph, const Region& region, Writer& writer, std::string schedule, const std::string& function);

  const Graph& graph() const { return graph_; }
  const Region& region() const { return region_; }
  Writer& writer() { return writer_; }
  const Node& node() const { return graph_.nodes[static_cast<std::size_t>(region_.anchor)]; }
  const TensorType& type(int value) const { return graph_.type(value); }
  DType dtype() const { return graph_.type(node().outputs[0]).dtype; }
  const char* compute() const { return Writer::compute_type(dtype()); }
  // One of three words by the style's names.
  std::string word(const char* first, const char* second, const char* third) const;

  // A tensor argument of the function; the same value again has the same name. Non-contiguous tensors are made contiguous on the host,
  // unless the kernel takes their strides.
  std::string tensor(int value, const std::string& wanted, bool strided = false);
  // A local of the kernels, which no tensor is then named like.
  void reserve(const std::string& local) { taken_.push_back(local); }
  // `const int name = host;`, and a kernel argument where asked for.
  void size(const std::string& name, const std::string& host, std::int64_t value);
  // The same for a stride, whose value is not told.
  void stride(const std::string& name, const std::string& host);
  // An int argument that Python gives; a kernel argument where asked for.
  void number(const std::string& name, const std::string& python, std::int64_t value);
  // `constexpr int NAME = value;` before the kernels, at file scope: returns its name.
  std::string constant(const std::string& wanted, std::int64_t value);
  std::int64_t value_of(const std::string& name) const { return sizes_.at(name); }
  void host(const std::string& line) { host_ += line + "\n"; }
  // The result's axes and its shape on the host: "{m, n}". `index` names its flat index where the kernel has one.
  void result(std::vector<OutAxis> axes, const std::string& shape, const std::string& index = {});
  const std::string& out() const { return out_; }
  // Another result of the anchor, a tensor of the host function; it is returned where the region gives it out, after the first or alone.
  void also_result(int value, const std::string& tensor) { others_[value] = tensor; }

  Result<Unit> done();

 private:
  friend class AnchorKernel;
  std::string free_name(const std::string& wanted);

  const Graph& graph_;
  const Region& region_;
  Writer& writer_;
  Unit unit_;
  std::string host_, constants_, kernels_, out_, out_shape_, out_index_;
  std::vector<OutAxis> axes_;
  std::vector<std::string> parameters_;           // of the host function
  std::map<int, std::string> names_;              // tensors by value
  std::map<int, std::string> others_;             // results beside the first
  std::map<std::string, int> tensors_;            // and back
  std::vector<std::string> taken_;
  std::map<std::string, std::int64_t> sizes_;
  std::map<std::string, std::string> size_texts_;
};

class AnchorKernel {
 public:
  AnchorKernel(AnchorUnit& unit, const std::string& base);

  const std::string& name() const { return facts.name; }
  // Pointer parameters. `call` is the host's tensor where it is no argument of the function (a scratch tensor).
  void reads(const std::string& tensor, const std::string& shape);
  void scratch(const std::string& name, const std::string& shape, bool constant);  // float, kept between kernels
  void writes_result();
  void sizes(std::initializer_list<std::string> names) { sizes_.insert(sizes_.end(), names); }
  void size(const std::string& name) { sizes_.push_back(name); }
  void parameter(const std::string& type, const std::string& name, const std::string& call);
  // `const int name = formula;` with a line break, and the fact.
  std::string index(const std::string& name, const std::string& formula, const std::string& meaning);
  void access(const std::string& tensor, const std::string& shape, const std::string& index, bool write = false);
  void loop(const std::string& variable, const std::string& from, const std::string& to, const std::string& step, const std::string& purpose);
  // The body inside a guard of `a < b` conditions, in the style's form.
  std::string guarded(const std::vector<std::pair<std::string, std::string>>& conditions, const std::string& inside, bool may_return = true);
  void bound(const std::string& condition) { facts.bounds.push_back(condition); }
  // Element of a tensor in its compute type: "__half2float(x[i])".
  std::string load(const std::string& tensor, const std::string& index) const;
  // Statements from the anchor's value (an expression in the compute type) through the epilogue to the store.
  Result<std::string> finish(const std::string& value);

  struct Launch {
    std::vector<std::string> grid, block;       // host expressions, x first
    std::vector<std::int64_t> grid_sizes, block_sizes;
    std::string shared = {};                    // dynamic shared memory, host expression
    std::int64_t shared_bytes = 0;              // all of it
    std::string loop = {};                      // host loop around the launch: "for (int t = 0; t < steps; ++t)"
  };
  std::string body;                             // indented by four spaces a level
  KernelFacts facts;
  // Writes the kernel into the unit and its launch into the host function.
  void launch(const Launch& launch);

 private:
  struct Parameter {
    std::string text, call;
  };
  AnchorUnit& unit_;
  std::vector<Parameter> inputs_, outputs_, more_;
  std::vector<std::string> sizes_;
  bool result_ = false;
};

}  // namespace musacoder::synth
