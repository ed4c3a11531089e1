#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "train/config/sft_config.h"

namespace musacoder::train {
namespace {

class ConfigTest : public testing::Test {
 protected:
  std::string read(const std::string& text) {
    const auto status = read_config_text(keys_, text, "run.toml");
    return status ? "" : status.error().message;
  }
  std::string set(const std::string& text) {
    const auto status = set_config(keys_, text);
    return status ? "" : status.error().message;
  }
  SftConfig config_;
  std::vector<ConfigKey> keys_ = sft_keys(config_);
};

TEST_F(ConfigTest, ReadsEveryKind) {
  EXPECT_EQ(read("[model]\npath = 'here'\n[train]\nbatch_rows = 12\nepochs = 2\nrecompute = true\n"
                 "[optimizer]\nlr = 3e-5\n[data]\ntrain = ['a', 'b']\n[mixture.weights]\n\"loss fn\" = "
                 "2\nnorm = 0.5\n"),
            "");
  EXPECT_EQ(config_.model_path, "here");
  EXPECT_EQ(config_.batch_rows, 12);
  EXPECT_EQ(config_.epochs, 2);
  EXPECT_TRUE(config_.recompute);
  EXPECT_EQ(config_.lr, 3e-5);
  EXPECT_EQ(config_.data_train, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config_.weights, (NumberMap{{"loss fn", 2}, {"norm", 0.5}}));
}

TEST_F(ConfigTest, NamesTheNearestKeyAndTheLine) {
  EXPECT_EQ(read("[optimizer]\n\nmomentum_of_it = 1\n"),
            "run.toml:3: there is no key 'optimizer.momentum_of_it'");
  EXPECT_EQ(read("[optimizer]\nweight_decy = 1\n"),
            "run.toml:2: there is no key 'optimizer.weight_decy'; did you mean 'optimizer.weight_decay'?");
  EXPECT_EQ(read("[run]\nlr = 1\n"), "run.toml:2: there is no key 'run.lr'; did you mean 'optimizer.lr'?");
  EXPECT_EQ(read("[dat]\ntrain = []\n"), "run.toml:1: there is no key 'dat'");
  EXPECT_EQ(set("train.batchrows=2"),
            "--set train.batchrows=2: there is no key 'train.batchrows'; did you mean 'train.batch_rows'?");
}

TEST_F(ConfigTest, RefusesOtherKinds) {
  EXPECT_EQ(read("[train]\nbatch_rows = 1.5\n"), "run.toml:2: 'train.batch_rows' must be a whole number");
  EXPECT_EQ(read("[train]\nrecompute = 1\n"), "run.toml:2: 'train.recompute' must be true or false");
  EXPECT_EQ(read("[data]\ntrain = 'a'\n"), "run.toml:2: 'data.train' must be a list of texts");
  EXPECT_EQ(read("[data]\ntrain = [1]\n"), "run.toml:2: 'data.train' must be a list of texts");
  EXPECT_EQ(read("[schedule]\nkind = 'cos'\n"),
            "run.toml:2: 'schedule.kind' is one of cosine, linear, constant, not 'cos'");
  EXPECT_EQ(read("[model]\npath = 3\n"), "run.toml:2: 'model.path' must be a text in quotes");
  EXPECT_NE(read("[model\npath = 3\n").find("run.toml:1: "), std::string::npos);
  EXPECT_NE(read("a = [1, 2").find("run.toml:1: "), std::string::npos);
  EXPECT_NE(read("a = \"\\u12\"").find("run.toml:1: "), std::string::npos);
}

TEST_F(ConfigTest, SetsFromTheCommandLine) {
  EXPECT_EQ(set("model.path=/a/b c"), "");
  EXPECT_EQ(config_.model_path, "/a/b c");
  EXPECT_EQ(set("model.path=\"x = y\""), "");
  EXPECT_EQ(config_.model_path, "x = y");
  EXPECT_EQ(set("model.path=12"), "");
  EXPECT_EQ(config_.model_path, "12");
  EXPECT_EQ(set("data.train=[\"a\"]"), "");
  EXPECT_EQ(config_.data_train, (std::vector<std::string>{"a"}));
  EXPECT_EQ(set("mixture.weights.norm=2"), "");
  EXPECT_EQ(config_.weights["norm"], 2);
  EXPECT_EQ(set("optimizer.lr=1"), "");
  EXPECT_EQ(config_.lr, 1);
  EXPECT_NE(set("optimizer.lr=fast"), "");
  EXPECT_EQ(set("optimizer.lr"), "--set optimizer.lr: write key=value");
}

TEST_F(ConfigTest, ChecksValuesTogether) {
  ASSERT_EQ(read("[model]\npath='m'\n[run]\ndir='r'\n[data]\ntrain=['a']\n"), "");
  EXPECT_TRUE(check(config_));
  const auto message = [&](const std::string& assignment) {
    SftConfig other = config_;
    auto keys = sft_keys(other);
    EXPECT_TRUE(set_config(keys, assignment));
    const auto status = check(other);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(message("eval.every=2"), "eval.every needs data.eval: a list of JSONL files");
  EXPECT_EQ(message("train.batch_rows=0"), "train.batch_rows is too small");
  EXPECT_EQ(message("data.length=1"), "data.length is too small");
  EXPECT_EQ(message("optimizer.lr=-1"), "optimizer.lr is negative");
  EXPECT_EQ(message("optimizer.lr=nan"), "optimizer.lr is negative");
  EXPECT_EQ(message("mixture.shares.a=1.5"), "mixture.shares add up to more than 1");
  EXPECT_EQ(message("run.dir="), "run.dir is missing: where checkpoints and metrics go");
}

TEST_F(ConfigTest, TheDocumentHasTheTable) {
  std::ifstream file(MC_SOURCE_DIR "/docs/training.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string table = config_markdown(keys_);
  EXPECT_NE(text.str().find(table), std::string::npos) << "docs/training.md must hold this table:\n" << table;
}

// Every file of configs/ that is this program's is read, and the paper's have the paper's values (section 5.1 of arXiv 2606.04847).
TEST(Configs, AreReadAndHaveThePapersValues) {
  int seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MC_SOURCE_DIR "/configs")) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("sft-") && !name.starts_with("rft-")) continue;
    ++seen;
    SftConfig config;
    const auto read = read_config(sft_keys(config), entry.path().string());
    ASSERT_TRUE(read) << read.error().message;
    const auto good = check(config);
    EXPECT_TRUE(good) << entry.path() << ": " << good.error().message;
    if (!name.starts_with("sft-") || entry.path().parent_path().filename() != "paper") continue;
    EXPECT_EQ(config.lr, 1e-5);
    EXPECT_EQ(config.warmup, 0.03);
    EXPECT_EQ(config.weight_decay, 0.01);
    EXPECT_EQ(config.model_type, "bf16");
    EXPECT_EQ(config.length, 40 * 1024);
    EXPECT_EQ(config.batch_rows, 256);
    EXPECT_EQ(config.epochs, 1);
    EXPECT_EQ(config.shares.at("general"), 0.3);
  }
  EXPECT_EQ(seen, 5);
}

TEST(NearestName, AllowsAThirdOfTheLetters) {
  EXPECT_EQ(nearest_name("reductoin", {"norm", "reduction"}), "reduction");
  EXPECT_EQ(nearest_name("x", {"norm", "reduction"}), "");
}

}  // namespace
}  // namespace musacoder::train
