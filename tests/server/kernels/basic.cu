// What a candidate does, with no torch: kernels of several kinds and the runtime calls around them. Each entry returns 0
// or the line that went wrong.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <thread>
#include <vector>

#define CHECK(x) \
  if (!(x)) return __LINE__

__constant__ float scale[4];
__device__ int hits;

template <typename T>
__global__ void saxpy(T* y, const T* x, float2 ab, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = T(ab.x * float(x[i]) + ab.y * float(y[i]) * scale[1]);
  if (i == 0) atomicAdd(&hits, 1);
}

__global__ void reverse(int* x, int n) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[n - 1 - threadIdx.x];
}

__global__ void past_the_end(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) x[i] = 1;
}

__global__ void forever(volatile int* x) {
  while (x[0] == 0) {
  }
}

__global__ void speak() { printf("block %d says %s\n", blockIdx.x, "hello"); }

extern "C" int run_basic() {
  const int n = 1000;
  std::vector<float> x(n), y(n), out(n);
  for (int i = 0; i < n; ++i) x[i] = i, y[i] = 1;
  float *dx, *dy;
  CHECK(cudaMalloc(&dx, n * 4) == cudaSuccess);
  CHECK(cudaMalloc(&dy, n * 4) == cudaSuccess);
  CHECK(cudaMemcpy(dx, x.data(), n * 4, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpyAsync(dy, y.data(), n * 4, cudaMemcpyDefault, 0) == cudaSuccess);
  float s[4] = {0, 10, 0, 0};
  CHECK(cudaMemcpyToSymbol(scale, s, sizeof s) == cudaSuccess);
  saxpy<float><<<(n + 255) / 256, 256>>>(dy, dx, make_float2(2, 3), n);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaMemcpy(out.data(), dy, n * 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  for (int i = 0; i < n; ++i) CHECK(out[i] == 2.0f * i + 30);
  cudaStream_t stream;
  cudaEvent_t a, b;
  CHECK(cudaStreamCreate(&stream) == cudaSuccess);
  CHECK(cudaEventCreate(&a) == cudaSuccess && cudaEventCreate(&b) == cudaSuccess);
  CHECK(cudaEventRecord(a, stream) == cudaSuccess);
  std::vector<__half> hx(n, __float2half(2.0f));
  __half *dhx, *dhy;
  CHECK(cudaMallocAsync(&dhx, n * 2, stream) == cudaSuccess && cudaMallocAsync(&dhy, n * 2, stream) == cudaSuccess);
  CHECK(cudaMemcpyAsync(dhx, hx.data(), n * 2, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  CHECK(cudaMemsetAsync(dhy, 0, n * 2, stream) == cudaSuccess);
  saxpy<__half><<<(n + 255) / 256, 256, 0, stream>>>(dhy, dhx, make_float2(2, 3), n);
  CHECK(cudaEventRecord(b, stream) == cudaSuccess && cudaEventSynchronize(b) == cudaSuccess);
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, a, b) == cudaSuccess && ms >= 0);
  CHECK(cudaMemcpy(hx.data(), dhy, n * 2, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(__half2float(hx[999]) == 4.0f);
  int count = 0;
  CHECK(cudaMemcpyFromSymbol(&count, hits, 4) == cudaSuccess);
  CHECK(count == 2);
  int *d, h[64];
  for (int i = 0; i < 64; ++i) h[i] = i;
  CHECK(cudaMalloc(&d, sizeof h) == cudaSuccess);
  CHECK(cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice) == cudaSuccess);
  reverse<<<1, 64, sizeof h>>>(d, 64);
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(h[0] == 63 && h[63] == 0);
  cudaPointerAttributes at;
  CHECK(cudaPointerGetAttributes(&at, d + 3) == cudaSuccess && at.type == cudaMemoryTypeDevice);
  CHECK(cudaPointerGetAttributes(&at, h) == cudaSuccess && at.type == cudaMemoryTypeUnregistered);
  CHECK(cudaFree(d) == cudaSuccess && cudaFree(d) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaFreeAsync(dhx, stream) == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess && cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  // wrong directions, too much memory
  CHECK(cudaMemcpy(h, h, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(dx, dx, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  void* huge;
  CHECK(cudaMalloc(&huge, size_t{1} << 50) == cudaErrorMemoryAllocation);
  (void)cudaGetLastError();
  speak<<<2, 1>>>();
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  std::fflush(stdout);
  return 0;
}

extern "C" int run_properties() {
  cudaDeviceProp p;
  CHECK(cudaGetDeviceProperties(&p, 0) == cudaSuccess);
  CHECK(p.major == 9 && p.warpSize == 32 && p.multiProcessorCount == 132 && p.maxThreadsPerBlock == 1024);
  int sms = 0, count = 0, device = -1;
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess && sms == 132);
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess && count == 1);
  CHECK(cudaGetDevice(&device) == cudaSuccess && device == 0);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice && cudaGetLastError() == cudaErrorInvalidDevice);
  int blocks = 0, grid = 0, block = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, saxpy<float>, 256, 0) == cudaSuccess && blocks == 8);
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, saxpy<float>) == cudaSuccess && block == 1024 && grid == 264);
  cudaFuncAttributes fa;
  CHECK(cudaFuncGetAttributes(&fa, saxpy<float>) == cudaSuccess && fa.maxThreadsPerBlock == 1024);
  size_t available, total;
  CHECK(cudaMemGetInfo(&available, &total) == cudaSuccess && available <= total && total > 0);
  CHECK(cudaGraphLaunch(nullptr, 0) == cudaErrorNotSupported);
  return 0;
}

