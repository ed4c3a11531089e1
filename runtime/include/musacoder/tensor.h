// at::Tensor and at::TensorOptions: a handle to torch's tensor, with the calls that host code of kernels uses.
//
//   torch::Tensor relu(torch::Tensor x) {
//     TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat);
//     auto y = torch::empty_like(x);
//     relu_kernel<<<blocks, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
//     return y;
//   }
//
// Shape and type are read directly; everything else is an operator call through the shim (ops.h).
#ifndef MUSACODER_SLIM_MUSACODER_TENSOR_H
#define MUSACODER_SLIM_MUSACODER_TENSOR_H

#include "accessor.h"
#include "core.h"

namespace at {
class Tensor;
using TensorList = c10::ArrayRef<Tensor>;
using ITensorListRef = TensorList;

class Generator {};
// Named dimensions exist as a type only: their overloads decide which calls are ambiguous.
class Dimname;
using DimnameList = c10::ArrayRef<Dimname>;

// --- options --------------------------------------------------------------------------------------------------------
struct TensorOptions {
  TensorOptions() = default;
  /* implicit */ TensorOptions(Layout layout) : layout_(layout) {}
  /* implicit */ TensorOptions(MemoryFormat format) : memory_format_(format) {}
  /* implicit */ TensorOptions(ScalarType type) : dtype_(type) {}
  /* implicit */ TensorOptions(caffe2::TypeMeta type) : dtype_(type.toScalarType()) {}
  template <class T, class = std::enable_if_t<std::is_same_v<std::decay_t<T>, Device>>>
  /* implicit */ TensorOptions(T&& device) : device_(std::forward<T>(device)) {}
  template <class... A, class = std::enable_if_t<std::is_constructible_v<Device, A&&...>>,
            class = std::enable_if_t<!std::is_same_v<std::tuple<std::decay_t<A>...>, std::tuple<Device>>>,
            class = void>
  /* implicit */ TensorOptions(A&&... args) : TensorOptions(Device(std::forward<A>(args)...)) {}

  template <class... A>
  [[nodiscard]] TensorOptions device(A&&... args) const {
    TensorOptions r = *this;
    if constexpr (sizeof...(A) == 1 && (std::is_same_v<std::decay_t<A>, std::nullopt_t> && ...)) r.device_.reset();
    else if constexpr (sizeof...(A) == 1 && (std::is_same_v<std::decay_t<A>, std::optional<Device>> && ...))
      ((r.device_ = args), ...);
    else r.device_ = Device(std::forward<A>(args)...);
    return r;
  }
  [[nodiscard]] TensorOptions device_index(DeviceIndex index) const { return device(Device(DeviceType::CUDA, index)); }
  [[nodiscard]] TensorOptions dtype(std::optional<ScalarType> type) const {
    TensorOptions r = *this;
    r.dtype_ = type;
    return r;
  }
  [[nodiscard]] TensorOptions dtype(std::optional<caffe2::TypeMeta> type) const {
    TensorOptions r = *this;
    if (type) r.dtype_ = type->toScalarType();
    else r.dtype_.reset();
    return r;
  }
  [[nodiscard]] TensorOptions dtype(ScalarType type) const { return dtype(std::optional<ScalarType>(type)); }
  [[nodiscard]] TensorOptions dtype(caffe2::TypeMeta type) const { return dtype(type.toScalarType()); }
  template <class T>
  TensorOptions& dtype() {
    dtype_ = CppTypeToScalarType<T>::value;
    return *this;
  }
  [[nodiscard]] TensorOptions layout(std::optional<Layout> layout) const {
    TensorOptions r = *this;
    r.layout_ = layout;
    return r;
  }
  [[nodiscard]] TensorOptions requires_grad(std::optional<bool> value) const {
    TensorOptions r = *this;
    r.requires_grad_ = value;
    return r;
  }
  [[nodiscard]] TensorOptions pinned_memory(std::optional<bool> value) const {
    TensorOptions r = *this;
    r.pinned_memory_ = value;
    return r;
  }
  [[nodiscard]] TensorOptions memory_format(std::optional<MemoryFormat> format) const {
    TensorOptions r = *this;
    r.memory_format_ = format;
    return r;
  }
  Device device() const { return device_.value_or(Device(kCPU)); }
  bool has_device() const { return device_.has_value(); }
  std::optional<Device> device_opt() const { return device_; }
  std::int32_t device_index() const { return device().index(); }
  caffe2::TypeMeta dtype() const {
    return scalarTypeToTypeMeta(dtype_.value_or(static_cast<ScalarType>(mc_default_dtype())));
  }
  bool has_dtype() const { return dtype_.has_value(); }
  std::optional<caffe2::TypeMeta> dtype_opt() const {
    return dtype_ ? std::optional<caffe2::TypeMeta>(scalarTypeToTypeMeta(*dtype_)) : std::nullopt;
  }
  Layout layout() const { return layout_.value_or(kStrided); }
  bool has_layout() const { return layout_.has_value(); }
  std::optional<Layout> layout_opt() const { return layout_; }
  bool requires_grad() const { return requires_grad_.value_or(false); }
  bool has_requires_grad() const { return requires_grad_.has_value(); }
  std::optional<bool> requires_grad_opt() const { return requires_grad_; }
  bool pinned_memory() const { return pinned_memory_.value_or(false); }
  bool has_pinned_memory() const { return pinned_memory_.has_value(); }
  std::optional<bool> pinned_memory_opt() const { return pinned_memory_; }
  std::optional<MemoryFormat> memory_format_opt() const { return memory_format_; }
  bool has_memory_format() const { return memory_format_.has_value(); }
  TensorOptions merge_in(TensorOptions o) const {
    TensorOptions r = *this;
    if (o.device_) r.device_ = o.device_;
    if (o.dtype_) r.dtype_ = o.dtype_;
    if (o.layout_) r.layout_ = o.layout_;
    if (o.requires_grad_) r.requires_grad_ = o.requires_grad_;
    if (o.pinned_memory_) r.pinned_memory_ = o.pinned_memory_;
    if (o.memory_format_) r.memory_format_ = o.memory_format_;
    return r;
  }

