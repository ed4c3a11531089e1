// The routes of docs/service.md as functions from request to reply; no sockets. service/server.h gives them a
// network.
//
//   Router router(service);
//   Reply reply = router.handle(request);     // may block for milliseconds (SQLite): call it on a worker
//   thread if (reply.wait) ...                       // wait for the jobs, then reply.wait->then(all_ended)
//
// Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "service/http_types.h"
#include "service/requests.h"
#include "service/service.h"

namespace musacoder::service {

// `rest` is what stands in the place of "{rest}" at the end of the pattern.
using Handler =
    std::function<ApiResult<Reply>(const Request& request, const Token& token, const std::string& rest)>;

struct Route {
  std::string method,
      pattern;  // "/v1/jobs/{rest}/events": {rest} may be anywhere and holds '/' only at the end
  Handler handler;
  bool open = false;         // no token needed
  bool worker_only = false;  // role worker or admin
};

class Router {
 public:
  explicit Router(Service& service);
  ~Router();
  // What can be said from the header alone: unknown route, method, token, host, origin. Before the body is
  // read.
  std::optional<Reply> refuse_early(const Request& request);
  Reply handle(const Request& request);
  Service& service() { return service_; }
  // Pattern of the route, for metrics; "other" when there is none.
  std::string pattern_of(const Request& request) const;
  // All patterns, each once.
  std::vector<std::string> patterns() const;

  // One message of an OpenEnv WebSocket; `episode` is the connection's, updated by reset.
  Reply open_env_message(const std::string& text, const Token& token, std::string& episode);

 private:
  friend class TrainerRoutes;
  const Route* match(const Request& request, std::string* rest, std::string* allow) const;
  void add_core();
  Service& service_;
  std::vector<Route> routes_;
  std::unique_ptr<class TrainerRoutes> trainers_;
};

JobContext context_of(Service& service, const Token& token);

}  // namespace musacoder::service
