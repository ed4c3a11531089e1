// Log-probabilities of given tokens, and the loss made of them, without ever holding [tokens, vocabulary].
//
//   at::Tensor lp = token_logprobs(h, model.head(), next_tokens(batch));    // [tokens] float32; 0 where the
//   target is -1 at::Tensor loss = mean_loss(lp, next_tokens(batch)); loss.backward();
//
// Rows are taken in chunks whose logits fit into `chunk_bytes` of float32; the backward pass computes them
// again from the hidden states and the saved log of the sum. Products are in the weights' type, sums over the
// vocabulary in float32; the gradient of the output matrix is added up in float32.
#pragma once

#include <cstdint>

#include "llm/torch.h"

namespace musacoder::llm {

inline constexpr std::int64_t kLogitBytes = 64 << 20;

// `hidden` [tokens, hidden], `head` [vocab, hidden], `targets` [tokens] int64, each in 0 .. vocab or -1:
// none. Logits are divided by `temperature` first, so that the result is that of sampling.
at::Tensor token_logprobs(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets,
                          double temperature = 1, std::int64_t chunk_bytes = kLogitBytes);

// -mean over the rows that have a target.
at::Tensor mean_loss(const at::Tensor& logprobs, const at::Tensor& targets);

}  // namespace musacoder::llm
