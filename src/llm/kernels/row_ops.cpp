#include "llm/kernels/row_ops.h"

#include "llm/kernels/cpu_kernels.h"

namespace musacoder::llm {

at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::ScalarType out) {
  const at::NoGradGuard no_grad;
  const at::Tensor wide = x.to(at::kFloat).contiguous();
  const at::Tensor w = weight.scalar_type() == at::kHalf ? weight.to(at::kFloat) : weight.contiguous();
  const std::int64_t rows = x.size(0), in = x.size(1), features = w.size(0);
  at::Tensor y = at::empty({rows, features}, wide.options());
  const float* from = wide.const_data_ptr<float>();
  float* to = y.mutable_data_ptr<float>();
  const CpuKernels& run = cpu_kernels();
  const std::int64_t grain = std::max<std::int64_t>(16, 32768 / std::max<std::int64_t>(1, in * rows));
  at::parallel_for(0, features, grain, [&](std::int64_t begin, std::int64_t end) {
    if (w.scalar_type() == at::kBFloat16) run.linear_bf16(from, rows, in, reinterpret_cast<const std::uint16_t*>(w.const_data_ptr()), begin, end, to, features);
    else run.linear_f32(from, rows, in, w.const_data_ptr<float>(), begin, end, to, features);
  });
  if (bias.defined()) y.add_(bias.to(at::kFloat));
  return y.to(out);
}

}  // namespace musacoder::llm
