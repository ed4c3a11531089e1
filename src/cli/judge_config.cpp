#include "cli/judge_config.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/files.h"
#include "base/paths.h"
#include "device/cuda/nvml.h"
#include "vgpu/device.h"

namespace musacoder::cli {
namespace {

// A usable GPU, and a torch that can use it.
std::string found_backend(const judge::JudgeConfig& config) {
  const std::string site = base::site_packages(config.python);
  const bool torch_for_cuda = base::exists(site + "/torch/lib/libtorch_cuda.so") && base::exists(config.runtime_dir + "/lib/libmusacoder_torch_cuda.so");
  return torch_for_cuda && device::gpu_probe() ? "cuda" : "vgpu";
}

}  // namespace

Result<judge::JudgeConfig> judge_config(const JudgeOptions& options) {
  judge::JudgeConfig config;
  MC_ASSIGN_OR_RETURN(config.runtime_dir, base::find_runtime_dir());
  config.python = base::find_python(config.runtime_dir);
  if (config.python.empty())
    return fail(Code::kNotFound, "no python with torch was found; run scripts/setup or set MUSACODER_PYTHON");
  config.cache_dir = base::cache_dir();
  MC_RETURN_IF_ERROR(base::make_dirs(config.cache_dir));
  config.backend = options.backend == "auto" ? found_backend(config) : options.backend;
  config.timing = options.timing;
  config.timed_calls = options.timed_calls;
  config.baselines = options.baselines;
  std::erase(config.baselines, "none");
  for (std::size_t at = 0; at < options.sanitize.size();) {
    const std::size_t end = std::min(options.sanitize.find(',', at), options.sanitize.size());
    const std::string tool = options.sanitize.substr(at, end - at);
    if (tool != "memcheck" && tool != "racecheck" && tool != "synccheck")
      return fail(Code::kInvalidArgument, "--sanitize takes memcheck, racecheck and synccheck, not '{}'", tool);
    config.sanitize.push_back(tool);
    at = end + 1;
  }
  // --gpu names what CUDA candidates see; a Moore Threads model is for MUSA candidates, and for the others too when it is named.
  config.gpu = options.gpu;
  if (auto gpu = vgpu::gpu_properties(options.gpu); gpu && gpu->vendor == vgpu::Vendor::kMooreThreads) config.musa_gpu = gpu->name;
  config.policy = options.policy;
  config.trials = options.trials;
  config.seed = options.seed;
  config.scale = options.full_size ? "full" : "auto";
  config.work_budget = options.work_budget;
  config.audit = options.audit;
  config.candidate_seconds = options.candidate_seconds;
  for (const auto& pair : options.set) {
    const auto equals = pair.find('=');
    std::int64_t value = 0;
    const char* end = pair.data() + pair.size();
    const auto parsed = equals == std::string::npos ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                                                    : std::from_chars(pair.data() + equals + 1, end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end || equals == 0)
      return fail(Code::kInvalidArgument, "--set takes NAME=INTEGER, e.g. batch_size=4, not '{}'", pair);
    config.set[pair.substr(0, equals)] = value;
  }
  return config;
}

}  // namespace musacoder::cli
