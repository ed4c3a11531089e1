#include "store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/files.h"
#include "verdict_samples.h"

namespace musacoder::store {
namespace {

using judge::samples::verdict_of;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto dir = base::TempDir::create("store");
    ASSERT_TRUE(dir.has_value()) << dir.error().message;
    dir_ = std::move(*dir);
    path_ = dir_.file("verdicts.db");
  }
  std::unique_ptr<Store> open() {
    auto store = Store::open(path_);
    EXPECT_TRUE(store.has_value()) << (store ? "" : store.error().message);
    return store ? std::move(*store) : nullptr;
  }
  base::TempDir dir_;
  std::string path_;
};

TEST_F(StoreTest, PutsAndFinds) {
  auto store = open();
  ASSERT_TRUE(store->put(verdict_of("ok", "level1/1"), R"({"run":"a"})").has_value());
  ASSERT_TRUE(store->put(verdict_of("compile_error:nvcc", "level1/1")).has_value());
  ASSERT_TRUE(store->put(verdict_of("ok", "level2/1")).has_value());
  EXPECT_EQ(store->find({})->size(), 3u);
  auto found = store->find({.task = "level1/1", .status_class = "ok"});
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(judge::to_json(found->at(0).verdict), judge::to_json(verdict_of("ok", "level1/1")));
  EXPECT_EQ(found->at(0).extra, R"({"run":"a"})");
  EXPECT_EQ(store->find({.status = "compile_error:nvcc"})->size(), 1u);
  EXPECT_EQ(store->find({.limit = 2})->size(), 2u);
  EXPECT_EQ(store->find({.limit = 2, .offset = 2})->size(), 1u);
  EXPECT_EQ(store->count_by_status()->at("ok"), 2u);
  EXPECT_TRUE(store->get(verdict_key(verdict_of("ok", "level2/1")))->has_value());
  EXPECT_FALSE(store->get("no such key")->has_value());
}

TEST_F(StoreTest, TheSameVerdictTwiceIsOneRow) {
  auto store = open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(store->put(verdict_of("ok")).has_value());
  EXPECT_EQ(store->find({})->size(), 1u);
  judge::Verdict other_gpu = verdict_of("ok");
  other_gpu.gpu = "a100";
  ASSERT_TRUE(store->put(other_gpu).has_value());
  EXPECT_EQ(store->find({})->size(), 2u);
}

TEST_F(StoreTest, InfraNeverReplacesADecidedVerdict) {
  auto store = open();
  judge::Verdict v = verdict_of("ok");
  ASSERT_TRUE(store->put(v).has_value());
  v.status = "infra:reference_runner";
  ASSERT_TRUE(store->put(v).has_value());
  EXPECT_EQ((*store->get(verdict_key(v)))->verdict.status, "ok");
  judge::Verdict w = verdict_of("runtime_error:oom");
  w.status = "infra:disk";
  ASSERT_TRUE(store->put(w).has_value());
  w.status = "ok";
  ASSERT_TRUE(store->put(w).has_value());
  EXPECT_EQ((*store->get(verdict_key(w)))->verdict.status, "ok");
}

TEST_F(StoreTest, SqlInTextStaysText) {
  auto store = open();
  judge::Verdict v = verdict_of("ok", "x'; DROP TABLE verdicts; --");
  ASSERT_TRUE(store->put(v).has_value());
  EXPECT_EQ(store->find({.task = v.task})->size(), 1u);
  EXPECT_EQ(store->find({.task = "' OR '1'='1"})->size(), 0u);
}

TEST_F(StoreTest, SurvivesKillMinusNine) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = Store::open(path_);
    for (std::uint64_t i = 0; store; ++i) {
      if (!(*store)->put(verdict_of("ok", "task", i))) _exit(1);
      if (write(pipe_fds[1], "x", 1) != 1) _exit(1);
    }
    _exit(1);
  }
  close(pipe_fds[1]);
  std::size_t acknowledged = 0;
  char byte;
  while (acknowledged < 25 && read(pipe_fds[0], &byte, 1) == 1) ++acknowledged;
  kill(child, SIGKILL);
  while (read(pipe_fds[0], &byte, 1) == 1) ++acknowledged;
  int status = 0;
  waitpid(child, &status, 0);
  close(pipe_fds[0]);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_GE(acknowledged, 25u);
  EXPECT_GE(open()->find({.limit = 100000})->size(), acknowledged);
}

TEST_F(StoreTest, SeveralWritersShareAFile) {
  open();
  std::vector<std::thread> threads;
  for (std::uint64_t lane = 0; lane < 4; ++lane)
    threads.emplace_back([&, lane] {
      auto store = Store::open(path_);
      ASSERT_TRUE(store.has_value());
      for (std::uint64_t i = 0; i < 10; ++i) EXPECT_TRUE((*store)->put(verdict_of("ok", "task", lane * 100 + i)).has_value());
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(open()->find({})->size(), 40u);
}

TEST_F(StoreTest, AFullDiskIsNamedAndNothingIsHalfWritten) {
  open()->put(verdict_of("ok", "before"));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    auto store = Store::open(path_);
    rlimit limit{4096, 4096};
    if (!store || setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    const Status put = (*store)->put(verdict_of("ok", "after"));
    _exit(!put && put.error().code == Code::kResourceExhausted && put.error().message.find("free some space") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  auto rows = open()->find({});
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ(rows->at(0).verdict.task, "before");
}

TEST_F(StoreTest, RefusesWhatIsNoStore) {
  std::ofstream(path_) << "this is no database, and long enough to be looked at as one: " << std::string(2000, 'x');
  auto store = Store::open(path_);
  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().code, Code::kInvalidArgument);
  EXPECT_THAT(Store::open("/nonexistent/folder/v.db").error().message, ::testing::HasSubstr("cannot write"));
}

}  // namespace
}  // namespace musacoder::store
