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
#include "cli/stop_signal.h"
#include "service/http_source.h"
#include "service/log.h"
#include "service/worker.h"

namespace musacoder::cli {
namespace {

using base::LogLevel;
using service::log_event;

Result<std::string> token_of(const WorkerOptions& options) {
  if (options.token_file.empty()) {
    const char* value = std::getenv("MUSACODER_TOKEN");
    return std::string(value ? value : "");
  }
  MC_ASSIGN_OR_RETURN(std::string text, base::read_file(options.token_file, 4096));
  return text.substr(0, text.find_first_of("\r\n"));
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
  if (options.queue.rfind("http", 0) == 0) {
    auto token = token_of(options);
    if (!token) return refuse(token.error());
    auto made =
        service::make_http_source({.url = options.queue, .token = *token, .ca_file = options.ca_file});
    if (!made) return refuse(made.error());
    source = std::move(*made);
  } else {
    if (options.queue == "memory")
      return refuse({Code::kInvalidArgument,
                     "a memory queue lives in its server; give sqlite:PATH or http://HOST:PORT"});
    auto opened = service::open_queue(options.queue, {});
    if (!opened) return refuse(opened.error());
    queue = std::move(*opened);
  }
  auto scratch = own_scratch();
  if (!scratch) return refuse(scratch.error());
  StopSignal stop;
  service::JudgeExecutors executors(*judge);
  if (auto ready = executors.prepare(); !ready) return refuse(ready.error());
  const int lanes =
      options.lanes > 0 ? options.lanes : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  service::WorkerPool pool(
      source ? *source : *queue, [&](int lane) { return executors.make(lane); },
      {.lanes = lanes, .visibility_s = options.visibility_s, .name_prefix = options.name});
  pool.start();
  fmt::print("working for {} with {} lanes\n", options.queue, lanes);
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
