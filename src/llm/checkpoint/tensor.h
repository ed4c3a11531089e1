// A tensor in a file: name, type, shape and where its bytes lie. No numbers are touched and nothing is copied.
//
//   const TensorView* norm = checkpoint.find("model.norm.weight");
//   norm->shape;            // {576}
//   norm->bytes;            // into the mapped file, row-major, little endian
//
// For a library that wants a pointer (torch::from_blob): `bytes.data()` is valid while `owner` is held, is read only, and
// `aligned()` says whether it is a multiple of the element's size. Files of today's writers always are; the format does
// not promise it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/checkpoint/dtype.h"

namespace musacoder::llm {

using Shape = std::vector<std::int64_t>;

struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;                        // empty: a scalar
  std::string_view bytes;
  std::uint64_t offset = 0;           // of `bytes` in its file
  std::shared_ptr<const void> owner;  // keeps the mapping alive

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t d : shape) n *= d;
    return n;
  }
  bool aligned() const {
    const std::uintptr_t size = dtype_bits(dtype) / 8;
    return size < 2 || reinterpret_cast<std::uintptr_t>(bytes.data()) % size == 0;
  }
};

// "[576, 1536]"
std::string shape_text(const Shape& shape);
// Product of the dimensions; nullopt when one is negative or the product does not fit int64.
std::optional<std::int64_t> element_count(const Shape& shape);

}  // namespace musacoder::llm
