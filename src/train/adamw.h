// AdamW (Loshchilov & Hutter, https://arxiv.org/abs/1711.05101) over a list of parameters, by libtorch's
// fused step.
//
//   AdamW optimizer(parameters, {.learning_rate = 1e-5, .weight_decay = 0.01});
//   loss.backward();
//   const double norm = clip_gradients(parameters, 1.0);
//   optimizer.step();                       // then clear_gradients(parameters)
//
// Same numbers as torch.optim.AdamW(fused=True). Parameters without a gradient are left alone. Moments have
// the parameter's type. Weight decay may be given for each parameter by itself, and moments may lie in
// memory of the caller's.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/torch.h"

namespace musacoder::train {

struct AdamWConfig {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
};

class AdamW {
 public:
  AdamW(std::vector<at::Tensor> parameters, const AdamWConfig& config);
  AdamW(std::vector<at::Tensor> parameters, const AdamWConfig& config, std::vector<double> weight_decays,
        std::vector<at::Tensor> first, std::vector<at::Tensor> second);
  void step();
  void set_learning_rate(double rate) { config_.learning_rate = rate; }
  // As if so many steps had been taken, for a state that is read back.
  void set_steps(std::int64_t steps);

 private:
  AdamWConfig config_;
  std::vector<at::Tensor> parameters_, first_, second_, steps_;
  std::vector<double> decays_;
};

void clear_gradients(const std::vector<at::Tensor>& parameters);
// Scales all gradients so that their common 2-norm is at most `limit`, as torch.nn.utils.clip_grad_norm_
// does; returns the norm before.
double clip_gradients(const std::vector<at::Tensor>& parameters, double limit);

}  // namespace musacoder::train
