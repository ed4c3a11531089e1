#include "train/adamw.h"

#include <algorithm>
#include <map>

namespace musacoder::train {

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamWConfig& config)
    : config_(config), parameters_(std::move(parameters)), decays_(parameters_.size(), config.weight_decay) {
  for (const at::Tensor& one : parameters_) {
    first_.push_back(at::zeros_like(one));
    second_.push_back(at::zeros_like(one));
    steps_.push_back(at::zeros({}, one.options().dtype(at::kFloat).requires_grad(false)));
  }
}

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamWConfig& config, std::vector<double> weight_decays,
             std::vector<at::Tensor> first, std::vector<at::Tensor> second)
    : config_(config),
      parameters_(std::move(parameters)),
      first_(std::move(first)),
      second_(std::move(second)),
      decays_(std::move(weight_decays)) {
  for (const at::Tensor& one : parameters_)
    steps_.push_back(at::zeros({}, one.options().dtype(at::kFloat).requires_grad(false)));
}

void AdamW::set_steps(std::int64_t steps) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& one : steps_) one.fill_(static_cast<double>(steps));
}

void AdamW::step() {
  const at::NoGradGuard no_grad;
  struct Group {
    std::vector<at::Tensor> parameters, gradients, first, second, steps;
  };
  std::map<double, Group> groups;  // by weight decay
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    steps_[i].add_(1);
    Group& group = groups[decays_[i]];
    group.parameters.push_back(parameters_[i]);
    group.gradients.push_back(parameters_[i].grad());
    group.first.push_back(first_[i]);
    group.second.push_back(second_[i]);
    group.steps.push_back(steps_[i]);
  }
  for (auto& [decay, group] : groups)
    at::_fused_adamw_(group.parameters, group.gradients, group.first, group.second, {}, group.steps,
                      config_.learning_rate, config_.beta1, config_.beta2, decay, config_.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
}

void clear_gradients(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& one : parameters) one.mutable_grad() = at::Tensor();
}

double clip_gradients(const std::vector<at::Tensor>& parameters, double limit) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& one : parameters)
    if (one.grad().defined()) norms.push_back(one.grad().norm(2, at::kFloat));
  if (norms.empty()) return 0;
  const double total = at::stack(norms).norm().item<double>();
  const double scale = std::min(1.0, limit / (total + 1e-6));
  if (scale < 1)
    for (const at::Tensor& one : parameters)
      if (one.grad().defined()) one.grad().mul_(scale);
  return total;
}

}  // namespace musacoder::train
