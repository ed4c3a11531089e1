// tokenizer.json, both ways.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/json_lines.h"
#include "base/terminal.h"
#include "llm/tokenizer/spec.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm {
namespace {

using nlohmann::json;

constexpr TokenId kMaxId = 1 << 24;   // a vocabulary of sixteen million; beyond that a file is hostile, not large

// Reading stops at the first problem; the helpers below throw it, read_tokenizer_json() turns it into an Error.
struct Problem {
  Code code;
  std::string text;
};

[[noreturn]] void wrong(std::string text) { throw Problem{Code::kInvalidArgument, std::move(text)}; }
[[noreturn]] void lacking(std::string text) { throw Problem{Code::kUnsupported, std::move(text)}; }

std::string shown(std::string_view text) { return base::printable(text.substr(0, 200), false); }

const json& field(const json& object, const char* name) {
  static const json null;
  if (!object.is_object()) wrong(fmt::format("an object with '{}' was expected", name));
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}
bool flag(const json& object, const char* name, bool otherwise = false) {
  const json& value = field(object, name);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) wrong(fmt::format("'{}' is neither true nor false", name));
  return value.get<bool>();
}
std::string text(const json& object, const char* name, const char* otherwise = nullptr) {
  const json& value = field(object, name);
  if (value.is_null() && otherwise) return otherwise;
  if (!value.is_string()) wrong(fmt::format("'{}' is not a text", name));
  return value.get<std::string>();
}
TokenId token_id(const json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMaxId) wrong(fmt::format("{} is not a token id", shown(value.dump())));
  return value.get<TokenId>();
}
std::size_t count(const json& object, const char* name) {
  const json& value = field(object, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 1024) wrong(fmt::format("'{}' is not a small number", name));
  return value.get<std::size_t>();
}

SplitBehaviour behaviour_of(const std::string& name) {
  if (name == "Isolated") return SplitBehaviour::kIsolated;
  if (name == "Removed") return SplitBehaviour::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehaviour::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehaviour::kMergedWithNext;
  if (name == "Contiguous") return SplitBehaviour::kContiguous;
  wrong(fmt::format("unknown split behavior '{}'", shown(name)));
}
const char* behaviour_name(SplitBehaviour behaviour) {
  switch (behaviour) {
    case SplitBehaviour::kIsolated: return "Isolated";
    case SplitBehaviour::kRemoved: return "Removed";
    case SplitBehaviour::kMergedWithPrevious: return "MergedWithPrevious";
    case SplitBehaviour::kMergedWithNext: return "MergedWithNext";
    case SplitBehaviour::kContiguous: return "Contiguous";
  }
  return "";
}

// A step, or the steps of a Sequence under `members`, one after another.
template <typename Read>
void each_step(const json& step, const char* members, const Read& read) {
  if (step.is_null()) return;
  if (text(step, "type") == "Sequence") {
    if (!field(step, members).is_array()) wrong(fmt::format("a Sequence without '{}'", members));
    for (const json& one : field(step, members)) each_step(one, members, read);
  } else {
    read(step, text(step, "type"));
  }
}

std::string plain_pattern(const json& step, const std::string& what) {
  const json& pattern = field(step, "pattern");
  if (!field(pattern, "String").is_string()) lacking(fmt::format("{} with a pattern that is not a String", what));
  return pattern["String"].get<std::string>();
}

void read_normalizer(const json& step, const std::string& type, TokenizerSpec& spec) {
  if (type == "NFC") spec.normalizers.push_back({NormalizeStep::kNfc, {}, {}});
  else if (type == "NFD") spec.normalizers.push_back({NormalizeStep::kNfd, {}, {}});
  else if (type == "NFKC") spec.normalizers.push_back({NormalizeStep::kNfkc, {}, {}});
  else if (type == "NFKD") spec.normalizers.push_back({NormalizeStep::kNfkd, {}, {}});
  else if (type == "Prepend") spec.normalizers.push_back({NormalizeStep::kPrepend, {}, text(step, "prepend")});
  else if (type == "Replace") spec.normalizers.push_back({NormalizeStep::kReplace, plain_pattern(step, "normalizer Replace"), text(step, "content")});
  else lacking(fmt::format("normalizer {}", shown(type)));
}

