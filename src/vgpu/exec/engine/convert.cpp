// cvt between all scalar types, and the packing conversions to f16x2 and bf16x2.
#include "vgpu/exec/engine/float_math.h"
#include "vgpu/exec/engine/half_math.h"

namespace musacoder::vgpu::exec::MC_ISA {
namespace {

using ptx::Type;

MC_INLINE f64 round_integral(f64 x, Round r) {
  f64 magnitude = x < 0 ? -x : x;
  constexpr f64 kTwo52 = 4503599627370496.0;
  f64 n = __builtin_copysign((magnitude + kTwo52) - kTwo52, x);
  switch (r) {
    case Round::kNearest: break;
    case Round::kZero: n = x < 0 ? (n < x ? n + 1.0 : n) : (n > x ? n - 1.0 : n); break;
    case Round::kDown: n = n > x ? n - 1.0 : n; break;
    case Round::kUp: n = n < x ? n + 1.0 : n; break;
    case Round::kAway: break;  // never asked for integral results
  }
  bool big = !(magnitude < kTwo52);  // already integral, or NaN
  f64 out = big ? x : n;
  return __builtin_copysign(out, x);
}

// Saturating; NaN gives 0, or the top bit for 64-bit results.
template <typename I>
MC_INLINE I to_integer(f64 x) {
  constexpr I kMax = I(-1) < I(0) ? I(I(~std::make_unsigned_t<I>(0)) ^ I(std::make_unsigned_t<I>(1) << (8 * sizeof(I) - 1)))
                                  : I(-1);
  constexpr I kMin = I(-1) < I(0) ? I(-kMax - 1) : I(0);
  if constexpr (sizeof(I) == 8) {
    if (x != x) return I(0x8000000000000000ull);
    constexpr f64 kTop = I(-1) < I(0) ? 9223372036854775808.0 : 18446744073709551616.0;
    if (x >= kTop) return kMax;
    if (x <= f64(kMin)) return kMin;
    return I(x);
  } else {
    f64 c = x < f64(kMin) ? f64(kMin) : x;
    c = c > f64(kMax) ? f64(kMax) : c;
    c = x != x ? 0.0 : c;
    return I(i64(c));
  }
}

// Reads a register element of width bytes as the source type.
template <Type t> struct Source;
#define MC_SOURCE(name, stored, value)                   \
  template <>                                                  \
  struct Source<Type::name> {                                  \
    using Value = value;                                       \
    template <typename R>                                      \
    MC_INLINE static Value get(R r) { return Value(stored(r)); } \
  };
MC_SOURCE(kS8, i8, i64)
MC_SOURCE(kS16, i16, i64)
MC_SOURCE(kS32, i32, i64)
MC_SOURCE(kS64, i64, i64)
MC_SOURCE(kU8, u8, u64)
MC_SOURCE(kU16, u16, u64)
MC_SOURCE(kU32, u32, u64)
MC_SOURCE(kU64, u64, u64)
#undef MC_SOURCE
template <>
struct Source<Type::kF32> {
  using Value = f32;
  MC_INLINE static f32 get(u32 r) { return bits_of<f32>(r); }
};
template <>
struct Source<Type::kF64> {
  using Value = f64;
  MC_INLINE static f64 get(u64 r) { return bits_of<f64>(r); }
};
template <>
struct Source<Type::kF16> {
  using Value = f32;
  MC_INLINE static f32 get(u16 r) { return half_to_float(r); }
};
template <>
struct Source<Type::kBF16> {
  using Value = f32;
  MC_INLINE static f32 get(u16 r) { return bf16_to_float(r); }
};

template <typename I, typename V>
MC_INLINE I saturate_integer(V v) {
  constexpr I kMax = I(-1) < I(0) ? I(I(~std::make_unsigned_t<I>(0)) ^ I(std::make_unsigned_t<I>(1) << (8 * sizeof(I) - 1)))
                                  : I(-1);
  constexpr I kMin = I(-1) < I(0) ? I(-kMax - 1) : I(0);
  if constexpr (V(-1) < V(0)) {
    if (v < 0 && v < i64(kMin)) return kMin;
    if (v > 0 && u64(v) > u64(kMax)) return kMax;
    if (I(-1) > I(0) && v < 0) return 0;
    return I(v);
  } else {
    return v > u64(kMax) ? kMax : I(v);
  }
}

// integer → integer
template <Type from, typename R, typename I, typename D, bool sat>
const Inst* int_to_int(Warp& w, const Inst* in) {
  const R* a = reg<R>(w, in->a);
  lanes(w.mask, reg<D>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    auto v = Source<from>::get(a[i]);
    if constexpr (sat) return D(saturate_integer<I>(v));
    else return D(I(v));
  });
  return in + 1;
}
// integer → float, round to nearest
template <Type from, typename R, typename F, bool narrow>
const Inst* int_to_float(Warp& w, const Inst* in) {
  const R* a = reg<R>(w, in->a);
  lanes(w.mask, reg<F>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    if constexpr (narrow) return F(i32(Source<from>::get(a[i])));
    else return F(Source<from>::get(a[i]));
  });
  return in + 1;
}
// integer → f16, bf16: through double, which is exact up to 2^53; beyond that f16 overflows anyway
template <Type from, typename R, bool bf>
const Inst* int_to_half(Warp& w, const Inst* in) {
  const R* a = reg<R>(w, in->a);
  lanes(w.mask, reg<u16>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    f32 f = double_to_float_odd(f64(Source<from>::get(a[i])));
    return bf ? float_to_bf16(f) : float_to_half(f);
  });
  return in + 1;
}
// integer → f32 or f64 with a directed rounding: in->flags is the MXCSR field
template <Type from, typename R, typename F>
const Inst* int_to_float_rounded(Warp& w, const Inst* in) {
  const R* a = reg<R>(w, in->a);
  F* d = reg<F>(w, in->d);
  u32 before = _mm_getcsr();
  u32 control = in->flags;
  _mm_setcsr((before & ~0x6000u) | control << 13);
  asm volatile("" ::: "memory");
  each(w.mask, [=](unsigned i) MC_INLINE_LAMBDA { d[i] = F(Source<from>::get(a[i])); });
  asm volatile("" ::: "memory");
  _mm_setcsr(before);
  return in + 1;
}
// float → integer
template <Type from, typename R, typename I, typename D, bool ftz>
const Inst* float_to_int(Warp& w, const Inst* in) {
  const R* a = reg<R>(w, in->a);
  Round r = Round(in->flags);
  auto loop = [&](Round mode) MC_INLINE_LAMBDA {
    lanes(w.mask, reg<D>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
      auto v = Source<from>::get(a[i]);
      if constexpr (ftz) v = flush(v);
      return D(to_integer<I>(round_integral(f64(v), mode)));
    });
  };
  switch (r) {
    case Round::kZero: loop(Round::kZero); break;
    case Round::kDown: loop(Round::kDown); break;
    case Round::kUp: loop(Round::kUp); break;
    default: loop(Round::kNearest); break;
  }
  return in + 1;
}
// f32, f64 → f32, f64. flags: bits 0-2 Round, bit 3 integral, bit 4 ftz, bit 5 sat, bit 6 relu
template <typename S, typename D>
const Inst* float_to_float(Warp& w, const Inst* in) {
  const S* a = reg<S>(w, in->a);
  D* d = reg<D>(w, in->d);
  u32 flags = in->flags;
  if (flags == 0) {
    lanes(w.mask, d, [=](unsigned i) MC_INLINE_LAMBDA { return D(a[i]); });
    return in + 1;
  }
  if (flags == 32) {
    lanes(w.mask, d, [=](unsigned i) MC_INLINE_LAMBDA {
      D x = D(a[i]);
      return x > D(0) ? (x < D(1) ? x : D(1)) : D(0);
    });
    return in + 1;
  }
  Round r = Round(flags & 7);
  alignas(64) D out[kLanes];
  u32 before = _mm_getcsr();
  if (!(flags & 8) && r != Round::kNearest) {
    u32 control = r == Round::kDown ? 1 : r == Round::kUp ? 2 : 3;
    _mm_setcsr((before & ~0x6000u) | control << 13);
  }
  asm volatile("" ::: "memory");
  for (unsigned i = 0; i < kLanes; ++i) out[i] = D(a[i]);
  asm volatile("" : "+m"(out) : : "memory");
  _mm_setcsr(before);
  for (unsigned i = 0; i < kLanes; ++i) {
    D x = out[i];
    if (flags & 8) x = D(round_integral(f64(a[i]), r));
    if constexpr (sizeof(D) == 4 || sizeof(S) == 4)
      if ((flags & 16)) {
        if constexpr (sizeof(S) == 4) x = flush(a[i]) == 0 ? D(flush(a[i])) : x;
        if constexpr (sizeof(D) == 4) x = flush(x);
      }
    if (flags & 32) x = x > D(0) ? (x < D(1) ? x : D(1)) : D(0);
    if (flags & 64) x = x > D(0) || x != x ? x : D(0);
    out[i] = x;
  }
  lanes(w.mask, d, [&](unsigned i) MC_INLINE_LAMBDA { return out[i]; });
  return in + 1;
}
// f16, bf16 → f32, f64
template <Type from, typename D>
const Inst* half_to_float_op(Warp& w, const Inst* in) {
  const u16* a = reg<u16>(w, in->a);
  u32 flags = in->flags;
  lanes(w.mask, reg<D>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    D x = D(Source<from>::get(a[i]));
    D y = x > D(0) ? (x < D(1) ? x : D(1)) : D(0);
    return (flags & 32) ? y : x;
  });
  return in + 1;
}
// f32, f64, f16, bf16 → f16, bf16. flags as above.
template <Type from, typename R, bool bf>
const Inst* float_to_half_op(Warp& w, const Inst* in) {
  const R* a = reg<R>(w, in->a);
  u32 flags = in->flags;
  auto narrow = [](auto v) MC_INLINE_LAMBDA {
    if constexpr (sizeof(v) == 8) return double_to_float_odd(v);
    else return v;
  };
  if (flags == 0) {
    lanes(w.mask, reg<u16>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
      f32 x = narrow(Source<from>::get(a[i]));
      return bf ? float_to_bf16(x) : float_to_half(x);
    });
    return in + 1;
  }
  Round r = Round(flags & 7);
  alignas(64) u16 out[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) {
    f32 x = narrow(Source<from>::get(a[i]));
    if (flags & 8) x = f32(round_integral(f64(x), r));
    if (flags & 16) x = flush(x);
    if (flags & 32) x = x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
    if (flags & 64) x = x > 0.0f || x != x ? x : 0.0f;
    Round rr = (flags & 8) ? Round::kNearest : r;
    out[i] = bf ? float_to_bf16_round(x, rr) : float_to_half_round(x, rr);
  }
  lanes(w.mask, reg<u16>(w, in->d), [&](unsigned i) MC_INLINE_LAMBDA { return out[i]; });
  return in + 1;
}
// cvt.rn.f16x2.f32 d, a, b: a in the upper half
template <bool bf>
const Inst* pack_half2(Warp& w, const Inst* in) {
  const f32* a = reg<f32>(w, in->a);
  const f32* b = reg<f32>(w, in->b);
  u32 flags = in->flags;
  Round r = Round(flags & 7);
  alignas(64) u32 out[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) {
    f32 hi = a[i], lo = b[i];
    if (flags & 64) {
      hi = hi > 0.0f || hi != hi ? hi : 0.0f;
      lo = lo > 0.0f || lo != lo ? lo : 0.0f;
    }
    u32 h = bf ? float_to_bf16_round(hi, r) : float_to_half_round(hi, r);
    u32 l = bf ? float_to_bf16_round(lo, r) : float_to_half_round(lo, r);
    out[i] = h << 16 | l;
  }
  lanes(w.mask, reg<u32>(w, in->d), [&](unsigned i) MC_INLINE_LAMBDA { return out[i]; });
  return in + 1;
}
// cvt.rna.tf32.f32 and cvt.rn.tf32.f32: 10 bits of mantissa
template <bool away>
const Inst* to_tf32(Warp& w, const Inst* in) {
  const u32* a = reg<u32>(w, in->a);
  lanes(w.mask, reg<u32>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    u32 b = a[i];
    u32 r = away ? b + 0x1000u : b + 0xfffu + (b >> 13 & 1u);
    r &= 0xffffe000u;
    return (b & 0x7f800000u) == 0x7f800000u ? b : r;
  });
  return in + 1;
}

