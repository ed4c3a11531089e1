#include "llm/model/lora.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "llm/checkpoint/atomic_folder.h"
#include "llm/checkpoint/mapped_file.h"
#include "llm/checkpoint/safetensors.h"
#include "llm/checkpoint/strict_json.h"
#include "llm/kernels/row_ops.h"

namespace musacoder::llm {
namespace {

constexpr const char* kPrefix = "base_model.model.";

bool is_target(const std::string& linear, const std::vector<std::string>& targets) {
  return std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return linear == target || linear.ends_with("." + target);
  });
}

// The decoder's linears that `targets` name; every target must name one. Linears are what has a matrix, the
// embedding and the output left out.
Result<std::vector<std::string>> targeted(const Weights& weights, const std::vector<std::string>& targets) {
  std::vector<std::string> out;
  std::set<std::string> kinds;
  for (const std::string& name : weights.names()) {
    if (weights.get(name).dim() < 2 || name.ends_with(".conv1d.weight") ||
        name.ends_with("embed_tokens.weight") || name == "lm_head.weight")
      continue;
    const std::string linear = name.substr(0, name.size() - std::strlen(".weight"));
    kinds.insert(linear.substr(linear.rfind('.') + 1));
    if (is_target(linear, targets)) out.push_back(linear);
  }
  for (const std::string& target : targets)
    if (std::none_of(out.begin(), out.end(),
                     [&](const std::string& linear) { return is_target(linear, {target}); }))
      return fail(Code::kInvalidArgument, "no linear of the model is called '{}'; there are {}", target,
                  fmt::join(kinds, ", "));
  if (out.empty()) return fail(Code::kInvalidArgument, "the adapter has no targets");
  return out;
}

Result<LoraConfig> read_config(const std::string& path) {
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, 1 << 20));
  MC_ASSIGN_OR_RETURN(const auto given, parse_strict_json(text, path));
  if (!given.is_object()) return fail(Code::kInvalidArgument, "{}: no object", path);
  const auto is_set = [&](const char* key) {
    return given.contains(key) && !given[key].is_null() && given[key] != false && !given[key].empty();
  };
  for (const char* key : {"use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "layers_to_transform",
                          "modules_to_save", "fan_in_fan_out", "lora_bias"})
    if (is_set(key)) return fail(Code::kUnsupported, "{}: {} is not built", path, key);
  if (given.contains("bias") && given["bias"] != "none")
    return fail(Code::kUnsupported, "{}: biases are not trained here", path);
  LoraConfig out;
  const auto rank = given.find("r"), alpha = given.find("lora_alpha"), targets = given.find("target_modules");
  if (rank == given.end() || !rank->is_number_integer() || rank->get<std::int64_t>() < 1)
    return fail(Code::kInvalidArgument, "{}: r is no rank", path);
  if (alpha == given.end() || !alpha->is_number())
    return fail(Code::kInvalidArgument, "{}: lora_alpha is no number", path);
  if (targets == given.end() || !targets->is_array())
    return fail(Code::kUnsupported, "{}: target_modules must be a list of names", path);
  out.rank = rank->get<std::int64_t>();
  out.alpha = alpha->get<double>();
  out.targets.clear();
  for (const auto& one : *targets) {
    if (!one.is_string())
      return fail(Code::kInvalidArgument, "{}: target_modules has something that is no name", path);
    out.targets.push_back(one.get<std::string>());
  }
  return out;
}

}  // namespace

Result<Lora> Lora::create(const Weights& weights, const LoraConfig& config) {
  if (config.rank < 1)
    return fail(Code::kInvalidArgument, "an adapter's rank is {}; give 1 or more", config.rank);
  MC_ASSIGN_OR_RETURN(const auto linears, targeted(weights, config.targets));
  Lora out;
  out.config_ = config;
  const at::Generator generator = at::detail::createCPUGenerator(config.seed);
  for (const std::string& linear : linears) {
    const at::Tensor& weight = weights.get(linear + ".weight");
    const std::int64_t in = in_features(weight);
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    const at::Tensor a = at::empty({config.rank, in}).uniform_(-bound, bound, generator);
    const at::Tensor b = at::zeros({weight.size(0), config.rank});
    out.pairs_[linear] = {a.to(weight.device()).requires_grad_(true),
                          b.to(weight.device()).requires_grad_(true)};
  }
  return out;
}

