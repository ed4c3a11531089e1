#include "vgpu/server/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

namespace musacoder::vgpu {
namespace {

using Complex = std::complex<double>;

// A real of sign, kExponent and kMantissa bits. kInfinity: the all-ones exponent means Inf and NaN, else only the
// all-ones pattern is NaN and the exponent is an ordinary one (float8_e4m3fn).
template <int kExponent, int kMantissa, bool kInfinity>
struct SmallReal {
  using Bits = std::conditional_t<(1 + kExponent + kMantissa > 8), std::uint16_t, std::uint8_t>;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr unsigned kMaxField = (1u << kExponent) - 1;
  static constexpr unsigned kSign = 1u << (kExponent + kMantissa);
  Bits bits;

  static SmallReal from(float value) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    const unsigned sign = (u >> 31) ? kSign : 0;
    const std::uint32_t magnitude = u & 0x7fffffffu;
    constexpr unsigned kInf = kMaxField << kMantissa;
    constexpr unsigned kNan = kInfinity ? (kInf | (1u << (kMantissa - 1))) : (kSign - 1);
    constexpr unsigned kOverflow = kInfinity ? kInf : kNan;
    if (magnitude > 0x7f800000u) return {static_cast<Bits>(sign | kNan)};
    if (magnitude == 0x7f800000u) return {static_cast<Bits>(sign | kOverflow)};
    int exponent = static_cast<int>(magnitude >> 23) - 127 + kBias;
    std::uint64_t mantissa = (magnitude & 0x7fffffu) | (magnitude >> 23 ? 0x800000u : 0u);
    int shift = 23 - kMantissa;
    if (exponent <= 0) {  // subnormal in the target
      shift += 1 - exponent;
      exponent = 0;
      if (shift > 40) return {static_cast<Bits>(sign)};
    } else {
      mantissa -= 0x800000u;
    }
    const std::uint64_t half = 1ull << (shift - 1), rest = mantissa & ((1ull << shift) - 1);
    std::uint64_t kept = mantissa >> shift;
    if (rest > half || (rest == half && (kept & 1))) ++kept;
    const std::uint64_t out = (static_cast<std::uint64_t>(exponent) << kMantissa) + kept;  // a carry moves the exponent
    if (kInfinity ? out >= kInf : out >= kNan) return {static_cast<Bits>(sign | kOverflow)};
    return {static_cast<Bits>(sign | out)};
  }

  float to_float() const {
    const unsigned field = (bits >> kMantissa) & kMaxField, mantissa = bits & ((1u << kMantissa) - 1);
    float value;
    if (kInfinity && field == kMaxField) {
      value = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    } else if (!kInfinity && (bits & (kSign - 1)) == kSign - 1) {
      value = std::numeric_limits<float>::quiet_NaN();
    } else if (field == 0) {
      value = std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissa);
    } else {
      value = std::bit_cast<float>(((field - kBias + 127u) << 23) | (mantissa << (23 - kMantissa)));
    }
    return (bits & kSign) ? -value : value;
  }
};

using Half = SmallReal<5, 10, true>;
using Float8E5 = SmallReal<5, 2, true>;
using Float8E4 = SmallReal<4, 3, false>;

struct BFloat16 {
  std::uint16_t bits;
  static BFloat16 from(float value) {
    std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return {0x7fc0};
    return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16)};
  }
  float to_float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

struct Bool {
  std::uint8_t byte;
};
struct ComplexHalf {
  Half re, im;
};

template <typename T>
constexpr bool kIsSmall = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float8E5> ||
                          std::is_same_v<T, Float8E4>;
template <typename T>
struct IsComplex : std::false_type {};
template <typename T>
struct IsComplex<std::complex<T>> : std::true_type {};
template <>
struct IsComplex<ComplexHalf> : std::true_type {};

// Every type is loaded into one of four wide types and stored from any of them.
template <typename T>
using Wide = std::conditional_t<
    IsComplex<T>::value, Complex,
    std::conditional_t<std::is_floating_point_v<T> || kIsSmall<T>, double,
                       std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>>>;

template <typename T>
Wide<T> widen(const T& v) {
  if constexpr (std::is_same_v<T, Bool>) {
    return v.byte != 0;
  } else if constexpr (kIsSmall<T>) {
    return v.to_float();
  } else if constexpr (std::is_same_v<T, ComplexHalf>) {
    return {v.re.to_float(), v.im.to_float()};
  } else {
    return Wide<T>(v);
  }
}

std::int64_t truncate(double v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (v < -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(v);
}

template <typename T>
T real_to_integer(double v) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (v >= 0x1p64) return std::numeric_limits<T>::max();
    if (v >= 0x1p63) return static_cast<T>(v);
    return static_cast<T>(truncate(v));
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return static_cast<T>(std::clamp<std::int64_t>(truncate(v), std::numeric_limits<T>::min(),
                                                   std::numeric_limits<T>::max()));
  } else {
    return static_cast<T>(truncate(v));
  }
}

template <typename T, typename W>
T narrow(W v) {
  if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<std::uint8_t>(v != W{})};
  } else if constexpr (std::is_same_v<T, ComplexHalf>) {
    if constexpr (std::is_same_v<W, Complex>) {
      return {narrow<Half>(v.real()), narrow<Half>(v.imag())};
    } else {
      return {narrow<Half>(v), Half{0}};
    }
  } else if constexpr (IsComplex<T>::value) {
    using R = typename T::value_type;
    if constexpr (std::is_same_v<W, Complex>) {
      return {static_cast<R>(v.real()), static_cast<R>(v.imag())};
    } else {
      return {static_cast<R>(v), R{}};
    }
  } else if constexpr (std::is_same_v<W, Complex>) {
    return narrow<T>(v.real());
  } else if constexpr (kIsSmall<T>) {
    return T::from(static_cast<float>(v));
  } else if constexpr (std::is_integral_v<T> && std::is_same_v<W, double>) {
    return real_to_integer<T>(v);
  } else {
    return static_cast<T>(v);
  }
}