 private:
  std::optional<Device> device_;
  std::optional<ScalarType> dtype_;
  std::optional<Layout> layout_;
  std::optional<bool> requires_grad_, pinned_memory_;
  std::optional<MemoryFormat> memory_format_;
};

inline TensorOptions dtype(ScalarType type) { return TensorOptions().dtype(type); }
inline TensorOptions dtype(caffe2::TypeMeta type) { return TensorOptions().dtype(type); }
template <class T>
TensorOptions dtype() { return TensorOptions().dtype(CppTypeToScalarType<T>::value); }
inline TensorOptions layout(Layout layout) { return TensorOptions().layout(layout); }
inline TensorOptions device(Device device) { return TensorOptions().device(device); }
inline TensorOptions device_index(DeviceIndex index) { return TensorOptions().device_index(index); }
inline TensorOptions requires_grad(bool value = true) { return TensorOptions().requires_grad(value); }
inline TensorOptions memory_format(MemoryFormat format) { return TensorOptions().memory_format(format); }

// What Tensor::type() gives (deprecated in torch, kept for x.type().is_cuda()).
class DeprecatedTypeProperties {
 public:
  DeprecatedTypeProperties(Device device, ScalarType type) : device_(device), type_(type) {}
  ScalarType scalarType() const { return type_; }
  caffe2::TypeMeta typeMeta() const { return scalarTypeToTypeMeta(type_); }
  DeviceType device_type() const { return device_.type(); }
  bool is_cuda() const { return device_.is_cuda(); }
  bool is_sparse() const { return false; }
  TensorOptions options(std::int16_t index = -1) const {
    return TensorOptions().dtype(type_).device(device_.type(), static_cast<DeviceIndex>(index));
  }
  std::string toString() const {
    return (device_.is_cuda() ? "CUDA" : "CPU") + std::string(::c10::toString(type_)) + "Type";
  }
  friend bool operator==(const DeprecatedTypeProperties& a, const DeprecatedTypeProperties& b) {
    return a.device_.type() == b.device_.type() && a.type_ == b.type_;
  }
  friend bool operator!=(const DeprecatedTypeProperties& a, const DeprecatedTypeProperties& b) { return !(a == b); }

 private:
  Device device_;
  ScalarType type_;
};

// --- tensors --------------------------------------------------------------------------------------------------------
// Metadata and memory. data_ptr<T>() exists for torch's element types; another T stays an undefined symbol, as with torch.
class TensorBase {
 public:
  TensorBase() = default;
  TensorBase(const TensorBase& other) : h_(other.h_) {
    if (h_) mc_retain(h_);
  }
  TensorBase(TensorBase&& other) noexcept : h_(other.h_) { other.h_ = nullptr; }
  TensorBase& operator=(const TensorBase& other) & {
    if (other.h_) mc_retain(other.h_);
    if (h_) mc_release(h_);
    h_ = other.h_;
    return *this;
  }
  TensorBase& operator=(TensorBase&& other) & noexcept {
    std::swap(h_, other.h_);
    return *this;
  }
  ~TensorBase() {
    if (h_) mc_release(h_);
  }

  bool defined() const { return h_ != nullptr; }
  void reset() {
    if (h_) mc_release(h_);
    h_ = nullptr;
  }
  mc_tensor handle() const { return h_; }
  mc_tensor unsafeGetTensorImpl() const { return h_; }
  bool is_same(const TensorBase& other) const { return h_ == other.h_; }
  std::size_t use_count() const { return h_ ? static_cast<std::size_t>(mc_use_count(h_)) : 0; }

