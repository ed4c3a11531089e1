// Chains of shell commands: what is run, what is skipped, what goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "factory/config.h"
#include "factory/run.h"

namespace musacoder::factory {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FactoryTest : public testing::Test {
 protected:
  FactoryTest() : folder_(std::move(*base::TempDir::create("factory"))) {}
  std::string file(const std::string& name) const { return folder_.file(name); }
  void write(const std::string& toml) { ASSERT_TRUE(base::write_file(file("chain.toml"), toml)); }
  std::string read(const std::string& name) const { return base::read_file(file(name)).value_or("(none)"); }

  Result<Chain> chain(std::vector<std::string> set = {}) {
    set.push_back("folder=" + file("run"));
    return read_chain(file("chain.toml"), set);
  }
  RunEnd run(std::vector<std::string> set = {}, RunOptions options = {}, RunHooks hooks = {}) {
    auto read = chain(std::move(set));
    EXPECT_TRUE(read) << read.error().message;
    auto plan = plan_chain(*read, {"/bin/true", "/bin/true", "/usr/bin/python3"});
    EXPECT_TRUE(plan) << plan.error().message;
    auto end = run_plan("test", *plan, options, hooks);
    EXPECT_TRUE(end) << end.error().message;
    return *end;
  }
  static std::vector<std::string> states(const RunEnd& end) {
    std::vector<std::string> out;
    for (const auto& stage : end.stages) out.push_back(state_name(stage.state));
    return out;
  }

  base::TempDir folder_;
};

const char* const kTwo = R"(
name = "two"
[values]
word = "a"
[[stage]]
name = "first"
kind = "data"
command = ["/bin/sh", "-c", "echo ran >> {root}/first.log; echo {word} > {out}/word; echo '{{\"shown\": {{\"rows\": 3, \"share\": 0.12345}}}}' > {out}/summary.json"]
[[stage]]
name = "second"
kind = "evaluate"
command = ["/bin/sh", "-c", "echo ran >> {root}/second.log; cat {first}/word > {out}/copy; echo \"it says $SAYS\"; echo '{{\"shown\": {{\"pass@1\": 0.5}}}}' > {out}/summary.json"]
env = {SAYS = "{word}"}
)";

TEST_F(FactoryTest, RunsStagesOnceAndAgainWhatChanged) {
  write(kTwo);
  auto end = run();
  EXPECT_EQ(end.state, RunState::kDone);
  EXPECT_THAT(states(end), ElementsAre("done", "done"));
  EXPECT_EQ(read("run/02-second/copy"), "a\n");
  EXPECT_EQ(read("run/02-second/log.txt"), "it says a\n");
  EXPECT_EQ(end.stages[1].last_line, "it says a");
  EXPECT_EQ(end.stages[0].shown.size(), 2u);

  end = run();
  EXPECT_THAT(states(end), ElementsAre("done before", "done before"));
  EXPECT_EQ(read("run/first.log"), "ran\n");

  end = run({"word=b"});
  EXPECT_THAT(states(end), ElementsAre("done", "done"));
  EXPECT_EQ(read("run/02-second/copy"), "b\n");
  EXPECT_EQ(read("run/second.log"), "ran\nran\n");
  // What was made with the other value stands beside.
  std::size_t aside = 0;
  for (const auto& entry : std::filesystem::directory_iterator(file("run")))
    aside += entry.path().filename().string().find(".before-") != std::string::npos;
  EXPECT_EQ(aside, 2u);

  const std::string table = read("run/summary.md");
  EXPECT_THAT(table, HasSubstr("rows 3, share 0.1235"));
  EXPECT_THAT(table, HasSubstr("pass@1"));
  EXPECT_THAT(read("run/summary.html"), HasSubstr("<td>second</td><td>0.5</td>"));
}

TEST_F(FactoryTest, InputsCountByTheirContent) {
  ASSERT_TRUE(base::write_file(file("data"), "1"));
  write("[[stage]]\nname = \"a\"\ncommand = [\"/bin/true\"]\ninputs = [\"" + file("data") + "\"]\n");
  EXPECT_THAT(states(run()), ElementsAre("done"));
  EXPECT_THAT(states(run()), ElementsAre("done before"));
  ASSERT_TRUE(base::write_file(file("data"), "2"));
  EXPECT_THAT(states(run()), ElementsAre("done"));
  ASSERT_TRUE(base::remove_tree(file("data")));
  auto read = chain();
  EXPECT_THAT(plan_chain(*read, {}).error().message, HasSubstr("stage a: the input"));
}

