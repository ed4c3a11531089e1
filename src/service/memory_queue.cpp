// The queue in this process's memory: gone with the process. For tests and for servers that need not
// remember.
#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>

#include "judge/verdict.h"
#include "service/filter.h"
#include "service/queue.h"

namespace musacoder::service {
namespace {

class MemoryQueue : public JobQueue {
 public:
  explicit MemoryQueue(const QueueConfig& config) : config_(config) {}

  Result<std::vector<Submitted>> submit(const std::vector<JobSpec>& specs) override {
    std::lock_guard lock(mutex_);
    const double now = config_.clock->unix_time();
    // First look at all of them, so that a refusal leaves nothing behind.
    std::size_t fresh = 0;
    std::unordered_map<std::string, std::string> keys;  // of this call
    for (const auto& spec : specs) {
      const std::string content = content_hash(spec);
      if (!spec.idempotency_key.empty() &&
          keys.try_emplace(spec.owner + "\n" + spec.idempotency_key, content).first->second != content)
        return fail(Code::kInvalidArgument, "idempotency key '{}' stands for two contents in one request",
                    spec.idempotency_key);
      if (const Entry* earlier = keyed(spec); earlier && earlier->content != content)
        return fail(Code::kInvalidArgument, "idempotency key '{}' was used for job {} with another content",
                    spec.idempotency_key, earlier->job.id);
      if (!find_existing(spec, content) && !(spec.reuse && decided_.count(content))) ++fresh;
    }
    if (fresh > 0 && waiting_.size() + fresh > config_.max_queued)
      return fail(Code::kResourceExhausted, "the queue holds {} jobs, its limit is {}", waiting_.size(),
                  config_.max_queued);
    std::vector<Submitted> submitted;
    for (const auto& spec : specs) {
      const std::string content = content_hash(spec);
      if (const Entry* existing = find_existing(spec, content)) {
        submitted.push_back({existing->job, true});
        continue;
      }
      auto [it, inserted] = jobs_.try_emplace(next_sequence_, Entry{});
      Entry& entry = it->second;
      entry.job = new_job(spec, now);
      entry.job.sequence = next_sequence_++;
      entry.content = content;
      entry.task = task_hash(spec);
      ids_[entry.job.id] = entry.job.sequence;
      if (!spec.idempotency_key.empty()) keys_[spec.owner + "\n" + spec.idempotency_key] = entry.job.sequence;
      if (auto known = decided_.find(content); spec.reuse && known != decided_.end()) {
        on_reuse(entry.job, jobs_.at(known->second).job.outcome, now);
      } else {
        waiting_.insert(order_of(entry.job));
        pending_[spec.owner + "\n" + content] = entry.job.sequence;
      }
      changed(entry);
      submitted.push_back({entry.job, false});
    }
    forget_old();
    return submitted;
  }

  Result<std::size_t> count_new(const std::vector<JobSpec>& specs) override {
    std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& spec : specs) count += find_existing(spec, content_hash(spec)) == nullptr;
    return count;
  }

  Result<std::optional<Lease>> lease(const LeaseRequest& request, double) override {
    std::lock_guard lock(mutex_);
    const double now = config_.clock->unix_time();
    if (request.role == WorkerRole::kCompile) compiler_at_ = now;
    Entry* chosen = nullptr;
    for (const auto& [priority, sequence] : waiting_) {
      Entry& entry = jobs_.at(sequence);
      if (entry.job.not_before > now ||
          (entry.job.spec.deadline_at > 0 && entry.job.spec.deadline_at <= now) ||
          !is_for(entry.job, request.role, now, compiler_at_))
        continue;
      if (chosen && entry.job.spec.priority < chosen->job.spec.priority) break;
      if (!chosen) chosen = &entry;
      if (request.prefer.empty()) break;
      if (entry.task == request.prefer) {
        chosen = &entry;
        break;
      }
    }
    if (!chosen) return std::optional<Lease>();
    waiting_.erase(order_of(chosen->job));
    on_lease(chosen->job, request.worker, random_id("l-"), now, request.visibility_s, request.role);
    leases_[chosen->job.lease] = chosen->job.sequence;
    changed(*chosen);
    return std::optional<Lease>(Lease{chosen->job.lease, chosen->job});
  }

  Result<HeartbeatReply> heartbeat(const std::string& lease, const std::string& stage,
                                   double visibility_s) override {
    std::lock_guard lock(mutex_);
    MC_ASSIGN_OR_RETURN(Entry * entry, leased(lease));
    if (is_compiling(entry->job)) compiler_at_ = config_.clock->unix_time();
    const bool new_stage = entry->job.stage != stage;
    if (on_heartbeat(entry->job, stage, config_.clock->unix_time(), visibility_s) && new_stage)
      changed(*entry);
    return HeartbeatReply{has_ended(entry->job.state), entry->job.lease_until};
  }

  Result<bool> complete(const std::string& lease, const Outcome& outcome) override {
    return with_lease(lease,
                      [&](Job& job, double now) { return on_complete(job, outcome, now, config_.retry); });
  }
  Result<bool> release(const std::string& lease, const std::string& fault) override {
    return with_lease(lease,
                      [&](Job& job, double now) { return on_release(job, fault, now, config_.retry); });
  }

