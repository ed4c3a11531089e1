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
    "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "infra": {"type": "boolean"},
      "request_id": {"type": "string"}, "field": {"type": "string"}, "retry_after_s": {"type": "integer"},
      "queue_depth": {"type": "integer"}}}}},
  "Job": {"type": "object", "required": ["candidate"],
    "anyOf": [{"required": ["task"], "properties": {"task": {"type": "string"}}},
              {"required": ["reference"], "properties": {"reference": {"type": "string"}}}],
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
  "Jobs": {"type": "object", "required": ["jobs"],
    "properties": {"jobs": {"type": "array", "minItems": 1, "maxItems": 1024, "items": {"$ref": "#/components/schemas/Job"}}}},
  "View": {"type": "object", "required": ["version", "id", "state", "status", "reward", "infra", "undecided", "verified"],
    "properties": {
      "version": {"type": "integer"}, "id": {"type": "string"},
      "state": {"enum": ["queued", "running", "done", "failed", "cancelled", "expired"]},
      "status": {"type": ["string", "null"]}, "reward": {"type": ["number", "null"]}, "infra": {"type": "boolean"},
      "undecided": {"type": "boolean"}, "verified": {"type": "boolean"}, "task": {"type": "string"},
      "stage": {"type": "string"}, "position": {"type": ["integer", "null"]}, "created_at": {"type": "number"},
      "started_at": {"type": ["number", "null"]}, "finished_at": {"type": ["number", "null"]},
      "deadline_at": {"type": ["number", "null"]}, "cached": {"type": "boolean"}, "extra": {"type": "object"},
      "verdict": {"type": ["object", "null"]}, "feedback": {"type": ["string", "null"]}, "error": {"type": ["string", "null"]}}},
  "Views": {"type": "object", "required": ["jobs"],
    "properties": {"jobs": {"type": "array", "items": {"$ref": "#/components/schemas/View"}}}},
  "Any": {"type": "object"},
  "Label": {"anyOf": [{"type": "string"},
    {"type": "object", "required": ["task"], "properties": {"task": {"type": "string", "minLength": 1, "maxLength": 255}}},
    {"type": "object", "required": ["reference"], "properties": {"reference": {"type": "string", "minLength": 1}}}]},
  "Sample": {"type": "object", "required": ["response", "label"],
    "properties": {"response": {"type": "string"}, "label": {"$ref": "#/components/schemas/Label"}}},
  "Samples": {"type": "array", "minItems": 1, "maxItems": 1024, "items": {"$ref": "#/components/schemas/Sample"}},
  "Queries": {"type": "object", "required": ["query", "labels"], "properties": {
    "query": {"type": "array", "minItems": 1, "maxItems": 1024, "items": {"type": "string"}},
    "prompts": {"type": "array", "items": {"type": "string"}},
    "labels": {"type": "array", "minItems": 1, "maxItems": 1024, "items": {"$ref": "#/components/schemas/Label"},
      "description": "as many as `query`"}}},
  "Named": {"anyOf": [
    {"required": ["task"], "properties": {"task": {"type": "string", "minLength": 1, "maxLength": 255}}},
    {"required": ["reference"], "properties": {"reference": {"type": "string", "minLength": 1}}}]},
  "NemoVerify": {"allOf": [{"$ref": "#/components/schemas/Named"}, {"type": "object", "required": ["response"],
    "properties": {"response": {"type": "object"}}}]},
  "RunCode": {"allOf": [{"$ref": "#/components/schemas/Named"}, {"type": "object", "required": ["code"], "properties": {
    "code": {"type": "string"}, "language": {"enum": ["python", "cuda", "cpp", null]},
    "files": {"type": "object", "maxProperties": 0}, "fetch_files": {"type": "array", "maxItems": 0}}}]},
  "Evaluate": {"type": "object", "required": ["task_id", "reference_code", "kernel_code"], "properties": {
    "task_id": {"type": "string", "minLength": 1, "maxLength": 100}, "reference_code": {"type": "string"},
    "kernel_code": {"type": "string"}, "entry_point": {"enum": ["Model", null]}}},
  "Evaluations": {"type": "object", "required": ["tasks"], "properties": {
    "tasks": {"type": "array", "minItems": 1, "maxItems": 1024, "items": {"$ref": "#/components/schemas/Evaluate"}}}},
  "Workflow": {"anyOf": [{"allOf": [{"$ref": "#/components/schemas/Evaluate"}, {"not": {"required": ["payload"]}}]}, {"type": "object", "required": ["payload"],
    "properties": {"payload": {"$ref": "#/components/schemas/Evaluate"}}}]},
  "Lease": {"type": "object", "required": ["worker"], "properties": {
    "worker": {"type": "string", "minLength": 1, "maxLength": 400}, "wait_s": {"type": ["number", "null"], "minimum": 0, "maximum": 60},
    "visibility_s": {"type": ["number", "null"], "minimum": 1, "maximum": 600}, "prefer": {"type": ["string", "null"], "maxLength": 64},
    "role": {"enum": ["both", "compile", "execute", null]}}},
  "Heartbeat": {"type": "object", "required": ["lease"], "properties": {
    "lease": {"type": "string", "minLength": 1, "maxLength": 128}, "visibility_s": {"type": ["number", "null"], "minimum": 1, "maximum": 600},
    "stage": {"type": ["string", "null"], "maxLength": 128}}},
  "Release": {"type": "object", "required": ["lease"], "properties": {
    "lease": {"type": "string", "minLength": 1, "maxLength": 128}, "fault": {"type": ["string", "null"], "maxLength": 4096},
    "compiled": {"type": ["boolean", "null"]}}},
  "Complete": {"type": "object", "required": ["lease", "outcome"], "properties": {
    "lease": {"type": "string", "minLength": 1, "maxLength": 128},
    "outcome": {"type": "object", "required": ["status"], "properties": {
      "status": {"type": "string", "pattern": "^infra:[a-z_]{1,30}$"}, "feedback": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]},
      "verdict": {"type": "null", "description": "or a verdict: docs/schemas/verdict.schema.json"}}}}},
  "Step": {"type": "object", "required": ["action"], "properties": {
    "action": {"type": "object", "required": ["candidate"], "properties": {"candidate": {"type": "string"},
      "code": {"type": ["string", "null"]}, "response": {"type": ["string", "null"]}, "message": {"type": ["string", "null"]},
      "episode_id": {"type": ["string", "null"], "maxLength": 255}}},
    "episode_id": {"type": ["string", "null"], "maxLength": 255},
    "timeout_s": {"type": ["number", "null"], "minimum": 0.001, "maximum": 3600}}}
})json";

