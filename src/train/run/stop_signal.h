// SIGINT and SIGTERM as a question between steps.
//
//   StopSignal stop;                   // from here on
//   while (!stop.asked()) step();
//
// The second signal acts as it would have without this; the destructor puts back what was before. One at a
// time.
#pragma once

#include <csignal>

namespace musacoder::train {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  static bool asked();

 private:
  struct sigaction before_[2] = {};
};

}  // namespace musacoder::train
