#include "sandbox/tree.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace fs = std::filesystem;

namespace musacoder::sandbox {
namespace {

const char* const kDevices[] = {"null", "zero", "full", "random", "urandom"};

bool is_inside(const std::string& path, const std::string& folder) {
  return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

// For the new mount_setattr call, which Debian 12's headers know only as a number.
struct MountAttr {
  std::uint64_t set, clear, propagation, userns_fd;
};

Status restrict_mount(const std::string& path, bool writable) {
  MountAttr attr{(writable ? 0ull : 1ull /* RDONLY */) | 2 /* NOSUID */ | 4 /* NODEV */, 0, 0, 0};
  if (::syscall(442 /* mount_setattr */, AT_FDCWD, path.c_str(), 0x8000 /* AT_RECURSIVE */, &attr, sizeof attr) == 0) return ok();
  // Older kernels: one mount at a time, keeping the flags that a user namespace may not clear.
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return fail(Code::kInternal, "sandbox: {}: {}", path, std::strerror(errno));
  unsigned long flags = MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | (writable ? 0 : MS_RDONLY);
  if (info.f_flag & ST_NOEXEC) flags |= MS_NOEXEC;
  if (info.f_flag & ST_NOATIME) flags |= MS_NOATIME;
  if (info.f_flag & ST_NODIRATIME) flags |= MS_NODIRATIME;
  if (info.f_flag & ST_RELATIME) flags |= MS_RELATIME;
  if (::mount(nullptr, path.c_str(), nullptr, flags, nullptr) != 0)
    return fail(Code::kInternal, "sandbox: cannot make {} read-only: {}", path, std::strerror(errno));
  return ok();
}

Status show(const std::string& from, const std::string& to, bool folder, bool writable) {
  std::error_code error;
  fs::create_directories(folder ? fs::path(to) : fs::path(to).parent_path(), error);
  if (!folder && ::access(to.c_str(), F_OK) != 0) {
    int fd = ::open(to.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0) ::close(fd);
  }
  if (::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0)
    return fail(Code::kInternal, "sandbox: cannot show {}: {}", from, std::strerror(errno));
  return restrict_mount(to, writable);
}

}  // namespace

Result<TreePlan> plan_tree(const Policy& policy) {
  TreePlan plan;
  plan.tmp_bytes = policy.tmp_bytes;
  for (const auto& path : policy.devices) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) continue;
    if (!S_ISCHR(info.st_mode) || !path.starts_with("/dev/") || path.find("..") != std::string::npos)
      return fail(Code::kInvalidArgument, "sandbox: {} is no character device below /dev", path);
    plan.devices.push_back(path);
  }
  auto add = [&](const std::string& path, bool writable) -> Status {
    char real[PATH_MAX];
    struct stat info {};
    if (!::realpath(path.c_str(), real) || ::stat(real, &info) != 0) {
      if (writable) return fail(Code::kNotFound, "sandbox: the writable folder {} does not exist", path);
      return ok();
    }
    if (std::strcmp(real, "/") == 0) return fail(Code::kInvalidArgument, "sandbox: '/' cannot be given; name folders");
    std::string lexical = fs::path(path).lexically_normal();
    while (lexical.size() > 1 && lexical.back() == '/') lexical.pop_back();
    if (lexical != real) plan.links.emplace_back(lexical, real);
    plan.binds.push_back({real, writable, S_ISDIR(info.st_mode)});
    return ok();
  };
  if (policy.system)
    for (const auto& path : system_paths()) MC_RETURN_IF_ERROR(add(path, false));
  for (const auto& path : policy.readable) MC_RETURN_IF_ERROR(add(path, false));
  for (const auto& path : policy.writable) MC_RETURN_IF_ERROR(add(path, true));
  // Parents first; of the same path the writable one stays; read-only ones inside a shown folder are there already.
  std::sort(plan.binds.begin(), plan.binds.end(), [](const auto& a, const auto& b) {
    return a.path != b.path ? a.path < b.path : a.writable > b.writable;
  });
  std::vector<TreePlan::Bind> kept;
  for (const auto& item : plan.binds) {
    const TreePlan::Bind* nearest = nullptr;
    for (const auto& other : kept)
      if (is_inside(item.path, other.path) && (!nearest || other.path.size() > nearest->path.size())) nearest = &other;
    if (nearest && (nearest->writable == item.writable || nearest->path == item.path)) continue;
    kept.push_back(item);
  }
  plan.binds = std::move(kept);
  return plan;
}

