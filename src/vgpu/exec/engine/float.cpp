// f32 and f64 arithmetic, comparison and approximate functions.
#include "vgpu/exec/engine/float_math.h"

namespace musacoder::vgpu::exec::MC_ISA {
namespace {

using ptx::Type;

template <bool ftz, typename T>
MC_INLINE T in_of(T x) {
  if constexpr (ftz && sizeof(T) == 4) return flush(x);
  else return x;
}
template <bool ftz, bool sat, typename T>
MC_INLINE T out_of(T x) {
  if constexpr (ftz && sizeof(T) == 4) x = flush(x);
  if constexpr (sat) x = x > T(0) ? (x < T(1) ? x : T(1)) : T(0);
  return x;
}

struct Add {
  template <typename T>
  MC_INLINE static T op(T a, T b) { return a + b; }
};
struct Sub {
  template <typename T>
  MC_INLINE static T op(T a, T b) { return a - b; }
};
struct Mul {
  template <typename T>
  MC_INLINE static T op(T a, T b) { return a * b; }
};
struct Div {
  template <typename T>
  MC_INLINE static T op(T a, T b) { return a / b; }
};
struct Fma {
  template <typename T>
  MC_INLINE static T op(T a, T b, T c) {
    if constexpr (sizeof(T) == 4) return __builtin_fmaf(a, b, c);
    else return __builtin_fma(a, b, c);
  }
};
struct Rcp {
  template <typename T>
  MC_INLINE static T op(T a) { return T(1) / a; }
};
struct Sqrt {
  template <typename T>
  MC_INLINE static T op(T a) {
    if constexpr (sizeof(T) == 4) return __builtin_sqrtf(a);
    else return __builtin_sqrt(a);
  }
};
struct Rsqrt {
  template <typename T>
  MC_INLINE static T op(T a) { return T(1.0 / __builtin_sqrt(f64(a))); }
};
struct Ex2 {
  template <typename T>
  MC_INLINE static T op(T a) { return T(exp2_double(a)); }
};
struct Lg2 {
  template <typename T>
  MC_INLINE static T op(T a) { return T(log2_double(a)); }
};
struct Sin {
  template <typename T>
  MC_INLINE static T op(T a) { return T(sine_double(a, 0)); }
};
struct Cos {
  template <typename T>
  MC_INLINE static T op(T a) { return T(sine_double(a, 1)); }
};
struct Tanh {
  template <typename T>
  MC_INLINE static T op(T a) { return T(tanh_double(a)); }
};
struct Abs {
  template <typename T>
  MC_INLINE static T op(T a) {
    if constexpr (sizeof(T) == 4) return bits_of<f32>(bits_of<u32>(a) & 0x7fffffffu);
    else return bits_of<f64>(bits_of<u64>(a) & 0x7fffffffffffffffull);
  }
};
struct Neg {
  template <typename T>
  MC_INLINE static T op(T a) {
    if constexpr (sizeof(T) == 4) return bits_of<f32>(bits_of<u32>(a) ^ 0x80000000u);
    else return bits_of<f64>(bits_of<u64>(a) ^ 0x8000000000000000ull);
  }
};
template <typename T>
MC_INLINE bool sign_of(T a) {
  if constexpr (sizeof(T) == 4) return bits_of<u32>(a) >> 31;
  else return bits_of<u64>(a) >> 63;
}
template <typename T>
MC_INLINE T canonical_nan() {
  if constexpr (sizeof(T) == 4) return bits_of<f32>(kNan32);
  else return bits_of<f64>(u64(0x7fffffffffffffffull));
}
// -0 < +0; one NaN gives the other operand.
template <bool nan>
struct Min {
  template <typename T>
  MC_INLINE static T op(T a, T b) {
    T r = (a < b || (a == b && sign_of(a))) ? a : b;
    r = a != a ? b : r;
    r = b != b ? a : r;
    if (nan ? (a != a || b != b) : (a != a && b != b)) r = canonical_nan<T>();
    return r;
  }
};
template <bool nan>
struct Max {
  template <typename T>
  MC_INLINE static T op(T a, T b) {
    T r = (a > b || (a == b && sign_of(b))) ? a : b;
    r = a != a ? b : r;
    r = b != b ? a : r;
    if (nan ? (a != a || b != b) : (a != a && b != b)) r = canonical_nan<T>();
    return r;
  }
};
template <class M>
struct XorSign {
  template <typename T>
  MC_INLINE static T op(T a, T b) {
    T m = M::template op<T>(Abs::op<T>(a), Abs::op<T>(b));
    return sign_of(a) != sign_of(b) ? Neg::op<T>(Abs::op<T>(m)) : Abs::op<T>(m);
  }
};
struct Copysign {  // copysign.f32 d, a, b: b with the sign of a
  template <typename T>
  MC_INLINE static T op(T a, T b) { return sign_of(a) ? Neg::op<T>(Abs::op<T>(b)) : Abs::op<T>(b); }
};

template <class F, typename T, bool ftz, bool sat>
const Inst* unary_f(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  lanes(w.mask, reg<T>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    return out_of<ftz, sat, T>(F::template op<T>(in_of<ftz, T>(a[i])));
  });
  return in + 1;
}
template <class F, typename T, bool ftz, bool sat>
const Inst* binary_f(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  const T* b = reg<T>(w, in->b);
  lanes(w.mask, reg<T>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    return out_of<ftz, sat, T>(F::template op<T>(in_of<ftz, T>(a[i]), in_of<ftz, T>(b[i])));
  });
  return in + 1;
}
template <class F, typename T, bool ftz, bool sat>
const Inst* ternary_f(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  const T* b = reg<T>(w, in->b);
  const T* c = reg<T>(w, in->c);
  lanes(w.mask, reg<T>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    return out_of<ftz, sat, T>(F::template op<T>(in_of<ftz, T>(a[i]), in_of<ftz, T>(b[i]), in_of<ftz, T>(c[i])));
  });
  return in + 1;
}

