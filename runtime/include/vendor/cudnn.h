// Stand-in for cuDNN: enough to compile and link code that mentions it. Handles and descriptors can be made, set and
// destroyed; every call that would compute books itself in the device's ledger and returns CUDNN_STATUS_NOT_SUPPORTED.
#ifndef MUSACODER_VENDOR_CUDNN_H_
#define MUSACODER_VENDOR_CUDNN_H_

#include <driver_types.h>
#include <library_types.h>
#include <stddef.h>
#include <stdint.h>

#include "cudnn_version.h"

#ifndef CUDNNWINAPI
#define CUDNNWINAPI
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cudnnContext* cudnnHandle_t;
typedef struct cudnnTensorStruct* cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct* cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct* cudnnConvolutionDescriptor_t;
typedef struct cudnnPoolingStruct* cudnnPoolingDescriptor_t;
typedef struct cudnnActivationStruct* cudnnActivationDescriptor_t;
typedef struct cudnnLRNStruct* cudnnLRNDescriptor_t;
typedef struct cudnnDropoutStruct* cudnnDropoutDescriptor_t;
typedef struct cudnnOpTensorStruct* cudnnOpTensorDescriptor_t;
typedef struct cudnnReduceTensorStruct* cudnnReduceTensorDescriptor_t;
typedef struct cudnnRNNStruct* cudnnRNNDescriptor_t;

typedef enum {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_INTERNAL_ERROR = 4000,
  CUDNN_STATUS_ALLOC_FAILED = 4006,
  CUDNN_STATUS_EXECUTION_FAILED = 5000
} cudnnStatus_t;
typedef enum {
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_DOUBLE = 1,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_INT8 = 3,
  CUDNN_DATA_INT32 = 4,
  CUDNN_DATA_INT8x4 = 5,
  CUDNN_DATA_UINT8 = 6,
  CUDNN_DATA_BFLOAT16 = 9,
  CUDNN_DATA_INT64 = 10,
  CUDNN_DATA_BOOLEAN = 11
} cudnnDataType_t;
typedef enum { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1, CUDNN_TENSOR_NCHW_VECT_C = 2 } cudnnTensorFormat_t;
typedef enum { CUDNN_NOT_PROPAGATE_NAN = 0, CUDNN_PROPAGATE_NAN = 1 } cudnnNanPropagation_t;
typedef enum { CUDNN_NON_DETERMINISTIC = 0, CUDNN_DETERMINISTIC = 1 } cudnnDeterminism_t;
typedef enum {
  CUDNN_DEFAULT_MATH = 0,
  CUDNN_TENSOR_OP_MATH = 1,
  CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
  CUDNN_FMA_MATH = 3
} cudnnMathType_t;
typedef enum { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 } cudnnConvolutionMode_t;
typedef enum {
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0,
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
  CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2,
  CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3,
  CUDNN_CONVOLUTION_FWD_ALGO_FFT = 4,
  CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING = 5,
  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,
  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7,
  CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8
} cudnnConvolutionFwdAlgo_t;
typedef enum { CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1 } cudnnConvolutionBwdDataAlgo_t;
typedef enum { CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1 } cudnnConvolutionBwdFilterAlgo_t;
typedef struct {
  cudnnConvolutionFwdAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t;
typedef enum {
  CUDNN_ACTIVATION_SIGMOID = 0,
  CUDNN_ACTIVATION_RELU = 1,
  CUDNN_ACTIVATION_TANH = 2,
  CUDNN_ACTIVATION_CLIPPED_RELU = 3,
  CUDNN_ACTIVATION_ELU = 4,
  CUDNN_ACTIVATION_IDENTITY = 5,
  CUDNN_ACTIVATION_SWISH = 6
} cudnnActivationMode_t;
typedef enum {
  CUDNN_POOLING_MAX = 0,
  CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING = 1,
  CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING = 2,
  CUDNN_POOLING_MAX_DETERMINISTIC = 3
} cudnnPoolingMode_t;
typedef enum { CUDNN_SOFTMAX_FAST = 0, CUDNN_SOFTMAX_ACCURATE = 1, CUDNN_SOFTMAX_LOG = 2 } cudnnSoftmaxAlgorithm_t;
typedef enum { CUDNN_SOFTMAX_MODE_INSTANCE = 0, CUDNN_SOFTMAX_MODE_CHANNEL = 1 } cudnnSoftmaxMode_t;
typedef enum {
  CUDNN_BATCHNORM_PER_ACTIVATION = 0,
  CUDNN_BATCHNORM_SPATIAL = 1,
  CUDNN_BATCHNORM_SPATIAL_PERSISTENT = 2
} cudnnBatchNormMode_t;
#define CUDNN_BN_MIN_EPSILON 0.0

size_t cudnnGetVersion(void);
const char* cudnnGetErrorString(cudnnStatus_t status);
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream);

#define MC_CUDNN_DESCRIPTOR(Name)                                            \
  cudnnStatus_t cudnnCreate##Name##Descriptor(cudnn##Name##Descriptor_t* d); \
  cudnnStatus_t cudnnDestroy##Name##Descriptor(cudnn##Name##Descriptor_t d);
