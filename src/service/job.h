// A job: one candidate to be judged, from submission to its one end. And the rules by which it moves between
// states, as pure functions over the record, so that every queue keeps the same rules.
//
//   queued ──lease──▶ running ──complete──▶ done
//     ▲ │                │ │
//     │ └─cancel, deadline─┴──▶ cancelled, expired          lease lost: back to queued, or failed
//     (infra:poison) └──── fault, retry ──┘                                fault: back to queued, or failed
//     (the last fault)
//
// A worker that only compiles holds a job between queued and queued: on_compiled() gives it back with its
// artefacts built, for a worker that only executes.
//
//   Job job = new_job(spec, "j-…", now);
//   on_lease(job, "host/1/0", "lease-…", now, 30);
//   on_complete(job, outcome, now, policy);      // done; or queued again when the outcome is an infra
//   verdict
//
// An ended job never changes again: every rule returns false on it and leaves it alone. Times are Unix
// seconds. Records are versioned: a program skips records that a newer one wrote (see Job::version). Pure
// functions, thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/random.h"
#include "base/status.h"

namespace musacoder::service {

using base::random_id;

inline constexpr int kRecordVersion = 1;

enum class JobState { kQueued = 0, kRunning = 1, kDone = 2, kFailed = 3, kCancelled = 4, kExpired = 5 };
// "queued", "running", "done", "failed", "cancelled", "expired".
const char* state_name(JobState state);
std::optional<JobState> state_from_name(const std::string& name);
inline bool has_ended(JobState state) { return state >= JobState::kDone; }

// What a worker does with what it leases. Workers that only compile need no device.
enum class WorkerRole { kBoth, kCompile, kExecute };
// "both", "compile", "execute".
const char* role_name(WorkerRole role);
std::optional<WorkerRole> role_from_name(const std::string& name);

// What the client asked for. `extra` is a JSON object: every key that is not the service's own.
struct JobSpec {
  std::string task_id, reference, candidate, candidate_name;
  std::string policy = "strict";
  std::uint64_t seed = 0;  // 0: drawn by the judge
  int round = 1;
  int priority = 0;             // higher first
  double deadline_at = 0;       // 0: none
  std::string owner;            // name of the token
  std::string idempotency_key;  // "" none
  std::string extra = "{}";
  bool reuse = true;    // an earlier decided verdict of the same content answers
  bool attach = false;  // an unfinished job of the same owner and content is returned instead of a new one
};

// What judging gave. `verdict` is JSON text, "" where no judge finished.
struct Outcome {
  std::string status;  // "ok", "infra:disk"
  std::optional<double> reward;
  std::string verdict, feedback, code;
};

struct Job {
  int version = kRecordVersion;
  std::string id;
  std::uint64_t sequence = 0;  // order of submission, set by the queue
  JobSpec spec;
  JobState state = JobState::kQueued;
  double created_at = 0, not_before = 0, started_at = 0, finished_at = 0;
  std::string lease, worker, stage;  // lease stays after the end, so that its holder can be told to stop
  double lease_until = 0;
  int attempts = 0;       // leases given
  int faults = 0;         // tries that ended in an infrastructure fault
  int deaths = 0;         // workers that died or fell silent under it
  bool cached = false;    // answered from an earlier verdict
  bool compiled = false;  // a compile worker was through with it
  Outcome outcome;
  std::uint64_t revision = 0;  // grows with every change of any job, set by the queue
};

struct RetryPolicy {
  int max_faults = 3;     // tries; the last fault ends the job as failed
  int poison_deaths = 3;  // workers
  double backoff_s = 1, max_backoff_s = 30;
};

// Hash of what decides a verdict: reference, candidate, names, policy, seed and round. 64 hex digits.
std::string content_hash(const JobSpec& spec);
// Hash of the reference alone: jobs of one task suit the same lane.
std::string task_hash(const JobSpec& spec);
// "j-" and 32 hex digits: time and 80 random bits, so that ids sort by time and cannot be guessed.
std::string new_job_id(double now);

Job new_job(const JobSpec& spec, double now);

// A queue without a word from a compile worker for this long has none.
inline constexpr double kCompilerGoneS = 15;
// Whether a waiting job is for a worker of this role. Compile workers take what was not compiled; execute
// workers what was, and, when no compile worker was seen for kCompilerGoneS (`compiler_at`: when one was,
// Unix seconds), anything.
bool is_for(const Job& job, WorkerRole role, double now, double compiler_at);
// Whether the job is in the hands of a compile worker.
bool is_compiling(const Job& job);

// Each returns whether the job changed.
bool on_lease(Job& job, const std::string& worker, const std::string& lease, double now, double visibility_s,
              WorkerRole role = WorkerRole::kBoth);
// Given back by a compile worker that is through with it: queued again, and not for compile workers. The try
// does not count.
bool on_compiled(Job& job, double now);
bool on_heartbeat(Job& job, const std::string& stage, double now, double visibility_s);
// A decided verdict ends the job; an infra one is a fault.
bool on_complete(Job& job, const Outcome& outcome, double now, const RetryPolicy& policy);
// Given back by its worker. Without a fault the try does not count; with one ("infra:disk no room") it does.
bool on_release(Job& job, const std::string& fault, double now, const RetryPolicy& policy);
// The worker died or fell silent.
bool on_lease_lost(Job& job, double now, const RetryPolicy& policy);
bool on_cancel(Job& job, double now);
// Ends the job when its deadline has passed.
bool on_deadline(Job& job, double now);
// Answers a new job from an earlier one's outcome.
void on_reuse(Job& job, const Outcome& outcome, double now);

// JSON text of spec and outcome, as queues and workers exchange them.
std::string spec_to_text(const JobSpec& spec);
Result<JobSpec> spec_from_text(const std::string& text);
std::string outcome_to_text(const Outcome& outcome);
Result<Outcome> outcome_from_text(const std::string& text);

}  // namespace musacoder::service
