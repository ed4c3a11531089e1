// The private view of the file system: a small tmpfs root into which only what the policy names is bound.
// Internal to src/sandbox. Order: plan() before any namespace, build() in the new mount namespace, then mount /proc at
// "/newroot/proc" from inside the new pid namespace, then finish().
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sandbox/policy.h"

namespace musacoder::sandbox {

struct TreePlan {
  struct Bind {
    std::string path;   // no symlinks left; the same place inside
    bool writable = false;
    bool folder = false;
  };
  std::vector<Bind> binds;                                       // parents before children
  std::vector<std::pair<std::string, std::string>> links;        // path as the policy spells it → its real path
  std::vector<std::string> devices;
  std::uint64_t tmp_bytes = 0;
};

Result<TreePlan> plan_tree(const Policy& policy);
Status build_tree(const TreePlan& plan);
Status finish_tree();

}  // namespace musacoder::sandbox
