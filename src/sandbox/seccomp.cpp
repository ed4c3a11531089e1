#include <linux/sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>

#include <cerrno>
#include <cstring>

#include "sandbox/confine.h"

namespace musacoder::sandbox {
namespace {

// Refused with EPERM, so that libraries that probe for them go on. By name: unknown to the library means unknown here.
const char* const kRefused[] = {
    // other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd",
    // file systems and roots
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount",
    "fspick", "mount_setattr", "open_by_handle_at", "name_to_handle_at", "fanotify_init", "quotactl",
    "quotactl_fd", "acct", "lookup_dcookie",
    // new namespaces: a fresh user namespace would give capabilities, and kernel surface, back
    "unshare", "setns",
    // identities: the supervisor's user id must stay out of reach
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups",
    // kernel surface with a history of privilege escalation
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "keyctl", "add_key",
    "request_key", "modify_ldt", "vmsplice", "memfd_secret",
    // the machine
    "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime", "sethostname", "setdomainname", "syslog",
    "vhangup", "iopl", "ioperm", "uselib", "ustat", "sysfs", "_sysctl", "nfsservctl", "personality",
};

// No accident calls these: the process ends.
const char* const kFatal[] = {"kexec_load", "kexec_file_load", "reboot", "init_module", "finit_module", "delete_module",
                              "create_module", "swapon", "swapoff"};

constexpr std::uint64_t kNamespaceFlags =
    CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP;

}  // namespace

Status apply_seccomp(bool sockets) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (!filter) return fail(Code::kUnsupported, "seccomp: no filter");
  struct Release {
    scmp_filter_ctx f;
    ~Release() { seccomp_release(f); }
  } release{filter};
  seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  int bad = 0;
  auto add = [&](std::uint32_t action, const char* name) {
    int number = seccomp_syscall_resolve_name(name);
    // Negative numbers are calls of other architectures.
    if (number >= 0 && seccomp_rule_add(filter, action, number, 0) != 0) ++bad;
  };
  for (const char* name : kRefused) add(SCMP_ACT_ERRNO(EPERM), name);
  for (const char* name : kFatal) add(SCMP_ACT_KILL_PROCESS, name);
  // glibc falls back to clone, whose flags a filter can see.
  bad += seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) != 0;
  for (std::uint64_t flag = 1; flag && flag <= kNamespaceFlags; flag <<= 1)
    if (kNamespaceFlags & flag)
      bad += seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)) != 0;
  // Typing into the terminal of whoever started us.
  for (unsigned long request : {static_cast<unsigned long>(TIOCSTI), static_cast<unsigned long>(TIOCLINUX)})
    bad += seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                            SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, request)) != 0;
  // Device nodes. Named pipes are left: compute-sanitizer's launcher speaks to its children through them.
  for (std::uint64_t kind : {std::uint64_t{S_IFCHR}, std::uint64_t{S_IFBLK}}) {
    bad += seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mknod), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, S_IFMT, kind)) != 0;
    bad += seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mknodat), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, kind)) != 0;
  }
  // A file that becomes executable with another's rights.
  for (std::uint64_t bit : {std::uint64_t{S_ISUID}, std::uint64_t{S_ISGID}}) {
    bad += seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(chmod), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, bit, bit)) != 0;
    bad += seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fchmod), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, bit, bit)) != 0;
    bad += seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fchmodat), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, bit, bit)) != 0;
  }
  if (!sockets)
    bad += seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX)) != 0;
  if (bad) return fail(Code::kInternal, "seccomp: {} rules could not be made", bad);
  if (int error = seccomp_load(filter); error != 0)
    return fail(Code::kUnsupported, "seccomp: {}", std::strerror(-error));
  return ok();
}

}  // namespace musacoder::sandbox
