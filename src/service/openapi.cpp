#include "service/openapi.h"

#include <nlohmann/json.hpp>

#ifndef MUSACODER_VERSION
#define MUSACODER_VERSION "0.1.0"
#endif

namespace musacoder::service {
namespace {

using nlohmann::json;

constexpr const char* kSchemas = R"json({
  "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object",
    "required": ["code", "message", "infra", "request_id"],
    "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "infra": {"type": "boolean"}, "request_id": {"type": "string"},
      "field": {"type": "string"}, "retry_after_s": {"type": "integer"}, "queue_depth": {"type": "integer"}}}}},
  "Job": {"type": "object", "required": ["candidate"], "anyOf": [{"required": ["task"]}, {"required": ["reference"]}],
    "description": "Unknown keys are carried through in `extra`.",
    "properties": {
      "candidate": {"type": "string", "description": "Python file, bare .cu, or a model's raw answer"},
      "task": {"type": ["string", "null"], "maxLength": 255, "description": "id in the server's task set"},
      "reference": {"type": ["string", "null"], "description": "code of a KernelBench file"},
      "candidate_name": {"type": ["string", "null"], "maxLength": 255},
      "policy": {"type": ["string", "null"], "enum": ["strict", "report", null]},
      "seed": {"type": ["integer", "null"], "minimum": 0, "maximum": 281474976710655},
      "round": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000},
      "priority": {"type": ["integer", "null"], "minimum": -100, "maximum": 100},
      "deadline_s": {"type": ["number", "null"], "minimum": 0.1, "maximum": 604800},
      "idempotency_key": {"type": ["string", "null"], "minLength": 1, "maxLength": 128},
      "reuse": {"type": ["boolean", "null"]},
      "labels": {"type": ["object", "null"]}}},
  "Jobs": {"type": "object", "required": ["jobs"], "properties": {"jobs": {"type": "array", "minItems": 1, "maxItems": 1024, "items": {"$ref": "#/components/schemas/Job"}}}},
  "View": {"type": "object", "required": ["version", "id", "state", "status", "reward", "infra", "undecided", "verified"],
    "properties": {
      "version": {"type": "integer"}, "id": {"type": "string"},
      "state": {"enum": ["queued", "running", "done", "failed", "cancelled", "expired"]},
      "status": {"type": ["string", "null"]}, "reward": {"type": ["number", "null"]}, "infra": {"type": "boolean"},
      "undecided": {"type": "boolean"}, "verified": {"type": "boolean"}, "task": {"type": "string"}, "stage": {"type": "string"},
      "position": {"type": ["integer", "null"]}, "created_at": {"type": "number"}, "started_at": {"type": ["number", "null"]},
      "finished_at": {"type": ["number", "null"]}, "deadline_at": {"type": ["number", "null"]}, "cached": {"type": "boolean"},
      "extra": {"type": "object"}, "verdict": {"type": ["object", "null"]}, "feedback": {"type": ["string", "null"]}, "error": {"type": ["string", "null"]}}},
  "Views": {"type": "object", "required": ["jobs"], "properties": {"jobs": {"type": "array", "items": {"$ref": "#/components/schemas/View"}}}},
  "Any": {"type": "object"},
  "Sample": {"type": "object", "required": ["response", "label"], "properties": {"prompt": {}, "response": {"type": "string"}, "label": {"type": ["string", "object"]}}}
})json";

json reference(const char* schema) { return {{"$ref", std::string("#/components/schemas/") + schema}}; }

json parameter(const char* name, const char* in, json schema) {
  return {{"name", name}, {"in", in}, {"required", std::string(in) == "path"}, {"schema", std::move(schema)}};
}

json content(json schema, const char* type = "application/json") {
  return {{type, {{"schema", std::move(schema)}}}};
}

struct Operation {
  const char *method, *path, *summary;
  json body;  // null: none
  std::vector<int> good;
  json reply;  // schema
  json parameters = json::array();
  const char* type = "application/json";
  bool open = false;
};

