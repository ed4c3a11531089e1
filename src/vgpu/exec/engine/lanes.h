// The loops every engine handler is made of. Included only by engine/*.cpp, which are compiled once per level of MC_ISA;
// everything lives in that level's namespace so that no two levels share a symbol.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "vgpu/exec/code.h"

#define MC_INLINE [[gnu::always_inline]] inline
#define MC_INLINE_LAMBDA __attribute__((always_inline))

namespace musacoder::vgpu::exec::MC_ISA {

using i8 = std::int8_t;
using u8 = std::uint8_t;
using i16 = std::int16_t;
using u16 = std::uint16_t;
using i32 = std::int32_t;
using u32 = std::uint32_t;
using i64 = std::int64_t;
using u64 = std::uint64_t;
using f32 = float;
using f64 = double;

template <typename To, typename From>
MC_INLINE To bits_of(From x) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, x);
}

template <typename T>
MC_INLINE T* reg(Warp& w, u32 offset) {
  return static_cast<T*>(__builtin_assume_aligned(w.regs + offset, 64));
}
MC_INLINE u32& pred(Warp& w, u32 offset) { return *reinterpret_cast<u32*>(w.regs + offset); }

// d[i] = f(i) for the active lanes. Rows may be the same row but never overlap otherwise.
template <typename D, typename F>
MC_INLINE void lanes(u32 mask, D* d, F f) {
  if (mask == kFullMask) [[likely]] {
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i) d[i] = f(i);
  } else if constexpr (sizeof(D) <= 2) {
    // Through memory: g++ 12 cannot encode masked 16-bit maxima (internal error in extract_insn).
    alignas(64) D row[kLanes];
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i) row[i] = f(i);
    asm volatile("" : "+m"(row));
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i) d[i] = (mask >> i & 1u) ? row[i] : d[i];
  } else {
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i) {
      D value = f(i);
      d[i] = (mask >> i & 1u) ? value : d[i];
    }
  }
}

// For bodies that cannot be vectorised or are costly: only the active lanes.
template <typename F>
MC_INLINE void each(u32 mask, F f) {
  if (mask == kFullMask) {
    for (unsigned i = 0; i < kLanes; ++i) f(i);
  } else {
    for (u32 m = mask; m; m &= m - 1) f(unsigned(__builtin_ctz(m)));
  }
}

// A row of 0 / -1 to a bit per lane.
MC_INLINE u32 row_to_mask(const i32* row) {
#if defined(__AVX512DQ__)
  u32 lo = _mm512_movepi32_mask(_mm512_loadu_si512(row));
  u32 hi = _mm512_movepi32_mask(_mm512_loadu_si512(row + 16));
  return lo | hi << 16;
#elif defined(__AVX2__)
  u32 m = 0;
  for (unsigned i = 0; i < 4; ++i)
    m |= u32(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 8 * i))))) << (8 * i);
  return m;
#else
  u32 m = 0;
  for (unsigned i = 0; i < 8; ++i)
    m |= u32(_mm_movemask_ps(_mm_castsi128_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 4 * i))))) << (4 * i);
  return m;
#endif
}

template <typename F>
MC_INLINE u32 compare(F f) {
  alignas(64) i32 row[kLanes];
#pragma GCC ivdep
  for (unsigned i = 0; i < kLanes; ++i) row[i] = f(i) ? -1 : 0;
  return row_to_mask(row);
}

template <class F, typename D, typename A = D>
const Inst* unary(Warp& w, const Inst* in) {
  const A* a = reg<A>(w, in->a);
  lanes(w.mask, reg<D>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA { return F::template op<D>(a[i]); });
  return in + 1;
}
template <class F, typename D, typename A = D, typename B = A>
const Inst* binary(Warp& w, const Inst* in) {
  const A* a = reg<A>(w, in->a);
  const B* b = reg<B>(w, in->b);
  lanes(w.mask, reg<D>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA { return F::template op<D>(a[i], b[i]); });
  return in + 1;
}
template <class F, typename D, typename A = D, typename B = A, typename C = D>
const Inst* ternary(Warp& w, const Inst* in) {
  const A* a = reg<A>(w, in->a);
  const B* b = reg<B>(w, in->b);
  const C* c = reg<C>(w, in->c);
  lanes(w.mask, reg<D>(w, in->d), [=](unsigned i) MC_INLINE_LAMBDA { return F::template op<D>(a[i], b[i], c[i]); });
  return in + 1;
}
// The same one active lane at a time.
template <class F, typename D, typename A = D, typename B = A>
const Inst* binary_each(Warp& w, const Inst* in) {
  const A* a = reg<A>(w, in->a);
  const B* b = reg<B>(w, in->b);
  D* d = reg<D>(w, in->d);
  each(w.mask, [=](unsigned i) MC_INLINE_LAMBDA { d[i] = F::template op<D>(a[i], b[i]); });
  return in + 1;
}

Handler lookup_integer(const Spec& s);
Handler lookup_float(const Spec& s);
Handler lookup_half(const Spec& s);
Handler lookup_convert(const Spec& s);
Handler lookup_memory(const Spec& s);
Handler lookup(const Spec& s);

}  // namespace musacoder::vgpu::exec::MC_ISA
