// Integer, bit and predicate instructions, moves and selections.
#include "vgpu/exec/engine/lanes.h"

namespace musacoder::vgpu::exec::MC_ISA {
namespace {

using ptx::Type;

struct Mov {
  template <typename D, typename A>
  MC_INLINE static D op(A a) { return D(a); }
};
struct Add {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return D(a + b); }
};
struct Sub {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return D(a - b); }
};
struct Mul {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return D(a * b); }
};
struct MulWide {
  template <typename D, typename A>
  MC_INLINE static D op(A a, A b) { return D(D(a) * D(b)); }
};
__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;
template <typename T> struct Wider;
template <> struct Wider<i16> { using type = i32; };
template <> struct Wider<u16> { using type = u32; };
template <> struct Wider<i32> { using type = i64; };
template <> struct Wider<u32> { using type = u64; };
template <> struct Wider<i64> { using type = i128; };
template <> struct Wider<u64> { using type = u128; };
struct MulHi {
  template <typename D>
  MC_INLINE static D op(D a, D b) {
    using W = typename Wider<D>::type;
    return D(W(W(a) * W(b)) >> (8 * sizeof(D)));
  }
};
struct Mad {
  template <typename D>
  MC_INLINE static D op(D a, D b, D c) { return D(a * b + c); }
};
struct MadHi {
  template <typename D>
  MC_INLINE static D op(D a, D b, D c) { return D(MulHi::op<D>(a, b) + c); }
};
struct MadWide {
  template <typename D, typename A>
  MC_INLINE static D op(A a, A b, D c) { return D(D(a) * D(b) + c); }
};
template <typename T>
MC_INLINE T low24(T x) {
  if constexpr (T(-1) < T(0)) return T(T(u32(x) << 8) >> 8);
  return T(x & 0xffffff);
}
struct Mul24 {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return D(u32(low24(a)) * u32(low24(b))); }
};
struct Mad24 {
  template <typename D>
  MC_INLINE static D op(D a, D b, D c) { return D(u32(low24(a)) * u32(low24(b)) + u32(c)); }
};
struct Sad {
  template <typename D>
  MC_INLINE static D op(D a, D b, D c) { return D(c + (a < b ? D(b - a) : D(a - b))); }
};
// Division by zero gives all ones on the hardware; the most negative value by -1 wraps.
struct Div {
  template <typename D>
  MC_INLINE static D op(D a, D b) {
    if (b == 0) return D(-1);
    if constexpr (D(-1) < D(0))
      if (b == D(-1)) return D(0 - std::make_unsigned_t<D>(a));
    return D(a / b);
  }
};
struct Rem {
  template <typename D>
  MC_INLINE static D op(D a, D b) {
    if (b == 0) return a;
    if constexpr (D(-1) < D(0))
      if (b == D(-1)) return D(0);
    return D(a % b);
  }
};
// 32-bit division is exact in double precision and vectorises.
struct Div32 {
  template <typename D>
  MC_INLINE static D op(D a, D b) {
    double q = double(a) / double(b == 0 ? D(1) : b);
    D r = D(i64(q));
    return b == 0 ? D(-1) : r;
  }
};
struct Rem32 {
  template <typename D>
  MC_INLINE static D op(D a, D b) {
    D divisor = b == 0 ? D(1) : b;
    D q = D(i64(double(a) / double(divisor)));
    return b == 0 ? a : D(u32(a) - u32(q) * u32(divisor));
  }
};
struct Abs {
  template <typename D>
  MC_INLINE static D op(D a) { return a < 0 ? D(0 - std::make_unsigned_t<D>(a)) : a; }
};
struct Neg {
  template <typename D>
  MC_INLINE static D op(D a) { return D(0 - a); }
};
struct Min {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return b < a ? b : a; }
};
struct Max {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return a < b ? b : a; }
};
struct And {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return D(a & b); }
};
struct Or {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return D(a | b); }
};
struct Xor {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return D(a ^ b); }
};
struct Not {
  template <typename D>
  MC_INLINE static D op(D a) { return D(~a); }
};
struct Cnot {
  template <typename D>
  MC_INLINE static D op(D a) { return D(a == 0); }
};
struct Shl {
  template <typename D>
  MC_INLINE static D op(D a, u32 n) {
    constexpr u32 kBits = 8 * sizeof(D);
    return n >= kBits ? D(0) : D(a << (n & (kBits - 1)));
  }
};
struct Shr {
  template <typename D>
  MC_INLINE static D op(D a, u32 n) {
    constexpr u32 kBits = 8 * sizeof(D);
    if constexpr (D(-1) < D(0)) return D(a >> (n >= kBits ? kBits - 1 : n));
    return n >= kBits ? D(0) : D(a >> (n & (kBits - 1)));
  }
};
const Inst* lop3(Warp& w, const Inst* in) {
  const u32* a = reg<u32>(w, in->a);
  const u32* b = reg<u32>(w, in->b);
  const u32* c = reg<u32>(w, in->c);
  u32 t[8];
  for (unsigned k = 0; k < 8; ++k) t[k] = (in->imm >> k & 1) ? kFullMask : 0;
  lanes(w.mask, reg<u32>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    u32 x = a[i], y = b[i], z = c[i];
    return (~x & ~y & ~z & t[0]) | (~x & ~y & z & t[1]) | (~x & y & ~z & t[2]) | (~x & y & z & t[3]) | (x & ~y & ~z & t[4]) |
           (x & ~y & z & t[5]) | (x & y & ~z & t[6]) | (x & y & z & t[7]);
  });
  return in + 1;
}
template <bool right, bool clamp>
const Inst* shf(Warp& w, const Inst* in) {
  const u32* a = reg<u32>(w, in->a);
  const u32* b = reg<u32>(w, in->b);
  const u32* c = reg<u32>(w, in->c);
  lanes(w.mask, reg<u32>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    u32 n = clamp ? (c[i] > 32 ? 32u : c[i]) : (c[i] & 31u);
    u64 pair = u64(b[i]) << 32 | a[i];
    return right ? u32(pair >> n) : u32((pair << n) >> 32);
  });
  return in + 1;
}
struct Bfe {
  template <typename D>
  MC_INLINE static D op(D a, u32 position, u32 length) {
    constexpr u32 kBits = 8 * sizeof(D);
    using U = std::make_unsigned_t<D>;
    u32 pos = position & 0xff, len = length & 0xff;
    if (len == 0) return D(0);
    if constexpr (D(-1) < D(0)) {
      u32 msb = pos + len > kBits ? kBits - 1 : pos + len - 1;
      U sign = U(a >> msb & 1) ? U(-1) : U(0);
      U field = pos >= kBits ? U(0) : U(U(a) >> pos);
      u32 have = pos >= kBits ? 0 : kBits - pos;
      u32 keep = len < have ? len : have;
      U mask = keep >= kBits ? U(-1) : U((U(1) << keep) - 1);
      return D((field & mask) | (sign & ~mask));
    }
    U field = pos >= kBits ? U(0) : U(U(a) >> pos);
    return D(len >= kBits ? field : U(field & ((U(1) << len) - 1)));
  }
};
template <typename T>
const Inst* bfi(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  const T* b = reg<T>(w, in->b);
  const u32* c = reg<u32>(w, in->c);
  const u32* e = reg<u32>(w, in->e);
  lanes(w.mask, reg<T>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    constexpr u32 kBits = 8 * sizeof(T);
    u32 pos = c[i] & 0xff, len = e[i] & 0xff;
    if (pos >= kBits || len == 0) return b[i];
    T mask = len >= kBits ? T(-1) : T((T(1) << len) - 1);
    mask = T(mask << pos);
    return T((b[i] & ~mask) | (T(a[i] << pos) & mask));
  });
  return in + 1;
}
template <typename T, bool shift_amount>
const Inst* bfind(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  u32* d = reg<u32>(w, in->d);
  each(w.mask, [=](unsigned i) MC_INLINE_LAMBDA {
    u64 x;
    constexpr unsigned kBits = 8 * sizeof(T);
    if constexpr (T(-1) < T(0)) x = u64(std::make_unsigned_t<T>(a[i] < 0 ? ~a[i] : a[i]));
    else x = a[i];
    if (x == 0) {
      d[i] = kFullMask;
    } else {
      u32 msb = 63u - u32(__builtin_clzll(x));
      d[i] = shift_amount ? kBits - 1 - msb : msb;
    }
  });
  return in + 1;
}
template <typename T>
const Inst* brev(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  lanes(w.mask, reg<T>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    u64 x = a[i];
    x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
    x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0full) | (x & 0x0f0f0f0f0f0f0f0full) << 4;
    x = (x >> 8 & 0x00ff00ff00ff00ffull) | (x & 0x00ff00ff00ff00ffull) << 8;
    x = (x >> 16 & 0x0000ffff0000ffffull) | (x & 0x0000ffff0000ffffull) << 16;
    if constexpr (sizeof(T) == 8) return T(x >> 32 | x << 32);
    return T(x);
  });
  return in + 1;
}
template <typename T>
const Inst* popc(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  u32* d = reg<u32>(w, in->d);
  each(w.mask, [=](unsigned i) MC_INLINE_LAMBDA { d[i] = u32(__builtin_popcountll(a[i])); });
  return in + 1;
}
template <typename T>
const Inst* clz(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  u32* d = reg<u32>(w, in->d);
  each(w.mask, [=](unsigned i) MC_INLINE_LAMBDA {
    d[i] = a[i] ? u32(__builtin_clzll(a[i])) - (64 - 8 * u32(sizeof(T))) : 8 * u32(sizeof(T));
  });
  return in + 1;
}
// in->f: mode 0 = default, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16.
const Inst* prmt(Warp& w, const Inst* in) {
  const u32* a = reg<u32>(w, in->a);
  const u32* b = reg<u32>(w, in->b);
  const u32* c = reg<u32>(w, in->c);
  u32* d = reg<u32>(w, in->d);
  u32 mode = in->f;
  each(w.mask, [=](unsigned i) MC_INLINE_LAMBDA {
    u64 bytes = u64(b[i]) << 32 | a[i];
    u32 control = c[i], out = 0;
    for (u32 k = 0; k < 4; ++k) {
      u32 select = control & 3, sign = 0;
      switch (mode) {
        case 0: select = control >> (4 * k) & 7, sign = control >> (4 * k) & 8; break;
        case 1: select = (select + k) & 7; break;
        case 2: select = (select + 8 - k) & 7; break;
        case 3: break;
        case 4: select = k < select ? select : k; break;
        case 5: select = k < select ? k : select; break;
        default: select = (select & 1) * 2 + (k & 1); break;
      }
      u32 byte = u32(bytes >> (8 * select)) & 0xff;
      if (sign) byte = byte & 0x80 ? 0xff : 0;
      out |= byte << (8 * k);
    }
    d[i] = out;
  });
  return in + 1;
}
template <typename A, typename B>
const Inst* dp4a(Warp& w, const Inst* in) {
  const u32* a = reg<u32>(w, in->a);
  const u32* b = reg<u32>(w, in->b);
  const u32* c = reg<u32>(w, in->c);
  lanes(w.mask, reg<u32>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    u32 sum = c[i];
    for (unsigned k = 0; k < 4; ++k) sum += u32(i32(A(a[i] >> (8 * k))) * i32(B(b[i] >> (8 * k))));
    return sum;
  });
  return in + 1;
}
// in->f: 1 for .hi.
template <typename A, typename B>
const Inst* dp2a(Warp& w, const Inst* in) {
  using A16 = std::conditional_t<(A(-1) < A(0)), i16, u16>;
  const u32* a = reg<u32>(w, in->a);
  const u32* b = reg<u32>(w, in->b);
  const u32* c = reg<u32>(w, in->c);
  u32 shift = in->f * 16;
  lanes(w.mask, reg<u32>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    u32 sum = c[i];
    for (unsigned k = 0; k < 2; ++k) sum += u32(i32(A16(a[i] >> (16 * k))) * i32(B(b[i] >> (shift + 8 * k))));
    return sum;
  });
  return in + 1;
}
const Inst* fns(Warp& w, const Inst* in) {
  const u32* a = reg<u32>(w, in->a);
  const u32* b = reg<u32>(w, in->b);
  const i32* c = reg<i32>(w, in->c);
  u32* d = reg<u32>(w, in->d);
  each(w.mask, [=](unsigned i) MC_INLINE_LAMBDA {
    u32 found = kFullMask;
    i32 want = c[i];
    if (want == 0) {
      if (b[i] < 32 && (a[i] >> b[i] & 1)) found = b[i];
    } else {
      i32 count = want < 0 ? -want : want;
      for (i64 k = b[i]; k >= 0 && k < 32; k += want < 0 ? -1 : 1)
        if ((a[i] >> k & 1) && --count == 0) {
          found = u32(k);
          break;
        }
    }
    d[i] = found;
  });
  return in + 1;
}
// bmsk.clamp / .wrap and szext, in->f: 1 for wrap.
const Inst* bmsk(Warp& w, const Inst* in) {
  const u32* a = reg<u32>(w, in->a);
  const u32* b = reg<u32>(w, in->b);
  bool wrap = in->f != 0;
  lanes(w.mask, reg<u32>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    u32 start = wrap ? a[i] & 31 : a[i], width = wrap ? b[i] & 31 : b[i];
    if (start > 31) return 0u;
    u64 ones = width > 31 ? 0xffffffffull : (1ull << width) - 1;
    return u32(ones << start);
  });
  return in + 1;
}
template <typename T>
const Inst* szext(Warp& w, const Inst* in) {
  const u32* a = reg<u32>(w, in->a);
  const u32* b = reg<u32>(w, in->b);
  bool wrap = in->f != 0;
  lanes(w.mask, reg<u32>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    u32 n = wrap ? b[i] & 31 : b[i];
    if (n > 31) return a[i];
    if (n == 0) return 0u;
    u32 shift = 32 - n;
    return u32(T(a[i] << shift) >> shift);
  });
  return in + 1;
}
// Extended precision: the carry is a predicate slot of the frame, offset f.
template <typename T, bool use, bool set, bool subtract>
const Inst* add_carry(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  const T* b = reg<T>(w, in->b);
  T* d = reg<T>(w, in->d);
  u32& flag = pred(w, in->f);
  u32 before = flag, after = flag;
  each(w.mask, [&](unsigned i) MC_INLINE_LAMBDA {
    using W = typename Wider<T>::type;
    W carry = use ? W(before >> i & 1) : W(0);
    W sum = subtract ? W(W(a[i]) - W(b[i]) - carry) : W(W(a[i]) + W(b[i]) + carry);
    d[i] = T(sum);
    u32 out = u32(sum >> (8 * sizeof(T))) & 1;
    after = (after & ~(1u << i)) | out << i;
  });
  if (set) flag = after;
  return in + 1;
}
template <typename T, bool use, bool set, bool high>
const Inst* mad_carry(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  const T* b = reg<T>(w, in->b);
  using U = std::make_unsigned_t<T>;
  const U* c = reg<U>(w, in->c);
  U* d = reg<U>(w, in->d);
  u32& flag = pred(w, in->f);
  u32 before = flag, after = flag;
  each(w.mask, [&](unsigned i) MC_INLINE_LAMBDA {
    using W = typename Wider<T>::type;
    using WU = typename Wider<U>::type;
    W product = W(a[i]) * W(b[i]);
    U part = high ? U(product >> (8 * sizeof(T))) : U(product);
    WU sum = WU(part) + WU(c[i]) + (use ? WU(before >> i & 1) : WU(0));
    d[i] = U(sum);
    after = (after & ~(1u << i)) | (u32(sum >> (8 * sizeof(T))) & 1) << i;
  });
  if (set) flag = after;
  return in + 1;
}

