// Free functions on tensors: factories, views, and the compute operators that kernels' host code calls now and then.
#ifndef MUSACODER_SLIM_MUSACODER_OPS_H
#define MUSACODER_SLIM_MUSACODER_OPS_H

#include "tensor.h"

namespace at {

inline std::tuple<Tensor, Tensor> Tensor::max(std::int64_t dim, bool keepdim) const { return ops::call2("aten::max", "dim", {*this, dim, keepdim}); }
inline std::tuple<Tensor, Tensor> Tensor::min(std::int64_t dim, bool keepdim) const { return ops::call2("aten::min", "dim", {*this, dim, keepdim}); }
inline std::tuple<Tensor, Tensor> Tensor::sort(std::int64_t dim, bool descending) const { return ops::call2("aten::sort", "", {*this, dim, descending}); }
inline std::tuple<Tensor, Tensor> Tensor::topk(std::int64_t k, std::int64_t dim, bool largest, bool sorted) const { return ops::call2("aten::topk", "", {*this, k, dim, largest, sorted}); }

namespace ops {
// A creation operator with the options' parts as keywords.
inline Tensor create(const char* name, const char* overload, const TensorOptions& o, std::initializer_list<Argument> first,
                     bool with_format, std::optional<MemoryFormat> format) {
  Argument args[12] = {std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt,
                       std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt};
  int n = 0;
  for (const Argument& a : first) args[n++] = a;
  std::optional<ScalarType> type;
  if (o.has_dtype()) type = o.dtype().toScalarType();
  args[n++] = keyword("dtype", type);
  args[n++] = keyword("layout", o.layout_opt());
  args[n++] = keyword("device", o.device_opt());
  args[n++] = keyword("pin_memory", o.pinned_memory_opt());
  if (with_format) args[n++] = keyword("memory_format", format ? format : o.memory_format_opt());
  mc_value result{};
  if (mc_call_op(name, overload, args, n, &result, 1) < 0) ::c10::detail::rethrow();
  Tensor out = take(result);
  if (o.requires_grad()) out.requires_grad_(true);
  return out;
}
}  // namespace ops

inline Tensor empty(IntArrayRef size, TensorOptions options = {}, std::optional<MemoryFormat> format = std::nullopt) {
  return ops::create("aten::empty", "memory_format", options, {size}, true, format);
}
inline Tensor empty_strided(IntArrayRef size, IntArrayRef stride, TensorOptions options = {}) {
  return ops::create("aten::empty_strided", "", options, {size, stride}, false, std::nullopt);
}
inline Tensor zeros(IntArrayRef size, TensorOptions options = {}) { return ops::create("aten::zeros", "", options, {size}, false, std::nullopt); }
inline Tensor ones(IntArrayRef size, TensorOptions options = {}) { return ops::create("aten::ones", "", options, {size}, false, std::nullopt); }
inline Tensor full(IntArrayRef size, const Scalar& value, TensorOptions options = {}) {
  return ops::create("aten::full", "", options, {size, value}, false, std::nullopt);
}
inline Tensor rand(IntArrayRef size, TensorOptions options = {}) { return ops::create("aten::rand", "", options, {size}, false, std::nullopt); }
inline Tensor randn(IntArrayRef size, TensorOptions options = {}) { return ops::create("aten::randn", "", options, {size}, false, std::nullopt); }
inline Tensor randint(std::int64_t high, IntArrayRef size, TensorOptions options = {}) {
  return ops::create("aten::randint", "", options.has_dtype() ? options : options.dtype(kLong), {high, size}, false, std::nullopt);
}
inline Tensor randint(std::int64_t low, std::int64_t high, IntArrayRef size, TensorOptions options = {}) {
  return ops::create("aten::randint", "low", options.has_dtype() ? options : options.dtype(kLong), {low, high, size}, false, std::nullopt);
}
inline Tensor randperm(std::int64_t n, TensorOptions options = {}) {
  return ops::create("aten::randperm", "", options.has_dtype() ? options : options.dtype(kLong), {n}, false, std::nullopt);
}
inline Tensor eye(std::int64_t n, TensorOptions options = {}) { return ops::create("aten::eye", "", options, {n}, false, std::nullopt); }
inline Tensor eye(std::int64_t n, std::int64_t m, TensorOptions options = {}) { return ops::create("aten::eye", "m", options, {n, m}, false, std::nullopt); }
inline Tensor arange(const Scalar& end, TensorOptions options = {}) { return ops::create("aten::arange", "", options, {end}, false, std::nullopt); }
inline Tensor arange(const Scalar& start, const Scalar& end, TensorOptions options = {}) { return ops::create("aten::arange", "start", options, {start, end}, false, std::nullopt); }
inline Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, TensorOptions options = {}) {
  return ops::create("aten::arange", "start_step", options, {start, end, step}, false, std::nullopt);
}
inline Tensor linspace(const Scalar& start, const Scalar& end, std::int64_t steps, TensorOptions options = {}) {
  return ops::create("aten::linspace", "", options, {start, end, steps}, false, std::nullopt);
}
inline Tensor scalar_tensor(const Scalar& value, TensorOptions options = {}) { return ops::create("aten::scalar_tensor", "", options, {value}, false, std::nullopt); }
#define MC_LIKE(name)                                                                                              \
  inline Tensor name(const Tensor& x, TensorOptions options = {}, std::optional<MemoryFormat> format = std::nullopt) { \
    return ops::create("aten::" #name, "", options, {x}, true, format);                                            \
  }
MC_LIKE(empty_like) MC_LIKE(zeros_like) MC_LIKE(ones_like) MC_LIKE(rand_like) MC_LIKE(randn_like)
#undef MC_LIKE
inline Tensor full_like(const Tensor& x, const Scalar& value, TensorOptions options = {}, std::optional<MemoryFormat> format = std::nullopt) {
  return ops::create("aten::full_like", "", options, {x, value}, true, format);
}
inline Tensor Tensor::new_empty(IntArrayRef size, TensorOptions options) const { return empty(size, this->options().merge_in(options)); }
inline Tensor Tensor::new_zeros(IntArrayRef size, TensorOptions options) const { return zeros(size, this->options().merge_in(options)); }
inline Tensor Tensor::new_ones(IntArrayRef size, TensorOptions options) const { return ones(size, this->options().merge_in(options)); }
inline Tensor Tensor::new_full(IntArrayRef size, const Scalar& value, TensorOptions options) const { return full(size, value, this->options().merge_in(options)); }

// Memory that the caller owns; the deleter, when given, runs with the last reference.
template <class D>
Tensor from_blob_with(void* data, IntArrayRef sizes, const std::int64_t* strides, D* deleter, const TensorOptions& options) {
  const Device device = options.device();
  void (*run)(void*, void*) = nullptr;
  if (deleter) run = [](void* p, void* context) {
    auto* f = static_cast<D*>(context);
    (*f)(p);
    delete f;
  };
  mc_tensor t = mc_from_blob(data, sizes.data(), strides, static_cast<std::int64_t>(sizes.size()),
                             static_cast<std::int32_t>(options.dtype().toScalarType()), static_cast<std::int32_t>(device.type()),
                             device.index(), run, deleter);
  if (!t) ::c10::detail::rethrow();
  return Tensor::adopt(t);
}
inline Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {}) {
  return from_blob_with<void (*)(void*)>(data, sizes, nullptr, nullptr, options);
}
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {}) {
  return from_blob_with<void (*)(void*)>(data, sizes, strides.data(), nullptr, options);
}
template <class D, class = std::enable_if_t<std::is_invocable_v<D, void*>>>
Tensor from_blob(void* data, IntArrayRef sizes, const D& deleter, const TensorOptions& options = {}) {
  return from_blob_with(data, sizes, nullptr, new D(deleter), options);
}
template <class D, class = std::enable_if_t<std::is_invocable_v<D, void*>>>
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const D& deleter, const TensorOptions& options = {}) {
  return from_blob_with(data, sizes, strides.data(), new D(deleter), options);
}
template <class T>
Tensor tensor_of(ArrayRef<T> values, const TensorOptions& options) {
  Tensor out = empty({static_cast<std::int64_t>(values.size())}, TensorOptions().dtype(CppTypeToScalarType<T>::value));
  if (!values.empty()) std::memcpy(out.data_ptr(), values.data(), values.size() * sizeof(T));
  return out.to(options);
}

