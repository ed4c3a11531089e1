// The verdict: the one record in which everything about a task and a candidate ends.
// Written as versioned JSON (docs/schemas/verdict.schema.json, docs/verdicts.md); the struct mirrors the JSON one to one.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "build/build.h"
#include "device/device.h"
#include "vgpu/estimate.h"

namespace musacoder::judge {

inline constexpr int kVerdictVersion = 1;

enum class LevelState { kNotRun, kPassed, kFailed };
struct Level {
  std::string name;        // L0 build, L1 run, L2 correctness, L3 legality, L4 time
  LevelState state = LevelState::kNotRun;
  std::string detail;      // one sentence
};

struct WorstElement {
  int output = 0;
  std::vector<std::int64_t> index;
  double expected = 0, got = 0, error = 0, budget = 0, ratio = 0;
};

struct Trial {
  int index = 0;
  std::uint64_t seed = 0;
  std::string distribution;
  bool pass = false;
  std::string status = "ok";           // as Verdict::status, for this trial
  std::string message;
  std::string skipped;                 // reason; a skipped trial counts neither way
  bool reverse_blocks = false;
  std::optional<WorstElement> worst;
  std::uint64_t mismatched = 0, total = 0;
  bool allclose = false;               // KernelBench's rule, side by side
  double atol = 0, rtol = 0;
  double seconds = 0;
};

struct ScaledConstant {
  std::string name;
  int line = 0;
  std::string from, to, how;           // how: auto, set
};

struct TimeSamples {
  std::vector<double> ms;              // in the order measured
  double median = 0, mean = 0, min = 0, p10 = 0, p90 = 0;
};

// Level L4 (judge/timing.h). Milliseconds a call.
struct Timing {
  bool measured = false;
  std::string unmeasured;              // why not: "host only", "switched off"
  TimeSamples candidate;
  std::map<std::string, TimeSamples> baselines;         // eager, eager_tf32, compile, compile_tf32
  std::map<std::string, std::string> unavailable;       // baseline → reason
  TimeSamples eager_before, eager_after;                // A/B/A around the candidate
  double first_ms = 0;                 // the first timed call, with what it loads and compiles
  int warm_calls = 0, verified_calls = 0, handovers = 0;
  double outer_ms = 0;                 // a call and all that is beside it, by the judge's clock
  double floor_ms = 0;                 // by bytes that had to be written
  double flops_floor_ms = 0;           // the reference's FLOPs at the GPU's peak in any precision; 0 unknown. Decides nothing
  double ledger_ms = 0;                // GPU time of kernels, copies and fills in a call, by the ledger; 0 unknown
  double verify_ms = 0;                // comparing one timed call's outputs
  device::GpuState before, after;
  std::string conditions;              // GPU, driver, torch
  std::vector<std::string> remarks;
};

// What a memory checker found where it was asked for (JudgeConfig::sanitize).
struct Sanitized {
  std::string tool;                    // "compute-sanitizer memcheck", "vgpu"
  bool ran = false;
  std::string message;                 // the first finding, or why it did not run
  int findings = 0;
};

struct Verdict {
  int version = kVerdictVersion;
  std::string task, task_hash, candidate_hash, backend = "vgpu", gpu = "h200", policy = "strict";
  std::string dialect = "cuda";        // whose names the candidate speaks: cuda or musa
  std::string status = "infra:unfinished";
  std::string cause;                   // one sentence in words
  std::vector<Level> levels;
  std::vector<Trial> trials;
  double q = 0;                        // share of trials passed
  bool compiled = false, correct = false, legal = false;
  std::optional<double> reward;
  std::optional<double> speedup_eager, speedup_compile;   // measured only; vgpu leaves them null
  std::optional<Timing> timing;        // real hardware only
  std::optional<vgpu::TimeEstimate> estimate;             // virtual GPU only, of a verified call at the sizes it was judged at
  std::vector<build::BuildResult> builds;
  std::string exception_type, exception_message, traceback;
  int exception_line = 0;
  std::optional<vgpu::Fault> fault;
  std::vector<Sanitized> sanitized;    // in the order in which the tools ran
  vgpu::WindowReport ledger;           // summed over the windows
  vgpu::WindowReport outside;          // the device's work beside the windows, the runner's own copies of state among it
  std::vector<std::string> refused_ops, cpu_ops;
  bool scaled = false;
  std::vector<ScaledConstant> scaling;
  double work = 0, work_full = 0;
  std::vector<std::string> notes;      // static facts and remarks that do not decide
  std::map<std::string, std::string> environment;         // versions
  std::vector<std::string> sandbox;    // features in force
  std::map<std::string, double> seconds;                  // stage → s: extract, reference, build, spawn, run, compare, total
};

std::string status_class(const std::string& status);       // "compile_error" of "compile_error:nvcc"
bool is_candidate_fault(const std::string& status);        // compile_error, runtime_error, correctness_error, cheating
bool is_null_reward(const std::string& status);            // infra, unsupported, inconclusive, invalid_task
int exit_code(const std::string& status);                  // 0 ok, 1 candidate, 3 infrastructure (and unsupported, inconclusive), 4 task

nlohmann::json to_json(const Verdict& verdict);
Result<Verdict> verdict_from_json(const nlohmann::json& json);

}  // namespace musacoder::judge
