// Fuzz target: hostile PTX must end in an error or in a module whose kernels decode, never in a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "vgpu/exec/program.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace musacoder::vgpu;
  auto module = ptx::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!module) return 0;
  const char* name = nullptr;
  static const exec::Lookup engine = exec::engine_lookup(&name);
  exec::ModuleImage image;
  image.module = std::move(*module);
  image.variable_address.assign(image.module.variables.size(), 1 << 20);
  for (const auto& f : image.module.functions) {
    if (!f.is_entry || !f.has_body) continue;
    std::uint32_t shared = 0, local = 0;
    exec::static_usage(image.module, f, &shared, &local);
    (void)exec::decode(image, f, engine);
  }
  return 0;
}