json reference(const char* schema) { return {{"$ref", std::string("#/components/schemas/") + schema}}; }

json parameter(const char* name, const char* in, json schema) {
  return {{"name", name}, {"in", in}, {"required", std::string(in) == "path"}, {"schema", std::move(schema)}};
}
json query(const char* name, json schema) { return parameter(name, "query", std::move(schema)); }

json content(json schema, const char* type = "application/json") {
  return {{type, {{"schema", std::move(schema)}}}};
}

json whole(long low, long high) { return {{"type", "integer"}, {"minimum", low}, {"maximum", high}}; }
json range(double low, double high) { return {{"type", "number"}, {"minimum", low}, {"maximum", high}}; }
// Without control characters: those are refused in targets.
json text() { return {{"type", "string"}, {"pattern", "^[^\\u0000-\\u001f\\u007f]*$"}}; }
json path_id(const char* name) {
  return parameter(name, "path", {{"type", "string"}, {"pattern", "^[A-Za-z0-9_-]{1,64}$"}});
}
json any_of(const char* one, const char* other) { return {{"anyOf", {reference(one), reference(other)}}}; }

struct Operation {
  std::string method, path, summary;
  json body;  // null: none
  std::vector<int> good = {200};
  json reply = reference("Any");
  json parameters = json::array();
  std::string type = "application/json";
  bool open = false;
};

Operation get(const char* path, const char* summary, json parameters = json::array(),
              json reply = reference("Any")) {
  return {"get", path, summary, {}, {200}, std::move(reply), std::move(parameters)};
}
Operation get_text(const char* path, const char* summary, const char* type, json parameters = json::array()) {
  Operation operation = get(path, summary, std::move(parameters), {{"type", "string"}});
  operation.type = type;
  return operation;
}
Operation post(const char* path, const char* summary, json body, json parameters = json::array(),
               std::vector<int> good = {200}, json reply = reference("Any")) {
  return {"post", path, summary, std::move(body), std::move(good), std::move(reply), std::move(parameters)};
}
Operation open(Operation operation) {
  operation.open = true;
  return operation;
}
Operation web_socket(const char* path, const char* summary) {
  Operation operation = get(path, summary);
  operation.good = {101};
  return operation;
}

