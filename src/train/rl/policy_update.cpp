#include "train/rl/policy_update.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "llm/model/logprobs.h"
#include "train/rl/exchange.h"

namespace musacoder::train {
namespace {

constexpr std::size_t kMostMeasured = 1 << 16;  // tokens that a process tells others of

double quantile(const std::vector<float>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1) + 0.5)];
}

}  // namespace

Result<std::unique_ptr<Reference>> Reference::open(const std::string& path, const std::string& type,
                                                   TrainedModel& model) {
  std::unique_ptr<Reference> out(new Reference(model));
  if (path.empty()) return out;
  MC_ASSIGN_OR_RETURN(out->weights_, llm::Weights::open(path, {.type = type == "bf16" ? llm::WeightType::kBF16
                                                                                      : llm::WeightType::kF32,
                                                               .device = model.device()}));
  if (out->weights_->config().vocab != model.config().vocab)
    return fail(Code::kInvalidArgument, "objective.reference: {} has {} tokens, and the model {}", path,
                out->weights_->config().vocab, model.config().vocab);
  out->decoder_.emplace(*out->weights_);
  return out;
}

at::Tensor Reference::logprobs(const Pass& pass, double temperature) {
  const at::NoGradGuard no_grad;
  if (!decoder_) return model_.logprobs(pass.packed, pass.targets, temperature, TrainedModel::Adapters::kOff);
  const llm::Packed packed = llm::on_device(pass.packed, model_.device());
  llm::PackedAttention attention(packed);
  const at::Tensor targets = pass.targets.to(model_.device()), rows = targets.ge(0).nonzero().squeeze(1);
  return llm::token_logprobs(decoder_->hidden(packed, attention).index_select(0, rows), decoder_->head(),
                             targets.index_select(0, rows), temperature);
}

// Over the passes of one optimizer step, and then over all processes.
struct PolicyUpdate::Sums {
  enum { kNumerator, kDenominator, kTokens, kLow, kHigh, kKl, kKept, kPresent, kCount };
  std::array<double, kCount> of{};
};

std::vector<std::int64_t> PolicyUpdate::most(const std::vector<std::int64_t>& mine) {
  const auto size = static_cast<std::int64_t>(mine.size());
  const at::Tensor whole =
      at::zeros({all_.world() * size}, at::TensorOptions(at::kLong).device(model_.device()));
  all_.all_gather(whole, at::tensor(mine, at::kLong).to(model_.device())).wait();
  const at::Tensor largest = std::get<0>(whole.view({all_.world(), size}).max(0)).cpu();
  return {largest.const_data_ptr<std::int64_t>(), largest.const_data_ptr<std::int64_t>() + size};
}

// Log-probabilities under the weights that the batch begins with, and under the reference's.
void PolicyUpdate::prepare(std::vector<Pass>& passes, std::size_t rounds) {
  const at::NoGradGuard no_grad;
  const bool several = config_.mini_batches * config_.batch_epochs > 1;
  while (passes.size() < rounds) passes.push_back(empty_pass());
  for (Pass& pass : passes) {
    if (several || config_.old_logprobs == "always")
      pass.old = model_.logprobs(pass.packed, pass.targets, config_.temperature);
    if (reference_ && !pass.empty()) pass.reference = reference_->logprobs(pass, config_.temperature);
  }
}

void PolicyUpdate::measure(const Pass& pass, const at::Tensor& current) {
  const at::Tensor drift = (current.detach().to(at::kCPU, at::kFloat) - pass.rollout).contiguous();
  k3_sum_ += (at::expm1(drift) - drift).sum().item<double>();
  signed_sum_ += drift.sum().item<double>();
  const float* values = drift.const_data_ptr<float>();
  for (std::size_t i = 0; i < pass.ages.size(); ++i) drift_.emplace_back(std::fabs(values[i]), pass.ages[i]);
}

