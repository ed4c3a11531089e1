#include "train/data/dataset.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/hash.h"
#include "llm/checkpoint/mapped_file.h"
#include "llm/checkpoint/strict_json.h"

namespace musacoder::train {
namespace {

using llm::TokenId;
using Json = nlohmann::ordered_json;

std::string text_of(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Status check_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty())
    return fail(Code::kInvalidArgument, "\"messages\" must be a list of messages");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Json& one = messages[i];
    if (!one.is_object() || !one.contains("role") || !one["role"].is_string())
      return fail(Code::kInvalidArgument, "message {} has no \"role\"", i + 1);
    const bool calls = one.contains("tool_calls") && one["tool_calls"].is_array();
    if (!(one.contains("content") && one["content"].is_string()) && !calls)
      return fail(Code::kInvalidArgument, "message {} has no \"content\" that is a text", i + 1);
  }
  if (messages.back()["role"] != "assistant")
    return fail(Code::kInvalidArgument, "the last message is the {}'s; it must be the assistant's answer",
                messages.back()["role"].get<std::string>());
  return ok();
}

// Thinking that answers before the last one begin with: a part of its own, or within the content.
void remove_past_reasoning(Json& messages) {
  for (std::size_t i = 0; i + 1 < messages.size(); ++i) {
    Json& one = messages[i];
    if (one["role"] != "assistant") continue;
    for (const char* key : {"reasoning_content", "reasoning", "thinking"}) one.erase(key);
    if (!one.contains("content") || !one["content"].is_string()) continue;
    const std::string content = one["content"].get<std::string>();
    constexpr std::string_view kEnd = "</think>";
    if (const std::size_t end = content.rfind(kEnd); end != std::string::npos) {
      const std::size_t rest = content.find_first_not_of(" \t\r\n", end + kEnd.size());
      one["content"] = rest == std::string::npos ? "" : content.substr(rest);
    }
  }
}

Result<std::string> optional_text(const Json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return std::string();
  if (!found->is_string()) return fail(Code::kInvalidArgument, "\"{}\" must be a text", key);
  return found->get<std::string>();
}

Result<Json> messages_of(const Json& row) {
  Json messages = Json::array();
  if (row.contains("messages")) {
    messages = row["messages"];
  } else {
    for (const auto& [key, role] : {std::pair("prompt", "user"), std::pair("completion", "assistant")}) {
      const Json& part = row[key];
      if (part.is_string())
        messages.push_back({{"role", role}, {"content", part}});
      else if (part.is_array())
        messages.insert(messages.end(), part.begin(), part.end());
      else
        return fail(Code::kInvalidArgument, "\"{}\" must be a text or a list of messages", key);
    }
  }
  MC_RETURN_IF_ERROR(check_messages(messages));
  remove_past_reasoning(messages);
  return messages;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

}  // namespace

std::uint64_t Dataset::fingerprint() const {
  const auto bytes = [](const auto& items) {
    return std::string_view(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(items[0]));
  };
  std::uint64_t out = base::xxh3(bytes(tokens));
  out = base::xxh3(bytes(examples), out);
  for (const std::string& family : families) out = base::xxh3(family, out);
  return out;
}

Result<ExampleReader> ExampleReader::open(const std::string& model, const ReaderOptions& options) {
  ExampleReader out;
  out.options_ = options;
  MC_ASSIGN_OR_RETURN(out.tokenizer_, llm::Tokenizer::open(model));
  if (auto chat = llm::ChatTemplate::open(model))
    out.chat_ = std::move(*chat);
  else
    out.no_chat_ = chat.error().message;
  out.end_ = out.tokenizer_->named_id("eos_token");
  return out;
}

