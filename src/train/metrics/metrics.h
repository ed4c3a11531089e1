// A run's numbers, as JSON lines and for TensorBoard.
//
//   MC_ASSIGN_OR_RETURN(Metrics metrics, Metrics::open("run", {.resumed_at = 120}));
//   MC_RETURN_IF_ERROR(metrics.write(121, {{"train/loss", 2.5}, {"train/tokens", 4096}}));
//
// run/metrics.jsonl: {"step": 121, "time": 1767225600.5, "train/loss": 2.5, ...}. A run that is taken up at a
// step drops the lines of later steps first, which it will write again. Numbers that are not finite are null
// there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "train/metrics/event_file.h"

namespace musacoder::train {

using Numbers = std::vector<std::pair<std::string, double>>;

struct MetricsOptions {
  std::int64_t resumed_at = -1;  // steps that are done; -1: a new run
  bool tensorboard = true;
  base::Clock* clock = &base::real_clock();
};

// Leaves of a file of JSON lines those whose "step" is at most `done`; a line that a killed process left
// unfinished goes too. No file: nothing.
Status drop_later_lines(const std::string& path, std::int64_t done);

class Metrics {
 public:
  static Result<Metrics> open(const std::string& run_dir, const MetricsOptions& options);
  Status write(std::int64_t step, const Numbers& numbers);

 private:
  Metrics(base::Fd fd, std::optional<EventFile> events, base::Clock* clock)
      : fd_(std::move(fd)), events_(std::move(events)), clock_(clock) {}
  base::Fd fd_;
  std::optional<EventFile> events_;
  base::Clock* clock_;
};

}  // namespace musacoder::train
