#include "service/service.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_lines.h"
#include "base/event_log.h"
#include "service/requests.h"

#ifndef MUSACODER_VERSION
#define MUSACODER_VERSION "0.1.0"
#endif

namespace musacoder::service {
namespace {

using base::LogLevel;
using nlohmann::json;

constexpr std::size_t kRemembered = 20'000;
constexpr double kWorkerSeenS = 60;

json nullable(double value) { return value > 0 ? json(value) : json(); }

bool may_see(const Job& job, const Token& token) {
  return token.role == Role::kAdmin || job.spec.owner == token.name;
}

json percentiles(std::vector<double>& values) {
  if (values.empty()) return json::object();
  std::sort(values.begin(), values.end());
  auto at = [&](double q) {
    return values[std::min(values.size() - 1,
                           static_cast<std::size_t>(q * static_cast<double>(values.size())))];
  };
  double sum = 0;
  for (double v : values) sum += v;
  return {{"n", values.size()},
          {"mean", sum / static_cast<double>(values.size())},
          {"p50", at(0.5)},
          {"p90", at(0.9)},
          {"p99", at(0.99)}};
}

}  // namespace

std::string outcome_group(const Job& job) {
  if (job.state == JobState::kCancelled) return "cancelled";
  if (job.state == JobState::kExpired) return "expired";
  return judge::status_class(job.outcome.status);
}

class Service::LocalSource : public WorkSource {
 public:
  explicit LocalSource(Service& service) : service_(service) {}
  Result<std::optional<Lease>> lease(const LeaseRequest& request, double) override {
    auto lease = service_.queue_.lease(request);
    if (lease && *lease) service_.poke();
    return lease;
  }
  Result<HeartbeatReply> heartbeat(const std::string& lease, const std::string& stage,
                                   double visibility_s) override {
    auto reply = service_.queue_.heartbeat(lease, stage, visibility_s);
    service_.poke();
    return reply;
  }
  Result<bool> complete(const std::string& lease, const Outcome& outcome) override {
    auto done = service_.queue_.complete(lease, outcome);
    service_.poke();
    return done;
  }
  Result<bool> release(const std::string& lease, const std::string& fault) override {
    auto done = service_.queue_.release(lease, fault);
    service_.poke();
    return done;
  }
  Result<bool> compiled(const std::string& lease) override {
    auto done = service_.queue_.compiled(lease);
    service_.poke();
    return done;
  }

