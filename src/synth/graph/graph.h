// A task before it is Python: a small graph of PyTorch operators with shapes, from which a task file is printed (print.h), and which the
// programmatic teacher (../teacher) reads when it chooses kernels.
//
//   GraphBuilder b;
//   const Dim batch = b.dim("batch_size", 128), in = b.dim("in_features", 512), out = b.dim("out_features", 256);
//   const int x = b.input("x", DType::kF32, {batch, in});
//   const int h = b.module("linear", "Linear", "linear", {x}, {{"in_features", Attr::of(in)}, {"out_features", Attr::of(out)}});
//   const int y = b.op("relu", {h});
//   b.output(y);
//   Result<Graph> graph = b.build();        // or the first thing that was wrong: a shape, a type, an unknown operator
//
// Values are what flows: inputs, parameters and buffers of the module, results of nodes. A value is named by its index in Graph::values.
// Nodes are in an order in which they can be computed. Operators are looked up by name (ops.h): adding one is one row in one of its tables.
// Sizes carry the name of the task file's constant they come from, so that the printed file can be scaled by its constants; derived
// sizes have no name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace musacoder::synth {

enum class DType { kF32, kF16, kBF16, kF64, kI64, kI32, kI16, kI8, kU8, kBool };
const char* dtype_name(DType dtype);    // torch's: "float32"
const char* dtype_c_name(DType dtype);  // CUDA's: "float", "__half", "__nv_bfloat16", "long long", …
std::size_t dtype_bytes(DType dtype);
bool is_float(DType dtype);
bool is_integral(DType dtype);          // without bool

// A size and the Python expression of module-level constants that gives it ("channels", "2 * hidden"); "" where it follows from others.
struct Dim {
  std::int64_t size = 1;
  std::string name = {};
};
inline Dim literal(std::int64_t size) { return {size, {}}; }

struct TensorType {
  DType dtype = DType::kF32;
  std::vector<Dim> dims;
  bool contiguous = true;  // false: a view whose strides are not those of a new tensor
  std::int64_t numel() const;
  std::vector<std::int64_t> sizes() const;
  int rank() const { return static_cast<int>(dims.size()); }
};
std::string shape_text(const TensorType& type);  // "float32 (16, 64)"

// An attribute of an operator. With a constant's name it is printed as that constant (and travels through get_init_inputs), else in place.
struct Attr {
  using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;
  Value value = std::int64_t{0};
  std::string constant = {};
  Attr() = default;
  Attr(bool v) : value(v) {}                                           // NOLINT(google-explicit-constructor)
  Attr(int v) : value(static_cast<std::int64_t>(v)) {}                 // NOLINT(google-explicit-constructor)
  Attr(std::int64_t v) : value(v) {}                                   // NOLINT(google-explicit-constructor)
  Attr(double v) : value(v) {}                                         // NOLINT(google-explicit-constructor)
  Attr(const char* v) : value(std::string(v)) {}                       // NOLINT(google-explicit-constructor)
  Attr(std::string v) : value(std::move(v)) {}                         // NOLINT(google-explicit-constructor)
  Attr(std::vector<std::int64_t> v) : value(std::move(v)) {}           // NOLINT(google-explicit-constructor)
  static Attr of(const Dim& dim);                                      // the size, printed as the dim's name
  static Attr named(std::string constant, Value value);
};
using Attrs = std::map<std::string, Attr>;

// How get_inputs makes an input, or __init__ a parameter.
enum class Fill {
  kNormal,       // randn
  kUniform,      // rand: [0, 1)
  kPositive,     // rand + 0.5: safe divisor, logarithm, square root
  kSigned,       // rand * 2 - 1
  kWide,         // randn * 8: large magnitudes, saturating activations
  kProbability,  // softmax of randn along the last axis
  kIndex,        // integers in [0, limit): indices and labels
  kInteger,      // integers in [-limit, limit)
  kMask,         // rand > 0.5
  kSign,         // ±1
  kNearOne,      // 1 + 0.1 * randn: weights of norms, factors of products
  kSmall,        // 0.1 * randn: weights, biases
};
// How an input lies in memory.
enum class Layout {
  kContiguous,
  kTransposed,  // made with the last two axes exchanged, then transposed back
  kSliced,      // every second column of a twice as wide tensor
  kExpanded,    // first axis of size 1, expanded
};

enum class Source { kInput, kParameter, kBuffer, kNode };

