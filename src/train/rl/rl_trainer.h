// The loop of reinforcement learning: rollouts, verdicts, updates, and what happens between steps.
//
//   RlTrainer trainer(config, parts, communicator);
//   MC_RETURN_IF_ERROR(trainer.resume());
//   MC_ASSIGN_OR_RETURN(const RlOutcome outcome, trainer.run());
//
// A step: prompts are planned, answered and judged; the groups of all processes are told of; those that are
// too old, without a reward or (dynamic sampling) of equal rewards are dropped and counted, others drawn for
// them; the rest is trained; the weights are published to the engine. Prompt `serial` belongs to process
// serial mod world. Every trajectory that ended is counted once: trained, stale, null, equal or truncated.
// All that were ever planned are these and those in flight.
//
// A checkpoint holds weights, moments, the planner (cursor, retry buffer), counts, and of asynchronous runs
// the prompts in flight (which begin anew) and groups that were not trained yet (which stay as they are).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/terminal.h"
#include "train/metrics/metrics.h"
#include "train/rl/answer_log.h"
#include "train/rl/planner.h"
#include "train/rl/policy_update.h"
#include "train/rl/rl.h"
#include "train/rl/rollout_loop.h"
#include "train/rl/summary.h"
#include "train/run/run_folder.h"
#include "train/run/schedule.h"

namespace musacoder::train {

// What a trainer works with; all outlive it.
struct RlParts {
  TrainedModel& model;
  Reference* reference;
  llm::Weights& published;  // what the engine runs on
  Rollouts& rollouts;
  RolloutLoop& loop;
  const std::vector<RlTask>&tasks, &eval_tasks;
  std::vector<std::size_t> usable, eval_usable;  // of them
  std::string prompt_version;
  std::function<int()> verifier_restarts;
};

class RlTrainer {
 public:
  RlTrainer(const RlConfig& config, RlParts parts, Communicator& all);
  Status resume();
  Result<RlOutcome> run();

 private:
  struct State {
    std::int64_t step = 0, optimizer_steps = 0, skipped = 0, skipped_in_row = 0;
    std::int64_t tokens = 0, trained_tokens = 0;
    // Trajectories by what became of them.
    std::map<std::string, std::int64_t> samples = {
        {"trained", 0}, {"stale", 0}, {"null", 0}, {"equal", 0}, {"truncated", 0}};
  };
  struct Batch {
    std::vector<Group> groups;       // this process's, that are trained
    std::vector<Group> shown;        // some of them for the log, whatever their fate
    std::vector<Summary> all, kept;  // of all processes: every group; those that are trained, by serial
    std::int64_t pushed = 0;         // into the retry buffer
  };
  bool first() const { return all_.rank() == 0; }
  bool async() const { return config_.mode == "async"; }
  std::vector<GroupStart> own(std::vector<GroupStart> starts) const;
  Result<Batch> collect();
  Status sort_out(std::vector<Group> mine, std::vector<Summary> all, Batch& batch);
  Result<UpdateResult> train(const Batch& batch);
  Status publish();
  Status evaluate();
  Status one_step();
  Status check_rewards(const Batch& batch);
  Status checkpoint();
  Result<nlohmann::ordered_json> state_json();
  void report(const Batch& batch, UpdateResult update);
  Status after_step(bool end);
  bool anybody(bool here);

  const RlConfig& config_;
  RlParts parts_;
  Communicator& all_;
  Planner planner_;
  PolicyUpdate update_;
  Schedule schedule_;
  RunFolder folder_;
  State state_;
  Rollouts::Counts counts_before_;
  std::optional<Metrics> metrics_;
  std::optional<AnswerLog> answers_;
  std::optional<base::ProgressLine> progress_;
  Numbers numbers_;
  std::map<std::string, double> seconds_;  // of the step's stages
  int without_reward_ = 0;                 // steps in a row in which the verifier was at fault every time
  std::int64_t saved_step_ = -1, outstanding_ = 0;  // groups of all processes that are under way or not taken
};

}  // namespace musacoder::train
