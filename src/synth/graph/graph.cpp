#include "synth/graph/graph.h"

#include <algorithm>

#include "base/hash.h"
#include "synth/graph/modules.h"
#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

struct DTypeRow {
  const char* name;
  const char* c_name;
  std::size_t bytes;
};
const DTypeRow& row(DType dtype) {
  static const DTypeRow rows[] = {{"float32", "float", 4}, {"float16", "__half", 2}, {"bfloat16", "__nv_bfloat16", 2},
                                  {"float64", "double", 8}, {"int64", "int64_t", 8}, {"int32", "int", 4},
                                  {"int16", "int16_t", 2}, {"int8", "int8_t", 1},    {"uint8", "uint8_t", 1},
                                  {"bool", "bool", 1}};
  return rows[static_cast<std::size_t>(dtype)];
}

std::string attr_text(const Attr::Value& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value)) return fmt::format("{}", *d);
  if (const auto* s = std::get_if<std::string>(&value)) return *s;
  std::string text;
  for (std::int64_t v : std::get<std::vector<std::int64_t>>(value)) text += std::to_string(v) + ",";
  return text;
}

const Attr* find(const Node& node, std::string_view name) {
  const auto it = node.attrs.find(std::string(name));
  return it == node.attrs.end() ? nullptr : &it->second;
}

}  // namespace

const char* dtype_name(DType dtype) { return row(dtype).name; }
const char* dtype_c_name(DType dtype) { return row(dtype).c_name; }
std::size_t dtype_bytes(DType dtype) { return row(dtype).bytes; }
bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF64;
}
bool is_integral(DType dtype) { return !is_float(dtype) && dtype != DType::kBool; }

std::int64_t TensorType::numel() const {
  std::int64_t n = 1;
  for (const Dim& d : dims) n *= d.size;
  return n;
}
std::vector<std::int64_t> TensorType::sizes() const {
  std::vector<std::int64_t> all;
  for (const Dim& d : dims) all.push_back(d.size);
  return all;
}
std::string shape_text(const TensorType& type) {
  std::string text;
  for (const Dim& d : type.dims) text += (text.empty() ? "" : ", ") + std::to_string(d.size);
  return fmt::format("{} ({})", dtype_name(type.dtype), type.dims.size() == 1 ? text + "," : text);
}

Attr Attr::of(const Dim& dim) {
  Attr attr(dim.size);
  attr.constant = dim.name;
  return attr;
}
Attr Attr::named(std::string constant, Value value) {
  Attr attr;
  attr.value = std::move(value);
  attr.constant = std::move(constant);
  return attr;
}

std::int64_t Node::integer(std::string_view name, std::int64_t otherwise) const {
  const Attr* attr = find(*this, name);
  if (attr == nullptr) return otherwise;
  if (const auto* i = std::get_if<std::int64_t>(&attr->value)) return *i;
  if (const auto* b = std::get_if<bool>(&attr->value)) return *b ? 1 : 0;
  return otherwise;
}
double Node::number(std::string_view name, double otherwise) const {
  const Attr* attr = find(*this, name);
  if (attr == nullptr) return otherwise;
  if (const auto* d = std::get_if<double>(&attr->value)) return *d;
  return static_cast<double>(integer(name));
}
bool Node::flag(std::string_view name, bool otherwise) const {
  const Attr* attr = find(*this, name);
  const bool* b = attr == nullptr ? nullptr : std::get_if<bool>(&attr->value);
  return b == nullptr ? otherwise : *b;
}
std::string Node::text(std::string_view name, std::string otherwise) const {
  const Attr* attr = find(*this, name);
  const std::string* s = attr == nullptr ? nullptr : std::get_if<std::string>(&attr->value);
  return s == nullptr ? otherwise : *s;
}
std::vector<std::int64_t> Node::list(std::string_view name, std::vector<std::int64_t> otherwise) const {
  const Attr* attr = find(*this, name);
  if (attr == nullptr) return otherwise;
  if (const auto* l = std::get_if<std::vector<std::int64_t>>(&attr->value)) return *l;
  if (const auto* i = std::get_if<std::int64_t>(&attr->value)) return {*i};
  return otherwise;
}

