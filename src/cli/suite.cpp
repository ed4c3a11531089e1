#include "cli/suite.h"

#include <algorithm>
#include <map>

namespace musacoder::cli {
namespace {

// Tasks a level of KernelBench (https://github.com/ScalingIntelligence/KernelBench).
const std::map<int, std::size_t> kKernelBench = {{1, 100}, {2, 100}, {3, 50}, {4, 20}};

std::map<int, std::size_t> count_by_level(const std::vector<const task::Task*>& tasks) {
  std::map<int, std::size_t> count;
  for (const task::Task* task : tasks) ++count[task->level];
  return count;
}

}  // namespace

Result<Suite> Suite::load(const std::string& name, const std::string& path, const std::vector<int>& levels) {
  MC_ASSIGN_OR_RETURN(task::TaskSet set, task::TaskSet::load(path));
  auto suite = of(std::move(set), name, levels);
  if (!suite) return fail(suite.error().code, "{}: {}", path, suite.error().message);
  return suite;
}

Result<Suite> Suite::of(task::TaskSet set, const std::string& name, const std::vector<int>& levels) {
  if (name != "any" && name != "kernelbench" && name != "musa-kernelbench")
    return fail(Code::kInvalidArgument, "no suite is called '{}'; give kernelbench, musa-kernelbench or any", name);
  const bool kernelbench = name != "any";
  Suite suite;
  suite.name_ = name;
  suite.levels_ = levels.empty() && kernelbench ? std::vector<int>{1, 2, 3} : levels;
  suite.set_ = std::move(set);
  for (const task::Task& task : suite.set_.tasks())
    if (suite.takes(task)) suite.tasks_.push_back(&task);
  if (suite.tasks_.empty())
    return fail(Code::kInvalidArgument,
                "holds no task of level {}; `musacoder tasks list` shows what there is",
                fmt::join(suite.levels_, ", "));
  std::map<int, std::size_t> count = count_by_level(suite.tasks_);
  for (int level : suite.levels_) {
    const auto known = kKernelBench.find(level);
    if (kernelbench && known != kKernelBench.end() && count[level] != known->second)
      suite.remarks_.push_back(fmt::format("kernelbench has {} tasks of level {}; here are {}", known->second,
                                           level, count[level]));
    else if (count[level] == 0)
      suite.remarks_.push_back(fmt::format("there is no task of level {}", level));
  }
  return suite;
}

bool Suite::takes(const task::Task& task) const {
  return levels_.empty() || std::find(levels_.begin(), levels_.end(), task.level) != levels_.end();
}

const task::Task* Suite::find(std::string_view id) const {
  const task::Task* task = set_.find(id);
  return task && takes(*task) ? task : nullptr;
}

bool Suite::has_at_other_level(std::string_view id) const {
  const task::Task* task = set_.find(id);
  return task && !takes(*task);
}

std::string level_name(const task::Task& task) { return task.level > 0 ? std::to_string(task.level) : ""; }

}  // namespace musacoder::cli
