#include "judge/legality.h"

#include <algorithm>

namespace musacoder::judge {
namespace {

bool writes_output(const CallFacts& facts) {
  return std::any_of(facts.output_allocations.begin(), facts.output_allocations.end(),
                     [](const auto& allocation) { return allocation.kernel_written_bytes > 0; });
}

// On hardware, where torch's operators run as they always do: kernels of torch that only make, copy, cast or fill.
bool moves_only(const std::string& kernel) {
  static const char* const kParts[] = {"FillFunctor", "copy_kernel", "CopyFunctor", "direct_copy", "arange", "range_cuda", "distribution_",
                                       "linspace", "logspace", "eye", "randperm", "tril_indices", "triu_indices"};
  return std::any_of(std::begin(kParts), std::end(kParts), [&](const char* part) { return kernel.find(part) != std::string::npos; });
}

bool is_own(const vgpu::LaunchRecord& launch) { return launch.origin.empty() || launch.origin == "own" || launch.origin == "jit"; }

Legality refuse(std::string status, std::string cause) { return {false, std::move(status), std::move(cause)}; }

}  // namespace

std::string count_names(const std::vector<std::string>& names, std::size_t limit) {
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (const auto& name : names) {
    auto it = std::find_if(counts.begin(), counts.end(), [&](const auto& entry) { return entry.first == name; });
    if (it == counts.end())
      counts.emplace_back(name, 1);
    else
      ++it->second;
  }
  std::string text;
  for (std::size_t i = 0; i < counts.size() && i < limit; ++i) {
    if (i) text += ", ";
    text += counts[i].first;
    if (counts[i].second > 1) text += fmt::format(" ×{}", counts[i].second);
  }
  if (counts.size() > limit) text += fmt::format(" and {} more", counts.size() - limit);
  return text;
}

std::string device_work(const device::WindowReport& report) {
  std::vector<std::string> kernels, parts;
  std::uint64_t launches = 0;
  for (const auto& launch : report.launches) {
    launches += launch.count;
    kernels.insert(kernels.end(), std::min<std::uint64_t>(launch.count, 1000), launch.kernel);
  }
  if (launches) parts.push_back(fmt::format("{} launch{} ({})", launches, launches == 1 ? "" : "es", count_names(kernels)));
  const std::pair<std::uint64_t, const char*> copies[] = {{report.h2d_bytes + report.creation_bytes, "copied in"},
                                                          {report.d2h_bytes, "read back"},
                                                          {report.d2d_bytes, "copied on the device"},
                                                          {report.memset_bytes, "filled"}};
  for (const auto& [bytes, what] : copies)
    if (bytes) parts.push_back(fmt::format("{} bytes {}", bytes, what));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Legality decide_legality(const CallFacts& facts, const std::string& policy) {
  const bool strict = policy == "strict";
  const auto& report = facts.report;
  if (const std::string work = device_work(facts.before); !work.empty())
    return refuse("cheating:outside_window", "the device worked for the candidate before the call, when its inputs were there: " + work);
  if (const std::string work = device_work(facts.after); !work.empty())
    return refuse("cheating:outside_window", "the device worked for the candidate after the call had returned: " + work);
  const std::vector<std::string> refused = report.refused_ops.empty() ? facts.refused_ops : report.refused_ops;
  // Under "report" torch's own operators may run, and on hardware they call these libraries.
  std::vector<std::string> names;
  for (const auto& call : report.vendor_calls)
    if (strict || refused.empty() || !call.by_torch) names.insert(names.end(), call.count ? call.count : 1, call.function);
  if (!names.empty()) {
    return refuse("cheating:vendor_library",
                  fmt::format("the result comes from a vendor library: {}", count_names(names)));
  }
  if (strict && !refused.empty())
    return refuse("cheating:disallowed_aten",
                  fmt::format("forward calls torch operators instead of own kernels: {}", count_names(refused)));
  if (strict && report.h2d_after_d2h_bytes > 0)
    return refuse("cheating:disallowed_aten",
                  fmt::format("forward reads {} bytes back to the host and copies {} bytes in again{}: work on the CPU",
                              report.d2h_bytes, report.h2d_after_d2h_bytes,
                              facts.cpu_ops.empty() ? "" : " after " + count_names(facts.cpu_ops)));
  if (report.internal > facts.runner_copies)
    return refuse("cheating:tampering", fmt::format("{} launches and copies pass for the runner's own, which makes {}", report.internal, facts.runner_copies));
  if (report.dropped > 0) return refuse("infra:ledger", fmt::format("the ledger lost {} records", report.dropped));
  if (strict)
    for (const auto& launch : report.launches)
      if (launch.origin == "framework" && !moves_only(launch.kernel))
        return refuse("cheating:disallowed_aten", "forward runs a kernel of torch instead of its own: " + launch.kernel.substr(0, 200));
  if (!facts.reference_computes) return {};
  if (std::none_of(report.launches.begin(), report.launches.end(), is_own)) {
    if (!report.launches.empty() && refused.empty())
      return refuse("cheating:no_kernel", "no kernel of the candidate ran inside forward; others did: " + device_work(report).substr(0, 300));
    if (!refused.empty())
      return refuse("cheating:no_kernel",
                    fmt::format("no kernel of the candidate ran; torch did the work: {}", count_names(refused)));
    return refuse("cheating:no_kernel", "no kernel of the candidate ran inside forward");
  }
  if (!facts.output_allocations.empty() && !writes_output(facts))
    return refuse("cheating:no_kernel", "the kernels that ran did not write the output");
  return {};
}

void add_to_ledger(device::WindowReport& sum, const device::WindowReport& window) {
  for (const auto& launch : window.launches) {
    auto same = std::find_if(sum.launches.begin(), sum.launches.end(), [&](const auto& other) {
      return other.kernel == launch.kernel && other.module == launch.module && other.origin == launch.origin &&
             other.graph == launch.graph && other.grid.x == launch.grid.x &&
             other.grid.y == launch.grid.y && other.grid.z == launch.grid.z && other.block.x == launch.block.x &&
             other.block.y == launch.block.y && other.block.z == launch.block.z;
    });
    if (same == sum.launches.end()) {
      sum.launches.push_back(launch);
      continue;
    }
    same->count += launch.count;
    same->warp_instructions += launch.warp_instructions;
    same->nanoseconds += launch.nanoseconds;
    auto& a = same->counters;
    const auto& b = launch.counters;
    a.warp_instructions += b.warp_instructions;
    a.thread_instructions += b.thread_instructions;
    a.flops += b.flops;
    a.global_load_bytes += b.global_load_bytes;
    a.global_store_bytes += b.global_store_bytes;
    a.shared_accesses += b.shared_accesses;
    a.atomics += b.atomics;
    a.barriers += b.barriers;
    a.divergent_branches += b.divergent_branches;
  }
  for (const auto& call : window.vendor_calls) {
    auto same = std::find_if(sum.vendor_calls.begin(), sum.vendor_calls.end(), [&](const auto& other) {
      return other.library == call.library && other.function == call.function && other.by_torch == call.by_torch;
    });
    if (same == sum.vendor_calls.end())
      sum.vendor_calls.push_back(call);
    else
      same->count += call.count;
  }
  for (const auto& name : window.refused_ops)
    if (sum.refused_ops.size() < 64) sum.refused_ops.push_back(name);
  sum.h2d_bytes += window.h2d_bytes;
  sum.d2h_bytes += window.d2h_bytes;
  sum.d2d_bytes += window.d2d_bytes;
  sum.memset_bytes += window.memset_bytes;
  sum.h2d_after_d2h_bytes += window.h2d_after_d2h_bytes;
  sum.creation_bytes += window.creation_bytes;
  sum.launch_seconds += window.launch_seconds;
  sum.threads = std::max(sum.threads, window.threads);
  sum.dropped += window.dropped;
  sum.internal += window.internal;
  sum.allocated_bytes += window.allocated_bytes;
  sum.retained_bytes = window.retained_bytes;
  for (const auto& feature : window.unsupported)
    if (std::find(sum.unsupported.begin(), sum.unsupported.end(), feature) == sum.unsupported.end())
      sum.unsupported.push_back(feature);
  if (sum.protocol_error.empty()) sum.protocol_error = window.protocol_error;
  if (!sum.fault) sum.fault = window.fault;
  if (sum.unread_launch_error.empty()) sum.unread_launch_error = window.unread_launch_error;
  if (sum.printf_output.size() < 16384)
    sum.printf_output += window.printf_output.substr(0, 16384 - sum.printf_output.size());
}

std::string fault_status(const device::Fault& fault) {
  using vgpu::FaultKind;
  switch (fault.kind) {
    case FaultKind::kNone: return "ok";
    case FaultKind::kOutOfBounds:
    case FaultKind::kUseAfterFree: return "runtime_error:illegal_access";
    case FaultKind::kMisaligned: return "runtime_error:misaligned";
    case FaultKind::kInvalidLaunch:
    case FaultKind::kTrap:
    case FaultKind::kStackOverflow: return "runtime_error:launch_failure";
    case FaultKind::kAssert: return "runtime_error:device_assert";
    case FaultKind::kBarrier: return "runtime_error:barrier";
    case FaultKind::kTimeout: return "runtime_error:timeout";
    case FaultKind::kUnsupported: return "unsupported:ptx:" + (fault.detail.empty() ? "unknown" : fault.detail);
  }
  return "infra:unknown_fault";
}

}  // namespace musacoder::judge