// ---- comparisons ------------------------------------------------------------------------------------------------
template <Cmp c, typename T>
MC_INLINE bool test(T a, T b) {
  if constexpr (c == Cmp::kEq) return a == b;
  if constexpr (c == Cmp::kNe) return a != b;
  if constexpr (c == Cmp::kLt) return a < b;
  if constexpr (c == Cmp::kLe) return a <= b;
  if constexpr (c == Cmp::kGt) return a > b;
  if constexpr (c == Cmp::kGe) return a >= b;
}
// d = p, f = q (the complement) or the same scratch slot; c = the combining predicate. e: bit 0 negates it.
template <Bool combine>
MC_INLINE void store_predicates(Warp& w, const Inst* in, u32 result) {
  u32 complement = ~result;
  if constexpr (combine != Bool::kNone) {
    u32 other = pred(w, in->c);
    if (in->e & 1) other = ~other;
    if constexpr (combine == Bool::kAnd) result &= other, complement &= other;
    if constexpr (combine == Bool::kOr) result |= other, complement |= other;
    if constexpr (combine == Bool::kXor) result ^= other, complement ^= other;
  }
  u32& q = pred(w, in->f);
  q = (q & ~w.mask) | (complement & w.mask);
  u32& p = pred(w, in->d);
  p = (p & ~w.mask) | (result & w.mask);
}
template <Cmp c, typename T>
const Inst* setp(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  const T* b = reg<T>(w, in->b);
  u32 result = compare([=](unsigned i) MC_INLINE_LAMBDA { return test<c, T>(a[i], b[i]); });
  u32& p = pred(w, in->d);
  p = (p & ~w.mask) | (result & w.mask);
  return in + 1;
}
template <Cmp c, typename T, Bool combine>
const Inst* setp_combine(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  const T* b = reg<T>(w, in->b);
  u32 result = compare([=](unsigned i) MC_INLINE_LAMBDA { return test<c, T>(a[i], b[i]); });
  store_predicates<combine>(w, in, result);
  return in + 1;
}
template <typename T>
Handler pick_setp(const Spec& s) {
#define MC_CMP(name)                                                                       \
  case Cmp::name:                                                                          \
    switch (s.combine) {                                                                   \
      case Bool::kNone: return s.has_predicate_out ? setp_combine<Cmp::name, T, Bool::kNone> : setp<Cmp::name, T>; \
      case Bool::kAnd: return setp_combine<Cmp::name, T, Bool::kAnd>;                      \
      case Bool::kOr: return setp_combine<Cmp::name, T, Bool::kOr>;                        \
      case Bool::kXor: return setp_combine<Cmp::name, T, Bool::kXor>;                      \
    }                                                                                      \
    break;
  switch (s.cmp) {
    MC_CMP(kEq)
    MC_CMP(kNe)
    MC_CMP(kLt)
    MC_CMP(kLe)
    MC_CMP(kGt)
    MC_CMP(kGe)
    default: break;
  }
#undef MC_CMP
  return nullptr;
}

