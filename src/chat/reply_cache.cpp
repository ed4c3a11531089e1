#include "chat/reply_cache.h"

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/json_lines.h"

namespace musacoder::chat {

using nlohmann::json;

std::string ReplyCache::key(std::string_view url, std::string_view body) {
  base::Sha256 hash;
  hash.field("musacoder chat 1");
  hash.field(url);
  hash.field(body);
  return hash.hex();
}

std::string ReplyCache::path(const std::string& key) const {
  return folder_ + "/" + key.substr(0, 2) + "/" + key + ".json";
}

std::optional<Reply> ReplyCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const auto text = base::read_file(path(key), 256u << 20);
  if (!text) return std::nullopt;
  auto parsed = base::parse_json(*text);
  if (!parsed) return std::nullopt;
  try {
    Reply reply;
    reply.cached = true;
    reply.model = parsed->at("model").get<std::string>();
    reply.usage = {parsed->at("prompt_tokens").get<std::int64_t>(),
                   parsed->at("completion_tokens").get<std::int64_t>()};
    for (const json& answer : parsed->at("answers"))
      reply.answers.push_back(
          {answer.at("text").get<std::string>(), answer.at("reasoning").get<std::string>(),
           answer.at("finish").get<std::string>(), answer.at("logprobs").get<std::vector<double>>()});
    return reply;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

Status ReplyCache::put(const std::string& key, const Reply& reply) const {
  if (folder_.empty()) return ok();
  json answers = json::array();
  for (const Answer& answer : reply.answers)
    answers.push_back({{"text", answer.text},
                       {"reasoning", answer.reasoning},
                       {"finish", answer.finish},
                       {"logprobs", answer.logprobs}});
  const json entry = {{"model", reply.model},
                      {"prompt_tokens", reply.usage.prompt_tokens},
                      {"completion_tokens", reply.usage.completion_tokens},
                      {"answers", answers}};
  MC_RETURN_IF_ERROR(base::make_dirs(folder_ + "/" + key.substr(0, 2)));
  return base::write_file_atomic(path(key), entry.dump(-1, ' ', false, json::error_handler_t::replace), 0600);
}

}  // namespace musacoder::chat
