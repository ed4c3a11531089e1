#include "registry.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "per_thread.h"

namespace musacoder::cudart {

// What __cudaRegisterFatBinary is given.
struct FatBinaryWrapper {
  std::uint32_t magic;  // 0x466243b1
  std::uint32_t version;
  const void* image;
  void* unused;
};

struct Module {
  const void* image = nullptr;
  std::string label;
  std::uint64_t generation = 0;
  std::uint32_t id = 0;
  bool managed = false;           // has __managed__ variables, which need memory that both sides see
};

namespace {

struct Variable {
  Module* module = nullptr;
  std::string name;
  std::uint64_t generation = 0, address = 0, bytes = 0;
};

struct Registry {
  std::recursive_mutex mutex;
  std::map<void**, std::unique_ptr<Module>> modules;     // by the handle given to the generated code
  std::map<const void*, std::unique_ptr<Function>> functions;  // by host stub
  std::map<const void*, Function*> handles;
  std::map<const void*, Variable> variables;             // by host shadow
};

// Never destroyed: unregistering runs at process exit, in no known order.
Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

using Guard = std::lock_guard<std::recursive_mutex>;

std::string label_of(const void* image) {
  Dl_info info;
  if (!::dladdr(image, &info) || !info.dli_fname) return "unknown";
  const char* slash = std::strrchr(info.dli_fname, '/');
  return std::string(slash ? slash + 1 : info.dli_fname).substr(0, vgpu::protocol::kMaxTextBytes);
}

std::uint64_t image_bytes(const void* image) {
  std::uint32_t magic;
  std::uint16_t header;
  std::uint64_t body;
  std::memcpy(&magic, image, 4);
  if (magic != 0xBA55ED50u) return 0;
  std::memcpy(&header, static_cast<const char*>(image) + 6, 2);
  std::memcpy(&body, static_cast<const char*>(image) + 8, 8);
  return header + body;
}

cudaError_t load(Module& module) {
  const std::uint64_t now = generation();
  if (module.generation == now) return cudaSuccess;
  const std::uint64_t bytes = module.image ? image_bytes(module.image) : 0;
  if (bytes == 0 || bytes > vgpu::protocol::kMaxModuleBytes)
    return explain(cudaErrorInvalidKernelImage, module.label + " holds no fat binary");
  if (module.managed) report("unsupported", "cuda:__managed__");
  Writer fields;
  fields.text(module.label);
  std::string head;
  if (auto error = call(Op::kLoadModule, fields, {.head = &head, .payload = module.image, .payload_bytes = bytes});
      error != cudaSuccess)
    return error;
  module.id = Reader(head).u32();
  module.generation = now;
  return cudaSuccess;
}

}  // namespace

cudaError_t resolve(const void* function, Function** out) {
  Registry& r = registry();
  Guard guard(r.mutex);
  Function* f = nullptr;
  if (auto it = r.functions.find(function); it != r.functions.end()) {
    f = it->second.get();
  } else if (auto handle = r.handles.find(function); handle != r.handles.end()) {
    f = handle->second;
  } else {
    return explain(cudaErrorInvalidDeviceFunction, "no kernel is registered under this address");
  }
  *out = f;
  if (f->generation == generation()) return cudaSuccess;
  if (auto error = load(*f->module); error != cudaSuccess) return error;
  Writer fields;
  fields.u32(f->module->id);
  fields.text(f->name);
  std::string head;
  if (auto error = call(Op::kKernel, fields, {.head = &head}); error != cudaSuccess) return error;
  Reader in(head);
  f->id = in.u32();
  f->static_shared_bytes = in.u32();
  f->local_bytes = in.u32();
  f->max_threads = in.u32();
  f->params.clear();
  f->param_bytes = 0;
  for (std::uint32_t n = in.u32(); n > 0 && in.ok(); --n) {
    Param p;
    p.offset = in.u32();
    p.bytes = in.u32();
    if (p.offset + p.bytes > f->param_bytes) f->param_bytes = p.offset + p.bytes;
    f->params.push_back(p);
  }
  if (!in.done() || f->param_bytes > 64 << 10) return explain(cudaErrorUnknown, "the virtual GPU described the kernel wrongly");
  f->generation = f->module->generation;
  return cudaSuccess;
}

cudaError_t resolve_symbol(const void* symbol, std::uint64_t* address, std::uint64_t* bytes) {
  Registry& r = registry();
  Guard guard(r.mutex);
  auto it = r.variables.find(symbol);
  if (it == r.variables.end()) return explain(cudaErrorInvalidSymbol, "no device variable is registered under this address");
  Variable& v = it->second;
  if (v.generation != generation()) {
    if (auto error = load(*v.module); error != cudaSuccess) return error;
    Writer fields;
    fields.u32(v.module->id);
    fields.text(v.name);
    std::string head;
    if (auto error = call(Op::kSymbol, fields, {.head = &head}); error != cudaSuccess) return error;
    Reader in(head);
    v.address = in.u64();
    v.bytes = in.u64();
    v.generation = v.module->generation;
  }
  *address = v.address;
  *bytes = v.bytes;
  return cudaSuccess;
}

cudaError_t launch(const void* function, const LaunchShape& shape, void** args) {
  Function* f = nullptr;
  if (auto error = resolve(function, &f); error != cudaSuccess) return error;
  if (!f->params.empty() && !args) return explain(cudaErrorInvalidValue, "the kernel takes arguments and none were given");
  std::string params(f->param_bytes, '\0');
  for (std::size_t i = 0; i < f->params.size(); ++i) {
    if (!args[i]) return explain(cudaErrorInvalidValue, "argument " + std::to_string(i) + " of the kernel is null");
    std::memcpy(params.data() + f->params[i].offset, args[i], f->params[i].bytes);
  }
  Writer fields;
  fields.u32(f->id);
  for (auto v : shape.grid) fields.u32(v);
  for (auto v : shape.block) fields.u32(v);
  fields.u64(shape.dynamic_shared);
  fields.u8(shape.cooperative);
  fields.text(params);
  std::string head;
  const cudaError_t error = call(Op::kLaunch, fields, {.head = &head});
  // What the kernel printed before a fault counts too.
  if (error != cudaSuccess || Reader(head).u8()) {
    const std::string kept = last_text();
    print_device_output();
    if (error != cudaSuccess) explain(cudaSuccess, kept);
  }
  return error;
}

}  // namespace musacoder::cudart