  std::int64_t dim() const { return info().dim; }
  std::int64_t ndimension() const { return dim(); }
  std::int64_t numel() const { return info().numel; }
  IntArrayRef sizes() const {
    const mc_tensor_info i = info();
    return IntArrayRef(i.sizes, static_cast<std::size_t>(i.dim));
  }
  IntArrayRef strides() const {
    const mc_tensor_info i = info();
    return IntArrayRef(i.strides, static_cast<std::size_t>(i.dim));
  }
  std::int64_t size(std::int64_t dim) const {
    const mc_tensor_info i = info();
    return i.sizes[wrap(dim, i.dim)];
  }
  std::int64_t stride(std::int64_t dim) const {
    const mc_tensor_info i = info();
    return i.strides[wrap(dim, i.dim)];
  }
  IntArrayRef sym_sizes() const { return sizes(); }
  std::int64_t sym_size(std::int64_t dim) const { return size(dim); }
  std::int64_t sym_numel() const { return numel(); }
  std::int64_t storage_offset() const { return info().storage_offset; }
  std::size_t itemsize() const { return static_cast<std::size_t>(info().itemsize); }
  std::int64_t element_size() const { return info().itemsize; }
  std::size_t nbytes() const {
    const mc_tensor_info i = info();
    return static_cast<std::size_t>(i.numel) * static_cast<std::size_t>(i.itemsize);
  }
  ScalarType scalar_type() const { return static_cast<ScalarType>(info().dtype); }
  caffe2::TypeMeta dtype() const { return scalarTypeToTypeMeta(scalar_type()); }
  Device device() const {
    const mc_tensor_info i = info();
    return Device(static_cast<DeviceType>(i.device_type), static_cast<DeviceIndex>(i.device_index));
  }
  std::int64_t get_device() const { return info().device_index; }
  Layout layout() const { return kStrided; }
  TensorOptions options() const { return TensorOptions().dtype(scalar_type()).device(device()).layout(layout()); }
  [[deprecated("Tensor.type() is deprecated. Instead use Tensor.options(), which in many cases (e.g. in a constructor) "
               "is a drop-in replacement. If you were using data from type(), that is now available from Tensor "
               "itself, so instead of tensor.type().scalar_type(), use tensor.scalar_type() instead and instead of "
               "tensor.type().backend() use tensor.device().")]]
  DeprecatedTypeProperties type() const { return DeprecatedTypeProperties(device(), scalar_type()); }
  bool is_cuda() const { return info().device_type == MC_DEVICE_CUDA; }
  bool is_xpu() const { return false; }
  bool is_cpu() const { return info().device_type == MC_DEVICE_CPU; }
  bool is_meta() const { return device().is_meta(); }
  bool is_sparse() const { return false; }
  bool is_mkldnn() const { return false; }
  bool is_quantized() const { return false; }
  bool is_complex() const { return isComplexType(scalar_type()); }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_signed() const { return isSignedType(scalar_type()); }
  bool is_conj() const { return false; }
  bool is_neg() const { return false; }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    const std::uint32_t flags = info().flags;
    if (format == MemoryFormat::ChannelsLast) return flags & MC_CHANNELS_LAST;
    if (format == MemoryFormat::ChannelsLast3d) return flags & MC_CHANNELS_LAST_3D;
    return flags & MC_CONTIGUOUS;
  }
  bool is_non_overlapping_and_dense() const { return info().flags & MC_DENSE; }
  bool has_storage() const { return info().flags & MC_HAS_STORAGE; }
  MemoryFormat suggest_memory_format(bool = false) const {
    const std::uint32_t flags = info().flags;
    if (flags & MC_CONTIGUOUS) return MemoryFormat::Contiguous;
    return flags & MC_CHANNELS_LAST ? MemoryFormat::ChannelsLast
                                    : flags & MC_CHANNELS_LAST_3D ? MemoryFormat::ChannelsLast3d : MemoryFormat::Contiguous;
  }
  bool requires_grad() const { return info().flags & MC_REQUIRES_GRAD; }
  bool is_leaf() const { return true; }

  void* data_ptr() const { return info().data; }
  void* mutable_data_ptr() const { return info().data; }
  const void* const_data_ptr() const { return info().data; }
  template <class T>
  T* data_ptr() const;
  template <class T>
  T* mutable_data_ptr() const;
  template <class T, std::enable_if_t<!std::is_const_v<T>, bool> = true>
  const T* const_data_ptr() const { return typed<T>(); }
  template <class T, std::enable_if_t<std::is_const_v<T>, bool> = true>
  const std::remove_const_t<T>* const_data_ptr() const { return typed<std::remove_const_t<T>>(); }

