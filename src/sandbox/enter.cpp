#include "sandbox/enter.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/files.h"
#include "sandbox/cgroup.h"
#include "sandbox/confine.h"
#include "sandbox/tree.h"

namespace musacoder::sandbox {
namespace {

using nlohmann::json;

constexpr int kPollMs = 50;
constexpr int kInitKilledForMemory = 201, kInitKilledForProcesses = 202;
constexpr int kMaxWritableEntries = 50000;

int supervisor_pipe = -1;

Status write_proc(const char* path, const std::string& text) {
  base::Fd fd(::open(path, O_WRONLY | O_CLOEXEC));
  if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail(Code::kInternal, "sandbox: cannot write {}: {}", path, std::strerror(errno));
  return ok();
}

// Which namespaces could be made; the reason for those that could not.
struct Namespaces {
  bool user = false, pid = false, mount = false, net = false, ipc = false, uts = false;
  bool protected_proc = false;  // a /proc of its own, of which all that is not a process's is read-only
};

Namespaces make_namespaces(const Policy& policy, Report& report) {
  Namespaces made;
  uid_t uid = ::geteuid();
  gid_t gid = ::getegid();
  int net = policy.network ? 0 : CLONE_NEWNET;
  int all = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | net;
  if (::unshare(CLONE_NEWUSER) == 0) {
    made.user = true;
    // Not 0 inside: an executed program would get all capabilities of the namespace back.
    (void)write_proc("/proc/self/setgroups", "deny");
    auto users = write_proc("/proc/self/uid_map", fmt::format("{} {} 1\n", uid ? uid : 1000, uid));
    auto groups = write_proc("/proc/self/gid_map", fmt::format("{} {} 1\n", gid ? gid : 1000, gid));
    if (!users || !groups) report.skipped.emplace_back("id_maps", users ? groups.error().message : users.error().message);
  } else {
    report.skipped.emplace_back("user_ns", std::strerror(errno));
  }
  if (::unshare(all) == 0) {
    made.pid = made.mount = made.ipc = made.uts = true;
    made.net = net != 0;
    return made;
  }
  // One at a time: some containers allow only a few.
  auto one = [&](int flag, const char* name, bool& flag_made) {
    if (!flag) return;
    flag_made = ::unshare(flag) == 0;
    if (!flag_made) report.skipped.emplace_back(name, std::strerror(errno));
  };
  one(CLONE_NEWNS, "mount_ns", made.mount);
  one(net, "net_ns", made.net);
  one(CLONE_NEWIPC, "ipc_ns", made.ipc);
  one(CLONE_NEWUTS, "uts_ns", made.uts);
  one(CLONE_NEWPID, "pid_ns", made.pid);
  return made;
}

void default_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int s = 1; s < 65; ++s)
    if (s != SIGKILL && s != SIGSTOP) ::sigaction(s, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Closes every descriptor but those in `keep` and points 0, 1, 2 to nothing.
void close_others(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned from = 3;
  for (int fd : keep) {
    if (fd < 3) continue;
    if (static_cast<unsigned>(fd) > from) ::syscall(SYS_close_range, from, static_cast<unsigned>(fd) - 1, 0);
    from = static_cast<unsigned>(fd) + 1;
  }
  ::syscall(SYS_close_range, from, ~0u, 0);
  int null = ::open("/dev/null", O_RDWR);
  for (int i = 0; i < 3; ++i) null >= 0 ? ::dup2(null, i) : ::close(i);
  if (null > 2) ::close(null);
}

std::uint64_t status_kib(int pid, const char* key) {
  char path[64], text[4096];
  std::snprintf(path, sizeof path, "/proc/%d/status", pid);
  int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* at = std::strstr(text, key);
  return at ? std::strtoull(at + std::strlen(key), nullptr, 10) : 0;
}

// Anonymous and shared memory of all processes of the namespace beyond what they started with, and how many tasks.
void namespace_usage(std::uint64_t base_kib, std::uint64_t& bytes, int& tasks) {
  bytes = 0;
  tasks = 0;
  DIR* dir = ::opendir("/proc");
  if (!dir) return;
  while (dirent* entry = ::readdir(dir)) {
    int pid = std::atoi(entry->d_name);
    if (pid <= 1) continue;
    std::uint64_t kib = status_kib(pid, "RssAnon:") + status_kib(pid, "RssShmem:");
    bytes += (kib > base_kib ? kib - base_kib : 0) * 1024;
    tasks += std::max<int>(1, static_cast<int>(status_kib(pid, "Threads:")));
  }
  ::closedir(dir);
}

// Whether the machine's settings below /newroot/proc, all but what belongs to a process, could be made read-only.
bool protect_proc() {
  DIR* dir = ::opendir("/newroot/proc");
  if (!dir) return false;
  bool done = true;
  while (dirent* entry = ::readdir(dir)) {
    if (entry->d_name[0] == '.' || std::isdigit(static_cast<unsigned char>(entry->d_name[0])) || entry->d_type == DT_LNK) continue;
    const std::string path = std::string("/newroot/proc/") + entry->d_name;
    done = ::mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
           ::mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0 && done;
  }
  ::closedir(dir);
  return done;
}

// Pid 1 of the namespace. Its end is the end of everybody in it.
[[noreturn]] void init_main(int ready_fd, bool mount_proc, bool watch_memory, bool watch_tasks, const Policy& policy) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "sandbox-init");
  char answer = 'n';
  if (mount_proc && ::mount("proc", "/newroot/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0)
    answer = policy.child_devices && protect_proc() ? 'p' : 'y';
  if (::write(ready_fd, &answer, 1) != 1) ::_exit(1);
  close_others({});
  default_signals();
  bool poll = answer != 'n' && (watch_memory || watch_tasks);
  std::uint64_t base_kib = status_kib(1, "RssAnon:") + status_kib(1, "RssShmem:");
  for (;;) {
    siginfo_t info{};
    // As init it may get children of others; it has none of its own, so ECHILD only means "nobody yet".
    while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) info = {};
    if (poll) {
      std::uint64_t bytes = 0;
      int tasks = 0;
      namespace_usage(base_kib, bytes, tasks);
      if (watch_memory && bytes > policy.memory_bytes) ::_exit(kInitKilledForMemory);
      if (watch_tasks && tasks > policy.processes + 8) ::_exit(kInitKilledForProcesses);
    }
    timespec pause{0, (poll ? 20 : kPollMs) * 1000000L};
    ::nanosleep(&pause, nullptr);
  }
}

// Bytes and entries below a folder; stops early when there are too many.
void folder_usage(const std::string& path, std::uint64_t& bytes, int& entries) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error), end;
       !error && it != end && entries < kMaxWritableEntries; it.increment(error)) {
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) == 0) bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
    ++entries;
  }
}

