#include "llm/checkpoint/families.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/terminal.h"

namespace musacoder::llm {
namespace {

using nlohmann::json;

// Reads sizes; the first that is missing or senseless is kept as the problem.
class Sizes {
 public:
  explicit Sizes(const json& config) : config_(config) {}
  std::int64_t get(const char* key, std::int64_t otherwise = 0) {
    const auto found = config_.find(key);
    if (found == config_.end() || found->is_null()) {
      if (otherwise == 0) note(key, "is missing");
      return otherwise;
    }
    const bool good = found->is_number_integer() && found->get<std::int64_t>() > 0 && found->get<std::int64_t>() < (1 << 24);
    if (!good) note(key, "is no sensible number");
    return good ? found->get<std::int64_t>() : 1;
  }
  bool flag(const char* key, bool otherwise) const {
    const auto found = config_.find(key);
    return found != config_.end() && found->is_boolean() ? found->get<bool>() : otherwise;
  }
  const std::string& problem() const { return problem_; }

 private:
  void note(const char* key, const char* what) {
    if (problem_.empty()) problem_ = fmt::format("config.json: {} {}", key, what);
  }
  const json& config_;
  std::string problem_;
};

struct Trunk {
  std::vector<FamilyTensor> tensors;
  std::string prefix = "model.";
  void add(const std::string& name, Shape shape) { tensors.push_back({prefix + name, std::move(shape)}); }
};

void add_mlp(Trunk& t, const std::string& layer, std::int64_t hidden, std::int64_t inner, bool bias) {
  for (const char* which : {"gate_proj", "up_proj"}) {
    t.add(layer + "mlp." + which + ".weight", {inner, hidden});
    if (bias) t.add(layer + "mlp." + which + ".bias", {inner});
  }
  t.add(layer + "mlp.down_proj.weight", {hidden, inner});
  if (bias) t.add(layer + "mlp.down_proj.bias", {hidden});
}

void add_projection(Trunk& t, const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
  t.add(name + ".weight", {rows, columns});
  if (bias) t.add(name + ".bias", {rows});
}

// Qwen3.5's layers are full attention where (i + 1) % full_attention_interval is 0, unless layer_types says otherwise.
bool is_full_attention(const json& config, std::int64_t layer, std::int64_t interval) {
  const auto types = config.find("layer_types");
  if (types != config.end() && types->is_array() && static_cast<std::size_t>(layer) < types->size() && (*types)[static_cast<std::size_t>(layer)].is_string())
    return (*types)[static_cast<std::size_t>(layer)] == "full_attention";
  return (layer + 1) % interval == 0;
}

void add_delta_net(Trunk& t, const std::string& layer, std::int64_t hidden, Sizes& s) {
  const std::int64_t key_heads = s.get("linear_num_key_heads"), key_dim = s.get("linear_key_head_dim"), value_heads = s.get("linear_num_value_heads"),
                     value_dim = s.get("linear_value_head_dim"), kernel = s.get("linear_conv_kernel_dim");
  const std::int64_t channels = 2 * key_heads * key_dim + value_heads * value_dim;
  const std::string at = layer + "linear_attn.";
  t.add(at + "in_proj_qkv.weight", {channels, hidden});
  t.add(at + "in_proj_z.weight", {value_heads * value_dim, hidden});
  t.add(at + "in_proj_a.weight", {value_heads, hidden});
  t.add(at + "in_proj_b.weight", {value_heads, hidden});
  t.add(at + "conv1d.weight", {channels, 1, kernel});
  t.add(at + "A_log", {value_heads});
  t.add(at + "dt_bias", {value_heads});
  t.add(at + "norm.weight", {value_dim});
  t.add(at + "out_proj.weight", {hidden, value_heads * value_dim});
}

}  // namespace

Result<std::vector<FamilyTensor>> family_tensors(const json& whole) {
  const std::string given = whole.is_object() && whole.contains("model_type") && whole["model_type"].is_string() ? whole["model_type"].get<std::string>() : "";
  const bool conditional = given == "qwen3_5" && whole.contains("text_config") && whole["text_config"].is_object();
  const bool delta = given == "qwen3_5" || given == "qwen3_5_text";
  if (given != "llama" && given != "qwen2" && given != "qwen3" && !delta)
    return fail(Code::kUnsupported, "model_type '{}' is not known here; known are llama, qwen2, qwen3, qwen3_5", base::printable(given.substr(0, 100), false));
  const json& config = conditional ? whole["text_config"] : whole;
  Sizes s(config);
  const std::int64_t hidden = s.get("hidden_size"), layers = s.get("num_hidden_layers"), inner = s.get("intermediate_size"), heads = s.get("num_attention_heads"),
                     vocab = s.get("vocab_size");
  const std::int64_t kv_heads = s.get("num_key_value_heads", std::max<std::int64_t>(heads, 1)), dim = s.get("head_dim", std::max<std::int64_t>(hidden / std::max<std::int64_t>(heads, 1), 1));
  if (!s.problem().empty()) return fail(Code::kInvalidArgument, "{}", s.problem());
  const bool qkv_bias = given == "qwen2" || s.flag("attention_bias", false), out_bias = given != "qwen2" && s.flag("attention_bias", false);
  const bool qk_norm = given == "qwen3" || delta, mlp_bias = given == "llama" && s.flag("mlp_bias", false);
  const std::int64_t interval = delta ? s.get("full_attention_interval", 4) : 1;

  Trunk t;
  if (conditional) t.prefix = "model.language_model.";
  t.add("embed_tokens.weight", {vocab, hidden});
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = fmt::format("layers.{}.", i), attention = layer + "self_attn.";
    t.add(layer + "input_layernorm.weight", {hidden});
    t.add(layer + "post_attention_layernorm.weight", {hidden});
    add_mlp(t, layer, hidden, inner, mlp_bias);
    if (delta && !is_full_attention(config, i, interval)) {
      add_delta_net(t, layer, hidden, s);
      continue;
    }
    // Qwen3.5's q_proj has each head's query and, behind it, the head's gate.
    add_projection(t, attention + "q_proj", heads * dim * (delta && s.flag("attn_output_gate", true) ? 2 : 1), hidden, qkv_bias);
    add_projection(t, attention + "k_proj", kv_heads * dim, hidden, qkv_bias);
    add_projection(t, attention + "v_proj", kv_heads * dim, hidden, qkv_bias);
    add_projection(t, attention + "o_proj", hidden, heads * dim, out_bias);
    if (qk_norm) {
      t.add(attention + "q_norm.weight", {dim});
      t.add(attention + "k_norm.weight", {dim});
    }
  }
  t.add("norm.weight", {hidden});
  if (!s.problem().empty()) return fail(Code::kInvalidArgument, "{}", s.problem());
  const bool tied = Sizes(whole).flag("tie_word_embeddings", s.flag("tie_word_embeddings", false));
  if (!tied) t.tensors.push_back({"lm_head.weight", {vocab, hidden}});
  return std::move(t.tensors);
}

TensorCheck check_tensors(const Checkpoint& checkpoint, const std::vector<FamilyTensor>& wanted) {
  TensorCheck check;
  std::set<std::string_view> names;
  for (const FamilyTensor& tensor : wanted) {
    names.insert(tensor.name);
    const TensorView* found = checkpoint.find(tensor.name);
    if (!found) check.missing.push_back(tensor.name);
    else if (found->shape != tensor.shape)
      check.misshapen.push_back(fmt::format("{}: {}, the configuration makes it {}", tensor.name, shape_text(found->shape), shape_text(tensor.shape)));
  }
  for (const TensorView& tensor : checkpoint.tensors())
    if (!names.count(tensor.name)) check.others.push_back(tensor.name);
  return check;
}

}  // namespace musacoder::llm
