#include "watch.h"

#include "vendor.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

namespace musacoder::ledger {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20, kMaxBuffers = 256, kMaxFreeBuffers = 16, kMaxFrames = 24;
constexpr std::size_t kMaxRemembered = 65536;  // names, nodes, handles
constexpr std::uint32_t kRingBits = 20, kRingMask = (1u << kRingBits) - 1;

// An entry about one CUDA call: who made it. 0 means nothing is known.
constexpr std::uint32_t kKnown = 1u << 31, kInternal = 1u << 30, kCanary = 1u << 29;
constexpr std::uint32_t pack(Attribution a) {
  return kKnown | (a.dso & 0xffff) << 4 | static_cast<std::uint32_t>(a.origin);
}
constexpr Origin origin_of(std::uint32_t entry) { return static_cast<Origin>(entry & 0xf); }
constexpr std::uint32_t dso_of(std::uint32_t entry) { return (entry >> 4) & 0xffff; }
constexpr std::uint32_t kUnknownSite = kKnown;

std::atomic<std::uint64_t> ring[1u << kRingBits];  // correlation << 32 | entry

// What a launching call's parameters begin with (generated_cuda_runtime_api_meta.h needs headers of nvcc, so
// not from there).
enum class Launch : std::uint8_t {
  kNone,
  kFirst,
  kSecond,
  kHandle,
  kGraph,
  kNode
};  // where the function's pointer stands
struct FirstParam {
  const void* first;
};
struct SecondParam {
  const void *first, *second;
};
struct GraphAddKernelNodeParams {
  void *node, *graph;
  const void* dependencies;
  std::size_t count;
  const FirstParam* params;  // cudaKernelNodeParams begins with func
};

Launch runtime_launch(CUpti_CallbackId id) {
  switch (id) {
    case 211:
    case 214:  // cudaLaunchKernel, _ptsz
    case 269:
    case 270:
      return Launch::kFirst;  // cudaLaunchCooperativeKernel, _ptsz
    case 430:
    case 431:
      return Launch::kSecond;  // cudaLaunchKernelExC, _ptsz
    case 13:
    case 213:
    case 272:  // cudaLaunch, _ptsz, …MultiDevice: of old runtimes
    case 505:
    case 506:
      return Launch::kHandle;  // __cudaLaunchKernel, _ptsz: what <<<>>> becomes since CUDA 13
    case 311:
    case 312:
      return Launch::kGraph;  // cudaGraphLaunch, _ptsz
    case 289:
    case 445:
    case 460:
      return Launch::kNode;  // cudaGraphAddKernelNode, cudaGraphAddNode (two versions)
    default:
      return Launch::kNone;
  }
}

Launch driver_launch(CUpti_CallbackId id) {
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunch:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync:
      return Launch::kFirst;
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
      return Launch::kSecond;
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice:
      return Launch::kHandle;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz:
      return Launch::kGraph;
    default:
      return Launch::kNone;
  }
}

constexpr CUpti_CallbackId kGetLastError = 10, kPeekAtLastError = 11, kLibraryGetKernel = 473;  // runtime
// Synchronising calls of the runtime: faults show there. cudaDeviceSynchronize, cudaStreamSynchronize
// (_ptsz), cudaEventSynchronize, cudaEventElapsedTime.
constexpr CUpti_CallbackId kQuietCalls[] = {CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
                                            CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020,
                                            CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_ptsz_v7000,
                                            CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020};

// Calls of the driver that take device memory or give it back; the runtime's cudaMalloc and kin end in these. Watched while
// quiet too: what is freed then must not be taken for kept.
constexpr CUpti_CallbackId kTakeMemory[] = {CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged,
                                            CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync, CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz,
                                            CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync,
                                            CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz};
constexpr CUpti_CallbackId kTakePitch = CUPTI_DRIVER_TRACE_CBID_cuMemAllocPitch_v2;
constexpr CUpti_CallbackId kGiveMemory[] = {CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync,
                                            CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz};
