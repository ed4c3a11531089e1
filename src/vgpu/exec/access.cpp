// Memory accesses one lane at a time: the exact path behind the engine's, atomics, parameters of calls.
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "vgpu/exec/half_scalar.h"
#include "vgpu/exec/runtime.h"

namespace musacoder::vgpu::exec {
namespace {

using ptx::Space;
using ptx::Type;

template <typename T>
T* row(Warp& w, std::uint32_t offset) { return reinterpret_cast<T*>(w.regs + offset); }

struct Shape {
  unsigned bytes, width, vector;
  bool is_signed, address32, is_store;
  Space space;
  explicit Shape(std::uint16_t f)
      : bytes(1u << (f & 7)), width(1u << (f >> 3 & 7)), vector(1u << (f >> 6 & 3)), is_signed(f >> 8 & 1),
        address32(f >> 12 & 1), is_store(f >> 13 & 1), space(Space(f >> 9 & 7)) {}
};

// A shared address in a 32-bit register wraps: compilers keep `index - 64` there and add the rest as the offset.
std::uint64_t lane_address(Warp& w, const Inst* in, const Shape& s, unsigned lane) {
  if (!s.address32) return row<std::uint64_t>(w, in->a)[lane] + std::uint64_t(in->imm);
  std::uint64_t address = row<std::uint32_t>(w, in->a)[lane] + std::uint64_t(in->imm);
  return s.space == Space::kShared ? std::uint32_t(address) : address;
}

Fault& raise_access(Warp& w, const Inst* in, unsigned lane, FaultKind kind, std::uint64_t address, unsigned bytes, Space space,
                    bool is_write) {
  Fault& f = raise(w, in, kind, lane);
  f.address = address;
  f.access_bytes = bytes;
  f.is_write = is_write;
  f.space = ptx::space_name(space);
  return f;
}

void raise_global(Warp& w, const Inst* in, unsigned lane, std::uint64_t address, unsigned bytes, bool is_write) {
  Arena& arena = *context(w).block->worker->launch->arena;
  if (auto freed = arena.find_freed(address); freed && !arena.find(address)) {
    Fault& f = raise_access(w, in, lane, FaultKind::kUseAfterFree, address, bytes, Space::kGlobal, is_write);
    f.tensor = freed->label;
    f.tensor_bytes = freed->bytes;
    f.offset_bytes = std::int64_t(address - freed->address);
    return;
  }
  Fault& f = raise_access(w, in, lane, FaultKind::kOutOfBounds, address, bytes, Space::kGlobal, is_write);
  if (const MemoryRange* near = arena.nearest(address)) {
    f.tensor = near->label;
    f.tensor_bytes = near->bytes;
    f.offset_bytes = std::int64_t(address - near->address);
  }
}

void flush_cache(RangeCache& cache) {
  if (cache.range && cache.written) cache.range->kernel_written.fetch_add(cache.written, std::memory_order_relaxed);
  cache.written = 0;
}

}  // namespace

bool refill_cache(Warp& w, const Inst* in, std::uint64_t lo, std::uint64_t hi) {
  Worker& worker = *context(w).block->worker;
  MemoryRange* range = worker.launch->arena->find(lo);
  if (!range || hi > range->end()) return false;
  RangeCache& cache = w.caches[in->slot];
  flush_cache(cache);
  cache = {range->address, range->end(), range, 0};
  return true;
}

std::uint8_t* resolve(Warp& w, const Inst* in, unsigned lane, std::uint64_t address, unsigned bytes, Space space, bool is_write) {
  std::uint64_t offset = address;
  Space real = space;
  if (space == Space::kGeneric) {
    if (address >= kSharedWindow && address < kSharedWindow + kWindowBytes) real = Space::kShared, offset -= kSharedWindow;
    else if (address >= kLocalWindow && address < kLocalWindow + kWindowBytes) real = Space::kLocal, offset -= kLocalWindow;
    else if (address >= kParamWindow && address < kParamWindow + kWindowBytes) real = Space::kParam, offset -= kParamWindow;
    else real = Space::kGlobal;
  } else if (space == Space::kLocal) {
    offset -= kLocalWindow;
  } else if (space == Space::kParam) {
    offset -= kParamWindow;
  }
  std::uint64_t limit = 0;
  std::uint8_t* base = nullptr;
  switch (real) {
    case Space::kShared: base = w.shared, limit = w.shared_bytes; break;
    case Space::kLocal: base = w.local + std::size_t(lane) * w.local_bytes, limit = w.local_bytes; break;
    case Space::kParam: base = const_cast<std::uint8_t*>(w.params), limit = w.param_bytes; break;
    default: break;
  }
  if (base || real == Space::kShared || real == Space::kLocal || real == Space::kParam) {
    if (offset > limit || limit - offset < bytes || (real == Space::kParam && is_write)) {
      Fault& f = raise_access(w, in, lane, FaultKind::kOutOfBounds, address, bytes, real, is_write);
      f.tensor_bytes = limit;
      f.offset_bytes = std::int64_t(offset);
      return nullptr;
    }
    if (address & (bytes - 1)) {
      Fault& f = raise_access(w, in, lane, FaultKind::kMisaligned, address, bytes, real, is_write);
      f.tensor_bytes = limit;
      f.offset_bytes = std::int64_t(offset);
      return nullptr;
    }
    return base + offset;
  }
  Arena& arena = *context(w).block->worker->launch->arena;
  MemoryRange* range = arena.find(address);
  if (!range || range->end() - address < bytes) {
    raise_global(w, in, lane, address, bytes, is_write);
    return nullptr;
  }
  if (address & (bytes - 1)) {
    Fault& f = raise_access(w, in, lane, FaultKind::kMisaligned, address, bytes, Space::kGlobal, is_write);
    f.tensor = range->label;
    f.tensor_bytes = range->bytes;
    f.offset_bytes = std::int64_t(address - range->address);
    return nullptr;
  }
  if (is_write) range->kernel_written.fetch_add(bytes, std::memory_order_relaxed);
  return reinterpret_cast<std::uint8_t*>(address);
}

const Inst* access_slow(Warp& w, const Inst* in) {
  Shape s(in->flags);
  const std::uint32_t regs[4] = {in->d, in->b, in->c, in->e};
  const unsigned total = s.bytes * s.vector;
  std::uint64_t address[kLanes];
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    address[lane] = lane_address(w, in, s, lane);
  }
  auto moved = total * std::uint64_t(std::popcount(w.mask));
  if (s.space == Space::kShared) ++w.counters->shared_accesses;
  else if (s.space == Space::kGlobal || s.space == Space::kGeneric)
    (s.is_store ? w.counters->global_store_bytes : w.counters->global_load_bytes) += moved;
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    std::uint8_t* p = resolve(w, in, lane, address[lane], total, s.space, s.is_store);
    if (!p) return nullptr;
    for (unsigned k = 0; k < s.vector; ++k, p += s.bytes) {
      std::uint8_t* r = w.regs + regs[k] + lane * s.width;
      if (s.is_store) {
        std::memcpy(p, r, s.bytes);
      } else {
        std::uint64_t x = 0;
        std::memcpy(&x, p, s.bytes);
        if (s.is_signed) x = std::uint64_t(std::int64_t(x << (64 - 8 * s.bytes)) >> (64 - 8 * s.bytes));
        std::memcpy(r, &x, s.width);
      }
    }
  }
  return in + 1;
}

