// What the judge sees of a place where candidates run. One folder a backend: vgpu/ (a GPU in software), cuda/ (NVIDIA
// hardware), musa/ (Moore Threads hardware).
//
//   MC_ASSIGN_OR_RETURN(auto device, make_vgpu_device({.runtime_dir = rt}));
//   MC_ASSIGN_OR_RETURN(auto session, device->start_session(limits));     // one candidate
//   int fd = session->take_client_fd();                                   // goes to the candidate's runner
//
// To add a backend: implement Device and Session in src/device/<name>/, and name it in make_device (device.cpp).
// A simple example is vgpu/; a backend that measures time sets Capabilities::measures_time and fills timings in the
// judge's level L4; one that cannot see launches must leave Capabilities::ledger false, and legality is then not decided.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "vgpu/server/control.h"

namespace musacoder::device {

using Address = std::uint64_t;
using WindowOptions = vgpu::WindowOptions;
using WindowReport = vgpu::WindowReport;
using Fault = vgpu::Fault;

struct Capabilities {
  bool real_hardware = false;   // results and times are those of a physical GPU
  bool measures_time = false;   // level L4 can run
  bool ledger = false;          // every launch and copy is seen by the trusted side
  bool names_faults = false;    // faults carry kernel, thread, tensor, line
  bool scales_shapes = false;   // tasks are scaled down before they run here
};

// A GPU's state beside a measurement.
struct GpuState {
  int sm_mhz = 0, memory_mhz = 0, celsius = 0;
  double watts = 0;
  std::vector<std::string> throttle;   // reasons in force
  int others = -1;                     // processes on the GPU that are not ours; -1 where nobody can tell
};

struct SessionLimits {
  std::uint64_t memory_bytes = 4ull << 30;
  std::uint64_t max_warp_instructions = 400'000'000;  // one launch
  double max_launch_seconds = 20;                     // one launch, time without a core left out
  int threads = 1;                                    // host threads for blocks
};

// One candidate's share of the device. Everything here is the trusted side; the candidate holds only the client descriptor.
class Session {
 public:
  virtual ~Session() = default;
  virtual int take_client_fd() = 0;   // once; the caller closes it
  virtual pid_t server() const { return -1; }   // the process that executes kernels, where they run on the CPU
  virtual Result<Address> allocate(std::uint64_t bytes, std::string label) = 0;
  virtual Status free(Address address) = 0;
  virtual Status write(Address to, std::span<const std::byte> bytes) = 0;
  virtual Status read(Address from, std::span<std::byte> bytes) = 0;
  virtual Result<vgpu::AllocationInfo> find(Address address) = 0;
  // A window is what is judged; begin_window returns what the device did before it, since the last end_window or outside().
  virtual Result<WindowReport> begin_window(const WindowOptions& options) = 0;
  virtual Result<WindowReport> end_window() = 0;
  virtual Result<WindowReport> outside() = 0;   // the same without opening a window; empty inside one
  virtual Result<std::optional<Fault>> last_fault() = 0;
  // on: the ledger rests, so that timed calls do not pay for it; no window may be opened until it is off again.
  virtual Status quiet(bool on) {
    static_cast<void>(on);
    return fail(Code::kUnsupported, "this backend's ledger never rests");
  }
  virtual void kill() = 0;
};

// What a candidate's process needs of the machine to reach the device.
struct RunnerNeeds {
  std::string torch_device = "torch_device";           // Python module of runtime/python
  std::vector<std::string> device_nodes, readable;     // of the sandbox
  std::map<std::string, std::string> environment;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;    // "vgpu"
  virtual std::string gpu() const = 0;     // presented model: "h200"
  virtual std::string dialect() const { return "cuda"; }   // whose kernels run here, where it is one vendor's only; vgpu runs both
  virtual int warp_size() const { return 32; }
  virtual Capabilities capabilities() const = 0;
  virtual Status probe() = 0;              // can a session start now?
  virtual GpuState state() { return {}; }  // real hardware
  virtual RunnerNeeds needs() const { return {}; }
  virtual std::string architecture() const { return ""; }   // real hardware: "90" of NVIDIA's, "mp_31" of Moore Threads'
  virtual Result<std::unique_ptr<Session>> start_session(const SessionLimits& limits) = 0;
};

struct DeviceConfig {
  std::string backend = "vgpu";   // vgpu, cuda or musa
  std::string gpu = "h200";
  std::string runtime_dir;
};
Result<std::unique_ptr<Device>> make_device(const DeviceConfig& config);

}  // namespace musacoder::device
