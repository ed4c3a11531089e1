// Rollouts against a verifier in memory, and updates against the objective over a whole batch at once.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "llm/model/logprobs.h"
#include "train/chat_model.h"
#include "train/config/rl_objective.h"
#include "train/rl/policy_update.h"
#include "train/rl/rollout_loop.h"

namespace musacoder::train {
namespace {

using testing::HasSubstr;

// Rewards are a function of the answer; they come in an order of its own, some at a time.
class FakeVerifier : public Verifier {
 public:
  explicit FakeVerifier(int shuffle) : shuffle_(shuffle) {}
  void submit(std::uint64_t ticket, VerifyRequest request) override {
    requests.push_back(request);
    waiting_.emplace_back(ticket, judge(request));
  }
  std::vector<std::pair<std::uint64_t, VerifyOutcome>> collect(double wait_s) override {
    std::vector<std::pair<std::uint64_t, VerifyOutcome>> out;
    if (waiting_.empty() || (wait_s == 0 && ++calls_ % 3 != 0)) return out;
    const std::size_t at = shuffle_ ? (static_cast<std::size_t>(shuffle_) * 7 + calls_) % waiting_.size() : 0;
    out.push_back(std::move(waiting_[at]));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    return out;
  }
  std::function<VerifyOutcome(const VerifyRequest&)> judge = [](const VerifyRequest& r) {
    VerifyOutcome out;
    out.reward = r.candidate.size() % 2 ? 1.0 : -1.0;
    out.verified = out.reward >= 1;
    out.status = out.verified ? "ok" : "correctness_error:values";
    out.feedback = fmt::format("said {} characters", r.candidate.size());
    return out;
  };
  std::vector<VerifyRequest> requests;