using namespace musacoder::cudart;

namespace {

struct CallConfiguration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};

struct CallStack {
  std::vector<CallConfiguration> calls;
};
std::vector<CallConfiguration>& call_stack() { return musacoder::per_thread<CallStack>().calls; }

LaunchShape shape_of(dim3 grid, dim3 block, size_t shared, bool cooperative = false) {
  return {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, cooperative};
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  Registry& r = registry();
  Guard guard(r.mutex);
  auto module = std::make_unique<Module>();
  const auto* fat = static_cast<const FatBinaryWrapper*>(wrapper);
  if (fat && fat->magic == 0x466243b1u) module->image = fat->image;
  module->label = label_of(wrapper);
  void** handle = reinterpret_cast<void**>(module.get());
  r.modules.emplace(handle, std::move(module));
  return handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  Registry& r = registry();
  Guard guard(r.mutex);
  auto it = r.modules.find(handle);
  if (it == r.modules.end()) return;
  Module* module = it->second.get();
  for (auto f = r.functions.begin(); f != r.functions.end();) {
    if (f->second->module != module) {
      ++f;
      continue;
    }
    r.handles.erase(f->second.get());
    f = r.functions.erase(f);
  }
  for (auto v = r.variables.begin(); v != r.variables.end();)
    v = v->second.module == module ? r.variables.erase(v) : std::next(v);
  if (module->generation == generation()) {
    Writer fields;
    fields.u32(module->id);
    call(Op::kUnloadModule, fields);
  }
  r.modules.erase(it);
}

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  Registry& r = registry();
  Guard guard(r.mutex);
  auto it = r.modules.find(handle);
  if (it == r.modules.end()) return;
  auto f = std::make_unique<Function>();
  f->module = it->second.get();
  f->name = name;
  auto& slot = r.functions[host];
  if (slot) r.handles.erase(slot.get());
  r.handles[f.get()] = f.get();
  slot = std::move(f);
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t size, int, int) {
  Registry& r = registry();
  Guard guard(r.mutex);
  if (auto it = r.modules.find(handle); it != r.modules.end())
    r.variables[host] = {.module = it->second.get(), .name = name, .generation = 0, .address = 0, .bytes = size};
}

