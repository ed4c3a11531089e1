// The stand-in libmusart: the virtual GPU's runtime client, whose launches are told to the stand-in MUPTI, and the few functions
// that the runner processes call by MUSA's names. Memory is shared between processes by address: there is one GPU (server.cpp).
#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "../../device/fake/fake.h"

// The client's own functions of these names (CMakeLists.txt renames them).
extern "C" {
cudaError_t standin_next_launch(const void*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t standin_next_launch_handle(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
void standin_next_register(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
cudaError_t standin_next_get_kernel(cudaKernel_t*, const void*);
}

namespace {

std::mutex mutex;
std::map<const void*, std::string>& names() {
  static auto& all = *new std::map<const void*, std::string>;
  return all;
}

const char* name_of(const void* key) {
  std::lock_guard lock(mutex);
  const auto found = names().find(key);
  return found == names().end() ? "unknown" : found->second.c_str();
}

template <typename Launch>
cudaError_t told(unsigned id, const char* function, const void* key, dim3 grid, Launch launch) {
  const char* name = name_of(key);
  const struct {
    const void* first;
    unsigned rest[16];
  } params{key, {}};
  const FakeCall call{2, id, function, &params, name, fake_correlation()};
  fake_enter(&call);
  const cudaError_t result = launch();
  if (result == cudaSuccess) fake_kernel(name, call.correlation, 0, grid.x);
  fake_exit(&call, result);
  return result;
}

}  // namespace

#define EXPORT __attribute__((visibility("default")))

extern "C" {
EXPORT void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int a, uint3* b, uint3* c, dim3* d,
                                   dim3* e, int* f) {
  {
    std::lock_guard lock(mutex);
    names()[host] = name;
  }
  standin_next_register(handle, host, device, name, a, b, c, d, e, f);
}
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  const cudaError_t result = standin_next_get_kernel(kernel, host);
  if (result == cudaSuccess) {
    const std::string name = name_of(host);
    std::lock_guard lock(mutex);
    names()[*kernel] = name;
  }
  return result;
}
EXPORT cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream) {
  return told(211, "musaLaunchKernel", function, grid, [&] { return standin_next_launch(function, grid, block, args, shared, stream); });
}
EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream) {
  return told(505, "__musaLaunchKernel", kernel, grid, [&] { return standin_next_launch_handle(kernel, grid, block, args, shared, stream); });
}

EXPORT int musaMalloc(void** out, size_t bytes) { return cudaMalloc(out, bytes); }
EXPORT int musaFree(void* address) { return cudaFree(address); }
EXPORT int musaDeviceSynchronize() { return cudaDeviceSynchronize(); }
EXPORT int musaGetLastError() { return cudaGetLastError(); }
EXPORT const char* musaGetErrorName(int code) {
  static thread_local std::string name;
  name = cudaGetErrorName(static_cast<cudaError_t>(code));
  if (name.starts_with("cuda")) name.replace(0, 4, "musa");
  return name.c_str();
}
struct MusaIpcMemHandle {
  char bytes[64];
};
EXPORT int musaIpcGetMemHandle(MusaIpcMemHandle* handle, void* address) {
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle->bytes, &address, sizeof address);
  return 0;
}
EXPORT int musaIpcOpenMemHandle(void** address, MusaIpcMemHandle handle, unsigned) {
  std::memcpy(address, handle.bytes, sizeof *address);
  return 0;
}
EXPORT int musaIpcCloseMemHandle(void*) { return 0; }
}
