// Device and host memory, copies and fills.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "connection.h"
#include "registry.h"
#include "vgpu_client.h"

using namespace musacoder::cudart;

namespace {

std::uint64_t number(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

cudaError_t wrong_direction(const void* to, const void* from, cudaMemcpyKind kind) {
  auto side = [](const void* p) { return is_device(p) ? "device" : "host"; };
  static const char* const kNames[] = {"host to host", "host to device", "device to host", "device to device", "default"};
  return explain(kind < 0 || kind > 4 ? cudaErrorInvalidMemcpyDirection : cudaErrorInvalidValue,
                 std::string("a copy ") + (kind < 0 || kind > 4 ? "of no known kind" : kNames[kind]) + " was given " + side(from) +
                     " memory as source and " + side(to) + " memory as destination");
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = is_device(to), from_device = is_device(from);
  if (kind == cudaMemcpyDefault)
    kind = to_device ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                     : (from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
  if (bytes == 0) return cudaSuccess;
  const bool wants_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool wants_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind < 0 || kind > 4 || wants_to != to_device || wants_from != from_device) return wrong_direction(to, from, kind);
  if (!to || !from) return explain(cudaErrorInvalidValue, "a copy from or to a null pointer");
  switch (kind) {
    case cudaMemcpyHostToDevice: return static_cast<cudaError_t>(mcv_memcpy_h2d(number(to), from, bytes, 0));
    case cudaMemcpyDeviceToHost: return static_cast<cudaError_t>(mcv_memcpy_d2h(to, number(from), bytes));
    case cudaMemcpyDeviceToDevice: return static_cast<cudaError_t>(mcv_memcpy_d2d(number(to), number(from), bytes));
    default: std::memmove(to, from, bytes); return cudaSuccess;
  }
}

cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                      cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return explain(cudaErrorInvalidPitchValue, "the width is over the pitch");
  if (width == to_pitch && width == from_pitch) return copy(to, from, width * height, kind);
  for (size_t row = 0; row < height; ++row)
    if (auto error = copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width, kind);
        error != cudaSuccess)
      return error;
  return cudaSuccess;
}

cudaError_t set(void* to, int value, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (!is_device(to)) return explain(cudaErrorInvalidValue, "cudaMemset was given memory that is not the device's");
  Writer fields;
  fields.u64(number(to));
  fields.u32(static_cast<std::uint32_t>(value) & 0xff);
  fields.u8(1);
  fields.u64(bytes);
  return call(Op::kSet, fields);
}

cudaError_t set_rows(void* to, size_t pitch, int value, size_t width, size_t height) {
  if (width > pitch) return explain(cudaErrorInvalidPitchValue, "the width is over the pitch");
  if (width == pitch) return set(to, value, width * height);
  for (size_t row = 0; row < height; ++row)
    if (auto error = set(static_cast<char*>(to) + row * pitch, value, width); error != cudaSuccess) return error;
  return cudaSuccess;
}

cudaError_t allocate(void** out, size_t bytes) {
  if (!out) return explain(cudaErrorInvalidValue, "no place for the address");
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  Writer fields;
  fields.u64(bytes);
  std::string head;
  if (auto error = call(Op::kMalloc, fields, {.head = &head}); error != cudaSuccess) return error;
  *out = reinterpret_cast<void*>(Reader(head).u64());
  return cudaSuccess;
}

cudaError_t release(void* address) {
  if (!address) return connected() ? static_cast<cudaError_t>(mcv_synchronize()) : cudaErrorInitializationError;
  return static_cast<cudaError_t>(mcv_free(number(address)));
}

cudaError_t host_allocate(void** out, size_t bytes) {
  if (!out) return explain(cudaErrorInvalidValue, "no place for the address");
  *out = bytes ? std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : nullptr;
  return *out || !bytes ? cudaSuccess : explain(cudaErrorMemoryAllocation, "no host memory is left");
}

