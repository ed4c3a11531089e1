// One control group for one sandbox: memory and process count of the whole tree. Internal to src/sandbox.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "sandbox/policy.h"

namespace musacoder::sandbox {

class Cgroup {
 public:
  // Tries v2, then v1 with whichever of memory and pids is writable. Removes groups left by supervisors that are gone.
  // kUnsupported says why neither works.
  static Result<Cgroup> create(const Policy& policy);
  Status join_self();              // moves the calling process in
  bool oom_killed() const;         // the kernel's out-of-memory killer struck inside
  void remove();                   // when empty
  std::vector<int> descriptors() const;
  bool has_memory() const { return memory_; }
  bool has_pids() const { return pids_; }
  bool is_v2() const { return v2_; }

 private:
  struct Part {
    base::Fd parent, procs, oom;
    std::string name;
  };
  // Descriptors, not paths: they work from inside the sandbox's own mount namespace.
  std::vector<Part> parts_;
  bool v2_ = false, memory_ = false, pids_ = false;
};

}  // namespace musacoder::sandbox
