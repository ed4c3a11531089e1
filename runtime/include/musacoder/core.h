// Value types of torch's core: element types, devices, layouts, lists of numbers, scalars, options' parts.
#ifndef MUSACODER_SLIM_MUSACODER_CORE_H
#define MUSACODER_SLIM_MUSACODER_CORE_H

#include "error.h"

namespace c10 {

// Number, C++ type and name, in torch's own numbering.
#define MC_FORALL_TYPES(_)                                                                                              \
  _(0, std::uint8_t, Byte) _(1, std::int8_t, Char) _(2, std::int16_t, Short) _(3, int, Int) _(4, std::int64_t, Long)    \
  _(5, ::c10::Half, Half) _(6, float, Float) _(7, double, Double) _(8, ::c10::complex<::c10::Half>, ComplexHalf)        \
  _(9, ::c10::complex<float>, ComplexFloat) _(10, ::c10::complex<double>, ComplexDouble) _(11, bool, Bool)              \
  _(15, ::c10::BFloat16, BFloat16) _(23, ::c10::Float8_e5m2, Float8_e5m2) _(24, ::c10::Float8_e4m3fn, Float8_e4m3fn)    \
  _(27, std::uint16_t, UInt16) _(28, std::uint32_t, UInt32) _(29, std::uint64_t, UInt64)

enum class ScalarType : std::int8_t {
#define MC_ENUM(number, type, name) name = number,
  MC_FORALL_TYPES(MC_ENUM)
#undef MC_ENUM
      QInt8 = 12, QUInt8 = 13, QInt32 = 14, Undefined = 127, NumOptions = 126
};
constexpr auto kByte = ScalarType::Byte;
constexpr auto kChar = ScalarType::Char;
constexpr auto kShort = ScalarType::Short;
constexpr auto kInt = ScalarType::Int;
constexpr auto kLong = ScalarType::Long;
constexpr auto kHalf = ScalarType::Half;
constexpr auto kFloat = ScalarType::Float;
constexpr auto kDouble = ScalarType::Double;
constexpr auto kComplexHalf = ScalarType::ComplexHalf;
constexpr auto kComplexFloat = ScalarType::ComplexFloat;
constexpr auto kComplexDouble = ScalarType::ComplexDouble;
constexpr auto kBool = ScalarType::Bool;
constexpr auto kBFloat16 = ScalarType::BFloat16;
constexpr auto kFloat8_e5m2 = ScalarType::Float8_e5m2;
constexpr auto kFloat8_e4m3fn = ScalarType::Float8_e4m3fn;
constexpr auto kUInt16 = ScalarType::UInt16;
constexpr auto kUInt32 = ScalarType::UInt32;
constexpr auto kUInt64 = ScalarType::UInt64;
constexpr auto kQInt8 = ScalarType::QInt8;
constexpr auto kQUInt8 = ScalarType::QUInt8;
constexpr auto kQInt32 = ScalarType::QInt32;

inline const char* toString(ScalarType type) {
  switch (type) {
#define MC_NAME(number, ctype, name) \
  case ScalarType::name: return #name;
    MC_FORALL_TYPES(MC_NAME)
#undef MC_NAME
    case ScalarType::Undefined: return "Undefined";
    default: return "UNKNOWN_SCALAR";
  }
}

inline std::size_t elementSize(ScalarType type) {
  switch (type) {
    case kByte: case kChar: case kBool: case kFloat8_e5m2: case kFloat8_e4m3fn: return 1;
    case kShort: case kHalf: case kBFloat16: case kUInt16: return 2;
    case kInt: case kFloat: case kUInt32: case kComplexHalf: return 4;
    case kLong: case kDouble: case kUInt64: case kComplexFloat: return 8;
    case kComplexDouble: return 16;
    default: detail::fail<Error>(str("Unknown ScalarType"));
  }
}
inline bool isFloatingType(ScalarType t) {
  return t == kDouble || t == kFloat || t == kHalf || t == kBFloat16 || t == kFloat8_e5m2 || t == kFloat8_e4m3fn;
}
inline bool isComplexType(ScalarType t) { return t == kComplexHalf || t == kComplexFloat || t == kComplexDouble; }
inline bool isReducedFloatingType(ScalarType t) {
  return t == kHalf || t == kBFloat16 || t == kFloat8_e5m2 || t == kFloat8_e4m3fn;
}
inline bool isIntegralType(ScalarType t, bool includeBool) {
  return t == kByte || t == kChar || t == kShort || t == kInt || t == kLong || t == kUInt16 || t == kUInt32 ||
         t == kUInt64 || (includeBool && t == kBool);
}
inline bool isSignedType(ScalarType t) {
  return t != kByte && t != kBool && t != kUInt16 && t != kUInt32 && t != kUInt64;
}

template <class T>
struct CppTypeToScalarType;
template <ScalarType N>
struct ScalarTypeToCPPType;

// Half, BFloat16 and complex are in half.h, which must come first for these tables.
}  // namespace c10

