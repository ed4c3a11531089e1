#include "train/memory_plan.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/terminal.h"
#include "llm/checkpoint/families.h"
#include "llm/checkpoint/strict_json.h"
#include "llm/model/config.h"
#include "llm/model/delta_rule.h"
#include "llm/model/logprobs.h"

namespace musacoder::train {
namespace {

using llm::LayerKind;
using llm::ModelConfig;

std::int64_t elements(const llm::Shape& shape) {
  std::int64_t out = 1;
  for (const std::int64_t size : shape) out *= size;
  return out;
}

std::int64_t& part_of(MemoryPlan::Parameters& all, const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("embed_tokens")) return all.embedding;
  if (name == "lm_head.weight") return all.head;
  if (has(".linear_attn.")) return all.delta;
  if (has(".self_attn.")) return all.attention;
  return has(".mlp.") ? all.mlp : all.norms;
}

// Numbers that a layer keeps for its backward pass for each token: in the type of the weights, and in
// float32.
struct Kept {
  std::int64_t typed = 0, wide = 0;
};

Kept kept_by_mixer(const ModelConfig& c, LayerKind kind) {
  if (kind == LayerKind::kAttention) {
    const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    // q, k, v, q and k again after norm and rotation, the attention's output, gated.
    return {(c.output_gate ? 3 : 1) * q + 2 * q + 4 * kv, c.heads};
  }
  const auto& d = c.delta;
  const std::int64_t value = d.value_heads * d.value_dim, keys = 2 * d.key_heads * d.key_dim;
  // Before and after the convolution and after SiLU, z, the output, normed and gated; in float32 q and k
  // twice (before and after their norm), v, the updates, and a state for every chunk.
  return {3 * d.channels() + 4 * value, 2 * keys + 2 * value + 4 * d.value_heads +
                                            d.value_heads * d.key_dim * d.value_dim / llm::kDeltaChunk};
}

std::int64_t activation_bytes(const ModelConfig& c, LayerKind kind, std::int64_t size) {
  const Kept mixer = kept_by_mixer(c, kind);
  // The input, both norms' inputs and outputs, and the MLP's gate, up and their product.
  return size * (mixer.typed + 4 * c.hidden + 3 * c.inner) + 4 * mixer.wide;
}

}  // namespace

Result<MemoryPlan> plan_memory(const nlohmann::json& json, const PlanOptions& options) {
  MC_ASSIGN_OR_RETURN(const ModelConfig c, llm::parse_model_config(json));
  MC_ASSIGN_OR_RETURN(const auto tensors, llm::family_tensors(json));
  if (options.type != "bf16" && options.type != "f32")
    return fail(Code::kInvalidArgument, "type '{}' is not known; give bf16 or f32", options.type);
  if (options.tokens < 1 || options.processes < 1 || options.samples < 0 || options.context < 0 ||
      options.lora_rank < 0)
    return fail(Code::kInvalidArgument, "tokens and processes must be 1 or more, the others not negative");
  const std::int64_t size = options.type == "bf16" ? 2 : 4;
  MemoryPlan out;
  std::int64_t adapters = 0;
  for (const auto& one : tensors) {
    std::int64_t& part = part_of(out.parameters, one.name);
    part += elements(one.shape);
    if (one.shape.size() == 2 && &part != &out.parameters.embedding && &part != &out.parameters.head)
      adapters += options.lora_rank * (one.shape[0] + one.shape[1]);
  }
  const std::int64_t all = out.parameters.total();
  out.attention_layers = c.count(LayerKind::kAttention);
  out.delta_layers = c.count(LayerKind::kDelta);

  const auto share = [&](std::int64_t bytes) { return (bytes + options.processes - 1) / options.processes; };
  const bool lora = options.lora_rank > 0;
  out.trained = lora ? adapters : all;
  // Adapters are float32 themselves and beside the weights; otherwise float32 is the weights' own type or a
  // second copy.
  out.weights = options.shard_parameters && !lora ? share(all * size) : all * size;
  out.masters = lora ? adapters * 4 : size == 4 ? 0 : share(all * 4);
  // Added up in float32; those of the layer that is at it are in the weights' type besides.
  out.gradients = share(out.trained * 4) + (lora || size == 4 ? 0 : all * size / c.layers);
  out.moments = share(out.trained * 8);
  std::int64_t largest = 0, together = 0;
  for (const LayerKind kind : {LayerKind::kAttention, LayerKind::kDelta}) {
    if (c.count(kind) == 0) continue;
    const std::int64_t bytes = activation_bytes(c, kind, size);
    largest = std::max(largest, bytes);
    together += c.count(kind) * bytes;
  }
  out.activation_per_token = options.recompute ? c.layers * c.hidden * size + largest : together;
  out.activations = options.tokens * out.activation_per_token;
  out.logits = llm::kLogitBytes;

  out.kv_per_token = 2 * out.attention_layers * c.kv_heads * c.head_dim * size;
  const auto& d = c.delta;
  out.state_per_sample =
      out.delta_layers * 4 * (d.value_heads * d.key_dim * d.value_dim + (d.kernel - 1) * d.channels());
  out.cache = options.samples * (options.context * out.kv_per_token + out.state_per_sample);
  return out;
}

