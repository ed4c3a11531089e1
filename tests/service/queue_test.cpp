// One suite for every implementation of JobQueue.
#include "service/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <thread>

#include "base/files.h"
#include "base/subprocess.h"
#include "service/nats_server.h"

namespace musacoder::service {
namespace {

using ::testing::HasSubstr;

class QueueTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto dir = base::TempDir::create("queue");
    ASSERT_TRUE(dir.has_value());
    dir_ = std::move(*dir);
    config_.clock = &clock_;
    if (kind() == "nats") {
      static NatsServer server;
      static const bool up = server.start();
      if (!up) GTEST_SKIP() << server.why();
      static int count = 0;
      url_ = server.url(fmt::format("t{}", ++count));
    } else {
      url_ = kind() == "memory" ? "memory" : "sqlite:" + dir_.file("queue.db");
    }
    reopen();
  }
  static std::string kind() { return GetParam(); }
  void reopen() {
    queue_.reset();
    auto queue = open_queue(url_, config_);
    ASSERT_TRUE(queue.has_value()) << queue.error().message;
    queue_ = std::move(*queue);
  }
  static bool durable() { return kind() != "memory"; }

  static JobSpec spec(const std::string& candidate, int priority = 0) {
    JobSpec s;
    s.task_id = "level1/19";
    s.reference = "class Model";
    s.candidate = candidate;
    s.priority = priority;
    s.owner = "trainer";
    return s;
  }
  Job put(const JobSpec& s) {
    auto submitted = queue_->submit({s});
    EXPECT_TRUE(submitted.has_value()) << (submitted ? "" : submitted.error().message);
    return submitted ? submitted->at(0).job : Job{};
  }
  std::optional<Lease> take(const std::string& prefer = "", const std::string& worker = "w/0") {
    auto lease = queue_->lease({worker, 30, prefer});
    EXPECT_TRUE(lease.has_value()) << (lease ? "" : lease.error().message);
    return lease ? std::move(*lease) : std::nullopt;
  }
  static Outcome good() {
    return {.status = "ok", .reward = 1.0, .verdict = R"({"status":"ok"})", .feedback = "fine", .code = "x"};
  }
  Job get(const std::string& id) {
    auto job = queue_->get(id);
    EXPECT_TRUE(job.has_value() && job->has_value());
    return job && *job ? **job : Job{};
  }

  base::FakeClock clock_;
  base::TempDir dir_;
  std::string url_;
  QueueConfig config_;
  std::unique_ptr<JobQueue> queue_;
};

TEST_P(QueueTest, AJobGoesThroughOnce) {
  const Job job = put(spec("a"));
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(*queue_->position(job.id), 1u);
  auto lease = take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->job.id, job.id);
  EXPECT_EQ(lease->job.spec.candidate, "a");
  EXPECT_FALSE(take());
  EXPECT_EQ(get(job.id).state, JobState::kRunning);
  auto beat = queue_->heartbeat(lease->id, "build", 30);
  ASSERT_TRUE(beat.has_value());
  EXPECT_FALSE(beat->cancel);
  EXPECT_EQ(get(job.id).stage, "build");
  EXPECT_TRUE(*queue_->complete(lease->id, good()));
  const Job done = get(job.id);
  EXPECT_EQ(done.state, JobState::kDone);
  EXPECT_EQ(done.outcome.status, "ok");
  EXPECT_EQ(done.outcome.reward, 1.0);
  EXPECT_EQ(done.outcome.feedback, "fine");
  EXPECT_FALSE(*queue_->complete(lease->id, {.status = "cheating:torch_op", .reward = -1}));
  EXPECT_EQ(get(job.id).outcome.status, "ok");
}

TEST_P(QueueTest, PriorityThenOrder) {
  put(spec("low", -1));
  put(spec("first"));
  put(spec("second"));
  put(spec("high", 5));
  std::vector<std::string> order;
  while (auto lease = take()) order.push_back(lease->job.spec.candidate);
  EXPECT_THAT(order, ::testing::ElementsAre("high", "first", "second", "low"));
}

