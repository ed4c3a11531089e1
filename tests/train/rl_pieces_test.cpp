// What a run is made of, each by itself: configuration, the order of prompts, returns, packing, accounting
// through JSON, numbers of an evaluation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "train/config/rl_config.h"
#include "train/config/rl_objective.h"
#include "train/rl/batch.h"
#include "train/rl/evaluation.h"
#include "train/rl/planner.h"
#include "train/rl/summary.h"
#include "train/rl/tasks.h"

namespace musacoder::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNull = std::numeric_limits<double>::quiet_NaN();

RlConfig usable_config() {
  RlConfig c;
  c.model_path = "model";
  c.run_dir = "run";
  c.tasks_train = {"tasks.jsonl"};
  return c;
}

std::string refused(const std::string& assignment) {
  RlConfig c = usable_config();
  const auto keys = rl_keys(c);
  const Status set = set_config(keys, assignment);
  if (!set) return set.error().message;
  const Status checked = check(c);
  return checked ? "" : checked.error().message;
}

TEST(RlConfig, DocumentationHasTheTableOfAllKeys) {
  const auto docs = base::read_file(std::string(MC_SOURCE_DIR) + "/docs/rl.md");
  ASSERT_TRUE(docs);
  RlConfig defaults;
  EXPECT_THAT(*docs, HasSubstr(config_markdown(rl_keys(defaults))));
}

TEST(RlConfig, ValuesThatMakeNoSenseAreRefusedByName) {
  EXPECT_EQ(refused("rollout.group=8"), "");
  EXPECT_THAT(refused("rollout.group=0"), HasSubstr("rollout.group is too small"));
  EXPECT_THAT(refused("rollout.group=65"), HasSubstr("must hold a whole group"));
  EXPECT_THAT(refused("rollout.temperature=0.0"), HasSubstr("rollouts are samples"));
  EXPECT_THAT(refused("reward.second_bonus=0.5"), HasSubstr("PrimeEcho"));
  EXPECT_THAT(refused("objective.preset=ppo"), HasSubstr("is one of"));
  EXPECT_THAT(refused("eval.every=5"), HasSubstr("eval.every needs tasks.eval"));
  EXPECT_THAT(refused("retry.probability=1.5"), HasSubstr("retry.probability"));
  RlConfig c = usable_config();
  c.publish_every = 4;
  c.checkpoint_every = 6;
  EXPECT_THAT(check(c).error().message, HasSubstr("multiple of rollout.publish_every"));
}

TEST(RlConfig, TheConfigurationsOfTheTreeAreWhatThisProgramReads) {
  for (const char* name : {"rl-smollm2", "paper/rl-9b", "paper/rl-27b"}) {
    RlConfig c;
    const Status read = read_config(rl_keys(c), fmt::format("{}/configs/{}.toml", MC_SOURCE_DIR, name));
    EXPECT_TRUE(read) << read.error().message;
    const Status checked = check(c);
    EXPECT_TRUE(checked) << name << ": " << checked.error().message;
  }
}

TEST(RlConfig, PartsOfAPresetAreOverridden) {
  RlConfig c = usable_config();
  EXPECT_EQ(objective_of(c)->sequence_mask.kind, rl::SequenceMask::kMirrorPop);
  c.preset = "dapo";
  c.mask = "geometric";
  c.mask_low = 0.9;
  c.clip_high = 0.4;
  c.kl = 0.01;
  const rl::ObjectiveConfig o = objective_of(c).value();
  EXPECT_EQ(o.sequence_mask.kind, rl::SequenceMask::kGeometric);
  EXPECT_EQ(o.sequence_mask.low, 0.9);
  EXPECT_EQ(o.sequence_mask.high, rl::SequenceMaskConfig().high);
  EXPECT_EQ(o.clip.high, 0.4);
  EXPECT_EQ(o.clip.low, 0.2);
  EXPECT_EQ(o.kl_coefficient, 0.01);
}

