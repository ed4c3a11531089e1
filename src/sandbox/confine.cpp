#include "sandbox/confine.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/files.h"

namespace musacoder::sandbox {
namespace {

// Virtual size and private writable size of this process now, in bytes.
void current_size(std::uint64_t& total, std::uint64_t& data) {
  total = data = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    unsigned long long size = 0, resident = 0, shared = 0, text = 0, library = 0, private_data = 0;
    if (std::fscanf(file, "%llu %llu %llu %llu %llu %llu", &size, &resident, &shared, &text, &library, &private_data) == 6) {
      std::uint64_t page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
      total = size * page;
      data = private_data * page;
    }
    std::fclose(file);
  }
}

Status limit(__rlimit_resource what, const char* name, std::uint64_t soft, std::uint64_t hard) {
  rlimit old{};
  ::getrlimit(what, &old);
  rlimit value{std::min<rlim_t>(soft, old.rlim_max), std::min<rlim_t>(hard, old.rlim_max)};
  if (::setrlimit(what, &value) != 0) return fail(Code::kInternal, "cannot set {}: {}", name, std::strerror(errno));
  return ok();
}

}  // namespace

Status apply_rlimits(const Policy& policy) {
  MC_RETURN_IF_ERROR(limit(RLIMIT_CORE, "RLIMIT_CORE", 0, 0));
  if (policy.memory_bytes && policy.bound_addresses) {
    std::uint64_t total = 0, data = 0;
    current_size(total, data);
    MC_RETURN_IF_ERROR(limit(RLIMIT_AS, "RLIMIT_AS", total + policy.memory_bytes, total + policy.memory_bytes));
    MC_RETURN_IF_ERROR(limit(RLIMIT_DATA, "RLIMIT_DATA", data + policy.memory_bytes, data + policy.memory_bytes));
  }
  if (policy.cpu_s > 0) {
    auto seconds = static_cast<std::uint64_t>(std::ceil(policy.cpu_s));
    MC_RETURN_IF_ERROR(limit(RLIMIT_CPU, "RLIMIT_CPU", seconds, seconds + 1));
  }
  if (policy.file_bytes) MC_RETURN_IF_ERROR(limit(RLIMIT_FSIZE, "RLIMIT_FSIZE", policy.file_bytes, policy.file_bytes));
  if (policy.open_files > 0) {
    auto files = static_cast<std::uint64_t>(policy.open_files);
    MC_RETURN_IF_ERROR(limit(RLIMIT_NOFILE, "RLIMIT_NOFILE", files, files));
  }
  if (policy.processes > 0) {
    auto processes = static_cast<std::uint64_t>(policy.processes);
    MC_RETURN_IF_ERROR(limit(RLIMIT_NPROC, "RLIMIT_NPROC", processes, processes));
  }
  MC_RETURN_IF_ERROR(limit(RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", 64u << 20, 64u << 20));
  MC_RETURN_IF_ERROR(limit(RLIMIT_MSGQUEUE, "RLIMIT_MSGQUEUE", 0, 0));
  return ok();
}

Status set_no_new_privs() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return fail(Code::kUnsupported, "no_new_privs: {}", std::strerror(errno));
  return ok();
}

Status drop_capabilities() {
  for (int capability = 0; capability < 64; ++capability)
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno == EINVAL) break;
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  struct {
    std::uint32_t version;
    int pid;
  } header{0x20080522, 0};
  std::uint32_t none[6] = {};
  if (::syscall(SYS_capset, &header, none) != 0)
    return fail(Code::kInternal, "cannot drop capabilities: {}", std::strerror(errno));
  return ok();
}

// Landlock's numbers are part of the kernel's stable interface; Debian 12's headers stop at version 2.
namespace landlock {
struct RulesetAttr {
  std::uint64_t handled_fs, handled_net, scoped;
};
struct __attribute__((packed)) PathAttr {
  std::uint64_t allowed;
  std::int32_t parent_fd;
};
constexpr int kCreate = 444, kAddRule = 445, kRestrict = 446;
constexpr std::uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3;
constexpr std::uint64_t kRefer = 1 << 13, kTruncate = 1 << 14, kIoctlDev = 1 << 15;
constexpr std::uint64_t kAllV1 = (1 << 13) - 1;
constexpr std::uint64_t kNetBindTcp = 1 << 0, kNetConnectTcp = 1 << 1;
constexpr std::uint64_t kScopeAbstractUnix = 1 << 0, kScopeSignal = 1 << 1;
}  // namespace landlock

Status apply_landlock(const std::vector<std::string>& readable, const std::vector<std::string>& writable, bool network) {
  using namespace landlock;
  long abi = ::syscall(kCreate, nullptr, 0, 1 /* version */);
  if (abi < 1) return fail(Code::kUnsupported, "the kernel has no Landlock ({})", std::strerror(errno));
  RulesetAttr attr{};
  attr.handled_fs = kAllV1 | (abi >= 2 ? kRefer : 0) | (abi >= 3 ? kTruncate : 0) | (abi >= 5 ? kIoctlDev : 0);
  if (abi >= 4 && !network) attr.handled_net = kNetBindTcp | kNetConnectTcp;
  if (abi >= 6) attr.scoped = kScopeAbstractUnix | kScopeSignal;
  std::size_t size = abi >= 6 ? sizeof attr : abi >= 4 ? 2 * sizeof(std::uint64_t) : sizeof(std::uint64_t);
  base::Fd ruleset(static_cast<int>(::syscall(kCreate, &attr, size, 0)));
  if (!ruleset) return fail(Code::kUnsupported, "Landlock ruleset: {}", std::strerror(errno));
  auto allow = [&](const std::string& path, std::uint64_t access) -> Status {
    base::Fd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!fd) return ok();  // what does not exist needs no permission
    struct stat info {};
    if (::fstat(fd.get(), &info) == 0 && !S_ISDIR(info.st_mode)) access &= kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDev;
    PathAttr rule{access & attr.handled_fs, fd.get()};
    if (::syscall(kAddRule, ruleset.get(), 1 /* path beneath */, &rule, 0) != 0)
      return fail(Code::kInternal, "Landlock rule for {}: {}", path, std::strerror(errno));
    return ok();
  };
  for (const auto& path : readable) MC_RETURN_IF_ERROR(allow(path, kExecute | kReadFile | kReadDir));
  for (const auto& path : writable) MC_RETURN_IF_ERROR(allow(path, ~0ull));
  if (::syscall(kRestrict, ruleset.get(), 0) != 0)
    return fail(Code::kUnsupported, "Landlock: {}", std::strerror(errno));
  return ok();
}

}  // namespace musacoder::sandbox
