// Stand-in for cuBLAS: enough to compile and link code that mentions it. Creating and configuring handles succeeds; every
// call that would compute books itself in the device's ledger and returns CUBLAS_STATUS_NOT_SUPPORTED.
#ifndef MUSACODER_VENDOR_CUBLAS_API_H_
#define MUSACODER_VENDOR_CUBLAS_API_H_

#include <cuComplex.h>
#include <cuda_fp16.h>
#include <driver_types.h>
#include <library_types.h>
#include <stddef.h>
#include <stdint.h>

#ifndef CUBLASWINAPI
#define CUBLASWINAPI
#endif
#define CUBLAS_VER_MAJOR 13
#define CUBLAS_VER_MINOR 1
#define CUBLAS_VER_PATCH 0
#define CUBLAS_VERSION (CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cublasContext* cublasHandle_t;

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;
typedef enum { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1, CUBLAS_FILL_MODE_FULL = 2 } cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 } cublasSideMode_t;
typedef enum {
  CUBLAS_OP_N = 0,
  CUBLAS_OP_T = 1,
  CUBLAS_OP_C = 2,
  CUBLAS_OP_HERMITAN = 2,
  CUBLAS_OP_CONJG = 3
} cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 } cublasAtomicsMode_t;
typedef enum {
  CUBLAS_GEMM_DFALT = -1,
  CUBLAS_GEMM_DEFAULT = -1,
  CUBLAS_GEMM_ALGO0 = 0,
  CUBLAS_GEMM_ALGO1 = 1,
  CUBLAS_GEMM_ALGO2 = 2,
  CUBLAS_GEMM_ALGO3 = 3,
  CUBLAS_GEMM_ALGO4 = 4,
  CUBLAS_GEMM_ALGO5 = 5,
  CUBLAS_GEMM_ALGO6 = 6,
  CUBLAS_GEMM_ALGO7 = 7,
  CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
  CUBLAS_GEMM_DFALT_TENSOR_OP = 99,
  CUBLAS_GEMM_ALGO0_TENSOR_OP = 100
} cublasGemmAlgo_t;
typedef enum {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TENSOR_OP_MATH = 1,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;
typedef enum {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_16F_PEDANTIC = 65,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_64F_PEDANTIC = 71,
  CUBLAS_COMPUTE_32I = 72,
  CUBLAS_COMPUTE_32I_PEDANTIC = 73,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;
typedef cudaDataType cublasDataType_t;

// Handles: these succeed.
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int* version);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes);
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode);
const char* cublasGetStatusName(cublasStatus_t status);
const char* cublasGetStatusString(cublasStatus_t status);

// Computation: these are booked and refused.
#define MC_CUBLAS_REAL(S, T)                                                                                               \
  cublasStatus_t cublas##S##axpy_v2(cublasHandle_t, int n, const T* alpha, const T* x, int incx, T* y, int incy);          \
  cublasStatus_t cublas##S##copy_v2(cublasHandle_t, int n, const T* x, int incx, T* y, int incy);                          \
  cublasStatus_t cublas##S##swap_v2(cublasHandle_t, int n, T* x, int incx, T* y, int incy);                                \
  cublasStatus_t cublas##S##dot_v2(cublasHandle_t, int n, const T* x, int incx, const T* y, int incy, T* result);          \
  cublasStatus_t cublas##S##nrm2_v2(cublasHandle_t, int n, const T* x, int incx, T* result);                               \
  cublasStatus_t cublas##S##asum_v2(cublasHandle_t, int n, const T* x, int incx, T* result);                               \
  cublasStatus_t cublas##S##scal_v2(cublasHandle_t, int n, const T* alpha, T* x, int incx);                                \
  cublasStatus_t cublasI##S##amax_MC(cublasHandle_t, int n, const T* x, int incx, int* result);                            \
  cublasStatus_t cublas##S##gemv_v2(cublasHandle_t, cublasOperation_t trans, int m, int n, const T* alpha, const T* a,     \
                                    int lda, const T* x, int incx, const T* beta, T* y, int incy);                         \
  cublasStatus_t cublas##S##ger_v2(cublasHandle_t, int m, int n, const T* alpha, const T* x, int incx, const T* y,         \
                                   int incy, T* a, int lda);                                                               \
  cublasStatus_t cublas##S##symv_v2(cublasHandle_t, cublasFillMode_t, int n, const T* alpha, const T* a, int lda,          \
                                    const T* x, int incx, const T* beta, T* y, int incy);                                  \
  cublasStatus_t cublas##S##symm_v2(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, int m, int n, const T* alpha,      \
                                    const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc);               \
  cublasStatus_t cublas##S##syrk_v2(cublasHandle_t, cublasFillMode_t, cublasOperation_t, int n, int k, const T* alpha,     \
                                    const T* a, int lda, const T* beta, T* c, int ldc);                                    \
  cublasStatus_t cublas##S##trmm_v2(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,                 \
                                    cublasDiagType_t, int m, int n, const T* alpha, const T* a, int lda, const T* b,       \
                                    int ldb, T* c, int ldc);                                                               \
  cublasStatus_t cublas##S##trsm_v2(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,                 \
                                    cublasDiagType_t, int m, int n, const T* alpha, const T* a, int lda, T* b, int ldb);   \
  cublasStatus_t cublas##S##geam(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, const T* alpha,       \
                                 const T* a, int lda, const T* beta, const T* b, int ldb, T* c, int ldc);                  \
  cublasStatus_t cublas##S##dgmm(cublasHandle_t, cublasSideMode_t, int m, int n, const T* a, int lda, const T* x,          \
                                 int incx, T* c, int ldc);                                                                 \
  MC_CUBLAS_GEMM(S##gemm_v2, S, T)
#define MC_CUBLAS_GEMM(name, S, T)                                                                                         \
  cublasStatus_t cublas##name(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,     \
                              const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc);     \
  cublasStatus_t cublas##S##gemmStridedBatched(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m,  \
                                               int n, int k, const T* alpha, const T* a, int lda, long long int stridea,   \
                                               const T* b, int ldb, long long int strideb, const T* beta, T* c, int ldc,   \
                                               long long int stridec, int batches);                                        \
  cublasStatus_t cublas##S##gemmBatched(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n,  \
                                        int k, const T* alpha, const T* const a[], int lda, const T* const b[], int ldb,   \
                                        const T* beta, T* const c[], int ldc, int batches);

