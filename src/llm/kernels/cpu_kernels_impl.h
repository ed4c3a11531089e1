// Body of cpu_kernels_<set>.cpp, included once by each with its own compiler flags. No standard header with
// inline functions may be included here: the linker would be free to use such a function's AVX-512 copy
// everywhere.
//
// Sums go through kLanes partial sums whatever the instruction set is, so the order of summation is that of
// the inner index.
#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>  // always inlined, never emitted on their own
#endif

#include "llm/kernels/cpu_kernels.h"

namespace musacoder::llm {
namespace MC_KERNEL_SET {
namespace {

constexpr std::int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(64), aligned(4), may_alias));
typedef std::uint16_t Halves __attribute__((vector_size(32), aligned(2), may_alias));
typedef std::uint32_t Words __attribute__((vector_size(64)));

inline __attribute__((always_inline)) Lanes load(const float* p) {
  return *reinterpret_cast<const Lanes*>(p);
}
inline __attribute__((always_inline)) Lanes load(const std::uint16_t* p) {
  return reinterpret_cast<Lanes>(__builtin_convertvector(*reinterpret_cast<const Halves*>(p), Words) << 16);
}
// a * b + c, fused where the set can: written out, as a compiler that may contract does so in some loops and
// not in others.
inline __attribute__((always_inline)) Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif defined(__FMA__)
  union Halved {
    Lanes whole;
    __m256 half[2];
  };
  Halved left{a}, right{b}, out{c};
  for (int i = 0; i < 2; ++i) out.half[i] = _mm256_fmadd_ps(left.half[i], right.half[i], out.half[i]);
  return out.whole;
#else
  return a * b + c;
#endif
}
template <typename T>
inline __attribute__((always_inline)) Lanes load_part(const T* p, std::int64_t count) {
  T part[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) part[i] = p[i];
  return load(part);
}
// Halves onto halves, until one is left.
inline __attribute__((always_inline)) float total(const Lanes& v) {
  typedef float Eight __attribute__((vector_size(32)));
  typedef float Four __attribute__((vector_size(16)));
  const Eight a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                  __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const Four b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
  return (b[0] + b[2]) + (b[1] + b[3]);
}

template <int kRows, int kColumns, typename W>
inline __attribute__((always_inline)) void tile(const float* x, std::int64_t in, const W* w, float* y,
                                                std::int64_t stride) {
  Lanes sum[kRows][kColumns] = {};
  const std::int64_t whole = in - in % kLanes;
  for (std::int64_t k = 0; k < whole; k += kLanes) {
    Lanes right[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      right[c] = load(w + c * in + k);
      __builtin_prefetch(w + (c + kColumns) * in + k);  // the next strip's; beyond the end it does nothing
    }
    for (int r = 0; r < kRows; ++r) {
      const Lanes left = load(x + r * in + k);
      for (int c = 0; c < kColumns; ++c) sum[r][c] = multiply_add(left, right[c], sum[r][c]);
    }
  }
  if (whole < in)
    for (int c = 0; c < kColumns; ++c) {
      const Lanes right = load_part(w + c * in + whole, in - whole);
      for (int r = 0; r < kRows; ++r)
        sum[r][c] = multiply_add(load_part(x + r * in + whole, in - whole), right, sum[r][c]);
    }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) y[r * stride + c] = total(sum[r][c]);
}

template <int kColumns, typename W>
inline __attribute__((always_inline)) void strip(const float* x, std::int64_t rows, std::int64_t in,
                                                 const W* w, float* y, std::int64_t stride) {
  std::int64_t r = 0;
  for (; r + 8 <= rows; r += 8) tile<8, kColumns>(x + r * in, in, w, y + r * stride, stride);
  for (; r + 4 <= rows; r += 4) tile<4, kColumns>(x + r * in, in, w, y + r * stride, stride);
  for (; r < rows; ++r) tile<1, kColumns>(x + r * in, in, w, y + r * stride, stride);
}

template <typename W>
void linear(const float* x, std::int64_t rows, std::int64_t in, const W* w, std::int64_t from,
            std::int64_t to, float* y, std::int64_t stride) {
  // Rows in blocks that stay in the second-level cache while the weights go by once for each block.
  constexpr std::int64_t kBlock = 64;
  for (std::int64_t r = 0; r < rows; r += kBlock) {
    const std::int64_t count = rows - r < kBlock ? rows - r : kBlock;
    std::int64_t n = from;
    // 24 sums, three weights and one x fill the 32 registers of AVX-512.
    for (; n + 3 <= to; n += 3) strip<3>(x + r * in, count, in, w + n * in, y + r * stride + n, stride);
    for (; n < to; ++n) strip<1>(x + r * in, count, in, w + n * in, y + r * stride + n, stride);
  }
}

void square_sums(const float* x, std::int64_t rows, std::int64_t dim, float* out) {
  const std::int64_t whole = dim - dim % kLanes;
  for (std::int64_t r = 0; r < rows; ++r, x += dim) {
    Lanes sum = {};
    for (std::int64_t k = 0; k < whole; k += kLanes) sum = multiply_add(load(x + k), load(x + k), sum);
    if (whole < dim) {
      const Lanes rest = load_part(x + whole, dim - whole);
      sum = multiply_add(rest, rest, sum);
    }
    out[r] = total(sum);
  }
}

template <typename T>
void attend(const AttendArgs& a) {
  const std::int64_t whole = a.dim - a.dim % kLanes;
  for (std::int64_t t = 0; t < a.length; ++t) {
    const T* k = static_cast<const T*>(a.k_pages[t / a.page]) + t % a.page * a.dim;
    for (std::int64_t g = 0; g < a.group; ++g) {
      const float* q = a.q + g * a.dim;
      Lanes sum = {};
      for (std::int64_t d = 0; d < whole; d += kLanes) sum = multiply_add(load(q + d), load(k + d), sum);
      if (whole < a.dim)
        sum = multiply_add(load_part(q + whole, a.dim - whole), load_part(k + whole, a.dim - whole), sum);
      a.scores[g * a.length + t] = total(sum);
    }
  }
  for (std::int64_t g = 0; g < a.group; ++g) {
    float* s = a.scores + g * a.length;
    float top = s[0], sum = 0;
    for (std::int64_t t = 1; t < a.length; ++t) top = s[t] > top ? s[t] : top;
    for (std::int64_t t = 0; t < a.length; ++t) {
      s[t] = __builtin_expf(s[t] - top);
      sum += s[t];
    }
    float* out = a.out + g * a.dim;
    for (std::int64_t d = 0; d < a.dim; ++d) out[d] = 0;
    for (std::int64_t t = 0; t < a.length; ++t) {
      const T* v = static_cast<const T*>(a.v_pages[t / a.page]) + t % a.page * a.dim;
      const float weight = s[t] / sum;
      for (std::int64_t d = 0; d < whole; d += kLanes)
        *reinterpret_cast<Lanes*>(out + d) += weight * load(v + d);
      if (whole < a.dim) {
        const Lanes rest = weight * load_part(v + whole, a.dim - whole);
        for (std::int64_t d = whole; d < a.dim; ++d) out[d] += rest[d - whole];
      }
    }
  }
}

}  // namespace

extern const CpuKernels kKernels;
const CpuKernels kKernels = {MC_KERNEL_NAME, linear<float>, linear<std::uint16_t>,
                             square_sums,    attend<float>, attend<std::uint16_t>};

}  // namespace MC_KERNEL_SET
}  // namespace musacoder::llm
