#include "synth/pipeline/graph_worker.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_lines.h"
#include "base/subprocess.h"
#include "sandbox/launcher.h"

namespace musacoder::synth {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
constexpr std::size_t kLineBytes = 64u << 20;
constexpr double kStartSeconds = 120;  // importing torch on a cold disk
constexpr double kGraceSeconds = 3;

sandbox::Policy policy(const GraphWorkerOptions& options) {
  sandbox::Policy p;
  std::error_code error;
  const fs::path python = fs::absolute(options.python, error).lexically_normal();
  const fs::path environment = python.parent_path().parent_path();
  for (const fs::path& folder : {environment, fs::canonical(environment, error), fs::canonical(python, error).parent_path().parent_path(),
                                 fs::path(options.runtime_dir) / "python", fs::canonical(fs::path(options.runtime_dir) / "python", error)})
    if (folder.is_absolute() && folder != "/" && folder != "/usr") p.readable.push_back(folder.string());
  p.cwd = "/tmp";
  p.memory_bytes = 16ull << 30;
  p.processes = 64;
  p.cgroups = false;
  return p;
}

std::vector<std::pair<std::string, std::string>> pairs_of(const json& list, const char* second) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const json& item : list) out.emplace_back(item.value("name", ""), item.value(second, ""));
  return out;
}

}  // namespace

namespace {

// One process; calls come one at a time.
struct Runner {
  const GraphWorkerOptions& options;
  std::optional<base::Child> child;
  std::optional<base::JsonLines> lines;
  bool fresh = false;  // has answered nothing yet

  Status start() {
    if (child) return ok();
    const std::string script = (fs::path(options.runtime_dir) / "python" / "graph_runner.py").string();
    base::SubprocessOptions spawn;
    spawn.argv = {sandbox::launcher_path(options.runtime_dir), "--policy", sandbox::to_json(policy(options)), "--", options.python, "-s", "-B", script, "--fd", "3"};
    spawn.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp", "PYTHONHASHSEED=0", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "CUDA_VISIBLE_DEVICES=", "TORCHINDUCTOR_CACHE_DIR=/tmp"};
    spawn.socket_at = 3;
    spawn.inherit_stderr = std::getenv("MUSACODER_GRAPH_DEBUG") != nullptr;
    spawn.discard_output = true;
    MC_ASSIGN_OR_RETURN(base::Child started, base::Child::start(spawn));
    lines.emplace(started.take_socket(), kLineBytes);
    child.emplace(std::move(started));
    fresh = true;
    return ok();
  }

  void drop() {
    lines.reset();
    if (child) child->stop();
    child.reset();
  }

  Result<json> ask(json request) {
    MC_RETURN_IF_ERROR(start());
    request["timeout_s"] = options.timeout_s;
    const auto deadline = base::Deadline::in(options.timeout_s + kGraceSeconds + (fresh ? kStartSeconds : 0));
    const std::string text = request.dump(-1, ' ', true, json::error_handler_t::replace);
    Status sent = lines->write_line(text, deadline);
    Result<json> reply = sent ? lines->read(deadline) : Result<json>(tl::unexpected(sent.error()));
    if (!reply) {
      const bool at_start = fresh;
      drop();
      if (reply.error().code == Code::kDeadlineExceeded)
        return fail(Code::kDeadlineExceeded, "the task did not end within {:.0f} s", options.timeout_s);
      // A process that never answered anything may be unable to work at all.
      if (at_start && !probe()) return fail(Code::kUnavailable, "{} with torch cannot be run in the sandbox: {}", options.python, reply.error().message);
      return fail(Code::kInvalidArgument, "the task ended its process: {}", reply.error().message);
    }
    fresh = false;
    if (!reply->is_object()) {
      drop();
      return fail(Code::kUnavailable, "the graph runner answered something that is no object");
    }
    if (!reply->value("ok", false)) {
      const std::string error = reply->value("error", "");
      return fail(error == "TaskTimeout" ? Code::kDeadlineExceeded : Code::kInvalidArgument, "{}: {}", error, reply->value("message", ""));
    }
    return reply;
  }

  bool probe() {
    if (!start()) return false;
    const auto deadline = base::Deadline::in(kStartSeconds);
    const bool alive = lines->write_line(R"({"op":"graph","code":""})", deadline) && lines->read(deadline);
    fresh = !alive;
    if (!alive) drop();
    return alive;
  }
};

}  // namespace

struct GraphWorker::Impl {
  explicit Impl(GraphWorkerOptions given) : options(std::move(given)) {
    for (int i = 0; i < std::max(1, options.processes); ++i) {
      runners.push_back(Runner{.options = options, .child = {}, .lines = {}});
      free.push_back(&runners.back());
    }
  }
  ~Impl() {
    for (Runner& runner : runners) runner.drop();
  }

  // On a process that is free, or the next one that will be.
  Result<json> ask(json request) {
    std::unique_lock lock(mutex);
    freed.wait(lock, [&] { return !free.empty(); });
    Runner* runner = free.back();
    free.pop_back();
    lock.unlock();
    Result<json> reply = runner->ask(std::move(request));
    lock.lock();
    free.push_back(runner);
    freed.notify_one();
    return reply;
  }

  const GraphWorkerOptions options;
  std::list<Runner> runners;
  std::mutex mutex;
  std::condition_variable freed;
  std::vector<Runner*> free;
};

GraphWorker::GraphWorker(GraphWorkerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
GraphWorker::~GraphWorker() = default;
int GraphWorker::processes() const { return static_cast<int>(impl_->runners.size()); }

Result<TaskGraph> GraphWorker::graph(const std::string& task_code) {
  MC_ASSIGN_OR_RETURN(json reply, impl_->ask({{"op", "graph"}, {"code", task_code}}));
  return TaskGraph{.hash = reply.value("hash", ""),
                   .family = reply.value("family", ""),
                   .ops = reply.value("ops", std::vector<std::string>{}),
                   .shapes = reply.value("shapes", ""),
                   .hint = reply.value("hint", "")};
}

Result<TaskCases> GraphWorker::cases(const std::string& task_code, std::uint64_t seed) {
  MC_ASSIGN_OR_RETURN(json reply, impl_->ask({{"op", "cases"}, {"code", task_code}, {"seed", seed}}));
  return TaskCases{.code = reply.value("code", ""), .kept = reply.value("kept", std::vector<std::string>{}), .dropped = pairs_of(reply["dropped"], "reason")};
}

Result<Harvest> GraphWorker::harvest(const std::string& path, const std::string& code) {
  MC_ASSIGN_OR_RETURN(json reply, impl_->ask({{"op", "harvest"}, {"code", code}, {"path", path}}));
  Harvest out;
  for (auto& [name, text] : pairs_of(reply["tasks"], "code")) out.tasks.push_back({name, text});
  out.dropped = pairs_of(reply["dropped"], "reason");
  return out;
}

}  // namespace musacoder::synth
