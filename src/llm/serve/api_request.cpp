#include "llm/serve/api_request.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "net/json_fields.h"

namespace musacoder::llm {
namespace {

using net::api_error;
using net::ApiError;
using net::ApiResult;
using net::bool_field;
using net::dump_json;
using net::integer_field;
using net::number_field;
using net::text_field;
using nlohmann::json;

constexpr std::size_t kMaxPrompts = 256, kMaxStops = 16;
constexpr std::int64_t kMaxTokens = 1 << 24;

// Of both routes. The second line has no effect here: names, records, billing.
const std::set<std::string> kCommon = {"model",
                                       "max_tokens",
                                       "temperature",
                                       "top_p",
                                       "n",
                                       "stream",
                                       "stream_options",
                                       "stop",
                                       "presence_penalty",
                                       "frequency_penalty",
                                       "logit_bias",
                                       "seed",
                                       "top_k",
                                       "min_p",
                                       "repetition_penalty",
                                       "ignore_eos",
                                       "stop_token_ids",
                                       "return_token_ids",
                                       "logprobs",
                                       "user",
                                       "metadata",
                                       "store",
                                       "service_tier",
                                       "safety_identifier",
                                       "prompt_cache_key",
                                       "prompt_cache_retention"};
const std::set<std::string> kChat = {"messages",
                                     "max_completion_tokens",
                                     "top_logprobs",
                                     "tools",
                                     "tool_choice",
                                     "response_format",
                                     "modalities",
                                     "reasoning_effort",
                                     "chat_template_kwargs",
                                     "add_generation_prompt",
                                     "continue_final_message",
                                     "documents",
                                     "parallel_tool_calls"};
const std::set<std::string> kCompletion = {"prompt", "best_of", "echo", "suffix"};

tl::unexpected<ApiError> refused(std::string message, std::string field, const char* code = "invalid_value") {
  ApiError error = api_error(400, std::move(message), std::move(field)).value();
  error.code = code;
  return tl::unexpected(error);
}

tl::unexpected<ApiError> unsupported(const char* field, const char* why) {
  return refused(fmt::format("`{}` is not supported by this server: {}", field, why), field,
                 "unsupported_parameter");
}

bool present(const json& body, const char* key) {
  const auto it = body.find(key);
  return it != body.end() && !it->is_null();
}

ApiResult<void> check_keys(const json& body, const std::set<std::string>& own, const ServedModel& served) {
  if (!body.is_object()) return refused("the body is a JSON object", "");
  for (const auto& [key, value] : body.items())
    if (!kCommon.count(key) && !own.count(key))
      return refused(fmt::format("unrecognized request argument: {}", key.substr(0, 100)), key.substr(0, 100),
                     "unknown_parameter");
  MC_API_ASSIGN_OR_RETURN(const auto model, text_field(body, "model", 1024));
  if (!model) return refused("`model` is missing", "model", "missing_required_parameter");
  if (*model != served.name) {
    ApiError error = api_error(404,
                               fmt::format("the model '{}' does not exist; this server has '{}'",
                                           model->substr(0, 100), served.name),
                               "model")
                         .value();
    error.code = "model_not_found";
    return tl::unexpected(error);
  }
  return {};
}

ApiResult<std::vector<TokenId>> ids_of(const json& list, std::size_t vocabulary, const char* field) {
  std::vector<TokenId> ids;
  for (const json& one : list) {
    if (!one.is_number_integer() || one.get<std::int64_t>() < 0 ||
        one.get<std::int64_t>() >= static_cast<std::int64_t>(vocabulary))
      return refused(
          fmt::format("`{}`: {} is no token id below {}", field, dump_json(one).substr(0, 40), vocabulary),
          field);
    ids.push_back(one.get<TokenId>());
  }
  return ids;
}

ApiResult<std::vector<TokenId>> encoded(const std::string& text, const ServedModel& served, bool around) {
  if (!served.tokenizer)
    return refused("the model has no tokenizer that is read: prompts are token ids", "prompt");
  auto ids = served.tokenizer->encode(text, {.template_tokens = around});
  if (!ids) return refused(ids.error().message, "prompt");
  return std::move(*ids);
}

ApiResult<void> read_stops(const json& body, const ServedModel& served, SamplingParams& out) {
  if (present(body, "stop")) {
    const json& given = body["stop"];
    const json list = given.is_array() ? given : json::array({given});
    if (list.size() > kMaxStops)
      return refused(fmt::format("`stop` has at most {} texts", kMaxStops), "stop");
    for (const json& one : list) {
      if (!one.is_string() || one.get_ref<const std::string&>().empty())
        return refused("`stop` is a text or a list of texts, none empty", "stop");
      out.stop.push_back(one.get<std::string>());
    }
    if (!out.stop.empty() && !served.tokenizer)
      return refused("`stop` needs a tokenizer, and the model has none that is read", "stop");
  }
  if (present(body, "stop_token_ids")) {
    if (!body["stop_token_ids"].is_array())
      return refused("`stop_token_ids` is a list of token ids", "stop_token_ids");
    MC_API_ASSIGN_OR_RETURN(out.stop_ids,
                            ids_of(body["stop_token_ids"], served.limits.vocabulary, "stop_token_ids"));
  }
  return {};
}

ApiResult<void> read_bias(const json& body, const ServedModel& served, SamplingParams& out) {
  if (!present(body, "logit_bias")) return {};
  const json& given = body["logit_bias"];
  const auto bad = [] {
    return refused("`logit_bias` is an object of token ids with numbers from -100 to 100", "logit_bias");
  };
  if (!given.is_object() || given.size() > 1024) return bad();
  for (const auto& [key, value] : given.items()) {
    TokenId id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (key.empty() || parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() ||
        id >= served.limits.vocabulary || !value.is_number() || !(std::abs(value.get<double>()) <= 100))
      return bad();
    out.logit_bias.emplace_back(id, value.get<float>());
  }
  return {};
}

ApiResult<std::uint64_t> read_seed(const json& body) {
  if (!present(body, "seed")) {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32) ^ device();
  }
  const json& given = body["seed"];
  if (!given.is_number_integer()) return refused("`seed` is a whole number of 64 bits", "seed");
  return given.is_number_unsigned() ? given.get<std::uint64_t>()
                                    : static_cast<std::uint64_t>(given.get<std::int64_t>());
}

// What both routes share; everything but prompts and max_tokens.
ApiResult<GenerateRequest> read_common(const json& body, const ServedModel& served, ApiRequest& request) {
  GenerateRequest out;
  SamplingParams& sampling = out.sampling;
  MC_API_ASSIGN_OR_RETURN(const auto samples, integer_field(body, "n", 1, served.limits.max_running));
  out.samples = static_cast<int>(samples.value_or(1));
  MC_API_ASSIGN_OR_RETURN(const auto temperature, number_field(body, "temperature", 0, 100));
  sampling.temperature = temperature.value_or(1);
  MC_API_ASSIGN_OR_RETURN(const auto top_p, number_field(body, "top_p", 0, 1));
  if (top_p && *top_p == 0) {
    sampling.top_k = 1;  // OpenAI's 0 keeps the likeliest
  } else {
    sampling.top_p = top_p.value_or(1);
    MC_API_ASSIGN_OR_RETURN(const auto top_k, integer_field(body, "top_k", -1, 1 << 30));
    sampling.top_k = static_cast<int>(std::max<std::int64_t>(0, top_k.value_or(0)));  // vLLM's -1: all
  }
  MC_API_ASSIGN_OR_RETURN(const auto min_p, number_field(body, "min_p", 0, 1));
  sampling.min_p = min_p.value_or(0);
  MC_API_ASSIGN_OR_RETURN(const auto repetition, number_field(body, "repetition_penalty", 1e-3, 1e3));
  sampling.repetition_penalty = repetition.value_or(1);
  MC_API_ASSIGN_OR_RETURN(const auto presence, number_field(body, "presence_penalty", -2, 2));
  sampling.presence_penalty = presence.value_or(0);
  MC_API_ASSIGN_OR_RETURN(const auto frequency, number_field(body, "frequency_penalty", -2, 2));
  sampling.frequency_penalty = frequency.value_or(0);
  MC_API_ASSIGN_OR_RETURN(const auto ignore_eos, bool_field(body, "ignore_eos"));
  sampling.ignore_eos = ignore_eos.value_or(false);
  if (auto read = read_stops(body, served, sampling); !read) return tl::unexpected(read.error());
  if (auto read = read_bias(body, served, sampling); !read) return tl::unexpected(read.error());
  MC_API_ASSIGN_OR_RETURN(sampling.seed, read_seed(body));
  MC_API_ASSIGN_OR_RETURN(const auto stream, bool_field(body, "stream"));
  request.stream = stream.value_or(false);
  if (present(body, "stream_options")) {
    const json& options = body["stream_options"];
    if (!options.is_object()) return refused("`stream_options` is an object", "stream_options");
    if (!request.stream) return refused("`stream_options` is only for `stream`: true", "stream_options");
    MC_API_ASSIGN_OR_RETURN(const auto usage, bool_field(options, "include_usage"));
    request.include_usage = usage.value_or(false);
  }
  MC_API_ASSIGN_OR_RETURN(const auto token_ids, bool_field(body, "return_token_ids"));
  request.token_ids = token_ids.value_or(false);
  return out;
}

tl::unexpected<ApiError> too_long(const std::string& what, const char* field) {
  return refused(what, field, "context_length_exceeded");
}

// Sets max_tokens, `given` or the default, within the model's positions and the cache.
ApiResult<void> fit(GenerateRequest& request, std::optional<std::int64_t> given, std::int64_t otherwise,
                    const ServedModel& served, const char* prompt_field, const char* tokens_field) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (prompt == 0) return refused("the prompt has no tokens", prompt_field);
  const std::int64_t positions = served.limits.positions, room = served.limits.room(prompt, request.samples);
  if (positions > 0 && prompt + given.value_or(1) > positions)
    return too_long(
        fmt::format("this model's maximum context length is {} tokens; the prompt has {} and {} are to "
                    "follow",
                    positions, prompt, given.value_or(1)),
        prompt_field);
  if (room < given.value_or(1))
    return too_long(
        fmt::format("{} answers of {} tokens to a prompt of {} do not fit into this server's cache of {} "
                    "tokens",
                    request.samples, given.value_or(1), prompt, served.limits.cache_tokens),
        given ? tokens_field : prompt_field);
  request.sampling.max_tokens = static_cast<int>(given.value_or(std::min(otherwise, room)));
  return {};
}

