#include "service/nats_queue.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/json_lines.h"
#include "judge/verdict.h"
#include "service/filter.h"
#include "base/event_log.h"
#include "service/nats_link.h"

namespace musacoder::service {
namespace {

using base::Deadline;
using nlohmann::json;

constexpr int kSchemaVersion = 1;
constexpr double kPatienceS = 15;  // of one operation
constexpr double kFreshS = 0.25;   // reads may be this old when no news came
constexpr double kGraceS = 10;     // after the server was away, before leases are lost
constexpr double kPresenceS = 2;   // between two notes that a compile worker is there
constexpr double kBellS = 1;       // longest wait of one lease()
constexpr std::size_t kInlineBytes = 1024;
constexpr std::size_t kPieceBytes = 512u << 10;
constexpr std::size_t kMaxRings = 256;
constexpr int kIndexBits = 11;  // kMaxJobsAtOnce fits

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

// A job as the stream's messages tell it, without bodies.
struct Entry {
  Job job;
  std::string content, task;
  std::string outcome_key;  // "" : inline or none
  int spec_pieces = 0, outcome_pieces = 0;
  std::string inline_outcome;  // text, where it is small
  bool whole_extra = true;     // false: job.spec.extra stands in the spec's body
  bool archived = false;
  std::uint64_t record = 0;  // sequence of the job's own message, 0: none yet
  std::uint64_t seen = 0;    // sequence of the message that this is from
  std::uint64_t batch = 0;   // sequence of the batch it came in, 0: none
};

json to_record(const Entry& e) {
  const Job& j = e.job;
  json r = {{"v", j.version},      {"id", j.id},
            {"seq", j.sequence},   {"st", static_cast<int>(j.state)},
            {"c", e.content},      {"th", e.task},
            {"ca", j.created_at},  {"sp", e.spec_pieces},
            {"own", j.spec.owner}, {"task", j.spec.task_id}};
  // Defaults are left out: a submission of a thousand jobs is one message.
  const auto put = [&](const char* key, const auto& value, const auto& otherwise) {
    if (value != otherwise) r[key] = value;
  };
  const std::string none;
  put("pr", j.spec.priority, 0);
  put("idem", j.spec.idempotency_key, none);
  put("pol", j.spec.policy, std::string("strict"));
  put("rnd", j.spec.round, 1);
  put("da", j.spec.deadline_at, 0.0);
  if (j.spec.extra.size() <= kInlineBytes)
    put("ex", j.spec.extra, std::string("{}"));
  else
    r["bx"] = true;
  put("nb", j.not_before, 0.0);
  put("sa", j.started_at, 0.0);
  put("fa", j.finished_at, 0.0);
  put("l", j.lease, none);
  put("w", j.worker, none);
  put("sg", j.stage, none);
  put("lu", j.lease_until, 0.0);
  put("at", j.attempts, 0);
  put("fl", j.faults, 0);
  put("de", j.deaths, 0);
  put("hit", j.cached, false);
  put("cc", j.compiled, false);
  put("os", j.outcome.status, none);
  if (j.outcome.reward) r["rw"] = *j.outcome.reward;
  put("ok", e.outcome_key, none);
  put("op", e.outcome_pieces, 0);
  put("out", e.inline_outcome, none);
  put("ar", e.archived, false);
  put("b", e.batch, std::uint64_t{0});
  return r;
}

// Others write into the stream too: a number that is none counts as absent.
int number_of(const json& r, const char* key, int otherwise) {
  auto it = r.find(key);
  if (it == r.end() || !it->is_number_integer()) return otherwise;
  const auto number = it->get<std::int64_t>();
  return number >= -1'000'000 && number <= 1'000'000 ? static_cast<int>(number) : otherwise;
}
std::uint64_t sequence_of(const json& r, const char* key) {
  auto it = r.find(key);
  return it != r.end() && it->is_number_unsigned() ? it->get<std::uint64_t>() : 0;
}

std::optional<Entry> from_record(const json& r) {
  try {
    Entry e;
    Job& j = e.job;
    j.version = number_of(r, "v", kRecordVersion + 1);
    j.id = r.at("id");
    j.sequence = sequence_of(r, "seq");
    const int state = number_of(r, "st", -1);
    if (state < 0 || state > static_cast<int>(JobState::kExpired) || j.id.empty()) return std::nullopt;
    j.state = static_cast<JobState>(state);
    e.content = r.at("c");
    e.task = r.at("th");
    j.created_at = r.at("ca");
    e.spec_pieces = number_of(r, "sp", 0);
    j.spec.owner = r.at("own");
    j.spec.task_id = r.at("task");
    j.spec.priority = number_of(r, "pr", 0);
    j.spec.idempotency_key = r.value("idem", "");
    j.spec.policy = r.value("pol", "strict");
    j.spec.round = number_of(r, "rnd", 1);
    j.spec.deadline_at = r.value("da", 0.0);
    j.spec.extra = r.value("ex", "{}");
    e.whole_extra = !r.value("bx", false);
    j.not_before = r.value("nb", 0.0);
    j.started_at = r.value("sa", 0.0);
    j.finished_at = r.value("fa", 0.0);
    j.lease = r.value("l", "");
    j.worker = r.value("w", "");
    j.stage = r.value("sg", "");
    j.lease_until = r.value("lu", 0.0);
    j.attempts = number_of(r, "at", 0);
    j.faults = number_of(r, "fl", 0);
    j.deaths = number_of(r, "de", 0);
    j.cached = r.value("hit", false);
    j.compiled = r.value("cc", false);
    j.outcome.status = r.value("os", "");
    if (auto it = r.find("rw"); it != r.end() && it->is_number()) j.outcome.reward = it->get<double>();
    e.outcome_key = r.value("ok", "");
    e.outcome_pieces = number_of(r, "op", 0);
    e.inline_outcome = r.value("out", "");
    e.archived = r.value("ar", false);
    e.batch = sequence_of(r, "b");
    return e;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

// All records in memory, with what is looked up quickly. Not thread safe.
class Records {
 public:
  std::map<std::uint64_t, Entry> jobs;  // by sequence of submission
  using Order = std::pair<int, std::uint64_t>;
  std::set<Order> waiting;
  std::set<std::uint64_t> running, unarchived;
  std::unordered_map<std::string, std::uint64_t> ids, leases, keys, decided, pending;
  std::map<std::uint64_t, std::uint64_t> revisions;  // of this process, in the order it learned of them
  std::map<std::string, std::uint64_t> gone;         // removed jobs and the batch they came in
  std::map<std::uint64_t, std::pair<std::string, std::size_t>> batches;  // subject, jobs that are left
  std::uint64_t revision = 0;
  double compiler_at = -kCompilerGoneS;
  int schema = 0;

  static Order order_of(const Job& job) { return {-job.spec.priority, job.sequence}; }

  Entry* find(const std::string& id) {
    auto it = ids.find(id);
    return it == ids.end() ? nullptr : &jobs.at(it->second);
  }
  Entry* with_key(const JobSpec& spec) {
    auto it = spec.idempotency_key.empty() ? keys.end() : keys.find(spec.owner + "\n" + spec.idempotency_key);
    return it == keys.end() ? nullptr : &jobs.at(it->second);
  }
  Entry* existing(const JobSpec& spec, const std::string& content) {
    if (Entry* entry = with_key(spec)) return entry;
    auto it = spec.attach ? pending.find(spec.owner + "\n" + content) : pending.end();
    return it == pending.end() ? nullptr : &jobs.at(it->second);
  }

  void remove(const std::string& id) {
    auto it = ids.find(id);
    if (it == ids.end()) return;
    const std::uint64_t sequence = it->second;
    Entry& entry = jobs.at(sequence);
    unindex(entry);
    const Job& job = entry.job;
    revisions.erase(job.revision);
    forget(keys, job.spec.owner + "\n" + job.spec.idempotency_key, sequence);
    forget(decided, entry.content, sequence);
    if (entry.batch)
      if (auto batch = batches.find(entry.batch); batch != batches.end() && batch->second.second > 0)
        --batch->second.second;
    ids.erase(it);
    jobs.erase(sequence);
  }

  // The newest of two messages about a job wins, in whichever order they come.
  void apply(Entry fresh) {
    auto it = ids.find(fresh.job.id);
    if (it != ids.end()) {
      Entry& old = jobs.at(it->second);
      if (old.seen >= fresh.seen) return;
      fresh.job.sequence = old.job.sequence;
      const bool told = old.job.state == fresh.job.state && old.job.stage == fresh.job.stage &&
                        old.job.lease == fresh.job.lease && old.job.attempts == fresh.job.attempts;
      unindex(old);
      fresh.job.revision = told ? old.job.revision : 0;
      if (!told) revisions.erase(old.job.revision);
      old = std::move(fresh);
      index(old);
      return;
    }
    if (gone.count(fresh.job.id)) return;
    const std::uint64_t sequence = fresh.job.sequence;
    ids[fresh.job.id] = sequence;
    if (!fresh.job.spec.idempotency_key.empty())
      keys[fresh.job.spec.owner + "\n" + fresh.job.spec.idempotency_key] = sequence;
    fresh.job.revision = 0;
    index(jobs.insert_or_assign(sequence, std::move(fresh)).first->second);
  }

 private:
  static void forget(std::unordered_map<std::string, std::uint64_t>& map, const std::string& key,
                     std::uint64_t sequence) {
    if (auto it = map.find(key); it != map.end() && it->second == sequence) map.erase(it);
  }
  void index(Entry& e) {
    Job& job = e.job;
    if (job.revision == 0) job.revision = ++revision;
    revisions[job.revision] = job.sequence;
    if (!job.lease.empty()) leases[job.lease] = job.sequence;
    if (job.state == JobState::kQueued) waiting.insert(order_of(job));
    if (job.state == JobState::kRunning) running.insert(job.sequence);
    if (!has_ended(job.state)) {
      pending.try_emplace(job.spec.owner + "\n" + e.content, job.sequence);
    } else {
      if (!e.archived) unarchived.insert(job.sequence);
      if (job.state == JobState::kDone && !judge::is_null_reward(job.outcome.status))
        decided[e.content] = job.sequence;
    }
  }
  void unindex(const Entry& e) {
    const Job& job = e.job;
    waiting.erase(order_of(job));
    running.erase(job.sequence);
    unarchived.erase(job.sequence);
    leases.erase(job.lease);
    forget(pending, job.spec.owner + "\n" + e.content, job.sequence);
  }
};

class NatsQueue : public JobQueue {
 public:
  NatsQueue(NatsAddress address, const QueueConfig& config)
      : address_(std::move(address)),
        config_(config),
        jobs_stream_(address_.prefix + "_jobs"),
        bodies_stream_(address_.prefix + "_bodies"),
        bell_{.name = address_.prefix + "_wake",
              .subject = address_.prefix + ".wake",
              .per_subject = -1,
              .work_queue = true,
              .max_age_s = 60,
              .max_messages = 10'000} {}

  Status prepare() {
    MC_ASSIGN_OR_RETURN(link_, NatsLink::open(address_, kPatienceS));
    const Deadline deadline = patience();
    MC_RETURN_IF_ERROR(link_->ensure({.name = jobs_stream_, .subject = subject("jobs.>")}, deadline));
    MC_RETURN_IF_ERROR(link_->ensure({.name = bodies_stream_, .subject = subject("bodies.>")}, deadline));
    MC_RETURN_IF_ERROR(link_->make_bell(bell_, deadline));
    MC_RETURN_IF_ERROR(link_->follow(subject("jobs.>")));
    reconnects_ = link_->reconnects();
    MC_RETURN_IF_ERROR(sync(deadline));
    if (records_.schema == 0) {
      MC_RETURN_IF_ERROR(link_->put(subject("jobs.schema"), dump({{"schema", kSchemaVersion}}),
                                    {.subject_last = 0}, deadline));
      MC_RETURN_IF_ERROR(sync(deadline));
    }
    if (records_.schema > kSchemaVersion)
      return fail(Code::kUnsupported,
                  "the queue at {} was written by a newer program (schema {}, this one knows {})",
                  address_.shown, records_.schema, kSchemaVersion);
    return ok();
  }

  Result<std::vector<Submitted>> submit(const std::vector<JobSpec>& specs) override {
    const Deadline deadline = patience();
    std::unique_lock submitting(submit_mutex_, std::defer_lock);
    if (!submitting.try_lock_for(std::chrono::duration<double>(deadline.remaining())))
      return fail(Code::kUnavailable, "another submission has held the queue for {:.0f} s", kPatienceS);
    const double now = config_.clock->unix_time();
    std::vector<std::string> contents;
    for (const auto& spec : specs) contents.push_back(content_hash(spec));

    struct Plan {
      std::string id;  // of the job, new or there before
      bool repeated = false;
      std::optional<Entry> fresh;
    };
    std::map<std::size_t, Entry> made;  // by place in specs; their bodies are stored
    std::string tried;                  // id of a job of the message that was sent last
    const auto undo = [&] {
      for (const auto& [at, entry] : made) remove_bodies(entry.job.id);
    };
    for (;;) {
      MC_RETURN_IF_ERROR(sync(deadline));
      std::vector<Plan> plans;
      std::uint64_t seen = 0;
      std::vector<std::pair<std::size_t, Entry>> reusing;  // whose outcome a new job takes
      {
        std::lock_guard lock(mutex_);
        seen = applied_;
        if (!tried.empty() && records_.find(tried)) break;  // the answer got lost, not the jobs
        std::map<std::string, std::size_t> first_of;        // key or attached content in this call → place
        std::size_t waiting = records_.waiting.size();
        for (std::size_t i = 0; i < specs.size(); ++i) {
          const JobSpec& spec = specs[i];
          Entry* earlier = records_.with_key(spec);
          if (earlier && earlier->content != contents[i]) {
            undo();
            return fail(Code::kInvalidArgument,
                        "idempotency key '{}' was used for job {} with another content", spec.idempotency_key,
                        earlier->job.id);
          }
          if (Entry* there = records_.existing(spec, contents[i])) {
            plans.push_back({there->job.id, true, std::nullopt});
            continue;
          }
          std::string mine;
          if (!spec.idempotency_key.empty()) {
            mine = "k" + spec.owner + "\n" + spec.idempotency_key;
          } else if (spec.attach) {
            mine = "a" + spec.owner + "\n" + contents[i];
          }
          if (!mine.empty()) {
            const auto [it, first] = first_of.try_emplace(mine, i);
            if (!first && contents[it->second] != contents[i]) {
              undo();
              return fail(Code::kInvalidArgument,
                          "idempotency key '{}' stands for two contents in one request",
                          spec.idempotency_key);
            }
            if (!first) {
              plans.push_back({plans[it->second].id, true, std::nullopt});
              continue;
            }
          }
          auto before = made.find(i);
          Entry entry;
          if (before != made.end()) {
            entry = before->second;
          } else {
            entry.job = new_job(spec, now);
            entry.content = contents[i];
            entry.task = task_hash(spec);
          }
          auto known = records_.decided.find(contents[i]);
          if (spec.reuse && known != records_.decided.end())
            reusing.emplace_back(plans.size(), records_.jobs.at(known->second));
          else if (++waiting > config_.max_queued) {
            undo();
            return fail(Code::kResourceExhausted, "the queue holds {} jobs, its limit is {}", waiting - 1,
                        config_.max_queued);
          }
          plans.push_back({entry.job.id, false, std::move(entry)});
        }
      }
      for (auto& [at, earlier] : reusing) {
        auto outcome = outcome_of(earlier, deadline);
        if (!outcome) return tl::unexpected(outcome.error());
        Entry& fresh = *plans[at].fresh;
        on_reuse(fresh.job, *outcome, now);
        MC_RETURN_IF_ERROR(put_outcome(fresh, deadline));
      }
      std::vector<json> rows;
      std::size_t new_waiting = 0;
      for (std::size_t i = 0; i < plans.size(); ++i) {
        if (!plans[i].fresh) continue;
        Entry& entry = *plans[i].fresh;
        if (!made.count(i)) {
          auto pieces = put_body(entry.job.id + ".s", spec_to_text(specs[i]), deadline);
          if (!pieces) {
            made[i] = entry;
            if (pieces.error().code == Code::kResourceExhausted) undo();
            return tl::unexpected(pieces.error());
          }
          entry.spec_pieces = *pieces;
          made[i] = entry;
        } else {
          entry.spec_pieces = made[i].spec_pieces;
        }
        rows.push_back(to_record(entry));
        new_waiting += entry.job.state == JobState::kQueued;
      }
      if (rows.empty()) return submitted_of(plans, deadline);
      std::string text, where;
      if (rows.size() == 1) {
        where = subject("jobs.job.") + plans_id(plans);
        text = dump(rows[0]);
      } else {
        const std::string batch = random_id("b-");
        where = subject("jobs.batch.") + batch;
        text = dump(rows);
        if (text.size() > piece_bytes()) {
          MC_ASSIGN_OR_RETURN(const int pieces, put_body(batch + ".t", text, deadline));
          text = dump({{"body", batch + ".t"}, {"pieces", pieces}});
        }
      }
      tried = plans_id(plans);
      auto put = link_->put(where, text, {.stream_last = seen}, deadline);
      if (!put) {
        if (put.error().code == Code::kResourceExhausted) undo();
        return tl::unexpected(put.error());
      }
      if (put->conflict) {
        if (deadline.expired()) return fail(Code::kUnavailable, "the queue changes all the time");
        lost_race_ = true;
        continue;
      }
      MC_RETURN_IF_ERROR(sync(deadline));
      link_->ring(bell_.subject, std::min(new_waiting, kMaxRings));
      return submitted_of(plans, deadline);
    }
    // Found again after its answer was lost: the same plan, now all of it there.
    std::vector<Submitted> submitted;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      std::string id;
      const auto it = made.find(i);
      {
        std::lock_guard lock(mutex_);
        if (it != made.end() && records_.find(it->second.job.id)) {
          id = it->second.job.id;
        } else if (const Entry* there = records_.existing(specs[i], contents[i])) {
          id = there->job.id;
        }
      }
      MC_ASSIGN_OR_RETURN(auto job, whole(id, deadline));
      if (!job) return fail(Code::kUnavailable, "a job that was just stored is gone");
      submitted.push_back({std::move(*job), it == made.end()});
    }
    link_->ring(bell_.subject, std::min(made.size(), kMaxRings));
    return submitted;
  }

  Result<std::size_t> count_new(const std::vector<JobSpec>& specs) override {
    MC_RETURN_IF_ERROR(refresh());
    std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& spec : specs) count += records_.existing(spec, content_hash(spec)) == nullptr;
    return count;
  }

  Result<std::optional<Lease>> lease(const LeaseRequest& request, double wait_s) override {
    const Deadline until = Deadline::in(std::min(wait_s, kBellS));
    for (bool rang = true;;) {
      const Deadline deadline = patience();
      if (request.role == WorkerRole::kCompile) MC_RETURN_IF_ERROR(note_compiler(deadline));
      if (rang || wait_s > 0) {
        MC_ASSIGN_OR_RETURN(auto lease, take(request, deadline));
        if (lease) return lease;
      }
      if (wait_s <= 0 || until.expired()) return std::optional<Lease>();
      rang = link_->wait_for_bell(bell_, until.remaining());
    }
  }

  Result<HeartbeatReply> heartbeat(const std::string& lease, const std::string& stage,
                                   double visibility_s) override {
    const Deadline deadline = patience();
    MC_ASSIGN_OR_RETURN(const Entry entry, held(lease, deadline));
    if (is_compiling(entry.job)) MC_RETURN_IF_ERROR(note_compiler(deadline));
    const double now = config_.clock->unix_time();
    HeartbeatReply reply{has_ended(entry.job.state), entry.job.lease_until};
    // A lease that was extended a moment ago needs no message.
    if (reply.cancel || ((stage.empty() || stage == entry.job.stage) &&
                         entry.job.lease_until > now + visibility_s * kStillGood))
      return reply;
    MC_ASSIGN_OR_RETURN(const Changed changed, change_held(lease, deadline, [&](Entry& e, double at) {
                          return on_heartbeat(e.job, stage, at, visibility_s);
                        }));
    return HeartbeatReply{has_ended(changed.entry.job.state), changed.entry.job.lease_until};
  }

  Result<bool> complete(const std::string& lease, const Outcome& outcome) override {
    const Deadline deadline = patience();
    MC_ASSIGN_OR_RETURN(Entry before, held(lease, deadline));
    if (has_ended(before.job.state)) return false;
    // The outcome's body first, under a name of its own.
    Entry mine = before;
    mine.job.outcome = outcome;
    if (judge::status_class(outcome.status) == "infra") mine.job.outcome.reward.reset();
    MC_RETURN_IF_ERROR(put_outcome(mine, deadline));
    auto changed = change_held(lease, deadline, [&](Entry& e, double now) {
      if (!on_complete(e.job, outcome, now, config_.retry)) return false;
      if (has_ended(e.job.state)) take_outcome(e, mine);
      return true;
    });
    if (!changed) {
      if (changed.error().code != Code::kUnavailable) remove_outcome(mine);
      return tl::unexpected(changed.error());
    }
    const Entry& now = changed->entry;
    const bool ours = has_ended(now.job.state) && now.outcome_key == mine.outcome_key &&
                      now.inline_outcome == mine.inline_outcome;
    if (!ours) remove_outcome(mine);
    if (now.job.state == JobState::kQueued) link_->ring(bell_.subject, 1);
    return changed->done || ours;
  }

  Result<bool> release(const std::string& lease, const std::string& fault) override {
    MC_ASSIGN_OR_RETURN(const Changed changed, change_held(lease, patience(), [&](Entry& e, double now) {
                          if (!on_release(e.job, fault, now, config_.retry)) return false;
                          if (has_ended(e.job.state)) keep_inline(e);
                          return true;
                        }));
    if (changed.done) link_->ring(bell_.subject, 1);
    return changed.done;
  }

  Result<bool> compiled(const std::string& lease) override {
    MC_ASSIGN_OR_RETURN(const Changed changed, change_held(lease, patience(), [&](Entry& e, double now) {
                          return on_compiled(e.job, now);
                        }));
    if (changed.done) link_->ring(bell_.subject, 1);
    return changed.done;
  }

  Result<std::optional<Job>> get(const std::string& id) override {
    const Deadline deadline = patience();
    MC_RETURN_IF_ERROR(refresh());
    return whole(id, deadline);
  }

  Result<std::optional<Job>> find(const std::string& owner, const std::string& idempotency_key) override {
    const Deadline deadline = patience();
    MC_RETURN_IF_ERROR(sync(deadline));
    std::string id;
    {
      std::lock_guard lock(mutex_);
      JobSpec spec;
      spec.owner = owner;
      spec.idempotency_key = idempotency_key;
      const Entry* entry = records_.with_key(spec);
      if (!entry) return std::optional<Job>();
      id = entry->job.id;
    }
    return whole(id, deadline);
  }

  Result<std::vector<Job>> list(const JobFilter& filter) override {
    const Deadline deadline = patience();
    MC_RETURN_IF_ERROR(refresh());
    std::vector<Entry> found;
    {
      std::lock_guard lock(mutex_);
      const Entry* before = filter.before.empty() ? nullptr : records_.find(filter.before);
      for (auto it = records_.jobs.rbegin(); it != records_.jobs.rend() && found.size() < filter.limit;
           ++it) {
        const Job& job = it->second.job;
        if (before && job.sequence >= before->job.sequence) continue;
        if (matches(job, filter)) found.push_back(it->second);
      }
    }
    std::vector<Job> jobs;
    for (Entry& entry : found) {
      if (!entry.whole_extra) {
        MC_ASSIGN_OR_RETURN(auto text, get_body(entry.job.id + ".s", entry.spec_pieces, deadline));
        if (auto spec = text ? spec_from_text(*text) : spec_from_text("")) entry.job.spec.extra = spec->extra;
      }
      jobs.push_back(std::move(entry.job));
    }
    return jobs;
  }

  Result<Job> cancel(const std::string& id) override {
    const Deadline deadline = patience();
    MC_RETURN_IF_ERROR(sync(deadline));
    MC_RETURN_IF_ERROR(change(id, deadline, [&](Entry& e, double now) {
      if (!on_cancel(e.job, now)) return false;
      keep_inline(e);
      return true;
    }));
    MC_ASSIGN_OR_RETURN(auto job, whole(id, deadline));
    if (!job) return fail(Code::kNotFound, "there is no job {}", id);
    return std::move(*job);
  }

  Result<std::size_t> position(const std::string& id) override {
    MC_RETURN_IF_ERROR(refresh());
    std::lock_guard lock(mutex_);
    const Entry* entry = records_.find(id);
    if (!entry || entry->job.state != JobState::kQueued) return std::size_t{0};
    const auto at = records_.waiting.find(Records::order_of(entry->job));
    return static_cast<std::size_t>(std::distance(records_.waiting.begin(), at)) + 1;
  }

  Result<std::size_t> sweep() override {
    const Deadline deadline = patience();
    MC_RETURN_IF_ERROR(refresh());
    const double now = config_.clock->unix_time();
    // Nobody could extend a lease while the server was away.
    const bool waits = base::real_clock().now() - back_at_ < kGraceS;
    const auto lost = [&](const Job& job, double at) {
      return (!waits && job.lease_until < at) || worker_is_gone(job.worker);
    };
    std::vector<std::string> due;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [priority, sequence] : records_.waiting) {
        const Job& job = records_.jobs.at(sequence).job;
        if (job.spec.deadline_at > 0 && job.spec.deadline_at <= now) due.push_back(job.id);
      }
      for (const std::uint64_t sequence : records_.running) {
        const Job& job = records_.jobs.at(sequence).job;
        if (lost(job, now) || (job.spec.deadline_at > 0 && job.spec.deadline_at <= now))
          due.push_back(job.id);
      }
    }
    std::size_t count = 0;
    for (const auto& id : due) {
      auto changed = change(id, deadline, [&](Entry& e, double at) {
        bool done = on_deadline(e.job, at);
        if (!done && e.job.state == JobState::kRunning && lost(e.job, at))
          done = on_lease_lost(e.job, at, config_.retry);
        if (done && has_ended(e.job.state)) keep_inline(e);
        return done;
      });
      if (!changed) {
        if (changed.error().code == Code::kNotFound) continue;
        return tl::unexpected(changed.error());
      }
      count += changed->done;
      if (changed->done && changed->entry.job.state == JobState::kQueued) link_->ring(bell_.subject, 1);
    }
    return count;
  }