void PolicyUpdate::one_pass(const Pass& pass, double expected, Sums& sums, bool first) {
  Shards& shards = model_.shards();
  const at::Tensor current = model_.logprobs(pass.packed, pass.targets, config_.temperature);
  if (pass.empty()) {
    shards.begin_backward();
    (current.sum() * 0).backward();
    shards.end_pass();
    return;
  }
  if (first) measure(pass, pass.old.defined() ? pass.old : current);
  const at::Device device = model_.device();
  const rl::Tokens tokens{.current = current,
                          .old = pass.old,
                          .rollout = pass.rollout.to(device),
                          .reference = pass.reference,
                          .mask = at::ones_like(current).detach(),
                          .response = pass.owner.to(device),
                          .responses = static_cast<std::int64_t>(pass.responses.size())};
  const rl::Objective o = rl::objective(tokens, pass.advantage, pass.valid, objective_);
  shards.begin_backward();
  (o.loss * (o.denominator / expected)).backward();
  shards.end_pass();
  const double trained = o.metrics.at("tokens"), loss = o.loss.item<double>();
  sums.of[Sums::kNumerator] += loss * o.denominator;
  sums.of[Sums::kDenominator] += o.denominator;
  sums.of[Sums::kTokens] += trained;
  sums.of[Sums::kLow] += trained * o.metrics.at("clipped_low");
  sums.of[Sums::kHigh] += trained * o.metrics.at("clipped_high");
  if (o.metrics.count("kl")) sums.of[Sums::kKl] += trained * o.metrics.at("kl");
  sums.of[Sums::kKept] += o.metrics.at("responses");
  sums.of[Sums::kPresent] += static_cast<double>(pass.responses.size());
}

UpdateResult PolicyUpdate::run(const std::vector<Response>& responses,
                               const std::vector<std::size_t>& part_of, std::int64_t version,
                               const std::function<double(std::int64_t)>& rate) {
  const auto parts = static_cast<std::size_t>(config_.mini_batches);
  std::vector<std::vector<std::size_t>> members(parts);
  std::vector<std::int64_t> mine(parts);  // passes of each part
  std::vector<std::vector<Pass>> passes(parts);
  const bool by_token = objective_.normalisation == rl::Normalisation::kTokenMean;
  for (std::size_t i = 0; i < responses.size(); ++i) members[part_of[i]].push_back(i);
  std::vector<double> expected(parts);  // what its denominator is where nothing is masked
  for (std::size_t p = 0; p < parts; ++p) {
    passes[p] = make_passes(responses, members[p], config_.pass_tokens, version);
    mine[p] = static_cast<std::int64_t>(passes[p].size());
    for (const Pass& pass : passes[p])
      expected[p] += static_cast<double>(by_token ? pass.rollout.numel()
                                                  : static_cast<std::int64_t>(pass.responses.size()));
  }
  const std::vector<std::int64_t> rounds = most(mine);
  const at::Tensor counted = at::tensor(expected, at::kDouble).to(model_.device());
  all_.sum(counted);
  const at::Tensor counted_here = counted.cpu();
  for (std::size_t p = 0; p < parts; ++p) prepare(passes[p], static_cast<std::size_t>(rounds[p]));

  UpdateResult out;
  Sums total;
  double norm_sum = 0;
  std::int64_t update = 0;
  drift_.clear();
  k3_sum_ = signed_sum_ = 0;
  for (std::int64_t epoch = 0; epoch < config_.batch_epochs; ++epoch)
    for (std::size_t p = 0; p < parts; ++p, ++update) {
      const double most_counted = counted_here[static_cast<std::int64_t>(p)].item<double>();
      if (passes[p].empty() || most_counted == 0) {
        ++out.empty;
        continue;
      }
      Sums sums;
      Shards& shards = model_.shards();
      shards.begin_step();
      for (std::size_t i = 0; i < passes[p].size(); ++i) {
        shards.begin_pass(i + 1 == passes[p].size());
        one_pass(passes[p][i], most_counted, sums, epoch == 0);
      }
      const at::Tensor shared =
          at::tensor(std::vector<double>(sums.of.begin(), sums.of.end()), at::kDouble).to(model_.device());
      all_.sum(shared);
      const at::Tensor here = shared.cpu();
      for (std::size_t i = 0; i < sums.of.size(); ++i)
        sums.of[i] = here[static_cast<std::int64_t>(i)].item<double>();
      const double scaled = shards.finish_gradients(), denominator = sums.of[Sums::kDenominator];
      for (std::size_t i = 0; i < sums.of.size(); ++i) total.of[i] += sums.of[i];
      if (denominator == 0) {
        ++out.empty;
        continue;
      }
      // Passes divided by what could have counted; now it is known what did.
      const double correction = most_counted / denominator, norm = scaled * correction;
      if (!std::isfinite(norm) || !std::isfinite(sums.of[Sums::kNumerator])) {
        ++out.skipped;
        continue;
      }
      shards.step(rate(update), correction * clip_scale(norm, config_.clip));
      ++out.optimizer_steps;
      out.norm_max = std::max(out.norm_max, norm);
      norm_sum += norm;
    }
  const double trained = std::max(1.0, total.of[Sums::kTokens]), present = total.of[Sums::kPresent];
  out.numbers = {
      {"train/loss",
       total.of[Sums::kDenominator] > 0 ? total.of[Sums::kNumerator] / total.of[Sums::kDenominator] : 0},
      {"train/grad_norm", out.optimizer_steps ? norm_sum / static_cast<double>(out.optimizer_steps) : 0},
      {"train/grad_norm_max", out.norm_max},
      {"train/tokens", total.of[Sums::kTokens]},
      {"train/clipped_low", total.of[Sums::kLow] / trained},
      {"train/clipped_high", total.of[Sums::kHigh] / trained},
      {"train/masked_share", present > 0 ? 1 - total.of[Sums::kKept] / present : 0}};
  if (reference_) out.numbers.emplace_back("train/kl", total.of[Sums::kKl] / trained);
  add_ratios(out.numbers);
  return out;
}

