#include "store/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/json_lines.h"

namespace musacoder::store {

using nlohmann::json;

namespace {

constexpr int kSchemaVersion = 1;
constexpr int kApplicationId = 0x4D435644;  // "MCVD"
constexpr int kBusyTimeoutMs = 15'000;

constexpr const char* kSchema = R"(
CREATE TABLE verdicts (
  key             TEXT NOT NULL PRIMARY KEY,
  stored_at       INTEGER NOT NULL,
  task            TEXT NOT NULL,
  task_hash       TEXT NOT NULL,
  candidate_hash  TEXT NOT NULL,
  backend         TEXT NOT NULL,
  gpu             TEXT NOT NULL,
  policy          TEXT NOT NULL,
  status          TEXT NOT NULL,
  status_class    TEXT NOT NULL,
  q               REAL,
  reward          REAL,
  speedup_eager   REAL,
  speedup_compile REAL,
  seconds         REAL,
  verdict         TEXT NOT NULL,
  extra           TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX verdicts_by_task ON verdicts (task, stored_at);
CREATE INDEX verdicts_by_status ON verdicts (status, stored_at);
CREATE INDEX verdicts_by_candidate ON verdicts (candidate_hash);
CREATE INDEX verdicts_by_time ON verdicts (stored_at);
)";

tl::unexpected<Error> adapt(const SQLite::Exception& error, const std::string& path, const char* doing) {
  const int code = error.getErrorCode() & 0xFF;
  if (code == SQLITE_FULL || error.getExtendedErrorCode() == SQLITE_IOERR_WRITE || (code == SQLITE_IOERR && base::free_bytes(path) < (1u << 20)))
    return fail(Code::kResourceExhausted, "no room while {} {} (disk, quota or file-size limit): nothing was stored; free some space and run again",
                doing, path);
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
    return fail(Code::kInvalidArgument, "{} is not a verdict store or is damaged ({}); give another file", path, error.what());
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
    return fail(Code::kUnavailable, "{} has been locked by another process for {} s; run again when it is done", path,
                kBusyTimeoutMs / 1000);
  if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_PERM)
    return fail(Code::kUnavailable, "cannot write {} ({}); check that its folder exists and is writable", path, error.what());
  return fail(Code::kInternal, "SQLite failed while {} {}: {}", doing, path, error.what());
}

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

void bind_optional(SQLite::Statement& statement, int at, const std::optional<double>& value) {
  if (value) statement.bind(at, *value);
  else statement.bind(at);
}

Result<StoredVerdict> row_of(SQLite::Statement& statement) {
  StoredVerdict row;
  row.key = statement.getColumn(0).getString();
  row.stored_at = statement.getColumn(1).getInt64();
  row.extra = statement.getColumn(3).getString();
  MC_ASSIGN_OR_RETURN(json parsed, base::parse_json(statement.getColumn(2).getString()));
  MC_ASSIGN_OR_RETURN(row.verdict, judge::verdict_from_json(parsed));
  return row;
}

}  // namespace

struct Store::Impl {
  std::string path;
  std::mutex mutex;
  SQLite::Database db;

