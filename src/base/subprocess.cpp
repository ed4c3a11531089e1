#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/json_lines.h"

namespace musacoder::base {
namespace {

constexpr int kFdFloor = 512;  // where descriptors wait while they are moved to their numbers in the child

struct ChildFds {
  int in = -1, out = -1, err = -1;
  std::vector<std::pair<int, int>> moves;  // {parent, child}
};

[[noreturn]] void child_fail(int pipe_fd) {
  int error = errno;
  [[maybe_unused]] ssize_t n = ::write(pipe_fd, &error, sizeof error);
  ::_exit(127);
}

// Runs between fork and exec: only async-signal-safe calls, no allocation.
[[noreturn]] void child_main(const char* program, char* const* argv, char* const* envp, const char* cwd,
                             const ChildFds& fds, std::pair<int, int>* moves, std::size_t count, int report_fd,
                             pid_t parent, bool die_with_parent) {
  ::setsid();
  if (die_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
  }
  int report = ::fcntl(report_fd, F_DUPFD_CLOEXEC, kFdFloor);
  if (report < 0) report = report_fd;
  for (std::size_t i = 0; i < count; ++i) {
    moves[i].first = ::fcntl(moves[i].first, F_DUPFD_CLOEXEC, kFdFloor);
    if (moves[i].first < 0) child_fail(report);
  }
  int stdio[3] = {fds.in, fds.out, fds.err};
  for (int& fd : stdio) fd = fd >= 0 ? ::fcntl(fd, F_DUPFD_CLOEXEC, kFdFloor) : fd;
  for (int i = 0; i < 3; ++i)
    if (stdio[i] >= 0 && ::dup2(stdio[i], i) < 0) child_fail(report);
  int highest = 2;
  for (std::size_t i = 0; i < count; ++i) {
    if (::dup2(moves[i].first, moves[i].second) < 0) child_fail(report);
    highest = std::max(highest, moves[i].second);
  }
  // Close-on-exec for everything else: descriptors of other threads that were opened without it must not leak.
  for (int fd = 3; fd <= highest; ++fd) {
    bool wanted = false;
    for (std::size_t i = 0; i < count; ++i) wanted |= moves[i].second == fd;
    if (!wanted) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  ::syscall(SYS_close_range, highest + 1, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
  if (cwd && ::chdir(cwd) != 0) child_fail(report);
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int s = 1; s < 65; ++s)
    if (s != SIGKILL && s != SIGSTOP) ::sigaction(s, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(program, argv, envp);
  child_fail(report);
}

Result<std::pair<Fd, Fd>> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) {
    int error = errno;
    return fail(code_of_errno(error), "cannot create a pipe: {}", std::strerror(error));
  }
  return std::pair<Fd, Fd>(Fd(fds[0]), Fd(fds[1]));
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (const auto& s : strings) list.push_back(const_cast<char*>(s.c_str()));
  list.push_back(nullptr);
  return list;
}

void set_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

// Reads what is there; false at end of file.
bool drain(int fd, std::string& into, std::size_t limit, bool& truncated) {
  char chunk[1 << 16];
  for (;;) {
    ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    std::size_t room = limit > into.size() ? limit - into.size() : 0;
    if (static_cast<std::size_t>(n) > room) truncated = true;
    into.append(chunk, std::min(room, static_cast<std::size_t>(n)));
    if (static_cast<std::size_t>(n) < sizeof chunk) return true;
  }
}

}  // namespace

std::string ExitInfo::describe() const {
  if (timed_out) return fmt::format("killed after {:.1f} s", wall_s);
  if (signal) return fmt::format("signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit status {}", code);
}

std::vector<std::string> clean_env() {
  std::vector<std::string> env;
  for (const char* name : {"PATH", "HOME", "TMPDIR", "TZ"})
    if (const char* value = std::getenv(name)) env.push_back(fmt::format("{}={}", name, value));
  if (!std::getenv("PATH")) env.push_back("PATH=/usr/local/bin:/usr/bin:/bin");
  env.push_back("LANG=C.UTF-8");
  return env;
}

std::string env_value(const std::vector<std::string>& env, const std::string& name) {
  for (const auto& entry : env)
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.compare(0, name.size(), name) == 0)
      return entry.substr(name.size() + 1);
  return "";
}