std::vector<RlTask> five_tasks() {
  std::vector<RlTask> out;
  for (int i = 0; i < 5; ++i) out.push_back({.id = fmt::format("t{}", i), .code = fmt::format("code {}", i)});
  return out;
}

TEST(Planner, AnEpochHasEachTaskOnceInAnOrderOfItsOwn) {
  const auto tasks = five_tasks();
  const RlConfig c = usable_config();
  Planner planner(c, tasks, {0, 2, 3, 4});  // task 1 is not usable
  std::vector<std::vector<std::size_t>> epochs(6);
  std::uint64_t serial = 0;
  for (auto& epoch : epochs)
    for (const GroupStart& one : planner.plan(4, 0)) {
      epoch.push_back(one.task);
      EXPECT_EQ(one.serial, serial++);
    }
  for (const auto& epoch : epochs)
    EXPECT_EQ(std::set(epoch.begin(), epoch.end()), (std::set<std::size_t>{0, 2, 3, 4}));
  EXPECT_GT(std::set(epochs.begin(), epochs.end()).size(), 2u);
  EXPECT_EQ(planner.epoch(), 6);
}

TEST(Planner, GoesOnAsItWouldHaveFromASavedState) {
  const auto tasks = five_tasks();
  RlConfig c = usable_config();
  c.retry_probability = 0.5;
  c.turns = 3;
  c.warmup_steps = 2;
  Planner one(c, tasks, {0, 1, 2, 3, 4}), two(c, tasks, {0, 1, 2, 3, 4});
  one.plan(7, 0);
  EXPECT_TRUE(one.retry_later({.prompt_id = "t3", .candidate = "bad", .feedback = "wrong"}));
  EXPECT_FALSE(one.retry_later({.prompt_id = "of another run"}));
  ASSERT_TRUE(two.restore(one.to_json()));
  const auto a = one.plan(30, 5), b = two.plan(30, 5);
  int retries = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(to_json(a[i]), to_json(b[i]));
    EXPECT_EQ(a[i].turns, a[i].retry ? 1 : 3);
    if (!a[i].retry) continue;
    ++retries;
    EXPECT_EQ(tasks[a[i].task].id, "t3");
    EXPECT_EQ(a[i].retry->candidate, "bad");
  }
  EXPECT_EQ(retries, 1);  // it left the buffer when it was drawn
  EXPECT_EQ(Planner(c, tasks, {0, 1}).plan(1, 1)[0].turns, 1);
}

Turn turn_of(std::vector<llm::TokenId> prompt, std::vector<llm::TokenId> answer, double reward,
             std::string status = "correctness_error:values") {
  Turn t;
  t.prompt = std::move(prompt);
  t.answer = std::move(answer);
  for (std::size_t i = 0; i < t.answer.size(); ++i) {
    t.logprobs.push_back(-0.5f - static_cast<float>(i));
    t.versions.push_back(3);
  }
  t.text = fmt::format("answer {}", t.answer.size());
  t.reward = reward;
  t.status = std::move(status);
  t.verified = reward >= 1;
  t.tries = 1;
  return t;
}

Trajectory trajectory_of(std::vector<Turn> turns) {
  Trajectory out{.turns = std::move(turns)};
  const Turn& last = out.turns.back();
  out.end = std::isnan(last.reward) ? End::kNull : last.verified ? End::kVerified : End::kTurns;
  return out;
}

