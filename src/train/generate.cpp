#include "train/generate.h"

#include <fmt/ranges.h>

#include <charconv>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "llm/chat/chat_template.h"

namespace musacoder::train {
namespace {

using namespace musacoder::llm;
using nlohmann::json;

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::vector<std::int64_t> versions;
  std::string text;
  Finish finish = Finish::kNone;
};

Result<std::vector<TokenId>> parse_ids(const std::string& text) {
  std::vector<TokenId> out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      return fail(Code::kInvalidArgument, "--ids: '{}' is no token id", word);
    out.push_back(id);
  }
  return out;
}

Result<std::vector<TokenId>> encode_prompt(const GenerateOptions& options, const Tokenizer* tokenizer,
                                           const std::string& text) {
  if (!tokenizer)
    return fail(Code::kInvalidArgument, "{}: there is no tokenizer that is read; give --ids", options.model);
  if (!options.chat) return tokenizer->encode(text, {.specials = Specials::kPlain});
  MC_ASSIGN_OR_RETURN(auto chat, ChatTemplate::open(options.model));
  const json messages = {{{"role", "user"}, {"content", text}}};
  MC_ASSIGN_OR_RETURN(const auto rendered,
                      chat.render({.messages = messages.dump(-1, ' ', false, json::error_handler_t::replace),
                                   .add_generation_prompt = true}));
  return tokenizer->encode(rendered.text, {.template_tokens = false});
}

void print_answer(const GenerateOptions& options, std::size_t request, int sample, const Answer& answer,
                  bool headed) {
  if (options.json) {
    const json line = {{"request", request},
                       {"sample", sample},
                       {"tokens", answer.tokens},
                       {"logprobs", answer.logprobs},
                       {"versions", answer.versions},
                       {"text", answer.text},
                       {"finish", finish_name(answer.finish)}};
    fmt::print("{}\n", line.dump(-1, ' ', false, json::error_handler_t::replace));
    return;
  }
  if (headed) fmt::print("[{}.{}] ", request, sample);
  fmt::print("{}\n", answer.text.empty() ? fmt::format("{}", fmt::join(answer.tokens, " ")) : answer.text);
}

}  // namespace

Status run_generate(const GenerateOptions& options) {
  using Clock = std::chrono::steady_clock;
  MC_ASSIGN_OR_RETURN(auto engine, Engine::open(options.model, options.engine));
  std::vector<std::vector<TokenId>> prompts;
  for (const std::string& text : options.prompts) {
    MC_ASSIGN_OR_RETURN(prompts.emplace_back(), encode_prompt(options, engine->tokenizer(), text));
  }
  for (const std::string& text : options.ids) {
    MC_ASSIGN_OR_RETURN(prompts.emplace_back(), parse_ids(text));
  }
  if (prompts.empty()) return fail(Code::kInvalidArgument, "give at least one --prompt or --ids");
  std::map<std::uint64_t, std::size_t> number;  // of the engine's ids
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    MC_ASSIGN_OR_RETURN(
        const std::uint64_t id,
        engine->add({.prompt = prompts[i], .samples = options.samples, .sampling = options.sampling}));
    number[id] = i;
  }
  const bool alone = prompts.size() == 1 && options.samples == 1,
             live = alone && !options.json && engine->tokenizer();
  std::map<std::pair<std::size_t, int>, Answer> answers;
  const auto began = Clock::now();
  double reading_s = 0;  // steps in which prompts were read
  std::int64_t decoded = 0;
  while (!engine->idle()) {
    const auto step_began = Clock::now();
    const std::int64_t read = engine->counts().prompt_tokens;
    MC_ASSIGN_OR_RETURN(const auto events, engine->step());
    if (engine->counts().prompt_tokens > read)
      reading_s += std::chrono::duration<double>(Clock::now() - step_began).count();
    else
      decoded += static_cast<std::int64_t>(events.size());
    for (const TokenEvent& event : events) {
      Answer& answer = answers[{number[event.request], event.sample}];
      answer.tokens.push_back(event.token);
      answer.logprobs.push_back(event.logprob);
      answer.versions.push_back(event.version);
      answer.text += event.text;
      answer.finish = event.finish;
      if (live) {
        fmt::print("{}{}", event.text, event.finish == Finish::kNone ? "" : "\n");
        std::fflush(stdout);
      }
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  if (!live)
    for (const auto& [key, answer] : answers) print_answer(options, key.first, key.second, answer, !alone);
  if (options.speed)
    fmt::print(stderr, "{} prompt tokens in {:.2f} s, then {} tokens in {:.2f} s: {:.1f} tokens/s\n",
               engine->counts().prompt_tokens, reading_s, decoded, seconds - reading_s,
               static_cast<double>(decoded) / std::max(1e-9, seconds - reading_s));
  return ok();
}

}  // namespace musacoder::train