std::string find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) return is_executable(name) ? name : "";
  std::string list = path;
  if (list.empty()) {
    const char* value = std::getenv("PATH");
    list = value ? value : "/usr/local/bin:/usr/bin:/bin";
  }
  for (std::size_t from = 0; from <= list.size();) {
    std::size_t to = std::min(list.find(':', from), list.size());
    std::string candidate = list.substr(from, to - from) + "/" + name;
    if (to > from && is_executable(candidate)) return candidate;
    from = to + 1;
  }
  return "";
}

Result<Child> Child::start(const SubprocessOptions& options) {
  if (options.argv.empty()) return fail(Code::kInvalidArgument, "no program to run");
  std::vector<std::string> env = options.env.empty() ? clean_env() : options.env;
  std::string program = find_program(options.argv[0], env_value(env, "PATH"));
  if (program.empty()) return fail(Code::kNotFound, "program '{}' was not found or may not be executed", options.argv[0]);

  Child child;
  ChildFds fds;
  fds.moves = options.fds;
  Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC)), peer, out_end, err_end, in_end;
  fds.in = null.get();
  fds.out = null.get();
  if (options.socket_at >= 0) {
    MC_ASSIGN_OR_RETURN(auto pair, socket_pair());
    child.socket_ = std::move(pair.first);
    peer = std::move(pair.second);
    fds.moves.emplace_back(peer.get(), options.socket_at);
  }
  if (!options.stdin_text.empty()) {
    MC_ASSIGN_OR_RETURN(auto pipe, make_pipe());
    in_end = std::move(pipe.first);
    child.in_ = std::move(pipe.second);
    fds.in = in_end.get();
  }
  if (!options.discard_output) {
    MC_ASSIGN_OR_RETURN(auto pipe, make_pipe());
    child.out_ = std::move(pipe.first);
    out_end = std::move(pipe.second);
    fds.out = out_end.get();
  }
  if (options.inherit_stderr) {
    fds.err = 2;
  } else if (options.discard_output) {
    fds.err = null.get();
  } else if (options.merge_stderr) {
    fds.err = out_end.get();
  } else {
    MC_ASSIGN_OR_RETURN(auto pipe, make_pipe());
    child.err_ = std::move(pipe.first);
    err_end = std::move(pipe.second);
    fds.err = err_end.get();
  }
  MC_ASSIGN_OR_RETURN(auto report, make_pipe());

  auto argv = pointers(options.argv), envp = pointers(env);
  std::vector<std::pair<int, int>> moves = fds.moves;
  const char* cwd = options.cwd.empty() ? nullptr : options.cwd.c_str();
  child.started_ = real_clock().now();
  pid_t parent = ::getpid();
  // Signals stay blocked across fork, so that no handler of the parent runs in the child.
  sigset_t all, old;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &old);
  pid_t pid = ::fork();
  if (pid == 0)
    child_main(program.c_str(), argv.data(), envp.data(), cwd, fds, moves.data(), moves.size(), report.second.get(),
               parent, options.die_with_parent);
  int fork_error = errno;
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (pid < 0)
    return fail(code_of_errno(fork_error), "cannot start {}: {}", options.argv[0], std::strerror(fork_error));
  child.pid_ = pid;
  child.pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  report.second.reset();
  int error = 0;
  ssize_t n;
  do n = ::read(report.first.get(), &error, sizeof error);
  while (n < 0 && errno == EINTR);
  if (n == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    child.reaped_ = true;
    return fail(code_of_errno(error), "cannot start {}{}: {}", program,
                cwd ? fmt::format(" in {}", options.cwd) : std::string(), std::strerror(error));
  }
  return child;
}

Child::Child(Child&& other) noexcept { *this = std::move(other); }

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    if (pid_ > 0 && !reaped_) stop();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    socket_ = std::move(other.socket_);
    out_ = std::move(other.out_);
    err_ = std::move(other.err_);
    in_ = std::move(other.in_);
    started_ = other.started_;
    reaped_ = other.reaped_;
    exit_ = other.exit_;
  }
  return *this;
}

Child::~Child() {
  if (pid_ > 0 && !reaped_) stop();
}

