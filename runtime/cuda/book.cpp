#include "book.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace musacoder::ledger {

using nlohmann::json;

std::string clean(std::string_view text) {
  std::string out(text.substr(0, kMaxName));
  for (char& c : out)
    if (c < 32 || c > 126 || c == '"' || c == '\\') c = '?';
  return out;
}

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return clean(name);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return clean(status == 0 && text ? text.get() : name.c_str());
}

void Book::span(std::uint64_t start_ns, std::uint64_t end_ns) {
  if (!start_ns || end_ns < start_ns) return;
  if (!state_.first_ns || start_ns < state_.first_ns) state_.first_ns = start_ns;
  state_.last_ns = std::max(state_.last_ns, end_ns);
}

void Book::kernel(const KernelRecord& r) {
  std::lock_guard lock(mutex_);
  Key key(r.name.substr(0, 4 * kMaxName), r.module.substr(0, kMaxName), r.origin, r.grid, r.block, r.graph);
  auto it = state_.groups.find(key);
  if (it == state_.groups.end()) {
    if (state_.groups.size() >= kMaxGroups) key = Key("...", "", r.origin, {1, 1, 1}, {1, 1, 1}, false);
    it = state_.groups.try_emplace(std::move(key)).first;
  }
  Group& group = it->second;
  ++group.count;
  if (r.end_ns > r.start_ns) group.nanoseconds += r.end_ns - r.start_ns;
  if (group.streams.size() < kMaxStreams) group.streams.insert(r.stream);
  span(r.start_ns, r.end_ns);
}

void Book::copy(const CopyRecord& r) {
  std::lock_guard lock(mutex_);
  span(r.start_ns, r.end_ns);
  switch (r.kind) {
    case CopyKind::kHostToDevice:
      state_.h2d_bytes += r.bytes;
      break;
    case CopyKind::kDeviceToHost:
      state_.d2h_bytes += r.bytes;
      break;
    case CopyKind::kDeviceToDevice:
      state_.d2d_bytes += r.bytes;
      return;
    case CopyKind::kSet:
      state_.memset_bytes += r.bytes;
      return;
    case CopyKind::kOther:
      return;
  }
  if (state_.order.size() < kMaxCopies)
    state_.order.push_back(r);
  else if (r.kind == CopyKind::kHostToDevice && state_.d2h_bytes > kFreeReadBackBytes)
    state_.late_h2d_bytes += r.bytes;
}

void Book::internal(std::uint64_t count) {
  std::lock_guard lock(mutex_);
  state_.internal += count;
}

void Book::dropped(std::uint64_t count) {
  std::lock_guard lock(mutex_);
  state_.dropped += count;
}

void Book::allocation(std::uint64_t address, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  state_.allocated += bytes;
  if (taken_.size() >= kMaxAllocations || !taken_.emplace(address, bytes).second) return;
  retained_ += bytes;
}

void Book::release(std::uint64_t address) {
  std::lock_guard lock(mutex_);
  const auto it = taken_.find(address);
  if (it == taken_.end()) return;
  retained_ -= it->second;
  taken_.erase(it);
}

void Book::thread() {
  std::lock_guard lock(mutex_);
  ++state_.threads;
}

void Book::note(std::string_view kind, std::string_view name) {
  std::lock_guard lock(mutex_);
  auto* list = kind == "refused" || kind == "booked" ? &state_.refused
               : kind == "unsupported"               ? &state_.unsupported
                                                     : nullptr;
  if (list && !name.empty() && list->size() < kMaxNotes) list->insert(clean(name));
}

void Book::launch_error(std::string name) {
  std::lock_guard lock(mutex_);
  state_.error = std::move(name);
}

// Records of several buffers do not come in order of time.
std::uint64_t Book::after_read_back(const State& state) {
  std::vector<CopyRecord> order = state.order;
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.start_ns, a.end_ns) < std::pair(b.start_ns, b.end_ns);
  });
  std::uint64_t read = 0, sent = state.late_h2d_bytes;
  for (const auto& r : order) {
    if (r.kind == CopyKind::kDeviceToHost)
      read += r.bytes;
    else if (read > kFreeReadBackBytes)
      sent += r.bytes;
  }
  return sent;
}

