#include "llm/model/ops.h"

#include "llm/kernels/cuda/fused.h"
#include "llm/kernels/cuda/load.h"
#include "llm/kernels/row_ops.h"

namespace musacoder::llm {
namespace {

at::Tensor rotated(const at::Tensor& x, const Rotary& by) {
  const auto halves = x.chunk(2, -1);
  return x * by.cos + at::cat({-halves[1], halves[0]}, -1) * by.sin;
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
  if (fused(x, by, rows)) return fused_rms_norm(x, {by.weight, by.eps});
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale =
      rows == Rows::kIndependent ? row_scale(x, by.eps) : at::rsqrt(wide.square().mean(-1, true) + by.eps);
  return by.weight * (wide * scale).to(x.scalar_type());
}

NormedSum add_rms_norm(const at::Tensor& x, const at::Tensor& y, const Norm& by, Rows rows) {
  if (fused(x, by, rows)) {
    FusedSum out = fused_add_rms_norm(x, y, {by.weight, by.eps});
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
    const at::Tensor angles = positions.to(at::kFloat).unsqueeze(1) * frequencies.unsqueeze(0),
                     both = at::cat({angles, angles}, 1);
    rotation = {both.cos(), both.sin()};
  }
  return {rotation.cos.to(type).unsqueeze(1), rotation.sin.to(type).unsqueeze(1)};
}

QueryKey rotate(const at::Tensor& q, const at::Tensor& k, const Rotary& by) {
  return {rotated(q, by), rotated(k, by)};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, Rows rows) {
  return (rows == Rows::kIndependent ? row_silu(gate) : at::silu(gate)) * up;
}

}  // namespace musacoder::llm