Result<ExampleReader::Parts> ExampleReader::render(const std::string& messages, const std::string& tools,
                                                   const std::string& variables) const {
  llm::ChatRequest request{.messages = messages, .tools = tools, .variables = variables};
  request.now_s = options_.date_s;
  MC_ASSIGN_OR_RETURN(const auto whole, chat_->render(request));
  Json asked = Json::parse(messages);
  asked.erase(asked.size() - 1);
  request.messages = text_of(asked);
  request.add_generation_prompt = true;
  const auto prompt = chat_->render(request);
  if (prompt && whole.text.size() > prompt->text.size() && whole.text.starts_with(prompt->text))
    return Parts{prompt->text, whole.text.substr(prompt->text.size()), true};
  // A template that writes the prompt otherwise once it is answered may still mark what is the model's.
  if (!whole.generations.empty()) {
    const auto [begin, end] = whole.generations.back();
    return Parts{whole.text.substr(0, begin), whole.text.substr(begin, end - begin), true};
  }
  if (!prompt) return tl::unexpected<Error>(prompt.error());
  return fail(Code::kInvalidArgument,
              "the chat template does not write the prompt as the beginning of the conversation and marks no "
              "{{% generation %}}, so the answer's place is not known");
}

Result<ReadExample> ExampleReader::encode(const Parts& parts) const {
  const llm::EncodeOptions how{.specials = parts.templated ? llm::Specials::kAll : llm::Specials::kPlain,
                               .template_tokens = false};
  ReadExample out;
  MC_ASSIGN_OR_RETURN(out.tokens, tokenizer_->encode(parts.prompt, how));
  const std::size_t prompt = out.tokens.size();
  MC_ASSIGN_OR_RETURN(std::vector<TokenId> answer, tokenizer_->encode(parts.answer, how));
  if (parts.templated) {
    const auto last = std::find_if(answer.rbegin(), answer.rend(),
                                   [this](TokenId id) { return tokenizer_->is_special(id); });
    if (last != answer.rend() && is_blank(tokenizer_->decode({last.base(), answer.end()})))
      answer.erase(last.base(), answer.end());
  } else if (end_) {
    answer.push_back(*end_);
  }
  if (answer.empty()) return fail(Code::kInvalidArgument, "the answer has no tokens");
  out.tokens.insert(out.tokens.end(), answer.begin(), answer.end());
  if (out.tokens.size() < 2) return fail(Code::kInvalidArgument, "the row has fewer than two tokens");
  out.loss_from = options_.loss_on_all ? 1 : static_cast<std::uint32_t>(std::max<std::size_t>(1, prompt));
  out.loss_to = static_cast<std::uint32_t>(out.tokens.size());
  return out;
}

Result<std::vector<ReadExample>> ExampleReader::encode_text(const std::string& text) const {
  MC_ASSIGN_OR_RETURN(std::vector<TokenId> all,
                      tokenizer_->encode(text, {.specials = llm::Specials::kPlain}));
  if (end_) all.push_back(*end_);
  if (all.size() < 2) return fail(Code::kInvalidArgument, "\"text\" has fewer than two tokens");
  std::vector<ReadExample> out;
  const auto length = static_cast<std::size_t>(options_.length);
  // A part begins with the token that the part before ends with: it is read there and predicted here.
  for (std::size_t from = 0; from + 1 < all.size(); from += length - 1) {
    const std::size_t to = std::min(all.size(), from + length);
    out.push_back(
        {{all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(to)},
         1,
         static_cast<std::uint32_t>(to - from)});
  }
  return out;
}

