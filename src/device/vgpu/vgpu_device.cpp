#include "device/vgpu/vgpu_device.h"

#include <unistd.h>

#include <utility>

namespace musacoder::device {
namespace {

class VgpuSession : public Session {
 public:
  explicit VgpuSession(std::unique_ptr<vgpu::ControlClient> control) : control_(std::move(control)) {}
  int take_client_fd() override { return control_->take_client_fd(); }
  pid_t server() const override { return control_->pid(); }
  Result<Address> allocate(std::uint64_t bytes, std::string label) override {
    return control_->allocate(bytes, std::move(label));
  }
  Status free(Address address) override { return control_->free(address); }
  Status write(Address to, std::span<const std::byte> bytes) override { return control_->write(to, bytes); }
  Status read(Address from, std::span<std::byte> bytes) override { return control_->read(from, bytes); }
  Result<vgpu::AllocationInfo> find(Address address) override { return control_->find(address); }
  Result<WindowReport> begin_window(const WindowOptions& options) override { return control_->begin_window(options); }
  Result<WindowReport> end_window() override { return control_->end_window(); }
  Result<WindowReport> outside() override { return control_->outside(); }
  Result<std::optional<Fault>> last_fault() override { return control_->last_fault(); }
  void kill() override { control_->kill(); }

 private:
  std::unique_ptr<vgpu::ControlClient> control_;
};

class VgpuDevice : public Device {
 public:
  VgpuDevice(const vgpu::GpuProperties& gpu, std::string server)
      : gpu_(gpu.name), warp_size_(gpu.warp_size), server_(std::move(server)) {}
  std::string name() const override { return "vgpu"; }
  std::string gpu() const override { return gpu_; }
  int warp_size() const override { return warp_size_; }
  Capabilities capabilities() const override {
    return {.real_hardware = false, .measures_time = false, .ledger = true, .names_faults = true, .scales_shapes = true};
  }
  Status probe() override {
    MC_ASSIGN_OR_RETURN(auto session, start_session({}));
    MC_ASSIGN_OR_RETURN(Address address, session->allocate(16, "probe"));
    return session->free(address);
  }
  Result<std::unique_ptr<Session>> start_session(const SessionLimits& limits) override {
    vgpu::ServerOptions options{.gpu = gpu_,
                                .threads = limits.threads,
                                .memory_bytes = limits.memory_bytes,
                                .max_warp_instructions = limits.max_warp_instructions,
                                .max_seconds = limits.max_launch_seconds};
    MC_ASSIGN_OR_RETURN(auto control, vgpu::ControlClient::start(server_, options));
    return std::make_unique<VgpuSession>(std::move(control));
  }

 private:
  std::string gpu_;
  int warp_size_;
  std::string server_;
};

}  // namespace

Result<std::unique_ptr<Device>> make_vgpu_device(const DeviceConfig& config) {
  MC_ASSIGN_OR_RETURN(auto properties, vgpu::gpu_properties(config.gpu));
  const std::string server = config.runtime_dir + "/bin/musacoder-vgpud";
  if (access(server.c_str(), X_OK) != 0)
    return fail(Code::kNotFound, "{} is missing; build the project or set MUSACODER_RUNTIME", server);
  return std::make_unique<VgpuDevice>(properties, server);
}

}  // namespace musacoder::device
