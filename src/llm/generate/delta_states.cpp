#include "llm/generate/delta_states.h"

namespace musacoder::llm {

DeltaStates::DeltaStates(const ModelConfig& config, std::int64_t slots, const at::Device& device)
    : state_(config.delta.value_heads * config.delta.key_dim * config.delta.value_dim),
      window_(std::max<std::int64_t>(0, config.delta.kernel - 1) * config.delta.channels()) {
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < config.layers; ++i)
    places_.push_back(config.kind(i) == LayerKind::kDelta ? next++ : -1);
  store_ = at::empty({slots, next * (state_ + window_)}, at::TensorOptions(at::kFloat).device(device));
  for (std::int64_t i = slots; i-- > 0;) free_.push_back(static_cast<std::int32_t>(i));
}

std::int32_t DeltaStates::take() {
  TORCH_INTERNAL_ASSERT(!free_.empty(), "no state is free, though one was reserved");
  const std::int32_t slot = free_.back();
  free_.pop_back();
  store_[slot].zero_();
  return slot;
}

}  // namespace musacoder::llm
