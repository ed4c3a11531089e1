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

#include "net/json_fields.h"
#include "service/http_types.h"
#include "service/job.h"
#include "task/task.h"

namespace musacoder::service {

inline constexpr std::size_t kMaxJobsAtOnce = 1024;
inline constexpr std::size_t kMaxExtraBytes = 64u << 10;

using net::bool_field;
using net::dump_json;
using net::integer_field;
using net::number_field;
using net::parse_body;
using net::parse_text;
using net::text_field;

struct JobContext {
  const task::TaskSet* tasks = nullptr;  // null: only references
  std::string owner = "anonymous";
  std::string policy = "strict";
  int max_priority = 100;
  double now = 0;  // Unix seconds
};

ApiResult<JobSpec> parse_job(const nlohmann::json& value, const JobContext& context);

struct JobList {
  std::vector<JobSpec> specs;
  bool many = false;  // came as {"jobs": [...]}
};
ApiResult<JobList> parse_jobs(const nlohmann::json& value, const JobContext& context);

}  // namespace musacoder::service
