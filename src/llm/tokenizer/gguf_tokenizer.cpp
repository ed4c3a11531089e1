#include "llm/tokenizer/gguf_tokenizer.h"

#include <cstring>
#include <unordered_map>

#include "base/terminal.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm {
namespace {

std::string shown(std::string_view text) { return base::printable(text.substr(0, 200), false); }

// llama.cpp's kinds of token (llama.h, llama_token_type).
enum TokenType : std::int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

Status add_splits(TokenizerSpec& spec, std::string_view name, std::string_view where) {
  const auto expression = [&](Scanner scanner) {
    spec.splits.push_back({.kind = SplitStep::kRegex, .pattern = scanner_pattern(scanner)});
    spec.splits.push_back({.kind = SplitStep::kByteLevel, .use_regex = false});
  };
  if (name == "qwen2" || name == "qwen35") {
    spec.normalizers.push_back({NormalizeStep::kNfc, {}, {}});
    expression(name == "qwen2" ? Scanner::kQwen2 : Scanner::kQwen35);
  } else if (name == "llama-bpe" || name == "llama3" || name == "llama-v3") {
    expression(Scanner::kLlama3);
    spec.ignore_merges = true;
  } else if (name == "smollm") {
    spec.splits.push_back({.kind = SplitStep::kDigits});
    spec.splits.push_back({.kind = SplitStep::kByteLevel});
  } else if (name == "gpt-2" || name == "gpt2") {
    spec.splits.push_back({.kind = SplitStep::kByteLevel});
  } else {
    return fail(Code::kUnsupported, "{}: the pre-tokenizer '{}' is not known here; known are qwen2, qwen35, llama-bpe, smollm, gpt-2", where, shown(name));
  }
  return ok();
}

}  // namespace

Result<TokenizerSpec> read_gguf_tokenizer(const Gguf& file) {
  const std::string& where = file.where();
  const auto bad = [&](const std::string& what) { return fail(Code::kInvalidArgument, "{}: {}", where, what); };
  const auto kind = file.text("tokenizer.ggml.model");
  if (!kind) return fail(Code::kNotFound, "{}: has no tokenizer", where);
  if (*kind != "gpt2") return fail(Code::kUnsupported, "{}: a tokenizer of kind '{}' is not supported, only byte-level BPE ('gpt2')", where, shown(*kind));
  const GgufValue *tokens = file.value("tokenizer.ggml.tokens"), *merges = file.value("tokenizer.ggml.merges"),
                  *types = file.value("tokenizer.ggml.token_type");
  const auto is_texts = [](const GgufValue* v) { return v && v->type == GgufType::kArray && v->element == GgufType::kString; };
  if (!is_texts(tokens) || !is_texts(merges)) return bad("tokenizer.ggml.tokens and tokenizer.ggml.merges must be arrays of texts");
  const bool has_types = types && types->type == GgufType::kArray && types->element == GgufType::kI32 && types->count == tokens->count;
  if (types && !has_types) return bad("tokenizer.ggml.token_type is not one 32-bit number a token");

  TokenizerSpec spec;
  MC_RETURN_IF_ERROR(add_splits(spec, file.text("tokenizer.ggml.pre").value_or("(none)"), where));
  spec.decoders.push_back({});
  spec.tokens.resize(tokens->count);
  std::unordered_map<std::string_view, TokenId> ids;
  for (std::size_t id = 0; id < tokens->count; ++id) {
    const std::string_view token = tokens->texts[id];
    std::int32_t type = kNormal;
    if (has_types) std::memcpy(&type, types->data.data() + id * 4, 4);
    if (valid_prefix(token) != token.size()) return bad(fmt::format("token {} '{}' is not UTF-8", id, shown(token)));
    if (type == kUnused || token.empty()) continue;
    if (!ids.emplace(token, static_cast<TokenId>(id)).second) return bad(fmt::format("token '{}' is given twice", shown(token)));
    spec.tokens[id] = token;
    if (type == kControl || type == kUserDefined || type == kUnknown)
      spec.added.push_back({.id = static_cast<TokenId>(id), .content = std::string(token), .special = type != kUserDefined});
  }
  for (const std::string_view merge : merges->texts) {
    const std::size_t space = merge.find(' ');
    if (space == std::string_view::npos || valid_prefix(merge) != merge.size()) return bad(fmt::format("merge '{}' is not two tokens", shown(merge)));
    const std::string left(merge.substr(0, space)), right(merge.substr(space + 1));
    const auto a = ids.find(left), b = ids.find(right), both = ids.find(left + right);
    if (a == ids.end() || b == ids.end() || both == ids.end()) return bad(fmt::format("merge '{}' is not of tokens in the vocabulary", shown(merge)));
    spec.merges.push_back({a->second, b->second, both->second});
  }
  const std::pair<const char*, const char*> names[] = {
      {"bos", "bos_token"}, {"eos", "eos_token"}, {"unknown", "unk_token"}, {"padding", "pad_token"}, {"eot", "eot_token"}};
  for (const auto& [key, name] : names) {
    const auto id = file.integer(fmt::format("tokenizer.ggml.{}_token_id", key));
    if (!id) continue;
    if (*id < 0 || static_cast<std::uint64_t>(*id) >= spec.tokens.size()) return bad(fmt::format("tokenizer.ggml.{}_token_id {} is no token", key, *id));
    if (const std::string& token = spec.tokens[static_cast<std::size_t>(*id)]; !token.empty()) spec.named[name] = token;
  }
  const auto put = [&](const char* flag, bool otherwise, const char* name, std::vector<TokenId>& place) {
    const auto found = spec.named.find(name);
    if (file.boolean(flag).value_or(otherwise) && found != spec.named.end()) place.push_back(ids.at(found->second));
  };
  put("tokenizer.ggml.add_bos_token", spec.ignore_merges, "bos_token", spec.before);   // llama.cpp's default for Llama-3
  put("tokenizer.ggml.add_eos_token", false, "eos_token", spec.after);
  return spec;
}

std::string gguf_chat_template(const Gguf& file) { return std::string(file.text("tokenizer.chat_template").value_or("")); }

}  // namespace musacoder::llm
