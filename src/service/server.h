// The routes of service/router.h on a network: net/server.h with this service's errors, waits, event streams
// and WebSockets.
//
//   Server server(router, {.listen = {"127.0.0.1:8811"}});
//   MC_RETURN_IF_ERROR(server.start());
//   ... server.stop(2.0);
#pragma once

#include <memory>

#include "net/server.h"
#include "service/router.h"

namespace musacoder::service {

using net::Endpoint;
using net::is_loopback;
using net::parse_endpoint;
using net::ServerConfig;

// A route's reply with what it waits for as net/http_types.h has it.
net::Reply to_net(Service& service, Reply reply);

class Server {
 public:
  Server(Router& router, ServerConfig config);
  ~Server();
  Status start();
  std::vector<std::string> addresses() const;
  void stop(double grace_s);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::service
