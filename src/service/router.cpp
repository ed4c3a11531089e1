#include "service/router.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/event_log.h"
#include "service/openapi.h"
#include "service/trainer_routes.h"

namespace musacoder::service {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxPageBytes = 16u << 20;

std::string views_text(Service& service, const std::vector<Job>& jobs, bool whole) {
  std::string text = "[";
  for (const Job& job : jobs) {
    if (text.size() > 1) text += ',';
    text += service.view(job, whole);
  }
  return text + "]";
}

json stored_json(const store::StoredVerdict& row) {
  return {{"key", row.key},
          {"stored_at", row.stored_at},
          {"verdict", judge::to_json(row.verdict)},
          {"extra", json::parse(row.extra, nullptr, false)}};
}

}  // namespace

JobContext context_of(Service& service, const Token& token) {
  const auto& config = service.config();
  return {config.tasks ? &*config.tasks : nullptr, token.name, config.policy, token.max_priority,
          service.now()};
}

Router::Router(Service& service) : service_(service), trainers_(std::make_unique<TrainerRoutes>(service)) {
  add_core();
  trainers_->add(routes_);
}
Router::~Router() = default;

const Route* Router::match(const Request& request, std::string* rest, std::string* allow) const {
  const Route* found = nullptr;
  for (const Route& route : routes_) {
    const auto brace = route.pattern.find("{rest}");
    std::string middle;
    if (brace == std::string::npos) {
      if (request.path != route.pattern) continue;
    } else {
      const std::string head = route.pattern.substr(0, brace), tail = route.pattern.substr(brace + 6);
      if (request.path.size() <= head.size() + tail.size() ||
          request.path.compare(0, head.size(), head) != 0 ||
          request.path.compare(request.path.size() - tail.size(), tail.size(), tail) != 0)
        continue;
      middle = request.path.substr(head.size(), request.path.size() - head.size() - tail.size());
      if (middle.find('/') != std::string::npos && route.pattern.rfind("/v1/tasks/", 0) != 0) continue;
    }
    if (route.method == request.method) {
      if (rest) *rest = middle;
      return &route;
    }
    if (allow) *allow += (allow->empty() ? "" : ", ") + route.method;
    found = found ? found : &route;
  }
  return nullptr;
}

std::string Router::pattern_of(const Request& request) const {
  const Route* route = match(request, nullptr, nullptr);
  return route ? route->pattern : "other";
}

std::vector<std::string> Router::patterns() const {
  std::set<std::string> unique;
  for (const Route& route : routes_) unique.insert(route.pattern);
  return {unique.begin(), unique.end()};
}

