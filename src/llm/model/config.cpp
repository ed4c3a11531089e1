#include "llm/model/config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "llm/checkpoint/families.h"

namespace musacoder::llm {
namespace {

using nlohmann::json;

Result<double> positive(const json& from, const char* key, double otherwise) {
  const auto found = from.find(key);
  if (found == from.end() || found->is_null()) {
    if (otherwise > 0) return otherwise;
    return fail(Code::kInvalidArgument, "config.json: {} is missing", key);
  }
  if (!found->is_number() || !(found->get<double>() > 0) || !std::isfinite(found->get<double>()))
    return fail(Code::kInvalidArgument, "config.json: {} is no positive number", key);
  return found->get<double>();
}

bool flag(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_boolean() && found->get<bool>();
}

Result<RotaryConfig> parse_rotary(const json& config) {
  RotaryConfig rotary;
  json settings = json::object();
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (config.contains(key) && config[key].is_object()) settings = config[key];
  MC_ASSIGN_OR_RETURN(const double outer, positive(config, "rope_theta", 10000));
  MC_ASSIGN_OR_RETURN(rotary.theta, positive(settings, "rope_theta", outer));
  std::string type = "default";
  for (const char* key : {"type", "rope_type"})
    if (settings.contains(key) && settings[key].is_string()) type = settings[key].get<std::string>();
  if (type == "default") return rotary;
  if (type != "linear" && type != "llama3")
    return fail(Code::kUnsupported,
                "config.json: rotary scaling '{}' is not built; built are default, linear, llama3", type);
  MC_ASSIGN_OR_RETURN(rotary.factor, positive(settings, "factor", 0));
  rotary.scaling = RotaryConfig::Scaling::kLinear;
  if (type == "linear") return rotary;
  rotary.scaling = RotaryConfig::Scaling::kLlama3;
  MC_ASSIGN_OR_RETURN(rotary.low_freq_factor, positive(settings, "low_freq_factor", 0));
  MC_ASSIGN_OR_RETURN(rotary.high_freq_factor, positive(settings, "high_freq_factor", 0));
  MC_ASSIGN_OR_RETURN(rotary.original_positions, positive(settings, "original_max_position_embeddings", 0));
  if (rotary.high_freq_factor <= rotary.low_freq_factor)
    return fail(Code::kInvalidArgument, "config.json: high_freq_factor must be above low_freq_factor");
  return rotary;
}

Status refuse_what_is_not_built(const json& config, bool delta) {
  if (const auto act = config.find("hidden_act"); act != config.end() && *act != "silu" && *act != "swish")
    return fail(Code::kUnsupported, "config.json: hidden_act {} is not built; built is silu", act->dump());
  if (const auto rate = config.find("attention_dropout");
      rate != config.end() && rate->is_number() && rate->get<double>() != 0)
    return fail(Code::kUnsupported, "config.json: attention_dropout is not built; set it to 0");
  if (flag(config, "use_sliding_window"))
    return fail(Code::kUnsupported, "config.json: use_sliding_window is not built");
  if (const auto part = config.find("partial_rotary_factor");
      !delta && part != config.end() && part->is_number() && part->get<double>() != 1)
    return fail(Code::kUnsupported, "config.json: partial_rotary_factor is not built for this family");
  if (const auto types = config.find("layer_types"); types != config.end() && types->is_array())
    for (const json& type : *types)
      if (type != "full_attention" && !(delta && type == "linear_attention"))
        return fail(Code::kUnsupported, "config.json: a layer of type {} is not built for this family",
                    type.dump());
  return ok();
}

// The part of each head that is rotated, as transformers cuts it: the whole part of head_dim * factor.
Result<std::int64_t> rotated_dims(const json& config, std::int64_t head_dim) {
  MC_ASSIGN_OR_RETURN(double factor, positive(config, "partial_rotary_factor", 0.25));
  if (config.contains("rope_parameters") && config["rope_parameters"].is_object()) {
    MC_ASSIGN_OR_RETURN(factor, positive(config["rope_parameters"], "partial_rotary_factor", factor));
  }
  const auto dims = static_cast<std::int64_t>(static_cast<double>(head_dim) * factor);
  if (dims < 2 || dims > head_dim)
    return fail(Code::kInvalidArgument, "config.json: partial_rotary_factor {} rotates {} of {} dimensions",
                factor, dims, head_dim);
  return dims;
}

// Which layers are of which kind is what their tensors' names say (families.h).
Status read_delta(const json& config, const std::vector<FamilyTensor>& tensors, ModelConfig& out) {
  const auto size = [&](const char* key) { return config.value(key, std::int64_t{0}); };
  out.kinds.assign(static_cast<std::size_t>(out.layers), LayerKind::kAttention);
  for (std::int64_t i = 0; i < out.layers; ++i) {
    const std::string name = fmt::format("{}layers.{}.linear_attn.A_log", out.prefix, i);
    if (std::any_of(tensors.begin(), tensors.end(), [&](const auto& one) { return one.name == name; }))
      out.kinds[static_cast<std::size_t>(i)] = LayerKind::kDelta;
  }
  if (out.count(LayerKind::kDelta) == 0) return ok();
  out.delta = {size("linear_num_key_heads"), size("linear_num_value_heads"), size("linear_key_head_dim"),
               size("linear_value_head_dim"), size("linear_conv_kernel_dim")};
  if (out.delta.value_heads % out.delta.key_heads != 0)
    return fail(Code::kInvalidArgument,
                "config.json: linear_num_value_heads {} is no multiple of linear_num_key_heads {}",
                out.delta.value_heads, out.delta.key_heads);
  return ok();
}

}  // namespace

std::int64_t ModelConfig::count(LayerKind wanted) const {
  if (kinds.empty()) return wanted == LayerKind::kAttention ? layers : 0;
  return std::count(kinds.begin(), kinds.end(), wanted);
}

Result<ModelConfig> parse_model_config(const json& whole) {
  MC_ASSIGN_OR_RETURN(const auto tensors, family_tensors(whole));  // checks the sizes that are read below
  ModelConfig out;
  out.family = whole["model_type"].get<std::string>();
  const bool delta = out.family.starts_with("qwen3_5"), nested = delta && whole.contains("text_config");
  if (delta) out.family = "qwen3_5";
  const json& config = nested ? whole["text_config"] : whole;
  out.prefix = tensors[0].name.substr(0, tensors[0].name.find("embed_tokens"));
  MC_RETURN_IF_ERROR(refuse_what_is_not_built(config, delta));
  const auto size = [&](const char* key, std::int64_t otherwise) {
    return config.contains(key) && config[key].is_number_integer() ? config[key].get<std::int64_t>()
                                                                   : otherwise;
  };
  out.vocab = size("vocab_size", 0);
  out.hidden = size("hidden_size", 0);
  out.inner = size("intermediate_size", 0);
  out.layers = size("num_hidden_layers", 0);
  out.heads = size("num_attention_heads", 0);
  out.kv_heads = size("num_key_value_heads", out.heads);
  out.head_dim = size("head_dim", out.hidden / out.heads);
  out.max_positions = size("max_position_embeddings", 0);
  if (out.heads % out.kv_heads != 0)
    return fail(Code::kInvalidArgument,
                "config.json: num_attention_heads {} is no multiple of num_key_value_heads {}", out.heads,
                out.kv_heads);
  out.rotary_dim = out.head_dim;
  if (delta) {
    MC_ASSIGN_OR_RETURN(out.rotary_dim, rotated_dims(config, out.head_dim));
    MC_RETURN_IF_ERROR(read_delta(config, tensors, out));
  }
  if (out.rotary_dim % 2 != 0)
    return fail(Code::kInvalidArgument,
                "config.json: {} dimensions of a head are rotated, which is odd; they go in pairs",
                out.rotary_dim);
  MC_ASSIGN_OR_RETURN(out.norm_eps, positive(config, "rms_norm_eps", 1e-6));
  MC_ASSIGN_OR_RETURN(out.rotary, parse_rotary(config));
  out.tied = tensors.back().name != "lm_head.weight";
  out.qk_norm = delta || out.family == "qwen3";
  out.centred_norm = delta;
  out.output_gate = delta && (!config.contains("attn_output_gate") || flag(config, "attn_output_gate"));
  for (const json* from : {&whole, &config}) {
    const auto eos = from->find("eos_token_id");
    if (eos == from->end() || !out.eos.empty()) continue;
    if (eos->is_number_integer())
      out.eos = {eos->get<std::int64_t>()};
    else if (eos->is_array())
      for (const json& id : *eos)
        if (id.is_number_integer()) out.eos.push_back(id.get<std::int64_t>());
  }
  return out;
}

std::vector<float> rotary_frequencies(const RotaryConfig& rotary, std::int64_t dims) {
  std::vector<float> out;
  const float factor = static_cast<float>(rotary.factor);
  for (std::int64_t i = 0; i < dims; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dims);
    const float plain = 1.0f / std::pow(static_cast<float>(rotary.theta), exponent);
    if (rotary.scaling == RotaryConfig::Scaling::kNone) {
      out.push_back(plain);
    } else if (rotary.scaling == RotaryConfig::Scaling::kLinear) {
      out.push_back(plain / factor);
    } else {
      const double wavelength = 2 * std::numbers::pi / plain;
      const double longest_kept = rotary.original_positions / rotary.high_freq_factor,
                   shortest_slowed = rotary.original_positions / rotary.low_freq_factor;
      const float keep =
          static_cast<float>((rotary.original_positions / wavelength - rotary.low_freq_factor) /
                             (rotary.high_freq_factor - rotary.low_freq_factor));
      if (wavelength < longest_kept)
        out.push_back(plain);
      else if (wavelength > shortest_slowed)
        out.push_back(plain / factor);
      else
        out.push_back((1 - keep) * plain / factor + keep * plain);
    }
  }
  return out;
}

}  // namespace musacoder::llm