TEST_P(QueueTest, ALanePrefersItsTaskWithinAPriority) {
  JobSpec other = spec("other");
  other.reference = "class Model: other";
  put(spec("a"));
  const Job wanted = put(other);
  EXPECT_EQ(take(task_hash(other))->job.id, wanted.id);
  EXPECT_EQ(take(task_hash(other))->job.spec.candidate, "a");
  put(spec("urgent", 1));
  put(other);
  EXPECT_EQ(take(task_hash(other))->job.spec.candidate, "urgent");
}

TEST_P(QueueTest, IdempotencyKeysAreOneJobAnOwner) {
  JobSpec s = spec("a");
  s.idempotency_key = "k";
  const Job first = put(s);
  auto again = queue_->submit({s});
  EXPECT_TRUE(again->at(0).repeated);
  EXPECT_EQ(again->at(0).job.id, first.id);
  JobSpec other = spec("b");
  other.idempotency_key = "k";
  auto refused = queue_->submit({spec("c"), other});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr(first.id));
  EXPECT_EQ(queue_->stats()->queued, 1u) << "all or nothing";
  other.owner = "somebody else";
  EXPECT_NE(put(other).id, first.id);
  JobSpec twice = spec("d");
  twice.idempotency_key = "two";
  JobSpec disagrees = spec("e");
  disagrees.idempotency_key = "two";
  EXPECT_FALSE(queue_->submit({twice, disagrees}).has_value());
  EXPECT_EQ(queue_->stats()->queued, 2u);
}

TEST_P(QueueTest, CountsWhatWouldBeNew) {
  JobSpec keyed = spec("a");
  keyed.idempotency_key = "k";
  put(keyed);
  JobSpec attached = spec("a");
  attached.attach = true;
  EXPECT_EQ(*queue_->count_new({keyed, attached, spec("a"), spec("b")}), 2u);
}

TEST_P(QueueTest, TheSameContentIsAnsweredFromADecidedVerdictOnly) {
  put(spec("a"));
  queue_->complete(take()->id, {.status = "infra:disk"}).value();
  EXPECT_FALSE(put(spec("a")).cached) << "the first one is only waiting for its retry";
  clock_.advance(60);
  while (auto lease = take()) queue_->complete(lease->id, good()).value();
  const Job cached = put(spec("a"));
  EXPECT_TRUE(cached.cached);
  EXPECT_EQ(cached.state, JobState::kDone);
  EXPECT_EQ(get(cached.id).outcome.reward, 1.0);
  JobSpec anew = spec("a");
  anew.reuse = false;
  EXPECT_EQ(put(anew).state, JobState::kQueued);
  JobSpec seeded = spec("a");
  seeded.seed = 5;
  EXPECT_EQ(put(seeded).state, JobState::kQueued);
}

TEST_P(QueueTest, UndecidedVerdictsAreNotReused) {
  put(spec("a"));
  queue_->complete(take()->id, {.status = "unsupported:ptx:x"}).value();
  EXPECT_FALSE(put(spec("a")).cached);
}

TEST_P(QueueTest, AttachingFindsTheUnfinishedJob) {
  JobSpec s = spec("a");
  s.attach = true;
  const Job first = put(s);
  EXPECT_EQ(put(s).id, first.id);
  take();
  EXPECT_EQ(put(s).id, first.id);
  queue_->cancel(first.id).value();
  EXPECT_NE(put(s).id, first.id);
}

TEST_P(QueueTest, AFaultIsTriedAgainLaterAndThenEndsAsDeadLetter) {
  const Job job = put(spec("a"));
  for (int attempt = 1; attempt <= 3; ++attempt) {
    auto lease = take();
    ASSERT_TRUE(lease) << attempt;
    EXPECT_TRUE(
        *queue_->complete(lease->id, {.status = "infra:disk", .reward = -1.0, .feedback = "no room"}));
    if (attempt == 3) break;
    EXPECT_EQ(get(job.id).state, JobState::kQueued);
    EXPECT_FALSE(take()) << "not at once";
    clock_.advance(60);
  }
  const Job dead = get(job.id);
  EXPECT_EQ(dead.state, JobState::kFailed);
  EXPECT_EQ(dead.outcome.status, "infra:disk");
  EXPECT_FALSE(dead.outcome.reward.has_value()) << "never a reward";
  EXPECT_EQ(queue_->stats()->dead, 1u);
}