bool is_one_of(CUpti_CallbackId id, std::span<const CUpti_CallbackId> list) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};

CopyKind copy_kind(const CUpti_ActivityMemcpy6& r) {
  switch (r.copyKind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return CopyKind::kHostToDevice;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return CopyKind::kDeviceToHost;
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return CopyKind::kOther;
    case CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN:
      break;
    default:
      return CopyKind::kDeviceToDevice;
  }
  const auto host = [](std::uint8_t kind) {
    return kind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE || kind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  };
  if (host(r.srcKind)) return host(r.dstKind) ? CopyKind::kOther : CopyKind::kHostToDevice;
  return host(r.dstKind) ? CopyKind::kDeviceToHost : CopyKind::kDeviceToDevice;
}

std::string own_path() {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<const void*>(&own_path), &info) && info.dli_fname ? info.dli_fname : "";
}

// Whether an address may be one of this thread's variables, which next time are somebody else's.
bool on_this_stack(const void* address) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)),
             there = reinterpret_cast<std::uintptr_t>(address);
  return (here > there ? here - there : there - here) < (64u << 20);
}

std::uint64_t this_thread() { return static_cast<std::uint64_t>(::syscall(SYS_gettid)); }

bool contains(const char* haystack, std::size_t size, const char* needle) {
  return ::memmem(haystack, size, needle, std::strlen(needle) + 1) != nullptr;  // with the zero behind it
}

}  // namespace

struct Watch::PerThread {
  int internal = 0;
  bool canary = false;
  bool in_runtime = false;  // inside a call of the CUDA runtime, entered in `epoch`
  std::uint32_t epoch = 0;
  std::uint32_t site = 0;      // of the launch in progress; 0 none
  bool lost = false;           // nobody was seen on the stack of that launch
  bool captured = false;       // the launch in progress made a graph's node instead of running
  bool keep_nodes = false;     // the graph nodes that this call makes are copies, not launches
  std::uint64_t window = 0;    // in which this thread was counted
  const char* name = nullptr;  // last kernel whose site was remembered
  std::uint32_t name_site = 0;
  struct Handle {
    const void* handle = nullptr;
    std::uint64_t generation = 0;
    std::uint32_t site = 0;
  } handles[256];
};

Watch::PerThread& Watch::self() {
  static thread_local PerThread thread;
  return thread;
}

Watch& Watch::instance() {
  static Watch* const watch = new Watch;
  return *watch;
}

Watch::Watch()
    : objects_(split_prefixes(std::getenv("MUSACODER_OWN_PREFIX") ? std::getenv("MUSACODER_OWN_PREFIX") : ""),
               own_path()) {}

bool Watch::start(std::string* error) {
  const auto failed = [&](const char* step, CUptiResult code) {
    *error = std::string(step) + ": " + cupti().text(code);
    if (code == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
      *error += "; another profiler is attached to this process";
    if (code == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
      *error += "; the driver lets only administrators profile";
    if (subscriber_) cupti().Unsubscribe(subscriber_);
    subscriber_ = nullptr;
    return false;
  };
  CUptiResult code = cupti().Subscribe(&subscriber_, &Watch::on_callback, this);
  if (code != CUPTI_SUCCESS) {
    subscriber_ = nullptr;
    return failed("cuptiSubscribe", code);
  }
  if ((code = cupti().RegisterCallbacks(&Watch::on_request, &Watch::on_complete)) != CUPTI_SUCCESS)
    return failed("cuptiActivityRegisterCallbacks", code);
  for (const CUpti_ActivityKind kind : kKinds)
    if ((code = cupti().ActivityEnable(kind)) != CUPTI_SUCCESS) return failed("cuptiActivityEnable", code);
  if (!enable_calls(true, error)) {
    cupti().Unsubscribe(subscriber_);
    subscriber_ = nullptr;
    return false;
  }
  for (const CUpti_CallbackId id :
       {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
        CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING})
    if ((code = cupti().EnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id)) != CUPTI_SUCCESS)
      return failed("cuptiEnableCallback of graph nodes and modules", code);
  // Not there in every version; without it an error shows as a missing canary.
  code = cupti().EnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR);
  if (code != CUPTI_SUCCESS) remark("no notice of CUPTI's own errors: " + cupti().text(code));
  return true;
}

