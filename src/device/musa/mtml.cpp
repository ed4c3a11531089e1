#include "device/musa/mtml.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <utility>
namespace musacoder::device {

// Every object is opaque; functions return 0 for success.
struct Mtml::Api {
  using Handle = void*;
  void* library = nullptr;
  Handle mtml = nullptr, system = nullptr;
  int (*library_init)(Handle*) = nullptr;
  int (*library_shut_down)(Handle) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*init_system)(Handle, Handle*) = nullptr;
  int (*driver_version)(Handle, char*, unsigned) = nullptr;
  int (*count)(Handle, unsigned*) = nullptr;
  int (*by_index)(Handle, unsigned, Handle*) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*init_gpu)(Handle, Handle*) = nullptr;
  int (*gpu_clock)(Handle, unsigned*) = nullptr;
  int (*gpu_temperature)(Handle, unsigned*) = nullptr;
  int (*gpu_utilization)(Handle, unsigned*) = nullptr;
  int (*init_memory)(Handle, Handle*) = nullptr;
  int (*memory_total)(Handle, unsigned long long*) = nullptr;
  int (*memory_clock)(Handle, unsigned*) = nullptr;

  template <typename F>
  bool get(const char* symbol, F& out) {
    out = reinterpret_cast<F>(::dlsym(library, symbol));
    return out != nullptr;
  }
  std::string text(int code) const {
    const char* words = error_string ? error_string(code) : nullptr;
    return fmt::format("{} (MTML {})", words ? words : "error", code);
  }
  ~Api() {
    if (mtml && library_shut_down) library_shut_down(mtml);
    if (library) ::dlclose(library);
  }
};

Mtml::Mtml(std::unique_ptr<Api> api) : api_(std::move(api)) {}
Mtml::~Mtml() = default;

Result<std::unique_ptr<Mtml>> Mtml::open(const std::string& path) {
  auto api = std::make_unique<Api>();
  const char* given = std::getenv("MUSACODER_MTML");
  const std::string file = !path.empty() ? path : given && *given ? given : "libmtml.so";
  for (const std::string& name : {file, file == "libmtml.so" ? std::string("libmtml.so.1") : file})
    if (!api->library) api->library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!api->library) return fail(Code::kUnavailable, "no Moore Threads driver: {} does not load; install the driver of the MUSA SDK", file);
  Api& a = *api;
  const bool complete = a.get("mtmlLibraryInit", a.library_init) && a.get("mtmlLibraryCountDevice", a.count) &&
                        a.get("mtmlLibraryInitDeviceByIndex", a.by_index) && a.get("mtmlDeviceGetName", a.name) &&
                        a.get("mtmlDeviceGetUUID", a.uuid);
  if (!complete) return fail(Code::kUnavailable, "{} lacks functions of MTML; install a newer Moore Threads driver", file);
  a.get("mtmlLibraryShutDown", a.library_shut_down);
  a.get("mtmlErrorString", a.error_string);
  a.get("mtmlLibraryInitSystem", a.init_system);
  a.get("mtmlSystemGetDriverVersion", a.driver_version);
  a.get("mtmlDeviceGetPowerUsage", a.power);
  a.get("mtmlDeviceInitGpu", a.init_gpu);
  a.get("mtmlGpuGetClock", a.gpu_clock);
  a.get("mtmlGpuGetTemperature", a.gpu_temperature);
  a.get("mtmlGpuGetUtilization", a.gpu_utilization);
  a.get("mtmlDeviceInitMemory", a.init_memory);
  a.get("mtmlMemoryGetTotal", a.memory_total);
  a.get("mtmlMemoryGetClock", a.memory_clock);
  if (const int code = a.library_init(&a.mtml); code != 0)
    return fail(Code::kUnavailable, "the Moore Threads driver does not answer: {}; `mthreads-gmi` should list the GPUs", a.text(code));
  if (a.init_system) a.init_system(a.mtml, &a.system);
  return std::unique_ptr<Mtml>(new Mtml(std::move(api)));
}

