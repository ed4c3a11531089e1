#include "device/cuda/cuda_device.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/json_lines.h"
#include "device/cuda/nvml.h"
#include "device/cuda/report.h"

namespace musacoder::device {
namespace {

using base::Deadline;
using nlohmann::json;

std::atomic<int> live_sessions{0};   // each with a context of its own on the GPU

class CudaSession : public Session {
 public:
  CudaSession(base::Fd judge, base::Fd client, const CudaSessionOptions& options)
      : fd_(judge.get()), channel_(std::move(judge)), client_(std::move(client)), options_(options) {
    ++live_sessions;
  }
  ~CudaSession() override { --live_sessions; }

  int take_client_fd() override { return client_.release(); }
  Result<Address> allocate(std::uint64_t, std::string) override { return no_memory(); }
  Status free(Address) override { return no_memory(); }
  Status write(Address, std::span<const std::byte>) override { return no_memory(); }
  Status read(Address, std::span<std::byte>) override { return no_memory(); }
  Result<vgpu::AllocationInfo> find(Address) override { return no_memory(); }

  Result<WindowReport> begin_window(const WindowOptions& options) override {
    return report({{"op", "begin"}, {"trial", options.trial}, {"flags", {"kernels"}}});
  }
  Result<WindowReport> end_window() override { return report({{"op", "end"}}); }
  Result<WindowReport> outside() override { return report({{"op", "outside"}}); }

  Result<std::optional<Fault>> last_fault() override {
    auto reply = ask({{"op", "fault"}});
    if (!reply) return tl::unexpected<Error>(reply.error());
    std::optional<Fault> fault;
    if (auto status = read_fault(*reply, fault); !status) return misuse(status.error().message);
    return fault;
  }

  Status quiet(bool on) override {
    auto reply = ask({{"op", "quiet"}, {"on", on}});
    if (!reply) return tl::unexpected<Error>(reply.error());
    return ok();
  }

  void kill() override {
    killed_ = true;
    ::shutdown(fd_,
               SHUT_RDWR);  // wakes whoever waits for an answer; the descriptor lives as long as the session
  }

 private:
  static tl::unexpected<Error> no_memory() {
    return fail(Code::kUnsupported, "on real hardware the memory belongs to the reference runner");
  }

  // From here on the peer is not spoken to any more.
  tl::unexpected<Error> misuse(const std::string& what) {
    misuse_ = what;
    ::shutdown(fd_, SHUT_RDWR);
    return fail(Code::kInvalidArgument, "the ledger's connection was misused: {}", what);
  }

  Result<json> exchange(const json& request, double seconds) {
    const Deadline deadline = Deadline::in(seconds);
    if (auto sent = channel_.write(request, deadline); !sent) {
      broken_ = sent.error();
      return tl::unexpected<Error>(sent.error());
    }
    auto reply = channel_.read(deadline);
    if (!reply) {
      const Error& error = reply.error();
      if (error.code == Code::kResourceExhausted || error.code == Code::kInvalidArgument)
        return misuse(error.message);
      // An answer that comes late would be taken for that of the next question.
      broken_ = error;
      return tl::unexpected<Error>(error);
    }
    const bool* good = nullptr;
    if (reply->is_object())
      if (auto it = reply->find("ok"); it != reply->end()) good = it->get_ptr<const bool*>();
    if (!good) return misuse("an answer without \"ok\"");
    if (!*good) {
      std::string message = "no reason given";
      if (auto it = reply->find("message"); it != reply->end() && it->is_string())
        message = printable(it->get_ref<const std::string&>());
      return fail(Code::kUnavailable, "the ledger refuses '{}': {}", request.value("op", ""), message);
    }
    return reply;
  }

  Result<json> ask(const json& request) {
    if (killed_) return fail(Code::kUnavailable, "the session was ended");
    if (!misuse_.empty()) return misuse(misuse_);
    if (broken_) return tl::unexpected<Error>(*broken_);
    if (!greeted_) {
      MC_ASSIGN_OR_RETURN(json reply, exchange({{"op", "hello"}, {"version", 1}}, options_.hello_seconds));
      if (auto status = check_hello(reply); !status) return misuse(status.error().message);
      greeted_ = true;
    }
    return exchange(request, options_.answer_seconds);
  }

  Result<WindowReport> report(const json& request) {
    auto reply = ask(request);
    WindowReport out;
    if (!reply) {
      if (misuse_.empty()) return tl::unexpected<Error>(reply.error());
      out.protocol_error = misuse_;
      return out;
    }
    bool canary = false;
    if (auto status = read_report(*reply, out, canary); !status) {
      static_cast<void>(misuse(status.error().message));
      WindowReport nothing;
      nothing.protocol_error = misuse_;
      return nothing;
    }
    // A fault silences CUPTI too, and is the candidate's; silence without one is ours.
    auto fault = last_fault();
    if (!fault) {
      if (misuse_.empty()) return tl::unexpected<Error>(fault.error());
      out.protocol_error = misuse_;
      return out;
    }
    if (*fault && !fault_reported_) {
      out.fault = *fault;
      fault_reported_ = true;
    }
    if (!canary && !*fault)
      return fail(Code::kUnavailable,
                  "{} is silent in the candidate's process: its records do not arrive, so nothing can be "
                  "said about launches; set MUSACODER_LEDGER_LOG=1 for its remarks",
                  options_.profiler);
    return out;
  }

