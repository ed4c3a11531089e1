#include "synth/teacher/reducer.h"

#include <cmath>

#include "synth/teacher/writer.h"

namespace musacoder::synth {
namespace {

void replace_all(std::string& text, const std::string& word, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += by.size()) text.replace(at, word.size(), by);
}

std::string lowest(DType dtype) {
  if (is_float(dtype)) return "-INFINITY";
  return dtype == DType::kI64 ? "(-9223372036854775807LL - 1)" : dtype == DType::kBool ? "false" : "(-2147483647 - 1)";
}
std::string highest(DType dtype) {
  if (is_float(dtype)) return "INFINITY";
  return dtype == DType::kI64 ? "9223372036854775807LL" : dtype == DType::kBool ? "true" : "2147483647";
}

Reducer extremum(DType dtype, bool largest, bool index_only, bool with_index) {
  const std::string type = Writer::compute_type(dtype), sign = largest ? ">" : "<";
  Reducer r;
  r.words = largest ? "largest element" : "smallest element";
  if (!index_only && !with_index) {
    r.state = {{"best", type, largest ? lowest(dtype) : highest(dtype)}};
    r.step = fmt::format("if (VALUE {} best) best = VALUE;\n", sign);
    r.merge = fmt::format("if (other_best {} best) best = other_best;\n", sign);
    r.results = {"best"};
    return r;
  }
  r.words += " and where it is";
  r.state = {{"best", type, largest ? lowest(dtype) : highest(dtype)}, {"best_index", "int", "0"}};
  r.step = fmt::format("if (VALUE {} best) {{\n  best = VALUE;\n  best_index = INDEX;\n}}\n", sign);
  r.merge = fmt::format("if (other_best {} best || (other_best == best && other_best_index < best_index)) {{\n  best = other_best;\n  best_index = other_best_index;\n}}\n", sign);
  if (with_index) r.results = {"best", "best_index"};
  else r.results = {"best_index"};
  return r;
}

}  // namespace

std::string with_element(std::string text, const std::string& value, const std::string& index, const std::string& count) {
  replace_all(text, "VALUE", value);
  replace_all(text, "INDEX", index);
  replace_all(text, "COUNT", count);
  return text;
}

Reducer sum_of(const std::string& name, const std::string& expression, const std::string& words) {
  Reducer r;
  r.state = {{name, "float", "0.0f"}};
  r.step = fmt::format("{} += {};\n", name, expression);
  r.merge = fmt::format("{0} += other_{0};\n", name);
  r.results = {name};
  r.words = words;
  return r;
}

Reducer maximum_of(const std::string& name, const std::string& expression) {
  Reducer r;
  r.state = {{name, "float", "-INFINITY"}};
  r.step = fmt::format("{0} = fmaxf({0}, {1});\n", name, expression);
  r.merge = fmt::format("{0} = fmaxf({0}, other_{0});\n", name);
  r.results = {name};
  r.words = "largest element";
  return r;
}

Reducer online_exponentials(const std::string& peak, const std::string& sum) {
  Reducer r;
  r.state = {{peak, "float", "-INFINITY"}, {sum, "float", "0.0f"}};
  r.step = fmt::format("if (VALUE > {0}) {{\n  {1} = {1} * expf({0} - VALUE) + 1.0f;\n  {0} = VALUE;\n}} else {{\n  {1} += expf(VALUE - {0});\n}}\n", peak, sum);
  r.merge = fmt::format("const float top = fmaxf({0}, other_{0});\nif (top > -INFINITY) {1} = {1} * expf({0} - top) + other_{1} * expf(other_{0} - top);\n{0} = top;\n", peak, sum);
  r.results = {fmt::format("{} + logf({})", peak, sum)};
  r.words = "running maximum and the sum of exponentials relative to it";
  return r;
}

