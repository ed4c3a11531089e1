#include "judge/runner_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/log.h"
#include "base/starvation.h"
#include "base/subprocess.h"

namespace musacoder::judge {
namespace {

using base::Deadline;
using nlohmann::json;

constexpr std::size_t kReplyBytes = 4u << 20;    // one line of the runner, docs/protocols.md
constexpr std::size_t kZygoteBytes = 1u << 20;
constexpr std::size_t kMaxNames = 1000, kMaxNameBytes = 400, kMaxState = 20000, kMaxBuilds = 256;
// Time granted to who waits for a core: at most this many times the limit, and nothing below so many seconds.
constexpr double kMostGrant = 3, kLeastGrant = 0.05;

std::string as_line(const json& value) { return value.dump(-1, ' ', true, json::error_handler_t::replace); }

std::string random_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

// Readers of untrusted JSON: a field of another type than expected makes `valid` false.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}
  bool valid = true;

  std::string text(const char* key, std::size_t limit = 64u << 10) {
    auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return {};
    if (!it->is_string()) return valid = false, std::string();
    std::string value = it->get<std::string>();
    if (value.size() > limit) value.resize(limit);
    return value;
  }
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) {
    auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return 0;
    if (!it->is_number_integer()) return valid = false, 0;
    return std::clamp(it->get<std::int64_t>(), low, high);
  }
  bool flag(const char* key) {
    auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return false;
    if (!it->is_boolean()) return valid = false;
    return it->get<bool>();
  }
  const json& list(const char* key, std::size_t limit) {
    static const json empty = json::array();
    auto it = object_.find(key);
    if (it == object_.end() || it->is_null()) return empty;
    if (!it->is_array() || it->size() > limit) return valid = false, empty;
    return *it;
  }
  std::vector<std::string> names(const char* key, std::size_t limit = kMaxNames) {
    std::vector<std::string> out;
    for (const json& item : list(key, limit)) {
      if (!item.is_string()) return valid = false, out;
      out.push_back(item.get<std::string>().substr(0, kMaxNameBytes));
    }
    return out;
  }
  std::vector<std::int64_t> shape(const char* key) {
    std::vector<std::int64_t> out;
    for (const json& item : list(key, 64)) {
      if (!item.is_number_integer()) return valid = false, out;
      out.push_back(item.get<std::int64_t>());
    }
    return out;
  }

 private:
  const json& object_;
};

void read_state(Fields& fields, RunnerReply& reply) {
  for (const json& item : fields.list("state", kMaxState)) {
    if (!item.is_object()) return void(fields.valid = false);
    Fields entry(item);
    reply.state.push_back({entry.text("name", kMaxNameBytes), entry.text("kind", 16), entry.text("dtype", 32),
                           entry.shape("shape")});
    fields.valid &= entry.valid;
  }
  reply.training = fields.flag("training");
}

void read_parameters(Fields& fields, RunnerReply& reply) {
  ParametersReply& out = reply.parameters;
  out.matched = fields.names("matched", kMaxState);
  out.missing = fields.names("missing", kMaxState);
  out.extra = fields.names("extra", kMaxState);
  out.unmatched = fields.names("unmatched", kMaxState);
  for (const json& item : fields.list("shape_mismatch", kMaxState)) {
    if (!item.is_object()) return void(fields.valid = false);
    Fields entry(item);
    out.shape_mismatch.push_back({entry.text("name", kMaxNameBytes), entry.shape("expected"), entry.shape("got")});
    fields.valid &= entry.valid;
  }
}

void read_exception(Fields& fields, RunnerReply& reply) {
  RunnerException& out = reply.exception;
  out.stage = fields.text("stage", 32);
  out.type = fields.text("type", kMaxNameBytes);
  out.message = fields.text("message");
  out.traceback = fields.text("traceback");
  out.line = static_cast<int>(fields.integer("line", 0, 1 << 30));
  out.device_fault = fields.flag("device_fault");
}

}  // namespace

std::string RunnerExit::describe() const {
  if (!known) return "its end is unknown";
  if (!limit.empty()) return fmt::format("killed by the {} limit", limit);
  if (signal) return fmt::format("signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit status {}", code);
}

// ---- zygote