// ---- predicates ---------------------------------------------------------------------------------------------------
// e: bit 0 negates a, bit 1 negates b.
template <Op op>
const Inst* pred_op(Warp& w, const Inst* in) {
  u32 a = pred(w, in->a) ^ ((in->e & 1) ? kFullMask : 0);
  u32 r = a;
  if constexpr (op != Op::kPredNot && op != Op::kPredMov) {
    u32 b = pred(w, in->b) ^ ((in->e & 2) ? kFullMask : 0);
    if constexpr (op == Op::kPredAnd) r = a & b;
    if constexpr (op == Op::kPredOr) r = a | b;
    if constexpr (op == Op::kPredXor) r = a ^ b;
  }
  if constexpr (op == Op::kPredNot) r = ~a;
  u32& d = pred(w, in->d);
  d = (d & ~w.mask) | (r & w.mask);
  return in + 1;
}

template <typename T>
const Inst* selp(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  const T* b = reg<T>(w, in->b);
  u32 p = pred(w, in->c) ^ ((in->e & 1) ? kFullMask : 0);
  lanes(w.mask, reg<T>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA { return (p >> i & 1u) ? a[i] : b[i]; });
  return in + 1;
}
template <typename T, typename C>
const Inst* slct(Warp& w, const Inst* in) {
  const T* a = reg<T>(w, in->a);
  const T* b = reg<T>(w, in->b);
  const C* c = reg<C>(w, in->c);
  lanes(w.mask, reg<T>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA { return c[i] >= C(0) ? a[i] : b[i]; });
  return in + 1;
}

