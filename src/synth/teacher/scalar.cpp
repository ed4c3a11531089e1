#include "synth/teacher/scalar.h"

#include <cctype>
#include <cmath>
#include <unordered_map>

#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

// {0}, {1}, {2} operands; {name} a number attribute; @ the suffix of float functions and literals ("f" or "").
using Table = std::unordered_map<std::string_view, const char*>;

const Table& float_table() {
  static const Table table = {
      {"relu", "{0} < 0.0@ ? 0.0@ : {0}"},
      {"relu6", "{0} < 0.0@ ? 0.0@ : ({0} > 6.0@ ? 6.0@ : {0})"},
      {"elu", "{0} > 0.0@ ? {0} : {alpha} * expm1@({0})"},
      {"selu", "1.0507009873554805@ * ({0} > 0.0@ ? {0} : 1.6732632423543773@ * expm1@({0}))"},
      {"celu", "{0} > 0.0@ ? {0} : {alpha} * expm1@({0} / {alpha})"},
      {"silu", "{0} / (1.0@ + exp@(-{0}))"},
      {"mish", "{0} * tanh@({0} > 20.0@ ? {0} : log1p@(exp@({0})))"},
      {"softplus", "{0} * {beta} > {threshold} ? {0} : log1p@(exp@({0} * {beta})) / {beta}"},
      {"softsign", "{0} / (1.0@ + fabs@({0}))"},
      {"sigmoid", "1.0@ / (1.0@ + exp@(-{0}))"},
      {"tanh", "tanh@({0})"},
      {"logsigmoid", "fmin@({0}, 0.0@) - log1p@(exp@(-fabs@({0})))"},
      {"hardtanh", "{0} < {min_val} ? {min_val} : ({0} > {max_val} ? {max_val} : {0})"},
      {"hardswish", "{0} * fmin@(fmax@({0} + 3.0@, 0.0@), 6.0@) / 6.0@"},
      {"hardsigmoid", "fmin@(fmax@({0} + 3.0@, 0.0@), 6.0@) / 6.0@"},
      {"leaky_relu", "{0} > 0.0@ ? {0} : {0} * {negative_slope}"},
      {"tanhshrink", "{0} - tanh@({0})"},
      {"softshrink", "{0} > {lambd} ? {0} - {lambd} : ({0} < -{lambd} ? {0} + {lambd} : 0.0@)"},
      {"hardshrink", "({0} >= -{lambd} && {0} <= {lambd}) ? 0.0@ : {0}"},
      {"threshold", "{0} > {threshold} ? {0} : {value}"},
      {"prelu", "{0} > 0.0@ ? {0} : {1} * {0}"},
      {"neg", "-{0}"},
      {"abs", "fabs@({0})"},
      {"exp", "exp@({0})"},
      {"exp2", "exp2@({0})"},
      {"expm1", "expm1@({0})"},
      {"log", "log@({0})"},
      {"log2", "log2@({0})"},
      {"log10", "log10@({0})"},
      {"log1p", "log1p@({0})"},
      {"sqrt", "sqrt@({0})"},
      {"rsqrt", "1.0@ / sqrt@({0})"},
      {"reciprocal", "1.0@ / {0}"},
      {"square", "{0} * {0}"},
      {"sin", "sin@({0})"},
      {"cos", "cos@({0})"},
      {"atan", "atan@({0})"},
      {"asinh", "asinh@({0})"},
      {"sinc", "{0} == 0.0@ ? 1.0@ : sin@(3.141592653589793@ * {0}) / (3.141592653589793@ * {0})"},
      {"erf", "erf@({0})"},
      {"erfc", "erfc@({0})"},
      {"floor", "floor@({0})"},
      {"ceil", "ceil@({0})"},
      {"round", "rint@({0})"},
      {"trunc", "trunc@({0})"},
      {"frac", "{0} - trunc@({0})"},
      {"sign", "{0} > 0.0@ ? 1.0@ : ({0} < 0.0@ ? -1.0@ : 0.0@)"},
      {"nan_to_num", "isnan({0}) ? {nan} : (isinf({0}) ? ({0} > 0.0@ ? {posinf} : {neginf}) : {0})"},
      {"isfinite", "isfinite({0})"},
      {"isnan", "isnan({0})"},
      {"signbit", "signbit({0})"},
      {"logical_not", "{0} == 0.0@"},
      {"add", "{0} + {1}"},
      {"sub", "{0} - {1}"},
      {"mul", "{0} * {1}"},
      {"div", "{0} / {1}"},
      {"maximum", "{0} > {1} ? {0} : {1}"},
      {"minimum", "{0} < {1} ? {0} : {1}"},
      {"pow", "pow@({0}, {1})"},
      {"fmod", "fmod@({0}, {1})"},
      {"remainder", "{0} - {1} * floor@({0} / {1})"},
      {"atan2", "atan2@({0}, {1})"},
      {"hypot", "hypot@({0}, {1})"},
      {"copysign", "copysign@({0}, {1})"},
      {"xlogy", "{0} == 0.0@ ? 0.0@ : {0} * log@({1})"},
      {"logaddexp", "fmax@({0}, {1}) + log1p@(exp@(-fabs@({0} - {1})))"},
      {"heaviside", "{0} == 0.0@ ? {1} : ({0} > 0.0@ ? 1.0@ : 0.0@)"},
      {"where", "{0} ? {1} : {2}"},
      {"masked_fill", "{1} ? {value} : {0}"},
      {"lerp", "{2} < 0.5@ ? {0} + {2} * ({1} - {0}) : {1} - ({1} - {0}) * (1.0@ - {2})"},
      {"addcmul", "{0} + {value} * {1} * {2}"},
      {"addcdiv", "{0} + {value} * ({1} / {2})"},
      {"clamp_tensor", "fmin@(fmax@({0}, {1}), {2})"},
  };
  return table;
}