struct ZygoteClient::Impl {
  ZygoteOptions options;
  std::mutex mutex;
  std::optional<base::Child> child;
  std::optional<base::JsonLines> lines;
  std::uint64_t generation = 0;     // of the zygote process; pids of an earlier one are not its children
  std::string python_version, torch_version;

  Status start() {
    if (child && child->running() && lines) return ok();
    lines.reset();
    child.reset();
    base::SubprocessOptions spawn;
    spawn.argv = {options.python, "-I", options.runtime_dir + "/python/candidate_zygote.py", "--fd", "3"};
    if (options.dialect != "cuda") spawn.argv.insert(spawn.argv.end(), {"--dialect", options.dialect});
    if (!options.sandbox) spawn.argv.emplace_back("--no-sandbox");
    if (!options.torch_device.empty()) spawn.argv.insert(spawn.argv.end(), {"--torch-device", options.torch_device});
    if (!options.extra_path.empty()) spawn.argv.insert(spawn.argv.end(), {"--path", options.extra_path});
    spawn.env = base::clean_env();
    spawn.env.insert(spawn.env.end(), options.environment.begin(), options.environment.end());
    spawn.socket_at = 3;
    spawn.inherit_stderr = true;
    spawn.discard_output = true;
    MC_ASSIGN_OR_RETURN(base::Child started, base::Child::start(spawn));
    base::JsonLines channel(started.take_socket(), kZygoteBytes);
    Result<json> first = channel.read(Deadline::in(options.start_timeout_s));
    if (!first) return fail(Code::kUnavailable, "the candidate zygote ({}) did not start: {}", options.python, first.error().message);
    if (first->value("event", "") != "ready")
      return fail(Code::kUnavailable, "the candidate zygote ({}) cannot work here: {}", options.python, first->value("message", ""));
    python_version = first->value("python", "");
    torch_version = first->value("torch", "");
    child.emplace(std::move(started));
    lines.emplace(std::move(channel));
    ++generation;
    return ok();
  }

  // One request and its reply; a broken channel drops the process.
  Result<json> ask(const json& request, const std::vector<int>& fds, double timeout_s) {
    if (!lines) return fail(Code::kUnavailable, "the candidate zygote is gone");
    const Deadline deadline = Deadline::in(timeout_s);
    Result<json> reply = [&]() -> Result<json> {
      MC_RETURN_IF_ERROR(lines->write_line(as_line(request), deadline, fds));
      return lines->read(deadline);
    }();
    if (reply && reply->is_object()) return reply;
    lines.reset();
    child.reset();
    return fail(Code::kUnavailable, "the candidate zygote does not answer: {}", reply ? "not an object" : reply.error().message);
  }
};

ZygoteClient::ZygoteClient(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZygoteClient::~ZygoteClient() = default;

Result<std::unique_ptr<ZygoteClient>> ZygoteClient::start(const ZygoteOptions& options) {
  auto impl = std::make_shared<Impl>();
  impl->options = options;
  MC_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<ZygoteClient>(new ZygoteClient(std::move(impl)));
}

std::string ZygoteClient::python_version() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->python_version;
}

std::string ZygoteClient::torch_version() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->torch_version;
}

// ---- runner

struct RunnerClient::Impl {
  std::shared_ptr<ZygoteClient::Impl> zygote;
  std::uint64_t generation = 0;
  pid_t pid = -1;
  base::Fd pidfd;
  std::optional<base::JsonLines> lines;
  std::vector<std::string> sandbox;
  std::optional<RunnerExit> exit;
  pid_t device_server = -1;
  std::vector<pid_t> processes;      // whose waiting for a core is not the candidate's fault; found at the first call
  double starved_seconds = 0;

  static RunnerReply ended(ReplyKind kind, std::string detail, bool tampering = false) {
    RunnerReply reply;
    reply.kind = kind;
    reply.detail = std::move(detail);
    reply.tampering = tampering;
    return reply;
  }

  static RunnerReply from_error(const Error& error) {
    switch (error.code) {
      case Code::kDeadlineExceeded: return ended(ReplyKind::kTimedOut, "no answer within the time limit");
      case Code::kUnavailable: return ended(ReplyKind::kEnded, "the candidate's process is gone");
      case Code::kResourceExhausted: return ended(ReplyKind::kMalformed, "the candidate's process sent an endless line");
      default: return ended(ReplyKind::kMalformed, "the candidate's process sent something else than the protocol: " + error.message);
    }
  }

