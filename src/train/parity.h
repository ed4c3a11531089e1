// `musacoder-train parity`: what a model computes on given tokens, tensor by tensor, for comparing with
// another implementation.
//
//   echo '{"sequences": [[1, 2, 3], [4, 5]], "adamw": {"lr": 0.001}}' > in.json
//   musacoder-train parity --model DIR --input in.json --out out.safetensors
//
// The output has `logits` [tokens, vocab] of the packed sequences, `logprobs` [tokens] of each next token (0
// at a sequence's end), `loss`, `grad.NAME` of the loss for every weight, and with "adamw" (lr, betas, eps,
// weight_decay, steps: default 1; max_grad_norm: default none) `step.NAME`, the weights after that many steps
// on the same batch. "chunk_bytes" sets the size of logit chunks, "recompute": true turns activation
// checkpointing on, "lora": "FOLDER" puts a peft adapter on the model and trains only that. Weights are
// float32 unless "type" is "bf16", on the CPU unless "device" names another.
#pragma once

#include <string>

#include "base/status.h"

namespace musacoder::train {

Status run_parity(const std::string& model, const std::string& input, const std::string& out);

}  // namespace musacoder::train
