// f16, f16x2, bf16 and bf16x2 arithmetic: computed in float (exact enough that one rounding remains), fma in double with
// rounding to odd before the final one.
#include "vgpu/exec/engine/float_math.h"
#include "vgpu/exec/engine/half_math.h"

namespace musacoder::vgpu::exec::MC_ISA {
namespace {

using ptx::Type;

struct F16 {
  MC_INLINE static f32 get(u16 h) { return half_to_float(h); }
  MC_INLINE static u16 put(f32 x) { return float_to_half(x); }
};
struct BF16 {
  MC_INLINE static f32 get(u16 h) { return bf16_to_float(h); }
  MC_INLINE static u16 put(f32 x) { return float_to_bf16(x); }
};

// post: bit 0 saturates to [0, 1], bit 1 clamps below at zero (relu), bit 2 flushes subnormal results and inputs.
template <class H>
MC_INLINE u16 finish(f32 x, u32 post) {
  if (post & 1) x = x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
  if (post & 2) x = x > 0.0f || x != x ? x : 0.0f;
  u16 h = H::put(x);
  if ((post & 4) && !(h & 0x7c00u)) h &= 0x8000u;
  return h;
}

struct Add {
  template <class H>
  MC_INLINE static u16 op(u16 a, u16 b, u16, u32 post) { return finish<H>(H::get(a) + H::get(b), post); }
};
struct Sub {
  template <class H>
  MC_INLINE static u16 op(u16 a, u16 b, u16, u32 post) { return finish<H>(H::get(a) - H::get(b), post); }
};
struct Mul {
  template <class H>
  MC_INLINE static u16 op(u16 a, u16 b, u16, u32 post) { return finish<H>(H::get(a) * H::get(b), post); }
};
struct Fma {
  template <class H>
  MC_INLINE static u16 op(u16 a, u16 b, u16 c, u32 post) {
    f64 r = f64(H::get(a)) * f64(H::get(b)) + f64(H::get(c));
    return finish<H>(double_to_float_odd(r), post);
  }
};
struct Neg {
  template <class H>
  MC_INLINE static u16 op(u16 a, u16, u16, u32) { return u16(a ^ 0x8000u); }
};
struct Abs {
  template <class H>
  MC_INLINE static u16 op(u16 a, u16, u16, u32) { return u16(a & 0x7fffu); }
};
// post bit 3: NaN wins; bit 4: xorsign.abs
template <bool max>
struct Pick {
  template <class H>
  MC_INLINE static u16 op(u16 a, u16 b, u16, u32 post) {
    u16 sign = u16((a ^ b) & 0x8000u);
    u16 p = (post & 16) ? u16(a & 0x7fffu) : a, q = (post & 16) ? u16(b & 0x7fffu) : b;
    f32 x = H::get(p), y = H::get(q);
    bool x_nan = x != x, y_nan = y != y;
    bool first = max ? (x > y || (x == y && !(p & 0x8000u))) : (x < y || (x == y && (p & 0x8000u)));
    u16 r = first ? p : q;
    r = x_nan ? q : r;
    r = y_nan ? p : r;
    bool nan = (post & 8) ? (x_nan || y_nan) : (x_nan && y_nan);
    r = nan ? u16(0x7fffu) : r;
    return (post & 16) && !nan ? u16((r & 0x7fffu) | sign) : r;
  }
};
struct Ex2 {
  template <class H>
  MC_INLINE static u16 op(u16 a, u16, u16, u32 post) { return finish<H>(double_to_float_odd(exp2_double(f64(H::get(a)))), post); }
};
struct Tanh {
  template <class H>
  MC_INLINE static u16 op(u16 a, u16, u16, u32 post) { return finish<H>(double_to_float_odd(tanh_double(f64(H::get(a)))), post); }
};

template <class F, class H>
const Inst* scalar(Warp& w, const Inst* in) {
  const u16 *a = reg<u16>(w, in->a), *b = reg<u16>(w, in->b), *c = reg<u16>(w, in->c);
  u32 post = in->flags;
  lanes(w.mask, reg<u16>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA { return F::template op<H>(a[i], b[i], c[i], post); });
  return in + 1;
}
template <class F, class H>
const Inst* packed(Warp& w, const Inst* in) {
  const u16 *a = reg<u16>(w, in->a), *b = reg<u16>(w, in->b), *c = reg<u16>(w, in->c);
  u32 post = in->flags;
  alignas(64) u16 out[2 * kLanes];
#pragma GCC ivdep
  for (unsigned i = 0; i < 2 * kLanes; ++i) out[i] = F::template op<H>(a[i], b[i], c[i], post);
  const u32* rows = reinterpret_cast<const u32*>(out);
  lanes(w.mask, reg<u32>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA { return rows[i]; });
  return in + 1;
}

MC_INLINE bool test(Cmp c, f32 a, f32 b) {
  bool unordered = a != a || b != b;
  switch (c) {
    case Cmp::kEq: return a == b;
    case Cmp::kNe: return !unordered && a != b;
    case Cmp::kLt: return a < b;
    case Cmp::kLe: return a <= b;
    case Cmp::kGt: return a > b;
    case Cmp::kGe: return a >= b;
    case Cmp::kEqu: return unordered || a == b;
    case Cmp::kNeu: return a != b;
    case Cmp::kLtu: return unordered || a < b;
    case Cmp::kLeu: return unordered || a <= b;
    case Cmp::kGtu: return unordered || a > b;
    case Cmp::kGeu: return unordered || a >= b;
    case Cmp::kNum: return !unordered;
    case Cmp::kNan: return unordered;
  }
  return false;
}
MC_INLINE u32 combined(Warp& w, const Inst* in, u32 result) {
  u32 other = pred(w, in->c) ^ ((in->e & 1) ? kFullMask : 0);
  switch (Bool(in->flags & 7)) {
    case Bool::kAnd: return result & other;
    case Bool::kOr: return result | other;
    case Bool::kXor: return result ^ other;
    case Bool::kNone: break;
  }
  return result;
}
// Scalar: d = p, f = q = !p. Packed: p for the low half, q for the high one.
template <class H, Cmp c, bool pair>
const Inst* setp(Warp& w, const Inst* in) {
  const u16 *a = reg<u16>(w, in->a), *b = reg<u16>(w, in->b);
  u32 first, second;
  if constexpr (pair) {
    first = compare([=](unsigned i) MC_INLINE_LAMBDA { return test(c, H::get(a[2 * i]), H::get(b[2 * i])); });
    second = compare([=](unsigned i) MC_INLINE_LAMBDA { return test(c, H::get(a[2 * i + 1]), H::get(b[2 * i + 1])); });
  } else {
    first = compare([=](unsigned i) MC_INLINE_LAMBDA { return test(c, H::get(a[i]), H::get(b[i])); });
    second = ~first;
  }
  first = combined(w, in, first);
  second = combined(w, in, second);
  u32& q = pred(w, in->f);
  q = (q & ~w.mask) | (second & w.mask);
  u32& p = pred(w, in->d);
  p = (p & ~w.mask) | (first & w.mask);
  return in + 1;
}

template <class H, bool pair>
Handler pick(const Spec& s) {
#define MC_OP(F) return pair ? packed<F, H> : scalar<F, H>
  switch (s.op) {
    case Op::kAdd: MC_OP(Add);
    case Op::kSub: MC_OP(Sub);
    case Op::kMul: MC_OP(Mul);
    case Op::kFma: MC_OP(Fma);
    case Op::kNeg: MC_OP(Neg);
    case Op::kAbs: MC_OP(Abs);
    case Op::kMin: MC_OP(Pick<false>);
    case Op::kMax: MC_OP(Pick<true>);
    case Op::kEx2: MC_OP(Ex2);
    case Op::kTanh: MC_OP(Tanh);
    default: break;
  }
#undef MC_OP
  if (s.op != Op::kSetp) return nullptr;
#define MC_CMP(name) case Cmp::name: return setp<H, Cmp::name, pair>;
  switch (s.cmp) {
    MC_CMP(kEq) MC_CMP(kNe) MC_CMP(kLt) MC_CMP(kLe) MC_CMP(kGt) MC_CMP(kGe) MC_CMP(kEqu) MC_CMP(kNeu) MC_CMP(kLtu)
    MC_CMP(kLeu) MC_CMP(kGtu) MC_CMP(kGeu) MC_CMP(kNum) MC_CMP(kNan)
  }
#undef MC_CMP
  return nullptr;
}

}  // namespace

Handler lookup_half(const Spec& s) {
  if (s.round != Round::kNearest) return nullptr;
  switch (s.type) {
    case Type::kF16: return pick<F16, false>(s);
    case Type::kF16x2: return pick<F16, true>(s);
    case Type::kBF16: return pick<BF16, false>(s);
    case Type::kBF16x2: return pick<BF16, true>(s);
    default: return nullptr;
  }
}

}  // namespace musacoder::vgpu::exec::MC_ISA
