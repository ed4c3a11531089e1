// Element types of tensors and the conversion of runs of elements, as torch's cast does it.
//
//   const ElementType* half = element_type(5);                 // torch's number of the type; nullptr: unknown
//   convert_run(*half, to, to_stride, *f32, from, from_stride, n);
//
// Rules: integers wrap; reals become integers by truncation toward zero, NaN becomes 0 and what does not fit saturates at
// 32 and 64 bits and wraps below (torch leaves these undefined; this is what CUDA's conversions do); anything non-zero is
// true, NaN included; complex becomes real by dropping the imaginary part; 16- and 8-bit reals round to nearest even
// through float32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace musacoder::vgpu {

struct Scalar {
  enum Kind : std::int32_t { kInt = 0, kUint = 1, kReal = 2, kComplex = 3 };
  std::int32_t kind = kInt;
  std::int64_t integer = 0;
  double real = 0, imag = 0;
};

struct ElementType;
const ElementType* element_type(std::int32_t torch_number);
std::uint32_t element_bytes(const ElementType& type);

// n elements; strides in bytes. The runs must not overlap.
void convert_run(const ElementType& to_type, std::byte* to, std::ptrdiff_t to_stride, const ElementType& from_type,
                 const std::byte* from, std::ptrdiff_t from_stride, std::size_t n);

// Writes one element of the type (at most 16 bytes) made from a scalar.
void convert_scalar(const ElementType& type, std::byte* to, const Scalar& value);

}  // namespace musacoder::vgpu
