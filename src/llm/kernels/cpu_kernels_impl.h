// Body of cpu_kernels_<set>.cpp, included once by each with its own compiler flags. No standard header with
// inline functions may be included here: the linker would be free to use such a function's AVX-512 copy
// everywhere.
//
// Sums go through kLanes partial sums whatever the instruction set is, so the order of summation is that of
// the inner index.
#if defined(__SSE2__)
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
typedef std::int32_t Ints __attribute__((vector_size(64)));
typedef std::uint8_t Bytes __attribute__((vector_size(16), aligned(1), may_alias));

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
inline __attribute__((always_inline)) void store(float* p, const Lanes& v) {
  *reinterpret_cast<Lanes*>(p) = v;
}
// To the nearest bfloat16, ties to even; what is not a number stays none.
inline __attribute__((always_inline)) Halves to_halves(const Lanes& v) {
  const Words bits = reinterpret_cast<Words>(v);
  const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Words kept = v == v ? rounded : (bits >> 16 | 0x40u);
  return __builtin_convertvector(kept, Halves);
}
inline __attribute__((always_inline)) void store(std::uint16_t* p, const Lanes& v) {
  *reinterpret_cast<Halves*>(p) = to_halves(v);
}
// v as it is when it was stored as a T.
inline __attribute__((always_inline)) Lanes rounded_to(const float*, const Lanes& v) { return v; }
inline __attribute__((always_inline)) Lanes rounded_to(const std::uint16_t*, const Lanes& v) {
  return reinterpret_cast<Lanes>(__builtin_convertvector(to_halves(v), Words) << 16);
}
inline __attribute__((always_inline)) Lanes spread(float value) { return Lanes{} + value; }
template <typename T>
inline __attribute__((always_inline)) Lanes load_part(const T* p, std::int64_t count) {
  T part[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) part[i] = p[i];
  return load(part);
}
template <typename T>
inline __attribute__((always_inline)) void store_part(T* p, const Lanes& v, std::int64_t count) {
  T part[kLanes];
  store(part, v);
  for (std::int64_t i = 0; i < count; ++i) p[i] = part[i];
}
// Calls run(offset, load, store) for each kLanes of `count` elements, the last ones through a padded copy: an
// element's result does not depend on its place.
template <typename T, typename Run>
inline __attribute__((always_inline)) void each(std::int64_t count, T* out, const Run& run) {
  const std::int64_t whole = count - count % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) store(out + i, run(i, kLanes));
  if (whole < count) store_part(out + whole, run(whole, count - whole), count - whole);
}
template <typename T>
inline __attribute__((always_inline)) Lanes load_some(const T* p, std::int64_t count) {
  return count == kLanes ? load(p) : load_part(p, count);
}
// Cephes' expf (https://www.netlib.org/cephes/, single/expf.c) without branches: 2^n times a polynomial of
// the rest.
inline __attribute__((always_inline)) Lanes exponential(const Lanes& x) {
  constexpr float kWhole = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number
  const Lanes shifted = multiply_add(x, spread(1.44269504088896341f), spread(kWhole)), n = shifted - kWhole;
  Lanes rest = multiply_add(n, spread(-0.693359375f), x);
  rest = multiply_add(n, spread(2.12194440e-4f), rest);
  Lanes p = spread(1.9875691500e-4f);
  constexpr float kNext[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                             5.0000001201e-1f};
  for (const float next : kNext) p = multiply_add(p, rest, spread(next));
  p = multiply_add(p, rest * rest, rest) + 1.0f;
  const Lanes power = reinterpret_cast<Lanes>((reinterpret_cast<Words>(shifted) << 23) + 0x3f800000u);
  Lanes y = p * power;
  y = x < -87.0f ? Lanes{} : y;
  return x > 88.0f ? spread(__builtin_inff()) : y;
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

// The products' sums are kept in the set's own registers, kParts of them for kLanes numbers: the compiler
// would keep wider vectors than the set has in memory.
#if defined(__AVX512F__)
constexpr int kParts = 1;
#elif defined(__AVX2__)
constexpr int kParts = 2;
#else
constexpr int kParts = 4;
#endif
constexpr int kPart = kLanes / kParts;
typedef float Part __attribute__((vector_size(4 * kPart), aligned(4), may_alias));
typedef std::uint16_t HalfPart __attribute__((vector_size(2 * kPart), aligned(2), may_alias));
typedef std::uint32_t WordPart __attribute__((vector_size(4 * kPart)));

inline __attribute__((always_inline)) Part part_at(const float* p) {
  return *reinterpret_cast<const Part*>(p);
}
inline __attribute__((always_inline)) Part part_at(const std::uint16_t* p) {
  return reinterpret_cast<Part>(__builtin_convertvector(*reinterpret_cast<const HalfPart*>(p), WordPart)
                                << 16);
}
inline __attribute__((always_inline)) Part multiply_add_part(Part a, Part b, Part c) {
#if defined(__AVX512F__)
  return multiply_add(a, b, c);
#elif defined(__FMA__)
  return reinterpret_cast<Part>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}
inline __attribute__((always_inline)) float total(const Part* parts) {
  Lanes all;
  __builtin_memcpy(&all, parts, sizeof all);
  return total(all);
}

template <int kRows, int kColumns, typename W>
inline __attribute__((always_inline)) void tile(const float* x, std::int64_t in, const W* w, float* y,
                                                std::int64_t stride) {
  Part sum[kRows][kColumns][kParts] = {};
  const std::int64_t whole = in - in % kLanes;
  for (std::int64_t k = 0; k < whole; k += kLanes) {
    Part right[kColumns][kParts];
    for (int c = 0; c < kColumns; ++c) {
      for (int p = 0; p < kParts; ++p) right[c][p] = part_at(w + c * in + k + p * kPart);
      __builtin_prefetch(w + (c + kColumns) * in + k);  // the next strip's; beyond the end it does nothing
    }
    for (int r = 0; r < kRows; ++r)
      for (int p = 0; p < kParts; ++p) {
        const Part left = part_at(x + r * in + k + p * kPart);
        for (int c = 0; c < kColumns; ++c) sum[r][c][p] = multiply_add_part(left, right[c][p], sum[r][c][p]);
      }
  }
  if (whole < in) {
    float left[kLanes];
    W right[kLanes];
    for (int c = 0; c < kColumns; ++c)
      for (int r = 0; r < kRows; ++r) {
        for (std::int64_t i = 0; i < kLanes; ++i) {
          left[i] = whole + i < in ? x[r * in + whole + i] : 0;
          right[i] = whole + i < in ? w[c * in + whole + i] : W();
        }
        for (int p = 0; p < kParts; ++p)
          sum[r][c][p] =
              multiply_add_part(part_at(left + p * kPart), part_at(right + p * kPart), sum[r][c][p]);
      }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) y[r * stride + c] = total(sum[r][c]);
}

template <int kValue>
struct Number {
  static constexpr int value = kValue;
};
// Rows and columns of a tile, whose sums must fit the set's registers beside weights and an x: 24 of
// AVX-512's 32, eight of AVX2's 16 (two a sum), eight of SSE2's 16 (four a sum). An element's sum is the same
// in any tile.
#if defined(__AVX512F__)
constexpr int kTall = 8, kWide = 3;
#elif defined(__AVX2__)
constexpr int kTall = 2, kWide = 2;
#else
constexpr int kTall = 2, kWide = 1;
#endif
// Calls run(Number<rows>, Number<columns>, first row, first column) for tiles that cover all, rows in blocks
// that stay in the second-level cache while the weights go by once for each block.
template <typename Run>
inline __attribute__((always_inline)) void over_strips(std::int64_t rows, std::int64_t from, std::int64_t to,
                                                       const Run& run) {
  constexpr std::int64_t kBlock = 64;
  for (std::int64_t begin = 0; begin < rows; begin += kBlock) {
    const std::int64_t end = rows - begin < kBlock ? rows : begin + kBlock;
    const auto strip = [&](auto wide, std::int64_t n) __attribute__((always_inline)) {
      std::int64_t r = begin;
      for (; r + kTall <= end; r += kTall) run(Number<kTall>(), wide, r, n);
      for (; kTall > 4 && r + 4 <= end; r += 4) run(Number<4>(), wide, r, n);
      for (; r < end; ++r) run(Number<1>(), wide, r, n);
    };
    std::int64_t n = from;
    for (; n + kWide <= to; n += kWide) strip(Number<kWide>(), n);
    for (; n < to; ++n) strip(Number<1>(), n);
  }
}

template <typename W>
void linear(const float* x, std::int64_t rows, std::int64_t in, const W* w, std::int64_t from,
            std::int64_t to, float* y, std::int64_t stride) {
  over_strips(rows, from, to,
              [&](auto tall, auto wide, std::int64_t r, std::int64_t n) __attribute__((always_inline)) {
                tile<tall.value, wide.value>(x + r * in, in, w + n * in, y + r * stride + n, stride);
              });
}

inline __attribute__((always_inline)) float half(const std::uint8_t* p) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, p, 2);
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest < 0x400u) {  // zero or subnormal
    const float small = static_cast<float>(rest) * 0x1p-24f;
    return sign ? -small : small;
  }
  const std::uint32_t whole =
      sign | (rest < 0x7c00u ? (rest << 13) + (112u << 23) : rest << 13 | 0x7f800000u);
  float out;
  __builtin_memcpy(&out, &whole, 4);
  return out;