  Result<bool> compiled(const std::string& lease) override {
    return with_lease(lease, [&](Job& job, double now) { return on_compiled(job, now); });
  }

  Result<std::optional<Job>> get(const std::string& id) override {
    std::lock_guard lock(mutex_);
    const Entry* entry = find(id);
    return entry ? std::optional<Job>(entry->job) : std::nullopt;
  }

  Result<std::optional<Job>> find(const std::string& owner, const std::string& idempotency_key) override {
    std::lock_guard lock(mutex_);
    auto it = keys_.find(owner + "\n" + idempotency_key);
    return it == keys_.end() ? std::nullopt : std::optional<Job>(jobs_.at(it->second).job);
  }

  Result<std::vector<Job>> list(const JobFilter& filter) override {
    std::lock_guard lock(mutex_);
    std::vector<Job> jobs;
    const Entry* before = filter.before.empty() ? nullptr : find(filter.before);
    for (auto it = jobs_.rbegin(); it != jobs_.rend() && jobs.size() < filter.limit; ++it) {
      const Job& job = it->second.job;
      if (before && job.sequence >= before->job.sequence) continue;
      if (matches(job, filter)) jobs.push_back(light(job));
    }
    return jobs;
  }

  Result<Job> cancel(const std::string& id) override {
    std::lock_guard lock(mutex_);
    Entry* entry = find(id);
    if (!entry) return fail(Code::kNotFound, "there is no job {}", id);
    const auto order = order_of(entry->job);
    if (on_cancel(entry->job, config_.clock->unix_time())) {
      waiting_.erase(order);
      ended(*entry);
      changed(*entry);
    }
    return entry->job;
  }

  Result<std::size_t> position(const std::string& id) override {
    std::lock_guard lock(mutex_);
    const Entry* entry = find(id);
    if (!entry || entry->job.state != JobState::kQueued) return std::size_t{0};
    return static_cast<std::size_t>(std::distance(waiting_.begin(), waiting_.find(order_of(entry->job)))) + 1;
  }

  Result<std::size_t> sweep() override {
    std::lock_guard lock(mutex_);
    const double now = config_.clock->unix_time();
    std::size_t count = 0;
    std::vector<std::uint64_t> unfinished;
    for (const auto& [priority, sequence] : waiting_) unfinished.push_back(sequence);
    for (const auto& [lease, sequence] : leases_) unfinished.push_back(sequence);
    for (const std::uint64_t sequence : unfinished) {
      Entry& entry = jobs_.at(sequence);
      const auto order = order_of(entry.job);
      const bool was_queued = entry.job.state == JobState::kQueued;
      const std::string lease = entry.job.lease;
      bool done = on_deadline(entry.job, now);
      if (!done && entry.job.state == JobState::kRunning &&
          (entry.job.lease_until < now || worker_is_gone(entry.job.worker)))
        done = on_lease_lost(entry.job, now, config_.retry);
      if (!done) continue;
      if (was_queued) waiting_.erase(order);
      settle(entry, lease);
      ++count;
    }
    return count;
  }

  Result<QueueStats> stats() override {
    std::lock_guard lock(mutex_);
    QueueStats stats;
    for (const auto& [priority, sequence] : waiting_) {
      const Job& job = jobs_.at(sequence).job;
      ++stats.queued;
      ++stats.queued_by_priority[job.spec.priority];
      if (stats.oldest_queued_at == 0 || job.created_at < stats.oldest_queued_at)
        stats.oldest_queued_at = job.created_at;
    }
    for (const auto& [sequence, entry] : jobs_) {
      stats.running += entry.job.state == JobState::kRunning;
      stats.ended += has_ended(entry.job.state);
      stats.dead += entry.job.state == JobState::kFailed;
    }
    stats.revision = revision_;
    return stats;
  }

  Result<OwnerLoad> load_of(const std::string& owner) override {
    std::lock_guard lock(mutex_);
    OwnerLoad load;
    for (const auto& [sequence, entry] : jobs_) {
      if (entry.job.spec.owner != owner) continue;
      load.queued += entry.job.state == JobState::kQueued;
      load.running += entry.job.state == JobState::kRunning;
    }
    return load;
  }

  Result<std::vector<Change>> changes(std::uint64_t revision, std::size_t limit) override {
    std::lock_guard lock(mutex_);
    std::vector<Change> found;
    for (auto it = revisions_.upper_bound(revision); it != revisions_.end() && found.size() < limit; ++it) {
      const Job& job = jobs_.at(it->second).job;
      found.push_back({job.id, job.spec.owner, job.stage, job.state, job.revision});
    }
    return found;
  }

  Result<std::vector<Job>> unarchived(std::size_t limit) override {
    std::lock_guard lock(mutex_);
    std::vector<Job> found;
    for (const std::uint64_t sequence : unarchived_) {
      if (found.size() >= limit) break;
      found.push_back(jobs_.at(sequence).job);
    }
    return found;
  }

