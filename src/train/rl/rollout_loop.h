// Rollouts that go on by themselves, or while somebody waits for them.
//
//   RolloutLoop loop(rollouts, {.threaded = true, .threads = 8});
//   MC_RETURN_IF_ERROR(loop.start(starts));
//   MC_ASSIGN_OR_RETURN(std::vector<Group> groups, loop.take(4));     // waits until four have ended
//   MC_RETURN_IF_ERROR(loop.standing([&] { return swap_weights(); }));   // between two steps of the engine
//
// Without a thread everything happens within take() and evaluate(). With one, generation and verdicts go on
// while the caller trains; an error there is what the next call returns. Thread safety: one caller.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "train/rl/rollouts.h"

namespace musacoder::train {

struct RolloutLoopOptions {
  bool threaded = false;
  int threads = 1;  // of the thread's computations
};

class RolloutLoop {
 public:
  RolloutLoop(Rollouts& rollouts, const RolloutLoopOptions& options);
  ~RolloutLoop();
  RolloutLoop(const RolloutLoop&) = delete;
  RolloutLoop& operator=(const RolloutLoop&) = delete;

  Status start(const std::vector<GroupStart>& starts);
  // The first `count` groups that ended, or fewer where no more are under way; those of evaluations are not
  // among them.
  Result<std::vector<Group>> take(std::size_t count);
  // Starts and waits for these, which must be evaluations.
  Result<std::vector<Group>> evaluate(const std::vector<GroupStart>& starts);
  // `act` runs while nothing is generated.
  Status standing(const std::function<Status()>& act);

  // What a checkpoint needs: prompts that have not ended, and groups that nobody took.
  struct Left {
    std::vector<GroupStart> starts;
    std::vector<Group> groups;
  };
  Left left();
  // As if these had ended here.
  void put_back(std::vector<Group> groups);
  // Started or ended, and not taken.
  std::size_t outstanding();
  Rollouts::Counts counts();

 private:
  class Hold;
  void run();
  Status turn();
  Status wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& enough);

  Rollouts& rollouts_;
  RolloutLoopOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> callers_{0};  // that want the lock: the thread lets them pass
  std::vector<Group> ready_, evaluated_;
  Status failed_ = ok();
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace musacoder::train
