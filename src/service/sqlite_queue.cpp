// The durable queue: one SQLite file, open to several processes at once.
//
// What a client was told is on disk before it is told (submit, complete, cancel: synchronous=FULL). Leases,
// heartbeats and stages are not forced to disk: a power cut forgets them and the jobs are simply given out
// again.
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <mutex>

#include "base/files.h"
#include "judge/verdict.h"
#include "service/queue.h"

namespace musacoder::service {
namespace {

constexpr int kSchemaVersion = 1;
constexpr int kApplicationId = 0x4D434A51;  // "MCJQ"
constexpr int kBusyTimeoutMs = 15'000;

constexpr const char* kSchema = R"(
CREATE TABLE jobs (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  id           TEXT NOT NULL UNIQUE,
  version      INTEGER NOT NULL,
  state        INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  owner        TEXT NOT NULL,
  idem         TEXT NOT NULL,
  content      TEXT NOT NULL,
  task         TEXT NOT NULL,
  task_hash    TEXT NOT NULL,
  policy       TEXT NOT NULL,
  round        INTEGER NOT NULL,
  extra        TEXT NOT NULL,
  created_at   REAL NOT NULL,
  not_before   REAL NOT NULL,
  deadline_at  REAL NOT NULL,
  started_at   REAL NOT NULL,
  finished_at  REAL NOT NULL,
  lease        TEXT NOT NULL,
  lease_until  REAL NOT NULL,
  worker       TEXT NOT NULL,
  stage        TEXT NOT NULL,
  attempts     INTEGER NOT NULL,
  faults       INTEGER NOT NULL,
  deaths       INTEGER NOT NULL,
  status       TEXT NOT NULL,
  reward       REAL,
  cached       INTEGER NOT NULL,
  archived     INTEGER NOT NULL,
  revision     INTEGER NOT NULL,
  spec         TEXT NOT NULL,
  outcome      TEXT NOT NULL
) STRICT;
CREATE INDEX jobs_waiting  ON jobs (priority DESC, seq) WHERE state = 0;
CREATE INDEX jobs_affinity ON jobs (task_hash, priority, seq) WHERE state = 0;
CREATE INDEX jobs_running  ON jobs (lease_until) WHERE state = 1;
CREATE INDEX jobs_load     ON jobs (owner, state) WHERE state < 2;
CREATE INDEX jobs_deadline ON jobs (deadline_at) WHERE state < 2 AND deadline_at > 0;
CREATE INDEX jobs_lease    ON jobs (lease) WHERE lease <> '';
CREATE UNIQUE INDEX jobs_idem ON jobs (owner, idem) WHERE idem <> '';
CREATE INDEX jobs_content  ON jobs (content, state);
CREATE INDEX jobs_archive  ON jobs (seq) WHERE state > 1 AND archived = 0;
CREATE INDEX jobs_finished ON jobs (finished_at) WHERE state > 1;
CREATE INDEX jobs_state    ON jobs (state);
CREATE INDEX jobs_revision ON jobs (revision);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('revision', 0);
)";

// The order that job_of() reads.
constexpr const char* kLight =
    "seq, id, version, state, priority, owner, idem, task, policy, round, extra, created_at, not_before, "
    "deadline_at, started_at, "
    "finished_at, lease, lease_until, worker, stage, attempts, faults, deaths, status, reward, cached, "
    "revision, compiled";
constexpr int kLightColumns = 28;
constexpr double kPresenceS = 2;  // between two notes that a compile worker is there

tl::unexpected<Error> adapt(const SQLite::Exception& error, const std::string& path, const char* doing) {
  const int code = error.getErrorCode() & 0xFF;
  if (code == SQLITE_FULL || error.getExtendedErrorCode() == SQLITE_IOERR_WRITE ||
      (code == SQLITE_IOERR && base::free_bytes(path) < (1u << 20)))
    return fail(Code::kResourceExhausted, "no room while {} {}: nothing was stored; free some disk space",
                doing, path);
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
    return fail(Code::kInvalidArgument, "{} is not a job queue or is damaged ({}); give another file", path,
                error.what());
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
    return fail(Code::kUnavailable, "{} has been locked by another process for {} s", path,
                kBusyTimeoutMs / 1000);
  if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_PERM || code == SQLITE_IOERR)
    return fail(Code::kUnavailable, "cannot use {} ({}); check that its folder exists and is writable", path,
                error.what());
  return fail(Code::kInternal, "SQLite failed while {} {}: {}", doing, path, error.what());
}

