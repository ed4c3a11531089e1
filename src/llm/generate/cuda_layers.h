// A model's weights as a GPU's step multiplies with them: those of one input joined, small ones widened.
//
//   MC_RETURN_IF_ERROR(check_cuda_layers(weights));
//   const std::vector<CudaLayer> layers = cuda_layers(weights);
//   if (layers[0].delta) ...                 // else an attention layer
//
// Matrices that lie together already (Weights on a CUDA device) are views, others are copied together.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "llm/model/weights.h"
#include "llm/torch.h"

namespace musacoder::llm {

struct CudaAttention {
  at::Tensor qkv, qkv_bias, q_norm, k_norm, o, o_bias;  // undefined: the model has none
};

// Of a gated DeltaNet layer. `product`: q, k and v, z, a, b; the rest in float32.
struct CudaDelta {
  at::Tensor product, taps, a_log, dt_bias, norm, out;  // taps [kernel, channels]
  bool round_norm = false;                              // the norm's weight is of the matrices' type
};

struct CudaLayer {
  std::optional<CudaDelta> delta;
  CudaAttention attention;  // where there is no `delta`
  at::Tensor input_norm, post_norm, gate_up, down;
};

// kUnsupported: sizes, types or layers that the kernels do not take, by name.
Status check_cuda_layers(const Weights& weights);
std::vector<CudaLayer> cuda_layers(const Weights& weights);

}  // namespace musacoder::llm
