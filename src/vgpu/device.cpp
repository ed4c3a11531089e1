#include "vgpu/device.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "vgpu/exec/runtime.h"

namespace musacoder::vgpu {

using exec::Arena;
using exec::MemoryRange;
using exec::ModuleImage;
using exec::Program;
namespace {

constexpr std::size_t kMaxPtxBytes = 256u << 20;

AllocationInfo info_of(const MemoryRange& r) {
  return {r.address, r.bytes, r.label, r.kernel_written.load(std::memory_order_relaxed)};
}

LaunchOutcome invalid_launch(std::string kernel, std::string why) {
  LaunchOutcome out;
  Fault f;
  f.kind = FaultKind::kInvalidLaunch;
  f.kernel = std::move(kernel);
  f.detail = std::move(why);
  exec::compose_message(f);
  out.fault = std::move(f);
  return out;
}

}  // namespace

struct Device::Impl {
  DeviceOptions options;
  GpuProperties gpu;
  std::unique_ptr<Arena> arena;
  Error arena_error;
  exec::Lookup engine = nullptr;
  const char* engine_name = "";
  std::map<ModuleId, std::unique_ptr<ModuleImage>> modules;
  ModuleId next_module = 1;
  std::string printf_output;

  Status check(DevicePtr address, std::uint64_t bytes, const char* what) const {
    if (!arena) return tl::unexpected<Error>(arena_error);
    MemoryRange* range = arena->find(address);
    if (!range)
      return fail(Code::kInvalidArgument, "{} of {} bytes at {:#x}: not inside a live allocation", what, bytes, address);
    if (range->end() - address < bytes)
      return fail(Code::kInvalidArgument, "{} of {} bytes at offset {} of {}, which has {} bytes", what, bytes,
                  address - range->address, range->label, range->bytes);
    return ok();
  }
  Status place_variables(ModuleImage& image);
};

Device::Device(DeviceOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  if (auto gpu = gpu_properties(impl_->options.gpu)) impl_->gpu = *gpu;
  else impl_->gpu = *gpu_properties("h200");
  if (auto arena = Arena::create(impl_->options.memory_bytes)) impl_->arena = std::move(*arena);
  else impl_->arena_error = arena.error();
  impl_->engine = exec::engine_lookup(&impl_->engine_name);
}
Device::~Device() = default;

const DeviceOptions& Device::options() const { return impl_->options; }
void Device::set_limits(std::uint64_t max_warp_instructions, double max_seconds) {
  impl_->options.max_warp_instructions = max_warp_instructions;
  impl_->options.max_seconds = max_seconds;
}

Result<DevicePtr> Device::allocate(std::uint64_t bytes, std::string label) {
  if (!impl_->arena) return tl::unexpected<Error>(impl_->arena_error);
  MC_ASSIGN_OR_RETURN(MemoryRange * range, impl_->arena->allocate(bytes, std::move(label)));
  return range->address;
}
Status Device::free(DevicePtr address) {
  if (!impl_->arena || !impl_->arena->free(address))
    return fail(Code::kInvalidArgument, "free of {:#x}, which is not the start of a live allocation", address);
  return ok();
}
Status Device::relabel(DevicePtr address, std::string label) {
  MemoryRange* range = impl_->arena ? impl_->arena->find(address) : nullptr;
  if (!range || range->address != address)
    return fail(Code::kInvalidArgument, "{:#x} is not the start of a live allocation", address);
  range->label = std::move(label);
  return ok();
}
Status Device::write(DevicePtr to, std::span<const std::byte> bytes) {
  MC_RETURN_IF_ERROR(impl_->check(to, bytes.size(), "write"));
  if (!bytes.empty()) std::memcpy(reinterpret_cast<void*>(to), bytes.data(), bytes.size());
  return ok();
}
Status Device::read(DevicePtr from, std::span<std::byte> bytes) const {
  MC_RETURN_IF_ERROR(impl_->check(from, bytes.size(), "read"));
  if (!bytes.empty()) std::memcpy(bytes.data(), reinterpret_cast<const void*>(from), bytes.size());
  return ok();
}
Status Device::fill(DevicePtr to, std::uint8_t value, std::uint64_t bytes) {
  MC_RETURN_IF_ERROR(impl_->check(to, bytes, "fill"));
  if (bytes) std::memset(reinterpret_cast<void*>(to), value, bytes);
  return ok();
}
Status Device::copy(DevicePtr to, DevicePtr from, std::uint64_t bytes) {
  MC_RETURN_IF_ERROR(impl_->check(to, bytes, "copy"));
  MC_RETURN_IF_ERROR(impl_->check(from, bytes, "copy"));
  if (bytes) std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return ok();
}
Result<std::span<std::byte>> Device::view(DevicePtr address, std::uint64_t bytes) {
  MC_RETURN_IF_ERROR(impl_->check(address, bytes, "view"));
  return std::span<std::byte>(reinterpret_cast<std::byte*>(address), bytes);
}
void Device::set_poison(std::uint8_t pattern) {
  if (impl_->arena) impl_->arena->poison = pattern;
}
std::optional<AllocationInfo> Device::find(DevicePtr address) const {
  MemoryRange* range = impl_->arena ? impl_->arena->find(address) : nullptr;
  if (!range) return std::nullopt;
  return info_of(*range);
}
std::vector<AllocationInfo> Device::allocations() const {
  std::vector<AllocationInfo> out;
  if (impl_->arena) impl_->arena->for_each([&](const MemoryRange& r) { out.push_back(info_of(r)); });
  return out;
}
std::uint64_t Device::bytes_in_use() const { return impl_->arena ? impl_->arena->bytes_in_use() : 0; }
void Device::reset_provenance() {
  if (impl_->arena) impl_->arena->for_each([](MemoryRange& r) { r.kernel_written = 0; });
}

// ---- modules -----------------------------------------------------------------------------------------------------

// Gives every module variable memory and writes its initial value.
Status Device::Impl::place_variables(ModuleImage& image) {
  const auto& variables = image.module.variables;
  image.variable_address.assign(variables.size(), 0);
  auto give_back = [&] {
    for (auto address : image.variable_address)
      if (address) arena->free(address);
  };
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto& v = variables[i];
    if (v.space == ptx::Space::kShared) continue;
    auto range = arena->allocate(v.bytes(), fmt::format("{} {}", v.space == ptx::Space::kConst ? "__constant__" : "__device__",
                                                        exec::demangle(v.name)), v.align);
    if (!range) {
      give_back();
      return tl::unexpected<Error>(range.error());
    }
    image.variable_address[i] = (*range)->address;
    std::memset(reinterpret_cast<void*>((*range)->address), 0, v.bytes());
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto& v = variables[i];
    if (v.space == ptx::Space::kShared) continue;
    unsigned width = ptx::type_bytes(v.type);
    auto* at = reinterpret_cast<std::uint8_t*>(image.variable_address[i]);
    for (std::size_t k = 0; k < v.init.size() && k < v.count; ++k) {
      const auto& value = v.init[k];
      std::uint64_t bits = value.bits;
      if (!value.symbol.empty()) {
        std::uint64_t address = 0;
        if (auto it = image.module.variable_index.find(value.symbol); it != image.module.variable_index.end())
          address = image.variable_address[it->second];
        else
          address = exec::function_address(image.module, value.symbol);
        if (!address) {
          give_back();
          return fail(Code::kInvalidArgument, "the initial value of '{}' names '{}', which the module does not define", v.name,
                      value.symbol);
        }
        bits = (address + bits) >> value.shift;
      }
      std::memcpy(at + k * width, &bits, std::min(width, 8u));
    }
  }
  return ok();
}

