// When a request may go out: a number at a time, so many a minute, and nobody while the endpoint asked for a
// pause.
//
//   Limiter limiter({.per_minute = 60, .at_a_time = 8});
//   MC_ASSIGN_OR_RETURN(Limiter::Turn turn, limiter.wait(deadline));     // given back at scope end
//   limiter.pause(retry_after_s);
//
// Requests of a limited rate are spaced evenly. Thread safe. Errors of wait(): kDeadlineExceeded.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "base/clock.h"
#include "base/status.h"

namespace musacoder::chat {

struct LimiterConfig {
  double per_minute = 0;  // 0: no limit
  int at_a_time = 0;      // 0: no limit
  base::Clock* clock = &base::real_clock();
};

class Limiter {
 public:
  class Turn {
   public:
    explicit Turn(Limiter* owner) : owner_(owner) {}
    Turn(Turn&& other) noexcept : owner_(other.owner_) { other.owner_ = nullptr; }
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (owner_) owner_->give_back();
    }

   private:
    Limiter* owner_;
  };

  explicit Limiter(LimiterConfig config) : config_(config) {}
  Result<Turn> wait(const base::Deadline& deadline, const std::function<bool()>& cancelled = {});
  void pause(double seconds);

 private:
  void give_back();

  const LimiterConfig config_;
  std::mutex mutex_;
  std::condition_variable free_;
  int running_ = 0;
  double next_ = 0, paused_until_ = 0;
};

}  // namespace musacoder::chat
