// Archetypes that are element-wise altogether: activations, arithmetic, comparisons and choices, casts.
#include "synth/tasks/tasks.h"

namespace musacoder::synth {
namespace {

const std::vector<const char*> kActivations = {"relu", "relu6", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign",
                                               "sigmoid", "tanh", "logsigmoid", "hardtanh", "hardswish", "hardsigmoid", "leaky_relu",
                                               "tanhshrink", "softshrink", "hardshrink", "threshold"};

Attrs activation_attrs(Seeded& draw, const std::string& op) {
  Attrs attrs;
  if (op == "leaky_relu" && draw.chance(0.7))
    attrs["negative_slope"] = draw.chance(0.5) ? Attr::named("negative_slope", draw.choose({0.1, 0.2, 0.05})) : Attr(draw.choose({0.1, 0.2}));
  if ((op == "elu" || op == "celu") && draw.chance(0.5)) attrs["alpha"] = draw.choose({0.5, 1.5, 2.0});
  if (op == "softplus" && draw.chance(0.3)) attrs["beta"] = draw.choose({2.0, 0.5});
  if (op == "gelu" && draw.chance(0.5)) attrs["approximate"] = "tanh";
  if (op == "hardtanh" && draw.chance(0.5)) attrs["min_val"] = draw.choose({-2.0, -0.5}), attrs["max_val"] = draw.choose({2.0, 0.5});
  if ((op == "softshrink" || op == "hardshrink") && draw.chance(0.5)) attrs["lambd"] = draw.choose({0.25, 1.0});
  if (op == "threshold") attrs["threshold"] = draw.choose({0.1, 0.5}), attrs["value"] = draw.choose({-1.0, 0.0, 2.0});
  return attrs;
}

int activate(GraphBuilder& b, Seeded& draw, int x, std::string& said) {
  const std::string op = draw.choose(kActivations);
  said += (said.empty() ? "" : ", then ") + words(op);
  return b.op(op, {x}, activation_attrs(draw, op));
}

Fill draw_fill(Seeded& draw) { return draw.choose({Fill::kNormal, Fill::kNormal, Fill::kNormal, Fill::kUniform, Fill::kSigned, Fill::kWide}); }

int drawn_input(GraphBuilder& b, Seeded& draw, const char* name = "x") {
  const int rank = draw.choose({1, 2, 2, 3, 4});
  return b.input(name, draw_float(draw), draw_shape(b, draw, rank), draw_fill(draw), draw_layout(draw, rank));
}

void activation(GraphBuilder& b, Seeded& draw, std::string& summary) {
  std::string said;
  b.output(activate(b, draw, drawn_input(b, draw), said));
  summary = fmt::format("Applies {} to every element.", said);
}

void activation_chain(GraphBuilder& b, Seeded& draw, std::string& summary) {
  std::string said;
  int x = drawn_input(b, draw);
  const std::int64_t steps = draw.between(2, 4);
  for (std::int64_t k = 0; k < steps; ++k) {
    if (draw.chance(0.65)) {
      x = activate(b, draw, x, said);
    } else if (draw.chance(0.5)) {
      const double by = draw.choose({0.5, 2.0, 1.5, 0.1});
      x = b.op("mul", {x}, {{"scalar", draw.chance(0.4) && k == 0 ? Attr::named("scaling_factor", by) : Attr(by)}});
      said += fmt::format("{}a scale by {}", said.empty() ? "" : ", then ", by);
    } else {
      const double by = draw.choose({0.5, 1.0, -1.0, 2.0});
      x = b.op("add", {x}, {{"scalar", by}});
      said += fmt::format("{}a shift by {}", said.empty() ? "" : ", then ", by);
    }
  }
  b.output(x);
  summary = fmt::format("An element-wise chain: {}.", said);
}

void swish_forms(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int x = drawn_input(b, draw);
  const char* gate = draw.choose({"sigmoid", "tanh", "hardsigmoid", "softplus"});
  int g = x;
  if (draw.chance(0.4)) g = b.op("mul", {g}, {{"scalar", Attr::named("beta", draw.choose({1.5, 2.0, 1.702}))}});
  b.output(b.op("mul", {x, b.op(gate, {g})}));
  summary = fmt::format("The input gated by its own {}.", words(gate));
}

// Two halves of the last axis, one gating the other.
void gated(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const DType dtype = draw_float(draw);
  std::vector<Dim> dims = draw_shape(b, draw, draw.choose({2, 3}));
  const char* gate = draw.choose({"sigmoid", "silu", "gelu", "relu", "tanh"});
  if (draw.chance(0.5)) {
    const int a = b.input("gate", dtype, dims), c = b.input("value", dtype, dims);
    b.output(b.op("mul", {b.op(gate, {a}), c}));
    summary = fmt::format("Multiplies values by the {} of a gate.", words(gate));
    return;
  }
  dims.back().name = "2 * " + dims.back().name;
  dims.back().size *= 2;
  const int x = b.input("x", dtype, dims);
  b.op("chunk", {x}, {{"chunks", 2}, {"dim", -1}});
  const int left = b.result(0), right = b.result(1);
  b.output(b.op("mul", {b.op(gate, {left}), right}));
  summary = fmt::format("A gated unit: {} of the first half of the last axis times the second half.", words(gate));
}

void prelu(GraphBuilder& b, Seeded& draw, std::string& summary) {
  std::vector<Dim> dims = draw_shape(b, draw, 4);
  const int x = b.input("x", DType::kF32, dims);
  const int slopes = b.parameter("slope", DType::kF32, {dims[1]}, Fill::kUniform);
  b.output(b.op("prelu", {x, slopes}));
  summary = "PReLU with one learned slope for each channel.";
}

// A second operand that is broadcast: a row, a column, a channel, a number.
std::vector<Dim> broadcast_shape(Seeded& draw, const std::vector<Dim>& dims) {
  std::vector<Dim> shape = dims;
  if (dims.size() < 2 || draw.chance(0.25)) return shape;
  switch (draw.below(4)) {
    case 0: return {dims.back()};                              // along the last axis
    case 1: shape.back() = literal(1); return shape;           // one number a row
    case 2: {                                                  // channels
      if (dims.size() < 3) return {dims.back()};
      std::vector<Dim> channel{dims[1]};
      for (std::size_t d = 2; d < dims.size(); ++d) channel.push_back(literal(1));
      return channel;
    }
    default: shape.front() = literal(1); return shape;         // the same for the whole batch
  }
}

void arithmetic(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const DType dtype = draw_float(draw);
  const int rank = draw.choose({2, 2, 3, 4});
  const std::vector<Dim> dims = draw_shape(b, draw, rank);
  const char* op = draw.choose({"add", "sub", "mul", "div", "maximum", "minimum", "add", "mul"});
  const bool divides = std::string(op) == "div";
  const int x = b.input("x", dtype, dims, Fill::kNormal, draw_layout(draw, rank));
  const int y = b.input("y", dtype, broadcast_shape(draw, dims), divides ? Fill::kPositive : Fill::kNormal);
  Attrs attrs;
  if ((std::string(op) == "add" || std::string(op) == "sub") && draw.chance(0.2)) attrs["alpha"] = draw.choose({0.5, 2.0});
  int z = draw.chance(0.85) || divides ? b.op(op, {x, y}, attrs) : b.op(op, {y, x}, attrs);
  summary = fmt::format("Element-wise {} of two tensors that are broadcast against each other", words(op));
  if (draw.chance(0.4)) {
    std::string said;
    z = activate(b, draw, z, said);
    summary += ", followed by " + said;
  }
  summary += ".";
  b.output(z);
}

void outer_sum(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const Dim m = b.dim("rows", draw.between(64, 4096)), n = b.dim("cols", draw.between(64, 4096));
  const int x = b.input("x", DType::kF32, {m, literal(1)}), y = b.input("y", DType::kF32, {n});
  const char* op = draw.choose({"add", "sub", "mul", "maximum", "hypot"});
  int z = b.op(op, {x, y});
  if (draw.chance(0.5)) z = b.op(draw.choose({"abs", "tanh", "square", "relu"}), {z});
  b.output(z);
  summary = fmt::format("All pairs of a column's and a row's elements, combined by {}.", words(op));
}

void functions(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({1, 2, 3});
  const char* op = draw.choose({"exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "atan", "asinh", "erf",
                                "erfc", "exp2", "sinc", "square", "abs", "tanh"});
  const std::string name = op;
  const bool positive = name.rfind("log", 0) == 0 || name == "sqrt" || name == "rsqrt" || name == "reciprocal";
  int x = b.input("x", draw_float(draw), draw_shape(b, draw, rank), positive ? Fill::kPositive : Fill::kNormal, draw_layout(draw, rank));
  x = b.op(op, {x});
  summary = fmt::format("The function {} of every element", words(op));
  if (draw.chance(0.5)) {
    const double a = draw.choose({0.5, 2.0, 3.0}), c = draw.choose({0.1, 1.0, -1.0});
    x = b.op("add", {b.op("mul", {x}, {{"scalar", a}})}, {{"scalar", c}});
    summary += ", scaled and shifted";
  }
  summary += ".";
  b.output(x);
}

void polynomial(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int x = b.input("x", DType::kF32, draw_shape(b, draw, draw.choose({1, 2, 3})), Fill::kSigned);
  const std::int64_t degree = draw.between(2, 4);
  int y = b.op("mul", {x}, {{"scalar", draw.choose({0.25, 0.5, 2.0})}});
  for (std::int64_t k = 1; k < degree; ++k) y = b.op("mul", {b.op("add", {y}, {{"scalar", draw.choose({1.0, -0.5, 0.75})}}), x});
  b.output(b.op("add", {y}, {{"scalar", 1.0}}));
  summary = fmt::format("A polynomial of degree {} by Horner's rule.", degree);
}

void ternary(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const DType dtype = draw_float(draw);
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({2, 3}));
  const char* op = draw.choose({"lerp", "lerp", "addcmul", "addcdiv", "clamp_tensor"});
  const std::string name = op;
  const int x = b.input("x", dtype, dims), y = b.input("y", dtype, broadcast_shape(draw, dims));
  if (name == "lerp" && draw.chance(0.5)) {
    b.output(b.op("lerp", {x, y}, {{"weight", draw.chance(0.5) ? Attr::named("weight", draw.choose({0.3, 0.7})) : Attr(draw.choose({0.25, 0.9}))}}));
    summary = "Linear interpolation between two tensors with a fixed weight.";
    return;
  }
  if (name == "clamp_tensor") {
    const int low = b.op("sub", {b.op("abs", {y})}, {{"scalar", 2.0}});
    const int high = b.op("add", {b.op("abs", {y})}, {{"scalar", 0.5}});
    b.output(b.op("clamp_tensor", {x, low, high}));
    summary = "Clamps each element between bounds that depend on a second tensor.";
    return;
  }
  const int z = b.input("z", dtype, dims, name == "lerp" ? Fill::kUniform : name == "addcdiv" ? Fill::kPositive : Fill::kNormal);
  Attrs attrs;
  if (name != "lerp" && draw.chance(0.7)) attrs["value"] = draw.choose({0.5, 2.0, -0.1});
  b.output(b.op(op, {x, y, z}, attrs));
  summary = name == "lerp" ? "Linear interpolation with a weight for each element." : fmt::format("The combined operator {} of three tensors.", name);
}

void two_argument_functions(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const char* op = draw.choose({"atan2", "hypot", "copysign", "xlogy", "logaddexp", "fmod", "pow"});
  const std::string name = op;
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({1, 2, 3}));
  const bool positive = name == "xlogy" || name == "fmod" || name == "pow";
  const int x = b.input("x", DType::kF32, dims, name == "pow" || name == "xlogy" ? Fill::kPositive : Fill::kNormal);
  const int y = b.input("y", DType::kF32, name == "fmod" ? dims : broadcast_shape(draw, dims), positive ? Fill::kPositive : Fill::kNormal);
  b.output(b.op(op, {x, y}));
  summary = fmt::format("The two-argument function {} of each pair of elements.", name);
}