std::optional<Reply> Router::refuse_early(const Request& request) {
  auto refuse = [&](ApiError error, const char* reason) {
    service_.metrics().count_refusal(reason);
    log_event(base::LogLevel::kInfo, "refused",
              {{"request", request.id},
               {"peer", request.peer},
               {"reason", std::string(reason)},
               {"method", request.method},
               {"path", request.path}});
    return std::optional<Reply>(error_reply(error, request.id));
  };
  if (auto foreign = net::find_foreign(request, !service_.config().tokens.empty()))
    return refuse(std::move(foreign->error), foreign->reason);
  std::string allow;
  const Route* route = match(request, nullptr, &allow);
  if (!route && !allow.empty()) {
    auto reply = refuse(
        api_error(405, fmt::format("{} is not served here; {} is", request.method.substr(0, 16), allow))
            .value(),
        "method");
    reply->headers.emplace_back("Allow", allow);
    return reply;
  }
  if (!route)
    return refuse(api_error(404, "there is no such route; GET /openapi.json lists them").value(), "route");
  if (route->open) return std::nullopt;
  auto token = service_.authenticate(net::bearer_of(request));
  if (!token) {
    auto reply = refuse(token.error(), "token");
    reply->headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  if (route->worker_only ? token->role == Role::kClient : token->role == Role::kWorker)
    return refuse(api_error(403, "this token's role may not use this route").value(), "role");
  return std::nullopt;
}

Reply Router::handle(const Request& request) {
  if (auto refused = refuse_early(request)) return std::move(*refused);
  std::string rest;
  const Route* route = match(request, &rest, nullptr);
  Token token;
  if (!route->open) token = service_.authenticate(net::bearer_of(request)).value();
  auto reply = route->handler(request, token, rest);
  return reply ? std::move(*reply) : error_reply(reply.error(), request.id);
}

Reply Router::open_env_message(const std::string& text, const Token& token, std::string& episode) {
  return trainers_->open_env_message(text, token, episode);
}

void Router::add_core() {
  Service& s = service_;
  auto add = [&](const char* method, const char* pattern, Handler handler) {
    routes_.push_back({method, pattern, std::move(handler)});
  };
  auto add_open = [&](const char* pattern, Handler handler) {
    routes_.push_back({"GET", pattern, std::move(handler), true});
  };
  auto add_worker = [&](const char* pattern, Handler handler) {
    routes_.push_back({"POST", pattern, std::move(handler), false, true});
  };

  add_open("/", [&s](const Request&, const Token&, const std::string&) -> ApiResult<Reply> {
    if (s.config().dashboard.empty())
      return api_error(404, "the dashboard is not installed; see /openapi.json for the routes");
    auto page = base::read_file(s.config().dashboard, kMaxPageBytes);
    if (!page) return api_error(404, "the dashboard cannot be read");
    Reply reply = json_reply(200, std::move(*page));
    reply.type = "text/html; charset=utf-8";
    reply.headers = {{"Content-Security-Policy",
                      "default-src 'self' 'unsafe-inline' data:; connect-src 'self'; frame-ancestors 'none'; "
                      "base-uri 'none'; form-action 'none'"},
                     {"X-Content-Type-Options", "nosniff"},
                     {"Referrer-Policy", "no-referrer"}};
    return reply;
  });
  add_open("/health", [](const Request&, const Token&, const std::string&) -> ApiResult<Reply> {
    return json_reply(200, R"({"status":"healthy"})");
  });
  add_open("/ready", [&s](const Request&, const Token&, const std::string&) -> ApiResult<Reply> {
    const std::string reason = s.not_ready();
    return json_reply(
        reason.empty() ? 200 : 503,
        dump_json({{"ready", reason.empty()}, {"reason", reason.empty() ? json() : json(reason)}}));
  });
  add_open("/openapi.json", [&s](const Request&, const Token&, const std::string&) -> ApiResult<Reply> {
    return json_reply(200, openapi_text(!s.config().tokens.empty()));
  });
  add("GET", "/metrics", [&s](const Request&, const Token& token, const std::string&) -> ApiResult<Reply> {
    (void)s.queue_json(token);  // brings the gauges up to date
    Reply reply = json_reply(200, s.metrics().text());
    reply.type = net::kMetricsType;
    return reply;
  });

  auto submit = [&s](const Request& request,
                     const Token& token) -> ApiResult<std::pair<std::vector<Submitted>, bool>> {
    MC_API_ASSIGN_OR_RETURN(const json body, parse_body(request));
    MC_API_ASSIGN_OR_RETURN(JobList list, parse_jobs(body, context_of(s, token)));
    if (!request.idempotency_key.empty()) {
      if (list.many)
        return api_error(422,
                         "the Idempotency-Key header is for single jobs; give each job its idempotency_key",
                         "idempotency_key");
      if (request.idempotency_key.size() > 128)
        return api_error(422, "Idempotency-Key has at most 128 bytes", "idempotency_key");
      list.specs[0].idempotency_key = request.idempotency_key;
    }
    MC_API_ASSIGN_OR_RETURN(auto submitted, s.submit(list.specs, token));
    return std::pair{std::move(submitted), list.many};
  };
  auto jobs_of = [](const std::vector<Submitted>& submitted) {
    std::vector<Job> jobs;
    for (const auto& one : submitted) jobs.push_back(one.job);
    return jobs;
  };
  auto jobs_reply = [&s](const std::vector<Job>& jobs, bool many) {
    const bool all =
        std::all_of(jobs.begin(), jobs.end(), [](const Job& job) { return has_ended(job.state); });
    if (!many) return json_reply(all ? 200 : 202, s.view(jobs[0]));
    auto stats = s.queue().stats();
    return json_reply(all ? 200 : 202, fmt::format("{{\"jobs\":{},\"queue_depth\":{}}}",
                                                   views_text(s, jobs, true), stats ? stats->queued : 0));
  };

  add("POST", "/v1/jobs",
      [=](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
        MC_API_ASSIGN_OR_RETURN(auto submitted, submit(request, token));
        return jobs_reply(jobs_of(submitted.first), submitted.second);
      });
  add("POST", "/v1/verify",
      [=, &s](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
        MC_API_ASSIGN_OR_RETURN(const double seconds, query_number(request, "wait", 300, 0, 3600));
        MC_API_ASSIGN_OR_RETURN(auto submitted, submit(request, token));
        Reply reply;
        Wait wait;
        for (const auto& one : submitted.first) wait.jobs.push_back(one.job.id);
        wait.seconds = seconds;
        wait.then = [=, &s, ids = wait.jobs, many = submitted.second](bool) {
          std::vector<Job> jobs;
          for (const auto& id : ids) {
            auto job = s.get(id, token);
            if (!job) return error_reply(job.error(), request.id);
            jobs.push_back(std::move(*job));
          }
          return jobs_reply(jobs, many);
        };
        reply.wait = std::move(wait);
        return reply;
      });
  add("GET", "/v1/jobs",
      [&s](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
        JobFilter filter;
        if (token.role != Role::kAdmin) filter.owner = token.name;
        if (const std::string state = request.query("state"); !state.empty()) {
          filter.state = state_from_name(state);
          if (!filter.state)
            return api_error(400, "state is queued, running, done, failed, cancelled or expired", "state");
        }
        filter.task = request.query("task");
        filter.status = request.query("status");
        filter.before = request.query("before");
        MC_API_ASSIGN_OR_RETURN(filter.limit, query_count(request, "limit", 100, 1, 1000));
        auto jobs = s.queue().list(filter);
        if (!jobs) return tl::unexpected(api_error_of(jobs.error()));
        const json next = jobs->size() == filter.limit ? json(jobs->back().id) : json();
        return json_reply(
            200, fmt::format("{{\"jobs\":{},\"next\":{}}}", views_text(s, *jobs, false), next.dump()));
      });
  add("GET", "/v1/jobs/{rest}",
      [&s](const Request& request, const Token& token, const std::string& id) -> ApiResult<Reply> {
        MC_API_ASSIGN_OR_RETURN(const double seconds, query_number(request, "wait", 0, 0, 300));
        const std::string wants_source = request.has_query("source") ? request.query("source") : "0";
        if (wants_source != "0" && wants_source != "1") return api_error(400, "source is 0 or 1", "source");
        const bool source = wants_source == "1";
        MC_API_ASSIGN_OR_RETURN(Job job, s.get(id, token));
        if (seconds <= 0 || has_ended(job.state)) return json_reply(200, s.view(job, true, source));
        Reply reply;
        reply.wait = Wait{{id}, seconds, [&s, id, token, source, request_id = request.id](bool) {
                            auto later = s.get(id, token);
                            return later ? json_reply(200, s.view(*later, true, source))
                                         : error_reply(later.error(), request_id);
                          }};
        return reply;
      });
  add("GET", "/v1/jobs/{rest}/events",
      [&s](const Request&, const Token& token, const std::string& id) -> ApiResult<Reply> {
        MC_API_ASSIGN_OR_RETURN(Job job, s.get(id, token));
        Reply reply;
        reply.stream_job = job.id;
        return reply;
      });
  add("DELETE", "/v1/jobs/{rest}",
      [&s](const Request&, const Token& token, const std::string& id) -> ApiResult<Reply> {
        MC_API_ASSIGN_OR_RETURN(Job job, s.cancel(id, token));
        return json_reply(200, s.view(job));
      });

  add("GET", "/v1/tasks", [&s](const Request& request, const Token&, const std::string&) -> ApiResult<Reply> {
    MC_API_ASSIGN_OR_RETURN(const std::size_t limit, query_count(request, "limit", 1000, 1, 10000));
    MC_API_ASSIGN_OR_RETURN(const std::size_t offset, query_count(request, "offset", 0, 0, 1'000'000));
    const std::string q = request.query("q");
    json rows = json::array();
    std::size_t total = 0;
    if (s.config().tasks)
      for (const auto& task : s.config().tasks->tasks()) {
        if (!q.empty() && task.id.find(q) == std::string::npos && task.name.find(q) == std::string::npos)
          continue;
        if (total++ >= offset && rows.size() < limit)
          rows.push_back({{"id", task.id}, {"name", task.name}, {"level", task.level}});
      }
    return json_reply(200, dump_json({{"tasks", rows}, {"total", total}}));
  });
  add("GET", "/v1/tasks/{rest}",
      [&s](const Request&, const Token&, const std::string& id) -> ApiResult<Reply> {
        const task::Task* task = s.config().tasks ? s.config().tasks->find(id) : nullptr;
        if (!task) return api_error(404, "there is no such task; GET /v1/tasks lists them");
        return json_reply(
            200, dump_json(
                     {{"id", task->id}, {"name", task->name}, {"level", task->level}, {"code", task->code}}));
      });

  add("GET", "/v1/verdicts",
      [&s](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
        if (!s.store())
          return api_error(404, "this server keeps no verdict store; start it with --store FILE");
        if (token.role != Role::kAdmin)
          return api_error(403, "the verdict store holds every owner's verdicts; it wants an admin's token");
        store::Query query;
        query.task = request.query("task");
        query.status = request.query("status");
        query.status_class = request.query("status_class");
        query.candidate_hash = request.query("candidate_hash");
        query.text = request.query("q");
        MC_API_ASSIGN_OR_RETURN(const double since, query_number(request, "since", 0, 0, 1e12));
        query.since = static_cast<std::int64_t>(since);
        MC_API_ASSIGN_OR_RETURN(query.limit, query_count(request, "limit", 100, 1, 1000));
        MC_API_ASSIGN_OR_RETURN(query.offset, query_count(request, "offset", 0, 0, 100'000'000));
        auto rows = s.store()->find(query);
        if (!rows) return tl::unexpected(api_error_of(rows.error()));
        json list = json::array();
        for (const auto& row : *rows) list.push_back(stored_json(row));
        return json_reply(
            200, dump_json({{"verdicts", list},
                            {"next_offset",
                             rows->size() == query.limit ? json(query.offset + query.limit) : json()}}));
      });
  add("GET", "/v1/verdicts/{rest}",
      [&s](const Request&, const Token& token, const std::string& key) -> ApiResult<Reply> {
        if (!s.store())
          return api_error(404, "this server keeps no verdict store; start it with --store FILE");
        if (token.role != Role::kAdmin)
          return api_error(403, "the verdict store holds every owner's verdicts; it wants an admin's token");
        auto row = s.store()->get(key);
        if (!row) return tl::unexpected(api_error_of(row.error()));
        if (!*row) return api_error(404, "there is no verdict of this key");
        return json_reply(200, dump_json(stored_json(**row)));
      });

  add("GET", "/v1/queue", [&s](const Request&, const Token& token, const std::string&) -> ApiResult<Reply> {
    return json_reply(200, dump_json(s.queue_json(token)));
  });
  add("GET", "/v1/stats",
      [&s](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
        MC_API_ASSIGN_OR_RETURN(const double window, query_number(request, "window", 86400, 1, 31'536'000));
        MC_API_ASSIGN_OR_RETURN(const std::size_t buckets, query_count(request, "buckets", 48, 1, 500));
        return json_reply(200, dump_json(s.stats_json(token, window, buckets)));
      });
  for (const char* pattern : {"/v1/ws", "/ws"})
    add("GET", pattern, [](const Request&, const Token&, const std::string&) -> ApiResult<Reply> {
      ApiError error = api_error(426, "this route is a WebSocket").value();
      error.code = "INVALID_ARGUMENT";
      Reply reply = error_reply(error, "");
      reply.headers.emplace_back("Upgrade", "websocket");
      return reply;
    });

  auto lease_reply = [](const Lease& lease) {
    const Job& job = lease.job;
    return json_reply(200, dump_json({{"lease",
                                       {{"id", lease.id},
                                        {"until", job.lease_until},
                                        {"attempt", job.attempts},
                                        {"job",
                                         {{"id", job.id},
                                          {"version", job.version},
                                          {"created_at", job.created_at},
                                          {"started_at", job.started_at},
                                          {"spec", spec_to_text(job.spec)}}}}}}));
  };
  add_worker(
      "/v1/lease",
      [&s, lease_reply](const Request& request, const Token& token, const std::string&) -> ApiResult<Reply> {
        MC_API_ASSIGN_OR_RETURN(const json body, parse_body(request));
        if (!body.is_object()) return api_error(422, "the body is an object with `worker`");
        MC_API_ASSIGN_OR_RETURN(auto worker, text_field(body, "worker", 400));
        if (!worker || worker->empty()) return api_error(422, "`worker` is missing", "worker");
        MC_API_ASSIGN_OR_RETURN(auto wait_s, number_field(body, "wait_s", 0, 60));
        MC_API_ASSIGN_OR_RETURN(auto visibility, number_field(body, "visibility_s", 1, 600));
        MC_API_ASSIGN_OR_RETURN(auto prefer, text_field(body, "prefer", 64));
        MC_API_ASSIGN_OR_RETURN(auto role_text, text_field(body, "role", 16));
        const auto role = role_from_name(role_text.value_or("both"));
        if (!role) return api_error(422, "`role` is both, compile or execute", "role");
        const LeaseRequest lease_request{*worker, visibility.value_or(30), prefer.value_or(""), *role};
        MC_API_ASSIGN_OR_RETURN(auto lease, s.lease(lease_request));
        if (lease) return lease_reply(*lease);
        if (wait_s.value_or(0) <= 0) return json_reply(204, "");
        Reply reply;
        reply.wait = Wait{{}, *wait_s, [&s, lease_request, lease_reply, id = request.id, token](bool) {
                            auto later = s.lease(lease_request);
                            if (!later) return error_reply(later.error(), id);
                            return *later ? lease_reply(**later) : json_reply(204, "");
                          }};
        return reply;
      });
  auto lease_id = [](const json& body) -> ApiResult<std::string> {
    if (!body.is_object()) return api_error(422, "the body is an object with `lease`");
    MC_API_ASSIGN_OR_RETURN(auto lease, text_field(body, "lease", 128));
    if (!lease || lease->empty()) return api_error(422, "`lease` is missing", "lease");
    return *lease;
  };
  add_worker("/v1/heartbeat",
             [&s, lease_id](const Request& request, const Token&, const std::string&) -> ApiResult<Reply> {
               MC_API_ASSIGN_OR_RETURN(const json body, parse_body(request));
               MC_API_ASSIGN_OR_RETURN(const std::string lease, lease_id(body));
               MC_API_ASSIGN_OR_RETURN(auto visibility, number_field(body, "visibility_s", 1, 600));
               MC_API_ASSIGN_OR_RETURN(auto stage, text_field(body, "stage", 128));
               MC_API_ASSIGN_OR_RETURN(auto reply,
                                       s.heartbeat(lease, stage.value_or(""), visibility.value_or(30)));
               return json_reply(200, dump_json({{"cancel", reply.cancel}, {"until", reply.until}}));
             });
  add_worker(
      "/v1/complete",
      [&s, lease_id](const Request& request, const Token&, const std::string&) -> ApiResult<Reply> {
        MC_API_ASSIGN_OR_RETURN(const json body, parse_body(request));
        MC_API_ASSIGN_OR_RETURN(const std::string lease, lease_id(body));
        auto given = body.find("outcome");
        if (given == body.end() || !given->is_object())
          return api_error(422, "`outcome` is an object", "outcome");
        MC_API_ASSIGN_OR_RETURN(auto feedback, text_field(*given, "feedback", 1 << 20));
        MC_API_ASSIGN_OR_RETURN(auto code, text_field(*given, "code", 64u << 20));
        MC_API_ASSIGN_OR_RETURN(auto status, text_field(*given, "status", 256));
        Outcome outcome{
            .status = status.value_or(""), .feedback = feedback.value_or(""), .code = code.value_or("")};
        // The verdict alone says what came of it; status and reward are read from it.
        if (auto it = given->find("verdict"); it != given->end() && !it->is_null()) {
          auto verdict = judge::verdict_from_json(*it);
          if (!verdict)
            return api_error(422, "`outcome.verdict`: " + verdict.error().message, "outcome.verdict");
          outcome.status = verdict->status;
          outcome.reward = verdict->reward;
          outcome.verdict = dump_json(*it);
        } else if (judge::status_class(outcome.status) != "infra") {
          return api_error(422, "without a verdict the outcome's `status` is infra:*", "outcome.verdict");
        }
        MC_API_ASSIGN_OR_RETURN(const bool accepted, s.complete(lease, outcome));
        return json_reply(200, dump_json({{"accepted", accepted}}));
      });
  add_worker("/v1/release",
             [&s, lease_id](const Request& request, const Token&, const std::string&) -> ApiResult<Reply> {
               MC_API_ASSIGN_OR_RETURN(const json body, parse_body(request));
               MC_API_ASSIGN_OR_RETURN(const std::string lease, lease_id(body));
               MC_API_ASSIGN_OR_RETURN(auto fault, text_field(body, "fault", 4096));
               MC_API_ASSIGN_OR_RETURN(auto compiled, bool_field(body, "compiled"));
               MC_API_ASSIGN_OR_RETURN(const bool accepted, compiled.value_or(false)
                                                                ? s.compiled(lease)
                                                                : s.release(lease, fault.value_or("")));
               return json_reply(200, dump_json({{"accepted", accepted}}));
             });

  const auto artifacts = [&s](const std::string& key) -> ApiResult<build::ArtifactStore*> {
    if (!build::is_artifact_key(key)) return api_error(422, "an artefact's address is 64 hex digits");
    if (!s.config().artifacts) return api_error(404, "this server keeps no artefacts (--artifacts)");
    return s.config().artifacts.get();
  };
  routes_.push_back(
      {"GET", "/v1/artifacts/{rest}",
       [artifacts](const Request& request, const Token&, const std::string& key) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(build::ArtifactStore * store, artifacts(key));
         if (request.has_query("check")) {
           auto there = store->has(key);
           if (!there) return tl::unexpected(api_error_of(there.error()));
           return *there ? ApiResult<Reply>(json_reply(204, ""))
                         : api_error(404, "there is no such artefact");
         }
         auto bundle = store->get(key);
         // A damaged one was removed: the asker builds it anew.
         if (!bundle && bundle.error().code != Code::kInvalidArgument)
           return tl::unexpected(api_error_of(bundle.error()));
         if (!bundle || !*bundle) return api_error(404, "there is no such artefact");
         Reply reply;
         reply.type = "application/octet-stream";
         reply.body = std::move(**bundle);
         return reply;
       },
       false, true});
  routes_.push_back(
      {"PUT", "/v1/artifacts/{rest}",
       [artifacts](const Request& request, const Token&, const std::string& key) -> ApiResult<Reply> {
         MC_API_ASSIGN_OR_RETURN(build::ArtifactStore * store, artifacts(key));
         if (auto stored = store->put(key, request.body); !stored)
           return tl::unexpected(api_error_of(stored.error()));
         return json_reply(200, R"({"stored":true})");
       },
       false, true});
}

}  // namespace musacoder::service
