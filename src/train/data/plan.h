// Which examples an epoch has, in what order, and how they lie in rows: all a pure function of the seed.
//
//   const EpochPlan plan = plan_epoch(data, {.weights = {{"reduction", 2}}, .shares = {{"general", 0.3}}},
//                                     {.length = 4096}, seed, /*epoch=*/0);
//   plan.rows[12];                       // the examples of the thirteenth row
//   RowBatch batch = make_batch(data, plan, 12, 16);          // rows 12 to 15, for the model
//
// Mixture. An epoch takes each example of a family `weight` times: 2.5 is twice all, and half of them at
// random without repetition. Of the examples that share a group it takes one, at random anew each time. A
// family with a share s has s of the epoch's examples, however many there are, others keeping their weights
// among each other. Rows. Best fit: an example goes into the fullest of the `window` open rows that has room
// for it; rows are trained in the order in which they were begun.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "llm/model/decoder.h"
#include "train/data/dataset.h"

namespace musacoder::train {

struct Mixture {
  std::map<std::string, double> weights, shares;  // by family; weight 1 where neither is given
};
// kInvalidArgument: a family that the data does not have (with the nearest), or nothing left to train on.
Status check_mixture(const Dataset& data, const Mixture& mixture);

struct RowOptions {
  std::int64_t length = 2048;
  bool packing = true;
  std::int64_t window = 64;
};

struct EpochPlan {
  std::vector<std::vector<std::uint32_t>> rows;  // examples, by row
  std::vector<std::uint64_t> family_examples;    // drawn of each family
};

// Examples of an epoch in their order, before they are packed.
std::vector<std::uint32_t> draw_examples(const Dataset& data, const Mixture& mixture, std::uint64_t seed,
                                         std::uint64_t epoch);
std::vector<std::vector<std::uint32_t>> pack_rows(const Dataset& data,
                                                  const std::vector<std::uint32_t>& order,
                                                  const RowOptions& options);
EpochPlan plan_epoch(const Dataset& data, const Mixture& mixture, const RowOptions& options,
                     std::uint64_t seed, std::uint64_t epoch);
// All examples once, in the order of the files: for a held-out loss.
EpochPlan plan_in_order(const Dataset& data, const RowOptions& options);

struct RowBatch {
  llm::Packed packed;
  at::Tensor targets;            // [tokens] int64: the next token where there is a loss on it, else -1
  std::int64_t loss_tokens = 0;  // targets that are not -1
};
// Rows from .. to of a plan; none: two tokens without a loss, for a process that has to keep others company.
RowBatch make_batch(const Dataset& data, const EpochPlan& plan, std::size_t from, std::size_t to);
// Tokens and tokens with a loss in rows from .. to.
struct RowCounts {
  std::int64_t tokens = 0, loss_tokens = 0, examples = 0;
};
RowCounts count_rows(const Dataset& data, const EpochPlan& plan, std::size_t from, std::size_t to);

}  // namespace musacoder::train