#endif
}
// Sixteen bytes as numbers. Written out where the compiler's own conversion goes through memory.
inline __attribute__((always_inline)) void to_numbers(const Bytes& b, Part* out) {
#if defined(__AVX512F__)
  out[0] = __builtin_convertvector(__builtin_convertvector(b, Ints), Part);
#elif defined(__AVX2__)
  const __m128i low = reinterpret_cast<__m128i>(b), high = _mm_unpackhi_epi64(low, low);
  out[0] = reinterpret_cast<Part>(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low)));
  out[1] = reinterpret_cast<Part>(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high)));
#elif defined(__SSE2__)
  const __m128i all = reinterpret_cast<__m128i>(b), zero = _mm_setzero_si128();
  const __m128i low = _mm_unpacklo_epi8(all, zero), high = _mm_unpackhi_epi8(all, zero);
  out[0] = reinterpret_cast<Part>(_mm_cvtepi32_ps(_mm_unpacklo_epi16(low, zero)));
  out[1] = reinterpret_cast<Part>(_mm_cvtepi32_ps(_mm_unpackhi_epi16(low, zero)));
  out[2] = reinterpret_cast<Part>(_mm_cvtepi32_ps(_mm_unpacklo_epi16(high, zero)));
  out[3] = reinterpret_cast<Part>(_mm_cvtepi32_ps(_mm_unpackhi_epi16(high, zero)));