TEST_P(QueueTest, GivingBackDoesNotCount) {
  const Job job = put(spec("a"));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(*queue_->release(take()->id, ""));
  EXPECT_EQ(get(job.id).attempts, 0);
  EXPECT_TRUE(*queue_->release(take()->id, "infra:lane no python"));
  EXPECT_EQ(get(job.id).faults, 1);
}

TEST_P(QueueTest, ALostLeaseIsGivenToAnotherAndTheFirstIsRefused) {
  const Job job = put(spec("a"));
  auto first = take();
  clock_.advance(29);
  EXPECT_EQ(*queue_->sweep(), 0u);
  EXPECT_TRUE(queue_->heartbeat(first->id, "run 1/7", 30).has_value());
  clock_.advance(29);
  EXPECT_EQ(*queue_->sweep(), 0u) << "heartbeats extend it";
  clock_.advance(2);
  EXPECT_EQ(*queue_->sweep(), 1u);
  auto second = take();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->job.id, job.id);
  EXPECT_EQ(second->job.deaths, 1);
  EXPECT_EQ(queue_->heartbeat(first->id, "", 30).error().code, Code::kNotFound);
  EXPECT_EQ(queue_->complete(first->id, {.status = "cheating:torch_op"}).error().code, Code::kNotFound);
  EXPECT_TRUE(*queue_->complete(second->id, good()));
  EXPECT_EQ(get(job.id).outcome.status, "ok");
}

TEST_P(QueueTest, APoisonJobIsSetAsideAfterThreeDeaths) {
  const Job poison = put(spec("poison"));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(take());
    clock_.advance(31);
    EXPECT_EQ(*queue_->sweep(), 1u);
  }
  EXPECT_FALSE(take());
  EXPECT_EQ(get(poison.id).state, JobState::kFailed);
  EXPECT_EQ(get(poison.id).outcome.status, "infra:poison");
  EXPECT_FALSE(get(poison.id).outcome.reward.has_value());
}

TEST_P(QueueTest, TheLeaseOfADeadProcessIsLostAtOnce) {
  const Job job = put(spec("a"));
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string name = worker_identity(0);
    [[maybe_unused]] auto n = write(pipe_fds[1], name.data(), name.size());
    close(pipe_fds[1]);
    pause();
    _exit(0);
  }
  close(pipe_fds[1]);
  char name[512];
  const ssize_t n = read(pipe_fds[0], name, sizeof name);
  ASSERT_GT(n, 0);
  const std::string worker(name, static_cast<std::size_t>(n));
  close(pipe_fds[0]);
  take("", worker);
  EXPECT_EQ(*queue_->sweep(), 0u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(*queue_->sweep(), 1u);
  EXPECT_EQ(get(job.id).state, JobState::kQueued);
}

TEST_P(QueueTest, CancellingEndsAtOnceAndTellsTheWorker) {
  const Job waiting = put(spec("a"));
  EXPECT_EQ(queue_->cancel(waiting.id)->state, JobState::kCancelled);
  EXPECT_FALSE(take());
  const Job running = put(spec("b"));
  auto lease = take();
  EXPECT_EQ(queue_->cancel(running.id)->state, JobState::kCancelled);
  EXPECT_TRUE(queue_->heartbeat(lease->id, "", 30)->cancel);
  EXPECT_FALSE(*queue_->complete(lease->id, good()));
  EXPECT_EQ(get(running.id).outcome.status, "infra:cancelled");
  const Job done = put(spec("c"));
  queue_->complete(take()->id, good()).value();
  EXPECT_EQ(queue_->cancel(done.id)->state, JobState::kDone);
  EXPECT_EQ(queue_->cancel("j-none").error().code, Code::kNotFound);
}

TEST_P(QueueTest, Deadlines) {
  JobSpec s = spec("a");
  s.deadline_at = clock_.unix_time() + 10;
  const Job waiting = put(s);
  s.candidate = "b";
  const Job running = put(s);
  s.candidate = "c";
  EXPECT_EQ(take()->job.id, waiting.id);
  auto lease = take();
  clock_.advance(11);
  const Job late = put(s);
  EXPECT_FALSE(take()) << "too late to begin";
  EXPECT_EQ(*queue_->sweep(), 3u);
  for (const auto& id : {waiting.id, running.id, late.id}) {
    EXPECT_EQ(get(id).state, JobState::kExpired);
    EXPECT_EQ(get(id).outcome.status, "infra:deadline");
  }
  EXPECT_TRUE(queue_->heartbeat(lease->id, "", 30)->cancel);
}