// Eq. 9 and 10 by hand: 0.75 s_1 + 0.25 max s + bonus (0.2 at turn 1, 0.1 at turn 2).
TEST(Batch, ReturnsOfTrajectories) {
  RlConfig c = usable_config();
  const Trajectory right = trajectory_of({turn_of({9}, {1, 2}, 1.4)}),
                   repaired = trajectory_of({turn_of({9}, {1}, -1), turn_of({9}, {1}, 1)}),
                   never = trajectory_of(
                       {turn_of({9}, {1}, -1), turn_of({9}, {1}, -0.3), turn_of({9}, {1}, -0.6)}),
                   lost = trajectory_of({turn_of({9}, {1}, kNull)}),
                   cut = trajectory_of({turn_of({9}, {1}, -0.5), turn_of({9}, {1}, kNull)});
  EXPECT_DOUBLE_EQ(trajectory_return(right, c), 1.6);
  EXPECT_DOUBLE_EQ(trajectory_return(repaired, c), -0.75 + 0.25 + 0.1);
  EXPECT_DOUBLE_EQ(trajectory_return(never, c), -0.75 - 0.075);
  EXPECT_TRUE(std::isnan(trajectory_return(lost, c)));
  EXPECT_DOUBLE_EQ(trajectory_return(cut, c), -0.5);  // what came before the null counts
  c.reward = "last";
  EXPECT_DOUBLE_EQ(trajectory_return(never, c), -0.6);
  c.reward = "best";
  EXPECT_DOUBLE_EQ(trajectory_return(never, c), -0.3);
  c.reward = "first";
  EXPECT_DOUBLE_EQ(trajectory_return(repaired, c), -1);
  c.response_tokens = 4;
  c.overlong_cache = 4;  // two tokens of four: half of the way into the punished part
  EXPECT_DOUBLE_EQ(trajectory_return(right, c), 1.4 - 0.5);
}

Group group_of(std::uint64_t serial, std::vector<Trajectory> trajectories) {
  return {.start = {.serial = serial, .turns = 3}, .trajectories = std::move(trajectories)};
}

TEST(Batch, ANullLeavesItsGroupAndOnlyFirstTurnsAreTrained) {
  RlConfig c = usable_config();
  c.reward = "first";
  const std::vector<Group> groups = {
      group_of(0, {trajectory_of({turn_of({7, 8, 9}, {1, 2}, 1)}),
                   trajectory_of({turn_of({7, 8, 9}, {4}, -1), turn_of({7, 8, 9, 4, 6}, {5, 5}, 1)}),
                   trajectory_of({turn_of({7, 8, 9}, {3}, kNull)})}),
      group_of(1, {trajectory_of({turn_of({7}, {1}, -1)}), trajectory_of({turn_of({7}, {2}, -1)})})};
  std::vector<Response> responses = score(groups, c);
  ASSERT_EQ(responses.size(), 5u);
  // Of two returns 1 and -1 the mean is 0 and the sample deviation sqrt 2.
  EXPECT_NEAR(responses[0].advantage, 1 / std::sqrt(2), 1e-5);
  EXPECT_NEAR(responses[1].advantage, -1 / std::sqrt(2), 1e-5);
  EXPECT_FALSE(responses[2].valid);
  EXPECT_EQ(responses[3].advantage, 0);
  EXPECT_FALSE(responses[3].informative);
  EXPECT_EQ(responses[1].tokens(), 1);

  const std::vector<Pass> passes = make_passes(responses, {0, 1, 2, 3, 4}, 9, /*version=*/5);
  ASSERT_EQ(passes.size(), 2u);  // 5 + 4 tokens, and 2 + 2
  EXPECT_THAT(passes[0].responses, ElementsAre(0, 1));
  EXPECT_THAT(passes[1].responses, ElementsAre(3, 4));
  const Pass& pass = passes[0];
  const auto ids = [](const at::Tensor& x) {
    return std::vector<std::int64_t>(x.data_ptr<std::int64_t>(), x.data_ptr<std::int64_t>() + x.numel());
  };
  EXPECT_THAT(ids(pass.packed.ids), ElementsAre(7, 8, 9, 1, 7, 8, 9));
  EXPECT_THAT(ids(pass.targets), ElementsAre(-1, -1, 1, 2, -1, -1, 4));
  EXPECT_THAT(ids(pass.owner), ElementsAre(0, 0, 1));
  EXPECT_THAT(pass.ages, ElementsAre(2, 2, 2));
  EXPECT_FLOAT_EQ(pass.rollout[1].item<float>(), -1.5f);

  c.train_turns = "all";
  responses = score(groups, c);
  EXPECT_EQ(responses[1].tokens(), 3);
  EXPECT_EQ(make_passes(responses, {1}, 100, 5)[0].packed.starts, (std::vector<std::int64_t>{0, 3, 9}));
  c.train_turns = "first";
  c.mask_truncated = true;
  std::vector<Group> clipped = groups;
  clipped[0].trajectories[0].turns[0].clipped = true;
  responses = score(clipped, c);
  EXPECT_FALSE(responses[0].valid);
  EXPECT_NEAR(responses[1].advantage, -1 / std::sqrt(2), 1e-5);  // its reward still counts in the group
}

