// The corner of the CUDA driver API that kernels' host code touches. Questions about the device are answered as in the
// runtime API; loading and launching through the driver is booked as "cuda:<function>" and refused, and so is compiling at run
// time with NVRTC, whose only use is to load the result through the driver.
#include <cuda_runtime_api.h>

#include "connection.h"
#include "vgpu_client.h"

#define MC_UNSUPPORTED(name) \
  extern "C" int name() { return ::musacoder::cudart::unsupported(#name); }

extern "C" {

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) { return cudaDriverGetVersion(version); }
int cuDeviceGetCount(int* count) { return cudaGetDeviceCount(count); }
int cuDeviceGet(int* device, int ordinal) {
  if (device) *device = ordinal;
  return ordinal == 0 ? 0 : cudaErrorInvalidDevice;
}
// The two enumerations agree on the attributes' numbers.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device);
}
int cuCtxGetCurrent(void** context) {
  if (context) *context = reinterpret_cast<void*>(1);
  return 0;
}
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxGetDevice(int* device) { return cudaGetDevice(device); }
int cuCtxSynchronize() { return cudaDeviceSynchronize(); }
int cuStreamSynchronize(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
int cuMemGetInfo_v2(size_t* available, size_t* total) { return cudaMemGetInfo(available, total); }
int cuGetErrorString(int error, const char** text) {
  if (text) *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return 0;
}
int nvrtcVersion(int* major, int* minor) {
  if (major) *major = 13;
  if (minor) *minor = 0;
  return 0;
}
const char* nvrtcGetErrorString(int error) { return error ? "NVRTC is not available on the virtual GPU" : "NVRTC_SUCCESS"; }

int cuGetErrorName(int error, const char** text) {
  if (text) *text = cudaGetErrorName(static_cast<cudaError_t>(error));
  return 0;
}

}  // extern "C"

MC_UNSUPPORTED(cuModuleLoad)
MC_UNSUPPORTED(cuModuleLoadData)
MC_UNSUPPORTED(cuModuleLoadDataEx)
MC_UNSUPPORTED(cuModuleGetFunction)
MC_UNSUPPORTED(cuModuleUnload)
MC_UNSUPPORTED(cuLinkCreate_v2)
MC_UNSUPPORTED(cuLibraryLoadData)
MC_UNSUPPORTED(cuLaunchKernel)
MC_UNSUPPORTED(cuLaunchKernelEx)
MC_UNSUPPORTED(cuLaunchCooperativeKernel)
MC_UNSUPPORTED(cuFuncSetAttribute)
MC_UNSUPPORTED(cuCtxCreate_v2)
MC_UNSUPPORTED(cuCtxCreate_v4)
MC_UNSUPPORTED(cuMemAlloc_v2)
MC_UNSUPPORTED(cuMemFree_v2)
MC_UNSUPPORTED(cuMemcpyHtoD_v2)
MC_UNSUPPORTED(cuMemcpyDtoH_v2)
MC_UNSUPPORTED(cuMemcpyDtoD_v2)
MC_UNSUPPORTED(cuMemsetD8_v2)
MC_UNSUPPORTED(cuMemsetD32_v2)
MC_UNSUPPORTED(cuTensorMapEncodeTiled)

MC_UNSUPPORTED(nvrtcCreateProgram)
MC_UNSUPPORTED(nvrtcDestroyProgram)
MC_UNSUPPORTED(nvrtcCompileProgram)
MC_UNSUPPORTED(nvrtcAddNameExpression)
MC_UNSUPPORTED(nvrtcGetLoweredName)
MC_UNSUPPORTED(nvrtcGetPTXSize)
MC_UNSUPPORTED(nvrtcGetPTX)
MC_UNSUPPORTED(nvrtcGetCUBINSize)
MC_UNSUPPORTED(nvrtcGetCUBIN)
MC_UNSUPPORTED(nvrtcGetProgramLogSize)
MC_UNSUPPORTED(nvrtcGetProgramLog)
MC_UNSUPPORTED(nvrtcGetSupportedArchs)
MC_UNSUPPORTED(nvrtcGetNumSupportedArchs)