bool Child::running() { return pid_ > 0 && !reaped_ && !wait(Deadline::in(0)); }

Result<ExitInfo> Child::wait(const Deadline& deadline) {
  if (pid_ <= 0) return fail(Code::kInvalidArgument, "no child to wait for");
  while (!reaped_) {
    int status = 0;
    rusage usage{};
    pid_t got = ::wait4(pid_, &status, WNOHANG, &usage);
    if (got == pid_) {
      reaped_ = true;
      exit_.wall_s = real_clock().now() - started_;
      exit_.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      exit_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      exit_.max_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
      exit_.cpu_s = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                    1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
      break;
    }
    if (got < 0 && errno != EINTR) return fail(Code::kInternal, "cannot wait for process {}: {}", pid_, std::strerror(errno));
    if (deadline.expired()) return fail(Code::kDeadlineExceeded, "process {} is still running", pid_);
    if (pidfd_) {
      pollfd item{pidfd_.get(), POLLIN, 0};
      ::poll(&item, 1, deadline.poll_ms());
    } else {
      real_clock().sleep(std::min(0.005, deadline.remaining()));
    }
  }
  return exit_;
}

void Child::kill_group(int signal) {
  if (pid_ <= 0) return;
  // Once reaped, the group may still hold grandchildren; its number cannot be reused while they live.
  ::kill(-pid_, signal);
  if (!reaped_) ::kill(pid_, signal);
}

ExitInfo Child::stop() {
  if (!reaped_) {
    kill_group(SIGKILL);
    (void)wait(Deadline::in(30));
  }
  return exit_;
}

Result<SubprocessResult> run(const SubprocessOptions& options) {
  Deadline deadline = Deadline::in(options.timeout_s);
  MC_ASSIGN_OR_RETURN(Child child, Child::start(options));
  SubprocessResult result;
  Fd in = std::move(child.in_), out = child.take_stdout(), err = child.take_stderr();
  for (Fd* fd : {&in, &out, &err})
    if (*fd) set_nonblocking(fd->get());
  std::size_t written = 0;
  bool ended = false, timed_out = false;
  while (!ended) {
    pollfd items[4] = {{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}, {in.get(), POLLOUT, 0}, {child.pidfd_.get(), POLLIN, 0}};
    int cap = child.pidfd_ ? (1 << 30) - 1 : 20;
    ::poll(items, 4, deadline.poll_ms(cap));
    if (out && (items[0].revents) && !drain(out.get(), result.out, options.output_limit, result.truncated)) out.reset();
    if (err && (items[1].revents) && !drain(err.get(), result.err, options.output_limit, result.truncated)) err.reset();
    if (in && items[2].revents) {
      // The child may close its end; a signal for that would be ours to take.
      sigset_t pipe_signal, old;
      sigemptyset(&pipe_signal);
      sigaddset(&pipe_signal, SIGPIPE);
      ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &old);
      ssize_t n = ::write(in.get(), options.stdin_text.data() + written, options.stdin_text.size() - written);
      if (n < 0 && errno == EPIPE) {
        timespec zero{};
        ::sigtimedwait(&pipe_signal, nullptr, &zero);
      }
      ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
      if (n > 0) written += static_cast<std::size_t>(n);
      if ((n < 0 && errno != EAGAIN && errno != EINTR) || written == options.stdin_text.size()) in.reset();
    }
    ended = !child.running();
    if (!ended && deadline.expired()) {
      timed_out = ended = true;
      child.stop();
    }
  }
  child.kill_group(SIGKILL);
  // What the group wrote before its end; a grandchild that left the group cannot hold us longer than this.
  Deadline grace = Deadline::in(0.2);
  while ((out || err) && !grace.expired()) {
    pollfd items[2] = {{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};
    if (::poll(items, 2, grace.poll_ms()) <= 0) break;
    if (out && items[0].revents && !drain(out.get(), result.out, options.output_limit, result.truncated)) out.reset();
    if (err && items[1].revents && !drain(err.get(), result.err, options.output_limit, result.truncated)) err.reset();
  }
  result.exit = child.exit_;
  result.exit.timed_out = timed_out;
  return result;
}

}  // namespace musacoder::base
