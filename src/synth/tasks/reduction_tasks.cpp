// Archetypes of reductions: along any axis, with something before and after.
#include "synth/tasks/tasks.h"

namespace musacoder::synth {
namespace {

constexpr const char* kDomain = "reduction";

int before(GraphBuilder& b, Seeded& draw, int x, std::string& said) {
  const char* op = draw.choose({"square", "abs", "exp", "tanh", "relu", "sigmoid", "gelu"});
  said += " of the " + words(op);
  return b.op(op, {x});
}

int after(GraphBuilder& b, Seeded& draw, int x, std::string& said) {
  switch (draw.below(4)) {
    case 0: said += ", scaled"; return b.op("mul", {x}, {{"scalar", draw.choose({0.5, 0.1, 2.0})}});
    case 1: said += ", shifted"; return b.op("add", {x}, {{"scalar", draw.choose({1.0, -0.5})}});
    case 2: said += ", then tanh"; return b.op("tanh", {x});
    default: said += ", then a square root of its magnitude"; return b.op("sqrt", {b.op("abs", {x})});
  }
}

Attrs axes_of(Seeded& draw, int rank, bool one, std::string& said) {
  Attrs attrs;
  if (!one && draw.chance(0.2) && rank >= 3) {
    const bool tail = draw.chance(0.7);
    attrs["dim"] = tail ? std::vector<std::int64_t>{rank - 2, rank - 1} : std::vector<std::int64_t>{0, rank - 1};
    said += tail ? " over the last two axes" : " over the first and the last axis";
  } else {
    const std::int64_t dim = draw.chance(0.35) ? -1 : draw.between(0, rank - 1);
    attrs["dim"] = draw.chance(0.5) ? Attr::named("dim", dim) : Attr(dim);
    said += dim == -1 ? " over the last axis" : fmt::format(" over axis {}", dim);
  }
  if (draw.chance(0.45)) attrs["keepdim"] = true;
  return attrs;
}

void along_axis(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const char* op = draw.choose({"sum", "mean", "amax", "amin", "var", "std", "logsumexp", "sum", "mean"});
  const int rank = draw.choose({2, 2, 3, 3, 4});
  int x = b.input("x", draw_float(draw), draw_shape(b, draw, rank), Fill::kNormal, draw_layout(draw, rank));
  std::string said = words(op);
  said[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(said[0])));
  if (draw.chance(0.35)) x = before(b, draw, x, said);
  const Attrs attrs = axes_of(draw, rank, false, said);
  int y = b.op(op, {x}, attrs);
  if (draw.chance(0.35)) y = after(b, draw, y, said);
  b.output(y);
  summary = said + ".";
}

void vector_norm(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({2, 3});
  const int x = b.input("x", draw_float(draw), draw_shape(b, draw, rank));
  const std::int64_t p = draw.choose({1, 2, 2});
  std::string said = fmt::format("The L{} norm", p);
  Attrs attrs = axes_of(draw, rank, true, said);
  attrs["p"] = p;
  b.output(b.op("norm", {x}, attrs));
  summary = said + ".";
}

void arg_extremum(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({2, 3});
  const int x = b.input("x", DType::kF32, draw_shape(b, draw, rank));
  const bool largest = draw.chance(0.5);
  std::string said = fmt::format("Index of the {} element", largest ? "largest" : "smallest");
  b.output(b.op(largest ? "argmax" : "argmin", {x}, axes_of(draw, rank, true, said)));
  summary = said + ".";
}

void extremum_with_index(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({2, 3});
  const int x = b.input("x", DType::kF32, draw_shape(b, draw, rank));
  const bool largest = draw.chance(0.6);
  std::string said = fmt::format("The {} element and its index", largest ? "largest" : "smallest");
  b.op(largest ? "max_with_index" : "min_with_index", {x}, axes_of(draw, rank, true, said));
  const int values = b.result(0), indices = b.result(1);
  b.output(values);
  b.output(indices);
  summary = said + ".";
}

void counting(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int x = b.input("x", DType::kF32, draw_shape(b, draw, 2));
  const double at = draw.choose({0.5, 1.0, -0.5, 1.5});
  const int mask = b.op("gt", {x}, {{"scalar", at}});
  Attrs attrs{{"dim", draw.chance(0.7) ? 1 : 0}};
  b.output(b.op(draw.choose({"count_nonzero", "sum"}), {mask}, attrs));
  summary = fmt::format("How many elements are greater than {}, along one axis.", at);
}

void product(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const Dim rows = b.dim("rows", draw.between(64, 4096)), cols = b.dim("cols", draw.between(16, 200));
  const int x = b.input("x", DType::kF32, {rows, cols}, Fill::kNearOne);
  Attrs attrs{{"dim", 1}};
  if (draw.chance(0.4)) attrs["keepdim"] = true;
  b.output(b.op("prod", {x}, attrs));
  summary = "Product of each row's elements.";
}

void whole_tensor(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const char* op = draw.choose({"sum", "mean", "amax", "norm", "var"});
  const int rank = draw.choose({1, 2, 3});
  int x = b.input("x", DType::kF32, draw_shape(b, draw, rank));
  std::string said = words(op);
  said[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(said[0])));
  if (draw.chance(0.5)) x = before(b, draw, x, said);
  b.output(b.op(op, {x}));
  summary = said + " over all elements.";
}