#include "half.h"

namespace c10 {
#define MC_MAP(number, ctype, name)                                                             \
  template <>                                                                                   \
  struct CppTypeToScalarType<ctype> : std::integral_constant<ScalarType, ScalarType::name> {};  \
  template <>                                                                                   \
  struct ScalarTypeToCPPType<ScalarType::name> {                                                \
    using type = ctype;                                                                         \
  };
MC_FORALL_TYPES(MC_MAP)
#undef MC_MAP
template <ScalarType N>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<N>::type;
namespace impl {
template <ScalarType N>
using ScalarTypeToCPPType = ::c10::ScalarTypeToCPPType<N>;
template <ScalarType N>
using ScalarTypeToCPPTypeT = typename ::c10::ScalarTypeToCPPType<N>::type;
}  // namespace impl
}  // namespace c10

namespace caffe2 {
// What Tensor::dtype() gives. Compares with ScalarType, prints as "float".
class TypeMeta {
 public:
  TypeMeta() = default;
  static TypeMeta fromScalarType(c10::ScalarType type) {
    TypeMeta meta;
    meta.type_ = type;
    return meta;
  }
  template <class T>
  static TypeMeta Make() { return fromScalarType(c10::CppTypeToScalarType<T>::value); }
  bool isScalarType() const { return type_ != c10::ScalarType::Undefined; }
  bool isScalarType(c10::ScalarType type) const { return type_ == type; }
  c10::ScalarType toScalarType() const { return type_; }
  std::size_t itemsize() const { return c10::elementSize(type_); }
  std::string_view name() const {
    switch (type_) {
      case c10::kByte: return "unsigned char";
      case c10::kChar: return "signed char";
      case c10::kShort: return "short int";
      case c10::kInt: return "int";
      case c10::kLong: return "long int";
      case c10::kHalf: return "c10::Half";
      case c10::kFloat: return "float";
      case c10::kDouble: return "double";
      case c10::kComplexHalf: return "c10::complex<c10::Half>";
      case c10::kComplexFloat: return "c10::complex<float>";
      case c10::kComplexDouble: return "c10::complex<double>";
      case c10::kBool: return "bool";
      case c10::kBFloat16: return "c10::BFloat16";
      default: return c10::toString(type_);
    }
  }
  template <class T>
  bool Match() const { return *this == Make<T>(); }
  friend bool operator==(const TypeMeta& a, const TypeMeta& b) { return a.type_ == b.type_; }
  friend bool operator!=(const TypeMeta& a, const TypeMeta& b) { return a.type_ != b.type_; }

 private:
  c10::ScalarType type_ = c10::ScalarType::Undefined;
};
inline bool operator==(c10::ScalarType a, const TypeMeta& b) { return a == b.toScalarType(); }
inline bool operator==(const TypeMeta& a, c10::ScalarType b) { return a.toScalarType() == b; }
inline bool operator!=(c10::ScalarType a, const TypeMeta& b) { return a != b.toScalarType(); }
inline bool operator!=(const TypeMeta& a, c10::ScalarType b) { return a.toScalarType() != b; }
}  // namespace caffe2

