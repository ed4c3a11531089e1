// f16 and bf16 as bit patterns: conversions that are exact or correctly rounded, written to vectorise.
#pragma once

#include "vgpu/exec/engine/lanes.h"

namespace musacoder::vgpu::exec::MC_ISA {

MC_INLINE f32 half_to_float(u16 h) {
  u32 sign = u32(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  u32 normal = (magnitude << 13) + 0x38000000u;                                  // exponent 112 higher
  u32 special = (magnitude << 13) | 0x7f800000u;                                 // inf, NaN
  u32 tiny = bits_of<u32>(f32(i32(magnitude)) * 5.9604644775390625e-08f);        // 2^-24
  u32 r = magnitude < 0x0400u ? tiny : normal;
  r = magnitude >= 0x7c00u ? special : r;
  return bits_of<f32>(sign | r);
}
// Round to nearest even; overflow to infinity; NaN to the canonical 0x7fff.
MC_INLINE u16 float_to_half(f32 x) {
  u32 b = bits_of<u32>(x), sign = b >> 16 & 0x8000u, m = b & 0x7fffffffu;
  u32 normal = (m - 0x38000000u + 0xfffu + (m >> 13 & 1u)) >> 13;
  // Below 2^-14 the result's unit is 2^-24: adding 0.5f (unit 2^-24) rounds there.
  u32 tiny = bits_of<u32>(bits_of<f32>(m) + 0.5f) - 0x3f000000u;
  u32 r = m < 0x38800000u ? tiny : normal;
  r = m >= 0x477ff000u ? 0x7c00u : r;
  r = m > 0x7f800000u ? 0x7fffu : (sign | r);
  return u16(r);
}
MC_INLINE f32 bf16_to_float(u16 h) { return bits_of<f32>(u32(h) << 16); }
MC_INLINE u16 float_to_bf16(f32 x) {
  u32 b = bits_of<u32>(x);
  u32 r = (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
  return u16((b & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : r);
}
// Round to odd, so that a second rounding to half or bf16 is correct.
MC_INLINE f32 double_to_float_odd(f64 d) {
  f32 f = f32(d);
  u32 b = bits_of<u32>(f);
  f64 back = f64(f);
  bool inexact = back != d && d == d;
  f64 am = back < 0 ? -back : back, dm = d < 0 ? -d : d;
  u32 toward = am > dm ? b - 1 : b;  // truncated
  u32 odd = toward | 1u;
  return bits_of<f32>(inexact ? odd : b);
}

// Directed roundings, by the general route.
MC_INLINE u16 float_to_half_zero(f32 x) {
  u32 b = bits_of<u32>(x), sign = b >> 16 & 0x8000u, m = b & 0x7fffffffu;
  if (m > 0x7f800000u) return 0x7fff;
  if (m == 0x7f800000u) return u16(sign | 0x7c00u);
  if (m >= 0x47800000u) return u16(sign | 0x7bffu);
  if (m >= 0x38800000u) return u16(sign | ((m - 0x38000000u) >> 13));
  f32 scaled = bits_of<f32>(m) * 16777216.0f;
  return u16(sign | u32(scaled));
}
MC_INLINE u16 half_step_up(u16 h) {  // towards +inf
  if (h == 0x8000u) return 1;
  return (h & 0x8000u) ? u16(h - 1) : u16(h + 1);
}
MC_INLINE u16 half_step_down(u16 h) {
  if (h == 0) return 0x8001u;
  return (h & 0x8000u) ? u16(h + 1) : u16(h - 1);
}
MC_INLINE u16 float_to_half_round(f32 x, Round r) {
  if (r == Round::kNearest || r == Round::kAway) return float_to_half(x);
  u16 z = float_to_half_zero(x);
  if (r == Round::kZero || (z & 0x7fffu) >= 0x7c00u) return z;
  f32 back = half_to_float(z);
  if (r == Round::kUp && back < x) return z == 0x7bffu ? u16(0x7c00u) : half_step_up(z == 0 && x < 0 ? u16(0x8000u) : z);
  if (r == Round::kDown && back > x) return z == 0xfbffu ? u16(0xfc00u) : half_step_down(z);
  return z;
}
MC_INLINE u16 float_to_bf16_round(f32 x, Round r) {
  if (r == Round::kNearest || r == Round::kAway) return float_to_bf16(x);
  if (x != x) return 0x7fff;
  u16 z = u16(bits_of<u32>(x) >> 16);
  if (r == Round::kZero || (z & 0x7fffu) >= 0x7f80u) return z;
  f32 back = bf16_to_float(z);
  if (r == Round::kUp && back < x) return half_step_up(z);
  if (r == Round::kDown && back > x) return half_step_down(z);
  return z;
}

}  // namespace musacoder::vgpu::exec::MC_ISA
