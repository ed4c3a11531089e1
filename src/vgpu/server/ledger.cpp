#include "vgpu/server/ledger.h"

#include <algorithm>
#include <utility>

namespace musacoder::vgpu {
namespace {

constexpr std::size_t kMaxLaunchGroups = 16384;
constexpr std::size_t kMaxReports = 1024;        // of one kind
constexpr std::size_t kMaxPrintfBytes = 1 << 20;
constexpr std::uint64_t kFreeReadBackBytes = 16; // a scalar or two may be read back without suspicion

void add(Counters& sum, const Counters& c) {
  sum.warp_instructions += c.warp_instructions;
  sum.thread_instructions += c.thread_instructions;
  sum.flops += c.flops;
  sum.global_load_bytes += c.global_load_bytes;
  sum.global_store_bytes += c.global_store_bytes;
  sum.shared_accesses += c.shared_accesses;
  sum.atomics += c.atomics;
  sum.barriers += c.barriers;
  sum.divergent_branches += c.divergent_branches;
}

}  // namespace

void Ledger::clear() {
  report_ = {};
  launch_index_.clear();
}

WindowReport Ledger::begin(const WindowOptions& options) {
  WindowReport before = take_outside();
  clear();
  options_ = options;
  open_ = true;
  return before;
}

WindowReport Ledger::take_outside() {
  if (open_) return {};
  WindowReport out = std::move(report_);
  clear();
  return out;
}

WindowReport Ledger::end() {
  report_.unread_launch_error = std::exchange(unread_, {});
  report_.protocol_error = protocol_error_;
  WindowReport out = std::move(report_);
  clear();
  open_ = false;
  options_ = {};
  return out;
}

void Ledger::launch(const std::string& kernel, const std::string& module, const LaunchConfig& config,
                    const LaunchOutcome& outcome) {
  const std::array<std::uint32_t, 6> shape = {config.grid.x,  config.grid.y,  config.grid.z,
                                              config.block.x, config.block.y, config.block.z};
  LaunchKey key(kernel, module, shape);
  auto it = launch_index_.find(key);
  if (it == launch_index_.end()) {
    if (report_.launches.size() >= kMaxLaunchGroups) {  // the last group takes what is too much
      it = std::prev(launch_index_.end());
    } else {
      it = launch_index_.emplace(std::move(key), report_.launches.size()).first;
      report_.launches.push_back({.kernel = kernel, .module = module, .grid = config.grid, .block = config.block, .counters = {}});
    }
  }
  LaunchRecord& record = report_.launches[it->second];
  ++record.count;
  record.warp_instructions += outcome.counters.warp_instructions;
  add(record.counters, outcome.counters);
  report_.launch_seconds += outcome.seconds;
}

void Ledger::host_to_device(std::uint64_t bytes, bool creation) {
  (creation ? report_.creation_bytes : report_.h2d_bytes) += bytes;
  // "creation" is the client's claim; what comes after a read-back is host work whatever it is called.
  if (report_.d2h_bytes > kFreeReadBackBytes) report_.h2d_after_d2h_bytes += bytes;
}

void Ledger::fault(const Fault& fault) {
  if (!report_.fault) report_.fault = fault;
}

void Ledger::launch_error(std::string text) { unread_ = std::move(text); }

void Ledger::protocol_error(std::string text) {
  if (protocol_error_.empty()) protocol_error_ = std::move(text);
}

void Ledger::printf_output(std::string_view text) {
  const std::size_t room = kMaxPrintfBytes - std::min(kMaxPrintfBytes, report_.printf_output.size());
  report_.printf_output.append(text.substr(0, room));
}

bool Ledger::report(std::string_view kind, std::string_view text) {
  if (kind == "refused" || kind == "booked") {
    if (open_ && report_.refused_ops.size() < kMaxReports) report_.refused_ops.emplace_back(text);
    return true;
  }
  if (kind == "unsupported") {
    auto& list = report_.unsupported;
    if (list.size() < kMaxReports && std::find(list.begin(), list.end(), text) == list.end()) list.emplace_back(text);
    return true;
  }
  if (kind == "vendor") {
    const auto space = text.find(' ');
    const std::string_view library = text.substr(0, space);
    const std::string_view function = space == std::string_view::npos ? text : text.substr(space + 1);
    auto& calls = report_.vendor_calls;
    auto it = std::find_if(calls.begin(), calls.end(),
                           [&](const VendorCall& c) { return c.library == library && c.function == function; });
    if (it != calls.end())
      ++it->count;
    else if (calls.size() < kMaxReports)
      calls.push_back({std::string(library), std::string(function), 1});
    return true;
  }
  return false;
}

}  // namespace musacoder::vgpu
