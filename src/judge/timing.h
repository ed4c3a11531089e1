// Level L4: how long a call takes on real hardware, by a clock that the candidate cannot reach.
//
// One hand-over is K calls in one request to the candidate's runner: before each, fresh inputs and the module's state are put
// in place and the L2 cache is flushed; device events stand around the call alone; after it the outputs are copied away. All
// outputs of every timed call are compared. The events are the candidate's process's word, so they are bounded from both sides:
//
//   outer clock    the judge times the whole hand-over. What putting in place, flushing and copying away cost is known from the
//                  reference runner, which runs the same loop with the same sizes. Events that add up to far less than what is
//                  left are not believed.
//   floor          outputs that exceed the L2 cache must have been written to memory: fewer seconds than bytes over peak
//                  bandwidth are not believed. The reference's FLOPs at the GPU's peak are told beside it; they bound nothing, since
//                  a candidate may find a way with less arithmetic.
//
// Baselines (eager and torch.compile, strict float32 and TF32) are measured in the reference runner by the same loop, and kept
// in the cache folder by task, sizes, GPU, driver and torch version. Eager is measured again before and after the candidate
// (A/B/A); the speed-up is against these.
//
//   Timing timing;
//   MC_ASSIGN_OR_RETURN(TimingEnd end, measure(context, timing));   // Error: a status (TaskLane::ended) or the device's trouble
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "device/device.h"
#include "judge/judge.h"
#include "judge/runner_client.h"
#include "judge/task_lane.h"
#include "judge/verdict.h"

namespace musacoder::judge {

struct TimingContext {
  const JudgeConfig& config;
  TaskLane& lane;                 // held exclusively by the caller
  const OpenTask& task;
  RunnerClient& runner;
  device::Session& session;
  device::Device& device;
  std::uint64_t seed = 0;
  double call_ms = 0;             // the quickest call so far by the judge's clock, waiting included; 0 unknown
  std::function<base::Deadline(double)> deadline;   // of so many seconds, or less
  std::function<bool()> cancelled;
};

// How measuring ended. `reply`: the runner did not answer as asked (an exception, a hang): the caller says what that means.
struct TimingEnd {
  std::string status = "ok", cause;
  std::optional<RunnerReply> reply;
  device::WindowReport ledger;    // of the hand-over that was watched
};

Result<TimingEnd> measure(const TimingContext& context, Timing& timing);

// Order statistics of samples, milliseconds.
TimeSamples summarize(std::vector<double> ms);

// Whether K events that add up to `events_ms` can be true, where the hand-over took `outer_ms` and everything beside the calls
// takes about `beside_ms`. Generous: a factor of two, and 2 ms.
bool events_are_plausible(double events_ms, double outer_ms, double beside_ms);

}  // namespace musacoder::judge
