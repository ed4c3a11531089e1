#include "chat/recorded.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/hash.h"

namespace musacoder::chat {
namespace {

using nlohmann::json;

std::string key_of(const std::vector<Message>& messages, std::uint64_t seed) {
  base::Sha256 hash;
  hash.field(std::to_string(seed));
  for (const Message& message : messages) {
    hash.field(message.role);
    hash.field(message.content);
  }
  return hash.hex();
}

class Recorded final : public ChatModel {
 public:
  Recorded(std::string path, std::unordered_map<std::string, Reply> replies)
      : path_(std::move(path)), replies_(std::move(replies)) {
    model_ = replies_.begin()->second.model;
  }

  Result<Reply> ask(const Request& request) override {
    const auto found = replies_.find(key_of(request.messages, request.sampling.seed));
    if (found == replies_.end())
      return fail(Code::kInvalidArgument,
                  "{} holds no answer to this prompt with seed {}: it was sampled for other tasks, in another form, "
                  "or with fewer samples",
                  path_, request.sampling.seed);
    return found->second;
  }

  std::string describe() const override {
    return model_.empty() ? fmt::format("answers in {}", path_) : fmt::format("{} (answers in {})", model_, path_);
  }

 private:
  std::string path_, model_;
  std::unordered_map<std::string, Reply> replies_;
};

// kInvalidArgument for what is no row of an answer.
Status read_row(const json& row, std::unordered_map<std::string, Reply>& replies) {
  try {
    std::vector<Message> messages;
    for (const json& message : row.at("messages"))
      messages.push_back({message.at("role").get<std::string>(), message.at("content").get<std::string>()});
    Reply reply{.answers = {{.text = row.at("candidate").get<std::string>(), .finish = row.value("finish", "")}},
                .usage = {.prompt_tokens = row.value("prompt_tokens", std::int64_t{0}),
                          .completion_tokens = row.value("tokens", std::int64_t{0})},
                .model = row.value("model", ""),
                .cached = true};
    replies.emplace(key_of(messages, row.at("seed").get<std::uint64_t>()), std::move(reply));
  } catch (const json::exception& error) {
    return fail(Code::kInvalidArgument, "{}", error.what());
  }
  return ok();
}

}  // namespace

Result<std::unique_ptr<ChatModel>> open_recorded(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(Code::kNotFound, "cannot read {}", path);
  std::unordered_map<std::string, Reply> replies;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    // What a killed process was writing.
    if (in.eof() && !line.empty() && !json::accept(line)) break;
    if (line.empty()) continue;
    const json row = json::parse(line, nullptr, false);
    // An answer that never came.
    if (row.is_object() && row.contains("error")) continue;
    if (auto read = read_row(row, replies); !read)
      return fail(Code::kInvalidArgument, "{}:{}: no row of `musacoder sample`: {}", path, number,
                  read.error().message);
  }
  if (replies.empty()) return fail(Code::kInvalidArgument, "{} holds no answers", path);
  return std::make_unique<Recorded>(path, std::move(replies));
}

}  // namespace musacoder::chat
