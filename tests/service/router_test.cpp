// Every route as a function, with lanes that pretend to judge.
#include "service/router.h"

#include "service/openapi.h"
#include "support.h"

namespace musacoder::service {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json job(const std::string& candidate, json more = json::object()) {
  more["candidate"] = candidate;
  if (!more.contains("reference")) more["task"] = "level1/1";
  return more;
}

TEST(Jobs, SubmitWaitAndView) {
  Harness h;
  const json view =
      h.post("/v1/verify", job("status:ok", {{"labels", {{"run", 7}}}, {"step", 17}, {"round", 2}}));
  EXPECT_EQ(view["state"], "done");
  EXPECT_EQ(view["status"], "ok");
  EXPECT_EQ(view["reward"], 1.0);
  EXPECT_EQ(view["verified"], true);
  EXPECT_EQ(view["infra"], false);
  EXPECT_EQ(view["task"], "level1/1");
  EXPECT_EQ(view["extra"], json({{"labels", {{"run", 7}}}, {"step", 17}}));
  EXPECT_EQ(view["verdict"]["status"], "ok");
  EXPECT_EQ(view["feedback"], "feedback on ok");
  EXPECT_TRUE(view["error"].is_null());
  const json again = h.get("/v1/jobs/" + view["id"].get<std::string>() + "?source=1");
  EXPECT_EQ(again["candidate"], "status:ok");
  EXPECT_THAT(again["reference"].get<std::string>(), HasSubstr("class Model"));
  EXPECT_EQ(again["code"], "status:ok");
}

TEST(Jobs, ManyAtOnceKeepTheirOrder) {
  Harness h;
  const json reply =
      h.post("/v1/verify",
             {{"jobs", {job("status:ok"), job("status:cheating:torch_op"), job("status:infra:disk")}}});
  ASSERT_EQ(reply["jobs"].size(), 3u);
  EXPECT_EQ(reply["jobs"][0]["reward"], 1.0);
  EXPECT_EQ(reply["jobs"][1]["reward"], -1.0);
  EXPECT_EQ(reply["jobs"][2]["state"], "failed");
  EXPECT_TRUE(reply["jobs"][2]["reward"].is_null()) << "a fault of ours is never a reward";
  EXPECT_EQ(reply["jobs"][2]["infra"], true);
}

TEST(Jobs, WhatHasNotEndedIs202) {
  Harness h({}, Harness::fast(), 0);
  const json view = h.post("/v1/verify?wait=0.05", job("status:ok"), 202);
  EXPECT_EQ(view["state"], "queued");
  EXPECT_EQ(view["position"], 1);
  EXPECT_TRUE(view["status"].is_null());
  EXPECT_TRUE(view["reward"].is_null());
  EXPECT_EQ(h.get("/v1/queue")["queued"], 1);
}

TEST(Jobs, IdempotencyAndReuse) {
  Harness h;
  const json first = h.post("/v1/verify", job("status:ok", {{"idempotency_key", "k"}}));
  const json again = h.post("/v1/jobs", job("status:ok", {{"idempotency_key", "k"}}), 200);
  EXPECT_EQ(first["id"], again["id"]);
  h.post("/v1/jobs", job("status:cheating:x", {{"idempotency_key", "k"}}), 409);
  EXPECT_EQ(h.executed, 1);
  const json cached = h.post("/v1/jobs", job("status:ok"), 200);
  EXPECT_EQ(cached["cached"], true);
  EXPECT_NE(cached["id"], first["id"]);
  EXPECT_EQ(h.executed, 1);
  h.post("/v1/verify", job("status:ok", {{"reuse", false}}));
  EXPECT_EQ(h.executed, 2);
  const Reply with_header =
      h.call("POST", "/v1/jobs", job("status:ok").dump(), "", [](Request& r) { r.idempotency_key = "k"; });
  EXPECT_EQ(json::parse(with_header.body)["id"], first["id"]);
}

TEST(Jobs, CancelStopsARunningJob) {
  Harness h;
  const json view = h.post("/v1/jobs", job("sleep:30:ok"), 202);
  const std::string path = "/v1/jobs/" + view["id"].get<std::string>();
  while (h.get(path)["state"] == "queued") std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(json::parse(h.call("DELETE", path).body)["state"], "cancelled");
  EXPECT_EQ(h.get(path)["status"], "infra:cancelled");
  EXPECT_TRUE(h.get(path)["reward"].is_null());
  const json next = h.post("/v1/verify", {{"jobs", {job("status:ok"), job("status:cheating:x")}}});
  EXPECT_EQ(next["jobs"][1]["state"], "done") << "the lane is free again";
}

TEST(Jobs, DeadlinesExpire) {
  Harness h;
  const json view = h.post("/v1/verify", job("sleep:30:ok", {{"deadline_s", 0.2}}));
  EXPECT_EQ(view["state"], "expired");
  EXPECT_EQ(view["infra"], true);
  EXPECT_TRUE(view["reward"].is_null());
}

struct Malformed {
  json body;
  int status;
  std::string field;
};

TEST(Jobs, MalformedFieldsAreNamed) {
  Harness h;
  const std::vector<Malformed> cases = {
      {json::array(), 422, ""},
      {json::object(), 422, "candidate"},
      {{{"candidate", 1}, {"task", "level1/1"}}, 422, "candidate"},
      {{{"candidate", "x"}}, 422, "task"},
      {{{"candidate", "x"}, {"task", "../../etc/passwd"}}, 404, "task"},
      {{{"candidate", "x"}, {"task", "/etc/passwd"}}, 404, "task"},
      {job("x", {{"policy", "lenient"}}), 422, "policy"},
      {job("x", {{"seed", -1}}), 422, "seed"},
      {job("x", {{"seed", 1.5}}), 422, "seed"},
      {job("x", {{"seed", 1e30}}), 422, "seed"},
      {job("x", {{"seed", true}}), 422, "seed"},
      {job("x", {{"priority", 101}}), 422, "priority"},
      {job("x", {{"deadline_s", 0}}), 422, "deadline_s"},
      {job("x", {{"round", 0}}), 422, "round"},
      {job("x", {{"idempotency_key", ""}}), 422, "idempotency_key"},
      {job("x", {{"idempotency_key", std::string(129, 'k')}}), 422, "idempotency_key"},
      {job("x", {{"labels", 3}}), 422, "labels"},
      {job("x", {{"blob", std::string(70'000, 'x')}}), 422, "labels"},
      {{{"jobs", json::array()}}, 422, "jobs"},
      {{{"jobs", {job("x"), {{"candidate", "x"}}}}}, 422, "jobs[1].task"},
  };
  for (const auto& one : cases) {
    const json reply = h.post("/v1/jobs", one.body, one.status);
    EXPECT_EQ(reply["error"].value("field", ""), one.field) << one.body;
    EXPECT_EQ(reply["error"]["infra"], false);
  }
  EXPECT_EQ(h.get("/v1/queue")["queued"], 0);
}

TEST(Jobs, BodiesThatAreNoJson) {
  Harness h;
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("{\"candidate\":\"\xff\"}"), std::string(500, '[')})
    EXPECT_EQ(h.call("POST", "/v1/jobs", body).status, 400) << body.substr(0, 20);
  EXPECT_EQ(h.call("POST", "/v1/jobs", "{}", "", [](Request& r) { r.content_type = "text/plain"; }).status,
            415);
  EXPECT_EQ(h.call("POST", "/v1/jobs", "{}", "",
                   [](Request& r) { r.content_type = "application/json; charset=utf-8"; })
                .status,
            422);
}

TEST(Targets, HostilePathsNeverArrive) {
  for (const char* target : {"", "x", "/../etc/passwd", "/v1/%2e%2e/x", "/v1//jobs", "/v1/jobs/%00",
                             "/v1/jobs/%", "/v1/jobs/%g1", "/a\\b", "/%0d%0ax", "/./x", "/v1/jobs?x=%00"})
    EXPECT_FALSE(parse_target(target).has_value()) << target;
  auto request = parse_target("/v1/tasks/level1%2F19?q=a+b&q=c&empty=&flag");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->path, "/v1/tasks/level1/19");
  EXPECT_EQ(request->query("q"), "a b");
  EXPECT_TRUE(request->has_query("flag"));
  EXPECT_EQ(request->query("none"), "");
}

TEST(Targets, QueriesAreChecked) {
  Harness h;
  for (const char* target :
       {"/v1/jobs?limit=0", "/v1/jobs?limit=x", "/v1/jobs?limit=1.5", "/v1/jobs?limit=1e999",
        "/v1/jobs?state=gone", "/v1/stats?window=nan", "/v1/stats?buckets=501"})
    EXPECT_EQ(h.call("GET", target).status, 400) << target;
  EXPECT_EQ(h.call("GET", "/v1/jobs/j-none").status, 404);
  EXPECT_EQ(h.call("GET", "/nothing").status, 404);
  const Reply wrong = h.call("PUT", "/v1/jobs");
  EXPECT_EQ(wrong.status, 405);
  bool allow = false;
  for (const auto& [name, value] : wrong.headers)
    allow = allow || (name == "Allow" && value.find("POST") != std::string::npos);
  EXPECT_TRUE(allow);
}

ServiceConfig with_tokens() {
  ServiceConfig config;
  config.tokens = *TokenSet::parse(R"(
[[token]]
name = "alice"
token = "alice-alice-alice"
max_unfinished = 3
max_priority = 5
[[token]]
name = "bob"
token = "bob-bob-bob-bob-bob"
jobs_per_minute = 2
[[token]]
name = "lane"
token = "lane-lane-lane-lane"
role = "worker"
[[token]]
name = "root"
token = "root-root-root-root"
role = "admin"
)",
                                   "test");
  return config;
}
const std::string kAlice = "alice-alice-alice", kBob = "bob-bob-bob-bob-bob", kLane = "lane-lane-lane-lane",
                  kRoot = "root-root-root-root";

TEST(Tokens, EachSeesItsOwn) {
  Harness h(with_tokens());
  EXPECT_EQ(h.call("GET", "/v1/queue").status, 401);
  EXPECT_EQ(h.call("GET", "/v1/queue", "", "wrong").status, 401);
  for (const char* open : {"/health", "/ready", "/openapi.json"})
    EXPECT_EQ(h.call("GET", open).status, 200) << open;
  const json mine = h.post("/v1/verify", job("status:ok"), 200, kAlice);
  const std::string path = "/v1/jobs/" + mine["id"].get<std::string>();
  EXPECT_EQ(h.call("GET", path, "", kAlice).status, 200);
  EXPECT_EQ(h.call("GET", path, "", kBob).status, 404);
  EXPECT_EQ(h.call("DELETE", path, "", kBob).status, 404);
  EXPECT_EQ(h.call("GET", path + "/events", "", kBob).status, 404);
  EXPECT_EQ(h.call("GET", path, "", kRoot).status, 200);
  EXPECT_EQ(h.get("/v1/jobs", 200, kBob)["jobs"].size(), 0u);
  EXPECT_EQ(h.get("/v1/jobs", 200, kRoot)["jobs"].size(), 1u);
  EXPECT_EQ(h.get("/v1/stats", 200, kBob)["verdicts"]["counts"].size(), 0u);
  EXPECT_EQ(h.call("GET", "/v1/verdicts", "", kAlice).status, 404);
  // A query parameter is a token only for WebSockets: elsewhere it would end up in logs of proxies.
  EXPECT_EQ(h.call("GET", "/v1/queue?access_token=" + kAlice).status, 401);
}

TEST(Tokens, RolesAndQuotas) {
  Harness h(with_tokens(), Harness::fast(), 0);
  EXPECT_EQ(h.call("POST", "/v1/jobs", job("a").dump(), kLane).status, 403);
  EXPECT_EQ(h.call("POST", "/v1/lease", R"({"worker":"w"})", kAlice).status, 403);
  h.post("/v1/jobs", {{"jobs", {job("a"), job("b"), job("c")}}}, 202, kAlice);
  const Reply full = h.call("POST", "/v1/jobs", job("d").dump(), kAlice);
  EXPECT_EQ(full.status, 429);
  const json error = json::parse(full.body)["error"];
  EXPECT_EQ(error["infra"], true);
  EXPECT_EQ(error["queue_depth"], 3);
  EXPECT_GE(error["retry_after_s"], 1);
  EXPECT_EQ(full.headers.at(0).first, "Retry-After");
  h.post("/v1/jobs", job("e", {{"priority", 6}}), 422, kAlice);
  // At its limit a client may still ask for what is there.
  const Reply again =
      h.call("POST", "/rm?wait=0", json{{"response", "a"}, {"label", "level1/1"}}.dump(), kAlice);
  EXPECT_THAT(again.body, HasSubstr("has not ended yet"));
  h.post("/v1/jobs", {{"jobs", {job("a"), job("b")}}}, 202, kBob);
  h.post("/v1/jobs", job("c"), 429, kBob);
}

TEST(Tokens, RateIsABucketAMinute) {
  Quotas quotas;
  Token token;
  token.jobs_per_minute = 60;
  EXPECT_EQ(quotas.take(token, 60, 0), 0);
  EXPECT_NEAR(quotas.take(token, 1, 0), 1, 1e-6);
  EXPECT_EQ(quotas.take(token, 1, 1), 0);
  EXPECT_NEAR(quotas.take(token, 1000, 1), 60, 1e-6);
  EXPECT_EQ(quotas.take(token, 1000, 61), 0) << "more than a minute's worth goes when the bucket is full";
  EXPECT_GT(quotas.take(token, 1, 100), 60);
}

TEST(Tokens, FilesAreChecked) {
  for (const char* text :
       {"", "x = 1", "[[token]]\nname=\"a\"", "[[token]]\nname=\"a b\"\ntoken=\"0123456789abcdef\"",
        "[[token]]\nname=\"a\"\ntoken=\"short\"",
        "[[token]]\nname=\"a\"\ntoken=\"0123456789abcdef\"\nrole=\"god\"",
        "[[token]]\nname=\"a\"\ntoken=\"0123456789abcdef\"\ntypo=1", "[[token",
        "[[token]]\nname=\"a\"\ntoken=\"0123456789abcdef\"\n[[token]]\nname=\"a\"\ntoken="
        "\"1123456789abcdef\"",
        "[[token]]\nname=\"a\"\ntoken=\"0123456789abcdef\"\n[[token]]\nname=\"b\"\ntoken="
        "\"0123456789abcdef\""})
    EXPECT_FALSE(TokenSet::parse(text, "test").has_value()) << text;
}

TEST(Browsers, OtherSitesAndReboundNamesAreRefused) {
  Harness h;
  EXPECT_EQ(h.call("GET", "/v1/queue", "", "", [](Request& r) { r.host = "evil.example"; }).status, 403);
  EXPECT_EQ(h.call("GET", "/v1/queue", "", "", [](Request& r) { r.host = "localhost:8811"; }).status, 200);
  EXPECT_EQ(h.call("GET", "/v1/queue", "", "", [](Request& r) { r.host = "[::1]:8811"; }).status, 200);
  EXPECT_EQ(h.call("POST", "/v1/jobs", "{}", "", [](Request& r) { r.origin = "http://evil.example"; }).status,
            403);
  EXPECT_EQ(h.call("GET", "/v1/queue", "", "", [](Request& r) { r.origin = "http://127.0.0.1:8811"; }).status,
            200);
}

TEST(BackPressure, AFullQueueAndADrainingServerSayWhenToComeBack) {
  QueueConfig small = Harness::fast();
  small.max_queued = 1;
  Harness h({}, small, 0);
  h.post("/v1/jobs", job("a"), 202);
  const json full = h.post("/v1/jobs", job("b"), 503);
  EXPECT_EQ(full["error"]["queue_depth"], 1);
  EXPECT_EQ(full["error"]["infra"], true);
  h.service->set_draining();
  EXPECT_EQ(h.post("/v1/jobs", job("c"), 503)["error"]["code"], "UNAVAILABLE");
  EXPECT_EQ(h.call("GET", "/ready").status, 503);
  EXPECT_EQ(h.call("GET", "/health").status, 200);
}

TEST(Workers, LeaseHeartbeatCompleteOverTheRoutes) {
  Harness h(with_tokens(), Harness::fast(), 0);
  EXPECT_EQ(h.call("POST", "/v1/lease", R"({"worker":"w"})", kLane).status, 204);
  const json view = h.post("/v1/jobs", job("a"), 202, kAlice);
  const json lease = h.post("/v1/lease", {{"worker", "w"}}, 200, kLane)["lease"];
  EXPECT_EQ(lease["job"]["id"], view["id"]);
  EXPECT_EQ(spec_from_text(lease["job"]["spec"].get<std::string>())->candidate, "a");
  const json id = lease["id"];
  EXPECT_EQ(h.post("/v1/heartbeat", {{"lease", id}, {"stage", "build"}}, 200, kLane)["cancel"], false);
  EXPECT_EQ(h.get("/v1/jobs/" + view["id"].get<std::string>(), 200, kAlice)["stage"], "build");
  h.post("/v1/complete", {{"lease", id}}, 422, kLane);
  h.post("/v1/complete", {{"lease", id}, {"outcome", {{"status", "ok"}}}}, 422, kLane);
  h.post("/v1/complete", {{"lease", id}, {"outcome", {{"verdict", {{"version", 1}}}}}}, 422, kLane);
  h.post("/v1/complete", {{"lease", "l-other"}, {"outcome", {{"status", "infra:x"}}}}, 409, kLane);
  const json verdict = judge::to_json(judge::samples::verdict_of("ok"));
  EXPECT_EQ(h.post("/v1/complete", {{"lease", id}, {"outcome", {{"verdict", verdict}, {"feedback", "f"}}}},
                   200, kLane)["accepted"],
            true);
  const json done = h.get("/v1/jobs/" + view["id"].get<std::string>(), 200, kAlice);
  EXPECT_EQ(done["verdict"], verdict);
  EXPECT_EQ(done["feedback"], "f");
  EXPECT_EQ(
      h.post("/v1/complete", {{"lease", id}, {"outcome", {{"verdict", verdict}}}}, 200, kLane)["accepted"],
      false);
  h.post("/v1/heartbeat", {{"lease", "l-other"}}, 409, kLane);
}

TEST(Slime, TheBodyIsTheReward) {
  Harness h;
  auto rm = [&](const std::string& candidate, const std::string& query = "", int expect = 200) {
    return h.post("/rm" + query, {{"prompt", "p"}, {"response", candidate}, {"label", "level1/1"}}, expect);
  };
  EXPECT_EQ(rm("status:ok"), 1.0);
  EXPECT_EQ(rm("status:cheating:x"), -1.0);
  EXPECT_TRUE(rm("status:unsupported:x").is_null());
  EXPECT_EQ(rm("status:unsupported:x", "?null_reward=0"), 0.0);
  EXPECT_EQ(rm("status:infra:disk", "", 503)["error"]["infra"], true);
  rm("status:infra:disk", "?null_reward=0", 503);
  rm("status:ok", "?null_reward=-1", 400);
  const json dict = rm("status:infra:disk", "?format=dict");
  EXPECT_TRUE(dict["reward"].is_null());
  EXPECT_EQ(dict["infra"], true);
  EXPECT_EQ(h.post("/rm", {{{"response", "status:ok"}, {"label", "level1/1"}},
                           {{"response", "status:cheating:x"}, {"label", {{"reference", "class Model"}}}}}),
            json({1.0, -1.0}));
  EXPECT_EQ(h.post("/rm", {{"response", "status:ok"}, {"label", R"({"task":"level1/2"})"}}), 1.0);
  EXPECT_EQ(h.post("/rm", {{"response", "status:ok"}, {"label", "class Model: pass"}}), 1.0);
  h.post("/rm", {{"response", "status:ok"}, {"label", 3}}, 422);
  h.post("/rm", {{"response", "status:ok"}, {"label", "no such task"}}, 404);
}

TEST(Slime, ARetryFindsTheSameJob) {
  Harness h;
  const json sample = {{"response", "sleep:0.3:ok"}, {"label", "level1/1"}};
  h.post("/rm?wait=0.01", sample, 503);
  h.post("/rm?wait=0.01", sample, 503);
  EXPECT_EQ(h.post("/rm", sample), 1.0);
  EXPECT_EQ(h.executed, 1);
  EXPECT_EQ(h.post("/rm", sample), 1.0);
  EXPECT_EQ(h.executed, 1) << "answered from the verdict";
}

TEST(OpenRlhf, Batches) {
  Harness h;
  const json reply = h.post("/get_reward", {{"query", {"promptstatus:ok", "status:unsupported:x"}},
                                            {"prompts", {"prompt", "p"}},
                                            {"labels", {"level1/1", "level1/2"}}});
  EXPECT_EQ(reply["rewards"][0], 1.0);
  EXPECT_TRUE(reply["rewards"][1].is_null());
  EXPECT_EQ(reply["scores"], reply["rewards"]);
  EXPECT_EQ(reply["extra_logs"]["undecided"], json({0, 1}));
  EXPECT_EQ(h.post("/get_reward?null_reward=0",
                   {{"query", {"status:unsupported:x"}}, {"labels", {"level1/1"}}})["rewards"][0],
            0.0);
  h.post("/get_reward", {{"query", {"status:infra:disk", "status:ok"}}, {"labels", {"level1/1", "level1/1"}}},
         503);
  h.post("/get_reward", {{"query", {"a"}}, {"labels", json::array()}}, 422);
  h.post("/get_reward", {{"query", "a"}, {"labels", {"x"}}}, 422);
}

TEST(NemoGym, MasksWhatIsNoMeasurement) {
  Harness h;
  auto body = [](const std::string& text) {
    return json{{"responses_create_params", {{"input", "x"}}},
                {"response",
                 {{"output",
                   {{{"type", "reasoning"}},
                    {{"type", "message"}, {"content", {{{"type", "output_text"}, {"text", text}}}}}}}}},
                {"verifier_metadata", {{"task", "level1/1"}}},
                {"kept", 5}};
  };
  EXPECT_EQ(h.post("/seed_session", json::object()), json::object());
  const json good = h.post("/verify", body("status:ok"));
  EXPECT_EQ(good["reward"], 1.0);
  EXPECT_EQ(good["mask_sample"], false);
  EXPECT_EQ(good["kept"], 5);
  EXPECT_EQ(good["responses_create_params"]["input"], "x");
  for (const char* status : {"status:infra:disk", "status:unsupported:x"}) {
    const json masked = h.post("/verify", body(status));
    EXPECT_EQ(masked["reward"], 0.0);
    EXPECT_EQ(masked["mask_sample"], true);
  }
  h.post("/verify", {{"response", 3}}, 422);
}

TEST(SandboxFusion, RunCode) {
  Harness h;
  auto body = [](const std::string& code) {
    return json{{"code", code}, {"language", "python"}, {"task", "level1/1"}};
  };
  EXPECT_EQ(h.post("/run_code", body("status:ok"))["status"], "Success");
  const json build = h.post("/run_code", body("status:compile_error:nvcc"));
  EXPECT_EQ(build["status"], "Failed");
  EXPECT_EQ(build["compile_result"]["return_code"], 1);
  EXPECT_TRUE(build["run_result"].is_null());
  const json wrong = h.post("/run_code", body("status:correctness_error:values"));
  EXPECT_EQ(wrong["run_result"]["return_code"], 1);
  const json infra = h.post("/run_code", body("status:infra:disk"));
  EXPECT_EQ(infra["status"], "SandboxError");
  EXPECT_TRUE(infra["reward"].is_null());
  h.post("/run_code", {{"code", "x"}, {"language", "bash"}, {"task", "level1/1"}}, 422);
  h.post("/run_code", {{"code", "x"}, {"task", "level1/1"}, {"files", {{"../../etc/cron.d/x", "eA=="}}}},
         422);
}

TEST(KernelGym, EvaluateStatusResults) {
  Harness h;
  const json task = {{"task_id", "t1"},
                     {"reference_code", "class Model: pass"},
                     {"kernel_code", "status:ok"},
                     {"toolkit", "kernelbench"},
                     {"timeout", 300}};
  EXPECT_EQ(h.post("/evaluate", task)["task_id"], "t1");
  while (h.get("/status/t1")["status"] != "completed")
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const json result = h.get("/results/t1");
  EXPECT_EQ(result["correctness"], true);
  EXPECT_EQ(result["decoy_kernel"], false);
  EXPECT_EQ(result["reward"], 1.0);
  json other = task;
  other["kernel_code"] = "different";
  h.post("/evaluate", other, 409);
  other["task_id"] = "t2";
  other["kernel_code"] = "status:infra:disk";
  const json infra = h.post("/evaluate?wait=10", other);
  EXPECT_EQ(infra["status"], "failed");
  EXPECT_EQ(infra["infra"], true);
  EXPECT_TRUE(infra["reward"].is_null());
  other["task_id"] = "t3";
  other["kernel_code"] = "status:cheating:x";
  EXPECT_EQ(
      h.post("/workflow/submit?wait=10", {{"workflow", "kernelbench"}, {"payload", other}})["decoy_kernel"],
      true);
  other["task_id"] = "t4";
  other["kernel_code"] = "sleep:30:ok";
  EXPECT_EQ(h.post("/evaluate/batch", {{"tasks", {task, other}}})["tasks"].size(), 2u);
  EXPECT_EQ(h.call("GET", "/results/t4").status, 409);
  EXPECT_EQ(h.call("GET", "/status/none").status, 404);
}

TEST(OpenEnv, ThreeTurnsWithFeedback) {
  Harness h;
  const json start = h.post("/reset", {{"task", "level1/1"}, {"episode_id", "e"}});
  EXPECT_THAT(start["observation"]["prompt"].get<std::string>(), HasSubstr("class Model"));
  EXPECT_TRUE(start["reward"].is_null());
  const json first = h.post("/step", {{"action", {{"candidate", "status:compile_error:nvcc"}}}});
  EXPECT_EQ(first["reward"], -1.0);
  EXPECT_EQ(first["done"], false);
  EXPECT_EQ(first["observation"]["feedback"], "feedback on compile_error:nvcc");
  const json fault = h.post("/step", {{"action", {{"code", "status:infra:disk"}}}});
  EXPECT_TRUE(fault["reward"].is_null());
  EXPECT_EQ(fault["observation"]["infra"], true);
  EXPECT_EQ(fault["observation"]["turn"], 1) << "a fault of ours takes no turn";
  EXPECT_EQ(fault["done"], false);
  const json last = h.post("/step", {{"action", {{"response", "status:ok"}}}, {"episode_id", "e"}});
  EXPECT_EQ(last["done"], true);
  EXPECT_EQ(last["metadata"]["rewards"], json({-1.0, 1.0}));
  const json state = h.get("/state?episode_id=e");
  EXPECT_EQ(state["step_count"], 2);
  EXPECT_EQ(state["best"], 1.0);
  h.post("/step", {{"action", {{"candidate", "x"}}}}, 409);
  h.post("/step", {{"action", {{"candidate", "x"}}}, {"episode_id", "none"}}, 404);
  h.post("/step", json::object(), 422);
  EXPECT_FALSE(h.post("/reset", {{"seed", 3}})["observation"]["task"].get<std::string>().empty());
  for (const char* route : {"/schema", "/metadata", "/state"}) h.get(route);
}

TEST(OpenApi, NamesEveryRouteAndNoOther) {
  Harness h;
  const json document = json::parse(openapi_text(true));
  EXPECT_EQ(document["openapi"], "3.1.0");
  std::set<std::string> documented;
  for (auto& [path, operations] : document["paths"].items())
    for (auto& [method, operation] : operations.items()) {
      documented.insert(path);
      std::string upper = method;
      for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      std::string concrete = path;
      if (const auto brace = concrete.find('{'); brace != std::string::npos)
        concrete.replace(brace, concrete.find('}') - brace + 1, "x");
      auto request = parse_target(concrete);
      request->method = upper;
      EXPECT_NE(h.router->pattern_of(*request), "other") << upper << " " << path;
    }
  EXPECT_EQ(documented.size(), h.router->patterns().size());
}

TEST(Numbers, StatsAndMetrics) {
  Harness h;
  h.post("/v1/verify", {{"jobs", {job("status:ok"), job("status:cheating:x"), job("status:infra:disk")}}});
  json stats;
  for (int i = 0; i < 200 && (stats = h.get("/v1/stats"))["verdicts"]["counts"].size() < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(stats["verdicts"]["counts"], json({{"ok", 1}, {"cheating", 1}, {"infra", 1}}));
  EXPECT_EQ(stats["workers"].size(), 2u);
  EXPECT_EQ(stats["verdicts"]["buckets"].size(), 48u);
  EXPECT_TRUE(stats["stages"].contains("queued"));
  EXPECT_EQ(stats["recent"].size(), 3u);
  const Reply metrics = h.call("GET", "/metrics");
  EXPECT_THAT(metrics.type, HasSubstr("text/plain"));
  EXPECT_THAT(metrics.body, HasSubstr("musacoder_jobs_ended_total{class=\"ok\"} 1"));
  EXPECT_THAT(metrics.body, HasSubstr("process_open_fds"));
}

}  // namespace
}  // namespace musacoder::service