// mov.b64 %rd, {%r1, %r2} and its kin. d = destination, a,b,c,e = parts, width = bytes of a part.
template <typename D, typename A, unsigned N>
const Inst* mov_pack(Warp& w, const Inst* in) {
  const A* parts[4] = {reg<A>(w, in->a), reg<A>(w, in->b), reg<A>(w, in->c), reg<A>(w, in->e)};
  lanes(w.mask, reg<D>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA {
    D out = 0;
    for (unsigned k = 0; k < N; ++k) out = D(out | D(D(parts[k][i]) << (8 * sizeof(A) * k)));
    return out;
  });
  return in + 1;
}
// mov.b64 {%r1, %r2}, %rd: a = source, d,b,c,e = parts.
template <typename D, typename A, unsigned N>
const Inst* mov_unpack(Warp& w, const Inst* in) {
  const D* a = reg<D>(w, in->a);
  u32 parts[4] = {in->d, in->b, in->c, in->e};
  alignas(64) D copy[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) copy[i] = a[i];
  for (unsigned k = 0; k < N; ++k)
    lanes(w.mask, reg<A>(w, parts[k]), [&](unsigned i) MC_INLINE_LAMBDA { return A(copy[i] >> (8 * sizeof(A) * k)); });
  return in + 1;
}