  // Something has come before anything was asked.
  std::optional<RunnerReply> unasked() {
    if (lines->has_line()) return ended(ReplyKind::kMalformed, "the candidate's process answered before it was asked", true);
    char byte = 0;
    const ssize_t n = ::recv(lines->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0) return ended(ReplyKind::kEnded, "the candidate's process is gone");
    if (n > 0) return ended(ReplyKind::kMalformed, "the candidate's process answered before it was asked", true);
    return std::nullopt;
  }

  // The next line, until the deadline and as much longer as the candidate waited for a core since `starved` began, at most
  // `grant` seconds of which what is used is taken away. Moves the deadline.
  Result<json> read_line(Deadline& deadline, const base::Starvation& starved, double& grant) {
    double granted = 0;
    for (;;) {
      Result<json> line = lines->read(deadline);
      if (line || line.error().code != Code::kDeadlineExceeded) return line;
      const double more = std::min(starved.seconds() - granted, grant);
      if (more < kLeastGrant) return line;
      granted += more, grant -= more, starved_seconds += more;
      deadline = Deadline::in(more);
    }
  }

  RunnerReply call(json request, const char* expected, const BuildCallback& build, Deadline deadline) {
    if (!lines) return ended(ReplyKind::kEnded, "the candidate's process has been stopped");
    if (auto reply = unasked()) return *reply;
    const std::string token = random_token();
    request["call"] = token;
    if (processes.empty()) {
      processes = base::process_tree(pid);
      processes.push_back(device_server);
    }
    base::Starvation starved(processes);
    double grant = deadline.is_never() ? 0 : kMostGrant * deadline.remaining();
    const base::Stopwatch since_sent;
    if (auto sent = lines->write_line(as_line(request), deadline); !sent) return from_error(sent.error());
    double build_seconds = 0;
    std::vector<std::string> refused, cpu_ops, languages;
    for (std::size_t builds = 0;;) {
      Result<json> line = read_line(deadline, starved, grant);
      if (!line) return from_error(line.error());
      if (!line->is_object()) return ended(ReplyKind::kMalformed, "the candidate's process sent JSON that is no object", true);
      Fields fields(*line);
      if (fields.text("call", 64) != token)
        return ended(ReplyKind::kMalformed, "the candidate's process sent an answer that belongs to no request", true);
      const std::string event = fields.text("event", 32);
      for (auto& [key, list] : {std::pair{"refused", &refused}, {"cpu_ops", &cpu_ops}, {"languages", &languages}})
        for (std::string& name : fields.names(key))
          if (list->size() < kMaxNames) list->push_back(std::move(name));
      if (event == "build" && build && builds++ < kMaxBuilds) {
        const base::Stopwatch watch;
        const double left = deadline.remaining();
        auto answer = answer_build(*line, build);
        build_seconds += watch.seconds();
        if (!deadline.is_never()) deadline = Deadline::in(left);
        starved = base::Starvation(processes);
        if (!answer) return ended(ReplyKind::kMalformed, "a malformed build request: " + answer.error().message, true);
        if (auto sent = lines->write_line(*answer, deadline); !sent) return from_error(sent.error());
        continue;
      }
      base::log_debug("candidate runner: {} after {:.1f} ms", event, since_sent.seconds() * 1e3);
      RunnerReply reply;
      reply.build_seconds = build_seconds;
      reply.outer_ms = (since_sent.seconds() - build_seconds) * 1e3;
      if (event == "exception") {
        reply.kind = ReplyKind::kException;
        read_exception(fields, reply);
      } else if (event == expected) {
        reply.kind = ReplyKind::kDone;
        if (event == "constructed") read_state(fields, reply);
        if (event == "parameters") read_parameters(fields, reply);
        if (event == "timed") {
          auto claims = line->find("claims"), ms = line->find("ms");
          fields.valid &= claims != line->end() && claims->is_array() && ms != line->end() && ms->is_array() && ms->size() == claims->size();
          for (std::size_t i = 0; fields.valid && i < ms->size(); ++i) {
            fields.valid = (*ms)[i].is_number() && std::isfinite((*ms)[i].get<double>()) && (*ms)[i].get<double>() >= 0;
            if (fields.valid) reply.ms.push_back((*ms)[i].get<double>());
          }
          auto first = line->find("first_ms");
          if (first != line->end() && first->is_number()) reply.first_ms = first->get<double>();
          reply.warm_calls = static_cast<int>(fields.integer("warm_calls", 0, 1 << 30));
          if (fields.valid) reply.outputs = std::make_shared<const json>(std::move(*claims));
        }
        if (event == "output") {
          auto it = line->find("outputs");
          fields.valid &= it != line->end() && it->is_object();
          if (fields.valid) reply.outputs = std::make_shared<const json>(std::move(*it));
        }
      } else {
        return ended(ReplyKind::kMalformed, fmt::format("the candidate's process sent the event '{}' where '{}' belongs", event, expected),
                     true);
      }
      if (!fields.valid) return ended(ReplyKind::kMalformed, fmt::format("the event '{}' has a field of a wrong type", event), true);
      reply.refused = std::move(refused);
      reply.cpu_ops = std::move(cpu_ops);
      reply.languages = std::move(languages);
      return reply;
    }
  }