void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t size, int, int) {
  Registry& r = registry();
  Guard guard(r.mutex);
  auto it = r.modules.find(handle);
  if (it == r.modules.end()) return;
  it->second->managed = true;
  *host = std::calloc(1, size ? size : 1);  // the host's accesses land somewhere; the ledger says that they mean nothing
  r.variables[*host] = {.module = it->second.get(), .name = name, .generation = 0, .address = 0, .bytes = size};
}

char __cudaInitModule(void**) { return 1; }
void __cudaRegisterTexture(void**, const void*, const void**, const char*, int, int, int) { unsupported("texture references"); }
void __cudaRegisterSurface(void**, const void*, const void**, const char*, int, int) { unsupported("surface references"); }

// Succeeds without a connection: the generated code asks once and keeps the handle.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  Registry& r = registry();
  Guard guard(r.mutex);
  auto it = r.functions.find(host);
  if (it == r.functions.end()) return record(explain(cudaErrorInvalidDeviceFunction, "no kernel is registered under this address"));
  *kernel = reinterpret_cast<cudaKernel_t>(it->second.get());
  return cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* host) { return __cudaGetKernel(kernel, host); }

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  call_stack().push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  auto& stack = call_stack();
  if (stack.empty()) return record(cudaErrorMissingConfiguration);
  *grid = stack.back().grid;
  *block = stack.back().block;
  *shared = stack.back().shared;
  *static_cast<void**>(stream) = stack.back().stream;
  stack.pop_back();
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return record(launch(kernel, shape_of(grid, block, shared), args));
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return record(launch(kernel, shape_of(grid, block, shared), args));
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return record(launch(function, shape_of(grid, block, shared), args));
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return record(launch(function, shape_of(grid, block, shared, true), args));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** args) {
  if (!config) return record(cudaErrorInvalidValue);
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& a = config->attrs[i];
    if (a.id == cudaLaunchAttributeCooperative) cooperative = a.val.cooperative != 0;
    if (a.id == cudaLaunchAttributeClusterDimension && a.val.clusterDim.x * a.val.clusterDim.y * a.val.clusterDim.z > 1)
      return unsupported("thread block clusters");
  }
  return record(launch(function, shape_of(config->gridDim, config->blockDim, config->dynamicSmemBytes, cooperative), args));
}

