#include "vgpu/server/server.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "vgpu/server/fatbin.h"
#include "vgpu/server/ledger.h"
#include "vgpu/server/protocol.h"
#include "vgpu/server/records.h"
#include "vgpu/server/strided.h"

namespace musacoder::vgpu {
namespace {

using protocol::Cuda;
using protocol::FrameHeader;
using protocol::Op;
using protocol::Reader;
using protocol::Writer;

constexpr std::size_t kPieceBytes = 1 << 20;          // payloads cross in pieces of this size
constexpr std::size_t kMaxAllocations = 1 << 18;      // of the client
constexpr std::size_t kMaxKernels = 1 << 16;
constexpr std::uint64_t kMaxModulesBytes = 256ull << 20;
constexpr std::uint64_t kMaxDrainBytes = 1ull << 40;  // a payload claimed longer than this is a malformed frame
constexpr std::size_t kMaxPrintfBytes = 1 << 20;
constexpr std::uint32_t kSharedReserve = 1024;        // of an SM's shared memory, per block, kept by the system

// The bulk bytes behind a request, read piecewise; what a handler leaves is drained.
class Payload {
 public:
  Payload(int fd, std::uint64_t bytes) : fd_(fd), left_(bytes) {}
  std::uint64_t left() const { return left_; }
  bool read(std::byte* to, std::size_t n) {
    if (n > left_ || !protocol::receive_all(fd_, to, n)) return false;
    left_ -= n;
    return true;
  }
  bool drain() {
    std::vector<std::byte> waste(std::min<std::uint64_t>(left_, kPieceBytes));
    while (left_ > 0)
      if (!read(waste.data(), std::min<std::uint64_t>(left_, waste.size()))) return false;
    return true;
  }

 private:
  int fd_;
  std::uint64_t left_;
};

struct Reply {
  std::uint32_t status = 0;
  Writer head;
  std::string payload;
  // A long payload is read from the device piece by piece while it is sent.
  std::uint64_t device_from = 0, device_bytes = 0;

  void fail(std::uint32_t code, std::string_view text) {
    status = code;
    head.clear();
    head.text(text.substr(0, 8192));
    payload.clear();
    device_bytes = 0;
  }
};

enum class Handled { kReply, kMalformed, kGone };

struct Module {
  ModuleId id = 0;
  std::string label;
  std::uint64_t bytes = 0;
  std::map<std::string, KernelInfo, std::less<>> kernels;
};

struct Kernel {
  std::uint32_t module = 0;
  KernelInfo info;
  std::uint32_t param_bytes = 0;
  std::uint64_t max_dynamic_shared = 0;
  bool live = true;
};

Cuda code_of_fault(FaultKind kind) {
  switch (kind) {
    case FaultKind::kNone: return Cuda::kSuccess;
    case FaultKind::kOutOfBounds:
    case FaultKind::kUseAfterFree: return Cuda::kIllegalAddress;
    case FaultKind::kMisaligned: return Cuda::kMisalignedAddress;
    case FaultKind::kInvalidLaunch: return Cuda::kInvalidConfiguration;
    case FaultKind::kAssert: return Cuda::kAssert;
    case FaultKind::kTimeout: return Cuda::kLaunchTimeout;
    case FaultKind::kUnsupported: return Cuda::kNotSupported;
    case FaultKind::kTrap:
    case FaultKind::kBarrier:
    case FaultKind::kStackOverflow: return Cuda::kLaunchFailure;
  }
  return Cuda::kLaunchFailure;
}

Cuda code_of_error(const Error& error) {
  switch (error.code) {
    case Code::kResourceExhausted: return Cuda::kMemoryAllocation;
    case Code::kUnsupported: return Cuda::kNotSupported;
    case Code::kInvalidArgument:
    case Code::kNotFound: return Cuda::kInvalidValue;
    default: return Cuda::kUnknown;
  }
}

void fail(Reply& reply, Cuda code, std::string_view text) { reply.fail(static_cast<std::uint32_t>(code), text); }
void fail(Reply& reply, const Error& error) { fail(reply, code_of_error(error), error.message); }
void fail_control(Reply& reply, const Error& error) {
  reply.fail(static_cast<std::uint32_t>(error.code) + 1, error.message);
}

StridedTensor read_tensor(Reader& in) {
  StridedTensor t;
  t.address = in.u64();
  t.dtype = in.i32();
  t.ndim = in.i32();
  for (auto* list : {&t.sizes, &t.strides})
    for (int d = 0; d < std::clamp(t.ndim, 0, protocol::kMaxDims); ++d) (*list)[d] = in.i64();
  return t;
}

}  // namespace

struct Server::Impl {
  explicit Impl(const ServerOptions& o, GpuProperties p)
      : properties(std::move(p)),
        device({.gpu = o.gpu, .threads = o.threads, .memory_bytes = o.memory_bytes,
                .max_warp_instructions = o.max_warp_instructions, .max_seconds = o.max_seconds}),
        memory_bytes(o.memory_bytes) {}