#else
  for (int p = 0; p < kParts; ++p)
    for (int i = 0; i < kPart; ++i) out[p][i] = b[p * kPart + i];
#endif
}
// (bytes - zero) * scale, and bytes * scale + offset.
inline __attribute__((always_inline)) void shifted(const Bytes& b, float zero, float scale, Part* out) {
  to_numbers(b, out);
  for (int p = 0; p < kParts; ++p) out[p] = (out[p] - zero) * scale;
}
inline __attribute__((always_inline)) void scaled(const Bytes& b, float scale, float offset, Part* out) {
  to_numbers(b, out);
  for (int p = 0; p < kParts; ++p) out[p] = multiply_add_part(out[p], Part{} + scale, Part{} + offset);
}
inline __attribute__((always_inline)) Bytes bytes_at(const std::uint8_t* p) {
  return *reinterpret_cast<const Bytes*>(p);
}

// Each: a block's values, kLanes at a time, as gguf_quants.cpp gives them. Products of a scale and a quant
// are exact in float32 but for Q6_K's, so fusing the addition changes nothing.
struct Q4_0 {
  static constexpr int kElements = 32, kBytes = 18;
  static inline __attribute__((always_inline)) void expand(const std::uint8_t* b, Part (*out)[kParts]) {
    const float d = half(b);
    const Bytes q = bytes_at(b + 2);
    shifted(q & 15, 8, d, out[0]);
    shifted(q >> 4, 8, d, out[1]);
  }
};
struct Q4_1 {
  static constexpr int kElements = 32, kBytes = 20;
  static inline __attribute__((always_inline)) void expand(const std::uint8_t* b, Part (*out)[kParts]) {
    const float d = half(b), m = half(b + 2);
    const Bytes q = bytes_at(b + 4);
    scaled(q & 15, d, m, out[0]);
    scaled(q >> 4, d, m, out[1]);
  }
};
struct Q8_0 {
  static constexpr int kElements = 32, kBytes = 34;
  static inline __attribute__((always_inline)) void expand(const std::uint8_t* b, Part (*out)[kParts]) {
    const float d = half(b);
    for (int i = 0; i < 2; ++i) shifted(bytes_at(b + 2 + 16 * i) ^ 128, 128, d, out[i]);  // signed ones
  }
};
struct Q4K {
  static constexpr int kElements = 256, kBytes = 144;
  static inline __attribute__((always_inline)) void expand(const std::uint8_t* b, Part (*out)[kParts]) {
    const float d = half(b), least = half(b + 2);
    const std::uint8_t *s = b + 4, *q = b + 16;
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      // Six bits each of scale and minimum of the i-th 32 elements.
      const int scale = i < 4 ? s[i] & 63 : (s[i + 4] & 15) | (s[i - 4] >> 6) << 4,
                minimum = i < 4 ? s[i + 4] & 63 : s[i + 4] >> 4 | (s[i] >> 6) << 4;
      const float by = d * static_cast<float>(scale), less = -(least * static_cast<float>(minimum));
      for (int j = 0; j < 2; ++j) {
        const Bytes packed = bytes_at(q + i / 2 * 32 + 16 * j);
        scaled(i % 2 ? packed >> 4 : packed & 15, by, less, out[2 * i + j]);
      }
    }
  }
};
struct Q6K {
  static constexpr int kElements = 256, kBytes = 210;
  static inline __attribute__((always_inline)) void expand(const std::uint8_t* b, Part (*out)[kParts]) {
    const std::uint8_t *low = b, *high = b + 128;
    const float d = half(b + 208);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {  // 16 elements with a scale of their own
      const int part = i / 8, quarter = i % 8 / 2, at = 16 * (i % 2);
      const Bytes four = bytes_at(low + 64 * part + 32 * (quarter % 2) + at),
                  two = bytes_at(high + 32 * part + at);
      const Bytes q = (quarter < 2 ? four & 15 : four >> 4) | ((two >> (2 * quarter)) & 3) << 4;
      std::int8_t scale;
      __builtin_memcpy(&scale, b + 192 + i, 1);
      shifted(q, 32, d * static_cast<float>(scale), out[i]);
    }
  }
};

