// ggml's tensor types: block sizes of all of them, and float32 values of those that are read here.
//
//   GgmlBlock block = *ggml_block(GgmlType::kQ4K);          // 256 elements in 144 bytes
//   dequantize_blocks(GgmlType::kQ4K, bytes, out);          // bytes: whole blocks
//
// The layouts are those of ggml (https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h); results are, to the bit,
// those of PyPI gguf's quants.py. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace musacoder::llm {

enum class GgmlType : std::uint32_t {
  kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ5_0 = 6, kQ5_1 = 7, kQ8_0 = 8, kQ2K = 10, kQ3K = 11, kQ4K = 12, kQ5K = 13,
  kQ6K = 14, kQ8K = 15, kIq2Xxs = 16, kIq2Xs = 17, kIq3Xxs = 18, kIq1S = 19, kIq4Nl = 20, kIq3S = 21, kIq2S = 22, kIq4Xs = 23,
  kI8 = 24, kI16 = 25, kI32 = 26, kI64 = 27, kF64 = 28, kIq1M = 29, kBF16 = 30, kTq1_0 = 34, kTq2_0 = 35, kMxfp4 = 39,
};

struct GgmlBlock {
  const char* name;           // as ggml writes it, e.g. "Q4_K"
  std::uint32_t elements, bytes;
  bool readable;              // dequantize_blocks() takes it
};
// nullopt: no type of this number is known in files (Q8_1 is llama.cpp's own intermediate).
std::optional<GgmlBlock> ggml_block(GgmlType type);

// Readable: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K. False: another type, or not whole blocks.
bool dequantize_blocks(GgmlType type, std::string_view bytes, float* out);

}  // namespace musacoder::llm