 private:
  Service& service_;
};

Service::Service(ServiceConfig config, JobQueue& queue, store::Store* store)
    : config_(std::move(config)),
      queue_(queue),
      store_(store),
      local_(std::make_unique<LocalSource>(*this)),
      started_at_(now()) {}

Service::~Service() { stop(); }

WorkSource& Service::local_source() { return *local_; }

void Service::start() {
  if (auto stats = queue_.stats()) revision_ = stats->revision;
  if (auto jobs = queue_.list({.limit = 5000}))
    for (auto it = jobs->rbegin(); it != jobs->rend(); ++it)
      if (has_ended(it->state)) remember(*it, false);
  follower_ = std::thread([this] { follow(); });
}

void Service::stop() {
  {
    std::lock_guard lock(follow_mutex_);
    stopping_ = true;
  }
  follow_wake_.notify_all();
  if (follower_.joinable()) follower_.join();
}

void Service::poke() {
  {
    std::lock_guard lock(follow_mutex_);
    ++pokes_;
  }
  follow_wake_.notify_one();
}

void Service::follow() {
  double last_sweep = -1e9, last_prune = now();
  bool trouble = false;
  archive();
  for (;;) {
    std::uint64_t seen = 0;
    {
      std::lock_guard lock(follow_mutex_);
      if (stopping_) break;
      seen = pokes_;
    }
    if (const double at = now(); at - last_sweep >= 1 || at < last_sweep) {
      last_sweep = at;
      if (archive_late_) {
        archive_late_ = false;
        archive();
      }
      if (auto swept = queue_.sweep(); swept && *swept > 0)
        log_event(LogLevel::kWarning, "swept", {{"jobs", static_cast<std::int64_t>(*swept)}});
      if (config_.keep_days > 0 && at - last_prune > 3600) {
        last_prune = at;
        if (auto pruned = queue_.prune(at - config_.keep_days * 86400); pruned && *pruned > 0)
          log_event(LogLevel::kInfo, "pruned", {{"jobs", static_cast<std::int64_t>(*pruned)}});
      }
    }
    auto changes = queue_.changes(revision_);
    if (!changes && !trouble)
      log_event(LogLevel::kError, "queue_unreadable", {{"error", changes.error().message}});
    trouble = !changes;
    if (changes && !changes->empty()) {
      revision_ = changes->back().revision;
      announce(*changes);
      if (std::any_of(changes->begin(), changes->end(), [](const Change& c) { return has_ended(c.state); }))
        archive();
      if (std::any_of(changes->begin(), changes->end(),
                      [](const Change& c) { return c.state == JobState::kQueued; }) &&
          pool_)
        pool_->poke();
      continue;
    }
    std::unique_lock lock(follow_mutex_);
    follow_wake_.wait_for(lock, std::chrono::milliseconds(100), [&] { return stopping_ || pokes_ != seen; });
  }
  archive();
}

void Service::announce(const std::vector<Change>& changes) {
  std::vector<std::pair<std::shared_ptr<Subscriber>, const Change*>> calls;
  std::vector<std::shared_ptr<Subscriber>> workers;
  {
    std::lock_guard lock(subscribers_mutex_);
    bool work = false;
    for (const auto& change : changes) {
      work = work || change.state == JobState::kQueued;
      auto it = subscribers_.find(change.id);
      if (it == subscribers_.end()) continue;
      for (const auto& weak : it->second)
        if (auto subscriber = weak.lock()) calls.emplace_back(std::move(subscriber), &change);
    }
    if (work)
      for (const auto& weak : work_subscribers_)
        if (auto subscriber = weak.lock()) workers.push_back(std::move(subscriber));
  }
  for (const auto& [subscriber, change] : calls) subscriber->on_change(*change);
  for (const auto& subscriber : workers) subscriber->on_work();
}

Subscription Service::subscribe(const std::vector<std::string>& ids,
                                std::function<void(const Change&)> callback) {
  auto subscriber = std::make_shared<Subscriber>();
  subscriber->on_change = std::move(callback);
  std::lock_guard lock(subscribers_mutex_);
  for (const auto& id : ids) subscribers_[id].push_back(subscriber);
  // The entry goes with the last one who holds the subscription.
  return std::shared_ptr<void>(subscriber.get(), [this, subscriber, ids](void*) mutable {
    std::lock_guard guard(subscribers_mutex_);
    for (const auto& id : ids) {
      auto it = subscribers_.find(id);
      if (it == subscribers_.end()) continue;
      auto& list = it->second;
      list.erase(std::remove_if(list.begin(), list.end(),
                                [&](const auto& weak) { return weak.lock() == subscriber; }),
                 list.end());
      if (list.empty()) subscribers_.erase(it);
    }
  });
}

Subscription Service::subscribe_work(std::function<void()> callback) {
  auto subscriber = std::make_shared<Subscriber>();
  subscriber->on_work = std::move(callback);
  std::lock_guard lock(subscribers_mutex_);
  work_subscribers_.push_back(subscriber);
  return std::shared_ptr<void>(subscriber.get(), [this, subscriber](void*) mutable {
    std::lock_guard guard(subscribers_mutex_);
    auto& list = work_subscribers_;
    list.erase(
        std::remove_if(list.begin(), list.end(), [&](const auto& weak) { return weak.lock() == subscriber; }),
        list.end());
  });
}

// Ended jobs go to the verdict store, are remembered for the statistics, and are marked as handed on.
// Repeating it after a crash changes nothing: the store knows verdicts by their key.
void Service::archive() {
  for (;;) {
    auto jobs = queue_.unarchived(200);
    if (!jobs || jobs->empty()) return;
    std::vector<std::string> done;
    for (const Job& job : *jobs) {
      if (store_ && !job.outcome.verdict.empty() && !job.cached) {
        auto parsed = base::parse_json(job.outcome.verdict);
        if (auto verdict = parsed ? judge::verdict_from_json(*parsed) : tl::unexpected(parsed.error())) {
          json extra = json::parse(job.spec.extra, nullptr, false);
          if (!extra.is_object()) extra = json::object();
          extra["job"] = job.id;
          extra["owner"] = job.spec.owner;
          if (auto stored = store_->put(*verdict, dump_json(extra)); !stored) {
            log_event(LogLevel::kError, "store_failed", {{"job", job.id}, {"error", stored.error().message}});
            if (!done.empty()) (void)queue_.mark_archived(done);
            archive_late_ = true;
            return;  // tried again in a second
          }
        } else {
          log_event(LogLevel::kError, "verdict_unreadable",
                    {{"job", job.id}, {"error", verdict.error().message}});
        }
      }
      remember(job, true);
      done.push_back(job.id);
    }
    if (!queue_.mark_archived(done)) return;
  }
}

void Service::remember(const Job& job, bool fresh) {
  Ended ended{job.id,
              job.spec.owner,
              job.spec.task_id,
              job.outcome.status,
              outcome_group(job),
              job.outcome.reward,
              job.finished_at,
              0,
              0,
              {}};
  ended.queued_s = std::max(0.0, (job.started_at > 0 ? job.started_at : job.finished_at) - job.created_at);
  ended.run_s = job.started_at > 0 ? std::max(0.0, job.finished_at - job.started_at) : 0;
  if (!job.outcome.verdict.empty() && !job.cached)
    if (auto verdict = base::parse_json(job.outcome.verdict); verdict && verdict->is_object())
      if (auto seconds = verdict->find("seconds"); seconds != verdict->end() && seconds->is_object())
        for (auto& [stage, value] : seconds->items())
          if (value.is_number()) ended.stages[stage] = value.get<double>();
  if (fresh) {
    metrics_.job_ended(ended.group, ended.queued_s, ended.run_s, ended.stages);
    log_event(job.state == JobState::kFailed ? LogLevel::kError : LogLevel::kInfo, "job_ended",
              {{"job", job.id},
               {"state", std::string(state_name(job.state))},
               {"status", job.outcome.status},
               {"owner", job.spec.owner},
               {"task", job.spec.task_id},
               {"queued_s", ended.queued_s},
               {"run_s", ended.run_s},
               {"attempts", std::int64_t{job.attempts}},
               {"cached", job.cached}});
  }
  std::lock_guard lock(ended_mutex_);
  ended_.push_back(std::move(ended));
  if (ended_.size() > kRemembered) ended_.pop_front();
}

ApiResult<Token> Service::authenticate(const std::string& bearer) const {
  if (config_.tokens.empty()) return Token{};
  if (bearer.empty()) return api_error(401, "this server wants a token: Authorization: Bearer TOKEN");
  const Token* token = config_.tokens.find(bearer);
  if (!token) return api_error(401, "the token is unknown");
  return *token;
}

double Service::lane_seconds() {
  std::lock_guard lock(ended_mutex_);
  double sum = 0;
  int count = 0;
  for (auto it = ended_.rbegin(); it != ended_.rend() && count < 50; ++it)
    if (it->run_s > 0) sum += it->run_s, ++count;
  return count ? sum / count : 5.0;
}

std::size_t Service::lanes_seen(std::size_t* busy) {
  std::size_t count = 0, working = 0;
  if (pool_)
    for (const auto& lane : pool_->status()) ++count, working += lane.busy;
  std::lock_guard lock(seen_mutex_);
  const double at = now();
  for (const auto& [name, seen] : seen_)
    if (at - seen.at < kWorkerSeenS) ++count, working += !seen.lease.empty();
  if (busy) *busy = working;
  return count;
}

ApiError Service::overloaded(int status, std::string message, const char* reason) {
  ApiError error;
  error.status = status;
  error.code = status == 429 ? "RESOURCE_EXHAUSTED" : draining_ ? "UNAVAILABLE" : "RESOURCE_EXHAUSTED";
  error.message = std::move(message);
  if (auto stats = queue_.stats()) error.queue_depth = stats->queued;
  const double lanes = static_cast<double>(std::max<std::size_t>(1, lanes_seen()));
  // A tenth of the queue must go before trying again makes sense.
  error.retry_after_s = std::clamp(
      static_cast<double>(error.queue_depth.value_or(1)) / 10 * lane_seconds() / lanes, 1.0, 120.0);
  metrics_.count_refusal(reason);
  return error;
}

ApiResult<std::vector<Submitted>> Service::submit(const std::vector<JobSpec>& specs, const Token& token) {
  if (token.role == Role::kWorker) return api_error(403, "a worker's token does not submit jobs");
  if (draining_)
    return tl::unexpected(
        overloaded(503, "the server is shutting down; send it to another or try again", "draining"));
  // What is there already costs nothing: a client at its limit may ask again for a job of its own.
  std::size_t fresh_jobs = specs.size();
  if (token.max_unfinished > 0 || token.jobs_per_minute > 0)
    if (auto count = queue_.count_new(specs)) fresh_jobs = *count;
  if (token.max_unfinished > 0 && fresh_jobs > 0) {
    auto load = queue_.load_of(token.name);
    if (load && load->queued + load->running + fresh_jobs > token.max_unfinished)
      return tl::unexpected(
          overloaded(429,
                     fmt::format("token '{}' has {} unfinished jobs, {} more would exceed its {}", token.name,
                                 load->queued + load->running, fresh_jobs, token.max_unfinished),
                     "unfinished"));
  }
  const double wait = fresh_jobs > 0 ? quotas_.take(token, fresh_jobs, now()) : 0;
  if (wait > 0) {
    ApiError error = overloaded(
        429, fmt::format("token '{}' may submit {:g} jobs a minute", token.name, token.jobs_per_minute),
        "rate");
    error.retry_after_s = std::max(1.0, wait);
    return tl::unexpected(error);
  }
  auto submitted = queue_.submit(specs);
  if (!submitted) {
    const Error& error = submitted.error();
    if (error.code == Code::kInvalidArgument) return api_error(409, error.message, "idempotency_key");
    if (error.code == Code::kResourceExhausted)
      return tl::unexpected(overloaded(503, error.message, "queue_full"));
    log_event(LogLevel::kError, "submit_failed", {{"error", error.message}});
    return tl::unexpected(api_error_of(error));
  }
  std::size_t fresh = 0, cached = 0;
  for (const auto& one : *submitted) {
    fresh += !one.repeated;
    cached += one.job.cached && !one.repeated;
    log_event(LogLevel::kDebug, "job_submitted",
              {{"job", one.job.id}, {"owner", token.name}, {"repeated", one.repeated}});
  }
  metrics_.count_submitted(fresh, cached);
  poke();
  return std::move(*submitted);
}

ApiResult<Job> Service::get(const std::string& id, const Token& token) {
  auto job = queue_.get(id);
  if (!job) return tl::unexpected(api_error_of(job.error()));
  if (!*job || !may_see(**job, token))
    return api_error(404, fmt::format("there is no job '{}'", id.substr(0, 64)));
  return std::move(**job);
}

ApiResult<Job> Service::cancel(const std::string& id, const Token& token) {
  MC_API_ASSIGN_OR_RETURN(Job job, get(id, token));
  if (has_ended(job.state)) return job;
  auto cancelled = queue_.cancel(id);
  if (!cancelled) return tl::unexpected(api_error_of(cancelled.error()));
  poke();
  return std::move(*cancelled);
}

void Service::saw(const std::string& worker) {
  std::lock_guard lock(seen_mutex_);
  seen_[worker].at = now();
  if (seen_.size() > 10'000) {
    auto oldest = std::min_element(seen_.begin(), seen_.end(),
                                   [](const auto& a, const auto& b) { return a.second.at < b.second.at; });
    seen_.erase(oldest);
  }
}

ApiResult<std::optional<Lease>> Service::lease(const LeaseRequest& request) {
  saw(request.worker);
  if (draining_) return tl::unexpected(overloaded(503, "the server is shutting down", "draining"));
  auto lease = queue_.lease(request);
  if (!lease) return tl::unexpected(api_error_of(lease.error()));
  {
    std::lock_guard lock(seen_mutex_);
    auto& seen = seen_[request.worker];
    seen.lease = *lease ? (*lease)->id : "";
    seen.job = *lease ? (*lease)->job.id : "";
  }
  if (*lease) poke();
  return std::move(*lease);
}

ApiResult<HeartbeatReply> Service::heartbeat(const std::string& lease, const std::string& stage,
                                             double visibility_s) {
  {
    std::lock_guard lock(seen_mutex_);
    for (auto& [name, seen] : seen_)
      if (seen.lease == lease) seen.at = now();
  }
  auto reply = queue_.heartbeat(lease, stage, visibility_s);
  if (!reply && reply.error().code == Code::kNotFound) return api_error(409, "the lease is no longer held");
  if (!reply) return tl::unexpected(api_error_of(reply.error()));
  poke();
  return *reply;
}

ApiResult<bool> Service::complete(const std::string& lease, const Outcome& outcome) {
  return lease_ended(lease, queue_.complete(lease, outcome));
}

ApiResult<bool> Service::release(const std::string& lease, const std::string& fault) {
  return lease_ended(lease, queue_.release(lease, fault));
}

ApiResult<bool> Service::compiled(const std::string& lease) {
  return lease_ended(lease, queue_.compiled(lease));
}

ApiResult<bool> Service::lease_ended(const std::string& lease, const Result<bool>& accepted) {
  if (!accepted && accepted.error().code == Code::kNotFound)
    return api_error(409, "the lease is no longer held");
  if (!accepted) return tl::unexpected(api_error_of(accepted.error()));
  {
    std::lock_guard lock(seen_mutex_);
    for (auto& [name, seen] : seen_)
      if (seen.lease == lease) seen.lease.clear(), seen.job.clear(), seen.at = now();
  }
  poke();
  return *accepted;
}

std::string Service::view(const Job& job, bool whole, bool source) {
  const bool ended = has_ended(job.state);
  const std::string& status = job.outcome.status;
  const bool infra = ended && judge::status_class(status) == "infra";
  json extra = json::parse(job.spec.extra, nullptr, false);
  const double finished = ended ? job.finished_at : now();
  json value = {
      {"version", job.version},
      {"id", job.id},
      {"state", state_name(job.state)},
      {"status", ended ? json(status) : json()},
      {"reward", ended && job.outcome.reward && !infra ? json(*job.outcome.reward) : json()},
      {"infra", infra},
      {"undecided", ended && !infra && judge::is_null_reward(status)},
      {"verified", ended && status == "ok"},
      {"task", job.spec.task_id},
      {"policy", job.spec.policy},
      {"priority", job.spec.priority},
      {"round", job.spec.round},
      {"stage", job.stage},
      {"created_at", job.created_at},
      {"started_at", nullable(job.started_at)},
      {"finished_at", nullable(job.finished_at)},
      {"deadline_at", nullable(job.spec.deadline_at)},
      {"queued_s", std::max(0.0, (job.started_at > 0 ? job.started_at : finished) - job.created_at)},
      {"run_s", job.started_at > 0 ? json(std::max(0.0, finished - job.started_at)) : json()},
      {"attempts", job.attempts},
      {"deaths", job.deaths},
      {"worker", job.worker.empty() ? json() : json(job.worker)},
      {"cached", job.cached},
      {"idempotency_key", job.spec.idempotency_key.empty() ? json() : json(job.spec.idempotency_key)},
      {"owner", job.spec.owner},
      {"extra", extra.is_object() ? std::move(extra) : json::object()}};
  json position;
  if (job.state == JobState::kQueued)
    if (auto place = queue_.position(job.id); place && *place > 0) position = *place;
  value["position"] = std::move(position);
  if (whole) {
    // Where no judge finished, the text says what happened instead of being feedback about an answer.
    const bool judged = ended && !job.outcome.verdict.empty();
    value["feedback"] = judged ? json(job.outcome.feedback) : json();
    value["error"] =
        ended && infra ? json(job.outcome.feedback.empty() ? status : job.outcome.feedback) : json();
  }
  if (source) {
    value["code"] = ended && !job.outcome.code.empty() ? json(job.outcome.code) : json();
    value["candidate"] = job.spec.candidate;
    value["reference"] = job.spec.reference;
  }
  std::string text = dump_json(value);
  if (!whole) return text;
  // The verdict's text is spliced in as it is: it was checked when it came, and parsing it again would be
  // most of the cost.
  text.back() = ',';
  return text + "\"verdict\":" + (ended && !job.outcome.verdict.empty() ? job.outcome.verdict : "null") + "}";
}

json Service::queue_json(const Token& token) {
  auto stats = queue_.stats();
  if (!stats) return {{"error", stats.error().message}};
  json by_priority = json::object();
  for (const auto& [priority, count] : stats->queued_by_priority)
    by_priority[std::to_string(priority)] = count;
  std::size_t busy = 0;
  const std::size_t lanes = lanes_seen(&busy);
  const double oldest = stats->oldest_queued_at > 0 ? std::max(0.0, now() - stats->oldest_queued_at) : 0;
  metrics_.set_queue(stats->queued, stats->running, oldest);
  metrics_.set_workers(lanes, busy);
  json mine = {{"queued", 0}, {"running", 0}, {"max_unfinished", token.max_unfinished}};
  if (auto load = queue_.load_of(token.name)) mine["queued"] = load->queued, mine["running"] = load->running;
  return {{"queued", stats->queued},
          {"running", stats->running},
          {"ended", stats->ended},
          {"dead", stats->dead},
          {"oldest_queued_s", oldest},
          {"max_queued", config_.max_queued},
          {"draining", draining_.load()},
          {"lanes", lanes},
          {"eta_s", static_cast<double>(stats->queued) * lane_seconds() /
                        static_cast<double>(std::max<std::size_t>(1, lanes))},
          {"by_priority", by_priority},
          {"mine", mine}};
}

json Service::stats_json(const Token& token, double window_s, std::size_t buckets) {
  const double at = now();
  json workers = json::array();
  std::map<std::string, bool> named;
  if (pool_)
    for (const auto& lane : pool_->status()) {
      named[lane.name] = true;
      workers.push_back({{"name", lane.name},
                         {"kind", "local"},
                         {"state", lane.busy ? "busy" : "idle"},
                         {"job", lane.job.empty() ? json() : json(lane.job)},
                         {"task", lane.task},
                         {"stage", lane.stage},
                         {"since", lane.since},
                         {"last_seen_at", at},
                         {"done", lane.done},
                         {"infra", lane.infra}});
    }
  if (auto running = queue_.list({.state = JobState::kRunning, .limit = 1000}))
    for (const Job& job : *running) {
      if (named.count(job.worker)) continue;
      named[job.worker] = true;
      workers.push_back({{"name", job.worker},
                         {"kind", "remote"},
                         {"state", "busy"},
                         {"job", job.id},
                         {"task", job.spec.task_id},
                         {"stage", job.stage},
                         {"since", job.started_at},
                         {"last_seen_at", at},
                         {"done", nullptr},
                         {"infra", nullptr}});
    }
  {
    std::lock_guard lock(seen_mutex_);
    for (const auto& [name, seen] : seen_)
      if (!named.count(name) && at - seen.at < kWorkerSeenS)
        workers.push_back({{"name", name},
                           {"kind", "remote"},
                           {"state", "idle"},
                           {"job", nullptr},
                           {"task", ""},
                           {"stage", ""},
                           {"since", seen.at},
                           {"last_seen_at", seen.at},
                           {"done", nullptr},
                           {"infra", nullptr}});
  }
  const double begin = at - window_s, width = window_s / static_cast<double>(buckets);
  std::vector<std::map<std::string, std::size_t>> counts(buckets);
  std::map<std::string, std::size_t> total;
  std::map<std::string, std::vector<double>> stages;
  struct TaskTime {
    std::size_t n = 0;
    double sum = 0, max = 0;
  };
  std::map<std::string, TaskTime> tasks;
  json recent = json::array();
  std::size_t last_minutes = 0;
  {
    std::lock_guard lock(ended_mutex_);
    for (auto it = ended_.rbegin(); it != ended_.rend(); ++it) {
      const Ended& e = *it;
      if (e.finished_at < begin || (token.role != Role::kAdmin && e.owner != token.name)) continue;
      const auto bucket =
          std::min(buckets - 1, static_cast<std::size_t>(std::max(0.0, (e.finished_at - begin) / width)));
      ++counts[bucket][e.group];
      ++total[e.group];
      last_minutes += at - e.finished_at <= 300;
      stages["queued"].push_back(e.queued_s);
      if (e.run_s > 0) stages["run"].push_back(e.run_s);
      for (const auto& [stage, seconds] : e.stages) stages[stage].push_back(seconds);
      if (e.run_s > 0 && !e.task.empty()) {
        auto& task = tasks[e.task];
        ++task.n;
        task.sum += e.run_s;
        task.max = std::max(task.max, e.run_s);
      }
      if (recent.size() < 100)
        recent.push_back({{"id", e.id},
                          {"task", e.task},
                          {"status", e.status},
                          {"reward", e.reward ? json(*e.reward) : json()},
                          {"finished_at", e.finished_at},
                          {"run_s", e.run_s}});
    }
  }
  json bucket_rows = json::array();
  for (std::size_t i = 0; i < buckets; ++i)
    bucket_rows.push_back({{"at", begin + width * static_cast<double>(i)}, {"counts", counts[i]}});
  json stage_rows = json::object();
  for (auto& [stage, values] : stages) stage_rows[stage] = percentiles(values);
  std::vector<std::pair<std::string, TaskTime>> slow(tasks.begin(), tasks.end());
  std::sort(slow.begin(), slow.end(), [](const auto& a, const auto& b) {
    return a.second.sum / static_cast<double>(a.second.n) > b.second.sum / static_cast<double>(b.second.n);
  });
  json slowest = json::array();
  for (std::size_t i = 0; i < std::min<std::size_t>(20, slow.size()); ++i)
    slowest.push_back({{"task", slow[i].first},
                       {"n", slow[i].second.n},
                       {"mean_s", slow[i].second.sum / static_cast<double>(slow[i].second.n)},
                       {"max_s", slow[i].second.max}});
  return {{"now", at},
          {"uptime_s", at - started_at_},
          {"version", MUSACODER_VERSION},
          {"queue", queue_json(token)},
          {"workers", workers},
          {"verdicts",
           {{"window_s", window_s}, {"bucket_s", width}, {"buckets", bucket_rows}, {"counts", total}}},
          {"stages", stage_rows},
          {"slowest_tasks", slowest},
          {"throughput_per_min",
           static_cast<double>(last_minutes) / std::clamp((at - started_at_) / 60, 1.0 / 60, 5.0)},
          {"recent", recent}};
}

std::string Service::not_ready() {
  if (draining_) return "the server is shutting down";
  if (auto stats = queue_.stats(); !stats) return "the queue cannot be read: " + stats.error().message;
  return "";
}

}  // namespace musacoder::service