void read_split(const json& step, const std::string& type, TokenizerSpec& spec) {
  SplitStep split;
  if (type == "ByteLevel") {
    split.kind = SplitStep::kByteLevel;
    split.add_prefix_space = flag(step, "add_prefix_space", true);
    split.use_regex = flag(step, "use_regex", true);
  } else if (type == "Digits") {
    split.kind = SplitStep::kDigits;
    split.behaviour = flag(step, "individual_digits") ? SplitBehaviour::kIsolated : SplitBehaviour::kContiguous;
  } else if (type == "Split") {
    const json& pattern = field(step, "pattern");
    const json &regex = field(pattern, "Regex"), &literal = field(pattern, "String");
    if (!regex.is_string() && !literal.is_string()) wrong("pre-tokenizer Split without a pattern");
    split.kind = regex.is_string() ? SplitStep::kRegex : SplitStep::kLiteral;
    split.pattern = (regex.is_string() ? regex : literal).get<std::string>();
    split.behaviour = behaviour_of(text(step, "behavior"));
    split.invert = flag(step, "invert");
  } else {
    lacking(fmt::format("pre-tokenizer {}", shown(type)));
  }
  if (!spec.splits.empty() && spec.splits.back().kind == SplitStep::kByteLevel) lacking("a pre-tokenizer after ByteLevel");
  spec.splits.push_back(std::move(split));
}

void read_decoder(const json& step, const std::string& type, TokenizerSpec& spec) {
  DecodeStep decode;
  if (type == "ByteLevel") decode.kind = DecodeStep::kByteLevel;
  else if (type == "ByteFallback") decode.kind = DecodeStep::kByteFallback;
  else if (type == "Fuse") decode.kind = DecodeStep::kFuse;
  else if (type == "Replace") decode = {DecodeStep::kReplace, plain_pattern(step, "decoder Replace"), text(step, "content"), 0, 0};
  else if (type == "Strip") decode = {DecodeStep::kStrip, {}, text(step, "content"), count(step, "start"), count(step, "stop")};
  else lacking(fmt::format("decoder {}", shown(type)));
  if (decode.kind == DecodeStep::kStrip && decode.content.empty()) wrong("decoder Strip without content");
  spec.decoders.push_back(std::move(decode));
}

void read_post_processor(const json& step, const std::string& type, TokenizerSpec& spec) {
  if (type == "ByteLevel") return;   // concerns offsets only
  if (type != "TemplateProcessing") lacking(fmt::format("post-processor {}", shown(type)));
  bool passed = false;
  if (!field(step, "single").is_array()) wrong("TemplateProcessing without 'single'");
  for (const json& item : field(step, "single")) {
    if (!field(item, "Sequence").is_null()) {
      if (passed) lacking("a TemplateProcessing that has the text twice");
      passed = true;
      continue;
    }
    const std::string name = text(field(item, "SpecialToken"), "id");
    const json& ids = field(field(field(step, "special_tokens"), name.c_str()), "ids");
    if (!ids.is_array()) wrong(fmt::format("TemplateProcessing names '{}' without its ids", shown(name)));
    for (const json& id : ids) (passed ? spec.after : spec.before).push_back(token_id(id));
  }
  if (!passed) lacking("a TemplateProcessing without the text");
}

