// What only the queue over NATS can get wrong: restarts of the server, several processes, sizes, versions.
#include "service/nats_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "service/nats_link.h"
#include "service/nats_server.h"

namespace musacoder::service {
namespace {

using ::testing::HasSubstr;

JobSpec spec(const std::string& candidate) {
  JobSpec s;
  s.task_id = "level1/19";
  s.reference = "class Model";
  s.candidate = candidate;
  s.owner = "trainer";
  return s;
}
Outcome good() {
  return {.status = "ok", .reward = 1.0, .verdict = R"({"status":"ok"})", .feedback = "fine"};
}

class NatsQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!server_.start()) GTEST_SKIP() << server_.why();
  }
  std::unique_ptr<JobQueue> open(const std::string& prefix = "") {
    auto queue = open_queue(server_.url(prefix), config_);
    EXPECT_TRUE(queue.has_value()) << queue.error().message;
    return queue ? std::move(*queue) : nullptr;
  }
  NatsServer server_;
  QueueConfig config_;
};

TEST(NatsUrl, TakesAndRefuses) {
  EXPECT_EQ(parse_nats_url("nats://h:1")->server, "nats://h:1");
  EXPECT_EQ(parse_nats_url("nats://h:1")->prefix, "musacoder");
  EXPECT_EQ(parse_nats_url("nats://u:p/w@h:1/ab_c-1")->prefix, "ab_c-1");
  EXPECT_EQ(parse_nats_url("nats://u:p/w@h:1/ab_c-1")->shown, "nats://h:1") << "no password in messages";
  for (const char* url :
       {"nats://", "nats:///x", "nats://h/a.b", "nats://h/a b", "nats://h/>", "http://h", "nats://:4222"})
    EXPECT_FALSE(parse_nats_url(url).has_value()) << url;
  auto refused = open_queue("nats://user:secret@h/a.b", {});
  EXPECT_THAT(refused.error().message, ::testing::Not(HasSubstr("secret")));
}

TEST_F(NatsQueueTest, TwoProcessesSeeOneQueue) {
  auto a = open(), b = open();
  JobSpec s = spec("x");
  s.idempotency_key = "k";
  const std::string id = a->submit({s})->at(0).job.id;
  EXPECT_EQ(b->submit({s})->at(0).job.id, id);
  auto lease = b->lease({"w/0"});
  ASSERT_TRUE(lease->has_value());
  EXPECT_FALSE(a->lease({"w/1"})->has_value());
  EXPECT_TRUE(*a->complete((*lease)->id, good())) << "a lease is known everywhere";
  EXPECT_EQ((*b->get(id))->outcome.feedback, "fine");
  EXPECT_EQ(b->stats()->ended, 1u);
}

