#include "train/rl/answer_log.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "train/metrics/metrics.h"

namespace musacoder::train {

Result<AnswerLog> AnswerLog::open(const std::string& run_dir, std::int64_t resumed_at) {
  const std::string path = run_dir + "/answers.jsonl";
  MC_RETURN_IF_ERROR(drop_later_lines(path, resumed_at));
  base::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) return fail(base::code_of_errno(errno), "cannot write {}: {}", path, std::strerror(errno));
  return AnswerLog(std::move(fd));
}

Status AnswerLog::write(std::int64_t step, const std::vector<Group>& groups, const std::vector<RlTask>& tasks,
                        std::int64_t count) {
  using nlohmann::ordered_json;
  std::string lines;
  for (std::size_t g = 0; g < std::min(groups.size(), static_cast<std::size_t>(count)); ++g) {
    const Trajectory& shown = groups[g].trajectories.front();
    ordered_json turns = ordered_json::array();
    for (const Turn& turn : shown.turns)
      turns.push_back({{"text", turn.text},
                       {"status", turn.status},
                       {"reward", std::isnan(turn.reward) ? ordered_json() : ordered_json(turn.reward)},
                       {"tokens", turn.answer.size()},
                       {"feedback", turn.feedback}});
    const ordered_json line = {{"step", step},
                               {"serial", groups[g].start.serial},
                               {"task", tasks[groups[g].start.task].id},
                               {"sample", 0},
                               {"end", end_name(shown.end)},
                               {"retry", groups[g].start.retry.has_value()},
                               {"turns", std::move(turns)}};
    lines += line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  }
  return base::write_all(fd_.get(), lines);
}

}  // namespace musacoder::train
