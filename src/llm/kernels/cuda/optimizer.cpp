#include "llm/kernels/cuda/optimizer.h"

#include <cmath>
#include <cstring>

#include "llm/kernels/cuda/load.h"

namespace musacoder::llm {

void FusedAdamW::run(const AdamWTensors& tensors, const AdamWFactors& factors, double limit) {
  const at::NoGradGuard no_grad;
  if (tensors.parameters.empty()) return;
  std::vector<AdamWTensor> rows;
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    const at::Tensor &parameter = tensors.parameters[i], &gradient = tensors.gradients[i];
    TORCH_CHECK(parameter.is_contiguous() && gradient.is_contiguous() &&
                    gradient.scalar_type() == parameter.scalar_type(),
                "AdamW on a GPU: a gradient that is not laid out as its parameter");
    rows.push_back({parameter.mutable_data_ptr(), gradient.const_data_ptr(),
                    tensors.masters.empty() ? nullptr : tensors.masters[i].mutable_data_ptr<float>(),
                    tensors.first[i].mutable_data_ptr<float>(), tensors.second[i].mutable_data_ptr<float>(),
                    parameter.numel(), blocks});
    blocks += (parameter.numel() + kAdamWBlock - 1) / kAdamWBlock;
  }
  const at::Tensor& any = tensors.parameters[0];
  const auto bytes = static_cast<std::int64_t>(rows.size() * sizeof(AdamWTensor));
  if (rows.size() != rows_.size() ||
      std::memcmp(rows.data(), rows_.data(), rows.size() * sizeof(AdamWTensor))) {
    rows_ = std::move(rows);
    table_ = at::from_blob(rows_.data(), {bytes}, at::TensorOptions(at::kByte)).to(any.device());
  }
  if (!partial_.defined() || partial_.numel() != blocks) {
    partial_ = at::empty({blocks}, any.options().dtype(at::kFloat).requires_grad(false));
    norm_ = at::Tensor();
  }
  const auto* table = reinterpret_cast<const AdamWTensor*>(table_.const_data_ptr());
  const auto count = static_cast<std::int64_t>(rows_.size());
  const int type = kernel_type(any);
  void* stream = cuda_stream(any);
  if (limit > 0) {
    if (!norm_.defined()) norm_ = at::empty({}, partial_.options());
    check_cuda(cuda_kernels().mc_gradient_norm(type, table, count, blocks, partial_.mutable_data_ptr<float>(),
                                               norm_.mutable_data_ptr<float>(), stream),
               "gradient_norm");
  } else {
    norm_ = at::Tensor();
  }
  const auto step = static_cast<double>(factors.step);
  check_cuda(
      cuda_kernels().mc_adamw(type, table, count, blocks, limit > 0 ? norm_.const_data_ptr<float>() : nullptr,
                              static_cast<float>(limit), static_cast<float>(factors.learning_rate),
                              static_cast<float>(factors.beta1), static_cast<float>(factors.beta2),
                              static_cast<float>(factors.epsilon), static_cast<float>(factors.weight_decay),
                              static_cast<float>(1 - std::pow(factors.beta1, step)),
                              static_cast<float>(std::sqrt(1 - std::pow(factors.beta2, step))), stream),
      "adamw");
}

}  // namespace musacoder::llm