MC_CUDNN_DESCRIPTOR(Tensor)
MC_CUDNN_DESCRIPTOR(Filter)
MC_CUDNN_DESCRIPTOR(Convolution)
MC_CUDNN_DESCRIPTOR(Pooling)
MC_CUDNN_DESCRIPTOR(Activation)
MC_CUDNN_DESCRIPTOR(LRN)
MC_CUDNN_DESCRIPTOR(Dropout)
MC_CUDNN_DESCRIPTOR(OpTensor)
MC_CUDNN_DESCRIPTOR(ReduceTensor)
MC_CUDNN_DESCRIPTOR(RNN)
#undef MC_CUDNN_DESCRIPTOR

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t, cudnnTensorFormat_t, cudnnDataType_t, int n, int c, int h,
                                         int w);
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t, cudnnDataType_t, int n, int c, int h, int w, int ns,
                                           int cs, int hs, int ws);
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t, cudnnDataType_t, int dims, const int sizes[],
                                         const int strides[]);
cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t, cudnnTensorFormat_t, cudnnDataType_t, int dims,
                                           const int sizes[]);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int k, int c, int h,
                                         int w);
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int dims,
                                         const int sizes[]);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t, int pad_h, int pad_w, int u, int v,
                                              int dilation_h, int dilation_w, cudnnConvolutionMode_t, cudnnDataType_t);
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t, int dims, const int pad[], const int stride[],
                                              const int dilation[], cudnnConvolutionMode_t, cudnnDataType_t);
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t, int groups);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t);
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t, cudnnPoolingMode_t, cudnnNanPropagation_t, int h, int w,
                                          int pad_h, int pad_w, int stride_h, int stride_w);
cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t, cudnnPoolingMode_t, cudnnNanPropagation_t, int dims,
                                          const int window[], const int pad[], const int stride[]);
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnNanPropagation_t,
                                           double coefficient);

// Computation and its plans: booked and refused.
cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                                                    cudnnFilterDescriptor_t, int* n, int* c, int* h, int* w);
cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                                                    cudnnFilterDescriptor_t, int dims, int sizes[]);
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t y, int asked,
                                                     int* found, cudnnConvolutionFwdAlgoPerf_t* results);
cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                                                   cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t y, int asked,
                                                   int* found, cudnnConvolutionFwdAlgoPerf_t* results);
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t, size_t* bytes);
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t xd, const void* x,
                                      cudnnFilterDescriptor_t wd, const void* w, cudnnConvolutionDescriptor_t,
                                      cudnnConvolutionFwdAlgo_t, void* workspace, size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t yd, void* y);
cudnnStatus_t cudnnConvolutionBiasActivationForward(cudnnHandle_t, const void* alpha1, cudnnTensorDescriptor_t xd,
                                                    const void* x, cudnnFilterDescriptor_t wd, const void* w,
                                                    cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t, void* workspace,
                                                    size_t workspace_bytes, const void* alpha2, cudnnTensorDescriptor_t zd,
                                                    const void* z, cudnnTensorDescriptor_t biasd, const void* bias,
                                                    cudnnActivationDescriptor_t, cudnnTensorDescriptor_t yd, void* y);
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void* alpha, cudnnFilterDescriptor_t wd, const void* w,
                                           cudnnTensorDescriptor_t dyd, const void* dy, cudnnConvolutionDescriptor_t,
                                           cudnnConvolutionBwdDataAlgo_t, void* workspace, size_t workspace_bytes,
                                           const void* beta, cudnnTensorDescriptor_t dxd, void* dx);
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t xd, const void* x,
                                             cudnnTensorDescriptor_t dyd, const void* dy, cudnnConvolutionDescriptor_t,
                                             cudnnConvolutionBwdFilterAlgo_t, void* workspace, size_t workspace_bytes,
                                             const void* beta, cudnnFilterDescriptor_t dwd, void* dw);
cudnnStatus_t cudnnAddTensor(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t ad, const void* a, const void* beta,
                             cudnnTensorDescriptor_t cd, void* c);
cudnnStatus_t cudnnScaleTensor(cudnnHandle_t, cudnnTensorDescriptor_t yd, void* y, const void* alpha);
cudnnStatus_t cudnnSetTensor(cudnnHandle_t, cudnnTensorDescriptor_t yd, void* y, const void* value);
cudnnStatus_t cudnnTransformTensor(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t xd, const void* x,
                                   const void* beta, cudnnTensorDescriptor_t yd, void* y);
cudnnStatus_t cudnnActivationForward(cudnnHandle_t, cudnnActivationDescriptor_t, const void* alpha,
                                     cudnnTensorDescriptor_t xd, const void* x, const void* beta, cudnnTensorDescriptor_t yd,
                                     void* y);
cudnnStatus_t cudnnPoolingForward(cudnnHandle_t, cudnnPoolingDescriptor_t, const void* alpha, cudnnTensorDescriptor_t xd,
                                  const void* x, const void* beta, cudnnTensorDescriptor_t yd, void* y);
cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, const void* alpha,
                                  cudnnTensorDescriptor_t xd, const void* x, const void* beta, cudnnTensorDescriptor_t yd,
                                  void* y);
cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t, cudnnBatchNormMode_t, const void* alpha,
                                                      const void* beta, cudnnTensorDescriptor_t xd, const void* x,
                                                      cudnnTensorDescriptor_t yd, void* y, cudnnTensorDescriptor_t,
                                                      const void* scale, const void* bias, const void* mean,
                                                      const void* variance, double epsilon);
cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t, cudnnBatchNormMode_t, const void* alpha, const void* beta,
                                                     cudnnTensorDescriptor_t xd, const void* x, cudnnTensorDescriptor_t yd,
                                                     void* y, cudnnTensorDescriptor_t, const void* scale, const void* bias,
                                                     double factor, void* running_mean, void* running_variance,
                                                     double epsilon, void* saved_mean, void* saved_inverse_variance);

#ifdef __cplusplus
}
#endif
#endif
