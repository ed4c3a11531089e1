// The one connection of this process to its virtual GPU, shared by the CUDA runtime functions and the mcv_* interface.
//
//   std::string head;
//   if (auto error = call(Op::kMalloc, fields, {.head = &head}); error != cudaSuccess) return error;
//
// Thread safe. A forked child is disconnected.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "vgpu/server/protocol.h"

namespace musacoder::cudart {

using vgpu::protocol::Op;
using vgpu::protocol::Reader;
using vgpu::protocol::Writer;

struct Transfer {
  std::string* head = nullptr;         // fields of the reply
  const void* payload = nullptr;       // sent behind the request
  std::uint64_t payload_bytes = 0;
  void* into = nullptr;                // takes the reply's payload, which must have into_bytes
  std::uint64_t into_bytes = 0;
  std::string* text = nullptr;         // or takes a payload of any length
};

// One request and its reply. Sets last_text() on failure; does not touch the CUDA last error.
cudaError_t call(Op op, const Writer& fields, const Transfer& transfer = {});
int connect_to(int fd);
bool connected();
// Changes with every connect and fork: what was cached from an earlier server is void.
std::uint64_t generation();

// The CUDA last error of this thread. record() keeps a failure and returns its argument.
cudaError_t record(cudaError_t error);
cudaError_t take_last_error();
cudaError_t peek_last_error();

// Text of this thread's last failure.
const char* last_text();
cudaError_t explain(cudaError_t error, std::string text);  // sets the text, returns record(error)

// True when the server says that a judged call is going on.
bool report(std::string_view kind, std::string_view text);
// Books "cuda:<function>" as unsupported and returns cudaErrorNotSupported.
cudaError_t unsupported(const char* function);
int unsupported_by_name(const char* function);
// Books a call of a vendor library.
void vendor_call(const char* library, const char* function);
// Writes what device printf has produced to stdout.
void print_device_output();

inline bool is_device(std::uint64_t address) {
  return address >= vgpu::protocol::kDeviceBegin && address < vgpu::protocol::kDeviceEnd;
}
inline bool is_device(const void* p) { return is_device(reinterpret_cast<std::uint64_t>(p)); }

struct Properties {
  std::string name;
  int compute_major = 0, compute_minor = 0, sm_count = 0, warp_size = 32, max_threads_per_block = 0, max_threads_per_sm = 0,
      registers_per_block = 0, clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
  std::uint64_t shared_bytes_per_block = 0, shared_bytes_per_block_optin = 0, shared_bytes_per_sm = 0, memory_bytes = 0,
                l2_bytes = 0, memory_free_bytes = 0;
};
cudaError_t fetch_properties(Properties* properties);   // asks once a connection

}  // namespace musacoder::cudart
