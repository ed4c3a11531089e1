#include "train/data/dataset.h"

#include "train/chat_model.h"

namespace musacoder::train {
namespace {

class DatasetTest : public ChatModel {
 protected:
  Dataset read(const std::string& text, const ReaderOptions& options = {}) {
    const auto reader = ExampleReader::open(folder_ + "/model", options);
    EXPECT_TRUE(reader) << reader.error().message;
    auto data = read_dataset(*reader, {write("rows.jsonl", text)}, 2);
    EXPECT_TRUE(data) << data.error().message;
    return data ? *data : Dataset();
  }
  std::string error(const std::string& text, const ReaderOptions& options = {}) {
    const auto reader = ExampleReader::open(folder_ + "/model", options);
    const auto data = read_dataset(*reader, {write("rows.jsonl", text)}, 2);
    if (data) return "";
    return data.error().message.substr(data.error().message.find("rows.jsonl"));
  }
  static std::string context(const Dataset& data, std::size_t i) {
    const auto all = data.tokens_of(i).first(data.examples[i].loss_from);
    return shown({all.begin(), all.end()});
  }
  static std::string learned(const Dataset& data, std::size_t i) {
    const Example& one = data.examples[i];
    const auto all = data.tokens_of(i).subspan(one.loss_from, one.loss_to - one.loss_from);
    return shown({all.begin(), all.end()});
  }
};

TEST_F(DatasetTest, LossIsOnTheLastAnswerAndPastReasoningIsGone) {
  const Dataset data = read(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "reasoning_content": "old", "content": "b"},)"
      R"( {"role": "user", "content": "c"}, {"role": "assistant", "content": "<think>older</think>\n\nd"},)"
      R"( {"role": "user", "content": "e"}, {"role": "assistant", "reasoning_content": "new", "content": "f"}]})");
  ASSERT_EQ(data.examples.size(), 1u);
  EXPECT_EQ(
      context(data, 0),
      "<|user|>a<|end|>\n<|assistant|>b<|end|>\n<|user|>c<|end|>\n<|assistant|>d<|end|>\n<|user|>e<|end|>\n"
      "<|assistant|>");
  EXPECT_EQ(learned(data, 0), "<think>new</think>f<|end|>")
      << "the line break behind the end token is not learned";
  EXPECT_EQ(data.examples[0].length, data.tokens.size()) << "nor read";
}

TEST_F(DatasetTest, TakesPairsAndTexts) {
  const Dataset data = read(
      "{\"prompt\": \"p\", \"completion\": \"q\", \"family\": \"norm\"}\n\n"
      R"({"prompt": [{"role": "user", "content": "x"}], "completion": [{"role": "assistant", "content": "y"}]})"
      "\n{\"text\": \"ab <|end|>\"}\n");
  ASSERT_EQ(data.examples.size(), 3u);
  EXPECT_EQ(context(data, 0), "<|user|>p<|end|>\n<|assistant|>");
  EXPECT_EQ(learned(data, 0), "q<|end|>");
  EXPECT_EQ(learned(data, 1), "y<|end|>");
  EXPECT_EQ(context(data, 2), "a");
  EXPECT_EQ(learned(data, 2), "b <|end|><|end|>");
  EXPECT_EQ(data.tokens_of(2)[3], static_cast<unsigned>('<'))
      << "a text does not speak with the format's voice";
  EXPECT_EQ(data.families, (std::vector<std::string>{"norm", "rows"}));
  EXPECT_EQ(data.rows, 3u);
}

TEST_F(DatasetTest, LongTextsBecomePartsThatPredictEveryTokenOnce) {
  const Dataset data = read(R"({"text": "abcdefgh"})", {.length = 4});
  ASSERT_EQ(data.examples.size(), 3u);
  EXPECT_EQ(learned(data, 0), "bcd");
  EXPECT_EQ(context(data, 1), "d");
  EXPECT_EQ(learned(data, 1), "efg");
  EXPECT_EQ(learned(data, 2), "h<|end|>");
  EXPECT_EQ(data.split, 1u);
}

TEST_F(DatasetTest, WhatIsTooLongIsCountedOrRefused) {
  const std::string rows =
      "{\"prompt\": \"p\", \"completion\": \"q\"}\n{\"prompt\": \"p\", \"completion\": \"0123456789\"}\n";
  // <|user|>p<|end|>\n<|assistant|>q<|end|> has 7 tokens
  Dataset data = read(rows, {.length = 7});
  EXPECT_EQ(data.examples.size(), 1u);
  EXPECT_EQ(data.dropped, 1u);
  data = read(rows, {.length = 7, .too_long = TooLong::kCut});
  ASSERT_EQ(data.examples.size(), 2u);
  EXPECT_EQ(data.cut, 1u);
  EXPECT_EQ(learned(data, 1), "01");
  EXPECT_EQ(error(rows, {.length = 7, .too_long = TooLong::kError}),
            "rows.jsonl:2: 16 tokens are more than data.length, 7");
  data = read(rows, {.length = 5, .too_long = TooLong::kCut});
  EXPECT_EQ(data.dropped, 2u) << "nothing of the answer would be left";
}

