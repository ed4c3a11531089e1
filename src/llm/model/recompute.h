// Activation checkpointing: a part of the model keeps only its input, and runs again when its gradient is
// asked for (https://arxiv.org/abs/1604.06174).
//
//   at::Tensor y = recomputed(x, [&](const at::Tensor& in) { return layer(in); });
//
// `run` must give the same for the same input, and live until the backward pass is over. Gradients are the
// same bits as without.
#pragma once

#include <functional>

#include "llm/torch.h"

namespace musacoder::llm {

at::Tensor recomputed(const at::Tensor& x, std::function<at::Tensor(const at::Tensor&)> run);

}  // namespace musacoder::llm