Result<ModuleId> Device::load_module(std::string_view ptx) {
  if (!impl_->arena) return tl::unexpected<Error>(impl_->arena_error);
  if (!impl_->engine) return fail(Code::kUnsupported, "this build has no engine for this processor");
  if (ptx.size() > kMaxPtxBytes) return fail(Code::kInvalidArgument, "PTX of {} bytes; at most {}", ptx.size(), kMaxPtxBytes);
  auto image = std::make_unique<ModuleImage>();
  MC_ASSIGN_OR_RETURN(image->module, ptx::parse(ptx));
  MC_RETURN_IF_ERROR(impl_->place_variables(*image));
  ModuleId id = impl_->next_module++;
  impl_->modules[id] = std::move(image);
  return id;
}

Status Device::unload_module(ModuleId module) {
  auto it = impl_->modules.find(module);
  if (it == impl_->modules.end()) return fail(Code::kNotFound, "there is no module {}", module);
  for (auto address : it->second->variable_address)
    if (address) impl_->arena->free(address);
  impl_->modules.erase(it);
  return ok();
}

std::vector<KernelInfo> Device::kernels(ModuleId module) const {
  std::vector<KernelInfo> out;
  auto it = impl_->modules.find(module);
  if (it == impl_->modules.end()) return out;
  for (const auto& f : it->second->module.functions) {
    if (!f.is_entry) continue;
    KernelInfo k;
    k.name = f.name;
    k.demangled = exec::demangle(f.name);
    std::vector<std::uint32_t> offsets;
    exec::param_bytes(f, &offsets);
    for (std::size_t p = 0; p < f.params.size(); ++p)
      k.params.push_back({offsets[p], std::uint32_t(f.params[p].bytes()), f.params[p].align});
    exec::static_usage(it->second->module, f, &k.static_shared_bytes, &k.local_bytes);
    k.max_threads = f.max_threads;
    out.push_back(std::move(k));
  }
  return out;
}

