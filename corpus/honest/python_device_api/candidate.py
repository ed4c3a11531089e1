import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
__global__ void difference_kernel(const float* a, const float* b, float* y, int n, int m) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
  if (i < n && j < m) y[i * m + j] = fabsf(a[i] - b[j]);
}

void difference(torch::Tensor a, torch::Tensor b, torch::Tensor y, int64_t threads, int64_t stream) {
  int n = a.size(0), m = b.size(0);
  difference_kernel<<<dim3((m + threads - 1) / threads, n), threads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), n, m);
}
"""

cpp_source = """
void difference(torch::Tensor a, torch::Tensor b, torch::Tensor y, int64_t threads, int64_t stream);
"""

extension = load_inline(
    name="python_device_api",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["difference"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.threads = 64

    def forward(self, a, b):
        assert a.is_cuda and a.device.type == "cuda" and torch.cuda.is_available()
        limit = torch.cuda.get_device_properties(a.device).multi_processor_count
        assert limit > 0
        y = torch.empty((a.numel(), b.numel()), dtype=torch.float32, device="cuda")
        stream = torch.cuda.current_stream().cuda_stream
        extension.difference(a.contiguous(), b.contiguous(), y, self.threads, stream)
        torch.cuda.synchronize()
        return y