bool Watch::enable_calls(bool on, std::string* error) {
  epoch_.fetch_add(1);
  for (const CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API})
    if (const CUptiResult code = cupti().EnableDomain(on, subscriber_, domain); code != CUPTI_SUCCESS) {
      *error = "cuptiEnableDomain: " + cupti().text(code);
      return false;
    }
  if (on) return true;
  for (const CUpti_CallbackId id : kQuietCalls)
    if (const CUptiResult code = cupti().EnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API, id);
        code != CUPTI_SUCCESS)
      remark("a callback stays off while quiet: " + cupti().text(code));
  for (const auto& list : {std::span<const CUpti_CallbackId>(kTakeMemory), std::span<const CUpti_CallbackId>(kGiveMemory),
                           std::span<const CUpti_CallbackId>(&kTakePitch, 1)})
    for (const CUpti_CallbackId id : list)
      if (const CUptiResult code = cupti().EnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, id); code != CUPTI_SUCCESS)
        remark("a callback stays off while quiet: " + cupti().text(code));
  return true;
}

bool Watch::quiet(bool on) {
  if (on == quiet_) return true;
  bool good = true;
  if (on) flush(false);
  for (const CUpti_ActivityKind kind : kKinds) {
    const CUptiResult code = on ? cupti().ActivityDisable(kind) : cupti().ActivityEnable(kind);
    if (code == CUPTI_SUCCESS) continue;
    remark("records cannot be switched: " + cupti().text(code), true);
    good = false;
  }
  std::string error;
  if (!enable_calls(!on, &error)) {
    remark(error, true);
    good = false;
  }
  quiet_ = on;
  forgive();  // what was under way when the callbacks were switched is counted on one side only
  return good;
}