template <typename T>
Handler pick_unsigned_or_signed(const Spec& s) {
  constexpr bool kSmall = sizeof(T) == 4;
  switch (s.op) {
    case Op::kMulHi: return binary_each<MulHi, T>;
    case Op::kMadHi: return ternary<MadHi, T>;
    case Op::kDiv:
      if constexpr (kSmall) return binary<Div32, T>;
      else return binary_each<Div, T>;
    case Op::kRem:
      if constexpr (kSmall) return binary<Rem32, T>;
      else return binary_each<Rem, T>;
    case Op::kMin: return binary<Min, T>;
    case Op::kMax: return binary<Max, T>;
    case Op::kShr: return binary<Shr, T, T, u32>;
    case Op::kSad: return ternary<Sad, T>;
    case Op::kSetp: return pick_setp<T>(s);
    case Op::kMulWide:
      if constexpr (sizeof(T) < 8) return binary<MulWide, typename Wider<T>::type, T>;
      break;
    case Op::kMadWide:
      if constexpr (sizeof(T) < 8) return ternary<MadWide, typename Wider<T>::type, T>;
      break;
    default: break;
  }
  if constexpr (sizeof(T) >= 4) {
    if (s.op == Op::kBfe) return ternary<Bfe, T, T, u32, u32>;
    if (s.op == Op::kBfind) return s.mode ? bfind<T, true> : bfind<T, false>;
    // mode: bit 0 uses the carry, bit 1 sets it, bit 2 high part.
    if (s.op == Op::kMadc) {
      switch (s.mode) {
        case 1: return mad_carry<T, true, false, false>;
        case 2: return mad_carry<T, false, true, false>;
        case 3: return mad_carry<T, true, true, false>;
        case 5: return mad_carry<T, true, false, true>;
        case 6: return mad_carry<T, false, true, true>;
        case 7: return mad_carry<T, true, true, true>;
        default: return nullptr;
      }
    }
  }
  return nullptr;
}
template <typename T>
Handler pick_signless(const Spec& s) {
  switch (s.op) {
    case Op::kMov: return unary<Mov, T>;
    case Op::kAdd: return binary<Add, T>;
    case Op::kSub: return binary<Sub, T>;
    case Op::kMul: return binary<Mul, T>;
    case Op::kMad: return ternary<Mad, T>;
    case Op::kAnd: return binary<And, T>;
    case Op::kOr: return binary<Or, T>;
    case Op::kXor: return binary<Xor, T>;
    case Op::kNot: return unary<Not, T>;
    case Op::kCnot: return unary<Cnot, T>;
    case Op::kNeg: return unary<Neg, T>;
    case Op::kShl: return binary<Shl, T, T, u32>;
    case Op::kSelp: return selp<T>;
    case Op::kSlct:
      if (s.source == Type::kF32) return slct<T, f32>;
      return slct<T, i32>;
    default: break;
  }
  if constexpr (sizeof(T) >= 4) {
    switch (s.op) {
      case Op::kBfi: return bfi<T>;
      case Op::kBrev: return brev<T>;
      case Op::kPopc: return popc<T>;
      case Op::kClz: return clz<T>;
      case Op::kAddc:
        switch (s.mode) {
          case 1: return add_carry<T, true, false, false>;
          case 2: return add_carry<T, false, true, false>;
          case 3: return add_carry<T, true, true, false>;
          default: return nullptr;
        }
      case Op::kSubc:
        switch (s.mode) {
          case 1: return add_carry<T, true, false, true>;
          case 2: return add_carry<T, false, true, true>;
          case 3: return add_carry<T, true, true, true>;
          default: return nullptr;
        }
      default: break;
    }
  }
  return nullptr;
}

}  // namespace

