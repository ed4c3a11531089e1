#include "sandbox/launcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json_lines.h"

namespace musacoder::sandbox {

std::string launcher_path(const std::string& runtime_dir) { return runtime_dir + "/bin/musacoder-sandbox"; }

Result<Outcome> run_sandboxed(const std::string& launcher, Policy policy, base::SubprocessOptions options) {
  constexpr int kResultFd = 3;
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) {
    int error = errno;
    return fail(base::code_of_errno(error), "sandbox: no pipe: {}", std::strerror(error));
  }
  base::Fd read_end(pipe_fds[0]), write_end(pipe_fds[1]);
  if (!options.cwd.empty()) policy.cwd = options.cwd;
  options.cwd.clear();
  policy.result_fd = -1;  // given on the command line
  std::vector<std::string> argv = {launcher, "--policy", to_json(policy), "--result-fd", std::to_string(kResultFd), "--"};
  argv.insert(argv.end(), options.argv.begin(), options.argv.end());
  options.argv = std::move(argv);
  options.fds.emplace_back(write_end.get(), kResultFd);
  if (policy.wall_s > 0) options.timeout_s = policy.wall_s + 10;
  MC_ASSIGN_OR_RETURN(base::SubprocessResult process, base::run(options));
  write_end.reset();

  std::string text;
  char chunk[4096];
  ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  for (ssize_t n; (n = ::read(read_end.get(), chunk, sizeof chunk)) > 0;) text.append(chunk, static_cast<std::size_t>(n));
  auto value = base::parse_json(text.substr(0, text.find('\n')));
  Outcome outcome;
  if (!value || !value->is_object()) {
    if (process.exit.timed_out) {
      outcome.limit = "wall";
      outcome.process = std::move(process);
      return outcome;
    }
    std::string why = !process.err.empty() ? process.err : !process.out.empty() ? process.out : process.exit.describe();
    return fail(Code::kUnavailable, "the sandbox could not start: {}", why.substr(0, 500));
  }
  if (std::string error = value->value("error", ""); !error.empty()) return fail(Code::kNotFound, "{}", error);
  outcome.limit = value->value("limit", "");
  outcome.oom = value->value("oom", false);
  for (const auto& name : (*value)["features"])
    if (name.is_string()) outcome.features.push_back(name.get<std::string>());
  outcome.process = std::move(process);
  auto& exit = outcome.process.exit;
  exit.code = (*value)["code"].is_number_integer() ? (*value)["code"].get<int>() : -1;
  exit.signal = (*value)["signal"].is_number_integer() ? (*value)["signal"].get<int>() : 0;
  exit.timed_out = value->value("timed_out", false);
  exit.max_rss_bytes = value->value("max_rss_bytes", std::uint64_t{0});
  exit.cpu_s = value->value("cpu_s", 0.0);
  exit.wall_s = value->value("wall_s", exit.wall_s);
  return outcome;
}

}  // namespace musacoder::sandbox
