// f16 and bf16 one value at a time, for the instructions outside the vector engine.
#pragma once

#include <bit>
#include <cstdint>

namespace musacoder::vgpu::exec {

inline float half_value(std::uint16_t h) {
  std::uint32_t sign = std::uint32_t(h & 0x8000u) << 16, m = h & 0x7fffu;
  std::uint32_t bits;
  if (m < 0x400u) bits = std::bit_cast<std::uint32_t>(float(m) * 5.9604644775390625e-08f);  // 2^-24
  else if (m >= 0x7c00u) bits = (m << 13) | 0x7f800000u;
  else bits = (m << 13) + 0x38000000u;
  return std::bit_cast<float>(sign | bits);
}
// Round to nearest even; NaN to 0x7fff.
inline std::uint16_t half_bits(float x) {
  std::uint32_t b = std::bit_cast<std::uint32_t>(x), sign = b >> 16 & 0x8000u, m = b & 0x7fffffffu;
  if (m > 0x7f800000u) return 0x7fff;
  if (m >= 0x477ff000u) return std::uint16_t(sign | 0x7c00u);
  if (m < 0x38800000u)
    return std::uint16_t(sign | (std::bit_cast<std::uint32_t>(std::bit_cast<float>(m) + 0.5f) - 0x3f000000u));
  return std::uint16_t(sign | ((m - 0x38000000u + 0xfffu + (m >> 13 & 1u)) >> 13));
}
inline float bf16_value(std::uint16_t h) { return std::bit_cast<float>(std::uint32_t(h) << 16); }
inline std::uint16_t bf16_bits(float x) {
  std::uint32_t b = std::bit_cast<std::uint32_t>(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return std::uint16_t((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}

}  // namespace musacoder::vgpu::exec
