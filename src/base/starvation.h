// How much of a span of time processes only waited for a core, so that limits on wall time do not punish whoever shares a
// machine that has too much to do.
//
//   base::Starvation starved({runner, server});      // process ids
//   ... wait, up to a deadline ...
//   deadline = base::Deadline::in(starved.seconds());   // what they are owed
//
// Linux counts for every thread how long it ran and how long it was ready without running (/proc/PID/schedstat). What is
// owed is the part waited / (ran + waited) of the span, over all threads, and no more than they waited: one that sleeps or waits
// for a device is owed nothing.
// A process that starves itself with threads of its own is owed time as well: callers bound what they grant.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/clock.h"

namespace musacoder::base {

// `root` and its descendants, as they are now. Reads all of /proc: some milliseconds.
std::vector<pid_t> process_tree(pid_t root);

// Seconds over all threads; those of processes that cannot be read (gone, another user's) are 0.
struct CpuTimes {
  double ran = 0, waited = 0;
};
CpuTimes cpu_times(const std::vector<pid_t>& processes);

class Starvation {
 public:
  explicit Starvation(std::vector<pid_t> processes);   // ids below 1 are left out
  double seconds() const;                              // since construction
 private:
  std::vector<pid_t> processes_;
  CpuTimes before_;
  Stopwatch watch_;
};

}  // namespace musacoder::base
