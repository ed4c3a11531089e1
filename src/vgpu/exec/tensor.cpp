// Matrix instructions. mma fragments follow the layouts of the PTX ISA manual (section 9.7.14.5); wmma fragments are
// opaque by definition, so they are laid out in row-major order over lanes. Products are summed in double precision and
// rounded once, which is at least as exact as hardware.
#include <algorithm>
#include <bit>
#include <cstring>

#include "vgpu/exec/half_scalar.h"
#include "vgpu/exec/runtime.h"

namespace musacoder::vgpu::exec {
namespace {

using ptx::Space;
using ptx::Type;

unsigned element_bytes(Type t) { return ptx::type_bytes(t); }

double decode(Type t, std::uint64_t bits) {
  switch (t) {
    case Type::kF16: return half_value(std::uint16_t(bits));
    case Type::kBF16: return bf16_value(std::uint16_t(bits));
    case Type::kTF32: return std::bit_cast<float>(std::uint32_t(bits) & 0xffffe000u);
    case Type::kF32: return std::bit_cast<float>(std::uint32_t(bits));
    case Type::kF64: return std::bit_cast<double>(bits);
    case Type::kS8: return std::int8_t(bits);
    case Type::kU8: return std::uint8_t(bits);
    case Type::kS32: return std::int32_t(bits);
    default: return 0;
  }
}
std::uint64_t encode(Type t, double x) {
  switch (t) {
    case Type::kF16: return half_bits(float(x));
    case Type::kF32: return std::bit_cast<std::uint32_t>(float(x));
    case Type::kF64: return std::bit_cast<std::uint64_t>(x);
    default: return 0;
  }
}

struct Place {
  unsigned row, column;
};
// Element i of lane's fragment.
Place place_a(const TensorSite& t, unsigned lane, unsigned i) {
  unsigned group = lane >> 2, thread = lane & 3;
  switch (element_bytes(t.a_type)) {
    case 8: return {group, thread};
    case 4: return {group + 8 * (i & 1), thread + 4 * (i >> 1)};
    case 2: return {group + 8 * (i >> 1 & 1), thread * 2 + (i & 1) + 8 * (i >> 2)};
    default: return {group + 8 * (i >> 2 & 1), thread * 4 + (i & 3) + 16 * (i >> 3)};
  }
}
Place place_b(const TensorSite& t, unsigned lane, unsigned i) {
  unsigned group = lane >> 2, thread = lane & 3;
  switch (element_bytes(t.b_type)) {
    case 8: return {thread, group};
    case 4: return {thread + 4 * i, group};
    case 2: return {thread * 2 + (i & 1) + 8 * (i >> 1), group};
    default: return {thread * 4 + (i & 3) + 16 * (i >> 2), group};
  }
}
Place place_c(unsigned lane, unsigned i) { return {(lane >> 2) + 8 * (i >> 1), (lane & 3) * 2 + (i & 1)}; }

std::uint64_t get(Warp& w, const std::vector<std::uint32_t>& regs, unsigned register_bytes, unsigned bytes, unsigned lane, unsigned i) {
  unsigned per = register_bytes / bytes;
  std::uint64_t x = 0;
  std::memcpy(&x, w.regs + regs[i / per] + lane * register_bytes + (i % per) * bytes, bytes);
  return x;
}
void put(Warp& w, const std::vector<std::uint32_t>& regs, unsigned register_bytes, unsigned bytes, unsigned lane, unsigned i,
         std::uint64_t x) {
  unsigned per = register_bytes / bytes;
  std::memcpy(w.regs + regs[i / per] + lane * register_bytes + (i % per) * bytes, &x, bytes);
}
unsigned width_of(Type t) { return t == Type::kF64 ? 8 : 4; }

constexpr unsigned kMost = 32 * 32;

// d = a·b + c over full matrices in row-major order.
template <typename T>
void multiply(const TensorSite& t, const T* a, const T* b, const T* c, T* d) {
  for (unsigned i = 0; i < t.m; ++i)
    for (unsigned j = 0; j < t.n; ++j) {
      T sum = c[i * t.n + j];
      for (unsigned k = 0; k < t.k; ++k) sum += a[i * t.k + k] * b[k * t.n + j];
      d[i * t.n + j] = sum;
    }
}
// Integer accumulators wrap or saturate at 32 bits; the sum of at most 32 products is exact in double.
std::uint64_t finish(const TensorSite& t, double x) {
  if (t.d_type != Type::kS32) return encode(t.d_type, x);
  if (t.saturate) x = std::clamp(x, -2147483648.0, 2147483647.0);
  return std::uint32_t(std::int64_t(x));
}

void mma(Warp& w, const TensorSite& t) {
  static thread_local double a[kMost], b[kMost], c[kMost], d[kMost];
  unsigned ab = element_bytes(t.a_type), bb = element_bytes(t.b_type), cb = element_bytes(t.c_type), db = element_bytes(t.d_type);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    for (unsigned i = 0; i < t.m * t.k / kLanes; ++i) {
      Place p = place_a(t, lane, i);
      a[p.row * t.k + p.column] = decode(t.a_type, get(w, t.a, t.register_bytes, ab, lane, i));
    }
    for (unsigned i = 0; i < t.k * t.n / kLanes; ++i) {
      Place p = place_b(t, lane, i);
      b[p.row * t.n + p.column] = decode(t.b_type, get(w, t.b, t.register_bytes, bb, lane, i));
    }
    for (unsigned i = 0; i < t.m * t.n / kLanes; ++i) {
      Place p = place_c(lane, i);
      c[p.row * t.n + p.column] = decode(t.c_type, get(w, t.c, width_of(t.c_type), cb, lane, i));
    }
  }
  multiply(t, a, b, c, d);
  for (std::uint32_t mask = w.mask; mask; mask &= mask - 1) {
    unsigned lane = unsigned(std::countr_zero(mask));
    for (unsigned i = 0; i < t.m * t.n / kLanes; ++i) {
      Place p = place_c(lane, i);
      put(w, t.d, width_of(t.d_type), db, lane, i, finish(t, d[p.row * t.n + p.column]));
    }
  }
}

// wmma: element e of a matrix in row-major order is slot e % share of lane e / share.
void wmma_mma(Warp& w, const TensorSite& t) {
  static thread_local double a[kMost], b[kMost], c[kMost], d[kMost];
  auto read = [&](double* out, unsigned elements, const std::vector<std::uint32_t>& regs, Type type, unsigned width) {
    unsigned share = elements / kLanes;
    for (unsigned e = 0; e < elements; ++e)
      out[e] = decode(type, get(w, regs, width, element_bytes(type), e / share, e % share));
  };
  read(a, t.m * t.k, t.a, t.a_type, t.register_bytes);
  read(b, t.k * t.n, t.b, t.b_type, t.register_bytes);
  read(c, t.m * t.n, t.c, t.c_type, width_of(t.c_type));
  multiply(t, a, b, c, d);
  unsigned share = t.m * t.n / kLanes;
  for (unsigned e = 0; e < t.m * t.n; ++e) {
    unsigned lane = e / share;
    if (w.mask >> lane & 1) put(w, t.d, width_of(t.d_type), element_bytes(t.d_type), lane, e % share, finish(t, d[e]));
  }
}

std::uint64_t lane_address(Warp& w, const Inst* in, const TensorSite& t, unsigned lane) {
  if (!t.address32) return reinterpret_cast<std::uint64_t*>(w.regs + in->a)[lane] + std::uint64_t(in->imm);
  std::uint64_t address = reinterpret_cast<std::uint32_t*>(w.regs + in->a)[lane] + std::uint64_t(in->imm);
  return t.space == Space::kShared ? std::uint32_t(address) : address;  // as in access.cpp
}

bool wmma_access(Warp& w, const Inst* in, const TensorSite& t) {
  unsigned rows = t.matrix == 'b' ? t.k : t.m, columns = t.matrix == 'a' ? t.k : t.n;
  bool is_load = t.kind == TensorSite::Kind::kWmmaLoad;
  unsigned bytes = element_bytes(t.a_type);
  unsigned share = rows * columns / kLanes;
  unsigned slots = unsigned(t.d.size()) * t.register_bytes / bytes;
  for (unsigned e = 0; e < rows * columns; ++e) {
    unsigned lane = e / share, row = e / columns, column = e % columns;
    if (!(w.mask >> lane & 1)) continue;
    std::uint64_t stride = t.stride ? reinterpret_cast<std::uint32_t*>(w.regs + t.stride)[lane] : (t.row_major ? columns : rows);
    std::uint64_t index = t.row_major ? row * stride + column : column * stride + row;
    std::uint8_t* p = resolve(w, in, lane, lane_address(w, in, t, lane) + index * bytes, bytes, t.space, !is_load);
    if (!p) return false;
    if (is_load) {
      std::uint64_t x = 0;
      std::memcpy(&x, p, bytes);
      // f16 fragments of a and b have twice the room; both halves hold the same.
      for (unsigned s = e % share; s < slots; s += share) put(w, t.d, t.register_bytes, bytes, lane, s, x);
    } else {
      std::uint64_t x = get(w, t.d, t.register_bytes, bytes, lane, e % share);
      std::memcpy(p, &x, bytes);
    }
  }
  auto moved = std::uint64_t(rows) * columns * bytes;
  if (t.space == Space::kShared) ++w.counters->shared_accesses;
  else (is_load ? w.counters->global_load_bytes : w.counters->global_store_bytes) += moved;
  return true;
}

bool matrix_access(Warp& w, const Inst* in, const TensorSite& t) {
  bool is_load = t.kind == TensorSite::Kind::kLdmatrix;
  ++w.counters->shared_accesses;
  for (unsigned k = 0; k < t.k; ++k) {
    std::uint8_t* rows[8];
    for (unsigned r = 0; r < 8; ++r) {
      unsigned lane = k * 8 + r;
      rows[r] = resolve(w, in, lane, lane_address(w, in, t, lane), 16, t.space, !is_load);
      if (!rows[r]) return false;
    }
    auto* regs = reinterpret_cast<std::uint32_t*>(w.regs + t.d[k]);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      std::uint16_t* half[2];
      for (unsigned h = 0; h < 2; ++h) {
        unsigned outer = lane >> 2, inner = (lane & 3) * 2 + h;
        half[h] = reinterpret_cast<std::uint16_t*>(rows[t.trans ? inner : outer]) + (t.trans ? outer : inner);
      }
      if (is_load) {
        if (w.mask >> lane & 1) regs[lane] = *half[0] | std::uint32_t(*half[1]) << 16;
      } else {
        *half[0] = std::uint16_t(regs[lane]);
        *half[1] = std::uint16_t(regs[lane] >> 16);
      }
    }
  }
  return true;
}

