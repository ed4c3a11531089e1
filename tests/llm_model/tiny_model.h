// A fixture with a random two-layer model of eleven tokens on disk, in folder_ + "/model".
//
//   class MyTest : public TinyModel {};
//   TEST_F(MyTest, Opens) { EXPECT_TRUE(Weights::open(folder_ + "/model", {})); }
#pragma once

#include <gtest/gtest.h>

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
    folder_ = testing::TempDir() + test->test_suite_name() + "." + test->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const nlohmann::json config = {{"model_type", "llama"},       {"hidden_size", 8},
                                   {"num_hidden_layers", 2},      {"intermediate_size", 12},
                                   {"num_attention_heads", 2},    {"vocab_size", 11},
                                   {"tie_word_embeddings", true}, {"max_position_embeddings", 100}};
    NewCheckpoint model{.files = {{"config.json", config.dump()}}};
    at::manual_seed(1);
    const auto wanted = family_tensors(config);
    ASSERT_TRUE(wanted);
    for (const FamilyTensor& one : *wanted) {
      values_.push_back(at::randn(one.shape));
      const at::Tensor& value = values_.back();
      model.tensors.push_back({one.name, DType::kF32, one.shape, [value] {
                                 return std::string_view(static_cast<const char*>(value.const_data_ptr()),
                                                         value.nbytes());
                               }});
    }
    ASSERT_TRUE(write_checkpoint(model, folder_ + "/model"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  std::vector<at::Tensor> values_;  // in the order of family_tensors()
};

}  // namespace musacoder::llm
