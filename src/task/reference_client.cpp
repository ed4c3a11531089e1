#include "task/reference_client.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/subprocess.h"

namespace musacoder::task {

using nlohmann::json;

namespace {
constexpr int kSocketNumber = 3;
constexpr std::size_t kMaxReply = 64u << 20;
// What Python may take beyond its own alarm before the process is killed.
constexpr double kGraceSeconds = 2;
constexpr std::size_t kLastWords = 2000;

// Which GPU, where its libraries and compilers are.
void append_gpu_environment(std::vector<std::string>& environment) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH", "CUDA_HOME", "TRITON_CACHE_DIR", "CC",
                           "MUSA_VISIBLE_DEVICES", "MTHREADS_VISIBLE_DEVICES", "MUSA_HOME", "MUSA_PATH"})
    if (const char* value = std::getenv(name)) environment.push_back(fmt::format("{}={}", name, value));
}
}  // namespace

struct ReferenceClient::Impl {
  ReferenceOptions options;
  base::Child child;
  std::optional<base::JsonLines> channel;
  base::Fd errors;   // the runner's stderr, drained between requests
  std::string last_words;
  std::string python_version, torch_version;
  int starts = 0;

  Status ensure();
  Result<json> exchange(const json& request, double seconds);
  void drain();
  std::string end();
};

// Non-blocking, so that a chatty runner never stalls on a full pipe for longer than one request.
void ReferenceClient::Impl::drain() {
  char buffer[4096];
  while (errors) {
    const ssize_t got = ::read(errors.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    last_words.append(buffer, static_cast<std::size_t>(got));
    if (last_words.size() > 2 * kLastWords) last_words.erase(0, last_words.size() - kLastWords);
  }
}

// Kills what is left and says how it ended.
std::string ReferenceClient::Impl::end() {
  std::string how = "not running";
  if (child.valid()) {
    auto exited = child.wait(base::Deadline::in(0.2));
    how = exited ? exited->describe() : "killed";
    if (!exited) child.stop();
    drain();
  }
  channel.reset();
  errors.reset();
  child = base::Child();
  return how;
}

Status ReferenceClient::Impl::ensure() {
  if (channel && child.running()) return ok();
  end();
  last_words.clear();
  const std::string script = options.runtime_dir + "/python/reference_runner.py";
  if (!base::exists(script)) return fail(Code::kNotFound, "no reference runner at {}", script);
  base::SubprocessOptions start;
  start.argv = {options.python, "-s", "-B", script, "--fd", std::to_string(kSocketNumber), "--run-dir", options.run_dir, "--threads",
                std::to_string(options.threads), "--memory-limit", std::to_string(options.memory_bytes)};
  start.env = base::clean_env();
  if (options.device && options.vendor != "cuda") start.argv.insert(start.argv.end(), {"--vendor", options.vendor});
  if (!options.device) start.env.push_back("CUDA_VISIBLE_DEVICES=");
  else append_gpu_environment(start.env);
  start.env.insert(start.env.end(), {"PYTHONHASHSEED=0",
                                     fmt::format("OMP_NUM_THREADS={}", options.threads),
                                     fmt::format("MKL_NUM_THREADS={}", options.threads)});
  start.socket_at = kSocketNumber;
  MC_ASSIGN_OR_RETURN(child, base::Child::start(start));
  ++starts;
  channel.emplace(child.take_socket(), kMaxReply);
  errors = child.take_stderr();
  if (errors) ::fcntl(errors.get(), F_SETFL, ::fcntl(errors.get(), F_GETFL) | O_NONBLOCK);
  auto hello = exchange({{"op", "hello"}}, options.start_seconds);
  if (!hello || !hello->value("ok", false)) {
    const std::string how = end();
    const Code code = hello ? Code::kInternal : hello.error().code;
    return fail(code, "the reference runner did not start ({}): {}", how,
                last_words.empty() ? "check that the Python in use has torch" : last_words);
  }
  python_version = hello->value("python", "");
  torch_version = hello->value("torch", "");
  return ok();
}

Result<json> ReferenceClient::Impl::exchange(const json& request, double seconds) {
  const base::Deadline deadline = base::Deadline::in(seconds);
  MC_RETURN_IF_ERROR(channel->write(request, deadline));
  // A blocked stderr would block the runner, so it is emptied while waiting.
  while (true) {
    auto reply = channel->read(deadline.sooner(0.25));
    drain();
    if (reply || reply.error().code != Code::kDeadlineExceeded || deadline.expired()) return reply;
  }
}

ReferenceClient::ReferenceClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ReferenceClient::~ReferenceClient() { impl_->end(); }
const std::string& ReferenceClient::python_version() const { return impl_->python_version; }
const std::string& ReferenceClient::torch_version() const { return impl_->torch_version; }
int ReferenceClient::restarts() const { return std::max(0, impl_->starts - 1); }

Result<std::unique_ptr<ReferenceClient>> ReferenceClient::start(const ReferenceOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  if (!base::is_directory(options.run_dir)) return fail(Code::kNotFound, "the run folder '{}' does not exist", options.run_dir);
  MC_RETURN_IF_ERROR(impl->ensure());
  return std::unique_ptr<ReferenceClient>(new ReferenceClient(std::move(impl)));
}

Result<json> ReferenceClient::request(const json& request, double seconds) {
  const bool opens = request.value("op", "") == "open";
  json timed = request;
  timed["timeout_s"] = seconds;
  for (int attempt = 1;; ++attempt) {
    MC_RETURN_IF_ERROR(impl_->ensure());
    auto reply = impl_->exchange(timed, seconds + kGraceSeconds);
    if (reply && reply->is_object()) return reply;
    const Code code = reply ? Code::kInternal : reply.error().code;
    const std::string problem = reply ? "a reply that is not an object" : reply.error().message;
    if (code == Code::kDeadlineExceeded) {
      impl_->child.kill_group();
      impl_->end();
      return fail(code, "the reference runner did not answer within {:.1f} s and was stopped", seconds);
    }
    const std::string how = impl_->end();
    const std::string words = impl_->last_words.substr(impl_->last_words.size() - std::min(kLastWords, impl_->last_words.size()));
    if (!opens)
      return fail(Code::kUnavailable, "the reference runner ended ({}; {}){}{}", how, problem, words.empty() ? "" : ": ", words);
    if (attempt == 2)
      return json{{"ok", false},
                  {"status", "invalid_task:crash"},
                  {"message", fmt::format("the task ends the process that runs it ({})", how)}};
  }
}

}  // namespace musacoder::task
