// Conversations into the text that a model was trained to read, by the model's own template, as transformers'
// apply_chat_template does it.
//
//   MC_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::open("Qwen3-0.6B"));      // a folder or a .gguf
//   ChatRequest request{.messages = R"([{"role": "user", "content": "hi"}])", .add_generation_prompt = true};
//   request.variables = R"({"enable_thinking": false})";
//   MC_ASSIGN_OR_RETURN(jinja::Rendered out, chat.render(request));
//   out.text;             // "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n…"
//   out.generations;      // what {% generation %} marks as the model's own words, for a loss on them
//
// The text of messages can hold the chat format's own words (<|im_end|> …), and once rendered nothing tells them apart.
// find_control_text() says so beforehand; do not render what people or programs outside wrote without asking it, or with
// another means against it.
// Thread safety: const.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "llm/chat/jinja/template.h"
#include "llm/tokenizer/tokenizer.h"

namespace musacoder::llm {

struct ChatRequest {
  // JSON: an array of objects. As there, keys whose value is null are left out, and reasoning given as `reasoning` or
  // `thinking` is given as `reasoning_content` too.
  std::string messages = "[]";
  std::string tools, documents;          // JSON arrays; empty: none
  std::string variables;                 // JSON object of further variables; empty: none
  bool add_generation_prompt = false;
  // The last message is to be continued: the text ends where its content does.
  bool continue_final_message = false;
  double now_s = -1;                     // for templates that write the date; < 0: the system's clock
};

class ChatTemplate {
 public:
  // `named`: the special tokens that templates know, "bos_token" → "<s>".
  static Result<ChatTemplate> create(std::string_view source, std::map<std::string, std::string> named, std::string_view name = "chat_template");
  // chat_template.jinja, else tokenizer_config.json's chat_template (`which` of several: "default", "tool_use", …; those in
  // additional_chat_templates/ too), else chat_template.json; or a GGUF file's. kNotFound where there is none.
  static Result<ChatTemplate> open(const std::string& path, const std::string& which = "default");

  Result<jinja::Rendered> render(const ChatRequest& request) const;
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  std::map<std::string, std::string> named_;
  std::optional<jinja::Template> template_;
};

// The first added token of `tokenizer` (`specials_only`: that is special) found in a text anywhere inside `messages`, which
// is JSON. nullopt: none. kInvalidArgument: not JSON.
Result<std::optional<std::string>> find_control_text(const Tokenizer& tokenizer, std::string_view messages, bool specials_only = true);

}  // namespace musacoder::llm
