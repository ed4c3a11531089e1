// `musacoder doctor`: what this machine can and cannot do, and why.
//
//   DoctorReport report = diagnose(collect_facts());
//   fmt::print("{}", doctor_text(report, Terminal(stdout)));
//   return report.vgpu ? 0 : 3;
//
// collect_facts() looks at the machine (it starts python, nvcc and the sandbox launcher, each with a deadline; about five
// seconds); diagnose() is pure, so that every finding is tested without such a machine. Nothing is changed anywhere.
//
// To add a check: a field in Facts, its probe in doctor_facts.cpp, its line in diagnose().
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/terminal.h"

namespace musacoder::cli {

// What was seen. An `…_error` says why something is not there; empty when it is.
struct Facts {
  std::string system, cpu;
  int cores = 0;
  std::vector<std::string> cpu_flags;                 // of those that matter: avx2, avx512f, fma, f16c, asimd
  std::uint64_t memory_bytes = 0, memory_free_bytes = 0, memory_limit_bytes = 0;  // limit: cgroup's, 0 none
  std::string runtime_dir, runtime_error;
  std::vector<std::string> runtime_missing;           // parts of the runtime folder that are not there
  std::string nvcc, nvcc_version, nvcc_error;
  std::string host_compiler, host_compiler_version;
  std::string python, python_version, torch_version, python_error;
  std::vector<std::string> sandbox_features;
  std::vector<std::pair<std::string, std::string>> sandbox_skipped;   // feature, why
  std::string sandbox_error;
  std::string vgpu_error;                             // why no virtual GPU session can start
  std::string gpu_name, gpu_driver, gpu_error;        // of the GPU that candidates would run on; else why there is none
  std::string gpu_cuda, gpu_capability;               // newest CUDA the driver knows: "13.0"; "9.0"
  std::uint64_t gpu_memory_bytes = 0;
  int gpus = 0;
  std::string ledger_error;                           // why launches on that GPU could not be watched
  std::string mcc, musa_error;
  std::string musa_gpu;                               // "MTT S5000 (mp_31), driver 3.3.5"; empty when there is none
  std::vector<std::string> musa_missing;              // what backend musa lacks besides mcc, each with what to do
  std::string cache_dir;
  std::uint64_t cache_free_bytes = 0;
  bool cache_writable = false;
  std::string temp_dir;
  std::uint64_t temp_free_bytes = 0;
};
Facts collect_facts();

enum class CheckState { kOk, kInfo, kWarning, kFailed };
struct Check {
  std::string name;
  CheckState state = CheckState::kOk;
  std::string detail = {};                            // what was found
  std::string advice = {};                            // what to try; empty when there is nothing to do
  bool required = false;                              // verification on the virtual GPU needs it
};

struct DoctorReport {
  std::vector<Check> checks;
  bool vgpu = false;                                  // candidates can be verified on the virtual GPU
  bool cuda = false, musa = false;                    // hardware and toolchain of that kind are here
};
DoctorReport diagnose(const Facts& facts);

std::string doctor_text(const DoctorReport& report, const base::Terminal& terminal);
nlohmann::json to_json(const DoctorReport& report);

}  // namespace musacoder::cli