Job job_of(SQLite::Statement& row) {
  Job job;
  int at = 0;
  auto text = [&] { return row.getColumn(at++).getString(); };
  auto real = [&] { return row.getColumn(at++).getDouble(); };
  auto integer = [&] { return row.getColumn(at++).getInt(); };
  job.sequence = static_cast<std::uint64_t>(row.getColumn(at++).getInt64());
  job.id = text();
  job.version = integer();
  job.state = static_cast<JobState>(integer());
  job.spec.priority = integer();
  job.spec.owner = text();
  job.spec.idempotency_key = text();
  job.spec.task_id = text();
  job.spec.policy = text();
  job.spec.round = integer();
  job.spec.extra = text();
  job.created_at = real();
  job.not_before = real();
  job.spec.deadline_at = real();
  job.started_at = real();
  job.finished_at = real();
  job.lease = text();
  job.lease_until = real();
  job.worker = text();
  job.stage = text();
  job.attempts = integer();
  job.faults = integer();
  job.deaths = integer();
  job.outcome.status = text();
  if (!row.getColumn(at).isNull()) job.outcome.reward = row.getColumn(at).getDouble();
  ++at;
  job.cached = integer() != 0;
  job.revision = static_cast<std::uint64_t>(row.getColumn(at++).getInt64());
  job.compiled = integer() != 0;
  return job;
}

// With spec and outcome, which stand after the light columns.
Result<Job> whole_job_of(SQLite::Statement& row) {
  Job job = job_of(row);
  MC_ASSIGN_OR_RETURN(JobSpec spec, spec_from_text(row.getColumn(kLightColumns).getString()));
  spec.owner = job.spec.owner;
  job.spec = std::move(spec);
  if (const std::string outcome = row.getColumn(kLightColumns + 1).getString(); !outcome.empty()) {
    MC_ASSIGN_OR_RETURN(job.outcome, outcome_from_text(outcome));
  }
  return job;
}

class SqliteQueue : public JobQueue {
 public:
  SqliteQueue(const std::string& path, const QueueConfig& config)
      : path_(path),
        config_(config),
        durable_(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyTimeoutMs),
        quick_(path, SQLite::OPEN_READWRITE, kBusyTimeoutMs),
        reader_(path, SQLite::OPEN_READWRITE, kBusyTimeoutMs) {}

  Status prepare() {
    durable_.exec("PRAGMA journal_mode=WAL");
    durable_.exec("PRAGMA synchronous=FULL");
    quick_.exec("PRAGMA synchronous=NORMAL");
    SQLite::Transaction transaction(durable_, SQLite::TransactionBehavior::IMMEDIATE);
    const int version = durable_.execAndGet("PRAGMA user_version").getInt();
    const int application = durable_.execAndGet("PRAGMA application_id").getInt();
    const int tables = durable_.execAndGet("SELECT count(*) FROM sqlite_schema").getInt();
    if (tables > 0 && application != kApplicationId)
      return fail(Code::kInvalidArgument, "{} is an SQLite file of another program; give another file",
                  path_);
    if (version > kSchemaVersion)
      return fail(Code::kUnsupported, "{} was written by a newer program (schema {}, this one knows {})",
                  path_, version, kSchemaVersion);
    if (version == 0) {
      durable_.exec(kSchema);
      durable_.exec(fmt::format("PRAGMA application_id={}", kApplicationId));
      durable_.exec(fmt::format("PRAGMA user_version={}", kSchemaVersion));
    }
    // Has a default, so that programs that do not know it go on with the file.
    if (durable_.execAndGet("SELECT count(*) FROM pragma_table_info('jobs') WHERE name = 'compiled'")
            .getInt() == 0)
      durable_.exec("ALTER TABLE jobs ADD COLUMN compiled INTEGER NOT NULL DEFAULT 0");
    transaction.commit();
    return ok();
  }

