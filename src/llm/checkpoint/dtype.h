// Element types of tensors in checkpoints, by the names that safetensors gives them, and conversions to float32.
//
//   DType type = *parse_dtype("BF16");
//   dtype_bits(type);                        // 16
//   bf16_to_f32(0x3f80);                     // 1.0f
//
// Thread safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace musacoder::llm {

// In the order in which safetensors' writer sorts tensors (ascending alignment), so that the enumerators compare like it.
enum class DType {
  kBool, kF4, kF6E2M3, kF6E3M2, kU8, kI8, kF8E5M2, kF8E4M3, kF8E8M0, kF8E4M3Fnuz, kF8E5M2Fnuz, kI16, kU16, kF16, kBF16,
  kI32, kU32, kF32, kC64, kF64, kI64, kU64,
};

const char* dtype_name(DType type);
std::optional<DType> parse_dtype(std::string_view name);
// Bits of one element: 4 and 6 for the packed types, else a multiple of 8.
unsigned dtype_bits(DType type);

// Bytes of `elements` elements; nullopt when they do not fill whole bytes or the product overflows.
std::optional<std::uint64_t> dtype_bytes(DType type, std::uint64_t elements);

float f16_to_f32(std::uint16_t half);
inline float bf16_to_f32(std::uint16_t brain) { return std::bit_cast<float>(std::uint32_t{brain} << 16); }
// Rounds to nearest, ties to even; a NaN stays one.
std::uint16_t f32_to_bf16(float value);

}  // namespace musacoder::llm