  template <class T, std::size_t N>
  TensorAccessor<T, N> accessor() const& {
    static_assert(N > 0, "accessor is used for indexing tensor, for scalars use *data_ptr<T>()");
    const mc_tensor_info i = info();
    TORCH_CHECK(i.dim == static_cast<std::int64_t>(N), "TensorAccessor expected ", N, " dims but tensor has ", i.dim);
    return TensorAccessor<T, N>(data_of<T>(), i.sizes, i.strides);
  }
  template <class T, std::size_t N>
  TensorAccessor<T, N> accessor() && = delete;
  template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits, class I = std::int64_t>
  GenericPackedTensorAccessor<T, N, P, I> generic_packed_accessor() const& {
    static_assert(N > 0, "accessor is used for indexing tensor, for scalars use *data_ptr<T>()");
    const mc_tensor_info i = info();
    TORCH_CHECK(i.dim == static_cast<std::int64_t>(N), "TensorAccessor expected ", N, " dims but tensor has ", i.dim);
    return GenericPackedTensorAccessor<T, N, P, I>(static_cast<typename P<T>::PtrType>(data_of<T>()), i.sizes, i.strides);
  }
  template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits, class I = std::int64_t>
  GenericPackedTensorAccessor<T, N> generic_packed_accessor() && = delete;
  template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, P> packed_accessor32() const& {
    TORCH_CHECK(numel() <= static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::max()),
                "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
    return generic_packed_accessor<T, N, P, std::int32_t>();
  }
  template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, P> packed_accessor32() && = delete;
  template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, P> packed_accessor64() const& {
    return generic_packed_accessor<T, N, P, std::int64_t>();
  }
  template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, P> packed_accessor64() && = delete;

 protected:
  explicit TensorBase(mc_tensor owned) : h_(owned) {}
  mc_tensor_info info() const {
    if (!h_) throw_undefined();
    mc_tensor_info i;
    mc_info(h_, &i);
    return i;
  }
  [[noreturn]] static void throw_undefined() {
    ::c10::detail::fail<Error>("Cannot access data pointer or shape of an undefined Tensor");
  }
  static std::int64_t wrap(std::int64_t dim, std::int64_t n) {
    const std::int64_t range = n > 0 ? n : 1;
    if (dim < -range || dim >= range || n == 0)
      ::c10::detail::fail<IndexError>(n == 0 ? ::c10::str("Dimension specified as ", dim, " but tensor has no dimensions")
                                             : ::c10::str("Dimension out of range (expected to be in range of [", -range,
                                                          ", ", range - 1, "], but got ", dim, ")"));
    return dim < 0 ? dim + n : dim;
  }
  template <class T>
  T* typed() const {
    const mc_tensor_info i = info();
    constexpr ScalarType want = CppTypeToScalarType<T>::value;
    TORCH_CHECK(static_cast<ScalarType>(i.dtype) == want, "expected scalar type ", want, " but found ",
                static_cast<ScalarType>(i.dtype));
    return static_cast<T*>(i.data);
  }
  template <class T>
  auto data_of() const {
    if constexpr (std::is_const_v<T>) return const_data_ptr<T>();
    else return mutable_data_ptr<T>();
  }
  mc_tensor h_ = nullptr;
};

#define MC_DATA_PTR(number, ctype, name)                                                              \
  template <>                                                                                         \
  inline ctype* TensorBase::data_ptr<ctype>() const { return typed<ctype>(); }                        \
  template <>                                                                                         \
  inline ctype* TensorBase::mutable_data_ptr<ctype>() const { return typed<ctype>(); }
MC_FORALL_TYPES(MC_DATA_PTR)
#undef MC_DATA_PTR

namespace indexing {
struct Slice;
struct TensorIndex;
struct EllipsisIndexType {};
inline constexpr EllipsisIndexType Ellipsis{};
inline constexpr std::nullopt_t None = std::nullopt;
}  // namespace indexing

namespace ops {
// An operator's argument: converts from what host code passes.
struct Argument : mc_arg {
  Argument(const TensorBase& t) : mc_arg{nullptr, make(MC_TENSOR)} {
    value.u.t = t.handle();
    if (!t.defined()) value.kind = MC_NONE;
  }
  Argument(std::nullopt_t) : mc_arg{nullptr, make(MC_NONE)} {}
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  Argument(T v) : mc_arg{nullptr, make(std::is_same_v<T, bool> ? MC_BOOL : MC_INT)} {
    value.u.i = static_cast<std::int64_t>(v);
  }
  template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
  Argument(T v) : mc_arg{nullptr, make(MC_DOUBLE)} { value.u.d = static_cast<double>(v); }
  Argument(const Scalar& v) : mc_arg{nullptr, v.value()} {}
  Argument(ScalarType v) : mc_arg{nullptr, make(MC_DTYPE)} { value.u.i = static_cast<std::int64_t>(v); }
  Argument(Layout v) : mc_arg{nullptr, make(MC_LAYOUT)} { value.u.i = static_cast<std::int64_t>(v); }
  Argument(MemoryFormat v) : mc_arg{nullptr, make(MC_MEMORY_FORMAT)} { value.u.i = static_cast<std::int64_t>(v); }
  Argument(const Device& v) : mc_arg{nullptr, make(MC_DEVICE)} {
    value.u.i = static_cast<std::int64_t>(v.type());
    value.aux = v.index();
  }
  Argument(std::string_view v) : mc_arg{nullptr, make(MC_STRING)} {
    value.u.p = v.data();
    value.n = static_cast<std::int64_t>(v.size());
  }
  Argument(const char* v) : Argument(std::string_view(v)) {}
  Argument(IntArrayRef v) : mc_arg{nullptr, make(MC_INTS)} {
    value.u.p = v.data();
    value.n = static_cast<std::int64_t>(v.size());
  }
  Argument(ArrayRef<double> v) : mc_arg{nullptr, make(MC_DOUBLES)} {
    value.u.p = v.data();
    value.n = static_cast<std::int64_t>(v.size());
  }
  Argument(TensorList v);
  Argument(OptionalIntArrayRef v) : mc_arg{nullptr, make(MC_NONE)} {
    if (v) *this = Argument(*v);
  }
  template <class T>
  Argument(const std::optional<T>& v) : mc_arg{nullptr, make(MC_NONE)} {
    if (v) *this = Argument(*v);
  }
  static mc_value make(std::int32_t kind) {
    mc_value v{};
    v.kind = kind;
    return v;
  }
};
inline Argument keyword(const char* name, Argument argument) {
  argument.name = name;
  return argument;
}
Tensor call(const char* name, const char* overload, std::initializer_list<Argument> args);
// The commonest shapes of a call: plain functions, so that the many methods below are cheap to compile.
Tensor unary(const char* name, const Tensor& x);
Tensor binary(const char* name, const char* overload, const Tensor& a, const Tensor& b);
Tensor binary(const char* name, const char* overload, const Tensor& a, const Scalar& b);
Tensor scaled(const char* name, const char* overload, const Tensor& a, const Tensor& b, const Scalar& alpha);
Tensor scaled(const char* name, const char* overload, const Tensor& a, const Scalar& b, const Scalar& alpha);
int call_raw(const char* name, const char* overload, std::initializer_list<Argument> args, mc_value* results, int max);
inline bool call_bool(const char* name, std::initializer_list<Argument> args) {
  mc_value result{};
  call_raw(name, "", args, &result, 1);
  return result.u.i != 0;
}
}  // namespace ops