struct AddSat {
  template <typename D>
  MC_INLINE static D op(D a, D b) {
    i64 x = i64(a) + i64(b);
    return x > 0x7fffffff ? D(0x7fffffff) : x < -0x80000000ll ? D(-0x7fffffff - 1) : D(x);
  }
};
struct SubSat {
  template <typename D>
  MC_INLINE static D op(D a, D b) {
    i64 x = i64(a) - i64(b);
    return x > 0x7fffffff ? D(0x7fffffff) : x < -0x80000000ll ? D(-0x7fffffff - 1) : D(x);
  }
};
template <class F>
const Inst* half_words(Warp& w, const Inst* in) {  // .u16x2 / .s16x2: two 16-bit operations a lane
  u16* d = reg<u16>(w, in->d);
  const u16* a = reg<u16>(w, in->a);
  const u16* b = reg<u16>(w, in->b);
  each(w.mask, [=](unsigned i) MC_INLINE_LAMBDA {
    d[2 * i] = F::template op<u16>(a[2 * i], b[2 * i]);
    d[2 * i + 1] = F::template op<u16>(a[2 * i + 1], b[2 * i + 1]);
  });
  return in + 1;
}
struct MinS16 {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return i16(a) < i16(b) ? a : b; }
};
struct MaxS16 {
  template <typename D>
  MC_INLINE static D op(D a, D b) { return i16(a) < i16(b) ? b : a; }
};

