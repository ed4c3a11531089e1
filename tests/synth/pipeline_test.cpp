// The factory with verdicts from a script: what becomes a row, what is dropped and counted, and that a run can be made again.
#include "synth/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/paths.h"
#include "synth/manifest.h"
#include "synth/pipeline/endpoint_teacher.h"
#include "synth/pipeline/journal.h"
#include "synth/shards.h"

namespace musacoder::synth {
namespace {

const std::string kRuntime = std::string(MC_BINARY_DIR) + "/runtime";

Examined verdict(const std::string& status, const std::string& file, double ms = 0) {
  Examined e{.status = status, .cause = "because", .candidate_hash = base::sha256_hex(file), .backend = "twin"};
  e.reward = status == "ok" ? std::optional<double>(1) : judge::is_null_reward(status) ? std::nullopt : std::optional<double>(-1);
  e.feedback = {.round = 1, .status = status, .title = "t", .verified = status == "ok", .about_candidate = true, .what = "it ended in " + status, .where = {"block 3"}, .evidence = {"got 1, expected 2"}, .look_at = {"look at the bounds"}, .task = "Round 2: go on.", .demand = "Code."};
  if (status == "ok") {
    e.launches = {{.kernel = "k", .grid = "4 × 1 × 1", .block = "256 × 1 × 1", .launches = 1, .counters = {.warp_instructions = 100, .flops = 1000, .global_load_bytes = 4000, .global_store_bytes = 4000}}};
    e.estimate_ms = ms > 0 ? ms : 0.01;
    e.estimate_kernel = "k(float*)";
    e.bound = "memory";
    e.gpu = "h200";
  }
  return e;
}

// Right is what the corpus says; a fault in it shows by its kind of text.
class Twin : public Examiner {
 public:
  std::size_t asked = 0;
  std::string right;
  bool judges = true;
  Result<std::vector<Examined>> examine(const std::vector<Candidate>& candidates, const Progress&) override {
    if (!judges) return std::vector<Examined>(candidates.size());
    std::vector<Examined> out;
    for (const Candidate& c : candidates) {
      ++asked;
      const bool slow = c.answer.find("= 32;") != std::string::npos || c.answer.find("cudaDeviceSynchronize") != std::string::npos;
      if (c.answer == right) out.push_back(verdict("ok", c.answer, 0.01));
      else if (slow || c.answer.find("atomicExch") != std::string::npos || c.answer.find("threadIdx.x * gridDim.x") != std::string::npos) out.push_back(verdict("ok", c.answer, 0.05));
      else if (c.answer.find("class ModelNew") == std::string::npos) out.push_back(verdict("compile_error:interface", c.answer));
      else if (c.answer.size() % 7 == 0) out.push_back(verdict("infra:device", c.answer));
      else if (c.answer.size() % 5 == 0) out.push_back(verdict("ok", c.answer, 0.01));
      else out.push_back(verdict(c.answer.size() % 2 ? "runtime_error:illegal_access" : "correctness_error:values", c.answer));
    }
    return out;
  }
  Result<std::vector<AuditResult>> audit(const std::vector<Candidate>& tasks, const Progress&) override {
    std::vector<AuditResult> out;
    for (const Candidate& task : tasks) out.push_back({task.task_code.find("zeros_like") == std::string::npos ? "ok" : "invalid_task:trivial", ""});
    return out;
  }
  std::string describe() const override { return "twin"; }
  std::size_t fresh() const override { return asked; }
};

std::string task_file(const std::string& forward) {
  return "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return " + forward + "\n\ndef get_inputs():\n    return [torch.rand(33, 257)]\n\ndef get_init_inputs():\n    return []\n";
}

class Factory : public ::testing::Test {
 protected:
  static GraphWorker& worker() {
    static GraphWorker* made = new GraphWorker({.runtime_dir = kRuntime, .python = base::find_python(kRuntime)});
    return *made;
  }
  void SetUp() override {
    setenv("MUSACODER_RUNTIME", kRuntime.c_str(), 1);
    dir_ = std::move(*base::TempDir::create("factory"));
    ASSERT_TRUE(base::make_dirs(dir_.file("tasks/reduction")) && base::make_dirs(dir_.file("corpus/sum")));
    ASSERT_TRUE(base::write_file(dir_.file("tasks/reduction/1_sum.py"), task_file("x.sum(1)")));
    ASSERT_TRUE(base::write_file(dir_.file("tasks/reduction/1_sum_again.py"), task_file("x.sum(1)")));
    ASSERT_TRUE(base::write_file(dir_.file("tasks/reduction/2_trivial.py"), task_file("torch.zeros_like(x)")));
    ASSERT_TRUE(base::write_file(dir_.file("tasks/reduction/3_relu.py"), task_file("torch.relu(x)")));
    ASSERT_TRUE(base::write_file(dir_.file("tasks/reduction/4_broken.py"), task_file("x.no_such_thing()")));
    ASSERT_TRUE(base::write_file(dir_.file("kernelbench.jsonl"), nlohmann::json({{"level", 1}, {"id", 19}, {"name", "19_ReLU"}, {"code", task_file("torch.clamp(x, min=0)")}}).dump() + "\n"));
    twin_.right = *base::read_file(std::string(MC_SOURCE_DIR) + "/corpus/quickstart/right_row_sum/candidate.py");
    ASSERT_TRUE(base::write_file(dir_.file("corpus/sum/candidate.py"), twin_.right));
    ASSERT_TRUE(base::write_file(dir_.file("corpus/sum/case.toml"), "task = \"reduction/1_sum\"\ncandidate = \"candidate.py\"\nexpect = \"ok\"\nwhy = \"-\"\n"));
    config_ = {.out = dir_.file("data"), .tasks = {dir_.file("tasks")}, .corpus = {dir_.file("corpus")}, .kernelbench = dir_.file("kernelbench.jsonl"), .seed = 3, .mutants = 30, .rollouts = 4};
  }
  Result<DataReport> make() {
    auto prompts = task::Prompts::installed();
    auto table = port::RenameTable::load(kRuntime + "/musa/renames");
    EXPECT_TRUE(prompts && table);
    const RowWriter writer(*prompts, *table, {});
    return make_data(config_, twin_, worker(), writer, teachers_);
  }
  std::vector<Row> rows() {
    std::vector<Row> out;
    const auto manifest = read_manifest(config_.out);
    EXPECT_TRUE(manifest);
    for (const Shard& shard : manifest->shards) {
      auto read = read_lines(config_.out + "/" + shard.file, [&](std::string_view line) {
        out.push_back(*row_from_line(line));
        return ok();
      });
      EXPECT_TRUE(read);
    }
    return out;
  }
  base::TempDir dir_;
  DataConfig config_;
  std::vector<Teacher*> teachers_;
  Twin twin_;
};

TEST_F(Factory, RowsOfThreeStagesAndWhatWasDropped) {
  ASSERT_TRUE(base::write_file(dir_.file("general.jsonl"), R"({"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Good day"}]})" "\n"));
  ASSERT_TRUE(base::write_file(dir_.file("guide.md"), "# Warps\n\nA warp has 32 threads that run in step, and divergent branches are run one after the other. " + std::string(100, '.') + "\n# Short\n\nno\n"));
  config_.general = {dir_.file("general.jsonl")};
  config_.documents = {dir_.file("guide.md")};
  auto report = make();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->tasks, 5u);
  EXPECT_EQ(report->kept, 1u);
  EXPECT_EQ(report->dropped["the same file twice"], 1u);
  EXPECT_EQ(report->dropped["does not execute: TaskError"], 1u);
  EXPECT_EQ(report->dropped["equals a task of the benchmark"], 1u);
  EXPECT_EQ(report->dropped["audit: invalid_task:trivial"], 1u);
  EXPECT_EQ(report->contaminated["level 1: 19_ReLU"], (std::vector<std::string>{"reduction/3_relu"}));
  EXPECT_EQ(report->answers["corpus"]["reduction"].verified, 1u);
  std::map<std::string, std::size_t> kinds;
  for (const Row& row : rows()) {
    auto checked = check_row(row);
    EXPECT_TRUE(checked) << checked.error().message;
    ++kinds[row.kind];
    if (row.kind == "repair_runtime") {
      ASSERT_EQ(row.messages.size(), 4u);
      EXPECT_NE(row.messages[2].content.find("=== System Feedback for Round 1 ==="), std::string::npos);
      EXPECT_NE(row.messages[3].content.find(twin_.right), std::string::npos);
      EXPECT_EQ(row.source.teacher, "mutation");
    }
    if (row.kind == "generate" && row.stage == 2) {
      const std::string& ask = row.messages[0].content;
      const auto reference = ask.find("x.sum(1)"), shapes = ask.find("[Tensor Shape Information]"), hint = ask.find("[Kernel Generation Hint]");
      EXPECT_TRUE(reference < shapes && shapes < hint && hint != std::string::npos);
    }
  }
  EXPECT_EQ(kinds["generate"], 2u);  // stages 1 and 2; the corpus has no derivations
  EXPECT_EQ(kinds["profile"], 2u);
  EXPECT_EQ(kinds["general"], 1u);
  for (const char* kind : {"repair_compile", "repair_runtime", "repair_values", "review", "rewrite", "qa", "multi_turn"}) EXPECT_GT(kinds[kind], 0u) << kind;
  const std::string mixture = *base::read_file(config_.out + "/mixture.toml");
  EXPECT_NE(mixture.find("[mixture.shares]\ngeneral = 0.300"), std::string::npos) << mixture;
  // Mutants that still verify are counted, and no row.
  std::size_t tried = 0, shown = 0;
  for (const auto& [kind, classes] : report->mutations)
    for (const auto& [name, count] : classes) tried += count, shown += name != "ok" && name != "infra" ? count : 0;
  EXPECT_EQ(shown, kinds["repair_compile"] + kinds["repair_runtime"] + kinds["repair_values"] + kinds["repair_legality"]);
  EXPECT_GT(tried, shown);
}

TEST_F(Factory, HeldOutTasksAreNoData) {
  ASSERT_TRUE(base::write_file(dir_.file("held.jsonl"), nlohmann::json({{"id", "rows/sums"}, {"code", task_file("torch.sum(x, dim=-1)")}}).dump() + "\n"));
  config_.held_out = {dir_.file("held.jsonl")};
  auto report = make();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->kept, 0u);
  EXPECT_EQ(report->dropped["equals a held-out task"], 1u);
  EXPECT_EQ(report->contaminated["held out: rows/sums"], (std::vector<std::string>{"reduction/1_sum"}));
}