namespace c10 {
using caffe2::TypeMeta;
using caffe2::operator==;
using caffe2::operator!=;
inline ScalarType typeMetaToScalarType(TypeMeta meta) { return meta.toScalarType(); }
inline TypeMeta scalarTypeToTypeMeta(ScalarType type) { return TypeMeta::fromScalarType(type); }

using DeviceIndex = std::int8_t;
enum class DeviceType : std::int8_t { CPU = 0, CUDA = 1, HIP = 6, XPU = 12, MPS = 13, Meta = 14, PrivateUse1 = 20 };
constexpr DeviceType kCPU = DeviceType::CPU;
constexpr DeviceType kCUDA = DeviceType::CUDA;
constexpr DeviceType kHIP = DeviceType::HIP;
constexpr DeviceType kXPU = DeviceType::XPU;
constexpr DeviceType kMPS = DeviceType::MPS;
constexpr DeviceType kMeta = DeviceType::Meta;
constexpr DeviceType kPrivateUse1 = DeviceType::PrivateUse1;
inline std::string DeviceTypeName(DeviceType type, bool lower_case = false) {
  const char* name = "privateuseone";
  switch (type) {
    case DeviceType::CPU: name = "cpu"; break;
    case DeviceType::CUDA: name = "cuda"; break;
    case DeviceType::HIP: name = "hip"; break;
    case DeviceType::XPU: name = "xpu"; break;
    case DeviceType::MPS: name = "mps"; break;
    case DeviceType::Meta: name = "meta"; break;
    case DeviceType::PrivateUse1: break;
  }
  std::string text = name;
  if (!lower_case) {
    for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return text;
}

struct Device final {
  using Type = DeviceType;
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const std::string& text) : type_(DeviceType::CPU), index_(-1) {
    const std::size_t colon = text.find(':');
    const std::string name = text.substr(0, colon);
    if (name == "cuda") type_ = DeviceType::CUDA;
    else if (name == "meta") type_ = DeviceType::Meta;
    else if (name != "cpu") detail::fail<Error>(str("Invalid device string: '", text, "'"));
    if (colon != std::string::npos) {
      const std::string digits = text.substr(colon + 1);
      if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos || digits.size() > 2)
        detail::fail<Error>(str("Invalid device string: '", text, "'"));
      index_ = static_cast<DeviceIndex>(std::atoi(digits.c_str()));
    }
  }
  DeviceType type() const noexcept { return type_; }
  DeviceIndex index() const noexcept { return index_; }
  bool has_index() const noexcept { return index_ != -1; }
  void set_index(DeviceIndex index) { index_ = index; }
  bool is_cuda() const noexcept { return type_ == DeviceType::CUDA; }
  bool is_cpu() const noexcept { return type_ == DeviceType::CPU; }
  bool is_privateuseone() const noexcept { return type_ == DeviceType::PrivateUse1; }
  bool is_meta() const noexcept { return type_ == DeviceType::Meta; }
  bool is_mps() const noexcept { return type_ == DeviceType::MPS; }
  bool is_xpu() const noexcept { return type_ == DeviceType::XPU; }
  bool is_hip() const noexcept { return type_ == DeviceType::HIP; }
  bool operator==(const Device& other) const noexcept { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const noexcept { return !(*this == other); }
  std::string str() const {
    std::string text = DeviceTypeName(type_, true);
    if (has_index()) text += ":" + std::to_string(index_);
    return text;
  }
  template <class... A>
  static std::string str(const A&... a) { return ::c10::str(a...); }

 private:
  DeviceType type_;
  DeviceIndex index_;
};

enum class Layout : std::int8_t { Strided = 0, Sparse = 1, SparseCsr = 2, Mkldnn = 3 };
constexpr auto kStrided = Layout::Strided;
constexpr auto kSparse = Layout::Sparse;
enum class MemoryFormat : std::int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d, NumOptions };

using std::nullopt;
using std::nullopt_t;
using std::optional;
template <class... A>
constexpr auto make_optional(A&&... a) { return std::make_optional(std::forward<A>(a)...); }

