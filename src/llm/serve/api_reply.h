// What comes of a request, as OpenAI's API has it: one object at the end, or chunks as it goes.
//
//   ApiAnswer answer(request, "smollm2", &tokenizer);
//   for (const TicketEvent& event : news.events) out += answer.chunk(event);     // "data: {…}\n\n", for
//   streams out += answer.last_chunks();                                                   // usage, [DONE]
//   … or for each event answer.add(event); at the end answer.whole()              // JSON
//
// Beside OpenAI's fields: `weight_version` of the reply or chunk, `weight_versions` of a choice (runs of
// tokens under the same weights), and with return_token_ids `token_ids` of a choice and `prompt_token_ids`.
// Log-probabilities are of the distribution at the sampling temperature, before penalties and truncation.
// Thread safety: one thread at a time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "llm/serve/api_request.h"
#include "llm/serve/engine_loop.h"

namespace musacoder::llm {

// {"error": {"message", "type", "param", "code"}}; OpenAI answers whatever is wrong with a body with 400.
net::Reply openai_error(const net::ApiError& error, const std::string& request_id);
// An engine's error as a client's.
net::ApiError api_error_of_engine(const Error& error);

class ApiAnswer {
 public:
  ApiAnswer(const ApiRequest& request, std::string model, const Tokenizer* tokenizer);
  void add(const TicketEvent& event);
  std::string whole() const;
  std::string first_chunks();
  std::string chunk(const TicketEvent& event);  // adds it, too; may be empty
  std::string last_chunks();

 private:
  struct Choice {
    std::string text;
    nlohmann::json logprobs;  // OpenAI's object
    nlohmann::json versions = nlohmann::json::array(), token_ids = nlohmann::json::array();
    std::int64_t characters = 0, tokens = 0;
    Finish finish = Finish::kNone;
  };
  std::size_t index_of(const TicketEvent& event) const;
  void add_logprobs(Choice& choice, const TokenEvent& event) const;
  nlohmann::json empty_logprobs() const;
  nlohmann::json head(const char* object) const;
  nlohmann::json usage() const;
  std::string token_text(TokenId id) const;
  nlohmann::json choice_chunk(std::size_t index, const std::string& text, const nlohmann::json& logprobs,
                              Finish finish) const;

  bool chat_, logprobs_, token_ids_, include_usage_;
  std::size_t samples_;
  std::string id_, model_;
  std::int64_t created_, prompt_tokens_ = 0, version_ = 0;
  const Tokenizer* tokenizer_;
  std::vector<Choice> choices_;
  std::vector<std::vector<TokenId>> prompts_;  // with return_token_ids
};

}  // namespace musacoder::llm
