#include "cli/model_facts.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/files.h"
#include "llm/chat/chat_template.h"
#include "llm/checkpoint/checkpoint.h"
#include "llm/checkpoint/families.h"
#include "llm/checkpoint/gguf_import.h"
#include "llm/tokenizer/gguf_tokenizer.h"
#include "llm/tokenizer/tokenizer.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;
using namespace musacoder::llm;

constexpr const char* kSizes[] = {"hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
                                  "vocab_size", "max_position_embeddings", "rope_theta", "tie_word_embeddings", "torch_dtype", "dtype"};

json sizes_of(const json& config) {
  json sizes = json::object();
  const json& text = config.contains("text_config") && config["text_config"].is_object() ? config["text_config"] : config;
  for (const char* key : kSizes) {
    if (text.contains(key) && text[key].is_primitive()) sizes[key] = text[key];
    else if (config.contains(key) && config[key].is_primitive()) sizes[key] = config[key];
  }
  return sizes;
}

// Counts by type, and the list where it is wanted.
class Tally {
 public:
  explicit Tally(bool list) : list_(list) {}
  void add(const std::string& name, const std::string& type, const Shape& shape, std::int64_t elements, std::uint64_t bytes) {
    if (!by_type_.contains(type)) by_type_[type] = json::object();
    for (json* row : {&total_, &by_type_[type]}) {
      (*row)["tensors"] = row->value("tensors", 0) + 1;
      (*row)["parameters"] = row->value("parameters", std::int64_t{0}) + elements;
      (*row)["bytes"] = row->value("bytes", std::uint64_t{0}) + bytes;
    }
    if (list_) all_.push_back({{"name", name}, {"type", type}, {"shape", shape}, {"bytes", bytes}});
  }
  void put(json& facts) const {
    facts["tensors"] = {{"count", total_.value("tensors", 0)}, {"parameters", total_.value("parameters", 0)}, {"bytes", total_.value("bytes", 0)}, {"by_type", by_type_}};
    if (list_) facts["list"] = all_;
  }

 private:
  bool list_;
  json total_ = json::object(), by_type_ = json::object(), all_ = json::array();
};

// ---- numbers that are not finite ----

std::uint64_t not_finite(DType type, std::string_view bytes) {
  std::uint64_t bad = 0;
  const auto count = [&](auto sample, auto exponent) {
    using T = decltype(sample);
    for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
      T bits;
      std::memcpy(&bits, bytes.data() + i, sizeof(T));
      bad += (bits & exponent) == exponent;
    }
  };
  switch (type) {
    case DType::kF32: count(std::uint32_t{}, std::uint32_t{0x7f800000}); break;
    case DType::kBF16: count(std::uint16_t{}, std::uint16_t{0x7f80}); break;
    case DType::kF16: count(std::uint16_t{}, std::uint16_t{0x7c00}); break;
    case DType::kF64: count(std::uint64_t{}, std::uint64_t{0x7ff0000000000000}); break;
    default: break;
  }
  return bad;
}

// Runs `check` for every index on all cores; what it returns, if not empty, is a problem.
template <typename Check>
void on_all_cores(std::size_t n, json& problems, const Check& check) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::vector<std::pair<std::size_t, std::string>> found;
  const auto work = [&] {
    for (std::size_t i = next++; i < n; i = next++)
      if (std::string text = check(i); !text.empty()) {
        std::lock_guard lock(mutex);
        found.emplace_back(i, std::move(text));
      }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min<std::size_t>(n, std::max(1u, std::thread::hardware_concurrency())); ++i) threads.emplace_back(work);
  work();
  for (auto& thread : threads) thread.join();
  std::sort(found.begin(), found.end());
  for (auto& [i, text] : found) problems.push_back(std::move(text));
}

// ---- tokenizer and template ----

