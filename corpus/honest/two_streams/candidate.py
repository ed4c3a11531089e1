import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void copy_kernel(const float* in, float* out, int per_batch, int out_per_batch, int offset, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i / per_batch * out_per_batch + offset + i % per_batch] = in[i];
}

torch::Tensor concat(torch::Tensor a, torch::Tensor b) {
  int batch = a.size(0), na = a.numel() / batch, nb = b.numel() / batch;
  auto out = torch::empty({a.size(0), a.size(1) + b.size(1), a.size(2)}, a.options());
  cudaStream_t caller = at::cuda::getCurrentCUDAStream().stream();
  cudaStream_t streams[2];
  cudaEvent_t ready, done[2];
  cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
  cudaEventRecord(ready, caller);
  for (int i = 0; i < 2; ++i) {
    cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming);
    cudaStreamWaitEvent(streams[i], ready, 0);
  }
  int ca = a.numel(), cb = b.numel();
  copy_kernel<<<(ca + 127) / 128, 128, 0, streams[0]>>>(a.data_ptr<float>(), out.data_ptr<float>(), na, na + nb, 0, ca);
  copy_kernel<<<(cb + 127) / 128, 128, 0, streams[1]>>>(b.data_ptr<float>(), out.data_ptr<float>(), nb, na + nb, na, cb);
  for (int i = 0; i < 2; ++i) {
    cudaEventRecord(done[i], streams[i]);
    cudaStreamWaitEvent(caller, done[i], 0);
  }
  cudaStreamSynchronize(caller);
  for (int i = 0; i < 2; ++i) {
    cudaEventDestroy(done[i]);
    cudaStreamDestroy(streams[i]);
  }
  cudaEventDestroy(ready);
  return out;
}
"""

cpp_source = "torch::Tensor concat(torch::Tensor a, torch::Tensor b);"

extension = load_inline(
    name="two_streams",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["concat"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return extension.concat(a, b)