const Table& whole_table() {
  static const Table table = {
      {"relu", "{0} > 0 ? {0} : 0"},
      {"neg", "-{0}"},
      {"abs", "{0} < 0 ? -{0} : {0}"},
      {"square", "{0} * {0}"},
      {"sign", "({0} > 0) - ({0} < 0)"},
      {"bitwise_not", "~{0}"},
      {"logical_not", "{0} == 0"},
      {"add", "{0} + {1}"},
      {"sub", "{0} - {1}"},
      {"mul", "{0} * {1}"},
      {"maximum", "{0} > {1} ? {0} : {1}"},
      {"minimum", "{0} < {1} ? {0} : {1}"},
      {"fmod", "{0} % {1}"},
      {"remainder", "(({0} % {1}) + {1}) % {1}"},
      {"bitwise_and", "{0} & {1}"},
      {"bitwise_or", "{0} | {1}"},
      {"bitwise_xor", "{0} ^ {1}"},
      {"where", "{0} ? {1} : {2}"},
      {"masked_fill", "{1} ? {value} : {0}"},
  };
  return table;
}

const Table& comparison_table() {
  static const Table table = {{"eq", "{0} == {1}"}, {"ne", "{0} != {1}"}, {"lt", "{0} < {1}"},
                              {"le", "{0} <= {1}"}, {"gt", "{0} > {1}"},  {"ge", "{0} >= {1}"},
                              {"logical_and", "{0} && {1}"}, {"logical_or", "{0} || {1}"}, {"logical_xor", "{0} != {1}"}};
  return table;
}

bool logical(const std::string& op) { return op.rfind("logical_", 0) == 0 && op != "logical_not"; }

// Defaults of torch for attributes that a node may leave out.
double default_of(std::string_view op, std::string_view name) {
  if (name == "negative_slope") return 0.01;
  if (name == "lambd") return 0.5;
  if (name == "threshold") return op == "softplus" ? 20.0 : 0.0;
  if (name == "min_val") return -1.0;
  if (name == "nan") return 0.0;
  return 1.0;  // alpha, beta, value, max_val
}

