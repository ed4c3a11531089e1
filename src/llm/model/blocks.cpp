#include "llm/model/blocks.h"

namespace musacoder::llm {

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
  return {tensor(name + ".weight"), weights_.config().norm_eps};
}

AttentionBlock::AttentionBlock(const ModelConfig& config, const Loader& load)
    : heads_(config.heads),
      kv_heads_(config.kv_heads),
      dim_(config.head_dim),
      qk_norm_(config.qk_norm),
      q_(load.linear("self_attn.q_proj")),
      k_(load.linear("self_attn.k_proj")),
      v_(load.linear("self_attn.v_proj")),
      o_(load.linear("self_attn.o_proj")),
      q_norm_(load.norm("self_attn.q_norm")),
      k_norm_(load.norm("self_attn.k_norm")) {}

at::Tensor AttentionBlock::run(std::int64_t layer, const at::Tensor& in, const Context& context) const {
  const Rows rows = context.rows;
  at::Tensor q = linear(in, q_, rows).view({-1, heads_, dim_});
  at::Tensor k = linear(in, k_, rows).view({-1, kv_heads_, dim_});
  const at::Tensor v = linear(in, v_, rows).view({-1, kv_heads_, dim_});
  if (qk_norm_) {
    q = rms_norm(q, q_norm_, rows);
    k = rms_norm(k, k_norm_, rows);
  }
  const QueryKey turned = rotate(q, k, context.rotary);
  const at::Tensor seen = context.attention.attend(layer, turned.q, turned.k, v);
  return linear(seen.reshape({-1, heads_ * dim_}), o_, rows);
}

MlpBlock::MlpBlock(const Loader& load)
    : gate_(load.linear("mlp.gate_proj")),
      up_(load.linear("mlp.up_proj")),
      down_(load.linear("mlp.down_proj")) {}

at::Tensor MlpBlock::run(const at::Tensor& in, const Context& context) const {
  const Rows rows = context.rows;
  return linear(swiglu(linear(in, gate_, rows), linear(in, up_, rows), rows), down_, rows);
}

}  // namespace musacoder::llm