Result<ReadRow> ExampleReader::read(std::string_view line) const {
  MC_ASSIGN_OR_RETURN(const Json row, llm::parse_strict_json(line, "the row"));
  if (!row.is_object()) return fail(Code::kInvalidArgument, "a row is an object");
  ReadRow out;
  MC_ASSIGN_OR_RETURN(out.family, optional_text(row, "family"));
  MC_ASSIGN_OR_RETURN(out.group, optional_text(row, "group"));
  const bool pair = row.contains("prompt") && row.contains("completion");
  if (row.contains("messages") + pair + row.contains("text") != 1)
    return fail(Code::kInvalidArgument,
                "a row has \"messages\", or \"prompt\" and \"completion\", or \"text\"");
  if (row.contains("text")) {
    if (!row["text"].is_string()) return fail(Code::kInvalidArgument, "\"text\" must be a text");
    MC_ASSIGN_OR_RETURN(out.examples, encode_text(row["text"].get<std::string>()));
    return out;
  }
  ReadExample one;
  if (!chat_ && pair && row["prompt"].is_string() && row["completion"].is_string()) {
    MC_ASSIGN_OR_RETURN(
        one, encode({row["prompt"].get<std::string>(), row["completion"].get<std::string>(), false}));
  } else {
    if (!chat_) return fail(Code::kInvalidArgument, "conversations need a chat template: {}", no_chat_);
    MC_ASSIGN_OR_RETURN(const Json messages, messages_of(row));
    const std::string text = text_of(messages);
    if (!options_.allow_control_text) {
      MC_ASSIGN_OR_RETURN(const auto control, llm::find_control_text(*tokenizer_, text));
      if (control)
        return fail(Code::kInvalidArgument,
                    "a message holds '{}', which the model would read as the chat format's own; "
                    "data.control_text = \"allow\" takes it",
                    *control);
    }
    const auto part = [&](const char* key) { return row.contains(key) ? text_of(row[key]) : std::string(); };
    MC_ASSIGN_OR_RETURN(const Parts parts, render(text, part("tools"), part("chat_template_kwargs")));
    MC_ASSIGN_OR_RETURN(one, encode(parts));
  }
  const auto limit = static_cast<std::size_t>(options_.length);
  if (one.tokens.size() > limit) {
    if (options_.too_long == TooLong::kError)
      return fail(Code::kInvalidArgument, "{} tokens are more than data.length, {}", one.tokens.size(),
                  limit);
    if (options_.too_long == TooLong::kDrop || one.loss_from >= limit) {
      out.dropped = true;
      return out;
    }
    one.tokens.resize(limit);
    one.loss_to = static_cast<std::uint32_t>(limit);
    out.cut = true;
  }
  out.examples.push_back(std::move(one));
  return out;
}

Result<Dataset> read_dataset(const ExampleReader& reader, const std::vector<std::string>& files,
                             int threads) {
  Dataset out;
  std::map<std::string, std::uint32_t> families, groups;
  const auto number = [](std::map<std::string, std::uint32_t>& names, const std::string& name) {
    return names.emplace(name, static_cast<std::uint32_t>(names.size())).first->second;
  };
  number(groups, "");
  const std::size_t workers =
      threads > 0 ? static_cast<std::size_t>(threads) : std::max(1u, std::thread::hardware_concurrency());
  for (const std::string& path : files) {
    MC_ASSIGN_OR_RETURN(const auto file, llm::MappedFile::open(path));
    const std::vector<std::string_view> lines = lines_of(file->bytes());
    std::vector<Result<ReadRow>> rows(lines.size(), ReadRow{});
    std::vector<std::thread> pool;
    for (std::size_t worker = 0; worker < workers; ++worker)
      pool.emplace_back([&, worker] {
        for (std::size_t i = worker; i < lines.size(); i += workers)
          if (!is_blank(lines[i])) rows[i] = reader.read(lines[i]);
      });
    for (std::thread& one : pool) one.join();
    const std::string stem = std::filesystem::path(path).stem().string();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (!rows[i]) return fail(rows[i].error().code, "{}:{}: {}", path, i + 1, rows[i].error().message);
      if (is_blank(lines[i])) continue;
      const ReadRow& row = *rows[i];
      ++out.rows;
      out.dropped += row.dropped;
      out.cut += row.cut;
      out.split += row.examples.size() > 1;
      const std::uint32_t family = number(families, row.family.empty() ? stem : row.family),
                          group = row.group.empty() || row.examples.size() > 1
                                      ? 0
                                      : number(groups, stem + "\n" + row.group);
      for (const ReadExample& one : row.examples) {
        out.examples.push_back({out.tokens.size(), static_cast<std::uint32_t>(one.tokens.size()),
                                one.loss_from, one.loss_to, family, group});
        out.tokens.insert(out.tokens.end(), one.tokens.begin(), one.tokens.end());
      }
    }
  }
  out.families.resize(families.size());
  for (const auto& [name, index] : families) out.families[index] = name;
  return out;
}

}  // namespace musacoder::train
