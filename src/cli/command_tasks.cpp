// `musacoder tasks list|audit`.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/judge_config.h"
#include "cli/scratch.h"
#include "task/task.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;

int usage(const std::string& message) {
  fmt::print(stderr, "musacoder tasks: {}\n", message);
  return 2;
}

// The tasks that --id and --level choose.
Result<std::vector<const task::Task*>> chosen(const task::TaskSet& set, const TasksOptions& options) {
  std::vector<const task::Task*> tasks;
  if (!options.id.empty()) {
    const task::Task* task = set.find(options.id);
    if (!task) return fail(Code::kNotFound, "{} has no task '{}'", options.tasks, options.id);
    tasks.push_back(task);
    return tasks;
  }
  for (const auto& task : set.tasks())
    if (options.level == 0 || task.level == options.level) tasks.push_back(&task);
  if (tasks.empty()) return fail(Code::kNotFound, "{} has no task of level {}", options.tasks, options.level);
  return tasks;
}

}  // namespace

int run_tasks_list(const TasksOptions& options) {
  auto set = task::TaskSet::load(options.tasks);
  if (!set) return usage(set.error().message);
  for (const auto& task : set->tasks()) {
    if (options.json)
      fmt::print("{}\n", json({{"id", task.id}, {"name", task.name}, {"level", task.level}}).dump());
    else
      fmt::print("{:<32} level {}  {}\n", task.id, task.level, task.name);
  }
  return 0;
}

int run_tasks_audit(const TasksOptions& options) {
  auto set = task::TaskSet::load(options.tasks);
  if (!set) return usage(set.error().message);
  auto tasks = chosen(*set, options);
  if (!tasks) return usage(tasks.error().message);
  auto config = judge_config(options.judge);
  if (!config) return usage(config.error().message);
  auto scratch = own_scratch();
  if (!scratch) {
    fmt::print(stderr, "musacoder tasks: {}\n", scratch.error().message);
    return 3;
  }
  auto shared = judge::Shared::create(*config);
  if (!shared) {
    fmt::print(stderr, "musacoder tasks: {}\nTry `musacoder doctor`.\n", shared.error().message);
    return 3;
  }

  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  std::size_t done = 0, refused = 0, faults = 0;
  base::ProgressLine progress(stderr);
  auto lane = [&] {
    auto judge = judge::Judge::create(*config, *shared);
    for (std::size_t i = next++; i < tasks->size(); i = next++) {
      const task::Task& task = *(*tasks)[i];
      const std::string line =
          judge ? (*judge)->audit(task.id, task.code)
                : json({{"id", task.id}, {"status", "infra:reference_runner"}, {"message", judge.error().message}}).dump();
      const json result = json::parse(line);
      const std::string status = result.value("status", "infra:unknown");
      std::lock_guard lock(mutex);
      ++done;
      refused += status.rfind("invalid_task", 0) == 0;
      faults += status.rfind("infra", 0) == 0;
      if (options.json) {
        fmt::print("{}\n", line);
      } else {
        std::string passed;
        for (const auto& found : result.value("found", json::array()))
          if (found.value("passed", false)) passed += " " + found.value("candidate", std::string());
        fmt::print("{:<32} {:<28} {:6.2f} s {}{}\n", task.id, status, result.value("seconds", 0.0),
                   result.value("message", std::string()).substr(0, 120), passed.empty() ? "" : " passed by:" + passed);
      }
      std::fflush(stdout);
      progress.update(fmt::format("{}/{} audited, {} refused", done, tasks->size(), refused));
    }
  };
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int lanes = std::min<int>(options.lanes > 0 ? options.lanes : cores, static_cast<int>(tasks->size()));
  std::vector<std::thread> threads;
  for (int i = 0; i < lanes; ++i) threads.emplace_back(lane);
  for (auto& thread : threads) thread.join();
  progress.finish(fmt::format("{} audited, {} refused, {} infrastructure faults", done, refused, faults));
  return faults ? 3 : refused ? 4 : 0;
}

}  // namespace musacoder::cli
