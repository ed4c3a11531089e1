// Loads, stores and shuffles: the whole warp's addresses are checked at once, contiguous ones moved as a block.
#include "vgpu/exec/engine/lanes.h"

namespace musacoder::vgpu::exec::MC_ISA {
namespace {

using ptx::Space;
using ptx::Type;

// The lanes' addresses with what the checks need. Inactive lanes repeat an active one.
struct Addresses {
  alignas(64) u64 at[kLanes];
  u64 lo, hi;        // least and greatest
  u64 low_bits;      // all of them or-ed
  bool sequential;   // full warp and at[i] == at[0] + i * step
  bool uniform;
};

template <typename A, unsigned step>
MC_INLINE void gather_addresses(Warp& w, const Inst* in, Addresses& out) {
  const A* a = reg<A>(w, in->a);
  u64 offset = u64(in->imm);
  u32 mask = w.mask;
  if (mask == kFullMask) [[likely]] {
    u64 first = u64(a[0]) + offset;
    u64 off_sequence = 0, off_uniform = 0;
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i) {
      u64 x = u64(a[i]) + offset;
      out.at[i] = x;
      off_sequence |= x ^ (first + i * step);
      off_uniform |= x ^ first;
    }
    if (off_sequence == 0) {
      out.lo = first;
      out.hi = first + 31 * step;
      out.low_bits = first;
      out.sequential = true;
      out.uniform = false;
      return;
    }
    out.sequential = false;
    out.uniform = off_uniform == 0;
    if (out.uniform) {
      out.lo = out.hi = out.low_bits = first;
      return;
    }
  } else {
    u64 first = u64(a[__builtin_ctz(mask)]) + offset;
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i) {
      u64 x = u64(a[i]) + offset;
      out.at[i] = (mask >> i & 1u) ? x : first;
    }
    out.sequential = out.uniform = false;
  }
  i64 lo = i64(out.at[0]), hi = lo;
  u64 bits = 0;
#pragma GCC ivdep
  for (unsigned i = 0; i < kLanes; ++i) {
    i64 x = i64(out.at[i]);
    lo = x < lo ? x : lo;
    hi = x > hi ? x : hi;
    bits |= u64(x);
  }
  out.lo = u64(lo);
  out.hi = u64(hi);
  out.low_bits = bits;
}

// The range check of a global access of `bytes` a lane; nullptr when the slow path must decide.
template <unsigned bytes>
MC_INLINE RangeCache* checked(Warp& w, const Inst* in, const Addresses& at) {
  if (bytes > 1 && (at.low_bits & (bytes - 1))) [[unlikely]] return nullptr;
  RangeCache& cache = w.caches[in->slot];
  // lo and hi are signed extremes: a lane beyond 2^63 makes lo negative, which is below every allocation.
  if (i64(at.lo) < i64(cache.lo) || at.hi >= cache.hi || cache.hi - at.hi < bytes) [[unlikely]] {
    if (i64(at.lo) <= 0 || at.hi < at.lo || !refill_cache(w, in, at.lo, at.hi + bytes)) return nullptr;
  }
  return &cache;
}

template <typename T>
MC_INLINE T load(u64 address) {
  T x;
  __builtin_memcpy(&x, reinterpret_cast<const void*>(address), sizeof(T));
  return x;
}
template <typename T>
MC_INLINE void store(u64 address, T x) { __builtin_memcpy(reinterpret_cast<void*>(address), &x, sizeof(T)); }

// T: the type in memory, R: the register's element.
template <typename T, typename R>
MC_INLINE void load_row(Warp& w, R* d, const Addresses& at, u64 base) {
  if (at.sequential) {
    const T* row = reinterpret_cast<const T*>(base + at.lo);
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i) d[i] = R(row[i]);
  } else if (at.uniform) {
    R x = R(load<T>(base + at.lo));
    for (unsigned i = 0; i < kLanes; ++i) d[i] = x;
  } else {
    each(w.mask, [&](unsigned i) MC_INLINE_LAMBDA { d[i] = R(load<T>(base + at.at[i])); });
  }
}
template <typename T, typename R>
MC_INLINE void store_row(Warp& w, const R* s, const Addresses& at, u64 base) {
  if (at.sequential) {
    T* row = reinterpret_cast<T*>(base + at.lo);
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i) row[i] = T(s[i]);
  } else {
    each(w.mask, [&](unsigned i) MC_INLINE_LAMBDA { store<T>(base + at.at[i], T(s[i])); });
  }
}

