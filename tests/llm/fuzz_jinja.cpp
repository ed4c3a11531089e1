// A chat template comes with a model, from whoever published it: any text is a template or an error that names its place, and
// rendering it ends, within its budget, in valid UTF-8 or an error.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "llm/chat/jinja/template.h"
#include "llm/tokenizer/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace musacoder::llm;
  static const auto kContext = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": " be\n"}, {"role": "user", "content": "h\u00e9 <think>x</think>"},
                 {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]},
                 {"role": "tool", "content": [{"type": "text", "text": "t"}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "add_generation_prompt": true,
    "bos_token": "<s>", "eos_token": "</s>", "n": 5, "f": 2.5, "yes": true, "no": false, "none": null,
    "s": "Hello w\u00f6rld  ", "list": [3, 1, 2], "words": ["b", "A", "c"], "dict": {"b": 1, "A": {"x": [1, 2]}},
    "people": [{"name": "Ann", "age": 3, "tags": ["x"]}, {"name": "bob", "age": 1}], "quote": "it's \"q\" \\ \n \u200b", "mixed": [1, "a", null, [1]]})");
  const auto parsed = jinja::Template::parse({reinterpret_cast<const char*>(data), size}, "here");
  if (!parsed) {
    if (parsed.error().message.rfind("here:", 0) != 0) std::abort();
    return 0;
  }
  const auto out = parsed->render(kContext, {.now_s = 0, .max_steps = 20'000, .max_bytes = 1 << 20});
  if (!out) {
    if (out.error().message.rfind("here:", 0) != 0) std::abort();
    return 0;
  }
  if (valid_prefix(out->text) != out->text.size()) std::abort();
  for (const auto& span : out->generations)
    if (span.begin > span.end || span.end > out->text.size()) std::abort();
  return 0;
}
