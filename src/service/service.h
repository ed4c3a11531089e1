// The service without its sockets: tokens and quotas before the queue, events after it, numbers about it.
//
//   Service service({.tokens = tokens, .tasks = tasks}, *queue, store.get());
//   service.start();
//   auto submitted = service.submit(specs, token);         // 429 and 503 with Retry-After and queue depth
//   auto watch = service.subscribe({id}, [](const Change& change) { ... });
//
// One thread follows the queue's changes (also those of other processes on the same file), wakes whoever
// waits, hands ended jobs to the verdict store, sweeps lost leases, and removes what is older than
// `keep_days`. All functions are thread safe; callbacks of subscribe() run on that thread and must return at
// once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "build/artifact_store.h"
#include "service/http_types.h"
#include "service/metrics.h"
#include "service/queue.h"
#include "service/tokens.h"
#include "service/worker.h"
#include "store/store.h"
#include "task/task.h"

namespace musacoder::service {

struct ServiceConfig {
  TokenSet tokens;
  std::optional<task::TaskSet> tasks;
  std::string policy = "strict";
  std::size_t max_queued = 10'000;
  double keep_days = 30;  // ended jobs; their verdicts stay in the store. 0: for ever
  std::string dashboard;  // path of the page; "" none
  std::shared_ptr<build::ArtifactStore> artifacts;  // what /v1/artifacts serves; null: 404
  base::Clock* clock = &base::real_clock();
};

// Keeps a subscription alive.
using Subscription = std::shared_ptr<void>;

class Service {
 public:
  // `store` may be null. Both outlive the service.
  Service(ServiceConfig config, JobQueue& queue, store::Store* store);
  ~Service();
  void attach(WorkerPool* pool) { pool_ = pool; }
  void start();
  void stop();
  // Where lanes of this process take their work: the queue, with its changes announced at once.
  WorkSource& local_source();

  const ServiceConfig& config() const { return config_; }
  JobQueue& queue() { return queue_; }
  store::Store* store() { return store_; }
  Metrics& metrics() { return metrics_; }
  double now() const { return config_.clock->unix_time(); }
  void set_draining() { draining_ = true; }
  bool draining() const { return draining_; }

  // 401 without or with an unknown token.
  ApiResult<Token> authenticate(const std::string& bearer) const;

  ApiResult<std::vector<Submitted>> submit(const std::vector<JobSpec>& specs, const Token& token);
  // 404 also for another's job.
  ApiResult<Job> get(const std::string& id, const Token& token);
  ApiResult<Job> cancel(const std::string& id, const Token& token);
  Subscription subscribe(const std::vector<std::string>& ids, std::function<void(const Change&)> callback);
  // Called at every new waiting job.
  Subscription subscribe_work(std::function<void()> callback);

  // For remote workers: as the queue's, and the worker is remembered as seen.
  ApiResult<std::optional<Lease>> lease(const LeaseRequest& request);
  ApiResult<HeartbeatReply> heartbeat(const std::string& lease, const std::string& stage,
                                      double visibility_s);
  ApiResult<bool> complete(const std::string& lease, const Outcome& outcome);
  ApiResult<bool> release(const std::string& lease, const std::string& fault);
  ApiResult<bool> compiled(const std::string& lease);

  // JSON texts of docs/service.md. `whole`: verdict and feedback; `source`: candidate, reference and code as
  // well.
  std::string view(const Job& job, bool whole = true, bool source = false);
  nlohmann::json queue_json(const Token& token);
  nlohmann::json stats_json(const Token& token, double window_s, std::size_t buckets);
  // "" when ready, else the reason.
  std::string not_ready();
  ApiError overloaded(int status, std::string message, const char* reason);

 private:
  struct Ended {
    std::string id, owner, task, status, group;
    std::optional<double> reward;
    double finished_at = 0, queued_s = 0, run_s = 0;
    std::map<std::string, double> stages;
  };
  struct Subscriber {
    std::function<void(const Change&)> on_change;
    std::function<void()> on_work;
  };
  struct Seen {
    double at = 0;
    std::string lease, job;
  };
  class LocalSource;

  // What ends a worker's hold on a job: 409 when it was lost before, else the worker is free.
  ApiResult<bool> lease_ended(const std::string& lease, const Result<bool>& accepted);
  void follow();
  void announce(const std::vector<Change>& changes);
  void archive();
  void remember(const Job& job, bool fresh);
  void poke();
  double lane_seconds();  // mean run of the last jobs
  std::size_t lanes_seen(std::size_t* busy = nullptr);
  void saw(const std::string& worker);

  const ServiceConfig config_;
  JobQueue& queue_;
  store::Store* store_;
  WorkerPool* pool_ = nullptr;
  Metrics metrics_;
  Quotas quotas_;
  std::unique_ptr<LocalSource> local_;
  const double started_at_;
  std::atomic<bool> draining_{false};

  std::mutex follow_mutex_;
  std::condition_variable follow_wake_;
  std::uint64_t pokes_ = 0;
  bool stopping_ = false;
  std::thread follower_;
  std::uint64_t revision_ = 0;
  bool archive_late_ = false;  // the follower's own

  std::mutex subscribers_mutex_;
  std::unordered_map<std::string, std::vector<std::weak_ptr<Subscriber>>> subscribers_;  // by job
  std::vector<std::weak_ptr<Subscriber>> work_subscribers_;

  std::mutex ended_mutex_;
  std::deque<Ended> ended_;  // the newest last

  std::mutex seen_mutex_;
  std::map<std::string, Seen> seen_;  // remote workers
};

// "done" jobs: the verdict's class; else "cancelled", "expired", "infra".
std::string outcome_group(const Job& job);

}  // namespace musacoder::service
