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
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "base/status.h"

namespace musacoder::service {

// An error as the client sees it (docs/service.md §1).
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
// What a route waits for before it can answer: the end of jobs, or (no jobs) that work is waiting.
struct Wait {
  std::vector<std::string> jobs;
  double seconds = 0;
  std::function<Reply(bool all_ended)> then;
};

struct Reply {
  int status = 200;
  std::string body, type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<Wait> wait;  // set: the rest is not used, `then` gives the reply
  std::string stream_job;    // set: server-sent events of this job
};

Reply error_reply(const ApiError& error, const std::string& request_id);

}  // namespace musacoder::service
