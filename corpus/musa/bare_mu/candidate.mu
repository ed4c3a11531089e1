#include <torch/extension.h>

#include "musa_runtime.h"

__global__ void mish_kernel(const float* x, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float v = x[i];
  float softplus = fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v)));
  y[i] = v * tanhf(softplus);
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int count = x.numel();
  mish_kernel<<<(count + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), count);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Mish"); }