void whole_numbers(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const DType dtype = draw.choose({DType::kI32, DType::kI32, DType::kI64, DType::kI16, DType::kI8, DType::kU8});
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({1, 2, 3}));
  const bool narrow = dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI16;
  const Dim limit = literal(narrow ? 100 : 10000);
  const int x = b.input("x", dtype, dims, Fill::kInteger, Layout::kContiguous, limit);
  const int y = b.input("y", dtype, broadcast_shape(draw, dims), Fill::kInteger, Layout::kContiguous, limit);
  const char* op = draw.choose({"add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"});
  int z = b.op(op, {x, y});
  summary = fmt::format("Whole numbers combined by {}", words(op));
  if (draw.chance(0.5)) {
    const std::int64_t by = draw.choose({3, 7, 10, 16});
    z = b.op("remainder", {z}, {{"scalar", by}});
    summary += fmt::format(", modulo {}", by);
  }
  summary += ".";
  b.output(z);
}

void selection(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const DType dtype = draw_float(draw);
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({2, 3, 4}));
  const int x = b.input("x", dtype, dims);
  const char* compare = draw.choose({"gt", "lt", "ge", "le"});
  const double at = draw.choose({0.0, 0.5, -0.5, 1.0});
  switch (draw.below(3)) {
    case 0: {
      const int y = b.input("y", dtype, dims);
      b.output(b.op("where", {b.op(compare, {x, y}), x, b.op("mul", {y}, {{"scalar", draw.choose({0.5, 2.0, -1.0})}})}));
      summary = "Chooses between two tensors by comparing them, the second one scaled.";
      break;
    }
    case 1: {
      const int mask = b.op(compare, {x}, {{"scalar", draw.chance(0.4) ? Attr::named("threshold", at) : Attr(at)}});
      b.output(b.op("masked_fill", {x, mask}, {{"value", draw.choose({0.0, -1.0, 3.0})}}));
      summary = "Replaces the elements on one side of a threshold.";
      break;
    }
    default: {
      const int mask = b.input("mask", DType::kBool, broadcast_shape(draw, dims), Fill::kMask);
      b.output(b.op("where", {mask, b.op("tanh", {x}), b.op("mul", {x}, {{"scalar", draw.choose({0.1, 0.5})}})}));
      summary = "Two functions of the input, chosen by a mask.";
    }
  }
}