class Tensor : public TensorBase {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  explicit Tensor(const TensorBase& base) : TensorBase(base) {}
  Tensor& operator=(const Tensor& other) & { TensorBase::operator=(other); return *this; }
  Tensor& operator=(Tensor&& other) & noexcept { TensorBase::operator=(std::move(other)); return *this; }
  // x[0] = y copies into the element.
  Tensor& operator=(const Tensor& other) && { copy_(other); return *this; }
  Tensor& operator=(Tensor&& other) && { copy_(other); return *this; }
  Tensor& operator=(const Scalar& value) && { fill_(value); return *this; }
  static Tensor adopt(mc_tensor owned) { return Tensor(owned); }

  template <class T>
  [[deprecated("Tensor.data<T>() is deprecated. Please use Tensor.data_ptr<T>() instead.")]]
  T* data() const { return data_ptr<T>(); }
  Tensor data() const { return detach(); }
  template <class T>
  T item() const;
  Scalar item() const;
  template <class T, std::size_t N, template <class U> class P = DefaultPtrTraits, class I = std::int64_t>
  GenericPackedTensorAccessor<T, N, P, I> packed_accessor() const& { return generic_packed_accessor<T, N, P, I>(); }
  std::string toString() const { return DeprecatedTypeProperties(device(), scalar_type()).toString(); }

