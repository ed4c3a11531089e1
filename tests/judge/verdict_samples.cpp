#include "verdict_samples.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/hash.h"
#include "judge/reward.h"
#include "judge/statuses.h"

namespace musacoder::judge::samples {

namespace {

constexpr const char* kDistributions[] = {"own", "normal", "uniform", "large", "tiny", "sparse_outliers", "constant_rows"};

void add_levels(Verdict& v, int passed, bool failed, const std::string& why) {
  static constexpr const char* kNames[] = {"L0 build", "L1 run", "L2 correctness", "L3 legality", "L4 time"};
  static constexpr const char* kDetails[] = {"1 extension built with slim headers", "7 calls without a fault",
                                             "7 of 7 trials within the float64 budget", "1 kernel wrote all outputs", ""};
  for (int i = 0; i < 5; ++i) {
    Level level{kNames[i], LevelState::kNotRun, ""};
    if (i < passed) level = {kNames[i], LevelState::kPassed, kDetails[i]};
    else if (i == passed && failed) level = {kNames[i], LevelState::kFailed, why};
    v.levels.push_back(level);
  }
}

void add_trials(Verdict& v, int failing, const std::string& status) {
  for (int i = 0; i < 7; ++i) {
    Trial trial;
    trial.index = i;
    trial.seed = 1000u + static_cast<unsigned>(i);
    trial.distribution = kDistributions[i];
    trial.pass = i >= failing;
    trial.total = 4096;
    trial.allclose = trial.pass;
    trial.atol = trial.rtol = 1e-4;
    trial.seconds = 0.02;
    trial.reverse_blocks = i % 2 == 1;
    if (!trial.pass) {
      trial.status = status;
      trial.message = "output 0 differs from the reference";
      trial.mismatched = 37;
      trial.worst = WorstElement{0, {3, 63}, 0.25 + i, 0, 0.25 + i, 0.01, 25.0 + 100 * i};
    } else {
      trial.worst = WorstElement{0, {1, 2}, 1.5, 1.5000001, 1e-7, 1e-5, 0.01};
    }
    v.trials.push_back(trial);
  }
  v.q = (7.0 - failing) / 7;
}

build::Diagnostic diagnostic(build::Severity severity, int line, int candidate_line, std::string message, std::string kind) {
  build::Diagnostic d;
  d.severity = severity;
  d.file = "cuda.cu";
  d.line = line;
  d.candidate_line = candidate_line;
  d.message = std::move(message);
  d.kind = std::move(kind);
  return d;
}

void add_ledger(Verdict& v) {
  vgpu::LaunchRecord launch;
  launch.kernel = "relu_kernel(float const*, float*, int)";
  launch.module = "relu_ext";
  launch.grid = {16, 1, 1};
  launch.block = {256, 1, 1};
  launch.count = 7;
  launch.warp_instructions = 7 * 16 * 8 * 20;
  launch.counters = {17920, 573440, 28672, 114688, 114688, 0, 0, 0, 112};
  v.ledger.launches.push_back(launch);
  v.ledger.launch_seconds = 0.03;
}

}  // namespace

std::string candidate_source() {
  return R"py(import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
__global__ void relu_kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] > 0 ? x[i] : 0;
}
torch::Tensor relu(torch::Tensor x) {
  auto y = torch::empty_like(x);
  relu_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""
ext = load_inline("relu_ext", "torch::Tensor relu(torch::Tensor x);", cuda_source, functions=["relu"])

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.relu(x)
)py";
}

