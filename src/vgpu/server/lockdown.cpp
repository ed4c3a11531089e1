#include "vgpu/server/lockdown.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace musacoder::vgpu {
namespace {

constexpr int kAllowed[] = {
    // the sockets
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_recvfrom, SYS_recvmsg, SYS_sendto, SYS_sendmsg, SYS_poll, SYS_ppoll,
    SYS_shutdown, SYS_close, SYS_fcntl, SYS_fstat, SYS_newfstatat,
    // memory
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk,
    // threads (clone is judged by its flags below; clone3 cannot be, and libc goes on with clone)
    SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_set_tid_address, SYS_gettid, SYS_getpid, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_membarrier, SYS_exit, SYS_exit_group,
    // time, signals, chance
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_restart_syscall,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_tgkill, SYS_getrandom, SYS_getrusage,
    SYS_sysinfo,
};

constexpr unsigned kThreadFlags = 0x00010000;  // CLONE_THREAD

}  // namespace

bool lock_down() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  const auto load = [](std::size_t at) { return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(at)); };
  const auto skip_unless = [](unsigned value, unsigned char n) { return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n); };
  const auto answer = [](unsigned action) { return sock_filter BPF_STMT(BPF_RET | BPF_K, action); };
  std::vector<sock_filter> program = {
      load(offsetof(seccomp_data, arch)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      answer(SECCOMP_RET_KILL_PROCESS),
      load(offsetof(seccomp_data, nr)),
      skip_unless(SYS_clone3, 1),
      answer(SECCOMP_RET_ERRNO | ENOSYS),
      // clone: threads only
      skip_unless(SYS_clone, 4),
      load(offsetof(seccomp_data, args[0])),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kThreadFlags, 0, 1),
      answer(SECCOMP_RET_ALLOW),
      answer(SECCOMP_RET_ERRNO | EPERM),
  };
  for (int call : kAllowed) {
    program.push_back(skip_unless(static_cast<unsigned>(call), 1));
    program.push_back(answer(SECCOMP_RET_ALLOW));
  }
  program.push_back(answer(SECCOMP_RET_ERRNO | EPERM));
  sock_fprog prog{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog) == 0;
#endif
}

}  // namespace musacoder::vgpu
