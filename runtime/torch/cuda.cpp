// A real GPU as the device of this library: torch's own CUDA backend, or torch_musa, does the work. Links neither libcuda nor torch's
// CUDA libraries; what is needed of them goes through torch's device-independent interfaces.
#include <ATen/ATen.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>

#include "device.h"

namespace musacoder::device {
namespace {

std::atomic<void (*)(const char*, const char*)> g_note{nullptr};

c10::impl::VirtualGuardImpl guard() { return c10::impl::VirtualGuardImpl(kDeviceType); }

}  // namespace

at::Tensor wrap(std::uint64_t address, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  TORCH_CHECK(sizes.size() == strides.size(), "as many strides as sizes are needed, got ", strides, " for ", sizes);
  const at::Device device(kDeviceType, 0);
  return at::for_blob(reinterpret_cast<void*>(address), sizes)
      .strides(strides)
      .options(at::TensorOptions().dtype(type).device(device))
      .target_device(device)
      .make_tensor();
}

std::uint64_t address_of(const at::Tensor& tensor) {
  return reinterpret_cast<std::uint64_t>(tensor.unsafeGetTensorImpl()->data());
}

void* current_stream() {
  const auto impl = guard();
#ifdef MUSACODER_HARDWARE_MUSA
  try {
    return impl.getStream(impl.getDevice()).native_handle();
  } catch (const c10::Error&) {
    return nullptr;   // a backend that does not tell its streams: the default one
  }
#else
  return impl.getStream(impl.getDevice()).native_handle();
#endif
}

#ifdef MUSACODER_HARDWARE_MUSA
constexpr const char* kError = "MUSA error: ";
#else
constexpr const char* kError = "CUDA error: ";
#endif
void throw_device_error(const char* what) { TORCH_CHECK(false, kError, what); }

bool report(const char* kind, const char* name) {
  if (auto note = g_note.load()) note(kind, name);
  return true;
}

void set_note(std::int64_t function) {
  void (*none)(const char*, const char*) = nullptr;
  g_note.compare_exchange_strong(none, reinterpret_cast<void (*)(const char*, const char*)>(function));
}

void connect(int) {}
bool connected() { return true; }
void synchronize() {
  const auto impl = guard();
  impl.synchronizeDevice(impl.getDevice().index());
}
std::string device_error() { return ""; }
std::tuple<std::string, std::vector<std::int64_t>> properties() { return {}; }   // Python asks torch.cuda

}  // namespace musacoder::device