Result<DevicePtr> Device::global_address(ModuleId module, std::string_view name, std::uint64_t* bytes) const {
  auto it = impl_->modules.find(module);
  if (it == impl_->modules.end()) return fail(Code::kNotFound, "there is no module {}", module);
  const auto& m = it->second->module;
  auto at = m.variable_index.find(name);
  if (at == m.variable_index.end() || !it->second->variable_address[at->second])
    return fail(Code::kNotFound, "the module has no __device__ or __constant__ variable '{}'", name);
  if (bytes) *bytes = m.variables[at->second].bytes();
  return it->second->variable_address[at->second];
}

// ---- launches ------------------------------------------------------------------------------------------------------

LaunchOutcome Device::launch(const LaunchConfig& config) {
  Impl& d = *impl_;
  auto started = std::chrono::steady_clock::now();
  std::string shown = exec::demangle(config.kernel);
  auto it = d.modules.find(config.module);
  if (it == d.modules.end()) return invalid_launch(shown, fmt::format("there is no module {}", config.module));
  ModuleImage& image = *it->second;
  const ptx::Function* f = image.module.find_function(config.kernel);
  if (!f || !f->is_entry || !f->has_body) return invalid_launch(shown, "the module has no such kernel");

  const Dim3 &grid = config.grid, &block = config.block;
  auto triple = [](const Dim3& x) { return fmt::format("({},{},{})", x.x, x.y, x.z); };
  if (!grid.x || !grid.y || !grid.z) return invalid_launch(shown, fmt::format("grid {} has a zero dimension", triple(grid)));
  if (!block.x || !block.y || !block.z) return invalid_launch(shown, fmt::format("block {} has a zero dimension", triple(block)));
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return invalid_launch(shown, fmt::format("grid {} is larger than (2147483647,65535,65535)", triple(grid)));
  std::uint64_t threads = std::uint64_t(block.x) * block.y * block.z;
  auto most = std::uint64_t(d.gpu.max_threads_per_block);
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || threads > most)
    return invalid_launch(shown, fmt::format("block {} has {} threads; at most {} and (1024,1024,64)", triple(block), threads, most));
  if (f->max_threads && threads > f->max_threads)
    return invalid_launch(shown, fmt::format("block {} has {} threads; the kernel was compiled for at most {} (__launch_bounds__)",
                                             triple(block), threads, f->max_threads));
  std::vector<std::uint32_t> offsets;
  std::uint32_t param_bytes = exec::param_bytes(*f, &offsets);
  if (config.params.size() < param_bytes)
    return invalid_launch(shown, fmt::format("{} bytes of parameters given, the kernel takes {}", config.params.size(), param_bytes));

  auto& program = image.programs[config.kernel];
  if (!program) {
    auto decoded = exec::decode(image, *f, d.engine);
    if (!decoded) {
      image.programs.erase(config.kernel);
      return invalid_launch(shown, decoded.error().message);
    }
    program = std::move(*decoded);
  }
  std::uint64_t shared = config.dynamic_shared_bytes ? std::uint64_t(program->dynamic_shared_offset) + config.dynamic_shared_bytes
                                                     : program->shared_static_bytes;
  if (program->shared_static_bytes > d.gpu.shared_bytes_per_block || shared > d.gpu.shared_bytes_per_block_optin)
    return invalid_launch(shown, fmt::format("{} bytes of shared memory a block; at most {} static and {} in all", shared,
                                             d.gpu.shared_bytes_per_block, d.gpu.shared_bytes_per_block_optin));

  exec::LaunchState state;
  state.program = program.get();
  state.config = &config;
  state.gpu = &d.gpu;
  state.arena = d.arena.get();
  state.params.resize(param_bytes);
  if (param_bytes) std::memcpy(state.params.data(), config.params.data(), param_bytes);
  state.shared_bytes = std::uint32_t(shared);
  state.threads = std::uint32_t(threads);
  state.warps = std::uint32_t((threads + 31) / 32);
  state.blocks = std::uint64_t(grid.x) * grid.y * grid.z;
  for (auto& t : state.tid) t.assign(state.warps * 32, 0);
  for (std::uint32_t t = 0; t < state.threads; ++t) {
    state.tid[0][t] = t % block.x;
    state.tid[1][t] = t / block.x % block.y;
    state.tid[2][t] = t / block.x / block.y;
  }
  state.max_instructions = d.options.max_warp_instructions;
  state.start = started;
  state.max_seconds = d.options.max_seconds;
  state.printf_output = &d.printf_output;
  if (config.cooperative) {
    // All blocks must be resident at once, as the driver demands.
    std::uint64_t per_sm = std::max<std::uint64_t>(1, std::uint64_t(d.gpu.max_threads_per_sm) / (state.warps * 32));
    if (shared) per_sm = std::min(per_sm, std::max<std::uint64_t>(1, d.gpu.shared_bytes_per_sm / shared));
    std::uint64_t room = per_sm * std::uint64_t(d.gpu.sm_count);
    if (state.blocks > room)
      return invalid_launch(shown, fmt::format("a cooperative launch of {} blocks; at most {} fit at once", state.blocks, room));
    auto workspace = d.arena->allocate(256, "cooperative launch workspace");
    if (!workspace) return invalid_launch(shown, workspace.error().message);
    state.grid_workspace = (*workspace)->address;
    std::memset(reinterpret_cast<void*>(state.grid_workspace), 0, 256);
  }

  LaunchOutcome out;
  exec::execute(state, unsigned(std::max(1, d.options.threads)), out.counters);
  if (state.grid_workspace) d.arena->free(state.grid_workspace);
  out.fault = std::move(state.fault);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return out;
}

std::string Device::take_printf_output() { return std::exchange(impl_->printf_output, {}); }

}  // namespace musacoder::vgpu