  Result<std::vector<Submitted>> submit(const std::vector<JobSpec>& specs) override {
    return write<std::vector<Submitted>>(
        durable_, "submitting to", [&](SQLite::Database& db) -> Result<std::vector<Submitted>> {
          const double now = config_.clock->unix_time();
          std::size_t waiting =
              static_cast<std::size_t>(db.execAndGet("SELECT count(*) FROM jobs WHERE state = 0").getInt64());
          std::vector<Submitted> submitted;
          for (const auto& spec : specs) {
            const std::string content = content_hash(spec);
            MC_ASSIGN_OR_RETURN(auto existing, find_existing(db, spec, content));
            if (existing) {
              submitted.push_back({std::move(*existing), true});
              continue;
            }
            Job job = new_job(spec, now);
            if (spec.reuse) {
              MC_ASSIGN_OR_RETURN(auto outcome, decided(db, content));
              if (outcome) on_reuse(job, *outcome, now);
            }
            if (job.state == JobState::kQueued && ++waiting > config_.max_queued)
              return fail(Code::kResourceExhausted, "the queue holds {} jobs, its limit is {}", waiting - 1,
                          config_.max_queued);
            insert(db, job, content);
            submitted.push_back({std::move(job), false});
          }
          return submitted;
        });
  }

  Result<std::size_t> count_new(const std::vector<JobSpec>& specs) override {
    return read<std::size_t>("reading", [&](SQLite::Database& db) -> Result<std::size_t> {
      std::size_t count = 0;
      for (const auto& spec : specs) {
        if (spec.idempotency_key.empty() && !spec.attach) {
          ++count;
          continue;
        }
        auto existing = find_existing(db, spec, content_hash(spec));
        count += existing && !*existing;  // a conflict is submit()'s to tell
      }
      return count;
    });
  }

  Result<std::optional<Lease>> lease(const LeaseRequest& request, double) override {
    if (request.role == WorkerRole::kCompile) MC_RETURN_IF_ERROR(note_compiler());
    {
      MC_ASSIGN_OR_RETURN(
          const bool any, read<bool>("reading", [&](SQLite::Database& db) -> Result<bool> {
            return db.execAndGet("SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 0)").getInt() != 0;
          }));
      if (!any) return std::optional<Lease>();
    }
    return write<std::optional<Lease>>(
        quick_, "leasing from", [&](SQLite::Database& db) -> Result<std::optional<Lease>> {
          const double now = config_.clock->unix_time();
          for (;;) {
            const std::int64_t sequence = choose(db, request, now);
            if (sequence == 0) return std::optional<Lease>();
            auto job = load(db, "seq = ?", sequence);
            if (!job || !*job) {  // an unreadable record must not stop the queue
              SQLite::Statement update(db,
                                       "UPDATE jobs SET state = 3, status = 'infra:record', finished_at = ?, "
                                       "revision = ? WHERE seq = ?");
              update.bind(1, now);
              update.bind(2, next_revision(db));
              update.bind(3, sequence);
              update.exec();
              continue;
            }
            on_lease(**job, request.worker, random_id("l-"), now, request.visibility_s, request.role);
            save(db, **job);
            return std::optional<Lease>(Lease{(*job)->lease, std::move(**job)});
          }
        });
  }

  Result<HeartbeatReply> heartbeat(const std::string& lease, const std::string& stage,
                                   double visibility_s) override {
    if (stage.rfind("compile", 0) == 0) MC_RETURN_IF_ERROR(note_compiler());
    return write<HeartbeatReply>(
        quick_, "extending a lease in", [&](SQLite::Database& db) -> Result<HeartbeatReply> {
          MC_ASSIGN_OR_RETURN(Job job, leased(db, lease));
          const bool new_stage = job.stage != stage && !stage.empty();
          if (on_heartbeat(job, stage, config_.clock->unix_time(), visibility_s)) {
            SQLite::Statement update(
                db, "UPDATE jobs SET lease_until = ?, stage = ?, revision = ? WHERE seq = ?");
            update.bind(1, job.lease_until);
            update.bind(2, job.stage);
            update.bind(3, new_stage ? next_revision(db) : static_cast<std::int64_t>(job.revision));
            update.bind(4, static_cast<std::int64_t>(job.sequence));
            update.exec();
          }
          return HeartbeatReply{has_ended(job.state), job.lease_until};
        });
  }