TEST_P(QueueTest, AFullQueueRefusesWhole) {
  config_.max_queued = 2;
  reopen();
  put(spec("a"));
  auto refused = queue_->submit({spec("b"), spec("c")});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(queue_->stats()->queued, 1u);
  put(spec("b"));
  EXPECT_FALSE(queue_->submit({spec("c")}).has_value());
}

TEST_P(QueueTest, ChangesAreSeenOnceEachInOrder) {
  const Job a = put(spec("a")), b = put(spec("b"));
  auto changes = *queue_->changes(0);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].id, a.id);
  const std::uint64_t seen = changes[1].revision;
  EXPECT_TRUE(queue_->changes(seen)->empty());
  auto lease = take();
  queue_->heartbeat(lease->id, "build", 30).value();
  queue_->heartbeat(lease->id, "build", 30).value();
  changes = *queue_->changes(seen);
  ASSERT_EQ(changes.size(), 1u) << "one a job, its latest";
  EXPECT_EQ(changes[0].stage, "build");
  EXPECT_EQ(changes[0].owner, "trainer");
  queue_->complete(lease->id, good()).value();
  EXPECT_EQ(queue_->changes(changes[0].revision)->at(0).state, JobState::kDone);
}

TEST_P(QueueTest, ListsFilterAndPage) {
  for (int i = 0; i < 5; ++i) put(spec("c" + std::to_string(i)));
  queue_->complete(take()->id, good()).value();
  EXPECT_EQ(queue_->list({.state = JobState::kDone})->size(), 1u);
  EXPECT_EQ(queue_->list({.status = "ok"})->size(), 1u);
  EXPECT_EQ(queue_->list({.owner = "nobody"})->size(), 0u);
  EXPECT_EQ(queue_->list({.task = "level1/19"})->size(), 5u);
  auto page = *queue_->list({.limit = 2});
  ASSERT_EQ(page.size(), 2u);
  EXPECT_TRUE(page[0].spec.candidate.empty());
  EXPECT_TRUE(page[0].outcome.verdict.empty());
  EXPECT_EQ(queue_->list({.before = page[1].id})->size(), 3u);
  EXPECT_EQ(queue_->load_of("trainer")->queued, 4u);
}

TEST_P(QueueTest, PrunesOnlyWhatWasArchived) {
  const Job a = put(spec("a"));
  put(spec("b"));
  queue_->complete(take()->id, good()).value();
  clock_.advance(100);
  EXPECT_EQ(*queue_->prune(clock_.unix_time()), 0u);
  auto ended = *queue_->unarchived(10);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome.verdict, R"({"status":"ok"})");
  ASSERT_TRUE(queue_->mark_archived({a.id}).has_value());
  EXPECT_TRUE(queue_->unarchived(10)->empty());
  EXPECT_EQ(*queue_->prune(clock_.unix_time() - 200), 0u);
  EXPECT_EQ(*queue_->prune(clock_.unix_time()), 1u);
  EXPECT_FALSE(queue_->get(a.id)->has_value());
  EXPECT_FALSE(put(spec("a")).cached);
}

