// Which of torch's operators a candidate may call on the device, and the memory of those that it should not have called.
//
//   set_policy(Policy::kStrict);
//   { Enforcement forward; module(x); }      // aten::mm throws and is remembered
//   take_refused();                          // {"aten::mm"}
//
// Three phases of a candidate's process: while it is built up, any operator runs (on the CPU where the device has none);
// inside forward the policy is in force; this library's own work is never judged. The table of what is allowed is
// allowed_operators(). Thread safe, except that enforcement is meant for one forward at a time.
//
// On a real GPU operators are not stopped: they are booked as they begin, and the verdict says the rest.
//
// Once sealed, the process can no longer weaken any of this: the policy stays, enforcement can only be switched on, and
// whether an operator is judged is asked of the server, which knows whether a window is open, whatever Python says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace musacoder::device {

enum class Policy { kStrict, kReport };
void set_policy(Policy policy);   // throws when sealed, unless it is the policy in force
Policy policy();
void seal();                      // before the first line of a candidate; for the life of the process

// Inside forward. Once sealed, "off" does nothing.
void enforce(bool on);
bool enforcing();

enum class Use { kCreation, kCopy, kView, kMetadata, kCheck };
struct AllowedOperator {
  std::string_view name;  // without "aten::"
  Use use;
  bool published;         // in the published list of 42 names or among the seven that torch 2.11 adds to it
  std::string_view reason;
};
const std::vector<AllowedOperator>& allowed_operators();
// name as the dispatcher has it: "aten::mm". In-place, out= and overloads share their operator's entry.
bool is_allowed(std::string_view name);

// Books a call that is not allowed: throws under kStrict, returns under kReport. Nothing outside forward.
#ifndef MUSACODER_HARDWARE
void judge(const std::string& name);
#endif
std::vector<std::string> take_refused();

// Compute operators run on CPU tensors of more than one element, by name, first seen first. On a real GPU this is also what
// watches the device's operators, and once sealed it cannot be switched off.
void record_cpu_ops(bool on);
std::vector<std::string> take_cpu_ops();

// While one lives, operators of this thread belong to this library: neither judged nor recorded.
class Internal {
 public:
  Internal();
  ~Internal();
  Internal(const Internal&) = delete;
  static bool active();
};

// What is being called, for labels of allocations: "made by relu". Null outside bound functions.
const char*& current_function();

}  // namespace musacoder::device
