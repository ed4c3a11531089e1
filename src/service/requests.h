// From JSON of a client to a job, with every field checked (docs/service.md §2).
//
//   MC_API_ASSIGN_OR_RETURN(auto json, parse_body(request));
//   MC_API_ASSIGN_OR_RETURN(JobSpec spec, parse_job(json, context));
//
// Errors: 400 not JSON or too deep; 415 another content type; 422 with the field's name. Thread safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "service/http_types.h"
#include "service/job.h"
#include "task/task.h"

namespace musacoder::service {

inline constexpr std::size_t kMaxJobsAtOnce = 1024;
inline constexpr std::size_t kMaxExtraBytes = 64u << 10;

struct JobContext {
  const task::TaskSet* tasks = nullptr;  // null: only references
  std::string owner = "anonymous";
  std::string policy = "strict";
  int max_priority = 100;
  double now = 0;  // Unix seconds
};

ApiResult<nlohmann::json> parse_body(const Request& request);
ApiResult<nlohmann::json> parse_text(const std::string& text);
ApiResult<JobSpec> parse_job(const nlohmann::json& value, const JobContext& context);

struct JobList {
  std::vector<JobSpec> specs;
  bool many = false;  // came as {"jobs": [...]}
};
ApiResult<JobList> parse_jobs(const nlohmann::json& value, const JobContext& context);

// Typed members of an object. Absent and null are `nullopt`; another type or range is 422.
ApiResult<std::optional<std::string>> text_field(const nlohmann::json& object, const char* key,
                                                 std::size_t max_characters);
ApiResult<std::optional<double>> number_field(const nlohmann::json& object, const char* key, double low,
                                              double high);
ApiResult<std::optional<std::int64_t>> integer_field(const nlohmann::json& object, const char* key,
                                                     std::int64_t low, std::int64_t high);
ApiResult<std::optional<bool>> bool_field(const nlohmann::json& object, const char* key);

std::string dump_json(const nlohmann::json& value);

}  // namespace musacoder::service

#define MC_API_ASSIGN_OR_RETURN(lhs, expr) \
  MC_API_ASSIGN_OR_RETURN_IMPL(MC_CONCAT(mc_api_, __LINE__), lhs, expr)
#define MC_API_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp) return tl::unexpected(tmp.error());      \
  lhs = std::move(*tmp)
