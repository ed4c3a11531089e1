// The tasks that a table of results is about: a task set, cut to levels, under a suite's name.
//
//   MC_ASSIGN_OR_RETURN(Suite suite, Suite::load("kernelbench", "kernelbench.jsonl", {}));   // its levels 1
//   to 3 suite.find("level1/19");
//
// Suites: "kernelbench" (levels 1, 2 and 3 unless others are asked for, as in the tables of KernelBench,
// arXiv 2502.10517, and of the MusaCoder paper), "musa-kernelbench" (the same tasks, answered in MUSA; the paper's Table 4)
// and "any", a task set of one's own with every level of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "task/task.h"

namespace musacoder::cli {

class Suite {
 public:
  Suite() = default;
  Suite(Suite&&) = default;  // tasks stay where they are
  Suite& operator=(Suite&&) = default;
  // `levels` empty: the suite's own. Errors: those of TaskSet::load; kInvalidArgument for an unknown name, or
  // for levels that leave no task.
  static Result<Suite> load(const std::string& name, const std::string& path, const std::vector<int>& levels);
  static Result<Suite> of(task::TaskSet set, const std::string& name, const std::vector<int>& levels);

  const std::string& name() const { return name_; }
  const std::vector<const task::Task*>& tasks() const { return tasks_; }  // in the set's order
  const task::Task* find(std::string_view id) const;   // as TaskSet::find; null for tasks of other levels
  bool has_at_other_level(std::string_view id) const;  // in the set, in a level that is left out
  // MUSA KernelBench wants MUSA: an answer in CUDA's names does not compile there, whether the virtual GPU has verified it or a
  // card was never asked (unsupported:dialect). Such a verdict counts as kOtherDialect.
  bool refuses(const std::string& dialect, const std::string& status) const {
    return name_ == "musa-kernelbench" && dialect != "musa" && (status == "ok" || status == "unsupported:dialect");
  }
  // Where the set is not what the suite is known to be: "kernelbench has 100 tasks of level 1; here are 98".
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  bool takes(const task::Task& task) const;

  std::string name_;
  std::vector<int> levels_;  // empty: all
  task::TaskSet set_;
  std::vector<const task::Task*> tasks_;
  std::vector<std::string> remarks_;
};

// What a sample counts as in a suite that refuses its dialect.
inline constexpr const char* kOtherDialect = "compile_error:interface";

// The level as metrics name it: "1", or "" where a task has none.
std::string level_name(const task::Task& task);

}  // namespace musacoder::cli
