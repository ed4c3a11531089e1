// AdamW over all parameters in one launch on a GPU, with the gradients clipped by their global norm there.
//
//   FusedAdamW step;
//   step.run({.parameters = p, .gradients = g, .masters = m, .first = a, .second = b}, factors,
//   /*limit=*/1.0); step.norm();                 // of the gradients before clipping, a float32 scalar on the
//   device
//
// Nothing waits for the device. Moments and masters are float32; parameters and gradients float32 or bf16,
// one type for all, contiguous, on one device of which fused_on() is true. The reference is train/adamw.h.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/kernels/cuda/kernels.h"
#include "llm/torch.h"

namespace musacoder::llm {

struct AdamWTensors {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<at::Tensor>
      masters;  // float32 values that parameters are rounded from; empty: float32 parameters
  std::vector<at::Tensor> first, second;
};

struct AdamWFactors {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  std::int64_t step = 1;  // counted from 1
};

class FusedAdamW {
 public:
  // `limit` 0: no clipping, and norm() is undefined.
  void run(const AdamWTensors& tensors, const AdamWFactors& factors, double limit = 0);
  const at::Tensor& norm() const { return norm_; }

 private:
  std::vector<AdamWTensor> rows_;  // what table_ holds: it is sent anew when addresses change
  at::Tensor table_, partial_, norm_;
};

}  // namespace musacoder::llm
