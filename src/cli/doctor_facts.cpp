#include <fmt/format.h>
#include <sys/utsname.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/paths.h"
#include "base/subprocess.h"
#include "build/build.h"
#include "build/mcc.h"
#include "cli/doctor.h"
#include "device/cuda/nvml.h"
#include "device/device.h"
#include "device/musa/mtml.h"
#include "sandbox/launcher.h"

namespace musacoder::cli {

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string file_text(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Output of a short command, or "" when it cannot be run or fails.
std::string output_of(const std::vector<std::string>& argv, double timeout_s = 10) {
  auto result = base::run({.argv = argv, .merge_stderr = true, .timeout_s = timeout_s});
  return result && result->exit.ok() ? result->out : "";
}

void look_at_cpu(Facts& facts) {
  utsname name{};
  if (uname(&name) == 0) facts.system = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  std::istringstream in(file_text("/proc/cpuinfo"));
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    if (facts.cpu.empty() && line.starts_with("model name")) facts.cpu = value;
    if (facts.cpu_flags.empty() && (line.starts_with("flags") || line.starts_with("Features"))) {
      std::istringstream words(value);
      for (std::string word; words >> word;)
        for (const char* wanted : {"avx2", "avx512f", "fma", "f16c", "asimd"})
          if (word == wanted) facts.cpu_flags.push_back(word);
    }
  }
  cpu_set_t mask;
  CPU_ZERO(&mask);
  facts.cores = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : static_cast<int>(std::thread::hardware_concurrency());
}

void look_at_memory(Facts& facts) {
  std::istringstream in(file_text("/proc/meminfo"));
  std::string key, unit;
  for (std::uint64_t kib = 0; in >> key >> kib; std::getline(in, unit)) {
    if (key == "MemTotal:") facts.memory_bytes = kib << 10;
    if (key == "MemAvailable:") facts.memory_free_bytes = kib << 10;
  }
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const std::string text = file_text(path);
    if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))) continue;
    const std::uint64_t limit = std::strtoull(text.c_str(), nullptr, 10);
    if (limit < facts.memory_bytes) facts.memory_limit_bytes = limit;
  }
}

void look_at_runtime(Facts& facts) {
  auto runtime = base::find_runtime_dir();
  if (!runtime) {
    facts.runtime_error = runtime.error().message;
    return;
  }
  facts.runtime_dir = *runtime;
  for (const char* part : {"include/torch/extension.h", "python/reference_runner.py", "python/candidate_zygote.py",
                           "lib/libmusacoder_cudart.so", "lib/libmusacoder_torch.so", "bin/musacoder-vgpud", "bin/musacoder-sandbox"})
    if (!base::exists(facts.runtime_dir + "/" + part)) facts.runtime_missing.emplace_back(part);
}

void look_at_compilers(Facts& facts) {
  if (auto nvcc = build::find_nvcc(facts.python)) {
    facts.nvcc = *nvcc;
    const std::string text = output_of({*nvcc, "--version"}, 20);
    const std::size_t at = text.find("release ");
    if (at != std::string::npos) facts.nvcc_version = text.substr(at + 8, text.find_first_of(",\n", at) - at - 8);
    else facts.nvcc_error = fmt::format("{} does not run", *nvcc);
  } else {
    facts.nvcc_error = nvcc.error().message;
  }
  facts.host_compiler = base::find_program("g++");
  if (!facts.host_compiler.empty()) facts.host_compiler_version = first_line(output_of({facts.host_compiler, "--version"}));
}

void look_at_python(Facts& facts) {
  facts.python = base::find_python(facts.runtime_dir);
  auto result = base::run({.argv = {facts.python, "-c",
                                    "import sys\nprint('python', sys.version.split()[0], flush=True)\n"
                                    "import torch\nprint('torch', torch.__version__)"},
                           .timeout_s = 120});
  if (!result) {
    facts.python_error = result.error().message;
    return;
  }
  std::istringstream in(result->out);
  for (std::string key, value; in >> key >> value;) (key == "python" ? facts.python_version : facts.torch_version) = value;
  if (!result->exit.ok()) {
    std::string reason = result->err;
    while (!reason.empty() && reason.back() == '\n') reason.pop_back();
    facts.python_error = reason.empty() ? result->exit.describe() : reason.substr(reason.find_last_of('\n') + 1);
  }
}

void look_at_sandbox(Facts& facts) {
  if (facts.runtime_dir.empty()) {
    facts.sandbox_error = "the runtime folder is missing";
    return;
  }
  const std::string launcher = sandbox::launcher_path(facts.runtime_dir);
  auto result = base::run({.argv = {launcher, "--probe"}, .timeout_s = 20});
  if (!result || !result->exit.ok()) {
    facts.sandbox_error = !result ? result.error().message : fmt::format("{} --probe: {} {}", launcher, result->exit.describe(), first_line(result->err));
    return;
  }
  auto parsed = base::parse_json(result->out);
  if (!parsed || !parsed->is_object()) {
    facts.sandbox_error = "the launcher's report cannot be read";
    return;
  }
  if (auto features = parsed->find("features"); features != parsed->end() && features->is_array())
    for (const auto& feature : *features)
      if (feature.is_string()) facts.sandbox_features.push_back(feature.get<std::string>());
  if (auto skipped = parsed->find("skipped"); skipped != parsed->end() && skipped->is_object())
    for (const auto& [feature, why] : skipped->items())
      facts.sandbox_skipped.emplace_back(feature, why.is_string() ? why.get<std::string>() : why.dump());
}

