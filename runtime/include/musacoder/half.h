// c10::Half, BFloat16, complex: element types that work on host and device and convert to CUDA's own.
//
// Arithmetic goes through float, as torch's does.
#ifndef MUSACODER_SLIM_MUSACODER_HALF_H
#define MUSACODER_SLIM_MUSACODER_HALF_H

#include "std.h"

namespace c10 {
namespace detail {

C10_HOST_DEVICE inline float bits_to_float(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}
C10_HOST_DEVICE inline std::uint32_t float_to_bits(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

C10_HOST_DEVICE inline float half_to_float(unsigned short h) {
#ifdef __CUDA_ARCH__
  float value;
  asm("{cvt.f32.f16 %0, %1;}" : "=f"(value) : "h"(h));
  return value;
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  std::uint32_t exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
  if (exponent == 31) return bits_to_float(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    if (mantissa == 0) return bits_to_float(sign);
    exponent = 1;
    while (!(mantissa & 0x400u)) {
      mantissa <<= 1;
      --exponent;
    }
    mantissa &= 0x3ffu;
  }
  return bits_to_float(sign | ((exponent + 112u) << 23) | (mantissa << 13));
#endif
}

C10_HOST_DEVICE inline unsigned short float_to_half(float value) {
#ifdef __CUDA_ARCH__
  unsigned short h;
  asm("{cvt.rn.f16.f32 %0, %1;}" : "=h"(h) : "f"(value));
  return h;
#else
  const std::uint32_t bits = float_to_bits(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<unsigned short>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);
  std::uint32_t kept, rest, half_way;
  if (magnitude < 0x38800000u) {  // subnormal in half precision
    const std::uint32_t shift = 126u - (magnitude >> 23);
    if (shift > 24u) return static_cast<unsigned short>(sign);
    const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    kept = mantissa >> shift;
    rest = mantissa & ((1u << shift) - 1u);
    half_way = 1u << (shift - 1u);
  } else {
    kept = (magnitude - 0x38000000u) >> 13;
    rest = magnitude & 0x1fffu;
    half_way = 0x1000u;
  }
  if (rest > half_way || (rest == half_way && (kept & 1u))) ++kept;
  return static_cast<unsigned short>(sign | kept);
#endif
}

C10_HOST_DEVICE inline unsigned short float_to_bfloat16(float value) {
  const std::uint32_t bits = float_to_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
  return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace detail

struct alignas(2) Half {
  unsigned short x;
  struct from_bits_t {};
  static constexpr C10_HOST_DEVICE from_bits_t from_bits() { return from_bits_t(); }
  Half() = default;
  constexpr C10_HOST_DEVICE Half(unsigned short bits, from_bits_t) : x(bits) {}
  C10_HOST_DEVICE Half(float value) : x(detail::float_to_half(value)) {}
  C10_HOST_DEVICE operator float() const { return detail::half_to_float(x); }
#if defined(__CUDACC__) && !defined(MUSACODER_LEAN_HALF)
  C10_HOST_DEVICE Half(const __half& value) : x(reinterpret_cast<const __half_raw&>(value).x) {}
  C10_HOST_DEVICE operator __half() const {
    __half_raw raw;
    raw.x = x;
    return __half(raw);
  }
#endif
};

struct alignas(2) BFloat16 {
  unsigned short x;
  struct from_bits_t {};
  static constexpr C10_HOST_DEVICE from_bits_t from_bits() { return from_bits_t(); }
  BFloat16() = default;
  constexpr C10_HOST_DEVICE BFloat16(unsigned short bits, from_bits_t) : x(bits) {}
  C10_HOST_DEVICE BFloat16(float value) : x(detail::float_to_bfloat16(value)) {}
  C10_HOST_DEVICE operator float() const { return detail::bits_to_float(static_cast<std::uint32_t>(x) << 16); }
#if defined(__CUDACC__) && !defined(MUSACODER_LEAN_HALF)
  C10_HOST_DEVICE BFloat16(const __nv_bfloat16& value) : x(reinterpret_cast<const unsigned short&>(value)) {}
  explicit C10_HOST_DEVICE operator __nv_bfloat16() const { return *reinterpret_cast<const __nv_bfloat16*>(&x); }
#endif
};

// Storage only: converted by operators, not by candidates' host code.
struct alignas(1) Float8_e5m2 {
  std::uint8_t x;
};
struct alignas(1) Float8_e4m3fn {
  std::uint8_t x;
};

#define MC_REDUCED_OPERATORS(T)                                                                                   \
  C10_HOST_DEVICE inline T operator+(const T& a, const T& b) { return static_cast<float>(a) + static_cast<float>(b); } \
  C10_HOST_DEVICE inline T operator-(const T& a, const T& b) { return static_cast<float>(a) - static_cast<float>(b); } \
  C10_HOST_DEVICE inline T operator*(const T& a, const T& b) { return static_cast<float>(a) * static_cast<float>(b); } \
  C10_HOST_DEVICE inline T operator/(const T& a, const T& b) { return static_cast<float>(a) / static_cast<float>(b); } \
  C10_HOST_DEVICE inline T operator-(const T& a) { return -static_cast<float>(a); }                                \
  C10_HOST_DEVICE inline T& operator+=(T& a, const T& b) { return a = a + b; }                                     \
  C10_HOST_DEVICE inline T& operator-=(T& a, const T& b) { return a = a - b; }                                     \
  C10_HOST_DEVICE inline T& operator*=(T& a, const T& b) { return a = a * b; }                                     \
  C10_HOST_DEVICE inline T& operator/=(T& a, const T& b) { return a = a / b; }                                     \
  MC_REDUCED_MIXED(T, float, float)                                                                                \
  MC_REDUCED_MIXED(T, double, double)                                                                              \
  MC_REDUCED_MIXED(T, int, T)                                                                                      \
  MC_REDUCED_MIXED(T, std::int64_t, T)                                                                             \
  C10_HOST_DEVICE inline float& operator+=(float& a, const T& b) { return a += static_cast<float>(b); }            \
  C10_HOST_DEVICE inline float& operator-=(float& a, const T& b) { return a -= static_cast<float>(b); }            \
  C10_HOST_DEVICE inline float& operator*=(float& a, const T& b) { return a *= static_cast<float>(b); }            \
  C10_HOST_DEVICE inline float& operator/=(float& a, const T& b) { return a /= static_cast<float>(b); }
#define MC_REDUCED_MIXED(T, U, R)                                                                                 \
  C10_HOST_DEVICE inline R operator+(T a, U b) { return static_cast<R>(a) + static_cast<R>(b); }                   \
  C10_HOST_DEVICE inline R operator-(T a, U b) { return static_cast<R>(a) - static_cast<R>(b); }                   \
  C10_HOST_DEVICE inline R operator*(T a, U b) { return static_cast<R>(a) * static_cast<R>(b); }                   \
  C10_HOST_DEVICE inline R operator/(T a, U b) { return static_cast<R>(a) / static_cast<R>(b); }                   \
  C10_HOST_DEVICE inline R operator+(U a, T b) { return static_cast<R>(a) + static_cast<R>(b); }                   \
  C10_HOST_DEVICE inline R operator-(U a, T b) { return static_cast<R>(a) - static_cast<R>(b); }                   \
  C10_HOST_DEVICE inline R operator*(U a, T b) { return static_cast<R>(a) * static_cast<R>(b); }                   \
  C10_HOST_DEVICE inline R operator/(U a, T b) { return static_cast<R>(a) / static_cast<R>(b); }
MC_REDUCED_OPERATORS(Half)
MC_REDUCED_OPERATORS(BFloat16)
#undef MC_REDUCED_OPERATORS
#undef MC_REDUCED_MIXED
C10_HOST_DEVICE inline bool operator<(const BFloat16& a, const BFloat16& b) { return float(a) < float(b); }
C10_HOST_DEVICE inline bool operator>(const BFloat16& a, const BFloat16& b) { return float(a) > float(b); }

template <class T>
struct alignas(sizeof(T) * 2) complex {
  using value_type = T;
  T real_ = T(0), imag_ = T(0);
  constexpr complex() = default;
  C10_HOST_DEVICE constexpr complex(const T& re, const T& im = T()) : real_(re), imag_(im) {}
  template <class U, class = std::enable_if_t<!std::is_same_v<T, U>>>
  C10_HOST_DEVICE explicit constexpr complex(const complex<U>& other)
      : real_(static_cast<T>(other.real())), imag_(static_cast<T>(other.imag())) {}
  C10_HOST_DEVICE constexpr T real() const { return real_; }
  C10_HOST_DEVICE constexpr T imag() const { return imag_; }
  C10_HOST_DEVICE constexpr void real(T value) { real_ = value; }
  C10_HOST_DEVICE constexpr void imag(T value) { imag_ = value; }
  C10_HOST_DEVICE constexpr complex& operator+=(const complex& o) { real_ += o.real_; imag_ += o.imag_; return *this; }
  C10_HOST_DEVICE constexpr complex& operator-=(const complex& o) { real_ -= o.real_; imag_ -= o.imag_; return *this; }
  C10_HOST_DEVICE constexpr complex& operator*=(const complex& o) {
    const T re = real_ * o.real_ - imag_ * o.imag_;
    imag_ = real_ * o.imag_ + imag_ * o.real_;
    real_ = re;
    return *this;
  }
  C10_HOST_DEVICE complex& operator/=(const complex& o) {
    const T scale = o.real_ * o.real_ + o.imag_ * o.imag_;
    const T re = (real_ * o.real_ + imag_ * o.imag_) / scale;
    imag_ = (imag_ * o.real_ - real_ * o.imag_) / scale;
    real_ = re;
    return *this;
  }
};
template <>
struct alignas(4) complex<Half> {
  using value_type = Half;
  Half real_, imag_;
  complex() = default;
  C10_HOST_DEVICE complex(const Half& re, const Half& im) : real_(re), imag_(im) {}
  C10_HOST_DEVICE Half real() const { return real_; }
  C10_HOST_DEVICE Half imag() const { return imag_; }
};
template <class T>
C10_HOST_DEVICE constexpr complex<T> operator+(complex<T> a, const complex<T>& b) { return a += b; }
template <class T>
C10_HOST_DEVICE constexpr complex<T> operator-(complex<T> a, const complex<T>& b) { return a -= b; }
template <class T>
C10_HOST_DEVICE constexpr complex<T> operator*(complex<T> a, const complex<T>& b) { return a *= b; }
template <class T>
C10_HOST_DEVICE complex<T> operator/(complex<T> a, const complex<T>& b) { return a /= b; }
template <class T>
C10_HOST_DEVICE constexpr complex<T> operator*(complex<T> a, const T& b) { return complex<T>(a.real() * b, a.imag() * b); }
template <class T>
C10_HOST_DEVICE constexpr complex<T> operator*(const T& a, complex<T> b) { return b * a; }
template <class T>
C10_HOST_DEVICE constexpr complex<T> operator-(const complex<T>& a) { return complex<T>(-a.real(), -a.imag()); }
template <class T>
C10_HOST_DEVICE constexpr bool operator==(const complex<T>& a, const complex<T>& b) {
  return a.real() == b.real() && a.imag() == b.imag();
}
template <class T>
C10_HOST_DEVICE constexpr bool operator!=(const complex<T>& a, const complex<T>& b) { return !(a == b); }
template <class T>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<complex<T>> : std::true_type {};
template <class T>
inline constexpr bool is_complex_v = is_complex<T>::value;

}  // namespace c10

namespace std {
template <>
class numeric_limits<c10::Half> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false,
                        has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 11, digits10 = 3, max_digits10 = 5, radix = 2;
  static constexpr C10_HOST_DEVICE c10::Half min() { return c10::Half(0x0400, c10::Half::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::Half lowest() { return c10::Half(0xFBFF, c10::Half::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::Half max() { return c10::Half(0x7BFF, c10::Half::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::Half epsilon() { return c10::Half(0x1400, c10::Half::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::Half infinity() { return c10::Half(0x7C00, c10::Half::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::Half quiet_NaN() { return c10::Half(0x7E00, c10::Half::from_bits()); }
};
template <>
class numeric_limits<c10::BFloat16> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false,
                        has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 8, digits10 = 2, max_digits10 = 4, radix = 2;
  static constexpr C10_HOST_DEVICE c10::BFloat16 min() { return c10::BFloat16(0x0080, c10::BFloat16::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 lowest() { return c10::BFloat16(0xFF7F, c10::BFloat16::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 max() { return c10::BFloat16(0x7F7F, c10::BFloat16::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 epsilon() { return c10::BFloat16(0x3C00, c10::BFloat16::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 infinity() { return c10::BFloat16(0x7F80, c10::BFloat16::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 quiet_NaN() { return c10::BFloat16(0x7FC0, c10::BFloat16::from_bits()); }
};
}  // namespace std
#endif
