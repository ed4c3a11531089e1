// A candidate that uses NVIDIA's libraries.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>
#include <cufft.h>
#include <curand.h>
#include <cusolverDn.h>
#include <cusparse.h>

#define CHECK(x) \
  if (!(x)) return __LINE__

extern "C" int run_mentions() {
  cublasHandle_t handle;
  cudnnTensorDescriptor_t desc;
  CHECK(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS && cublasSetStream(handle, 0) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudnnCreateTensorDescriptor(&desc) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 3, 4) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnDestroyTensorDescriptor(desc) == CUDNN_STATUS_SUCCESS && cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
  return 0;
}

extern "C" int run_calls() {
  cublasHandle_t handle;
  CHECK(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  float one = 1, x[4] = {};
  for (int i = 0; i < 2; ++i)
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, 2, 2, 2, &one, x, 2, x, 2, &one, x, 2) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(cudnnAddTensor(nullptr, &one, nullptr, x, &one, nullptr, x) == CUDNN_STATUS_NOT_SUPPORTED);
  return 0;
}