 private:
  int shuffle_;
  std::size_t calls_ = 0;
  std::vector<std::pair<std::uint64_t, VerifyOutcome>> waiting_;
};

class RlRollouts : public ChatModel {
 protected:
  void SetUp() override {
    ChatModel::SetUp();
    for (int i = 0; i < 3; ++i)
      tasks_.push_back({.id = fmt::format("t{}", i),
                        .code = fmt::format("code {}", i),
                        .prompt = fmt::format("say {}", i)});
    auto asker = Asker::open(folder_ + "/model", {});
    ASSERT_TRUE(asker) << asker.error().message;
    asker_.emplace(std::move(*asker));
  }
  std::unique_ptr<llm::Engine> engine(int max_running = 8) {
    auto out = llm::Engine::open(
        folder_ + "/model",
        {.type = "f32", .cache_tokens = 4096, .max_running = max_running, .step_tokens = 16});
    EXPECT_TRUE(out) << out.error().message;
    return std::move(*out);
  }
  RolloutOptions options() const {
    return {.group = 3, .eval_samples = 2, .prompt_tokens = 200, .response_tokens = 6, .seed = 4, .run = "r"};
  }
  // Groups by serial.
  std::map<std::uint64_t, nlohmann::json> run(FakeVerifier& verifier, int max_running, std::int64_t turns,
                                              bool threaded = false) {
    const auto one = engine(max_running);
    Rollouts rollouts(*one, *asker_, tasks_, tasks_, verifier, nullptr, options());
    RolloutLoop loop(rollouts, {.threaded = threaded});
    std::vector<GroupStart> starts;
    for (std::size_t i = 0; i < 4; ++i) starts.push_back({.serial = i, .task = i % 3, .turns = turns});
    EXPECT_TRUE(loop.start(starts));
    std::map<std::uint64_t, nlohmann::json> out;
    while (out.size() < 4) {
      const auto groups = loop.take(1);
      EXPECT_TRUE(groups) << groups.error().message;
      for (const Group& group : *groups) {
        nlohmann::json text = to_json(group);
        out[group.start.serial] = text;
      }
    }
    EXPECT_EQ(loop.outstanding(), 0u);
    counts_ = loop.counts();
    return out;
  }
  std::vector<RlTask> tasks_;
  std::optional<Asker> asker_;
  Rollouts::Counts counts_;
};

TEST_F(RlRollouts, GroupsAreTheSameWhateverRunsBesideThem) {
  FakeVerifier one(0), two(1), three(2);
  const auto a = run(one, 8, 3), b = run(two, 3, 3), c = run(three, 8, 3, /*threaded=*/true);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a, c);
  EXPECT_NE(a.at(0)["trajectories"], a.at(3)["trajectories"]);  // the same task: other random numbers
  std::set<std::size_t> turns;
  for (const auto& [serial, group] : a)
    for (const auto& trajectory : group["trajectories"]) {
      turns.insert(trajectory["turns"].size());
      const bool right = trajectory["turns"].back()["verified"];
      EXPECT_EQ(trajectory["end"], right ? "verified" : "turns");
      for (std::size_t i = 0; i + 1 < trajectory["turns"].size(); ++i)
        EXPECT_FALSE(trajectory["turns"][i]["verified"]);
    }
  EXPECT_EQ(turns, (std::set<std::size_t>{1, 2, 3}));
  EXPECT_EQ(counts_.samples, 12);
  EXPECT_EQ(counts_.verdicts, counts_.turns);
}

TEST_F(RlRollouts, ALaterTurnReadsTheAnswerAndTheVerifiersWords) {
  FakeVerifier verifier(0);
  verifier.judge = [](const VerifyRequest& r) {
    VerifyOutcome out;
    out.reward = r.round == 2 ? 1 : -1;
    out.verified = r.round == 2;
    out.status = "x";
    out.feedback = "try B";
    return out;
  };
  const auto groups = run(verifier, 8, 3);
  const auto& turns = groups.at(1)["trajectories"][2]["turns"];
  ASSERT_EQ(turns.size(), 2u);
  const auto ids = turns[1]["prompt"].get<std::vector<std::uint32_t>>();
  EXPECT_EQ(shown(ids), "<|user|>say 1<|end|>\n<|assistant|>" + turns[0]["text"].get<std::string>() +
                            "<|end|>\n<|user|>try B<|end|>\n<|assistant|>");
  for (const VerifyRequest& one : verifier.requests) EXPECT_EQ(one.reference, "code " + one.task.substr(1));
}

TEST_F(RlRollouts, TrajectoriesEndWhereThereIsNoRewardNoRoomOrAForeignVoice) {
  FakeVerifier verifier(0);
  std::string feedback;
  double reward = -1;
  verifier.judge = [&](const VerifyRequest&) {
    VerifyOutcome out;
    out.reward = reward;
    out.status = "x";
    out.feedback = feedback;
    return out;
  };
  const auto ends = [&] { return run(verifier, 8, 3).at(0)["trajectories"][0]["end"].get<std::string>(); };
  feedback = std::string(300, 'x');
  EXPECT_EQ(ends(), "context");
  feedback = "<|end|>";
  EXPECT_EQ(ends(), "control");
  reward = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ends(), "null");
}

TEST_F(RlRollouts, ARetryShowsTheFailedAnswerAndAsksForTheSecondRound) {
  FakeVerifier verifier(0);
  const auto one = engine();
  Rollouts rollouts(*one, *asker_, tasks_, tasks_, verifier, nullptr, options());
  RolloutLoop loop(rollouts, {});
  ASSERT_TRUE(loop.start(
      {{.serial = 5, .task = 1, .turns = 1, .retry = rl::Retry{"t1", "bad code", "it fails", "x", 1, 2}}}));
  const auto groups = loop.take(1);
  ASSERT_EQ(groups->size(), 1u);
  EXPECT_EQ(shown((*groups)[0].trajectories[0].turns[0].prompt),
            "<|user|>say 1<|end|>\n<|assistant|>bad code<|end|>\n<|user|>it fails<|end|>\n<|assistant|>");
  EXPECT_EQ(verifier.requests[0].round, 2);
}