// Rows in other styles belong to one group, and one that computes something else is refused.
TEST_F(Factory, ShowsATaskInItsStyles) {
  config_.tasks.clear();
  config_.corpus.clear();
  config_.stages = {1};
  config_.generated = {{.id = "sum", .code = task_file("x.sum(1)"), .graph = {}, .styles = {task_file("torch.sum(x, dim=1)"), task_file("torch.sum(x, dim=0)")}}};
  class Sum : public Teacher {
   public:
    explicit Sum(std::string answer) : answer_(std::move(answer)) {}
    std::string name() const override { return "sum"; }
    Result<std::vector<Answer>> answer(const TaskItem&, const AnswerRequest&) override { return std::vector<Answer>{{.file = answer_, .schedule = "s", .kernels = {}, .derivation = {}}}; }

   private:
    std::string answer_;
  };
  Sum teacher(twin_.right);
  teachers_ = {&teacher};
  auto report = make();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->styled, 1u);
  EXPECT_EQ(report->refused_rows["a style that is not the same task"], 1u);
  const std::vector<Row> made = rows();
  ASSERT_EQ(made.size(), 2u);
  EXPECT_NE(made[0].group, "");
  EXPECT_EQ(made[0].group, made[1].group);
  EXPECT_EQ(made[0].task, made[1].task);
  EXPECT_NE(made[0].messages[0].content, made[1].messages[0].content);
  EXPECT_EQ(made[0].messages[1].content, made[1].messages[1].content);
}