// Views and copies.
inline Tensor reshape(const Tensor& x, IntArrayRef shape) { return x.reshape(shape); }
inline Tensor flatten(const Tensor& x, std::int64_t start = 0, std::int64_t end = -1) { return x.flatten(start, end); }
inline Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b) { return x.transpose(a, b); }
inline Tensor t(const Tensor& x) { return x.t(); }
inline Tensor permute(const Tensor& x, IntArrayRef dims) { return x.permute(dims); }
inline Tensor squeeze(const Tensor& x) { return x.squeeze(); }
inline Tensor squeeze(const Tensor& x, std::int64_t dim) { return x.squeeze(dim); }
inline Tensor unsqueeze(const Tensor& x, std::int64_t dim) { return x.unsqueeze(dim); }
inline Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) { return x.narrow(dim, start, length); }
inline Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index) { return x.select(dim, index); }
inline Tensor clone(const Tensor& x, std::optional<MemoryFormat> format = std::nullopt) { return x.clone(format); }
inline Tensor detach(const Tensor& x) { return x.detach(); }
inline Tensor as_strided(const Tensor& x, IntArrayRef size, IntArrayRef stride, std::optional<std::int64_t> offset = std::nullopt) { return x.as_strided(size, stride, offset); }
inline std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0) { return x.unbind(dim); }
inline std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim = 0) { return x.split(size, dim); }
inline std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim = 0) { return x.chunk(chunks, dim); }
inline Tensor broadcast_to(const Tensor& x, IntArrayRef size) { return x.broadcast_to(size); }
inline Tensor cat(TensorList list, std::int64_t dim = 0) { return ops::call("aten::cat", "", {list, dim}); }
inline Tensor concat(TensorList list, std::int64_t dim = 0) { return ops::call("aten::concat", "", {list, dim}); }
inline Tensor stack(TensorList list, std::int64_t dim = 0) { return ops::call("aten::stack", "", {list, dim}); }

