// From the JSON of an OpenAI client to requests for the engine, every field checked
// (https://platform.openai.com/docs/api-reference/chat, …/completions).
//
//   const ServedModel served{.name = "smollm2", .tokenizer = &tokenizer, .chat = &chat, .limits =
//   loop.limits()}; MC_API_ASSIGN_OR_RETURN(ApiRequest request, parse_chat(json, served));
//   request.prompts[0].prompt;            // token ids, through the model's chat template
//
// Beside OpenAI's fields, those that vLLM and trainers use: top_k, min_p, repetition_penalty, ignore_eos,
// stop_token_ids, chat_template_kwargs, add_generation_prompt, continue_final_message, return_token_ids. A
// field that is not known, or that would change the answer and is not built, is refused by name. Errors: 400,
// 404 (another model). Thread safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "llm/chat/chat_template.h"
#include "llm/generate/engine.h"
#include "net/http_types.h"

namespace musacoder::llm {

struct ServedModel {
  std::string name;
  const Tokenizer* tokenizer = nullptr;  // nullptr: prompts are token ids only
  const ChatTemplate* chat = nullptr;    // nullptr: no chat
  EngineLimits limits;
  int default_max_tokens = 4096;  // of chat answers that do not say; less where less fits
  bool plain_messages = false;    // refuse messages that hold the chat format's own tokens
};

struct ApiRequest {
  bool chat = false;
  std::vector<GenerateRequest> prompts;  // choice c is of prompt c / samples
  bool stream = false, include_usage = false;
  bool logprobs = false;  // wanted in the reply; how many others beside: prompts[0].top_logprobs
  bool token_ids = false;
};

net::ApiResult<ApiRequest> parse_completion(const nlohmann::json& body, const ServedModel& served);
net::ApiResult<ApiRequest> parse_chat(const nlohmann::json& body, const ServedModel& served);

}  // namespace musacoder::llm