void predicates(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const DType dtype = draw_float(draw);
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({2, 3}));
  const int x = b.input("x", dtype, dims), y = b.input("y", dtype, broadcast_shape(draw, dims));
  const int p = b.op(draw.choose({"gt", "lt", "ge"}), {x, y});
  const int q = b.op(draw.choose({"gt", "lt"}), {x}, {{"scalar", draw.choose({0.0, 0.5, -0.5})}});
  const char* join = draw.choose({"logical_and", "logical_or", "logical_xor"});
  int z = b.op(join, {p, q});
  summary = fmt::format("Two comparisons joined by {}", words(join));
  if (draw.chance(0.6)) {
    z = b.op("to", {z}, {{"dtype", "float32"}});
    summary += ", as numbers";
  }
  summary += ".";
  b.output(z);
}

void rounding(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int x = b.input("x", DType::kF32, draw_shape(b, draw, draw.choose({1, 2, 3})), Fill::kWide);
  const char* op = draw.choose({"floor", "ceil", "trunc", "sign", "frac"});
  int y = b.op(op, {x});
  const bool mixed = draw.chance(0.5);
  if (mixed) y = b.op("add", {y, b.op("mul", {x}, {{"scalar", 0.25}})});
  b.output(y);
  summary = fmt::format("The operator {} on every element{}.", op, mixed ? ", plus a quarter of the input" : "");
}