Reducer welford(const std::string& mean, const std::string& squares, const std::string& count) {
  Reducer r;
  r.state = {{mean, "float", "0.0f"}, {squares, "float", "0.0f"}, {count, "float", "0.0f"}};
  r.step = fmt::format("{2} += 1.0f;\nconst float delta = VALUE - {0};\n{0} += delta / {2};\n{1} += delta * (VALUE - {0});\n", mean, squares, count);
  r.merge = fmt::format(
      "const float both = {2} + other_{2};\nif (both > 0.0f) {{\n  const float delta = other_{0} - {0};\n  {0} += delta * other_{2} / both;\n  {1} += other_{1} + delta * delta * {2} * other_{2} / both;\n}}\n{2} = both;\n",
      mean, squares, count);
  r.results = {mean};
  r.words = "mean and sum of squared deviations (Welford)";
  return r;
}

Result<Reducer> reducer_of(const Graph& graph, const Node& node) {
  const DType dtype = graph.type(node.inputs[0]).dtype;
  const bool whole = !is_float(dtype);
  if (dtype == DType::kF64) return fail(Code::kUnsupported, "{} of float64", node.op);
  Reducer r;
  if (node.op == "sum" || node.op == "mean") {
    r = sum_of("acc", "VALUE", "sum of the elements");
    if (whole) r.state[0] = {"acc", "int64_t", "0"};
    if (node.op == "mean") r.results = {"acc / COUNT"}, r.words = "mean of the elements";
  } else if (node.op == "prod") {
    r.state = {{"acc", whole ? "int64_t" : "float", whole ? "1" : "1.0f"}};
    r.step = "acc *= VALUE;\n";
    r.merge = "acc *= other_acc;\n";
    r.results = {"acc"};
    r.words = "product of the elements";
  } else if (node.op == "amax" || node.op == "amin") {
    r = extremum(dtype, node.op == "amax", false, false);
  } else if (node.op == "argmax" || node.op == "argmin") {
    r = extremum(dtype, node.op == "argmax", true, false);
  } else if (node.op == "max_with_index" || node.op == "min_with_index") {
    r = extremum(dtype, node.op == "max_with_index", false, true);
  } else if (node.op == "var" || node.op == "std") {
    r = welford("mean", "squares", "seen");
    const std::string variance = fmt::format("squares / (COUNT - {:.1f}f)", node.number("correction", 1));
    r.results = {node.op == "std" ? "sqrtf(" + variance + ")" : variance};
  } else if (node.op == "norm") {
    const double p = node.number("p", 2);
    if (std::isinf(p)) {
      r = maximum_of("acc", "fabsf(VALUE)");
      r.state[0].start = "0.0f";
      r.words = "largest absolute value";
    } else if (p == 1) {
      r = sum_of("acc", "fabsf(VALUE)", "sum of absolute values");
    } else if (p == 2) {
      r = sum_of("acc", "VALUE * VALUE", "sum of squares");
      r.results = {"sqrtf(acc)"};
    } else {
      return fail(Code::kUnsupported, "norm of order {}", p);
    }
  } else if (node.op == "logsumexp") {
    r = online_exponentials("peak", "acc");
  } else if (node.op == "any" || node.op == "all") {
    const bool any = node.op == "any";
    r.state = {{"acc", "int", any ? "0" : "1"}};
    r.step = fmt::format("acc {} (VALUE != {}) ? 1 : 0;\n", any ? "|=" : "&=", Writer::number(dtype, 0));
    r.merge = any ? "acc |= other_acc;\n" : "acc &= other_acc;\n";
    r.results = {"acc != 0"};
    r.words = any ? "whether any element is not zero" : "whether all elements are not zero";
  } else if (node.op == "count_nonzero") {
    r.state = {{"acc", "int64_t", "0"}};
    r.step = fmt::format("acc += (VALUE != {}) ? 1 : 0;\n", Writer::number(dtype, 0));
    r.merge = "acc += other_acc;\n";
    r.results = {"acc"};
    r.words = "number of elements that are not zero";
  } else {
    return fail(Code::kUnsupported, "{} has no reducer", node.op);
  }
  return r;
}

}  // namespace musacoder::synth