CUptiResult Watch::flush(bool forced) {
  const CUptiResult code = cupti().FlushAll(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
  if (code != CUPTI_SUCCESS) remark("cuptiActivityFlushAll: " + cupti().text(code));
  return code;
}

nlohmann::json Watch::take() {
  window_.fetch_add(1);
  return book_.take();
}

std::optional<SeenFault> Watch::fault() {
  const int code = fault_code_;
  if (!code) return std::nullopt;
  std::lock_guard lock(names_mutex_);
  return SeenFault{code, demangled(fault_kernel_)};
}

void Watch::internal(int delta) {
  PerThread& thread = self();
  thread.internal =
      static_cast<int>(std::clamp<long>(static_cast<long>(thread.internal) + delta, 0, 1 << 20));
}

void Watch::canary(bool on) { self().canary = on; }

// ---- who launches ----

void Watch::put(std::uint32_t correlation, std::uint32_t entry) {
  ring[correlation & kRingMask].store(static_cast<std::uint64_t>(correlation) << 32 | entry,
                                      std::memory_order_release);
}

std::uint32_t Watch::get(std::uint32_t correlation) const {
  const std::uint64_t value = ring[correlation & kRingMask].load(std::memory_order_acquire);
  return correlation != 0 && value >> 32 == correlation ? static_cast<std::uint32_t>(value) : 0;
}

std::uint32_t Watch::object_at(const void* address) {
  if (!address) return 0;
  using Find = int (*)(void*, dl_find_object*);
  static const auto find =
      reinterpret_cast<Find>(::dlsym(RTLD_DEFAULT, "_dl_find_object"));  // glibc 2.35: fast, no lock
  if (!find) {
    Dl_info info{};
    return ::dladdr(address, &info) && info.dli_fname ? objects_.of_path(info.dli_fname) : 0;
  }
  dl_find_object object{};
  if (find(const_cast<void*>(address), &object) != 0 || !object.dlfo_link_map) return 0;
  struct Known {
    const void *map, *start;
    std::uint32_t id;
  };
  static thread_local Known cache[64];
  Known& known = cache[(reinterpret_cast<std::uintptr_t>(object.dlfo_link_map) >> 5) & 63];
  if (known.map == object.dlfo_link_map && known.start == object.dlfo_map_start) return known.id;
  const char* path = object.dlfo_link_map->l_name;
  known = {object.dlfo_link_map, object.dlfo_map_start,
           objects_.of_path(path && *path ? path : "/proc/self/exe")};
  return known.id;
}

// Objects from the launch outwards; ends where decide() has all it needs.
std::size_t Watch::walk(std::uint32_t* frames, std::size_t limit) {
  struct State {
    Watch* watch;
    std::uint32_t* frames;
    std::size_t limit, count;
    bool framework, vendor;
  } state{this, frames, limit, 0, false, false};
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* data) -> _Unwind_Reason_Code {
        auto& s = *static_cast<State*>(data);
        int before = 0;
        const auto address = _Unwind_GetIPInfo(context, &before);
        if (!address) return _URC_END_OF_STACK;
        const std::uint32_t id =
            s.watch->object_at(reinterpret_cast<const void*>(before ? address : address - 1));
        s.frames[s.count++] = id;
        const DsoKind kind = s.watch->objects_.kind(id);
        const bool by_framework = s.vendor && kind == DsoKind::kFramework;
        s.framework |= kind == DsoKind::kFramework;
        s.vendor |= kind == DsoKind::kVendor;
        const bool settled = kind == DsoKind::kOwn || by_framework ||
                             (kind != DsoKind::kCuda && kind != DsoKind::kVendor && !s.framework);
        return settled || s.count == s.limit ? _URC_END_OF_STACK : _URC_NO_REASON;
      },
      &state);
  return state.count;
}

std::uint32_t Watch::site_of(const void* stub, bool by_handle, bool explicit_module, bool* lost) {
  LaunchSite site{
      .frames = {}, .stub = object_at(stub), .by_handle = by_handle, .explicit_module = explicit_module};
  std::uint32_t frames[kMaxFrames];
  const DsoKind kind = objects_.kind(site.stub);
  if (kind != DsoKind::kOwn) site.frames = {frames, walk(frames, kMaxFrames)};
  const Attribution found = decide(objects_, site);
  // Did the unwinder see anybody? Where not, the kernel's name in a candidate's object is the next best
  // witness.
  *lost = found.origin == Origin::kUnknown && !by_handle &&
          std::all_of(site.frames.begin(), site.frames.end(),
                      [&](auto id) { return id == 0 || objects_.kind(id) == DsoKind::kCuda; });
  return pack(found);
}

// The host part of a compiled kernel registers it under its name, which therefore stands in the object's
// constants.
std::uint32_t Watch::site_by_name(const char* kernel) {
  if (!kernel || !*kernel || std::strlen(kernel) < 4) return kUnknownSite;
  {
    std::lock_guard lock(names_mutex_);
    if (auto it = site_of_text_.find(kernel); it != site_of_text_.end()) return it->second;
  }
  struct State {
    Watch* watch;
    const char* kernel;
    std::uint32_t site;
  } state{this, kernel, kUnknownSite};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& s = *static_cast<State*>(data);
        if (!info->dlpi_name || !*info->dlpi_name) return 0;
        const std::uint32_t id = s.watch->objects_.of_path(info->dlpi_name);
        if (s.watch->objects_.kind(id) != DsoKind::kOwn) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || (part.p_flags & PF_W) || !(part.p_flags & PF_R)) continue;
          if (!contains(reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr), part.p_filesz,
                        s.kernel))
            continue;
          s.site = pack({Origin::kOwn, id});
          return 1;
        }
        return 0;
      },
      &state);
  std::lock_guard lock(names_mutex_);
  if (site_of_text_.size() < kMaxRemembered) site_of_text_.emplace(kernel, state.site);
  return state.site;
}

