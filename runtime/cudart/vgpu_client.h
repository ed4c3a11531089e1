/* The candidate process's door to the virtual GPU, as plain C: what the torch device needs beyond the CUDA runtime API.
 *
 *   mcv_connect(fd);                                   // after fork, once; before that every call fails
 *   uint64_t x = mcv_malloc(n * 4);                    // 0: failed, mcv_last_error() says why
 *   mcv_label(x, "relu result float32[64,64]");
 *   mcv_memcpy_h2d(x, host, n * 4, 0);
 *   mcv_tensor dst = {x2, MCV_FLOAT16, 2, {64, 64}, {64, 1}}, src = {x, MCV_FLOAT32, 2, {64, 64}, {1, 64}};
 *   if (mcv_copy_strided(&dst, &src)) throw_error(mcv_last_error());
 *
 * Provided by libmusacoder_cudart.so, beside the CUDA runtime functions, which share the connection.
 * Every int result is 0 or a cudaError_t; the text of the last failure of this thread is in mcv_last_error().
 * Addresses belong to the server and cannot be dereferenced here. Calls return when the device has done the work.
 * Thread safe; a child made by fork is disconnected until it calls mcv_connect itself.
 */
#ifndef MUSACODER_VGPU_CLIENT_H_
#define MUSACODER_VGPU_CLIENT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MCV_MAX_DIMS 16

/* Element types; the numbers are those of torch's ScalarType. */
enum {
  MCV_UINT8 = 0,
  MCV_INT8 = 1,
  MCV_INT16 = 2,
  MCV_INT32 = 3,
  MCV_INT64 = 4,
  MCV_FLOAT16 = 5,
  MCV_FLOAT32 = 6,
  MCV_FLOAT64 = 7,
  MCV_COMPLEX32 = 8,
  MCV_COMPLEX64 = 9,
  MCV_COMPLEX128 = 10,
  MCV_BOOL = 11,
  MCV_BFLOAT16 = 15,
  MCV_FLOAT8_E5M2 = 23,
  MCV_FLOAT8_E4M3FN = 24,
  MCV_UINT16 = 27,
  MCV_UINT32 = 28,
  MCV_UINT64 = 29
};

/* A strided tensor in device memory: address of element (0, …, 0), sizes and strides in elements (strides ≥ 0). */
typedef struct mcv_tensor {
  uint64_t address;
  int32_t dtype;
  int32_t ndim; /* 0 … MCV_MAX_DIMS */
  int64_t sizes[MCV_MAX_DIMS];
  int64_t strides[MCV_MAX_DIMS];
} mcv_tensor;

/* A scalar: the member is chosen by kind. Complex uses real and imag. */
enum { MCV_SCALAR_INT = 0, MCV_SCALAR_UINT = 1, MCV_SCALAR_REAL = 2, MCV_SCALAR_COMPLEX = 3 };
typedef struct mcv_scalar {
  int32_t kind;
  int32_t reserved;
  int64_t integer;
  double real;
  double imag;
} mcv_scalar;

typedef struct mcv_device_properties {
  char name[128]; /* "NVIDIA H200" */
  int32_t compute_major, compute_minor, sm_count, warp_size, max_threads_per_block, max_threads_per_sm;
  int32_t registers_per_block, clock_khz, memory_clock_khz, memory_bus_bits;
  uint64_t shared_bytes_per_block, shared_bytes_per_block_optin, shared_bytes_per_sm;
  uint64_t memory_bytes, l2_bytes, memory_free_bytes;
} mcv_device_properties;

/* Uses fd (which stays the caller's to close) as the connection. Also done by itself from $MUSACODER_VGPU_FD. */
int mcv_connect(int fd);
int mcv_connected(void); /* 1 or 0 */

/* 0 bytes give a unique address of length 0. */
uint64_t mcv_malloc(size_t bytes);
int mcv_free(uint64_t address);

/* creation: 1 when the bytes are the result of a torch creation operator (arange, randn, …) made on the host. */
int mcv_memcpy_h2d(uint64_t to, const void* from, size_t bytes, int creation);
int mcv_memcpy_d2h(void* to, uint64_t from, size_t bytes);
int mcv_memcpy_d2d(uint64_t to, uint64_t from, size_t bytes);

/* torch's copy_: converts every element as torch's cast does. Sizes must agree (no broadcasting; a source stride may be
 * 0). A destination that overlaps itself is refused; source and destination may overlap. */
int mcv_copy_strided(const mcv_tensor* to, const mcv_tensor* from);
int mcv_fill_strided(const mcv_tensor* to, const mcv_scalar* value);

/* Names an allocation in fault reports: "input 0 float32[64,64]". At most 256 bytes are kept. */
int mcv_label(uint64_t address, const char* text);

/* Books a fact about this process in the ledger of the current window. Kinds: "refused" (operator the device refused),
 * "booked" (operator run on the CPU), "vendor" (text "cublas cublasSgemm_v2"), "unsupported" (text
 * "cuda:cudaGraphLaunch"). At most 256 bytes of text are kept. Returns 1 when a judged call is going on, else 0. */
int mcv_report(const char* kind, const char* text);

/* Returns the sticky device fault, if there is one. */
int mcv_synchronize(void);

/* Text of this thread's last failure, e.g. the fault report with kernel, thread, tensor and source line; "" if none. */
const char* mcv_last_error(void);

int mcv_device_info(mcv_device_properties* properties);

#ifdef __cplusplus
}
#endif
#endif
