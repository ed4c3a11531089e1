#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/commands.h"

namespace musacoder::cli {

using nlohmann::json;

namespace {

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr const char* kStateNames[] = {"ok", "info", "warning", "failed"};

using State = CheckState;

bool has(const std::vector<std::string>& list, const char* name) { return std::find(list.begin(), list.end(), name) != list.end(); }

Check runtime_check(const Facts& f) {
  Check check{.name = "runtime files", .required = true};
  if (!f.runtime_error.empty()) {
    check.state = State::kFailed;
    check.detail = f.runtime_error;
    check.advice = "run `make build`, or set MUSACODER_RUNTIME to the runtime folder";
  } else if (!f.runtime_missing.empty()) {
    check.state = State::kFailed;
    check.detail = fmt::format("{} lacks {}", f.runtime_dir, fmt::join(f.runtime_missing, ", "));
    check.advice = "run `make build` again with the project's Python environment in place (scripts/setup)";
  } else {
    check.detail = f.runtime_dir;
  }
  return check;
}

Check python_check(const Facts& f) {
  Check check{.name = "python and torch", .required = true};
  check.detail = f.python_version.empty() ? f.python : fmt::format("python {}, torch {}, {}", f.python_version,
                                                                  f.torch_version.empty() ? "missing" : f.torch_version, f.python);
  if (f.torch_version.empty()) {
    check.state = State::kFailed;
    check.detail += f.python_error.empty() ? "" : ": " + f.python_error;
    check.advice = "run scripts/setup, or set MUSACODER_PYTHON to a Python that has torch 2.11.0";
  } else if (!f.torch_version.starts_with("2.11.")) {
    check.state = State::kWarning;
    check.advice = "made for torch 2.11; run scripts/setup to get it";
  }
  return check;
}

Check nvcc_check(const Facts& f) {
  Check check{.name = "CUDA compiler", .required = true};
  check.detail = fmt::format("nvcc {}, {}", f.nvcc_version, f.nvcc);
  if (!f.nvcc_error.empty()) {
    check.state = State::kFailed;
    check.detail = f.nvcc_error;
    check.advice = "run scripts/setup (it installs nvcc 13.0 by pip), or set MUSACODER_NVCC";
  } else if (!f.nvcc_version.starts_with("13.") && !f.nvcc_version.starts_with("12.")) {
    check.state = State::kWarning;
    check.advice = "made for nvcc 13.0";
  }
  return check;
}

Check compiler_check(const Facts& f) {
  if (f.host_compiler.empty()) return {"host compiler", State::kFailed, "no g++ on PATH", "apt install g++", true};
  return {"host compiler", State::kOk, f.host_compiler_version, "", true};
}

Check vgpu_check(const Facts& f) {
  if (f.vgpu_error.empty()) return {"virtual GPU", State::kOk, "a session starts", "", true};
  return {"virtual GPU", State::kFailed, f.vgpu_error, "see the lines above; then run `make build` again", true};
}

Check sandbox_check(const Facts& f) {
  Check check{.name = "sandbox", .required = true};
  if (!f.sandbox_error.empty()) {
    check.state = State::kFailed;
    check.detail = f.sandbox_error;
    check.advice = "run `make build` again; candidates never run without the sandbox";
    return check;
  }
  check.detail = fmt::format("{}", fmt::join(f.sandbox_features, ", "));
  std::vector<std::string> weak;
  for (const char* feature : {"user_ns", "pid_ns", "mount_ns", "net_ns", "seccomp"})
    if (!has(f.sandbox_features, feature)) weak.emplace_back(feature);
  if (weak.empty()) return check;
  check.state = State::kWarning;
  check.detail += fmt::format("; without {}: candidates are less confined", fmt::join(weak, ", "));
  check.advice = "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 and user.max_user_namespaces > 0; in a container, "
                 "a seccomp profile that allows unshare";
  return check;
}

// A GPU is never required; one that is there and cannot be used is worth a warning.
Check gpu_check(const Facts& f) {
  if (f.gpus == 0) {
    const bool driver = !f.gpu_driver.empty();
    return {"NVIDIA GPU", driver ? State::kWarning : State::kInfo, f.gpu_error + "; verification does not need one, measured times do",
            "", false};
  }
  Check check{.name = "NVIDIA GPU", .state = State::kOk};
  check.detail = fmt::format("{}, {}{}", f.gpu_name, base::human_bytes(f.gpu_memory_bytes),
                             f.gpu_capability.empty() ? "" : ", compute capability " + f.gpu_capability);
  check.detail += fmt::format(", driver {}{}", f.gpu_driver, f.gpu_cuda.empty() ? "" : fmt::format(" (CUDA {})", f.gpu_cuda));
  if (f.gpus > 1) check.detail += fmt::format("; the first of {}", f.gpus);
  if (!f.ledger_error.empty()) {
    check.state = State::kWarning;
    check.detail += "; " + f.ledger_error;
    check.advice = "install torch for CUDA (scripts/setup) or a CUDA toolkit, then run `make build` again";
  } else if (!f.gpu_cuda.empty() && std::atoi(f.gpu_cuda.c_str()) < 13) {
    check.state = State::kWarning;
    check.advice = "update the driver to 580 or newer: torch and nvcc here are of CUDA 13.0";
  }
  return check;
}

std::vector<Check> sandbox_extras(const Facts& f) {
  std::vector<Check> checks;
  for (const auto& [feature, why] : f.sandbox_skipped)
    checks.push_back({"sandbox: " + feature, State::kInfo, why.empty() ? "not here" : why, "", false});
  return checks;
}

Check memory_check(const Facts& f) {
  const std::uint64_t usable = f.memory_limit_bytes ? std::min(f.memory_limit_bytes, f.memory_bytes) : f.memory_bytes;
  Check check{.name = "memory", .detail = fmt::format("{} in all, {} free{}", base::human_bytes(f.memory_bytes), base::human_bytes(f.memory_free_bytes),
                                                      f.memory_limit_bytes ? ", this container's limit is " + base::human_bytes(f.memory_limit_bytes) : "")};
  if (usable < 2 * kGiB) {
    check.state = State::kFailed;
    check.required = true;
    check.advice = "one lane needs about 2 GiB (nvcc alone takes up to 1 GiB)";
  } else if (usable < 4 * kGiB) {
    check.state = State::kWarning;
    check.advice = "use one lane: --lanes 1";
  }
  return check;
}

Check disk_check(const Facts& f) {
  Check check{.name = "disk", .detail = fmt::format("cache {} with {} free; temporary files in {} with {} free", f.cache_dir,
                                                    base::human_bytes(f.cache_free_bytes), f.temp_dir, base::human_bytes(f.temp_free_bytes))};
  if (!f.cache_writable || f.temp_dir.empty()) {
    check.state = State::kFailed;
    check.required = true;
    check.detail = f.temp_dir.empty() ? "no folder for temporary files is writable" : fmt::format("{} is not writable", f.cache_dir);
    check.advice = f.temp_dir.empty() ? "set MUSACODER_TMPDIR to a writable folder with room" : "set MUSACODER_CACHE to a writable folder";
  } else if (f.cache_free_bytes < kGiB) {
    check.state = f.cache_free_bytes < (64u << 20) ? State::kFailed : State::kWarning;
    check.required = check.state == State::kFailed;
    check.advice = "free some space, or set MUSACODER_CACHE to a folder with room";
  }
  return check;
}

}  // namespace

// Like an NVIDIA GPU never required. MUSA candidates are verified on the virtual GPU without any of it.
Check musa_check(const Facts& f) {
  Check check{.name = "MUSA toolchain", .state = State::kInfo};
  if (f.mcc.empty() && f.musa_gpu.empty()) {
    check.detail = f.musa_error + "; MUSA candidates are verified on the virtual GPU";
    return check;
  }
  check.detail = f.mcc.empty() ? f.musa_error : f.mcc;
  if (!f.musa_gpu.empty()) check.detail += ", " + f.musa_gpu;
  if (f.musa_missing.empty() && !f.mcc.empty()) {
    check.state = State::kOk;
    return check;
  }
  check.state = f.musa_gpu.empty() ? State::kInfo : State::kWarning;
  check.detail += "; backend musa lacks " + fmt::format("{}", fmt::join(f.musa_missing, "; "));
  if (check.state == State::kWarning) check.advice = "docs/musa.md lists what an owner of a card needs";
  return check;
}

DoctorReport diagnose(const Facts& f) {
  DoctorReport report;
  auto& checks = report.checks;
  checks.push_back({"system", State::kInfo, f.system, "", false});
  checks.push_back({"processor", State::kInfo,
                    fmt::format("{}{}{} cores{}", f.cpu, f.cpu.empty() ? "" : ", ", f.cores, f.cpu_flags.empty() ? "" : fmt::format(", {}", fmt::join(f.cpu_flags, " "))),
                    "", false});
  checks.push_back(memory_check(f));
  checks.push_back(disk_check(f));
  checks.push_back(runtime_check(f));
  checks.push_back(python_check(f));
  checks.push_back(nvcc_check(f));
  checks.push_back(compiler_check(f));
  checks.push_back(sandbox_check(f));
  for (auto& check : sandbox_extras(f)) checks.push_back(std::move(check));
  checks.push_back(vgpu_check(f));
  report.cuda = f.gpus > 0;
  checks.push_back(gpu_check(f));
  report.musa = !f.mcc.empty() && f.musa_missing.empty();
  checks.push_back(musa_check(f));
  report.vgpu = std::none_of(checks.begin(), checks.end(), [](const Check& check) { return check.required && check.state == State::kFailed; });
  return report;
}

std::string doctor_text(const DoctorReport& report, const base::Terminal& term) {
  std::size_t column = 0;
  for (const auto& check : report.checks) column = std::max(column, check.name.size());
  std::string out;
  for (const auto& check : report.checks) {
    std::string mark = term.dim("·");
    if (check.state == State::kOk) mark = term.green("✓");
    if (check.state == State::kWarning) mark = term.yellow("!");
    if (check.state == State::kFailed) mark = term.red("✗");
    out += fmt::format("{} {:<{}}  {}\n", mark, check.name, column, base::printable(check.detail, false));
    if (!check.advice.empty()) out += fmt::format("  {:<{}}  {}\n", "", column, term.yellow("try: " + check.advice));
  }
  out += "\n";
  out += report.vgpu ? term.green("Candidates can be verified on the virtual GPU.") + "\n"
                     : term.red("Candidates cannot be verified here yet: see the lines marked ✗.") + "\n";
  if (report.cuda) out += "An NVIDIA GPU is here: times can be measured on backend cuda.\n";
  if (report.musa) out += "A Moore Threads GPU is here: times can be measured on backend musa.\n";
  if (!report.cuda && !report.musa) out += "Times cannot be measured here: that needs a GPU.\n";
  return out;
}

json to_json(const DoctorReport& report) {
  json checks = json::array();
  for (const auto& check : report.checks)
    checks.push_back({{"name", check.name},
                      {"state", kStateNames[static_cast<int>(check.state)]},
                      {"detail", check.detail},
                      {"advice", check.advice},
                      {"required", check.required}});
  return {{"version", 1}, {"vgpu", report.vgpu}, {"cuda", report.cuda}, {"musa", report.musa}, {"checks", std::move(checks)}};
}

int run_doctor(const DoctorOptions& options) {
  const DoctorReport report = diagnose(collect_facts());
  if (options.json) fmt::print("{}\n", to_json(report).dump(2, ' ', false, json::error_handler_t::replace));
  else fmt::print("{}", doctor_text(report, base::Terminal(stdout)));
  return report.vgpu ? 0 : 3;
}

}  // namespace musacoder::cli