Verdict verdict_of(const std::string& status, const std::string& task, std::uint64_t seed) {
  Verdict v;
  v.task = task;
  v.task_hash = base::sha256_hex("task" + task);
  v.candidate_hash = base::sha256_hex(fmt::format("candidate {} {} {}", task, status, seed));
  v.status = status;
  v.environment = {{"torch", "2.11.0"}, {"nvcc", "13.0"}, {"python", "3.11.2"}};
  v.sandbox = {"user_ns", "pid_ns", "mount_ns", "net_ns", "seccomp", "no_new_privs"};
  const double wobble = 1 + 0.1 * static_cast<double>(seed % 17);
  v.seconds = {{"extract", 0.05 * wobble}, {"build", 0.9 * wobble}, {"reference", 0.3 * wobble}, {"run", 0.4 * wobble},
               {"compare", 0.1 * wobble}, {"spawn", 0.06 * wobble}, {"total", 1.81 * wobble}};
  const std::string name = status_class(status);
  build::BuildResult built;
  built.ok = true;
  built.hash = base::sha256_hex("so");
  built.headers = "slim";
  built.seconds = 0.9;
  if (is_null_reward(status)) {
    v.cause = std::string(status_info(status).meaning);
    v.cause.pop_back();
    if (status == "unsupported:ptx:wgmma.mma_async") v.cause = "the virtual GPU lacks wgmma.mma_async";
    add_levels(v, name == "invalid_task" || name == "infra" ? 0 : 1, false, "");
  } else if (name == "compile_error") {
    v.cause = status == "compile_error:nvcc" ? "nvcc refused cuda.cu: identifier \"blockIdy\" is undefined" : std::string(status_info(status).meaning);
    add_levels(v, 0, true, v.cause);
    if (status == "compile_error:extract" || status == "compile_error:interface") {
      v.exception_type = status == "compile_error:interface" ? "InterfaceError" : "";
      v.exception_message = status == "compile_error:interface" ? "ModelNew.forward takes 2 arguments, the task gives 1" : "";
    } else {
      build::BuildResult failed;
      failed.status = status;
      failed.message = "nvcc: 1 error in cuda.cu";
      failed.seconds = 0.7;
      failed.diagnostics = {diagnostic(build::Severity::kError, 4, 9, "identifier \"blockIdy\" is undefined", "undefined_identifier"),
                            diagnostic(build::Severity::kWarning, 9, 14, "variable \"t\" was declared but never referenced", "other")};
      failed.log = "cuda.cu(4): error: identifier \"blockIdy\" is undefined\n"
                   "    int i = blockIdy.x * blockDim.x + threadIdx.x;\n            ^\n\n1 error detected in the compilation of \"cuda.cu\".\n";
      v.builds.push_back(failed);
    }
  } else if (name == "runtime_error") {
    v.compiled = true;
    v.builds.push_back(built);
    v.cause = std::string(status_info(status).meaning);
    add_levels(v, 1, true, v.cause);
    add_ledger(v);
    if (status == "runtime_error:exception") {
      v.cause = "RuntimeError in forward: The size of tensor a (64) must match the size of tensor b (32)";
      v.exception_type = "RuntimeError";
      v.exception_message = "The size of tensor a (64) must match the size of tensor b (32)";
      v.exception_line = 22;
      v.traceback = "Traceback (most recent call last):\n  File \"candidate.py\", line 22, in forward\n    return ext.relu(x)\n"
                    "RuntimeError: The size of tensor a (64) must match the size of tensor b (32)\n";
    } else if (status != "runtime_error:exit" && status != "runtime_error:signal" && status != "runtime_error:oom") {
      vgpu::Fault fault;
      fault.kind = vgpu::FaultKind::kOutOfBounds;
      if (status == "runtime_error:misaligned") fault.kind = vgpu::FaultKind::kMisaligned;
      if (status == "runtime_error:barrier") fault.kind = vgpu::FaultKind::kBarrier;
      if (status == "runtime_error:timeout") fault.kind = vgpu::FaultKind::kTimeout;
      if (status == "runtime_error:device_assert") fault.kind = vgpu::FaultKind::kAssert;
      if (status == "runtime_error:launch_failure") fault.kind = vgpu::FaultKind::kInvalidLaunch;
      fault.kernel = "relu_kernel(float const*, float*, int)";
      fault.block = {15, 0, 0};
      fault.thread = {192, 0, 0};
      if (status == "runtime_error:illegal_access" || status == "runtime_error:misaligned") {
        fault.is_write = true;
        fault.space = "global";
        fault.address = 0x7f0000010000;
        fault.access_bytes = 4;
        fault.tensor = "output 0 float32[64,63]";
        fault.tensor_bytes = 16128;
        fault.offset_bytes = 16128;
      }
      fault.file = "cuda.cu";
      fault.line = 5;
      if (status == "runtime_error:device_assert") fault.detail = "assertion `i < n` failed";
      fault.message = "relu_kernel wrote 4 bytes past the end of output 0 float32[64,63]";
      if (status == "runtime_error:illegal_access") v.cause = fault.message;
      v.fault = fault;
    }
  } else {
    v.compiled = true;
    v.builds.push_back(built);
    add_ledger(v);
    if (name == "correctness_error") {
      v.cause = std::string(status_info(status).meaning);
      add_levels(v, 2, true, "3 of 7 trials failed");
      if (status != "correctness_error:parameters") add_trials(v, status == "correctness_error:values" ? 3 : 7, status);
    } else if (name == "cheating") {
      v.correct = true;
      v.cause = std::string(status_info(status).meaning);
      add_levels(v, 3, true, v.cause);
      add_trials(v, 0, "ok");
      if (status == "cheating:disallowed_aten") {
        v.refused_ops = {"aten::mm", "aten::relu", "aten::mm"};
        v.ledger.launches.clear();
        v.cause = "forward called torch operators: aten::mm ×2, aten::relu";
      }
      if (status == "cheating:vendor_library") v.ledger.vendor_calls = {{"cublas", "cublasSgemm_v2", 7}};
      if (status == "cheating:no_kernel") v.ledger.launches.clear();
      if (status == "cheating:outside_window") v.outside.launches = v.ledger.launches;
    } else {
      v.correct = v.legal = true;
      v.cause = "agrees with the reference on 7 of 7 trials and computes with its own kernels";
      add_levels(v, 4, false, "");
      add_trials(v, 0, "ok");
    }
  }
  if (name == "ok" || name == "correctness_error") {
    v.scaled = true;
    v.scaling = {{"batch_size", 30, "16", "4", "auto"}, {"dim", 31, "16384", "1024", "auto"}};
    v.work = 3e4;
    v.work_full = 2.1e6;
  }
  v.reward = reward_of(v).value;
  return v;
}