template <typename Block, int kRows, int kColumns>
inline __attribute__((always_inline)) void packed_tile(const float* x, std::int64_t in, const std::uint8_t* w,
                                                       float* y, std::int64_t stride) {
  constexpr int kGroups = Block::kElements / kLanes;
  const std::int64_t row_bytes = in / Block::kElements * Block::kBytes;
  Part sum[kRows][kColumns][kParts] = {};
  for (std::int64_t k = 0, at = 0; k < in; k += Block::kElements, at += Block::kBytes) {
    Part right[kColumns][kGroups][kParts];
    for (int c = 0; c < kColumns; ++c) {
      Block::expand(w + c * row_bytes + at, right[c]);
      __builtin_prefetch(w + (c + kColumns) * row_bytes + at);  // the next strip's
    }
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kGroups; ++j)
        for (int p = 0; p < kParts; ++p) {
          const Part left = part_at(x + r * in + k + j * kLanes + p * kPart);
          for (int c = 0; c < kColumns; ++c)
            sum[r][c][p] = multiply_add_part(left, right[c][j][p], sum[r][c][p]);
        }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) y[r * stride + c] = total(sum[r][c]);
}

template <typename Block>
void linear_packed(const float* x, std::int64_t rows, std::int64_t in, const std::uint8_t* w,
                   std::int64_t from, std::int64_t to, float* y, std::int64_t stride) {
  const std::int64_t row_bytes = in / Block::kElements * Block::kBytes;
  over_strips(rows, from, to,
              [&](auto tall, auto wide, std::int64_t r, std::int64_t n) __attribute__((always_inline)) {
                packed_tile<Block, tall.value, wide.value>(x + r * in, in, w + n * row_bytes,
                                                           y + r * stride + n, stride);
              });
}

template <typename Block>
void unpack(const std::uint8_t* w, std::int64_t count, float* out) {
  for (std::int64_t k = 0; k < count; k += Block::kElements, w += Block::kBytes) {
    Part values[Block::kElements / kLanes][kParts];
    Block::expand(w, values);
    __builtin_memcpy(out + k, values, sizeof values);
  }
}