TEST_F(RlRollouts, WhatDoesNotFitIsAnErrorAndNotATrajectory) {
  FakeVerifier verifier(0);
  const auto small =
      llm::Engine::open(folder_ + "/model", {.type = "f32", .cache_tokens = 16, .max_running = 8});
  Rollouts rollouts(**small, *asker_, tasks_, tasks_, verifier, nullptr, options());
  const Status started = rollouts.start({.serial = 0, .task = 0});
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("rollout.cache_tokens"));
  EXPECT_TRUE(rollouts.idle());
}

class Updates : public ChatModel, public testing::WithParamInterface<const char*> {
 protected:
  RlConfig config() {
    RlConfig c;
    c.model_path = folder_ + "/model";
    c.run_dir = folder_ + "/run";
    c.tasks_train = {"x"};
    c.preset = GetParam();
    c.temperature = 0.9;
    c.clip = 0;
    if (c.preset == std::string("mirrorpop")) c.mask_delta = 1.2;  // of which the answers below keep some
    return c;
  }
  // Answers of many lengths, sampled by something else than the model.
  static std::vector<Group> groups() {
    std::vector<Group> out(3);
    std::uint32_t x = 7;
    const auto next = [&](std::uint32_t below) { return (x = x * 1664525u + 1013904223u) / 65536u % below; };
    for (std::size_t g = 0; g < out.size(); ++g) {
      out[g].start.serial = g;
      for (int i = 0; i < 4; ++i) {
        Turn turn;
        for (std::uint32_t n = 2 + next(5); n > 0; --n) turn.prompt.push_back(0x30 + next(60));
        for (std::uint32_t n = 1 + next(7); n > 0; --n) {
          turn.answer.push_back(0x30 + next(60));
          turn.logprobs.push_back(-4.5f + 0.01f * static_cast<float>(next(300)) * (i % 2 ? 1 : -0.3f));
          turn.versions.push_back(0);
        }
        turn.reward = static_cast<double>(next(4)) / 2 - 1;
        out[g].trajectories.push_back({.turns = {turn}, .end = End::kTurns});
      }
    }
    return out;
  }
  struct Numbers3 {
    double loss, norm, masked;
  };
  Numbers3 updated(RlConfig c, const std::vector<Group>& batch, bool with_reference = false) {
    const auto all = alone();
    auto model = TrainedModel::open(c, at::kCPU, *all);
    EXPECT_TRUE(model) << model.error().message;
    auto reference = Reference::open(c.model_path, "f32", **model);
    PolicyUpdate update(**model, with_reference ? reference->get() : nullptr, *all, c,
                        objective_of(c).value());
    const std::vector<Response> responses = score(batch, c);
    const UpdateResult done = update.run(responses, std::vector<std::size_t>(responses.size(), 0), 0,
                                         [](std::int64_t) { return 1e-3; });
    EXPECT_EQ(done.optimizer_steps, 1);
    std::map<std::string, double> of(done.numbers.begin(), done.numbers.end());
    return {of["train/loss"], of["train/grad_norm"], of["train/masked_share"]};
  }
  // All responses in one batch, by the objective alone and a model of its own.
  Numbers3 at_once(const RlConfig& c, const std::vector<Group>& batch) {
    const auto weights = llm::Weights::open(c.model_path, {.type = llm::WeightType::kF32, .trainable = true});
    const llm::Decoder model(*weights);
    const std::vector<Response> responses = score(batch, c);
    std::vector<at::Tensor> current;
    std::vector<float> rollout;
    std::vector<std::int64_t> owner;
    std::vector<double> advantage;
    for (std::size_t i = 0; i < responses.size(); ++i) {
      const Turn& turn = *responses[i].trained[0];
      std::vector<std::int64_t> ids(turn.prompt.begin(), turn.prompt.end());
      ids.insert(ids.end(), turn.answer.begin(), turn.answer.end());
      const llm::Packed packed = llm::pack({ids});
      llm::PackedAttention attention(packed);
      const at::Tensor logits = at::matmul(model.hidden(packed, attention), model.head().t()) / c.temperature;
      for (std::size_t t = 0; t < turn.answer.size(); ++t) {
        const auto row = static_cast<std::int64_t>(turn.prompt.size() + t - 1);
        current.push_back(at::log_softmax(logits[row], 0)[static_cast<std::int64_t>(turn.answer[t])]);
        rollout.push_back(turn.logprobs[t]);
        owner.push_back(static_cast<std::int64_t>(i));
      }
      advantage.push_back(responses[i].advantage);
    }
    const at::Tensor lp = at::stack(current);
    const rl::Objective o = rl::objective({.current = lp,
                                           .rollout = at::tensor(rollout),
                                           .mask = at::ones_like(lp).detach(),
                                           .response = at::tensor(owner),
                                           .responses = static_cast<std::int64_t>(responses.size())},
                                          at::tensor(advantage, at::kDouble), {}, objective_of(c).value());
    o.loss.backward();
    double squares = 0;
    for (const std::string& name : weights->names()) {
      const at::Tensor gradient = weights->get(name).grad();
      if (gradient.defined()) squares += gradient.square().sum().item<double>();
    }
    return {o.loss.item<double>(), std::sqrt(squares), o.metrics.at("masked_share")};
  }
};

