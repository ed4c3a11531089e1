#include "llm/chat/jinja/template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "llm/chat/chat_template.h"
#include "support.h"

// Comparisons with jinja2 are in tests/python/test_llm_chat.py; these run without it.
namespace musacoder::llm {
namespace {

using Json = nlohmann::ordered_json;

std::string rendered(const std::string& source, const Json& context = Json::object()) {
  const auto parsed = jinja::Template::parse(source);
  if (!parsed) return "error: " + parsed.error().message;
  const auto out = parsed->render(context, {.now_s = 0});
  return out ? out->text : "error: " + out.error().message;
}

TEST(Jinja, RendersConversations) {
  const Json context = {{"messages", {{{"role", "user"}, {"content", " hi "}}, {{"role", "assistant"}, {"content", "yes"}}}}};
  EXPECT_EQ(rendered("{% for m in messages %}\n<{{ m.role }}>{{ m.content | trim }}{% if not loop.last %},{% endif %}\n{% endfor %}", context), "<user>hi,<assistant>yes");
}

TEST(Jinja, MarksWhatTheModelSaid) {
  const auto parsed = jinja::Template::parse("é{% generation %}你{{ n }}{% endgeneration %}.{% generation %}b{% endgeneration %}").value();
  const auto out = parsed.render({{"n", 1}}).value();
  EXPECT_EQ(out.text, "é你1.b");
  EXPECT_EQ(out.generations, (std::vector<jinja::Span>{{2, 6}, {7, 8}}));
}

TEST(Jinja, SaysWhereItFails) {
  EXPECT_EQ(rendered("a\n{{ x.y }}"), "error: template:2: 'x' is undefined");
  EXPECT_EQ(rendered("{% if x %}\n"), "error: template:1: '{% endif %}' is missing");
  EXPECT_EQ(rendered("{{ raise_exception('no system role') }}"), "error: template:1: no system role");
  EXPECT_EQ(jinja::Template::parse("\xff").error().code, Code::kInvalidArgument);
}

TEST(Jinja, KeepsToItsBudget) {
  const auto parsed = jinja::Template::parse("{% for i in range(1000) %}{{ i }}{% endfor %}").value();
  EXPECT_EQ(parsed.render(Json::object(), {.max_steps = 500}).error().code, Code::kResourceExhausted);
  EXPECT_EQ(parsed.render(Json::object(), {.max_bytes = 500}).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(parsed.render(Json::object()));
}

TEST(ChatTemplate, GivesTheTemplateItsVariables) {
  const auto chat = ChatTemplate::create("{{ bos_token }}{{ tools is none }}{{ add_generation_prompt }}{{ enable_thinking }}{{ messages[0].content is defined }}", {{"bos_token", "<s>"}}).value();
  EXPECT_EQ(chat.render({.messages = R"([{"role": "assistant", "content": null}])", .variables = R"({"enable_thinking": false})", .add_generation_prompt = true})->text, "<s>TrueTrueFalseFalse");
  EXPECT_FALSE(chat.render({.messages = "{"}));
  EXPECT_FALSE(chat.render({.messages = "[1]"}));
}

TEST(ChatTemplate, FindsControlTextInMessages) {
  TokenizerSpec spec;
  spec.tokens = {"a"};
  spec.added = {{.id = 1, .content = "<|im_end|>", .special = true}, {.id = 2, .content = "<think>"}};
  const auto t = Tokenizer::create(std::move(spec)).value();
  EXPECT_EQ(*find_control_text(t, R"([{"content": [{"text": "x <|im_end|>"}]}])"), "<|im_end|>");
  EXPECT_EQ(*find_control_text(t, R"([{"content": "<think>"}])"), std::nullopt);
  EXPECT_EQ(*find_control_text(t, R"([{"content": "<think>"}])", false), "<think>");
  EXPECT_FALSE(find_control_text(t, "{"));
}

}  // namespace
}  // namespace musacoder::llm
