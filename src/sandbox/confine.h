// The steps of enter() that a process applies to itself at the end, each usable alone. Internal to src/sandbox.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/policy.h"

namespace musacoder::sandbox {

Status apply_rlimits(const Policy& policy);
// Drops every capability, also for programs that are executed later.
Status drop_capabilities();
Status set_no_new_privs();
// Reading and executing below `readable`, everything below `writable`; also TCP and signals to outside where the kernel can.
// kUnsupported when the kernel has no Landlock.
Status apply_landlock(const std::vector<std::string>& readable, const std::vector<std::string>& writable, bool network);
// Refuses system calls that no compiler and no candidate needs; the list with reasons is in seccomp.cpp.
Status apply_seccomp(bool sockets);

}  // namespace musacoder::sandbox
