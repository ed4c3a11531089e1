#include "net/server.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <thread>

#include "base/event_log.h"
#include "base/random.h"
#include "net/session.h"

namespace musacoder::net {

using base::LogLevel;

void ServerState::add_hook(const Hook& hook) {
  std::lock_guard lock(hooks_mutex_);
  if (hooks_.size() > 256 && hooks_.size() > 2 * connections)
    hooks_.erase(
        std::remove_if(hooks_.begin(), hooks_.end(), [](const auto& weak) { return weak.expired(); }),
        hooks_.end());
  hooks_.push_back(hook);
}

void ServerState::run_hooks() {
  std::vector<Hook> hooks;
  {
    std::lock_guard lock(hooks_mutex_);
    for (const auto& weak : hooks_)
      if (auto hook = weak.lock()) hooks.push_back(std::move(hook));
  }
  for (const auto& hook : hooks) (*hook)();
}

std::string ServerState::next_request_id() {
  static const std::string prefix = base::random_id("r-").substr(0, 10);
  return fmt::format("{}-{}", prefix, ++request_number);
}

Result<Endpoint> parse_endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos)
    return fail(Code::kInvalidArgument, "'{}' is no address; give HOST:PORT, e.g. 127.0.0.1:8811", text);
  Endpoint endpoint;
  endpoint.host = text.substr(0, colon);
  if (endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']')
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  if (endpoint.host == "localhost") endpoint.host = "127.0.0.1";
  const auto parsed = std::from_chars(text.data() + colon + 1, text.data() + text.size(), endpoint.port);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || colon + 1 == text.size())
    return fail(Code::kInvalidArgument, "'{}' has no port from 0 to 65535", text);
  boost::system::error_code error;
  asio::ip::make_address(endpoint.host, error);
  if (error)
    return fail(Code::kInvalidArgument, "'{}' is no IP address; give e.g. 127.0.0.1:8811 or [::]:8811",
                endpoint.host);
  return endpoint;
}

bool is_loopback(const Endpoint& endpoint) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(endpoint.host, error);
  return !error && address.is_loopback();
}

struct Server::Impl {
  Impl(Handler& handler, ServerConfig c)
      : config(std::move(c)), state(std::make_shared<ServerState>(handler, config)) {}
  ServerConfig config;
  std::shared_ptr<ServerState> state;
  std::vector<std::unique_ptr<Tcp::acceptor>> acceptors;
  std::shared_ptr<asio::ssl::context> tls;
  std::vector<std::thread> threads;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> guard;
  bool running = false;
  std::atomic<bool> hurried{false};

  asio::awaitable<void> accept(Tcp::acceptor& acceptor) {
    asio::steady_timer pause(state->io);
    while (!state->stopping) {
      Tcp::socket socket(asio::make_strand(state->io));
      auto [error] = co_await acceptor.async_accept(socket, asio::as_tuple(asio::use_awaitable));
      if (state->stopping) co_return;
      if (error) {  // out of descriptors, or a peer that was gone again
        log_event(LogLevel::kWarning, "accept_failed", {{"error", error.message()}});
        pause.expires_after(std::chrono::milliseconds(50));
        [[maybe_unused]] auto [waited] = co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
        continue;
      }
      boost::system::error_code ignored;
      socket.set_option(Tcp::no_delay(true), ignored);
      socket.set_option(asio::socket_base::keep_alive(true), ignored);
      const auto remote = socket.remote_endpoint(ignored);
      std::string peer = ignored ? "?" : fmt::format("{}:{}", remote.address().to_string(), remote.port());
      if (state->connections >= config.max_connections) {
        state->handler.metrics().count_refusal("connections");
        // One small write that fits the socket's buffer; TLS peers see a closed connection.
        if (!tls) {
          ApiError error = api_error(503, "too many connections").value();
          error.code = "RESOURCE_EXHAUSTED";
          error.retry_after_s = 2;
          const Reply reply = state->handler.error_reply(error, "");
          const std::string busy = fmt::format(
              "HTTP/1.1 503 Service Unavailable\r\nContent-Type: {}\r\nRetry-After: 2\r\nConnection: "
              "close\r\nContent-Length: {}\r\n\r\n{}",
              reply.type, reply.body.size(), reply.body);
          socket.non_blocking(true, ignored);
          socket.write_some(asio::buffer(busy), ignored);
        }
        socket.close(ignored);
        continue;
      }
      if (tls)
        serve_tls(state, std::move(socket), std::move(peer), tls);
      else
        serve_plain(state, std::move(socket), std::move(peer));
    }
  }
};

