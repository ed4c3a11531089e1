// A service on a memory queue with lanes that only pretend to judge: what the candidate's text says is what
// comes out.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/files.h"
#include "service/router.h"
#include "verdict_samples.h"

namespace musacoder::service {

// "status:ok", "status:infra:disk"; "sleep:0.2:ok" first waits; anything else is a compile error.
class PretendExecutor : public Executor {
 public:
  explicit PretendExecutor(std::atomic<int>& executed) : executed_(executed) {}
  Outcome execute(const JobSpec& spec, const judge::StageCallback& on_stage,
                  const std::function<bool()>& cancelled) override {
    ++executed_;
    std::string status = spec.candidate;
    on_stage("build");
    if (status.rfind("sleep:", 0) == 0) {
      const auto colon = status.find(':', 6);
      const base::Deadline until = base::Deadline::in(std::stod(status.substr(6, colon - 6)));
      status = "status:" + status.substr(colon + 1);
      while (!until.expired()) {
        if (cancelled()) return {.status = "infra:cancelled"};
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
    status = status.rfind("status:", 0) == 0 ? status.substr(7) : "compile_error:extraction";
    on_stage("run 1/7");
    judge::Verdict verdict = judge::samples::verdict_of(status, spec.task_id);
    verdict.status = status;
    verdict.reward.reset();
    if (!judge::is_null_reward(status)) verdict.reward = status == "ok" ? 1.0 : -1.0;
    return {.status = status,
            .reward = verdict.reward,
            .verdict = judge::to_json(verdict).dump(),
            .feedback = "feedback on " + status,
            .code = spec.candidate};
  }
  Outcome compile(const JobSpec&, const judge::StageCallback& on_stage,
                  const std::function<bool()>&) override {
    ++executed_;
    on_stage("build");
    return {.status = "ok"};
  }

 private:
  std::atomic<int>& executed_;
};

class Harness {
 public:
  explicit Harness(ServiceConfig config = {}, QueueConfig queue_config = fast(), int lanes = 2) {
    auto tasks = task::TaskSet::from_jsonl(
        R"({"name":"1_relu","level":1,"id":1,"code":"class Model: pass\ndef get_inputs(): pass"})"
        "\n"
        R"({"name":"2_add","level":1,"id":2,"code":"class Model: add\ndef get_inputs(): pass"})"
        "\n",
        "test");
    EXPECT_TRUE(tasks.has_value()) << (tasks ? "" : tasks.error().message);
    if (tasks) config.tasks = std::move(*tasks);
    queue = make_memory_queue(queue_config);
    service = std::make_unique<Service>(std::move(config), *queue, nullptr);
    router = std::make_unique<Router>(*service);
    pool = std::make_unique<WorkerPool>(
        service->local_source(),
        [this](int) {
          return Result<std::unique_ptr<Executor>>(std::make_unique<PretendExecutor>(executed));
        },
        WorkerOptions{.lanes = lanes, .visibility_s = 2, .poll_s = 0.01});
    service->attach(pool.get());
    service->start();
    if (lanes > 0) pool->start();
  }
  ~Harness() {
    pool->drain(0);
    service->stop();
  }
  static QueueConfig fast() {
    QueueConfig config;
    config.retry.backoff_s = 0.01;
    return config;
  }

  // The final reply, waits served by polling.
  Reply call(const std::string& method, const std::string& target, const std::string& body = "",
             const std::string& token = "", const std::function<void(Request&)>& change = {}) {
    auto request = parse_target(target);
    if (!request) return error_reply(request.error(), "");
    request->method = method;
    request->body = body;
    request->host = "127.0.0.1:8811";
    request->id = "test";
    if (!token.empty()) request->authorization = "Bearer " + token;
    if (change) change(*request);
    Reply reply = router->handle(*request);
    while (reply.wait) {
      Wait wait = std::move(*reply.wait);
      const base::Deadline deadline = base::Deadline::in(wait.seconds);
      auto all = [&] {
        for (const auto& id : wait.jobs)
          if (auto job = queue->get(id); !job || !*job || !has_ended((*job)->state)) return false;
        return true;
      };
      bool ended = false;
      while (!(ended = all()) && !deadline.expired())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      reply = wait.then(ended);
    }
    return reply;
  }
  nlohmann::json post(const std::string& target, const nlohmann::json& body, int expect = 200,
                      const std::string& token = "") {
    const Reply reply = call("POST", target, body.dump(), token);
    EXPECT_EQ(reply.status, expect) << target << ": " << reply.body;
    return nlohmann::json::parse(reply.body, nullptr, false);
  }
  nlohmann::json get(const std::string& target, int expect = 200, const std::string& token = "") {
    const Reply reply = call("GET", target, "", token);
    EXPECT_EQ(reply.status, expect) << target << ": " << reply.body;
    return nlohmann::json::parse(reply.body, nullptr, false);
  }

  std::atomic<int> executed{0};
  std::unique_ptr<JobQueue> queue;
  std::unique_ptr<Service> service;
  std::unique_ptr<Router> router;
  std::unique_ptr<WorkerPool> pool;
};

}  // namespace musacoder::service
