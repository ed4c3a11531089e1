#include "cli/batch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/files.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "judge/rows.h"
#include "store/store.h"
#include "task/task.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;
using Seconds = std::chrono::duration<double>;

std::atomic<bool> g_interrupted{false};

extern "C" void on_interrupt(int) { g_interrupted = true; }

struct Row {
  std::size_t line = 0;
  std::string text;  // the row as it stands in the file
  std::string key;   // hash of line text
};

// Keys of the verdicts that stand whole in the output; cuts a torn last line off.
Result<std::unordered_set<std::string>> finished_keys(const std::string& path) {
  std::unordered_set<std::string> keys;
  std::ifstream in(path, std::ios::binary);
  if (!in) return keys;
  std::string line;
  std::uint64_t whole = 0;
  while (std::getline(in, line)) {
    if (in.eof()) break;  // no newline: torn
    whole += line.size() + 1;
    json verdict = json::parse(line, nullptr, false);
    if (verdict.is_object() && verdict.contains("row_key") && verdict["row_key"].is_string())
      keys.insert(verdict["row_key"].get<std::string>());
  }
  in.close();
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) > whole &&
      truncate(path.c_str(), static_cast<off_t>(whole)) != 0)
    return fail(Code::kUnavailable, "cannot cut the torn last line of {}: {}", path, std::strerror(errno));
  return keys;
}

class Output {
 public:
  static Result<std::unique_ptr<Output>> open(const std::string& path) {
    int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) return fail(Code::kUnavailable, "cannot write {}: {}", path, std::strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      ::close(fd);
      return fail(Code::kUnavailable, "{} is being written by another process", path);
    }
    return std::unique_ptr<Output>(new Output(fd, path));
  }
  ~Output() { ::close(fd_); }
  Status append(std::string line) {
    line += '\n';
    std::lock_guard lock(mutex_);
    const char* at = line.data();
    std::size_t left = line.size();
    while (left > 0) {
      const ssize_t n = ::write(fd_, at, left);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(Code::kResourceExhausted, "cannot write {}: {}", path_, std::strerror(errno));
      at += n;
      left -= static_cast<std::size_t>(n);
    }
    return ok();
  }

 private:
  Output(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_;
  std::string path_;
  std::mutex mutex_;
};

std::string text_of(const json& row, const char* key) {
  auto it = row.find(key);
  return it != row.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string task_label(const json& row) {
  for (const char* key : {"task_id", "name", "id", "key"})
    if (auto it = row.find(key); it != row.end()) {
      if (it->is_string()) return it->get<std::string>();
      if (it->is_number_integer()) return std::to_string(it->get<std::int64_t>());
    }
  return "";
}

// The policy that a row asks for, "" when it leaves that to the command line; an error when the row cannot be judged.
Result<std::string> policy_of(const json& row, std::size_t line) {
  if (!row.is_object() || !row.contains("candidate") || !row["candidate"].is_string())
    return fail(Code::kInvalidArgument, "line {} is not a JSON object with `candidate` and `reference` or `task`", line);
  auto policy = judge::row_policy(row);
  if (!policy) return fail(Code::kInvalidArgument, "line {}: {}", line, policy.error().message);
  return policy;
}

}  // namespace

std::string row_key(std::string_view line) { return base::sha256_hex(line); }

int batch_exit_code(const Error& error) {
  return error.code == Code::kNotFound || error.code == Code::kInvalidArgument ? 2 : 3;
}

Result<BatchSummary> run_batch(const BatchOptions& options) {
  std::ifstream rows(options.rows, std::ios::binary);
  if (!rows) return fail(Code::kNotFound, "cannot read {}: {}", options.rows, std::strerror(errno));
  return run_batch(options, rows);
}