// A generic access whose every lane points into shared memory.
template <typename T>
MC_INLINE bool all_shared(Warp& w, const Addresses& at) {
  u64 lo = at.lo - kSharedWindow, hi = at.hi - kSharedWindow;
  return lo < w.shared_bytes && hi < w.shared_bytes && w.shared_bytes - hi >= sizeof(T) && !(at.low_bits & (sizeof(T) - 1));
}

template <typename T, typename R, bool generic>
const Inst* ld_global(Warp& w, const Inst* in) {
  Addresses at;
  gather_addresses<u64, sizeof(T)>(w, in, at);
  if constexpr (generic) {
    if (all_shared<T>(w, at)) {
      ++w.counters->shared_accesses;
      load_row<T, R>(w, reg<R>(w, in->d), at, u64(w.shared) - kSharedWindow);
      return in + 1;
    }
  }
  if (!checked<sizeof(T)>(w, in, at)) [[unlikely]] return access_slow(w, in);
  w.counters->global_load_bytes += sizeof(T) * u64(__builtin_popcount(w.mask));
  load_row<T, R>(w, reg<R>(w, in->d), at, 0);
  return in + 1;
}
template <typename T, typename R, bool generic>
const Inst* st_global(Warp& w, const Inst* in) {
  Addresses at;
  gather_addresses<u64, sizeof(T)>(w, in, at);
  if constexpr (generic) {
    if (all_shared<T>(w, at)) {
      ++w.counters->shared_accesses;
      store_row<T, R>(w, reg<R>(w, in->d), at, u64(w.shared) - kSharedWindow);
      return in + 1;
    }
  }
  RangeCache* cache = checked<sizeof(T)>(w, in, at);
  if (!cache) [[unlikely]] return access_slow(w, in);
  u64 bytes = sizeof(T) * u64(__builtin_popcount(w.mask));
  w.counters->global_store_bytes += bytes;
  cache->written += bytes;
  store_row<T, R>(w, reg<R>(w, in->d), at, 0);
  return in + 1;
}
template <typename T, typename A>
MC_INLINE bool shared_ok(Warp& w, const Addresses& at, unsigned bytes) {
  return !(bytes > 1 && (at.low_bits & (bytes - 1))) && i64(at.lo) >= 0 && at.hi + bytes <= w.shared_bytes;
}
template <typename T, typename R, typename A>
const Inst* ld_shared(Warp& w, const Inst* in) {
  Addresses at;
  gather_addresses<A, sizeof(T)>(w, in, at);
  if (!shared_ok<T, A>(w, at, sizeof(T))) [[unlikely]] return access_slow(w, in);
  ++w.counters->shared_accesses;
  load_row<T, R>(w, reg<R>(w, in->d), at, u64(w.shared));
  return in + 1;
}
template <typename T, typename R, typename A>
const Inst* st_shared(Warp& w, const Inst* in) {
  Addresses at;
  gather_addresses<A, sizeof(T)>(w, in, at);
  if (!shared_ok<T, A>(w, at, sizeof(T))) [[unlikely]] return access_slow(w, in);
  ++w.counters->shared_accesses;
  store_row<T, R>(w, reg<R>(w, in->d), at, u64(w.shared));
  return in + 1;
}

