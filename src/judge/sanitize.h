// The optional stage behind `--sanitize`: a candidate once more, at reduced sizes, below a memory checker.
//
// Where NVIDIA's compute-sanitizer is installed and the candidate runs on a GPU, a process of its own runs below it, with the
// task scaled as for the virtual GPU, and every tensor in an allocation of its own. Elsewhere the virtual GPU's checks stand
// in. A finding makes a verified candidate a faulty one; to a candidate that is faulty already it adds kernel, thread and line.
// Finding nothing proves nothing, and the report lies where the candidate could write: this stage only ever adds faults.
//
//   SanitizerLog log = read_sanitizer_log(text);
//   log.faults[0].status;   // "runtime_error:illegal_access"
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "candidate/candidate.h"
#include "judge/judge.h"
#include "judge/runner_client.h"
#include "judge/task_lane.h"
#include "judge/verdict.h"

namespace musacoder::judge {

// $MUSACODER_COMPUTE_SANITIZER alone where it is set ("none": do without); else PATH, /usr/local/cuda*/bin. Nothing where it is
// not installed.
std::optional<std::string> find_compute_sanitizer();

struct SanitizerFault {
  std::string status;        // "runtime_error:illegal_access", …:misaligned, …:race, …:barrier
  device::Fault fault;       // kernel, thread, block, file, line, message; of a race kernel and message alone
};
struct SanitizerLog {
  bool complete = false;     // its last line is there
  int errors = 0;            // as that line counts them
  std::vector<SanitizerFault> faults;   // at most kMaxFaults, in order; API errors and leaks are none
  static constexpr std::size_t kMaxFaults = 32;
};
// A report of compute-sanitizer (memcheck, racecheck, synccheck), as text. Never fails: what is not understood is passed over.
SanitizerLog read_sanitizer_log(std::string_view text);

struct SanitizeContext {
  const JudgeConfig& config;
  const std::string& task_id;
  const std::string& task_code;
  const std::string& policy;
  const candidate::Candidate& candidate;
  TaskLane& lane;
  ZygoteClient& zygote;
  device::Device& device;
  const std::string& scratch;                 // existing folder, for this stage alone
  std::uint64_t seed = 0;
  BuildCallback build;
  std::function<TaskLane::Hold()> hold;       // the GPU's lane
  std::function<base::Deadline(double)> deadline;
};

// Runs the candidate below `tool` ("memcheck", "racecheck", "synccheck"). `fault` is the first one found. Errors: the machine's
// trouble; what the candidate does wrong is told by `Sanitized::message`, with ran = false.
Result<Sanitized> run_sanitizer(const SanitizeContext& context, const std::string& sanitizer, const std::string& tool,
                                std::optional<SanitizerFault>& fault);

}  // namespace musacoder::judge
