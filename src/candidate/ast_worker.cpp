#include "candidate/ast_worker.h"

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_lines.h"
#include "base/subprocess.h"
#include "sandbox/policy.h"

namespace musacoder::candidate {
namespace {
constexpr std::size_t kLineBytes = 64u << 20;

// The limits of one source are the script's own and the caller's deadline: this process outlives many of them.
sandbox::Policy policy(const std::string& python, const std::string& script) {
  namespace fs = std::filesystem;
  sandbox::Policy p;
  const auto prefix = [](const fs::path& program) { return program.parent_path().parent_path(); };
  std::error_code error;
  for (const fs::path& folder : {prefix(python), prefix(fs::canonical(python, error))})
    if (folder.is_absolute() && folder != "/" && folder != "/usr") p.readable.push_back(folder.string());
  p.readable.push_back(fs::absolute(script, error).string());
  p.cwd = "/";
  p.tmp_bytes = 1 << 20;
  p.processes = 0;
  p.cgroups = false;
  return p;
}
}  // namespace

struct AstWorker::Impl {
  AstWorkerOptions options;
  std::mutex mutex;
  std::optional<base::Child> child;
  std::optional<base::JsonLines> lines;

  Status start() {
    if (child) return ok();
    base::SubprocessOptions spawn;
    const std::string python = base::find_program(options.python);
    if (python.empty()) return fail(Code::kNotFound, "there is no Python at {}", options.python);
    const std::string script = std::filesystem::absolute(options.script).string();
    spawn.argv = {options.launcher, "--policy", sandbox::to_json(policy(python, script)), "--", python, "-I", script, "--fd", "3"};
    spawn.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"};
    spawn.socket_at = 3;
    MC_ASSIGN_OR_RETURN(base::Child started, base::Child::start(spawn));
    lines.emplace(started.take_socket(), kLineBytes);
    child.emplace(std::move(started));
    return ok();
  }

  void drop() {
    lines.reset();
    if (child) child->stop();
    child.reset();
  }

  Result<std::string> ask(const std::string& request) {
    MC_RETURN_IF_ERROR(start());
    const auto deadline = base::Deadline::in(options.timeout_s);
    MC_RETURN_IF_ERROR(lines->write_line(request, deadline));
    return lines->read_line(deadline);
  }
};

AstWorker::AstWorker(AstWorkerOptions options) : impl_(std::make_unique<Impl>()) { impl_->options = std::move(options); }
AstWorker::~AstWorker() { impl_->drop(); }

Result<Facts> AstWorker::read(const std::string& source) {
  const std::string request =
      nlohmann::json{{"code", source}}.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::lock_guard lock(impl_->mutex);
  Result<std::string> reply = impl_->ask(request);
  if (!reply) {
    // A process that died between two sources is not this source's doing: try once in a fresh one.
    impl_->drop();
    reply = impl_->ask(request);
  }
  if (reply) return facts_from_json(*reply);
  impl_->drop();
  const std::string why = reply.error().message;
  // Is the process itself able to work?
  if (Result<std::string> probe = impl_->ask(R"({"code":"pass"})"); !probe) {
    impl_->drop();
    return fail(Code::kUnavailable, "Python's parser ({} {}) does not answer: {}", impl_->options.python,
                impl_->options.script, probe.error().message);
  }
  Facts facts;
  facts.syntax_message = "Python's parser does not get through this source: " + why;
  return facts;
}

}  // namespace musacoder::candidate
