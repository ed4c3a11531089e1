#include "cli/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace musacoder::cli {
namespace {

using ::testing::HasSubstr;

Facts healthy() {
  Facts f;
  f.system = "Linux 6.1 x86_64";
  f.cpu = "Some CPU";
  f.cores = 2;
  f.cpu_flags = {"avx2", "fma"};
  f.memory_bytes = 16ull << 30;
  f.memory_free_bytes = 12ull << 30;
  f.runtime_dir = "/opt/runtime";
  f.nvcc = "/usr/local/cuda/bin/nvcc";
  f.nvcc_version = "13.0";
  f.host_compiler = "/usr/bin/g++";
  f.host_compiler_version = "g++ 12.2.0";
  f.python = "/opt/venv/bin/python";
  f.python_version = "3.11.2";
  f.torch_version = "2.11.0+cpu";
  f.sandbox_features = {"user_ns", "pid_ns", "mount_ns", "net_ns", "ipc_ns", "seccomp", "rlimits"};
  f.gpu_error = "no NVIDIA driver";
  f.musa_error = "no mcc";
  f.cache_dir = "/home/u/.cache/musacoder";
  f.cache_writable = true;
  f.cache_free_bytes = f.temp_free_bytes = 50ull << 30;
  f.temp_dir = "/dev/shm";
  return f;
}

const Check* find(const DoctorReport& report, const std::string& name) {
  for (const auto& check : report.checks)
    if (check.name == name) return &check;
  return nullptr;
}

TEST(Doctor, AHealthyMachineWithoutAGpuVerifies) {
  const DoctorReport report = diagnose(healthy());
  EXPECT_TRUE(report.vgpu);
  EXPECT_FALSE(report.cuda);
  EXPECT_FALSE(report.musa);
  for (const auto& check : report.checks) EXPECT_NE(check.state, CheckState::kFailed) << check.name;
  EXPECT_THAT(doctor_text(report, base::Terminal(false, 100)), HasSubstr("Candidates can be verified on the virtual GPU."));
}

TEST(Doctor, EveryMissingNeedFailsAndSaysWhatToTry) {
  struct Case {
    const char* check;
    std::function<void(Facts&)> spoil;
  };
  const Case cases[] = {
      {"runtime files", [](Facts& f) { f.runtime_error = "not found"; }},
      {"runtime files", [](Facts& f) { f.runtime_missing = {"lib/libmusacoder_torch.so"}; }},
      {"python and torch", [](Facts& f) { f.torch_version.clear(); }},
      {"CUDA compiler", [](Facts& f) { f.nvcc_error = "no nvcc"; }},
      {"host compiler", [](Facts& f) { f.host_compiler.clear(); }},
      {"sandbox", [](Facts& f) { f.sandbox_error = "launcher does not start"; }},
      {"virtual GPU", [](Facts& f) { f.vgpu_error = "no server"; }},
      {"memory", [](Facts& f) { f.memory_limit_bytes = 1ull << 30; }},
      {"disk", [](Facts& f) { f.cache_free_bytes = 1 << 20; }},
      {"disk", [](Facts& f) { f.cache_writable = false; }},
      {"disk", [](Facts& f) { f.temp_dir.clear(); }},
  };
  for (const Case& one : cases) {
    Facts facts = healthy();
    one.spoil(facts);
    const DoctorReport report = diagnose(facts);
    EXPECT_FALSE(report.vgpu) << one.check;
    const Check* check = find(report, one.check);
    ASSERT_NE(check, nullptr) << one.check;
    EXPECT_EQ(check->state, CheckState::kFailed) << one.check;
    EXPECT_FALSE(check->advice.empty()) << one.check;
  }
}

TEST(Doctor, WeaknessesWarnAndDoNotStop) {
  Facts f = healthy();
  f.sandbox_features = {"rlimits", "seccomp"};
  f.sandbox_skipped = {{"user_ns", "unshare: operation not permitted"}};
  f.torch_version = "2.9.0";
  f.memory_bytes = 3ull << 30;
  const DoctorReport report = diagnose(f);
  EXPECT_TRUE(report.vgpu);
  for (const char* name : {"sandbox", "python and torch", "memory"}) {
    EXPECT_EQ(find(report, name)->state, CheckState::kWarning) << name;
    EXPECT_FALSE(find(report, name)->advice.empty()) << name;
  }
  EXPECT_THAT(find(report, "sandbox: user_ns")->detail, HasSubstr("not permitted"));
}

TEST(Doctor, HardwareIsReported) {
  Facts f = healthy();
  f.gpus = 2;
  f.gpu_name = "NVIDIA H200";
  f.gpu_driver = "580.95.05";
  f.gpu_cuda = "13.0";
  f.gpu_capability = "9.0";
  f.gpu_memory_bytes = 141ull << 30;
  f.gpu_error.clear();
  f.mcc = "/usr/local/musa/bin/mcc";
  const DoctorReport report = diagnose(f);
  EXPECT_TRUE(report.cuda);
  EXPECT_TRUE(report.musa);
  const Check* gpu = find(report, "NVIDIA GPU");
  EXPECT_EQ(gpu->state, CheckState::kOk);
  for (const char* part : {"NVIDIA H200", "580.95.05", "141", "9.0", "first of 2"}) EXPECT_THAT(gpu->detail, HasSubstr(part));
  EXPECT_THAT(doctor_text(report, base::Terminal(false, 100)), HasSubstr("times can be measured"));
  const auto json = to_json(report);
  EXPECT_EQ(json["vgpu"], true);
  EXPECT_EQ(json["checks"].size(), report.checks.size());
}

TEST(Doctor, AMooreThreadsGpuSaysWhatItLacks) {
  Facts f = healthy();
  f.musa_gpu = "MTT S5000 (mp_31), driver 3.3.5";
  f.mcc = "/usr/local/musa/bin/mcc";
  f.musa_missing = {"torch_musa in /opt/venv", "libmupti.so"};
  const DoctorReport lacking = diagnose(f);
  EXPECT_FALSE(lacking.musa);
  EXPECT_TRUE(lacking.vgpu);
  const Check* check = find(lacking, "MUSA toolchain");
  EXPECT_EQ(check->state, CheckState::kWarning);
  for (const char* part : {"MTT S5000", "mcc", "torch_musa in /opt/venv", "libmupti.so"}) EXPECT_THAT(check->detail, HasSubstr(part));
  f.musa_missing.clear();
  const DoctorReport whole = diagnose(f);
  EXPECT_TRUE(whole.musa);
  EXPECT_EQ(find(whole, "MUSA toolchain")->state, CheckState::kOk);
  EXPECT_THAT(doctor_text(whole, base::Terminal(false, 100)), HasSubstr("times can be measured on backend musa"));
}

TEST(Doctor, AGpuThatCannotBeUsedWarnsAndIsNotNeeded) {
  Facts old = healthy();
  old.gpus = 1;
  old.gpu_name = "NVIDIA A100";
  old.gpu_driver = "535.1";
  old.gpu_cuda = "12.2";
  EXPECT_EQ(find(diagnose(old), "NVIDIA GPU")->state, CheckState::kWarning);
  EXPECT_THAT(find(diagnose(old), "NVIDIA GPU")->advice, HasSubstr("580"));
  Facts blind = old;
  blind.gpu_cuda = "13.0";
  blind.ledger_error = "libmusacoder_ledger.so is missing";
  EXPECT_THAT(find(diagnose(blind), "NVIDIA GPU")->detail, HasSubstr("libmusacoder_ledger.so"));
  Facts hidden = healthy();
  hidden.gpu_driver = "580.95.05";
  hidden.gpu_error = "CUDA_VISIBLE_DEVICES is '7'";
  EXPECT_EQ(find(diagnose(hidden), "NVIDIA GPU")->state, CheckState::kWarning);
  for (const Facts& facts : {old, blind, hidden}) EXPECT_TRUE(diagnose(facts).vgpu);
}

}  // namespace
}  // namespace musacoder::cli
