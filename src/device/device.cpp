#include "device/device.h"

#include "device/cuda/cuda_device.h"
#include "device/musa/musa_device.h"
#include "device/vgpu/vgpu_device.h"

namespace musacoder::device {

Result<std::unique_ptr<Device>> make_device(const DeviceConfig& config) {
  if (config.backend == "vgpu") return make_vgpu_device(config);
  if (config.backend == "cuda") return make_cuda_device(config);
  if (config.backend == "musa") return make_musa_device(config);
  return fail(Code::kUnsupported, "backend '{}' is not built in; this program has: vgpu, cuda, musa", config.backend);
}

}  // namespace musacoder::device