void Watch::launched(const char* name, std::uint32_t site, PerThread& thread) {
  if (thread.window != window_) {
    thread.window = window_;
    book_.thread();
  }
  if (!name) return;
  std::lock_guard lock(names_mutex_);
  std::strncpy(last_kernel_, name, kMaxName);
  if (thread.name == name && thread.name_site == site) return;
  thread.name = name;
  thread.name_site = site;
  if (auto it = site_of_name_.find(name); it != site_of_name_.end()) {
    if (it->second != site) it->second = kUnknownSite;
  } else if (site_of_name_.size() < kMaxRemembered) {
    site_of_name_.emplace(name, site);
  }
}

// ---- callbacks ----

void Watch::on_callback(void* data, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* call) {
  Watch& watch = *static_cast<Watch*>(data);
  try {
    switch (domain) {
      case CUPTI_CB_DOMAIN_RUNTIME_API:
      case CUPTI_CB_DOMAIN_DRIVER_API:
        watch.api_call(domain, id, *static_cast<const CUpti_CallbackData*>(call));
        break;
      case CUPTI_CB_DOMAIN_RESOURCE:
        watch.resource(id, *static_cast<const CUpti_ResourceData*>(call));
        break;
      case CUPTI_CB_DOMAIN_STATE: {
        watch.broken_ = true;
        const char* text = static_cast<const CUpti_StateData*>(call)->notification.message;
        remark(std::string("CUPTI failed: ") + (text ? text : "no message"), true);
        break;
      }
      default:
        break;
    }
  } catch (...) {
    watch.book_.dropped(1);  // no memory: the judge must know that something is missing
  }
}

void Watch::api_call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& call) {
  const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  if (call.callbackSite == CUPTI_API_ENTER)
    enter(runtime, id, call, self());
  else
    leave(runtime, id, call, self());
}

void Watch::enter(bool runtime, CUpti_CallbackId id, const CUpti_CallbackData& call, PerThread& thread) {
  const std::uint32_t epoch = epoch_;
  const bool nested = !runtime && thread.in_runtime && thread.epoch == epoch;
  if (!nested) {
    thread.site = 0;
    thread.lost = thread.captured = false;
  }
  if (runtime) {
    thread.in_runtime = true;
    thread.epoch = epoch;
  }
  if (thread.internal > 0 || thread.canary) {
    put(call.correlationId, kKnown | kInternal | (thread.canary ? kCanary : 0));
    return;
  }
  const Launch launch = runtime ? runtime_launch(id) : driver_launch(id);
  if (!nested && call.functionName)
    thread.keep_nodes = std::strstr(call.functionName, "Instantiate") ||
                        std::strstr(call.functionName, "GraphClone") ||
                        std::strstr(call.functionName, "GraphExecUpdate");
  if (launch == Launch::kNone || !call.functionParams) return;
  if (launch == Launch::kGraph) {
    put(call.correlationId, kUnknownSite);
    return;
  }
  // The name is promised for launches only; for what <<<>>> becomes, the driver's call inside has it.
  const char* kernel =
      launch == Launch::kNode || (runtime && launch == Launch::kHandle) ? nullptr : call.symbolName;
  std::uint32_t site = thread.site;
  if (!nested || !site) {
    const void* function = nullptr;
    switch (launch) {
      case Launch::kSecond:
        function = static_cast<const SecondParam*>(call.functionParams)->second;
        break;
      case Launch::kNode: {
        const auto* params =
            id == 289 ? static_cast<const GraphAddKernelNodeParams*>(call.functionParams)->params : nullptr;
        function = params ? params->first : nullptr;
        break;
      }
      default:
        function = static_cast<const FirstParam*>(call.functionParams)->first;
    }
    bool listed = false;
    if (any_explicit_) {
      std::lock_guard lock(names_mutex_);
      listed = runtime || nested ? runtime_kernels_.contains(function) : explicit_.contains(function);
    }
    // A handle belongs to the object that registered the kernel, so what the stack said once holds for the
    // kernel.
    const std::uint64_t generation = static_cast<std::uint64_t>(epoch) << 32 | unloads_;
    auto& known = thread.handles[(reinterpret_cast<std::uintptr_t>(function) >> 4) & 255];
    const bool by_handle = runtime || nested ? listed : true;
    const bool is_stub = runtime && launch != Launch::kHandle;
    const bool lasting = runtime && !is_stub && function && !on_this_stack(function);
    if (lasting && known.handle == function && known.generation == generation) {
      site = known.site;
    } else {
      site = site_of(is_stub ? function : nullptr, by_handle, listed, &thread.lost);
      // Torch's and the vendors' kernels are looked at each time: who called may differ.
      if (lasting && origin_of(site) == Origin::kOwn) known = {function, generation, site};
    }
  }
  if (thread.lost && kernel) site = site_by_name(kernel);
  thread.site = site;
  put(call.correlationId, site);
  if (launch != Launch::kNode) launched(kernel, site, thread);
}