std::vector<int> Graph::users(int value) const {
  std::vector<int> all;
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (std::count(nodes[n].inputs.begin(), nodes[n].inputs.end(), value) != 0) all.push_back(static_cast<int>(n));
  return all;
}
bool Graph::is_output(int value) const { return std::count(outputs.begin(), outputs.end(), value) != 0; }

namespace {

// Two rounds: hashes without identity order the operands of commutative operators and so the walk; the walk numbers nodes and inputs, and its
// record, in which x + x and x + y differ, is hashed.
class Canonical {
 public:
  Canonical(const Graph& graph, bool sizes) : graph_(graph), sizes_(sizes), local_(graph.values.size()) {}

  std::string hash() {
    for (int value : graph_.outputs) record_ += "out " + walk(value) + "\n";
    return base::sha256_hex(record_);
  }

 private:
  std::string type_text(int value) const {
    const TensorType& type = graph_.type(value);
    return sizes_ ? shape_text(type) : fmt::format("{}/{}", dtype_name(type.dtype), type.rank());
  }
  std::string head(const Node& node) const {
    std::string text = node.op;
    for (const auto& [name, attr] : node.attrs) text += fmt::format(" {}={}", name, attr_text(attr.value));
    return text;
  }
  const std::string& local(int value) {
    std::string& known = local_[static_cast<std::size_t>(value)];
    if (!known.empty()) return known;
    const Value& v = graph_.values[static_cast<std::size_t>(value)];
    std::string text = type_text(value);
    if (v.source == Source::kNode) {
      const Node& node = graph_.nodes[static_cast<std::size_t>(v.node)];
      text += head(node);
      for (int input : ordered(node)) text += local(input);
    } else {
      text += v.source == Source::kInput ? "in" : "state";
    }
    known = base::sha256_hex(text);
    return known;
  }
  std::vector<int> ordered(const Node& node) {
    std::vector<int> inputs = node.inputs;
    const OpInfo* info = find_op(node.op);
    if (info != nullptr && info->commutative)
      std::sort(inputs.begin(), inputs.end(), [&](int a, int b) { return local(a) < local(b); });
    return inputs;
  }
  std::string walk(int value) {
    const auto seen = number_.find(value);
    if (seen != number_.end()) return seen->second;
    const Value& v = graph_.values[static_cast<std::size_t>(value)];
    if (v.source != Source::kNode) {
      const std::string name = fmt::format("{}{}", v.source == Source::kInput ? "x" : "p", number_.size());
      record_ += fmt::format("{} {}\n", name, type_text(value));
      return number_[value] = name;
    }
    const Node& node = graph_.nodes[static_cast<std::size_t>(v.node)];
    std::string line = head(node);
    for (int input : ordered(node)) line += " " + walk(input);
    const std::string name = fmt::format("n{}", number_.size());
    for (std::size_t k = 0; k < node.outputs.size(); ++k) number_[node.outputs[k]] = fmt::format("{}.{}", name, k);
    record_ += fmt::format("{} {} {}\n", name, type_text(value), line);
    return number_[value];
  }

  const Graph& graph_;
  const bool sizes_;
  std::vector<std::string> local_;
  std::map<int, std::string> number_;
  std::string record_;
};

}  // namespace

std::string canonical_hash(const Graph& graph, bool sizes) { return Canonical(graph, sizes).hash(); }

std::set<std::string> aten_operators(const Graph& graph) {
  std::set<std::string> all;
  for (const Node& node : graph.nodes)
    if (const OpInfo* info = find_op(node.op)) all.insert(info->aten);
  return all;
}