// Vectors of 4- and 8-byte elements: registers d, b, c, e.
template <typename T, unsigned N, bool write>
MC_INLINE void move_vector(Warp& w, const Inst* in, const Addresses& at, u64 base) {
  T* rows[4] = {reg<T>(w, in->d), reg<T>(w, in->b), reg<T>(w, in->c), reg<T>(w, in->e)};
  if constexpr (!write) {
    if (at.uniform) {
      for (unsigned k = 0; k < N; ++k) {
        T x = load<T>(base + at.lo + k * sizeof(T));
        for (unsigned i = 0; i < kLanes; ++i) rows[k][i] = x;
      }
      return;
    }
  }
  each(w.mask, [&](unsigned i) MC_INLINE_LAMBDA {
    u64 address = base + at.at[i];
    for (unsigned k = 0; k < N; ++k) {
      if constexpr (write) store<T>(address + k * sizeof(T), rows[k][i]);
      else rows[k][i] = load<T>(address + k * sizeof(T));
    }
  });
}
template <typename T, unsigned N, bool write>
const Inst* vector_global(Warp& w, const Inst* in) {
  Addresses at;
  constexpr unsigned kBytes = N * sizeof(T);
  gather_addresses<u64, kBytes>(w, in, at);
  RangeCache* cache = checked<kBytes>(w, in, at);
  if (!cache) [[unlikely]] return access_slow(w, in);
  u64 bytes = kBytes * u64(__builtin_popcount(w.mask));
  if constexpr (write) {
    w.counters->global_store_bytes += bytes;
    cache->written += bytes;
  } else {
    w.counters->global_load_bytes += bytes;
  }
  move_vector<T, N, write>(w, in, at, 0);
  return in + 1;
}
template <typename T, unsigned N, bool write, typename A>
const Inst* vector_shared(Warp& w, const Inst* in) {
  Addresses at;
  constexpr unsigned kBytes = N * sizeof(T);
  gather_addresses<A, kBytes>(w, in, at);
  if (!shared_ok<T, A>(w, at, kBytes)) [[unlikely]] return access_slow(w, in);
  ++w.counters->shared_accesses;
  move_vector<T, N, write>(w, in, at, u64(w.shared));
  return in + 1;
}
// Local memory: the window's offset is the lane's own.
template <typename T, typename R, bool write>
const Inst* local_access(Warp& w, const Inst* in) {
  Addresses at;
  gather_addresses<u64, sizeof(T)>(w, in, at);
  u64 lo = at.lo - kLocalWindow, hi = at.hi - kLocalWindow;
  if ((at.low_bits & (sizeof(T) - 1)) || lo > w.local_bytes || hi + sizeof(T) > w.local_bytes) [[unlikely]]
    return access_slow(w, in);
  u64 base = u64(w.local) - kLocalWindow;
  R* row = reg<R>(w, in->d);
  each(w.mask, [&](unsigned i) MC_INLINE_LAMBDA {
    u64 address = base + at.at[i] + u64(i) * w.local_bytes;
    if constexpr (write) store<T>(address, T(row[i]));
    else row[i] = R(load<T>(address));
  });
  return in + 1;
}

template <typename T, typename R>
Handler pick_scalar(const Spec& s) {
  bool is_load = s.op == Op::kLd;
  switch (s.space) {
    case Space::kGlobal:
    case Space::kConst:
      if (s.address_width != 8) return nullptr;
      return is_load ? ld_global<T, R, false> : st_global<T, R, false>;
    case Space::kShared:
      if (s.address_width == 8) return is_load ? ld_shared<T, R, u64> : st_shared<T, R, u64>;
      return is_load ? ld_shared<T, R, u32> : st_shared<T, R, u32>;
    case Space::kLocal:
      if (s.address_width != 8) return nullptr;
      return is_load ? local_access<T, R, false> : local_access<T, R, true>;
    case Space::kGeneric:  // local and mixed pointers miss the cache and take the slow path
      if (s.address_width != 8) return nullptr;
      return is_load ? ld_global<T, R, true> : st_global<T, R, true>;
    default: return nullptr;
  }
}
template <typename T, unsigned N>
Handler pick_vector(const Spec& s) {
  bool is_load = s.op == Op::kLd;
  switch (s.space) {
    case Space::kGlobal:
    case Space::kConst:
    case Space::kGeneric:
      if (s.address_width != 8) return nullptr;
      return is_load ? vector_global<T, N, false> : vector_global<T, N, true>;
    case Space::kShared:
      if (s.address_width == 8) return is_load ? vector_shared<T, N, false, u64> : vector_shared<T, N, true, u64>;
      return is_load ? vector_shared<T, N, false, u32> : vector_shared<T, N, true, u32>;
    default: return nullptr;
  }
}
template <typename T>
Handler pick_width(const Spec& s) {
  constexpr bool kSigned = T(-1) < T(0);
  if constexpr (sizeof(T) <= 2)
    if (s.width == 2) return pick_scalar<T, std::conditional_t<kSigned, i16, u16>>(s);
  if constexpr (sizeof(T) <= 4)
    if (s.width == 4) return pick_scalar<T, std::conditional_t<kSigned, i32, u32>>(s);
  if (s.width == 8) return pick_scalar<T, std::conditional_t<kSigned, i64, u64>>(s);
  return nullptr;
}