void transpose(Warp& w, const TensorSite& t) {
  const auto* a = reinterpret_cast<const std::uint32_t*>(w.regs + t.a[0]);
  std::uint16_t matrix[8][8];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned h = 0; h < 2; ++h) matrix[lane >> 2][(lane & 3) * 2 + h] = std::uint16_t(a[lane] >> (16 * h));
  auto* d = reinterpret_cast<std::uint32_t*>(w.regs + t.d[0]);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    if (w.mask >> lane & 1)
      d[lane] = matrix[(lane & 3) * 2][lane >> 2] | std::uint32_t(matrix[(lane & 3) * 2 + 1][lane >> 2]) << 16;
}

}  // namespace

bool tensor_supported(const TensorSite& t) {
  using Kind = TensorSite::Kind;
  auto shape = [&](unsigned m, unsigned n, unsigned k) { return t.m == m && t.n == n && t.k == k; };
  bool halves = t.a_type == t.b_type && (t.a_type == Type::kF16 || t.a_type == Type::kBF16);
  bool bytes = (t.a_type == Type::kS8 || t.a_type == Type::kU8) && (t.b_type == Type::kS8 || t.b_type == Type::kU8);
  bool tf32 = t.a_type == Type::kTF32 && t.b_type == Type::kTF32;
  bool doubles = t.a_type == Type::kF64 && t.b_type == Type::kF64;
  auto enough = [&](const std::vector<std::uint32_t>& regs, unsigned elements, Type type, unsigned width) {
    return regs.size() * (width / element_bytes(type)) * kLanes >= elements;
  };
  switch (t.kind) {
    case Kind::kMma:
    case Kind::kWmmaMma: {
      bool accumulators = bytes     ? t.c_type == Type::kS32 && t.d_type == Type::kS32
                          : doubles ? t.c_type == Type::kF64 && t.d_type == Type::kF64
                                    : (t.c_type == Type::kF32 || (t.c_type == Type::kF16 && t.a_type == Type::kF16)) &&
                                          (t.d_type == Type::kF32 || (t.d_type == Type::kF16 && t.a_type == Type::kF16));
      if (!accumulators) return false;
      bool known = t.kind == Kind::kMma
                       ? (halves && (shape(16, 8, 8) || shape(16, 8, 16))) || (tf32 && (shape(16, 8, 4) || shape(16, 8, 8))) ||
                             (bytes && (shape(16, 8, 16) || shape(16, 8, 32) || shape(8, 8, 16))) || (doubles && shape(8, 8, 4))
                       : ((halves || bytes) && (shape(16, 16, 16) || shape(32, 8, 16) || shape(8, 32, 16))) ||
                             (tf32 && shape(16, 16, 8)) || (doubles && shape(8, 8, 4));
      return known && enough(t.a, t.m * t.k, t.a_type, t.register_bytes) && enough(t.b, t.k * t.n, t.b_type, t.register_bytes) &&
             enough(t.c, t.m * t.n, t.c_type, width_of(t.c_type)) && enough(t.d, t.m * t.n, t.d_type, width_of(t.d_type));
    }
    case Kind::kWmmaLoad:
    case Kind::kWmmaStore: {
      if (!t.m || !t.n || !t.k || t.m > 32 || t.n > 32 || t.k > 32 || !element_bytes(t.a_type)) return false;
      unsigned rows = t.matrix == 'b' ? t.k : t.m, columns = t.matrix == 'a' ? t.k : t.n;
      return rows * columns % kLanes == 0 && enough(t.d, rows * columns, t.a_type, t.register_bytes);
    }
    default: return true;
  }
}

const Inst* do_tensor(Warp& w, const Inst* in) {
  const auto& t = *reinterpret_cast<const TensorSite*>(in->target);
  switch (t.kind) {
    case TensorSite::Kind::kMma: mma(w, t); break;
    case TensorSite::Kind::kWmmaMma: wmma_mma(w, t); break;
    case TensorSite::Kind::kWmmaLoad:
    case TensorSite::Kind::kWmmaStore:
      if (!wmma_access(w, in, t)) return nullptr;
      break;
    case TensorSite::Kind::kLdmatrix:
    case TensorSite::Kind::kStmatrix:
      if (!matrix_access(w, in, t)) return nullptr;
      break;
    case TensorSite::Kind::kMovmatrix: transpose(w, t); break;
  }
  return in + 1;
}

}  // namespace musacoder::vgpu::exec