void weighted(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({2, 3}));
  const int x = b.input("x", DType::kF32, dims);
  const int w = draw.chance(0.5) ? b.parameter("weight", DType::kF32, {dims.back()}, Fill::kNormal) : b.input("y", DType::kF32, dims);
  Attrs attrs{{"dim", -1}};
  if (draw.chance(0.5)) attrs["keepdim"] = true;
  b.output(b.op("sum", {b.op("mul", {x, w})}, attrs));
  summary = "Weighted sum along the last axis.";
}

void whole_number_sum(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const DType dtype = draw.choose({DType::kI32, DType::kI64});
  const int x = b.input("x", dtype, draw_shape(b, draw, 2), Fill::kInteger, Layout::kContiguous, literal(1000));
  const char* op = draw.choose({"sum", "amax", "amin"});
  b.output(b.op(op, {x}, {{"dim", draw.chance(0.6) ? 1 : 0}}));
  summary = fmt::format("The {} of whole numbers along one axis.", words(op));
}

// The reduced value is broadcast back: two kernels, or one that keeps the row.
void centred(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int x = b.input("x", DType::kF32, draw_shape(b, draw, draw.choose({2, 3})));
  const char* op = draw.choose({"mean", "amax", "sum"});
  const int m = b.op(op, {x}, {{"dim", -1}, {"keepdim", true}});
  int y = b.op("sub", {x, m});
  summary = fmt::format("Subtracts each row's {}", words(op));
  if (draw.chance(0.5)) {
    y = b.op("abs", {y});
    summary += " and takes magnitudes";
  }
  summary += ".";
  b.output(y);
}

}  // namespace

const std::vector<Archetype>& reduction_archetypes() {
  static const std::vector<Archetype> table = {
      {kDomain, "reduction", "reduction.along_axis", along_axis},
      {kDomain, "reduction", "reduction.norm", vector_norm},
      {kDomain, "reduction", "reduction.whole", whole_tensor},
      {kDomain, "reduction", "reduction.product", product},
      {kDomain, "reduction", "reduction.weighted", weighted},
      {kDomain, "reduction", "reduction.whole_numbers", whole_number_sum},
      {kDomain, "reduction", "reduction.centred", centred},
      {"comparison_logic", "arg_extremum", "comparison.arg_extremum", arg_extremum},
      {"comparison_logic", "arg_extremum", "comparison.extremum_with_index", extremum_with_index},
      {"comparison_logic", "reduction", "comparison.counting", counting},
  };
  return table;
}

}  // namespace musacoder::synth