  Result<bool> complete(const std::string& lease, const Outcome& outcome) override {
    return with_lease(durable_, lease,
                      [&](Job& job, double now) { return on_complete(job, outcome, now, config_.retry); });
  }
  Result<bool> release(const std::string& lease, const std::string& fault) override {
    return with_lease(durable_, lease,
                      [&](Job& job, double now) { return on_release(job, fault, now, config_.retry); });
  }

  Result<bool> compiled(const std::string& lease) override {
    return with_lease(quick_, lease, [&](Job& job, double now) { return on_compiled(job, now); });
  }

  Result<std::optional<Job>> get(const std::string& id) override {
    return read<std::optional<Job>>("reading", [&](SQLite::Database& db) { return load(db, "id = ?", id); });
  }

  Result<std::optional<Job>> find(const std::string& owner, const std::string& idempotency_key) override {
    return read<std::optional<Job>>("reading", [&](SQLite::Database& db) -> Result<std::optional<Job>> {
      SQLite::Statement select(db, "SELECT id FROM jobs WHERE owner = ? AND idem <> '' AND idem = ?");
      select.bind(1, owner);
      select.bind(2, idempotency_key);
      if (idempotency_key.empty() || !select.executeStep()) return std::optional<Job>();
      return load(db, "id = ?", select.getColumn(0).getString());
    });
  }

  Result<std::vector<Job>> list(const JobFilter& filter) override {
    return read<std::vector<Job>>("reading", [&](SQLite::Database& db) -> Result<std::vector<Job>> {
      std::string sql = fmt::format("SELECT {} FROM jobs WHERE version <= {}", kLight, kRecordVersion);
      std::vector<const std::string*> texts;
      for (const auto& [clause, value] :
           {std::pair{" AND owner = ?", &filter.owner}, std::pair{" AND task = ?", &filter.task},
            std::pair{" AND status = ?", &filter.status},
            std::pair{" AND seq < (SELECT seq FROM jobs WHERE id = ?)", &filter.before}}) {
        if (value->empty()) continue;
        sql += clause;
        texts.push_back(value);
      }
      if (filter.state) sql += fmt::format(" AND state = {}", static_cast<int>(*filter.state));
      sql += fmt::format(" ORDER BY seq DESC LIMIT {}", filter.limit);
      SQLite::Statement select(db, sql);
      for (std::size_t i = 0; i < texts.size(); ++i) select.bind(static_cast<int>(i) + 1, *texts[i]);
      std::vector<Job> jobs;
      while (select.executeStep()) jobs.push_back(job_of(select));
      return jobs;
    });
  }

  Result<Job> cancel(const std::string& id) override {
    return write<Job>(durable_, "cancelling in", [&](SQLite::Database& db) -> Result<Job> {
      MC_ASSIGN_OR_RETURN(auto job, load(db, "id = ?", id));
      if (!job) return fail(Code::kNotFound, "there is no job {}", id);
      if (on_cancel(*job, config_.clock->unix_time())) save(db, *job);
      return std::move(*job);
    });
  }

  Result<std::size_t> position(const std::string& id) override {
    return read<std::size_t>("reading", [&](SQLite::Database& db) -> Result<std::size_t> {
      SQLite::Statement select(db, R"(
        SELECT (SELECT count(*) FROM jobs a INDEXED BY jobs_waiting WHERE a.state = 0 AND (a.priority > b.priority OR (a.priority = b.priority AND a.seq <= b.seq)))
        FROM jobs b WHERE b.id = ? AND b.state = 0)");
      select.bind(1, id);
      return select.executeStep() ? static_cast<std::size_t>(select.getColumn(0).getInt64()) : std::size_t{0};
    });
  }

