#include "train/rl/verifier_process.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/event_log.h"
#include "base/paths.h"
#include "base/random.h"
#include "base/subprocess.h"

namespace musacoder::train {
namespace {

constexpr std::string_view kListening = "listening on ";

std::string beside_this_program(const char* name) {
  return (std::filesystem::path(base::exe_path()).parent_path() / name).string();
}

}  // namespace

struct VerifierProcess::Impl {
  VerifierProcessOptions options;
  std::string token, token_file;
  base::Fd log;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string url, tail;  // of the child that listens; the last words of the one that runs or ran
  int starts = 0, pid = -1;
  bool stopping = false, failed = false;  // failed: the first child never listened
  std::thread thread;

  bool stop_asked() const {
    const std::lock_guard lock(mutex);
    return stopping;
  }
  void run();
  void follow(base::Child& child);
  void take(const std::string& line);
};

void VerifierProcess::Impl::take(const std::string& line) {
  if (log) (void)base::write_all(log.get(), line + "\n");
  const std::lock_guard lock(mutex);
  tail = (tail + line + "\n");
  if (tail.size() > 4096) tail.erase(0, tail.size() - 4096);
  if (line.starts_with(kListening)) {
    url = line.substr(kListening.size());
    changed.notify_all();
  }
}

// Until the child ends or this object does.
void VerifierProcess::Impl::follow(base::Child& child) {
  const base::Fd out = child.take_stdout();
  std::string line;
  char buffer[4096];
  while (!stop_asked()) {
    struct pollfd ready = {out.get(), POLLIN, 0};
    if (::poll(&ready, 1, 200) <= 0) continue;
    const ssize_t got = ::read(out.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    line.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end; (end = line.find('\n')) != std::string::npos; line.erase(0, end + 1))
      take(line.substr(0, end));
  }
}

void VerifierProcess::Impl::run() {
  base::SubprocessOptions how{
      .argv = {options.program, "serve", "--listen", "127.0.0.1:0", "--token-file", token_file, "--queue",
               "memory", "--lanes", std::to_string(options.lanes)},
      .merge_stderr = true,
      .die_with_parent = true};
  how.argv.insert(how.argv.end(), options.args.begin(), options.args.end());
  how.env = base::clean_env();
  for (char** one = environ; *one; ++one)
    if (std::strncmp(*one, "MUSACODER_", 10) == 0) how.env.emplace_back(*one);
  for (double wait_s = 1; !stop_asked(); wait_s = std::min(30.0, wait_s * 2)) {
    const base::Stopwatch watch;
    auto child = base::Child::start(how);
    if (child) {
      {
        const std::lock_guard lock(mutex);
        pid = child->pid();
        ++starts;
      }
      follow(*child);
      child->stop();
    }
    std::unique_lock lock(mutex);
    if (!child) tail = child.error().message;
    const bool listened = !url.empty();
    url.clear();
    pid = -1;
    failed = failed || (starts <= 1 && !listened);
    changed.notify_all();
    if (stopping || failed) return;
    base::log_event(base::LogLevel::kWarning, "verifier_lost", {{"after_s", watch.seconds()}});
    if (watch.seconds() > 60) wait_s = 1;
    changed.wait_for(lock, std::chrono::duration<double>(wait_s), [this] { return stopping; });
  }
}

VerifierProcess::VerifierProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<VerifierProcess>> VerifierProcess::start(const VerifierProcessOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  if (impl->options.program.empty()) impl->options.program = beside_this_program("musacoder");
  if (!base::is_executable(impl->options.program))
    return fail(
        Code::kNotFound,
        "{}: the verifier's program is not there; set verifier.program, or verifier.url of a running one",
        impl->options.program);
  impl->token = base::random_hex(24);
  impl->token_file = fmt::format("{}/.{}.toml", options.work_dir, base::random_id("verifier-"));
  MC_RETURN_IF_ERROR(base::write_file(
      impl->token_file,
      fmt::format("[[token]]\nname = \"trainer\"\ntoken = \"{}\"\nrole = \"client\"\n", impl->token), 0600));
  if (!options.log.empty()) {
    impl->log = base::Fd(::open(options.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!impl->log)
      return fail(base::code_of_errno(errno), "cannot write {}: {}", options.log, std::strerror(errno));
  }
  std::unique_ptr<VerifierProcess> out(new VerifierProcess(std::move(impl)));
  Impl& here = *out->impl_;
  // Started on a thread that lives as long as this object: the child dies with the thread that started it.
  here.thread = std::thread([&here] { here.run(); });
  std::unique_lock lock(here.mutex);
  const bool ready = here.changed.wait_for(lock, std::chrono::duration<double>(options.ready_s),
                                           [&] { return !here.url.empty() || here.failed; });
  if (here.failed)
    return fail(Code::kUnavailable, "the verifier {} did not start: {}", here.options.program, here.tail);
  if (!ready)
    return fail(Code::kUnavailable, "the verifier did not listen within {:.0f} s: {}", options.ready_s,
                here.tail);
  return out;
}

void VerifierProcess::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

VerifierProcess::~VerifierProcess() {
  stop();
  (void)::unlink(impl_->token_file.c_str());
}

Result<ServiceEndpoint> VerifierProcess::endpoint() const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->url.empty()) return fail(Code::kUnavailable, "the verifier is being started again");
  return ServiceEndpoint{impl_->url, impl_->token};
}

int VerifierProcess::restarts() const {
  const std::lock_guard lock(impl_->mutex);
  return std::max(0, impl_->starts - 1);
}

int VerifierProcess::pid() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->pid;
}

}  // namespace musacoder::train