std::vector<Verdict> every_status() {
  std::vector<Verdict> all;
  for (const StatusInfo& row : status_table()) {
    std::string status(row.status);
    if (status == "unsupported:ptx:*") status = "unsupported:ptx:wgmma.mma_async";
    else if (status == "unsupported:dsl:*") status = "unsupported:dsl:triton";
    else if (status == "unsupported:cuda:*") status = "unsupported:cuda:cudaMallocManaged";
    else if (status.back() == '*') status.replace(status.size() - 1, 1, "another");
    all.push_back(verdict_of(status));
  }
  return all;
}

Verdict random_verdict(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  auto integer = [&](std::uint64_t below) { return rng() % below; };
  auto text = [&] {
    static constexpr const char* kPieces[] = {"a", "</script><script>alert(1)</script>", "\"", "\\", "\n", "ß", "日本", "\x01", "&amp;",
                                              "'", "{}", "\u2028", " ", "%n", "0", "\U0001F600"};
    std::string out;
    for (std::uint64_t n = 1 + integer(6); n > 0; --n) out += kPieces[integer(std::size(kPieces))];
    return out;
  };
  auto real = [&]() -> double {
    switch (integer(8)) {
      case 0: return std::numeric_limits<double>::infinity();
      case 1: return -std::numeric_limits<double>::infinity();
      case 2: return std::numeric_limits<double>::denorm_min();
      case 3: return -0.0;
      case 4: return static_cast<double>(integer(1000));
      default: return std::ldexp(static_cast<double>(rng()), static_cast<int>(integer(200)) - 150);
    }
  };
  auto texts = [&] {
    std::vector<std::string> out;
    for (std::uint64_t n = integer(3); n > 0; --n) out.push_back(text());
    return out;
  };
  auto flag = [&] { return integer(2) == 1; };
  auto fault = [&] {
    vgpu::Fault f;
    f.kind = static_cast<vgpu::FaultKind>(integer(11));
    f.kernel = text();
    f.block = {static_cast<std::uint32_t>(rng()), 1, 2};
    f.thread = {3, static_cast<std::uint32_t>(rng()), 5};
    f.is_write = flag();
    f.space = text();
    f.address = rng();
    f.access_bytes = static_cast<std::uint32_t>(rng());
    f.tensor = text();
    f.tensor_bytes = rng();
    f.offset_bytes = static_cast<std::int64_t>(rng());
    f.file = text();
    f.line = static_cast<std::uint32_t>(integer(1u << 30));
    f.detail = text();
    f.message = text();
    return f;
  };

  const auto table = status_table();
  Verdict v;
  v.task = text();
  v.task_hash = text();
  v.candidate_hash = text();
  v.backend = text();
  v.gpu = text();
  v.policy = text();
  v.dialect = integer(2) ? "musa" : "cuda";
  v.status = std::string(table[integer(table.size())].status);
  v.cause = text();
  for (std::uint64_t n = integer(6); n > 0; --n) v.levels.push_back({text(), static_cast<LevelState>(integer(3)), text()});
  for (std::uint64_t n = integer(4); n > 0; --n) {
    Trial t;
    t.index = static_cast<int>(integer(100));
    t.seed = rng();
    t.distribution = text();
    t.pass = flag();
    t.status = text();
    t.message = text();
    t.skipped = flag() ? text() : "";
    t.reverse_blocks = flag();
    if (flag()) t.worst = WorstElement{static_cast<int>(integer(9)), {static_cast<std::int64_t>(rng()), -1}, real(), real(), real(), real(), real()};
    t.mismatched = rng();
    t.total = rng();
    t.allclose = flag();
    t.atol = real();
    t.rtol = real();
    t.seconds = real();
    v.trials.push_back(t);
  }
  v.q = real();
  v.compiled = flag();
  v.correct = flag();
  v.legal = flag();
  if (flag()) v.reward = real();
  if (flag()) v.speedup_eager = real();
  if (flag()) v.speedup_compile = real();
  for (std::uint64_t n = integer(3); n > 0; --n) {
    build::BuildResult b;
    b.ok = flag();
    b.status = text();
    b.message = text();
    for (std::uint64_t m = integer(3); m > 0; --m)
      b.diagnostics.push_back(diagnostic(static_cast<build::Severity>(integer(3)), static_cast<int>(integer(1u << 30)),
                                         static_cast<int>(integer(1u << 30)), text(), text()));
    b.log = text();
    b.artifact = text();
    b.hash = text();
    b.headers = text();
    b.headers_reason = text();
    b.cached = flag();
    b.seconds = real();
    b.sandbox = texts();
    v.builds.push_back(b);
  }
  if (flag()) {
    v.exception_type = text();
    v.exception_message = text();
    v.traceback = text();
    v.exception_line = static_cast<int>(integer(1u << 30));
  }
  if (flag()) v.fault = fault();
  for (std::uint64_t n = integer(3); n > 0; --n) {
    vgpu::LaunchRecord launch;
    launch.kernel = text();
    launch.module = text();
    launch.grid = {static_cast<std::uint32_t>(rng()), 2, 3};
    launch.block = {4, static_cast<std::uint32_t>(rng()), 6};
    launch.count = rng();
    launch.warp_instructions = rng();
    launch.counters = {rng(), rng(), rng(), rng(), rng(), rng(), rng(), rng(), rng()};
    constexpr const char* kOrigins[] = {"", "own", "framework", "vendor", "jit", "unknown"};
    launch.origin = kOrigins[integer(std::size(kOrigins))];
    launch.nanoseconds = rng();
    launch.graph = flag();
    v.ledger.launches.push_back(launch);
  }
  if (flag() && !v.ledger.launches.empty()) v.outside.launches.push_back(v.ledger.launches.front());
  v.outside.d2d_bytes = rng();
  v.outside.unsupported = texts();
  for (std::uint64_t n = integer(3); n > 0; --n) v.ledger.vendor_calls.push_back({text(), text(), rng()});
  v.ledger.refused_ops = texts();
  v.ledger.h2d_bytes = rng();
  v.ledger.d2h_bytes = rng();
  v.ledger.d2d_bytes = rng();
  v.ledger.memset_bytes = rng();
  v.ledger.h2d_after_d2h_bytes = rng();
  v.ledger.creation_bytes = rng();
  v.ledger.threads = rng();
  v.ledger.dropped = rng();
  v.ledger.internal = rng();
  v.ledger.allocated_bytes = rng();
  v.ledger.retained_bytes = rng();
  if (flag()) v.ledger.fault = fault();
  v.ledger.unread_launch_error = text();
  v.ledger.printf_output = text();
  v.ledger.launch_seconds = real();
  v.ledger.unsupported = texts();
  v.ledger.protocol_error = text();
  v.refused_ops = texts();
  v.cpu_ops = texts();
  v.scaled = flag();
  for (std::uint64_t n = integer(3); n > 0; --n) v.scaling.push_back({text(), static_cast<int>(integer(1u << 30)), text(), text(), text()});
  v.work = real();
  v.work_full = real();
  v.notes = texts();
  for (std::uint64_t n = integer(4); n > 0; --n) v.environment[text()] = text();
  v.sandbox = texts();
  for (std::uint64_t n = integer(4); n > 0; --n) v.seconds[text()] = real();
  return v;
}

}  // namespace musacoder::judge::samples