double work(const Graph& graph) {
  double total = 0;
  for (const Node& node : graph.nodes) {
    double moved = 0, largest = 0;
    for (int v : node.inputs) {
      const double n = static_cast<double>(graph.type(v).numel());
      moved += n * static_cast<double>(dtype_bytes(graph.type(v).dtype));
      largest = std::max(largest, n);
    }
    for (int v : node.outputs) moved += static_cast<double>(graph.type(v).numel()) * static_cast<double>(dtype_bytes(graph.type(v).dtype));
    const OpInfo* info = find_op(node.op);
    double flops = largest;
    if (info != nullptr && (info->cls == OpClass::kMatrix || info->cls == OpClass::kConv) && node.inputs.size() > 1) {
      // Each result sums over all of its operand's other axes: weight.numel() / out channels (conv, linear), last axis (matmul).
      const TensorType& weight = graph.type(node.inputs[1]);
      const double out = static_cast<double>(graph.type(node.outputs[0]).numel());
      const bool product = info->cls == OpClass::kMatrix && node.op != "linear";
      const double terms = product ? static_cast<double>(graph.type(node.inputs[0]).dims.back().size)
                                   : static_cast<double>(weight.numel()) / static_cast<double>(std::max<std::int64_t>(1, weight.dims[0].size));
      flops = 2 * out * terms;
    } else if (info != nullptr && (node.op == "gru" || node.op == "lstm")) {
      // Every weight once for each step of each row.
      const TensorType& x = graph.type(node.inputs[0]);
      double weights = 0;
      for (int v : node.inputs) weights += graph.type(v).rank() == 2 ? static_cast<double>(graph.type(v).numel()) : 0;
      flops = 2 * weights * static_cast<double>(x.numel()) / static_cast<double>(x.dims.back().size);
    }
    total += moved + flops;
  }
  return total;
}

Dim GraphBuilder::dim(std::string name, std::int64_t size) {
  const auto [it, fresh] = graph_.constants.emplace(name, size);
  if (!fresh && it->second != size) fail_with(fmt::format("constant {} is {} and {}", name, it->second, size));
  if (size < 1) fail_with(fmt::format("constant {} is {}; sizes are positive", name, size));
  return {size, std::move(name)};
}

int GraphBuilder::add_value(Value value) {
  if (error_) return -1;
  graph_.values.push_back(std::move(value));
  return static_cast<int>(graph_.values.size()) - 1;
}

int GraphBuilder::input(std::string name, DType dtype, std::vector<Dim> dims, Fill fill, Layout layout, Dim limit) {
  Value value;
  value.name = std::move(name);
  value.type = {dtype, std::move(dims), layout == Layout::kContiguous};
  value.source = Source::kInput;
  value.fill = fill;
  value.layout = layout;
  value.limit = limit;
  if ((fill == Fill::kIndex || fill == Fill::kInteger) && limit.size < 1) fail_with("an input of integers needs a limit");
  if (layout == Layout::kTransposed && value.type.rank() < 2) fail_with("a transposed input needs two axes");
  const int id = add_value(std::move(value));
  if (id >= 0) graph_.inputs.push_back(id);
  return id;
}

int GraphBuilder::parameter(std::string name, DType dtype, std::vector<Dim> dims, Fill fill) {
  Value value;
  value.name = std::move(name);
  value.type = {dtype, std::move(dims), true};
  value.source = Source::kParameter;
  value.fill = fill;
  return add_value(std::move(value));
}

int GraphBuilder::buffer(std::string name, DType dtype, std::vector<Dim> dims, Fill fill) {
  const int id = parameter(std::move(name), dtype, std::move(dims), fill);
  if (id >= 0) graph_.values.back().source = Source::kBuffer;
  return id;
}

int GraphBuilder::op(std::string_view name, std::vector<int> inputs, Attrs attrs) {
  if (error_) return -1;
  const OpInfo* info = find_op(name);
  if (info == nullptr) {
    fail_with(fmt::format("there is no operator {}", name));
    return -1;
  }
  const int count = static_cast<int>(inputs.size());
  if (count < info->least || count > info->most) {
    fail_with(fmt::format("{} takes {} to {} tensors, not {}", name, info->least, info->most, count));
    return -1;
  }
  Node node;
  node.op = info->name;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  std::vector<TensorType> types;
  for (int v : node.inputs) {
    if (v < 0 || v >= static_cast<int>(graph_.values.size())) {
      fail_with(fmt::format("{}: there is no value {}", name, v));
      return -1;
    }
    types.push_back(graph_.type(v));
  }
  Result<std::vector<TensorType>> out = info->infer(types, node);
  if (!out) {
    fail_with(out.error().message);
    return -1;
  }
  for (TensorType& type : *out) {
    for (const Dim& d : type.dims)
      if (d.size < 1) fail_with(fmt::format("{} makes an empty tensor, {}", name, shape_text(type)));
    Value value;
    value.type = std::move(type);
    value.node = static_cast<int>(graph_.nodes.size());
    node.outputs.push_back(add_value(std::move(value)));
  }
  if (error_) return -1;
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs[0];
}