cudaError_t symbol_place(const void* symbol, size_t offset, size_t bytes, void** out) {
  std::uint64_t address = 0, size = 0;
  if (auto error = resolve_symbol(symbol, &address, &size); error != cudaSuccess) return error;
  if (offset > size || bytes > size - offset)
    return explain(cudaErrorInvalidValue, "a copy of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                                              " of a device variable of " + std::to_string(size) + " bytes");
  *out = reinterpret_cast<void*>(address + offset);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** out, size_t bytes) { return record(allocate(out, bytes)); }
cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t) { return record(allocate(out, bytes)); }
cudaError_t cudaMallocFromPoolAsync(void** out, size_t bytes, cudaMemPool_t, cudaStream_t) { return record(allocate(out, bytes)); }
cudaError_t cudaFree(void* address) { return record(release(address)); }
cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return record(release(address)); }
cudaError_t cudaMallocManaged(void** out, size_t, unsigned) {
  if (out) *out = nullptr;
  return unsupported("cudaMallocManaged");
}
cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  if (!pitch || width > (size_t{1} << 40) || height > (size_t{1} << 40)) return record(cudaErrorInvalidValue);
  *pitch = (width + 511) / 512 * 512;
  return record(allocate(out, *pitch * height));
}

cudaError_t cudaMallocHost(void** out, size_t bytes) { return record(host_allocate(out, bytes)); }
cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) { return record(host_allocate(out, bytes)); }
cudaError_t cudaFreeHost(void* p) {
  if (is_device(p)) return record(explain(cudaErrorInvalidValue, "cudaFreeHost was given device memory"));
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
cudaError_t cudaHostGetDevicePointer(void** out, void*, unsigned) {
  if (out) *out = nullptr;
  return unsupported("cudaHostGetDevicePointer");
}
cudaError_t cudaHostGetFlags(unsigned* flags, void*) {
  if (flags) *flags = 0;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) { return record(copy(to, from, bytes, kind)); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return record(copy(to, from, bytes, kind));
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return record(copy(to, from, bytes, cudaMemcpyDeviceToDevice));
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t) {
  return record(copy(to, from, bytes, cudaMemcpyDeviceToDevice));
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  return record(copy_rows(to, to_pitch, from, from_pitch, width, height, kind));
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t) {
  return record(copy_rows(to, to_pitch, from, from_pitch, width, height, kind));
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* to = nullptr;
  if (auto error = symbol_place(symbol, offset, bytes, &to); error != cudaSuccess) return record(error);
  return record(copy(to, from, bytes, kind));
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                    cudaStream_t) {
  return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* from = nullptr;
  if (auto error = symbol_place(symbol, offset, bytes, &from); error != cudaSuccess) return record(error);
  return record(copy(to, from, bytes, kind));
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t) {
  return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) { return record(set(to, value, bytes)); }
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) { return record(set(to, value, bytes)); }
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return record(set_rows(to, pitch, value, width, height));
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t) {
  return record(set_rows(to, pitch, value, width, height));
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  std::string head;
  if (auto error = call(Op::kMemoryInfo, Writer(), {.head = &head}); error != cudaSuccess) return record(error);
  Reader in(head);
  const std::uint64_t available = in.u64(), all = in.u64();
  if (free_bytes) *free_bytes = available;
  if (total) *total = all;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* p) {
  if (!out) return record(cudaErrorInvalidValue);
  std::memset(out, 0, sizeof *out);
  out->type = cudaMemoryTypeUnregistered;
  out->device = -2;
  if (!is_device(p)) {
    out->hostPointer = nullptr;
    return cudaSuccess;
  }
  Writer fields;
  fields.u64(number(p));
  std::string head;
  if (auto error = call(Op::kFind, fields, {.head = &head}); error != cudaSuccess) return record(error);
  if (Reader(head).u64() == 0) return cudaSuccess;
  out->type = cudaMemoryTypeDevice;
  out->device = 0;
  out->devicePointer = const_cast<void*>(p);
  return cudaSuccess;
}

// One pool, the whole memory.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  if (pool) *pool = reinterpret_cast<cudaMemPool_t>(1);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  if (value) *static_cast<int*>(value) = 0;  // the narrower of the two types that attributes have
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

}  // extern "C"
