#include "sandbox/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

namespace musacoder::sandbox {
namespace {

constexpr char kPrefix[] = "musacoder-";

// Mount point and this process's group of each hierarchy: "memory" → "/sys/fs/cgroup/memory/…", "" for v2.
std::map<std::string, std::string> own_groups() {
  std::map<std::string, std::string> mounts, groups;
  std::string line;
  for (std::ifstream in("/proc/self/mountinfo"); std::getline(in, line);) {
    std::size_t dash = line.find(" - cgroup");
    if (dash == std::string::npos) continue;
    std::vector<std::string> fields;
    std::size_t from = 0;
    for (std::size_t to; fields.size() < 5 && (to = line.find(' ', from)) != std::string::npos; from = to + 1)
      fields.push_back(line.substr(from, to - from));
    if (fields.size() < 5) continue;
    std::string tail = line.substr(dash + 3);
    if (tail.starts_with("cgroup2")) {
      mounts[""] = fields[4];
    } else {
      for (const char* controller : {"memory", "pids"})
        if (std::size_t at = tail.find(controller, tail.rfind(' ')); at != std::string::npos) mounts[controller] = fields[4];
    }
  }
  for (std::ifstream in("/proc/self/cgroup"); std::getline(in, line);) {
    std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string names = "," + line.substr(first + 1, second - first - 1) + ",", path = line.substr(second + 1);
    for (const auto& [controller, mount] : mounts) {
      bool match = controller.empty() ? names == ",," : names.find("," + controller + ",") != std::string::npos;
      if (!match) continue;
      std::string inside = mount + (path == "/" ? "" : path);
      // In a container the path may be the host's; then the mount point is the own group.
      groups[controller] = ::access(inside.c_str(), F_OK) == 0 ? inside : mount;
    }
  }
  return groups;
}

bool put(int folder, const char* file, const std::string& value) {
  base::Fd fd(::openat(folder, file, O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size());
}

void remove_stale(int parent) {
  int copy = ::openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = copy >= 0 ? ::fdopendir(copy) : nullptr;
  if (!dir) return;
  while (dirent* entry = ::readdir(dir)) {
    if (std::strncmp(entry->d_name, kPrefix, sizeof kPrefix - 1) != 0) continue;
    int pid = std::atoi(entry->d_name + sizeof kPrefix - 1);
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) ::unlinkat(parent, entry->d_name, AT_REMOVEDIR);
  }
  ::closedir(dir);
}

}  // namespace

Result<Cgroup> Cgroup::create(const Policy& policy) {
  Cgroup group;
  auto own = own_groups();
  std::string why = "no cgroup hierarchy is mounted";
  std::string name = fmt::format("{}{}", kPrefix, ::getpid());
  auto make = [&](const std::string& path, const char* oom_file, auto&& configure) {
    Part part;
    part.parent = base::Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!part.parent) return;
    remove_stale(part.parent.get());
    ::unlinkat(part.parent.get(), name.c_str(), AT_REMOVEDIR);
    if (::mkdirat(part.parent.get(), name.c_str(), 0755) != 0) {
      why = fmt::format("{} is not writable: {}", path, std::strerror(errno));
      return;
    }
    part.name = name;
    base::Fd folder(::openat(part.parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    bool useful = folder && configure(folder.get());
    part.procs = base::Fd(::openat(folder.get(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
    if (oom_file) part.oom = base::Fd(::openat(folder.get(), oom_file, O_RDONLY | O_CLOEXEC));
    if (useful && part.procs) {
      group.parts_.push_back(std::move(part));
    } else {
      why = fmt::format("{} offers no memory or pids controller", path);
      ::unlinkat(part.parent.get(), name.c_str(), AT_REMOVEDIR);
    }
  };
  std::string memory = std::to_string(policy.memory_bytes), pids = std::to_string(policy.processes);
  if (own.count("")) {
    make(own[""], "memory.events", [&](int folder) {
      group.memory_ = policy.memory_bytes && put(folder, "memory.max", memory);
      if (group.memory_) put(folder, "memory.swap.max", "0"), put(folder, "memory.oom.group", "1");
      group.pids_ = policy.processes > 0 && put(folder, "pids.max", pids);
      return group.memory_ || group.pids_;
    });
    group.v2_ = !group.parts_.empty();
  }
  if (group.parts_.empty()) {
    if (policy.memory_bytes && own.count("memory"))
      make(own["memory"], "memory.oom_control", [&](int folder) {
        put(folder, "memory.swappiness", "0");
        return group.memory_ = put(folder, "memory.limit_in_bytes", memory);
      });
    if (policy.processes > 0 && own.count("pids"))
      make(own["pids"], nullptr, [&](int folder) { return group.pids_ = put(folder, "pids.max", pids); });
  }
  if (group.parts_.empty()) return fail(Code::kUnsupported, "cgroups: {}", why);
  return group;
}

Status Cgroup::join_self() {
  for (auto& part : parts_)
    if (::write(part.procs.get(), "0", 1) != 1) return fail(Code::kInternal, "cannot join the cgroup: {}", std::strerror(errno));
  return ok();
}

std::vector<int> Cgroup::descriptors() const {
  std::vector<int> list;
  for (const auto& part : parts_)
    for (const base::Fd* fd : {&part.parent, &part.procs, &part.oom})
      if (*fd) list.push_back(fd->get());
  return list;
}

bool Cgroup::oom_killed() const {
  for (const auto& part : parts_) {
    if (!part.oom) continue;
    char text[1024] = {};
    if (::pread(part.oom.get(), text, sizeof text - 1, 0) <= 0) continue;
    const char* at = std::strstr(text, "oom_kill ");
    if (at && std::atol(at + 9) > 0) return true;
  }
  return false;
}

void Cgroup::remove() {
  for (auto& part : parts_) {
    // The last member's exit may still be on its way.
    for (int i = 0; i < 50 && ::unlinkat(part.parent.get(), part.name.c_str(), AT_REMOVEDIR) != 0 && errno == EBUSY; ++i)
      ::usleep(2000);
  }
  parts_.clear();
}

}  // namespace musacoder::sandbox
