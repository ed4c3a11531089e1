// Element-wise operators. Binary ones take a number instead of their second tensor as attr "scalar" (their first, with attr "reversed").
#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

using Types = Result<std::vector<TensorType>>;

TensorType fresh(DType dtype, std::vector<Dim> dims) { return {dtype, std::move(dims), true}; }

Types same(const std::vector<TensorType>& in, const Node&) { return std::vector<TensorType>{fresh(in[0].dtype, in[0].dims)}; }

Types floating(const std::vector<TensorType>& in, const Node& node) {
  if (!is_float(in[0].dtype)) return fail(Code::kInvalidArgument, "{} needs a floating tensor, not {}", node.op, shape_text(in[0]));
  return same(in, node);
}

Types predicate(const std::vector<TensorType>& in, const Node&) {
  return std::vector<TensorType>{fresh(DType::kBool, in[0].dims)};
}

Types whole(const std::vector<TensorType>& in, const Node& node) {
  if (is_float(in[0].dtype)) return fail(Code::kInvalidArgument, "{} needs integers, not {}", node.op, shape_text(in[0]));
  return same(in, node);
}

DType operand_type(const std::vector<TensorType>& in, const Node& node) {
  if (in.size() > 1) return promote(in[0].dtype, in[1].dtype);
  const auto it = node.attrs.find("scalar");
  const bool fraction = it != node.attrs.end() && std::holds_alternative<double>(it->second.value);
  return fraction && !is_float(in[0].dtype) ? DType::kF32 : in[0].dtype;
}

Types needs_scalar(const std::vector<TensorType>& in, const Node& node) {
  if (in.size() == 1 && !node.has("scalar")) return fail(Code::kInvalidArgument, "{} of one tensor needs attr scalar", node.op);
  return in;
}

Types binary(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(needs_scalar(in, node));
  MC_ASSIGN_OR_RETURN(std::vector<Dim> dims, broadcast(in));
  const DType dtype = operand_type(in, node);
  if (dtype == DType::kBool) return fail(Code::kInvalidArgument, "{} of bool tensors", node.op);
  return std::vector<TensorType>{fresh(dtype, std::move(dims))};
}

Types division(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(std::vector<TensorType> out, binary(in, node));
  if (!is_float(out[0].dtype) && !node.has("rounding_mode")) out[0].dtype = DType::kF32;
  return out;
}

Types float_binary(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(std::vector<TensorType> out, binary(in, node));
  if (!is_float(out[0].dtype)) return fail(Code::kInvalidArgument, "{} needs floating tensors", node.op);
  return out;
}

Types comparison(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(needs_scalar(in, node));
  MC_ASSIGN_OR_RETURN(std::vector<Dim> dims, broadcast(in));
  return std::vector<TensorType>{fresh(DType::kBool, std::move(dims))};
}

Types logical(const std::vector<TensorType>& in, const Node&) {
  MC_ASSIGN_OR_RETURN(std::vector<Dim> dims, broadcast(in));
  return std::vector<TensorType>{fresh(DType::kBool, std::move(dims))};
}

Types bits(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(needs_scalar(in, node));
  MC_ASSIGN_OR_RETURN(std::vector<Dim> dims, broadcast(in));
  const DType dtype = in.size() > 1 ? promote(in[0].dtype, in[1].dtype) : in[0].dtype;
  if (is_float(dtype)) return fail(Code::kInvalidArgument, "{} needs integers", node.op);
  return std::vector<TensorType>{fresh(dtype, std::move(dims))};
}

// where(mask, a, b), masked_fill(a, mask, value): `first` is the index of the mask.
template <std::size_t kMask>
Types choice(const std::vector<TensorType>& in, const Node& node) {
  if (in[kMask].dtype != DType::kBool) return fail(Code::kInvalidArgument, "{}: the mask is {}", node.op, shape_text(in[kMask]));
  MC_ASSIGN_OR_RETURN(std::vector<Dim> dims, broadcast(in));
  DType dtype = in[kMask == 0 ? 1 : 0].dtype;
  if (in.size() == 3) dtype = promote(dtype, in[2].dtype);
  return std::vector<TensorType>{fresh(dtype, std::move(dims))};
}