struct Supervised {
  pid_t child = -1, init = -1;
  int report_fd = -1;
  std::optional<Cgroup> cgroup;
};

// Waits for the child, enforces limits, writes the result, and ends as the child did.
[[noreturn]] void supervise(const Policy& policy, Report report, Supervised s) {
  base::Stopwatch watch;
  ::prctl(PR_SET_NAME, "sandbox");
  ::prctl(PR_SET_PDEATHSIG, 0);
  default_signals();
  ::signal(SIGPIPE, SIG_IGN);
  rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);

  const pid_t parent = ::getppid();
  std::string text;  // the child's own report, complete when it executes a program or starts its work
  for (char chunk[4096];;) {
    ssize_t n = ::read(s.report_fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || text.size() > 65536) break;
    text.append(chunk, static_cast<std::size_t>(n));
  }
  int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, s.child, 0));
  base::Deadline deadline = policy.wall_s > 0 ? base::Deadline::in(policy.wall_s) : base::Deadline::never();
  std::string limit;
  int status = 0;
  auto kill_all = [&] {
    if (s.init > 0) ::kill(s.init, SIGKILL);
    else ::kill(-s.child, SIGKILL);
    ::kill(s.child, SIGKILL);
  };
  for (;;) {
    pid_t got = ::waitpid(s.child, &status, WNOHANG);
    if (got == s.child || (got < 0 && errno == ECHILD)) break;
    if (limit.empty() && deadline.expired()) {
      limit = "wall";
      kill_all();
    }
    // PR_SET_PDEATHSIG would not do: it goes by the thread that forked, and the candidate could ask for none.
    if (limit.empty() && policy.with_parent && ::getppid() != parent) {
      limit = "parent";
      kill_all();
    }
    // The kernel kills one process; the others might wait for it for ever.
    if (limit.empty() && s.cgroup && s.cgroup->oom_killed()) {
      limit = "memory";
      kill_all();
    }
    if (limit.empty() && policy.writable_bytes) {
      std::uint64_t bytes = 0;
      int entries = 0;
      for (const auto& path : policy.writable) folder_usage(path, bytes, entries);
      if (bytes > policy.writable_bytes || entries >= kMaxWritableEntries) {
        limit = "writable";
        kill_all();
      }
    }
    pollfd item{pidfd, POLLIN, 0};
    ::poll(&item, pidfd >= 0 ? 1 : 0, deadline.poll_ms(pidfd < 0 ? 5 : policy.writable_bytes || policy.with_parent || s.cgroup ? kPollMs : 1000));
  }
  // Whoever the child left behind goes too.
  kill_all();
  bool oom = false;
  if (s.init > 0) {
    int init_status = 0;
    while (::waitpid(s.init, &init_status, 0) < 0 && errno == EINTR) {
    }
    int code = WIFEXITED(init_status) ? WEXITSTATUS(init_status) : 0;
    if (limit.empty() && code == kInitKilledForMemory) limit = "memory";
    if (limit.empty() && code == kInitKilledForProcesses) limit = "processes";
  }
  if (s.cgroup) {
    if (s.cgroup->oom_killed()) limit = "memory";
    s.cgroup->remove();
  }
  oom = limit == "memory";
  if (limit.empty() && WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) limit = "cpu";
  if (limit.empty() && WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) limit = "file";

  if (policy.result_fd >= 0) {
    json own = json::parse(text.substr(0, text.find('\n')), nullptr, false);
    std::string failure = text.find('\n') == std::string::npos ? "" : text.substr(text.find('\n') + 1);
    rusage usage{};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    json skipped = json::object();
    for (const auto& [name, why] : report.skipped) skipped[name] = why;
    json result = {{"code", WIFEXITED(status) ? json(WEXITSTATUS(status)) : json(nullptr)},
                   {"signal", WIFSIGNALED(status) ? json(WTERMSIG(status)) : json(nullptr)},
                   {"timed_out", limit == "wall"},
                   {"oom", oom},
                   {"limit", limit},
                   {"error", failure},
                   {"max_rss_bytes", static_cast<std::uint64_t>(usage.ru_maxrss) * 1024},
                   {"cpu_s", static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                                 1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)},
                   {"wall_s", watch.seconds()}};
    if (own.is_object()) {
      result["features"] = own["features"];
      result["skipped"] = own["skipped"];
    } else {
      result["features"] = report.features;
      result["skipped"] = skipped;
    }
    (void)base::write_all(policy.result_fd, result.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  }
  if (WIFSIGNALED(status)) {
    ::signal(WTERMSIG(status), SIG_DFL);
    ::kill(::getpid(), WTERMSIG(status));
    ::_exit(128 + WTERMSIG(status));
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

// What the child does to itself, last: after this nothing can be taken back.
Status confine(const Policy& policy, const Namespaces& made, const TreePlan& plan, std::optional<Cgroup>& cgroup, Report& report) {
  if (cgroup) {
    if (auto joined = cgroup->join_self(); joined) {
      report.features.push_back(cgroup->is_v2() ? "cgroup_v2" : "cgroup_v1");
      if (cgroup->has_memory()) report.features.push_back("cgroup_memory");
      if (cgroup->has_pids()) report.features.push_back("cgroup_pids");
    } else {
      report.skipped.emplace_back("cgroup", joined.error().message);
    }
  }
  cgroup.reset();
  std::string cwd = !policy.cwd.empty() ? policy.cwd : !policy.writable.empty() ? policy.writable[0] : "/tmp";
  if (::chdir(cwd.c_str()) != 0) return fail(Code::kNotFound, "sandbox: folder {} is not there: {}", cwd, std::strerror(errno));
  MC_RETURN_IF_ERROR(apply_rlimits(policy));
  report.features.push_back("rlimits");
  if (made.user || ::geteuid() == 0) {
    MC_RETURN_IF_ERROR(drop_capabilities());
    report.features.push_back("no_capabilities");
  }
  auto note = [&](const char* name, const Status& status) {
    if (status) report.features.push_back(name);
    else report.skipped.emplace_back(name, status.error().message);
  };
  note("no_new_privs", set_no_new_privs());
  std::vector<std::string> readable = {"/proc", "/dev/random", "/dev/urandom", "/sys/devices/system"}, writable = {"/dev/null", "/dev/zero", "/dev/full"};
  writable.insert(writable.end(), plan.devices.begin(), plan.devices.end());
  // NVIDIA's driver library gives its threads names and fails where it cannot.
  if (!plan.devices.empty()) writable.push_back(made.protected_proc ? "/proc" : "/proc/self/task");
  for (const auto& item : plan.binds) (item.writable ? writable : readable).push_back(item.path);
  if (made.mount) {
    readable.push_back("/");  // which holds nothing but what was bound into it
    writable.push_back("/tmp");
    writable.push_back("/dev/shm");
  }
  const bool sockets = policy.network || (policy.inet_sockets && made.net);
  note("landlock", apply_landlock(readable, writable, sockets));
  note("seccomp", apply_seccomp(sockets));
  return ok();
}

Status enter_with_pipe(const Policy& policy, Report& report, bool keep_pipe) {
  MC_ASSIGN_OR_RETURN(TreePlan plan, plan_tree(policy));
  Supervised supervised;
  if (policy.cgroups) {
    auto cgroup = Cgroup::create(policy);
    if (cgroup) supervised.cgroup = std::move(*cgroup);
    else report.skipped.emplace_back("cgroup", cgroup.error().message);
  }
  Namespaces made;
  if (policy.namespaces) made = make_namespaces(policy, report);
  else report.skipped.emplace_back("namespaces", "switched off by the policy");
  if (made.mount) {
    if (auto built = build_tree(plan); !built) {
      if (supervised.cgroup) supervised.cgroup->remove();
      return built;
    }
  }
  bool proc = false;
  if (made.pid) {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) return fail(Code::kResourceExhausted, "sandbox: no pipe: {}", std::strerror(errno));
    bool watch_memory = policy.memory_bytes && !(supervised.cgroup && supervised.cgroup->has_memory());
    bool watch_tasks = policy.processes > 0 && !(supervised.cgroup && supervised.cgroup->has_pids());
    supervised.init = ::fork();
    if (supervised.init < 0) return fail(Code::kResourceExhausted, "sandbox: no process: {}", std::strerror(errno));
    if (supervised.init == 0) init_main(ready[1], made.mount, watch_memory, watch_tasks, policy);
    ::close(ready[1]);
    char answer = 0;
    ssize_t n;
    do n = ::read(ready[0], &answer, 1);
    while (n < 0 && errno == EINTR);
    ::close(ready[0]);
    if (n != 1) return fail(Code::kInternal, "sandbox: the namespace's init did not start");
    proc = answer != 'n';
    made.protected_proc = answer == 'p';
    if (made.mount && !proc) report.skipped.emplace_back("proc", "a new /proc cannot be mounted here");
  }
  if (made.mount) MC_RETURN_IF_ERROR(finish_tree());
  for (auto [is_made, name] : {std::pair{made.user, "user_ns"}, {made.pid, "pid_ns"}, {made.mount, "mount_ns"},
                               {made.net, "net_ns"}, {made.ipc, "ipc_ns"}, {made.uts, "uts_ns"},
                               {made.mount, "private_tmp"}, {proc, "proc"}})
    if (is_made) report.features.emplace_back(name);

  bool fork_needed = made.pid || policy.wall_s > 0 || policy.result_fd >= 0 || policy.writable_bytes || supervised.cgroup;
  if (!fork_needed) return confine(policy, made, plan, supervised.cgroup, report);

  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) return fail(Code::kResourceExhausted, "sandbox: no pipe: {}", std::strerror(errno));
  supervised.report_fd = pipe_fds[0];
  pid_t supervisor = ::getpid();
  supervised.child = ::fork();
  if (supervised.child < 0) return fail(Code::kResourceExhausted, "sandbox: no process: {}", std::strerror(errno));
  if (supervised.child > 0) {
    std::vector<int> keep = {pipe_fds[0], policy.result_fd};
    if (supervised.cgroup)
      for (int fd : supervised.cgroup->descriptors()) keep.push_back(fd);
    close_others(keep);
    supervise(policy, report, std::move(supervised));
  }
  ::close(pipe_fds[0]);
  if (policy.result_fd >= 0) ::close(policy.result_fd);
  if (!made.pid) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != supervisor) ::_exit(1);
  }
  Status status = confine(policy, made, plan, supervised.cgroup, report);
  std::string line = fmt::format("{}\n{}", status ? to_json(report) : "{}", status ? "" : status.error().message);
  (void)base::write_all(pipe_fds[1], line);
  if (keep_pipe && status) supervisor_pipe = pipe_fds[1];
  else ::close(pipe_fds[1]);
  return status;
}

}  // namespace