  Result<std::size_t> sweep() override {
    const double now = config_.clock->unix_time();
    // Looks first without the write lock: most of the time there is nothing to do.
    MC_ASSIGN_OR_RETURN(
        const auto due,
        read<std::vector<std::int64_t>>(
            "reading", [&](SQLite::Database& db) -> Result<std::vector<std::int64_t>> {
              std::vector<std::int64_t> found;
              SQLite::Statement running(db, "SELECT seq, lease_until, worker FROM jobs WHERE state = 1");
              while (running.executeStep())
                if (running.getColumn(1).getDouble() < now ||
                    worker_is_gone(running.getColumn(2).getString()))
                  found.push_back(running.getColumn(0).getInt64());
              SQLite::Statement late(
                  db, "SELECT seq FROM jobs WHERE state < 2 AND deadline_at > 0 AND deadline_at <= ?");
              late.bind(1, now);
              while (late.executeStep()) found.push_back(late.getColumn(0).getInt64());
              return found;
            }));
    if (due.empty()) return std::size_t{0};
    return write<std::size_t>(durable_, "sweeping", [&](SQLite::Database& db) -> Result<std::size_t> {
      std::size_t count = 0;
      for (const std::int64_t sequence : due) {
        auto job = load(db, "seq = ?", sequence);
        if (!job || !*job) continue;
        bool changed = on_deadline(**job, now);
        if (!changed && (*job)->state == JobState::kRunning &&
            ((*job)->lease_until < now || worker_is_gone((*job)->worker)))
          changed = on_lease_lost(**job, now, config_.retry);
        if (!changed) continue;
        save(db, **job);
        ++count;
      }
      return count;
    });
  }

  Result<QueueStats> stats() override {
    return read<QueueStats>("reading", [&](SQLite::Database& db) -> Result<QueueStats> {
      QueueStats stats;
      SQLite::Statement counts(db, "SELECT state, count(*) FROM jobs GROUP BY state");
      while (counts.executeStep()) {
        const auto state = static_cast<JobState>(counts.getColumn(0).getInt());
        const auto n = static_cast<std::size_t>(counts.getColumn(1).getInt64());
        if (state == JobState::kQueued)
          stats.queued = n;
        else if (state == JobState::kRunning)
          stats.running = n;
        else
          stats.ended += n;
        if (state == JobState::kFailed) stats.dead = n;
      }
      SQLite::Statement waiting(db,
                                "SELECT priority, count(*), min(created_at) FROM jobs INDEXED BY "
                                "jobs_waiting WHERE state = 0 GROUP BY priority");
      while (waiting.executeStep()) {
        stats.queued_by_priority[waiting.getColumn(0).getInt()] =
            static_cast<std::size_t>(waiting.getColumn(1).getInt64());
        const double oldest = waiting.getColumn(2).getDouble();
        if (stats.oldest_queued_at == 0 || oldest < stats.oldest_queued_at) stats.oldest_queued_at = oldest;
      }
      stats.revision = static_cast<std::uint64_t>(
          db.execAndGet("SELECT value FROM counters WHERE name = 'revision'").getInt64());
      return stats;
    });
  }

  Result<OwnerLoad> load_of(const std::string& owner) override {
    return read<OwnerLoad>("reading", [&](SQLite::Database& db) -> Result<OwnerLoad> {
      OwnerLoad load;
      SQLite::Statement select(
          db, "SELECT state, count(*) FROM jobs WHERE owner = ? AND state < 2 GROUP BY state");
      select.bind(1, owner);
      while (select.executeStep())
        (select.getColumn(0).getInt() == 0 ? load.queued : load.running) =
            static_cast<std::size_t>(select.getColumn(1).getInt64());
      return load;
    });
  }

  Result<std::vector<Change>> changes(std::uint64_t revision, std::size_t limit) override {
    return read<std::vector<Change>>("reading", [&](SQLite::Database& db) -> Result<std::vector<Change>> {
      SQLite::Statement select(
          db,
          "SELECT id, owner, stage, state, revision FROM jobs WHERE revision > ? ORDER BY revision LIMIT ?");
      select.bind(1, static_cast<std::int64_t>(revision));
      select.bind(2, static_cast<std::int64_t>(limit));
      std::vector<Change> found;
      while (select.executeStep())
        found.push_back({select.getColumn(0).getString(), select.getColumn(1).getString(),
                         select.getColumn(2).getString(), static_cast<JobState>(select.getColumn(3).getInt()),
                         static_cast<std::uint64_t>(select.getColumn(4).getInt64())});
      return found;
    });
  }