template <Type from, typename R, typename I>
Handler int_int(const Spec& s) {
  using S32 = std::conditional_t<(I(-1) < I(0)), i32, u32>;
  using S64 = std::conditional_t<(I(-1) < I(0)), i64, u64>;
  using S16 = std::conditional_t<(I(-1) < I(0)), i16, u16>;
  if (s.width == 2 && sizeof(I) <= 2) return s.sat ? int_to_int<from, R, I, S16, true> : int_to_int<from, R, I, S16, false>;
  if (s.width == 4 && sizeof(I) <= 4) return s.sat ? int_to_int<from, R, I, S32, true> : int_to_int<from, R, I, S32, false>;
  if (s.width == 8) return s.sat ? int_to_int<from, R, I, S64, true> : int_to_int<from, R, I, S64, false>;
  return nullptr;
}
template <Type from, typename R>
Handler from_integer(const Spec& s) {
  constexpr bool kNarrow = from == Type::kS32 || from == Type::kS16 || from == Type::kS8 || from == Type::kU16 || from == Type::kU8;
  bool directed = s.round != Round::kNearest;
  switch (s.type) {
    case Type::kF32: return directed ? int_to_float_rounded<from, R, f32> : int_to_float<from, R, f32, kNarrow>;
    case Type::kF64: return directed ? int_to_float_rounded<from, R, f64> : int_to_float<from, R, f64, kNarrow>;
    case Type::kF16: return int_to_half<from, R, false>;
    case Type::kBF16: return int_to_half<from, R, true>;
    case Type::kS8: return int_int<from, R, i8>(s);
    case Type::kS16: return int_int<from, R, i16>(s);
    case Type::kS32: return int_int<from, R, i32>(s);
    case Type::kS64: return int_int<from, R, i64>(s);
    case Type::kU8: return int_int<from, R, u8>(s);
    case Type::kU16: return int_int<from, R, u16>(s);
    case Type::kU32: return int_int<from, R, u32>(s);
    case Type::kU64: return int_int<from, R, u64>(s);
    default: return nullptr;
  }
}
template <Type from>
Handler from_integer_width(const Spec& s, unsigned bytes) {
  switch (s.source_width) {
    case 2: return bytes <= 2 ? from_integer<from, u16>(s) : nullptr;
    case 4: return bytes <= 4 ? from_integer<from, u32>(s) : nullptr;
    case 8: return from_integer<from, u64>(s);
    default: return nullptr;
  }
}
template <Type from, typename R>
Handler from_float(const Spec& s) {
#define MC_TO_INT(I, D)                                                              \
  do {                                                                               \
    if constexpr (from == Type::kF32)                                                \
      if (s.ftz) return float_to_int<from, R, I, D, true>;                           \
    return float_to_int<from, R, I, D, false>;                                       \
  } while (false)
  switch (s.type) {
    case Type::kS8:
      if (s.width == 2) MC_TO_INT(i8, i16);
      if (s.width == 4) MC_TO_INT(i8, i32);
      return nullptr;
    case Type::kU8:
      if (s.width == 2) MC_TO_INT(u8, u16);
      if (s.width == 4) MC_TO_INT(u8, u32);
      return nullptr;
    case Type::kS16:
      if (s.width == 2) MC_TO_INT(i16, i16);
      if (s.width == 4) MC_TO_INT(i16, i32);
      return nullptr;
    case Type::kU16:
      if (s.width == 2) MC_TO_INT(u16, u16);
      if (s.width == 4) MC_TO_INT(u16, u32);
      return nullptr;
    case Type::kS32: MC_TO_INT(i32, i32);
    case Type::kU32: MC_TO_INT(u32, u32);
    case Type::kS64: MC_TO_INT(i64, i64);
    case Type::kU64: MC_TO_INT(u64, u64);
    case Type::kF16: return float_to_half_op<from, R, false>;
    case Type::kBF16: return float_to_half_op<from, R, true>;
    default: break;
  }
#undef MC_TO_INT
  if constexpr (sizeof(R) == 2) {
    if (s.type == Type::kF32) return half_to_float_op<from, f32>;
    if (s.type == Type::kF64) return half_to_float_op<from, f64>;
  } else {
    using F = std::conditional_t<sizeof(R) == 4, f32, f64>;
    if (s.type == Type::kF32) return float_to_float<F, f32>;
    if (s.type == Type::kF64) return float_to_float<F, f64>;
  }
  return nullptr;
}

}  // namespace

