// HTTP/1.1 and WebSocket for the routes of service/router.h (Boost.Beast), optionally over TLS.
//
//   Server server(router, {.listen = {"127.0.0.1:8811"}});
//   MC_RETURN_IF_ERROR(server.start());
//   ... server.stop(2.0);                   // lets replies under way go out, then closes what is left
//
// Every limit is here: sizes of headers and bodies, time for a header, a body and a write, connections. A
// peer that exceeds one is answered where that is possible (408, 413, 431, 503) and closed. Routes run on a
// pool of threads of their own, so that a slow disk does not stop the network.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::service {

class Router;

struct ServerConfig {
  std::vector<std::string> listen = {"127.0.0.1:8811"};  // HOST:PORT, [V6]:PORT; port 0: any free one
  std::string tls_cert, tls_key;                         // PEM files; both or none
  std::size_t max_body_bytes = 8u << 20, max_header_bytes = 16u << 10;
  double header_s = 10, body_s = 30, idle_s = 75, write_s = 60;
  std::size_t max_connections = 2000;
  int threads = 2, handler_threads = 4;
};

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
};
// "127.0.0.1:8811", "[::1]:0", "0.0.0.0:80". Errors: kInvalidArgument.
Result<Endpoint> parse_endpoint(const std::string& text);
// 127.0.0.0/8, ::1 and "localhost".
bool is_loopback(const Endpoint& endpoint);

class Server {
 public:
  Server(Router& router, ServerConfig config);
  ~Server();
  // Binds and begins to serve. Errors: kUnavailable (address in use), kInvalidArgument (address,
  // certificate).
  Status start();
  // Addresses bound, with the ports that were taken for port 0.
  std::vector<std::string> addresses() const;
  void stop(double grace_s);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::service