void Watch::leave(bool runtime, CUpti_CallbackId id, const CUpti_CallbackData& call, PerThread& thread) {
  const bool nested = !runtime && thread.in_runtime && thread.epoch == epoch_;
  if (runtime) thread.in_runtime = false;
  if (!nested) {
    thread.site = 0;
    thread.keep_nodes = false;
  }
  const int code = call.functionReturnValue ? *static_cast<const int*>(call.functionReturnValue) : 0;
  const Launch launch = runtime ? runtime_launch(id) : driver_launch(id);
  const bool launches = launch == Launch::kFirst || launch == Launch::kSecond || launch == Launch::kHandle;
  if (!runtime &&
      (id == CUPTI_DRIVER_TRACE_CBID_cuModuleUnload || id == CUPTI_DRIVER_TRACE_CBID_cuLibraryUnload))
    ++unloads_;
  if (code == 0) {
    if (launches && !nested && !thread.captured) ++launched_;
    if (!runtime) note_memory(id, call, thread);
    note_handles(runtime, id, call, nested);
  } else if (*device_fault(code).kind) {
    int none = 0;
    if (fault_code_.compare_exchange_strong(none, code)) {
      std::lock_guard lock(names_mutex_);
      fault_kernel_ = last_kernel_;
    }
  } else if (runtime && thread.internal == 0 && (launches || launch == Launch::kGraph)) {
    unread_thread_ = this_thread();
    std::string text = error_name(code);
    if ((launch == Launch::kFirst || launch == Launch::kSecond) && call.symbolName)
      text += " at " + demangled(call.symbolName);
    book_.launch_error(std::move(text));
  }
  if (runtime && (id == kGetLastError || id == kPeekAtLastError) && unread_thread_ == this_thread()) {
    unread_thread_ = 0;
    book_.launch_error("");
  }
}

// The first frame that is neither CUDA's nor a vendor's is the candidate's.
bool Watch::called_by_candidate() {
  std::uint32_t frames[kMaxFrames];
  const std::size_t count = walk(frames, kMaxFrames);
  for (std::size_t i = 0; i < count; ++i) {
    const DsoKind kind = objects_.kind(frames[i]);
    if (kind != DsoKind::kCuda && kind != DsoKind::kNone) return kind == DsoKind::kOwn;
  }
  return false;
}

