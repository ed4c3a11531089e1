#include "llm/model/decoder.h"

#include <cmath>

#include "llm/kernels/row_ops.h"
#include "llm/model/recompute.h"

namespace musacoder::llm {
namespace {

// The halves (a, b) of each head become (a cos - b sin, b cos + a sin).
at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return x * cos + at::cat({-halves[1], halves[0]}, -1) * sin;
}

}  // namespace

Packed pack(const std::vector<std::vector<std::int64_t>>& sequences) {
  std::vector<std::int64_t> ids, positions;
  Packed out;
  out.starts = {0};
  for (const auto& one : sequences) {
    for (std::size_t i = 0; i < one.size(); ++i) {
      ids.push_back(one[i]);
      positions.push_back(static_cast<std::int64_t>(i));
    }
    out.starts.push_back(static_cast<std::int64_t>(ids.size()));
  }
  out.ids = at::tensor(ids, at::kLong);
  out.positions = at::tensor(positions, at::kLong);
  return out;
}

at::Tensor next_tokens(const Packed& batch) {
  at::Tensor out = at::roll(batch.ids, -1);
  for (std::size_t i = 1; i < batch.starts.size(); ++i)
    if (batch.starts[i] > batch.starts[i - 1]) out[batch.starts[i] - 1] = -1;
  return out;
}

at::Tensor PackedAttention::attend(std::int64_t, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v) {
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

Decoder::Decoder(const Weights& weights, const Lora* lora) : config_(weights.config()) {
  embedding_ = weights.get("model.embed_tokens.weight");
  last_norm_ = weights.get("model.norm.weight");
  head_ = config_.tied ? embedding_ : weights.get("lm_head.weight");
  frequencies_ = at::tensor(rotary_frequencies(config_.rotary, config_.head_dim), at::kFloat);
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const std::string at = fmt::format("model.layers.{}.", i);
    const auto named = [&](const std::string& name) {
      return weights.has(at + name) ? weights.get(at + name) : at::Tensor();
    };
    const auto projection = [&](const std::string& name) {
      Linear out{named(name + ".weight"), named(name + ".bias"), {}, {}};
      if (const Lora::Pair* pair = lora ? lora->find(at + name) : nullptr) {
        out.lora_a = pair->a;
        out.lora_b = pair->b;
        out.lora_scale = lora->scale();
      }
      return out;
    };
    layers_.push_back({named("input_layernorm.weight"), named("post_attention_layernorm.weight"),
                       named("self_attn.q_norm.weight"), named("self_attn.k_norm.weight"),
                       projection("self_attn.q_proj"), projection("self_attn.k_proj"),
                       projection("self_attn.v_proj"), projection("self_attn.o_proj"),
                       projection("mlp.gate_proj"), projection("mlp.up_proj"), projection("mlp.down_proj")});
  }
}

at::Tensor Decoder::linear(const at::Tensor& x, const Linear& by, Rows rows) const {
  const auto product = [&](const at::Tensor& left, const at::Tensor& weight, const at::Tensor& bias) {
    return rows == Rows::kIndependent ? row_linear(left, weight, bias, left.scalar_type())
                                      : at::linear(left, weight, bias);
  };
  const at::Tensor out = product(x, by.weight, by.bias);
  if (!by.lora_a.defined()) return out;
  const at::Tensor low = product(product(x.to(at::kFloat), by.lora_a, {}), by.lora_b, {});
  return out + (low * by.lora_scale).to(out.scalar_type());
}

at::Tensor Decoder::norm(const at::Tensor& x, const at::Tensor& weight, Rows rows) const {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = rows == Rows::kIndependent
                               ? row_scale(x, config_.norm_eps)
                               : at::rsqrt(wide.square().mean(-1, true) + config_.norm_eps);
  return weight * (wide * scale).to(x.scalar_type());
}

at::Tensor Decoder::layer(std::int64_t index, const at::Tensor& x, const at::Tensor& cos,
                          const at::Tensor& sin, Attention& attention, Rows rows) const {
  const Layer& w = layers_[static_cast<std::size_t>(index)];
  const at::Tensor in = norm(x, w.input_norm, rows);
  at::Tensor q = linear(in, w.q, rows).view({-1, config_.heads, config_.head_dim});
  at::Tensor k = linear(in, w.k, rows).view({-1, config_.kv_heads, config_.head_dim});
  const at::Tensor v = linear(in, w.v, rows).view({-1, config_.kv_heads, config_.head_dim});
  if (config_.qk_norm) {
    q = norm(q, w.q_norm, rows);
    k = norm(k, w.k_norm, rows);
  }
  const at::Tensor seen = attention.attend(index, rotated(q, cos, sin), rotated(k, cos, sin), v);
  const at::Tensor middle = x + linear(seen.reshape({-1, config_.heads * config_.head_dim}), w.o, rows);
  const at::Tensor wide = norm(middle, w.post_norm, rows);
  const at::Tensor gate = linear(wide, w.gate, rows);
  return middle +
         linear((rows == Rows::kIndependent ? row_silu(gate) : at::silu(gate)) * linear(wide, w.up, rows),
                w.down, rows);
}

at::Tensor Decoder::hidden(const Packed& batch, Attention& attention, Rows rows,
                           Activations activations) const {
  at::Tensor x = at::embedding(embedding_, batch.ids);
  Rotation rotation;
  if (rows == Rows::kIndependent) {
    rotation = row_rotation(batch.positions, frequencies_);
  } else {
    const at::Tensor angles = batch.positions.to(at::kFloat).unsqueeze(1) * frequencies_.unsqueeze(0),
                     both = at::cat({angles, angles}, 1);
    rotation = {both.cos(), both.sin()};
  }
  const at::Tensor cos = rotation.cos.to(x.scalar_type()).unsqueeze(1),
                   sin = rotation.sin.to(x.scalar_type()).unsqueeze(1);  // [tokens, 1, dim]
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const auto run = [this, i, cos, sin, &attention, rows](const at::Tensor& in) {
      return layer(i, in, cos, sin, attention, rows);
    };
    x = activations == Activations::kRecompute ? recomputed(x, run) : run(x);
  }
  return norm(x, last_norm_, rows);
}

}  // namespace musacoder::llm