TEST(Trajectory, GroupsGoThroughJsonUnchanged) {
  Group group = group_of(17, {trajectory_of({turn_of({7, 8}, {1, 2, 3}, -1), turn_of({7, 9}, {4}, kNull)})});
  group.start.retry = rl::Retry{"t1", "code", "feedback", "compile_error:nvcc", 1, 12};
  group.trajectories[0].turns[0].logprobs = {-0.1f, -1e-30f, -3.4e38f};
  group.trajectories[0].turns[0].text = "h\u00e9llo\n";
  const auto back = group_from_json(nlohmann::json::parse(to_json(group).dump()));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(group));
  EXPECT_EQ(back->trajectories[0].turns[0].logprobs, group.trajectories[0].turns[0].logprobs);
  EXPECT_TRUE(std::isnan(back->trajectories[0].turns[1].reward));
  EXPECT_EQ(back->first_version(), 3);
  auto torn = to_json(group);
  torn["trajectories"][0]["turns"][0]["versions"].erase(0);
  EXPECT_THAT(group_from_json(torn).error().message, HasSubstr("differ in number"));
  EXPECT_FALSE(group_from_json({{"start", 3}}));
}

TEST(Summary, SaysWhatBecameOfAGroup) {
  const RlConfig c = usable_config();
  const auto tasks = five_tasks();
  std::vector<Group> groups = {
      group_of(0, {trajectory_of({turn_of({7}, {1, 2}, -1, "compile_error:nvcc")}),
                   trajectory_of({turn_of({7}, {1}, -1), turn_of({7}, {1}, -1)})}),
      group_of(1, {trajectory_of({turn_of({7}, {1}, 1, "ok")}),
                   trajectory_of({turn_of({7}, {1}, -1), turn_of({7}, {1}, 1, "ok")})}),
      group_of(2, {trajectory_of({turn_of({7}, {1}, kNull, "infra:gone")})})};
  groups[0].start.task = 3;
  groups[0].trajectories[1].turns[1].code = "class ModelNew: pass";
  groups[0].trajectories[1].turns[1].feedback = "off by one";
  const std::vector<Summary> made = summaries(groups, tasks, c, /*step=*/5);
  const auto all = summaries_from_json(to_json(made));
  ASSERT_TRUE(all) << all.error().message;
  // The one that got furthest, with its code and the verifier's own words.
  ASSERT_TRUE((*all)[0].failed);
  EXPECT_EQ((*all)[0].failed->prompt_id, "t3");
  EXPECT_EQ((*all)[0].failed->candidate, "```python\nclass ModelNew: pass\n```");
  EXPECT_EQ((*all)[0].failed->feedback, "off by one");
  EXPECT_FALSE((*all)[1].failed);
  EXPECT_FALSE((*all)[2].failed);
  EXPECT_TRUE((*all)[2].null());
  EXPECT_TRUE((*all)[2].equal());
  Numbers numbers;
  add_numbers(numbers, *all, c);
  std::map<std::string, double> of(numbers.begin(), numbers.end());
  // Returns: -1, -1; 1.2, -0.75 + 0.25 + 0.1.
  EXPECT_NEAR(of["reward/mean"], (-2 + 1.2 - 0.4) / 4, 1e-12);
  EXPECT_EQ(of["turns/first_accuracy"], 0.25);
  EXPECT_EQ(of["turns/best_accuracy"], 0.5);
  EXPECT_EQ(of["turns/to_success"], 1.5);
  EXPECT_NEAR(of["groups/all_failed"], 1 / 3.0, 1e-12);
  EXPECT_EQ(of["verify/null"], 1);
  EXPECT_EQ(of["status/ok"], 2);
  EXPECT_EQ(of["status/compile_error"], 1);
  EXPECT_EQ(of["status/infra"], 1);
  EXPECT_EQ(of["staleness/max"], 2);
  EXPECT_EQ(of["rollout/length"], 1.2);
  EXPECT_NEAR(of["rollout/entropy"], (8 * 0.5 + 1) / 8, 1e-6);
}