namespace {
constexpr int kCompiledFor = 90;   // the builder's compute_90
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  Function* f = nullptr;
  if (!out) return record(cudaErrorInvalidValue);
  if (auto error = resolve(function, &f); error != cudaSuccess) return record(error);
  Properties p;
  if (auto error = fetch_properties(&p); error != cudaSuccess) return record(error);
  std::memset(out, 0, sizeof *out);
  out->sharedSizeBytes = f->static_shared_bytes;
  out->localSizeBytes = f->local_bytes;
  out->maxThreadsPerBlock = f->max_threads ? static_cast<int>(f->max_threads) : p.max_threads_per_block;
  out->numRegs = 32;  // PTX has no physical registers; a usual number
  // What the code was made for, whatever GPU is presented: cub chooses its launch's form by it, as its kernels did.
  out->ptxVersion = out->binaryVersion = kCompiledFor;
  out->maxDynamicSharedSizeBytes = f->max_dynamic_shared >= 0 ? f->max_dynamic_shared
                                                              : static_cast<int>(p.shared_bytes_per_block - f->static_shared_bytes);
  out->preferredShmemCarveout = f->preferred_carveout;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  Function* f = nullptr;
  if (auto error = resolve(function, &f); error != cudaSuccess) return record(error);
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize: {
      if (value < 0) return record(explain(cudaErrorInvalidValue, "a negative size"));
      Writer fields;
      fields.u32(f->id);
      fields.u64(static_cast<std::uint64_t>(value));
      if (auto error = call(Op::kKernelShared, fields); error != cudaSuccess) return record(error);
      f->max_dynamic_shared = value;
      return cudaSuccess;
    }
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      if (value < -1 || value > 100) return record(cudaErrorInvalidValue);
      f->preferred_carveout = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
    case cudaFuncAttributeClusterSchedulingPolicyPreference: return cudaSuccess;
    case cudaFuncAttributeClusterDimMustBeSet:
    case cudaFuncAttributeRequiredClusterWidth:
    case cudaFuncAttributeRequiredClusterHeight:
    case cudaFuncAttributeRequiredClusterDepth: return unsupported("thread block clusters");
    default: return record(cudaErrorInvalidValue);
  }
}

cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  Function* f = nullptr;
  return record(resolve(function, &f));
}
cudaError_t cudaFuncSetSharedMemConfig(const void* function, cudaSharedMemConfig) {
  Function* f = nullptr;
  return record(resolve(function, &f));
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  Function* f = nullptr;
  if (!name) return record(cudaErrorInvalidValue);
  if (auto error = resolve(function, &f); error != cudaSuccess) return record(error);
  *name = f->name.c_str();
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads, size_t shared,
                                                                   unsigned) {
  Function* f = nullptr;
  if (!blocks || threads <= 0) return record(cudaErrorInvalidValue);
  if (auto error = resolve(function, &f); error != cudaSuccess) return record(error);
  Properties p;
  if (auto error = fetch_properties(&p); error != cudaSuccess) return record(error);
  const std::uint64_t warps = (static_cast<std::uint64_t>(threads) + p.warp_size - 1) / p.warp_size;
  std::uint64_t n = static_cast<std::uint64_t>(p.max_threads_per_sm) / (warps * p.warp_size);
  // 1 KiB of every block's share is the system's.
  const std::uint64_t by_shared = p.shared_bytes_per_sm / (f->static_shared_bytes + shared + 1024);
  n = n < by_shared ? n : by_shared;
  n = n < 32 ? n : 32;
  const int limit = f->max_threads ? static_cast<int>(f->max_threads) : p.max_threads_per_block;
  *blocks = threads > limit ? 0 : static_cast<int>(n);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks, int) {
  Function* f = nullptr;
  if (!bytes || blocks <= 0) return record(cudaErrorInvalidValue);
  if (auto error = resolve(function, &f); error != cudaSuccess) return record(error);
  Properties p;
  if (auto error = fetch_properties(&p); error != cudaSuccess) return record(error);
  const std::uint64_t share = p.shared_bytes_per_sm / static_cast<std::uint64_t>(blocks), used = f->static_shared_bytes + 1024u;
  *bytes = share > used ? std::min<std::uint64_t>(share - used, p.shared_bytes_per_block) : 0;
  return cudaSuccess;
}

cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  std::uint64_t address = 0, bytes = 0;
  if (!out) return record(cudaErrorInvalidValue);
  if (auto error = resolve_symbol(symbol, &address, &bytes); error != cudaSuccess) return record(error);
  *out = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t cudaGetSymbolSize(size_t* out, const void* symbol) {
  std::uint64_t address = 0, bytes = 0;
  if (!out) return record(cudaErrorInvalidValue);
  if (auto error = resolve_symbol(symbol, &address, &bytes); error != cudaSuccess) return record(error);
  *out = bytes;
  return cudaSuccess;
}

}  // extern "C"
