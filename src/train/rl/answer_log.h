// Some answers of each step, for people: run/answers.jsonl.
//
//   MC_ASSIGN_OR_RETURN(AnswerLog log, AnswerLog::open("run", /*resumed_at=*/120));
//   MC_RETURN_IF_ERROR(log.write(121, groups, tasks, 2));
//
//   {"step": 121, "serial": 968, "task": "level1/19", "sample": 0, "end": "verified", "turns":
//    [{"text": ..., "status": "ok", "reward": 1.0, "tokens": 310, "feedback": ...}], "retry": false}
//
// Lines of steps that will be done again are dropped, as those of metrics.jsonl are.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "train/rl/tasks.h"
#include "train/rl/trajectory.h"

namespace musacoder::train {

class AnswerLog {
 public:
  static Result<AnswerLog> open(const std::string& run_dir, std::int64_t resumed_at);
  // The first trajectory of each of the first `count` groups.
  Status write(std::int64_t step, const std::vector<Group>& groups, const std::vector<RlTask>& tasks,
               std::int64_t count);

 private:
  explicit AnswerLog(base::Fd fd) : fd_(std::move(fd)) {}
  base::Fd fd_;
};

}  // namespace musacoder::train