Result<Lora> Lora::open(const Weights& weights, const std::string& folder) {
  MC_ASSIGN_OR_RETURN(const LoraConfig config, read_config(folder + "/adapter_config.json"));
  MC_ASSIGN_OR_RETURN(Lora out, create(weights, config));
  const std::string path = folder + "/adapter_model.safetensors";
  MC_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  MC_ASSIGN_OR_RETURN(const Safetensors parsed, parse_safetensors(file->bytes(), path));
  std::map<std::string, const TensorView*> given;
  for (const TensorView& view : parsed.tensors) given[view.name] = &view;
  const std::vector<std::string> names = out.names();
  const std::vector<at::Tensor> parameters = out.parameters();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = given.find(names[i]);
    if (found == given.end()) return fail(Code::kInvalidArgument, "{}: {} is missing", path, names[i]);
    const TensorView& view = *found->second;
    if (at::IntArrayRef(view.shape) != parameters[i].sizes())
      return fail(Code::kInvalidArgument, "{}: {} is {}, not {}", path, names[i], shape_text(view.shape),
                  shape_text(parameters[i].sizes().vec()));
    if (view.dtype != DType::kF32 && view.dtype != DType::kBF16 && view.dtype != DType::kF16)
      return fail(Code::kUnsupported, "{}: {} is of type {}", path, names[i], dtype_name(view.dtype));
    const at::Tensor raw = at::empty(view.shape, view.dtype == DType::kF32    ? at::kFloat
                                                 : view.dtype == DType::kBF16 ? at::kBFloat16
                                                                              : at::kHalf);
    std::memcpy(raw.data_ptr(), view.bytes.data(), view.bytes.size());
    parameters[i].copy_(raw);
    given.erase(found);
  }
  if (!given.empty())
    return fail(Code::kInvalidArgument, "{}: {} belongs to no target", path, given.begin()->first);
  return out;
}

Status Lora::save(const std::string& folder) const {
  const std::vector<std::string> all = names();
  std::vector<at::Tensor> tensors = parameters();
  std::vector<TensorView> views;
  std::vector<std::string_view> pieces = {{}};
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    tensors[i] = tensors[i].detach().cpu().contiguous();
    pieces.emplace_back(static_cast<const char*>(tensors[i].const_data_ptr()), tensors[i].nbytes());
    views.push_back({all[i], DType::kF32, tensors[i].sizes().vec(), pieces.back()});
    bytes += tensors[i].nbytes();
  }
  MC_ASSIGN_OR_RETURN(const std::string head, safetensors_header(views, {{"format", "pt"}}));
  pieces[0] = head;
  const nlohmann::ordered_json config = {
      {"peft_type", "LORA"}, {"task_type", "CAUSAL_LM"},          {"base_model_name_or_path", nullptr},
      {"r", config_.rank},   {"lora_alpha", config_.alpha},       {"lora_dropout", 0.0},
      {"bias", "none"},      {"target_modules", config_.targets}, {"inference_mode", true}};
  const std::string text = config.dump(2) + "\n";
  MC_ASSIGN_OR_RETURN(AtomicFolder out, AtomicFolder::begin(folder, bytes + head.size() + text.size()));
  MC_RETURN_IF_ERROR(write_file_synced(out.file("adapter_model.safetensors"), pieces));
  MC_RETURN_IF_ERROR(write_file_synced(out.file("adapter_config.json"), {text}));
  return out.commit();
}

const Lora::Pair* Lora::find(const std::string& linear) const {
  const auto found = pairs_.find(linear);
  return found == pairs_.end() ? nullptr : &found->second;
}

std::vector<std::string> Lora::names() const {
  std::vector<std::string> out;
  for (const auto& [linear, pair] : pairs_)
    for (const char* half : {".lora_A.weight", ".lora_B.weight"}) out.push_back(kPrefix + linear + half);
  return out;
}

std::vector<at::Tensor> Lora::parameters() const {
  std::vector<at::Tensor> out;
  for (const auto& [linear, pair] : pairs_) out.insert(out.end(), {pair.a, pair.b});
  return out;
}

Result<Weights> merged(const Weights& weights, const Lora& lora) {
  const at::NoGradGuard no_grad;
  std::unordered_map<std::string, at::Tensor> changed;
  for (const std::string& name : weights.names()) {
    if (!name.ends_with(".weight")) continue;
    const Lora::Pair* pair = lora.find(name.substr(0, name.size() - std::strlen(".weight")));
    if (!pair) continue;
    const at::Tensor& weight = weights.get(name);
    if (is_packed(weight))
      return fail(Code::kUnsupported, "{}: adapters are not merged into packed weights; read them as bf16",
                  name);
    const at::ScalarType wide = weight.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor update = at::matmul(pair->b.to(wide), pair->a.to(wide)).mul_(lora.scale());
    changed[name] = update.to(weight.device()).add_(weight).to(weight.scalar_type());
  }
  return weights.with(changed);
}

}  // namespace musacoder::llm