json tokenizer_facts(const Tokenizer& t) {
  const TokenizerSpec& spec = t.spec();
  const auto special = std::count_if(spec.added.begin(), spec.added.end(), [](const AddedToken& a) { return a.special; });
  json named = json::object();
  for (const auto& [name, text] : spec.named) {
    const auto id = t.id_of(text);
    named[name] = {{"text", text}, {"id", id ? json(*id) : json()}};
  }
  return {{"kind", spec.byte_level() ? "byte-level BPE" : spec.byte_fallback ? "BPE with byte fallback" : "BPE"}, {"ids", t.size()}, {"merges", spec.merges.size()},
          {"added", spec.added.size()}, {"special", special}, {"named", named}, {"normalizes", !spec.normalizers.empty()}, {"ignore_merges", spec.ignore_merges},
          {"before", spec.before}, {"after", spec.after}};
}

// A tokenizer must give back what it was given, wherever its normal form allows.
std::string round_trip(const Tokenizer& t) {
  const std::string text = "It's 2024: x[i] += \"\u4f60\u597d\" \U0001f642\n\n\tint main() {}  \u00e9";
  const auto ids = t.encode(text, {.specials = Specials::kPlain, .template_tokens = false});
  if (!ids) return "tokenizer: " + ids.error().message;
  const std::string back = t.decode(*ids);
  return back == text || !t.spec().byte_level() ? "" : "tokenizer: a text does not come back from its tokens: '" + back + "'";
}

std::string try_template(const ChatTemplate& chat) {
  const auto out = chat.render({.messages = R"([{"role": "user", "content": "Hi"}])", .add_generation_prompt = true, .now_s = 0});
  if (out && out->text.find("Hi") != std::string::npos) return "";
  return out ? "chat template: a message's text is not in what it renders" : "chat template: " + out.error().message;
}

// Fills facts["tokenizer"] and facts["chat_template"]; absent ones are null, broken ones problems.
void add_text_facts(json& facts, json& problems, const std::string& path, bool check, std::int64_t vocab) {
  facts["tokenizer"] = facts["chat_template"] = nullptr;
  if (const auto tokenizer = Tokenizer::open(path)) {
    facts["tokenizer"] = tokenizer_facts(*tokenizer);
    if (check) {
      if (std::string text = round_trip(*tokenizer); !text.empty()) problems.push_back(std::move(text));
      if (vocab > 0 && static_cast<std::int64_t>(tokenizer->size()) > vocab)
        problems.push_back(fmt::format("tokenizer: {} ids, but the model has embeddings for {}", tokenizer->size(), vocab));
      for (const auto& [name, text] : tokenizer->spec().named)
        if (!tokenizer->id_of(text)) problems.push_back(fmt::format("tokenizer: {} '{}' is no token", name, text));
    }
  } else if (tokenizer.error().code != Code::kNotFound) {
    problems.push_back("tokenizer: " + tokenizer.error().message);
  }
  if (const auto chat = ChatTemplate::open(path)) {
    facts["chat_template"] = {{"bytes", chat->source().size()}};
    if (check)
      if (std::string text = try_template(*chat); !text.empty()) problems.push_back(std::move(text));
  } else if (chat.error().code != Code::kNotFound) {
    problems.push_back("chat template: " + chat.error().message);
  }
}

// ---- the three formats ----

