// What the routes see of HTTP: plain requests and replies, without sockets, so that every route is tested as
// a function.
//
//   MC_API_ASSIGN(Request request, make_request("GET", "/v1/jobs/j-1?wait=5", headers, body));
//   request.path == "/v1/jobs/j-1"; request.query("wait") == "5";
//
// Targets are hostile: percent-encoding is decoded once and strictly, control characters, backslashes, empty
// and dot segments are refused, so that no route ever sees a path that could climb. Pure functions, thread
// safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "base/status.h"

namespace musacoder::net {

// An error before it has a client's form: each server writes it in its API's own (Handler::error_reply).
struct ApiError {
  int status = 500;
  std::string code = "INTERNAL", message, field;
  double retry_after_s = 0;  // 0: none
  std::optional<std::size_t> queue_depth;
};
template <typename T>
using ApiResult = tl::expected<T, ApiError>;

tl::unexpected<ApiError> api_error(int status, std::string message, std::string field = "");
// "NOT_FOUND" of 404.
const char* api_code(int status);
// 404 of kNotFound, 503 of kUnavailable and kResourceExhausted, 500 of kInternal; kInvalidArgument is 422.
ApiError api_error_of(const Error& error);

struct Request {
  std::string method, path, body, id, peer, authorization, content_type, idempotency_key, host, origin;
  std::vector<std::pair<std::string, std::string>> query_items;
  bool upgrade = false;  // a WebSocket handshake
  // The first value, or "".
  std::string query(std::string_view name) const;
  bool has_query(std::string_view name) const;
};

// Fills path and query_items. Errors: 400.
ApiResult<Request> parse_target(std::string_view target);
// "%41b" → "Ab", strictly: nullopt for a broken escape or a control character.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);

// A number of the query within [low, high]; `otherwise` when absent. Errors: 400 with the name.
ApiResult<double> query_number(const Request& request, const char* name, double otherwise, double low,
                               double high);
ApiResult<std::size_t> query_count(const Request& request, const char* name, std::size_t otherwise,
                                   std::size_t low, std::size_t high);

struct Reply;

// What a reply waits for. Destroyed when it is answered, and when the peer has gone: then nobody wants it any
// more.
class Pending {
 public:
  virtual ~Pending() = default;
  // Called once, before poll(); `wake` may be called from any thread, as long as this object lives.
  virtual void watch(std::function<void()> wake) = 0;
  // On a pool thread, after each wake() and once a second. The reply, or nullopt: not yet. `over`: the time
  // is, or the server stops; then there must be a reply.
  virtual std::optional<Reply> poll(bool over) = 0;
  double seconds = 0;  // for which it is waited
};

// Server-sent events as they come; the whole text of each, "data: …\n\n". Destroyed as Pending is.
class EventSource {
 public:
  struct Piece {
    std::string text;  // empty: nothing new
    bool ended = false;
  };
  virtual ~EventSource() = default;
  virtual void watch(std::function<void()> wake) = 0;
  virtual Piece next() = 0;
};

struct Reply {
  int status = 200;
  std::string body, type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::shared_ptr<Pending> pending;     // set: the rest is not used, poll() gives the reply
  std::shared_ptr<EventSource> events;  // set: 200 and a stream of events
};

Reply json_reply(int status, std::string body);

// The token of "Authorization: Bearer TOKEN"; "" where there is none. A WebSocket may have it in its query,
// as access_token.
std::string bearer_of(const Request& request);
// A page of another site that speaks through a user's browser: a Host that is no loopback name where there
// are no tokens, or a foreign Origin. The reason's name and the error.
struct Foreign {
  const char* reason;
  ApiError error;
};
std::optional<Foreign> find_foreign(const Request& request, bool has_tokens);

}  // namespace musacoder::net

#define MC_API_ASSIGN_OR_RETURN(lhs, expr) \
  MC_API_ASSIGN_OR_RETURN_IMPL(MC_CONCAT(mc_api_, __LINE__), lhs, expr)
#define MC_API_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp) return tl::unexpected(tmp.error());      \
  lhs = std::move(*tmp)
