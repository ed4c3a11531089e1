#include "service/requests.h"

#include <array>
#include <nlohmann/json.hpp>

namespace musacoder::service {
namespace {

using nlohmann::json;

constexpr std::array kOwnKeys = {"candidate", "task",     "reference",  "candidate_name",  "policy", "seed",
                                 "round",     "priority", "deadline_s", "idempotency_key", "reuse"};

bool is_own(const std::string& key) {
  for (const char* own : kOwnKeys)
    if (key == own) return true;
  return false;
}

}  // namespace

ApiResult<JobSpec> parse_job(const json& value, const JobContext& context) {
  if (!value.is_object())
    return api_error(422, "a job is a JSON object with `candidate` and `task` or `reference`");
  JobSpec spec;
  spec.owner = context.owner;
  constexpr std::size_t kAny = 1u << 30;
  MC_API_ASSIGN_OR_RETURN(auto candidate, text_field(value, "candidate", kAny));
  if (!candidate)
    return api_error(422, "`candidate` is missing: the model's answer or a file's text", "candidate");
  spec.candidate = std::move(*candidate);
  MC_API_ASSIGN_OR_RETURN(auto task, text_field(value, "task", 255));
  MC_API_ASSIGN_OR_RETURN(auto reference, text_field(value, "reference", task::TaskSet::kMaxCodeBytes));
  if (reference) {
    spec.task_id = task.value_or("");
    spec.reference = std::move(*reference);
  } else if (task) {
    const task::Task* found = context.tasks ? context.tasks->find(*task) : nullptr;
    if (!found) {
      auto error = api_error(
          404,
          fmt::format(
              "there is no task '{}' in this server's task set; GET /v1/tasks lists it, or send `reference`",
              task->substr(0, 100)),
          "task");
      return error;
    }
    spec.task_id = found->id;
    spec.reference = found->code;
  } else {
    return api_error(422, "`task` or `reference` is missing", "task");
  }
  MC_API_ASSIGN_OR_RETURN(auto name, text_field(value, "candidate_name", 255));
  spec.candidate_name = name.value_or("");
  // Only a suffix is wanted of it; it never becomes a path.
  if (const auto slash = spec.candidate_name.find_last_of("/\\"); slash != std::string::npos)
    spec.candidate_name = spec.candidate_name.substr(slash + 1);
  MC_API_ASSIGN_OR_RETURN(auto policy, text_field(value, "policy", 16));
  spec.policy = policy.value_or(context.policy);
  if (spec.policy != "strict" && spec.policy != "report")
    return api_error(422, "`policy` is strict or report", "policy");
  MC_API_ASSIGN_OR_RETURN(auto seed, integer_field(value, "seed", 0, (1ll << 48) - 1));
  spec.seed = static_cast<std::uint64_t>(seed.value_or(0));
  MC_API_ASSIGN_OR_RETURN(auto round, integer_field(value, "round", 1, 1000));
  spec.round = static_cast<int>(round.value_or(1));
  MC_API_ASSIGN_OR_RETURN(auto priority, integer_field(value, "priority", -100, 100));
  spec.priority = static_cast<int>(priority.value_or(0));
  if (priority && spec.priority > context.max_priority)
    return api_error(422, fmt::format("this token's highest priority is {}", context.max_priority),
                     "priority");
  spec.priority = std::min(spec.priority, context.max_priority);
  MC_API_ASSIGN_OR_RETURN(auto deadline, number_field(value, "deadline_s", 0.1, 604800));
  if (deadline) spec.deadline_at = context.now + *deadline;
  MC_API_ASSIGN_OR_RETURN(auto key, text_field(value, "idempotency_key", 128));
  if (key && key->empty()) return api_error(422, "`idempotency_key` is not empty", "idempotency_key");
  spec.idempotency_key = key.value_or("");
  MC_API_ASSIGN_OR_RETURN(auto reuse, bool_field(value, "reuse"));
  spec.reuse = reuse.value_or(true);
  if (auto it = value.find("labels"); it != value.end() && !it->is_null() && !it->is_object())
    return api_error(422, "`labels` is an object", "labels");
  json extra = json::object();
  for (auto& [k, v] : value.items())
    if (!is_own(k)) extra[k] = v;
  spec.extra = dump_json(extra);
  if (spec.extra.size() > kMaxExtraBytes)
    return api_error(422,
                     fmt::format("labels and other keys take {} bytes, at most {} are carried",
                                 spec.extra.size(), kMaxExtraBytes),
                     "labels");
  return spec;
}

ApiResult<JobList> parse_jobs(const json& value, const JobContext& context) {
  JobList list;
  if (!value.is_object()) return api_error(422, "the body is a job or {\"jobs\": [job, ...]}");
  auto jobs = value.find("jobs");
  if (jobs == value.end()) {
    MC_API_ASSIGN_OR_RETURN(JobSpec spec, parse_job(value, context));
    list.specs.push_back(std::move(spec));
    return list;
  }
  list.many = true;
  if (!jobs->is_array() || jobs->empty() || jobs->size() > kMaxJobsAtOnce)
    return api_error(422, fmt::format("`jobs` is a list of 1 to {} jobs", kMaxJobsAtOnce), "jobs");
  for (std::size_t i = 0; i < jobs->size(); ++i) {
    auto spec = parse_job((*jobs)[i], context);
    if (!spec) {
      ApiError error = spec.error();
      error.message = fmt::format("jobs[{}]: {}", i, error.message);
      error.field =
          error.field.empty() ? fmt::format("jobs[{}]", i) : fmt::format("jobs[{}].{}", i, error.field);
      return tl::unexpected(error);
    }
    list.specs.push_back(std::move(*spec));
  }
  return list;
}

}  // namespace musacoder::service
