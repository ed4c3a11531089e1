#include "train/adamw.h"

#include <algorithm>

namespace musacoder::train {

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamWConfig& config)
    : config_(config), parameters_(std::move(parameters)) {
  for (const at::Tensor& one : parameters_) {
    first_.push_back(at::zeros_like(one));
    second_.push_back(at::zeros_like(one));
    steps_.push_back(at::zeros({}, one.options().dtype(at::kFloat).requires_grad(false)));
  }
}

void AdamW::step() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters, gradients, first, second, steps;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    steps_[i].add_(1);
    parameters.push_back(parameters_[i]);
    gradients.push_back(parameters_[i].grad());
    first.push_back(first_[i]);
    second.push_back(second_[i]);
    steps.push_back(steps_[i]);
  }
  if (parameters.empty()) return;
  at::_fused_adamw_(parameters, gradients, first, second, {}, steps, config_.learning_rate, config_.beta1,
                    config_.beta2, config_.weight_decay, config_.epsilon,
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
