// Bodies of requests as JSON, with typed members.
//
//   MC_API_ASSIGN_OR_RETURN(auto json, parse_body(request));
//   MC_API_ASSIGN_OR_RETURN(auto name, text_field(json, "name", 64));      // optional<string>
//
// Errors: 400 not JSON or too deep; 415 another content type; 422 with the field's name. Thread safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "net/http_types.h"

namespace musacoder::net {

ApiResult<nlohmann::json> parse_body(const Request& request);
ApiResult<nlohmann::json> parse_text(const std::string& text);

// Typed members of an object. Absent and null are `nullopt`; another type or range is 422.
ApiResult<std::optional<std::string>> text_field(const nlohmann::json& object, const char* key,
                                                 std::size_t max_characters);
ApiResult<std::optional<double>> number_field(const nlohmann::json& object, const char* key, double low,
                                              double high);
ApiResult<std::optional<std::int64_t>> integer_field(const nlohmann::json& object, const char* key,
                                                     std::int64_t low, std::int64_t high);
ApiResult<std::optional<bool>> bool_field(const nlohmann::json& object, const char* key);

std::string dump_json(const nlohmann::json& value);

}  // namespace musacoder::net