// shfl: a = value, b = lane or delta, c = clamp and segment mask; f = predicate out. mode 0 up, 1 down, 2 bfly, 3 idx.
// A source lane that is not active gives the reader's own value.
template <unsigned mode>
const Inst* shfl(Warp& w, const Inst* in) {
  const u32* a = reg<u32>(w, in->a);
  const i32* b = reg<i32>(w, in->b);
  const i32* c = reg<i32>(w, in->c);
  alignas(64) u32 out[kLanes];
  alignas(64) i32 valid[kLanes];
  u32 active = w.mask;
#pragma GCC ivdep
  for (i32 i = 0; i < i32(kLanes); ++i) {
    i32 delta = b[i] & 31, clamp = c[i] & 31, segment = c[i] >> 8 & 31;
    i32 max_lane = (i & segment) | (clamp & ~segment);
    i32 min_lane = i & segment;
    i32 j = 0;
    bool ok = false;
    if constexpr (mode == 0) j = i - delta, ok = j >= max_lane;
    if constexpr (mode == 1) j = i + delta, ok = j <= max_lane;
    if constexpr (mode == 2) j = i ^ delta, ok = j <= max_lane;
    if constexpr (mode == 3) j = min_lane | (delta & ~segment), ok = j <= max_lane;
    j = ok ? j : i;
    j = (active >> (j & 31) & 1u) ? j & 31 : i;
    out[i] = a[j];
    valid[i] = ok ? -1 : 0;
  }
  lanes(active, reg<u32>(w, in->d), [&](unsigned i) MC_INLINE_LAMBDA { return out[i]; });
  u32& p = pred(w, in->f);
  p = (p & ~active) | (row_to_mask(valid) & active);
  return in + 1;
}

}  // namespace

Handler lookup_memory(const Spec& s) {
  if (s.op == Op::kShfl) {
    switch (s.mode) {
      case 0: return shfl<0>;
      case 1: return shfl<1>;
      case 2: return shfl<2>;
      default: return shfl<3>;
    }
  }
  if (s.op != Op::kLd && s.op != Op::kSt) return nullptr;
  unsigned bytes = ptx::type_bytes(s.type);
  if (s.vector > 1) {
    if (s.width != bytes) return nullptr;
    if (bytes == 4 && s.vector == 2) return pick_vector<u32, 2>(s);
    if (bytes == 4 && s.vector == 4) return pick_vector<u32, 4>(s);
    if (bytes == 8 && s.vector == 2) return pick_vector<u64, 2>(s);
    return nullptr;
  }
  bool is_signed = s.op == Op::kLd && (s.type == Type::kS8 || s.type == Type::kS16 || s.type == Type::kS32);
  switch (bytes) {
    case 1: return is_signed ? pick_width<i8>(s) : pick_width<u8>(s);
    case 2: return is_signed ? pick_width<i16>(s) : pick_width<u16>(s);
    case 4: return is_signed && s.width == 8 ? pick_width<i32>(s) : pick_width<u32>(s);
    case 8: return pick_width<u64>(s);
    default: return nullptr;
  }
}

}  // namespace musacoder::vgpu::exec::MC_ISA
