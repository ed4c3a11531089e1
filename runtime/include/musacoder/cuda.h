// c10::cuda and at::cuda: streams, guards, error checks. There is one device.
#ifndef MUSACODER_SLIM_MUSACODER_CUDA_H
#define MUSACODER_SLIM_MUSACODER_CUDA_H

#include <cuda_runtime_api.h>

#ifndef MUSACODER_FULL_HEADERS
#include "tensor.h"
#endif

namespace c10 {
#ifndef MUSACODER_FULL_HEADERS
using StreamId = std::int64_t;
#endif
namespace cuda {

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream = nullptr) : stream_(stream) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return 0; }
  DeviceType device_type() const { return DeviceType::CUDA; }
  Device device() const { return Device(DeviceType::CUDA, 0); }
  StreamId id() const { return reinterpret_cast<StreamId>(stream_); }
  bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }
  void synchronize() const { check(cudaStreamSynchronize(stream_)); }
  int priority() const { return 0; }
  CUDAStream unwrap() const { return *this; }
  bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }
  bool operator!=(const CUDAStream& other) const { return stream_ != other.stream_; }

  static void check(cudaError_t error) {
    if (error != cudaSuccess)
      TORCH_CHECK(false, "CUDA error: ", cudaGetErrorString(error));
  }

 private:
  cudaStream_t stream_;
};

// The stream that a guard of this source set, else the one that Python set.
inline std::optional<CUDAStream>& current_stream_slot() {
  thread_local std::optional<CUDAStream> stream;
  return stream;
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) {
  const auto& slot = current_stream_slot();
  return slot ? *slot : CUDAStream(static_cast<cudaStream_t>(mc_current_stream()));
}
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return CUDAStream(); }
inline void setCurrentCUDAStream(CUDAStream stream) { current_stream_slot() = stream; }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) { return CUDAStream(stream); }
inline CUDAStream getStreamFromPool(bool = false, DeviceIndex = -1) {
  cudaStream_t stream;
  CUDAStream::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return CUDAStream(stream);
}
inline DeviceIndex device_count() noexcept { return 1; }
inline DeviceIndex device_count_ensure_non_zero() { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex device) { CUDAStream::check(cudaSetDevice(device)); }
inline void device_synchronize() { CUDAStream::check(cudaDeviceSynchronize()); }

struct CUDAGuard {
  explicit CUDAGuard(DeviceIndex index) { check(index); }
  explicit CUDAGuard(Device device) {
    TORCH_CHECK(device.is_cuda(), "Expected a cuda device, but got ", device);
    check(device.index());
  }
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  void set_device(Device device) { check(device.index()); }
  void reset_device(Device device) { check(device.index()); }
  void set_index(DeviceIndex index) { check(index); }
  Device original_device() const { return Device(DeviceType::CUDA, 0); }
  Device current_device() const { return Device(DeviceType::CUDA, 0); }
  static void check(DeviceIndex index) {
    if (index > 0) CUDAStream::check(cudaErrorInvalidDevice);
  }
};
struct OptionalCUDAGuard {
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device) set_device(*device);
  }
  explicit OptionalCUDAGuard(std::optional<DeviceIndex> index) {
    if (index) CUDAGuard::check(*index);
  }
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  void set_device(Device device) {
    TORCH_CHECK(device.is_cuda(), "Expected a cuda device, but got ", device);
    CUDAGuard::check(device.index());
  }
  void reset_device(Device device) { set_device(device); }
  void set_index(DeviceIndex index) { CUDAGuard::check(index); }
  void reset() {}
};
struct CUDAStreamGuard {
  explicit CUDAStreamGuard(CUDAStream stream) : before_(getCurrentCUDAStream()) { setCurrentCUDAStream(stream); }
  ~CUDAStreamGuard() { setCurrentCUDAStream(before_); }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStream original_stream() const { return before_; }
  CUDAStream current_stream() const { return getCurrentCUDAStream(); }

 private:
  CUDAStream before_;
};
inline void c10_cuda_check_implementation(std::int32_t err, const char*, const char*, std::uint32_t, bool) {
  CUDAStream::check(static_cast<cudaError_t>(err));
}
}  // namespace cuda
}  // namespace c10

#define C10_CUDA_CHECK(EXPR)                                                                            \
  do {                                                                                                  \
    const cudaError_t __err = EXPR;                                                                     \
    ::c10::cuda::c10_cuda_check_implementation(static_cast<std::int32_t>(__err), __FILE__, __func__,    \
                                               static_cast<std::uint32_t>(__LINE__), true);             \
  } while (0)
#define C10_CUDA_CHECK_WARN(EXPR)                                                                       \
  do {                                                                                                  \
    const cudaError_t __err = EXPR;                                                                     \
    if (C10_UNLIKELY(__err != cudaSuccess)) {                                                           \
      [[maybe_unused]] auto error_unused = cudaGetLastError();                                          \
      TORCH_WARN("CUDA warning: ", cudaGetErrorString(__err));                                          \
    }                                                                                                   \
  } while (0)
#define C10_CUDA_ERROR_HANDLED(EXPR) EXPR
#define C10_CUDA_IGNORE_ERROR(EXPR)                                                                     \
  do {                                                                                                  \
    if (EXPR != cudaSuccess) (void)cudaGetLastError();                                                  \
  } while (0)
#define C10_CUDA_CLEAR_ERROR() (void)cudaGetLastError()
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#endif
