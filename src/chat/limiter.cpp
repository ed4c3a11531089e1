#include "chat/limiter.h"

#include <algorithm>

namespace musacoder::chat {

Result<Limiter::Turn> Limiter::wait(const base::Deadline& deadline, const std::function<bool()>& cancelled) {
  const auto late = [] {
    return fail(Code::kDeadlineExceeded, "the time was over before the request's turn");
  };
  std::unique_lock lock(mutex_);
  while (config_.at_a_time > 0 && running_ >= config_.at_a_time) {
    free_.wait_for(lock, std::chrono::milliseconds(200));
    if (deadline.expired() || (cancelled && cancelled())) return late();
  }
  ++running_;
  Turn turn(this);
  double slot = 0;
  if (config_.per_minute > 0) {
    slot = std::max(next_, config_.clock->now());
    next_ = slot + 60 / config_.per_minute;
  }
  for (;;) {
    const double now = config_.clock->now(), until = std::max(slot, paused_until_);
    if (until <= now) return turn;
    lock.unlock();  // also before the turn is given back
    if (until - now > deadline.remaining() || (cancelled && cancelled())) return late();
    config_.clock->sleep(std::min(until - now, 0.5));
    lock.lock();
  }
}

void Limiter::pause(double seconds) {
  std::lock_guard lock(mutex_);
  paused_until_ = std::max(paused_until_, config_.clock->now() + seconds);
}

void Limiter::give_back() {
  {
    std::lock_guard lock(mutex_);
    --running_;
  }
  free_.notify_one();
}

}  // namespace musacoder::chat