TEST_P(Updates, PassesTogetherGiveTheLossAndGradientOfTheBatch) {
  const std::vector<Group> batch = groups();
  RlConfig c = config();
  const Numbers3 want = at_once(c, batch);
  for (const std::int64_t pass_tokens : {1, 25, 100000}) {
    c.pass_tokens = pass_tokens;
    const Numbers3 got = updated(c, batch);
    EXPECT_NEAR(got.loss, want.loss, 1e-5 * std::max(1.0, std::fabs(want.loss))) << pass_tokens;
    EXPECT_NEAR(got.norm, want.norm, 1e-4 * want.norm) << pass_tokens;
    EXPECT_NEAR(got.masked, want.masked, 1e-12) << pass_tokens;
  }
  if (c.preset == std::string("mirrorpop")) {
    EXPECT_GT(want.masked, 0.1);
    EXPECT_LT(want.masked, 0.9);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, Updates,
                         testing::Values("grpo", "dapo", "dr_grpo", "gspo", "cispo", "mirrorpop"));

using UpdateDetails = Updates;
INSTANTIATE_TEST_SUITE_P(Details, UpdateDetails, testing::Values("grpo"));

TEST_P(UpdateDetails, TheReferenceIsTheModelItselfAtFirst) {
  RlConfig c = config();
  c.kl = 10;
  const Numbers3 with = updated(c, groups(), true);
  c.kl = 0;
  const Numbers3 without = updated(c, groups());
  // KL is at its minimum: no value and no gradient.
  EXPECT_NEAR(with.loss, without.loss, 1e-5);
  EXPECT_NEAR(with.norm, without.norm, 1e-3 * without.norm);
}

TEST_P(UpdateDetails, SeveralUpdatesOfABatchAreStepsOfTheirOwn) {
  RlConfig c = config();
  c.mini_batches = 3;
  c.batch_epochs = 2;
  c.batch = 3;
  const auto all = alone();
  const auto model = TrainedModel::open(c, at::kCPU, *all).value();
  PolicyUpdate update(*model, nullptr, *all, c, objective_of(c).value());
  const std::vector<Group> batch = groups();
  const std::vector<Response> responses = score(batch, c);
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < responses.size(); ++i) parts.push_back(i / 4);
  std::vector<std::int64_t> asked;
  const UpdateResult done = update.run(responses, parts, 0, [&](std::int64_t n) {
    asked.push_back(n);
    return 1e-3;
  });
  EXPECT_EQ(done.optimizer_steps, 6);
  EXPECT_EQ(asked, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(model->shards().steps(), 6);
}

}  // namespace
}  // namespace musacoder::train