TEST_F(FactoryTest, WhatTheMachineTableSaysIsNoPartOfWhatIsMade) {
  write(R"(
[values]
word = "a"
[machine]
lanes = 15
[[stage]]
name = "first"
command = ["/bin/sh", "-c", "echo {word} {lanes} >> {out}/said"]
)");
  EXPECT_THAT(states(run()), ElementsAre("done"));
  EXPECT_THAT(states(run({"lanes=2"})), ElementsAre("done before"));
  EXPECT_EQ(read("run/01-first/said"), "a 15\n");
  EXPECT_THAT(states(run({"lanes=2", "word=b"})), ElementsAre("done"));
  EXPECT_EQ(read("run/01-first/said"), "b 2\n");
  EXPECT_THAT(chain({"cores=2"}).error().message, HasSubstr("word, lanes"));
  write("[values]\nx = 1\n[machine]\nx = 2\n[[stage]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n");
  EXPECT_THAT(chain().error().message, HasSubstr("[machine] cannot have the key 'x'"));
}

TEST_F(FactoryTest, AFailureEndsTheChainUnlessItIsOptional) {
  write(
      "[[stage]]\nname = \"a\"\ncommand = [\"/bin/sh\", \"-c\", \"echo no room >&2; exit "
      "3\"]\n[[stage]]\nname = \"b\"\ncommand = [\"/bin/true\"]\n");
  auto end = run();
  EXPECT_EQ(end.state, RunState::kFailed);
  EXPECT_THAT(states(end), ElementsAre("failed", "waiting"));
  EXPECT_EQ(end.stages[0].code, 3);
  EXPECT_EQ(end.stages[0].last_line, "no room");
  write(
      "[[stage]]\nname = \"a\"\noptional = true\ncommand = [\"/bin/false\"]\n[[stage]]\nname = "
      "\"b\"\ncommand = [\"/bin/true\"]\n");
  end = run();
  EXPECT_EQ(end.state, RunState::kDone);
  EXPECT_THAT(states(end), ElementsAre("failed", "done"));
}

TEST_F(FactoryTest, AProgramThatIsNotThereFailsItsStage) {
  write("[[stage]]\nname = \"a\"\ncommand = [\"/no/such/program\"]\n");
  const auto end = run();
  EXPECT_EQ(end.state, RunState::kFailed);
  EXPECT_EQ(end.stages[0].code, 127);
}

TEST_F(FactoryTest, StopsInTimeAndGoesOnInTheSameFolder) {
  // Counts its runs; the first one ends at SIGTERM only.
  write(R"(
[[stage]]
name = "long"
command = ["/bin/sh", "-c", "echo run >> {out}/runs; if [ $(wc -l < {out}/runs) = 1 ]; then trap 'exit 4' TERM; while :; do sleep 0.05; done; fi"]
)");
  auto end = run({}, {.seconds = 0.4, .grace_s = 5});
  EXPECT_EQ(end.state, RunState::kStopped);
  EXPECT_THAT(states(end), ElementsAre("stopped"));
  const double first = end.stages[0].seconds;
  EXPECT_GE(first, 0.4);
  end = run();
  EXPECT_THAT(states(end), ElementsAre("done"));
  EXPECT_EQ(read("run/01-long/runs"), "run\nrun\n");
  EXPECT_GT(end.stages[0].seconds, first);
}

// a and b meet: each waits for the other's file. c holds what a holds, d needs b; both see that what they wait for is over.
TEST_F(FactoryTest, RunsStagesBesideEachOther) {
  write(R"(
[[stage]]
name = "a"
holds = ["card"]
command = ["/bin/sh", "-c", "touch {root}/a; for i in $(seq 200); do [ -e {root}/b ] && sleep 0.3 && touch {root}/a.over && exit 0; sleep 0.05; done; exit 1"]
[[stage]]
name = "b"
command = ["/bin/sh", "-c", "touch {root}/b; for i in $(seq 200); do [ -e {root}/a ] && sleep 0.2 && touch {root}/b.over && exit 0; sleep 0.05; done; exit 1"]
[[stage]]
name = "c"
holds = ["card", "disk"]
command = ["/bin/sh", "-c", "test -e {root}/a.over"]
[[stage]]
name = "d"
after = ["b"]
command = ["/bin/sh", "-c", "test -e {root}/b.over"]
)");
  auto end = run({}, {.parallel = 4});
  EXPECT_EQ(end.state, RunState::kDone);
  EXPECT_THAT(states(end), ElementsAre("done", "done", "done", "done"));
}

TEST_F(FactoryTest, AFailureLetsWhatRunsBesideItEnd) {
  write(R"(
[[stage]]
name = "a"
command = ["/bin/sh", "-c", "sleep 0.6; touch {out}/over"]
[[stage]]
name = "b"
command = ["/bin/false"]
[[stage]]
name = "c"
after = ["a"]
command = ["/bin/true"]
)");
  auto end = run({}, {.parallel = 2});
  EXPECT_EQ(end.state, RunState::kFailed);
  EXPECT_THAT(states(end), ElementsAre("done", "failed", "waiting"));
}

