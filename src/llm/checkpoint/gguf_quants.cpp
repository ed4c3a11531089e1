#include "llm/checkpoint/gguf_quants.h"

#include <cstring>

#include "llm/checkpoint/dtype.h"

namespace musacoder::llm {
namespace {

using Bytes = const std::uint8_t*;

float half_at(Bytes p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, 2);
  return f16_to_f32(bits);
}

void f32(Bytes p, float* out) { std::memcpy(out, p, 4); }
void f16(Bytes p, float* out) { *out = half_at(p); }
void bf16(Bytes p, float* out) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, 2);
  *out = bf16_to_f32(bits);
}

// 32 elements: the low nibbles of 16 bytes, then the high ones.
void q4_0(Bytes p, float* out) {
  const float d = half_at(p);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((p[2 + i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((p[2 + i] >> 4) - 8);
  }
}
void q4_1(Bytes p, float* out) {
  const float d = half_at(p), m = half_at(p + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(p[4 + i] & 15) + m;
    out[i + 16] = d * static_cast<float>(p[4 + i] >> 4) + m;
  }
}
// As above with a fifth bit each in a 32-bit word.
void q5_0(Bytes p, float* out) {
  const float d = half_at(p);
  std::uint32_t high = 0;
  std::memcpy(&high, p + 2, 4);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(static_cast<int>((p[6 + i] & 15) | (high >> i & 1) << 4) - 16);
    out[i + 16] = d * static_cast<float>(static_cast<int>(p[6 + i] >> 4 | (high >> (i + 16) & 1) << 4) - 16);
  }
}
void q5_1(Bytes p, float* out) {
  const float d = half_at(p), m = half_at(p + 2);
  std::uint32_t high = 0;
  std::memcpy(&high, p + 4, 4);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((p[8 + i] & 15) | (high >> i & 1) << 4) + m;
    out[i + 16] = d * static_cast<float>(p[8 + i] >> 4 | (high >> (i + 16) & 1) << 4) + m;
  }
}
void q8_0(Bytes p, float* out) {
  const float d = half_at(p);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(p[2 + i]));
}

// Eight scales and eight minima of six bits, packed in twelve bytes.
void scale_and_min(int j, Bytes q, float& scale, float& min) {
  if (j < 4) {
    scale = static_cast<float>(q[j] & 63);
    min = static_cast<float>(q[j + 4] & 63);
  } else {
    scale = static_cast<float>((q[j + 4] & 15) | (q[j - 4] >> 6) << 4);
    min = static_cast<float>(q[j + 4] >> 4 | (q[j] >> 6) << 4);
  }
}
// 256 elements in eight groups of 32; `high`: the fifth bits (Q5_K) or nullptr (Q4_K).
void k_groups(float d, float dmin, Bytes scales, Bytes high, Bytes low, float* out) {
  for (int group = 0; group < 8; ++group) {
    float scale = 0, min = 0;
    scale_and_min(group, scales, scale, min);
    const float step = d * scale, offset = dmin * min;
    for (int i = 0; i < 32; ++i) {
      const int byte = low[group / 2 * 32 + i];
      int q = group % 2 ? byte >> 4 : byte & 15;
      if (high) q |= (high[i] >> group & 1) << 4;
      out[group * 32 + i] = step * static_cast<float>(q) - offset;
    }
  }
}
void q4_k(Bytes p, float* out) { k_groups(half_at(p), half_at(p + 2), p + 4, nullptr, p + 16, out); }
void q5_k(Bytes p, float* out) { k_groups(half_at(p), half_at(p + 2), p + 4, p + 16, p + 48, out); }
// 256 elements: 128 bytes of low nibbles, 64 of two high bits each, 16 scales, one factor.
void q6_k(Bytes p, float* out) {
  const float d = half_at(p + 208);
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 128; ++i) {
      const Bytes low = p + half * 64, high = p + 128 + half * 32;
      const int nibble = i < 64 ? low[i] & 15 : low[i - 64] >> 4;
      const int q = (nibble | (high[i % 32] >> (i / 32 * 2) & 3) << 4) - 32;
      const float scale = static_cast<float>(static_cast<std::int8_t>(p[192 + half * 8 + i / 16]));
      out[half * 128 + i] = d * scale * static_cast<float>(q);
    }
}

struct Row {
  GgmlType type;
  GgmlBlock block;
  void (*read)(Bytes, float*);
};
constexpr Row row(GgmlType type, const char* name, std::uint32_t elements, std::uint32_t bytes, void (*read)(Bytes, float*) = nullptr) {
  return {type, {name, elements, bytes, read != nullptr}, read};
}
using T = GgmlType;
constexpr Row kRows[] = {
    row(T::kF32, "F32", 1, 4, f32),          row(T::kF16, "F16", 1, 2, f16),          row(T::kBF16, "BF16", 1, 2, bf16),
    row(T::kQ4_0, "Q4_0", 32, 18, q4_0),     row(T::kQ4_1, "Q4_1", 32, 20, q4_1),     row(T::kQ5_0, "Q5_0", 32, 22, q5_0),
    row(T::kQ5_1, "Q5_1", 32, 24, q5_1),     row(T::kQ8_0, "Q8_0", 32, 34, q8_0),     row(T::kQ4K, "Q4_K", 256, 144, q4_k),
    row(T::kQ5K, "Q5_K", 256, 176, q5_k),    row(T::kQ6K, "Q6_K", 256, 210, q6_k),    row(T::kQ2K, "Q2_K", 256, 84),           row(T::kQ3K, "Q3_K", 256, 110),          row(T::kQ8K, "Q8_K", 256, 292),
    row(T::kIq2Xxs, "IQ2_XXS", 256, 66),     row(T::kIq2Xs, "IQ2_XS", 256, 74),       row(T::kIq3Xxs, "IQ3_XXS", 256, 98),
    row(T::kIq1S, "IQ1_S", 256, 50),         row(T::kIq4Nl, "IQ4_NL", 32, 18),        row(T::kIq3S, "IQ3_S", 256, 110),
    row(T::kIq2S, "IQ2_S", 256, 82),         row(T::kIq4Xs, "IQ4_XS", 256, 136),      row(T::kI8, "I8", 1, 1),
    row(T::kI16, "I16", 1, 2),               row(T::kI32, "I32", 1, 4),               row(T::kI64, "I64", 1, 8),
    row(T::kF64, "F64", 1, 8),               row(T::kIq1M, "IQ1_M", 256, 56),         row(T::kTq1_0, "TQ1_0", 256, 54),
    row(T::kTq2_0, "TQ2_0", 256, 66),        row(T::kMxfp4, "MXFP4", 32, 17),
};

const Row* find(GgmlType type) {
  for (const Row& r : kRows)
    if (r.type == type) return &r;
  return nullptr;
}

}  // namespace

std::optional<GgmlBlock> ggml_block(GgmlType type) {
  const Row* found = find(type);
  return found ? std::optional(found->block) : std::nullopt;
}

bool dequantize_blocks(GgmlType type, std::string_view bytes, float* out) {
  const Row* found = find(type);
  if (!found || !found->read || bytes.size() % found->block.bytes != 0) return false;
  const auto* p = reinterpret_cast<Bytes>(bytes.data());
  for (const Bytes end = p + bytes.size(); p < end; p += found->block.bytes, out += found->block.elements) found->read(p, out);
  return true;
}

}  // namespace musacoder::llm
