#include "device/cuda/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/files.h"

namespace musacoder::device {

// NVML's interface, as its documentation gives it (https://docs.nvidia.com/deploy/nvml-api/): no header is
// needed to build.
struct Nvml::Api {
  using Device = void*;
  struct Memory {
    unsigned long long total, free, used;
  };
  struct Utilization {
    unsigned gpu, memory;
  };
  struct Process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
  };
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*cuda_version)(int*) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Device*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*capability)(Device, int*, int*) = nullptr;
  int (*clock)(Device, int, unsigned*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*throttle)(Device, unsigned long long*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*processes)(Device, unsigned*, Process*) = nullptr;

  std::string text(int code) const {
    const char* words = error_text ? error_text(code) : nullptr;
    return fmt::format("{} (NVML {})", words ? words : "error", code);
  }
};

namespace {

constexpr int kClockSm = 1, kClockMemory = 2, kInsufficientSize = 7;

template <typename F>
void find(void* library, F& out, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!out) out = reinterpret_cast<F>(::dlsym(library, name));
}

std::vector<std::string> split(std::string text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

}  // namespace

std::vector<std::string> throttle_words(std::uint64_t mask) {
  static constexpr std::pair<std::uint64_t, const char*> kWords[] = {
      {0x2, "applications_clocks"}, {0x4, "sw_power_cap"},    {0x8, "hw_slowdown"},
      {0x10, "sync_boost"},         {0x20, "sw_thermal"},     {0x40, "hw_thermal"},
      {0x80, "hw_power_brake"},     {0x100, "display_clocks"}};
  std::vector<std::string> out;
  mask &= ~std::uint64_t{1};  // idle: the clocks are low because there is nothing to do
  for (const auto& [bit, word] : kWords) {
    if (mask & bit) out.emplace_back(word);
    mask &= ~bit;
  }
  if (mask) out.push_back(fmt::format("{:#x}", mask));
  return out;
}

Nvml::Nvml(std::unique_ptr<Api> api) : api_(std::move(api)) {}

Nvml::~Nvml() {
  if (api_->shutdown) api_->shutdown();
}

