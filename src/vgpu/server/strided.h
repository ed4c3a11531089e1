// Copy and fill of strided tensors in device memory: what torch's copy_ and fill_ need.
//
//   MC_ASSIGN_OR_RETURN(std::uint64_t bytes, copy_strided(view, to, from));
//
// Descriptions come from the client and are hostile: every product is checked for overflow, every reach against the
// allocation it starts in.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "vgpu/server/elements.h"

namespace musacoder::vgpu {

struct StridedTensor {
  std::uint64_t address = 0;                 // of element (0, …, 0)
  std::int32_t dtype = 0;                    // torch's number
  std::int32_t ndim = 0;                     // 0 … 16
  std::array<std::int64_t, 16> sizes{}, strides{};  // in elements; strides ≥ 0
};

// Host view of device bytes, or an error when they do not lie in one live allocation (Device::view).
using ViewBytes = std::function<Result<std::span<std::byte>>(std::uint64_t address, std::uint64_t bytes)>;

// Converts element by element. The number of destination bytes written. kInvalidArgument: unknown type, sizes differ,
// negative stride, destination that overlaps itself, or memory out of bounds.
Result<std::uint64_t> copy_strided(const ViewBytes& view, const StridedTensor& to, const StridedTensor& from);
Result<std::uint64_t> fill_strided(const ViewBytes& view, const StridedTensor& to, const Scalar& value);

}  // namespace musacoder::vgpu
