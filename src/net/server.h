// HTTP/1.1 for whatever handles requests (Boost.Beast), optionally over TLS; WebSockets for handlers that
// take them.
//
//   class Hello : public Handler { Reply handle(const Request& request) override { … } … };
//   Server server(hello, {.listen = {"127.0.0.1:8811"}});
//   MC_RETURN_IF_ERROR(server.start());
//   ... server.stop(2.0);                   // lets replies under way go out, then closes what is left
//
// Every limit is here: sizes of headers and bodies, time for a header, a body and a write, connections. A
// peer that exceeds one is answered where that is possible (408, 413, 431, 503) and closed. Handlers run on a
// pool of threads of their own, so that a slow disk does not stop the network.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/http_types.h"
#include "net/metrics.h"

namespace musacoder::net {

class Upgrader;  // net/session.h

// Any number of threads at a time.
class Handler {
 public:
  virtual ~Handler() = default;
  // What can be said from the header alone (route, method, token, host, origin), before the body is read.
  virtual std::optional<Reply> refuse_early(const Request& request) = 0;
  // On a pool thread; may block for milliseconds, longer waits are a reply's `pending`.
  virtual Reply handle(const Request& request) = 0;
  // An error in this API's form.
  virtual Reply error_reply(const ApiError& error, const std::string& request_id) const = 0;
  // The request's route as metrics name it: one of a bounded number of names.
  virtual std::string pattern_of(const Request& request) const = 0;
  virtual HttpMetrics& metrics() = 0;
  // Who takes a WebSocket handshake over; nullptr: it is answered as any other request.
  virtual Upgrader* upgrader(const Request&) { return nullptr; }
};

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
  Server(Handler& handler, ServerConfig config);
  ~Server();
  // Binds and begins to serve. Errors: kUnavailable (address in use), kInvalidArgument (address,
  // certificate).
  Status start();
  // Addresses bound, with the ports that were taken for port 0.
  std::vector<std::string> addresses() const;
  void stop(double grace_s);
  // From another thread: stop() waits no longer.
  void hurry();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::net