ApiResult<json> flattened(const json& messages) {
  if (!messages.is_array() || messages.empty())
    return refused("`messages` is a list of at least one", "messages");
  json out = json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    json message = messages[i];
    const auto bad = [&](const char* what) {
      return refused(fmt::format("messages[{}]: {}", i, what), "messages");
    };
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      return bad("a message is an object with `role` and `content`");
    if (message["role"] == "developer") message["role"] = "system";
    if (const auto content = message.find("content"); content != message.end() && content->is_array()) {
      std::string text;
      for (const json& part : *content) {
        if (!part.is_object() || part.value("type", json()) != "text" ||
            !part.value("text", json()).is_string())
          return bad("only text can be read: {\"type\": \"text\", \"text\": …}");
        text += part["text"].get<std::string>();
      }
      *content = text;
    } else if (content != message.end() && !content->is_string() && !content->is_null()) {
      return bad("`content` is a text or a list of parts");
    } else if (content == message.end() && !message.contains("tool_calls")) {
      return bad("`content` is missing");
    }
    out.push_back(std::move(message));
  }
  return out;
}

ApiResult<void> refuse_unbuilt_chat(const json& body) {
  if (present(body, "response_format") &&
      (!body["response_format"].is_object() || body["response_format"].value("type", json()) != "text"))
    return unsupported("response_format", "answers are text, nothing constrains them to a form");
  if (present(body, "modalities") && body["modalities"] != json::array({"text"}))
    return unsupported("modalities", "answers are text");
  if (present(body, "tool_choice") && body["tool_choice"] != "none" && body["tool_choice"] != "auto")
    return unsupported("tool_choice", "the model decides; give auto or none");
  for (const char* key : {"tools", "documents"})
    if (present(body, key) && !body[key].is_array()) return refused(fmt::format("`{}` is a list", key), key);
  if (present(body, "chat_template_kwargs") && !body["chat_template_kwargs"].is_object())
    return refused("`chat_template_kwargs` is an object", "chat_template_kwargs");
  return {};
}