#define cublasISamax_MC cublasIsamax_v2
#define cublasIDamax_MC cublasIdamax_v2
MC_CUBLAS_REAL(S, float)
MC_CUBLAS_REAL(D, double)
MC_CUBLAS_GEMM(Cgemm_v2, C, cuComplex)
MC_CUBLAS_GEMM(Zgemm_v2, Z, cuDoubleComplex)
MC_CUBLAS_GEMM(Hgemm, H, __half)
#undef MC_CUBLAS_REAL
#undef MC_CUBLAS_GEMM

cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType atype, int lda, const void* b, cudaDataType btype,
                            int ldb, const void* beta, void* c, cudaDataType ctype, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algo);
cublasStatus_t cublasSgemmEx(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                             const float* alpha, const void* a, cudaDataType atype, int lda, const void* b,
                             cudaDataType btype, int ldb, const float* beta, void* c, cudaDataType ctype, int ldc);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                                          int k, const void* alpha, const void* a, cudaDataType atype, int lda,
                                          long long int stridea, const void* b, cudaDataType btype, int ldb,
                                          long long int strideb, const void* beta, void* c, cudaDataType ctype, int ldc,
                                          long long int stridec, int batches, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                                   const void* alpha, const void* const a[], cudaDataType atype, int lda,
                                   const void* const b[], cudaDataType btype, int ldb, const void* beta, void* const c[],
                                   cudaDataType ctype, int ldc, int batches, cublasComputeType_t compute,
                                   cublasGemmAlgo_t algo);
cublasStatus_t cublasAxpyEx(cublasHandle_t, int n, const void* alpha, cudaDataType alphatype, const void* x,
                            cudaDataType xtype, int incx, void* y, cudaDataType ytype, int incy, cudaDataType execution);
cublasStatus_t cublasDotEx(cublasHandle_t, int n, const void* x, cudaDataType xtype, int incx, const void* y,
                           cudaDataType ytype, int incy, void* result, cudaDataType resulttype, cudaDataType execution);
cublasStatus_t cublasNrm2Ex(cublasHandle_t, int n, const void* x, cudaDataType xtype, int incx, void* result,
                            cudaDataType resulttype, cudaDataType execution);
cublasStatus_t cublasScalEx(cublasHandle_t, int n, const void* alpha, cudaDataType alphatype, void* x, cudaDataType xtype,
                            int incx, cudaDataType execution);
cublasStatus_t cublasSetVector(int n, int bytes, const void* x, int incx, void* device, int incy);
cublasStatus_t cublasGetVector(int n, int bytes, const void* device, int incx, void* y, int incy);
cublasStatus_t cublasSetMatrix(int rows, int cols, int bytes, const void* a, int lda, void* device, int ldb);
cublasStatus_t cublasGetMatrix(int rows, int cols, int bytes, const void* device, int lda, void* b, int ldb);

#ifdef __cplusplus
}
#endif
#endif