Result<std::unique_ptr<Nvml>> Nvml::open(const std::string& path) {
  const char* from_environment = std::getenv("MUSACODER_NVML");
  const std::string file = !path.empty()                           ? path
                           : from_environment && *from_environment ? from_environment
                                                                   : "libnvidia-ml.so.1";
  void* library =
      ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: its threads must not lose their code
  if (!library) return fail(Code::kUnavailable, "no NVIDIA driver ({} is not installed)", file);
  auto api = std::make_unique<Api>();
  find(library, api->init, {"nvmlInit_v2", "nvmlInit"});
  find(library, api->shutdown, {"nvmlShutdown"});
  find(library, api->error_text, {"nvmlErrorString"});
  find(library, api->driver_version, {"nvmlSystemGetDriverVersion"});
  find(library, api->cuda_version, {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  find(library, api->count, {"nvmlDeviceGetCount_v2"});
  find(library, api->by_index, {"nvmlDeviceGetHandleByIndex_v2"});
  find(library, api->name, {"nvmlDeviceGetName"});
  find(library, api->uuid, {"nvmlDeviceGetUUID"});
  find(library, api->memory, {"nvmlDeviceGetMemoryInfo"});
  find(library, api->capability, {"nvmlDeviceGetCudaComputeCapability"});
  find(library, api->clock, {"nvmlDeviceGetClockInfo"});
  find(library, api->temperature, {"nvmlDeviceGetTemperature"});
  find(library, api->power, {"nvmlDeviceGetPowerUsage"});
  find(library, api->throttle,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  find(library, api->utilization, {"nvmlDeviceGetUtilizationRates"});
  find(library, api->processes, {"nvmlDeviceGetComputeRunningProcesses_v3"});
  if (!api->init || !api->shutdown || !api->count || !api->by_index || !api->name || !api->uuid)
    return fail(Code::kUnavailable, "{} lacks functions of NVML; update the NVIDIA driver", file);
  if (const int code = api->init(); code != 0) {
    const std::string text = api->text(code);
    api->shutdown = nullptr;
    return fail(Code::kUnavailable,
                "the NVIDIA driver does not answer: {}; see whether nvidia-smi works here", text);
  }
  return std::unique_ptr<Nvml>(new Nvml(std::move(api)));
}

Result<std::vector<GpuInfo>> Nvml::gpus() {
  unsigned count = 0;
  if (const int code = api_->count(&count); code != 0)
    return fail(Code::kUnavailable, "the GPUs cannot be counted: {}", api_->text(code));
  std::array<char, 128> text{};
  std::string driver, cuda;
  if (api_->driver_version && api_->driver_version(text.data(), text.size() - 1) == 0) driver = text.data();
  if (int version = 0; api_->cuda_version && api_->cuda_version(&version) == 0)
    cuda = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  std::vector<GpuInfo> out;
  for (unsigned i = 0; i < std::min(count, 1024u); ++i) {
    Api::Device device = nullptr;
    if (api_->by_index(i, &device) != 0) continue;  // a GPU that this user may not see
    GpuInfo& gpu = out.emplace_back();
    gpu.index = i;
    gpu.driver = driver;
    gpu.cuda = cuda;
    text.fill(0);
    if (api_->name(device, text.data(), text.size() - 1) == 0) gpu.name = text.data();
    text.fill(0);
    if (api_->uuid(device, text.data(), text.size() - 1) == 0) gpu.uuid = text.data();
    if (Api::Memory memory{}; api_->memory && api_->memory(device, &memory) == 0) {
      gpu.memory_bytes = memory.total;
      gpu.free_bytes = memory.free;
    }
    if (int major = 0, minor = 0; api_->capability && api_->capability(device, &major, &minor) == 0)
      gpu.capability = fmt::format("{}.{}", major, minor);
  }
  return out;
}

Result<GpuSample> Nvml::sample(unsigned index) {
  Api::Device device = nullptr;
  if (const int code = api_->by_index(index, &device); code != 0)
    return fail(Code::kUnavailable, "GPU {} does not answer: {}", index, api_->text(code));
  GpuSample out;
  if (api_->clock) {
    api_->clock(device, kClockSm, &out.sm_mhz);
    api_->clock(device, kClockMemory, &out.memory_mhz);
  }
  if (api_->temperature) api_->temperature(device, 0, &out.temperature_c);
  if (unsigned milliwatts = 0; api_->power && api_->power(device, &milliwatts) == 0)
    out.power_w = milliwatts / 1000.0;
  if (unsigned long long mask = 0; api_->throttle && api_->throttle(device, &mask) == 0)
    out.throttle = throttle_words(mask);
  if (Api::Utilization busy{}; api_->utilization && api_->utilization(device, &busy) == 0) {
    out.busy_percent = busy.gpu;
    out.memory_busy_percent = busy.memory;
  }
  if (api_->processes) {
    std::vector<Api::Process> list(64);
    for (int attempt = 0; attempt < 3; ++attempt) {
      unsigned count = static_cast<unsigned>(list.size());
      const int code = api_->processes(device, &count, list.data());
      if (code == kInsufficientSize && list.size() < 4096) {
        list.resize(list.size() * 8);
        continue;
      }
      if (code != 0) break;
      for (unsigned i = 0; i < std::min<std::size_t>(count, list.size()); ++i)
        out.processes.push_back({static_cast<pid_t>(list[i].pid), list[i].used == ~0ull ? 0 : list[i].used});
      break;
    }
  }
  return out;
}

bool is_below(pid_t pid, pid_t ancestor) {
  for (int depth = 0; depth < 64 && pid > 1; ++depth) {
    if (pid == ancestor) return true;
    auto status = base::read_file(fmt::format("/proc/{}/stat", pid), 4096);
    if (!status) return false;
    const std::size_t name_end = status->rfind(')');   // the name may hold anything
    if (name_end == std::string::npos || name_end + 4 > status->size()) return false;
    pid = static_cast<pid_t>(std::strtol(status->c_str() + name_end + 4, nullptr, 10));
  }
  return false;
}

int other_processes(const std::vector<GpuProcess>& listed, const std::function<bool(pid_t)>& is_ours, int ours) {
  if (listed.empty()) return -1;   // we have a context ourselves, so a list without any is none
  int known = 0;
  for (const auto& process : listed) known += is_ours(process.pid);
  const int all = static_cast<int>(listed.size());
  return known > 0 ? all - known : std::max(0, all - ours);
}

Result<GpuInfo> gpu_probe(const std::string& nvml_path) {
  MC_ASSIGN_OR_RETURN(auto nvml, Nvml::open(nvml_path));
  MC_ASSIGN_OR_RETURN(auto gpus, nvml->gpus());
  if (gpus.empty())
    return fail(Code::kUnavailable,
                "an NVIDIA driver is installed, but no GPU answers; give this machine or container a GPU "
                "(docker run --gpus)");
  const GpuInfo* chosen = &gpus[0];
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    const std::string first = split(visible)[0];
    chosen = nullptr;
    for (const auto& gpu : gpus)
      if (first == std::to_string(gpu.index) || (first.size() > 4 && gpu.uuid.starts_with(first)))
        chosen = &gpu;
    // A slice of a GPU (MIG) has a number of its own; that of its GPU is as good for a probe.
    if (!chosen && first.starts_with("MIG-")) chosen = &gpus[0];
    if (!chosen)
      return fail(Code::kUnavailable,
                  "CUDA_VISIBLE_DEVICES is '{}', which names none of the {} GPU{} here; unset it or give a "
                  "number below {}",
                  visible, gpus.size(), gpus.size() == 1 ? "" : "s", gpus.size());
  }
  if (!chosen->capability.empty() && std::strtod(chosen->capability.c_str(), nullptr) < 7.5)
    return fail(Code::kUnavailable, "{} has compute capability {}, and CUDA 13 needs 7.5 or newer",
                chosen->name, chosen->capability);
  return *chosen;
}

}  // namespace musacoder::device
