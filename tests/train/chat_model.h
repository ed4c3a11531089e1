// A fixture with a random two-layer model that can chat, in folder_ + "/model". A token is a character's
// ASCII code; 1, 2 and 3 are <|user|>, <|assistant|> and <|end|>.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.h"
#include "llm/checkpoint/checkpoint_writer.h"
#include "llm/checkpoint/families.h"
#include "llm/torch.h"

namespace musacoder::train {

class ChatModel : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + test->test_suite_name() + "." + test->name() + "." + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    write_model(folder_ + "/model", llm::DType::kF32);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static void write_model(const std::string& folder, llm::DType type) {
    const nlohmann::json config = {
        {"model_type", "llama"},   {"hidden_size", 16},           {"num_hidden_layers", 2},
        {"intermediate_size", 24}, {"num_attention_heads", 4},    {"num_key_value_heads", 2},
        {"vocab_size", 128},       {"tie_word_embeddings", true}, {"max_position_embeddings", 512},
        {"attention_bias", true}};
    const std::string chat =
        "{% for m in messages %}<|{{ m.role }}|>"
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
        "{{ m.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
    nlohmann::json vocab = {{"\u0120", 32}, {"\u010a", 10}}, added = nlohmann::json::array();
    for (int c = 0x21; c < 0x7f; ++c) vocab[std::string(1, static_cast<char>(c))] = c;
    for (const auto& [id, text] :
         {std::pair(1, "<|user|>"), std::pair(2, "<|assistant|>"), std::pair(3, "<|end|>")})
      added.push_back({{"id", id},
                       {"content", text},
                       {"special", true},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false}});
    const nlohmann::json tokenizer = {
        {"added_tokens", added},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
    llm::NewCheckpoint model{.files = {{"config.json", config.dump()},
                                       {"tokenizer.json", tokenizer.dump()},
                                       {"tokenizer_config.json", R"({"eos_token": "<|end|>"})"},
                                       {"chat_template.jinja", chat}}};
    at::manual_seed(1);
    const auto wanted = llm::family_tensors(config);
    ASSERT_TRUE(wanted);
    for (const llm::FamilyTensor& one : *wanted) {
      const at::Tensor value = (at::randn(one.shape) * 0.3 + (one.name.ends_with("norm.weight") ? 1 : 0))
                                   .to(type == llm::DType::kF32 ? at::kFloat : at::kBFloat16);
      model.tensors.push_back({one.name, type, one.shape, [value] {
                                 return std::string_view(static_cast<const char*>(value.const_data_ptr()),
                                                         value.nbytes());
                               }});
    }
    const auto written = llm::write_checkpoint(model, folder);
    ASSERT_TRUE(written) << written.error().message;
  }

  std::string write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(base::write_file(folder_ + "/" + name, text));
    return folder_ + "/" + name;
  }

  std::string folder_;
};

// "<|user|>hi<|end|>" of its tokens.
inline std::string shown(const std::vector<std::uint32_t>& ids) {
  std::string out;
  for (const std::uint32_t id : ids)
    out += id == 1   ? "<|user|>"
           : id == 2 ? "<|assistant|>"
           : id == 3 ? "<|end|>"
                     : std::string(1, static_cast<char>(id));
  return out;
}

}  // namespace musacoder::train
