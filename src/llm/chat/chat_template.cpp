#include "llm/chat/chat_template.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/terminal.h"
#include "llm/chat/jinja/value.h"
#include "llm/checkpoint/gguf.h"
#include "llm/checkpoint/strict_json.h"
#include "llm/tokenizer/gguf_tokenizer.h"
#include "llm/tokenizer/tokenizer_files.h"

namespace musacoder::llm {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::uint64_t kMaxFile = 64u << 20;
constexpr int kMaxDepth = 100;

// Null stands for "not given" in messages from many APIs; templates would print it.
Json without_nulls(const Json& messages) {
  Json out = Json::array();
  for (const Json& message : messages) {
    Json kept = Json::object();
    for (const auto& [key, value] : message.items())
      if (!value.is_null()) kept[key] = value;
    out.push_back(std::move(kept));
  }
  return out;
}

Result<std::optional<Json>> array_of(const std::string& text, const char* what) {
  if (text.empty()) return std::optional<Json>();
  MC_ASSIGN_OR_RETURN(Json json, parse_strict_json(text, what, kMaxDepth));
  if (json.is_null()) return std::optional<Json>();
  if (!json.is_array()) return fail(Code::kInvalidArgument, "{}: an array is expected", what);
  return std::optional(std::move(json));
}

// Reasoning goes by three names; templates read the first, older ones the second.
void alias_reasoning(Json& messages) {
  for (Json& message : messages) {
    const Json* reasoning = nullptr;
    for (const char* name : {"reasoning_content", "thinking", "reasoning"})
      if (!reasoning && message.contains(name)) reasoning = &message[name];
    if (!reasoning) continue;
    const Json value = *reasoning;
    if (!message.contains("thinking")) message["thinking"] = value;
    message["reasoning_content"] = value;
  }
}

// Marks where the final message's text ends, so that the place is found in what the template makes of it.
const std::string kContinueMark = "CONTINUE_FINAL_MESSAGE_TAG ";

Status mark_end(Json& message) {
  if (message.contains("content")) {
    Json& content = message["content"];
    if (content.is_string()) {
      content = content.get<std::string>() + kContinueMark;
      return ok();
    }
    if (content.is_array())
      for (auto part = content.rbegin(); part != content.rend(); ++part)
        if (part->is_object() && part->contains("text") && (*part)["text"].is_string()) {
          (*part)["text"] = (*part)["text"].get<std::string>() + kContinueMark;
          return ok();
        }
  }
  return fail(Code::kInvalidArgument, "continue_final_message: the final message has no text to continue");
}

// Cuts at the mark. Where the template trimmed the message, the white space before the mark goes with it.
Status cut_at_mark(jinja::Rendered& out) {
  const std::string_view bare = std::string_view(kContinueMark).substr(0, kContinueMark.size() - 1);
  std::size_t end = out.text.rfind(bare);
  if (end == std::string::npos)
    return fail(Code::kInvalidArgument, "continue_final_message: the template leaves out the final message or its end");
  const bool kept_space = out.text.compare(end, kContinueMark.size(), kContinueMark) == 0;
  out.text.resize(end);
  if (!kept_space) out.text = jinja::strip(out.text, false, true);
  for (auto& span : out.generations) span = {std::min(span.begin, out.text.size()), std::min(span.end, out.text.size())};
  return ok();
}

// The entry of a chat_template that is one text or a list of {name, template}.
std::optional<std::string> chosen(const Json& value, const std::string& which) {
  if (value.is_string()) return which == "default" ? std::optional(value.get<std::string>()) : std::nullopt;
  if (value.is_array())
    for (const Json& one : value)
      if (one.is_object() && one.value("name", "") == which && one.contains("template") && one["template"].is_string())
        return one["template"].get<std::string>();
  if (value.is_object() && value.contains(which) && value[which].is_string()) return value[which].get<std::string>();
  return std::nullopt;
}

Result<std::optional<std::string>> folder_template(const std::string& folder, const std::string& which) {
  const std::string own = which == "default" ? folder + "/chat_template.jinja" : folder + "/additional_chat_templates/" + which + ".jinja";
  if (which.find('/') == std::string::npos && base::exists(own)) {
    MC_ASSIGN_OR_RETURN(std::string text, base::read_file(own, kMaxFile));
    return std::optional(std::move(text));
  }
  for (const char* name : {"/tokenizer_config.json", "/chat_template.json"}) {
    if (!base::exists(folder + name)) continue;
    MC_ASSIGN_OR_RETURN(std::string text, base::read_file(folder + name, kMaxFile));
    MC_ASSIGN_OR_RETURN(Json config, parse_strict_json(text, folder + name, kMaxDepth));
    if (!config.is_object() || !config.contains("chat_template")) continue;
    if (auto found = chosen(config["chat_template"], which)) return found;
  }
  return std::optional<std::string>();
}

void texts_in(const Json& value, const std::function<void(const std::string&)>& visit) {
  if (value.is_string()) visit(value.get_ref<const std::string&>());
  else if (value.is_structured()) for (const auto& [key, item] : value.items()) texts_in(item, visit);
}

}  // namespace

