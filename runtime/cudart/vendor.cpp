// Stand-ins for NVIDIA's libraries (headers in runtime/include/vendor): a candidate that only mentions them builds and
// runs; a call that would compute books itself in the device's ledger as "<library> <function>" and returns the library's
// NOT_SUPPORTED. Making, setting and destroying handles and descriptors succeed and are not booked.
//
// To add a function: declare it in the header and add its name to the list of its kind here. The functions are defined
// without their arguments, which the C calling convention lets a callee ignore; this file must not see the headers.
#include <cstddef>
#include <cstdlib>

#include "connection.h"

using musacoder::cudart::vendor_call;

namespace {

// Room for any descriptor that the caller may look into.
int make(void** out) {
  if (!out) return 1;
  *out = std::calloc(1, 512);
  return 0;
}
int drop(void* p) {
  std::free(p);
  return 0;
}
int next_plan(int* out) {
  static int plans = 0;
  if (out) *out = ++plans;
  return 0;
}

}  // namespace

#define MAKE(name) \
  extern "C" int name(void** out) { return make(out); }
#define DROP(name) \
  extern "C" int name(void* p) { return drop(p); }
#define ACCEPT(name) \
  extern "C" int name() { return 0; }
#define ZERO(name) \
  extern "C" int name(void*, void** out) { if (out) *out = nullptr; return 0; }
#define ZERO_INT(name) \
  extern "C" int name(void*, int* out) { if (out) *out = 0; return 0; }