ApiResult<std::vector<TokenId>> chat_prompt(const json& body, const ServedModel& served) {
  if (!served.chat || !served.tokenizer)
    return refused("the model has no chat template; use /v1/completions", "messages");
  if (!present(body, "messages"))
    return refused("`messages` is missing", "messages", "missing_required_parameter");
  MC_API_ASSIGN_OR_RETURN(const json messages, flattened(body["messages"]));
  ChatRequest request{.messages = dump_json(messages)};
  if (served.plain_messages) {
    const auto found = find_control_text(*served.tokenizer, request.messages);
    if (found && *found)
      return refused(fmt::format("a message holds '{}', which belongs to the chat format", **found),
                     "messages");
  }
  if (present(body, "tools") && body.value("tool_choice", json()) != "none")
    request.tools = dump_json(body["tools"]);
  if (present(body, "documents")) request.documents = dump_json(body["documents"]);
  json variables = present(body, "chat_template_kwargs") ? body["chat_template_kwargs"] : json::object();
  if (present(body, "reasoning_effort")) variables["reasoning_effort"] = body["reasoning_effort"];
  request.variables = dump_json(variables);
  MC_API_ASSIGN_OR_RETURN(const auto go_on, bool_field(body, "continue_final_message"));
  request.continue_final_message = go_on.value_or(false);
  MC_API_ASSIGN_OR_RETURN(const auto prompted, bool_field(body, "add_generation_prompt"));
  request.add_generation_prompt = prompted.value_or(!request.continue_final_message);
  if (request.continue_final_message && request.add_generation_prompt)
    return refused("`continue_final_message` and `add_generation_prompt` exclude each other",
                   "continue_final_message");
  const auto rendered = served.chat->render(request);
  if (!rendered) return refused(rendered.error().message, "messages");
  return encoded(rendered->text, served, false);
}

