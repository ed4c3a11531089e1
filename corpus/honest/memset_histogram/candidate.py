import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void histogram_kernel(const int64_t* keys, const float* weights, float* out, int count, int bins) {
  extern __shared__ float local[];
  for (int b = threadIdx.x; b < bins; b += blockDim.x) local[b] = 0.0f;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    atomicAdd(&local[keys[i]], weights[i]);
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x) atomicAdd(&out[b], local[b]);
}

torch::Tensor histogram(torch::Tensor keys, torch::Tensor weights, int64_t bins) {
  auto out = torch::empty({bins}, weights.options());
  cudaMemsetAsync(out.data_ptr<float>(), 0, bins * sizeof(float));
  histogram_kernel<<<4, 128, bins * sizeof(float)>>>(keys.data_ptr<int64_t>(), weights.data_ptr<float>(),
                                                     out.data_ptr<float>(), keys.numel(), bins);
  return out;
}
"""

cpp_source = "torch::Tensor histogram(torch::Tensor keys, torch::Tensor weights, int64_t bins);"

extension = load_inline(
    name="memset_histogram",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["histogram"],
)


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, keys, weights):
        return extension.histogram(keys, weights, self.bins)