std::vector<Operation> operations() {
  const json states = {{"enum", {"queued", "running", "done", "failed", "cancelled", "expired"}}};
  const json trainer = {query("wait", range(0, 3600)), query("policy", {{"enum", {"strict", "report"}}}),
                        query("priority", whole(-100, 100)), query("deadline_s", range(0.1, 604800)),
                        query("null_reward", range(0, 1000))};
  Operation put_artifact =
      get("/v1/artifacts/{key}", "worker: keep a build's result (an octet stream)", {path_id("key")});
  put_artifact.method = "put";
  Operation cancel = get("/v1/jobs/{id}", "cancel", {path_id("id")}, reference("View"));
  cancel.method = "delete";
  return {
      open(get_text("/", "the dashboard", "text/html")),
      open(get("/health", "the process serves")),
      open(get("/ready", "jobs are taken")),
      open(get("/openapi.json", "this document")),
      get_text("/metrics", "Prometheus text", "text/plain"),
      post("/v1/jobs",
           "submit one or many; the header Idempotency-Key stands for a single job's idempotency_key",
           any_of("Job", "Jobs"), json::array(), {200, 202}, any_of("View", "Views")),
      get("/v1/jobs", "jobs, newest first",
          {query("state", states), query("task", text()), query("status", text()), query("before", text()),
           query("limit", whole(1, 1000))},
          reference("Views")),
      post("/v1/verify", "submit and wait", any_of("Job", "Jobs"), {query("wait", range(0, 3600))},
           {200, 202}, any_of("View", "Views")),
      get("/v1/jobs/{id}", "one job",
          {path_id("id"), query("wait", range(0, 300)), query("source", {{"enum", {"0", "1"}}})},
          reference("View")),
      cancel,
      get_text("/v1/jobs/{id}/events", "server-sent events", "text/event-stream", {path_id("id")}),
      get("/v1/tasks", "the task set",
          {query("q", text()), query("limit", whole(1, 10000)), query("offset", whole(0, 1000000))}),
      get("/v1/tasks/{id}", "one task", {path_id("id")}),
      get("/v1/verdicts", "search the verdict store",
          {query("task", text()), query("status", text()), query("status_class", text()),
           query("candidate_hash", text()), query("q", text()), query("since", range(0, 1e12)),
           query("limit", whole(1, 1000)), query("offset", whole(0, 100000000))}),
      get("/v1/verdicts/{key}", "one stored verdict", {path_id("key")}),
      get("/v1/queue", "queue depth"),
      get("/v1/stats", "numbers for the dashboard",
          {query("window", range(1, 31536000)), query("buckets", whole(1, 500))}),
      web_socket("/v1/ws", "WebSocket: submit, watch, cancel"),
      web_socket("/ws", "WebSocket of OpenEnv"),
      post("/v1/lease", "worker: take a job", reference("Lease"), json::array(), {200, 204}),
      post("/v1/heartbeat", "worker: keep a lease", reference("Heartbeat")),
      post("/v1/complete", "worker: hand in an outcome", reference("Complete")),
      post("/v1/release", "worker: give a job back", reference("Release")),
      get_text("/v1/artifacts/{key}", "worker: a build's result by its address", "application/octet-stream",
               {path_id("key")}),
      put_artifact,
      post("/rm", "slime, miles: the body is the reward", any_of("Sample", "Samples"), trainer, {200},
           {{"type", {"number", "null", "array", "object"}}}),
      post("/get_reward", "OpenRLHF", reference("Queries"), trainer),
      post("/seed_session", "NeMo-Gym", reference("Any")),
      post("/verify", "NeMo-Gym", reference("NemoVerify"), trainer),
      post("/run_code", "SandboxFusion", reference("RunCode"), trainer),
      post("/evaluate", "KernelGYM", reference("Evaluate"), trainer),
      post("/evaluate/batch", "KernelGYM", reference("Evaluations"), trainer),
      post("/workflow/submit", "KernelGYM", reference("Workflow"), trainer),
      get("/status/{id}", "KernelGYM", {path_id("id")}),
      get("/results/{id}", "KernelGYM", {path_id("id")}),
      post("/reset", "OpenEnv", reference("Any")),
      post("/step", "OpenEnv", reference("Step")),
      get("/state", "OpenEnv", {query("episode_id", text())}),
      get("/schema", "OpenEnv"),
      get("/metadata", "OpenEnv"),
  };
}

std::string build(bool tokens) {
  json paths = json::object();
  for (const auto& op : operations()) {
    json replies = json::object();
    for (int code : op.good) {
      json reply = {{"description", "as asked"}};
      if (code != 204 && code != 101) reply["content"] = content(op.reply, op.type.c_str());
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
          {"content", content(op.path == "/ready" ? reference("Any") : reference("Error"))}};
    json operation = {
        {"summary", op.summary}, {"operationId", op.method + "_" + op.path}, {"responses", replies}};
    if (!op.parameters.empty()) operation["parameters"] = op.parameters;
    if (!op.body.is_null())
      operation["requestBody"] = {{"required", op.path != "/reset"}, {"content", content(op.body)}};
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