Server::Server(Handler& handler, ServerConfig config)
    : impl_(std::make_unique<Impl>(handler, std::move(config))) {}
Server::~Server() { stop(0); }

Status Server::start() {
  Impl& impl = *impl_;
  const ServerConfig& config = impl.config;
  if (config.tls_cert.empty() != config.tls_key.empty())
    return fail(Code::kInvalidArgument, "TLS wants both a certificate and a key");
  if (!config.tls_cert.empty()) {
    impl.tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    impl.tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                          asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                          asio::ssl::context::no_tlsv1_1);
    boost::system::error_code error;
    impl.tls->use_certificate_chain_file(config.tls_cert, error);
    if (error)
      return fail(Code::kInvalidArgument, "cannot use the certificate {}: {}", config.tls_cert,
                  error.message());
    impl.tls->use_private_key_file(config.tls_key, asio::ssl::context::pem, error);
    if (error)
      return fail(Code::kInvalidArgument, "cannot use the key {}: {}", config.tls_key, error.message());
  }
  for (const auto& text : config.listen) {
    MC_ASSIGN_OR_RETURN(const Endpoint endpoint, parse_endpoint(text));
    auto acceptor = std::make_unique<Tcp::acceptor>(impl.state->io);
    boost::system::error_code error;
    const Tcp::endpoint address(asio::ip::make_address(endpoint.host), endpoint.port);
    acceptor->open(address.protocol(), error);
    if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
    if (!error && address.address().is_v6()) acceptor->set_option(asio::ip::v6_only(true), error);
    if (!error) acceptor->bind(address, error);
    if (!error) acceptor->listen(1024, error);
    if (error) return fail(Code::kUnavailable, "cannot listen on {}: {}", text, error.message());
    impl.acceptors.push_back(std::move(acceptor));
  }
  for (auto& acceptor : impl.acceptors)
    asio::co_spawn(impl.state->io, impl.accept(*acceptor), asio::detached);
  impl.guard.emplace(impl.state->io.get_executor());
  for (int i = 0; i < config.threads; ++i)
    impl.threads.emplace_back([state = impl.state] {
      for (;;) try {
          state->io.run();
          return;
        } catch (const std::exception& error) {
          log_event(LogLevel::kError, "connection_failed", {{"error", std::string(error.what())}});
        }
    });
  impl.running = true;
  return ok();
}

std::vector<std::string> Server::addresses() const {
  std::vector<std::string> found;
  for (const auto& acceptor : impl_->acceptors) {
    boost::system::error_code ignored;
    const auto local = acceptor->local_endpoint(ignored);
    const std::string host = local.address().to_string();
    found.push_back(fmt::format("{}:{}", local.address().is_v6() ? "[" + host + "]" : host, local.port()));
  }
  return found;
}

void Server::hurry() { impl_->hurried = true; }

void Server::stop(double grace_s) {
  Impl& impl = *impl_;
  if (!impl.running) return;
  impl.running = false;
  const base::Deadline deadline = base::Deadline::in(grace_s);
  while (impl.state->active > 0 && !deadline.expired() && !impl.hurried)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  impl.state->stopping = true;
  asio::post(impl.state->io, [&impl] {
    boost::system::error_code ignored;
    for (auto& acceptor : impl.acceptors) acceptor->close(ignored);
  });
  impl.state->run_hooks();
  impl.guard.reset();
  // Connections end by themselves now; a peer that does not read is not waited for.
  const base::Deadline patience = base::Deadline::in(std::min(3.0, grace_s));
  while (impl.state->connections > 0 && !patience.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  impl.state->io.stop();
  for (auto& thread : impl.threads) thread.join();
  impl.threads.clear();
  impl.state->pool.join();
}

}  // namespace musacoder::net