void cast_chain(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({1, 2, 3, 4}));
  switch (draw.below(4)) {
    case 0: {
      const DType from = draw.choose({DType::kF16, DType::kBF16});
      const int x = b.op("to", {b.input("x", from, dims)}, {{"dtype", "float32"}});
      b.output(b.op("add", {b.op("mul", {x}, {{"scalar", draw.choose({0.5, 2.0})}})}, {{"scalar", draw.choose({1.0, -0.25})}}));
      summary = "Widens half precision to float32 and applies an affine map.";
      break;
    }
    case 1: {
      const int x = b.op("clamp", {b.input("x", DType::kF32, dims, Fill::kWide)}, {{"min", -100.0}, {"max", 100.0}});
      b.output(b.op("to", {x}, {{"dtype", draw.choose({"int32", "int8", "int64", "int16"})}}));
      summary = "Clamps and truncates to whole numbers.";
      break;
    }
    case 2: {
      const DType from = draw.choose({DType::kU8, DType::kI8, DType::kI32});
      const int x = b.op("to", {b.input("q", from, dims, Fill::kInteger, Layout::kContiguous, literal(100))}, {{"dtype", "float32"}});
      const int scale = b.input("scale", DType::kF32, {dims.back()}, Fill::kPositive);
      b.output(b.op("mul", {b.op("sub", {x}, {{"scalar", draw.choose({0.0, 8.0, 128.0})}}), scale}));
      summary = "Dequantises: subtracts the zero point and multiplies by a scale for each column.";
      break;
    }
    default: {
      const int x = b.input("x", DType::kF32, dims);
      b.output(b.op("to", {b.op(draw.choose({"relu", "tanh", "sigmoid", "silu"}), {x})}, {{"dtype", draw.choose({"float16", "bfloat16"})}}));
      summary = "An activation in float32 whose result is kept in half precision.";
    }
  }
}

constexpr const char* kActivation = "activation";
constexpr const char* kMaths = "maths";
constexpr const char* kLogic = "comparison_logic";

}  // namespace

const std::vector<Archetype>& elementwise_archetypes() {
  static const std::vector<Archetype> table = {
      {kActivation, "elementwise", "activation.single", activation},
      {kActivation, "elementwise", "activation.chain", activation_chain},
      {kActivation, "elementwise", "activation.self_gated", swish_forms},
      {kActivation, "elementwise", "activation.gated", gated},
      {kActivation, "elementwise", "activation.prelu", prelu},
      {kMaths, "broadcast", "maths.arithmetic", arithmetic},
      {kMaths, "broadcast", "maths.outer", outer_sum},
      {kMaths, "elementwise", "maths.functions", functions},
      {kMaths, "elementwise", "maths.polynomial", polynomial},
      {kMaths, "broadcast", "maths.ternary", ternary},
      {kMaths, "broadcast", "maths.two_arguments", two_argument_functions},
      {kMaths, "integer", "maths.whole_numbers", whole_numbers},
      {kLogic, "logic", "comparison.selection", selection},
      {kLogic, "logic", "comparison.predicates", predicates},
      {kLogic, "logic", "comparison.rounding", rounding},
      {"interpolation_cast", "cast", "cast.chain", cast_chain},
  };
  return table;
}

}  // namespace musacoder::synth