// ld.param / st.param of a call's parameters: a = area, f = bytes a lane, imm = offset in it.
const Inst* do_param_access(Warp& w, const Inst* in) {
  Shape s(in->flags);
  const std::uint32_t regs[4] = {in->d, in->b, in->c, in->e};
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    std::uint8_t* p = w.regs + in->a + lane * in->f + in->imm;
    for (unsigned k = 0; k < s.vector; ++k, p += s.bytes) {
      std::uint8_t* r = w.regs + regs[k] + lane * s.width;
      if (s.is_store) {
        std::memcpy(p, r, s.bytes);
      } else {
        std::uint64_t x = 0;
        std::memcpy(&x, p, s.bytes);
        if (s.is_signed) x = std::uint64_t(std::int64_t(x << (64 - 8 * s.bytes)) >> (64 - 8 * s.bytes));
        std::memcpy(r, &x, s.width);
      }
    }
  }
  return in + 1;
}

const Inst* do_cp_async(Warp& w, const Inst* in) {
  Shape s(in->flags);
  const auto* from = row<std::uint64_t>(w, in->b);
  const auto* source_bytes = row<std::uint32_t>(w, in->c);
  unsigned bytes = in->e;
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    std::uint8_t* to = resolve(w, in, lane, lane_address(w, in, s, lane), bytes, Space::kShared, true);
    if (!to) return nullptr;
    unsigned n = std::min(source_bytes[lane], bytes);
    std::memset(to, 0, bytes);
    if (n == 0) continue;
    std::uint64_t address = from[lane] + std::uint64_t(std::int64_t(std::int32_t(in->f)));
    if (address & (bytes - 1)) {
      raise_access(w, in, lane, FaultKind::kMisaligned, address, bytes, Space::kGlobal, false);
      return nullptr;
    }
    // Only n bytes are read; a size that is no power of two is checked byte-wise at both ends.
    MemoryRange* range = context(w).block->worker->launch->arena->find(address);
    if (!range || range->end() - address < n) {
      raise_global(w, in, lane, address, n, false);
      return nullptr;
    }
    std::memcpy(to, reinterpret_cast<const void*>(address), n);
    w.counters->global_load_bytes += n;
  }
  ++w.counters->shared_accesses;
  return in + 1;
}