TEST_P(QueueTest, ManyThreadsEndEveryJobOnce) {
  constexpr int kJobs = 120;
  for (int i = 0; i < kJobs; ++i) put(spec("c" + std::to_string(i)));
  std::atomic<int> accepted{0};
  std::mutex mutex;
  std::set<std::string> ids;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      while (auto lease = take()) {
        {
          std::lock_guard lock(mutex);
          EXPECT_TRUE(ids.insert(lease->job.id).second) << "given out twice";
        }
        queue_->heartbeat(lease->id, "build", 30).value();
        accepted += queue_->complete(lease->id, good()).value();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(accepted, kJobs);
  EXPECT_EQ(queue_->stats()->ended, static_cast<std::size_t>(kJobs));
}

TEST_P(QueueTest, WhatIsDurableOutlivesTheProgram) {
  if (!durable()) GTEST_SKIP() << "the memory queue forgets by design";
  JobSpec s = spec("a");
  s.extra = R"({"step":17})";
  s.idempotency_key = "k";
  const Job queued = put(s);
  const Job running = put(spec("b", 3));
  auto lease = take();
  reopen();
  EXPECT_EQ(get(queued.id).spec.extra, R"({"step":17})");
  EXPECT_EQ(put(s).id, queued.id);
  EXPECT_TRUE(*queue_->complete(lease->id, good()));
  EXPECT_EQ(get(running.id).state, JobState::kDone);
}

TEST_P(QueueTest, KillMinusNineLosesNothingThatWasAcknowledged) {
  if (!durable()) GTEST_SKIP() << "the memory queue forgets by design";
  queue_.reset();
  // A program of its own: a library's threads do not outlive fork().
  auto child = base::Child::start({.argv = {"/proc/self/exe", "--gtest_filter=QueueChild.DISABLED_Submits",
                                            "--gtest_also_run_disabled_tests"},
                                   .env = {"MC_QUEUE_URL=" + url_},
                                   .socket_at = 9});
  ASSERT_TRUE(child.has_value());
  const base::Fd line = child->take_socket();
  std::size_t acknowledged = 0;
  char byte;
  while (acknowledged < 25 && read(line.get(), &byte, 1) == 1) ++acknowledged;
  EXPECT_EQ(child->stop().signal, SIGKILL);
  while (read(line.get(), &byte, 1) == 1) ++acknowledged;
  ASSERT_GE(acknowledged, 25u);
  reopen();
  const std::size_t queued = queue_->stats()->queued;
  EXPECT_GE(queued, acknowledged);
  EXPECT_LE(queued, acknowledged + 1);
}

TEST_P(QueueTest, AFullDiskIsNamedAndNothingIsHalfWritten) {
  if (kind() != "sqlite") GTEST_SKIP() << "memory needs no disk; of NATS see nats_queue_test.cpp";
  put(spec("before"));
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    auto queue = open_queue("sqlite:" + dir_.file("queue.db"), config_);
    rlimit limit{4096, 4096};
    if (!queue || setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    auto refused = (*queue)->submit({spec("after")});
    _exit(!refused && refused.error().code == Code::kResourceExhausted ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  reopen();
  EXPECT_EQ(queue_->stats()->queued, 1u);
}

TEST_P(QueueTest, ForeignAndNewerFilesAreRefused) {
  if (kind() != "sqlite") GTEST_SKIP() << "no file";
  const std::string path = dir_.file("other.db");
  ASSERT_TRUE(base::write_file(path, std::string(4096, 'x')).has_value());
  EXPECT_EQ(open_queue("sqlite:" + path, config_).error().code, Code::kInvalidArgument);
  EXPECT_EQ(open_queue("redis:x", config_).error().code, Code::kInvalidArgument);
  EXPECT_EQ(open_queue("sqlite:/nowhere/x.db", config_).error().code, Code::kUnavailable);
}

TEST_P(QueueTest, CompileWorkersHandOverToExecuteWorkers) {
  const auto as = [&](WorkerRole role) {
    auto lease = queue_->lease({"w/0", 30, "", role});
    EXPECT_TRUE(lease.has_value());
    return lease ? std::move(*lease) : std::nullopt;
  };
  const Job job = put(spec("a"));
  auto compiling = as(WorkerRole::kCompile);
  ASSERT_TRUE(compiling);
  EXPECT_EQ(get(job.id).stage, "compile");
  EXPECT_FALSE(as(WorkerRole::kExecute));
  put(spec("b"));
  EXPECT_FALSE(as(WorkerRole::kExecute)) << "a compile worker is there and will take it";
  EXPECT_TRUE(*queue_->compiled(compiling->id));
  EXPECT_EQ(queue_->heartbeat(compiling->id, "compile", 30).error().code, Code::kNotFound);
  EXPECT_EQ(get(job.id).attempts, 0) << "compiling is not a try";
  EXPECT_EQ(get(job.id).stage, "compiled");
  EXPECT_EQ(as(WorkerRole::kCompile)->job.spec.candidate, "b") << "compiled once";
  if (durable()) reopen();
  auto executing = as(WorkerRole::kExecute);
  ASSERT_TRUE(executing);
  EXPECT_EQ(executing->job.id, job.id);
  EXPECT_TRUE(*queue_->release(executing->id, "infra:lane no device"));
  clock_.advance(2);
  EXPECT_FALSE(as(WorkerRole::kCompile)) << "a fault of its execution does not compile it again";
  EXPECT_TRUE(*queue_->complete(as(WorkerRole::kExecute)->id, good()));
  EXPECT_EQ(get(job.id).state, JobState::kDone);
}

TEST_P(QueueTest, WithoutACompileWorkerExecuteWorkersTakeEverything) {
  const auto as = [&](WorkerRole role) { return std::move(*queue_->lease({"w/0", 30, "", role})); };
  put(spec("a"));
  auto first = as(WorkerRole::kExecute);
  ASSERT_TRUE(first) << "none was ever seen";
  EXPECT_TRUE(*queue_->complete(first->id, good()));
  EXPECT_FALSE(as(WorkerRole::kCompile));
  put(spec("b"));
  put(spec("c"));
  EXPECT_FALSE(as(WorkerRole::kExecute));
  auto compiling = as(WorkerRole::kCompile);
  for (int i = 0; i < 4; ++i) {
    clock_.advance(10);
    EXPECT_TRUE(queue_->heartbeat(compiling->id, "compile", 30).has_value());
    EXPECT_FALSE(as(WorkerRole::kExecute)) << "it is busy, not gone";
  }
  clock_.advance(kCompilerGoneS + 1);
  EXPECT_EQ(as(WorkerRole::kExecute)->job.spec.candidate, "c");
  EXPECT_FALSE(as(WorkerRole::kBoth));
  clock_.advance(31);
  queue_->sweep().value();
  EXPECT_TRUE(as(WorkerRole::kBoth));
}

TEST(QueueChild, DISABLED_Submits) {
  const char* url = std::getenv("MC_QUEUE_URL");
  auto queue = open_queue(url ? url : "", {});
  ASSERT_TRUE(queue.has_value()) << queue.error().message;
  for (int i = 0;; ++i) {
    JobSpec spec;
    spec.candidate = "c" + std::to_string(i);
    ASSERT_TRUE((*queue)->submit({spec}).has_value());
    ASSERT_EQ(write(9, "x", 1), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Queues, QueueTest, ::testing::Values("memory", "sqlite", "nats"),
                         [](const auto& info) { return std::string(info.param); });

TEST(WorkerIdentity, OnlyNamesOfThisHostAreEverGone) {
  EXPECT_FALSE(worker_is_gone(worker_identity(3)));
  for (const char* name : {"", "w", "other/1/2/3/4/5", "a/b/c/d/e/f", "////"})
    EXPECT_FALSE(worker_is_gone(name)) << name;
  std::string self = worker_identity(0);
  self.replace(self.rfind('/'), std::string::npos, "0/0");  // another start time: the number was taken over
  EXPECT_TRUE(worker_is_gone(self));
}

TEST(JobRules, TextsComeBackWhole) {
  JobSpec spec;
  spec.candidate = "ü\n\"";
  spec.seed = (1ull << 48) - 1;
  spec.extra = R"({"a":[1]})";
  EXPECT_EQ(spec_from_text(spec_to_text(spec))->seed, spec.seed);
  EXPECT_EQ(spec_from_text(spec_to_text(spec))->candidate, spec.candidate);
  for (const char* text : {"", "[]", "{", R"({"seed":"x"})", R"({"round":1e99,"seed":-1})"})
    (void)spec_from_text(text);
  const auto odd = spec_from_text(R"({"priority":1e300,"round":-1e300,"seed":18446744073709551615})");
  EXPECT_EQ(odd->priority, 0) << "what no int can hold is no priority";
  EXPECT_EQ(odd->round, 1);
  EXPECT_EQ(odd->seed, 0u);
  EXPECT_FALSE(outcome_from_text("{}").has_value());
  Outcome outcome{.status = "ok", .reward = 0.5, .verdict = "{}"};
  EXPECT_EQ(outcome_from_text(outcome_to_text(outcome))->reward, 0.5);
}

}  // namespace
}  // namespace musacoder::service