  // Copies and conversions.
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    if (is_contiguous(format)) return *this;
    return ops::call("aten::contiguous", "", {*this, ops::keyword("memory_format", format)});
  }
  Tensor clone(std::optional<MemoryFormat> format = std::nullopt) const {
    return ops::call("aten::clone", "", {*this, ops::keyword("memory_format", format)});
  }
  Tensor to(TensorOptions options = {}, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const {
    std::optional<ScalarType> type;
    if (options.has_dtype()) type = options.dtype().toScalarType();
    return ops::call("aten::to", "dtype_layout",
                     {*this, ops::keyword("dtype", type), ops::keyword("device", options.device_opt()),
                      ops::keyword("non_blocking", non_blocking), ops::keyword("copy", copy),
                      ops::keyword("memory_format", format ? format : options.memory_format_opt())});
  }
  Tensor to(Device device, ScalarType type, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const {
    return ops::call("aten::to", "device", {*this, device, type, non_blocking, copy, format});
  }
  Tensor to(ScalarType type, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const {
    return ops::call("aten::to", "dtype", {*this, type, non_blocking, copy, format});
  }
  Tensor to(const Tensor& other, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const {
    return ops::call("aten::to", "other", {*this, other, non_blocking, copy, format});
  }
  Tensor to(caffe2::TypeMeta type, bool non_blocking = false, bool copy = false) const {
    return to(type.toScalarType(), non_blocking, copy);
  }
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor cpu() const { return to(TensorOptions().device(DeviceType::CPU)); }
  Tensor cuda() const { return to(TensorOptions().device(DeviceType::CUDA)); }
  Tensor type_as(const Tensor& other) const { return to(other.scalar_type()); }
  Tensor detach() const { return ops::call("aten::detach", "", {*this}); }
  Tensor alias() const { return ops::call("aten::alias", "", {*this}); }
  Tensor variable_data() const { return detach(); }
  Tensor tensor_data() const { return detach(); }
  const Tensor& requires_grad_(bool value = true) const {
    if (mc_set_requires_grad(h_, value) < 0) ::c10::detail::rethrow();
    return *this;
  }
  const Tensor& set_requires_grad(bool value) const { return requires_grad_(value); }
  Tensor& copy_(const Tensor& src, bool non_blocking = false) const { return self(ops::call("aten::copy_", "", {*this, src, non_blocking})); }
  Tensor& fill_(const Scalar& value) const { return self(ops::call("aten::fill_", "Scalar", {*this, value})); }
  Tensor& fill_(const Tensor& value) const { return self(ops::call("aten::fill_", "Tensor", {*this, value})); }
  Tensor& zero_() const { return self(ops::call("aten::zero_", "", {*this})); }
  Tensor& resize_(IntArrayRef size) const { return self(ops::call("aten::resize_", "", {*this, size})); }
  Tensor& set_(const Tensor& source) const { return self(ops::call("aten::set_", "source_Tensor", {*this, source})); }

  // Views.
  Tensor view(IntArrayRef size) const { return ops::call("aten::view", "", {*this, size}); }
  Tensor view(ScalarType type) const { return ops::call("aten::view", "dtype", {*this, type}); }
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor reshape(IntArrayRef size) const { return ops::call("aten::reshape", "", {*this, size}); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.sizes()); }
  Tensor flatten(std::int64_t start = 0, std::int64_t end = -1) const { return ops::call("aten::flatten", "using_ints", {*this, start, end}); }
  Tensor unflatten(std::int64_t dim, IntArrayRef sizes) const { return ops::call("aten::unflatten", "int", {*this, dim, sizes}); }
  Tensor ravel() const { return ops::call("aten::ravel", "", {*this}); }
  Tensor transpose(std::int64_t a, std::int64_t b) const { return ops::call("aten::transpose", "int", {*this, a, b}); }
  Tensor& transpose_(std::int64_t a, std::int64_t b) const { return self(ops::call("aten::transpose_", "", {*this, a, b})); }
  Tensor swapaxes(std::int64_t a, std::int64_t b) const { return transpose(a, b); }
  Tensor t() const { return ops::call("aten::t", "", {*this}); }
  Tensor mT() const { return ops::call("aten::mT", "", {*this}); }
  Tensor permute(IntArrayRef dims) const { return ops::call("aten::permute", "", {*this, dims}); }
  Tensor movedim(std::int64_t a, std::int64_t b) const { return ops::call("aten::movedim", "int", {*this, a, b}); }
  Tensor squeeze() const { return ops::call("aten::squeeze", "", {*this}); }
  Tensor squeeze(std::int64_t dim) const { return ops::call("aten::squeeze", "dim", {*this, dim}); }
  Tensor squeeze(IntArrayRef dims) const { return ops::call("aten::squeeze", "dims", {*this, dims}); }
  Tensor unsqueeze(std::int64_t dim) const { return ops::call("aten::unsqueeze", "", {*this, dim}); }
  Tensor& unsqueeze_(std::int64_t dim) const { return self(ops::call("aten::unsqueeze_", "", {*this, dim})); }
  Tensor& squeeze_() const { return self(ops::call("aten::squeeze_", "", {*this})); }
  Tensor& squeeze_(std::int64_t dim) const { return self(ops::call("aten::squeeze_", "dim", {*this, dim})); }
  Tensor expand(IntArrayRef size, bool implicit = false) const { return ops::call("aten::expand", "", {*this, size, ops::keyword("implicit", implicit)}); }
  Tensor expand_as(const Tensor& other) const { return expand(other.sizes()); }
  Tensor broadcast_to(IntArrayRef size) const { return ops::call("aten::broadcast_to", "", {*this, size}); }
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const { return ops::call("aten::narrow", "", {*this, dim, start, length}); }
  Tensor select(std::int64_t dim, std::int64_t index) const { return ops::call("aten::select", "int", {*this, dim, index}); }
  Tensor slice(std::int64_t dim = 0, std::optional<std::int64_t> start = std::nullopt,
               std::optional<std::int64_t> end = std::nullopt, std::int64_t step = 1) const {
    return ops::call("aten::slice", "Tensor", {*this, dim, start, end, step});
  }
  Tensor diagonal(std::int64_t offset = 0, std::int64_t a = 0, std::int64_t b = 1) const { return ops::call("aten::diagonal", "", {*this, offset, a, b}); }
  Tensor unfold(std::int64_t dim, std::int64_t size, std::int64_t step) const { return ops::call("aten::unfold", "", {*this, dim, size, step}); }
  Tensor as_strided(IntArrayRef size, IntArrayRef stride, std::optional<std::int64_t> offset = std::nullopt) const {
    return ops::call("aten::as_strided", "", {*this, size, stride, offset});
  }
  std::vector<Tensor> unbind(std::int64_t dim = 0) const;
  std::vector<Tensor> split(std::int64_t size, std::int64_t dim = 0) const;
  std::vector<Tensor> split(IntArrayRef sizes, std::int64_t dim = 0) const;
  std::vector<Tensor> split_with_sizes(IntArrayRef sizes, std::int64_t dim = 0) const { return split(sizes, dim); }
  std::vector<Tensor> chunk(std::int64_t chunks, std::int64_t dim = 0) const;
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  Tensor operator[](const Scalar& index) const { return select(0, index.toLong()); }
  Tensor index(ArrayRef<indexing::TensorIndex> indices) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& value) const;
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value) const;

  // New tensors like this one.
  Tensor new_empty(IntArrayRef size, TensorOptions options = {}) const;
  Tensor new_zeros(IntArrayRef size, TensorOptions options = {}) const;
  Tensor new_ones(IntArrayRef size, TensorOptions options = {}) const;
  Tensor new_full(IntArrayRef size, const Scalar& value, TensorOptions options = {}) const;

#include "tensor_methods.h"

  explicit operator bool() const = delete;

 private:
  friend Tensor ops::call(const char*, const char*, std::initializer_list<ops::Argument>);
  explicit Tensor(mc_tensor owned) : TensorBase(owned) {}
  Tensor& self(const Tensor&) const { return const_cast<Tensor&>(*this); }
};

