// A fixture with a random two-layer model of eleven tokens on disk, in folder_ + "/model".
//
//   class MyTest : public TinyModel {};
//   TEST_F(MyTest, Opens) { EXPECT_TRUE(Weights::open(folder_ + "/model", {})); }
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "llm/checkpoint/checkpoint_writer.h"
#include "llm/checkpoint/families.h"
#include "llm/torch.h"

namespace musacoder::llm {

class TinyModel : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name();
    std::replace(name.begin(), name.end(), '/', '.');  // of parameters
    folder_ = testing::TempDir() + name + "." +
              std::to_string(::getpid());  // other checkouts test at the same time
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    values_ = write_model("model", 1);
  }
  // Its tensors in the order of family_tensors(). `more`: other values of its config.json; `scale`:
  // of the matrices' elements.
  std::vector<at::Tensor> write_model(const std::string& name, std::uint64_t seed, int layers = 2,
                                      const nlohmann::json& more = nlohmann::json::object(),
                                      double scale = 1) {
    nlohmann::json config = {{"model_type", "llama"},       {"hidden_size", 8},
                             {"num_hidden_layers", layers}, {"intermediate_size", 12},
                             {"num_attention_heads", 2},    {"vocab_size", 11},
                             {"tie_word_embeddings", true}, {"max_position_embeddings", 100}};
    config.update(more);
    NewCheckpoint model{.files = {{"config.json", config.dump()}}};
    at::manual_seed(seed);
    const auto wanted = family_tensors(config);
    EXPECT_TRUE(wanted);
    std::vector<at::Tensor> values;
    for (const FamilyTensor& one : *wanted) {
      values.push_back(at::randn(one.shape) * (one.shape.size() == 2 ? scale : 1));
      const at::Tensor value = values.back();
      model.tensors.push_back({one.name, DType::kF32, one.shape, [value] {
                                 return std::string_view(static_cast<const char*>(value.const_data_ptr()),
                                                         value.nbytes());
                               }});
    }
    EXPECT_TRUE(write_checkpoint(model, folder_ + "/" + name));
    return values;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  std::vector<at::Tensor> values_;  // in the order of family_tensors()
};

}  // namespace musacoder::llm
