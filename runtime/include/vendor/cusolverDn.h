// Stand-in for cuSOLVER's dense interface; handles can be made, computation is booked and refused.
#ifndef MUSACODER_VENDOR_CUSOLVERDN_H_
#define MUSACODER_VENDOR_CUSOLVERDN_H_

#include "cusolver_common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cusolverDnContext* cusolverDnHandle_t;

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t* stream);

#define MC_CUSOLVER(S, T)                                                                                                 \
  cusolverStatus_t cusolverDn##S##getrf_bufferSize(cusolverDnHandle_t, int m, int n, T* a, int lda, int* lwork);          \
  cusolverStatus_t cusolverDn##S##getrf(cusolverDnHandle_t, int m, int n, T* a, int lda, T* work, int* pivots, int* info); \
  cusolverStatus_t cusolverDn##S##getrs(cusolverDnHandle_t, cublasOperation_t, int n, int nrhs, const T* a, int lda,      \
                                        const int* pivots, T* b, int ldb, int* info);                                     \
  cusolverStatus_t cusolverDn##S##potrf_bufferSize(cusolverDnHandle_t, cublasFillMode_t, int n, T* a, int lda, int* lwork); \
  cusolverStatus_t cusolverDn##S##potrf(cusolverDnHandle_t, cublasFillMode_t, int n, T* a, int lda, T* work, int lwork,   \
                                        int* info);                                                                       \
  cusolverStatus_t cusolverDn##S##geqrf_bufferSize(cusolverDnHandle_t, int m, int n, T* a, int lda, int* lwork);          \
  cusolverStatus_t cusolverDn##S##geqrf(cusolverDnHandle_t, int m, int n, T* a, int lda, T* tau, T* work, int lwork,      \
                                        int* info);                                                                       \
  cusolverStatus_t cusolverDn##S##syevd_bufferSize(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int n,        \
                                                   const T* a, int lda, const T* w, int* lwork);                          \
  cusolverStatus_t cusolverDn##S##syevd(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int n, T* a, int lda,    \
                                        T* w, T* work, int lwork, int* info);
MC_CUSOLVER(S, float)
MC_CUSOLVER(D, double)
#undef MC_CUSOLVER

#ifdef __cplusplus
}
#endif
#endif
