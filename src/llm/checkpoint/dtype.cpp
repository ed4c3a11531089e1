#include "llm/checkpoint/dtype.h"

#include <cmath>
#include <iterator>

namespace musacoder::llm {
namespace {

struct Row {
  const char* name;
  unsigned bits;
};
// Indexed by DType.
constexpr Row kRows[] = {
    {"BOOL", 8}, {"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8}, {"I8", 8}, {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16}, {"BF16", 16},
    {"I32", 32}, {"U32", 32}, {"F32", 32}, {"C64", 64}, {"F64", 64}, {"I64", 64}, {"U64", 64},
};
static_assert(std::size(kRows) == static_cast<std::size_t>(DType::kU64) + 1);

}  // namespace

const char* dtype_name(DType type) { return kRows[static_cast<std::size_t>(type)].name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kRows); ++i)
    if (name == kRows[i].name) return static_cast<DType>(i);
  return std::nullopt;
}

unsigned dtype_bits(DType type) { return kRows[static_cast<std::size_t>(type)].bits; }

std::optional<std::uint64_t> dtype_bytes(DType type, std::uint64_t elements) {
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(elements, std::uint64_t{dtype_bits(type)}, &bits) || bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

float f16_to_f32(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float tiny = std::ldexp(static_cast<float>(fraction), -24);
  return sign ? -tiny : tiny;
}

std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace musacoder::llm
