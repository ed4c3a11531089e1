#include "synth/graph/modules.h"

#include <algorithm>
#include <cstring>

namespace musacoder::synth {
namespace {

using State = Result<std::vector<Value>>;

Dim size_of(const Module& module, const char* name, std::int64_t otherwise = 0) {
  const auto it = module.args.find(name);
  if (it == module.args.end()) return literal(otherwise);
  const auto* i = std::get_if<std::int64_t>(&it->second.value);
  return i == nullptr ? literal(otherwise) : Dim{*i, it->second.constant};
}

bool flag_of(const Module& module, const char* name, bool otherwise) {
  const auto it = module.args.find(name);
  const bool* b = it == module.args.end() ? nullptr : std::get_if<bool>(&it->second.value);
  return b == nullptr ? otherwise : *b;
}

std::vector<std::int64_t> list_of(const Module& module, const char* name, std::size_t length) {
  const auto it = module.args.find(name);
  if (it == module.args.end()) return std::vector<std::int64_t>(length, 1);
  if (const auto* l = std::get_if<std::vector<std::int64_t>>(&it->second.value)) return *l;
  const auto* i = std::get_if<std::int64_t>(&it->second.value);
  return std::vector<std::int64_t>(length, i == nullptr ? 1 : *i);
}

Value state_value(std::string name, DType dtype, std::vector<Dim> dims, bool buffer = false) {
  Value value;
  value.name = std::move(name);
  value.type = {dtype, std::move(dims), true};
  value.source = buffer ? Source::kBuffer : Source::kParameter;
  return value;
}

State linear(const Module& module, DType dtype) {
  const Dim in = size_of(module, "in_features"), out = size_of(module, "out_features");
  if (in.size < 1 || out.size < 1) return fail(Code::kInvalidArgument, "nn.Linear needs in_features and out_features");
  std::vector<Value> all{state_value("weight", dtype, {out, in})};
  if (flag_of(module, "bias", true)) all.push_back(state_value("bias", dtype, {out}));
  return all;
}

State convolution(const Module& module, DType dtype) {
  const std::size_t axes = module.kind.find("1d") != std::string::npos ? 1 : module.kind.find("2d") != std::string::npos ? 2 : 3;
  const bool transposed = module.kind.find("Transpose") != std::string::npos;
  const Dim in = size_of(module, "in_channels"), out = size_of(module, "out_channels");
  const std::int64_t groups = std::max<std::int64_t>(1, size_of(module, "groups", 1).size);
  if (in.size < 1 || out.size < 1 || in.size % groups != 0 || out.size % groups != 0)
    return fail(Code::kInvalidArgument, "nn.{} with {} to {} channels in {} groups", module.kind, in.size, out.size, groups);
  const Dim inner = transposed ? (groups == 1 ? out : literal(out.size / groups)) : (groups == 1 ? in : literal(in.size / groups));
  std::vector<Dim> dims{transposed ? in : out, inner};
  for (std::int64_t k : list_of(module, "kernel_size", axes)) dims.push_back(literal(k));
  std::vector<Value> all{state_value("weight", dtype, std::move(dims))};
  if (flag_of(module, "bias", true)) all.push_back(state_value("bias", dtype, {out}));
  return all;
}

State batch_norm(const Module& module, DType dtype) {
  const Dim n = size_of(module, "num_features");
  std::vector<Value> all;
  if (flag_of(module, "affine", true)) {
    all.push_back(state_value("weight", dtype, {n}));
    all.push_back(state_value("bias", dtype, {n}));
  }
  if (flag_of(module, "track_running_stats", true)) {
    all.push_back(state_value("running_mean", dtype, {n}, true));
    all.push_back(state_value("running_var", dtype, {n}, true));
  }
  return all;
}

State instance_norm(const Module& module, DType dtype) {
  const Dim n = size_of(module, "num_features");
  std::vector<Value> all;
  if (flag_of(module, "affine", false)) {
    all.push_back(state_value("weight", dtype, {n}));
    all.push_back(state_value("bias", dtype, {n}));
  }
  return all;
}

State group_norm(const Module& module, DType dtype) {
  const Dim n = size_of(module, "num_channels");
  if (!flag_of(module, "affine", true)) return std::vector<Value>{};
  return std::vector<Value>{state_value("weight", dtype, {n}), state_value("bias", dtype, {n})};
}

State layer_norm(const Module& module, DType dtype) {
  const auto it = module.args.find("normalized_shape");
  if (it == module.args.end()) return fail(Code::kInvalidArgument, "nn.{} needs normalized_shape", module.kind);
  std::vector<Dim> dims;
  if (const auto* l = std::get_if<std::vector<std::int64_t>>(&it->second.value))
    for (std::int64_t s : *l) dims.push_back(literal(s));
  else
    dims.push_back(size_of(module, "normalized_shape"));
  std::vector<Value> all;
  if (!flag_of(module, "elementwise_affine", true)) return all;
  all.push_back(state_value("weight", dtype, dims));
  if (module.kind == "LayerNorm" && flag_of(module, "bias", true)) all.push_back(state_value("bias", dtype, dims));
  return all;
}

State embedding(const Module& module, DType) {
  return std::vector<Value>{state_value("weight", DType::kF32, {size_of(module, "num_embeddings"), size_of(module, "embedding_dim")})};
}

State prelu(const Module& module, DType dtype) {
  return std::vector<Value>{state_value("weight", dtype, {size_of(module, "num_parameters", 1)})};
}

template <std::int64_t kGates>
State cell(const Module& module, DType dtype) {
  const Dim in = size_of(module, "input_size"), hidden = size_of(module, "hidden_size");
  if (in.size < 1 || hidden.size < 1) return fail(Code::kInvalidArgument, "nn.{} needs input_size and hidden_size", module.kind);
  const Dim rows = kGates == 1 ? hidden : literal(kGates * hidden.size);
  std::vector<Value> all{state_value("weight_ih", dtype, {rows, in}), state_value("weight_hh", dtype, {rows, hidden})};
  if (flag_of(module, "bias", true)) {
    all.push_back(state_value("bias_ih", dtype, {rows}));
    all.push_back(state_value("bias_hh", dtype, {rows}));
  }
  return all;
}

template <std::int64_t kGates>
State recurrent(const Module& module, DType dtype) {
  const Dim in = size_of(module, "input_size"), hidden = size_of(module, "hidden_size");
  const std::int64_t layers = size_of(module, "num_layers", 1).size;
  if (in.size < 1 || hidden.size < 1 || layers < 1) return fail(Code::kInvalidArgument, "nn.{} needs input_size and hidden_size", module.kind);
  const Dim rows = literal(kGates * hidden.size);
  std::vector<Value> all;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    all.push_back(state_value(fmt::format("weight_ih_l{}", layer), dtype, {rows, layer == 0 ? in : hidden}));
    all.push_back(state_value(fmt::format("weight_hh_l{}", layer), dtype, {rows, hidden}));
    if (!flag_of(module, "bias", true)) continue;
    all.push_back(state_value(fmt::format("bias_ih_l{}", layer), dtype, {rows}));
    all.push_back(state_value(fmt::format("bias_hh_l{}", layer), dtype, {rows}));
  }
  return all;
}

State multi_head_attention(const Module& module, DType dtype) {
  const Dim width = size_of(module, "embed_dim");
  if (width.size < 1 || size_of(module, "num_heads").size < 1) return fail(Code::kInvalidArgument, "nn.{} needs embed_dim and num_heads", module.kind);
  const bool bias = flag_of(module, "bias", true);
  const Dim three = literal(3 * width.size);
  std::vector<Value> all{state_value("in_proj_weight", dtype, {three, width})};
  if (bias) all.push_back(state_value("in_proj_bias", dtype, {three}));
  all.push_back(state_value("out_proj.weight", dtype, {width, width}));
  if (bias) all.push_back(state_value("out_proj.bias", dtype, {width}));
  return all;
}

const std::vector<ModuleInfo>& table() {
  static const std::vector<const char*> kConvArgs{"in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups"};
  static const std::vector<const char*> kConvShared{"stride", "padding", "dilation", "groups", "output_padding"};
  static const std::vector<ModuleInfo> rows = {
      {"Linear", {"in_features", "out_features"}, {}, linear},
      {"Conv1d", kConvArgs, kConvShared, convolution},
      {"Conv2d", kConvArgs, kConvShared, convolution},
      {"Conv3d", kConvArgs, kConvShared, convolution},
      {"ConvTranspose1d", {"in_channels", "out_channels", "kernel_size", "stride", "padding"}, kConvShared, convolution},
      {"ConvTranspose2d", {"in_channels", "out_channels", "kernel_size", "stride", "padding"}, kConvShared, convolution},
      {"ConvTranspose3d", {"in_channels", "out_channels", "kernel_size", "stride", "padding"}, kConvShared, convolution},
      {"BatchNorm1d", {"num_features", "eps", "momentum"}, {"eps", "momentum"}, batch_norm},
      {"BatchNorm2d", {"num_features", "eps", "momentum"}, {"eps", "momentum"}, batch_norm},
      {"BatchNorm3d", {"num_features", "eps", "momentum"}, {"eps", "momentum"}, batch_norm},
      {"InstanceNorm1d", {"num_features", "eps"}, {"eps"}, instance_norm},
      {"InstanceNorm2d", {"num_features", "eps"}, {"eps"}, instance_norm},
      {"InstanceNorm3d", {"num_features", "eps"}, {"eps"}, instance_norm},
      {"GroupNorm", {"num_groups", "num_channels", "eps"}, {"num_groups", "eps"}, group_norm},
      {"LayerNorm", {"normalized_shape", "eps"}, {"normalized_shape", "eps"}, layer_norm},
      {"RMSNorm", {"normalized_shape", "eps"}, {"normalized_shape", "eps"}, layer_norm},
      {"Embedding", {"num_embeddings", "embedding_dim"}, {}, embedding},
      {"RNNCell", {"input_size", "hidden_size"}, {}, cell<1>},
      {"GRUCell", {"input_size", "hidden_size"}, {}, cell<3>},
      {"GRU", {"input_size", "hidden_size", "num_layers"}, {"num_layers", "bias", "batch_first"}, recurrent<3>, "{*}", "{0}, {1}"},
      {"LSTM", {"input_size", "hidden_size", "num_layers"}, {"num_layers", "bias", "batch_first"}, recurrent<4>, "{0}[[, ({1}, {2})]]", "{0}, ({1}, {2})"},
      {"MultiheadAttention", {"embed_dim", "num_heads"}, {"num_heads", "bias", "batch_first"}, multi_head_attention, "{*}, need_weights=False", "{0}, _"},
      {"PReLU", {"num_parameters"}, {}, prelu},
  };
  return rows;
}

}  // namespace

const ModuleInfo* find_module(std::string_view kind) {
  const auto it = std::find_if(table().begin(), table().end(), [&](const ModuleInfo& m) { return kind == m.kind; });
  return it == table().end() ? nullptr : &*it;
}

}  // namespace musacoder::synth