  Result<QueueStats> stats() override {
    MC_RETURN_IF_ERROR(refresh());
    std::lock_guard lock(mutex_);
    QueueStats stats;
    for (const auto& [priority, sequence] : records_.waiting) {
      const Job& job = records_.jobs.at(sequence).job;
      ++stats.queued;
      ++stats.queued_by_priority[job.spec.priority];
      if (stats.oldest_queued_at == 0 || job.created_at < stats.oldest_queued_at)
        stats.oldest_queued_at = job.created_at;
    }
    stats.running = records_.running.size();
    for (const auto& [sequence, entry] : records_.jobs) {
      stats.ended += has_ended(entry.job.state);
      stats.dead += entry.job.state == JobState::kFailed;
    }
    stats.revision = records_.revision;
    return stats;
  }

  Result<OwnerLoad> load_of(const std::string& owner) override {
    MC_RETURN_IF_ERROR(refresh());
    std::lock_guard lock(mutex_);
    OwnerLoad load;
    for (const auto& [priority, sequence] : records_.waiting)
      load.queued += records_.jobs.at(sequence).job.spec.owner == owner;
    for (const std::uint64_t sequence : records_.running)
      load.running += records_.jobs.at(sequence).job.spec.owner == owner;
    return load;
  }

  Result<std::vector<Change>> changes(std::uint64_t revision, std::size_t limit) override {
    MC_RETURN_IF_ERROR(refresh());
    std::lock_guard lock(mutex_);
    std::vector<Change> found;
    for (auto it = records_.revisions.upper_bound(revision);
         it != records_.revisions.end() && found.size() < limit; ++it) {
      const Job& job = records_.jobs.at(it->second).job;
      found.push_back({job.id, job.spec.owner, job.stage, job.state, job.revision});
    }
    return found;
  }