  static Result<std::string> answer_build(const json& line, const BuildCallback& build) {
    auto extension = line.find("extension");
    auto id = line.find("id");
    if (extension == line.end() || !extension->is_object() || id == line.end() || !id->is_number_integer())
      return fail(Code::kInvalidArgument, "extension or id is missing");
    MC_ASSIGN_OR_RETURN(build::Extension parsed, build::extension_from_json(as_line(*extension)));
    const build::BuildResult built = build(parsed);
    json functions = json::array();
    if (parsed.functions)
      for (const auto& [name, doc] : *parsed.functions) functions.push_back(name);
    const std::string& log = built.log.empty() ? built.message : built.log;
    return as_line({{"op", "built"},
                    {"id", *id},
                    {"ok", built.ok},
                    {"path", built.ok ? json(built.artifact) : json(nullptr)},
                    {"functions", functions},
                    {"message", built.ok ? std::string() : log.substr(0, 256u << 10)}});
  }

  RunnerExit stop(double grace_s) {
    if (exit) return *exit;
    RunnerExit out;
    json reply;
    {
      std::lock_guard lock(zygote->mutex);
      if (zygote->generation == generation && zygote->lines) {
        // Asked twice at most: whether it ends by itself, then to kill.
        for (bool kill : {false, true}) {
          if (!kill && grace_s <= 0) continue;
          auto answer = zygote->ask({{"op", "wait"}, {"pid", pid}, {"kill", kill}, {"timeout_s", kill ? 0.0 : grace_s}}, {},
                                    kill ? 15 : grace_s + 10);
          if (!answer) break;
          reply = std::move(*answer);
          if (reply.value("exited", false)) break;
        }
      }
    }
    lines.reset();
    if (!reply.is_object() || !reply.value("exited", false)) {
      // The zygote cannot say: the descriptor of the process still can kill it.
      if (pidfd) ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
    } else {
      Fields fields(reply);
      out.known = true;
      out.signal = static_cast<int>(fields.integer("signal", 0, 64));
      out.code = out.signal ? -1 : static_cast<int>(fields.integer("code", -1, 255));
      out.limit = fields.text("limit", 32);
      out.max_rss_bytes = static_cast<std::uint64_t>(fields.integer("max_rss_bytes", 0, INT64_MAX));
      out.output = fields.text("output", 128u << 10);
    }
    exit = out;
    return out;
  }
};

RunnerClient::RunnerClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunnerClient::~RunnerClient() { impl_->stop(0); }

pid_t RunnerClient::pid() const { return impl_->pid; }

double RunnerClient::starved_seconds() const { return impl_->starved_seconds; }
const std::vector<std::string>& RunnerClient::sandbox() const { return impl_->sandbox; }
RunnerExit RunnerClient::stop() { return impl_->stop(0); }
RunnerExit RunnerClient::wait_then_stop(double grace_s) { return impl_->stop(grace_s); }
RunnerExit RunnerClient::end(double grace_s) {
  if (impl_->lines) static_cast<void>(impl_->lines->write_line(as_line({{"op", "exit"}}), Deadline::in(1)));
  return impl_->stop(grace_s);
}