Handler lookup_convert(const Spec& s) {
  if (s.op == Op::kCvtPack) {
    if (s.type == Type::kF16x2) return pack_half2<false>;
    if (s.type == Type::kBF16x2) return pack_half2<true>;
    return nullptr;
  }
  if (s.op != Op::kCvt) return nullptr;
  if (s.type == Type::kTF32) return s.round == Round::kAway ? to_tf32<true> : to_tf32<false>;
  switch (s.source) {
    case Type::kS8: return from_integer_width<Type::kS8>(s, 1);
    case Type::kS16: return from_integer_width<Type::kS16>(s, 2);
    case Type::kS32: return from_integer_width<Type::kS32>(s, 4);
    case Type::kS64: return from_integer_width<Type::kS64>(s, 8);
    case Type::kU8: return from_integer_width<Type::kU8>(s, 1);
    case Type::kU16: return from_integer_width<Type::kU16>(s, 2);
    case Type::kU32: return from_integer_width<Type::kU32>(s, 4);
    case Type::kU64: return from_integer_width<Type::kU64>(s, 8);
    case Type::kF32: return from_float<Type::kF32, u32>(s);
    case Type::kF64: return from_float<Type::kF64, u64>(s);
    case Type::kF16: return from_float<Type::kF16, u16>(s);
    case Type::kBF16: return from_float<Type::kBF16, u16>(s);
    default: return nullptr;
  }
}

}  // namespace musacoder::vgpu::exec::MC_ISA
