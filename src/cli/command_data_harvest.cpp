// `musacoder data harvest`.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/paths.h"
#include "base/terminal.h"
#include "cli/data_commands.h"
#include "synth/pipeline/graph_worker.h"
#include "task/task.h"

namespace musacoder::cli {
namespace {

namespace fs = std::filesystem;

int failed(const Error& error) {
  fmt::print(stderr, "musacoder data harvest: {}\n", error.message);
  return error.code == Code::kUnavailable ? 3 : 2;
}

Result<std::vector<std::string>> python_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (!fs::exists(path, error)) return fail(Code::kNotFound, "there is no {}", path);
      files.push_back(path);
      continue;
    }
    for (fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename();
      if (name.starts_with('.') || name == "site-packages" || name == "node_modules" || name == "__pycache__") {
        if (it->is_directory()) it.disable_recursion_pending();
        continue;
      }
      if (it->is_regular_file() && name.ends_with(".py")) files.push_back(it->path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int run_data_harvest(const DataHarvestOptions& options) {
  auto runtime = base::find_runtime_dir();
  if (!runtime) return failed(runtime.error());
  auto files = python_files(options.paths);
  if (!files) return failed(files.error());
  if (auto made = base::make_dirs(options.out); !made) return failed(made.error());
  synth::GraphWorker worker({.runtime_dir = *runtime, .python = base::find_python(*runtime), .timeout_s = 120});
  std::set<std::string> seen;
  std::map<std::string, std::size_t> dropped;
  base::ProgressLine progress(stderr);
  if (!options.kernelbench.empty()) {
    auto set = task::TaskSet::load(options.kernelbench);
    if (!set) return failed(set.error());
    for (const task::Task& task : set->tasks()) {
      progress.update("guard: " + task.id);
      if (auto graph = worker.graph(task.code)) seen.insert(graph->hash);
      else if (graph.error().code == Code::kUnavailable) return failed(graph.error());
    }
  }
  nlohmann::json report = {{"files", files->size()}, {"tasks", nlohmann::json::array()}, {"dropped", nlohmann::json::array()}};
  std::size_t kept = 0;
  const auto drop = [&](const std::string& file, const std::string& name, const std::string& why) {
    ++dropped[why.substr(0, why.find(':'))];
    report["dropped"].push_back({{"file", file}, {"module", name}, {"reason", why}});
  };
  for (const std::string& path : *files) {
    progress.update(fmt::format("{} tasks of {}", kept, path));
    auto code = base::read_file(path, 4 << 20);
    auto found = code ? worker.harvest(path, *code) : Result<synth::Harvest>(tl::unexpected(code.error()));
    if (!found) {
      if (found.error().code == Code::kUnavailable) return failed(found.error());
      drop(path, "", found.error().message);
      continue;
    }
    for (const auto& [name, why] : found->dropped) drop(path, name, why);
    for (const synth::HarvestedTask& task : found->tasks) {
      auto graph = worker.graph(task.code);
      if (!graph) {
        if (graph.error().code == Code::kUnavailable) return failed(graph.error());
        drop(path, task.name, "does not execute: " + graph.error().message);
      } else if (!seen.insert(graph->hash).second) {
        drop(path, task.name, "computes the same as another: " + graph->hash);
      } else {
        const std::string file = fmt::format("{}/{}_{}.py", options.out, task.name, graph->hash.substr(0, 8));
        if (auto written = base::write_file_atomic(file, task.code); !written) return failed({Code::kUnavailable, written.error().message});
        report["tasks"].push_back({{"file", file}, {"from", path}, {"module", task.name}, {"family", graph->family}});
        ++kept;
      }
    }
  }
  progress.finish(fmt::format("{} tasks", kept));
  if (options.json) {
    fmt::print("{}\n", report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{} files, {} tasks in {}\n", files->size(), kept, options.out);
    for (const auto& [why, count] : dropped) fmt::print("  dropped {:5}  {}\n", count, why);
  }
  return 0;
}

}  // namespace musacoder::cli