TEST_F(NatsQueueTest, ManyProcessesEndEveryJobOnce) {
  constexpr int kQueues = 4, kJobs = 80;
  std::vector<std::unique_ptr<JobQueue>> queues;
  for (int i = 0; i < kQueues; ++i) queues.push_back(open());
  std::atomic<int> accepted{0};
  std::mutex mutex;
  std::set<std::string> given, submitted;
  std::vector<std::thread> threads;
  for (int q = 0; q < kQueues; ++q)
    threads.emplace_back([&, q] {
      for (int i = 0; i < kJobs / kQueues; ++i) {
        JobSpec s = spec(fmt::format("{}-{}", q, i));
        JobSpec shared = spec("shared");
        shared.idempotency_key = fmt::format("shared {}", i);
        auto jobs = queues[static_cast<std::size_t>(q)]->submit({s, shared});
        ASSERT_TRUE(jobs.has_value()) << jobs.error().message;
        std::lock_guard lock(mutex);
        for (const auto& one : *jobs) submitted.insert(one.job.id);
      }
      for (;;) {
        auto lease = queues[static_cast<std::size_t>(q)]->lease({"w"});
        ASSERT_TRUE(lease.has_value());
        if (!*lease) break;
        {
          std::lock_guard lock(mutex);
          EXPECT_TRUE(given.insert((*lease)->job.id).second) << "given out twice";
        }
        accepted += queues[static_cast<std::size_t>(q)]->complete((*lease)->id, good()).value();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(submitted.size(), static_cast<std::size_t>(kJobs + kJobs / kQueues));
  EXPECT_EQ(given, submitted);
  EXPECT_EQ(accepted, kJobs + kJobs / kQueues);
  for (auto& queue : queues) EXPECT_EQ(queue->stats()->ended, submitted.size());
}

TEST_F(NatsQueueTest, OperationsOutliveARestart) {
  auto queue = open();
  std::atomic<bool> stop{false};
  std::atomic<int> restarts{0};
  std::thread chaos([&] {
    while (!stop) {
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      server_.kill();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ASSERT_TRUE(server_.start()) << server_.why();
      ++restarts;
    }
  });
  std::set<std::string> ids;
  for (int i = 0; restarts < 4 || i < 60; ++i) {
    auto jobs = queue->submit({spec(fmt::format("{}a", i)), spec(fmt::format("{}b", i))});
    ASSERT_TRUE(jobs.has_value()) << jobs.error().message;
    for (const auto& one : *jobs) ids.insert(one.job.id);
    auto lease = queue->lease({"w/0"});
    ASSERT_TRUE(lease.has_value()) << lease.error().message;
    ASSERT_TRUE(lease->has_value());
    ASSERT_TRUE(queue->heartbeat((*lease)->id, "build", 30).has_value());
    auto accepted = queue->complete((*lease)->id, good());
    ASSERT_TRUE(accepted.has_value()) << accepted.error().message;
    EXPECT_TRUE(*accepted);
  }
  stop = true;
  chaos.join();
  EXPECT_EQ(queue->stats()->queued + queue->stats()->ended, ids.size()) << "nothing lost, nothing twice";
  EXPECT_EQ(queue->stats()->ended, ids.size() / 2);
  EXPECT_EQ(open()->stats()->queued, ids.size() / 2);
}

TEST_F(NatsQueueTest, LargeBodiesAndLargeSubmissionsTravelInPieces) {
  auto queue = open();
  JobSpec large = spec(std::string(7u << 20, 'x') + "end");
  large.extra = R"({"labels":")" + std::string(60'000, 'y') + "\"}";
  const std::string id = queue->submit({large})->at(0).job.id;
  EXPECT_EQ(queue->list({})->at(0).spec.extra, large.extra);
  auto lease = queue->lease({"w/0"});
  EXPECT_EQ((*lease)->job.spec.candidate, large.candidate);
  Outcome outcome = good();
  outcome.verdict = '"' + std::string(3u << 20, 'v') + '"';
  EXPECT_TRUE(*queue->complete((*lease)->id, outcome));
  EXPECT_EQ((*open()->get(id))->outcome.verdict, outcome.verdict);
  std::vector<JobSpec> many(1024, spec("m"));
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i].idempotency_key = std::string(120, 'k') + std::to_string(i);
    many[i].extra = R"({"a":")" + std::string(900, 'z') + "\"}";
  }
  auto submitted = queue->submit(many);
  ASSERT_TRUE(submitted.has_value()) << submitted.error().message;
  EXPECT_EQ(open()->stats()->queued, many.size());
}

TEST_F(NatsQueueTest, WhatWasPrunedIsGoneFromTheServer) {
  base::FakeClock clock;
  config_.clock = &clock;
  auto queue = open();
  queue->submit({spec("a"), spec("b")}).value();
  const std::string first = (*queue->lease({"w"}))->id;
  queue->complete(first, good()).value();
  auto link = NatsLink::open(*parse_nats_url(server_.url()));
  const auto messages = [&](const char* stream) {
    return (*link)->state(stream, base::Deadline::in(5))->messages;
  };
  const auto archive_and_prune = [&] {
    const auto ended = queue->unarchived(10);
    for (const auto& job : *ended) EXPECT_TRUE(queue->mark_archived({job.id}).has_value());
    clock.advance(10);
    return *queue->prune(clock.unix_time());
  };
  EXPECT_EQ(archive_and_prune(), 1u);
  EXPECT_EQ(open()->stats()->ended, 0u) << "its batch does not bring it back";
  EXPECT_EQ(open()->stats()->queued, 1u);
  queue->complete((*queue->lease({"w"}))->id, good()).value();
  EXPECT_EQ(archive_and_prune(), 1u);
  EXPECT_EQ(messages("musacoder_bodies"), 0u);
  EXPECT_EQ(messages("musacoder_jobs"), 1u) << "the schema alone";
}

