// What the routes see of HTTP: the types of net/http_types.h, errors in this service's form, and replies that
// wait for jobs.
//
//   reply.wait = Wait{{job.id}, 30, [](bool all_ended) { return json_reply(200, …); }};
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "net/http_types.h"

namespace musacoder::service {

using net::api_code;
using net::api_error;
using net::api_error_of;
using net::ApiError;
using net::ApiResult;
using net::parse_target;
using net::percent_decode;
using net::query_count;
using net::query_number;
using net::Request;

struct Reply;
// What a route waits for before it can answer: the end of jobs, or (no jobs) that work is waiting.
struct Wait {
  std::vector<std::string> jobs;
  double seconds = 0;
  std::function<Reply(bool all_ended)> then;
};

struct Reply : net::Reply {
  std::optional<Wait> wait;  // set: the rest is not used, `then` gives the reply
  std::string stream_job;    // set: server-sent events of this job
};

// {"error": {...}} (docs/service.md §1).
Reply error_reply(const ApiError& error, const std::string& request_id);
Reply json_reply(int status, std::string body);

}  // namespace musacoder::service