void read_model(const json& model, TokenizerSpec& spec) {
  const std::string type = text(model, "type", "BPE");
  if (type != "BPE") lacking(fmt::format("a model of type {}", shown(type)));
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const json& value = field(model, name); !value.is_null() && value != "") lacking(fmt::format("BPE with {}", name));
  if (const json& dropout = field(model, "dropout"); !dropout.is_null() && dropout != 0) lacking("BPE with dropout");
  spec.byte_fallback = flag(model, "byte_fallback");
  spec.ignore_merges = flag(model, "ignore_merges");
  spec.fuse_unknown = flag(model, "fuse_unk");
  spec.unknown = text(model, "unk_token", "");
  const json &vocab = field(model, "vocab"), &merges = field(model, "merges");
  if (!vocab.is_object() || !merges.is_array()) wrong("model: 'vocab' must be an object and 'merges' an array");
  // Only as many ids as there are tokens, or nearly: an id of a billion must not make a table of a billion.
  TokenId last = 0;
  for (const auto& [token, id] : vocab.items()) last = std::max(last, token_id(id));
  if (last > vocab.size() * 4 + 65536) wrong(fmt::format("id {} in a vocabulary of {} tokens", last, vocab.size()));
  spec.tokens.resize(vocab.empty() ? 0 : last + 1);
  for (const auto& [token, id] : vocab.items()) {
    if (token.empty()) continue;   // nothing encodes to it
    std::string& place = spec.tokens[id.get<TokenId>()];
    if (!place.empty()) wrong(fmt::format("tokens '{}' and '{}' have the same id {}", shown(place), shown(token), id.get<TokenId>()));
    place = token;
  }
  const auto find = [&](const std::string& piece) -> TokenId {
    const auto found = vocab.find(piece);
    if (found == vocab.end()) wrong(fmt::format("merges mention '{}', which is not in the vocabulary", shown(piece)));
    return found->get<TokenId>();
  };
  spec.merges.reserve(merges.size());
  for (const json& merge : merges) {
    std::string left, right;
    if (merge.is_string()) {
      const auto& both = merge.get_ref<const std::string&>();
      const std::size_t space = both.find(' ');
      if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos) wrong(fmt::format("merge '{}' is not two tokens", shown(both)));
      left = both.substr(0, space);
      right = both.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else {
      wrong("a merge that is not two tokens");
    }
    spec.merges.push_back({find(left), find(right), find(left + right)});
  }
}

void read_added(const json& added, TokenizerSpec& spec) {
  if (added.is_null()) return;
  if (!added.is_array()) wrong("'added_tokens' is not an array");
  for (const json& one : added) {
    AddedToken token{.id = token_id(field(one, "id")), .content = text(one, "content"), .special = flag(one, "special"),
                     .single_word = flag(one, "single_word"), .lstrip = flag(one, "lstrip"), .rstrip = flag(one, "rstrip"),
                     .normalized = flag(one, "normalized", !flag(one, "special"))};
    if (token.id > spec.tokens.size() + added.size() + 65536) wrong(fmt::format("added token '{}' has the far id {}", shown(token.content), token.id));
    spec.added.push_back(std::move(token));
  }
}

json normalizer_json(const NormalizeStep& step) {
  switch (step.kind) {
    case NormalizeStep::kNfc: return {{"type", "NFC"}};
    case NormalizeStep::kNfd: return {{"type", "NFD"}};
    case NormalizeStep::kNfkc: return {{"type", "NFKC"}};
    case NormalizeStep::kNfkd: return {{"type", "NFKD"}};
    case NormalizeStep::kPrepend: return {{"type", "Prepend"}, {"prepend", step.content}};
    case NormalizeStep::kReplace: return {{"type", "Replace"}, {"pattern", {{"String", step.pattern}}}, {"content", step.content}};
  }
  return nullptr;
}

json split_json(const SplitStep& step) {
  switch (step.kind) {
    case SplitStep::kByteLevel:
      return {{"type", "ByteLevel"}, {"add_prefix_space", step.add_prefix_space}, {"trim_offsets", false}, {"use_regex", step.use_regex}};
    case SplitStep::kDigits: return {{"type", "Digits"}, {"individual_digits", step.behaviour == SplitBehaviour::kIsolated}};
    default:
      return {{"type", "Split"}, {"pattern", {{step.kind == SplitStep::kRegex ? "Regex" : "String", step.pattern}}},
              {"behavior", behaviour_name(step.behaviour)}, {"invert", step.invert}};
  }
}

json decoder_json(const DecodeStep& step) {
  switch (step.kind) {
    case DecodeStep::kByteLevel: return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
    case DecodeStep::kByteFallback: return {{"type", "ByteFallback"}};
    case DecodeStep::kFuse: return {{"type", "Fuse"}};
    case DecodeStep::kReplace: return {{"type", "Replace"}, {"pattern", {{"String", step.pattern}}}, {"content", step.content}};
    case DecodeStep::kStrip: return {{"type", "Strip"}, {"content", step.content}, {"start", step.start}, {"stop", step.stop}};
  }
  return nullptr;
}

json sequence(std::vector<json> steps, const char* members) {
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return steps[0];
  return {{"type", "Sequence"}, {members, steps}};
}

