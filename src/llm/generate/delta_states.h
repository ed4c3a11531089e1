// States of DeltaNet layers of running sequences: slots, each a sequence's recurrent states and convolution
// windows of all such layers, in float32.
//
//   DeltaStates states(config, /*slots=*/64);
//   const std::int32_t slot = states.take();      // zero: a sequence's beginning
//   states.copy(slot, states.take());             // a second sample goes on from there
//   states.drop(slot);
//
// Unlike keys and values a state cannot be shared, as every token changes all of it. Models without such
// layers have slots of no bytes. Memory is touched when a slot is taken for the first time. On a GPU slots
// are filled and copied in the order of the current stream. Taking a slot when none is free is a bug. Thread
// safety: one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/model/config.h"
#include "llm/torch.h"

namespace musacoder::llm {

class DeltaStates {
 public:
  DeltaStates(const ModelConfig& config, std::int64_t slots, const at::Device& device = at::kCPU);
  std::int64_t free_slots() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t slot_bytes() const { return 4 * store_.size(1); }
  std::int32_t take();
  void drop(std::int32_t slot) { free_.push_back(slot); }
  void copy(std::int32_t from, std::int32_t to) { store_[to].copy_(store_[from]); }

  // [kernel - 1, channels] and [value_heads, key_dim, value_dim], on the device; slots are slot_bytes()
  // apart. `layer`: one of DeltaNet.
  float* window(std::int32_t slot, std::int64_t layer) const { return state(slot, layer) + state_; }
  float* state(std::int32_t slot, std::int64_t layer) const {
    return store_.mutable_data_ptr<float>() + slot * store_.size(1) +
           places_[static_cast<std::size_t>(layer)] * (state_ + window_);
  }

 private:
  std::int64_t state_, window_;       // floats of one layer
  std::vector<std::int64_t> places_;  // of each layer in a slot; -1: it has no state
  at::Tensor store_;                  // [slots, layers * (state_ + window_)]
  std::vector<std::int32_t> free_;
};

}  // namespace musacoder::llm
