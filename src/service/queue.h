// The queue between clients and lanes, behind an interface with three implementations that pass one test
// suite (tests/service/queue_test.cpp): in memory (tests, throw-away servers), in SQLite (durable, several
// processes of one machine) and in NATS JetStream (durable, several machines; service/nats_queue.h).
//
//   MC_ASSIGN_OR_RETURN(auto queue, open_queue("sqlite:queue.db", {}));
//   MC_ASSIGN_OR_RETURN(auto submitted, queue->submit({spec}));              // idempotent, all or nothing
//   MC_ASSIGN_OR_RETURN(auto lease, queue->lease({.worker = worker_identity(0)}));
//   ... every few seconds: queue->heartbeat(lease->id, "build", 30); ...
//   MC_ASSIGN_OR_RETURN(bool accepted, queue->complete(lease->id, outcome)); // false: the job had ended
//   otherwise
//
// Delivery is at least once, the end is exactly once: a lease that is not extended in time is lost, its job
// is given to another worker, and what the first one says later is refused. sweep() does the losing; call it
// about once a second. Errors: kNotFound (no such job; a lease that is lost), kInvalidArgument (another
// content under an idempotency key, with the earlier job's id), kResourceExhausted (queue or disk full:
// nothing was stored), kUnavailable (locked, unwritable), kUnsupported (a newer program's file). All
// functions are thread safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "service/job.h"

namespace musacoder::service {

struct QueueConfig {
  RetryPolicy retry;
  std::size_t max_queued = 10'000;  // jobs waiting; more are refused with kResourceExhausted
  std::size_t keep_ended =
      10'000;  // memory queue only: ended jobs beyond this are forgotten, the oldest first
  base::Clock* clock = &base::real_clock();
};

struct LeaseRequest {
  std::string worker;  // worker_identity(), or any name
  double visibility_s = 30;
  std::string prefer;  // task hash: among jobs of the highest priority, one of this task first
  WorkerRole role = WorkerRole::kBoth;
};

struct Lease {
  std::string id;
  Job job;
};

struct HeartbeatReply {
  bool cancel = false;  // the job has ended (cancelled, expired): stop working on it
  double until = 0;     // Unix seconds
};

// What a worker needs of a queue; also implemented over HTTP (service/http_source.h).
class WorkSource {
 public:
  virtual ~WorkSource() = default;
  // Null when nothing is waiting; waits up to `wait_s` where the implementation can (HTTP, NATS: a second at
  // most), else returns at once.
  virtual Result<std::optional<Lease>> lease(const LeaseRequest& request, double wait_s = 0) = 0;
  virtual Result<HeartbeatReply> heartbeat(const std::string& lease, const std::string& stage,
                                           double visibility_s) = 0;
  virtual Result<bool> complete(const std::string& lease, const Outcome& outcome) = 0;
  virtual Result<bool> release(const std::string& lease, const std::string& fault) = 0;
  // A compile worker is through with the job: it waits for one that executes.
  virtual Result<bool> compiled(const std::string& lease) = 0;
};

struct Submitted {
  Job job;
  bool repeated = false;  // it was there before
};

struct Change {
  std::string id, owner, stage;
  JobState state = JobState::kQueued;
  std::uint64_t revision = 0;
};

struct JobFilter {
  std::string owner;  // "" any
  std::string task, status;
  std::optional<JobState> state;
  std::string before;       // id: only older jobs
  std::size_t limit = 100;  // newest first
};

struct QueueStats {
  std::size_t queued = 0, running = 0, ended = 0, dead = 0;
  double oldest_queued_at = 0;  // 0: none waits
  std::map<int, std::size_t> queued_by_priority;
  std::uint64_t revision = 0;
};

struct OwnerLoad {
  std::size_t queued = 0, running = 0;
};

class JobQueue : public WorkSource {
 public:
  // In the order of `specs`; all or nothing.
  virtual Result<std::vector<Submitted>> submit(const std::vector<JobSpec>& specs) = 0;
  // How many of them submit() would make new jobs of; the others are there already.
  virtual Result<std::size_t> count_new(const std::vector<JobSpec>& specs) = 0;
  virtual Result<std::optional<Job>> get(const std::string& id) = 0;
  virtual Result<std::optional<Job>> find(const std::string& owner, const std::string& idempotency_key) = 0;
  // Without reference, candidate, verdict, feedback and code.
  virtual Result<std::vector<Job>> list(const JobFilter& filter) = 0;
  virtual Result<Job> cancel(const std::string& id) = 0;
  // Place among waiting jobs from 1; 0 when it does not wait.
  virtual Result<std::size_t> position(const std::string& id) = 0;
  // Lost leases (visibility over, or the worker's process on this host is gone) and deadlines. Returns how
  // many changed.
  virtual Result<std::size_t> sweep() = 0;
  virtual Result<QueueStats> stats() = 0;
  virtual Result<OwnerLoad> load_of(const std::string& owner) = 0;
  // Changes after `revision`, oldest first, one a job (its latest).
  virtual Result<std::vector<Change>> changes(std::uint64_t revision, std::size_t limit = 1000) = 0;
  // Ended jobs whose verdicts were not yet handed on, oldest first; mark_archived() when they are.
  virtual Result<std::vector<Job>> unarchived(std::size_t limit) = 0;
  virtual Status mark_archived(const std::vector<std::string>& ids) = 0;
  // Removes archived jobs that ended before `unix_time`. Returns how many.
  virtual Result<std::size_t> prune(double unix_time) = 0;
};

std::unique_ptr<JobQueue> make_memory_queue(const QueueConfig& config);
Result<std::unique_ptr<JobQueue>> open_sqlite_queue(const std::string& path, const QueueConfig& config);
// "memory", "sqlite:PATH" or "nats://[USER:PASSWORD@]HOST:PORT[/PREFIX]". Errors: kInvalidArgument for
// another form, and those of open_sqlite_queue and open_nats_queue.
Result<std::unique_ptr<JobQueue>> open_queue(const std::string& url, const QueueConfig& config);

// Names this process and lane so that any process of the same host and process namespace can tell whether it
// still runs: "host/boot/namespace/pid/start/lane".
std::string worker_identity(int lane);
// True only when the name says that its process lived here and is gone; false for every other name.
bool worker_is_gone(const std::string& worker);

}  // namespace musacoder::service
