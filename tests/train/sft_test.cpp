// Whole runs of a tiny model: what passes and precision change, what stays the same, and what ends in an
// error.
#include "train/sft/sft.h"

#include <csignal>
#include <sstream>

#include "llm/model/weights.h"
#include "train/chat_model.h"
#include "train/run/run_folder.h"

namespace musacoder::train {
namespace {

class SftTest : public ChatModel {
 protected:
  void SetUp() override {
    ChatModel::SetUp();
    std::string rows;
    for (int i = 0; i < 24; ++i)
      rows += fmt::format("{{\"prompt\": \"say {}\", \"completion\": \"{}\", \"family\": \"{}\"}}\n", i % 4,
                          std::string(static_cast<std::size_t>(2 + i % 5), static_cast<char>('a' + i % 4)),
                          i % 3 ? "norm" : "general");
    write("train.jsonl", rows);
    write("eval.jsonl", rows.substr(0, rows.find('\n') + 1));
  }
  Result<SftOutcome> run(const std::string& name, std::vector<std::string> more = {}) {
    const std::string config =
        write("run.toml",
              fmt::format(
                  "[model]\npath = \"{0}/model\"\n[run]\nthreads = 1\n[data]\ntrain = [\"{0}/train.jsonl\"]\n"
                  "length = 64\n[train]\nbatch_rows = 3\nsteps = 8\n[optimizer]\nlr = 0.01\n"
                  "[schedule]\nkind = \"linear\"\nwarmup = 2\n[log]\ntensorboard = false\n",
                  folder_));
    more.push_back("run.dir=" + folder_ + "/" + name);
    return run_sft({.config = config, .assignments = more});
  }
  std::string error(std::vector<std::string> more) {
    const auto outcome = run("error", std::move(more));
    return outcome ? "" : outcome.error().message;
  }
  std::string newest(const std::string& name) { return RunFolder(folder_ + "/" + name).newest().value(); }
  std::map<std::string, at::Tensor> weights(const std::string& name) {
    const auto opened = llm::Weights::open(newest(name) + "/model", {});
    EXPECT_TRUE(opened) << opened.error().message;
    std::map<std::string, at::Tensor> out;
    for (const std::string& one : opened->names()) out[one] = opened->get(one);
    return out;
  }
  // Largest relative difference of any tensor.
  double difference(const std::string& a, const std::string& b) {
    const auto one = weights(a), two = weights(b);
    double out = 0;
    for (const auto& [name, tensor] : one) {
      if (name.ends_with("k_proj.bias"))
        continue;  // its gradient is rounding noise, and AdamW takes its sign
      out = std::max(
          out, ((tensor.to(at::kFloat) - two.at(name).to(at::kFloat)).norm() / tensor.to(at::kFloat).norm())
                   .item<double>());
    }
    return out;
  }
  std::vector<nlohmann::json> metrics(const std::string& name) {
    std::istringstream text(base::read_file(folder_ + "/" + name + "/metrics.jsonl").value());
    std::vector<nlohmann::json> out;
    for (std::string line; std::getline(text, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
};

TEST_F(SftTest, LearnsAndWritesDownWhatItDid) {
  const auto outcome = run("a", {"train.steps=30", "data.eval=[\"" + folder_ + "/eval.jsonl\"]",
                                 "eval.every=10", "checkpoint.every=10", "checkpoint.keep=2"});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->step, 30);
  const auto lines = metrics("a");
  ASSERT_EQ(lines.size(), 31u);
  EXPECT_LT(lines[30]["train/loss"].get<double>(), 0.3 * lines[1]["train/loss"].get<double>());
  EXPECT_LT(lines[10]["eval/loss"].get<double>(), lines[0]["eval/loss"].get<double>());
  EXPECT_LT(lines[30]["eval/loss"].get<double>(), lines[10]["eval/loss"].get<double>());
  EXPECT_FALSE(lines[1].contains("eval/loss"));
  EXPECT_DOUBLE_EQ(lines[1]["train/lr"].get<double>(), 0.005);
  EXPECT_TRUE(newest("a").ends_with("step-00000030"));
  EXPECT_FALSE(base::exists(RunFolder(folder_ + "/a").of_step(10))) << "two are kept";
  EXPECT_TRUE(base::exists(RunFolder(folder_ + "/a").of_step(20)));
  EXPECT_EQ(std::filesystem::read_symlink(folder_ + "/a/checkpoints/latest").string(), "step-00000030");
  // The same command again has nothing left to do.
  EXPECT_EQ(run("a", {"train.steps=30"})->step, 30);
}

TEST_F(SftTest, PassesOfAStepAddUpToOneLargePass) {
  ASSERT_TRUE(run("whole", {"train.pass_rows=3"}));
  ASSERT_TRUE(run("parts", {"train.pass_rows=1"}));
  EXPECT_LT(difference("whole", "parts"), 2e-5);
  const auto whole = metrics("whole"), parts = metrics("parts");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(whole[i]["train/loss"].get<double>(), parts[i]["train/loss"].get<double>(), 1e-5);
    EXPECT_NEAR(whole[i]["train/grad_norm"].get<double>() / parts[i]["train/grad_norm"].get<double>(), 1,
                1e-4);
  }
}

TEST_F(SftTest, RecomputedActivationsAndPackingChangeNothingButTheCost) {
  ASSERT_TRUE(run("kept"));
  ASSERT_TRUE(run("again", {"train.recompute=true"}));
  EXPECT_EQ(difference("kept", "again"), 0);
  // One row of all examples, or all rows of one: the same step either way.
  ASSERT_TRUE(run("packed", {"data.length=2000", "train.batch_rows=1", "train.steps=2"}));
  ASSERT_TRUE(run("single", {"data.packing=false", "train.batch_rows=24", "train.steps=2"}));
  EXPECT_LT(difference("packed", "single"), 2e-5);
}

TEST_F(SftTest, ARunThatIsTakenUpEndsWithTheSameBits) {
  for (const std::string type : {"f32", "bf16"}) {
    ASSERT_TRUE(run("through-" + type, {"model.type=" + type}));
    ASSERT_TRUE(run("halves-" + type, {"model.type=" + type, "checkpoint.every=5", "train.steps=8"}));
    // As if it had been killed between the checkpoint of step 5 and the end.
    std::filesystem::remove_all(newest("halves-" + type));
    ASSERT_TRUE(newest("halves-" + type).ends_with("step-00000005"));
    ASSERT_TRUE(run("halves-" + type, {"model.type=" + type, "checkpoint.every=5", "train.steps=8"}));
    EXPECT_EQ(difference("through-" + type, "halves-" + type), 0) << type;
    EXPECT_EQ(metrics("halves-" + type).size(), 8u);
  }
}

TEST_F(SftTest, Bfloat16ModelsKeepFloat32WeightsBesideThem) {
  std::filesystem::remove_all(folder_ + "/model");
  write_model(folder_ + "/model", llm::DType::kBF16);
  // A step far below what bf16 can add to a weight: it must add up all the same.
  ASSERT_TRUE(
      run("small", {"model.type=bf16", "optimizer.lr=2e-5", "train.steps=60", "schedule.kind=constant"}));
  const auto opened = llm::Checkpoint::open(newest("small") + "/optimizer");
  ASSERT_TRUE(opened);
  ASSERT_NE(opened->find("weight.model.norm.weight"), nullptr);
  const auto before = llm::Weights::open(folder_ + "/model", {});
  const at::Tensor moved =
      weights("small")["model.norm.weight"].to(at::kFloat) - before->get("model.norm.weight").to(at::kFloat);
  const auto* exact = opened->find("weight.model.norm.weight");
  const at::Tensor wide = at::from_blob(const_cast<char*>(exact->bytes.data()), exact->shape, at::kFloat);
  const at::Tensor drift = (wide - before->get("model.norm.weight").to(at::kFloat)).abs();
  EXPECT_GT(drift.max().item<double>(), 2e-4);
  EXPECT_LT(drift.max().item<double>(), 60 * 2e-5 * 1.1);
  EXPECT_TRUE(at::equal(weights("small")["model.norm.weight"], wide.to(at::kBFloat16)));
}

TEST_F(SftTest, AdaptersAreTrainedAloneAndTakenUp) {
  const std::vector<std::string> lora = {"lora.rank=2", "lora.targets=[\"q_proj\", \"down_proj\"]",
                                         "checkpoint.every=5"};
  ASSERT_TRUE(run("through", lora));
  ASSERT_TRUE(run("halves", lora));
  std::filesystem::remove_all(newest("halves"));
  ASSERT_TRUE(run("halves", lora));
  const auto read = [&](const std::string& name) {
    return base::read_file(newest(name) + "/adapter/adapter_model.safetensors").value();
  };
  EXPECT_EQ(read("through"), read("halves"));
  EXPECT_LT(metrics("through")[7]["train/loss"].get<double>(),
            metrics("through")[0]["train/loss"].get<double>());
  EXPECT_FALSE(base::exists(newest("through") + "/model"));
}

TEST_F(SftTest, ASignalEndsItBehindAStepWithACheckpoint) {
  // Sent while the first step is being computed, from the command that runs after a checkpoint.
  const auto outcome = run(
      "a", {"checkpoint.every=2",
            fmt::format("eval.command=[ $MUSACODER_STEP != 2 ] || kill -TERM {}; echo {{\\\"score\\\": 7}}",
                        ::getpid())});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_TRUE(outcome->stopped);
  EXPECT_EQ(outcome->step, 3);
  EXPECT_TRUE(newest("a").ends_with("step-00000003"));
  EXPECT_EQ(metrics("a")[2]["step"], 2);  // behind the step's own line
  EXPECT_EQ(metrics("a")[2]["eval/score"], 7);
  const auto rest = run("a");
  EXPECT_FALSE(rest->stopped);
  EXPECT_EQ(rest->step, 8);
  ASSERT_TRUE(run("b"));
  EXPECT_EQ(difference("a", "b"), 0);
}

TEST_F(SftTest, NoWeightDecayOnNormsAndBiases) {
  // Without a learning signal only decay moves a weight; so: no gradient where the loss weight is nothing.
  ASSERT_TRUE(run("a", {"optimizer.weight_decay=0", "train.steps=1"}));
  ASSERT_TRUE(run("b", {"optimizer.weight_decay=10", "train.steps=1"}));
  const auto plain = weights("a"), decayed = weights("b");
  for (const auto& [name, tensor] : plain) {
    if (tensor.dim() == 1)
      EXPECT_TRUE(at::equal(tensor, decayed.at(name))) << name;
    else
      EXPECT_FALSE(at::equal(tensor, decayed.at(name))) << name;
  }
}

TEST_F(SftTest, WhatCannotGoOnIsRefused) {
  ASSERT_TRUE(run("error", {"train.steps=2"}));
  EXPECT_NE(error({"run.seed=1"}).find("was written with run.seed = 0, and now it is 1"), std::string::npos);
  EXPECT_EQ(error({"optimizer.lr=0.5", "train.steps=3"}), "") << "a learning rate may change";
  write("train.jsonl", "{\"text\": \"other\"}");
  EXPECT_NE(error({}).find("was trained on other data"), std::string::npos);
  std::filesystem::remove_all(folder_ + "/error");
  EXPECT_NE(error({"data.length=2", "data.too_long=drop", "mixture.weights.x=1"}).find("no family 'x'"),
            std::string::npos);
  EXPECT_NE(error({"model.path=" + folder_ + "/none"}).find("none"), std::string::npos);
  EXPECT_NE(error({"run.device=tpu"}).find("tpu"), std::string::npos);
}

TEST_F(SftTest, NumbersThatAreNotFiniteEndARunThatDoesNotRecover) {
  const std::string message = error({"optimizer.lr=1e30", "train.steps=40", "optimizer.clip=0"});
  EXPECT_NE(message.find("not finite"), std::string::npos) << message;
}

}  // namespace
}  // namespace musacoder::train