json Book::take() {
  State state;
  std::uint64_t retained = 0;
  {
    std::lock_guard lock(mutex_);
    std::swap(state, state_);
    retained = retained_;
  }
  json launches = json::array();
  for (const auto& [key, group] : state.groups) {
    const auto& [name, module, origin, grid, block, graph] = key;
    launches.push_back({{"kernel", demangled(name)},
                        {"module", clean(module)},
                        {"origin", origin_name(origin)},
                        {"grid", grid},
                        {"block", block},
                        {"count", group.count},
                        {"ns", group.nanoseconds},
                        {"graph", graph},
                        {"streams", group.streams.size()}});
  }
  return {{"launches", std::move(launches)},
          {"copies",
           {{"h2d_bytes", state.h2d_bytes},
            {"d2h_bytes", state.d2h_bytes},
            {"d2d_bytes", state.d2d_bytes},
            {"memset_bytes", state.memset_bytes},
            {"h2d_after_d2h_bytes", after_read_back(state)}}},
          {"refused_ops", state.refused},
          {"unsupported", state.unsupported},
          {"threads", state.threads},
          {"first_ns", state.first_ns},
          {"last_ns", state.last_ns},
          {"dropped", state.dropped},
          {"internal", state.internal},
          {"error", state.error},
          {"memory", {{"allocated_bytes", state.allocated}, {"retained_bytes", retained}}}};
}

FaultName device_fault(int code) {
  switch (code) {
    case 700:
      return {"out_of_bounds", "cudaErrorIllegalAddress"};
    case 702:
      return {"timeout", "cudaErrorLaunchTimeout"};
    case 710:
      return {"assert", "cudaErrorAssert"};
    case 714:
      return {"stack_overflow", "cudaErrorHardwareStackError"};
    case 715:
      return {"trap", "cudaErrorIllegalInstruction"};
    case 716:
      return {"misaligned", "cudaErrorMisalignedAddress"};
    case 717:
      return {"out_of_bounds", "cudaErrorInvalidAddressSpace"};
    case 718:
      return {"trap", "cudaErrorInvalidPc"};
    case 719:
      return {"trap", "cudaErrorLaunchFailure"};
    default:
      return {};
  }
}

std::string error_name(int code) {
  static constexpr std::pair<int, const char*> kNames[] = {{1, "cudaErrorInvalidValue"},
                                                           {2, "cudaErrorMemoryAllocation"},
                                                           {3, "cudaErrorInitializationError"},
                                                           {9, "cudaErrorInvalidConfiguration"},
                                                           {13, "cudaErrorInvalidSymbol"},
                                                           {52, "cudaErrorMissingConfiguration"},
                                                           {98, "cudaErrorInvalidDeviceFunction"},
                                                           {100, "cudaErrorNoDevice"},
                                                           {200, "cudaErrorInvalidKernelImage"},
                                                           {201, "cudaErrorDeviceUninitialized"},
                                                           {209, "cudaErrorNoKernelImageForDevice"},
                                                           {214, "cudaErrorECCUncorrectable"},
                                                           {218, "cudaErrorInvalidPtx"},
                                                           {222, "cudaErrorUnsupportedPtxVersion"},
                                                           {400, "cudaErrorInvalidResourceHandle"},
                                                           {500, "cudaErrorSymbolNotFound"},
                                                           {701, "cudaErrorLaunchOutOfResources"},
                                                           {703, "cudaErrorLaunchIncompatibleTexturing"},
                                                           {709, "cudaErrorContextIsDestroyed"},
                                                           {720, "cudaErrorCooperativeLaunchTooLarge"},
                                                           {800, "cudaErrorNotPermitted"},
                                                           {801, "cudaErrorNotSupported"},
                                                           {900, "cudaErrorStreamCaptureUnsupported"},
                                                           {901, "cudaErrorStreamCaptureInvalidated"},
                                                           {906, "cudaErrorStreamCaptureImplicit"},
                                                           {912, "cudaErrorInvalidClusterSize"},
                                                           {999, "cudaErrorUnknown"}};
  if (const FaultName fault = device_fault(code); *fault.kind) return fault.name;
  for (const auto& [number, name] : kNames)
    if (number == code) return name;
  return "error " + std::to_string(code);
}

}  // namespace musacoder::ledger