  Result<std::vector<Job>> unarchived(std::size_t limit) override {
    return read<std::vector<Job>>("reading", [&](SQLite::Database& db) -> Result<std::vector<Job>> {
      SQLite::Statement select(db, fmt::format("SELECT {}, spec, outcome FROM jobs WHERE state > 1 AND "
                                               "archived = 0 AND version <= {} ORDER BY seq LIMIT {}",
                                               kLight, kRecordVersion, limit));
      std::vector<Job> jobs;
      while (select.executeStep()) {
        auto job = whole_job_of(select);
        jobs.push_back(job ? std::move(*job) : job_of(select));
      }
      return jobs;
    });
  }

  Status mark_archived(const std::vector<std::string>& ids) override {
    if (ids.empty()) return ok();
    auto done = write<bool>(quick_, "archiving in", [&](SQLite::Database& db) -> Result<bool> {
      SQLite::Statement update(db, "UPDATE jobs SET archived = 1 WHERE id = ?");
      for (const auto& id : ids) {
        update.bind(1, id);
        update.exec();
        update.reset();
      }
      return true;
    });
    if (!done) return tl::unexpected(done.error());
    return ok();
  }

  Result<std::size_t> prune(double unix_time) override {
    return write<std::size_t>(durable_, "pruning", [&](SQLite::Database& db) -> Result<std::size_t> {
      SQLite::Statement remove(db, "DELETE FROM jobs WHERE state > 1 AND archived = 1 AND finished_at < ?");
      remove.bind(1, unix_time);
      return static_cast<std::size_t>(remove.exec());
    });
  }

 private:
  template <typename T, typename Body>
  Result<T> write(SQLite::Database& db, const char* doing, Body&& body) {
    std::lock_guard lock(write_mutex_);
    try {
      SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
      Result<T> result = body(db);
      if (result) transaction.commit();
      return result;
    } catch (const SQLite::Exception& error) {
      return adapt(error, path_, doing);
    }
  }
  template <typename T, typename Body>
  Result<T> read(const char* doing, Body&& body) {
    std::lock_guard lock(read_mutex_);
    try {
      return body(reader_);
    } catch (const SQLite::Exception& error) {
      return adapt(error, path_, doing);
    }
  }

  template <typename Value>
  Result<std::optional<Job>> load(SQLite::Database& db, const char* where, const Value& value) {
    SQLite::Statement select(db, fmt::format("SELECT {}, spec, outcome FROM jobs WHERE {} AND version <= {}",
                                             kLight, where, kRecordVersion));
    select.bind(1, value);
    if (!select.executeStep()) return std::optional<Job>();
    MC_ASSIGN_OR_RETURN(Job job, whole_job_of(select));
    return std::optional<Job>(std::move(job));
  }

  Result<std::optional<Job>> find_existing(SQLite::Database& db, const JobSpec& spec,
                                           const std::string& content) {
    if (!spec.idempotency_key.empty()) {
      SQLite::Statement select(db,
                               "SELECT id, content FROM jobs WHERE owner = ? AND idem <> '' AND idem = ?");
      select.bind(1, spec.owner);
      select.bind(2, spec.idempotency_key);
      if (select.executeStep()) {
        const std::string id = select.getColumn(0).getString();
        if (select.getColumn(1).getString() != content)
          return fail(Code::kInvalidArgument, "idempotency key '{}' was used for job {} with another content",
                      spec.idempotency_key, id);
        return load(db, "id = ?", id);
      }
    }
    if (!spec.attach) return std::optional<Job>();
    SQLite::Statement select(
        db, "SELECT id FROM jobs WHERE content = ? AND state < 2 AND owner = ? ORDER BY seq LIMIT 1");
    select.bind(1, content);
    select.bind(2, spec.owner);
    if (!select.executeStep()) return std::optional<Job>();
    return load(db, "id = ?", select.getColumn(0).getString());
  }

