#include "service/worker.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "judge/feedback.h"
#include "base/event_log.h"

namespace musacoder::service {
namespace {

using base::LogLevel;

double unix_now() { return base::real_clock().unix_time(); }

class JudgeExecutor : public Executor {
 public:
  JudgeExecutor(const judge::JudgeConfig& config, std::shared_ptr<judge::Shared> shared)
      : config_(config), shared_(std::move(shared)) {}

  Outcome execute(const JobSpec& spec, const judge::StageCallback& on_stage,
                  const std::function<bool()>& cancelled) override {
    return run(spec, on_stage, cancelled, false);
  }
  Outcome compile(const JobSpec& spec, const judge::StageCallback& on_stage,
                  const std::function<bool()>& cancelled) override {
    return run(spec, on_stage, cancelled, true);
  }

 private:
  Outcome run(const JobSpec& spec, const judge::StageCallback& on_stage,
              const std::function<bool()>& cancelled, bool compile_only) {
    Outcome outcome;
    auto& judge = judges_[spec.policy];
    if (!judge) {
      judge::JudgeConfig config = config_;
      config.policy = spec.policy;
      auto created = judge::Judge::create(config, shared_);
      if (!created) {
        outcome.status = "infra:lane";
        outcome.feedback = created.error().message;
        return outcome;
      }
      judge = std::move(*created);
    }
    const judge::Verdict verdict = judge->judge({.task_id = spec.task_id,
                                                 .task_code = spec.reference,
                                                 .answer = spec.candidate,
                                                 .answer_name = spec.candidate_name,
                                                 .seed = spec.seed,
                                                 .compile_only = compile_only,
                                                 .cancelled = cancelled},
                                                on_stage);
    outcome.status = verdict.status;
    outcome.reward = verdict.reward;
    outcome.code = judge->last_code();
    outcome.verdict = judge::to_json(verdict).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    judge::FeedbackOptions options{.round = spec.round};
    if (!outcome.code.empty()) options.sources["candidate.py"] = outcome.code;
    outcome.feedback = judge::feedback_text(judge::make_feedback(verdict, options));
    // After a fault of ours the lane starts afresh: its runners may be what failed.
    if (judge::status_class(verdict.status) == "infra") judge.reset();
    return outcome;
  }

  const judge::JudgeConfig& config_;
  std::shared_ptr<judge::Shared> shared_;
  std::map<std::string, std::unique_ptr<judge::Judge>> judges_;  // by policy
};

}  // namespace

Status JudgeExecutors::prepare() {
  std::lock_guard lock(mutex_);
  if (!shared_) {
    MC_ASSIGN_OR_RETURN(shared_, judge::Shared::create(config_));
  }
  return ok();
}

Result<std::unique_ptr<Executor>> JudgeExecutors::make(int) {
  std::lock_guard lock(mutex_);
  if (!shared_) return fail(Code::kUnavailable, "the lanes' shared processes were not started");
  return std::unique_ptr<Executor>(std::make_unique<JudgeExecutor>(config_, shared_));
}

struct WorkerPool::Lane {
  int number = 0;
  std::string name;
  std::thread thread, keeper;
  std::unique_ptr<Executor> executor;
  std::string last_task;
  int same_task = 0;

  mutable std::mutex mutex;  // what follows
  std::condition_variable changed;
  LaneStatus status;
  std::string lease;  // "" when idle
  bool stage_changed = false, ended = false;
  std::atomic<bool> cancel{false};
};

WorkerPool::WorkerPool(WorkSource& source, ExecutorFactory factory, WorkerOptions options)
    : source_(source), factory_(std::move(factory)), options_(std::move(options)) {
  for (int i = 0; i < options_.lanes; ++i) {
    auto lane = std::make_unique<Lane>();
    lane->number = i;
    lane->name =
        options_.name_prefix.empty() ? worker_identity(i) : fmt::format("{}/{}", options_.name_prefix, i);
    lane->status.name = lane->name;
    lane->status.since = unix_now();
    lanes_.push_back(std::move(lane));
  }
}

WorkerPool::~WorkerPool() { drain(0); }

void WorkerPool::start() {
  for (auto& lane : lanes_) {
    lane->thread = std::thread([this, &l = *lane] { run(l); });
    lane->keeper = std::thread([this, &l = *lane] { keep_alive(l); });
  }
}

void WorkerPool::poke() {
  {
    std::lock_guard lock(mutex_);
    ++pokes_;
  }
  wake_.notify_all();
}

std::vector<LaneStatus> WorkerPool::status() const {
  std::vector<LaneStatus> statuses;
  for (const auto& lane : lanes_) {
    std::lock_guard lock(lane->mutex);
    statuses.push_back(lane->status);
  }
  return statuses;
}

bool WorkerPool::pause(double seconds, std::uint64_t seen) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return draining_ || pokes_ != seen; });
  return !draining_;
}

void WorkerPool::run(Lane& lane) {
  double trouble_s = 0.2;
  while (!draining_) {
    const bool prefer = lane.same_task < options_.same_task_in_a_row;
    std::uint64_t seen = 0;
    {
      std::lock_guard lock(mutex_);
      seen = pokes_;
    }
    auto lease = source_.lease(
        {lane.name, options_.visibility_s, prefer ? lane.last_task : "", options_.role}, options_.wait_s);
    if (!lease) {
      log_event(LogLevel::kWarning, "lease_failed",
                {{"worker", lane.name}, {"error", lease.error().message}});
      if (!pause(trouble_s, seen)) return;
      trouble_s = std::min(10.0, trouble_s * 2);
      continue;
    }
    trouble_s = 0.2;
    if (!*lease) {
      if (!pause(options_.poll_s, seen)) return;
      continue;
    }
    work(lane, std::move(**lease));
  }
}

