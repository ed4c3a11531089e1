// The judge: a task and a model's answer go in, a verdict comes out. One straight line, level by level:
//
//   extract → open the task at the reference → start a device session and a runner → build (L0) → run (L1)
//           → compare (L2) → legality (L3) → time (L4, on real hardware) → verdict
//
//   JudgeConfig config{.runtime_dir = rt, .python = python, .cache_dir = cache};
//   MC_ASSIGN_OR_RETURN(auto judge, Judge::create(config));
//   Verdict verdict = judge->judge({.task_id = "level1/19", .task_code = task, .answer = answer});
//
// A Judge is one lane: one reference runner, one zygote, one candidate at a time. Not thread safe; use one Judge a thread.
// They share the builder, the zygote and the extractor, which are. judge() never fails: what goes wrong becomes the status.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "build/build.h"
#include "judge/installation.h"
#include "judge/verdict.h"

namespace musacoder::candidate {
class Extractor;
}
namespace musacoder::port {
class RenameTable;
}

namespace musacoder::judge {

class TaskLane;
class ZygoteClient;

struct JudgeConfig {
  std::shared_ptr<build::ArtifactStore> artifacts;  // shared by machines (build/artifact_store.h); null: none
  std::string runtime_dir, python, cache_dir;
  std::string also_gpu_arch;                    // "90": compile_only builds for that architecture too, for lanes on such a GPU; "": not
  std::string backend = "vgpu", gpu = "h200";
  std::string musa_gpu = "s5000";               // what vgpu presents to candidates in the MUSA dialect
  std::string policy = "strict";                // or "report"
  int trials = 7;                               // at least 5; index 0 is the task's own inputs (docs/protocols.md §2)
  std::uint64_t seed = 0;                       // 0: drawn from the operating system, hidden from candidates either way
  std::string scale = "auto";                   // or "full"
  std::map<std::string, std::int64_t> set;      // constants pinned by hand
  double work_budget = 3e7;                     // reference FLOPs + bytes of one call at the scaled size
  double pinned_work_budget = 3e8;              // the same when a candidate's hard-coded sizes must stay
  double axis_work_budget = 1.5e8;              // the same when a verified candidate is called again with one long axis
  bool audit = true;                            // trivial candidates must fail on the task first
  double reference_seconds = 60;                // one request to the reference runner
  double load_seconds = 60;                     // executing the candidate's Python, builds excluded
  double forward_seconds = 60;                  // one call of forward
  double candidate_seconds = 240;               // all of a candidate's time, builds excluded
  double launch_seconds = 20;                   // one kernel launch
  std::uint64_t launch_warp_instructions = 0;   // one kernel launch; 0: only the time limit
  std::uint64_t candidate_memory_bytes = 6ull << 30;
  int device_threads = 1;                       // host threads of the virtual GPU
  std::vector<std::string> sanitize;            // checkers that a candidate is run below once more (judge/sanitize.h): memcheck, racecheck, synccheck
  // Real hardware only.
  bool timing = true;                           // level L4
  int timed_calls = 50;                         // timed and verified
  double warm_seconds = 0.5;                    // until calls are stable, at most
  double first_call_seconds = 30;               // the first call: modules, run-time compilation, autotuning
  double hardware_call_seconds = 10;            // every other call, and a hand-over of timed ones
  std::vector<std::string> baselines = {"eager", "eager_tf32", "compile", "compile_tf32"};
};

struct JudgeRequest {
  std::string task_id;                          // for the verdict; may be empty
  std::string task_code;                        // a KernelBench file
  std::string answer;                           // Python file, bare .cu, or a model's raw answer
  std::string answer_name;                      // file name, for its suffix; may be empty
  std::string policy;                           // of this candidate; empty: JudgeConfig::policy
  std::uint64_t seed = 0;                       // of the inputs; 0: the lane's
  bool compile_only = false;                    // up to the last build that loading and constructing make; status "ok" or why not
  std::function<bool()> cancelled;              // asked between trials and at each wait; true ends in infra:cancelled
};

// What a lane is doing, for a progress line: "build", "run 3/7", ...
using StageCallback = std::function<void(const std::string&)>;

// What lanes share: each part is thread safe.
struct Shared {
  static Result<std::shared_ptr<Shared>> create(const JudgeConfig& config);
  Shared();
  ~Shared();
  std::shared_ptr<const port::RenameTable> names;   // of CUDA and MUSA
  std::unique_ptr<build::Builder> builder;
  std::unique_ptr<build::Builder> gpu_builder;     // of JudgeConfig::also_gpu_arch
  std::unique_ptr<candidate::Extractor> extractor;
  std::unique_ptr<ZygoteClient> zygote;            // for candidates in the device's dialect; vgpu's is CUDA
  std::shared_ptr<TaskLane> lane;                  // real hardware only: one GPU, one lane
  std::uint64_t seed = 0;                          // of all judges that share the lane, so that what the reference gave serves them all
  std::shared_ptr<Shared> virtual_gpu;             // for JudgeConfig::sanitize where no sanitizer is installed; made when first wanted
  std::mutex virtual_gpu_mutex;
  std::map<std::string, std::string> environment;  // versions, for the verdict
  Installation installation;                       // as it was when the zygote imported torch

  // The zygote for a dialect ("cuda", "musa"); that of vgpu's other dialect starts with the first candidate that speaks it.
  Result<ZygoteClient*> zygote_for(const std::string& dialect);

 private:
  std::mutex mutex_;
  JudgeConfig config_;
  std::unique_ptr<ZygoteClient> musa_zygote_;
};

class Judge {
 public:
  static Result<std::unique_ptr<Judge>> create(const JudgeConfig& config, std::shared_ptr<Shared> shared = nullptr);
  ~Judge();

  Verdict judge(const JudgeRequest& request, const StageCallback& on_stage = {});

  // The code that the last judge() found in the answer; line numbers of its verdict count in it. Empty when none was found.
  const std::string& last_code() const;

  // The task audit alone; returns the reference runner's findings as JSON text:
  // {"id", "status", "seconds", "found": [...], "scaling": [...], "message"}.
  std::string audit(const std::string& task_id, const std::string& task_code);

 private:
  struct Impl;
  friend class Run;
  std::unique_ptr<Impl> impl_;
  explicit Judge(std::unique_ptr<Impl> impl);
};

}  // namespace musacoder::judge
