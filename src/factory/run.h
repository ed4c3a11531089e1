// Runs a chain: stage after stage, or several at a time, each a child process in a folder of its own.
//
//   RunEnd end = run_plan(plan, {.seconds = 540}, hooks);
//   if (end.state == RunState::kStopped) the same call goes on later;
//
// A stage's folder holds log.txt (all that it said), stage.json (digest, state, seconds of all its runs) and
// what it makes. One that is done with its digest is skipped. One that was made with another digest is put
// aside, as NAME.before-DIGEST, and made anew. When the time is over, or `stop` says so, the stage gets
// SIGTERM, and SIGKILL `grace_s` later; it counts as stopped and goes on in the same folder next time.
// summary.json, summary.md and summary.html of the run's folder are written after each stage.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "factory/config.h"

namespace musacoder::factory {

enum class StageState { kWaiting, kDone, kSkipped, kStopped, kFailed };
const char* state_name(StageState state);

struct StageReport {
  std::string name, kind;
  StageState state = StageState::kWaiting;
  double seconds = 0;  // of all its runs
  int code = 0;
  std::vector<std::pair<std::string, std::string>> shown;  // of its summary
  std::string last_line;
};

struct RunOptions {
  double seconds = 0;  // 0: no limit
  double grace_s = 60;
  std::vector<std::string> only;  // names of stages; none: all
  int parallel = 1;  // stages at the same time, where they need nothing of each other and hold nothing in common
};

struct RunHooks {
  // Ten times a second for each stage that runs: which, how long, and the last line that it said.
  std::function<void(std::size_t stage, double seconds, const std::string& line)> progress{};
  std::function<void(const StageReport&)> ended{};
  std::function<bool()> stop{};
};

enum class RunState { kDone, kStopped, kFailed };
struct RunEnd {
  RunState state = RunState::kDone;
  std::vector<StageReport> stages;
  double seconds = 0;  // of this call
};

// Errors: of files, and kUnavailable where another process runs this folder. A stage that fails is no error:
// see the state.
Result<RunEnd> run_plan(const std::string& name, const Plan& plan, const RunOptions& options,
                        const RunHooks& hooks);
// What stands in the folders, without running anything.
std::vector<StageReport> look_at(const Plan& plan);

// Aligned text or Markdown: stages with state, time, share of time and what they show; then the evaluations
// side by side.
std::string summary_text(const std::vector<StageReport>& stages, bool markdown);
// A page of its own.
std::string summary_html(const std::string& name, const std::vector<StageReport>& stages);

}  // namespace musacoder::factory