TEST_F(Factory, AnswersThatNobodyJudgedAreCountedApart) {
  twin_.judges = false;
  auto report = make();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->not_judged, 1u);
  EXPECT_TRUE(report->answers.empty());
  EXPECT_EQ(report->rows, 0u);
}

TEST_F(Factory, StopsBetweenTasksAndGoesOn) {
  int asked = 0;
  config_.stop = [&] { return ++asked > 2; };
  auto report = make();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnavailable);
  config_.stop = nullptr;
  report = make();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->kept, 1u);
}

// A teacher's fault at one task costs that task's answers, and is said; a teacher that is gone ends the run.
TEST_F(Factory, TeachersThatFail) {
  class Failing : public Teacher {
   public:
    explicit Failing(Code code) : code_(code) {}
    std::string name() const override { return "failing"; }
    Result<std::vector<Answer>> answer(const TaskItem&, const AnswerRequest&) override { return fail(code_, "a value is not at hand"); }

   private:
    Code code_;
  };
  Failing faulty(Code::kInternal), gone(Code::kUnavailable);
  teachers_ = {&faulty};
  auto report = make();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->kept, 1u);
  EXPECT_EQ(report->unanswered, (std::map<std::string, std::size_t>{{"failing: a value is not at hand", 1}}));
  config_.out = dir_.file("gone");
  teachers_ = {&gone};
  report = make();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnavailable);
}

