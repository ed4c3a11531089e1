// Lanes: threads that lease jobs, judge them, keep their leases alive meanwhile, and hand in what came of it.
//
//   JudgeExecutors executors(judge_config);
//   WorkerPool pool(source, [&](int lane) { return executors.make(lane); }, {.lanes = 2});
//   pool.start();  ...  pool.drain(60);      // finish what is running, give back what is not done in 60 s
//
// The source is a queue in this process, a SQLite file, or a service over HTTP: a lane does not know. A lane
// never turns its own trouble into a verdict: what fails on the way is handed in as an infra fault and tried
// again elsewhere.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "judge/judge.h"
#include "service/queue.h"

namespace musacoder::service {

// Judges one job at a time; one thread.
class Executor {
 public:
  virtual ~Executor() = default;
  // Never fails: trouble becomes an outcome with an infra status. `cancelled` is asked now and then.
  virtual Outcome execute(const JobSpec& spec, const judge::StageCallback& on_stage,
                          const std::function<bool()>& cancelled) = 0;
  // Builds what the candidate builds when it is loaded and constructed, and leaves it in the artefact store.
  // The status is infra:* when this machine could not; anything else is for the one that executes to find out
  // again.
  virtual Outcome compile(const JobSpec& spec, const judge::StageCallback& on_stage,
                          const std::function<bool()>& cancelled) = 0;
};
using ExecutorFactory = std::function<Result<std::unique_ptr<Executor>>(int lane)>;

// Executors that drive judge::Judge and share builder, extractor and zygote. Thread safe.
class JudgeExecutors {
 public:
  explicit JudgeExecutors(judge::JudgeConfig config) : config_(std::move(config)) {}
  // Starts what lanes share. Those processes die with the calling thread, so call it on one that outlives the
  // lanes.
  Status prepare();
  // Errors: kUnavailable before prepare().
  Result<std::unique_ptr<Executor>> make(int lane);

 private:
  judge::JudgeConfig config_;
  std::mutex mutex_;
  std::shared_ptr<judge::Shared> shared_;
};

struct WorkerOptions {
  int lanes = 1;
  double visibility_s = 30;    // a lease is extended every third of it
  double poll_s = 0.1;         // between looks at a queue that cannot wait
  double wait_s = 5;           // how long a source that can wait (HTTP) is asked to
  int same_task_in_a_row = 8;  // then the longest waiting job comes first again
  std::string name_prefix;     // "" : worker_identity(lane)
  WorkerRole role = WorkerRole::kBoth;
};

struct LaneStatus {
  std::string name, job, task, stage;
  bool busy = false;
  double since = 0;  // Unix seconds of the present state
  std::uint64_t done = 0, infra = 0;
};

class WorkerPool {
 public:
  WorkerPool(WorkSource& source, ExecutorFactory factory, WorkerOptions options);
  ~WorkerPool();  // drain(0)
  void start();
  void poke();  // a job was submitted: look now
  std::vector<LaneStatus> status() const;
  // No new leases; waits up to `seconds` for running jobs, then tells them to stop and gives their leases
  // back. Returns how many jobs were given back.
  int drain(double seconds);
  // Ends the wait of a drain() that another thread is in.
  void hurry() { hurry_ = true; }

 private:
  struct Lane;
  void run(Lane& lane);
  void work(Lane& lane, Lease lease);
  void keep_alive(Lane& lane);
  void hand_in(Lane& lane, const std::function<Result<bool>()>& give);
  // Until a poke after the `seen`th, or the time is over. False when draining.
  bool pause(double seconds, std::uint64_t seen);

  WorkSource& source_;
  ExecutorFactory factory_;
  WorkerOptions options_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::uint64_t pokes_ = 0;
  std::atomic<bool> draining_{false}, abandon_{false}, hurry_{false};
};

}  // namespace musacoder::service
