// What `musacoder store` does to verdict stores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "base/files.h"
#include "store/store.h"
#include "verdict_samples.h"

namespace musacoder::store {
namespace {

using judge::samples::verdict_of;

class StoreTools : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = *base::TempDir::create("store");
    store_ = std::move(*Store::open(dir_.file("v.db")));
    ASSERT_TRUE(store_->put(verdict_of("ok", "level1/1"), R"({"run":"Needle"})").has_value());
    ASSERT_TRUE(store_->put(verdict_of("infra:disk", "level1/2")).has_value());
    ASSERT_TRUE(store_->put(verdict_of("compile_error:nvcc", "level2/7")).has_value());
  }
  base::TempDir dir_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTools, TextIsFoundInTaskStatusCauseAndExtra) {
  EXPECT_EQ(store_->find({.text = "needle"})->size(), 1u);
  EXPECT_EQ(store_->find({.text = "LEVEL2/7"})->size(), 1u);
  EXPECT_EQ(store_->find({.text = "infra:d"})->size(), 1u);
  EXPECT_EQ(store_->find({.text = "%"})->size(), 0u) << "a text, not a pattern";
  EXPECT_EQ(store_->find({.status = "ok", .text = "level2"})->size(), 0u);
}

TEST_F(StoreTools, EveryRowOnceAndErrorsEndIt) {
  int rows = 0;
  EXPECT_TRUE(store_->for_each({}, [&](StoredVerdict) { return ++rows, ok(); }).has_value());
  EXPECT_EQ(rows, 3);
  const Status stopped =
      store_->for_each({}, [&](StoredVerdict) -> Status { return fail(Code::kResourceExhausted, "full"); });
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code, Code::kResourceExhausted);
}

TEST_F(StoreTools, PrunesByAgeAndClass) {
  EXPECT_EQ(*store_->prune(std::time(nullptr) - 1000), 0u);
  EXPECT_EQ(*store_->prune(std::time(nullptr) + 1000, true), 1u);
  EXPECT_EQ(store_->find({})->size(), 2u);
  EXPECT_EQ(*store_->prune(std::time(nullptr) + 1000), 2u);
}

TEST_F(StoreTools, BackupIsAWholeStoreAndReplacesNothing) {
  const std::string copy = dir_.file("copy.db");
  ASSERT_TRUE(store_->backup(copy).has_value());
  auto opened = Store::open(copy);
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_EQ((*opened)->find({})->size(), 3u);
  EXPECT_EQ(store_->backup(copy).error().code, Code::kInvalidArgument);
  EXPECT_FALSE(store_->backup("/nowhere/copy.db").has_value());
  EXPECT_FALSE(base::exists(copy + ".part"));
}

}  // namespace
}  // namespace musacoder::store