Types several(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(std::vector<Dim> dims, broadcast(in));
  DType dtype = in[0].dtype;
  for (const TensorType& t : in) dtype = promote(dtype, t.dtype);
  if (!is_float(dtype)) return fail(Code::kInvalidArgument, "{} needs floating tensors", node.op);
  return std::vector<TensorType>{fresh(dtype, std::move(dims))};
}

Types prelu(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(floating(in, node));
  const std::int64_t n = in[1].numel();
  if (n != 1 && (in[0].rank() < 2 || in[0].dims[1].size != n))
    return fail(Code::kInvalidArgument, "prelu of {} with {} slopes", shape_text(in[0]), n);
  return same(in, node);
}

Types cast(const std::vector<TensorType>& in, const Node& node) {
  const std::string to = node.text("dtype");
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i)
    if (to == dtype_name(static_cast<DType>(i))) return std::vector<TensorType>{fresh(static_cast<DType>(i), in[0].dims)};
  return fail(Code::kInvalidArgument, "to: there is no dtype '{}'", to);
}

constexpr OpClass kE = OpClass::kElementwise;

}  // namespace

const std::vector<OpInfo>& elementwise_ops() {
  static const std::vector<OpInfo> rows = {
      // Unary: activations.
      {"relu", kE, 1, 1, same, "aten::relu", {"torch.relu({0})", "F.relu({0})", "{0}.relu()", "", "nn.ReLU()"}},
      {"relu6", kE, 1, 1, floating, "aten::hardtanh", {"", "F.relu6({0})", "", "", "nn.ReLU6()"}},
      {"elu", kE, 1, 1, floating, "aten::elu", {"", "F.elu({0}[[, alpha={alpha}]])", "", "", "nn.ELU([[alpha={alpha}]])"}},
      {"selu", kE, 1, 1, floating, "aten::elu", {"torch.selu({0})", "F.selu({0})", "", "", "nn.SELU()"}},
      {"celu", kE, 1, 1, floating, "aten::celu", {"torch.celu({0}[[, alpha={alpha}]])", "F.celu({0}[[, alpha={alpha}]])", "", "", "nn.CELU([[alpha={alpha}]])"}},
      {"gelu", kE, 1, 1, floating, "aten::gelu", {"", "F.gelu({0}[[, approximate={approximate}]])", "", "", "nn.GELU([[approximate={approximate}]])"}},
      {"silu", kE, 1, 1, floating, "aten::silu", {"", "F.silu({0})", "", "", "nn.SiLU()"}},
      {"mish", kE, 1, 1, floating, "aten::mish", {"", "F.mish({0})", "", "", "nn.Mish()"}},
      {"softplus", kE, 1, 1, floating, "aten::softplus", {"", "F.softplus({0}[[, beta={beta}]][[, threshold={threshold}]])", "", "", "nn.Softplus([[beta={beta}]][[, threshold={threshold}]])"}},
      {"softsign", kE, 1, 1, floating, "aten::div", {"", "F.softsign({0})", "", "", "nn.Softsign()"}},
      {"sigmoid", kE, 1, 1, floating, "aten::sigmoid", {"torch.sigmoid({0})", "", "{0}.sigmoid()", "", "nn.Sigmoid()"}},
      {"tanh", kE, 1, 1, floating, "aten::tanh", {"torch.tanh({0})", "", "{0}.tanh()", "", "nn.Tanh()"}},
      {"logsigmoid", kE, 1, 1, floating, "aten::log_sigmoid_forward", {"", "F.logsigmoid({0})", "", "", "nn.LogSigmoid()"}},
      {"hardtanh", kE, 1, 1, floating, "aten::hardtanh", {"", "F.hardtanh({0}[[, min_val={min_val}]][[, max_val={max_val}]])", "", "", "nn.Hardtanh([[min_val={min_val}]][[, max_val={max_val}]])"}},
      {"hardswish", kE, 1, 1, floating, "aten::hardswish", {"", "F.hardswish({0})", "", "", "nn.Hardswish()"}},
      {"hardsigmoid", kE, 1, 1, floating, "aten::hardsigmoid", {"", "F.hardsigmoid({0})", "", "", "nn.Hardsigmoid()"}},
      {"leaky_relu", kE, 1, 1, floating, "aten::leaky_relu", {"", "F.leaky_relu({0}[[, negative_slope={negative_slope}]])", "", "", "nn.LeakyReLU([[{negative_slope}]])"}},
      {"tanhshrink", kE, 1, 1, floating, "aten::sub", {"", "F.tanhshrink({0})", "", "", "nn.Tanhshrink()"}},
      {"softshrink", kE, 1, 1, floating, "aten::softshrink", {"", "F.softshrink({0}[[, lambd={lambd}]])", "", "", "nn.Softshrink([[{lambd}]])"}},
      {"hardshrink", kE, 1, 1, floating, "aten::hardshrink", {"", "F.hardshrink({0}[[, lambd={lambd}]])", "", "", "nn.Hardshrink([[{lambd}]])"}},
      {"threshold", kE, 1, 1, floating, "aten::threshold", {"", "F.threshold({0}, {threshold}, {value})", "", "", "nn.Threshold({threshold}, {value})"}},
      {"prelu", kE, 2, 2, prelu, "aten::_prelu_kernel", {"torch.prelu({0}, {1})", "F.prelu({0}, {1})", "", "", ""}},
      // Unary: maths.
      {"neg", kE, 1, 1, same, "aten::neg", {"torch.neg({0})", "", "{0}.neg()", "-{0}", ""}},
      {"abs", kE, 1, 1, same, "aten::abs", {"torch.abs({0})", "", "{0}.abs()", "", ""}},
      {"exp", kE, 1, 1, floating, "aten::exp", {"torch.exp({0})", "", "{0}.exp()", "", ""}},
      {"exp2", kE, 1, 1, floating, "aten::exp2", {"torch.exp2({0})", "", "{0}.exp2()", "", ""}},
      {"expm1", kE, 1, 1, floating, "aten::expm1", {"torch.expm1({0})", "", "{0}.expm1()", "", ""}},
      {"log", kE, 1, 1, floating, "aten::log", {"torch.log({0})", "", "{0}.log()", "", ""}},
      {"log2", kE, 1, 1, floating, "aten::log2", {"torch.log2({0})", "", "{0}.log2()", "", ""}},
      {"log10", kE, 1, 1, floating, "aten::log10", {"torch.log10({0})", "", "{0}.log10()", "", ""}},
      {"log1p", kE, 1, 1, floating, "aten::log1p", {"torch.log1p({0})", "", "{0}.log1p()", "", ""}},
      {"sqrt", kE, 1, 1, floating, "aten::sqrt", {"torch.sqrt({0})", "", "{0}.sqrt()", "", ""}},
      {"rsqrt", kE, 1, 1, floating, "aten::rsqrt", {"torch.rsqrt({0})", "", "{0}.rsqrt()", "", ""}},
      {"reciprocal", kE, 1, 1, floating, "aten::reciprocal", {"torch.reciprocal({0})", "", "{0}.reciprocal()", "1.0 / {0}", ""}},
      {"square", kE, 1, 1, same, "aten::pow", {"torch.square({0})", "", "{0}.square()", "{0} ** 2", ""}},
      {"sin", kE, 1, 1, floating, "aten::sin", {"torch.sin({0})", "", "{0}.sin()", "", ""}},
      {"cos", kE, 1, 1, floating, "aten::cos", {"torch.cos({0})", "", "{0}.cos()", "", ""}},
      {"atan", kE, 1, 1, floating, "aten::atan", {"torch.atan({0})", "", "{0}.atan()", "", ""}},
      {"asinh", kE, 1, 1, floating, "aten::asinh", {"torch.asinh({0})", "", "{0}.asinh()", "", ""}},
      {"sinc", kE, 1, 1, floating, "aten::sinc", {"torch.sinc({0})", "", "{0}.sinc()", "", ""}},
      {"erf", kE, 1, 1, floating, "aten::erf", {"torch.erf({0})", "", "{0}.erf()", "", ""}},
      {"erfc", kE, 1, 1, floating, "aten::erfc", {"torch.erfc({0})", "", "{0}.erfc()", "", ""}},
      {"floor", kE, 1, 1, floating, "aten::floor", {"torch.floor({0})", "", "{0}.floor()", "", ""}},
      {"ceil", kE, 1, 1, floating, "aten::ceil", {"torch.ceil({0})", "", "{0}.ceil()", "", ""}},
      {"round", kE, 1, 1, floating, "aten::round", {"torch.round({0})", "", "{0}.round()", "", ""}},
      {"trunc", kE, 1, 1, floating, "aten::trunc", {"torch.trunc({0})", "", "{0}.trunc()", "", ""}},
      {"frac", kE, 1, 1, floating, "aten::frac", {"torch.frac({0})", "", "{0}.frac()", "", ""}},
      {"sign", kE, 1, 1, same, "aten::sign", {"torch.sign({0})", "", "{0}.sign()", "", ""}},
      {"clamp", kE, 1, 1, same, "aten::clamp", {"torch.clamp({0}[[, min={min}]][[, max={max}]])", "", "{0}.clamp([[min={min}]][[, max={max}]])", "", ""}},
      {"nan_to_num", kE, 1, 1, floating, "aten::nan_to_num", {"torch.nan_to_num({0}, nan={nan}, posinf={posinf}, neginf={neginf})", "", "", "", ""}},
      {"isfinite", kE, 1, 1, predicate, "aten::isfinite", {"torch.isfinite({0})", "", "", "", ""}},
      {"isnan", kE, 1, 1, predicate, "aten::isnan", {"torch.isnan({0})", "", "{0}.isnan()", "", ""}},
      {"signbit", kE, 1, 1, predicate, "aten::signbit", {"torch.signbit({0})", "", "{0}.signbit()", "", ""}},
      {"logical_not", kE, 1, 1, predicate, "aten::logical_not", {"torch.logical_not({0})", "", "{0}.logical_not()", "", ""}},
      {"bitwise_not", kE, 1, 1, whole, "aten::bitwise_not", {"torch.bitwise_not({0})", "", "{0}.bitwise_not()", "~{0}", ""}},
      {"to", kE, 1, 1, cast, "aten::_to_copy", {"", "", "{0}.to(torch.{dtype:raw})", "", ""}},
      // Binary.
      {"add", kE, 1, 2, binary, "aten::add", {"torch.add({0}, {1}[[, alpha={alpha}]])", "", "{0}.add({1}[[, alpha={alpha}]])", "{0} + {1}", ""}, true},
      {"sub", kE, 1, 2, binary, "aten::sub", {"torch.sub({0}, {1}[[, alpha={alpha}]])", "", "{0}.sub({1}[[, alpha={alpha}]])", "{0} - {1}", ""}},
      {"mul", kE, 1, 2, binary, "aten::mul", {"torch.mul({0}, {1})", "", "{0}.mul({1})", "{0} * {1}", ""}, true},
      {"div", kE, 1, 2, division, "aten::div", {"torch.div({0}, {1}[[, rounding_mode={rounding_mode}]])", "", "{0}.div({1}[[, rounding_mode={rounding_mode}]])", "{0} / {1}", ""}},
      {"maximum", kE, 2, 2, binary, "aten::maximum", {"torch.maximum({0}, {1})", "", "{0}.maximum({1})", "", ""}, true},
      {"minimum", kE, 2, 2, binary, "aten::minimum", {"torch.minimum({0}, {1})", "", "{0}.minimum({1})", "", ""}, true},
      {"pow", kE, 1, 2, binary, "aten::pow", {"torch.pow({0}, {1})", "", "{0}.pow({1})", "{0} ** {1}", ""}},
      {"fmod", kE, 1, 2, binary, "aten::fmod", {"torch.fmod({0}, {1})", "", "{0}.fmod({1})", "", ""}},
      {"remainder", kE, 1, 2, binary, "aten::remainder", {"torch.remainder({0}, {1})", "", "{0}.remainder({1})", "{0} % {1}", ""}},
      {"atan2", kE, 2, 2, float_binary, "aten::atan2", {"torch.atan2({0}, {1})", "", "{0}.atan2({1})", "", ""}},
      {"hypot", kE, 2, 2, float_binary, "aten::hypot", {"torch.hypot({0}, {1})", "", "{0}.hypot({1})", "", ""}, true},
      {"copysign", kE, 2, 2, float_binary, "aten::copysign", {"torch.copysign({0}, {1})", "", "{0}.copysign({1})", "", ""}},
      {"xlogy", kE, 2, 2, float_binary, "aten::xlogy", {"torch.xlogy({0}, {1})", "", "{0}.xlogy({1})", "", ""}},
      {"logaddexp", kE, 2, 2, float_binary, "aten::logaddexp", {"torch.logaddexp({0}, {1})", "", "{0}.logaddexp({1})", "", ""}, true},
      {"heaviside", kE, 2, 2, float_binary, "aten::heaviside", {"torch.heaviside({0}, {1})", "", "{0}.heaviside({1})", "", ""}},
      {"eq", kE, 1, 2, comparison, "aten::eq", {"torch.eq({0}, {1})", "", "{0}.eq({1})", "{0} == {1}", ""}, true},
      {"ne", kE, 1, 2, comparison, "aten::ne", {"torch.ne({0}, {1})", "", "{0}.ne({1})", "{0} != {1}", ""}, true},
      {"lt", kE, 1, 2, comparison, "aten::lt", {"torch.lt({0}, {1})", "", "{0}.lt({1})", "{0} < {1}", ""}},
      {"le", kE, 1, 2, comparison, "aten::le", {"torch.le({0}, {1})", "", "{0}.le({1})", "{0} <= {1}", ""}},
      {"gt", kE, 1, 2, comparison, "aten::gt", {"torch.gt({0}, {1})", "", "{0}.gt({1})", "{0} > {1}", ""}},
      {"ge", kE, 1, 2, comparison, "aten::ge", {"torch.ge({0}, {1})", "", "{0}.ge({1})", "{0} >= {1}", ""}},
      {"logical_and", kE, 2, 2, logical, "aten::logical_and", {"torch.logical_and({0}, {1})", "", "{0}.logical_and({1})", "", ""}, true},
      {"logical_or", kE, 2, 2, logical, "aten::logical_or", {"torch.logical_or({0}, {1})", "", "{0}.logical_or({1})", "", ""}, true},
      {"logical_xor", kE, 2, 2, logical, "aten::logical_xor", {"torch.logical_xor({0}, {1})", "", "{0}.logical_xor({1})", "", ""}, true},
      {"bitwise_and", kE, 1, 2, bits, "aten::bitwise_and", {"torch.bitwise_and({0}, {1})", "", "{0}.bitwise_and({1})", "{0} & {1}", ""}, true},
      {"bitwise_or", kE, 1, 2, bits, "aten::bitwise_or", {"torch.bitwise_or({0}, {1})", "", "{0}.bitwise_or({1})", "{0} | {1}", ""}, true},
      {"bitwise_xor", kE, 1, 2, bits, "aten::bitwise_xor", {"torch.bitwise_xor({0}, {1})", "", "{0}.bitwise_xor({1})", "{0} ^ {1}", ""}, true},
      // Ternary.
      {"where", kE, 3, 3, choice<0>, "aten::where", {"torch.where({0}, {1}, {2})", "", "", "", ""}},
      {"masked_fill", kE, 2, 2, choice<1>, "aten::masked_fill", {"torch.masked_fill({0}, {1}, {value})", "", "{0}.masked_fill({1}, {value})", "", ""}},
      {"lerp", kE, 2, 3, several, "aten::lerp", {"torch.lerp({0}, {1}, [[{2}]][[{weight}]])", "", "{0}.lerp({1}, [[{2}]][[{weight}]])", "", ""}},
      {"addcmul", kE, 3, 3, several, "aten::addcmul", {"torch.addcmul({0}, {1}, {2}[[, value={value}]])", "", "{0}.addcmul({1}, {2}[[, value={value}]])", "", ""}},
      {"addcdiv", kE, 3, 3, several, "aten::addcdiv", {"torch.addcdiv({0}, {1}, {2}[[, value={value}]])", "", "{0}.addcdiv({1}, {2}[[, value={value}]])", "", ""}},
      {"clamp_tensor", kE, 3, 3, several, "aten::clamp", {"torch.clamp({0}, {1}, {2})", "", "{0}.clamp({1}, {2})", "", ""}},
  };
  return rows;
}

}  // namespace musacoder::synth