// ---- atomics -----------------------------------------------------------------------------------------------------------

namespace {

struct AtomAdd {
  template <typename T>
  static T op(T old, T x, T) { return T(old + x); }
};
struct AtomExch {
  template <typename T>
  static T op(T, T x, T) { return x; }
};
struct AtomCas {
  template <typename T>
  static T op(T old, T compare, T value) { return old == compare ? value : old; }
};
struct AtomMin {
  template <typename T>
  static T op(T old, T x, T) { return x < old ? x : old; }
};
struct AtomMax {
  template <typename T>
  static T op(T old, T x, T) { return old < x ? x : old; }
};
struct AtomInc {
  template <typename T>
  static T op(T old, T x, T) { return old >= x ? T(0) : T(old + 1); }
};
struct AtomDec {
  template <typename T>
  static T op(T old, T x, T) { return old == 0 || old > x ? x : T(old - 1); }
};
struct AtomAnd {
  template <typename T>
  static T op(T old, T x, T) { return old & x; }
};
struct AtomOr {
  template <typename T>
  static T op(T old, T x, T) { return old | x; }
};
struct AtomXor {
  template <typename T>
  static T op(T old, T x, T) { return old ^ x; }
};
template <float (*value)(std::uint16_t), std::uint16_t (*bits)(float)>
struct AtomAddHalf {
  template <typename T>
  static T op(T old, T x, T) { return bits(value(old) + value(x)); }
};
template <float (*value)(std::uint16_t), std::uint16_t (*bits)(float)>
struct AtomAddHalf2 {
  template <typename T>
  static T op(T old, T x, T) {
    std::uint32_t lo = bits(value(std::uint16_t(old)) + value(std::uint16_t(x)));
    std::uint32_t hi = bits(value(std::uint16_t(old >> 16)) + value(std::uint16_t(x >> 16)));
    return hi << 16 | lo;
  }
};
template <int sign, float (*value)(std::uint16_t)>
struct AtomPickHalf {  // min (sign -1) and max of 16-bit floats
  template <typename T>
  static T op(T old, T x, T) {
    float a = value(old), b = value(x);
    if (a != a) return x;
    if (b != b) return old;
    return (sign < 0 ? b < a : a < b) ? x : old;
  }
};

// d = old value, b = operand, c = new value of cas.
template <class F, typename T>
const Inst* atomic(Warp& w, const Inst* in) {
  Shape s(in->flags);
  using U = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  T *d = row<T>(w, in->d), *b = row<T>(w, in->b), *c = in->c ? row<T>(w, in->c) : b;
  ++w.counters->atomics;
  T x[kLanes], y[kLanes];
  std::uint64_t address[kLanes];
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    x[lane] = b[lane];
    y[lane] = c[lane];
    address[lane] = lane_address(w, in, s, lane);
  }
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    RangeCache& cache = w.caches[in->slot];
    std::uint8_t* p;
    if (s.space != Space::kShared && address[lane] >= cache.lo && address[lane] < cache.hi &&
        cache.hi - address[lane] >= sizeof(T) && !(address[lane] & (sizeof(T) - 1))) {
      p = reinterpret_cast<std::uint8_t*>(address[lane]);
      cache.written += sizeof(T);
    } else {
      p = resolve(w, in, lane, address[lane], sizeof(T), s.space, true);
      if (!p) return nullptr;
      if (p == reinterpret_cast<std::uint8_t*>(address[lane])) refill_cache(w, in, address[lane], address[lane] + sizeof(T));
    }
    U* word = reinterpret_cast<U*>(p);
    U old = __atomic_load_n(word, __ATOMIC_RELAXED);
    U wanted;
    do {
      wanted = std::bit_cast<U>(F::template op<T>(std::bit_cast<T>(old), x[lane], y[lane]));
    } while (!__atomic_compare_exchange_n(word, &old, wanted, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    d[lane] = std::bit_cast<T>(old);
  }
  return in + 1;
}

}  // namespace