  explicit Impl(const std::string& file)
      : path(file), db(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyTimeoutMs) {}
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(const std::string& path) {
  try {
    auto impl = std::make_unique<Impl>(path);
    SQLite::Database& db = impl->db;
    db.exec("PRAGMA journal_mode=WAL");
    db.exec("PRAGMA synchronous=FULL");
    SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
    const int version = db.execAndGet("PRAGMA user_version").getInt();
    const int application = db.execAndGet("PRAGMA application_id").getInt();
    const int tables = db.execAndGet("SELECT count(*) FROM sqlite_schema").getInt();
    if (tables > 0 && application != kApplicationId)
      return fail(Code::kInvalidArgument, "{} is an SQLite file of another program; give another file", path);
    if (version > kSchemaVersion)
      return fail(Code::kUnsupported, "{} was written by a newer program (schema {}, this one knows {})", path, version, kSchemaVersion);
    if (version == 0) {
      db.exec(kSchema);
      db.exec(fmt::format("PRAGMA application_id={}", kApplicationId));
      db.exec(fmt::format("PRAGMA user_version={}", kSchemaVersion));
    }
    transaction.commit();
    return std::unique_ptr<Store>(new Store(std::move(impl)));
  } catch (const SQLite::Exception& error) {
    return adapt(error, path, "opening");
  }
}

Status Store::put(const judge::Verdict& verdict, const std::string& extra_json) {
  std::lock_guard lock(impl_->mutex);
  try {
    // A decided verdict stays when the new one is only a failure of the machine.
    SQLite::Statement insert(impl_->db, R"(
      INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (key) DO UPDATE SET
        stored_at = excluded.stored_at, task = excluded.task, status = excluded.status,
        status_class = excluded.status_class, q = excluded.q, reward = excluded.reward,
        speedup_eager = excluded.speedup_eager, speedup_compile = excluded.speedup_compile, seconds = excluded.seconds,
        verdict = excluded.verdict, extra = excluded.extra
      WHERE excluded.status_class <> 'infra' OR verdicts.status_class = 'infra')");
    auto total = verdict.seconds.find("total");
    insert.bind(1, verdict_key(verdict));
    insert.bind(2, static_cast<std::int64_t>(std::time(nullptr)));
    insert.bind(3, verdict.task);
    insert.bind(4, verdict.task_hash);
    insert.bind(5, verdict.candidate_hash);
    insert.bind(6, verdict.backend);
    insert.bind(7, verdict.gpu);
    insert.bind(8, verdict.policy);
    insert.bind(9, verdict.status);
    insert.bind(10, judge::status_class(verdict.status));
    insert.bind(11, verdict.q);
    bind_optional(insert, 12, verdict.reward);
    bind_optional(insert, 13, verdict.speedup_eager);
    bind_optional(insert, 14, verdict.speedup_compile);
    bind_optional(insert, 15, total == verdict.seconds.end() ? std::nullopt : std::optional<double>(total->second));
    insert.bind(16, dump(judge::to_json(verdict)));
    insert.bind(17, extra_json);
    insert.exec();
    return ok();
  } catch (const SQLite::Exception& error) {
    return adapt(error, impl_->path, "writing");
  }
}

Result<std::optional<StoredVerdict>> Store::get(const std::string& key) {
  std::lock_guard lock(impl_->mutex);
  try {
    SQLite::Statement select(impl_->db, "SELECT key, stored_at, verdict, extra FROM verdicts WHERE key = ?");
    select.bind(1, key);
    if (!select.executeStep()) return std::optional<StoredVerdict>();
    MC_ASSIGN_OR_RETURN(StoredVerdict row, row_of(select));
    return std::optional<StoredVerdict>(std::move(row));
  } catch (const SQLite::Exception& error) {
    return adapt(error, impl_->path, "reading");
  }
}

Result<std::vector<StoredVerdict>> Store::find(const Query& query) {
  std::vector<StoredVerdict> rows;
  MC_RETURN_IF_ERROR(for_each(query, [&](StoredVerdict row) {
    rows.push_back(std::move(row));
    return ok();
  }));
  return rows;
}

Status Store::for_each(const Query& query, const std::function<Status(StoredVerdict)>& use) {
  std::lock_guard lock(impl_->mutex);
  std::string sql = "SELECT key, stored_at, verdict, extra FROM verdicts WHERE stored_at >= ?";
  std::vector<const std::string*> values;
  for (const auto& [column, value] : {std::pair{"task", &query.task}, std::pair{"candidate_hash", &query.candidate_hash},
                                      std::pair{"status", &query.status}, std::pair{"status_class", &query.status_class}}) {
    if (value->empty()) continue;
    sql += fmt::format(" AND {} = ?", column);
    values.push_back(value);
  }
  if (!query.text.empty()) {
    sql += " AND instr(lower(task || ' ' || status || ' ' || coalesce(json_extract(verdict, '$.cause'), '') || ' ' || extra), lower(?)) > 0";
    values.push_back(&query.text);
  }
  sql += " ORDER BY stored_at DESC, key LIMIT ? OFFSET ?";
  try {
    SQLite::Statement select(impl_->db, sql);
    int at = 1;
    select.bind(at++, query.since);
    for (const std::string* value : values) select.bind(at++, *value);
    select.bind(at++, static_cast<std::int64_t>(query.limit));
    select.bind(at++, static_cast<std::int64_t>(query.offset));
    while (select.executeStep()) {
      MC_ASSIGN_OR_RETURN(StoredVerdict row, row_of(select));
      MC_RETURN_IF_ERROR(use(std::move(row)));
    }
    return ok();
  } catch (const SQLite::Exception& error) {
    return adapt(error, impl_->path, "reading");
  }
}

Result<std::size_t> Store::prune(std::int64_t unix_time, bool infra_only) {
  std::lock_guard lock(impl_->mutex);
  try {
    SQLite::Statement remove(impl_->db, fmt::format("DELETE FROM verdicts WHERE stored_at < ?{}", infra_only ? " AND status_class = 'infra'" : ""));
    remove.bind(1, unix_time);
    const int count = remove.exec();
    impl_->db.exec("VACUUM");
    impl_->db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    return static_cast<std::size_t>(count);
  } catch (const SQLite::Exception& error) {
    return adapt(error, impl_->path, "pruning");
  }
}

Status Store::backup(const std::string& path) {
  if (base::exists(path)) return fail(Code::kInvalidArgument, "{} exists; give another file", path);
  const std::string temporary = path + ".part";
  std::lock_guard lock(impl_->mutex);
  try {
    if (base::exists(temporary) && ::unlink(temporary.c_str()) != 0)
      return fail(Code::kUnavailable, "cannot remove the left-over {}", temporary);
    SQLite::Statement vacuum(impl_->db, "VACUUM INTO ?");
    vacuum.bind(1, temporary);
    vacuum.exec();
  } catch (const SQLite::Exception& error) {
    ::unlink(temporary.c_str());
    return adapt(error, temporary, "copying to");
  }
  base::Fd fd(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0)
    return fail(base::code_of_errno(errno), "cannot finish {}: {}", path, std::strerror(errno));
  return ok();
}

Result<std::map<std::string, std::size_t>> Store::count_by_status() {
  std::lock_guard lock(impl_->mutex);
  try {
    SQLite::Statement select(impl_->db, "SELECT status, count(*) FROM verdicts GROUP BY status");
    std::map<std::string, std::size_t> counts;
    while (select.executeStep())
      counts[select.getColumn(0).getString()] = static_cast<std::size_t>(select.getColumn(1).getInt64());
    return counts;
  } catch (const SQLite::Exception& error) {
    return adapt(error, impl_->path, "reading");
  }
}

std::string verdict_key(const judge::Verdict& verdict) {
  base::Sha256 hash;
  hash.field("verdict-key-1");
  // Without hashes (a verdict that ended before they were known) the names stand for them.
  hash.field(verdict.task_hash.empty() ? "name:" + verdict.task : verdict.task_hash);
  hash.field(verdict.candidate_hash.empty() ? "none:" + verdict.status + verdict.cause : verdict.candidate_hash);
  hash.field(verdict.backend);
  hash.field(verdict.gpu);
  hash.field(verdict.policy);
  for (const auto& constant : verdict.scaling)
    if (constant.how == "set") {
      hash.field(constant.name);
      hash.field(constant.to);
    }
  return hash.hex();
}

}  // namespace musacoder::store
