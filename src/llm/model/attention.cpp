#include "llm/model/attention.h"

#include <algorithm>
#include <cmath>

#include "llm/kernels/cuda/fused.h"
#include "llm/model/ops.h"

namespace musacoder::llm {

at::Tensor Attention::delta(std::int64_t, const DeltaInput&) {
  TORCH_CHECK(false, "DeltaNet layers are not built for this kind of attention");
}

PackedAttention::PackedAttention(const Packed& batch) : starts_(batch.starts) {
  for (std::size_t i = 1; i < starts_.size(); ++i) longest_ = std::max(longest_, starts_[i] - starts_[i - 1]);
  if (batch.ids.is_cuda()) device_starts_ = at::tensor(starts_, at::kInt).to(batch.ids.device());
}

at::Tensor PackedAttention::attend(std::int64_t, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v) {
  if (device_starts_.defined() && flash_takes(q)) return flash_attention(q, k, v, device_starts_, longest_);
  const std::int64_t group = q.size(1) / k.size(1);
  std::vector<at::Tensor> parts;
  for (std::size_t i = 1; i < starts_.size(); ++i) {
    const std::int64_t from = starts_[i - 1], length = starts_[i] - from;
    if (length == 0) continue;
    const auto heads_first = [&](const at::Tensor& x, std::int64_t times) {
      const at::Tensor one = x.narrow(0, from, length).transpose(0, 1);
      return (times == 1 ? one : one.repeat_interleave(times, 0)).unsqueeze(0);
    };
    const at::Tensor out = at::scaled_dot_product_attention(heads_first(q, 1), heads_first(k, group),
                                                            heads_first(v, group), {}, 0, length > 1);
    parts.push_back(out.squeeze(0).transpose(0, 1));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, 0);
}

at::Tensor PackedAttention::delta(std::int64_t, const DeltaInput& input) {
  const DeltaConfig& sizes = input.sizes;
  if (!chunks_) chunks_ = delta_chunks(starts_, input.mixed.device());
  const at::Tensor mixed = at::silu(causal_conv(input.mixed, input.taps, starts_));
  const auto parts = mixed.split_with_sizes(
      {sizes.key_heads * sizes.key_dim, sizes.key_heads * sizes.key_dim, sizes.value_heads * sizes.value_dim},
      1);
  const at::Tensor q = unit_rows(parts[0].reshape({-1, sizes.key_heads, sizes.key_dim})) *
                       (1 / std::sqrt(static_cast<double>(sizes.key_dim)));
  const at::Tensor k = unit_rows(parts[1].reshape({-1, sizes.key_heads, sizes.key_dim}));
  const at::Tensor v = widened(parts[2].reshape({-1, sizes.value_heads, sizes.value_dim}));
  return gated_delta_rule(q, k, v, input.decay, input.beta, *chunks_).to(input.mixed.scalar_type());
}

}  // namespace musacoder::llm