TEST(Evaluation, PassAtKIsUnbiased) {
  EXPECT_DOUBLE_EQ(pass_at(8, 0, 8), 0);
  EXPECT_DOUBLE_EQ(pass_at(8, 1, 8), 1);
  EXPECT_DOUBLE_EQ(pass_at(8, 2, 1), 0.25);
  EXPECT_NEAR(pass_at(5, 2, 2), 1 - 3.0 / 10, 1e-12);  // 1 - C(3, 2) / C(5, 2)
  const Numbers numbers = evaluation_numbers(
      {{"a", "x", 4, 1, 1, 0, 1, 1}, {"b", "y", 3, 3, 0, 1, 0, 2}, {"c", "y", 0, 0, 0, 4, 0, 0}}, 4);
  std::map<std::string, double> of(numbers.begin(), numbers.end());
  EXPECT_DOUBLE_EQ(of["eval/pass@1"], (0.25 + 1) / 2);
  EXPECT_DOUBLE_EQ(of["eval/pass@4"], 1);  // of task a; b has too few
  EXPECT_DOUBLE_EQ(of["eval/avg@4"], (0.25 + 1) / 2);
  EXPECT_DOUBLE_EQ(of["eval/first_turn"], 0.125);
  EXPECT_DOUBLE_EQ(of["eval/faster"], 1 / 6.0);  // one verified sample was not measured
  EXPECT_EQ(of["eval/null"], 5);
  EXPECT_EQ(of["eval/tasks"], 3);
  EXPECT_DOUBLE_EQ(of["eval/family/y"], 1);
}

TEST(RlTasks, RowsAreReadAndFaultsSayWhere) {
  const std::string folder = testing::TempDir() + "rl_tasks";
  ASSERT_TRUE(base::make_dirs(folder));
  const auto put = [&](const std::string& name, const std::string& text) {
    EXPECT_TRUE(base::write_file(folder + "/" + name, text));
    return folder + "/" + name;
  };
  put("one.py", "import torch\n");
  const auto tasks = read_tasks(
      {put("a.jsonl",
           "{\"id\": \"x\", \"code\": \"c\", \"family\": \"f\"}\n\n{\"path\": \"one.py\", \"name\": \"y\"}\n"
           "{\"reference\": \"r\", \"prompt\": \"say\", \"id\": 7}\n{\"id\": \"x\", \"code\": \"c\"}\n")});
  ASSERT_TRUE(tasks) << tasks.error().message;
  ASSERT_EQ(tasks->size(), 3u);
  EXPECT_EQ((*tasks)[1].code, "import torch\n");
  EXPECT_EQ((*tasks)[2].id, "7");
  EXPECT_EQ((*tasks)[2].prompt, "say");
  const auto message = [&](const std::string& text) {
    return read_tasks({put("b.jsonl", text)}).error().message;
  };
  EXPECT_THAT(message("{\"id\": \"x\"}\n"), HasSubstr("b.jsonl:1: a row has"));
  EXPECT_THAT(message("{\"code\": \"a\"}\n{\"code\": 3}\n"), HasSubstr("b.jsonl:2: \"code\" must be a text"));
  EXPECT_THAT(message("{\"code\": \"a\", \"id\": \"x\"}\n{\"code\": \"b\", \"id\": \"x\"}\n"),
              HasSubstr("two different tasks"));
  EXPECT_THAT(message("{\"path\": \"absent.py\"}\n"), HasSubstr("b.jsonl:1"));
  EXPECT_NE(fingerprint(*tasks), fingerprint({(*tasks)[0]}));
}

}  // namespace
}  // namespace musacoder::train
