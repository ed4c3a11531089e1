// The device below this library, behind one interface with two implementations: the virtual GPU (device.cpp: a torch backend
// of its own, PrivateUse1) and a real one (cuda.cpp: torch's CUDA). The build defines MUSACODER_HARDWARE for the second.
//
// On the virtual GPU, device memory lies in another process; a tensor's data pointer is an address there. What that device
// does itself is creation, copy, cast, fill and views; every other operator is judged by policy.h and, where it may run,
// runs on the CPU. On a real one operators run where they always do, and policy.h looks on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace musacoder::device {

#if defined(MUSACODER_HARDWARE) && !defined(MUSACODER_HARDWARE_MUSA)
inline constexpr at::DeviceType kDeviceType = at::DeviceType::CUDA;
inline constexpr c10::DispatchKey kDispatchKey = c10::DispatchKey::CUDA;
#else   // the virtual GPU, torch_musa
inline constexpr at::DeviceType kDeviceType = at::DeviceType::PrivateUse1;
inline constexpr c10::DispatchKey kDispatchKey = c10::DispatchKey::PrivateUse1;
#endif

// A tensor over existing device memory, which it does not own.
at::Tensor wrap(std::uint64_t address, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);
// Address of the element (0, …, 0).
std::uint64_t address_of(const at::Tensor& tensor);
// torch's current stream, as a cudaStream_t.
void* current_stream();
// Throws what the device last complained of.
[[noreturn]] void throw_device_error(const char* what);

// Books a fact in the ledger ("refused", "booked", "unsupported"; a name). Whether a judged call is going on.
bool report(const char* kind, const char* name);
void connect(int fd);
bool connected();
void synchronize();
std::string device_error();
// Name, then the figures in the order that torch_device.py gives them.
std::tuple<std::string, std::vector<std::int64_t>> properties();
#ifdef MUSACODER_HARDWARE
// Where report() leads: mcl_note of the ledger library. Once.
void set_note(std::int64_t function);
#endif

}  // namespace musacoder::device
