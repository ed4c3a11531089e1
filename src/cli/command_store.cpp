// `musacoder store`: query, export, prune and backup of verdict stores.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/subprocess.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "store/store.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;

int refuse(const Error& error) {
  fmt::print(stderr, "musacoder store: {}\n", error.message);
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound ? 2 : 3;
}

// An existing store only: a mistyped name must not become an empty file.
Result<std::unique_ptr<store::Store>> open(const StoreOptions& options) {
  if (!base::exists(options.file)) return fail(Code::kNotFound, "{} does not exist", options.file);
  return store::Store::open(options.file);
}

store::Query query_of(const StoreOptions& options, std::size_t limit) {
  store::Query query{.task = options.task,
                     .status = options.status,
                     .status_class = options.status_class,
                     .text = options.text};
  if (options.days > 0) query.since = std::time(nullptr) - static_cast<std::int64_t>(options.days * 86400);
  query.limit = limit > 0 ? limit : static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  return query;
}

// The line of a batch's output: the verdict, with what the row carried beside it.
std::string json_line(const store::StoredVerdict& row) {
  json line = judge::to_json(row.verdict);
  const json extra = json::parse(row.extra, nullptr, false);
  if (extra.is_object())
    for (auto& [key, value] : extra.items())
      if (!line.contains(key)) line[key] = value;
  line["stored_at"] = row.stored_at;
  line["row_key"] = row.key;
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

// RFC 4180; a text that a spreadsheet would take for a formula gets an apostrophe before it.
std::string csv_cell(std::string text) {
  if (!text.empty() && std::string("=+-@\t\r").find(text[0]) != std::string::npos) text = "'" + text;
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

constexpr const char* kCsvHeader =
    "key,stored_at,task,task_hash,candidate_hash,backend,gpu,policy,status,verified,q,reward,speedup_eager,"
    "speedup_compile,seconds,cause,extra\n";

std::string csv_line(const store::StoredVerdict& row) {
  const judge::Verdict& v = row.verdict;
  auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string();
  };
  auto total = v.seconds.find("total");
  std::string line;
  for (const std::string& text :
       {row.key, base::iso_time(static_cast<double>(row.stored_at)), v.task, v.task_hash, v.candidate_hash,
        v.backend, v.gpu, v.policy, v.status, std::string(v.status == "ok" ? "1" : "0")})
    line += csv_cell(text) + ",";
  // Numbers are written as they are: a minus is no formula.
  for (const std::string& text :
       {fmt::format("{}", v.q), number(v.reward), number(v.speedup_eager), number(v.speedup_compile),
        total == v.seconds.end() ? std::string() : fmt::format("{}", total->second)})
    line += text + ",";
  return line + csv_cell(v.cause) + "," + csv_cell(row.extra) + "\n";
}

// pyarrow of the project's Python writes it.
Status export_parquet(store::Store& store, const StoreOptions& options) {
  MC_ASSIGN_OR_RETURN(const std::string runtime, base::find_runtime_dir());
  const std::string python = base::find_python(runtime), part = options.out + ".part",
                    lines = options.out + ".part.jsonl";
  std::size_t count = 0;
  Status done = ok();
  {
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(lines.c_str(), "we"), &std::fclose);
    if (!file) return fail(Code::kUnavailable, "cannot write {}", lines);
    done = store.for_each(query_of(options, 0), [&](store::StoredVerdict row) -> Status {
      ++count;
      const std::string line = json_line(row);
      if (std::fwrite(line.data(), 1, line.size(), file.get()) == line.size()) return ok();
      return fail(Code::kResourceExhausted, "cannot write {}: is the disk full?", lines);
    });
    if (std::fflush(file.get()) != 0 && done)
      done = fail(Code::kResourceExhausted, "cannot write {}: is the disk full?", lines);
  }
  if (done) {
    auto run = base::run(
        {.argv = {python, "-I", runtime + "/python/verdicts_to_parquet.py", lines, part}, .timeout_s = 3600});
    if (!run)
      done = tl::unexpected(run.error());
    else if (!run->exit.ok())
      done = fail(run->exit.code == 4 ? Code::kNotFound : Code::kInternal, "no Parquet file was written: {}",
                  run->err);
    else if (std::rename(part.c_str(), options.out.c_str()) != 0)
      done = fail(Code::kUnavailable, "cannot rename {} to {}", part, options.out);
  }
  std::remove(lines.c_str());
  std::remove(part.c_str());
  if (done) fmt::print(stderr, "{} verdicts in {}\n", count, options.out);
  return done;
}

}  // namespace