RunnerReply RunnerClient::start(const Deadline& deadline) { return impl_->call({{"op", "start"}}, "started", {}, deadline); }

RunnerReply RunnerClient::load(const LoadRequest& request, const BuildCallback& build, const Deadline& deadline) {
  json message = {{"op", "load"}, {"filename", request.filename}};
  message["code"] = request.bare_cuda ? json(nullptr) : json(request.code);
  message["bare_cuda"] = request.bare_cuda ? json(*request.bare_cuda) : json(nullptr);
  return impl_->call(std::move(message), "loaded", build, deadline);
}

RunnerReply RunnerClient::construct(const json& init_args, const json& init_kwargs, std::uint64_t seed, const BuildCallback& build,
                                    const Deadline& deadline, const std::string& dtype) {
  json request = {{"op", "construct"}, {"init_args", init_args}, {"init_kwargs", init_kwargs}, {"seed", seed}};
  if (!dtype.empty()) request["dtype"] = dtype;
  return impl_->call(std::move(request), "constructed", build, deadline);
}

RunnerReply RunnerClient::parameters(const json& state, const Deadline& deadline) {
  return impl_->call({{"op", "parameters"}, {"state", state}}, "parameters", {}, deadline);
}

RunnerReply RunnerClient::prepare(const Deadline& deadline) { return impl_->call({{"op", "prepare"}}, "prepared", {}, deadline); }

RunnerReply RunnerClient::forward(int trial, std::uint64_t seed, const json& inputs, const BuildCallback& build,
                                  const Deadline& deadline, const json* extra) {
  json request = {{"op", "forward"}, {"trial", trial}, {"seed", seed}, {"inputs", inputs}};
  if (extra) request.update(*extra);
  return impl_->call(std::move(request), "output", build, deadline);
}

RunnerReply RunnerClient::timed(const json& request, const Deadline& deadline) {
  json message = request;
  message["op"] = "timed";
  return impl_->call(std::move(message), "timed", {}, deadline);
}

Result<std::unique_ptr<RunnerClient>> ZygoteClient::spawn(const SpawnOptions& options, int device_fd) {
  // What does not exist yet would stay out of the candidate's sight for good.
  for (const std::string& path : options.readable)
    if (!base::exists(path)) MC_RETURN_IF_ERROR(base::make_dirs(path));
  MC_ASSIGN_OR_RETURN(auto pair, base::socket_pair());
  auto runner = std::make_unique<RunnerClient::Impl>();
  const json request = {{"op", "spawn"},
                        {"limits",
                         {{"cpu_s", options.cpu_s},
                          {"wall_s", options.wall_s},
                          {"memory_bytes", options.memory_bytes},
                          {"processes", options.processes},
                          {"bound_addresses", options.bound_addresses},
                          {"file_bytes", options.file_bytes}}},
                        {"policy", options.policy},
                        {"writable", options.writable},
                        {"readable", options.readable},
                        {"devices", options.devices},
                        {"environment", options.environment},
                        {"under", options.under},
                        {"gpu", options.gpu}};
  json reply;
  {
    std::lock_guard lock(impl_->mutex);
    MC_RETURN_IF_ERROR(impl_->start());
    Result<json> answer = impl_->ask(request, {pair.second.get(), device_fd}, 30);
    if (!answer) {   // it died between two candidates: once more with a fresh one
      MC_RETURN_IF_ERROR(impl_->start());
      answer = impl_->ask(request, {pair.second.get(), device_fd}, 30);
    }
    if (!answer) return tl::unexpected<Error>(answer.error());
    reply = std::move(*answer);
    runner->generation = impl_->generation;
  }
  if (!reply.value("ok", false))
    return fail(Code::kInternal, "a candidate's process could not be started: {}", reply.value("message", "no reason given"));
  runner->zygote = impl_;
  runner->pid = reply.value("pid", -1);
  runner->device_server = options.device_server;
  runner->pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, runner->pid, 0)));
  runner->lines.emplace(std::move(pair.first), kReplyBytes);
  for (const json& name : reply.value("sandbox", json::array()))
    if (name.is_string()) runner->sandbox.push_back(name.get<std::string>());
  return std::unique_ptr<RunnerClient>(new RunnerClient(std::move(runner)));
}

}  // namespace musacoder::judge
