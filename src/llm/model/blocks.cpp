#include "llm/model/blocks.h"

#include "llm/kernels/cuda/fused.h"
#include "llm/kernels/cuda/load.h"

namespace musacoder::llm {
namespace {

// The products of one input with several matrices, side by side: [rows, sum of out]. One product where the
// matrices lie together and have no adapters.
at::Tensor side_by_side(const at::Tensor& in, const std::vector<Linear>& all, Rows rows) {
  std::vector<at::Tensor> weights, biases, outs;
  bool plain = true;
  for (const Linear& one : all) {
    weights.push_back(one.weight);
    if (one.bias.defined()) biases.push_back(one.bias);
    plain = plain && !one.lora_a.defined();
  }
  if (plain && (biases.empty() || biases.size() == all.size()) && joinable(weights))
    return joined_linear(in, weights, biases);
  for (const Linear& one : all) outs.push_back(linear(in, one, rows));
  return at::cat(outs, 1);
}

}  // namespace

at::Tensor Loader::tensor(const std::string& name) const {
  return weights_.has(prefix_ + name) ? weights_.get(prefix_ + name) : at::Tensor();
}

Linear Loader::linear(const std::string& name) const {
  Linear out{tensor(name + ".weight"), tensor(name + ".bias"), {}, {}};
  if (const Lora::Pair* pair = lora_ ? lora_->find(prefix_ + name) : nullptr) {
    out.lora_a = pair->a;
    out.lora_b = pair->b;
    out.lora_scale = lora_->scale();
  }
  return out;
}

Norm Loader::norm(const std::string& name) const {
  return {tensor(name + ".weight"), weights_.config().norm_eps, weights_.config().centred_norm};
}

AttentionBlock::AttentionBlock(const ModelConfig& config, const Loader& load)
    : heads_(config.heads),
      kv_heads_(config.kv_heads),
      dim_(config.head_dim),
      qk_norm_(config.qk_norm),
      gated_(config.output_gate),
      q_(load.linear("self_attn.q_proj")),
      k_(load.linear("self_attn.k_proj")),
      v_(load.linear("self_attn.v_proj")),
      o_(load.linear("self_attn.o_proj")),
      q_norm_(load.norm("self_attn.q_norm")),
      k_norm_(load.norm("self_attn.k_norm")) {}

at::Tensor AttentionBlock::run(std::int64_t layer, const at::Tensor& in, const Context& context) const {
  const Rows rows = context.rows;
  if (rows == Rows::kFast && fused_on(in) && !gated_ && context.rotary.cos.size(-1) == dim_ &&
      fused_rotate_takes(dim_)) {
    const SplitHeads split = fused_split_rotate(
        side_by_side(in, {q_, k_, v_}, rows), {heads_, kv_heads_, dim_}, {q_norm_.weight, q_norm_.eps},
        {k_norm_.weight, k_norm_.eps}, context.rotary.cos, context.rotary.sin);
    const at::Tensor seen = context.attention.attend(layer, split.q, split.k, split.v);
    return linear(seen.reshape({-1, heads_ * dim_}), o_, rows);
  }
  at::Tensor q = linear(in, q_, rows).view({-1, heads_, gated_ ? 2 * dim_ : dim_}), gate;
  if (gated_) {  // each head's query and, behind it, its gate
    gate = q.narrow(2, dim_, dim_);
    q = q.narrow(2, 0, dim_);
  }
  at::Tensor k = linear(in, k_, rows).view({-1, kv_heads_, dim_});
  const at::Tensor v = linear(in, v_, rows).view({-1, kv_heads_, dim_});
  if (qk_norm_) {
    q = rms_norm(q, q_norm_, rows);
    k = rms_norm(k, k_norm_, rows);
  }
  const QueryKey turned = rotate(q, k, context.rotary);
  at::Tensor seen = context.attention.attend(layer, turned.q, turned.k, v);
  if (gated_) seen = sigmoid_gate(seen, gate, rows);
  return linear(seen.reshape({-1, heads_ * dim_}), o_, rows);
}

DeltaBlock::DeltaBlock(const ModelConfig& config, const Loader& load)
    : sizes_(config.delta),
      qkv_(load.linear("linear_attn.in_proj_qkv")),
      z_(load.linear("linear_attn.in_proj_z")),
      a_(load.linear("linear_attn.in_proj_a")),
      b_(load.linear("linear_attn.in_proj_b")),
      out_(load.linear("linear_attn.out_proj")),
      taps_(load.tensor("linear_attn.conv1d.weight")),
      a_log_(load.tensor("linear_attn.A_log")),
      bias_(load.tensor("linear_attn.dt_bias")),
      norm_{load.tensor("linear_attn.norm.weight"), config.norm_eps} {}  // never around zero

at::Tensor DeltaBlock::run(std::int64_t layer, const at::Tensor& in, const Context& context) const {
  const Rows rows = context.rows;
  const at::Tensor mixed = linear(in, qkv_, rows), z = linear(in, z_, rows);
  const at::Tensor beta = widened(sigmoid(linear(in, b_, rows), rows)),
                   decay = delta_decay(linear(in, a_, rows), a_log_, bias_, rows);
  const at::Tensor out = context.attention.delta(layer, {sizes_, mixed, taps_.squeeze(1), decay, beta});
  const at::Tensor normed = gated_rms_norm(out, z.view_as(out), norm_, rows);
  return linear(normed.reshape({-1, sizes_.value_heads * sizes_.value_dim}), out_, rows);
}

MlpBlock::MlpBlock(const Loader& load)
    : gate_(load.linear("mlp.gate_proj")),
      up_(load.linear("mlp.up_proj")),
      down_(load.linear("mlp.down_proj")) {}

at::Tensor MlpBlock::run(const at::Tensor& in, const Context& context) const {
  const Rows rows = context.rows;
  if (rows == Rows::kFast && fused_on(in) && gate_.weight.size(0) % 8 == 0)
    return linear(fused_swiglu(side_by_side(in, {gate_, up_}, rows)), down_, rows);
  return linear(swiglu(linear(in, gate_, rows), linear(in, up_, rows), rows), down_, rows);
}

}  // namespace musacoder::llm
