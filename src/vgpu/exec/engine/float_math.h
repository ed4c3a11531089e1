// Vectorisable elementary functions in double precision, for the .approx instructions: their error before the final
// rounding to float is below 1e-9 relative, far inside the bounds of the PTX ISA manual (section 9.7.3).
#pragma once

#include "vgpu/exec/engine/lanes.h"

namespace musacoder::vgpu::exec::MC_ISA {

MC_INLINE f64 power_of_two(i64 n) { return bits_of<f64>(u64(n + 1023) << 52); }

// round-half-even for |x| < 2^51.
MC_INLINE f64 nearest(f64 x) {
  constexpr f64 kShift = 6755399441055744.0;  // 1.5 * 2^52
  return (x + kShift) - kShift;
}
MC_INLINE i64 nearest_int(f64 x) {
  constexpr f64 kShift = 6755399441055744.0;
  return bits_of<i64>(x + kShift) - bits_of<i64>(kShift);
}

MC_INLINE f64 exp2_double(f64 x) {
  f64 c = x < -1000.0 ? -1000.0 : x;
  c = c > 1000.0 ? 1000.0 : c;
  f64 n = nearest(c);
  f64 t = (c - n) * 0.693147180559945309417;
  f64 p = 1.0 / 3628800;
  p = p * t + 1.0 / 362880;
  p = p * t + 1.0 / 40320;
  p = p * t + 1.0 / 5040;
  p = p * t + 1.0 / 720;
  p = p * t + 1.0 / 120;
  p = p * t + 1.0 / 24;
  p = p * t + 1.0 / 6;
  p = p * t + 0.5;
  p = p * t + 1.0;
  p = p * t + 1.0;
  f64 r = p * power_of_two(nearest_int(c));
  return x != x ? x : r;
}

MC_INLINE f64 log2_double(f64 x) {
  u64 b = bits_of<u64>(x);
  i64 e = i64(b >> 52 & 0x7ff) - 1023;
  f64 m = bits_of<f64>((b & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  bool big = m > 1.4142135623730951;
  m = big ? m * 0.5 : m;
  f64 exponent = f64(i32(e)) + (big ? 1.0 : 0.0);
  f64 s = (m - 1.0) / (m + 1.0), z = s * s;
  f64 p = 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  f64 r = exponent + 2.885390081777926814720 * s * p;
  r = x == 0.0 ? -__builtin_inf() : r;
  r = x < 0.0 ? __builtin_nan("") : r;
  r = x == __builtin_inf() ? x : r;
  return x != x ? x : r;
}

// sin(x + quarter·π/2)
MC_INLINE f64 sine_double(f64 x, i64 quarter) {
  f64 c = x > 1e15 || x < -1e15 ? 0.0 : x;
  f64 n = nearest(c * 0.636619772367581343076);
  f64 r = (c - n * 1.57079632679489655800) - n * 6.12323399573676603587e-17;
  i64 q = nearest_int(c * 0.636619772367581343076) + quarter;
  f64 z = r * r;
  f64 s = -1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = r + r * z * s;
  f64 k = 1.0 / 479001600;
  k = k * z - 1.0 / 3628800;
  k = k * z + 1.0 / 40320;
  k = k * z - 1.0 / 720;
  k = k * z + 1.0 / 24;
  k = k * z - 0.5;
  k = 1.0 + k * z;
  f64 out = (q & 1) ? k : s;
  out = (q & 2) ? -out : out;
  return x - x != 0.0 ? __builtin_nan("") : out;
}

MC_INLINE f64 tanh_double(f64 x) {
  f64 magnitude = x < 0 ? -x : x;
  f64 e = exp2_double(magnitude * 2.885390081777926814720);
  f64 r = 1.0 - 2.0 / (e + 1.0);
  f64 small = magnitude - magnitude * magnitude * magnitude * (1.0 / 3);
  r = magnitude < 1e-3 ? small : r;
  r = x < 0 ? -r : r;
  return x != x ? x : r;
}

MC_INLINE f32 flush(f32 x) {
  u32 b = bits_of<u32>(x);
  return (b & 0x7f800000u) ? x : bits_of<f32>(b & 0x80000000u);
}
// Results that NaN makes: the hardware's canonical NaN.
inline constexpr u32 kNan32 = 0x7fffffffu;

}  // namespace musacoder::vgpu::exec::MC_ISA
