// `musacoder-train plan`: what a model of a configuration takes in memory, for training and for generation,
// before any weights are at hand.
//
//   musacoder-train plan --model Qwen3.5-9B/config.json --tokens 40960 --recompute --processes 8
//
// Parameters, weights, keys and values, and states are counted from the configuration and exact. A training
// process's share is that of ZeRO-1 or, with `shard_parameters`, of its third stage: weights in bf16 (or
// float32), and divided among processes float32 weights, gradients and AdamW's two moments. Activations are
// an estimate: the tensors that the blocks of llm/model keep for the backward pass; what attention and
// library products need for themselves is not in it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.h"

namespace musacoder::train {

struct PlanOptions {
  std::string model;           // folder or config.json
  std::string type = "bf16";   // weights are computed in, and keys and values kept in: bf16 or f32
  std::int64_t tokens = 8192;  // of one pass, all sequences together
  bool recompute = false;      // activation checkpointing
  std::int64_t lora_rank = 0;  // adapters on all linears instead of full training
  std::int64_t processes = 1;
  bool shard_parameters = false;
  std::int64_t samples = 64, context = 8192;  // running samples in generation, tokens of each
  bool json = false;
};

struct MemoryPlan {
  struct Parameters {
    std::int64_t embedding = 0, head = 0, attention = 0, delta = 0, mlp = 0, norms = 0;
    std::int64_t total() const { return embedding + head + attention + delta + mlp + norms; }
  } parameters;
  std::int64_t trained = 0;  // parameters that are
  std::int64_t attention_layers = 0, delta_layers = 0;
  // Bytes of one process in training.
  std::int64_t weights = 0, masters = 0, gradients = 0, moments = 0, activations = 0, logits = 0;
  std::int64_t training() const { return weights + masters + gradients + moments + activations + logits; }
  std::int64_t activation_per_token = 0;
  // Bytes in generation.
  std::int64_t kv_per_token = 0, state_per_sample = 0, cache = 0;
};

// `config`: config.json. Errors: those of parse_model_config(); kInvalidArgument: options without sense.
Result<MemoryPlan> plan_memory(const nlohmann::json& config, const PlanOptions& options);

Status run_plan(const PlanOptions& options);

}  // namespace musacoder::train