// Device memory that the candidate's own code takes: torch's pool and the libraries' workspaces are not it.
void Watch::note_memory(CUpti_CallbackId id, const CUpti_CallbackData& call, PerThread& thread) {
  if (!call.functionParams || thread.internal > 0 || thread.canary) return;
  if (is_one_of(id, kGiveMemory)) {
    book_.release(*static_cast<const std::uint64_t*>(call.functionParams));
    return;
  }
  struct Take {
    const std::uint64_t* address;
    std::size_t bytes;
  };
  struct TakePitch {
    const std::uint64_t* address;
    const std::size_t* pitch;
    std::size_t width, height;
  };
  if (is_one_of(id, kTakeMemory)) {
    const auto& params = *static_cast<const Take*>(call.functionParams);
    if (params.address && called_by_candidate()) book_.allocation(*params.address, params.bytes);
  } else if (id == kTakePitch) {
    const auto& params = *static_cast<const TakePitch*>(call.functionParams);
    if (params.address && params.pitch && called_by_candidate()) book_.allocation(*params.address, *params.pitch * params.height);
  }
}

// Modules that are loaded by hand, and the functions taken from them.
void Watch::note_handles(bool runtime, CUpti_CallbackId id, const CUpti_CallbackData& call, bool nested) {
  if (nested || !call.functionParams) return;
  struct Get {
    const void** result;
    const void* from;
  };
  const auto& params = *static_cast<const Get*>(call.functionParams);
  if (runtime) {
    if (id != kLibraryGetKernel || !params.result) return;
    std::lock_guard lock(names_mutex_);
    if (runtime_kernels_.size() < kMaxRemembered) runtime_kernels_.insert(*params.result);
    any_explicit_ = true;
    return;
  }
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoad:
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData:
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx:
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary:
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData:
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadFromFile: {
      if (!params.result) return;
      // The runtime loads the code of compiled objects by the same calls, at times outside of any call of its
      // own.
      std::uint32_t frames[kMaxFrames];
      const std::size_t count = walk(frames, kMaxFrames);
      for (std::size_t i = 0; i < count; ++i)
        if (objects_.module(frames[i]).starts_with(vendor().runtime[0])) return;
      std::lock_guard lock(names_mutex_);
      if (explicit_.size() < kMaxRemembered) explicit_.insert(*params.result);
      any_explicit_ = true;
      return;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuModuleGetFunction:
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryGetKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryGetModule:
    case CUPTI_DRIVER_TRACE_CBID_cuKernelGetFunction: {
      if (!any_explicit_ || !params.result) return;
      std::lock_guard lock(names_mutex_);
      if (explicit_.contains(params.from) && explicit_.size() < kMaxRemembered)
        explicit_.insert(*params.result);
      return;
    }
    default:
      return;
  }
}

void Watch::resource(CUpti_CallbackId id, const CUpti_ResourceData& data) {
  if (id == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING) {
    ++unloads_;
    return;
  }
  const auto* graph = static_cast<const CUpti_GraphData*>(data.resourceDescriptor);
  if (!graph || graph->nodeType != CU_GRAPH_NODE_TYPE_KERNEL) return;
  std::uint64_t node = 0, original = 0;
  if (cupti().GetGraphNodeId(graph->node, &node) != CUPTI_SUCCESS || node == 0) return;
  PerThread& thread = self();
  thread.captured = true;
  if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) {
    if (cupti().GetGraphNodeId(graph->originalNode, &original) != CUPTI_SUCCESS) return;
    std::lock_guard lock(names_mutex_);
    if (auto it = site_of_node_.find(original);
        it != site_of_node_.end() && site_of_node_.size() < kMaxRemembered)
      site_of_node_.emplace(node, it->second);
    return;
  }
  if (id != CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED || thread.keep_nodes) return;
  std::uint32_t site = thread.site;
  if (thread.internal > 0)
    site = kKnown | kInternal;
  else if (!site)
    site = site_of(nullptr, false, false, &thread.lost);
  std::lock_guard lock(names_mutex_);
  if (site_of_node_.size() < kMaxRemembered) site_of_node_.emplace(node, site);
}