std::vector<Operation> operations() {
  const json number = {{"type", "number"}}, text = {{"type", "string"}};
  auto count = [](int low, long high) {
    return json{{"type", "integer"}, {"minimum", low}, {"maximum", high}};
  };
  auto range = [](double low, double high) {
    return json{{"type", "number"}, {"minimum", low}, {"maximum", high}};
  };
  const json id = parameter("id", "path", text);
  const json job_body = {{"anyOf", {reference("Job"), reference("Jobs")}}},
             job_reply = {{"anyOf", {reference("View"), reference("Views")}}};
  const json trainer = {parameter("wait", "query", range(0, 3600)),
                        parameter("policy", "query", {{"enum", {"strict", "report"}}}),
                        parameter("priority", "query", count(-100, 100)),
                        parameter("deadline_s", "query", range(0.1, 604800)),
                        parameter("null_reward", "query", range(0, 1000))};
  return {
      {"get", "/", "the dashboard", {}, {200}, text, json::array(), "text/html", true},
      {"get",
       "/health",
       "the process serves",
       {},
       {200},
       reference("Any"),
       json::array(),
       "application/json",
       true},
      {"get",
       "/ready",
       "jobs are taken",
       {},
       {200},
       reference("Any"),
       json::array(),
       "application/json",
       true},
      {"get",
       "/openapi.json",
       "this document",
       {},
       {200},
       reference("Any"),
       json::array(),
       "application/json",
       true},
      {"get", "/metrics", "Prometheus text", {}, {200}, text, json::array(), "text/plain"},
      {"post",
       "/v1/jobs",
       "submit one or many",
       job_body,
       {200, 202},
       job_reply,
       {parameter("Idempotency-Key", "header", text)}},
      {"get",
       "/v1/jobs",
       "jobs, newest first",
       {},
       {200},
       reference("Views"),
       {parameter("state", "query",
                  {{"enum", {"queued", "running", "done", "failed", "cancelled", "expired"}}}),
        parameter("task", "query", text), parameter("status", "query", text),
        parameter("before", "query", text), parameter("limit", "query", count(1, 1000))}},
      {"post",
       "/v1/verify",
       "submit and wait",
       job_body,
       {200, 202},
       job_reply,
       {parameter("wait", "query", range(0, 3600))}},
      {"get",
       "/v1/jobs/{id}",
       "one job",
       {},
       {200},
       reference("View"),
       {id, parameter("wait", "query", range(0, 300)), parameter("source", "query", {{"enum", {"0", "1"}}})}},
      {"delete", "/v1/jobs/{id}", "cancel", {}, {200}, reference("View"), {id}},
      {"get", "/v1/jobs/{id}/events", "server-sent events", {}, {200}, text, {id}, "text/event-stream"},
      {"get",
       "/v1/tasks",
       "the task set",
       {},
       {200},
       reference("Any"),
       {parameter("q", "query", text), parameter("limit", "query", count(1, 10000)),
        parameter("offset", "query", count(0, 1000000))}},
      {"get", "/v1/tasks/{id}", "one task", {}, {200}, reference("Any"), {id}},
      {"get",
       "/v1/verdicts",
       "search the verdict store",
       {},
       {200},
       reference("Any"),
       {parameter("task", "query", text), parameter("status", "query", text),
        parameter("status_class", "query", text), parameter("candidate_hash", "query", text),
        parameter("q", "query", text), parameter("since", "query", range(0, 1e12)),
        parameter("limit", "query", count(1, 1000)), parameter("offset", "query", count(0, 100000000))}},
      {"get",
       "/v1/verdicts/{key}",
       "one stored verdict",
       {},
       {200},
       reference("Any"),
       {parameter("key", "path", text)}},
      {"get", "/v1/queue", "queue depth", {}, {200}, reference("Any")},
      {"get",
       "/v1/stats",
       "numbers for the dashboard",
       {},
       {200},
       reference("Any"),
       {parameter("window", "query", range(1, 31536000)), parameter("buckets", "query", count(1, 500))}},
      {"get", "/v1/ws", "WebSocket: submit, watch, cancel", {}, {101}, {}},
      {"get", "/ws", "WebSocket of OpenEnv", {}, {101}, {}},
      {"post",
       "/v1/lease",
       "worker: take a job",
       {{"type", "object"}, {"required", {"worker"}}},
       {200, 204},
       reference("Any")},
      {"post",
       "/v1/heartbeat",
       "worker: keep a lease",
       {{"type", "object"}, {"required", {"lease"}}},
       {200},
       reference("Any")},
      {"post",
       "/v1/complete",
       "worker: hand in an outcome",
       {{"type", "object"}, {"required", {"lease", "outcome"}}},
       {200},
       reference("Any")},
      {"post",
       "/v1/release",
       "worker: give a job back",
       {{"type", "object"}, {"required", {"lease"}}},
       {200},
       reference("Any")},
      {"post",
       "/rm",
       "slime, miles: the body is the reward",
       {{"anyOf",
         {reference("Sample"), {{"type", "array"}, {"minItems", 1}, {"items", reference("Sample")}}}}},
       {200},
       {{"type", {"number", "null", "array", "object"}}},
       trainer},
      {"post",
       "/get_reward",
       "OpenRLHF",
       {{"type", "object"}, {"required", {"query", "labels"}}},
       {200},
       reference("Any"),
       trainer},
      {"post", "/seed_session", "NeMo-Gym", {{"type", "object"}}, {200}, reference("Any")},
      {"post",
       "/verify",
       "NeMo-Gym",
       {{"type", "object"}, {"required", {"response"}}},
       {200},
       reference("Any"),
       trainer},
      {"post",
       "/run_code",
       "SandboxFusion",
       {{"type", "object"}, {"required", {"code"}}},
       {200},
       reference("Any"),
       trainer},
      {"post",
       "/evaluate",
       "KernelGYM",
       {{"type", "object"}, {"required", {"task_id", "reference_code", "kernel_code"}}},
       {200},
       reference("Any"),
       trainer},
      {"post",
       "/evaluate/batch",
       "KernelGYM",
       {{"type", "object"}, {"required", {"tasks"}}},
       {200},
       reference("Any"),
       trainer},
      {"post", "/workflow/submit", "KernelGYM", {{"type", "object"}}, {200}, reference("Any"), trainer},
      {"get", "/status/{id}", "KernelGYM", {}, {200}, reference("Any"), {id}},
      {"get", "/results/{id}", "KernelGYM", {}, {200}, reference("Any"), {id}},
      {"post", "/reset", "OpenEnv", {{"type", "object"}}, {200}, reference("Any")},
      {"post", "/step", "OpenEnv", {{"type", "object"}, {"required", {"action"}}}, {200}, reference("Any")},
      {"get", "/state", "OpenEnv", {}, {200}, reference("Any"), {parameter("episode_id", "query", text)}},
      {"get", "/schema", "OpenEnv", {}, {200}, reference("Any")},
      {"get", "/metadata", "OpenEnv", {}, {200}, reference("Any")},
  };
}