Status run_plan(const PlanOptions& options) {
  const std::string path =
      std::filesystem::is_directory(options.model) ? options.model + "/config.json" : options.model;
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, 16 << 20));
  MC_ASSIGN_OR_RETURN(const nlohmann::json config, llm::parse_strict_json(text, path));
  MC_ASSIGN_OR_RETURN(const MemoryPlan plan, plan_memory(config, options));
  const auto& p = plan.parameters;
  if (options.json) {
    const nlohmann::ordered_json out = {
        {"parameters",
         {{"total", p.total()},
          {"embedding", p.embedding},
          {"head", p.head},
          {"attention", p.attention},
          {"delta", p.delta},
          {"mlp", p.mlp},
          {"norms", p.norms},
          {"trained", plan.trained}}},
        {"layers", {{"attention", plan.attention_layers}, {"delta", plan.delta_layers}}},
        {"training_bytes",
         {{"total", plan.training()},
          {"weights", plan.weights},
          {"masters", plan.masters},
          {"gradients", plan.gradients},
          {"moments", plan.moments},
          {"activations", plan.activations},
          {"activations_per_token", plan.activation_per_token},
          {"logits", plan.logits}}},
        {"generation_bytes",
         {{"total", p.total() * (options.type == "bf16" ? 2 : 4) + plan.cache},
          {"kv_per_token", plan.kv_per_token},
          {"state_per_sample", plan.state_per_sample},
          {"cache", plan.cache}}}};
    fmt::print("{}\n", out.dump());
    return ok();
  }
  const auto row = [](std::string_view name, std::string_view value) {
    fmt::print("  {:<26}{:>12}\n", name, value);
  };
  const auto count = [&](std::string_view name, std::int64_t value) {
    if (value > 0) row(name, fmt::format("{:.1f} M", static_cast<double>(value) / 1e6));
  };
  const auto bytes = [&](std::string_view name, std::int64_t value) {
    if (value > 0) row(name, base::human_bytes(static_cast<std::uint64_t>(value)));
  };
  fmt::print("Parameters ({} attention layers, {} DeltaNet layers)\n", plan.attention_layers,
             plan.delta_layers);
  count("embedding", p.embedding);
  count("output", p.head);
  count("attention", p.attention);
  count("DeltaNet", p.delta);
  count("MLP", p.mlp);
  count("norms", p.norms);
  count("together", p.total());
  count("trained", plan.trained);
  fmt::print("\nTraining, one of {} process{}, {} tokens a pass\n", options.processes,
             options.processes == 1 ? "" : "es", options.tokens);
  bytes("weights", plan.weights);
  bytes("float32 weights, adapters", plan.masters);
  bytes("gradients", plan.gradients);
  bytes("AdamW's moments", plan.moments);
  bytes("activations (estimate)", plan.activations);
  bytes("  of one token", plan.activation_per_token);
  bytes("logits at a time", plan.logits);
  bytes("together", plan.training());
  fmt::print("\nGeneration, {} samples of {} tokens\n", options.samples, options.context);
  bytes("weights", p.total() * (options.type == "bf16" ? 2 : 4));
  bytes("keys, values of one token", plan.kv_per_token);
  bytes("states of one sample", plan.state_per_sample);
  bytes("keys, values and states", plan.cache);
  return ok();
}

}  // namespace musacoder::train