Handler lookup_integer(const Spec& s) {
  using ptx::Type;
  switch (s.op) {
    case Op::kPredAnd: return pred_op<Op::kPredAnd>;
    case Op::kPredOr: return pred_op<Op::kPredOr>;
    case Op::kPredXor: return pred_op<Op::kPredXor>;
    case Op::kPredNot: return pred_op<Op::kPredNot>;
    case Op::kPredMov: return pred_op<Op::kPredMov>;
    case Op::kLop3: return lop3;
    case Op::kShf: return s.right ? (s.clamp ? shf<true, true> : shf<true, false>) : (s.clamp ? shf<false, true> : shf<false, false>);
    case Op::kPrmt: return prmt;
    case Op::kFns: return fns;
    case Op::kBmsk: return bmsk;
    case Op::kSzext: return s.type == Type::kS32 ? szext<i32> : szext<u32>;
    case Op::kDp4a:
      if (s.type == Type::kS32) return s.source == Type::kS32 ? dp4a<i8, i8> : dp4a<i8, u8>;
      return s.source == Type::kS32 ? dp4a<u8, i8> : dp4a<u8, u8>;
    case Op::kDp2a:
      if (s.type == Type::kS32) return s.source == Type::kS32 ? dp2a<i8, i8> : dp2a<i8, u8>;
      return s.source == Type::kS32 ? dp2a<u8, i8> : dp2a<u8, u8>;
    case Op::kMul24: return s.type == Type::kS32 ? binary<Mul24, i32> : binary<Mul24, u32>;
    case Op::kMad24: return s.type == Type::kS32 ? ternary<Mad24, i32> : ternary<Mad24, u32>;
    case Op::kMovPack:
      if (s.width == 8 && s.vector == 2) return mov_pack<u64, u32, 2>;
      if (s.width == 8 && s.vector == 4) return mov_pack<u64, u16, 4>;
      if (s.width == 4 && s.vector == 2) return mov_pack<u32, u16, 2>;
      return nullptr;
    case Op::kMovUnpack:
      if (s.width == 8 && s.vector == 2) return mov_unpack<u64, u32, 2>;
      if (s.width == 8 && s.vector == 4) return mov_unpack<u64, u16, 4>;
      if (s.width == 4 && s.vector == 2) return mov_unpack<u32, u16, 2>;
      return nullptr;
    default: break;
  }
  if (s.sat) {
    if (s.type != Type::kS32) return nullptr;
    if (s.op == Op::kAdd) return binary<AddSat, i32>;
    if (s.op == Op::kSub) return binary<SubSat, i32>;
    return nullptr;
  }
  switch (s.type) {
    case Type::kU16x2:
    case Type::kS16x2:
      if (s.op == Op::kAdd) return half_words<Add>;
      if (s.op == Op::kMin) return s.type == Type::kS16x2 ? half_words<MinS16> : half_words<Min>;
      if (s.op == Op::kMax) return s.type == Type::kS16x2 ? half_words<MaxS16> : half_words<Max>;
      return nullptr;
    case Type::kS16:
      if (s.op == Op::kAbs) return unary<Abs, i16>;
      if (Handler h = pick_unsigned_or_signed<i16>(s)) return h;
      return pick_signless<u16>(s);
    case Type::kS32:
      if (s.op == Op::kAbs) return unary<Abs, i32>;
      if (Handler h = pick_unsigned_or_signed<i32>(s)) return h;
      return pick_signless<u32>(s);
    case Type::kS64:
      if (s.op == Op::kAbs) return unary<Abs, i64>;
      if (Handler h = pick_unsigned_or_signed<i64>(s)) return h;
      return pick_signless<u64>(s);
    case Type::kU16:
    case Type::kB16:
      if (Handler h = pick_unsigned_or_signed<u16>(s)) return h;
      return pick_signless<u16>(s);
    case Type::kU32:
    case Type::kB32:
      if (Handler h = pick_unsigned_or_signed<u32>(s)) return h;
      return pick_signless<u32>(s);
    case Type::kU64:
    case Type::kB64:
      if (Handler h = pick_unsigned_or_signed<u64>(s)) return h;
      return pick_signless<u64>(s);
    case Type::kF16:
    case Type::kBF16:
      if (s.op == Op::kMov || s.op == Op::kSelp || s.op == Op::kSlct) return pick_signless<u16>(s);
      return nullptr;
    case Type::kF32:
    case Type::kF16x2:
    case Type::kBF16x2:
    case Type::kTF32:
      if (s.op == Op::kMov || s.op == Op::kSelp || s.op == Op::kSlct) return pick_signless<u32>(s);
      return nullptr;
    case Type::kF64:
      if (s.op == Op::kMov || s.op == Op::kSelp || s.op == Op::kSlct) return pick_signless<u64>(s);
      return nullptr;
    default: return nullptr;
  }
}

Handler lookup(const Spec& s) {
  if (Handler h = lookup_integer(s)) return h;
  if (Handler h = lookup_float(s)) return h;
  if (Handler h = lookup_half(s)) return h;
  if (Handler h = lookup_convert(s)) return h;
  return lookup_memory(s);
}

}  // namespace musacoder::vgpu::exec::MC_ISA
