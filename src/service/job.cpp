#include "service/job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json_lines.h"
#include "base/random.h"
#include "judge/verdict.h"

namespace musacoder::service {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 6> kStateNames = {"queued", "running",   "done",
                                                    "failed", "cancelled", "expired"};

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

constexpr std::array<const char*, 3> kRoleNames = {"both", "compile", "execute"};
constexpr const char* kCompiling = "compile";

void end(Job& job, JobState state, double now) {
  job.state = state;
  job.finished_at = now;
  job.stage.clear();
}

void back_to_queue(Job& job, double not_before) {
  job.state = JobState::kQueued;
  job.not_before = not_before;
  job.lease.clear();
  job.lease_until = 0;
  job.worker.clear();
  job.stage.clear();
}

void end_without_verdict(Job& job, JobState state, const std::string& status, double now) {
  job.outcome = {};
  job.outcome.status = status;
  end(job, state, now);
}

bool fault(Job& job, Outcome outcome, double now, const RetryPolicy& policy) {
  ++job.faults;
  outcome.reward.reset();
  if (job.faults >= policy.max_faults) {
    job.outcome = std::move(outcome);
    end(job, JobState::kFailed, now);
  } else {
    back_to_queue(job, now + std::min(policy.max_backoff_s, policy.backoff_s * std::exp2(job.faults - 1)));
  }
  return true;
}

// A whole number within [low, high]; anything else counts as absent: converting a large double would be
// undefined.
std::int64_t whole_of(const json& value, const char* key, std::int64_t otherwise, std::int64_t low,
                      std::int64_t high) {
  auto it = value.find(key);
  if (it == value.end() || !it->is_number_integer()) return otherwise;
  const auto number = it->get<std::int64_t>();
  return number >= low && number <= high ? number : otherwise;
}

std::string text_of(const json& value, const char* key) {
  auto it = value.find(key);
  return it != value.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

const char* state_name(JobState state) { return kStateNames[static_cast<std::size_t>(state)]; }

std::optional<JobState> state_from_name(const std::string& name) {
  for (std::size_t i = 0; i < kStateNames.size(); ++i)
    if (name == kStateNames[i]) return static_cast<JobState>(i);
  return std::nullopt;
}

const char* role_name(WorkerRole role) { return kRoleNames[static_cast<std::size_t>(role)]; }

std::optional<WorkerRole> role_from_name(const std::string& name) {
  for (std::size_t i = 0; i < kRoleNames.size(); ++i)
    if (name == kRoleNames[i]) return static_cast<WorkerRole>(i);
  return std::nullopt;
}

bool is_for(const Job& job, WorkerRole role, double now, double compiler_at) {
  if (role == WorkerRole::kCompile) return !job.compiled;
  return role == WorkerRole::kBoth || job.compiled || now - compiler_at > kCompilerGoneS;
}

bool is_compiling(const Job& job) {
  return job.state == JobState::kRunning && job.stage.rfind(kCompiling, 0) == 0;
}

std::string content_hash(const JobSpec& spec) {
  base::Sha256 hash;
  hash.field("job-content-1");
  for (const std::string* text :
       {&spec.task_id, &spec.reference, &spec.candidate, &spec.candidate_name, &spec.policy})
    hash.field(*text);
  hash.field(std::to_string(spec.seed));
  hash.field(std::to_string(spec.round));
  return hash.hex();
}

std::string task_hash(const JobSpec& spec) { return base::sha256_hex(spec.reference); }

std::string new_job_id(double now) {
  return fmt::format("j-{:012x}{}", static_cast<std::uint64_t>(std::max(0.0, now) * 1000), base::random_hex(10));
}

Job new_job(const JobSpec& spec, double now) {
  Job job;
  job.id = new_job_id(now);
  job.spec = spec;
  job.created_at = now;
  return job;
}

bool on_lease(Job& job, const std::string& worker, const std::string& lease, double now, double visibility_s,
              WorkerRole role) {
  if (job.state != JobState::kQueued) return false;
  job.state = JobState::kRunning;
  job.worker = worker;
  job.lease = lease;
  job.lease_until = now + visibility_s;
  job.started_at = now;
  job.stage = role == WorkerRole::kCompile ? kCompiling : "start";
  ++job.attempts;
  return true;
}

bool on_compiled(Job& job, double now) {
  if (job.state != JobState::kRunning) return false;
  --job.attempts;
  back_to_queue(job, now);
  job.compiled = true;
  job.stage = "compiled";
  return true;
}

bool on_heartbeat(Job& job, const std::string& stage, double now, double visibility_s) {
  if (job.state != JobState::kRunning) return false;
  job.lease_until = now + visibility_s;
  if (!stage.empty()) job.stage = stage;
  return true;
}

bool on_complete(Job& job, const Outcome& outcome, double now, const RetryPolicy& policy) {
  if (job.state != JobState::kRunning) return false;
  if (judge::status_class(outcome.status) == "infra") return fault(job, outcome, now, policy);
  job.outcome = outcome;
  end(job, JobState::kDone, now);
  return true;
}

bool on_release(Job& job, const std::string& reason, double now, const RetryPolicy& policy) {
  if (job.state != JobState::kRunning) return false;
  if (!reason.empty()) {
    Outcome outcome;
    outcome.status = reason.substr(0, reason.find(' '));
    if (judge::status_class(outcome.status) != "infra") outcome.status = "infra:worker";
    outcome.feedback = reason;
    return fault(job, std::move(outcome), now, policy);
  }
  --job.attempts;
  back_to_queue(job, now);
  return true;
}

bool on_lease_lost(Job& job, double now, const RetryPolicy& policy) {
  if (job.state != JobState::kRunning) return false;
  ++job.deaths;
  if (job.deaths >= policy.poison_deaths) {
    end_without_verdict(job, JobState::kFailed, "infra:poison", now);
    job.outcome.feedback = fmt::format("{} workers died under this job or fell silent, the last one was {}",
                                       job.deaths, job.worker);
  } else {
    back_to_queue(job, now);
  }
  return true;
}

bool on_cancel(Job& job, double now) {
  if (has_ended(job.state)) return false;
  end_without_verdict(job, JobState::kCancelled, "infra:cancelled", now);
  return true;
}

bool on_deadline(Job& job, double now) {
  if (has_ended(job.state) || job.spec.deadline_at <= 0 || now < job.spec.deadline_at) return false;
  end_without_verdict(job, JobState::kExpired, "infra:deadline", now);
  return true;
}

void on_reuse(Job& job, const Outcome& outcome, double now) {
  job.outcome = outcome;
  job.cached = true;
  job.started_at = now;
  end(job, JobState::kDone, now);
}

std::string spec_to_text(const JobSpec& spec) {
  return dump({{"task_id", spec.task_id},
               {"reference", spec.reference},
               {"candidate", spec.candidate},
               {"candidate_name", spec.candidate_name},
               {"policy", spec.policy},
               {"seed", spec.seed},
               {"round", spec.round},
               {"priority", spec.priority},
               {"deadline_at", spec.deadline_at},
               {"owner", spec.owner},
               {"idempotency_key", spec.idempotency_key},
               {"extra", spec.extra}});
}

Result<JobSpec> spec_from_text(const std::string& text) {
  MC_ASSIGN_OR_RETURN(const json value, base::parse_json(text));
  if (!value.is_object()) return fail(Code::kInvalidArgument, "a job's record is not a JSON object");
  JobSpec spec;
  spec.task_id = text_of(value, "task_id");
  spec.reference = text_of(value, "reference");
  spec.candidate = text_of(value, "candidate");
  spec.candidate_name = text_of(value, "candidate_name");
  spec.policy = text_of(value, "policy");
  spec.owner = text_of(value, "owner");
  spec.idempotency_key = text_of(value, "idempotency_key");
  spec.extra = text_of(value, "extra");
  for (const char* key : {"seed", "round", "priority", "deadline_at"})
    if (auto it = value.find(key); it != value.end() && !it->is_number())
      return fail(Code::kInvalidArgument, "a job's record has a value of the wrong type: {}", key);
  spec.seed = static_cast<std::uint64_t>(whole_of(value, "seed", 0, 0, (1ll << 48) - 1));
  spec.round = static_cast<int>(whole_of(value, "round", 1, 1, 1 << 20));
  spec.priority = static_cast<int>(whole_of(value, "priority", 0, -1000, 1000));
  spec.deadline_at = value.value("deadline_at", 0.0);
  if (spec.policy.empty()) spec.policy = "strict";
  if (spec.extra.empty()) spec.extra = "{}";
  return spec;
}

std::string outcome_to_text(const Outcome& outcome) {
  json value = {{"status", outcome.status},
                {"feedback", outcome.feedback},
                {"code", outcome.code},
                {"verdict", outcome.verdict}};
  value["reward"] = outcome.reward ? json(*outcome.reward) : json();
  return dump(value);
}

Result<Outcome> outcome_from_text(const std::string& text) {
  MC_ASSIGN_OR_RETURN(const json value, base::parse_json(text));
  if (!value.is_object() || text_of(value, "status").empty())
    return fail(Code::kInvalidArgument, "an outcome is a JSON object with `status`");
  Outcome outcome;
  outcome.status = text_of(value, "status");
  outcome.feedback = text_of(value, "feedback");
  outcome.code = text_of(value, "code");
  outcome.verdict = text_of(value, "verdict");
  if (auto it = value.find("reward"); it != value.end() && it->is_number())
    outcome.reward = it->get<double>();
  return outcome;
}

}  // namespace musacoder::service