  // The outcome of an earlier decided job of this content.
  Result<std::optional<Outcome>> decided(SQLite::Database& db, const std::string& content) {
    SQLite::Statement select(
        db, "SELECT outcome, status FROM jobs WHERE content = ? AND state = 2 ORDER BY seq DESC LIMIT 8");
    select.bind(1, content);
    while (select.executeStep())
      if (!judge::is_null_reward(select.getColumn(1).getString())) {
        MC_ASSIGN_OR_RETURN(Outcome outcome, outcome_from_text(select.getColumn(0).getString()));
        return std::optional<Outcome>(std::move(outcome));
      }
    return std::optional<Outcome>();
  }

  // Sequence of the job that is given out next; 0 when there is none.
  std::int64_t choose(SQLite::Database& db, const LeaseRequest& request, double now) {
    const std::string& prefer = request.prefer;
    std::string due = fmt::format(
        "state = 0 AND version <= {} AND not_before <= ?1 AND (deadline_at = 0 OR deadline_at > ?1)",
        kRecordVersion);
    // What is_for() says, for jobs of either kind.
    Job one;
    const double compiler_at = compiler_seen(db);
    for (const bool compiled : {false, true}) {
      one.compiled = compiled;
      if (!is_for(one, request.role, now, compiler_at))
        due += fmt::format(" AND compiled <> {}", compiled ? 1 : 0);
    }
    SQLite::Statement first(db, fmt::format("SELECT seq, priority, task_hash FROM jobs INDEXED BY "
                                            "jobs_waiting WHERE {} ORDER BY priority DESC, seq LIMIT 1",
                                            due));
    first.bind(1, now);
    if (!first.executeStep()) return 0;
    const std::int64_t sequence = first.getColumn(0).getInt64();
    if (prefer.empty() || first.getColumn(2).getString() == prefer) return sequence;
    SQLite::Statement same(
        db,
        fmt::format("SELECT seq FROM jobs WHERE {} AND task_hash = ?2 AND priority = ?3 ORDER BY seq LIMIT 1",
                    due));
    same.bind(1, now);
    same.bind(2, prefer);
    same.bind(3, first.getColumn(1).getInt());
    return same.executeStep() ? same.getColumn(0).getInt64() : sequence;
  }

  Result<Job> leased(SQLite::Database& db, const std::string& lease) {
    if (!lease.empty()) {
      MC_ASSIGN_OR_RETURN(auto job, load(db, "lease <> '' AND lease = ?", lease));
      if (job) return std::move(*job);
    }
    return fail(Code::kNotFound, "the lease is no longer held");
  }

  template <typename Rule>
  Result<bool> with_lease(SQLite::Database& connection, const std::string& lease, Rule&& rule) {
    return write<bool>(connection, "writing to", [&](SQLite::Database& db) -> Result<bool> {
      MC_ASSIGN_OR_RETURN(Job job, leased(db, lease));
      if (!rule(job, config_.clock->unix_time())) return false;
      save(db, job);
      return true;
    });
  }

  static double compiler_seen(SQLite::Database& db) {
    SQLite::Statement select(db, "SELECT value FROM counters WHERE name = 'compiler_at'");
    return select.executeStep() ? select.getColumn(0).getDouble() : -kCompilerGoneS;
  }

  // Rarely, so that waiting compile workers do not write all the time.
  Status note_compiler() {
    const double now = config_.clock->unix_time();
    {
      std::lock_guard lock(presence_mutex_);
      if (now - presence_noted_ < kPresenceS) return ok();
      presence_noted_ = now;
    }
    auto done = write<bool>(quick_, "writing to", [&](SQLite::Database& db) -> Result<bool> {
      SQLite::Statement upsert(
          db,
          "INSERT INTO counters VALUES ('compiler_at', ?1) ON CONFLICT (name) DO UPDATE SET "
          "value = max(value, ?1)");
      upsert.bind(1, static_cast<std::int64_t>(now));
      upsert.exec();
      return true;
    });
    if (!done) return tl::unexpected(done.error());
    return ok();
  }

  std::int64_t next_revision(SQLite::Database& db) {
    SQLite::Statement update(db,
                             "UPDATE counters SET value = value + 1 WHERE name = 'revision' RETURNING value");
    std::int64_t revision = 0;
    while (update.executeStep()) revision = update.getColumn(0).getInt64();
    return revision;
  }

