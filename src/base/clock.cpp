#include "base/clock.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <thread>

namespace musacoder::base {
namespace {

class RealClock : public Clock {
 public:
  double now() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  double unix_time() override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  void sleep(double seconds) override {
    if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
};

}  // namespace

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

double FakeClock::now() {
  std::lock_guard lock(mutex_);
  return now_;
}

double FakeClock::unix_time() { return 1.7e9 + now(); }

void FakeClock::advance(double seconds) {
  std::lock_guard lock(mutex_);
  now_ += std::max(0.0, seconds);
}

double Stopwatch::lap() {
  double now = clock_->now(), elapsed = now - start_;
  start_ = now;
  return elapsed;
}

double Deadline::remaining() const {
  if (!clock_) return 365.0 * 86400;
  return std::max(0.0, at_ - clock_->now());
}

int Deadline::poll_ms(int cap_ms) const {
  if (!clock_) return cap_ms == (1 << 30) ? -1 : cap_ms;
  return static_cast<int>(std::min<double>(cap_ms, std::ceil(remaining() * 1000)));
}

Deadline Deadline::sooner(double seconds) const {
  Clock& clock = clock_ ? *clock_ : real_clock();
  double at = clock.now() + seconds;
  return Deadline(&clock, clock_ ? std::min(at_, at) : at);
}

std::string iso_time(double unix_time) {
  std::time_t seconds = static_cast<std::time_t>(unix_time);
  std::tm tm{};
  gmtime_r(&seconds, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
  return text;
}

}  // namespace musacoder::base