  const int fd_;
  base::JsonLines channel_;
  base::Fd client_;
  CudaSessionOptions options_;
  std::atomic<bool> killed_{false};
  bool greeted_ = false, fault_reported_ = false;
  std::optional<Error> broken_;
  std::string misuse_;
};

class CudaDevice : public Device {
 public:
  CudaDevice(GpuInfo gpu, std::string nvml_path) : gpu_(std::move(gpu)), nvml_path_(std::move(nvml_path)) {}
  std::string name() const override { return "cuda"; }
  std::string gpu() const override { return gpu_.name; }
  Capabilities capabilities() const override {
    return {.real_hardware = true,
            .measures_time = true,
            .ledger = true,
            .names_faults = false,
            .scales_shapes = false};
  }
  std::string architecture() const override {
    std::string digits;
    for (char c : gpu_.capability)
      if (c != '.') digits += c;
    return digits;
  }
  RunnerNeeds needs() const override {
    RunnerNeeds needs;
    needs.torch_device = "torch_cuda";
    std::error_code error;
    for (const char* folder : {"/dev", "/dev/nvidia-caps"})
      for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        if (it->path().filename().string().starts_with("nvidia") && it->is_character_file(error)) needs.device_nodes.push_back(it->path());
    // Where the driver's and torch's libraries may lie; the driver's settings.
    if (const char* paths = std::getenv("LD_LIBRARY_PATH")) {
      std::istringstream in(paths);
      for (std::string path; std::getline(in, path, ':');)
        if (path.size() > 1 && path[0] == '/') needs.readable.push_back(path);
    }
    needs.readable.push_back("/etc/nvidia");
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
      if (const char* value = std::getenv(name)) needs.environment[name] = value;
    needs.environment["CUDA_MODULE_LOADING"] = "LAZY";
    needs.environment["CUDA_CACHE_DISABLE"] = "1";   // nothing of one candidate serves the next
    return needs;
  }
  GpuState state() override {
    GpuState state;
    if (!nvml_) {
      if (auto opened = Nvml::open(nvml_path_)) nvml_ = std::move(*opened);
      else return state;
    }
    auto sample = nvml_->sample(gpu_.index);
    if (!sample) return state;
    state.sm_mhz = static_cast<int>(sample->sm_mhz);
    state.memory_mhz = static_cast<int>(sample->memory_mhz);
    state.celsius = static_cast<int>(sample->temperature_c);
    state.watts = sample->power_w;
    state.throttle = sample->throttle;
    const pid_t judge = ::getpid();
    state.others = other_processes(sample->processes, [&](pid_t pid) { return is_below(pid, judge); }, 1 + live_sessions);
    return state;
  }
  Status probe() override {
    MC_ASSIGN_OR_RETURN(GpuInfo now, gpu_probe(nvml_path_));
    if (now.uuid != gpu_.uuid)
      return fail(Code::kUnavailable, "{} ({}) is gone; {} ({}) answers instead", gpu_.name, gpu_.uuid,
                  now.name, now.uuid);
    return ok();
  }
  Result<std::unique_ptr<Session>> start_session(const SessionLimits& limits) override {
    MC_ASSIGN_OR_RETURN(auto pair, base::socket_pair());
    CudaSessionOptions options;
    options.answer_seconds = limits.max_launch_seconds + 15;  // the canary waits 10 s for a busy GPU
    return make_cuda_session(std::move(pair.first), std::move(pair.second), options);
  }

 private:
  GpuInfo gpu_;
  std::string nvml_path_;
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace

std::unique_ptr<Session> make_cuda_session(base::Fd judge, base::Fd client,
                                           const CudaSessionOptions& options) {
  return std::make_unique<CudaSession>(std::move(judge), std::move(client), options);
}

Result<std::unique_ptr<Device>> make_cuda_device(const DeviceConfig& config, const std::string& nvml_path) {
  auto gpu = gpu_probe(nvml_path);
  if (!gpu)
    return fail(
        Code::kUnavailable,
        "no GPU for backend cuda: {}; `musacoder doctor` says what is here, and --backend vgpu needs no GPU",
        gpu.error().message);
  const std::string library = config.runtime_dir + "/lib/libmusacoder_ledger.so";
  if (!base::exists(library))
    return fail(Code::kUnavailable,
                "{} is missing: the build found no cupti.h; install torch for CUDA (scripts/setup) or a CUDA "
                "toolkit and build again",
                library);
  return std::make_unique<CudaDevice>(std::move(*gpu), nvml_path);
}

}  // namespace musacoder::device
