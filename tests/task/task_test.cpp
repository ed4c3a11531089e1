#include "task/task.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"

namespace musacoder::task {
namespace {

using nlohmann::json;

const std::string kCode = "class Model: pass\ndef get_inputs(): return []\n";

std::string row(json fields) { return fields.dump() + "\n"; }

TEST(TaskSet, ReadsKernelBenchRows) {
  auto set = TaskSet::from_jsonl(row({{"suite", "kernelbench"}, {"level", 1}, {"id", 19}, {"name", "19_ReLU"}, {"code", kCode}}) +
                                     "\n" + row({{"level", 2}, {"id", 19}, {"name", "19_Other"}, {"code", kCode + "#"}}),
                                 "k.jsonl");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->tasks().size(), 2u);
  EXPECT_EQ(set->tasks()[0].id, "level1/19");
  EXPECT_EQ(set->tasks()[0].source, "k.jsonl:1");
  EXPECT_EQ(set->tasks()[1].source, "k.jsonl:3");
  for (const char* name : {"level1/19", "1/19", "level1/19_ReLU", "19_ReLU"}) {
    const Task* found = set->find(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->level, 1) << name;
  }
  EXPECT_EQ(set->find("level1/1"), nullptr);
  EXPECT_EQ(set->find("level3/19"), nullptr);
  EXPECT_EQ(set->find(""), nullptr);
  EXPECT_EQ(set->find("/"), nullptr);
}

TEST(TaskSet, TakesOtherNamesOfFields) {
  auto set = TaskSet::from_jsonl(row({{"id", "mine"}, {"reference", kCode}}) + row({{"name", "yours"}, {"code", kCode}}), "x");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_NE(set->find("mine"), nullptr);
  EXPECT_NE(set->find("yours"), nullptr);
}

TEST(TaskSet, ExtraColumnsAndRepeatedRowsAreFine) {
  const std::string one = row({{"id", 3}, {"level", 1}, {"reference", kCode}, {"candidate", "x"}});
  auto set = TaskSet::from_jsonl(one + one, "x");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->tasks().size(), 1u);
}

TEST(TaskSet, NamesTheLineOfEveryFault) {
  struct {
    std::string text, expect;
  } cases[] = {
      {row({{"id", 1}, {"code", kCode}}) + "{broken\n", "f:2"},
      {"[1,2]\n", "not a JSON object"},
      {row({{"id", 1}}), "neither 'code' nor 'reference'"},
      {row({{"id", 1}, {"code", 5}}), "must be the text"},
      {row({{"code", kCode}}), "no 'name'"},
      {row({{"id", 1}, {"level", "x"}, {"code", kCode}}), "'level'"},
      {row({{"id", 1}, {"code", ""}}), "f:1"},
      {row({{"id", 1}, {"level", 1}, {"code", kCode}}) + row({{"id", 1}, {"level", 1}, {"code", kCode + "#"}}), "f:1 and f:2"},
      {std::string("\x00\xff\xfe\x80 binary", 11), "f:1"},
      {"", "holds no task"},
      {std::string(200'000, '['), "f:1"},
      {row({{"id", 1}, {"code", kCode + std::string(1, '\0')}}), "NUL"},
      {row({{"id", 1}, {"code", std::string(TaskSet::kMaxCodeBytes + 1, 'x')}}), "limit"},
  };
  for (const auto& c : cases) {
    auto set = TaskSet::from_jsonl(c.text, "f");
    ASSERT_FALSE(set) << c.expect;
    EXPECT_NE(set.error().message.find(c.expect), std::string::npos) << set.error().message;
    EXPECT_EQ(set.error().code, Code::kInvalidArgument);
  }
}

TEST(TaskSet, RefusesHugeRows) {
  auto set = TaskSet::from_jsonl(std::string(TaskSet::kMaxRowBytes + 10, 'a'), "f");
  ASSERT_FALSE(set);
  EXPECT_NE(set.error().message.find("limit"), std::string::npos);
}

TEST(TaskSet, LoadsFilesAndFolders) {
  auto dir = base::TempDir::create("tasks");
  ASSERT_TRUE(dir);
  namespace fs = std::filesystem;
  fs::create_directories(dir->file("level1"));
  fs::create_directories(dir->file("level2/more"));
  ASSERT_TRUE(base::write_file(dir->file("level1/19_ReLU.py"), kCode));
  ASSERT_TRUE(base::write_file(dir->file("level2/more/softmax.py"), kCode));
  ASSERT_TRUE(base::write_file(dir->file("level2/__init__.py"), ""));
  ASSERT_TRUE(base::write_file(dir->file("level2/helper.py"), "x = 1\n"));
  auto set = TaskSet::load(dir->path());
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->tasks().size(), 2u);
  EXPECT_EQ(set->tasks()[0].id, "level1/19_ReLU");
  EXPECT_EQ(set->tasks()[0].level, 1);
  EXPECT_NE(set->find("level1/19"), nullptr);
  EXPECT_EQ(set->tasks()[1].id, "level2/more/softmax");
  EXPECT_EQ(set->tasks()[1].level, 2);
  EXPECT_NE(set->find("softmax"), nullptr);

  auto one = TaskSet::load(dir->file("level1/19_ReLU.py"));
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->tasks()[0].id, "19_ReLU");
  EXPECT_EQ(one->tasks()[0].code, kCode);

  EXPECT_EQ(TaskSet::load(dir->file("absent.py")).error().code, Code::kNotFound);
  ASSERT_TRUE(base::write_file(dir->file("empty.py"), ""));
  EXPECT_FALSE(TaskSet::load(dir->file("empty.py")));
  ASSERT_TRUE(base::write_file(dir->file("notes.txt"), "hello"));
  EXPECT_FALSE(TaskSet::load(dir->file("notes.txt")));
  fs::create_directories(dir->file("nothing"));
  EXPECT_FALSE(TaskSet::load(dir->file("nothing")));
}

TEST(TaskSet, ReadsTheRealFile) {
  const char* data = std::getenv("MUSACODER_DATA");
  const std::string path = std::string(data ? data : MC_SOURCE_DIR "/../shared/data") + "/kernelbench.jsonl";
  if (!base::exists(path)) GTEST_SKIP() << "no KernelBench data at " << path;
  auto set = TaskSet::load(path);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->tasks().size(), 270u);
  ASSERT_NE(set->find("level3/44"), nullptr);
  EXPECT_EQ(set->find("level3/44")->name, "44_MiniGPTBlock");
}

}  // namespace
}  // namespace musacoder::task
