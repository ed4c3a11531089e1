// Verdicts for the data factory: many candidates over several lanes, each judged once in its life.
//
//   MC_ASSIGN_OR_RETURN(auto examiner, make_examiner(judge_config, {.journal = "out/verdicts.jsonl", .lanes = 2}));
//   MC_ASSIGN_OR_RETURN(std::vector<Examined> results, examiner->examine(candidates, on_progress));
//
// What data needs of a verdict is appended to the journal as soon as it is there, under a hash of task, candidate and the verifier's
// configuration: after kill -9 the same call goes on where it was. Infrastructure's faults are not written down, so that they are
// tried again. The order of results is that of the candidates. In tests an Examiner of one's own is the twin.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "judge/feedback.h"
#include "judge/judge.h"

namespace musacoder::synth {

struct Candidate {
  std::string task_id, task_code;
  std::string answer;                 // Python file
};

struct LaunchProfile {
  std::string kernel;                 // without its arguments
  std::string grid, block;            // "128 × 1 × 1"
  double launches = 0;                // a call
  vgpu::Counters counters;            // of one call
};

inline constexpr const char* kNotJudged = "infra:not_judged";

struct Examined {
  std::string status = kNotJudged, cause, candidate_hash, backend;
  std::optional<double> reward;
  judge::Feedback feedback;           // for round 1; feedback_for() for others
  std::vector<LaunchProfile> launches;
  double estimate_ms = 0;             // of a call; 0: none
  std::string estimate_kernel, bound, gpu;
  bool ok() const { return status == "ok"; }
  bool infra() const { return status.starts_with("infra"); }
};

// The feedback's text as the message of another round.
std::string feedback_for(const Examined& examined, int round);

struct AuditResult {
  std::string status;                 // "ok", or why the task is no use
  std::string message;
};

// The order in which those of `all` that are open are judged: candidates of one task beside each other, so that a lane's reference runner keeps what
// it knows; tasks in the order in which they were given, so that what a run that is stopped has judged is a fair sample.
std::vector<std::size_t> judging_order(const std::vector<Candidate>& all, std::vector<std::size_t> open);

class Examiner {
 public:
  virtual ~Examiner() = default;
  using Progress = std::function<void(std::size_t done, std::size_t all)>;
  // Errors: no lane could start, the journal cannot be written. kUnavailable after `stop` said so.
  virtual Result<std::vector<Examined>> examine(const std::vector<Candidate>& candidates, const Progress& progress = {}) = 0;
  // The task audit: executes, deterministic, no trivial answer.
  virtual Result<std::vector<AuditResult>> audit(const std::vector<Candidate>& tasks, const Progress& progress = {}) = 0;
  // What verdicts came from: version, backend, GPU.
  virtual std::string describe() const = 0;
  // Verdicts that were made by this process, not read from the journal, and the seconds that took.
  virtual std::size_t fresh() const = 0;
};

struct ExaminerOptions {
  std::string journal;                // JSONL; created where there is none
  int lanes = 0;                      // 0: one a core
  std::function<bool()> stop;         // asked between candidates
  bool judged_only = false;           // what the journal does not hold is "infra:not_judged"; nothing is judged
};
// The seed of `config` must not be 0: the same data asks for the same inputs.
Result<std::unique_ptr<Examiner>> make_examiner(const judge::JudgeConfig& config, const ExaminerOptions& options);

}  // namespace musacoder::synth
