// The judge's side of musacoder-vgpud: starts one server per candidate and speaks its privileged socket.
//
//   MC_ASSIGN_OR_RETURN(auto gpu, ControlClient::start(runtime_dir + "/bin/musacoder-vgpud", {.gpu = "h200"}));
//   int client = gpu->take_client_fd();            // hand this descriptor to the candidate's runner
//   auto x = gpu->allocate(bytes, "input 0 float32[64,64]");
//   gpu->write(*x, data);
//   gpu->begin_window({.trial = 0});
//   ... the candidate runs ...
//   WindowReport report = *gpu->end_window();
//
// Thread safety: one caller at a time. The server serves the control socket also while a launch is running
// (end_window waits for it; kill() does not).
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "vgpu/device.h"

namespace musacoder::vgpu {

struct ServerOptions {
  std::string gpu = "h200";
  int threads = 1;
  std::uint64_t memory_bytes = 8ull << 30;
  std::uint64_t max_warp_instructions = 0;  // per launch
  double max_seconds = 0;                   // per launch
};

struct WindowOptions {
  int trial = 0;
  bool reverse_blocks = false;
  std::uint8_t poison = 0xA5;               // pattern of memory that is allocated inside this window
};

struct LaunchRecord {
  std::string kernel;                       // demangled
  std::string module;                       // label of the shared object it came from
  Dim3 grid, block;
  std::uint64_t count = 0, warp_instructions = 0;
  Counters counters;                        // summed over count
  // What only hardware tells. origin: whose kernel it is, "own", "framework", "vendor", "jit" or "unknown"; "" on the
  // virtual GPU, where every kernel is the candidate's.
  std::string origin;
  std::uint64_t nanoseconds = 0;            // GPU time, summed over count
  bool graph = false;                       // ran as a node of a CUDA graph
};
struct VendorCall {
  std::string library, function;            // "cublas", "cublasSgemm_v2"
  std::uint64_t count = 0;
  bool by_torch = false;                    // hardware: torch called the library, not the candidate's own code
};

// The ledger of one window: what the device saw between begin_window and end_window.
struct WindowReport {
  std::vector<LaunchRecord> launches;       // grouped by kernel, grid, block
  std::vector<VendorCall> vendor_calls;
  std::vector<std::string> refused_ops;     // operators that the torch device refused (strict) or ran on the CPU (report)
  std::uint64_t h2d_bytes = 0, d2h_bytes = 0, d2d_bytes = 0, memset_bytes = 0;
  std::uint64_t h2d_after_d2h_bytes = 0;    // host→device bytes sent after more than 16 bytes had been read back: host work
  std::uint64_t creation_bytes = 0;         // host→device bytes of torch creation operators (arange, randn, …)
  std::optional<Fault> fault;               // the first
  std::string unread_launch_error;          // a launch error the candidate never asked for
  std::string printf_output;
  double launch_seconds = 0;                // wall clock inside launches
  std::vector<std::string> unsupported;     // CUDA features asked for that the virtual GPU lacks: "cuda:cudaMallocManaged"
  std::string protocol_error;               // a frame that no honest client sends, which ended the client's connection
  // What only hardware tells.
  std::uint64_t threads = 0;                // host threads that launched
  std::uint64_t dropped = 0;                // records that were lost: above 0 the report is incomplete
  std::uint64_t internal = 0;               // launches, copies and fills of the runner itself
  std::uint64_t allocated_bytes = 0;        // of device memory that the candidate's own code allocated, torch's pool apart
  std::uint64_t retained_bytes = 0;         // of that and earlier such memory, what was still there at the end
};

class ControlClient {
 public:
  static Result<std::unique_ptr<ControlClient>> start(const std::string& server_path, const ServerOptions& options);
  ~ControlClient();                         // kills and reaps the server

  int take_client_fd();                     // once; the caller owns and closes it
  pid_t pid() const;

  Result<DevicePtr> allocate(std::uint64_t bytes, std::string label);
  Status free(DevicePtr address);
  Status write(DevicePtr to, std::span<const std::byte> bytes);
  Status read(DevicePtr from, std::span<std::byte> bytes);
  Result<AllocationInfo> find(DevicePtr address);
  // Opens a window; returns what the device saw since the last window ended or outside() was asked.
  Result<WindowReport> begin_window(const WindowOptions& options);
  Result<WindowReport> end_window();
  Result<WindowReport> outside();              // what begin_window would return, without opening one; empty inside one
  Result<std::optional<Fault>> last_fault();   // sticky, also outside windows
  void kill();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit ControlClient(std::unique_ptr<Impl> impl);
};

}  // namespace musacoder::vgpu
