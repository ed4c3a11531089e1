#include "llm/model/ops.h"

#include "llm/kernels/cuda/fused.h"
#include "llm/kernels/cuda/load.h"
#include "llm/kernels/delta_rows.h"
#include "llm/kernels/row_ops.h"

namespace musacoder::llm {
namespace {

at::Tensor rotated(const at::Tensor& x, const Rotary& by) {
  const std::int64_t dims = by.cos.size(-1);
  const at::Tensor part = dims == x.size(-1) ? x : x.narrow(-1, 0, dims);
  const auto halves = part.chunk(2, -1);
  const at::Tensor turned = part * by.cos + at::cat({-halves[1], halves[0]}, -1) * by.sin;
  return dims == x.size(-1) ? turned : at::cat({turned, x.narrow(-1, dims, x.size(-1) - dims)}, -1);
}

bool fused(const at::Tensor& x, const Norm& by, Rows rows) {
  return rows == Rows::kFast && fused_on(x) && fused_norm_takes(x.size(-1)) &&
         by.weight.scalar_type() == x.scalar_type();
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const Linear& by, Rows rows) {
  const auto product = [&](const at::Tensor& left, const at::Tensor& weight, const at::Tensor& bias) {
    return rows == Rows::kIndependent ? row_linear(left, weight, bias, left.scalar_type())
                                      : at::linear(left, weight, bias);
  };
  const at::Tensor out = product(x, by.weight, by.bias);
  if (!by.lora_a.defined()) return out;
  const at::Tensor low = product(product(x.to(at::kFloat), by.lora_a, {}), by.lora_b, {});
  return out + (low * by.lora_scale).to(out.scalar_type());
}

at::Tensor rms_norm(const at::Tensor& x, const Norm& by, Rows rows) {
  if (fused(x, by, rows)) return fused_rms_norm(x, {by.weight, by.eps, by.centred});
  // With a weight of another type the product is in the wider one, as with `transformers`.
  if (rows == Rows::kIndependent && !by.centred && by.weight.scalar_type() == x.scalar_type())
    return row_rms_norm(x, by.weight, by.eps);
  const at::Tensor wide = widened(x);
  const at::Tensor scale =
      rows == Rows::kIndependent ? row_scale(x, by.eps) : at::rsqrt(wide.square().mean(-1, true) + by.eps);
  if (by.centred) return (wide * scale * (widened(by.weight) + 1)).to(x.scalar_type());
  return by.weight * (wide * scale).to(x.scalar_type());
}

NormedSum add_rms_norm(const at::Tensor& x, const at::Tensor& y, const Norm& by, Rows rows) {
  if (fused(x, by, rows)) {
    FusedSum out = fused_add_rms_norm(x, y, {by.weight, by.eps, by.centred});
    return {std::move(out.sum), std::move(out.normed)};
  }
  at::Tensor sum = x + y;
  at::Tensor normed = rms_norm(sum, by, rows);
  return {std::move(sum), std::move(normed)};
}

Rotary rotary(const at::Tensor& positions, const at::Tensor& frequencies, at::ScalarType type, Rows rows) {
  Rotation rotation;
  if (rows == Rows::kIndependent) {
    rotation = row_rotation(positions, frequencies);
  } else {
    const at::Tensor angles = positions.to(type == at::kDouble ? type : at::kFloat).unsqueeze(1) *
                              frequencies.unsqueeze(0),
                     both = at::cat({angles, angles}, 1);
    rotation = {both.cos(), both.sin()};
  }
  return {rotation.cos.to(type).unsqueeze(1), rotation.sin.to(type).unsqueeze(1), rows};
}

QueryKey rotate(const at::Tensor& q, const at::Tensor& k, const Rotary& by) {
  if (by.rows == Rows::kIndependent) return {row_rotate(q, by.cos, by.sin), row_rotate(k, by.cos, by.sin)};
  return {rotated(q, by), rotated(k, by)};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, Rows rows) {
  return rows == Rows::kIndependent ? row_swiglu(gate, up) : at::silu(gate) * up;
}

at::Tensor sigmoid(const at::Tensor& x, Rows rows) {
  return rows == Rows::kIndependent ? row_sigmoid(x) : at::sigmoid(x);
}

at::Tensor sigmoid_gate(const at::Tensor& x, const at::Tensor& gate, Rows rows) {
  return x * sigmoid(gate, rows);
}

at::Tensor gated_rms_norm(const at::Tensor& x, const at::Tensor& gate, const Norm& by, Rows rows) {
  const at::Tensor wide = widened(gate);
  return (rms_norm(x, by, rows) * (rows == Rows::kIndependent ? row_silu(wide) : at::silu(wide)))
      .to(x.scalar_type());
}

at::Tensor delta_decay(const at::Tensor& a, const at::Tensor& a_log, const at::Tensor& bias, Rows rows) {
  if (rows == Rows::kIndependent) return row_decay(a, a_log, bias);
  return -widened(a_log).exp() * at::softplus(widened(a) + widened(bias));
}

}  // namespace musacoder::llm