float maximum(const float* x, std::int64_t count) {
  float top = x[0];
  Lanes tops = spread(top);
  const std::int64_t whole = count - count % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const Lanes v = load(x + i);
    tops = v > tops ? v : tops;
  }
  for (std::int64_t i = whole; i < count; ++i) top = x[i] > top ? x[i] : top;
  for (int i = 0; i < kLanes; ++i) top = tops[i] > top ? tops[i] : top;
  return top;
}

float exponentials(const float* x, std::int64_t count, float top, float scale, float* out) {
  Lanes sum = {};
  const std::int64_t whole = count - count % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const Lanes y = exponential((load(x + i) - top) * scale);
    store(out + i, y);
    sum += y;
  }
  if (whole < count) {
    const Lanes y = exponential((load_part(x + whole, count - whole) - top) * scale);
    store_part(out + whole, y, count - whole);
    sum += load_part(out + whole, count - whole);
  }
  return total(sum);
}

template <typename T>
void rms_norm(const T* x, std::int64_t rows, std::int64_t dim, const T* weight, float eps, T* out) {
  for (std::int64_t r = 0; r < rows; ++r, x += dim, out += dim) {
    const std::int64_t whole = dim - dim % kLanes;
    Lanes sum = {};
    for (std::int64_t k = 0; k < whole; k += kLanes) sum = multiply_add(load(x + k), load(x + k), sum);
    if (whole < dim) {
      const Lanes rest = load_part(x + whole, dim - whole);
      sum = multiply_add(rest, rest, sum);
    }
    const float scale = 1 / __builtin_sqrtf(total(sum) / static_cast<float>(dim) + eps);
    each(dim, out, [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
      return load_some(weight + i, count) * rounded_to(x, load_some(x + i, count) * scale);
    });
  }
}

template <typename T>
void swiglu(const T* gate, const T* up, std::int64_t count, T* out) {
  each(count, out, [&](std::int64_t i, std::int64_t some) __attribute__((always_inline)) {
    const Lanes g = load_some(gate + i, some);
    return rounded_to(gate, g / (exponential(-g) + 1.0f)) * load_some(up + i, some);
  });
}

template <typename T>
void rotate(const T* x, std::int64_t rows, std::int64_t heads, std::int64_t dim, std::int64_t turned,
            const T* cos, const T* sin, T* out) {
  const std::int64_t half_turn = turned / 2;
  for (std::int64_t r = 0; r < rows; ++r, cos += turned, sin += turned)
    for (std::int64_t h = 0; h < heads; ++h, x += dim, out += dim)
      for (std::int64_t d = 0; d < dim; d += half_turn) {
        const bool first = d == 0;
        if (d >= turned) {  // the rest of a head is not turned
          for (; d < dim; ++d) out[d] = x[d];
          break;
        }
        const T *mine = x + d, *other = x + (first ? half_turn : 0), *c = cos + d, *s = sin + d;
        each(half_turn, out + d, [&](std::int64_t i, std::int64_t some) __attribute__((always_inline)) {
          const Lanes b = load_some(other + i, some);
          return rounded_to(x, load_some(mine + i, some) * load_some(c + i, some)) +
                 rounded_to(x, (first ? -b : b) * load_some(s + i, some));
        });
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
    const float sum = exponentials(s, a.length, maximum(s, a.length), 1, s);
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
const CpuKernels kKernels = {
    MC_KERNEL_NAME,
    linear<float>,
    linear<std::uint16_t>,
    {linear_packed<Q4_0>, linear_packed<Q4_1>, linear_packed<Q8_0>, linear_packed<Q4K>, linear_packed<Q6K>},
    {unpack<Q4_0>, unpack<Q4_1>, unpack<Q8_0>, unpack<Q4K>, unpack<Q6K>},
    square_sums,
    maximum,
    exponentials,
    rms_norm<float>,
    rms_norm<std::uint16_t>,
    swiglu<float>,
    swiglu<std::uint16_t>,
    rotate<float>,
    rotate<std::uint16_t>,
    attend<float>,
    attend<std::uint16_t>};

}  // namespace MC_KERNEL_SET
}  // namespace musacoder::llm
