#include "llm/model/config.h"

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

Status refuse_what_is_not_built(const json& config) {
  if (const auto act = config.find("hidden_act"); act != config.end() && *act != "silu" && *act != "swish")
    return fail(Code::kUnsupported, "config.json: hidden_act {} is not built; built is silu", act->dump());
  if (const auto rate = config.find("attention_dropout");
      rate != config.end() && rate->is_number() && rate->get<double>() != 0)
    return fail(Code::kUnsupported, "config.json: attention_dropout is not built; set it to 0");
  if (flag(config, "use_sliding_window"))
    return fail(Code::kUnsupported, "config.json: use_sliding_window is not built");
  if (const auto part = config.find("partial_rotary_factor");
      part != config.end() && part->is_number() && part->get<double>() != 1)
    return fail(Code::kUnsupported, "config.json: partial_rotary_factor is not built for this family");
  if (const auto types = config.find("layer_types"); types != config.end() && types->is_array())
    for (const json& type : *types)
      if (type != "full_attention")
        return fail(Code::kUnsupported, "config.json: a layer of type {} is not built for this family",
                    type.dump());
  return ok();
}

}  // namespace

Result<ModelConfig> parse_model_config(const json& config) {
  MC_ASSIGN_OR_RETURN(const auto tensors, family_tensors(config));  // checks the sizes that are read below
  ModelConfig out;
  out.family = config["model_type"].get<std::string>();
  if (out.family != "llama" && out.family != "qwen2" && out.family != "qwen3")
    return fail(Code::kUnsupported, "model_type '{}' cannot be computed here yet; llama, qwen2 and qwen3 can",
                out.family);
  MC_RETURN_IF_ERROR(refuse_what_is_not_built(config));
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
  if (out.head_dim % 2 != 0)
    return fail(Code::kInvalidArgument, "config.json: head_dim {} is odd, rotary embeddings need pairs",
                out.head_dim);
  MC_ASSIGN_OR_RETURN(out.norm_eps, positive(config, "rms_norm_eps", 1e-6));
  MC_ASSIGN_OR_RETURN(out.rotary, parse_rotary(config));
  out.tied = flag(config, "tie_word_embeddings");
  out.qk_norm = out.family == "qwen3";
  if (const auto eos = config.find("eos_token_id"); eos != config.end()) {
    if (eos->is_number_integer())
      out.eos = {eos->get<std::int64_t>()};
    else if (eos->is_array())
      for (const json& id : *eos)
        if (id.is_number_integer()) out.eos.push_back(id.get<std::int64_t>());
  }
  return out;
}

std::vector<float> rotary_frequencies(const RotaryConfig& rotary, std::int64_t head_dim) {
  std::vector<float> out;
  const float factor = static_cast<float>(rotary.factor);
  for (std::int64_t i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
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