// A model that errs, mends, is slow and then fast: the conversation is kept whole. One that never mends is counted; a reply without a file ends it.
TEST_F(Factory, ConversationsWithATeacher) {
  config_.corpus.clear();
  config_.rollouts = 1;
  const std::string slow = twin_.right + "\n# cudaDeviceSynchronize\n";
  class Talker : public Teacher {
   public:
    std::vector<std::string> files;
    std::atomic<int> asked{0};
    std::vector<Said> heard;
    std::string name() const override { return "talker"; }
    bool converses() const override { return true; }
    Result<std::vector<Answer>> answer(const TaskItem&, const AnswerRequest&) override { return fail(Code::kUnsupported, "talks only"); }
    Result<std::string> next(const TaskItem&, const std::vector<Said>& so_far, std::uint64_t) override {
      ++asked;
      if (so_far.size() > heard.size()) heard = so_far;
      return so_far.size() < files.size() ? files[so_far.size()] : std::string();
    }
  };
  Talker talker;
  teachers_ = {&talker};
  talker.files = {"nothing that compiles", slow, twin_.right};
  auto report = make();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->rollouts, (std::map<std::string, std::size_t>{{"kept", 1}}));
  std::vector<Row> talks;
  for (Row& row : rows())
    if (row.kind == "multi_turn") talks.push_back(std::move(row));
  ASSERT_EQ(talks.size(), 1u);
  ASSERT_EQ(talks[0].messages.size(), 6u);
  EXPECT_EQ(talks[0].source.schedule, "talker");
  EXPECT_NE(talks[0].messages[2].content.find("Round 1"), std::string::npos);
  EXPECT_NE(talks[0].messages[5].content.find(twin_.right), std::string::npos);
  ASSERT_EQ(talker.heard.size(), 3u);
  EXPECT_NE(talker.heard[1].feedback.find("Round 2"), std::string::npos);
  // The same run again asks nothing but what had no file.
  const int before = talker.asked;
  ASSERT_TRUE(make());
  EXPECT_EQ(talker.asked - before, 0);

  // Only the beginning ends well: it is kept without the rest.
  config_.out = dir_.file("begins_well");
  talker.files = {"nothing that compiles", twin_.right, "nothing", "nothing more", "and nothing", "no", "no more", "still no"};
  report = make();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->rollouts, (std::map<std::string, std::size_t>{{"kept", 1}}));
  for (const Row& row : rows()) EXPECT_EQ(row.messages.size(), row.kind == "multi_turn" ? 4u : 2u);
  EXPECT_EQ(talker.heard.size(), 7u);  // five and three

  config_.out = dir_.file("never");
  talker.files.assign(9, "nothing that compiles");
  report = make();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->rollouts, (std::map<std::string, std::size_t>{{"last_wrong", 1}}));
}

TEST_F(Factory, TheSameAgain) {
  ASSERT_TRUE(make());
  const std::string manifest = *base::read_file(config_.out + "/manifest.json");
  config_.out = dir_.file("other");
  ASSERT_TRUE(make());
  EXPECT_EQ(*base::read_file(config_.out + "/manifest.json"), manifest);
  // Fewer rows over more: shards of the earlier run go.
  config_.shard_bytes = 2000;
  ASSERT_TRUE(make());
  EXPECT_TRUE(base::exists(config_.out + "/rows-00003.jsonl.zst"));
  config_.shard_bytes = 64 << 20;
  ASSERT_TRUE(make());
  EXPECT_FALSE(base::exists(config_.out + "/rows-00001.jsonl.zst"));
  EXPECT_EQ(*base::read_file(config_.out + "/manifest.json"), manifest);
}

TEST(JudgingOrder, KeepsTasksTogetherAndInTheirOrder) {
  const auto of = [](const char* task) { return Candidate{.task_id = "t", .task_code = task, .answer = "a"}; };
  const std::vector<Candidate> all = {of("z"), of("a"), of("z"), of("m"), of("a"), of("z")};
  EXPECT_EQ(judging_order(all, {0, 1, 2, 3, 4, 5}), (std::vector<std::size_t>{0, 2, 5, 1, 4, 3}));
  EXPECT_EQ(judging_order(all, {1, 2, 3, 4}), (std::vector<std::size_t>{1, 4, 2, 3}));
  EXPECT_EQ(judging_order(all, {}), (std::vector<std::size_t>{}));
}