extern "C" int run_launch_errors() {
  int* d;
  CHECK(cudaMalloc(&d, 64 << 10) == cudaSuccess);
  reverse<<<1, 2048>>>(d, 1);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess);
  reverse<<<0, 32>>>(d, 1);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  reverse<<<1, 1024, 100000>>>(d, 1024);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 300000) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000) == cudaSuccess);
  (void)cudaGetLastError();
  reverse<<<1, 1024, 100000>>>(d, 1024);
  CHECK(cudaGetLastError() == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess);
  return 0;
}

extern "C" int run_unread_error() {
  reverse<<<1, 2048>>>(nullptr, 1);
  return 0;
}

extern "C" int run_out_of_bounds() {
  float* d;
  CHECK(cudaMalloc(&d, 400) == cudaSuccess);
  past_the_end<<<1, 128>>>(d, 100);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(cudaMalloc(&d, 4) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress);
  return 0;
}

extern "C" int run_forever() {
  int* d;
  CHECK(cudaMalloc(&d, 4) == cudaSuccess && cudaMemset(d, 0, 4) == cudaSuccess);
  forever<<<1, 32>>>(d);
  return cudaDeviceSynchronize() == cudaErrorLaunchTimeout ? 0 : __LINE__;
}

extern "C" int run_reads_back() {
  float *d, h[256] = {};
  CHECK(cudaMalloc(&d, sizeof h) == cudaSuccess);
  CHECK(cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(cudaMemcpy2D(d, 64, h, 64, 32, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  return 0;
}

__global__ void count(int* x) { atomicAdd(x, 1); }

extern "C" int run_threads() {
  int* d;
  CHECK(cudaMalloc(&d, 4) == cudaSuccess && cudaMemset(d, 0, 4) == cudaSuccess);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([=] {
      for (int i = 0; i < 50; ++i) count<<<2, 32>>>(d);
    });
  for (auto& t : threads) t.join();
  int h = 0;
  CHECK(cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost) == cudaSuccess && h == 8 * 50 * 64);
  return 0;
}

// A forked child has no device; its parent keeps its own, whatever the child does.
extern "C" int run_fork() {
  int* d;
  CHECK(cudaMalloc(&d, 4) == cudaSuccess && cudaMemset(d, 0, 4) == cudaSuccess);
  count<<<1, 1>>>(d);
  const pid_t child = fork();
  if (child == 0) {
    int* mine;
    const bool refused = cudaMalloc(&mine, 4) == cudaErrorInitializationError && cudaMemset(d, 7, 4) != cudaSuccess;
    count<<<1, 1>>>(d);
    _exit(refused && cudaGetLastError() != cudaSuccess ? 0 : 1);
  }
  int status = 0, h = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  count<<<1, 1>>>(d);
  CHECK(cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost) == cudaSuccess && h == 2);
  return 0;
}

extern "C" int run_without_device() {
  int* d;
  saxpy<float><<<1, 1>>>(nullptr, nullptr, make_float2(0, 0), 0);
  CHECK(cudaGetLastError() == cudaErrorInitializationError);
  CHECK(cudaMalloc(&d, 4) == cudaErrorInitializationError);
  int count = 5;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0);
  return 0;
}