TEST_F(NatsQueueTest, ANewerProgramsRecordsAreLeftAlone) {
  auto queue = open();
  const std::string id = queue->submit({spec("a")})->at(0).job.id;
  auto link = NatsLink::open(*parse_nats_url(server_.url()));
  const base::Deadline deadline = base::Deadline::in(5);
  const std::string subject = "musacoder.jobs.job." + id;
  const std::string newer = R"({"v":2,"id":")" + id + R"(","shape":"unknown"})";
  ASSERT_TRUE((*link)->put(subject, newer, {}, deadline).has_value());
  ASSERT_TRUE((*link)->put("musacoder.jobs.job.j-x", "not json", {}, deadline).has_value());
  ASSERT_TRUE((*link)->put("musacoder.jobs.something.new", "{}", {}, deadline).has_value());
  auto other = open();
  EXPECT_FALSE(other->get(id)->has_value());
  EXPECT_FALSE(other->lease({"w"})->has_value());
  EXPECT_FALSE(other->cancel(id).has_value());
  EXPECT_EQ((*(*link)->last("musacoder_jobs", subject, deadline))->data, newer) << "never written";
  ASSERT_TRUE((*link)->put("musacoder.jobs.schema", R"({"schema":2})", {}, deadline).has_value());
  EXPECT_EQ(open_queue(server_.url(), {}).error().code, Code::kUnsupported);
}

TEST_F(NatsQueueTest, AStreamOfAnotherProgramIsRefused) {
  auto link = NatsLink::open(*parse_nats_url(server_.url()));
  ASSERT_TRUE((*link)->ensure({.name = "other_jobs", .subject = "elsewhere", .per_subject = -1},
                              base::Deadline::in(5)));
  auto refused = open_queue(server_.url("other"), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("another prefix"));
}

TEST_F(NatsQueueTest, AFullStoreIsNamedAndNothingIsHalfWritten) {
  server_.kill();
  ASSERT_TRUE(server_.start("max_file_store: 4MB")) << server_.why();
  auto queue = open();
  ASSERT_TRUE(queue->submit({spec("before")}).has_value());
  auto refused = queue->submit({spec("small"), spec(std::string(6u << 20, 'x'))});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted) << refused.error().message;
  EXPECT_EQ(queue->stats()->queued, 1u);
  // nats-server 2.9 counts what was removed only when it starts.
  server_.kill();
  ASSERT_TRUE(server_.start("max_file_store: 4MB")) << server_.why();
  auto after = queue->submit({spec("after")});
  EXPECT_TRUE(after.has_value()) << "its bodies were removed again: " << (after ? "" : after.error().message);
}

TEST_F(NatsQueueTest, TheBellWakesALaneAtOnce) {
  auto queue = open(), other = open();
  std::atomic<double> took{-1};
  std::thread lane([&] {
    const base::Stopwatch watch;
    while (took < 0 && watch.seconds() < 20) {
      auto lease = other->lease({"w/0"}, 5);
      if (lease && *lease) took = watch.seconds();
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  queue->submit({spec("a")}).value();
  lane.join();
  EXPECT_GT(took, 0);
}

TEST(NatsQueue, NoServerIsToldWithinTheDeadline) {
  auto link = NatsLink::open({.server = "nats://127.0.0.1:1", .shown = "nats://127.0.0.1:1"}, 0.5);
  ASSERT_FALSE(link.has_value());
  EXPECT_EQ(link.error().code, Code::kUnavailable);
  EXPECT_THAT(link.error().message, HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace musacoder::service