// Compute operators.
#define MC_FREE_UNARY(name)                                  \
  inline Tensor name(const Tensor& x) { return x.name(); }   \
  inline Tensor& name##_(Tensor& x) { return x.name##_(); }
MC_FORALL_UNARY(MC_FREE_UNARY)
#undef MC_FREE_UNARY
#define MC_FREE_BINARY(name)                                                            \
  inline Tensor name(const Tensor& a, const Tensor& b) { return a.name(b); }            \
  inline Tensor name(const Tensor& a, const Scalar& b) { return a.name(b); }
MC_FORALL_BINARY(MC_FREE_BINARY)
#undef MC_FREE_BINARY
#define MC_FREE_ARITHMETIC(name)                                                                          \
  inline Tensor name(const Tensor& a, const Tensor& b, const Scalar& alpha = 1) { return a.name(b, alpha); } \
  inline Tensor name(const Tensor& a, const Scalar& b, const Scalar& alpha = 1) { return a.name(b, alpha); }
MC_FREE_ARITHMETIC(add) MC_FREE_ARITHMETIC(sub)
#undef MC_FREE_ARITHMETIC
#define MC_OPERATOR(op, method)                                                              \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return a.method(b); }        \
  inline Tensor operator op(const Tensor& a, const Scalar& b) { return a.method(b); }
