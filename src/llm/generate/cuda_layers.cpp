#include "llm/generate/cuda_layers.h"

#include <algorithm>
#include <array>

#include "llm/kernels/cuda/fused.h"
#include "llm/kernels/cuda/load.h"

namespace musacoder::llm {
namespace {

// Matrices one behind the other, as they lie already or by a copy; undefined ones: undefined.
at::Tensor together(const std::vector<at::Tensor>& parts) {
  if (!parts[0].defined()) return {};
  if (!joinable(parts)) return at::cat(parts).contiguous();
  std::int64_t rows = 0;
  for (const at::Tensor& one : parts) rows += one.size(0);
  return parts[0].as_strided({rows, parts[0].size(1)}, {parts[0].size(1), 1}, parts[0].storage_offset());
}

// Of a DeltaNet layer, what is computed with in float32 and may be of another type than the matrices.
bool is_widened(const std::string& name) {
  constexpr std::array kEnds = {".linear_attn.conv1d.weight", ".linear_attn.A_log", ".linear_attn.dt_bias",
                                ".linear_attn.norm.weight"};
  return std::any_of(kEnds.begin(), kEnds.end(), [&](const char* end) { return name.ends_with(end); });
}

tl::unexpected<Error> refused(const std::string& what) {
  return fail(Code::kUnsupported, "generation on a GPU: {}", what);
}

}  // namespace

Status check_cuda_layers(const Weights& weights) {
  const ModelConfig& config = weights.config();
  const at::Tensor& embedding = weights.get(config.prefix + "embed_tokens.weight");
  if (!fused_on(embedding)) return refused("weights must be bf16 or float32");
  for (const std::string& name : weights.names())
    if (!is_widened(name) && weights.get(name).scalar_type() != embedding.scalar_type())
      return refused(fmt::format("{} is of another type than the embedding", name));
  for (const char* name : {"gate_proj", "up_proj", "down_proj"})
    if (weights.has(fmt::format("{}layers.0.mlp.{}.bias", config.prefix, name)))
      return refused("biases in the MLP");
  if (!fused_norm_takes(config.hidden) || config.hidden % 32 != 0 || config.inner % 32 != 0)
    return refused(
        fmt::format("hidden and inner sizes must be multiples of 32, hidden at most 8192; "
                    "they are {} and {}",
                    config.hidden, config.inner));
  if (config.count(LayerKind::kAttention) > 0 && config.head_dim != 64 && config.head_dim != 128 &&
      config.head_dim != 256)
    return refused(fmt::format("heads of {}; 64, 128 and 256 are built", config.head_dim));
  if (config.count(LayerKind::kDelta) == 0) return ok();
  const DeltaConfig& delta = config.delta;
  if (cuda_kernels().mc_delta_takes(delta.key_dim, delta.value_dim) == 0)
    return refused(
        fmt::format("DeltaNet heads of {} and {}; keys of 16, 32, 64 and 128 are built, values in "
                    "multiples of 16 up to 128",
                    delta.key_dim, delta.value_dim));
  if (delta.value_heads * delta.value_dim % 32 != 0)
    return refused(fmt::format("{} DeltaNet value heads of {}: together no multiple of 32", delta.value_heads,
                               delta.value_dim));
  return ok();
}

std::vector<CudaLayer> cuda_layers(const Weights& weights) {
  const at::NoGradGuard no_grad;
  const ModelConfig& config = weights.config();
  std::vector<CudaLayer> out;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto of = [&](const std::string& name) {
      const std::string whole = fmt::format("{}layers.{}.{}", config.prefix, i, name);
      return weights.has(whole) ? weights.get(whole) : at::Tensor();
    };
    const auto wide = [&](const std::string& name) { return of(name).to(at::kFloat).contiguous(); };
    CudaLayer layer;
    layer.input_norm = of("input_layernorm.weight");
    layer.post_norm = of("post_attention_layernorm.weight");
    layer.gate_up = together({of("mlp.gate_proj.weight"), of("mlp.up_proj.weight")});
    layer.down = of("mlp.down_proj.weight");
    if (config.kind(i) == LayerKind::kDelta) {
      const std::string at = "linear_attn.";
      const at::Tensor norm = of(at + "norm.weight");
      layer.delta = CudaDelta{
          .product = together({of(at + "in_proj_qkv.weight"), of(at + "in_proj_z.weight"),
                               of(at + "in_proj_a.weight"), of(at + "in_proj_b.weight")}),
          .taps = of(at + "conv1d.weight").squeeze(1).to(at::kFloat).t().contiguous(),
          .a_log = wide(at + "A_log"),
          .dt_bias = wide(at + "dt_bias"),
          .norm = norm.to(at::kFloat).contiguous(),
          .out = of(at + "out_proj.weight"),
          .round_norm = norm.scalar_type() == layer.down.scalar_type(),
      };
    } else {
      const auto joined = [&](const std::string& kind) {
        return together(
            {of("self_attn.q_proj." + kind), of("self_attn.k_proj." + kind), of("self_attn.v_proj." + kind)});
      };
      layer.attention = {joined("weight"),
                         joined("bias"),
                         of("self_attn.q_norm.weight"),
                         of("self_attn.k_norm.weight"),
                         of("self_attn.o_proj.weight"),
                         of("self_attn.o_proj.bias")};
    }
    out.push_back(std::move(layer));
  }
  return out;
}

}  // namespace musacoder::llm
