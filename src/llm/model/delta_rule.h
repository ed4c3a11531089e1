// The two parts of a gated DeltaNet layer that look across rows, over packed sequences, with gradients.
//
//   const DeltaChunks chunks = delta_chunks(batch.starts, device);       // once for a batch
//   at::Tensor mixed = causal_conv(rows, taps, batch.starts);
//   at::Tensor o = gated_delta_rule(q, k, v, decay, beta, chunks);
//
// Per value head a state S [key_dim, value_dim], zero where a sequence begins, in float32
// (https://arxiv.org/abs/2412.06464):
//   S <- exp(decay) S;  u = beta (v - S^T k);  S <- S + k u^T;  o = S^T q
// computed here for chunks of up to 64 tokens at a time: with b the running sum of decay in the chunk,
// D_ij = exp(b_i - b_j) for i >= j, A the part below the diagonal of beta_i (k_i . k_j) D_ij, and S the state
// before the chunk,
//   U = (1 + A)^-1 beta (V - exp(b) K S);  O = exp(b) Q S + tril(Q K^T D) U;
//   S <- exp(b_last) S + (exp(b_last - b) K)^T U
// What does not need S is computed for all chunks of all sequences at once; then the first chunks of all
// sequences together, the second ones, and so on. The backward pass is written out in the same form and keeps
// q, k, v, decay, beta and each chunk's S and U only.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/torch.h"

namespace musacoder::llm {

inline constexpr std::int64_t kDeltaChunk = 64;

// Where rows lie in chunks. Chunks are ordered by their number in the sequence, then by sequence, the longest
// first, so that those of one step of the scan lie together and the sequences of a step are the first ones of
// the step before.
struct DeltaChunks {
  std::int64_t size = 0;            // tokens of a chunk
  std::vector<std::int64_t> begin;  // step s is chunks begin[s] .. begin[s + 1]
  at::Tensor rows;    // [chunks * size] int64: the row of each place; the number of rows where there is none
  at::Tensor places;  // [tokens] int64: the place of each row
  std::int64_t chunks() const { return begin.back(); }
};
DeltaChunks delta_chunks(const std::vector<std::int64_t>& starts, at::Device device,
                         std::int64_t longest = kDeltaChunk);

// q, k [tokens, key_heads, key_dim] (normalised and scaled), v [tokens, value_heads, value_dim], decay (at
// most zero) and beta [tokens, value_heads], all float32; gives [tokens, value_heads, value_dim]. Key head i
// serves the value heads i * group .. (i + 1) * group.
at::Tensor gated_delta_rule(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& decay, const at::Tensor& beta, const DeltaChunks& chunks);

// y[t] = sum over j of taps[:, j] * x[t - (kernel - 1) + j], rows before a sequence's first counting as zero.
// x [tokens, channels], taps [channels, kernel]; summed in float32, rounded to x's type.
at::Tensor causal_conv(const at::Tensor& x, const at::Tensor& taps, const std::vector<std::int64_t>& starts);

// x / sqrt(sum of squares + 1e-6) over the last dimension, in float32.
at::Tensor unit_rows(const at::Tensor& x);

}  // namespace musacoder::llm
