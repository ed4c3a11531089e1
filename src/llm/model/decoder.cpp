#include "llm/model/decoder.h"

#include "llm/kernels/row_ops.h"
#include "llm/model/recompute.h"

namespace musacoder::llm {

Decoder::Decoder(const Weights& weights, const Lora* lora) : config_(weights.config()) {
  const Loader trunk(weights, lora, config_.prefix);
  embedding_ = trunk.tensor("embed_tokens.weight");
  last_norm_ = trunk.norm("norm");
  head_ = config_.tied ? embedding_ : weights.get("lm_head.weight");
  frequencies_ =
      at::tensor(rotary_frequencies(config_.rotary, config_.rotary_dim), at::kFloat).to(embedding_.device());
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const Loader load(weights, lora, fmt::format("{}layers.{}.", config_.prefix, i));
    std::variant<AttentionBlock, DeltaBlock> mixer = AttentionBlock(config_, load);
    if (config_.kind(i) == LayerKind::kDelta) mixer = DeltaBlock(config_, load);
    layers_.push_back({load.norm("input_layernorm"), load.norm("post_attention_layernorm"), std::move(mixer),
                       MlpBlock(load)});
  }
}

NormedSum Decoder::enter(const Stream& in, const Norm& norm, Rows rows) const {
  return in.more.defined() ? add_rms_norm(in.sum, in.more, norm, rows)
                           : NormedSum{in.sum, rms_norm(in.sum, norm, rows)};
}

Decoder::Stream Decoder::layer(std::int64_t index, const Stream& in, const Context& context) const {
  const Layer& w = layers_[static_cast<std::size_t>(index)];
  const NormedSum first = enter(in, w.input_norm, context.rows);
  const at::Tensor mixed =
      std::visit([&](const auto& mixer) { return mixer.run(index, first.normed, context); }, w.mixer);
  const NormedSum middle = add_rms_norm(first.sum, mixed, w.post_norm, context.rows);
  return {middle.sum, w.mlp.run(middle.normed, context)};
}

at::Tensor Decoder::hidden(const Packed& batch, Attention& attention, Rows rows, Activations activations,
                           LayerObserver* observer) const {
  Stream x{row_embedding(embedding_, batch.ids), {}};
  const Context context{rotary(batch.positions, frequencies_, x.sum.scalar_type(), rows), attention, rows};
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const auto run = [this, i, context, observer](const Stream& in) {
      if (observer) observer->enter(i);
      Stream out = layer(i, in, context);
      if (observer) observer->leave(i);
      return out;
    };
    if (activations == Activations::kKeep) {
      x = run(x);
      continue;
    }
    x.sum = recomputed(x.sum, [run](const at::Tensor& in) {
      const Stream out = run({in, {}});
      return out.sum + out.more;
    });
  }
  return enter(x, last_norm_, rows).normed;
}

}  // namespace musacoder::llm
