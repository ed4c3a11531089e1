// The loop: rows of a plan through the model, a step of the optimizer for each batch, and what happens
// between steps.
//
//   Trainer trainer(config, std::move(data), std::move(eval), *model, *communicator);
//   MC_RETURN_IF_ERROR(trainer.resume());
//   MC_ASSIGN_OR_RETURN(const SftOutcome outcome, trainer.run());
//
// The loss of a step is the mean over all loss tokens of its rows, whatever the passes and processes that
// they are spread over: pass k of a step is done by process k mod world, and divides its sum by the step's
// count. A step whose gradient is not finite is left out and counted; ten in a row are an error.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/terminal.h"
#include "train/config/sft_config.h"
#include "train/data/dataset.h"
#include "train/data/plan.h"
#include "train/metrics/metrics.h"
#include "train/run/schedule.h"
#include "train/run/run_folder.h"
#include "train/sft/sft.h"
#include "train/run/trained_model.h"

namespace musacoder::train {

// Where a run stands, besides its tensors.
struct RunState {
  std::int64_t step = 0, epoch = 0, row = 0;  // the next row, in its epoch
  std::int64_t optimizer_steps = 0, skipped = 0;
  std::int64_t tokens = 0, loss_tokens = 0, examples = 0;  // trained so far
  std::uint64_t data = 0;                                  // Dataset::fingerprint()
  nlohmann::ordered_json config;                           // config_json()
  std::string random;                                      // random_state()
};

class Trainer {
 public:
  Trainer(const SftConfig& config, Dataset data, std::optional<Dataset> eval, TrainedModel& model,
          Communicator& all);
  // From the newest checkpoint of run.dir, if there is one.
  Status resume();
  Result<SftOutcome> run();
  std::int64_t total_steps() const { return schedule_.steps; }
  // What is trained on, for people.
  std::string describe() const;

 private:
  struct StepResult {
    double loss = 0, norm = 0;
    RowCounts counts;
    bool stop = false;
  };
  Result<StepResult> one_step();
  StepResult all_passes(std::size_t from, std::size_t to);
  double held_out_loss();
  Status checkpoint();
  Status after_step(const StepResult& result, double seconds);
  Status write_step(const StepResult& result, double seconds, bool end);  // line of metrics, line of progress
  void run_command(const std::string& checkpoint);
  void load_epoch();
  bool first() const { return all_.rank() == 0; }

  const SftConfig& config_;
  Dataset data_;
  std::optional<Dataset> eval_;
  TrainedModel& model_;
  Communicator& all_;
  Mixture mixture_;
  RowOptions rows_;
  Schedule schedule_;
  RunFolder folder_;
  RunState state_;
  EpochPlan plan_, eval_plan_;
  std::int64_t planned_epoch_ = -1, saved_step_ = -1, skipped_in_row_ = 0;
  std::optional<Metrics> metrics_;
  std::optional<base::ProgressLine> progress_;
  Numbers extra_;  // of evaluations behind this step
};

}  // namespace musacoder::train