Result<json> folder_facts(const std::string& path, const ModelFactsOptions& options, bool folder) {
  MC_ASSIGN_OR_RETURN(const Checkpoint model, Checkpoint::open(path));
  const json& config = model.config();
  json facts = {{"path", path}, {"format", folder ? "huggingface" : "safetensors"}, {"sizes", sizes_of(config)}, {"files", json::array()}, {"notes", json::array()}};
  facts["architecture"] = config.contains("architectures") && config["architectures"].is_array() && !config["architectures"].empty() ? config["architectures"][0] : json();
  facts["model_type"] = config.contains("model_type") ? config["model_type"] : json();
  json problems = json::array();
  for (const Shard& shard : model.shards()) facts["files"].push_back({{"name", shard.name}, {"bytes", shard.file->bytes().size()}, {"tensors", shard.count}});
  Tally tally(options.tensors);
  std::size_t unaligned = 0;
  for (const TensorView& t : model.tensors()) {
    tally.add(t.name, dtype_name(t.dtype), t.shape, t.elements(), t.bytes.size());
    unaligned += !t.aligned();
  }
  tally.put(facts);
  if (unaligned) facts["notes"].push_back(fmt::format("{} tensors do not begin at a multiple of their element's size; readers must copy them", unaligned));
  if (folder) {
    if (const auto wanted = family_tensors(config)) {
      const TensorCheck check = check_tensors(model, *wanted);
      for (const std::string& name : check.missing) problems.push_back("tensor " + name + " is missing");
      for (const std::string& text : check.misshapen) problems.push_back("tensor " + text);
      if (!check.others.empty())
        facts["notes"].push_back(fmt::format("{} tensors are not of the text model ({}…); they pass through unchanged", check.others.size(), check.others[0]));
    } else if (wanted.error().code == Code::kUnsupported) {
      facts["notes"].push_back(wanted.error().message + "; names and shapes are not checked");
    } else {
      problems.push_back(wanted.error().message);
    }
  }
  if (options.check)
    on_all_cores(model.tensors().size(), problems, [&](std::size_t i) {
      const TensorView& t = model.tensors()[i];
      const std::uint64_t bad = not_finite(t.dtype, t.bytes);
      return bad ? fmt::format("tensor {}: {} of {} numbers are not finite", t.name, bad, t.elements()) : std::string();
    });
  if (folder) add_text_facts(facts, problems, path, options.check, facts["sizes"].value("vocab_size", std::int64_t{0}));
  else facts["tokenizer"] = facts["chat_template"] = nullptr;
  if (options.check) facts["problems"] = problems;
  return facts;
}

Result<json> gguf_facts(const std::string& path, const ModelFactsOptions& options) {
  MC_ASSIGN_OR_RETURN(const auto file, Gguf::open(path));
  const std::string architecture(file->text("general.architecture").value_or(""));
  json facts = {{"path", path}, {"format", "gguf"}, {"version", file->version()}, {"model_type", architecture}, {"notes", json::array()},
                {"files", {{{"name", std::filesystem::path(path).filename().string()}, {"bytes", std::filesystem::file_size(path)}, {"tensors", file->tensors().size()}}}}};
  json problems = json::array();
  Tally tally(options.tensors);
  for (const GgufTensor& t : file->tensors()) tally.add(t.name, ggml_block(t.type)->name, t.shape, t.elements(), t.bytes.size());
  tally.put(facts);
  const auto model = import_gguf(file, DType::kF32);
  if (model) {
    const json config = json::parse(model->config);
    facts["architecture"] = config["architectures"][0];
    facts["sizes"] = sizes_of(config);
    facts["sizes"].erase("torch_dtype");   // of the conversion, not of the file
    for (const std::string& note : model->notes) facts["notes"].push_back(note);
  } else {
    facts["architecture"] = nullptr;
    facts["sizes"] = json::object();
    if (model.error().code == Code::kUnsupported) facts["notes"].push_back(model.error().message);
    else problems.push_back(model.error().message);
  }
  if (options.check)
    on_all_cores(file->tensors().size(), problems, [&](std::size_t i) -> std::string {
      const GgufTensor& t = file->tensors()[i];
      if (!ggml_block(t.type)->readable) return "";
      std::vector<float> values(static_cast<std::size_t>(t.elements()));
      if (auto status = dequantize(t, 0, t.elements(), values.data()); !status) return status.error().message;
      const auto bad = std::count_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
      return bad ? fmt::format("tensor {}: {} of {} numbers are not finite", t.name, bad, t.elements()) : std::string();
    });
  add_text_facts(facts, problems, path, options.check, facts["sizes"].value("vocab_size", std::int64_t{0}));
  if (options.check) facts["problems"] = problems;
  return facts;
}

}  // namespace

Result<json> model_facts(const std::string& path, const ModelFactsOptions& options) {
  if (!base::exists(path)) return fail(Code::kNotFound, "{} does not exist", path);
  if (base::is_directory(path)) return folder_facts(path, options, true);
  MC_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
  if (Gguf::looks_like(file->bytes())) return gguf_facts(path, options);
  return folder_facts(path, options, false);
}

}  // namespace musacoder::cli
