#include "device/musa/musa_device.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "base/files.h"
#include "base/json_lines.h"
#include "build/mcc.h"
#include "device/cuda/cuda_device.h"
#include "device/musa/mtml.h"

namespace musacoder::device {
namespace {

class MusaDevice : public Device {
 public:
  MusaDevice(MusaGpu gpu, build::MusaToolkit toolkit, std::string mtml_path)
      : gpu_(std::move(gpu)), toolkit_(std::move(toolkit)), mtml_path_(std::move(mtml_path)) {}
  std::string name() const override { return "musa"; }
  std::string gpu() const override { return gpu_.name; }
  std::string dialect() const override { return "musa"; }
  int warp_size() const override { return gpu_.warp_size; }
  Capabilities capabilities() const override {
    return {.real_hardware = true, .measures_time = true, .ledger = true, .names_faults = false, .scales_shapes = false};
  }
  std::string architecture() const override { return gpu_.architecture; }
  RunnerNeeds needs() const override {
    RunnerNeeds needs;
    needs.torch_device = "torch_musa_gpu";
    std::error_code error;
    for (const char* folder : {"/dev", "/dev/dri"})
      for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        const std::string file = it->path().filename();
        if ((file.starts_with("mtgpu") || file.starts_with("mthreads") || file.starts_with("renderD")) && it->is_character_file(error))
          needs.device_nodes.push_back(it->path());
      }
    if (!toolkit_.home.empty()) needs.readable.push_back(toolkit_.home);
    if (const char* paths = std::getenv("LD_LIBRARY_PATH")) {
      std::istringstream in(paths);
      for (std::string path; std::getline(in, path, ':');)
        if (path.size() > 1 && path[0] == '/') needs.readable.push_back(path);
    }
    for (const char* name : {"MUSA_VISIBLE_DEVICES", "MTHREADS_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "MUSACODER_MUPTI"})
      if (const char* value = std::getenv(name)) needs.environment[name] = value;
    needs.environment["MUSA_HOME"] = toolkit_.home;
    needs.environment["MUSACODER_LEDGER_VENDOR"] = "musa";
    return needs;
  }
  GpuState state() override {
    GpuState state;
    if (!mtml_) {
      auto opened = Mtml::open(mtml_path_);
      if (!opened) return state;
      mtml_ = std::move(*opened);
    }
    auto sample = mtml_->sample(gpu_.index);
    if (!sample) return state;
    state.sm_mhz = static_cast<int>(sample->sm_mhz);
    state.memory_mhz = static_cast<int>(sample->memory_mhz);
    state.celsius = static_cast<int>(sample->temperature_c);
    state.watts = sample->power_w;
    return state;
  }
  Status probe() override {
    MC_ASSIGN_OR_RETURN(MusaGpu now, musa_probe(mtml_path_));
    if (now.uuid != gpu_.uuid)
      return fail(Code::kUnavailable, "{} ({}) is gone; {} ({}) answers instead", gpu_.name, gpu_.uuid, now.name, now.uuid);
    return ok();
  }
  Result<std::unique_ptr<Session>> start_session(const SessionLimits& limits) override {
    MC_ASSIGN_OR_RETURN(auto pair, base::socket_pair());
    CudaSessionOptions options;
    options.answer_seconds = limits.max_launch_seconds + 15;  // the canary waits 10 s for a busy GPU
    options.profiler = "MUPTI";
    return make_cuda_session(std::move(pair.first), std::move(pair.second), options);
  }

 private:
  MusaGpu gpu_;
  build::MusaToolkit toolkit_;
  std::string mtml_path_;
  std::unique_ptr<Mtml> mtml_;
};

}  // namespace

Result<std::unique_ptr<Device>> make_musa_device(const DeviceConfig& config, const std::string& mtml_path) {
  auto gpu = musa_probe(mtml_path);
  if (!gpu)
    return fail(Code::kUnavailable, "no GPU for backend musa: {}; `musacoder doctor` says what is here, and --backend vgpu needs no GPU",
                gpu.error().message);
  build::MusaToolkit toolkit = build::find_musa_toolkit();
  if (toolkit.mcc.empty())
    return fail(Code::kUnavailable, "no MUSA compiler: there is no bin/mcc in $MUSA_HOME, $MUSA_PATH, PATH or /usr/local/musa; install the MUSA toolkit");
  for (const char* library : {"libmusacoder_ledger.so", "libmusacoder_torch_musa.so"})
    if (!base::exists(config.runtime_dir + "/lib/" + library))
      return fail(Code::kUnavailable, "{}/lib/{} is missing; build the project where torch is installed (scripts/setup)", config.runtime_dir, library);
  return std::make_unique<MusaDevice>(std::move(*gpu), std::move(toolkit), mtml_path);
}

}  // namespace musacoder::device