// A borrowed list. Lives no longer than what it was made of.
template <class T>
class ArrayRef final {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  using size_type = std::size_t;
  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, std::size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(static_cast<std::size_t>(end - begin)) {}
  template <class A>
  ArrayRef(const std::vector<T, A>& list) : data_(list.data()), size_(list.size()) {
    static_assert(!std::is_same_v<T, bool>, "ArrayRef<bool> cannot be constructed from a std::vector<bool> bitfield.");
  }
  template <std::size_t N>
  constexpr ArrayRef(const std::array<T, N>& list) : data_(list.data()), size_(N) {}
  template <std::size_t N>
  constexpr ArrayRef(const T (&list)[N]) : data_(list), size_(N) {}
  // Through another constructor: GCC warns of a member set from begin(), and forgets a pragma against it in a precompiled header.
  constexpr ArrayRef(const std::initializer_list<T>& list) : ArrayRef(list.size() ? list.begin() : nullptr, list.size()) {}
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* cbegin() const { return data_; }
  constexpr const T* cend() const { return data_ + size_; }
  std::reverse_iterator<const T*> rbegin() const { return std::reverse_iterator<const T*>(end()); }
  std::reverse_iterator<const T*> rend() const { return std::reverse_iterator<const T*>(begin()); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  const T& front() const { return at(0); }
  const T& back() const { return at(size_ - 1); }
  constexpr const T& operator[](std::size_t i) const { return data_[i]; }
  const T& at(std::size_t i) const {
    TORCH_CHECK(i < size_, "ArrayRef: invalid index Index = ", i, "; Length = ", size_);
    return data_[i];
  }
  ArrayRef slice(std::size_t n, std::size_t m) const {
    TORCH_CHECK(n + m <= size_, "ArrayRef: invalid slice, N = ", n, "; M = ", m, "; size = ", size_);
    return ArrayRef(data_ + n, m);
  }
  ArrayRef slice(std::size_t n) const { return slice(n, size_ - n); }
  bool equals(ArrayRef other) const {
    if (size_ != other.size_) return false;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!(data_[i] == other.data_[i])) return false;
    }
    return true;
  }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};
template <class T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) { return a.equals(b); }
template <class T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) { return !a.equals(b); }
template <class T>
bool operator==(const std::vector<T>& a, ArrayRef<T> b) { return ArrayRef<T>(a).equals(b); }
template <class T>
bool operator!=(const std::vector<T>& a, ArrayRef<T> b) { return !ArrayRef<T>(a).equals(b); }
template <class T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) { return a.equals(ArrayRef<T>(b)); }
template <class T>
bool operator!=(ArrayRef<T> a, const std::vector<T>& b) { return !a.equals(ArrayRef<T>(b)); }
using IntArrayRef = ArrayRef<std::int64_t>;

template <class T>
class OptionalArrayRef {
 public:
  OptionalArrayRef() = default;
  OptionalArrayRef(std::nullopt_t) {}
  OptionalArrayRef(ArrayRef<T> list) : list_(list) {}
  OptionalArrayRef(const std::optional<ArrayRef<T>>& list) : list_(list) {}
  OptionalArrayRef(const T& one) : list_(ArrayRef<T>(one)) {}
  OptionalArrayRef(const std::vector<T>& list) : list_(ArrayRef<T>(list)) {}
  OptionalArrayRef(const std::initializer_list<T>& list) : list_(ArrayRef<T>(list)) {}
  template <std::size_t N>
  OptionalArrayRef(const std::array<T, N>& list) : list_(ArrayRef<T>(list)) {}
  bool has_value() const { return list_.has_value(); }
  explicit operator bool() const { return list_.has_value(); }
  const ArrayRef<T>& value() const { return list_.value(); }
  const ArrayRef<T>& operator*() const { return *list_; }
  const ArrayRef<T>* operator->() const { return &*list_; }

 private:
  std::optional<ArrayRef<T>> list_;
};
using OptionalIntArrayRef = OptionalArrayRef<std::int64_t>;

