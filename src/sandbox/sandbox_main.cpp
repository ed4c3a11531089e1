// musacoder-sandbox: see launcher.h.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/subprocess.h"
#include "sandbox/enter.h"
#include "sandbox/policy.h"

namespace {

constexpr char kUsage[] =
    "usage: musacoder-sandbox --policy JSON [--result-fd N] -- PROGRAM ARG…\n"
    "       musacoder-sandbox --probe\n"
    "example: musacoder-sandbox --policy '{\"memory_bytes\":1073741824,\"wall_s\":10}' -- /bin/sh -c 'echo hello'\n";

int usage_error(const std::string& message) {
  std::fprintf(stderr, "musacoder-sandbox: %s\n%s", message.c_str(), kUsage);
  return 125;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace musacoder;
  sandbox::Policy policy;
  int result_fd = -1, at = 1;
  for (; at < argc; ++at) {
    std::string_view arg = argv[at];
    if (arg == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (arg == "--probe") {
      auto report = sandbox::probe();
      std::printf("%s\n", report ? sandbox::to_json(*report).c_str() : report.error().message.c_str());
      return report ? 0 : 125;
    }
    if (arg == "--") {
      ++at;
      break;
    }
    if (at + 1 >= argc) return usage_error("a value is missing after " + std::string(arg));
    if (arg == "--policy") {
      auto parsed = sandbox::policy_from_json(argv[++at]);
      if (!parsed) return usage_error(parsed.error().message);
      policy = *parsed;
    } else if (arg == "--result-fd") {
      result_fd = std::atoi(argv[++at]);
    } else {
      return usage_error("unknown option " + std::string(arg));
    }
  }
  if (at >= argc) return usage_error("no program to run");
  if (result_fd >= 0) {
    policy.result_fd = result_fd;
    ::fcntl(result_fd, F_SETFD, FD_CLOEXEC);
  }
  sandbox::Report report;
  if (auto status = sandbox::enter(policy, report, true); !status) {
    std::fprintf(stderr, "musacoder-sandbox: %s\n", status.error().message.c_str());
    return 125;
  }
  std::string program = base::find_program(argv[at]);
  if (program.empty()) {
    std::string message = std::string("program '") + argv[at] + "' is not there or not allowed inside the sandbox";
    std::fprintf(stderr, "musacoder-sandbox: %s\n", message.c_str());
    sandbox::report_failure_to_supervisor(message);
    return 127;
  }
  ::execv(program.c_str(), argv + at);
  std::string message = "cannot execute " + program + ": " + std::strerror(errno);
  std::fprintf(stderr, "musacoder-sandbox: %s\n", message.c_str());
  sandbox::report_failure_to_supervisor(message);
  return 126;
}