// Of all processes' tokens: |log π − log π_rollout| before the first update.
void PolicyUpdate::add_ratios(Numbers& numbers) {
  nlohmann::json mine = {{"n", drift_.size()}, {"k3", k3_sum_}, {"signed", signed_sum_}};
  std::vector<float> drift;
  std::vector<std::int64_t> ages;
  const std::size_t stride = drift_.size() / kMostMeasured + 1;
  float largest = 0;
  for (std::size_t i = 0; i < drift_.size(); ++i) {
    largest = std::max(largest, drift_[i].first);
    if (i % stride) continue;
    drift.push_back(drift_[i].first);
    ages.push_back(drift_[i].second);
  }
  if (all_.world() > 1) {
    mine["drift"] = drift;
    mine["ages"] = ages;
    mine["max"] = largest;
    drift.clear();
    ages.clear();
    k3_sum_ = signed_sum_ = largest = 0;
  }
  std::size_t count = drift_.size();
  if (all_.world() > 1) {
    count = 0;
    for (const std::string& text : exchange(all_, model_.device(), mine.dump())) {
      const auto theirs = nlohmann::json::parse(text);
      for (const auto& one : theirs["drift"]) drift.push_back(one.is_null() ? INFINITY : one.get<float>());
      for (const auto& one : theirs["ages"]) ages.push_back(one.get<std::int64_t>());
      count += theirs["n"].get<std::size_t>();
      if (theirs["k3"].is_number()) k3_sum_ += theirs["k3"].get<double>();
      if (theirs["signed"].is_number()) signed_sum_ += theirs["signed"].get<double>();
      if (theirs["max"].is_number()) largest = std::max(largest, theirs["max"].get<float>());
    }
  }
  std::map<std::int64_t, std::vector<float>> by_age;
  for (std::size_t i = 0; i < drift.size(); ++i) by_age[ages[i]].push_back(drift[i]);
  std::sort(drift.begin(), drift.end());
  const double n = std::max<double>(1, static_cast<double>(count));
  double sum = 0;
  for (const float one : drift) sum += one;
  numbers.emplace_back("ratio/abs_mean", drift.empty() ? 0 : sum / static_cast<double>(drift.size()));
  for (const auto& [name, part] : {std::pair("p50", 0.5), std::pair("p90", 0.9), std::pair("p99", 0.99)})
    numbers.emplace_back(fmt::format("ratio/abs_{}", name), quantile(drift, part));
  numbers.emplace_back("ratio/abs_max", largest);
  numbers.emplace_back("ratio/mean", signed_sum_ / n);
  numbers.emplace_back("ratio/k3", k3_sum_ / n);
  if (by_age.size() > 1 || (!by_age.empty() && by_age.begin()->first != 0))
    for (auto& [age, values] : by_age) {
      std::sort(values.begin(), values.end());
      numbers.emplace_back(fmt::format("ratio/age_{}/p50", age), quantile(values, 0.5));
      numbers.emplace_back(fmt::format("ratio/age_{}/p99", age), quantile(values, 0.99));
      numbers.emplace_back(fmt::format("ratio/age_{}/tokens", age), static_cast<double>(values.size()));
    }
}

}  // namespace musacoder::train