std::string build(bool tokens) {
  json paths = json::object();
  for (const auto& op : operations()) {
    json replies = json::object();
    for (int code : op.good) {
      json reply = {{"description", "as asked"}};
      if (code != 204 && code != 101) reply["content"] = content(op.reply, op.type);
      replies[std::to_string(code)] = std::move(reply);
    }
    for (const auto& [code, what] : {std::pair{400, "malformed"},
                                     {401, "no or unknown token"},
                                     {403, "not allowed"},
                                     {404, "not found"},
                                     {408, "too slow"},
                                     {409, "conflict"},
                                     {413, "too large"},
                                     {415, "not JSON"},
                                     {422, "a field is wrong"},
                                     {426, "WebSocket only"},
                                     {429, "quota"},
                                     {503, "busy or infrastructure fault"}})
      replies[std::to_string(code)] = {
          {"description", what},
          {"content", content(std::string(op.path) == "/ready" ? reference("Any") : reference("Error"))}};
    json operation = {{"summary", op.summary},
                      {"operationId", std::string(op.method) + "_" + op.path},
                      {"responses", replies}};
    if (!op.parameters.empty()) operation["parameters"] = op.parameters;
    if (!op.body.is_null()) operation["requestBody"] = {{"required", true}, {"content", content(op.body)}};
    if (op.open) operation["security"] = json::array();
    paths[op.path][op.method] = std::move(operation);
  }
  json document = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "MooreEval"},
        {"version", MUSACODER_VERSION},
        {"description",
         "Verifies CUDA kernels that replace PyTorch modules. docs/service.md is the full text."}}},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", json::parse(kSchemas)},
        {"securitySchemes", {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  if (tokens) document["security"] = json::array({{{"bearer", json::array()}}});
  return document.dump();
}

}  // namespace

std::string openapi_text(bool tokens) {
  static const std::string open = build(false), secured = build(true);
  return tokens ? secured : open;
}

}  // namespace musacoder::service
