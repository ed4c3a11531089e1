// Prompts in, verified groups of answers out: generation by the engine, verdicts by the verifier, turn by
// turn.
//
//   Rollouts rollouts(*engine, asker, tasks, eval_tasks, verifier, eval_verifier, {.group = 8});
//   MC_RETURN_IF_ERROR(rollouts.start({.serial = 0, .task = 3, .turns = 3}));
//   while (!rollouts.idle()) {
//     MC_ASSIGN_OR_RETURN(std::vector<Group> ended, rollouts.advance(0.5));
//     ...
//   }
//
// advance() takes one step of the engine and what the verifier has ended since; while answers are judged,
// others are generated. A trajectory ends with its first verified turn, after as many turns as its start
// allows, at a null reward, or where the next prompt would be too long or speak with the chat format's voice.
//
// What a group gives depends on its start, the weights and the verifier only, not on what runs beside it:
// each turn's sampling has a seed of its own, made of the run's seed, the serial, the turn and the sample.
// Thread safety: one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "llm/generate/engine.h"
#include "train/rl/tasks.h"
#include "train/rl/trajectory.h"
#include "train/rl/verifier.h"

namespace musacoder::train {

struct RolloutOptions {
  int group = 8, eval_samples = 8;
  double temperature = 0.9, top_p = 0.95, eval_temperature = 0.7, eval_top_p = 0.7;
  int top_k = 0;
  std::int64_t prompt_tokens = 8192, response_tokens = 2048;
  std::uint64_t seed = 0;
  std::string run;  // in the keys of jobs
};

class Rollouts {
 public:
  // `eval_verifier` may be null where no start is an evaluation's. All must outlive this.
  Rollouts(llm::Engine& engine, const Asker& asker, const std::vector<RlTask>& tasks,
           const std::vector<RlTask>& eval_tasks, Verifier& verifier, Verifier* eval_verifier,
           const RolloutOptions& options);

  // kResourceExhausted: longer than the engine's cache or positions allow.
  Status start(GroupStart start);
  // Groups that ended. Waits up to `wait_s` for the verifier where there is nothing to generate.
  Result<std::vector<Group>> advance(double wait_s);
  bool idle() const { return groups_.empty(); }
  // In the order of their serials.
  std::vector<GroupStart> in_flight() const;

  struct Counts {
    std::int64_t groups = 0, samples = 0, turns = 0;  // started; trajectories; turns that ended
    std::int64_t tokens = 0, prompt_tokens = 0;       // sampled; read
    std::int64_t verdicts = 0, tries = 0;             // outcomes; jobs that they took
    double generate_s = 0;                            // in the engine
    double wait_s = 0;                                // for the verifier, with nothing to generate
    std::map<std::string, std::int64_t> statuses;     // by class: compile_error, infra, ...
  };
  const Counts& counts() const { return counts_; }
  llm::Engine& engine() { return engine_; }

 private:
  struct Running {
    Group group;
    std::vector<Conversation> talks;  // by trajectory
    std::size_t open = 0;             // trajectories that have not ended
  };
  struct Place {
    std::uint64_t serial = 0;
    std::size_t trajectory = 0;
    bool all = false;  // a first turn: the sample's number is the trajectory's
  };
  Status ask(Running& running, const Place& place, int samples);
  Status take(const llm::TokenEvent& event);
  void submit(std::uint64_t serial, std::size_t trajectory);
  Status judged(const Place& place, VerifyOutcome outcome);
  Status next_turn(Running& running, std::size_t trajectory);
  void close(Running& running, std::size_t trajectory, End end);
  const std::vector<RlTask>& tasks_of(const GroupStart& start) const {
    return start.evaluation ? eval_tasks_ : tasks_;
  }
  std::size_t running_jobs() const { return judging_.size(); }

  llm::Engine& engine_;
  const Asker& asker_;
  const std::vector<RlTask>&tasks_, &eval_tasks_;
  Verifier& verifier_;
  Verifier* eval_verifier_;
  RolloutOptions options_;
  std::map<std::uint64_t, Running> groups_;  // by serial; evaluations have the highest bit set
  std::map<std::uint64_t, Place> asked_;     // by the engine's request
  std::map<std::uint64_t, Place> judging_;   // by ticket
  std::uint64_t next_ticket_ = 1;
  std::vector<Group> ended_;
  Counts counts_;
};

// Of a serial: groups of evaluations have numbers of their own.
inline constexpr std::uint64_t kEvaluationBit = std::uint64_t{1} << 63;

}  // namespace musacoder::train
