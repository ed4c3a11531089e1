#include "llm/kernels/cuda/load.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

namespace musacoder::llm {
namespace {

std::optional<CudaKernels> loaded_kernels;

// Where libtorch_cpu.so, which this program runs on, lies.
std::filesystem::path torch_folder() {
  void* handle = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  if (!handle) return {};
  struct link_map* map = nullptr;
  const bool found = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map;
  const std::filesystem::path path = found ? map->l_name : "";
  dlclose(handle);
  return path.parent_path();
}

std::filesystem::path kernels_path() {
  if (const char* given = std::getenv("MUSACODER_LLM_KERNELS")) return given;
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "runtime" / "lib" /
         "libmusacoder_llm_cuda.so";
}

Status load_kernels() {
  const std::filesystem::path path = kernels_path();
  if (!std::filesystem::exists(path)) return ok();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return fail(Code::kUnsupported, "{}: {}", path.string(), dlerror());
  CudaKernels out;
#define MC_CUDA_KERNEL_LOOK_UP(name)                                     \
  out.name = reinterpret_cast<decltype(out.name)>(dlsym(handle, #name)); \
  if (!out.name) return fail(Code::kUnsupported, "{}: has no {}; build it anew", path.string(), #name);
  MC_CUDA_KERNELS(MC_CUDA_KERNEL_LOOK_UP)
#undef MC_CUDA_KERNEL_LOOK_UP
  loaded_kernels = out;
  return ok();
}

Status load_all() {
  const std::filesystem::path library = torch_folder() / "libtorch_cuda.so";
  if (!std::filesystem::exists(library))
    return fail(Code::kUnsupported, "{}: libtorch's CUDA half is not installed; install torch for CUDA",
                library.string());
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL))
    return fail(Code::kUnsupported, "{}: {}", library.string(), dlerror());
  return load_kernels();
}

Status load_once() {
  static std::once_flag once;
  static Status result;
  std::call_once(once, [] { result = load_all(); });
  return result;
}

}  // namespace

Result<at::Device> open_device(const std::string& name) {
  at::Device device(at::kCPU);
  try {
    device = at::Device(name);
  } catch (const std::exception&) {
    return fail(Code::kInvalidArgument, "device '{}' is not known; give cpu, cuda or cuda:N", name);
  }
  if (device.is_cpu()) return device;
  if (!device.is_cuda())
    return fail(Code::kInvalidArgument, "device '{}' is not computed on; give cpu, cuda or cuda:N", name);
  MC_RETURN_IF_ERROR(load_once());
  try {
    const int count =
        at::globalContext().hasCUDA() ? c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount() : 0;
    const int index = device.has_index() ? device.index() : 0;
    if (index >= count) return fail(Code::kUnsupported, "{}: this machine has {} CUDA devices", name, count);
    at::globalContext().lazyInitDevice(at::kCUDA);
    const at::Device out(at::kCUDA, static_cast<c10::DeviceIndex>(index));
    c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(out);
    return out;
  } catch (const std::exception& error) {
    return fail(Code::kUnsupported, "{}: {}", name, error.what());
  }
}

bool have_cuda_kernels() { return loaded_kernels.has_value(); }
const CudaKernels& cuda_kernels() { return *loaded_kernels; }

bool fused_on(const at::Tensor& x) {
  return loaded_kernels && x.is_cuda() && (x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kFloat);
}

int kernel_type(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 ? kBF16 : kF32; }

void* cuda_stream(const at::Tensor& x) {
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  return guard.getStreamNativeHandle(guard.getStream(x.device()));
}

void check_cuda(int error, const char* what) {
  TORCH_CHECK(error == 0, what, ": ", cuda_kernels().mc_cuda_error_text(error));
}

void synchronize(const at::Device& device) {
  if (!device.is_cuda()) return;
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(device.index());
}

std::int64_t peak_memory(const at::Device& device, bool reset) {
  if (!device.is_cuda()) return 0;
  at::DeviceAllocator* allocator = at::getDeviceAllocator(at::kCUDA);
  const std::int64_t out = allocator->getDeviceStats(device.index()).allocated_bytes[0].peak;
  if (reset) allocator->resetPeakStats(device.index());
  return out;
}

}  // namespace musacoder::llm