constexpr std::size_t kChunk = 256;

template <typename T>
void load_run(const std::byte* from, std::ptrdiff_t stride, std::size_t n, void* wide) {
  auto* out = static_cast<Wide<T>*>(wide);
  for (std::size_t i = 0; i < n; ++i, from += stride) {
    T v;
    std::memcpy(&v, from, sizeof v);
    out[i] = widen(v);
  }
}

template <typename T, typename W>
void store_run(std::byte* to, std::ptrdiff_t stride, std::size_t n, const void* wide) {
  const auto* in = static_cast<const W*>(wide);
  for (std::size_t i = 0; i < n; ++i, to += stride) {
    const T v = narrow<T, W>(in[i]);
    std::memcpy(to, &v, sizeof v);
  }
}

template <std::size_t kBytes>
void move_run(std::byte* to, std::ptrdiff_t to_stride, const std::byte* from, std::ptrdiff_t from_stride, std::size_t n) {
  if (to_stride == kBytes && from_stride == kBytes) {
    std::memcpy(to, from, n * kBytes);
    return;
  }
  for (std::size_t i = 0; i < n; ++i, to += to_stride, from += from_stride) std::memcpy(to, from, kBytes);
}

using Load = void (*)(const std::byte*, std::ptrdiff_t, std::size_t, void*);
using Store = void (*)(std::byte*, std::ptrdiff_t, std::size_t, const void*);
using Move = void (*)(std::byte*, std::ptrdiff_t, const std::byte*, std::ptrdiff_t, std::size_t);

}  // namespace

struct ElementType {
  std::uint32_t bytes;
  int wide;        // 0 int64, 1 uint64, 2 double, 3 complex<double>
  Load load;
  Store store[4];  // from each wide type
  Move move;
};

namespace {

template <typename T>
constexpr ElementType make_type() {
  constexpr int wide = std::is_same_v<Wide<T>, std::int64_t>    ? 0
                       : std::is_same_v<Wide<T>, std::uint64_t> ? 1
                       : std::is_same_v<Wide<T>, double>        ? 2
                                                                : 3;
  return {sizeof(T), wide, load_run<T>,
          {store_run<T, std::int64_t>, store_run<T, std::uint64_t>, store_run<T, double>, store_run<T, Complex>},
          move_run<sizeof(T)>};
}

}  // namespace

const ElementType* element_type(std::int32_t torch_number) {
  static constexpr ElementType kUint8 = make_type<std::uint8_t>(), kInt8 = make_type<std::int8_t>(),
                               kInt16 = make_type<std::int16_t>(), kInt32 = make_type<std::int32_t>(),
                               kInt64 = make_type<std::int64_t>(), kHalf = make_type<Half>(),
                               kFloat = make_type<float>(), kDouble = make_type<double>(),
                               kComplexHalf = make_type<ComplexHalf>(),
                               kComplexFloat = make_type<std::complex<float>>(), kComplexDouble = make_type<Complex>(),
                               kBool = make_type<Bool>(), kBFloat16 = make_type<BFloat16>(),
                               kFloat8E5 = make_type<Float8E5>(), kFloat8E4 = make_type<Float8E4>(),
                               kUint16 = make_type<std::uint16_t>(), kUint32 = make_type<std::uint32_t>(),
                               kUint64 = make_type<std::uint64_t>();
  switch (torch_number) {
    case 0: return &kUint8;
    case 1: return &kInt8;
    case 2: return &kInt16;
    case 3: return &kInt32;
    case 4: return &kInt64;
    case 5: return &kHalf;
    case 6: return &kFloat;
    case 7: return &kDouble;
    case 8: return &kComplexHalf;
    case 9: return &kComplexFloat;
    case 10: return &kComplexDouble;
    case 11: return &kBool;
    case 15: return &kBFloat16;
    case 23: return &kFloat8E5;
    case 24: return &kFloat8E4;
    case 27: return &kUint16;
    case 28: return &kUint32;
    case 29: return &kUint64;
    default: return nullptr;
  }
}

std::uint32_t element_bytes(const ElementType& type) { return type.bytes; }

void convert_run(const ElementType& to_type, std::byte* to, std::ptrdiff_t to_stride, const ElementType& from_type,
                 const std::byte* from, std::ptrdiff_t from_stride, std::size_t n) {
  if (&to_type == &from_type) {
    to_type.move(to, to_stride, from, from_stride, n);
    return;
  }
  alignas(16) std::byte wide[kChunk * sizeof(Complex)];
  const Store store = to_type.store[from_type.wide];
  while (n > 0) {
    const std::size_t now = std::min(n, kChunk);
    from_type.load(from, from_stride, now, wide);
    store(to, to_stride, now, wide);
    from += from_stride * static_cast<std::ptrdiff_t>(now);
    to += to_stride * static_cast<std::ptrdiff_t>(now);
    n -= now;
  }
}

void convert_scalar(const ElementType& type, std::byte* to, const Scalar& value) {
  switch (value.kind) {
    case Scalar::kInt: type.store[0](to, 0, 1, &value.integer); break;
    case Scalar::kUint: {
      const auto bits = static_cast<std::uint64_t>(value.integer);
      type.store[1](to, 0, 1, &bits);
      break;
    }
    case Scalar::kReal: type.store[2](to, 0, 1, &value.real); break;
    default: {
      const Complex c(value.real, value.imag);
      type.store[3](to, 0, 1, &c);
    }
  }
}

}  // namespace musacoder::vgpu
