// ATen/ATen.h: namespace at.
#ifndef MUSACODER_SLIM_MUSACODER_ATEN_H
#define MUSACODER_SLIM_MUSACODER_ATEN_H

#include "dispatch.h"
#include "ops.h"

namespace c10 {
struct DeviceGuard {
  explicit DeviceGuard(Device) {}
};
struct OptionalDeviceGuard {
  OptionalDeviceGuard() = default;
  explicit OptionalDeviceGuard(std::optional<Device>) {}
};
}  // namespace c10
namespace at {
inline std::optional<Device> device_of(const Tensor& t) {
  return t.defined() ? std::optional<Device>(t.device()) : std::nullopt;
}
}  // namespace at
#endif
