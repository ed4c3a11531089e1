#include "train/serve.h"

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/event_log.h"
#include "base/files.h"
#include "base/stop_signal.h"

namespace musacoder::train {
namespace {

using base::LogLevel;

Status check(ServeModelOptions& options) {
  if (!options.token_file.empty()) {
    MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(options.token_file, 4096));
    options.config.token = text.substr(0, text.find_first_of("\r\n"));
    if (options.config.token.size() < 16)
      return fail(Code::kInvalidArgument, "{}: a token has at least 16 characters", options.token_file);
  }
  for (const std::string& text : options.listen) {
    MC_ASSIGN_OR_RETURN(const net::Endpoint endpoint, net::parse_endpoint(text));
    if (net::is_loopback(endpoint)) continue;
    if (options.config.token.empty())
      return fail(Code::kInvalidArgument, "{} can be reached from other machines: give --token-file", text);
    if (options.tls_cert.empty())
      base::log_event(LogLevel::kWarning, "no_tls",
                      {{"listen", text},
                       {"advice", std::string("the token travels in the clear; give --tls-cert and "
                                              "--tls-key, or keep the network private")}});
  }
  if (options.config.name.empty()) {
    const std::filesystem::path path = std::filesystem::absolute(options.config.model).lexically_normal();
    options.config.name =
        path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
  }
  return ok();
}

}  // namespace

Status run_serve_model(ServeModelOptions options) {
  if (base::log_level() < LogLevel::kInfo && !std::getenv("MUSACODER_LOG"))
    base::set_log_level(LogLevel::kInfo);
  MC_RETURN_IF_ERROR(check(options));
  base::StopSignal stop;
  MC_ASSIGN_OR_RETURN(auto engine, llm::Engine::open(options.config.model, options.config.engine));
  MC_ASSIGN_OR_RETURN(auto handler, llm::ModelServer::create(std::move(engine), options.config));
  net::Server server(*handler, {.listen = options.listen,
                                .tls_cert = options.tls_cert,
                                .tls_key = options.tls_key,
                                .max_body_bytes = options.max_body_mib << 20,
                                .max_connections = options.max_connections});
  MC_RETURN_IF_ERROR(server.start());
  for (const std::string& address : server.addresses()) {
    fmt::print("listening on {}://{}\n", options.tls_cert.empty() ? "http" : "https", address);
    base::log_event(LogLevel::kInfo, "listening", {{"address", address}, {"model", options.config.name}});
  }
  std::fflush(stdout);
  while (!stop.wait(0.2) && !handler->failed()) {
  }
  const bool failed = handler->failed();
  base::log_event(LogLevel::kInfo, "draining", {{"failed", failed}, {"seconds", options.drain_s}});
  handler->set_draining();
  std::atomic<bool> stopped{false};
  std::thread closer([&] {
    server.stop(failed ? 1 : options.drain_s);
    stopped = true;
  });
  while (!stopped)
    if (stop.wait(0.1)) server.hurry();
  closer.join();
  base::log_event(LogLevel::kInfo, "stopped", {});
  return failed ? Status(fail(Code::kInternal, "the engine failed; see the log")) : ok();
}

}  // namespace musacoder::train
