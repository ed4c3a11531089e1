#include "llm/kernels/row_ops.h"

#include <algorithm>
#include <cmath>

#include "llm/kernels/cpu_kernels.h"

namespace musacoder::llm {

namespace {

struct Packing {
  std::int64_t bytes, elements;
  PackedKind kind;
};
constexpr Packing kPackings[] = {{18, 32, PackedKind::kQ4_0},
                                 {20, 32, PackedKind::kQ4_1},
                                 {34, 32, PackedKind::kQ8_0},
                                 {144, 256, PackedKind::kQ4K},
                                 {210, 256, PackedKind::kQ6K}};

const Packing& packing_of(const at::Tensor& weight) {
  for (const Packing& one : kPackings)
    if (one.bytes == weight.size(2)) return one;
  TORCH_CHECK(false, "packed weights have blocks of ", weight.size(2),
              " bytes, which is no type that is multiplied");
}

// Contiguous, and of the one type whose kernel is to run.
template <typename T>
const T* values(const at::Tensor& x) {
  return reinterpret_cast<const T*>(x.const_data_ptr());
}
template <typename T>
T* room(const at::Tensor& x) {
  return reinterpret_cast<T*>(x.mutable_data_ptr());
}

// There are kernels for these; float16 goes through the library.
bool has_kernel(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
}
bool is_wide(const at::Tensor& x) { return x.scalar_type() == at::kFloat; }

}  // namespace

std::int64_t in_features(const at::Tensor& weight) {
  return is_packed(weight) ? weight.size(1) * packing_of(weight).elements : weight.size(1);
}

at::Tensor unpacked(const at::Tensor& weight) {
  const at::Tensor out = at::empty({weight.size(0), in_features(weight)}, at::kFloat);
  cpu_kernels().unpack[static_cast<int>(packing_of(weight).kind)](values<std::uint8_t>(weight), out.numel(),
                                                                  room<float>(out));
  return out;
}

at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      at::ScalarType out) {
  const at::NoGradGuard no_grad;
  const at::Tensor wide = x.to(at::kFloat).contiguous();
  const at::Tensor w = weight.scalar_type() == at::kHalf ? weight.to(at::kFloat) : weight.contiguous();
  const std::int64_t rows = x.size(0), in = x.size(1), features = w.size(0);
  at::Tensor y = at::empty({rows, features}, wide.options());
  const float* from = values<float>(wide);
  float* to = room<float>(y);
  const CpuKernels& run = cpu_kernels();
  const auto packed = is_packed(w) ? run.linear_packed[static_cast<int>(packing_of(w).kind)] : nullptr;
  const std::int64_t grain = std::max<std::int64_t>(16, 32768 / std::max<std::int64_t>(1, in * rows));
  at::parallel_for(0, features, grain, [&](std::int64_t begin, std::int64_t end) {
    if (packed)
      packed(from, rows, in, values<std::uint8_t>(w), begin, end, to, features);
    else if (w.scalar_type() == at::kBFloat16)
      run.linear_bf16(from, rows, in, values<std::uint16_t>(w), begin, end, to, features);
    else
      run.linear_f32(from, rows, in, values<float>(w), begin, end, to, features);
  });
  if (bias.defined()) y.add_(bias.to(at::kFloat));
  return y.to(out);
}

at::Tensor row_embedding(const at::Tensor& weight, const at::Tensor& ids) {
  if (!is_packed(weight)) return at::embedding(weight, ids);
  const std::int64_t in = in_features(weight), row_bytes = weight.size(1) * weight.size(2);
  const auto unpack = cpu_kernels().unpack[static_cast<int>(packing_of(weight).kind)];
  at::Tensor out = at::empty({ids.numel(), in}, at::kFloat);
  for (std::int64_t r = 0; r < ids.numel(); ++r)
    unpack(values<std::uint8_t>(weight) + ids.const_data_ptr<std::int64_t>()[r] * row_bytes, in,
           room<float>(out) + r * in);
  return out;
}

at::Tensor row_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::NoGradGuard no_grad;
  if (!has_kernel(x)) return weight * (x.to(at::kFloat) * row_scale(x, eps)).to(x.scalar_type());
  const at::Tensor from = x.contiguous(), by = weight.to(x.scalar_type()).contiguous();
  at::Tensor out = at::empty_like(from);
  const std::int64_t dim = x.size(-1), rows = x.numel() / dim;
  const float small = static_cast<float>(eps);
  if (is_wide(from))
    cpu_kernels().rms_norm_f32(values<float>(from), rows, dim, values<float>(by), small, room<float>(out));
  else
    cpu_kernels().rms_norm_bf16(values<std::uint16_t>(from), rows, dim, values<std::uint16_t>(by), small,
                                room<std::uint16_t>(out));
  return out;
}

at::Tensor row_swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const at::NoGradGuard no_grad;
  if (!has_kernel(gate)) return row_silu(gate) * up;
  const at::Tensor left = gate.contiguous(), right = up.contiguous();
  at::Tensor out = at::empty_like(left);
  at::parallel_for(0, left.numel(), 16384, [&](std::int64_t begin, std::int64_t end) {
    if (is_wide(left))
      cpu_kernels().swiglu_f32(values<float>(left) + begin, values<float>(right) + begin, end - begin,
                               room<float>(out) + begin);
    else
      cpu_kernels().swiglu_bf16(values<std::uint16_t>(left) + begin, values<std::uint16_t>(right) + begin,
                                end - begin, room<std::uint16_t>(out) + begin);
  });
  return out;
}

at::Tensor row_rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const at::NoGradGuard no_grad;
  if (!has_kernel(x)) {
    const at::Tensor part = x.narrow(-1, 0, cos.size(-1));
    const auto halves = part.chunk(2, -1);
    return at::cat({part * cos + at::cat({-halves[1], halves[0]}, -1) * sin,
                    x.narrow(-1, cos.size(-1), x.size(-1) - cos.size(-1))},
                   -1);
  }
  const at::Tensor from = x.contiguous(), c = cos.contiguous(), s = sin.contiguous();
  at::Tensor out = at::empty_like(from);
  const std::int64_t rows = x.size(0), heads = x.size(1), dim = x.size(2), turned = cos.size(-1);
  if (is_wide(from))
    cpu_kernels().rotate_f32(values<float>(from), rows, heads, dim, turned, values<float>(c),
                             values<float>(s), room<float>(out));
  else
    cpu_kernels().rotate_bf16(values<std::uint16_t>(from), rows, heads, dim, turned, values<std::uint16_t>(c),
                              values<std::uint16_t>(s), room<std::uint16_t>(out));
  return out;
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