bool simple(const std::string& text) {
  for (char c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return false;
  return true;
}

std::string substitute(const char* pattern, const std::vector<std::string>& operands, const Node& node, DType dtype) {
  std::string out;
  for (const char* c = pattern; *c != '\0'; ++c) {
    if (*c == '@') {
      if (dtype != DType::kF64) out += 'f';
    } else if (*c == '{') {
      std::string key;
      for (++c; *c != '}'; ++c) key += *c;
      if (std::isdigit(static_cast<unsigned char>(key[0]))) {
        const std::string& o = operands[static_cast<std::size_t>(key[0] - '0')];
        out += simple(o) ? o : "(" + o + ")";
      } else {
        const double value = node.has(key) ? node.number(key) : default_of(node.op, key);
        const std::string text = Writer::number(dtype, value);
        out += text[0] == '-' && !out.empty() && (out.back() == '-' || out.back() == ' ') && out.size() > 1 && out[out.size() - 2] != '?' && out[out.size() - 2] != ':' ? "(" + text + ")" : text;
      }
    } else {
      out += *c;
    }
  }
  return out;
}

std::string converted(const std::string& text, DType from, DType to) {
  const std::string a = Writer::compute_type(from), b = Writer::compute_type(to);
  if (a == b) return text;
  return fmt::format("static_cast<{}>({})", b, text);
}

std::string cast(const std::string& text, DType from, DType to) {
  if (to == DType::kBool) return text + " != " + Writer::number(from, 0);
  if (to == DType::kF16) return "__half2float(__float2half(" + converted(text, from, DType::kF32) + "))";
  if (to == DType::kBF16) return "__bfloat162float(__float2bfloat16(" + converted(text, from, DType::kF32) + "))";
  if (is_float(to) && is_float(from)) return converted(text, from, to);
  if (to == DType::kI8 || to == DType::kU8 || to == DType::kI16)
    return fmt::format("static_cast<{}>({})", dtype_c_name(to), from == DType::kBool || !is_float(from) ? text : "static_cast<int>(" + text + ")");
  return fmt::format("static_cast<{}>({})", Writer::compute_type(to), text);
}

bool narrow(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI16; }

Result<std::string> clamp(const Node& node, const std::string& x, DType dtype) {
  std::string text = x;
  const bool low = node.has("min"), high = node.has("max");
  if (!low && !high) return fail(Code::kInvalidArgument, "clamp without min and max");
  const std::string lo = low ? Writer::number(dtype, node.number("min")) : "", hi = high ? Writer::number(dtype, node.number("max")) : "";
  if (low && high) return fmt::format("{0} < {1} ? {1} : ({0} > {2} ? {2} : {0})", x, lo, hi);
  return low ? fmt::format("{0} < {1} ? {1} : {0}", x, lo) : fmt::format("{0} > {1} ? {1} : {0}", x, hi);
}

std::string power(const std::string& x, double exponent, DType dtype) {
  const char* f = dtype == DType::kF64 ? "" : "f";
  if (exponent == 2) return fmt::format("{0} * {0}", x);
  if (exponent == 3) return fmt::format("{0} * {0} * {0}", x);
  if (exponent == 4) return fmt::format("({0} * {0}) * ({0} * {0})", x);
  if (exponent == 0.5) return fmt::format("sqrt{}({})", f, x);
  if (exponent == -1) return fmt::format("1.0{} / {}", f, x);
  return fmt::format("pow{}({}, {})", f, x, Writer::number(dtype, exponent));
}

}  // namespace

