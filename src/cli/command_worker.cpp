// `musacoder worker`: lanes that take their jobs from a queue's file or from a service over HTTP.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "base/files.h"
#include "cli/commands.h"
#include "cli/judge_config.h"
#include "cli/scratch.h"
#include "base/stop_signal.h"
#include "service/artifacts.h"
#include "service/http_source.h"
#include "base/event_log.h"
#include "service/worker.h"

namespace musacoder::cli {
namespace {

using base::LogLevel;
using base::log_event;

Result<std::string> token_of(const WorkerOptions& options) {
  if (options.token_file.empty()) {
    const char* value = std::getenv("MUSACODER_TOKEN");
    return std::string(value ? value : "");
  }
  MC_ASSIGN_OR_RETURN(std::string text, base::read_file(options.token_file, 4096));
  return text.substr(0, text.find_first_of("\r\n"));
}

// Without a password.
std::string shown(const std::string& queue) {
  const auto at = queue.rfind('@'), scheme = queue.find("://");
  return at == std::string::npos || scheme == std::string::npos
             ? queue
             : queue.substr(0, scheme + 3) + queue.substr(at + 1);
}

int refuse(const Error& error) {
  fmt::print(stderr, "musacoder worker: {}\n", error.message);
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound ? 2 : 3;
}

}  // namespace

int run_worker(const WorkerOptions& options) {
  if (base::log_level() < LogLevel::kInfo && !std::getenv("MUSACODER_LOG"))
    base::set_log_level(LogLevel::kInfo);
  auto judge = judge_config(options.judge);
  if (!judge) return refuse(judge.error());
  std::unique_ptr<service::WorkSource> source;
  std::unique_ptr<service::JobQueue> queue;
  const auto role = service::role_from_name(options.role);
  if (!role) return refuse({Code::kInvalidArgument, "the role is both, compile or execute"});
  if (!options.gpu_arch.empty() && *role != service::WorkerRole::kCompile)
    return refuse({Code::kInvalidArgument, "--gpu-arch goes with --role compile: other workers build for the GPU that they have"});
  judge->also_gpu_arch = options.gpu_arch;
  const bool by_http = options.queue.rfind("http", 0) == 0;
  service::HttpSourceConfig http{.url = options.queue, .ca_file = options.ca_file};
  if (by_http || options.artifacts.rfind("http", 0) == 0) {
    auto token = token_of(options);
    if (!token) return refuse(token.error());
    http.token = *token;
  }
  std::string artifacts = options.artifacts;
  if (artifacts.empty() && *role != service::WorkerRole::kBoth && options.queue.rfind("sqlite:", 0) != 0)
    artifacts = options.queue;
  if (!artifacts.empty()) {
    auto store = service::open_artifact_store(artifacts, http);
    if (!store) return refuse(store.error());
    judge->artifacts = std::move(*store);
  }
  if (by_http) {
    auto made = service::make_http_source(http);
    if (!made) return refuse(made.error());
    source = std::move(*made);
  } else {
    if (options.queue == "memory")
      return refuse(
          {Code::kInvalidArgument,
           "a memory queue lives in its server; give sqlite:PATH, nats://HOST:PORT or http://HOST:PORT"});
    auto opened = service::open_queue(options.queue, {});
    if (!opened) return refuse(opened.error());
    queue = std::move(*opened);
  }
  auto scratch = own_scratch();
  if (!scratch) return refuse(scratch.error());
  base::StopSignal stop;
  service::JudgeExecutors executors(*judge);
  if (auto ready = executors.prepare(); !ready) return refuse(ready.error());
  const int lanes =
      options.lanes > 0 ? options.lanes : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  service::WorkerPool pool(
      source ? *source : *queue, [&](int lane) { return executors.make(lane); },
      {.lanes = lanes, .visibility_s = options.visibility_s, .name_prefix = options.name, .role = *role});
  pool.start();
  fmt::print("working for {} with {} lanes{}\n", shown(options.queue), lanes,
             *role == service::WorkerRole::kBoth ? "" : fmt::format(", role {}", options.role));
  std::fflush(stdout);
  stop.wait();
  log_event(LogLevel::kInfo, "draining", {{"seconds", options.drain_s}});
  std::atomic<bool> drained{false};
  std::thread drainer([&] {
    pool.drain(options.drain_s);
    drained = true;
  });
  while (!drained)
    if (stop.wait(0.1)) pool.hurry();
  drainer.join();
  return 0;
}

}  // namespace musacoder::cli
