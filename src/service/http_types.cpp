#include "service/http_types.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace musacoder::service {

Reply error_reply(const ApiError& error, const std::string& request_id) {
  nlohmann::json body = {{"code", error.code},
                         {"message", error.message},
                         {"infra", error.status == 429 || error.status >= 500},
                         {"request_id", request_id}};
  if (!error.field.empty()) body["field"] = error.field;
  if (error.queue_depth) body["queue_depth"] = *error.queue_depth;
  Reply reply;
  reply.status = error.status;
  if (error.retry_after_s > 0) {
    const int seconds = static_cast<int>(std::ceil(std::min(3600.0, error.retry_after_s)));
    body["retry_after_s"] = seconds;
    reply.headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  reply.body = nlohmann::json{{"error", body}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return reply;
}

Reply json_reply(int status, std::string body) { return {net::json_reply(status, std::move(body)), {}, {}}; }

}  // namespace musacoder::service