Result<std::string> scalar_expression(const Graph& graph, const Node& node, const std::vector<std::string>& operands) {
  std::vector<std::string> o = operands;
  std::vector<DType> types;
  for (int v : node.inputs) types.push_back(graph.type(v).dtype);
  const DType result = graph.type(node.outputs[0]).dtype;
  if (node.op == "to") return cast(o[0], types[0], result);

  // The type in which it is computed: the result's, of comparisons the operands'.
  const bool compares = comparison_table().count(node.op) != 0 && !logical(node.op);
  const bool asks = node.op == "isfinite" || node.op == "isnan" || node.op == "signbit" || node.op == "logical_not";
  DType dtype = compares || asks ? types[0] : result;
  if (compares) {
    if (types.size() > 1) dtype = promote(types[0], types[1]);
    else if (!is_float(dtype) && node.has("scalar") && std::holds_alternative<double>(node.attrs.at("scalar").value)) dtype = DType::kF32;
  }
  const std::size_t mask = node.op == "where" ? 0 : node.op == "masked_fill" ? 1 : 99;
  for (std::size_t k = 0; k < o.size(); ++k) {
    if (k == mask) continue;
    o[k] = logical(node.op) ? (types[k] == DType::kBool ? o[k] : "(" + o[k] + " != " + Writer::number(types[k], 0) + ")")
                            : converted(o[k], types[k], dtype);
  }
  if (node.op == "clamp") return clamp(node, o[0], dtype);
  if (node.op == "gelu") {
    const bool tanh = node.text("approximate") == "tanh";
    return substitute(tanh ? "0.5@ * {0} * (1.0@ + tanh@(0.7978845608028654@ * ({0} + 0.044715@ * {0} * {0} * {0})))"
                           : "0.5@ * {0} * (1.0@ + erf@({0} * 0.7071067811865476@))",
                      o, node, dtype);
  }
  if (node.has("scalar")) {
    if (node.op == "pow" && !node.flag("reversed")) return power(o[0], node.number("scalar"), dtype);
    std::string number = Writer::number(dtype, node.number("scalar"));
    if (number[0] == '-') number = "(" + number + ")";
    node.flag("reversed") ? void(o.insert(o.begin(), number)) : o.push_back(number);
  }
  if (node.has("alpha") && (node.op == "add" || node.op == "sub"))
    o[1] = Writer::number(dtype, node.number("alpha")) + " * " + o[1];
  if (node.op == "lerp" && node.inputs.size() == 2) {
    const double w = node.number("weight");
    return substitute(w < 0.5 ? "{0} + {weight} * ({1} - {0})" : "{1} - ({1} - {0}) * (1.0@ - {weight})", o, node, dtype);
  }
  if (node.op == "div" && node.has("rounding_mode")) {
    const bool floor = node.text("rounding_mode") == "floor";
    if (is_float(dtype)) return substitute(floor ? "floor@({0} / {1})" : "trunc@({0} / {1})", o, node, dtype);
    if (!floor) return substitute("{0} / {1}", o, node, dtype);
    return substitute("{0} / {1} - (({0} % {1} != 0) && (({0} < 0) != ({1} < 0)))", o, node, dtype);
  }
  const Table& table = comparison_table().count(node.op) != 0 ? comparison_table() : is_float(dtype) ? float_table() : whole_table();
  const auto it = table.find(node.op);
  if (it == table.end()) return fail(Code::kUnsupported, "{} of {} has no CUDA expression", node.op, dtype_name(dtype));
  const std::string text = substitute(it->second, o, node, dtype);
  return narrow(result) ? fmt::format("static_cast<{}>({})", dtype_c_name(result), text) : text;
}

bool has_scalar(const Node& node) {
  static const char* const special[] = {"to", "clamp", "gelu"};
  for (const char* s : special)
    if (node.op == s) return true;
  return float_table().count(node.op) != 0 || whole_table().count(node.op) != 0 || comparison_table().count(node.op) != 0;
}

Status ScalarCode::add(int index) {
  const Node& node = graph_.nodes[static_cast<std::size_t>(index)];
  std::vector<std::string> operands;
  for (int v : node.inputs) {
    if (!bound(v)) return fail(Code::kInternal, "{} reads value {}, which is not at hand", node.op, v);
    operands.push_back(name(v));
  }
  MC_ASSIGN_OR_RETURN(const std::string text, scalar_expression(graph_, node, operands));
  static const char* const kBases[] = {"t", "v", "s"};
  const std::string base = kBases[static_cast<std::size_t>(writer_.style().names) % 3];
  const std::string local = fmt::format("{}{}", base, counter_++);
  lines_.push_back(fmt::format("const {} {} = {};", Writer::compute_type(graph_.type(node.outputs[0]).dtype), local, text));
  formulas_.push_back(fmt::format("{} = {}", local, text));
  names_[node.outputs[0]] = local;
  return ok();
}

std::string ScalarCode::lines() const {
  std::string text;
  for (const std::string& line : lines_) text += line + "\n";
  return text;
}

}  // namespace musacoder::synth
