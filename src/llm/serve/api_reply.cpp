#include "llm/serve/api_reply.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/random.h"
#include "net/json_fields.h"

namespace musacoder::llm {
namespace {

using net::dump_json;
using nlohmann::json;

std::string event_text(const json& value) { return "data: " + dump_json(value) + "\n\n"; }

// JSON has no infinities; OpenAI gives -9999 for what has no probability.
json number(float logprob) { return std::isfinite(logprob) ? logprob : -9999.0f; }

}  // namespace

net::Reply openai_error(const net::ApiError& error, const std::string& request_id) {
  const int status = error.status == 422 ? 400 : error.status;
  const char* type = status == 401   ? "authentication_error"
                     : status == 403 ? "permission_error"
                     : status == 429 ? "rate_limit_error"
                     : status >= 500 ? "server_error"
                                     : "invalid_request_error";
  json code;
  if (status == 401)
    code = "invalid_api_key";
  else if (status == 429)
    code = "rate_limit_exceeded";
  else if (!error.code.empty() && std::islower(static_cast<unsigned char>(error.code[0])))
    code = error.code;
  net::Reply reply =
      net::json_reply(status, dump_json({{"error",
                                          {{"message", error.message},
                                           {"type", type},
                                           {"param", error.field.empty() ? json() : json(error.field)},
                                           {"code", code}}},
                                         {"request_id", request_id}}));
  if (error.retry_after_s > 0)
    reply.headers.emplace_back(
        "Retry-After", std::to_string(static_cast<int>(std::ceil(std::min(3600.0, error.retry_after_s)))));
  return reply;
}

net::ApiError api_error_of_engine(const Error& error) {
  net::ApiError out = net::api_error_of(error);
  if (error.code == Code::kResourceExhausted) {  // it would never fit, however long it waited
    out = net::api_error(400, error.message).value();
    out.code = "context_length_exceeded";
  }
  return out;
}

ApiAnswer::ApiAnswer(const ApiRequest& request, std::string model, const Tokenizer* tokenizer)
    : chat_(request.chat),
      logprobs_(request.logprobs),
      token_ids_(request.token_ids),
      include_usage_(request.include_usage),
      samples_(static_cast<std::size_t>(request.prompts[0].samples)),
      id_(base::random_id(chat_ ? "chatcmpl-" : "cmpl-")),
      model_(std::move(model)),
      created_(static_cast<std::int64_t>(base::real_clock().unix_time())),
      tokenizer_(tokenizer),
      choices_(request.prompts.size() * samples_) {
  for (const GenerateRequest& prompt : request.prompts) {
    prompt_tokens_ += static_cast<std::int64_t>(prompt.prompt.size());
    if (token_ids_) prompts_.push_back(prompt.prompt);
  }
  for (Choice& choice : choices_) choice.logprobs = empty_logprobs();
}

json ApiAnswer::empty_logprobs() const {
  if (!logprobs_) return nullptr;
  if (chat_) return {{"content", json::array()}, {"refusal", nullptr}};
  return {{"tokens", json::array()},
          {"token_logprobs", json::array()},
          {"top_logprobs", json::array()},
          {"text_offset", json::array()}};
}

std::size_t ApiAnswer::index_of(const TicketEvent& event) const {
  return event.prompt * samples_ + static_cast<std::size_t>(event.event.sample);
}

std::string ApiAnswer::token_text(TokenId id) const {
  return tokenizer_ ? tokenizer_->decode({id}) : fmt::format("token_id:{}", id);
}

void ApiAnswer::add_logprobs(Choice& choice, const TokenEvent& event) const {
  const auto entry = [&](TokenId id, float logprob) {
    json bytes = json::array();
    if (tokenizer_)
      for (const char byte : tokenizer_->token_bytes(id)) bytes.push_back(static_cast<unsigned char>(byte));
    return json{{"token", token_text(id)}, {"logprob", number(logprob)}, {"bytes", bytes}};
  };
  json& to = choice.logprobs;
  if (chat_) {
    json one = entry(event.token, event.logprob);
    one["top_logprobs"] = json::array();
    for (const TokenLogprob& other : event.top)
      one["top_logprobs"].push_back(entry(other.token, other.logprob));
    to["content"].push_back(std::move(one));
    return;
  }
  to["tokens"].push_back(token_text(event.token));
  to["token_logprobs"].push_back(number(event.logprob));
  json top = json::object();
  for (const TokenLogprob& other : event.top) top[token_text(other.token)] = number(other.logprob);
  to["top_logprobs"].push_back(event.top.empty() ? json() : top);
  to["text_offset"].push_back(choice.characters);
}

void ApiAnswer::add(const TicketEvent& event) {
  Choice& choice = choices_[index_of(event)];
  const TokenEvent& token = event.event;
  if (logprobs_) add_logprobs(choice, token);
  choice.text += token.text;
  for (const char c : token.text) choice.characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  ++choice.tokens;
  choice.finish = token.finish;
  if (choice.versions.empty() || choice.versions.back()["version"] != token.version)
    choice.versions.push_back({{"version", token.version}, {"tokens", 0}});
  choice.versions.back()["tokens"] = choice.versions.back()["tokens"].get<std::int64_t>() + 1;
  if (token_ids_) choice.token_ids.push_back(token.token);
  version_ = std::max(version_, token.version);
}

json ApiAnswer::head(const char* object) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model_},
          {"weight_version", version_}};
}

