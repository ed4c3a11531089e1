#include "llm/tokenizer/tokenizer_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/terminal.h"
#include "llm/checkpoint/gguf.h"
#include "llm/checkpoint/mapped_file.h"
#include "llm/tokenizer/gguf_tokenizer.h"
#include "llm/tokenizer/tokenizer.h"

namespace musacoder::llm {
namespace {

using nlohmann::json;
constexpr std::uint64_t kMaxFile = 512u << 20;

// added_tokens.json of older folders: text → id.
Status add_added_tokens(TokenizerSpec& spec, const std::string& path) {
  MC_ASSIGN_OR_RETURN(std::string text, base::read_file(path, kMaxFile));
  auto parsed = base::parse_json(text);
  if (!parsed || !parsed->is_object()) return fail(Code::kInvalidArgument, "{}: not an object of texts and ids", path);
  for (const auto& [content, id] : parsed->items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > spec.tokens.size() + parsed->size() + 65536)
      return fail(Code::kInvalidArgument, "{}: '{}' has no usable id", path, base::printable(content.substr(0, 200), false));
    const bool known = std::any_of(spec.added.begin(), spec.added.end(), [&, &content = content](const AddedToken& t) { return t.content == content; });
    if (known) continue;
    const bool special = std::any_of(spec.named.begin(), spec.named.end(), [&, &content = content](const auto& entry) { return entry.second == content; });
    spec.added.push_back({.id = id.get<TokenId>(), .content = content, .special = special, .normalized = !special});
  }
  return ok();
}

Result<TokenizerSpec> read_json_file(const std::string& path) {
  MC_ASSIGN_OR_RETURN(std::string text, base::read_file(path, kMaxFile));
  return read_tokenizer_json(text, path);
}

Result<TokenizerSpec> read_old_files(const std::string& folder) {
  MC_ASSIGN_OR_RETURN(std::string vocab, base::read_file(folder + "/vocab.json", kMaxFile));
  MC_ASSIGN_OR_RETURN(std::string merges, base::read_file(folder + "/merges.txt", kMaxFile));
  std::string family;
  if (base::exists(folder + "/tokenizer_config.json")) {
    MC_ASSIGN_OR_RETURN(std::string text, base::read_file(folder + "/tokenizer_config.json", kMaxFile));
    const auto config = base::parse_json(text);
    if (config && config->is_object() && config->contains("tokenizer_class") && (*config)["tokenizer_class"].is_string())
      family = (*config)["tokenizer_class"].get<std::string>();
  }
  return read_vocab_and_merges(vocab, merges, family, folder);
}

}  // namespace

Result<TokenizerSpec> read_tokenizer(const std::string& path) {
  if (!base::exists(path)) return fail(Code::kNotFound, "{} does not exist", path);
  if (!base::is_directory(path)) {
    MC_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
    if (!Gguf::looks_like(file->bytes())) return read_json_file(path);
    MC_ASSIGN_OR_RETURN(auto gguf, Gguf::parse(file->bytes(), path));
    return read_gguf_tokenizer(*gguf);
  }
  const bool modern = base::exists(path + "/tokenizer.json");
  if (!modern && !base::exists(path + "/vocab.json"))
    return fail(Code::kNotFound, "{} has neither tokenizer.json nor vocab.json with merges.txt", path);
  MC_ASSIGN_OR_RETURN(TokenizerSpec spec, modern ? read_json_file(path + "/tokenizer.json") : read_old_files(path));
  for (const char* name : {"/special_tokens_map.json", "/tokenizer_config.json"}) {
    if (!base::exists(path + name)) continue;
    MC_ASSIGN_OR_RETURN(std::string text, base::read_file(path + name, kMaxFile));
    MC_RETURN_IF_ERROR(add_tokenizer_config(spec, text, path + name));
  }
  if (!modern && base::exists(path + "/added_tokens.json")) MC_RETURN_IF_ERROR(add_added_tokens(spec, path + "/added_tokens.json"));
  return spec;
}

Result<Tokenizer> Tokenizer::open(const std::string& path) {
  MC_ASSIGN_OR_RETURN(TokenizerSpec spec, read_tokenizer(path));
  auto tokenizer = create(std::move(spec));
  if (!tokenizer) return fail(tokenizer.error().code, "{}: {}", path, tokenizer.error().message);
  return tokenizer;
}

}  // namespace musacoder::llm