MC_OPERATOR(+, add) MC_OPERATOR(-, sub) MC_OPERATOR(*, mul) MC_OPERATOR(/, div) MC_OPERATOR(%, remainder)
MC_OPERATOR(==, eq) MC_OPERATOR(!=, ne) MC_OPERATOR(<, lt) MC_OPERATOR(<=, le) MC_OPERATOR(>, gt) MC_OPERATOR(>=, ge)
MC_OPERATOR(&, bitwise_and) MC_OPERATOR(|, bitwise_or) MC_OPERATOR(^, bitwise_xor)
#undef MC_OPERATOR
inline Tensor operator+(const Scalar& a, const Tensor& b) { return b.add(a); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return b.mul(a); }
inline Tensor operator-(const Scalar& a, const Tensor& b) { return ops::call("aten::rsub", "Scalar", {b, a}); }
inline Tensor operator/(const Scalar& a, const Tensor& b) { return b.reciprocal().mul_(a); }
inline Tensor pow(const Tensor& a, const Scalar& b) { return a.pow(b); }
inline Tensor pow(const Tensor& a, const Tensor& b) { return a.pow(b); }
inline Tensor maximum(const Tensor& a, const Tensor& b) { return a.maximum(b); }
inline Tensor minimum(const Tensor& a, const Tensor& b) { return a.minimum(b); }
inline Tensor sum(const Tensor& x, std::optional<ScalarType> dtype = std::nullopt) { return x.sum(dtype); }
inline Tensor sum(const Tensor& x, OptionalIntArrayRef dim, bool keepdim = false, std::optional<ScalarType> dtype = std::nullopt) { return x.sum(dim, keepdim, dtype); }
inline Tensor mean(const Tensor& x, std::optional<ScalarType> dtype = std::nullopt) { return x.mean(dtype); }
inline Tensor mean(const Tensor& x, OptionalIntArrayRef dim, bool keepdim = false, std::optional<ScalarType> dtype = std::nullopt) { return x.mean(dim, keepdim, dtype); }
inline Tensor prod(const Tensor& x, std::int64_t dim, bool keepdim = false) { return x.prod(dim, keepdim); }
inline Tensor max(const Tensor& x) { return x.max(); }
inline Tensor min(const Tensor& x) { return x.min(); }
inline Tensor max(const Tensor& a, const Tensor& b) { return a.max(b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return a.min(b); }
inline std::tuple<Tensor, Tensor> max(const Tensor& x, std::int64_t dim, bool keepdim = false) { return x.max(dim, keepdim); }
inline std::tuple<Tensor, Tensor> min(const Tensor& x, std::int64_t dim, bool keepdim = false) { return x.min(dim, keepdim); }
inline std::tuple<Tensor, Tensor> sort(const Tensor& x, std::int64_t dim = -1, bool descending = false) { return x.sort(dim, descending); }
inline std::tuple<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true, bool sorted = true) { return x.topk(k, dim, largest, sorted); }
inline Tensor amax(const Tensor& x, IntArrayRef dim = {}, bool keepdim = false) { return x.amax(dim, keepdim); }
inline Tensor amin(const Tensor& x, IntArrayRef dim = {}, bool keepdim = false) { return x.amin(dim, keepdim); }
inline Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim = std::nullopt, bool keepdim = false) { return x.argmax(dim, keepdim); }
inline Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim = std::nullopt, bool keepdim = false) { return x.argmin(dim, keepdim); }
inline Tensor all(const Tensor& x) { return x.all(); }
inline Tensor any(const Tensor& x) { return x.any(); }
inline Tensor var(const Tensor& x, OptionalIntArrayRef dim, bool unbiased, bool keepdim = false) { return x.var(dim, unbiased, keepdim); }
inline Tensor std(const Tensor& x, OptionalIntArrayRef dim, bool unbiased, bool keepdim = false) { return x.std(dim, unbiased, keepdim); }
inline Tensor norm(const Tensor& x, const Scalar& p = 2) { return x.norm(p); }
inline Tensor logsumexp(const Tensor& x, IntArrayRef dim, bool keepdim = false) { return x.logsumexp(dim, keepdim); }
inline Tensor cumsum(const Tensor& x, std::int64_t dim) { return x.cumsum(dim); }
inline Tensor cumprod(const Tensor& x, std::int64_t dim) { return x.cumprod(dim); }
inline Tensor softmax(const Tensor& x, std::int64_t dim, std::optional<ScalarType> dtype = std::nullopt) { return x.softmax(dim, dtype); }
inline Tensor log_softmax(const Tensor& x, std::int64_t dim, std::optional<ScalarType> dtype = std::nullopt) { return x.log_softmax(dim, dtype); }
inline bool equal(const Tensor& a, const Tensor& b) { return a.equal(b); }
inline bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) { return a.allclose(b, rtol, atol, equal_nan); }
inline Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
inline Tensor mm(const Tensor& a, const Tensor& b) { return a.mm(b); }
inline Tensor bmm(const Tensor& a, const Tensor& b) { return a.bmm(b); }
inline Tensor mv(const Tensor& a, const Tensor& b) { return a.mv(b); }
inline Tensor dot(const Tensor& a, const Tensor& b) { return a.dot(b); }
inline Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) { return c.addmm(a, b, beta, alpha); }
inline Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) {
  return ops::call("aten::baddbmm", "", {c, a, b, ops::keyword("beta", beta), ops::keyword("alpha", alpha)});
}
inline Tensor einsum(std::string_view equation, TensorList operands) { return ops::call("aten::einsum", "", {equation, operands}); }
inline Tensor linear(const Tensor& x, const Tensor& w, const std::optional<Tensor>& b = {}) { return ops::call("aten::linear", "", {x, w, b}); }
inline Tensor clamp(const Tensor& x, const std::optional<Scalar>& min, const std::optional<Scalar>& max = std::nullopt) { return x.clamp(min, max); }
inline Tensor clamp_min(const Tensor& x, const Scalar& min) { return x.clamp_min(min); }
inline Tensor clamp_max(const Tensor& x, const Scalar& max) { return x.clamp_max(max); }
inline Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) { return ops::call("aten::where", "self", {condition, a, b}); }
inline Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) { return x.gather(dim, index); }
inline Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) { return x.index_select(dim, index); }
inline Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value) { return x.masked_fill(mask, value); }
inline Tensor tril(const Tensor& x, std::int64_t diagonal = 0) { return x.tril(diagonal); }
inline Tensor triu(const Tensor& x, std::int64_t diagonal = 0) { return x.triu(diagonal); }
inline Tensor flip(const Tensor& x, IntArrayRef dims) { return x.flip(dims); }
inline Tensor gelu(const Tensor& x, std::string_view approximate = "none") { return ops::call("aten::gelu", "", {x, ops::keyword("approximate", approximate)}); }
inline Tensor silu(const Tensor& x) { return ops::call("aten::silu", "", {x}); }
inline Tensor softplus(const Tensor& x, const Scalar& beta = 1, const Scalar& threshold = 20) { return ops::call("aten::softplus", "", {x, beta, threshold}); }
inline Tensor leaky_relu(const Tensor& x, const Scalar& slope = 0.01) { return ops::call("aten::leaky_relu", "", {x, slope}); }
inline Tensor elu(const Tensor& x, const Scalar& alpha = 1) { return ops::call("aten::elu", "", {x, alpha}); }
inline Tensor hardtanh(const Tensor& x, const Scalar& min = -1, const Scalar& max = 1) { return ops::call("aten::hardtanh", "", {x, min, max}); }
inline Tensor dropout(const Tensor& x, double p, bool train) { return ops::call("aten::dropout", "", {x, p, train}); }
inline Tensor embedding(const Tensor& w, const Tensor& index) { return ops::call("aten::embedding", "", {w, index}); }
inline Tensor convolution(const Tensor& x, const Tensor& w, const std::optional<Tensor>& b, IntArrayRef stride, IntArrayRef padding,
                          IntArrayRef dilation, bool transposed, IntArrayRef output_padding, std::int64_t groups) {
  return ops::call("aten::convolution", "", {x, w, b, stride, padding, dilation, transposed, output_padding, groups});
}
#define MC_CONVOLUTION(name)                                                                                        \
  inline Tensor name(const Tensor& x, const Tensor& w, const std::optional<Tensor>& b = {}, IntArrayRef stride = 1,  \
                     IntArrayRef padding = 0, IntArrayRef dilation = 1, std::int64_t groups = 1) {                  \
    return ops::call("aten::" #name, "", {x, w, b, stride, padding, dilation, groups});                             \
  }                                                                                                                 \
  inline Tensor name(const Tensor& x, const Tensor& w, const std::optional<Tensor>& b, IntArrayRef stride,          \
                     std::string_view padding, IntArrayRef dilation = 1, std::int64_t groups = 1) {                 \
    return ops::call("aten::" #name, "padding", {x, w, b, stride, padding, dilation, groups});                      \
  }
MC_CONVOLUTION(conv1d) MC_CONVOLUTION(conv2d) MC_CONVOLUTION(conv3d)
#undef MC_CONVOLUTION
#define MC_CONVOLUTION(name, overload)                                                                              \
  inline Tensor name(const Tensor& x, const Tensor& w, const std::optional<Tensor>& b = {}, IntArrayRef stride = 1,  \
                     IntArrayRef padding = 0, IntArrayRef output_padding = 0, std::int64_t groups = 1,              \
                     IntArrayRef dilation = 1) {                                                                    \
    return ops::call("aten::" #name, overload, {x, w, b, stride, padding, output_padding, groups, dilation});       \
  }
MC_CONVOLUTION(conv_transpose1d, "") MC_CONVOLUTION(conv_transpose2d, "input") MC_CONVOLUTION(conv_transpose3d, "input")
#undef MC_CONVOLUTION
inline Tensor max_pool2d(const Tensor& x, IntArrayRef kernel, IntArrayRef stride = {}, IntArrayRef padding = 0, IntArrayRef dilation = 1, bool ceil_mode = false) {
  return ops::call("aten::max_pool2d", "", {x, kernel, stride, padding, dilation, ceil_mode});
}
inline Tensor avg_pool2d(const Tensor& x, IntArrayRef kernel, IntArrayRef stride = {}, IntArrayRef padding = 0, bool ceil_mode = false, bool count_include_pad = true) {
  return ops::call("aten::avg_pool2d", "", {x, kernel, stride, padding, ceil_mode, count_include_pad});
}
inline Tensor adaptive_avg_pool2d(const Tensor& x, IntArrayRef size) { return ops::call("aten::adaptive_avg_pool2d", "", {x, size}); }
inline Tensor batch_norm(const Tensor& x, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                         const std::optional<Tensor>& mean, const std::optional<Tensor>& var, bool training, double momentum, double eps,
                         bool cudnn_enabled) {
  return ops::call("aten::batch_norm", "", {x, weight, bias, mean, var, training, momentum, eps, cudnn_enabled});
}
inline Tensor layer_norm(const Tensor& x, IntArrayRef shape, const std::optional<Tensor>& weight = {}, const std::optional<Tensor>& bias = {},
                         double eps = 1e-5, bool cudnn = true) {
  return ops::call("aten::layer_norm", "", {x, shape, weight, bias, eps, cudnn});
}
inline Tensor group_norm(const Tensor& x, std::int64_t groups, const std::optional<Tensor>& weight = {}, const std::optional<Tensor>& bias = {},
                         double eps = 1e-5, bool cudnn = true) {
  return ops::call("aten::group_norm", "", {x, groups, weight, bias, eps, cudnn});
}
inline Tensor constant_pad_nd(const Tensor& x, IntArrayRef pad, const Scalar& value = 0) { return ops::call("aten::constant_pad_nd", "", {x, pad, value}); }

class NoGradGuard {
 public:
  NoGradGuard() : before_(mc_grad_enabled()) { mc_set_grad_enabled(0); }
  ~NoGradGuard() { mc_set_grad_enabled(before_); }
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  int before_;
};
class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) : before_(mc_grad_enabled()) { mc_set_grad_enabled(enabled); }
  ~AutoGradMode() { mc_set_grad_enabled(before_); }

 private:
  int before_;
};
struct AutoDispatchBelowADInplaceOrView : NoGradGuard {};
struct AutoDispatchBelowAutograd : NoGradGuard {};
}  // namespace at

namespace c10 {
using InferenceMode = at::NoGradGuard;
}
#endif
