// cudaMalloc in a comment, with an apostrophe: don't stop here. "cudaFree
#include <cuda_runtime.h> // cuda_runtime.h
#include<cuda_fp16.h>
#  include   "local/kernels.cuh"
#include MACRO_HEADER
#if defined(__CUDACC__) && __has_include(<cuda_bf16.h>) && __CUDA_ARCH__ >= 800
#define CHECK(call)                                              \
  do {                                                           \
    cudaError_t status_ = (call); /* cudaSuccess? */             \
    if (status_ != cudaSuccess) {                                \
      fprintf(stderr, "cudaError at %s:%d: %s\n", __FILE__,      \
              __LINE__, cudaGetErrorString(status_));            \
    }                                                            \
  } while (0)
#endif
#define CUDA_KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#define STRINGIFY(x) #x
#define cudaMine(x) cuda##x
const char* raw = R"cuda(
  cudaMalloc("x)" )" cudaFree
)cuda";
const char* plain = "a \"cudaMalloc\" b\\";  char quote = '"', tick = '\'', multi = 'cuda';
constexpr long long big = 1'000'000'000LL; constexpr int mask = 0xFFFF'FFFF;
template <typename T, int N = sizeof(cudaStream_t)> struct cudaHolder { T cudaMember; cudaHolder<T>* next; };
__global__ void __launch_bounds__(256) kernel(float* __restrict__ cudaPointer, int n) {
  CUDA_KERNEL_LOOP(i, n) cudaPointer[i] += __ldg(&cudaPointer[i]) * CUDART_PI_F;
}
void run(cudaStream_t stream, cudaDeviceProp& prop) {
  kernel<<<dim3(prop.multiProcessorCount), 256, 0, stream>>>(nullptr, 0); cudaMemcpyAsync(nullptr, nullptr, 0, cudaMemcpyHostToDevice, stream);
  CHECK(cudaMemcpyAsync(nullptr, nullptr, 0, ::cudaMemcpyDefault, stream)); auto f = &cudaFree; using namespace at::cuda;
  at::cuda::getCurrentCUDAStream().synchronize(); at :: cuda :: getDefaultCUDAStream(); cuda::std::array<int, 3> a; mycuda::std::f();
}
/* unterminated comment with cudaMalloc