// A number of any kind.
class Scalar {
 public:
  Scalar() : Scalar(std::int64_t(0)) {}
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Scalar(T value) : kind_(MC_INT) { i_ = static_cast<std::int64_t>(value); }
  template <class T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  Scalar(T value) : kind_(MC_BOOL) { i_ = value; }
  Scalar(double value) : kind_(MC_DOUBLE) { d_ = value; }
  Scalar(float value) : kind_(MC_DOUBLE) { d_ = value; }
  Scalar(Half value) : kind_(MC_DOUBLE) { d_ = static_cast<float>(value); }
  Scalar(BFloat16 value) : kind_(MC_DOUBLE) { d_ = static_cast<float>(value); }
  Scalar(complex<double> value) : kind_(MC_COMPLEX) { d_ = value.real(); imag_ = value.imag(); }
  Scalar(complex<float> value) : Scalar(complex<double>(value.real(), value.imag())) {}
  bool isFloatingPoint() const { return kind_ == MC_DOUBLE; }
  bool isIntegral(bool include_bool) const { return kind_ == MC_INT || (include_bool && kind_ == MC_BOOL); }
  bool isBoolean() const { return kind_ == MC_BOOL; }
  bool isComplex() const { return kind_ == MC_COMPLEX; }
  ScalarType type() const {
    return kind_ == MC_DOUBLE ? kDouble : kind_ == MC_INT ? kLong : kind_ == MC_BOOL ? kBool : kComplexDouble;
  }
  template <class T>
  T to() const {
    if constexpr (is_complex_v<T>) {
      using V = typename T::value_type;
      return kind_ == MC_COMPLEX || kind_ == MC_DOUBLE ? T(static_cast<V>(d_), static_cast<V>(imag_))
                                                       : T(static_cast<V>(i_), V(0));
    } else {
      TORCH_CHECK(kind_ != MC_COMPLEX || imag_ == 0, "value cannot be converted without overflow");
      return kind_ == MC_DOUBLE || kind_ == MC_COMPLEX ? checked<T>(d_) : checked<T>(i_);
    }
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  std::int64_t toLong() const { return to<std::int64_t>(); }
  int toInt() const { return to<int>(); }
  std::int16_t toShort() const { return to<std::int16_t>(); }
  std::int8_t toChar() const { return to<std::int8_t>(); }
  std::uint8_t toByte() const { return to<std::uint8_t>(); }
  bool toBool() const { return to<bool>(); }
  Half toHalf() const { return to<Half>(); }
  BFloat16 toBFloat16() const { return to<BFloat16>(); }
  complex<double> toComplexDouble() const { return to<complex<double>>(); }
  Scalar operator-() const {
    Scalar out = *this;
    out.i_ = -i_;
    out.d_ = -d_;
    return out;
  }
  template <class T>
  bool equal(T value) const { return kind_ == MC_DOUBLE ? d_ == static_cast<double>(value) : i_ == static_cast<std::int64_t>(value); }
  mc_value value() const {
    mc_value v{};
    v.kind = kind_;
    if (kind_ == MC_DOUBLE) v.u.d = d_;
    else if (kind_ == MC_COMPLEX) { v.u.c[0] = d_; v.u.c[1] = imag_; }
    else v.u.i = i_;
    return v;
  }
  static Scalar from(const mc_value& v) {
    if (v.kind == MC_DOUBLE) return Scalar(v.u.d);
    if (v.kind == MC_BOOL) return Scalar(v.u.i != 0);
    if (v.kind == MC_COMPLEX) return Scalar(complex<double>(v.u.c[0], v.u.c[1]));
    return Scalar(v.u.i);
  }

 private:
  template <class T, class V>
  static T checked(V value) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const long double wide = static_cast<long double>(value);
      if (wide < static_cast<long double>(std::numeric_limits<T>::min()) ||
          wide > static_cast<long double>(std::numeric_limits<T>::max()))
        detail::fail<Error>("value cannot be converted without overflow");
    }
    return static_cast<T>(value);
  }
  std::int32_t kind_;
  std::int64_t i_ = 0;
  double d_ = 0, imag_ = 0;
};