int run_store_query(const StoreOptions& options) {
  auto store = open(options);
  if (!store) return refuse(store.error());
  base::Table table({"stored", "task", "status", "reward", "cause"});
  auto done = (*store)->for_each(query_of(options, options.limit), [&](store::StoredVerdict row) -> Status {
    if (options.json) {
      fmt::print("{}", json_line(row));
      return ok();
    }
    table.add({base::iso_time(static_cast<double>(row.stored_at)), base::printable(row.verdict.task, false),
               row.verdict.status, row.verdict.reward ? fmt::format("{:g}", *row.verdict.reward) : "-",
               base::printable(row.verdict.cause, false)});
    return ok();
  });
  if (!done) return refuse(done.error());
  if (!options.json) fmt::print("{}", table.text(base::Terminal(stdout).width()));
  return 0;
}

int run_store_export(const StoreOptions& options) {
  auto store = open(options);
  if (!store) return refuse(store.error());
  if (options.format == "parquet") {
    if (options.out.empty()) return refuse({Code::kInvalidArgument, "--format parquet needs -o FILE"});
    if (auto done = export_parquet(**store, options); !done) return refuse(done.error());
    return 0;
  }
  const std::string part = options.out + ".part";
  std::FILE* file = options.out.empty() ? stdout : std::fopen(part.c_str(), "we");
  if (!file) return refuse({Code::kUnavailable, fmt::format("cannot write {}", part)});
  const bool csv = options.format == "csv";
  std::size_t count = 0;
  auto write = [&](const std::string& text) -> Status {
    if (std::fwrite(text.data(), 1, text.size(), file) != text.size())
      return fail(Code::kResourceExhausted, "cannot write {}: is the disk full?",
                  options.out.empty() ? "stdout" : part);
    return ok();
  };
  Status done = csv ? write(kCsvHeader) : ok();
  if (done)
    done = (*store)->for_each(query_of(options, 0), [&](store::StoredVerdict row) {
      ++count;
      return write(csv ? csv_line(row) : json_line(row));
    });
  if (std::fflush(file) != 0 && done)
    done = fail(Code::kResourceExhausted, "cannot write {}: is the disk full?", part);
  if (options.out.empty()) return done ? 0 : refuse(done.error());
  std::fclose(file);
  if (done && std::rename(part.c_str(), options.out.c_str()) != 0)
    done = fail(Code::kUnavailable, "cannot rename {} to {}", part, options.out);
  if (!done) {
    std::remove(part.c_str());
    return refuse(done.error());
  }
  fmt::print(stderr, "{} verdicts in {}\n", count, options.out);
  return 0;
}

int run_store_prune(const StoreOptions& options) {
  auto store = open(options);
  if (!store) return refuse(store.error());
  auto count = (*store)->prune(std::time(nullptr) - static_cast<std::int64_t>(options.days * 86400),
                               options.infra_only);
  if (!count) return refuse(count.error());
  fmt::print("{} verdicts removed\n", *count);
  return 0;
}

int run_store_backup(const StoreOptions& options) {
  auto store = open(options);
  if (!store) return refuse(store.error());
  if (auto done = (*store)->backup(options.out); !done) return refuse(done.error());
  fmt::print("{} is a copy of {}\n", options.out, options.file);
  return 0;
}

}  // namespace musacoder::cli
