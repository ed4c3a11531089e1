#include "train/rl/rollout_loop.h"

#include <algorithm>

#include "llm/torch.h"

namespace musacoder::train {
namespace {

constexpr double kPatience_s = 0.1;  // for the verifier, before the lock is given to who wants it

}  // namespace

// The lock, which the thread gives up for it.
class RolloutLoop::Hold {
 public:
  explicit Hold(RolloutLoop& loop) : loop_(loop) {
    ++loop_.callers_;
    lock = std::unique_lock(loop_.mutex_);
  }
  ~Hold() {
    --loop_.callers_;
    lock.unlock();
    loop_.changed_.notify_all();
  }

 private:
  RolloutLoop& loop_;

 public:
  std::unique_lock<std::mutex> lock;
};

RolloutLoop::RolloutLoop(Rollouts& rollouts, const RolloutLoopOptions& options)
    : rollouts_(rollouts), options_(options) {
  if (options_.threaded) thread_ = std::thread([this] { run(); });
}

RolloutLoop::~RolloutLoop() {
  {
    const Hold hold(*this);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

Status RolloutLoop::turn() {
  auto ended = rollouts_.advance(kPatience_s);
  if (!ended) return tl::unexpected<Error>(ended.error());
  for (Group& one : *ended) (one.start.evaluation ? evaluated_ : ready_).push_back(std::move(one));
  return ok();
}

void RolloutLoop::run() {
  const at::NoGradGuard no_grad;
  at::set_num_threads(options_.threads);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || (callers_ == 0 && failed_ && !rollouts_.idle()); });
    if (stopping_) return;
    Status status = turn();
    if (!status) failed_ = std::move(status);
    changed_.notify_all();
  }
}

// Until `enough`; generating here where there is no thread for it. The caller holds the lock.
Status RolloutLoop::wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& enough) {
  const at::NoGradGuard no_grad;
  while (failed_ && !enough()) {
    if (!options_.threaded) {
      failed_ = turn();
      continue;
    }
    --callers_;  // the thread may go on meanwhile
    changed_.notify_all();
    changed_.wait(lock, [&] { return !failed_ || enough(); });
    ++callers_;
  }
  return failed_;
}

Status RolloutLoop::start(const std::vector<GroupStart>& starts) {
  const Hold hold(*this);
  for (const GroupStart& one : starts) MC_RETURN_IF_ERROR(rollouts_.start(one));
  return failed_;
}

Result<std::vector<Group>> RolloutLoop::take(std::size_t count) {
  Hold hold(*this);
  MC_RETURN_IF_ERROR(wait_for(hold.lock, [&] { return ready_.size() >= count || rollouts_.idle(); }));
  count = std::min(count, ready_.size());
  const auto end = ready_.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<Group> out(std::make_move_iterator(ready_.begin()), std::make_move_iterator(end));
  ready_.erase(ready_.begin(), end);
  return out;
}

Result<std::vector<Group>> RolloutLoop::evaluate(const std::vector<GroupStart>& starts) {
  Hold hold(*this);
  evaluated_.clear();
  for (const GroupStart& one : starts) MC_RETURN_IF_ERROR(rollouts_.start(one));
  MC_RETURN_IF_ERROR(wait_for(hold.lock, [&] { return evaluated_.size() == starts.size(); }));
  return std::exchange(evaluated_, {});
}

Status RolloutLoop::standing(const std::function<Status()>& act) {
  const Hold hold(*this);
  return act();
}

RolloutLoop::Left RolloutLoop::left() {
  const Hold hold(*this);
  return {rollouts_.in_flight(), ready_};
}

void RolloutLoop::put_back(std::vector<Group> groups) {
  const Hold hold(*this);
  for (Group& one : groups) ready_.push_back(std::move(one));
}

std::size_t RolloutLoop::outstanding() {
  const Hold hold(*this);
  return rollouts_.in_flight().size() + ready_.size();
}

Rollouts::Counts RolloutLoop::counts() {
  const Hold hold(*this);
  return rollouts_.counts();
}

}  // namespace musacoder::train