Result<ChatTemplate> ChatTemplate::create(std::string_view source, std::map<std::string, std::string> named, std::string_view name) {
  ChatTemplate result;
  MC_ASSIGN_OR_RETURN(result.template_, jinja::Template::parse(source, name));
  result.source_ = source;
  result.named_ = std::move(named);
  return result;
}

Result<ChatTemplate> ChatTemplate::open(const std::string& path, const std::string& which) {
  if (base::exists(path) && !base::is_directory(path)) {
    MC_ASSIGN_OR_RETURN(auto file, Gguf::open(path));
    const std::string source = gguf_chat_template(*file);
    if (source.empty()) return fail(Code::kNotFound, "{} has no chat template", path);
    const auto spec = read_gguf_tokenizer(*file);
    return create(source, spec ? spec->named : std::map<std::string, std::string>(), path + ":tokenizer.chat_template");
  }
  MC_ASSIGN_OR_RETURN(auto source, folder_template(path, which));
  if (!source) return fail(Code::kNotFound, "{} has no chat template '{}'", path, base::printable(which, false));
  std::map<std::string, std::string> named;
  TokenizerSpec spec;
  for (const char* name : {"/special_tokens_map.json", "/tokenizer_config.json"}) {
    if (!base::exists(path + name)) continue;
    MC_ASSIGN_OR_RETURN(std::string text, base::read_file(path + name, kMaxFile));
    MC_RETURN_IF_ERROR(add_tokenizer_config(spec, text, path + name));
  }
  return create(*source, std::move(spec.named), path + ":chat_template");
}

Result<jinja::Rendered> ChatTemplate::render(const ChatRequest& request) const {
  MC_ASSIGN_OR_RETURN(Json messages, parse_strict_json(request.messages, "messages", kMaxDepth));
  if (!messages.is_array()) return fail(Code::kInvalidArgument, "messages: an array is expected");
  for (const Json& message : messages)
    if (!message.is_object()) return fail(Code::kInvalidArgument, "messages: each is an object with role and content");
  messages = without_nulls(messages);
  alias_reasoning(messages);
  MC_ASSIGN_OR_RETURN(auto tools, array_of(request.tools, "tools"));
  MC_ASSIGN_OR_RETURN(auto documents, array_of(request.documents, "documents"));
  Json context = Json::object();
  for (const auto& [name, text] : named_) context[name] = text;
  if (!request.variables.empty()) {
    MC_ASSIGN_OR_RETURN(Json variables, parse_strict_json(request.variables, "variables", kMaxDepth));
    if (!variables.is_object()) return fail(Code::kInvalidArgument, "variables: an object is expected");
    for (const auto& [name, value] : variables.items()) context[name] = value;
  }
  // transformers passes both, as None where they are not given.
  context["tools"] = tools ? *tools : Json();
  context["documents"] = documents ? *documents : Json();
  context["add_generation_prompt"] = request.add_generation_prompt;
  if (request.continue_final_message) {
    if (request.add_generation_prompt || messages.empty())
      return fail(Code::kInvalidArgument, "continue_final_message needs a final message, and no generation prompt after it");
    MC_RETURN_IF_ERROR(mark_end(messages.back()));
  }
  context["messages"] = messages;
  MC_ASSIGN_OR_RETURN(jinja::Rendered out, template_->render(context, {.now_s = request.now_s}));
  if (request.continue_final_message) MC_RETURN_IF_ERROR(cut_at_mark(out));
  return out;
}

Result<std::optional<std::string>> find_control_text(const Tokenizer& tokenizer, std::string_view messages, bool specials_only) {
  MC_ASSIGN_OR_RETURN(Json json, parse_strict_json(messages, "messages", kMaxDepth));
  std::optional<std::string> found;
  texts_in(json, [&](const std::string& text) {
    for (const AddedToken& token : tokenizer.spec().added)
      if (!found && (token.special || !specials_only) && text.find(token.content) != std::string::npos) found = token.content;
  });
  return found;
}

}  // namespace musacoder::llm