#define REFUSE(library, status, name) \
  extern "C" int name() {             \
    vendor_call(library, #name);      \
    return status;                    \
  }

// ---- cuBLAS
#define CUBLAS(name) REFUSE("cublas", 15, cublas##name)
MAKE(cublasCreate_v2)
DROP(cublasDestroy_v2)
extern "C" int cublasGetVersion_v2(void*, int* version) { if (version) *version = 130100; return 0; }
ACCEPT(cublasSetStream_v2)
ZERO(cublasGetStream_v2)
ACCEPT(cublasSetWorkspace_v2)
ACCEPT(cublasSetPointerMode_v2)
ZERO_INT(cublasGetPointerMode_v2)
ACCEPT(cublasSetAtomicsMode)
ACCEPT(cublasSetMathMode)
ZERO_INT(cublasGetMathMode)
extern "C" const char* cublasGetStatusString(int status) { return status == 0 ? "success" : status == 15 ? "not supported" : "error"; }
extern "C" const char* cublasGetStatusName(int status) {
  return status == 0 ? "CUBLAS_STATUS_SUCCESS" : status == 15 ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INTERNAL_ERROR";
}
#define CUBLAS_REAL(S)                                                                                                     \
  CUBLAS(S##axpy_v2) CUBLAS(S##copy_v2) CUBLAS(S##swap_v2) CUBLAS(S##dot_v2) CUBLAS(S##nrm2_v2) CUBLAS(S##asum_v2)          \
  CUBLAS(S##scal_v2) CUBLAS(S##gemv_v2) CUBLAS(S##ger_v2) CUBLAS(S##symv_v2) CUBLAS(S##symm_v2) CUBLAS(S##syrk_v2)          \
  CUBLAS(S##trmm_v2) CUBLAS(S##trsm_v2) CUBLAS(S##geam) CUBLAS(S##dgmm) CUBLAS(S##gemm_v2) CUBLAS(S##gemmStridedBatched)    \
  CUBLAS(S##gemmBatched) CUBLAS(I##S##amax_v2_)
#define cublasISamax_v2_ cublasIsamax_v2
#define cublasIDamax_v2_ cublasIdamax_v2
CUBLAS_REAL(S)
CUBLAS_REAL(D)
CUBLAS(Cgemm_v2) CUBLAS(CgemmStridedBatched) CUBLAS(CgemmBatched)
CUBLAS(Zgemm_v2) CUBLAS(ZgemmStridedBatched) CUBLAS(ZgemmBatched)
CUBLAS(Hgemm) CUBLAS(HgemmStridedBatched) CUBLAS(HgemmBatched)
CUBLAS(GemmEx) CUBLAS(SgemmEx) CUBLAS(GemmStridedBatchedEx) CUBLAS(GemmBatchedEx)
CUBLAS(AxpyEx) CUBLAS(DotEx) CUBLAS(Nrm2Ex) CUBLAS(ScalEx)
CUBLAS(SetVector) CUBLAS(GetVector) CUBLAS(SetMatrix) CUBLAS(GetMatrix)

// ---- cuBLASLt
#define CUBLASLT(name) REFUSE("cublasLt", 15, cublasLt##name)
MAKE(cublasLtCreate)
DROP(cublasLtDestroy)
MAKE(cublasLtMatmulDescCreate)
DROP(cublasLtMatmulDescDestroy)
ACCEPT(cublasLtMatmulDescSetAttribute)
MAKE(cublasLtMatrixLayoutCreate)
DROP(cublasLtMatrixLayoutDestroy)
ACCEPT(cublasLtMatrixLayoutSetAttribute)
MAKE(cublasLtMatmulPreferenceCreate)
DROP(cublasLtMatmulPreferenceDestroy)
ACCEPT(cublasLtMatmulPreferenceSetAttribute)
CUBLASLT(MatmulAlgoGetHeuristic)
CUBLASLT(Matmul)

// ---- cuDNN
#define CUDNN(name) REFUSE("cudnn", 3000, cudnn##name)
#define CUDNN_DESCRIPTOR(Name)         \
  MAKE(cudnnCreate##Name##Descriptor)  \
  DROP(cudnnDestroy##Name##Descriptor)
extern "C" std::size_t cudnnGetVersion() { return 91900; }
extern "C" const char* cudnnGetErrorString(int status) {
  return status == 0 ? "CUDNN_STATUS_SUCCESS" : status == 3000 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_INTERNAL_ERROR";
}
MAKE(cudnnCreate)
DROP(cudnnDestroy)
ACCEPT(cudnnSetStream)
ZERO(cudnnGetStream)
CUDNN_DESCRIPTOR(Tensor)
CUDNN_DESCRIPTOR(Filter)
CUDNN_DESCRIPTOR(Convolution)
CUDNN_DESCRIPTOR(Pooling)
CUDNN_DESCRIPTOR(Activation)
CUDNN_DESCRIPTOR(LRN)
CUDNN_DESCRIPTOR(Dropout)
CUDNN_DESCRIPTOR(OpTensor)
CUDNN_DESCRIPTOR(ReduceTensor)
CUDNN_DESCRIPTOR(RNN)
ACCEPT(cudnnSetTensor4dDescriptor)
ACCEPT(cudnnSetTensor4dDescriptorEx)
ACCEPT(cudnnSetTensorNdDescriptor)
ACCEPT(cudnnSetTensorNdDescriptorEx)
ACCEPT(cudnnSetFilter4dDescriptor)
ACCEPT(cudnnSetFilterNdDescriptor)
ACCEPT(cudnnSetConvolution2dDescriptor)
ACCEPT(cudnnSetConvolutionNdDescriptor)
ACCEPT(cudnnSetConvolutionGroupCount)
ACCEPT(cudnnSetConvolutionMathType)
ACCEPT(cudnnSetPooling2dDescriptor)
ACCEPT(cudnnSetPoolingNdDescriptor)
ACCEPT(cudnnSetActivationDescriptor)
CUDNN(GetConvolution2dForwardOutputDim)
CUDNN(GetConvolutionNdForwardOutputDim)
CUDNN(GetConvolutionForwardAlgorithm_v7)
CUDNN(FindConvolutionForwardAlgorithm)
CUDNN(GetConvolutionForwardWorkspaceSize)
CUDNN(ConvolutionForward)
CUDNN(ConvolutionBiasActivationForward)
CUDNN(ConvolutionBackwardData)
CUDNN(ConvolutionBackwardFilter)
CUDNN(AddTensor)
CUDNN(ScaleTensor)
CUDNN(SetTensor)
CUDNN(TransformTensor)
CUDNN(ActivationForward)
CUDNN(PoolingForward)
CUDNN(SoftmaxForward)
CUDNN(BatchNormalizationForwardInference)
CUDNN(BatchNormalizationForwardTraining)

// ---- cuFFT
#define CUFFT(name) REFUSE("cufft", 16, cufft##name)
#define CUFFT_PLAN(name) \
  extern "C" int cufft##name(int* plan) { return next_plan(plan); }
CUFFT_PLAN(Create)
CUFFT_PLAN(Plan1d)
CUFFT_PLAN(Plan2d)
CUFFT_PLAN(Plan3d)
CUFFT_PLAN(PlanMany)
ACCEPT(cufftDestroy)
ACCEPT(cufftSetStream)
CUFFT(MakePlan1d)
CUFFT(ExecC2C)
CUFFT(ExecR2C)
CUFFT(ExecC2R)
CUFFT(ExecZ2Z)
CUFFT(ExecD2Z)
CUFFT(ExecZ2D)

// ---- cuRAND, host interface; it has no NOT_SUPPORTED, CURAND_STATUS_INITIALIZATION_FAILED is nearest
#define CURAND(name) REFUSE("curand", 203, curand##name)
MAKE(curandCreateGenerator)
DROP(curandDestroyGenerator)
ACCEPT(curandSetStream)
ACCEPT(curandSetPseudoRandomGeneratorSeed)
ACCEPT(curandSetGeneratorOffset)
CURAND(Generate)
CURAND(GenerateUniform)
CURAND(GenerateUniformDouble)
CURAND(GenerateNormal)
CURAND(GenerateNormalDouble)

// ---- cuSPARSE
#define CUSPARSE(name) REFUSE("cusparse", 10, cusparse##name)
MAKE(cusparseCreate)
DROP(cusparseDestroy)
ACCEPT(cusparseSetStream)
extern "C" const char* cusparseGetErrorName(int status) { return status == 0 ? "CUSPARSE_STATUS_SUCCESS" : "CUSPARSE_STATUS_NOT_SUPPORTED"; }
extern "C" const char* cusparseGetErrorString(int status) { return status == 0 ? "success" : "not supported"; }
MAKE(cusparseCreateCsr)
MAKE(cusparseCreateDnMat)
MAKE(cusparseCreateDnVec)
DROP(cusparseDestroySpMat)
DROP(cusparseDestroyDnMat)
DROP(cusparseDestroyDnVec)
CUSPARSE(SpMM_bufferSize)
CUSPARSE(SpMM)
CUSPARSE(SpMV_bufferSize)
CUSPARSE(SpMV)

// ---- cuSOLVER
#define CUSOLVER(name) REFUSE("cusolver", 9, cusolverDn##name)
MAKE(cusolverDnCreate)
DROP(cusolverDnDestroy)
ACCEPT(cusolverDnSetStream)
ZERO(cusolverDnGetStream)
#define CUSOLVER_REAL(S)                                                                                             \
  CUSOLVER(S##getrf_bufferSize) CUSOLVER(S##getrf) CUSOLVER(S##getrs) CUSOLVER(S##potrf_bufferSize) CUSOLVER(S##potrf) \
  CUSOLVER(S##geqrf_bufferSize) CUSOLVER(S##geqrf) CUSOLVER(S##syevd_bufferSize) CUSOLVER(S##syevd)
CUSOLVER_REAL(S)
CUSOLVER_REAL(D)
