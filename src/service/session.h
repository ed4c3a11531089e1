// One connection: a coroutine on a strand, as a template over plain and TLS sockets. Private to the server;
// included by session_plain.cpp and session_tls.cpp only, which instantiate it once each.
#pragma once

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "service/router.h"
#include "service/server.h"

namespace musacoder::service {

namespace net = boost::asio;
using Tcp = net::ip::tcp;

// What connections share.
struct ServerState {
  ServerState(Router& r, const ServerConfig& c)
      : router(r), config(c), pool(static_cast<std::size_t>(c.handler_threads)) {}
  Router& router;
  const ServerConfig& config;
  net::io_context io;
  net::thread_pool pool;  // where routes run
  std::atomic<std::size_t> connections{0}, websockets{0}, active{0}, request_number{0};
  std::atomic<bool> stopping{false};

  // Called on shutdown, once each, to end connections that would wait for ever.
  using Hook = std::shared_ptr<std::function<void()>>;
  void add_hook(const Hook& hook);
  void run_hooks();
  std::string next_request_id();

 private:
  std::mutex hooks_mutex_;
  std::vector<std::weak_ptr<std::function<void()>>> hooks_;
};

void serve_plain(std::shared_ptr<ServerState> state, Tcp::socket socket, std::string peer);
void serve_tls(std::shared_ptr<ServerState> state, Tcp::socket socket, std::string peer,
               std::shared_ptr<net::ssl::context> context);

}  // namespace musacoder::service
