// A batch of scored answers into steps of the optimizer.
//
//   PolicyUpdate update(model, reference, all, config, objective);
//   MC_ASSIGN_OR_RETURN(UpdateResult done, update.run(responses, part_of, /*step=*/12, [&](std::int64_t n) {
//   return lr(n); }));
//
// The loss of a step is the objective over all its responses, whatever the passes and processes that they are
// spread over: passes add up numerators, and the gradient is divided by the denominator that all of them
// found, which with a mask is known only then. Every process does the same number of passes; those that have
// less do empty ones.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rl/objective.h"
#include "train/metrics/metrics.h"
#include "train/rl/batch.h"
#include "train/run/trained_model.h"

namespace musacoder::train {

// The frozen policy of the KL term: another set of weights, or the model without its adapters.
class Reference {
 public:
  // `path` empty: adapters off, and the model must have some.
  static Result<std::unique_ptr<Reference>> open(const std::string& path, const std::string& type,
                                                 TrainedModel& model);
  at::Tensor logprobs(const Pass& pass, double temperature);

 private:
  explicit Reference(TrainedModel& model) : model_(model) {}
  TrainedModel& model_;
  std::optional<llm::Weights> weights_;
  std::optional<llm::Decoder> decoder_;
};

struct UpdateResult {
  std::int64_t optimizer_steps = 0, skipped = 0, empty = 0;  // taken; not finite; with nothing left to train
  double norm_max = 0;
  Numbers numbers;  // train/*, ratio/*
};

class PolicyUpdate {
 public:
  PolicyUpdate(TrainedModel& model, Reference* reference, Communicator& all, const RlConfig& config,
               const rl::ObjectiveConfig& objective)
      : model_(model), reference_(reference), all_(all), config_(config), objective_(objective) {}

  // `part_of[i]`: which mini-batch response i is of. `version`: of the weights, before. `rate(n)`: learning
  // rate of the n-th optimizer step of this batch.
  UpdateResult run(const std::vector<Response>& responses, const std::vector<std::size_t>& part_of,
                   std::int64_t version, const std::function<double(std::int64_t)>& rate);

 private:
  struct Sums;
  void prepare(std::vector<Pass>& passes, std::size_t rounds);
  void one_pass(const Pass& pass, double expected, Sums& sums, bool measure);
  void measure(const Pass& pass, const at::Tensor& current);
  std::vector<std::int64_t> most(const std::vector<std::int64_t>& mine);
  void add_ratios(Numbers& numbers);

  TrainedModel& model_;
  Reference* reference_;
  Communicator& all_;
  const RlConfig& config_;
  rl::ObjectiveConfig objective_;
  std::vector<std::pair<float, std::int64_t>>
      drift_;  // |log ratio| and age of tokens, before the first update
  double k3_sum_ = 0, signed_sum_ = 0;
};

}  // namespace musacoder::train