TEST(Rollouts, FilterOfThePaper) {
  const auto turn = [](const char* status, double ms = 0) { return Turn{status, verdict(status, status, ms)}; };
  const Turn wrong = turn("correctness_error:values"), infra = turn("infra:device"), slow = turn("ok", 1.0), same = turn("ok", 0.9), fast = turn("ok", 0.8);
  std::string why;
  const auto kept = [&](std::vector<Turn> turns) { return keep_rollout(std::move(turns), {}, why).size(); };
  EXPECT_EQ(kept({wrong, fast}), 2u);
  EXPECT_EQ(kept({wrong, infra, fast}), 2u);                 // infrastructure's turns go
  EXPECT_EQ(kept({wrong, slow, fast}), 3u);                  // 1.25 times
  EXPECT_EQ(kept({wrong, slow, wrong, fast}), 4u);
  EXPECT_EQ(kept({wrong, slow, same}), 0u);                  // 1.11 times
  EXPECT_EQ(why, "no_gain");
  EXPECT_EQ(kept({wrong, wrong}), 0u);
  EXPECT_EQ(why, "last_wrong");
  EXPECT_EQ(kept({fast}), 0u);
  EXPECT_EQ(why, "one_turn");
  EXPECT_EQ(kept({wrong, wrong, wrong, wrong, wrong, wrong, wrong, fast}), 8u);             // five and three to repair
  EXPECT_EQ(kept({wrong, wrong, wrong, wrong, wrong, wrong, wrong, wrong, fast}), 0u);      // and no more
  EXPECT_EQ(kept({wrong, wrong, wrong, wrong, slow, fast}), 5u);                            // extra turns are not for speed
  EXPECT_EQ(kept({}), 0u);
}

TEST(Weights, WeakFamiliesUp) {
  const std::map<std::string, std::size_t> rows = {{"conv2d", 5}, {"elementwise", 50}, {"norm", 9}, {"scan", 1}};
  const auto none = family_weights(rows, {});
  EXPECT_EQ(none.at("elementwise"), 0.5);
  EXPECT_EQ(none.at("conv2d"), 1);
  // 1 − share + 0.1: 1.1, 0.1, 0.6; mean 0.6
  const auto weights = family_weights(rows, {{"conv2d", {10, 0}}, {"elementwise", {10, 10}}, {"norm", {10, 5}}});
  EXPECT_NEAR(weights.at("conv2d"), 1.1 / 0.6, 1e-12);
  EXPECT_EQ(weights.at("elementwise"), 0.25);  // 1/6, held at 1/4
  EXPECT_NEAR(weights.at("norm"), 1, 1e-12);
  EXPECT_EQ(weights.at("scan"), 1);
}

TEST(Journals, SurviveTornLines) {
  auto dir = base::TempDir::create("journal");
  ASSERT_TRUE(dir);
  const std::string path = dir->file("j.jsonl");
  {
    auto journal = Journal::open(path);
    ASSERT_TRUE(journal);
    ASSERT_TRUE(journal->put("a", R"({"x":1})"));
    ASSERT_TRUE(journal->put("b", "2"));
    EXPECT_FALSE(Journal::open(path)) << "one process at a time";
  }
  const std::string whole = *base::read_file(path);
  for (std::size_t cut = 0; cut < whole.size(); cut += 5) {
    ASSERT_TRUE(base::write_file(path, whole.substr(0, cut)));
    auto journal = Journal::open(path);
    ASSERT_TRUE(journal);
    EXPECT_EQ(journal->size(), cut > whole.find('\n') ? 1u : 0u);
    ASSERT_TRUE(journal->put("c", "3"));
  }
  auto journal = Journal::open(path);
  ASSERT_TRUE(journal);
  EXPECT_EQ(*journal->find("c"), "3");
}

TEST(Replies, BlocksAndDerivations) {
  const Reply both = split_reply("<think>```python\nno\n```</think>1. Overall analysis: …\n\n```python\nimport torch\n```\n");
  EXPECT_EQ(both.file, "import torch\n");
  EXPECT_EQ(both.text, "1. Overall analysis: …");
  EXPECT_EQ(split_reply("no code").file, "");
  EXPECT_EQ(split_reply("```python\ncut").file, "");
}

}  // namespace
}  // namespace musacoder::synth
