import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_source = "torch::Tensor add(torch::Tensor a, torch::Tensor b);"

kernel_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDAException.h>

__global__ void add_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, long long size) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += step) out[i] = a[i] + b[i];
}

torch::Tensor add(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.scalar_type() == torch::kFloat32 && b.scalar_type() == torch::kFloat32, "add takes float32");
  TORCH_CHECK(a.sizes() == b.sizes(), "add takes tensors of one shape");
  a = a.contiguous();
  b = b.contiguous();
  auto out = torch::empty_like(a);
  const long long size = a.numel();
  if (size == 0) return out;
  const int threads = 256;
  const int blocks = (int)std::min<long long>((size + threads - 1) / threads, 65535);
  add_kernel<<<blocks, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), size);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""

extension = load_inline(name="exemplar_add", cpp_sources=cpp_source, cuda_sources=kernel_source, functions=["add"], verbose=False)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return extension.add(a, b)
