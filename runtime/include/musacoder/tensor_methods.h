// Inside class Tensor: compute operators. Each is one call by name, to be answered by the device's refusal or the CPU.
// Not guarded: included once, by tensor.h.

#define MC_METHOD_UNARY(name)                                                \
  Tensor name() const { return ops::unary("aten::" #name, *this); }     \
  Tensor& name##_() const { return self(ops::unary("aten::" #name "_", *this)); }
#define MC_FORALL_UNARY(_)                                                                                         \
  _(abs) _(neg) _(exp) _(exp2) _(expm1) _(log) _(log2) _(log10) _(log1p) _(sqrt) _(rsqrt) _(reciprocal) _(square)  \
  _(sin) _(cos) _(tan) _(asin) _(acos) _(atan) _(sinh) _(cosh) _(tanh) _(sigmoid) _(relu) _(floor) _(ceil)         \
  _(round) _(trunc) _(frac) _(sign) _(erf) _(erfc) _(erfinv) _(lgamma) _(digamma) _(logical_not) _(bitwise_not)
MC_FORALL_UNARY(MC_METHOD_UNARY)
#undef MC_METHOD_UNARY
Tensor isnan() const { return ops::unary("aten::isnan", *this); }
Tensor isinf() const { return ops::unary("aten::isinf", *this); }
Tensor isfinite() const { return ops::unary("aten::isfinite", *this); }

#define MC_METHOD_ARITHMETIC(name)                                                                                      \
  Tensor name(const Tensor& o, const Scalar& alpha = 1) const { return ops::scaled("aten::" #name, "Tensor", *this, o, alpha); } \
  Tensor name(const Scalar& o, const Scalar& alpha = 1) const { return ops::scaled("aten::" #name, "Scalar", *this, o, alpha); }                         \
  Tensor& name##_(const Tensor& o, const Scalar& alpha = 1) const { return self(ops::scaled("aten::" #name "_", "Tensor", *this, o, alpha)); } \
  Tensor& name##_(const Scalar& o, const Scalar& alpha = 1) const { return self(ops::scaled("aten::" #name "_", "Scalar", *this, o, alpha)); }
MC_METHOD_ARITHMETIC(add)
MC_METHOD_ARITHMETIC(sub)
#undef MC_METHOD_ARITHMETIC
#define MC_METHOD_BINARY(name)                                                                                     \
  Tensor name(const Tensor& o) const { return ops::binary("aten::" #name, "Tensor", *this, o); }                   \
  Tensor name(const Scalar& o) const { return ops::binary("aten::" #name, "Scalar", *this, o); }                   \
  Tensor& name##_(const Tensor& o) const { return self(ops::binary("aten::" #name "_", "Tensor", *this, o)); }     \
  Tensor& name##_(const Scalar& o) const { return self(ops::binary("aten::" #name "_", "Scalar", *this, o)); }
#define MC_FORALL_BINARY(_)                                                                                     \
  _(mul) _(div) _(eq) _(ne) _(lt) _(le) _(gt) _(ge) _(remainder) _(fmod) _(floor_divide) _(bitwise_and) _(bitwise_or) \
  _(bitwise_xor)
MC_FORALL_BINARY(MC_METHOD_BINARY)
#undef MC_METHOD_BINARY
Tensor pow(const Tensor& e) const { return ops::call("aten::pow", "Tensor_Tensor", {*this, e}); }
Tensor pow(const Scalar& e) const { return ops::call("aten::pow", "Tensor_Scalar", {*this, e}); }
Tensor& pow_(const Scalar& e) const { return self(ops::call("aten::pow_", "Scalar", {*this, e})); }
Tensor maximum(const Tensor& o) const { return ops::binary("aten::maximum", "", *this, o); }
Tensor minimum(const Tensor& o) const { return ops::binary("aten::minimum", "", *this, o); }
Tensor logical_and(const Tensor& o) const { return ops::binary("aten::logical_and", "", *this, o); }
Tensor logical_or(const Tensor& o) const { return ops::binary("aten::logical_or", "", *this, o); }
Tensor atan2(const Tensor& o) const { return ops::binary("aten::atan2", "", *this, o); }

Tensor operator-() const { return neg(); }
Tensor operator~() const { return bitwise_not(); }
Tensor& operator+=(const Tensor& o) { return add_(o); }
Tensor& operator+=(const Scalar& o) { return add_(o); }
Tensor& operator-=(const Tensor& o) { return sub_(o); }
Tensor& operator-=(const Scalar& o) { return sub_(o); }
Tensor& operator*=(const Tensor& o) { return mul_(o); }
Tensor& operator*=(const Scalar& o) { return mul_(o); }
Tensor& operator/=(const Tensor& o) { return div_(o); }
Tensor& operator/=(const Scalar& o) { return div_(o); }

// Reductions.
#define MC_METHOD_SUM(name)                                                                                        \
  Tensor name(std::optional<ScalarType> dtype = std::nullopt) const { return ops::call("aten::" #name, "", {*this, ops::keyword("dtype", dtype)}); } \
  Tensor name(OptionalIntArrayRef dim, bool keepdim = false, std::optional<ScalarType> dtype = std::nullopt) const {  \
    return ops::call("aten::" #name, #name[0] == 's' ? "dim_IntList" : "dim", {*this, dim, keepdim, ops::keyword("dtype", dtype)}); \
  }                                                                                                                \
  Tensor name(DimnameList dim, bool keepdim = false, std::optional<ScalarType> dtype = std::nullopt) const;
MC_METHOD_SUM(sum)
MC_METHOD_SUM(mean)
#undef MC_METHOD_SUM
Tensor prod(std::optional<ScalarType> dtype = std::nullopt) const { return ops::call("aten::prod", "", {*this, ops::keyword("dtype", dtype)}); }
Tensor prod(std::int64_t dim, bool keepdim = false, std::optional<ScalarType> dtype = std::nullopt) const {
  return ops::call("aten::prod", "dim_int", {*this, dim, keepdim, ops::keyword("dtype", dtype)});
}
Tensor max() const { return ops::unary("aten::max", *this); }
Tensor min() const { return ops::unary("aten::min", *this); }
std::tuple<Tensor, Tensor> max(std::int64_t dim, bool keepdim = false) const;
std::tuple<Tensor, Tensor> min(std::int64_t dim, bool keepdim = false) const;
Tensor max(const Tensor& o) const { return ops::call("aten::max", "other", {*this, o}); }
Tensor min(const Tensor& o) const { return ops::call("aten::min", "other", {*this, o}); }
std::tuple<Tensor, Tensor> sort(std::int64_t dim = -1, bool descending = false) const;
std::tuple<Tensor, Tensor> topk(std::int64_t k, std::int64_t dim = -1, bool largest = true, bool sorted = true) const;
Tensor amax(IntArrayRef dim = {}, bool keepdim = false) const { return ops::call("aten::amax", "", {*this, dim, keepdim}); }
Tensor amin(IntArrayRef dim = {}, bool keepdim = false) const { return ops::call("aten::amin", "", {*this, dim, keepdim}); }
Tensor argmax(std::optional<std::int64_t> dim = std::nullopt, bool keepdim = false) const { return ops::call("aten::argmax", "", {*this, dim, keepdim}); }
Tensor argmin(std::optional<std::int64_t> dim = std::nullopt, bool keepdim = false) const { return ops::call("aten::argmin", "", {*this, dim, keepdim}); }
Tensor argsort(std::int64_t dim = -1, bool descending = false) const { return ops::call("aten::argsort", "", {*this, dim, descending}); }
Tensor all() const { return ops::unary("aten::all", *this); }
Tensor any() const { return ops::unary("aten::any", *this); }
Tensor all(std::int64_t dim, bool keepdim = false) const { return ops::call("aten::all", "dim", {*this, dim, keepdim}); }
Tensor any(std::int64_t dim, bool keepdim = false) const { return ops::call("aten::any", "dim", {*this, dim, keepdim}); }
Tensor std(bool unbiased) const { return ops::call("aten::std", "", {*this, unbiased}); }
Tensor var(bool unbiased) const { return ops::call("aten::var", "", {*this, unbiased}); }
Tensor std(OptionalIntArrayRef dim, bool unbiased, bool keepdim = false) const { return ops::call("aten::std", "dim", {*this, dim, unbiased, keepdim}); }
Tensor var(OptionalIntArrayRef dim, bool unbiased, bool keepdim = false) const { return ops::call("aten::var", "dim", {*this, dim, unbiased, keepdim}); }
Tensor norm(const Scalar& p = 2) const { return ops::call("aten::norm", "Scalar", {*this, p}); }
Tensor norm(const std::optional<Scalar>& p, IntArrayRef dim, bool keepdim = false) const { return ops::call("aten::norm", "ScalarOpt_dim", {*this, p, dim, keepdim}); }
Tensor logsumexp(IntArrayRef dim, bool keepdim = false) const { return ops::call("aten::logsumexp", "", {*this, dim, keepdim}); }
Tensor cumsum(std::int64_t dim, std::optional<ScalarType> dtype = std::nullopt) const { return ops::call("aten::cumsum", "", {*this, dim, ops::keyword("dtype", dtype)}); }
Tensor cumprod(std::int64_t dim, std::optional<ScalarType> dtype = std::nullopt) const { return ops::call("aten::cumprod", "", {*this, dim, ops::keyword("dtype", dtype)}); }
Tensor softmax(std::int64_t dim, std::optional<ScalarType> dtype = std::nullopt) const { return ops::call("aten::softmax", "int", {*this, dim, dtype}); }
Tensor log_softmax(std::int64_t dim, std::optional<ScalarType> dtype = std::nullopt) const { return ops::call("aten::log_softmax", "int", {*this, dim, dtype}); }
bool equal(const Tensor& o) const { return ops::call_bool("aten::equal", {*this, o}); }
bool allclose(const Tensor& o, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const { return ops::call_bool("aten::allclose", {*this, o, rtol, atol, equal_nan}); }

// Matrices.
Tensor matmul(const Tensor& o) const { return ops::binary("aten::matmul", "", *this, o); }
Tensor mm(const Tensor& o) const { return ops::binary("aten::mm", "", *this, o); }
Tensor bmm(const Tensor& o) const { return ops::binary("aten::bmm", "", *this, o); }
Tensor mv(const Tensor& o) const { return ops::binary("aten::mv", "", *this, o); }
Tensor dot(const Tensor& o) const { return ops::binary("aten::dot", "", *this, o); }
Tensor addmm(const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) const {
  return ops::call("aten::addmm", "", {*this, a, b, ops::keyword("beta", beta), ops::keyword("alpha", alpha)});
}
Tensor tril(std::int64_t diagonal = 0) const { return ops::call("aten::tril", "", {*this, diagonal}); }
Tensor triu(std::int64_t diagonal = 0) const { return ops::call("aten::triu", "", {*this, diagonal}); }

// Elements.
Tensor clamp(const std::optional<Scalar>& min, const std::optional<Scalar>& max = std::nullopt) const { return ops::call("aten::clamp", "", {*this, min, max}); }
Tensor& clamp_(const std::optional<Scalar>& min, const std::optional<Scalar>& max = std::nullopt) const { return self(ops::call("aten::clamp_", "", {*this, min, max})); }
Tensor clamp_min(const Scalar& min) const { return ops::call("aten::clamp_min", "", {*this, min}); }
Tensor clamp_max(const Scalar& max) const { return ops::call("aten::clamp_max", "", {*this, max}); }
Tensor& clamp_min_(const Scalar& min) const { return self(ops::call("aten::clamp_min_", "", {*this, min})); }
Tensor& clamp_max_(const Scalar& max) const { return self(ops::call("aten::clamp_max_", "", {*this, max})); }
Tensor masked_fill(const Tensor& mask, const Scalar& value) const { return ops::call("aten::masked_fill", "Scalar", {*this, mask, value}); }
Tensor& masked_fill_(const Tensor& mask, const Scalar& value) const { return self(ops::call("aten::masked_fill_", "Scalar", {*this, mask, value})); }
Tensor masked_select(const Tensor& mask) const { return ops::call("aten::masked_select", "", {*this, mask}); }
Tensor gather(std::int64_t dim, const Tensor& index) const { return ops::call("aten::gather", "", {*this, dim, index}); }
Tensor index_select(std::int64_t dim, const Tensor& index) const { return ops::call("aten::index_select", "", {*this, dim, index}); }
Tensor& scatter_(std::int64_t dim, const Tensor& index, const Tensor& src) const { return self(ops::call("aten::scatter_", "src", {*this, dim, index, src})); }
Tensor& scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& src) const { return self(ops::call("aten::scatter_add_", "", {*this, dim, index, src})); }
Tensor where(const Tensor& condition, const Tensor& o) const { return ops::call("aten::where", "self", {condition, *this, o}); }
Tensor nonzero() const { return ops::unary("aten::nonzero", *this); }
Tensor repeat(IntArrayRef repeats) const { return ops::call("aten::repeat", "", {*this, repeats}); }
Tensor flip(IntArrayRef dims) const { return ops::call("aten::flip", "", {*this, dims}); }
Tensor roll(IntArrayRef shifts, IntArrayRef dims = {}) const { return ops::call("aten::roll", "", {*this, shifts, dims}); }
Tensor& normal_(double mean = 0, double std = 1) const { return self(ops::call("aten::normal_", "", {*this, mean, std})); }
Tensor& uniform_(double from = 0, double to = 1) const { return self(ops::call("aten::uniform_", "", {*this, from, to})); }
