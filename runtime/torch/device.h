// The virtual GPU as a torch device: allocator, guard and operators of torch's PrivateUse1 backend.
//
// Device memory lies in another process; a tensor's data pointer is an address there. What the device does itself is
// creation, copy, cast, fill and views; every other operator is judged by policy.h and, where it may run, runs on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace musacoder::device {

// A tensor over existing device memory, which it does not own.
at::Tensor wrap(std::uint64_t address, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);
// Address of the element (0, …, 0).
std::uint64_t address_of(const at::Tensor& tensor);
// Throws what the device last complained of.
[[noreturn]] void throw_device_error(const char* what);

}  // namespace musacoder::device