TEST_F(FactoryTest, TheTimeEndsAllThatRun) {
  write("[[stage]]\nname = \"a\"\ncommand = [\"/bin/sleep\", \"30\"]\n[[stage]]\nname = \"b\"\ncommand = [\"/bin/sleep\", \"30\"]\n[[stage]]\nname = \"c\"\nafter = [\"a\"]\ncommand = [\"/bin/true\"]\n");
  auto end = run({}, {.seconds = 0.5, .parallel = 2});
  EXPECT_EQ(end.state, RunState::kStopped);
  EXPECT_THAT(states(end), ElementsAre("stopped", "stopped", "waiting"));
}

TEST_F(FactoryTest, OneStageAlone) {
  write(kTwo);
  run();
  ASSERT_TRUE(base::remove_tree(file("run/02-second")));
  const auto end = run({}, {.only = {"second"}});
  EXPECT_EQ(end.state, RunState::kDone);
  EXPECT_EQ(read("run/first.log"), "ran\n");
  EXPECT_EQ(read("run/02-second/copy"), "a\n");
}

TEST_F(FactoryTest, SomeStagesInTheFilesOrder) {
  write(
      "[[stage]]\nname = \"a\"\ncommand = [\"/bin/sh\", \"-c\", \"echo a >> {root}/log\"]\n"
      "[[stage]]\nname = \"b\"\ncommand = [\"/bin/sh\", \"-c\", \"sleep 0.2; echo b >> {root}/log\"]\n"
      "[[stage]]\nname = \"c\"\nafter = [\"b\"]\ncommand = [\"/bin/sh\", \"-c\", \"echo c >> {root}/log\"]\n");
  const auto end = run({}, {.only = {"c", "b"}, .parallel = 2});
  EXPECT_THAT(states(end), ElementsAre("waiting", "done", "done"));
  EXPECT_EQ(read("run/log"), "b\nc\n");
}

TEST_F(FactoryTest, OnlyOneProcessRunsAFolder) {
  write("[[stage]]\nname = \"a\"\ncommand = [\"/bin/sleep\", \"0.3\"]\n");
  auto read = chain();
  auto plan = plan_chain(*read, {});
  bool refused = false;
  run({}, {}, {.progress = [&](std::size_t, double, const std::string&) {
        if (!refused) refused = !run_plan("test", *plan, {}, {});
      }});
  EXPECT_TRUE(refused);
}

TEST_F(FactoryTest, SaysWhatIsWrongInAFile) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no [[stage]]"},
      {"stage = 3", "[[stage]]"},
      {"[[stage]]\ncommand = [\"x\"]", "`name`"},
      {"[[stage]]\nname = \"a b\"\ncommand = [\"x\"]", "`name`"},
      {"[[stage]]\nname = \"a\"", "stage a has no `command`"},
      {"[[stage]]\nname = \"a\"\ncommand = \"x\"", "stage a.command is no list"},
      {"[[stage]]\nname = \"a\"\ncommand = [\"x\"]\ncolour = 1", "has no key 'colour'"},
      {"[[stage]]\nname = \"a\"\ncommand = [\"x\"]\n[[stage]]\nname = \"a\"\ncommand = [\"x\"]",
       "'a' is taken twice"},
      {"[values]\nout = 1\n[[stage]]\nname = \"a\"\ncommand = [\"x\"]", "cannot have the key 'out'"},
      {"[[stage]\n", "line 1"},
  };
  for (const auto& [toml, message] : cases) {
    write(toml);
    auto read = chain();
    ASSERT_FALSE(read) << toml;
    EXPECT_THAT(read.error().message, HasSubstr(message));
    EXPECT_THAT(read.error().message, HasSubstr("chain.toml"));
  }
  for (const auto& [word, message] : std::vector<std::pair<std::string, std::string>>{
           {"{later}", "neither a stage before it"}, {"{out", "without its }"}}) {
    write("[[stage]]\nname = \"a\"\ncommand = [\"x\", \"" + word +
          "\"]\n[[stage]]\nname = \"later\"\ncommand = [\"x\"]\n");
    auto read = chain();
    ASSERT_TRUE(read);
    EXPECT_THAT(plan_chain(*read, {}).error().message, HasSubstr(message));
  }
  write(kTwo);
  EXPECT_THAT(chain({"words=b"}).error().message, HasSubstr("folder, word"));
}

TEST_F(FactoryTest, TheFilesOfThisProjectAreWellFormed) {
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MC_SOURCE_DIR "/configs")) {
    const std::string text = base::read_file(entry.path().string()).value_or("");
    if (text.find("[[stage]]") == std::string::npos) continue;
    ++found;
    auto read = read_chain(entry.path().string(), {});
    EXPECT_TRUE(read) << read.error().message;
  }
  EXPECT_GE(found, 4u);
}

}  // namespace
}  // namespace musacoder::factory
