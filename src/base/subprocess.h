// Child processes: run one to its end with captured output and a deadline, or keep one and talk to it.
//
//   auto result = run({.argv = {"/usr/bin/g++", "--version"}, .timeout_s = 10});
//   if (result && result->exit.ok()) use(result->out);
//
//   MC_ASSIGN_OR_RETURN(auto child, Child::start({.argv = {python, "runner.py", "--fd", "3"}, .socket_at = 3}));
//   JsonLines channel(child.take_socket());
//   ... child.kill_group(); auto exit = child.wait(Deadline::in(1));
//
// A child gets an explicit environment (never the parent's by accident), only the descriptors named here, its own
// session and process group, default signal dispositions, and the whole group is killed at the deadline and when its
// handle goes. Thread safe: handles belong to one thread at a time, start() and run() may be called from any.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/status.h"

namespace musacoder::base {

struct ExitInfo {
  int code = -1;                 // exit status, -1 when ended by a signal
  int signal = 0;                // 0 when it exited
  bool timed_out = false;        // killed by us at the deadline
  std::uint64_t max_rss_bytes = 0;
  double cpu_s = 0;              // user + system, with the children it waited for
  double wall_s = 0;
  bool ok() const { return code == 0 && !timed_out; }
  // "exit status 2", "signal 11 (Segmentation fault)", "killed after 3.0 s"
  std::string describe() const;
};

struct SubprocessOptions {
  std::vector<std::string> argv{};           // argv[0]: a path, or a name looked up in env's PATH
  std::vector<std::string> env{};            // "NAME=value"; empty: clean_env()
  std::string cwd{};                         // empty: the parent's
  std::string stdin_text{};                  // run() only; a Child's stdin is /dev/null
  std::size_t output_limit = 1u << 20;       // bytes kept of stdout and of stderr each; the rest is read and dropped
  bool merge_stderr = false;                 // stderr into stdout, in order
  bool inherit_stderr = false;               // the parent's stderr
  bool discard_output = false;               // Child only: stdout, and stderr where not inherited, go to /dev/null. A pipe that
                                             // nobody reads would stop the child when it is full
  std::vector<std::pair<int, int>> fds{};    // {parent descriptor, number in the child}; all others are closed
  int socket_at = -1;                        // Child only: one end of a new socket pair at this number
  double timeout_s = 60;                     // run() only
  bool die_with_parent = false;              // SIGKILL when the *thread* that started it ends (PR_SET_PDEATHSIG)
};

struct SubprocessResult {
  ExitInfo exit;
  std::string out, err;
  bool truncated = false;                    // output_limit was reached
};

// Runs to the end. An error means that it could not be started (kNotFound names the program); a failing child is a result.
Result<SubprocessResult> run(const SubprocessOptions& options);

class Child {
 public:
  static Result<Child> start(const SubprocessOptions& options);
  Child() = default;
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();                                  // kills the group and reaps

  pid_t pid() const { return pid_; }
  bool valid() const { return pid_ > 0; }
  Fd take_socket() { return std::move(socket_); }
  Fd take_stdout() { return std::move(out_); }   // read end; null when inherited or redirected
  Fd take_stderr() { return std::move(err_); }
  bool running();
  // Waits for the end; kDeadlineExceeded leaves it running.
  Result<ExitInfo> wait(const Deadline& deadline);
  void kill_group(int signal = SIGKILL);
  // Kills the group, then reaps.
  ExitInfo stop();

 private:
  friend Result<SubprocessResult> run(const SubprocessOptions& options);
  pid_t pid_ = -1;
  Fd pidfd_, socket_, out_, err_, in_;
  double started_ = 0;
  bool reaped_ = false;
  ExitInfo exit_;
};

// PATH, HOME, LANG=C.UTF-8, TMPDIR and TZ of this process, and nothing else.
std::vector<std::string> clean_env();
// The value of NAME in an environment list, or "".
std::string env_value(const std::vector<std::string>& env, const std::string& name);
// Full path of a program: as it is when it holds '/', else searched in `path` (default: $PATH). "" when absent.
std::string find_program(const std::string& name, const std::string& path = "");

}  // namespace musacoder::base