  Status mark_archived(const std::vector<std::string>& ids) override {
    std::lock_guard lock(mutex_);
    for (const auto& id : ids)
      if (auto it = ids_.find(id); it != ids_.end()) unarchived_.erase(it->second);
    return ok();
  }

  Result<std::size_t> prune(double unix_time) override {
    std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (auto it = jobs_.begin(); it != jobs_.end();) {
      const Job& job = it->second.job;
      const bool old =
          has_ended(job.state) && job.finished_at < unix_time && !unarchived_.count(job.sequence);
      if (old)
        forget((it++)->first), ++count;
      else
        ++it;
    }
    return count;
  }

 private:
  struct Entry {
    Job job;
    std::string content, task;
  };
  using Order = std::pair<int, std::uint64_t>;

  static Order order_of(const Job& job) { return {-job.spec.priority, job.sequence}; }
  static Job light(Job job) {
    job.spec.reference.clear();
    job.spec.candidate.clear();
    job.outcome.verdict.clear();
    job.outcome.feedback.clear();
    job.outcome.code.clear();
    return job;
  }

  Entry* find(const std::string& id) {
    auto it = ids_.find(id);
    return it == ids_.end() ? nullptr : &jobs_.at(it->second);
  }
  const Entry* keyed(const JobSpec& spec) const {
    if (spec.idempotency_key.empty()) return nullptr;
    auto it = keys_.find(spec.owner + "\n" + spec.idempotency_key);
    return it == keys_.end() ? nullptr : &jobs_.at(it->second);
  }
  const Entry* find_existing(const JobSpec& spec, const std::string& content) const {
    if (const Entry* entry = keyed(spec)) return entry;
    if (!spec.attach) return nullptr;
    auto it = pending_.find(spec.owner + "\n" + content);
    return it == pending_.end() ? nullptr : &jobs_.at(it->second);
  }
  Result<Entry*> leased(const std::string& lease) {
    auto it = leases_.find(lease);
    if (lease.empty() || it == leases_.end()) return fail(Code::kNotFound, "the lease is no longer held");
    return &jobs_.at(it->second);
  }

  template <typename Rule>
  Result<bool> with_lease(const std::string& lease, Rule&& rule) {
    std::lock_guard lock(mutex_);
    MC_ASSIGN_OR_RETURN(Entry * entry, leased(lease));
    if (!rule(entry->job, config_.clock->unix_time())) return false;
    settle(*entry, lease);
    return true;
  }

  // Brings the indexes in line after a running job changed.
  void settle(Entry& entry, const std::string& lease) {
    if (entry.job.state == JobState::kQueued) {
      leases_.erase(lease);
      waiting_.insert(order_of(entry.job));
    } else if (has_ended(entry.job.state)) {
      ended(entry);
    }
    changed(entry);
  }
  void ended(Entry& entry) {
    auto it = pending_.find(entry.job.spec.owner + "\n" + entry.content);
    if (it != pending_.end() && it->second == entry.job.sequence) pending_.erase(it);
    if (entry.job.state == JobState::kDone && !judge::is_null_reward(entry.job.outcome.status))
      decided_[entry.content] = entry.job.sequence;
  }
  void changed(Entry& entry) {
    revisions_.erase(entry.job.revision);
    entry.job.revision = ++revision_;
    revisions_[entry.job.revision] = entry.job.sequence;
    if (has_ended(entry.job.state)) unarchived_.insert(entry.job.sequence);
  }
  void forget(std::uint64_t sequence) {
    const Entry& entry = jobs_.at(sequence);
    const Job& job = entry.job;
    ids_.erase(job.id);
    leases_.erase(job.lease);
    revisions_.erase(job.revision);
    unarchived_.erase(sequence);
    if (auto it = keys_.find(job.spec.owner + "\n" + job.spec.idempotency_key);
        it != keys_.end() && it->second == sequence)
      keys_.erase(it);
    if (auto it = decided_.find(entry.content); it != decided_.end() && it->second == sequence)
      decided_.erase(it);
    jobs_.erase(sequence);
  }
  void forget_old() {
    std::size_t excess = jobs_.size() > config_.keep_ended ? jobs_.size() - config_.keep_ended : 0;
    for (auto it = jobs_.begin(); it != jobs_.end() && excess > 0;) {
      const bool old = has_ended(it->second.job.state) && !unarchived_.count(it->first);
      if (old)
        forget((it++)->first), --excess;
      else
        ++it;
    }
  }

  const QueueConfig config_;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> jobs_;  // by sequence
  std::set<Order> waiting_;
  std::unordered_map<std::string, std::uint64_t> ids_, leases_, keys_, decided_, pending_;
  std::map<std::uint64_t, std::uint64_t> revisions_;
  std::set<std::uint64_t> unarchived_;
  std::uint64_t next_sequence_ = 1, revision_ = 0;
  double compiler_at_ = 0;  // when a compile worker was last heard of
};

}  // namespace

std::unique_ptr<JobQueue> make_memory_queue(const QueueConfig& config) {
  return std::make_unique<MemoryQueue>(config);
}

}  // namespace musacoder::service