Result<BatchSummary> run_batch(const BatchOptions& options, std::istream& in) {
  const auto begin = std::chrono::steady_clock::now();
  BatchSummary summary;

  std::optional<task::TaskSet> tasks;
  if (!options.tasks.empty()) {
    MC_ASSIGN_OR_RETURN(tasks, task::TaskSet::load(options.tasks));
  }
  MC_ASSIGN_OR_RETURN(auto finished, finished_keys(options.out));
  MC_ASSIGN_OR_RETURN(auto output, Output::open(options.out));
  std::unique_ptr<store::Store> store;
  if (!options.store.empty()) {
    MC_ASSIGN_OR_RETURN(store, store::Store::open(options.store));
  }

  // Rows of one task stand together, so that a lane's reference runner keeps its gold values.
  std::deque<std::vector<Row>> groups;
  std::unordered_map<std::string, std::size_t> group_of;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    ++summary.rows;
    Row row{number, line, row_key(line)};
    if (finished.count(row.key)) {
      ++summary.skipped;
      continue;
    }
    json parsed = json::parse(line, nullptr, false);
    const std::string task = parsed.is_object() ? text_of(parsed, "reference") + text_of(parsed, "task") : "";
    auto [it, fresh] = group_of.try_emplace(base::sha256_hex(task), groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].push_back(std::move(row));
  }

  std::mutex mutex;  // groups, summary, progress
  base::ProgressLine progress(stderr);
  const std::size_t todo = summary.rows - summary.skipped;
  Status first_error = ok();
  std::shared_ptr<judge::Shared> shared;
  if (!groups.empty()) {
    MC_ASSIGN_OR_RETURN(shared, judge::Shared::create(options.judge));
  }
  // Where all lanes share one GPU they share its reference runner too: rows of a task follow each other on all lanes, and the GPU is
  // never kept waiting for the one lane that has them.
  if (shared && shared->lane) {
    std::deque<std::vector<Row>> single;
    for (auto& group : groups)
      for (auto& row : group) single.emplace_back().push_back(std::move(row));
    groups = std::move(single);
  }
  g_interrupted = false;
  auto previous = std::signal(SIGINT, on_interrupt);

  auto lane = [&]() {
    std::unique_ptr<judge::Judge> judge;
    for (;;) {
      std::vector<Row> group;
      {
        std::lock_guard lock(mutex);
        if (groups.empty() || !first_error || g_interrupted) return;
        group = std::move(groups.front());
        groups.pop_front();
      }
      if (!judge) {
        auto created = judge::Judge::create(options.judge, shared);
        if (!created) {
          std::lock_guard lock(mutex);
          if (first_error) first_error = tl::unexpected(created.error());
          return;
        }
        judge = std::move(*created);
      }
      for (const Row& row : group) {
        if (g_interrupted) return;
        json fields = json::parse(row.text, nullptr, false);
        json result;
        std::string status;
        auto policy = policy_of(fields, row.line);
        if (!policy) {
          result = {{"status", "invalid_row"}, {"cause", policy.error().message}};
          std::lock_guard lock(mutex);
          ++summary.malformed;
        } else {
          judge::JudgeRequest request{.task_id = task_label(fields),
                                      .task_code = text_of(fields, "reference"),
                                      .answer = text_of(fields, "candidate"),
                                      .answer_name = text_of(fields, "candidate_name"),
                                      .policy = *policy};
          std::string missing;
          if (const std::string id = text_of(fields, "task"); request.task_code.empty() && !id.empty()) {
            const task::Task* found = tasks ? tasks->find(id) : nullptr;
            if (found) {
              request.task_id = found->id;
              request.task_code = found->code;
            } else if (auto loaded = task::TaskSet::load(id); loaded && loaded->tasks().size() == 1) {
              request.task_id = loaded->tasks()[0].id;
              request.task_code = loaded->tasks()[0].code;
            } else {
              missing = id;
            }
          }
          judge::Verdict verdict;
          if (!missing.empty() || request.task_code.empty()) {
            verdict.task = missing;
            verdict.policy = policy->empty() ? options.judge.policy : *policy;
            verdict.status = "invalid_task:missing";
            verdict.cause = missing.empty() ? "the row has neither `reference` nor `task`"
                                            : fmt::format("task '{}' is neither a file nor an id of --tasks", missing);
          } else {
            verdict = judge->judge(request);
          }
          status = verdict.status;
          result = judge::to_json(verdict);
          if (store) {
            json extra = json::object();
            for (auto& [key, value] : fields.items())
              if (key != "candidate" && key != "reference") extra[key] = value;
            if (auto stored = store->put(verdict, extra.dump()); !stored) {
              std::lock_guard lock(mutex);
              if (first_error) first_error = stored;
            }
          }
          for (auto& [key, value] : fields.items()) {
            if (!options.keep_candidate && (key == "candidate" || key == "reference")) continue;
            if (!result.contains(key)) result[key] = value;
          }
        }
        result["row_key"] = row.key;
        auto appended = output->append(result.dump(-1, ' ', false, json::error_handler_t::replace));
        std::lock_guard lock(mutex);
        if (!appended && first_error) first_error = appended;
        if (!status.empty()) ++summary.statuses[status];
        ++summary.judged;
        if (!options.quiet) {
          const double passed = Seconds(std::chrono::steady_clock::now() - begin).count();
          std::size_t verified = summary.statuses.count("ok") ? summary.statuses.at("ok") : 0;
          progress.update(fmt::format("{}/{} judged, {} verified, {:.1f} a minute, last: {} {}", summary.judged, todo,
                                      verified, 60.0 * static_cast<double>(summary.judged) / passed, task_label(fields),
                                      status));
        }
        if (!first_error) return;
      }
    }
  };

  int lanes = options.lanes > 0 ? options.lanes : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  lanes = std::min<int>(lanes, static_cast<int>(std::max<std::size_t>(1, groups.size())));
  std::vector<std::thread> threads;
  for (int i = 0; i < lanes && !groups.empty(); ++i) threads.emplace_back(lane);
  for (auto& thread : threads) thread.join();
  std::signal(SIGINT, previous);

  summary.seconds = Seconds(std::chrono::steady_clock::now() - begin).count();
  summary.interrupted = g_interrupted;
  if (!options.quiet)
    progress.finish(fmt::format("{} judged in {:.1f} s, {} already there, {} malformed", summary.judged, summary.seconds,
                                summary.skipped, summary.malformed));
  if (!first_error) return tl::unexpected(first_error.error());
  return summary;
}

}  // namespace musacoder::cli