// Directed rounding by MXCSR. The barriers keep loads, arithmetic and stores between the two settings. in->flags is the
// rounding control field; flag bit 8 saturates, bit 9 flushes.
template <class F, typename T, unsigned arity>
[[gnu::noinline]] void rounded_loop(const T* a, const T* b, const T* c, T* out, u32 control) {
  u32 before = _mm_getcsr();
  _mm_setcsr((before & ~0x6000u) | control << 13);
  asm volatile("" ::: "memory");
#pragma GCC ivdep
  for (unsigned i = 0; i < kLanes; ++i) {
    if constexpr (arity == 1) out[i] = F::template op<T>(a[i]);
    if constexpr (arity == 2) out[i] = F::template op<T>(a[i], b[i]);
    if constexpr (arity == 3) out[i] = F::template op<T>(a[i], b[i], c[i]);
  }
  asm volatile("" ::: "memory");
  _mm_setcsr(before);
}
template <class F, typename T, unsigned arity, u32 control, bool ftz>
const Inst* rounded(Warp& w, const Inst* in) {
  alignas(64) T rows[3][kLanes];
  alignas(64) T out[kLanes];
  const u32 offsets[3] = {in->a, in->b, in->c};
  for (unsigned k = 0; k < arity; ++k) {
    const T* s = reg<T>(w, offsets[k]);
    for (unsigned i = 0; i < kLanes; ++i) rows[k][i] = in_of<ftz, T>(s[i]);
  }
  rounded_loop<F, T, arity>(rows[0], rows[1], rows[2], out, control);
  bool sat = in->flags & 1;
  lanes(w.mask, reg<T>(w, in->d), [&](unsigned i) MC_INLINE_LAMBDA {
    T x = out_of<ftz, false, T>(out[i]);
    T y = out_of<false, true, T>(x);
    return sat ? y : x;
  });
  return in + 1;
}

template <Cmp c, typename T>
MC_INLINE bool test(T a, T b) {
  bool unordered = a != a || b != b;
  if constexpr (c == Cmp::kEq) return a == b;
  if constexpr (c == Cmp::kNe) return !unordered && a != b;
  if constexpr (c == Cmp::kLt) return a < b;
  if constexpr (c == Cmp::kLe) return a <= b;
  if constexpr (c == Cmp::kGt) return a > b;
  if constexpr (c == Cmp::kGe) return a >= b;
  if constexpr (c == Cmp::kEqu) return unordered || a == b;
  if constexpr (c == Cmp::kNeu) return a != b;
  if constexpr (c == Cmp::kLtu) return unordered || a < b;
  if constexpr (c == Cmp::kLeu) return unordered || a <= b;
  if constexpr (c == Cmp::kGtu) return unordered || a > b;
  if constexpr (c == Cmp::kGeu) return unordered || a >= b;
  if constexpr (c == Cmp::kNum) return !unordered;
  if constexpr (c == Cmp::kNan) return unordered;
}
// As for integers: d = p, f = q, c = combining predicate, e bit 0 negates it, in->flags = Bool.
template <Cmp c, typename T, bool ftz>
const Inst* setp(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  const T* b = reg<T>(w, in->b);
  u32 result = compare([=](unsigned i) MC_INLINE_LAMBDA { return test<c, T>(in_of<ftz, T>(a[i]), in_of<ftz, T>(b[i])); });
  u32 complement = ~result;
  if (in->flags) {
    u32 other = pred(w, in->c) ^ ((in->e & 1) ? kFullMask : 0);
    switch (Bool(in->flags)) {
      case Bool::kAnd: result &= other, complement &= other; break;
      case Bool::kOr: result |= other, complement |= other; break;
      case Bool::kXor: result ^= other, complement ^= other; break;
      case Bool::kNone: break;
    }
  }
  u32& q = pred(w, in->f);
  q = (q & ~w.mask) | (complement & w.mask);
  u32& p = pred(w, in->d);
  p = (p & ~w.mask) | (result & w.mask);
  return in + 1;
}