TEST_F(DatasetTest, MalformedRowsNameTheirLine) {
  EXPECT_EQ(error("{\"text\": \"ab\"}\n{\"text\": 1}\n"), "rows.jsonl:2: \"text\" must be a text");
  EXPECT_NE(error("\n\n{\"text\": \"ab\"").find("rows.jsonl:3: "), std::string::npos);
  EXPECT_EQ(error("[]"), "rows.jsonl:1: a row is an object");
  EXPECT_EQ(error("{}"),
            "rows.jsonl:1: a row has \"messages\", or \"prompt\" and \"completion\", or \"text\"");
  EXPECT_EQ(error(R"({"text": "ab", "messages": []})"),
            "rows.jsonl:1: a row has \"messages\", or \"prompt\" and \"completion\", or \"text\"");
  EXPECT_EQ(error(R"({"messages": [{"role": "user", "content": "a"}]})"),
            "rows.jsonl:1: the last message is the user's; it must be the assistant's answer");
  EXPECT_EQ(error(R"({"messages": [{"content": "a"}]})"), "rows.jsonl:1: message 1 has no \"role\"");
  EXPECT_EQ(error(R"({"messages": [{"role": "assistant", "content": 3}]})"),
            "rows.jsonl:1: message 1 has no \"content\" that is a text");
  EXPECT_EQ(error(R"({"text": "ab", "family": 7})"), "rows.jsonl:1: \"family\" must be a text");
}

TEST_F(DatasetTest, MessagesThatSpeakWithTheFormatsVoiceAreRefused) {
  const std::string row = R"({"prompt": "p<|end|>", "completion": "q"})";
  EXPECT_NE(error(row).find("rows.jsonl:1: a message holds '<|end|>'"), std::string::npos);
  EXPECT_EQ(read(row, {.allow_control_text = true}).examples.size(), 1u);
}

TEST_F(DatasetTest, WithoutATemplatePairsAreJoinedAndConversationsRefused) {
  std::filesystem::remove(folder_ + "/model/chat_template.jinja");
  const Dataset data = read(R"({"prompt": "p", "completion": "q<|end|>"})");
  EXPECT_EQ(context(data, 0), "p");
  EXPECT_EQ(learned(data, 0), "q<|end|><|end|>");
  EXPECT_NE(error(R"({"messages": [{"role": "assistant", "content": "a"}]})").find("need a chat template"),
            std::string::npos);
}

TEST_F(DatasetTest, MarkedAnswersServeTemplatesThatRewriteThePrompt) {
  write(
      "model/chat_template.jinja",
      "{% if add_generation_prompt %}other{% endif %}{% for m in messages %}<|{{ m.role }}|>{% if m.role == "
      "'assistant' %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% else %}{{ m.content }}{% "
      "endif %}"
      "{% endfor %}");
  const Dataset data = read(R"({"prompt": "p", "completion": "q"})");
  EXPECT_EQ(context(data, 0), "<|user|>p<|assistant|>");
  EXPECT_EQ(learned(data, 0), "q<|end|>");
  write("model/chat_template.jinja",
        "{% if add_generation_prompt %}other{% endif %}{{ messages[0].content }}");
  EXPECT_NE(error(R"({"prompt": "p", "completion": "q"})").find("the answer's place is not known"),
            std::string::npos);
}

TEST_F(DatasetTest, LossOnAllTokensWhereAsked) {
  const Dataset data = read(R"({"prompt": "p", "completion": "q"})", {.loss_on_all = true});
  EXPECT_EQ(context(data, 0), "<|user|>");
}

TEST_F(DatasetTest, TheFingerprintSeesEveryPart) {
  const std::string row = R"({"prompt": "p", "completion": "q"})";
  const std::uint64_t one = read(row).fingerprint();
  EXPECT_EQ(read(row).fingerprint(), one);
  EXPECT_NE(read(row, {.loss_on_all = true}).fingerprint(), one);
  EXPECT_NE(read(R"({"prompt": "p", "completion": "r"})").fingerprint(), one);
  EXPECT_NE(read(R"({"prompt": "p", "completion": "q", "family": "x"})").fingerprint(), one);
}

}  // namespace
}  // namespace musacoder::train
