// SIGTERM and SIGINT as something to wait for, for commands that run until they are told to end.
//
//   StopSignal stop;            // from here on the signals do not end the process
//   stop.wait();                // the first one
//   if (stop.wait(0)) ...       // another one since
//
// One at a time, on the main thread.
#pragma once

namespace musacoder::base {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  // Until a signal came that was not waited for yet, or the time is over (negative: for ever). Whether one
  // came.
  bool wait(double seconds = -1);

 private:
  int read_fd_ = -1;
};

}  // namespace musacoder::base