  void insert(SQLite::Database& db, Job& job, const std::string& content) {
    job.revision = static_cast<std::uint64_t>(next_revision(db));
    SQLite::Statement insert(db, R"(
      INSERT INTO jobs (id, version, state, priority, owner, idem, content, task, task_hash, policy, round, extra, created_at, not_before,
        deadline_at, started_at, finished_at, lease, lease_until, worker, stage, attempts, faults, deaths, status, reward, cached, archived,
        revision, spec, outcome)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, '', 0, '', '', 0, 0, 0, ?, ?, ?, 0, ?, ?, ?))");
    int at = 1;
    insert.bind(at++, job.id);
    insert.bind(at++, job.version);
    insert.bind(at++, static_cast<int>(job.state));
    insert.bind(at++, job.spec.priority);
    insert.bind(at++, job.spec.owner);
    insert.bind(at++, job.spec.idempotency_key);
    insert.bind(at++, content);
    insert.bind(at++, job.spec.task_id);
    insert.bind(at++, task_hash(job.spec));
    insert.bind(at++, job.spec.policy);
    insert.bind(at++, job.spec.round);
    insert.bind(at++, job.spec.extra);
    insert.bind(at++, job.created_at);
    insert.bind(at++, job.spec.deadline_at);
    insert.bind(at++, job.started_at);
    insert.bind(at++, job.finished_at);
    insert.bind(at++, job.outcome.status);
    bind_reward(insert, at++, job);
    insert.bind(at++, job.cached ? 1 : 0);
    insert.bind(at++, static_cast<std::int64_t>(job.revision));
    insert.bind(at++, spec_to_text(job.spec));
    insert.bind(at++, outcome_text(job));
    insert.exec();
    job.sequence = static_cast<std::uint64_t>(db.getLastInsertRowid());
  }

  void save(SQLite::Database& db, Job& job) {
    job.revision = static_cast<std::uint64_t>(next_revision(db));
    SQLite::Statement update(db, R"(
      UPDATE jobs SET state = ?, not_before = ?, started_at = ?, finished_at = ?, lease = ?, lease_until = ?, worker = ?, stage = ?,
        attempts = ?, faults = ?, deaths = ?, status = ?, reward = ?, revision = ?, outcome = ?, compiled = ? WHERE seq = ?)");
    int at = 1;
    update.bind(at++, static_cast<int>(job.state));
    update.bind(at++, job.not_before);
    update.bind(at++, job.started_at);
    update.bind(at++, job.finished_at);
    update.bind(at++, job.lease);
    update.bind(at++, job.lease_until);
    update.bind(at++, job.worker);
    update.bind(at++, job.stage);
    update.bind(at++, job.attempts);
    update.bind(at++, job.faults);
    update.bind(at++, job.deaths);
    update.bind(at++, job.outcome.status);
    bind_reward(update, at++, job);
    update.bind(at++, static_cast<std::int64_t>(job.revision));
    update.bind(at++, outcome_text(job));
    update.bind(at++, job.compiled ? 1 : 0);
    update.bind(at++, static_cast<std::int64_t>(job.sequence));
    update.exec();
  }

  static void bind_reward(SQLite::Statement& statement, int at, const Job& job) {
    if (job.outcome.reward)
      statement.bind(at, *job.outcome.reward);
    else
      statement.bind(at);
  }
  static std::string outcome_text(const Job& job) {
    return has_ended(job.state) ? outcome_to_text(job.outcome) : "";
  }

  const std::string path_;
  const QueueConfig config_;
  std::mutex write_mutex_, read_mutex_, presence_mutex_;
  double presence_noted_ = -kPresenceS;
  SQLite::Database durable_, quick_, reader_;
};

}  // namespace

Result<std::unique_ptr<JobQueue>> open_sqlite_queue(const std::string& path, const QueueConfig& config) {
  try {
    auto queue = std::make_unique<SqliteQueue>(path, config);
    MC_RETURN_IF_ERROR(queue->prepare());
    return queue;
  } catch (const SQLite::Exception& error) {
    return adapt(error, path, "opening");
  }
}

}  // namespace musacoder::service
