#include "service/trainer_routes.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json_lines.h"
#include "service/requests.h"
#include "service/router.h"

namespace musacoder::service {

using nlohmann::json;

namespace {

// Below the clients' own limits: slime 120 s, OpenRLHF 180 s.
constexpr double kDefaultWaitS = 110;

struct Options {
  double wait_s = kDefaultWaitS;
  std::optional<double> null_reward;
  json job = json::object();  // policy, priority, deadline_s
};

ApiResult<Options> options_of(const Request& request, double default_wait = kDefaultWaitS) {
  Options options;
  MC_API_ASSIGN_OR_RETURN(options.wait_s, query_number(request, "wait", default_wait, 0, 3600));
  if (request.has_query("null_reward")) {
    MC_API_ASSIGN_OR_RETURN(options.null_reward, query_number(request, "null_reward", 0, 0, 1000));
  }
  if (request.has_query("policy")) options.job["policy"] = request.query("policy");
  if (request.has_query("priority")) {
    MC_API_ASSIGN_OR_RETURN(options.job["priority"], query_number(request, "priority", 0, -100, 100));
  }
  if (request.has_query("deadline_s")) {
    MC_API_ASSIGN_OR_RETURN(options.job["deadline_s"], query_number(request, "deadline_s", 1, 0.1, 604800));
  }
  return options;
}

// Puts `task` or `reference` into `job` from what a trainer's dataset column holds.
Status task_from_label(const json& label, json& job) {
  auto take = [&](const json& object) {
    for (const char* key : {"task", "reference"})
      if (auto it = object.find(key);
          it != object.end() && it->is_string() && !it->get_ref<const std::string&>().empty())
        job[key] = *it;
    return job.contains("task") || job.contains("reference");
  };
  if (label.is_object() && take(label)) return ok();
  if (label.is_string()) {
    const auto& text = label.get_ref<const std::string&>();
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first != std::string::npos && text[first] == '{')
      if (auto parsed = base::parse_json(text); parsed && parsed->is_object() && take(*parsed)) return ok();
    if (text.find("class Model") != std::string::npos)
      job["reference"] = text;
    else
      job["task"] = text;
    return ok();
  }
  return fail(
      Code::kInvalidArgument,
      "the label names no task: give an id, a reference's code, or an object with `task` or `reference`");
}

ApiResult<JobSpec> trainer_job(Service& service, const Token& token, const Options& options, json job) {
  for (auto& [key, value] : options.job.items())
    if (!job.contains(key)) job[key] = value;
  MC_API_ASSIGN_OR_RETURN(JobSpec spec, parse_job(job, context_of(service, token)));
  spec.attach = true;
  return spec;
}

bool is_infra(const Job& job) {
  return has_ended(job.state) && judge::status_class(job.outcome.status) == "infra";
}
bool is_undecided(const Job& job) {
  return has_ended(job.state) && !is_infra(job) && judge::is_null_reward(job.outcome.status);
}

// The reward, or null where there is none; the caller's number for undecided ones.
json reward_json(const Job& job, const std::optional<double>& null_reward) {
  if (has_ended(job.state) && !is_infra(job) && job.outcome.reward) return *job.outcome.reward;
  if (is_undecided(job) && null_reward) return *null_reward;
  return nullptr;
}

// Submits, waits for all, and gives the ended jobs to `answer`; what has not ended in time is 503, to be
// asked again.
ApiResult<Reply> judge_all(Service& service, const Token& token, const Request& request,
                           const std::vector<JobSpec>& specs, double wait_s,
                           std::function<Reply(const std::vector<Job>&)> answer) {
  MC_API_ASSIGN_OR_RETURN(auto submitted, service.submit(specs, token));
  Wait wait;
  for (const auto& one : submitted) wait.jobs.push_back(one.job.id);
  wait.seconds = wait_s;
  wait.then = [&service, token, ids = wait.jobs, answer = std::move(answer), id = request.id](bool) {
    std::vector<Job> jobs;
    for (const auto& job_id : ids) {
      auto job = service.get(job_id, token);
      if (!job) return error_reply(job.error(), id);
      if (!has_ended(job->state))
        return error_reply(
            service.overloaded(
                503,
                fmt::format("job {} has not ended yet; send the same again to go on waiting for it", job->id),
                "not_ended"),
            id);
      jobs.push_back(std::move(*job));
    }
    return answer(jobs);
  };
  Reply reply;
  reply.wait = std::move(wait);
  return reply;
}

Reply infra_reply(Service& service, const Job& job, const std::string& request_id) {
  ApiError error =
      service.overloaded(503,
                         fmt::format("job {} ended in {}: no verdict about the candidate; send it again",
                                     job.id, job.outcome.status),
                         "infra");
  error.retry_after_s = std::max(5.0, error.retry_after_s);
  return error_reply(error, request_id);
}

json verdict_json(const Job& job) {
  json verdict = json::parse(job.outcome.verdict, nullptr, false);
  return verdict.is_object() ? verdict : json::object();
}

ApiResult<json> object_body(const Request& request) {
  MC_API_ASSIGN_OR_RETURN(json body, parse_body(request));
  if (!body.is_object()) return api_error(422, "the body is a JSON object");
  return body;
}

std::string text_member(const json& object, const char* key) {
  auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// The text of an OpenAI Responses object: every output_text of its messages.
std::string response_text(const json& response) {
  std::string text;
  if (auto output = response.find("output");
      response.is_object() && output != response.end() && output->is_array())
    for (const auto& item : *output) {
      if (!item.is_object() || text_member(item, "type") != "message") continue;
      auto content = item.find("content");
      if (content == item.end()) continue;
      if (content->is_string()) text += content->get<std::string>();
      if (content->is_array())
        for (const auto& part : *content)
          if (part.is_object() && text_member(part, "type") == "output_text")
            text += text_member(part, "text");
    }
  if (text.empty() && response.is_object()) text = text_member(response, "output_text");
  return text;
}

}  // namespace

void TrainerRoutes::add(std::vector<Route>& routes) {
  add_rewards(routes);
  add_run_code(routes);
  add_kernel_gym(routes);
  add_open_env(routes);
}

void TrainerRoutes::add_rewards(std::vector<Route>& routes) {
  Service& s = service_;
  routes.push_back(
      {"POST", "/rm",
       [&s](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(const Options options, options_of(request));
         MC_API_ASSIGN_OR_RETURN(const json body, parse_body(request));
         const bool many = body.is_array();
         if (!many && !body.is_object())
           return api_error(422, "the body is {\"prompt\", \"response\", \"label\"} or a list of them");
         if (many && (body.empty() || body.size() > kMaxJobsAtOnce))
           return api_error(422, fmt::format("a list of 1 to {} samples is taken", kMaxJobsAtOnce));
         std::vector<JobSpec> specs;
         for (const json& sample : many ? body : json::array({body})) {
           if (!sample.is_object())
             return api_error(422, "a sample is an object with `response` and `label`");
           MC_API_ASSIGN_OR_RETURN(auto response, text_field(sample, "response", 1u << 30));
           if (!response) return api_error(422, "`response` is missing", "response");
           json job = {{"candidate", *response}};
           if (auto named = task_from_label(sample.value("label", json()), job); !named)
             return api_error(422, named.error().message, "label");
           MC_API_ASSIGN_OR_RETURN(JobSpec spec, trainer_job(s, token, options, std::move(job)));
           specs.push_back(std::move(spec));
         }
         const bool dict = request.query("format") == "dict";
         return judge_all(s, token, request, specs, options.wait_s,
                          [&s, dict, many, options, id = request.id](const std::vector<Job>& jobs) {
                            json rewards = json::array();
                            for (const Job& job : jobs) {
                              if (!dict && is_infra(job)) return infra_reply(s, job, id);
                              const json reward = reward_json(job, options.null_reward);
                              if (dict)
                                rewards.push_back({{"reward", reward},
                                                   {"status", job.outcome.status},
                                                   {"verified", job.outcome.status == "ok"},
                                                   {"infra", is_infra(job)},
                                                   {"undecided", is_undecided(job)},
                                                   {"feedback", job.outcome.feedback},
                                                   {"job", job.id}});
                              else
                                rewards.push_back(reward);
                            }
                            return json_reply(200, dump_json(many ? rewards : rewards[0]));
                          });
       }});

  routes.push_back(
      {"POST", "/get_reward",
       [&s](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(const Options options, options_of(request, 170));
         MC_API_ASSIGN_OR_RETURN(const json body, object_body(request));
         for (const char* key : {"query", "prompts", "labels"})
           if (auto it = body.find(key); it != body.end() && !it->is_array())
             return api_error(422, fmt::format("`{}` is a list", key), key);
         const json queries = body.value("query", json::array()),
                    prompts = body.value("prompts", json::array()),
                    labels = body.value("labels", json::array());
         if (queries.empty() || queries.size() > kMaxJobsAtOnce)
           return api_error(422, fmt::format("`query` is a list of 1 to {} texts", kMaxJobsAtOnce), "query");
         if (labels.size() != queries.size())
           return api_error(422, "`labels` has one label for each query", "labels");
         std::vector<JobSpec> specs;
         for (std::size_t i = 0; i < queries.size(); ++i) {
           if (!queries[i].is_string())
             return api_error(422, fmt::format("query[{}] is no text", i), "query");
           std::string answer = queries[i].get<std::string>();
           if (i < prompts.size() && prompts[i].is_string()) {
             const auto& prompt = prompts[i].get_ref<const std::string&>();
             if (answer.rfind(prompt, 0) == 0)
               answer = answer.substr(prompt.size());  // the query holds its prompt
           }
           json job = {{"candidate", std::move(answer)}};
           if (auto named = task_from_label(labels[i], job); !named)
             return api_error(422, fmt::format("labels[{}]: {}", i, named.error().message), "labels");
           MC_API_ASSIGN_OR_RETURN(JobSpec spec, trainer_job(s, token, options, std::move(job)));
           specs.push_back(std::move(spec));
         }
         return judge_all(
             s, token, request, specs, options.wait_s,
             [&s, options, id = request.id](const std::vector<Job>& jobs) {
               json rewards = json::array(), verified = json::array(), infra = json::array(),
                    undecided = json::array();
               for (const Job& job : jobs) {
                 if (is_infra(job)) return infra_reply(s, job, id);
                 rewards.push_back(reward_json(job, options.null_reward));
                 verified.push_back(job.outcome.status == "ok" ? 1 : 0);
                 infra.push_back(0);
                 undecided.push_back(is_undecided(job) ? 1 : 0);
               }
               return json_reply(
                   200, dump_json({{"rewards", rewards},
                                   {"scores", rewards},
                                   {"extra_logs",
                                    {{"verified", verified}, {"infra", infra}, {"undecided", undecided}}}}));
             });
       }});

  routes.push_back({"POST", "/seed_session",
                    [](const Request& request, const Token&, const std::string&) -> ApiResult<Reply> {
                      MC_API_ASSIGN_OR_RETURN(const json body, object_body(request));
                      return json_reply(200, "{}");
                    }});
  routes.push_back(
      {"POST", "/verify",
       [&s](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(const Options options, options_of(request));
         MC_API_ASSIGN_OR_RETURN(json body, object_body(request));
         auto response = body.find("response");
         if (response == body.end() || !response->is_object())
           return api_error(422, "`response` is an OpenAI Responses object", "response");
         json job = {{"candidate", response_text(*response)}};
         if (!task_from_label(body, job)) {
           const json metadata = body.value("verifier_metadata", json::object());
           if (!metadata.is_object() || !task_from_label(metadata, job))
             return api_error(422, "`task` or `reference` is missing, at the top or in `verifier_metadata`",
                              "task");
         }
         MC_API_ASSIGN_OR_RETURN(JobSpec spec, trainer_job(s, token, options, std::move(job)));
         return judge_all(s, token, request, {spec}, options.wait_s,
                          [body = std::move(body), options](const std::vector<Job>& jobs) mutable {
                            const Job& one = jobs[0];
                            const json reward = reward_json(one, options.null_reward);
                            const bool masked = is_infra(one) || is_undecided(one);
                            body["reward"] = reward.is_null() ? json(0.0) : reward;
                            body["mask_sample"] = masked;
                            body["failure_kind"] =
                                masked ? json(is_infra(one) ? "musacoder:infra" : "musacoder:undecided")
                                       : json();
                            body["failure_reason"] = masked ? json(one.outcome.status) : json();
                            body["status"] = one.outcome.status;
                            body["feedback"] = one.outcome.feedback;
                            return json_reply(200, dump_json(body));
                          });
       }});
}

void TrainerRoutes::add_run_code(std::vector<Route>& routes) {
  Service& s = service_;
  routes.push_back(
      {"POST", "/run_code",
       [&s](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(const Options options, options_of(request));
         MC_API_ASSIGN_OR_RETURN(const json body, object_body(request));
         MC_API_ASSIGN_OR_RETURN(auto code, text_field(body, "code", 1u << 30));
         if (!code) return api_error(422, "`code` is missing", "code");
         MC_API_ASSIGN_OR_RETURN(auto language, text_field(body, "language", 32));
         if (language && *language != "python" && *language != "cuda" && *language != "cpp")
           return api_error(422, "`language` is python, cuda or cpp", "language");
         for (const char* key : {"files", "fetch_files"})
           if (auto it = body.find(key); it != body.end() && !it->empty())
             return api_error(422, fmt::format("`{}` is not taken: nothing is written for a client", key),
                              key);
         json job = {{"candidate", *code}};
         if (language && *language != "python") job["candidate_name"] = "candidate.cu";
         if (!task_from_label(body, job)) return api_error(422, "`task` or `reference` is missing", "task");
         MC_API_ASSIGN_OR_RETURN(JobSpec spec, trainer_job(s, token, options, std::move(job)));
         return judge_all(s, token, request, {spec}, options.wait_s, [options](const std::vector<Job>& jobs) {
           const Job& one = jobs[0];
           const json verdict = verdict_json(one);
           const json seconds = verdict.value("seconds", json::object());
           const bool sandbox_error = is_infra(one) || is_undecided(one),
                      verified = one.outcome.status == "ok";
           const bool build_failed = judge::status_class(one.outcome.status) == "compile_error";
           auto part = [&](bool failed, double time, const std::string& out, const std::string& err) {
             return json{{"status", failed ? "Error" : "Finished"},
                         {"execution_time", time},
                         {"return_code", failed ? 1 : 0},
                         {"stdout", out},
                         {"stderr", err}};
           };
           const double build_s = seconds.value("build", 0.0), total_s = seconds.value("total", 0.0);
           const std::string cause = text_member(verdict, "cause");
           json reply = {{"status", sandbox_error ? "SandboxError"
                                    : verified    ? "Success"
                                                  : "Failed"},
                         {"message", sandbox_error ? one.outcome.status + ": " +
                                                         (cause.empty() ? one.outcome.feedback : cause)
                                                   : cause},
                         {"compile_result", sandbox_error ? json()
                                                          : part(build_failed, build_s, "",
                                                                 build_failed ? one.outcome.feedback : "")},
                         {"run_result", sandbox_error || build_failed
                                            ? json()
                                            : part(!verified, std::max(0.0, total_s - build_s),
                                                   one.outcome.feedback, verified ? "" : cause)},
                         {"executor_pod_name", nullptr},
                         {"files", json::object()},
                         {"reward", reward_json(one, options.null_reward)},
                         {"infra", is_infra(one)},
                         {"undecided", is_undecided(one)},
                         {"verdict_status", one.outcome.status}};
           return json_reply(200, dump_json(reply));
         });
       }});
}

namespace {

const char* kernel_gym_status(const Job& job) {
  switch (job.state) {
    case JobState::kQueued:
      return "pending";
    case JobState::kRunning:
      return "processing";
    case JobState::kDone:
      return "completed";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
    default:
      return "timeout";
  }
}

std::string kernel_gym_id(const Job& job) {
  constexpr std::string_view kPrefix = "kernelgym:";
  const std::string& key = job.spec.idempotency_key;
  return key.rfind(kPrefix, 0) == 0 ? key.substr(kPrefix.size()) : job.id;
}

json kernel_gym_short(const Job& job) {
  return {{"task_id", kernel_gym_id(job)},
          {"status", kernel_gym_status(job)},
          {"infra", is_infra(job)},
          {"error_message",
           is_infra(job) ? json(job.outcome.feedback.empty() ? job.outcome.status : job.outcome.feedback)
                         : json()}};
}

json kernel_gym_result(const Job& job) {
  const json verdict = verdict_json(job);
  json result = kernel_gym_short(job);
  const bool ended = has_ended(job.state);
  result["compiled"] = verdict.value("compiled", false);
  result["correctness"] = job.outcome.status == "ok";
  result["decoy_kernel"] = judge::status_class(job.outcome.status) == "cheating";
  result["speedup"] = verdict.value("speedup_eager", json());
  result["reference_runtime"] = nullptr;
  result["kernel_runtime"] = nullptr;
  result["reward"] = reward_json(job, std::nullopt);
  result["undecided"] = is_undecided(job);
  if (ended && !is_infra(job) && job.outcome.status != "ok")
    result["error_message"] = text_member(verdict, "cause");
  const json ledger = verdict.value("ledger", json::object());
  const json kernels = ledger.is_object() ? ledger.value("kernels", json()) : json();
  result["metadata"] = {{"verdict_status", job.outcome.status},
                        {"q", verdict.value("q", 0.0)},
                        {"feedback", job.outcome.feedback},
                        {"num_custom_kernels", kernels.is_array() ? json(kernels.size()) : json()},
                        {"job", job.id}};
  return result;
}

ApiResult<JobSpec> kernel_gym_job(Service& service, const Token& token, const Options& options,
                                  const json& body) {
  if (!body.is_object())
    return api_error(422, "a task is an object with `task_id`, `reference_code` and `kernel_code`");
  MC_API_ASSIGN_OR_RETURN(auto id, text_field(body, "task_id", 100));
  MC_API_ASSIGN_OR_RETURN(auto reference, text_field(body, "reference_code", task::TaskSet::kMaxCodeBytes));
  MC_API_ASSIGN_OR_RETURN(auto kernel, text_field(body, "kernel_code", 1u << 30));
  MC_API_ASSIGN_OR_RETURN(auto entry, text_field(body, "entry_point", 128));
  if (!id || id->empty()) return api_error(422, "`task_id` is missing", "task_id");
  if (!reference) return api_error(422, "`reference_code` is missing", "reference_code");
  if (!kernel) return api_error(422, "`kernel_code` is missing", "kernel_code");
  if (entry && *entry != "Model")
    return api_error(422, "`entry_point` is Model: the reference's class is Model, the candidate's ModelNew",
                     "entry_point");
  MC_API_ASSIGN_OR_RETURN(JobSpec spec,
                          trainer_job(service, token, options,
                                      {{"task", *id}, {"reference", *reference}, {"candidate", *kernel}}));
  // A task name of its own for every sample would defeat the verdicts' reuse.
  spec.task_id = "reference-" + base::sha256_hex(spec.reference).substr(0, 12);
  spec.idempotency_key = "kernelgym:" + *id;
  spec.attach = false;
  return spec;
}

}  // namespace

void TrainerRoutes::add_kernel_gym(std::vector<Route>& routes) {
  Service& s = service_;
  auto evaluate = [&s](const Request& request, const Token& token, const json& body) -> ApiResult<Reply> {
    MC_API_ASSIGN_OR_RETURN(const Options options, options_of(request, 0));
    MC_API_ASSIGN_OR_RETURN(JobSpec spec, kernel_gym_job(s, token, options, body));
    MC_API_ASSIGN_OR_RETURN(auto submitted, s.submit({spec}, token));
    const Job job = submitted[0].job;
    auto answer = [](const Job& j) {
      return json_reply(200, dump_json(has_ended(j.state) ? kernel_gym_result(j) : kernel_gym_short(j)));
    };
    if (options.wait_s <= 0) return answer(job);
    Reply reply;
    reply.wait =
        Wait{{job.id}, options.wait_s, [&s, token, answer, id = job.id, request_id = request.id](bool) {
               auto later = s.get(id, token);
               return later ? answer(*later) : error_reply(later.error(), request_id);
             }};
    return reply;
  };
  routes.push_back(
      {"POST", "/evaluate",
       [evaluate](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(const json body, object_body(request));
         return evaluate(request, token, body);
       }});
  routes.push_back(
      {"POST", "/workflow/submit",
       [evaluate](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(const json body, object_body(request));
         auto payload = body.find("payload");
         if (payload != body.end() && !payload->is_object())
           return api_error(422, "`payload` is an object", "payload");
         return evaluate(request, token, payload == body.end() ? body : *payload);
       }});
  routes.push_back(
      {"POST", "/evaluate/batch",
       [&s](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(const Options options, options_of(request, 0));
         MC_API_ASSIGN_OR_RETURN(const json body, object_body(request));
         auto tasks = body.find("tasks");
         if (tasks == body.end() || !tasks->is_array() || tasks->empty() || tasks->size() > kMaxJobsAtOnce)
           return api_error(422, fmt::format("`tasks` is a list of 1 to {}", kMaxJobsAtOnce), "tasks");
         std::vector<JobSpec> specs;
         for (const json& task : *tasks) {
           MC_API_ASSIGN_OR_RETURN(JobSpec spec, kernel_gym_job(s, token, options, task));
           specs.push_back(std::move(spec));
         }
         MC_API_ASSIGN_OR_RETURN(auto submitted, s.submit(specs, token));
         json rows = json::array();
         for (const auto& one : submitted)
           rows.push_back(has_ended(one.job.state) ? kernel_gym_result(one.job) : kernel_gym_short(one.job));
         const std::string batch = text_member(body, "batch_id");
         return json_reply(
             200, dump_json({{"batch_id", batch.empty() ? random_id("b-") : batch}, {"tasks", rows}}));
       }});
  auto find = [&s](const std::string& id, const Token& token) -> ApiResult<Job> {
    auto job = s.queue().find(token.name, "kernelgym:" + id);
    if (!job) return tl::unexpected(api_error_of(job.error()));
    if (!*job) return api_error(404, "there is no task of this id");
    return std::move(**job);
  };
  routes.push_back({"GET", "/status/{rest}",
                    [find](const Request&, const Token& token, const std::string& id) -> ApiResult<Reply> {
                      MC_API_ASSIGN_OR_RETURN(const Job job, find(id, token));
                      return json_reply(200, dump_json(kernel_gym_short(job)));
                    }});
  routes.push_back({"GET", "/results/{rest}",
                    [find](const Request&, const Token& token, const std::string& id) -> ApiResult<Reply> {
                      MC_API_ASSIGN_OR_RETURN(const Job job, find(id, token));
                      if (!has_ended(job.state)) {
                        ApiError error = api_error(409, "the task has not ended yet").value();
                        error.retry_after_s = 1;
                        return tl::unexpected(error);
                      }
                      return json_reply(200, dump_json(kernel_gym_result(job)));
                    }});
}

void Episodes::put(Episode episode, double now) {
  std::lock_guard lock(map_mutex_);
  episode.used_at = now;
  if (episodes_.size() >= limit_) {
    for (auto it = episodes_.begin(); it != episodes_.end();)
      it = now - it->second->used_at > idle_s_ ? episodes_.erase(it) : std::next(it);
    if (episodes_.size() >= limit_)
      episodes_.erase(std::min_element(episodes_.begin(), episodes_.end(), [](const auto& a, const auto& b) {
        return a.second->used_at < b.second->used_at;
      }));
  }
  latest_[episode.owner] = episode.id;
  const std::string key = episode.owner + "\n" + episode.id;
  episodes_[key] = std::make_shared<Episode>(std::move(episode));
}

std::shared_ptr<Episode> Episodes::find(const std::string& id, const std::string& owner, double now) {
  std::lock_guard lock(map_mutex_);
  auto latest = latest_.find(owner);
  if (id.empty() && latest == latest_.end()) return nullptr;
  auto it = episodes_.find(owner + "\n" + (id.empty() ? latest->second : id));
  if (it == episodes_.end()) return nullptr;
  if (now - it->second->used_at > idle_s_) {
    episodes_.erase(it);
    return nullptr;
  }
  it->second->used_at = now;
  return it->second;
}

namespace {

constexpr const char* kActionSchema =
    R"({"type":"object","properties":{"candidate":{"type":"string","description":"Python with ModelNew, bare .cu, or the model's raw answer; `code`, `response` and `message` are taken as well"},"episode_id":{"type":"string"},"metadata":{"type":"object"}}})";
constexpr const char* kObservationSchema =
    R"({"type":"object","properties":{"episode_id":{"type":"string"},"turn":{"type":"integer"},"max_turns":{"type":"integer"},"task":{"type":"string"},"prompt":{"type":["string","null"]},"feedback":{"type":["string","null"]},"status":{"type":["string","null"]},"verified":{"type":"boolean"},"infra":{"type":"boolean"},"undecided":{"type":"boolean"}}})";
constexpr const char* kStateSchema =
    R"({"type":"object","properties":{"episode_id":{"type":["string","null"]},"step_count":{"type":"integer","minimum":0},"task":{"type":"string"},"done":{"type":"boolean"},"verified":{"type":"boolean"},"rewards":{"type":"array","items":{"type":["number","null"]}},"best":{"type":["number","null"]},"max_turns":{"type":"integer"}}})";

json rewards_json(const Episode& episode) {
  json rewards = json::array();
  for (double r : episode.rewards) rewards.push_back(std::isnan(r) ? json() : json(r));
  return rewards;
}

std::string prompt_of(const Episode& episode) {
  return "Replace the PyTorch module `Model` below by a class `ModelNew` with the same interface whose work "
         "is done by CUDA kernels "
         "of your own (torch.utils.cpp_extension.load_inline). Answer with one Python code "
         "block.\n\n```python\n" +
         episode.reference + "\n```\n";
}

json observation_json(const Episode& episode) {
  return {{"episode_id", episode.id},
          {"turn", episode.turns},
          {"max_turns", episode.max_turns},
          {"task", episode.task_id},
          {"prompt", nullptr},
          {"feedback", nullptr},
          {"status", nullptr},
          {"verified", episode.verified},
          {"infra", false},
          {"undecided", false}};
}

}  // namespace

ApiResult<Reply> TrainerRoutes::open_env_reset(const json& data, const Token& token, std::string* id) {
  if (!data.is_object()) return api_error(422, "reset takes an object");
  Episode episode;
  episode.owner = token.name;
  MC_API_ASSIGN_OR_RETURN(auto wanted, text_field(data, "episode_id", 255));
  episode.id = wanted && !wanted->empty() ? *wanted : random_id("e-");
  MC_API_ASSIGN_OR_RETURN(auto seed, integer_field(data, "seed", 0, (1ll << 53)));
  MC_API_ASSIGN_OR_RETURN(auto turns, integer_field(data, "max_turns", 1, 100));
  episode.max_turns = static_cast<int>(turns.value_or(3));
  json job = {{"candidate", ""}};
  for (const char* key : {"task", "reference", "policy"})
    if (data.contains(key)) job[key] = data[key];
  const auto& tasks = service_.config().tasks;
  if (!job.contains("task") && !job.contains("reference")) {
    if (!tasks || tasks->tasks().empty())
      return api_error(422, "`task` or `reference` is missing, and this server has no task set to draw from",
                       "task");
    const auto draw = base::xxh3(seed ? std::to_string(*seed) : episode.id);
    job["task"] = tasks->tasks()[draw % tasks->tasks().size()].id;
  }
  MC_API_ASSIGN_OR_RETURN(JobSpec spec, parse_job(job, context_of(service_, token)));
  episode.task_id = spec.task_id;
  episode.reference = spec.reference;
  episode.policy = spec.policy;
  json observation = observation_json(episode);
  observation["prompt"] = prompt_of(episode);
  if (id) *id = episode.id;
  episodes_.put(std::move(episode), service_.now());
  return json_reply(200, dump_json({{"observation", observation},
                                    {"reward", nullptr},
                                    {"done", false},
                                    {"metadata", json::object()}}));
}

ApiResult<Reply> TrainerRoutes::open_env_step(const json& action, const json& body, const Token& token,
                                              const std::string& fallback, double wait_s) {
  if (!action.is_object()) return api_error(422, "`action` is an object", "action");
  std::optional<std::string> answer;
  for (const char* key : {"candidate", "code", "response", "message"}) {
    MC_API_ASSIGN_OR_RETURN(auto text, text_field(action, key, 1u << 30));
    if (text && !answer) answer = std::move(text);
  }
  if (!answer) return api_error(422, "the action has no `candidate`", "action.candidate");
  MC_API_ASSIGN_OR_RETURN(auto in_body, text_field(body, "episode_id", 255));
  MC_API_ASSIGN_OR_RETURN(auto in_action, text_field(action, "episode_id", 255));
  const std::string wanted = in_body && !in_body->empty()       ? *in_body
                             : in_action && !in_action->empty() ? *in_action
                                                                : fallback;
  auto episode = episodes_.find(wanted, token.name, service_.now());
  if (!episode) return api_error(404, "there is no such episode; call reset first", "episode_id");
  JobSpec spec;
  {
    std::lock_guard lock(episodes_.mutex);
    if (episode->done) return api_error(409, "the episode is over; call reset");
    if (episode->busy_until > service_.now()) return api_error(409, "a step of this episode is being judged");
    json job = {{"candidate", *answer},
                {"task", episode->task_id},
                {"reference", episode->reference},
                {"policy", episode->policy},
                {"round", episode->turns + 1}};
    MC_API_ASSIGN_OR_RETURN(spec, parse_job(job, context_of(service_, token)));
    spec.attach = true;
    episode->busy_until = service_.now() + wait_s + 5;
  }
  auto free = [this, episode] {
    std::lock_guard lock(episodes_.mutex);
    episode->busy_until = 0;
  };
  auto submitted = service_.submit({spec}, token);
  if (!submitted) {
    free();
    return tl::unexpected(submitted.error());
  }
  Reply reply;
  reply.wait =
      Wait{{(*submitted)[0].job.id}, wait_s, [this, token, episode, free, id = (*submitted)[0].job.id](bool) {
             auto found = service_.get(id, token);
             if (!found || !has_ended(found->state)) {
               free();
               if (!found) return error_reply(found.error(), "");
               return error_reply(
                   service_.overloaded(503, "the step is still being judged; send it again to go on waiting",
                                       "not_ended"),
                   "");
             }
             const Job& job = *found;
             const bool infra = is_infra(job), undecided = is_undecided(job);
             const json reward = reward_json(job, std::nullopt);
             std::lock_guard lock(episodes_.mutex);
             episode->busy_until = 0;
             if (!infra) {
               ++episode->turns;
               episode->rewards.push_back(reward.is_number() ? reward.get<double>() : std::nan(""));
               episode->verified = job.outcome.status == "ok";
               episode->done = episode->verified || episode->turns >= episode->max_turns ||
                               judge::status_class(job.outcome.status) == "invalid_task";
             }
             json observation = observation_json(*episode);
             observation["feedback"] = job.outcome.feedback;
             observation["status"] = job.outcome.status;
             observation["infra"] = infra;
             observation["undecided"] = undecided;
             return json_reply(200, dump_json({{"observation", observation},
                                               {"reward", reward},
                                               {"done", episode->done},
                                               {"metadata",
                                                {{"infra", infra},
                                                 {"undecided", undecided},
                                                 {"job", job.id},
                                                 {"rewards", rewards_json(*episode)}}}}));
           }};
  return reply;
}

ApiResult<json> TrainerRoutes::open_env_state(const std::string& id, bool latest, const Token& token) {
  auto episode = id.empty() && !latest ? nullptr : episodes_.find(id, token.name, service_.now());
  if (!episode) {
    if (!id.empty()) return api_error(404, "there is no such episode", "episode_id");
    return json{{"episode_id", nullptr}, {"step_count", 0},          {"task", ""},      {"done", false},
                {"verified", false},     {"rewards", json::array()}, {"best", nullptr}, {"max_turns", 0}};
  }
  std::lock_guard lock(episodes_.mutex);
  json best;
  for (double r : episode->rewards)
    if (!std::isnan(r) && (best.is_null() || r > best.get<double>())) best = r;
  return json{{"episode_id", episode->id},
              {"step_count", episode->turns},
              {"task", episode->task_id},
              {"done", episode->done},
              {"verified", episode->verified},
              {"rewards", rewards_json(*episode)},
              {"best", best},
              {"max_turns", episode->max_turns}};
}

void TrainerRoutes::add_open_env(std::vector<Route>& routes) {
  routes.push_back(
      {"POST", "/reset",
       [this](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
         json body = json::object();
         if (!request.body.empty()) {
           MC_API_ASSIGN_OR_RETURN(body, parse_body(request));
         }
         return open_env_reset(body, token, nullptr);
       }});
  routes.push_back(
      {"POST", "/step",
       [this](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(const json body, object_body(request));
         auto action = body.find("action");
         if (action == body.end()) return api_error(422, "`action` is missing", "action");
         MC_API_ASSIGN_OR_RETURN(auto timeout, number_field(body, "timeout_s", 0.001, 3600));
         return open_env_step(*action, body, token, "", timeout.value_or(kDefaultWaitS));
       }});
  routes.push_back(
      {"GET", "/state",
       [this](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(const json state, open_env_state(request.query("episode_id"), true, token));
         return json_reply(200, dump_json(state));
       }});
  routes.push_back(
      {"GET", "/schema", [](const Request&, const Token&, const std::string&) -> ApiResult<Reply> {
         return json_reply(200, fmt::format(R"({{"action":{},"observation":{},"state":{}}})", kActionSchema,
                                            kObservationSchema, kStateSchema));
       }});
  routes.push_back(
      {"GET", "/metadata", [](const Request&, const Token&, const std::string&) -> ApiResult<Reply> {
         return json_reply(
             200, dump_json(
                      {{"name", "musacoder"},
                       {"description",
                        "Replace a PyTorch module by CUDA kernels; every answer is verified, with feedback."},
                       {"readme_content", nullptr},
                       {"version", MUSACODER_VERSION},
                       {"author", nullptr},
                       {"documentation_url", nullptr}}));
       }});
}

Reply TrainerRoutes::open_env_message(const std::string& text, const Token& token, std::string& episode) {
  auto error = [](const std::string& message, const char* code) {
    return json_reply(200, dump_json({{"type", "error"}, {"data", {{"message", message}, {"code", code}}}}));
  };
  auto parsed = base::parse_json(text);
  if (!parsed || !parsed->is_object()) return error("a message is a JSON object", "INVALID_JSON");
  const std::string type = text_member(*parsed, "type");
  const json data = parsed->value("data", json::object());
  // Replies of the HTTP routes in the envelope of the WebSocket.
  auto wrap = [error](const Reply& reply, const char* kind) {
    const json body = json::parse(reply.body, nullptr, false);
    if (reply.status != 200) {
      const bool valid = body.is_object() && body.contains("error");
      return error(valid ? text_member(body["error"], "message") : "failed",
                   reply.status == 422   ? "VALIDATION_ERROR"
                   : reply.status == 404 ? "SESSION_ERROR"
                                         : "EXECUTION_ERROR");
    }
    return json_reply(200, dump_json({{"type", kind}, {"data", body}}));
  };
  if (type == "reset") {
    auto reply = open_env_reset(data, token, &episode);
    return wrap(reply ? *reply : error_reply(reply.error(), ""), "observation");
  }
  if (type == "step") {
    const json action =
        data.is_object() && data.contains("action") && data["action"].is_object() ? data["action"] : data;
    auto reply = open_env_step(action, json::object(), token, episode.empty() ? "-" : episode, 3600);
    if (!reply) return wrap(error_reply(reply.error(), ""), "observation");
    if (reply->wait)
      reply->wait->then = [wrap, then = std::move(reply->wait->then)](bool ended) {
        return wrap(then(ended), "observation");
      };
    return std::move(*reply);
  }
  if (type == "state") {
    auto state = open_env_state(episode, false, token);
    if (!state) return error(state.error().message, "SESSION_ERROR");
    return json_reply(200, dump_json({{"type", "state"}, {"data", *state}}));
  }
  return error("unknown type; send reset, step, state or close", "UNKNOWN_TYPE");
}

}  // namespace musacoder::service
