// The device as the CUDA runtime describes it, errors and their names, limits.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "connection.h"
#include "vgpu_client.h"

using namespace musacoder::cudart;

namespace {

constexpr int kVersion = CUDART_VERSION;

cudaError_t only_device(int device) {
  return device == 0 ? cudaSuccess : explain(cudaErrorInvalidDevice, "there is one device, number 0");
}

size_t limits[16] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};

int attribute(const Properties& p, cudaDeviceAttr a, bool* known) {
  *known = true;
  switch (a) {
    case cudaDevAttrMaxThreadsPerBlock: return p.max_threads_per_block;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: return 1024;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return 0x7fffffff;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return static_cast<int>(p.shared_bytes_per_block);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return static_cast<int>(p.shared_bytes_per_block_optin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return static_cast<int>(p.shared_bytes_per_sm);
    case cudaDevAttrReservedSharedMemoryPerBlock: return 1024;
    case cudaDevAttrTotalConstantMemory: return 65536;
    case cudaDevAttrWarpSize: return p.warp_size;
    case cudaDevAttrMaxPitch: return 0x7fffffff;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: return p.registers_per_block;
    case cudaDevAttrClockRate: return p.clock_khz;
    case cudaDevAttrMemoryClockRate: return p.memory_clock_khz;
    case cudaDevAttrGlobalMemoryBusWidth: return p.memory_bus_bits;
    case cudaDevAttrL2CacheSize: return static_cast<int>(std::min<std::uint64_t>(p.l2_bytes, 0x7fffffff));
    case cudaDevAttrMultiProcessorCount: return p.sm_count;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return p.max_threads_per_sm;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return 32;
    case cudaDevAttrComputeCapabilityMajor: return p.compute_major;
    case cudaDevAttrComputeCapabilityMinor: return p.compute_minor;
    case cudaDevAttrTextureAlignment:
    case cudaDevAttrSurfaceAlignment: return 512;
    case cudaDevAttrTexturePitchAlignment: return 32;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrEccEnabled: return 1;
    case cudaDevAttrAsyncEngineCount: return 3;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: return 2;
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrIntegrated:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrComputeMode:
    case cudaDevAttrPciBusId:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrTccDriver:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrHostNativeAtomicSupported:
    case cudaDevAttrIsMultiGpuBoard:
    case cudaDevAttrMultiGpuBoardGroupID:
    case cudaDevAttrClusterLaunch: return 0;
    default: *known = false; return 0;
  }
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorCudartUnloading, "cudaErrorCudartUnloading", "the runtime is shutting down"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration", "__global__ function call is not configured"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidKernelImage, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"},
    {cudaErrorInvalidPtx, "cudaErrorInvalidPtx", "a PTX compilation failed"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

}  // namespace

extern "C" {

cudaError_t cudaGetLastError() { return take_last_error(); }
cudaError_t cudaPeekAtLastError() { return peek_last_error(); }
const char* cudaGetErrorName(cudaError_t error) {
  for (const auto& e : kErrors)
    if (e.error == error) return e.name;
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  for (const auto& e : kErrors)
    if (e.error == error) return e.text;
  return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (!count) return record(cudaErrorInvalidValue);
  *count = connected() ? 1 : 0;
  return *count ? cudaSuccess : record(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
  if (!device) return record(cudaErrorInvalidValue);
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return only_device(device); }
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return only_device(device); }
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) { return cudaGetDevice(device); }
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags) *flags = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return record(static_cast<cudaError_t>(mcv_synchronize())); }
cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  if (can) *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  if (config) *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  if (static_cast<unsigned>(limit) >= 16) return record(cudaErrorInvalidValue);
  limits[limit] = value;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  if (!value || static_cast<unsigned>(limit) >= 16) return record(cudaErrorInvalidValue);
  *value = limits[limit];
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!text || length <= 0) return record(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<size_t>(length), "0000:00:00.0");
  return only_device(device);
}
cudaError_t cudaDriverGetVersion(int* version) {
  if (!version) return record(cudaErrorInvalidValue);
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr a, int device) {
  if (!value) return record(cudaErrorInvalidValue);
  if (auto error = only_device(device); error != cudaSuccess) return error;
  Properties p;
  if (auto error = fetch_properties(&p); error != cudaSuccess) return record(error);
  bool known = false;
  *value = attribute(p, a, &known);
  return known || (a > 0 && a < cudaDevAttrMax) ? cudaSuccess : record(cudaErrorInvalidValue);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (!out) return record(cudaErrorInvalidValue);
  if (auto error = only_device(device); error != cudaSuccess) return error;
  Properties p;
  if (auto error = fetch_properties(&p); error != cudaSuccess) return record(error);
  std::memset(out, 0, sizeof *out);
  std::strncpy(out->name, p.name.c_str(), sizeof out->name - 1);
  out->totalGlobalMem = p.memory_bytes;
  out->sharedMemPerBlock = p.shared_bytes_per_block;
  out->regsPerBlock = out->regsPerMultiprocessor = p.registers_per_block;
  out->warpSize = p.warp_size;
  out->memPitch = 0x7fffffff;
  out->maxThreadsPerBlock = p.max_threads_per_block;
  out->maxThreadsDim[0] = out->maxThreadsDim[1] = 1024;
  out->maxThreadsDim[2] = 64;
  out->maxGridSize[0] = 0x7fffffff;
  out->maxGridSize[1] = out->maxGridSize[2] = 65535;
  out->totalConstMem = 65536;
  out->major = p.compute_major;
  out->minor = p.compute_minor;
  out->textureAlignment = out->surfaceAlignment = 512;
  out->texturePitchAlignment = 32;
  out->multiProcessorCount = p.sm_count;
  out->concurrentKernels = out->ECCEnabled = out->unifiedAddressing = 1;
  out->asyncEngineCount = 3;
  out->memoryBusWidth = p.memory_bus_bits;
  out->l2CacheSize = static_cast<int>(std::min<std::uint64_t>(p.l2_bytes, 0x7fffffff));
  out->maxThreadsPerMultiProcessor = p.max_threads_per_sm;
  out->streamPrioritiesSupported = out->globalL1CacheSupported = out->localL1CacheSupported = 1;
  out->sharedMemPerMultiprocessor = p.shared_bytes_per_sm;
  out->computePreemptionSupported = out->cooperativeLaunch = out->hostRegisterSupported = out->memoryPoolsSupported = 1;
  out->sharedMemPerBlockOptin = p.shared_bytes_per_block_optin;
  out->maxBlocksPerMultiProcessor = 32;
  out->reservedSharedMemPerBlock = 1024;
  return cudaSuccess;
}

cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  if (config) *config = cudaSharedMemBankSizeFourByte;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) { return {x, y, z, w, kind}; }

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"