int GraphBuilder::module(std::string name, std::string_view kind, std::string_view op_name, std::vector<int> inputs, Attrs args,
                         Attrs attrs) {
  if (error_) return -1;
  const ModuleInfo* info = find_module(kind);
  if (info == nullptr) {
    fail_with(fmt::format("there is no module nn.{}", kind));
    return -1;
  }
  const int member = static_cast<int>(graph_.modules.size());
  Module module{name, std::string(kind), std::move(args)};
  const DType dtype = inputs.empty() ? DType::kF32 : graph_.type(inputs[0]).dtype;
  Result<std::vector<Value>> state = info->state(module, dtype);
  if (!state) {
    fail_with(state.error().message);
    return -1;
  }
  for (Value& value : *state) {
    value.name = name + "." + value.name;
    value.module = member;
    inputs.push_back(add_value(std::move(value)));
  }
  // What the operator's shape depends on (stride, groups, eps …) are attributes of its node too.
  for (const char* shared : info->shared)
    if (const auto it = module.args.find(shared); it != module.args.end()) attrs.emplace(shared, it->second);
  if (dtype == DType::kF16 || dtype == DType::kBF16)
    if (!state->empty()) module.args.emplace("dtype", Attr(std::string(dtype_name(dtype))));
  graph_.modules.push_back(std::move(module));
  const int y = op(op_name, std::move(inputs), std::move(attrs));
  if (y >= 0) graph_.nodes.back().module = member;
  return y;
}

std::vector<int> GraphBuilder::begin_like(const Graph& graph) {
  graph_.constants = graph.constants;
  graph_.constructor = graph.constructor;
  graph_.modules = graph.modules;
  std::vector<int> places(graph.values.size(), -1);
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].source != Source::kNode) places[v] = add_value(graph.values[v]);
  for (int v : graph.inputs) graph_.inputs.push_back(places[static_cast<std::size_t>(v)]);
  return places;
}

int GraphBuilder::copy(const Node& node, std::vector<int> inputs) {
  const int value = op(node.op, std::move(inputs), node.attrs);
  if (value >= 0) graph_.nodes.back().module = node.module;
  return value;
}

int GraphBuilder::result(int index) const {
  if (error_ || graph_.nodes.empty()) return -1;
  const std::vector<int>& outputs = graph_.nodes.back().outputs;
  return index < static_cast<int>(outputs.size()) ? outputs[static_cast<std::size_t>(index)] : -1;
}

void GraphBuilder::output(int value) {
  if (error_) return;
  if (value < 0 || value >= static_cast<int>(graph_.values.size())) return fail_with(fmt::format("output: there is no value {}", value));
  graph_.outputs.push_back(value);
}

const TensorType& GraphBuilder::type(int value) const {
  static const TensorType none;
  return value < 0 || value >= static_cast<int>(graph_.values.size()) ? none : graph_.type(value);
}

void GraphBuilder::fail_with(std::string message) {
  if (!error_) error_ = Error{Code::kInvalidArgument, std::move(message)};
}

Result<Graph> GraphBuilder::build() {
  std::optional<Error> error = std::move(error_);
  error_.reset();
  Graph graph = std::move(graph_);
  graph_ = {};
  if (error) return tl::unexpected<Error>(std::move(*error));
  if (graph.outputs.empty()) return fail(Code::kInvalidArgument, "the graph has no output");
  return graph;
}

}  // namespace musacoder::synth
