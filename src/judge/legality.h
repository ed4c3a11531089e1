// Level L3: did the candidate's own kernels compute the result, in the call, from the inputs?
//
// Decided from the device ledger of each window, not from the source text. On a device whose torch operators are refused
// by construction the ledger is complete: whatever wrote the outputs was a kernel of the candidate, a copy, or a fill. On
// hardware the ledger tells whose kernel each is, and torch's may make, copy, cast and fill.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"

namespace musacoder::judge {

// What is known about one call of forward.
struct CallFacts {
  device::WindowReport report;
  // What the device did beside the call: since its inputs began to be written, and until its outputs were read. The
  // candidate's own process has nothing to do then.
  device::WindowReport before, after;
  std::vector<std::string> refused_ops;   // from the candidate's own process: evidence that can only harm it
  std::vector<std::string> cpu_ops;
  std::vector<vgpu::AllocationInfo> output_allocations;
  std::uint64_t runner_copies = 0;        // on hardware: of outputs into their slots, by the runner; the ledger counts them apart
  bool reference_computes = true;         // false: the reference only views, copies or creates
};

struct Legality {
  bool legal = true;
  std::string status = "ok";              // or a cheating:* status
  std::string cause;                      // one sentence
};

// policy "strict": any torch operator beyond creation, copy, cast, fill and views is refused, and so is work done on the
// host and copied in. policy "report": operators are booked, host work too, and only vendor libraries, missing kernels and
// the like decide.
Legality decide_legality(const CallFacts& facts, const std::string& policy);

// "3 launches (relu_kernel ×3), 4096 bytes copied in"; empty when the device did nothing.
std::string device_work(const device::WindowReport& report);

// Adds one window's ledger to a running sum (grouping launches and vendor calls again).
void add_to_ledger(device::WindowReport& sum, const device::WindowReport& window);

// Verdict status of a device fault: "runtime_error:illegal_access", "unsupported:ptx:<instruction>", ...
std::string fault_status(const device::Fault& fault);

// "aten::mm ×2, aten::relu": at most `limit` names, counted, in first-seen order.
std::string count_names(const std::vector<std::string>& names, std::size_t limit = 6);

}  // namespace musacoder::judge