void look_at_vgpu(Facts& facts) {
  if (facts.runtime_dir.empty()) {
    facts.vgpu_error = "the runtime folder is missing";
    return;
  }
  auto device = device::make_device({.backend = "vgpu", .runtime_dir = facts.runtime_dir});
  if (!device) {
    facts.vgpu_error = device.error().message;
  } else if (auto probe = (*device)->probe(); !probe) {
    facts.vgpu_error = probe.error().message;
  }
}

void look_at_gpus(Facts& facts) {
  auto nvml = device::Nvml::open();
  auto gpus = nvml ? (*nvml)->gpus() : Result<std::vector<device::GpuInfo>>(tl::unexpected(nvml.error()));
  auto chosen = device::gpu_probe();
  if (gpus && !gpus->empty()) facts.gpu_driver = gpus->front().driver;
  if (!chosen) {
    facts.gpu_error = chosen.error().message;
  } else {
    facts.gpus = gpus ? static_cast<int>(gpus->size()) : 1;
    facts.gpu_name = chosen->name;
    facts.gpu_driver = chosen->driver;
    facts.gpu_cuda = chosen->cuda;
    facts.gpu_capability = chosen->capability;
    facts.gpu_memory_bytes = chosen->memory_bytes;
    if (const std::string library = facts.runtime_dir + "/lib/libmusacoder_ledger.so"; !base::exists(library))
      facts.ledger_error = fmt::format("{} is missing, so launches cannot be watched", library);
  }
}

void look_at_musa(Facts& facts) {
  const build::MusaToolkit toolkit = build::find_musa_toolkit();
  facts.mcc = toolkit.mcc;
  if (facts.mcc.empty()) facts.musa_error = "no mcc in $MUSA_HOME/bin, $MUSA_PATH/bin, PATH or /usr/local/musa/bin";
  if (auto gpu = device::musa_probe())
    facts.musa_gpu = fmt::format("{} ({}), driver {}", gpu->name, gpu->architecture, gpu->driver.empty() ? "unknown" : gpu->driver);
  else
    facts.musa_missing.push_back("a GPU: " + gpu.error().message);
  if (!toolkit.mcc.empty() && toolkit.runtime.empty()) facts.musa_missing.push_back("libmusart.so in " + toolkit.home + "/lib");
  const char* given = std::getenv("MUSACODER_MUPTI");
  bool mupti = given && base::exists(given);
  for (const char* folder : {"/lib/libmupti.so", "/lib64/libmupti.so", "/extras/MUPTI/lib64/libmupti.so", "/extras/MUPTI/lib/libmupti.so"})
    mupti = mupti || base::exists(toolkit.home + folder);
  if (!mupti) facts.musa_missing.emplace_back("libmupti.so, so launches cannot be watched (install MUPTI or set MUSACODER_MUPTI)");
  const std::string site = base::site_packages(facts.python);
  if (!base::is_directory(site + "/torch_musa"))
    facts.musa_missing.push_back(fmt::format("torch_musa in {}: it is not on PyPI; install the vendor's torch and torch_musa", site.empty() ? "the Python environment" : site));
  for (const char* library : {"libmusacoder_ledger.so", "libmusacoder_torch_musa.so"})
    if (!base::exists(facts.runtime_dir + "/lib/" + library)) facts.musa_missing.push_back(fmt::format("{} (build the project again)", library));
}

void look_at_disk(Facts& facts) {
  facts.cache_dir = base::cache_dir();
  facts.cache_free_bytes = base::free_bytes(facts.cache_dir);
  std::string existing = facts.cache_dir;
  while (!existing.empty() && !base::exists(existing)) existing = existing.substr(0, existing.find_last_of('/'));
  facts.cache_writable = access(existing.empty() ? "/" : existing.c_str(), W_OK) == 0;
  if (auto dir = base::TempDir::create("musacoder-doctor", 1 << 20)) {
    facts.temp_dir = dir->path().substr(0, dir->path().find_last_of('/'));
    facts.temp_free_bytes = base::free_bytes(facts.temp_dir);
  }
}

}  // namespace

Facts collect_facts() {
  Facts facts;
  look_at_cpu(facts);
  look_at_memory(facts);
  look_at_runtime(facts);
  look_at_python(facts);
  look_at_compilers(facts);
  look_at_sandbox(facts);
  look_at_vgpu(facts);
  look_at_gpus(facts);
  look_at_musa(facts);
  look_at_disk(facts);
  return facts;
}

}  // namespace musacoder::cli
