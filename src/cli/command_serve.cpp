// `musacoder serve`: tokens, queue, store, lanes and the server put together; runs until a signal, then
// drains.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/files.h"
#include "cli/commands.h"
#include "cli/judge_config.h"
#include "cli/scratch.h"
#include "base/stop_signal.h"
#include "base/event_log.h"
#include "service/router.h"
#include "service/server.h"

namespace musacoder::cli {
namespace {

using base::LogLevel;
using base::log_event;

int usage(const std::string& message) {
  fmt::print(stderr, "musacoder serve: {}\n", message);
  return 2;
}

int code_of(const Error& error) {
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound ? 2 : 3;
}

int refuse(const Error& error) {
  fmt::print(stderr, "musacoder serve: {}\n", error.message);
  return code_of(error);
}

}  // namespace

int run_serve(const ServeOptions& options) {
  if (base::log_level() < LogLevel::kInfo && !std::getenv("MUSACODER_LOG"))
    base::set_log_level(LogLevel::kInfo);
  service::ServiceConfig config;
  for (const auto& text : options.listen) {
    auto endpoint = service::parse_endpoint(text);
    if (!endpoint) return usage(endpoint.error().message);
    if (!service::is_loopback(*endpoint) && options.token_file.empty())
      return usage(fmt::format(
          "{} can be reached from other machines: give --token-file (docs/service.md, Tokens)", text));
    if (!service::is_loopback(*endpoint) && options.tls_cert.empty())
      log_event(
          LogLevel::kWarning, "no_tls",
          {{"listen", text},
           {"advice",
            std::string(
                "tokens travel in the clear; give --tls-cert and --tls-key, or keep the network private")}});
  }
  if (!options.token_file.empty()) {
    auto tokens = service::TokenSet::load(options.token_file);
    if (!tokens) return usage(tokens.error().message);
    config.tokens = std::move(*tokens);
  }
  if (!options.tasks.empty()) {
    auto tasks = task::TaskSet::load(options.tasks);
    if (!tasks) return usage(tasks.error().message);
    config.tasks = std::move(*tasks);
  }
  auto judge = judge_config(options.judge);
  if (!judge) return usage(judge.error().message);
  config.policy = options.judge.policy;
  config.max_queued = options.max_queued;
  config.keep_days = options.keep_days;
  if (const std::string page = judge->runtime_dir + "/dashboard/index.html"; base::exists(page))
    config.dashboard = page;
  config.artifacts = build::make_folder_store(options.artifacts.empty() ? judge->cache_dir + "/artifacts"
                                                                        : options.artifacts);

  service::QueueConfig queue_config;
  queue_config.max_queued = options.max_queued;
  queue_config.retry.max_faults = options.max_faults;
  queue_config.retry.poison_deaths = options.max_deaths;
  auto queue = service::open_queue(options.queue, queue_config);
  if (!queue) return refuse(queue.error());
  std::unique_ptr<store::Store> store;
  if (!options.store.empty()) {
    auto opened = store::Store::open(options.store);
    if (!opened) return refuse(opened.error());
    store = std::move(*opened);
  }

  auto scratch = own_scratch();
  if (!scratch) return refuse(scratch.error());
  base::StopSignal stop;
  service::Service service(std::move(config), **queue, store.get());
  service::Router router(service);
  service::ServerConfig server_config{.listen = options.listen,
                                      .tls_cert = options.tls_cert,
                                      .tls_key = options.tls_key,
                                      .max_body_bytes = options.max_body_mib << 20,
                                      .body_s = options.body_s,
                                      .max_connections = options.max_connections};
  service::Server server(router, server_config);
  service::JudgeExecutors executors(*judge);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int lanes = options.lanes < 0 ? 0 : options.lanes == 0 ? cores : options.lanes;
  service::WorkerPool pool(service.local_source(), [&](int lane) { return executors.make(lane); },
                           {.lanes = lanes, .visibility_s = options.visibility_s});
  service.attach(&pool);
  service.start();
  if (auto started = server.start(); !started) {
    service.stop();
    return refuse(started.error());
  }
  for (const auto& address : server.addresses()) {
    fmt::print("listening on {}://{}\n", options.tls_cert.empty() ? "http" : "https", address);
    log_event(LogLevel::kInfo, "listening",
              {{"address", address},
               {"lanes", std::int64_t{lanes}},
               {"queue", options.queue.substr(0, options.queue.find("://"))}});
  }
  std::fflush(stdout);
  int code = 0;
  bool told = false;
  if (lanes > 0) {
    // On this thread: the processes that lanes share live as long as the thread that started them.
    if (auto ready = executors.prepare(); !ready) {
      log_event(LogLevel::kError, "no_lanes", {{"error", ready.error().message}});
      fmt::print(stderr, "musacoder serve: {}\n", ready.error().message);
      code = 3;
    }
  }
  if (code == 0) {
    pool.start();
    told = stop.wait();
  }
  log_event(LogLevel::kInfo, "draining", {{"signal", told}, {"seconds", options.drain_s}});
  service.set_draining();
  // A second signal ends the wait for running jobs.
  std::atomic<bool> drained{false};
  int given_back = 0;
  std::thread drainer([&] {
    given_back = pool.drain(options.drain_s);
    drained = true;
  });
  while (!drained)
    if (stop.wait(0.1)) pool.hurry();
  drainer.join();
  server.stop(3);
  service.stop();
  log_event(LogLevel::kInfo, "stopped", {{"given_back", std::int64_t{given_back}}});
  return code;
}

}  // namespace musacoder::cli