Status build_tree(const TreePlan& plan) {
  auto step = [](bool worked, const char* what) -> Status {
    if (worked) return ok();
    return fail(Code::kInternal, "sandbox: {}: {}", what, std::strerror(errno));
  };
  MC_RETURN_IF_ERROR(step(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "private mounts"));
  MC_RETURN_IF_ERROR(step(::mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=0755") == 0, "tmpfs for the root"));
  MC_RETURN_IF_ERROR(step(::mkdir("/tmp/newroot", 0755) == 0 && ::mkdir("/tmp/oldroot", 0755) == 0, "root folders"));
  MC_RETURN_IF_ERROR(step(::syscall(SYS_pivot_root, "/tmp", "/tmp/oldroot") == 0, "pivot_root"));
  MC_RETURN_IF_ERROR(step(::chdir("/") == 0, "chdir"));
  MC_RETURN_IF_ERROR(step(::mount("tmpfs", "/newroot", "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=0755") == 0, "new root"));

  for (const char* name : {"proc", "sys", "dev", "tmp", "dev/shm", "dev/pts"}) ::mkdir(fmt::format("/newroot/{}", name).c_str(), 0755);
  std::vector<std::string> devices = plan.devices;
  for (const char* name : kDevices) devices.push_back(fmt::format("/dev/{}", name));
  for (const auto& path : devices) {
    const std::string from = "/oldroot" + path, to = "/newroot" + path;
    std::error_code ignored;
    fs::create_directories(fs::path(to).parent_path(), ignored);
    int fd = ::open(to.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0) ::close(fd);
    MC_RETURN_IF_ERROR(step(::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) == 0, "device files"));
  }
  const std::pair<const char*, const char*> kLinks[] = {
      {"/proc/self/fd", "/newroot/dev/fd"}, {"/proc/self/fd/0", "/newroot/dev/stdin"},
      {"/proc/self/fd/1", "/newroot/dev/stdout"}, {"/proc/self/fd/2", "/newroot/dev/stderr"}};
  for (auto [target, link] : kLinks) [[maybe_unused]] int r = ::symlink(target, link);

  // One file system for /tmp and /dev/shm, so that one size bounds both.
  ::mkdir("/scratch", 0755);
  std::string options = fmt::format("size={},mode=0755,nr_inodes=200000", std::max<std::uint64_t>(plan.tmp_bytes, 1 << 20));
  MC_RETURN_IF_ERROR(step(::mount("tmpfs", "/scratch", "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0, "private /tmp"));
  for (const char* name : {"/scratch/tmp", "/scratch/shm"}) {
    ::mkdir(name, 0777);
    ::chmod(name, 01777);
  }
  MC_RETURN_IF_ERROR(step(::mount("/scratch/tmp", "/newroot/tmp", nullptr, MS_BIND, nullptr) == 0, "private /tmp"));
  MC_RETURN_IF_ERROR(step(::mount("/scratch/shm", "/newroot/dev/shm", nullptr, MS_BIND, nullptr) == 0, "private /dev/shm"));

  for (const auto& item : plan.binds) MC_RETURN_IF_ERROR(show("/oldroot" + item.path, "/newroot" + item.path, item.folder, item.writable));
  for (const auto& [path, target] : plan.links) {
    std::string place = "/newroot" + path;
    struct stat info {};
    if (::lstat(place.c_str(), &info) == 0) continue;
    std::error_code ignored;
    fs::create_directories(fs::path(place).parent_path(), ignored);
    [[maybe_unused]] int r = ::symlink(target.c_str(), place.c_str());
  }
  return ok();
}

Status finish_tree() {
  if (::chdir("/newroot") != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0)
    return fail(Code::kInternal, "sandbox: second pivot_root: {}", std::strerror(errno));
  if (::umount2(".", MNT_DETACH) != 0) return fail(Code::kInternal, "sandbox: cannot leave the old root: {}", std::strerror(errno));
  if (::chdir("/") != 0) return fail(Code::kInternal, "sandbox: chdir: {}", std::strerror(errno));
  if (::mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) != 0)
    return fail(Code::kInternal, "sandbox: cannot make the root read-only: {}", std::strerror(errno));
  return ok();
}

}  // namespace musacoder::sandbox