namespace ops {
static_assert(sizeof(Tensor) == sizeof(mc_tensor), "a list of tensors is a list of handles");
static_assert(sizeof(Argument) == sizeof(mc_arg), "arguments are passed as they lie");
inline Argument::Argument(TensorList v) : mc_arg{nullptr, make(MC_TENSORS)} {
  value.u.p = v.data();
  value.n = static_cast<std::int64_t>(v.size());
}
inline int call_raw(const char* name, const char* overload, std::initializer_list<Argument> args, mc_value* results,
                    int max) {
  const int n = mc_call_op(name, overload, args.begin(), static_cast<int>(args.size()), results, max);
  if (n < 0) ::c10::detail::rethrow();
  return n;
}
inline Tensor call(const char* name, const char* overload, std::initializer_list<Argument> args) {
  mc_value result{};
  if (call_raw(name, overload, args, &result, 1) < 1 || result.kind != MC_TENSOR) return Tensor();
  return Tensor::adopt(result.u.t);
}
inline Tensor unary(const char* name, const Tensor& x) { return call(name, "", {x}); }
inline Tensor binary(const char* name, const char* overload, const Tensor& a, const Tensor& b) { return call(name, overload, {a, b}); }
inline Tensor binary(const char* name, const char* overload, const Tensor& a, const Scalar& b) { return call(name, overload, {a, b}); }
inline Tensor scaled(const char* name, const char* overload, const Tensor& a, const Tensor& b, const Scalar& alpha) {
  return call(name, overload, {a, b, keyword("alpha", alpha)});
}
inline Tensor scaled(const char* name, const char* overload, const Tensor& a, const Scalar& b, const Scalar& alpha) {
  return call(name, overload, {a, b, alpha});
}
inline std::vector<Tensor> take_list(const mc_value& v) {
  std::vector<Tensor> out;
  const auto* handles = static_cast<const mc_tensor*>(v.u.p);
  for (std::int64_t i = 0; i < v.n; ++i) out.push_back(Tensor::adopt(handles[i]));
  mc_free(const_cast<void*>(v.u.p));
  return out;
}
inline std::vector<Tensor> call_list(const char* name, const char* overload, std::initializer_list<Argument> args) {
  mc_value result{};
  call_raw(name, overload, args, &result, 1);
  return result.kind == MC_TENSORS ? take_list(result) : std::vector<Tensor>();
}
inline Tensor take(const mc_value& v) { return v.kind == MC_TENSOR ? Tensor::adopt(v.u.t) : Tensor(); }
inline std::tuple<Tensor, Tensor> call2(const char* name, const char* overload, std::initializer_list<Argument> args) {
  mc_value r[2] = {};
  call_raw(name, overload, args, r, 2);
  Tensor first = take(r[0]);
  return {std::move(first), take(r[1])};
}
inline std::tuple<Tensor, Tensor, Tensor> call3(const char* name, const char* overload,
                                                std::initializer_list<Argument> args) {
  mc_value r[3] = {};
  call_raw(name, overload, args, r, 3);
  Tensor first = take(r[0]), second = take(r[1]);
  return {std::move(first), std::move(second), take(r[2])};
}
inline mc_value call_value(const char* name, const char* overload, std::initializer_list<Argument> args) {
  mc_value result{};
  call_raw(name, overload, args, &result, 1);
  return result;
}
}  // namespace ops

inline Scalar Tensor::item() const { return Scalar::from(ops::call_value("aten::item", "", {*this})); }
template <class T>
T Tensor::item() const { return item().to<T>(); }
inline std::vector<Tensor> Tensor::unbind(std::int64_t dim) const { return ops::call_list("aten::unbind", "int", {*this, dim}); }
inline std::vector<Tensor> Tensor::split(std::int64_t size, std::int64_t dim) const { return ops::call_list("aten::split", "Tensor", {*this, size, dim}); }
inline std::vector<Tensor> Tensor::split(IntArrayRef sizes, std::int64_t dim) const { return ops::call_list("aten::split_with_sizes", "", {*this, sizes, dim}); }
inline std::vector<Tensor> Tensor::chunk(std::int64_t chunks, std::int64_t dim) const { return ops::call_list("aten::chunk", "", {*this, chunks, dim}); }