Handler find_atomic(std::string_view op, Type type) {
  using u16 = std::uint16_t;
  using u32 = std::uint32_t;
  using u64 = std::uint64_t;
  bool is32 = type == Type::kB32 || type == Type::kU32 || type == Type::kS32;
  bool is64 = type == Type::kB64 || type == Type::kU64 || type == Type::kS64;
  if (op == "add") {
    if (is32) return atomic<AtomAdd, u32>;
    if (is64) return atomic<AtomAdd, u64>;
    if (type == Type::kF32) return atomic<AtomAdd, float>;
    if (type == Type::kF64) return atomic<AtomAdd, double>;
    if (type == Type::kF16) return atomic<AtomAddHalf<half_value, half_bits>, u16>;
    if (type == Type::kBF16) return atomic<AtomAddHalf<bf16_value, bf16_bits>, u16>;
    if (type == Type::kF16x2) return atomic<AtomAddHalf2<half_value, half_bits>, u32>;
    if (type == Type::kBF16x2) return atomic<AtomAddHalf2<bf16_value, bf16_bits>, u32>;
  }
  if (op == "exch") {
    if (is32 || type == Type::kF32) return atomic<AtomExch, u32>;
    if (is64 || type == Type::kF64) return atomic<AtomExch, u64>;
  }
  if (op == "cas") {
    if (type == Type::kB16) return atomic<AtomCas, u16>;
    if (is32) return atomic<AtomCas, u32>;
    if (is64) return atomic<AtomCas, u64>;
  }
  if (op == "min" || op == "max") {
    bool min = op == "min";
    if (type == Type::kU32) return min ? atomic<AtomMin, u32> : atomic<AtomMax, u32>;
    if (type == Type::kS32) return min ? atomic<AtomMin, std::int32_t> : atomic<AtomMax, std::int32_t>;
    if (type == Type::kU64) return min ? atomic<AtomMin, u64> : atomic<AtomMax, u64>;
    if (type == Type::kS64) return min ? atomic<AtomMin, std::int64_t> : atomic<AtomMax, std::int64_t>;
    if (type == Type::kF16) return min ? atomic<AtomPickHalf<-1, half_value>, u16> : atomic<AtomPickHalf<1, half_value>, u16>;
    if (type == Type::kBF16) return min ? atomic<AtomPickHalf<-1, bf16_value>, u16> : atomic<AtomPickHalf<1, bf16_value>, u16>;
  }
  if (op == "inc" && type == Type::kU32) return atomic<AtomInc, u32>;
  if (op == "dec" && type == Type::kU32) return atomic<AtomDec, u32>;
  if (op == "and") return is32 ? atomic<AtomAnd, u32> : is64 ? atomic<AtomAnd, u64> : nullptr;
  if (op == "or") return is32 ? atomic<AtomOr, u32> : is64 ? atomic<AtomOr, u64> : nullptr;
  if (op == "xor") return is32 ? atomic<AtomXor, u32> : is64 ? atomic<AtomXor, u64> : nullptr;
  return nullptr;
}

}  // namespace musacoder::vgpu::exec
