#include "llm/kernels/row_ops.h"

#include <algorithm>
#include <cmath>

#include "llm/kernels/cpu_kernels.h"

namespace musacoder::llm {

at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      at::ScalarType out) {
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
    if (w.scalar_type() == at::kBFloat16)
      run.linear_bf16(from, rows, in, reinterpret_cast<const std::uint16_t*>(w.const_data_ptr()), begin, end,
                      to, features);
    else
      run.linear_f32(from, rows, in, w.const_data_ptr<float>(), begin, end, to, features);
  });
  if (bias.defined()) y.add_(bias.to(at::kFloat));
  return y.to(out);
}

at::Tensor row_scale(const at::Tensor& x, double eps) {
  const at::NoGradGuard no_grad;
  const at::Tensor wide = x.to(at::kFloat).contiguous();
  std::vector<std::int64_t> sizes = x.sizes().vec();
  const std::int64_t dim = sizes.back();
  sizes.back() = 1;
  at::Tensor out = at::empty(sizes, wide.options());
  float* sums = out.mutable_data_ptr<float>();
  cpu_kernels().square_sums(wide.const_data_ptr<float>(), out.numel(), dim, sums);
  for (std::int64_t r = 0; r < out.numel(); ++r)
    sums[r] = 1 / std::sqrt(sums[r] / static_cast<float>(dim) + static_cast<float>(eps));
  return out;
}

at::Tensor row_silu(const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  const at::Tensor wide = x.to(at::kFloat).contiguous(), out = at::empty_like(wide);
  const float* from = wide.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  at::parallel_for(0, wide.numel(), 16384, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = from[i] / (1 + std::exp(-from[i]));
  });
  return out.to(x.scalar_type());
}

Rotation row_rotation(const at::Tensor& positions, const at::Tensor& frequencies) {
  const std::int64_t rows = positions.numel(), pairs = frequencies.numel();
  Rotation out{at::empty({rows, 2 * pairs}, frequencies.options()),
               at::empty({rows, 2 * pairs}, frequencies.options())};
  const std::int64_t* position = positions.const_data_ptr<std::int64_t>();
  const float* frequency = frequencies.const_data_ptr<float>();
  float *cos = out.cos.mutable_data_ptr<float>(), *sin = out.sin.mutable_data_ptr<float>();
  for (std::int64_t r = 0; r < rows; ++r, cos += 2 * pairs, sin += 2 * pairs)
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float angle = static_cast<float>(position[r]) * frequency[i];
      cos[i] = cos[i + pairs] = std::cos(angle);
      sin[i] = sin[i + pairs] = std::sin(angle);
    }
  return out;
}

}  // namespace musacoder::llm
