// The virtual GPU as a C++ object: memory, modules made from PTX, launches, faults, counters.
// No process, socket or torch knowledge; musacoder-vgpud (server/) puts this object behind a socket.
//
//   Device device({.gpu = "h200"});
//   auto module = device.load_module(ptx_text);                        // Result<ModuleId>
//   auto x = device.allocate(n * 4, "input 0 float32[64,64]");         // Result<DevicePtr>
//   device.write(*x, bytes);
//   LaunchOutcome out = device.launch({.module = *module, .kernel = "relu", .grid = {4}, .block = {256},
//                                      .params = param_bytes});
//   if (out.fault) report(*out.fault);
//
// Thread safety: one caller at a time. A launch spreads its blocks over DeviceOptions::threads host threads itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace musacoder::vgpu {

using DevicePtr = std::uint64_t;  // device virtual address; never a valid address in a client's process
using ModuleId = std::uint32_t;

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

struct DeviceOptions {
  std::string gpu = "h200";                    // named device whose limits and properties are presented (gpus.h)
  int threads = 1;                             // host threads that execute blocks
  std::uint64_t memory_bytes = 8ull << 30;     // allocation beyond this is out-of-memory
  std::uint64_t max_warp_instructions = 0;     // per launch; 0 = unlimited; beyond it the launch ends as kTimeout
  double max_seconds = 0;                      // per launch: wall clock, without what its threads waited for cores; 0 = unlimited
};

enum class FaultKind {
  kNone,
  kOutOfBounds,       // illegal_access: address outside every live allocation, or past the end of the one it was derived from
  kMisaligned,        // misaligned
  kUseAfterFree,      // illegal_access
  kInvalidLaunch,     // launch_failure: too many threads, too much shared memory, zero grid, bad arguments, unknown kernel
  kAssert,            // device_assert: __assertfail
  kTrap,              // launch_failure: trap instruction
  kBarrier,           // barrier: divergent or never completed
  kTimeout,           // timeout: instruction or time limit
  kStackOverflow,     // launch_failure: local memory or call depth exhausted
  kUnsupported,       // unsupported:ptx:<instruction>, in Fault::detail
};
const char* fault_kind_name(FaultKind kind);

// Where and why a launch failed; everything that is known is filled in, everything else is empty.
struct Fault {
  FaultKind kind = FaultKind::kNone;
  std::string kernel;                         // demangled
  std::array<std::uint32_t, 3> block{}, thread{};
  bool is_write = false;
  std::string space;                          // global, shared, local, const, param
  DevicePtr address = 0;
  std::uint32_t access_bytes = 0;
  std::string tensor;                         // label of the nearest allocation, e.g. "input 0 float32[64,64]"
  std::uint64_t tensor_bytes = 0;
  std::int64_t offset_bytes = 0;              // of the access from that allocation's start; may be negative or past the end
  std::string file;                           // name of the source file from .loc, without its folder, with the line
  std::uint32_t line = 0;
  std::string detail;                         // assert text, instruction, or limit
  std::string message;                        // one human sentence made of the above
};

struct Counters {                             // sums over a launch
  std::uint64_t warp_instructions = 0, thread_instructions = 0;
  std::uint64_t flops = 0;                    // an FMA counts two
  std::uint64_t global_load_bytes = 0, global_store_bytes = 0;      // requested by active threads
  std::uint64_t shared_accesses = 0, atomics = 0, barriers = 0, divergent_branches = 0;
};

struct LaunchConfig {
  ModuleId module = 0;
  std::string kernel;                         // mangled entry name
  Dim3 grid, block;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> params;              // laid out as PTX .param space; see KernelInfo::params
  bool cooperative = false;
  bool reverse_blocks = false;                // execute blocks (and warps) in reverse order, to expose order dependence
};

struct LaunchOutcome {
  std::optional<Fault> fault;
  Counters counters;
  double seconds = 0;
};

struct ParamInfo {
  std::uint32_t offset = 0, bytes = 0, align = 1;
};
struct KernelInfo {
  std::string name, demangled;
  std::vector<ParamInfo> params;
  std::uint32_t static_shared_bytes = 0, local_bytes = 0, max_threads = 0;
};

struct AllocationInfo {
  DevicePtr address = 0;
  std::uint64_t bytes = 0;
  std::string label;
  std::uint64_t kernel_written_bytes = 0;     // bytes stored by kernels since the last reset_provenance (may count a byte twice)
};

class Device {
 public:
  explicit Device(DeviceOptions options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceOptions& options() const;
  void set_limits(std::uint64_t max_warp_instructions, double max_seconds);

  // Memory. Fresh memory is filled with the current poison pattern. Addresses are 512-byte aligned with unmapped room on
  // both sides, so that any access past either end is found. bytes == 0 gives a unique non-null address of length 0.
  Result<DevicePtr> allocate(std::uint64_t bytes, std::string label);
  Status free(DevicePtr address);             // kInvalidArgument for an address that is not the start of a live allocation
  Status relabel(DevicePtr address, std::string label);
  Status write(DevicePtr to, std::span<const std::byte> bytes);
  Status read(DevicePtr from, std::span<std::byte> bytes) const;
  Status fill(DevicePtr to, std::uint8_t value, std::uint64_t bytes);
  Status copy(DevicePtr to, DevicePtr from, std::uint64_t bytes);
  // Host view of [address, address+bytes) after the same bounds check as read; valid until the allocation is freed.
  Result<std::span<std::byte>> view(DevicePtr address, std::uint64_t bytes);
  void set_poison(std::uint8_t pattern);
  std::optional<AllocationInfo> find(DevicePtr address) const;   // the live allocation that contains address
  std::vector<AllocationInfo> allocations() const;
  std::uint64_t bytes_in_use() const;
  void reset_provenance();

  // Modules: PTX text as nvcc -code=compute_XX embeds it. Unknown instructions do not fail the load; they become
  // kUnsupported when executed.
  Result<ModuleId> load_module(std::string_view ptx);
  Status unload_module(ModuleId module);
  std::vector<KernelInfo> kernels(ModuleId module) const;
  Result<DevicePtr> global_address(ModuleId module, std::string_view name, std::uint64_t* bytes) const;

  LaunchOutcome launch(const LaunchConfig& config);
  std::string take_printf_output();           // what device printf wrote since the last call, at most 1 MiB

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Properties of the GPUs that can be presented, from the vendors' published figures.
enum class Vendor { kNvidia, kMooreThreads };
struct GpuProperties {
  std::string name;             // "h200"
  std::string marketing_name;   // "NVIDIA H200"
  Vendor vendor = Vendor::kNvidia;
  int sm_count = 0, warp_size = 32, max_threads_per_block = 1024, max_threads_per_sm = 2048, compute_major = 9, compute_minor = 0;
  std::uint64_t shared_bytes_per_block = 48 << 10, shared_bytes_per_block_optin = 227 << 10, shared_bytes_per_sm = 228 << 10;
  std::uint64_t memory_bytes = 0, l2_bytes = 0;
  int registers_per_block = 65536, clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
};
Result<GpuProperties> gpu_properties(std::string_view name);   // h200, a100, s5000; s4000 and s80, whose warps of 128 threads are not executed

}  // namespace musacoder::vgpu