struct Value {
  std::string name;  // of the forward's argument or local; of a parameter its path in the state_dict: "linear.weight"
  TensorType type;
  Source source = Source::kNode;
  int node = -1;     // kNode: the node that makes it
  // Inputs, and parameters that are members of the Model itself:
  Fill fill = Fill::kNormal;
  Layout layout = Layout::kContiguous;
  Dim limit = {};    // kIndex, kInteger
  int module = -1;   // parameters and buffers of an nn member: index in Graph::modules; −1: nn.Parameter or register_buffer
};

struct Module {
  std::string name;  // member: self.<name>
  std::string kind;  // class in torch.nn: "Linear"
  Attrs args;        // of its constructor
};

struct Node {
  std::string op;            // a name of ops.h: "relu", "add", "conv2d"
  std::vector<int> inputs;   // values
  std::vector<int> outputs;  // values; most have one
  Attrs attrs;
  int module = -1;           // printed as self.<module>(…): the values of its parameters follow in `inputs`

  bool has(std::string_view name) const { return attrs.count(std::string(name)) != 0; }
  std::int64_t integer(std::string_view name, std::int64_t otherwise = 0) const;
  double number(std::string_view name, double otherwise = 0) const;  // integers too
  bool flag(std::string_view name, bool otherwise = false) const;
  std::string text(std::string_view name, std::string otherwise = {}) const;
  std::vector<std::int64_t> list(std::string_view name, std::vector<std::int64_t> otherwise = {}) const;  // an integer: a list of one
};

// How the constructor of the module is written; ModelNew's is written the same way.
struct Constructor {
  bool annotated = false;        // dim: int
  int defaults = 0;              // so many of its last arguments have their value as default and are not passed
  int keywords_from = 99;        // arguments of nn members from this place on are given by keyword
  bool spread_kernel = false;    // nn.Conv2d(…, (kernel_size, kernel_size))
  bool shape_arguments = false;  // nn.Parameter(torch.randn(bias_shape)), bias_shape = (channels, 1, 1)
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Module> modules;
  std::vector<int> inputs;   // values, in the order of forward's arguments
  std::vector<int> outputs;  // one: forward returns a tensor; several: a tuple
  std::map<std::string, std::int64_t> constants;  // sizes at module level, by name
  Constructor constructor = {};

  const TensorType& type(int value) const { return values[static_cast<std::size_t>(value)].type; }
  std::vector<int> users(int value) const;  // nodes that read it
  bool is_output(int value) const;
};

// Hash of what is computed: operators, attributes, types and wiring; operands of commutative operators in any order, names, sizes and
// printing left out. With `sizes`, shapes belong to it.
std::string canonical_hash(const Graph& graph, bool sizes = false);

// Operators by the names that torch's dispatcher knows: {"aten::add", "aten::relu"}.
std::set<std::string> aten_operators(const Graph& graph);

// FLOPs and bytes of one call, roughly; generators keep it between bounds.
double work(const Graph& graph);

// Builds graphs; the first error is kept, and later calls then do nothing and return −1.
class GraphBuilder {
 public:
  // A constant of the task file. The same name again must have the same size.
  Dim dim(std::string name, std::int64_t size);
  int input(std::string name, DType dtype, std::vector<Dim> dims, Fill fill = Fill::kNormal, Layout layout = Layout::kContiguous,
            Dim limit = {});
  // nn.Parameter or buffer of the Model itself.
  int parameter(std::string name, DType dtype, std::vector<Dim> dims, Fill fill = Fill::kSmall);
  int buffer(std::string name, DType dtype, std::vector<Dim> dims, Fill fill = Fill::kSmall);
  // A node with shapes inferred. Several results: the first is returned, result(i) names the others of the last node.
  int op(std::string_view name, std::vector<int> inputs, Attrs attrs = {});
  // A member of __init__ (nn.<kind>(args)) and the node that calls it: parameters are made and appended to the inputs by the kind.
  int module(std::string name, std::string_view kind, std::string_view op, std::vector<int> inputs, Attrs args, Attrs attrs = {});
  int result(int index) const;
  void output(int value);
  // Starts with another graph's inputs, state, members and constants; where its values are now, by their old index (−1: results of nodes).
  std::vector<int> begin_like(const Graph& graph);
  // A node of another graph as it is, on values of this one.
  int copy(const Node& node, std::vector<int> inputs);
  const TensorType& type(int value) const;
  bool failed() const { return error_.has_value(); }
  void fail_with(std::string message);
  // kInvalidArgument with what was wrong. The builder is empty afterwards.
  Result<Graph> build();

 private:
  int add_value(Value value);
  Graph graph_;
  std::optional<Error> error_;
};

}  // namespace musacoder::synth
