// What a sandboxed process may do. The same policy serves the launcher program (compilers) and a process that locks
// itself in (the candidate runner, forked from a zygote).
//
//   Policy policy;
//   policy.readable = {"/opt/toolkit"};        // besides the system's own /usr, /lib, /bin, parts of /etc
//   policy.writable = {"/dev/shm/build-1"};
//   policy.memory_bytes = 8ull << 30;
//   std::string json = to_json(policy);
//
// JSON: an object with the member names below as keys; unknown keys are errors, missing ones keep their defaults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::sandbox {

struct Policy {
  std::vector<std::string> readable;       // absolute files and folders, read-only; missing ones are left out
  std::vector<std::string> writable;       // absolute folders, read-write; missing ones are errors
  std::vector<std::string> devices;        // device nodes below /dev that may be opened and asked by ioctl; missing ones are left out
  bool system = true;                      // add system_paths() to the readable ones
  std::string cwd;                         // "" : the first writable folder, else /tmp
  std::uint64_t tmp_bytes = 256ull << 20;  // private /tmp and /dev/shm together
  std::uint64_t writable_bytes = 0;        // all writable folders together, checked every 50 ms; 0: no limit
  std::uint64_t memory_bytes = 0;          // new memory of the process (and of the group where cgroups allow); 0: no limit
  bool bound_addresses = true;             // memory_bytes bounds address space too; false for GPU runtimes, which reserve far more than they use
  double cpu_s = 0;                        // CPU seconds of one process; 0: no limit
  double wall_s = 0;                       // then everything is killed; 0: no limit
  bool with_parent = false;                // everything is killed, too, when the process that made the sandbox has ended
  int processes = 256;                     // processes and threads
  std::uint64_t file_bytes = 0;            // size of one file; 0: no limit
  int open_files = 1024;
  bool network = false;                    // true keeps the network reachable
  bool inet_sockets = false;               // internet sockets may be made though nothing is reachable; only in a network namespace of its own
  // Programs that are started inside may use the devices too: NVIDIA's driver library names its threads below /proc/PID, and fails
  // where it cannot. Only with a /proc of its own, of which all that is not a process's becomes read-only.
  bool child_devices = false;
  bool namespaces = true;                  // false: only rlimits, Landlock and seccomp
  bool cgroups = true;                     // try cgroup v2, then v1
  int result_fd = -1;                      // where the supervisor writes its one-line JSON result (see launcher.h)
};

Result<Policy> policy_from_json(const std::string& json);
std::string to_json(const Policy& policy);

// /usr, /bin, /sbin, /lib*, the loader's and name-service files of /etc.
std::vector<std::string> system_paths();

}  // namespace musacoder::sandbox
