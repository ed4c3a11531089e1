// Fuzz target: hostile PTX must end in an error, a fault or a finished launch, never in a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "vgpu/device.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace musacoder::vgpu;
  static Device device({.memory_bytes = 64 << 20, .max_warp_instructions = 5000, .max_seconds = 1});
  static const DevicePtr buffer = device.allocate(4096, "buffer").value_or(0);
  auto module = device.load_module(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!module) return 0;
  for (const auto& kernel : device.kernels(*module)) {
    LaunchConfig config;
    config.module = *module;
    config.kernel = kernel.name;
    config.grid = {2};
    config.block = {40};
    config.dynamic_shared_bytes = 256;
    // Every parameter holds a valid pointer, so that execution gets past the first load.
    std::uint32_t bytes = 0;
    for (const auto& p : kernel.params) bytes = p.offset + p.bytes;
    if (bytes > 4096) continue;
    config.params.resize(bytes);
    for (std::size_t i = 0; i < config.params.size(); ++i) config.params[i] = std::byte(buffer >> (8 * (i % 8)));
    (void)device.launch(config);
  }
  (void)device.unload_module(*module);
  (void)device.take_printf_output();
  return 0;
}