// A text, texts, ids, or lists of ids.
ApiResult<std::vector<std::vector<TokenId>>> completion_prompts(const json& body, const ServedModel& served) {
  if (!present(body, "prompt")) return refused("`prompt` is missing", "prompt", "missing_required_parameter");
  const json& given = body["prompt"];
  const bool ids = given.is_array() && !given.empty() && given[0].is_number();
  const json list = given.is_array() && !ids ? given : json::array({given});
  if (list.empty() || list.size() > kMaxPrompts)
    return refused(fmt::format("`prompt` has 1 to {} prompts", kMaxPrompts), "prompt");
  std::vector<std::vector<TokenId>> out;
  for (const json& one : list) {
    if (one.is_string()) {
      MC_API_ASSIGN_OR_RETURN(out.emplace_back(), encoded(one.get<std::string>(), served, true));
    } else if (one.is_array()) {
      MC_API_ASSIGN_OR_RETURN(out.emplace_back(), ids_of(one, served.limits.vocabulary, "prompt"));
    } else {
      return refused("`prompt` is a text, a list of texts, token ids, or a list of lists of token ids",
                     "prompt");
    }
  }
  return out;
}

}  // namespace

ApiResult<ApiRequest> parse_chat(const json& body, const ServedModel& served) {
  if (auto checked = check_keys(body, kChat, served); !checked) return tl::unexpected(checked.error());
  if (auto checked = refuse_unbuilt_chat(body); !checked) return tl::unexpected(checked.error());
  ApiRequest request{.chat = true};
  MC_API_ASSIGN_OR_RETURN(GenerateRequest one, read_common(body, served, request));
  MC_API_ASSIGN_OR_RETURN(const auto logprobs, bool_field(body, "logprobs"));
  request.logprobs = logprobs.value_or(false);
  MC_API_ASSIGN_OR_RETURN(const auto top, integer_field(body, "top_logprobs", 0, 20));
  if (top && !request.logprobs) return refused("`top_logprobs` is only for `logprobs`: true", "top_logprobs");
  one.top_logprobs = static_cast<int>(top.value_or(0));
  MC_API_ASSIGN_OR_RETURN(one.prompt, chat_prompt(body, served));
  MC_API_ASSIGN_OR_RETURN(auto tokens, integer_field(body, "max_completion_tokens", 1, kMaxTokens));
  const char* field = tokens ? "max_completion_tokens" : "max_tokens";
  if (!tokens) {
    MC_API_ASSIGN_OR_RETURN(tokens, integer_field(body, "max_tokens", 1, kMaxTokens));
  }
  if (auto fits = fit(one, tokens, served.default_max_tokens, served, "messages", field); !fits)
    return tl::unexpected(fits.error());
  request.prompts.push_back(std::move(one));
  return request;
}

ApiResult<ApiRequest> parse_completion(const json& body, const ServedModel& served) {
  if (auto checked = check_keys(body, kCompletion, served); !checked) return tl::unexpected(checked.error());
  if (present(body, "suffix")) return unsupported("suffix", "nothing is inserted");
  MC_API_ASSIGN_OR_RETURN(const auto echo, bool_field(body, "echo"));
  if (echo.value_or(false)) return unsupported("echo", "the prompt is not given back");
  ApiRequest request;
  MC_API_ASSIGN_OR_RETURN(const GenerateRequest common, read_common(body, served, request));
  MC_API_ASSIGN_OR_RETURN(const auto best_of, integer_field(body, "best_of", 1, 1024));
  if (best_of && *best_of != common.samples) return unsupported("best_of", "give n, or the same as n");
  MC_API_ASSIGN_OR_RETURN(const auto logprobs, integer_field(body, "logprobs", 0, 20));
  request.logprobs = logprobs.has_value();
  MC_API_ASSIGN_OR_RETURN(const auto tokens, integer_field(body, "max_tokens", 1, kMaxTokens));
  MC_API_ASSIGN_OR_RETURN(auto prompts, completion_prompts(body, served));
  for (auto& prompt : prompts) {
    GenerateRequest one = common;
    one.top_logprobs = static_cast<int>(logprobs.value_or(0));
    one.prompt = std::move(prompt);
    if (auto fits = fit(one, tokens, 16, served, "prompt", "max_tokens"); !fits)
      return tl::unexpected(fits.error());
    request.prompts.push_back(std::move(one));
  }
  return request;
}

}  // namespace musacoder::llm