json template_json(const TokenizerSpec& spec) {
  if (spec.before.empty() && spec.after.empty()) return nullptr;
  json single = json::array(), tokens = json::object();
  const auto put = [&](const std::vector<TokenId>& ids) {
    for (const TokenId id : ids) {
      std::string name = id < spec.tokens.size() ? spec.tokens[id] : "";
      for (const AddedToken& token : spec.added)
        if (token.id == id) name = token.content;
      single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
      tokens[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
    }
  };
  put(spec.before);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  put(spec.after);
  json pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

// Ids below this one stand in the model's vocabulary. Hugging Face's library numbers added tokens that do not on its own, one
// after another from the vocabulary's size on, so only a tail without gaps may be left out of it.
std::size_t own_vocabulary(const TokenizerSpec& spec) {
  std::vector<bool> added(spec.tokens.size());
  for (const AddedToken& token : spec.added)
    if (token.id < added.size()) added[token.id] = true;
  std::size_t own = spec.tokens.size();
  while (own > 0 && added[own - 1]) --own;
  for (std::size_t id = 0; id < own; ++id)
    if (spec.tokens[id].empty()) return spec.tokens.size();
  return own;
}

}  // namespace

bool TokenizerSpec::byte_level() const {
  return std::any_of(splits.begin(), splits.end(), [](const SplitStep& step) { return step.kind == SplitStep::kByteLevel; });
}

Result<TokenizerSpec> read_tokenizer_json(std::string_view bytes, std::string_view where) {
  auto parsed = base::parse_json(bytes);
  if (!parsed) return fail(Code::kInvalidArgument, "{}: {}", where, parsed.error().message);
  TokenizerSpec spec;
  try {
    read_model(field(*parsed, "model"), spec);
    read_added(field(*parsed, "added_tokens"), spec);
    each_step(field(*parsed, "normalizer"), "normalizers", [&](const json& step, const std::string& type) { read_normalizer(step, type, spec); });
    each_step(field(*parsed, "pre_tokenizer"), "pretokenizers", [&](const json& step, const std::string& type) { read_split(step, type, spec); });
    each_step(field(*parsed, "decoder"), "decoders", [&](const json& step, const std::string& type) { read_decoder(step, type, spec); });
    each_step(field(*parsed, "post_processor"), "processors", [&](const json& step, const std::string& type) { read_post_processor(step, type, spec); });
  } catch (const Problem& problem) {
    return fail(problem.code, "{}: {}{}", where, problem.text, problem.code == Code::kUnsupported ? " is not supported" : "");
  }
  const bool byte_decoder = spec.decoders.size() == 1 && spec.decoders[0].kind == DecodeStep::kByteLevel;
  if (spec.byte_level() != byte_decoder)
    return fail(Code::kUnsupported, "{}: a ByteLevel pre-tokenizer and a ByteLevel decoder are only supported together", where);
  return spec;
}

Result<TokenizerSpec> read_vocab_and_merges(std::string_view vocab, std::string_view merges, std::string_view family, std::string_view where) {
  auto words = base::parse_json(vocab);
  if (!words) return fail(Code::kInvalidArgument, "{}: vocab.json: {}", where, words.error().message);
  json lines = json::array();
  for (std::size_t line = 1; !merges.empty(); ++line) {
    const std::size_t end = merges.find('\n');
    std::string_view one = merges.substr(0, end);
    merges.remove_prefix(end == std::string_view::npos ? merges.size() : end + 1);
    if (!one.empty() && one.back() == '\r') one.remove_suffix(1);
    if (one.empty() || (line == 1 && one.substr(0, 8) == "#version")) continue;
    if (valid_prefix(one) != one.size()) return fail(Code::kInvalidArgument, "{}: merges.txt:{} is not UTF-8", where, line);
    lines.push_back(std::string(one));
  }
  TokenizerSpec spec;
  try {
    read_model({{"vocab", std::move(*words)}, {"merges", std::move(lines)}}, spec);
  } catch (const Problem& problem) {
    return fail(problem.code, "{}: {}", where, problem.text);
  }
  if (family.size() > 4 && family.substr(family.size() - 4) == "Fast") family.remove_suffix(4);
  if (family == "Qwen2Tokenizer") {
    spec.normalizers.push_back({NormalizeStep::kNfc, {}, {}});
    spec.splits.push_back({.kind = SplitStep::kRegex, .pattern = scanner_pattern(Scanner::kQwen2)});
    spec.splits.push_back({.kind = SplitStep::kByteLevel, .use_regex = false});
  } else if (family == "GPT2Tokenizer") {
    spec.splits.push_back({.kind = SplitStep::kByteLevel});
  } else {
    return fail(Code::kUnsupported, "{}: vocab.json and merges.txt of a '{}' do not say how text is split; a tokenizer.json does", where, shown(family));
  }
  spec.decoders.push_back({});
  return spec;
}

Status add_tokenizer_config(TokenizerSpec& spec, std::string_view bytes, std::string_view where) {
  auto parsed = base::parse_json(bytes);
  if (!parsed) return fail(Code::kInvalidArgument, "{}: {}", where, parsed.error().message);
  try {
    if (!parsed->is_object()) wrong("not an object");
    // A name's value is a text or an AddedToken.
    for (const auto& [name, value] : parsed->items()) {
      if (name.size() < 6 || name.compare(name.size() - 6, 6, "_token") != 0 || name.compare(0, 4, "add_") == 0) continue;
      if (value.is_string()) spec.named[name] = value.get<std::string>();
      else if (value.is_object() && value.contains("content")) spec.named[name] = text(value, "content");
    }
    if (const json& more = field(*parsed, "added_tokens_decoder"); more.is_object()) {
      for (const auto& [id, value] : more.items()) {
        const bool number = !id.empty() && id.size() < 9 && id.find_first_not_of("0123456789") == std::string::npos;
        if (!number) wrong(fmt::format("added_tokens_decoder: '{}' is not a token id", shown(id)));
        AddedToken token{.id = token_id(json(static_cast<std::uint64_t>(std::stoul(id)))), .content = text(value, "content"), .special = flag(value, "special"),
                         .single_word = flag(value, "single_word"), .lstrip = flag(value, "lstrip"), .rstrip = flag(value, "rstrip"),
                         .normalized = flag(value, "normalized", !flag(value, "special"))};
        if (token.id > spec.tokens.size() + more.size() + 65536) wrong(fmt::format("added token '{}' has the far id {}", shown(token.content), token.id));
        const bool known = std::any_of(spec.added.begin(), spec.added.end(), [&](const AddedToken& t) { return t.content == token.content; });
        if (!known) spec.added.push_back(std::move(token));
      }
    }
  } catch (const Problem& problem) {
    return fail(problem.code, "{}: {}", where, problem.text);
  }
  return ok();
}

std::string tokenizer_json(const TokenizerSpec& spec) {
  json vocab = json::object(), merges = json::array(), added = json::array();
  const std::size_t own = own_vocabulary(spec);
  for (std::size_t id = 0; id < std::min(own, spec.tokens.size()); ++id)
    if (!spec.tokens[id].empty()) vocab[spec.tokens[id]] = id;
  for (const BpeMerge& merge : spec.merges) merges.push_back({spec.tokens[merge.left], spec.tokens[merge.right]});
  for (const AddedToken& t : spec.added)
    added.push_back({{"id", t.id}, {"content", t.content}, {"single_word", t.single_word}, {"lstrip", t.lstrip}, {"rstrip", t.rstrip},
                     {"normalized", t.normalized}, {"special", t.special}});
  std::sort(added.begin(), added.end(), [](const json& a, const json& b) { return a["id"] < b["id"]; });
  std::vector<json> normalizers, splits, decoders;
  for (const auto& step : spec.normalizers) normalizers.push_back(normalizer_json(step));
  for (const auto& step : spec.splits) splits.push_back(split_json(step));
  for (const auto& step : spec.decoders) decoders.push_back(decoder_json(step));
  const json model = {{"type", "BPE"}, {"dropout", nullptr}, {"unk_token", spec.unknown.empty() ? json() : json(spec.unknown)},
                      {"continuing_subword_prefix", nullptr}, {"end_of_word_suffix", nullptr}, {"fuse_unk", spec.fuse_unknown},
                      {"byte_fallback", spec.byte_fallback}, {"ignore_merges", spec.ignore_merges}, {"vocab", vocab}, {"merges", merges}};
  const json whole = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added},
                      {"normalizer", sequence(normalizers, "normalizers")}, {"pre_tokenizer", sequence(splits, "pretokenizers")},
                      {"post_processor", template_json(spec)}, {"decoder", sequence(decoders, "decoders")}, {"model", model}};
  return whole.dump(1) + "\n";
}

}  // namespace musacoder::llm