  Result<std::vector<Job>> unarchived(std::size_t limit) override {
    const Deadline deadline = patience();
    MC_RETURN_IF_ERROR(refresh());
    std::vector<std::string> ids;
    {
      std::lock_guard lock(mutex_);
      for (const std::uint64_t sequence : records_.unarchived) {
        if (ids.size() >= limit) break;
        ids.push_back(records_.jobs.at(sequence).job.id);
      }
    }
    std::vector<Job> jobs;
    for (const auto& id : ids) {
      MC_ASSIGN_OR_RETURN(auto job, whole(id, deadline));
      if (job) jobs.push_back(std::move(*job));
    }
    return jobs;
  }

  Status mark_archived(const std::vector<std::string>& ids) override {
    const Deadline deadline = patience();
    for (const auto& id : ids) {
      auto changed = change(id, deadline, [](Entry& e, double) { return !std::exchange(e.archived, true); });
      if (!changed && changed.error().code != Code::kNotFound) return tl::unexpected(changed.error());
    }
    return ok();
  }

  Result<std::size_t> prune(double unix_time) override {
    const Deadline deadline = Deadline::in(4 * kPatienceS);
    MC_RETURN_IF_ERROR(sync(deadline));
    std::vector<Entry> old;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [sequence, entry] : records_.jobs)
        if (has_ended(entry.job.state) && entry.archived && entry.job.finished_at < unix_time)
          old.push_back(entry);
    }
    std::size_t count = 0;
    for (const Entry& entry : old) {
      const json tombstone = {
          {"v", kRecordVersion}, {"id", entry.job.id}, {"gone", true}, {"b", entry.batch}};
      MC_ASSIGN_OR_RETURN(const auto put, link_->put(subject("jobs.job.") + entry.job.id, dump(tombstone),
                                                     {.subject_last = entry.record}, deadline));
      if (put.conflict) continue;
      MC_RETURN_IF_ERROR(link_->purge(bodies_stream_, subject("bodies.") + entry.job.id + ".>", deadline));
      std::lock_guard lock(mutex_);
      records_.remove(entry.job.id);
      records_.gone[entry.job.id] = entry.batch;
      ++count;
    }
    MC_RETURN_IF_ERROR(remove_tombstones(deadline));
    return count;
  }

 private:
  static constexpr double kStillGood = 0.6;  // of the visibility
  struct Changed {
    bool done = false;
    Entry entry;  // as it is now
  };

  static Deadline patience() { return Deadline::in(kPatienceS); }
  std::string subject(const std::string& rest) const { return address_.prefix + "." + rest; }
  std::size_t piece_bytes() const { return std::min(kPieceBytes, link_->max_payload() - (32u << 10)); }

  template <typename Plans>
  static std::string plans_id(const Plans& plans) {
    for (const auto& plan : plans)
      if (plan.fresh) return plan.id;
    return "";
  }
  template <typename Plans>
  Result<std::vector<Submitted>> submitted_of(const Plans& plans, const Deadline& deadline) {
    std::vector<Submitted> submitted;
    for (const auto& plan : plans) {
      MC_ASSIGN_OR_RETURN(auto job, whole(plan.id, deadline));
      if (!job) return fail(Code::kUnavailable, "job {} was removed meanwhile", plan.id);
      submitted.push_back({std::move(*job), plan.repeated});
    }
    return submitted;
  }

  // Reads what is new in the stream. One thread does; the others wait for it.
  Status sync(const Deadline& deadline) {
    std::unique_lock reading(sync_mutex_, std::defer_lock);
    if (!reading.try_lock_for(std::chrono::duration<double>(deadline.remaining())))
      return fail(Code::kUnavailable, "NATS at {} has not answered for {:.0f} s", address_.shown, kPatienceS);
    return sync_locked(deadline);
  }
  Status sync_locked(const Deadline& deadline) {
    const double begun = base::real_clock().now();
    const std::uint64_t news = link_->news();
    std::uint64_t tip = 0;
    if (const std::uint64_t now = link_->reconnects();
        now != reconnects_ || created_ == 0 || lost_race_.exchange(false)) {
      MC_ASSIGN_OR_RETURN(const auto state, link_->state(jobs_stream_, deadline));
      std::lock_guard lock(mutex_);
      if ((created_ != 0 && state.created != created_) || state.last_sequence < applied_) {
        log_event(base::LogLevel::kWarning, "queue_went_back",
                  {{"stream", jobs_stream_},
                   {"was", static_cast<std::int64_t>(applied_)},
                   {"is", static_cast<std::int64_t>(state.last_sequence)}});
        const std::uint64_t revision = records_.revision;
        records_ = {};
        records_.revision = revision;
        applied_ = 0;
      }
      created_ = state.created;
      if (now != reconnects_) back_at_ = base::real_clock().now();
      reconnects_ = now;
      tip = state.last_sequence;
    }
    for (;;) {
      MC_ASSIGN_OR_RETURN(auto message, link_->next(jobs_stream_, applied_ + 1, deadline));
      if (!message) break;
      MC_RETURN_IF_ERROR(apply(*message, deadline));
    }
    std::lock_guard lock(mutex_);
    applied_ = std::max(applied_, tip);  // the newest messages may have been removed
    seen_news_ = news;
    synced_at_ = begun;
    return ok();
  }
  // As sync(), unless nothing can have happened.
  Status refresh() {
    {
      std::lock_guard lock(mutex_);
      if (seen_news_ == link_->news() && base::real_clock().now() - synced_at_ < kFreshS) return ok();
    }
    return sync(patience());
  }

  Status apply(const NatsLink::Message& message, const Deadline& deadline) {
    const std::string prefix = subject("jobs.");
    const std::string rest =
        message.subject.size() > prefix.size() ? message.subject.substr(prefix.size()) : "";
    auto value = base::parse_json(message.data);
    if (value && rest.rfind("batch.", 0) == 0 && value->is_object() && value->contains("body")) {
      const json& body = (*value)["body"];
      MC_ASSIGN_OR_RETURN(auto text, get_body(body.is_string() ? body.get<std::string>() : "",
                                              number_of(*value, "pieces", 0), deadline));
      if (text) value = base::parse_json(*text);
    }
    std::lock_guard lock(mutex_);
    applied_ = std::max(applied_, message.sequence);
    if (!value) {
      log_event(base::LogLevel::kWarning, "record_unreadable", {{"subject", message.subject}});
      return ok();
    }
    if (rest.rfind("job.", 0) == 0 && value->is_object()) {
      apply_record(*value, message.sequence, 0, false);
    } else if (rest.rfind("batch.", 0) == 0 && value->is_array()) {
      std::size_t at = 0, left = 0;
      for (const json& row : *value) {
        if (!row.is_object()) continue;
        apply_record(row, message.sequence, at++, true);
        const auto id = row.find("id");
        const Entry* entry =
            id != row.end() && id->is_string() ? records_.find(id->get<std::string>()) : nullptr;
        left += entry && entry->batch == message.sequence;
      }
      records_.batches[message.sequence] = {message.subject, left};
    } else if (rest == "compiler" && value->is_object()) {
      if (auto at = value->find("at"); at != value->end() && at->is_number())
        records_.compiler_at = std::max(records_.compiler_at, at->get<double>());
    } else if (rest == "schema" && value->is_object()) {
      if (auto schema = value->find("schema"); schema != value->end() && schema->is_number_integer())
        records_.schema = number_of(*value, "schema", kSchemaVersion + 1);
    }
    return ok();
  }

  void apply_record(const json& row, std::uint64_t sequence, std::size_t at, bool in_batch) {
    const auto id = row.find("id"), version = row.find("v");
    if (id == row.end() || !id->is_string() || version == row.end() || !version->is_number_integer()) return;
    if (version->get<std::int64_t>() > kRecordVersion) {  // a newer program's: not ours to know
      records_.remove(id->get<std::string>());
      return;
    }
    if (row.contains("gone")) {
      records_.remove(id->get<std::string>());
      records_.gone[id->get<std::string>()] = sequence_of(row, "b");
      return;
    }
    auto entry = from_record(row);
    if (!entry) return;
    entry->seen = sequence;
    if (entry->job.sequence == 0) entry->job.sequence = (sequence << kIndexBits) | at;
    if (in_batch)
      entry->batch = sequence;
    else
      entry->record = sequence;
    records_.apply(std::move(*entry));
  }

  // Applies a rule to a job's record and stores it; looks again when somebody was faster. `rule` returns
  // whether it changed anything. Errors besides the link's: kNotFound.
  template <typename Rule>
  Result<Changed> change(const std::string& id, const Deadline& deadline, Rule&& rule) {
    for (int tries = 0;; ++tries) {
      Changed changed;
      bool known = false;
      {
        std::lock_guard lock(mutex_);
        if (const Entry* entry = records_.find(id)) {
          changed.entry = *entry;
          known = true;
        }
      }
      if (!known) {
        if (tries > 0) return fail(Code::kNotFound, "there is no job {}", id);
        MC_RETURN_IF_ERROR(sync(deadline));
        continue;
      }
      if (!rule(changed.entry, config_.clock->unix_time())) return changed;
      MC_ASSIGN_OR_RETURN(const auto put,
                          link_->put(subject("jobs.job.") + id, dump(to_record(changed.entry)),
                                     {.subject_last = changed.entry.record}, deadline));
      if (!put.conflict) {
        changed.done = true;
        changed.entry.record = changed.entry.seen = put.sequence;
        std::lock_guard lock(mutex_);
        records_.apply(changed.entry);
        return changed;
      }
      if (deadline.expired()) return fail(Code::kUnavailable, "job {} changes all the time", id);
      lost_race_ = true;
      MC_RETURN_IF_ERROR(sync(deadline));
    }
  }

  Result<Entry> held(const std::string& lease, const Deadline& deadline) {
    for (int tries = 0; tries < 2; ++tries) {
      if (tries == 0) {
        MC_RETURN_IF_ERROR(refresh());
      } else {
        MC_RETURN_IF_ERROR(sync(deadline));
      }
      std::lock_guard lock(mutex_);
      if (auto it = records_.leases.find(lease); !lease.empty() && it != records_.leases.end())
        return records_.jobs.at(it->second);
    }
    return fail(Code::kNotFound, "the lease is no longer held");
  }

  template <typename Rule>
  Result<Changed> change_held(const std::string& lease, const Deadline& deadline, Rule&& rule) {
    MC_ASSIGN_OR_RETURN(const Entry entry, held(lease, deadline));
    bool lost = false;
    auto changed = change(entry.job.id, deadline, [&](Entry& e, double now) {
      lost = e.job.lease != lease;
      return !lost && rule(e, now);
    });
    if (changed && lost) return fail(Code::kNotFound, "the lease is no longer held");
    return changed;
  }

  Result<std::optional<Lease>> take(const LeaseRequest& request, const Deadline& deadline) {
    const std::string lease = random_id("l-");
    MC_RETURN_IF_ERROR(refresh());
    for (;;) {
      std::string id;
      {
        std::lock_guard lock(mutex_);
        id = choose(request, config_.clock->unix_time());
        if (!id.empty()) claimed_.insert(id);
      }
      if (id.empty()) return std::optional<Lease>();
      auto changed = change(id, deadline, [&](Entry& e, double now) {
        return on_lease(e.job, request.worker, lease, now, request.visibility_s, request.role);
      });
      {
        std::lock_guard lock(mutex_);
        claimed_.erase(id);
      }
      if (!changed) {
        if (changed.error().code == Code::kNotFound) continue;
        return tl::unexpected(changed.error());
      }
      if (!changed->done && changed->entry.job.lease != lease) continue;  // somebody was faster
      auto job = whole_of(changed->entry, deadline);
      if (!job) {
        (void)release(lease, "");
        return tl::unexpected(job.error());
      }
      if (*job) return std::optional<Lease>(Lease{lease, std::move(**job)});
      // An unreadable record must not stop the queue.
      MC_RETURN_IF_ERROR(change(id, deadline, [&](Entry& e, double now) {
        if (has_ended(e.job.state)) return false;
        e.job.state = JobState::kFailed;
        e.job.finished_at = now;
        e.job.outcome = {};
        e.job.outcome.status = "infra:record";
        keep_inline(e);
        return true;
      }));
    }
  }

  // Id of the job that is given out next, "" when there is none. Needs the mutex.
  std::string choose(const LeaseRequest& request, double now) {
    const Entry* chosen = nullptr;
    for (const auto& [priority, sequence] : records_.waiting) {
      const Entry& entry = records_.jobs.at(sequence);
      const Job& job = entry.job;
      if (job.not_before > now || (job.spec.deadline_at > 0 && job.spec.deadline_at <= now) ||
          claimed_.count(job.id) || !is_for(job, request.role, now, records_.compiler_at))
        continue;
      if (chosen && job.spec.priority < chosen->job.spec.priority) break;
      if (!chosen) chosen = &entry;
      if (request.prefer.empty()) break;
      if (entry.task == request.prefer) {
        chosen = &entry;
        break;
      }
    }
    return chosen ? chosen->job.id : "";
  }

  Status note_compiler(const Deadline& deadline) {
    const double now = config_.clock->unix_time();
    {
      std::lock_guard lock(mutex_);
      if (now - records_.compiler_at < kPresenceS) return ok();
      records_.compiler_at = now;
    }
    MC_RETURN_IF_ERROR(link_->put(subject("jobs.compiler"), dump({{"at", now}}), {}, deadline));
    return ok();
  }

  // Bodies, in pieces. Returns how many.
  Result<int> put_body(const std::string& key, const std::string& text, const Deadline& deadline) {
    int pieces = 0;
    for (std::size_t at = 0; at < text.size() || pieces == 0; at += piece_bytes(), ++pieces)
      MC_RETURN_IF_ERROR(link_->put(fmt::format("{}{}.{}", subject("bodies."), key, pieces),
                                    text.substr(at, piece_bytes()), {}, deadline));
    return pieces;
  }
  Result<std::optional<std::string>> get_body(const std::string& key, int pieces, const Deadline& deadline) {
    std::string text;
    for (int i = 0; i < pieces; ++i) {
      MC_ASSIGN_OR_RETURN(
          auto piece,
          link_->last(bodies_stream_, fmt::format("{}{}.{}", subject("bodies."), key, i), deadline));
      if (!piece) return std::optional<std::string>();
      text += piece->data;
    }
    return std::optional<std::string>(std::move(text));
  }
  // What a removal leaves behind is only room.
  void remove_bodies(const std::string& id) {
    (void)link_->purge(bodies_stream_, subject("bodies.") + id + ".>", Deadline::in(1));
  }

  Status put_outcome(Entry& e, const Deadline& deadline) {
    const std::string text = outcome_to_text(e.job.outcome);
    e.outcome_key.clear();
    e.outcome_pieces = 0;
    e.inline_outcome.clear();
    if (text.size() <= kInlineBytes) {
      e.inline_outcome = text;
    } else {
      e.outcome_key = e.job.id + "." + random_id("o-");
      MC_ASSIGN_OR_RETURN(e.outcome_pieces, put_body(e.outcome_key, text, deadline));
    }
    return ok();
  }
  static void keep_inline(Entry& e) {
    e.outcome_key.clear();
    e.outcome_pieces = 0;
    e.inline_outcome = outcome_to_text(e.job.outcome);
  }
  static void take_outcome(Entry& e, const Entry& from) {
    e.outcome_key = from.outcome_key;
    e.outcome_pieces = from.outcome_pieces;
    e.inline_outcome = from.inline_outcome;
  }
  void remove_outcome(const Entry& e) {
    if (!e.outcome_key.empty())
      (void)link_->purge(bodies_stream_, subject("bodies.") + e.outcome_key + ".>", Deadline::in(1));
  }

  Result<Outcome> outcome_of(const Entry& e, const Deadline& deadline) {
    if (e.outcome_key.empty()) return outcome_from_text(e.inline_outcome);
    MC_ASSIGN_OR_RETURN(auto text, get_body(e.outcome_key, e.outcome_pieces, deadline));
    if (!text) return fail(Code::kUnavailable, "the outcome of job {} is missing", e.job.id);
    return outcome_from_text(*text);
  }
  // Null when its spec is missing.
  Result<std::optional<Job>> whole_of(const Entry& e, const Deadline& deadline) {
    Job job = e.job;
    MC_ASSIGN_OR_RETURN(auto text, get_body(job.id + ".s", e.spec_pieces, deadline));
    auto spec = text ? spec_from_text(*text) : Result<JobSpec>(fail(Code::kNotFound, "missing"));
    if (!spec) return std::optional<Job>();
    spec->owner = job.spec.owner;
    job.spec = std::move(*spec);
    if (has_ended(job.state))
      if (auto outcome = outcome_of(e, deadline)) job.outcome = std::move(*outcome);
    return std::optional<Job>(std::move(job));
  }
  Result<std::optional<Job>> whole(const std::string& id, const Deadline& deadline) {
    for (int tries = 0; tries < 2; ++tries) {
      std::optional<Entry> entry;
      {
        std::lock_guard lock(mutex_);
        if (const Entry* found = records_.find(id)) entry = *found;
      }
      if (entry) {
        MC_ASSIGN_OR_RETURN(auto job, whole_of(*entry, deadline));
        return job ? std::move(job) : std::optional<Job>(std::move(entry->job));
      }
      if (tries == 0) MC_RETURN_IF_ERROR(sync(deadline));
    }
    return std::optional<Job>();
  }

  // A tombstone is needed as long as the batch that its job came in.
  Status remove_tombstones(const Deadline& deadline) {
    std::vector<std::pair<std::uint64_t, std::string>> empty_batches;
    std::vector<std::string> done;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [sequence, batch] : records_.batches)
        if (batch.second == 0) empty_batches.emplace_back(sequence, batch.first);
      for (const auto& [sequence, text] : empty_batches) records_.batches.erase(sequence);
    }
    for (const auto& [sequence, where] : empty_batches) {
      MC_RETURN_IF_ERROR(link_->erase(jobs_stream_, sequence, deadline));
      remove_bodies(where.substr(where.rfind('.') + 1));
    }
    {
      std::lock_guard lock(mutex_);
      for (const auto& [id, batch] : records_.gone)
        if (!records_.batches.count(batch)) done.push_back(id);
    }
    for (const auto& id : done) {
      MC_RETURN_IF_ERROR(link_->purge(jobs_stream_, subject("jobs.job.") + id, deadline));
      std::lock_guard lock(mutex_);
      records_.gone.erase(id);
    }
    return ok();
  }

  const NatsAddress address_;
  const QueueConfig config_;
  const std::string jobs_stream_, bodies_stream_;
  const NatsLink::Stream bell_;
  std::unique_ptr<NatsLink> link_;

  std::timed_mutex submit_mutex_, sync_mutex_;
  std::atomic<bool> lost_race_{false};
  std::atomic<double> back_at_{-1e9};  // when the server was there again, monotonic
  std::uint64_t reconnects_ = 0;       // guarded by sync_mutex_
  std::int64_t created_ = 0;           // of the stream; guarded by sync_mutex_

  std::mutex mutex_;  // what follows; never held while the server is asked
  Records records_;
  std::set<std::string> claimed_;  // this process is about to lease them
  std::uint64_t applied_ = 0, seen_news_ = 0;
  double synced_at_ = -1;
};

}  // namespace

Result<std::unique_ptr<JobQueue>> open_nats_queue(const std::string& url, const QueueConfig& config) {
  MC_ASSIGN_OR_RETURN(NatsAddress address, parse_nats_url(url));
  auto queue = std::make_unique<NatsQueue>(std::move(address), config);
  MC_RETURN_IF_ERROR(queue->prepare());
  return std::unique_ptr<JobQueue>(std::move(queue));
}

}  // namespace musacoder::service