// ---- records ----

void Watch::on_request(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
  Watch& watch = instance();
  *records = 0;
  *size = 0;
  *buffer = nullptr;
  {
    std::lock_guard lock(watch.buffers_mutex_);
    if (!watch.free_buffers_.empty()) {
      *buffer = watch.free_buffers_.back();
      watch.free_buffers_.pop_back();
    } else if (watch.buffers_out_ < kMaxBuffers) {
      *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, kBufferBytes));
    }
    if (*buffer) ++watch.buffers_out_;
  }
  if (*buffer)
    *size = kBufferBytes;
  else
    watch.book_.dropped(1);
}

void Watch::on_complete(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                        std::size_t valid) {
  Watch& watch = instance();
  if (!buffer) return;
  CUptiResult code = CUPTI_ERROR_MAX_LIMIT_REACHED;
  CUpti_Activity* record = nullptr;
  try {
    if (valid > 0)
      while ((code = cupti().GetNextRecord(buffer, valid, &record)) == CUPTI_SUCCESS)
        if (record) watch.read(*record);
    if (code != CUPTI_ERROR_MAX_LIMIT_REACHED) {
      remark("a buffer ends early: " + cupti().text(code));
      watch.book_.dropped(1);
    }
    std::size_t dropped = 0;
    if (cupti().GetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped)
      watch.book_.dropped(dropped);
  } catch (...) {
    watch.book_.dropped(1);
  }
  std::lock_guard lock(watch.buffers_mutex_);
  if (watch.buffers_out_ > 0) --watch.buffers_out_;
  if (watch.free_buffers_.size() < kMaxFreeBuffers)
    watch.free_buffers_.push_back(buffer);
  else
    std::free(buffer);
}

void Watch::read(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      const auto& r = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      std::uint32_t site = get(r.correlationId);
      if (r.graphNodeId == 0) ++arrived_;
      if (site & kInternal) return book_.internal();
      const bool graph = r.graphNodeId != 0;
      const char* name = r.name ? r.name : "";
      if (graph || !site || origin_of(site) == Origin::kUnknown) {
        std::lock_guard lock(names_mutex_);
        auto node = graph ? site_of_node_.find(r.graphNodeId) : site_of_node_.end();
        if (node != site_of_node_.end() &&
            (node->second & kInternal || origin_of(node->second) != Origin::kUnknown)) {
          site = node->second;
        } else if (auto it = site_of_name_.find(name); (graph || !site) && it != site_of_name_.end()) {
          site = it->second;
        }
      }
      if (site & kInternal) return book_.internal();
      if (!site || (graph && origin_of(site) == Origin::kUnknown)) site = site_by_name(name);
      const std::string module = objects_.module(dso_of(site));
      const auto positive = [](std::int32_t v) { return static_cast<std::uint32_t>(std::max(v, 0)); };
      book_.kernel({.name = name,
                    .module = module,
                    .origin = origin_of(site),
                    .grid = {positive(r.gridX), positive(r.gridY), positive(r.gridZ)},
                    .block = {positive(r.blockX), positive(r.blockY), positive(r.blockZ)},
                    .start_ns = r.start,
                    .end_ns = r.end,
                    .stream = r.streamId,
                    .graph = graph});
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& r = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      if ((get(r.correlationId) | get(r.runtimeCorrelationId)) & kInternal) return book_.internal();
      return book_.copy({.kind = copy_kind(r), .bytes = r.bytes, .start_ns = r.start, .end_ns = r.end});
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& r = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      const std::uint32_t site = get(r.correlationId);
      if (site & kCanary) {
        if (r.bytes == 8) ++canaries_;
        return;
      }
      if (site & kInternal) return book_.internal();
      return book_.copy({.kind = CopyKind::kSet, .bytes = r.bytes, .start_ns = r.start, .end_ns = r.end});
    }
    default:
      return;
  }
}

}  // namespace musacoder::ledger
