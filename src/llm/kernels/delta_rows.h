// The recurrent form of a gated DeltaNet layer on the CPU, row by row, and the functions around it whose
// library versions depend on where in a tensor an element lies.
//
//   std::vector<DeltaSpan> spans = {{0, 3, window_of_a, state_of_a}, {3, 1, window_of_b, state_of_b}};
//   at::Tensor o = delta_rows(sizes, mixed, taps, decay, beta, spans);     // states go on
//
// A row's result depends on its sequence's earlier rows only, to the last bit, however they are cut into
// calls. Inference only. The reference is model/delta_rule.h.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/model/config.h"
#include "llm/torch.h"

namespace musacoder::llm {

// Consecutive rows of one sequence and its state before them, which is overwritten by that after them.
struct DeltaSpan {
  std::int64_t from = 0, count = 0;
  float* window = nullptr;  // [kernel - 1, channels]: the last rows before the convolution, the latest last
  float* state = nullptr;   // [value_heads, key_dim, value_dim]
};

// Shapes and types as in DeltaInput (model/attention.h); gives [tokens, value_heads, value_dim] in the type
// of `mixed`. Where training rounds to that type, so does this.
at::Tensor delta_rows(const DeltaConfig& sizes, const at::Tensor& mixed, const at::Tensor& taps,
                      const at::Tensor& decay, const at::Tensor& beta, const std::vector<DeltaSpan>& spans);

// 1 / (1 + exp(-x)), in x's type.
at::Tensor row_sigmoid(const at::Tensor& x);
// -exp(a_log) * log(1 + exp(a + bias)), float32. a [rows, heads], the others [heads].
at::Tensor row_decay(const at::Tensor& a, const at::Tensor& a_log, const at::Tensor& bias);

}  // namespace musacoder::llm
