// Time behind an interface, so that code with deadlines and durations is tested without waiting.
//
//   Stopwatch watch;                       // real clock
//   Deadline deadline = Deadline::in(2.5); // seconds from now
//   while (!deadline.expired()) poll(fds, n, deadline.poll_ms());
//   report(watch.seconds());
//
// All times are seconds as double: monotonic for durations, Unix time for stamps. Thread safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace musacoder::base {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now() = 0;                  // monotonic, arbitrary origin
  virtual double unix_time() = 0;            // seconds since 1970
  virtual void sleep(double seconds) = 0;    // at least this long
};

Clock& real_clock();

// Moves only when told to; sleep() advances it at once.
class FakeClock : public Clock {
 public:
  explicit FakeClock(double start = 1000.0) : now_(start) {}
  double now() override;
  double unix_time() override;
  void sleep(double seconds) override { advance(seconds); }
  void advance(double seconds);

 private:
  std::mutex mutex_;
  double now_;
};

class Stopwatch {
 public:
  explicit Stopwatch(Clock& clock = real_clock()) : clock_(&clock), start_(clock.now()) {}
  double seconds() const { return clock_->now() - start_; }
  // Seconds since the start or the last lap.
  double lap();

 private:
  Clock* clock_;
  double start_;
};

class Deadline {
 public:
  static Deadline in(double seconds, Clock& clock = real_clock()) { return Deadline(&clock, clock.now() + seconds); }
  static Deadline never() { return Deadline(nullptr, 0); }
  bool is_never() const { return clock_ == nullptr; }
  bool expired() const { return clock_ && clock_->now() >= at_; }
  // Seconds left, never negative; a year for never().
  double remaining() const;
  // For poll(2): -1 for never(), else milliseconds left, rounded up, at most `cap_ms`.
  int poll_ms(int cap_ms = 1 << 30) const;
  // The earlier of this one and `seconds` from now.
  Deadline sooner(double seconds) const;

 private:
  Deadline(Clock* clock, double at) : clock_(clock), at_(at) {}
  Clock* clock_;
  double at_;
};

// "2026-11-30T07:01:22Z"
std::string iso_time(double unix_time);

}  // namespace musacoder::base
