// Locks the calling process into a policy.
//
//   Report report;
//   MC_RETURN_IF_ERROR(enter(policy, report));     // returns in the locked-in process
//   report.features                                // {"user_ns", "pid_ns", …}: what is in force
//
// How: with a pid namespace (or a wall limit, or a result descriptor) the caller becomes a *supervisor* and enter()
// returns in a forked child of it:
//
//   caller ── supervisor: waits, watches the limits, dies exactly as the child did; never returns from enter()
//      ├── init (pid 1 of the namespace): reaps orphans, watches memory and process count; its death ends everybody
//      └── child: enter() returns here; not pid 1, so that signals mean what they mean elsewhere
//
// So the pid that the caller's parent knows stays right, wait status and resource usage are mirrored, and killing that
// pid kills everything. The supervisor closes all its descriptors: a socket held by the child ends with the child.
//
// What a machine does not offer is skipped and listed in `skipped` with the reason; a writable folder that is missing and a
// failure half-way through the mounts are errors. Call from a single-threaded process. Not reversible.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sandbox/policy.h"

namespace musacoder::sandbox {

struct Report {
  // Of: user_ns pid_ns mount_ns net_ns ipc_ns uts_ns private_tmp proc cgroup_v2 cgroup_v1 cgroup_memory cgroup_pids
  // rlimits no_new_privs no_capabilities landlock seccomp
  std::vector<std::string> features;
  std::vector<std::pair<std::string, std::string>> skipped;  // feature, why
};

// `will_execute`: the caller executes a program next, and says so with report_failure_to_supervisor() if that fails. The
// supervisor starts to watch the limits when the program starts; without it, at once.
Status enter(const Policy& policy, Report& report, bool will_execute = false);
void report_failure_to_supervisor(const std::string& message);

// JSON {"features":[…],"skipped":{feature:why}}
std::string to_json(const Report& report);

// What this machine offers: tries everything in a child process and returns its report. For `doctor` and tests.
Result<Report> probe();

}  // namespace musacoder::sandbox