// mode: 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal, 5 subnormal
template <typename T>
const Inst* testp(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  u32 result = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    u64 b, e, m;
    if constexpr (sizeof(T) == 4) b = bits_of<u32>(a[i]), e = b >> 23 & 0xff, m = b & 0x7fffff, e = e == 0xff ? 0x7ff : e;
    else b = bits_of<u64>(a[i]), e = b >> 52 & 0x7ff, m = b & 0xfffffffffffffull;
    bool r = false;
    switch (in->flags) {
      case 0: r = e != 0x7ff; break;
      case 1: r = e == 0x7ff && !m; break;
      case 2: r = !(e == 0x7ff && m); break;
      case 3: r = e == 0x7ff && m; break;
      case 4: r = e != 0 && e != 0x7ff; break;
      default: r = e == 0 && m; break;
    }
    result |= u32(r) << i;
  }
  u32& p = pred(w, in->d);
  p = (p & ~w.mask) | (result & w.mask);
  return in + 1;
}

template <class F, typename T, unsigned arity>
Handler pick(const Spec& s) {
#define MC_PICK(ftz, sat)                                               \
  do {                                                                  \
    if constexpr (arity == 1) return unary_f<F, T, ftz, sat>;           \
    else if constexpr (arity == 2) return binary_f<F, T, ftz, sat>;     \
    else return ternary_f<F, T, ftz, sat>;                              \
  } while (false)
  if constexpr (sizeof(T) == 4) {
    if (s.ftz && s.sat) MC_PICK(true, true);
    if (s.ftz) MC_PICK(true, false);
    if (s.sat) MC_PICK(false, true);
  } else {
    if (s.sat) return nullptr;
  }
  MC_PICK(false, false);
#undef MC_PICK
}
template <class F, typename T, unsigned arity>
Handler pick_rounded(const Spec& s) {
#define MC_ROUND(control) \
  (s.ftz ? rounded<F, T, arity, control, sizeof(T) == 4> : rounded<F, T, arity, control, false>)
  switch (s.round) {
    case Round::kDown: return MC_ROUND(1);
    case Round::kUp: return MC_ROUND(2);
    case Round::kZero: return MC_ROUND(3);
    default: return pick<F, T, arity>(s);
  }
#undef MC_ROUND
}

template <typename T>
Handler pick_setp(const Spec& s) {
#define MC_CMP(name) case Cmp::name: return s.ftz && sizeof(T) == 4 ? setp<Cmp::name, T, true> : setp<Cmp::name, T, false>;
  switch (s.cmp) {
    MC_CMP(kEq) MC_CMP(kNe) MC_CMP(kLt) MC_CMP(kLe) MC_CMP(kGt) MC_CMP(kGe) MC_CMP(kEqu) MC_CMP(kNeu) MC_CMP(kLtu)
    MC_CMP(kLeu) MC_CMP(kGtu) MC_CMP(kGeu) MC_CMP(kNum) MC_CMP(kNan)
  }
#undef MC_CMP
  return nullptr;
}

template <typename T>
Handler pick_float(const Spec& s) {
  switch (s.op) {
    case Op::kAdd: return pick_rounded<Add, T, 2>(s);
    case Op::kSub: return pick_rounded<Sub, T, 2>(s);
    case Op::kMul: return pick_rounded<Mul, T, 2>(s);
    case Op::kFma: return pick_rounded<Fma, T, 3>(s);
    case Op::kDiv: return pick_rounded<Div, T, 2>(s);
    case Op::kRcp: return pick_rounded<Rcp, T, 1>(s);
    case Op::kSqrt: return pick_rounded<Sqrt, T, 1>(s);
    case Op::kRsqrt: return pick<Rsqrt, T, 1>(s);
    case Op::kAbs: return pick<Abs, T, 1>(s);
    case Op::kNeg: return pick<Neg, T, 1>(s);
    case Op::kMin:
      if (s.xorsign) return s.nan ? pick<XorSign<Min<true>>, T, 2>(s) : pick<XorSign<Min<false>>, T, 2>(s);
      return s.nan ? pick<Min<true>, T, 2>(s) : pick<Min<false>, T, 2>(s);
    case Op::kMax:
      if (s.xorsign) return s.nan ? pick<XorSign<Max<true>>, T, 2>(s) : pick<XorSign<Max<false>>, T, 2>(s);
      return s.nan ? pick<Max<true>, T, 2>(s) : pick<Max<false>, T, 2>(s);
    case Op::kCopysign: return pick<Copysign, T, 2>(s);
    case Op::kSetp: return pick_setp<T>(s);
    case Op::kTestp: return testp<T>;
    default: break;
  }
  if constexpr (sizeof(T) == 4) {
    switch (s.op) {
      case Op::kEx2: return pick<Ex2, T, 1>(s);
      case Op::kLg2: return pick<Lg2, T, 1>(s);
      case Op::kSin: return pick<Sin, T, 1>(s);
      case Op::kCos: return pick<Cos, T, 1>(s);
      case Op::kTanh: return pick<Tanh, T, 1>(s);
      default: break;
    }
  }
  return nullptr;
}

}  // namespace

Handler lookup_float(const Spec& s) {
  if (s.type == Type::kF32) return pick_float<f32>(s);
  if (s.type == Type::kF64) return pick_float<f64>(s);
  return nullptr;
}

}  // namespace musacoder::vgpu::exec::MC_ISA
