// The virtual GPU as a backend: one musacoder-vgpud process per session, so that no candidate can harm the next.
#pragma once

#include "device/device.h"

namespace musacoder::device {

Result<std::unique_ptr<Device>> make_vgpu_device(const DeviceConfig& config);

}  // namespace musacoder::device