template <class C, class T>
std::basic_ostream<C, T>& operator<<(std::basic_ostream<C, T>& out, const Tensor& tensor) {
  return out << ::c10::str(tensor).c_str();
}

// --- indexing -------------------------------------------------------------------------------------------------------
namespace indexing {
struct Slice {
  Slice(std::optional<std::int64_t> start = std::nullopt, std::optional<std::int64_t> stop = std::nullopt,
        std::optional<std::int64_t> step = std::nullopt)
      : start(start), stop(stop), step(step.value_or(1)) {}
  std::optional<std::int64_t> start, stop;
  std::int64_t step;
};
struct TensorIndex {
  TensorIndex(std::nullopt_t) : kind(kNone) {}
  TensorIndex(EllipsisIndexType) : kind(kEllipsis) {}
  TensorIndex(const char* text) : kind(kEllipsis) { TORCH_CHECK(std::strcmp(text, "...") == 0, "Expected \"...\" to represent an ellipsis index, but got \"", text, "\""); }
  TensorIndex(std::int64_t i) : kind(kInt), integer(i) {}
  TensorIndex(int i) : kind(kInt), integer(i) {}
  template <class T, class = std::enable_if_t<std::is_same_v<bool, T>>>
  TensorIndex(T value) : kind(kBool), integer(value) {}
  TensorIndex(Slice s) : kind(kSlice), slice(s) {}
  TensorIndex(Tensor t) : kind(kTensor), tensor(std::move(t)) {}
  enum Kind { kNone, kEllipsis, kInt, kBool, kSlice, kTensor } kind;
  std::int64_t integer = 0;
  Slice slice;
  Tensor tensor;
};
// The view that ints, slices, None and an ellipsis select; tensors are left for the operator, by dimension.
inline Tensor apply(Tensor self, const TensorIndex* indices, std::size_t n, std::vector<Tensor>& tensors) {
  std::int64_t used = 0, dim = 0;
  for (std::size_t i = 0; i < n; ++i)
    used += indices[i].kind == TensorIndex::kInt || indices[i].kind == TensorIndex::kSlice || indices[i].kind == TensorIndex::kTensor;
  TORCH_CHECK_INDEX(used <= self.dim(), "too many indices for tensor of dimension ", self.dim());
  const std::int64_t rank = self.dim();
  for (std::size_t i = 0; i < n; ++i) {
    const TensorIndex& index = indices[i];
    switch (index.kind) {
      case TensorIndex::kNone: self = self.unsqueeze(dim++); break;
      case TensorIndex::kEllipsis: dim += rank - used; break;
      case TensorIndex::kInt: self = self.select(dim, index.integer); break;
      case TensorIndex::kSlice: self = self.slice(dim++, index.slice.start, index.slice.stop, index.slice.step); break;
      case TensorIndex::kBool: TORCH_CHECK_INDEX(false, "indexing with a bool is not available here"); break;
      case TensorIndex::kTensor:
        tensors.resize(static_cast<std::size_t>(dim) + 1);
        tensors[static_cast<std::size_t>(dim++)] = index.tensor;
        break;
    }
  }
  return self;
}
}  // namespace indexing
using indexing::Slice;
inline Tensor Tensor::index(ArrayRef<indexing::TensorIndex> indices) const {
  std::vector<Tensor> tensors;
  Tensor view = indexing::apply(*this, indices.data(), indices.size(), tensors);
  return tensors.empty() ? view : ops::call("aten::index", "Tensor", {view, TensorList(tensors)});
}
inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
  return index(ArrayRef<indexing::TensorIndex>(indices));
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& value) const {
  std::vector<Tensor> tensors;
  Tensor view = indexing::apply(*this, indices.begin(), indices.size(), tensors);
  if (tensors.empty()) view.copy_(value);
  else ops::call("aten::index_put_", "", {view, TensorList(tensors), value});
  return const_cast<Tensor&>(*this);
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value) const {
  std::vector<Tensor> tensors;
  Tensor view = indexing::apply(*this, indices.begin(), indices.size(), tensors);
  if (tensors.empty()) view.fill_(value);
  else ops::call("aten::index_put_", "", {view, TensorList(tensors), ops::call("aten::scalar_tensor", "", {value, ops::keyword("dtype", scalar_type()), ops::keyword("device", device())})});
  return const_cast<Tensor&>(*this);
}
}  // namespace at

namespace c10::detail {
inline void append(std::string& out, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    out += "[ Tensor (undefined) ]";
    return;
  }
  char* text = mc_to_string(tensor.handle());
  out += text ? text : mc_error_message();
  mc_free(text);
}
}  // namespace c10::detail
#endif
