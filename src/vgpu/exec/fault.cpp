#include <cxxabi.h>

#include <cstdlib>

#include "vgpu/exec/runtime.h"

namespace musacoder::vgpu {

const char* fault_kind_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::kNone: return "none";
    case FaultKind::kOutOfBounds: return "out_of_bounds";
    case FaultKind::kMisaligned: return "misaligned";
    case FaultKind::kUseAfterFree: return "use_after_free";
    case FaultKind::kInvalidLaunch: return "invalid_launch";
    case FaultKind::kAssert: return "assert";
    case FaultKind::kTrap: return "trap";
    case FaultKind::kBarrier: return "barrier";
    case FaultKind::kTimeout: return "timeout";
    case FaultKind::kStackOverflow: return "stack_overflow";
    case FaultKind::kUnsupported: return "unsupported";
  }
  return "none";
}

namespace exec {
namespace {

// Headers of the toolkit and of the system: the reader wants the line of his own that uses them.
bool is_library_file(std::string_view path) {
  return path.find("/include/") != path.npos || path.find("/usr/") == 0 || path.find("/targets/") != path.npos ||
         path.find("/cccl/") != path.npos;
}

std::string base_name(const std::string& path) {
  std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// The folder is a scratch folder of the build and says nothing to the reader.
void find_location(const ptx::Module& module, const ptx::Instruction* origin, Fault& f) {
  if (!origin || origin->location < 0) return;
  const ptx::Location* at = &module.locations[std::size_t(origin->location)];
  auto path = [&](const ptx::Location& l) -> std::string {
    auto it = module.files.find(l.file);
    return it == module.files.end() ? std::string() : it->second;
  };
  for (unsigned depth = 0; depth < 64 && at->inlined_at >= 0 && (is_library_file(path(*at)) || at->line == 0); ++depth)
    at = &module.locations[std::size_t(at->inlined_at)];
  if (at->line == 0) return;
  f.file = base_name(path(*at));
  f.line = at->line;
}

}  // namespace

std::string demangle(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  if (status != 0 || !text) return name;
  std::string out = text;
  std::free(text);
  return out;
}

const ptx::Instruction* origin_of(const Warp& w, const Inst* in) {
  // The instruction may belong to another frame than the current one (a warp stopped between two).
  const auto* program = w.worker->launch->program;
  auto inside = [&](const Code& code) { return in >= code.insts.data() && in < code.insts.data() + code.insts.size(); };
  const Code* code = w.code;
  if (!inside(*code)) {
    code = nullptr;
    for (const auto& [f, c] : program->codes)
      if (inside(*c)) code = c.get();
  }
  if (!code) return nullptr;
  std::int32_t index = code->origin[std::size_t(in - code->insts.data())];
  return index < 0 ? nullptr : &code->function->body[std::size_t(index)];
}

Fault& raise(Warp& w, const Inst* in, FaultKind kind, unsigned lane) {
  Worker& worker = *w.worker;
  const LaunchState& launch = *worker.launch;
  Fault& f = worker.fault;
  f = {};
  f.kind = kind;
  f.kernel = demangle(launch.program->entry->function->name);
  f.block = {w.block->index[0], w.block->index[1], w.block->index[2]};
  std::uint32_t thread = w.index * kLanes + lane;
  if (thread < launch.threads)
    for (unsigned k = 0; k < 3; ++k) f.thread[k] = launch.tid[k][thread];
  find_location(launch.program->module->module, origin_of(w, in), f);
  w.state = WarpState::kFault;
  return f;
}

void compose_message(Fault& f) {
  std::string what;
  auto access = [&] {
    return fmt::format("{} of {} byte{}", f.is_write ? "write" : "read", f.access_bytes, f.access_bytes == 1 ? "" : "s");
  };
  switch (f.kind) {
    case FaultKind::kOutOfBounds:
      if (f.space == "global") {
        if (f.tensor.empty()) {
          what = f.address < 4096 ? fmt::format("{} through a null pointer (address {:#x})", access(), f.address)
                 : f.access_bytes ? fmt::format("{} at address {:#x}, far from every allocation", access(), f.address)
                                  : f.detail;
        } else if (f.offset_bytes < 0) {
          what = fmt::format("{} before the start of {} (offset {} of {})", access(), f.tensor, f.offset_bytes, f.tensor_bytes);
        } else {
          what = fmt::format("{} past the end of {} (offset {} of {})", access(), f.tensor, f.offset_bytes, f.tensor_bytes);
        }
      } else if (f.space.empty()) {
        what = f.detail;
      } else {
        what = fmt::format("{} outside {} memory (offset {} of {})", access(), f.space, f.offset_bytes, f.tensor_bytes);
      }
      break;
    case FaultKind::kUseAfterFree:
      what = fmt::format("{} in {} after it was freed (offset {} of {})", access(), f.tensor, f.offset_bytes, f.tensor_bytes);
      break;
    case FaultKind::kMisaligned:
      what = fmt::format("misaligned {} at offset {} of {}", access(), f.offset_bytes,
                         f.tensor.empty() ? f.space + " memory" : f.tensor);
      break;
    case FaultKind::kAssert: what = fmt::format("assertion failed: {}", f.detail); break;
    case FaultKind::kTrap: what = f.detail.empty() || f.detail == "trap" ? "trap instruction" : f.detail; break;
    case FaultKind::kBarrier: what = f.detail; break;
    case FaultKind::kTimeout: what = fmt::format("stopped at its {}", f.detail); break;
    case FaultKind::kStackOverflow: what = fmt::format("stack overflow ({})", f.detail); break;
    case FaultKind::kUnsupported: what = fmt::format("unsupported PTX instruction {}", f.detail); break;
    case FaultKind::kInvalidLaunch: f.message = f.kernel.empty() ? f.detail : fmt::format("{}: {}", f.kernel, f.detail); return;
    case FaultKind::kNone: return;
  }
  f.message = fmt::format("{}: {} by thread ({},{},{}) of block ({},{},{})", f.kernel, what, f.thread[0], f.thread[1], f.thread[2],
                          f.block[0], f.block[1], f.block[2]);
  if (f.line) f.message += fmt::format(", {}:{}", f.file, f.line);
}

}  // namespace exec
}  // namespace musacoder::vgpu