namespace detail {
inline void append(std::string& out, ScalarType type) { out += toString(type); }
inline void append(std::string& out, const TypeMeta& meta) { out += meta.name(); }
inline void append(std::string& out, DeviceType type) { out += DeviceTypeName(type, true); }
inline void append(std::string& out, const Device& device) { out += device.str(); }
inline void append(std::string& out, Layout layout) {
  out += layout == Layout::Strided ? "Strided" : layout == Layout::Sparse ? "Sparse" : "Unknown";
}
inline void append(std::string& out, MemoryFormat format) {
  const char* names[] = {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"};
  out += names[static_cast<int>(format)];
}
inline void append(std::string& out, const Scalar& s) {
  if (s.isFloatingPoint()) append(out, s.toDouble());
  else if (s.isBoolean()) out += s.toBool() ? "true" : "false";
  else if (s.isComplex()) out += "(" + ::c10::str(s.toComplexDouble().real(), ",", s.toComplexDouble().imag()) + ")";
  else append(out, s.toLong());
}
inline void append(std::string& out, const Half& value) { append(out, static_cast<double>(static_cast<float>(value))); }
inline void append(std::string& out, const BFloat16& value) { append(out, static_cast<double>(static_cast<float>(value))); }
template <class T>
void append(std::string& out, ArrayRef<T> list) {
  out += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i) out += ", ";
    put(out, list[i], 0);
  }
  out += ']';
}
template <class T>
void append(std::string& out, const std::vector<T>& list) {
  out += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i) out += ", ";
    put(out, list[i], 0);
  }
  out += ']';
}
template <class T>
void append(std::string& out, const std::optional<T>& value) {
  if (value) put(out, *value, 0);
  else out += "None";
}
}  // namespace detail

#define MC_STREAM(...)                                                                             \
  template <class C, class T>                                                                      \
  std::basic_ostream<C, T>& operator<<(std::basic_ostream<C, T>& out, __VA_ARGS__ value) {         \
    return out << ::c10::str(value).c_str();                                                       \
  }
MC_STREAM(ScalarType)
MC_STREAM(DeviceType)
MC_STREAM(const Device&)
MC_STREAM(Layout)
MC_STREAM(MemoryFormat)
MC_STREAM(const Scalar&)
MC_STREAM(Half)
MC_STREAM(BFloat16)
template <class C, class T, class E>
std::basic_ostream<C, T>& operator<<(std::basic_ostream<C, T>& out, ArrayRef<E> list) {
  return out << ::c10::str(list).c_str();
}

template <class I>
class IntegerRange {
 public:
  struct iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = I;
    using difference_type = std::ptrdiff_t;
    using pointer = I*;
    using reference = I&;
    I value;
    I operator*() const { return value; }
    iterator& operator++() { ++value; return *this; }
    iterator operator++(int) { iterator copy = *this; ++value; return copy; }
    bool operator==(const iterator& o) const { return value == o.value; }
    bool operator!=(const iterator& o) const { return value != o.value; }
  };
  IntegerRange(I begin, I end) : begin_{begin}, end_{end < begin ? begin : end} {}
  iterator begin() const { return begin_; }
  iterator end() const { return end_; }

 private:
  iterator begin_, end_;
};
template <class I>
IntegerRange<I> irange(I end) { return {I(), end}; }
template <class A, class B>
IntegerRange<B> irange(A begin, B end) { return {static_cast<B>(begin), end}; }

template <class C>
std::int64_t multiply_integers(const C& list) {
  std::int64_t out = 1;
  for (auto n : list) out *= n;
  return out;
}
}  // namespace c10

namespace caffe2 {
template <class C, class T>
std::basic_ostream<C, T>& operator<<(std::basic_ostream<C, T>& out, const TypeMeta& meta) {
  return out << std::string(meta.name()).c_str();
}
}  // namespace caffe2

namespace c10::cuda {}
namespace at {
using namespace c10;
namespace cuda {
using namespace c10::cuda;
}
namespace detail {
using namespace c10::detail;
}
template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
C10_HOST_DEVICE constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }
template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
C10_HOST_DEVICE constexpr T round_up(T a, T b) { return ceil_div(a, b) * b; }
}  // namespace at
#endif