Result<std::vector<MusaGpu>> Mtml::gpus() {
  unsigned count = 0;
  if (const int code = api_->count(api_->mtml, &count); code != 0)
    return fail(Code::kUnavailable, "MTML counts no devices: {}", api_->text(code));
  std::array<char, 256> text{};
  std::string driver;
  if (api_->system && api_->driver_version && api_->driver_version(api_->system, text.data(), text.size() - 1) == 0) driver = text.data();
  std::vector<MusaGpu> out;
  for (unsigned i = 0; i < count; ++i) {
    Api::Handle device = nullptr, memory = nullptr;
    if (const int code = api_->by_index(api_->mtml, i, &device); code != 0)
      return fail(Code::kUnavailable, "GPU {} does not answer: {}", i, api_->text(code));
    MusaGpu& gpu = out.emplace_back();
    gpu.index = i;
    gpu.driver = driver;
    text.fill(0);
    if (api_->name(device, text.data(), text.size() - 1) == 0) gpu.name = text.data();
    text.fill(0);
    if (api_->uuid(device, text.data(), text.size() - 1) == 0) gpu.uuid = text.data();
    unsigned long long total = 0;
    if (api_->init_memory && api_->memory_total && api_->init_memory(device, &memory) == 0 && api_->memory_total(memory, &total) == 0)
      gpu.memory_bytes = total;
    std::tie(gpu.architecture, gpu.warp_size) = musa_architecture(gpu.name);
  }
  return out;
}

Result<GpuSample> Mtml::sample(unsigned index) {
  Api::Handle device = nullptr, gpu = nullptr, memory = nullptr;
  if (const int code = api_->by_index(api_->mtml, index, &device); code != 0)
    return fail(Code::kUnavailable, "GPU {} does not answer: {}", index, api_->text(code));
  GpuSample out;
  if (api_->init_gpu && api_->init_gpu(device, &gpu) == 0) {
    if (api_->gpu_clock) api_->gpu_clock(gpu, &out.sm_mhz);
    if (api_->gpu_temperature) api_->gpu_temperature(gpu, &out.temperature_c);
    if (api_->gpu_utilization) api_->gpu_utilization(gpu, &out.busy_percent);
  }
  if (api_->init_memory && api_->memory_clock && api_->init_memory(device, &memory) == 0) api_->memory_clock(memory, &out.memory_mhz);
  if (unsigned milliwatts = 0; api_->power && api_->power(device, &milliwatts) == 0) out.power_w = milliwatts / 1000.0;
  return out;
}

std::pair<std::string, int> musa_architecture(const std::string& name) {
  // QY1, QY2 and PH1 in the vendor's words; warp widths from the MUSA programming guide.
  static constexpr struct {
    const char* model;
    const char* architecture;
    int warp;
  } kModels[] = {{"S5000", "mp_31", 32}, {"S4000", "mp_22", 128}, {"S3000", "mp_21", 128}, {"S80", "mp_21", 128}, {"S70", "mp_21", 128}};
  std::pair<std::string, int> found{"", 0};
  for (const auto& model : kModels)
    if (name.find(model.model) != std::string::npos) {
      found = {model.architecture, model.warp};
      break;
    }
  // "22;31" as torch_musa reads it.
  if (const char* list = std::getenv("TORCH_MUSA_ARCH_LIST")) {
    const std::string_view text(list);
    const std::string first(text.substr(0, text.find_first_of("; ,")));
    if (first.size() == 2 && first.find_first_not_of("0123456789") == std::string::npos) found = {"mp_" + first, first >= "30" ? 32 : 128};
  }
  return found;
}

Result<MusaGpu> musa_probe(const std::string& mtml_path) {
  MC_ASSIGN_OR_RETURN(auto mtml, Mtml::open(mtml_path));
  MC_ASSIGN_OR_RETURN(auto gpus, mtml->gpus());
  if (gpus.empty())
    return fail(Code::kUnavailable, "a Moore Threads driver is installed, but no GPU answers; give this machine or container one (MTHREADS_VISIBLE_DEVICES)");
  std::size_t chosen = 0;
  if (const char* visible = std::getenv("MUSA_VISIBLE_DEVICES"); visible && *visible) {
    const std::string_view text(visible);
    const std::string first(text.substr(0, text.find(',')));
    chosen = gpus.size();
    for (std::size_t i = 0; i < gpus.size(); ++i)
      if (first == std::to_string(gpus[i].index) || (first.size() > 4 && gpus[i].uuid.starts_with(first))) chosen = i;
    if (chosen == gpus.size())
      return fail(Code::kUnavailable, "MUSA_VISIBLE_DEVICES is '{}', which names none of the {} GPUs here", visible, gpus.size());
  }
  if (gpus[chosen].architecture.empty())
    return fail(Code::kUnavailable, "'{}' is no model whose architecture is known here; set TORCH_MUSA_ARCH_LIST, e.g. to 31", gpus[chosen].name);
  return gpus[chosen];
}

}  // namespace musacoder::device