Status enter(const Policy& policy, Report& report, bool will_execute) { return enter_with_pipe(policy, report, will_execute); }

void report_failure_to_supervisor(const std::string& message) {
  if (supervisor_pipe >= 0) (void)base::write_all(supervisor_pipe, message);
}

std::string to_json(const Report& report) {
  json skipped = json::object();
  for (const auto& [name, why] : report.skipped) skipped[name] = why;
  return json{{"features", report.features}, {"skipped", skipped}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Report> probe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return fail(Code::kResourceExhausted, "no pipe: {}", std::strerror(errno));
  pid_t pid = ::fork();
  if (pid < 0) return fail(Code::kResourceExhausted, "no process: {}", std::strerror(errno));
  if (pid == 0) {
    Policy policy;
    policy.memory_bytes = 1ull << 30;
    Report report;
    auto status = enter(policy, report);
    (void)base::write_all(fds[1], status ? to_json(report) : status.error().message);
    ::_exit(0);
  }
  ::close(fds[1]);
  std::string text;
  char chunk[4096];
  ssize_t n;
  while ((n = ::read(fds[0], chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) text.append(chunk, static_cast<std::size_t>(n));
  ::close(fds[0]);
  ::waitpid(pid, nullptr, 0);
  auto value = json::parse(text, nullptr, false);
  if (!value.is_object()) return fail(Code::kUnsupported, "the sandbox does not work here: {}", text);
  Report report;
  for (const auto& name : value["features"]) report.features.push_back(name.get<std::string>());
  for (const auto& [name, why] : value["skipped"].items()) report.skipped.emplace_back(name, why.get<std::string>());
  return report;
}

}  // namespace musacoder::sandbox