void WorkerPool::work(Lane& lane, Lease lease) {
  const Job& job = lease.job;
  const std::string task = task_hash(job.spec);
  lane.same_task = task == lane.last_task ? lane.same_task + 1 : 0;
  lane.last_task = task;
  lane.cancel = false;
  {
    std::lock_guard lock(lane.mutex);
    lane.lease = lease.id;
    lane.stage_changed = false;
    lane.status.job = job.id;
    lane.status.task = job.spec.task_id;
    lane.status.stage = options_.role == WorkerRole::kCompile ? "compile" : "start";
    lane.status.busy = true;
    lane.status.since = unix_now();
  }
  log_event(LogLevel::kInfo, "job_started",
            {{"job", job.id},
             {"worker", lane.name},
             {"task", job.spec.task_id},
             {"attempt", std::int64_t{job.attempts}}});
  Outcome outcome;
  if (!lane.executor) {
    auto made = factory_(lane.number);
    if (made)
      lane.executor = std::move(*made);
    else
      outcome = {.status = "infra:lane", .feedback = made.error().message};
  }
  const bool compiling = options_.role == WorkerRole::kCompile;
  if (lane.executor) {
    const auto on_stage = [&](const std::string& stage) {
      std::lock_guard lock(lane.mutex);
      lane.status.stage = compiling ? "compile " + stage : stage;
      lane.stage_changed = true;
      lane.changed.notify_one();
    };
    const auto cancelled = [&] { return lane.cancel.load() || abandon_.load(); };
    outcome = compiling ? lane.executor->compile(job.spec, on_stage, cancelled)
                        : lane.executor->execute(job.spec, on_stage, cancelled);
  }
  const bool infra = judge::status_class(outcome.status) == "infra";
  if (abandon_ && infra) {
    (void)source_.release(lease.id, "");
  } else if (compiling && !infra) {
    hand_in(lane, [&] { return source_.compiled(lease.id); });
  } else {
    hand_in(lane, [&] { return source_.complete(lease.id, outcome); });
  }
  log_event(infra ? LogLevel::kWarning : LogLevel::kInfo, compiling ? "job_compiled" : "job_judged",
            {{"job", job.id},
             {"worker", lane.name},
             {"status", outcome.status},
             {"run_s", unix_now() - job.started_at}});
  std::lock_guard lock(lane.mutex);
  lane.lease.clear();
  lane.status.busy = false;
  lane.status.job.clear();
  lane.status.task.clear();
  lane.status.stage.clear();
  lane.status.since = unix_now();
  ++lane.status.done;
  lane.status.infra += infra && !lane.cancel;
}

// What was judged is not thrown away because the queue is away for a while (restart, full disk).
void WorkerPool::hand_in(Lane& lane, const std::function<Result<bool>()>& give) {
  double wait_s = 0.2, waited_s = 0;
  for (;;) {
    auto accepted = give();
    if (accepted) return;
    const Code code = accepted.error().code;
    log_event(LogLevel::kWarning, "hand_in_failed",
              {{"worker", lane.name}, {"error", accepted.error().message}});
    if (code == Code::kNotFound || code == Code::kInvalidArgument || waited_s > 600 || abandon_) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));
    waited_s += wait_s;
    wait_s = std::min(5.0, wait_s * 2);
  }
}

void WorkerPool::keep_alive(Lane& lane) {
  const auto third = std::chrono::duration<double>(std::max(0.05, options_.visibility_s / 3));
  std::unique_lock lock(lane.mutex);
  auto last = std::chrono::steady_clock::now();
  std::string last_lease;
  while (!lane.ended) {
    lane.changed.wait_for(lock, std::chrono::milliseconds(200),
                          [&] { return lane.ended || (lane.stage_changed && !lane.lease.empty()); });
    if (lane.ended) return;
    if (lane.lease.empty()) continue;
    if (lane.lease != last_lease) {
      last_lease = lane.lease;
      last = std::chrono::steady_clock::now();
    }
    const bool due = std::chrono::steady_clock::now() - last >= third;
    // Also asked now and then whether the job was cancelled.
    const bool ask = std::chrono::steady_clock::now() - last >=
                     std::min<std::chrono::duration<double>>(third, std::chrono::seconds(2));
    if (!due && !ask && !lane.stage_changed) continue;
    lane.stage_changed = false;
    const std::string lease = lane.lease, stage = lane.status.stage;
    lock.unlock();
    auto reply = source_.heartbeat(lease, stage, options_.visibility_s);
    if (reply ? reply->cancel : reply.error().code == Code::kNotFound) {
      lock.lock();
      if (lane.lease == lease) lane.cancel = true;
    } else {
      lock.lock();
    }
    last = std::chrono::steady_clock::now();
    // A burst of stages is one message every 50 ms at most.
    lane.changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return lane.ended; });
  }
}

int WorkerPool::drain(double seconds) {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  wake_.notify_all();
  auto busy = [&] {
    int count = 0;
    for (const auto& lane : lanes_) {
      std::lock_guard lock(lane->mutex);
      count += lane->status.busy;
    }
    return count;
  };
  const base::Deadline deadline = base::Deadline::in(seconds);
  while (busy() > 0 && !deadline.expired() && !hurry_)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const int left = busy();
  if (left > 0) abandon_ = true;
  for (auto& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
    {
      std::lock_guard lock(lane->mutex);
      lane->ended = true;
    }
    lane->changed.notify_all();
    if (lane->keeper.joinable()) lane->keeper.join();
  }
  return left;
}

}  // namespace musacoder::service