  const GpuProperties properties;
  std::mutex mutex;  // guards everything below
  Device device;
  const std::uint64_t memory_bytes;
  Ledger ledger;
  std::set<DevicePtr> client_allocations;
  std::map<std::uint32_t, Module> modules;
  std::uint32_t next_module = 1;
  std::uint64_t module_bytes = 0;
  std::vector<Kernel> kernels;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> kernel_index;
  std::optional<Fault> sticky;
  std::string client_printf;

  using Handler = Handled (Impl::*)(Op, Reader&, Payload&, Reply&);
  void serve(int fd, Handler handle, bool client);
  bool send_reply(int fd, std::uint16_t op, Reply& reply);
  Handled handle_client(Op op, Reader& in, Payload& payload, Reply& reply);
  Handled handle_control(Op op, Reader& in, Payload& payload, Reply& reply);

  bool sticky_error(Reply& reply);
  Status receive_into(DevicePtr to, Payload& payload, bool* gone);
  void malloc(std::uint64_t bytes, Reply& reply);
  void set(DevicePtr to, std::uint32_t pattern, std::uint8_t width, std::uint64_t count, Reply& reply);
  Handled load_module(std::string label, Payload& payload, Reply& reply);
  void unload_module(std::uint32_t id, Reply& reply);
  void find_kernel(std::uint32_t module, const std::string& name, Reply& reply);
  void set_kernel_shared(std::uint32_t kernel, std::uint64_t bytes, Reply& reply);
  bool launchable(const Kernel& kernel, const LaunchConfig& config, std::uint64_t shared, Reply& reply);
  std::uint64_t resident_blocks(const Kernel& kernel, std::uint64_t threads, std::uint64_t dynamic_shared) const;
  void launch(std::uint32_t kernel, LaunchConfig config, std::uint64_t shared, Reply& reply);
  void refuse_launch(Reply& reply, Cuda code, std::string text);
  void collect_printf();
  ViewBytes viewer() {
    return [this](std::uint64_t address, std::uint64_t bytes) { return device.view(address, bytes); };
  }
};

// ---- the loop of both sides

void Server::Impl::serve(int fd, Handler handle, bool client) {
  auto malformed = [&](const char* what) {
    if (!client) return;
    std::lock_guard lock(mutex);
    ledger.protocol_error(what);
  };
  FrameHeader header;
  std::string head;
  for (;;) {
    if (!protocol::receive_all(fd, &header, sizeof header)) break;
    if (header.magic != protocol::kMagic || header.version != protocol::kVersion) {
      malformed("a frame without the protocol's mark");
      break;
    }
    if (header.head_bytes > protocol::kMaxHeadBytes || header.payload_bytes > kMaxDrainBytes) {
      malformed("a frame that claims an impossible length");
      break;
    }
    if (!protocol::receive_head(fd, header, &head)) break;
    Reader in(head);
    Payload payload(fd, header.payload_bytes);
    Reply reply;
    const Handled handled = (this->*handle)(static_cast<Op>(header.op), in, payload, reply);
    if (handled == Handled::kMalformed) {
      malformed("a frame with an unknown operation or wrong fields");
      break;
    }
    if (handled == Handled::kGone || !payload.drain() || !send_reply(fd, header.op, reply)) break;
  }
  ::shutdown(fd, SHUT_RDWR);
}

bool Server::Impl::send_reply(int fd, std::uint16_t op, Reply& reply) {
  if (reply.device_bytes == 0)
    return protocol::send_frame(fd, op, reply.status, reply.head.bytes(), reply.payload.data(), reply.payload.size());
  FrameHeader header;
  header.op = op;
  header.payload_bytes = reply.device_bytes;
  if (!protocol::send_all(fd, &header, sizeof header)) return false;
  std::vector<std::byte> piece(std::min<std::uint64_t>(reply.device_bytes, kPieceBytes));
  for (std::uint64_t done = 0; done < reply.device_bytes;) {
    const std::size_t n = std::min<std::uint64_t>(reply.device_bytes - done, piece.size());
    {
      // Checked when the reply was made. Freed meanwhile (by the other side): the bytes are zero.
      std::lock_guard lock(mutex);
      if (!device.read(reply.device_from + done, {piece.data(), n})) std::fill_n(piece.data(), n, std::byte{0});
    }
    if (!protocol::send_all(fd, piece.data(), n)) return false;
    done += n;
  }
  return true;
}

// ---- client

bool Server::Impl::sticky_error(Reply& reply) {
  if (!sticky) return false;
  fail(reply, code_of_fault(sticky->kind), sticky->message);
  return true;
}

Handled Server::Impl::handle_client(Op op, Reader& in, Payload& payload, Reply& reply) {
  // Decode first; nothing happens before the whole head was right.
  const bool takes_payload = op == Op::kWrite || op == Op::kLoadModule;
  if (payload.left() > 0 && !takes_payload) return Handled::kMalformed;
  auto locked = [&](bool after_fault, auto&& work) {
    if (!in.done()) return Handled::kMalformed;
    std::lock_guard lock(mutex);
    if (!after_fault && sticky_error(reply)) return Handled::kReply;
    work();
    return Handled::kReply;
  };
  switch (op) {
    case Op::kHello:
      return locked(true, [&] {
        const GpuProperties& p = properties;
        reply.head.text(p.marketing_name);
        for (int v : {p.compute_major, p.compute_minor, p.sm_count, p.warp_size, p.max_threads_per_block,
                      p.max_threads_per_sm, p.registers_per_block, p.clock_khz, p.memory_clock_khz, p.memory_bus_bits})
          reply.head.i32(v);
        for (std::uint64_t v : {p.shared_bytes_per_block, p.shared_bytes_per_block_optin, p.shared_bytes_per_sm, memory_bytes,
                                p.l2_bytes, memory_bytes - std::min(memory_bytes, device.bytes_in_use())})
          reply.head.u64(v);
      });
    case Op::kMalloc: {
      const auto bytes = in.u64();
      return locked(false, [&] { malloc(bytes, reply); });
    }
    case Op::kFree: {
      const auto address = in.u64();
      return locked(false, [&] {
        if (client_allocations.erase(address) == 0)
          return fail(reply, Cuda::kInvalidValue, fmt::format("0x{:x} is not the start of an allocation of this process", address));
        if (auto status = device.free(address); !status) fail(reply, status.error());
      });
    }
    case Op::kWrite: {
      const auto to = in.u64();
      const bool creation = in.u8() != 0;
      if (!in.done()) return Handled::kMalformed;
      const std::uint64_t bytes = payload.left();
      {
        std::lock_guard lock(mutex);
        if (sticky_error(reply)) return Handled::kReply;
      }
      bool gone = false;
      auto status = receive_into(to, payload, &gone);
      if (gone) return Handled::kGone;
      if (!status) {
        fail(reply, status.error());
      } else {
        std::lock_guard lock(mutex);
        ledger.host_to_device(bytes, creation);
      }
      return Handled::kReply;
    }
    case Op::kRead: {
      const auto from = in.u64(), bytes = in.u64();
      return locked(false, [&] {
        if (auto seen = device.view(from, bytes); !seen) return fail(reply, seen.error());
        ledger.device_to_host(bytes);
        reply.device_from = from;
        reply.device_bytes = bytes;
      });
    }
    case Op::kCopy: {
      const auto to = in.u64(), from = in.u64(), bytes = in.u64();
      return locked(false, [&] {
        if (auto status = device.copy(to, from, bytes); !status) return fail(reply, status.error());
        ledger.device_to_device(bytes);
      });
    }
    case Op::kSet: {
      const auto to = in.u64();
      const auto pattern = in.u32();
      const auto width = in.u8();
      const auto count = in.u64();
      return locked(false, [&] { set(to, pattern, width, count, reply); });
    }
    case Op::kCopyStrided: {
      const StridedTensor to = read_tensor(in), from = read_tensor(in);
      return locked(false, [&] {
        auto bytes = copy_strided(viewer(), to, from);
        if (!bytes) return fail(reply, bytes.error());
        ledger.device_to_device(*bytes);
      });
    }
    case Op::kFillStrided: {
      const StridedTensor to = read_tensor(in);
      Scalar value;
      value.kind = in.i32();
      value.integer = in.i64();
      value.real = in.f64();
      value.imag = in.f64();
      return locked(false, [&] {
        auto bytes = fill_strided(viewer(), to, value);
        if (!bytes) return fail(reply, bytes.error());
        ledger.set(*bytes);
      });
    }
    case Op::kLoadModule: {
      std::string label = in.text(protocol::kMaxTextBytes);
      if (!in.done()) return Handled::kMalformed;
      return load_module(std::move(label), payload, reply);
    }
    case Op::kUnloadModule: {
      const auto id = in.u32();
      return locked(true, [&] { unload_module(id, reply); });
    }
    case Op::kKernel: {
      const auto module = in.u32();
      const std::string name = in.text(protocol::kMaxNameBytes);
      return locked(false, [&] { find_kernel(module, name, reply); });
    }
    case Op::kKernelShared: {
      const auto kernel = in.u32();
      const auto bytes = in.u64();
      return locked(false, [&] { set_kernel_shared(kernel, bytes, reply); });
    }
    case Op::kLaunch: {
      const auto kernel = in.u32();
      LaunchConfig config;
      for (auto* dim : {&config.grid, &config.block}) {
        dim->x = in.u32();
        dim->y = in.u32();
        dim->z = in.u32();
      }
      const auto shared = in.u64();
      config.cooperative = in.u8() != 0;
      const std::string params = in.text(64 << 10);
      const auto* bytes = reinterpret_cast<const std::byte*>(params.data());
      config.params.assign(bytes, bytes + params.size());
      return locked(false, [&] { launch(kernel, std::move(config), shared, reply); });
    }
    case Op::kSymbol: {
      const auto module = in.u32();
      const std::string name = in.text(protocol::kMaxNameBytes);
      return locked(false, [&] {
        auto it = modules.find(module);
        if (it == modules.end()) return fail(reply, Cuda::kInvalidResourceHandle, "no such module");
        std::uint64_t bytes = 0;
        auto address = device.global_address(it->second.id, name, &bytes);
        if (!address) return fail(reply, Cuda::kInvalidSymbol, address.error().message);
        reply.head.u64(*address);
        reply.head.u64(bytes);
      });
    }
    case Op::kLabel: {
      const auto address = in.u64();
      std::string label = in.text(protocol::kMaxTextBytes);
      return locked(true, [&] {
        if (!client_allocations.contains(address))
          return fail(reply, Cuda::kInvalidValue, fmt::format("0x{:x} is not an allocation of this process", address));
        if (auto status = device.relabel(address, std::move(label)); !status) fail(reply, status.error());
      });
    }
    case Op::kReport: {
      const std::string kind = in.text(protocol::kMaxTextBytes), text = in.text(protocol::kMaxTextBytes);
      return locked(true, [&] {
        if (!ledger.report(kind, text)) return fail(reply, Cuda::kInvalidValue, "unknown kind of report");
        reply.head.u8(ledger.open());
      });
    }
    case Op::kErrorRead: return locked(true, [&] { ledger.launch_error_read(); });
    case Op::kSynchronize: return locked(false, [&] { reply.head.u8(!client_printf.empty()); });
    case Op::kMemoryInfo:
      return locked(false, [&] {
        reply.head.u64(memory_bytes - std::min(memory_bytes, device.bytes_in_use()));
        reply.head.u64(memory_bytes);
      });
    case Op::kPrintf:
      return locked(true, [&] {
        reply.payload = std::move(client_printf);
        client_printf.clear();
      });
    case Op::kFind: {
      const auto address = in.u64();
      return locked(true, [&] {
        auto found = device.find(address);
        reply.head.u64(found ? found->address : 0);
        reply.head.u64(found ? found->bytes : 0);
      });
    }
    default: return Handled::kMalformed;
  }
}

Status Server::Impl::receive_into(DevicePtr to, Payload& payload, bool* gone) {
  {
    std::lock_guard lock(mutex);
    if (auto seen = device.view(to, payload.left()); !seen) return tl::unexpected(seen.error());
  }
  std::vector<std::byte> piece(std::min<std::uint64_t>(payload.left(), kPieceBytes));
  while (payload.left() > 0) {
    const std::size_t n = std::min<std::uint64_t>(payload.left(), piece.size());
    if (!payload.read(piece.data(), n)) {
      *gone = true;
      return ok();
    }
    std::lock_guard lock(mutex);
    MC_RETURN_IF_ERROR(device.write(to, {piece.data(), n}));
    to += n;
  }
  return ok();
}

void Server::Impl::malloc(std::uint64_t bytes, Reply& reply) {
  if (client_allocations.size() >= kMaxAllocations)
    return fail(reply, Cuda::kMemoryAllocation, fmt::format("{} allocations are live; no more are given", kMaxAllocations));
  auto address = device.allocate(bytes, "device memory");
  if (!address) return fail(reply, Cuda::kMemoryAllocation, address.error().message);
  client_allocations.insert(*address);
  reply.head.u64(*address);
}

void Server::Impl::set(DevicePtr to, std::uint32_t pattern, std::uint8_t width, std::uint64_t count, Reply& reply) {
  std::uint64_t bytes = 0;
  if ((width != 1 && width != 2 && width != 4) || __builtin_mul_overflow(count, std::uint64_t{width}, &bytes))
    return fail(reply, Cuda::kInvalidValue, "memset takes elements of 1, 2 or 4 bytes");
  auto view = device.view(to, bytes);
  if (!view) return fail(reply, view.error());
  if (width == 1) {
    if (auto status = device.fill(to, static_cast<std::uint8_t>(pattern), bytes); !status) return fail(reply, status.error());
  } else {
    for (std::size_t i = 0; i < bytes; i += width) std::memcpy(view->data() + i, &pattern, width);
  }
  ledger.set(bytes);
}

Handled Server::Impl::load_module(std::string label, Payload& payload, Reply& reply) {
  const std::uint64_t bytes = payload.left();
  {
    std::lock_guard lock(mutex);
    if (sticky_error(reply)) return Handled::kReply;
    if (bytes > protocol::kMaxModuleBytes || module_bytes + bytes > kMaxModulesBytes) {
      fail(reply, Cuda::kInvalidKernelImage, fmt::format("a module of {} bytes is over the limit", bytes));
      return Handled::kReply;
    }
  }
  std::string image(bytes, '\0');
  if (!payload.read(reinterpret_cast<std::byte*>(image.data()), image.size())) return Handled::kGone;
  auto ptx = find_ptx(image);
  if (!ptx) {
    fail(reply, ptx.error().code == Code::kUnsupported ? Cuda::kNoKernelImageForDevice : Cuda::kInvalidKernelImage,
         ptx.error().message);
    return Handled::kReply;
  }
  std::lock_guard lock(mutex);
  auto id = device.load_module(*ptx);
  if (!id) {
    fail(reply, Cuda::kInvalidPtx, id.error().message);
    return Handled::kReply;
  }
  Module& module = modules[next_module];
  module.id = *id;
  module.label = std::move(label);
  module.bytes = bytes;
  module_bytes += bytes;
  for (auto& info : device.kernels(*id)) {
    std::string name = info.name;
    module.kernels.emplace(std::move(name), std::move(info));
  }
  reply.head.u32(next_module++);
  return Handled::kReply;
}

void Server::Impl::unload_module(std::uint32_t id, Reply& reply) {
  auto it = modules.find(id);
  if (it == modules.end()) return fail(reply, Cuda::kInvalidResourceHandle, "no such module");
  for (Kernel& kernel : kernels)
    if (kernel.module == id) kernel.live = false;
  if (auto status = device.unload_module(it->second.id); !status) fail(reply, status.error());
  module_bytes -= it->second.bytes;
  modules.erase(it);
}

void Server::Impl::find_kernel(std::uint32_t module, const std::string& name, Reply& reply) {
  auto at = modules.find(module);
  if (at == modules.end()) return fail(reply, Cuda::kInvalidResourceHandle, "no such module");
  auto found = at->second.kernels.find(name);
  if (found == at->second.kernels.end())
    return fail(reply, Cuda::kInvalidDeviceFunction, fmt::format("the module {} has no kernel {}", at->second.label, name));
  const KernelInfo& info = found->second;
  auto [it, fresh] = kernel_index.try_emplace({module, name}, static_cast<std::uint32_t>(kernels.size()));
  if (fresh) {
    if (kernels.size() >= kMaxKernels) {
      kernel_index.erase(it);
      return fail(reply, Cuda::kMemoryAllocation, "too many kernels");
    }
    Kernel kernel;
    kernel.module = module;
    kernel.info = info;
    for (const auto& param : info.params) kernel.param_bytes = std::max(kernel.param_bytes, param.offset + param.bytes);
    kernel.max_dynamic_shared =
        properties.shared_bytes_per_block - std::min<std::uint64_t>(properties.shared_bytes_per_block, info.static_shared_bytes);
    kernels.push_back(std::move(kernel));
  }
  reply.head.u32(it->second);
  reply.head.u32(info.static_shared_bytes);
  reply.head.u32(info.local_bytes);
  reply.head.u32(info.max_threads);
  reply.head.u32(static_cast<std::uint32_t>(info.params.size()));
  for (const auto& param : info.params) {
    reply.head.u32(param.offset);
    reply.head.u32(param.bytes);
  }
}

void Server::Impl::set_kernel_shared(std::uint32_t index, std::uint64_t bytes, Reply& reply) {
  if (index >= kernels.size() || !kernels[index].live) return fail(reply, Cuda::kInvalidResourceHandle, "no such kernel");
  Kernel& kernel = kernels[index];
  if (bytes > properties.shared_bytes_per_block_optin ||
      bytes + kernel.info.static_shared_bytes > properties.shared_bytes_per_block_optin)
    return fail(reply, Cuda::kInvalidValue,
                fmt::format("{} bytes of dynamic shared memory beside {} static ones; a block has at most {}", bytes,
                            kernel.info.static_shared_bytes, properties.shared_bytes_per_block_optin));
  kernel.max_dynamic_shared = bytes;
}

void Server::Impl::refuse_launch(Reply& reply, Cuda code, std::string text) {
  ledger.launch_error(text);
  fail(reply, code, text);
}

std::uint64_t Server::Impl::resident_blocks(const Kernel& kernel, std::uint64_t threads, std::uint64_t dynamic_shared) const {
  const std::uint64_t warp = static_cast<std::uint64_t>(properties.warp_size);
  const std::uint64_t by_threads =
      static_cast<std::uint64_t>(properties.max_threads_per_sm) / ((threads + warp - 1) / warp * warp);
  const std::uint64_t shared = kernel.info.static_shared_bytes + dynamic_shared + kSharedReserve;
  return std::min({by_threads, properties.shared_bytes_per_sm / shared, std::uint64_t{32}}) *
         static_cast<std::uint64_t>(properties.sm_count);
}

bool Server::Impl::launchable(const Kernel& kernel, const LaunchConfig& config, std::uint64_t shared, Reply& reply) {
  const Dim3 &g = config.grid, &b = config.block;
  const std::string where = fmt::format("launch of {} with grid ({},{},{}) and block ({},{},{})", kernel.info.demangled, g.x, g.y,
                                        g.z, b.x, b.y, b.z);
  auto refuse = [&](Cuda code, const std::string& why) {
    refuse_launch(reply, code, where + ": " + why);
    return false;
  };
  if (!g.x || !g.y || !g.z || !b.x || !b.y || !b.z) return refuse(Cuda::kInvalidConfiguration, "a dimension is zero");
  if (g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535)
    return refuse(Cuda::kInvalidConfiguration, "a grid has at most 2147483647 × 65535 × 65535 blocks");
  const auto limit = static_cast<std::uint64_t>(properties.max_threads_per_block);
  const std::uint64_t threads = std::uint64_t{b.x} * b.y;  // ≤ 2^64; z is small or refused
  if (b.x > limit || b.y > limit || b.z > 64 || threads * b.z > limit)
    return refuse(Cuda::kInvalidConfiguration, fmt::format("a block has at most {} threads, 64 in z", limit));
  if (kernel.info.max_threads && threads * b.z > kernel.info.max_threads)
    return refuse(Cuda::kLaunchOutOfResources,
                  fmt::format("the kernel's launch bounds allow {} threads a block", kernel.info.max_threads));
  if (shared > kernel.max_dynamic_shared)
    return refuse(Cuda::kInvalidValue,
                  fmt::format("{} bytes of dynamic shared memory asked, {} allowed; see cudaFuncAttributeMaxDynamicSharedMemorySize",
                              shared, kernel.max_dynamic_shared));
  if (config.params.size() != kernel.param_bytes)
    return refuse(Cuda::kInvalidValue, fmt::format("{} bytes of parameters, the kernel takes {}", config.params.size(),
                                                   kernel.param_bytes));
  if (config.cooperative) {
    const std::uint64_t room = resident_blocks(kernel, threads * b.z, shared), blocks = std::uint64_t{g.x} * g.y * g.z;
    if (blocks > room)
      return refuse(Cuda::kCooperativeLaunchTooLarge,
                    fmt::format("a cooperative launch of {} blocks, {} fit on the device at a time", blocks, room));
  }
  return true;
}

void Server::Impl::launch(std::uint32_t index, LaunchConfig config, std::uint64_t shared, Reply& reply) {
  if (index >= kernels.size() || !kernels[index].live) return refuse_launch(reply, Cuda::kInvalidResourceHandle, "no such kernel");
  const Kernel& kernel = kernels[index];
  if (!launchable(kernel, config, shared, reply)) return;
  const Module& module = modules.at(kernel.module);
  config.module = module.id;
  config.kernel = kernel.info.name;
  config.dynamic_shared_bytes = static_cast<std::uint32_t>(shared);
  config.reverse_blocks = ledger.open() && ledger.options().reverse_blocks;
  const LaunchOutcome outcome = device.launch(config);
  collect_printf();
  if (outcome.fault && outcome.fault->kind == FaultKind::kInvalidLaunch)
    return refuse_launch(reply, Cuda::kInvalidConfiguration, outcome.fault->message);
  ledger.launch(kernel.info.demangled, module.label, config, outcome);
  if (outcome.fault && outcome.fault->kind != FaultKind::kNone) {
    sticky = outcome.fault;
    ledger.fault(*sticky);
    sticky_error(reply);
    return;
  }
  reply.head.u8(!client_printf.empty());
}

void Server::Impl::collect_printf() {
  const std::string text = device.take_printf_output();
  if (text.empty()) return;
  ledger.printf_output(text);
  const std::size_t room = kMaxPrintfBytes - std::min(kMaxPrintfBytes, client_printf.size());
  client_printf.append(text, 0, room);
}

// ---- control

Handled Server::Impl::handle_control(Op op, Reader& in, Payload& payload, Reply& reply) {
  if (payload.left() > 0 && op != Op::kCtlWrite) return Handled::kMalformed;
  auto locked = [&](auto&& work) {
    if (!in.done()) return Handled::kMalformed;
    std::lock_guard lock(mutex);
    work();
    return Handled::kReply;
  };
  switch (op) {
    case Op::kCtlAllocate: {
      const auto bytes = in.u64();
      std::string label = in.text();
      return locked([&] {
        auto address = device.allocate(bytes, std::move(label));
        if (!address) return fail_control(reply, address.error());
        reply.head.u64(*address);
      });
    }
    case Op::kCtlFree: {
      const auto address = in.u64();
      return locked([&] {
        if (auto status = device.free(address); !status) return fail_control(reply, status.error());
        client_allocations.erase(address);
      });
    }
    case Op::kCtlWrite: {
      const auto to = in.u64();
      if (!in.done()) return Handled::kMalformed;
      bool gone = false;
      if (auto status = receive_into(to, payload, &gone); !status) fail_control(reply, status.error());
      return gone ? Handled::kGone : Handled::kReply;
    }
    case Op::kCtlRead: {
      const auto from = in.u64(), bytes = in.u64();
      return locked([&] {
        if (auto seen = device.view(from, bytes); !seen) return fail_control(reply, seen.error());
        reply.device_from = from;
        reply.device_bytes = bytes;
      });
    }
    case Op::kCtlFind: {
      const auto address = in.u64();
      return locked([&] {
        auto found = device.find(address);
        if (!found) return fail_control(reply, {Code::kNotFound, fmt::format("no allocation holds 0x{:x}", address)});
        reply.head.u64(found->address);
        reply.head.u64(found->bytes);
        reply.head.text(found->label);
        reply.head.u64(found->kernel_written_bytes);
      });
    }
    case Op::kCtlBeginWindow: {
      WindowOptions options;
      options.trial = in.i32();
      options.reverse_blocks = in.u8() != 0;
      options.poison = in.u8();
      return locked([&] {
        Writer before;
        encode(before, ledger.begin(options));
        reply.payload = before.bytes();
        device.set_poison(options.poison);
        device.reset_provenance();
      });
    }
    case Op::kCtlEndWindow:
      return locked([&] {
        Writer out;
        encode(out, ledger.end());
        reply.payload = out.bytes();
      });
    case Op::kCtlOutside:
      return locked([&] {
        Writer out;
        encode(out, ledger.take_outside());
        reply.payload = out.bytes();
      });
    case Op::kCtlLastFault:
      return locked([&] {
        reply.head.u8(sticky.has_value());
        if (sticky) encode(reply.head, *sticky);
      });
    default: return Handled::kMalformed;
  }
}

// ---- Server

Result<std::unique_ptr<Server>> Server::create(const ServerOptions& options) {
  MC_ASSIGN_OR_RETURN(GpuProperties properties, gpu_properties(options.gpu));
  if (options.memory_bytes == 0) return fail(Code::kInvalidArgument, "a device needs memory; give --memory BYTES");
  auto impl = std::make_unique<Impl>(options, std::move(properties));
  MC_ASSIGN_OR_RETURN(DevicePtr probe, impl->device.allocate(1, "probe"));
  MC_RETURN_IF_ERROR(impl->device.free(probe));
  if (probe < protocol::kDeviceBegin || probe >= protocol::kDeviceEnd)
    return fail(Code::kUnavailable, "device memory lies at 0x{:x}, where a client's own memory may be", probe);
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

void Server::serve_control(int fd) { impl_->serve(fd, &Impl::handle_control, false); }
void Server::serve_client(int fd) { impl_->serve(fd, &Impl::handle_client, true); }

void Server::run(int control_fd, int client_fd) {
  std::thread([this, client_fd] { serve_client(client_fd); }).detach();
  std::thread([this, control_fd] { serve_control(control_fd); }).detach();
  // A request may wait for a long launch; the end of the judge must not.
  pollfd watch{.fd = control_fd, .events = POLLRDHUP, .revents = 0};
  while (!(watch.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))) {
    watch.revents = 0;
    if (::poll(&watch, 1, -1) < 0 && errno != EINTR) return;
  }
}

}  // namespace musacoder::vgpu