json ApiAnswer::usage() const {
  std::int64_t tokens = 0;
  for (const Choice& choice : choices_) tokens += choice.tokens;
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", tokens},
          {"total_tokens", prompt_tokens_ + tokens}};
}

std::string ApiAnswer::whole() const {
  json out = head(chat_ ? "chat.completion" : "text_completion");
  out["choices"] = json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    json one = {{"index", i},
                {"logprobs", choice.logprobs},
                {"finish_reason", finish_name(choice.finish)},
                {"weight_versions", choice.versions}};
    if (chat_)
      one["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    else
      one["text"] = choice.text;
    if (token_ids_) {
      one["token_ids"] = choice.token_ids;
      one["prompt_token_ids"] = prompts_[i / samples_];
    }
    out["choices"].push_back(std::move(one));
  }
  out["usage"] = usage();
  return dump_json(out);
}

json ApiAnswer::choice_chunk(std::size_t index, const std::string& text, const json& logprobs,
                             Finish finish) const {
  json one = {{"index", index},
              {"logprobs", logprobs},
              {"finish_reason", finish == Finish::kNone ? json() : json(finish_name(finish))}};
  if (chat_)
    one["delta"] = text.empty() && finish != Finish::kNone ? json::object() : json{{"content", text}};
  else
    one["text"] = text;
  return one;
}

// A chat's choices begin with their role.
std::string ApiAnswer::first_chunks() {
  std::string out;
  for (std::size_t i = 0; chat_ && i < choices_.size(); ++i) {
    json chunk = head("chat.completion.chunk");
    json one = choice_chunk(i, "", nullptr, Finish::kNone);
    one["delta"] = {{"role", "assistant"}, {"content", ""}};
    if (token_ids_) one["prompt_token_ids"] = prompts_[i / samples_];
    chunk["choices"] = json::array({std::move(one)});
    if (include_usage_) chunk["usage"] = nullptr;
    out += event_text(chunk);
  }
  return out;
}

std::string ApiAnswer::chunk(const TicketEvent& event) {
  const std::size_t index = index_of(event);
  const TokenEvent& token = event.event;
  Choice& choice = choices_[index];
  choice.logprobs = empty_logprobs();
  add(event);
  version_ = token.version;
  if (token.text.empty() && token.finish == Finish::kNone && !logprobs_ && !token_ids_) return {};
  json chunk = head(chat_ ? "chat.completion.chunk" : "text_completion");
  json one = choice_chunk(index, token.text, choice.logprobs, token.finish);
  if (token_ids_) {
    one["token_ids"] = json::array({token.token});
    if (!chat_ && choice.tokens == 1) one["prompt_token_ids"] = prompts_[index / samples_];
    choice.token_ids.clear();
  }
  if (token.finish != Finish::kNone) one["weight_versions"] = choice.versions;
  choice.text.clear();
  chunk["choices"] = json::array({std::move(one)});
  if (include_usage_) chunk["usage"] = nullptr;
  return event_text(chunk);
}

std::string ApiAnswer::last_chunks() {
  std::string out;
  if (include_usage_) {
    json chunk = head(chat_ ? "chat.completion.chunk" : "text_completion");
    chunk["choices"] = json::array();
    chunk["usage"] = usage();
    out += event_text(chunk);
  }
  return out + "data: [DONE]\n\n";
}

}  // namespace musacoder::llm
