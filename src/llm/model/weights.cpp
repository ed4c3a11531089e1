#include "llm/model/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "llm/checkpoint/checkpoint.h"
#include "llm/checkpoint/families.h"
#include "llm/checkpoint/gguf_import.h"
#include "llm/kernels/row_ops.h"

namespace musacoder::llm {
namespace {

Result<at::ScalarType> scalar_type(DType type, const std::string& name) {
  switch (type) {
    case DType::kF32:
      return at::kFloat;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF16:
      return at::kHalf;
    default:
      return fail(Code::kUnsupported, "{}: weights of type {} cannot be computed with; F32, BF16 and F16 can",
                  name, dtype_name(type));
  }
}

Result<at::Tensor> mapped_tensor(const TensorView& view) {
  MC_ASSIGN_OR_RETURN(const at::ScalarType type, scalar_type(view.dtype, view.name));
  if (!view.aligned()) {
    at::Tensor copy = at::empty(view.shape, type);
    std::memcpy(copy.data_ptr(), view.bytes.data(), view.bytes.size());
    return copy;
  }
  // The deleter's copy of the owner keeps the mapping alive as long as any tensor on it.
  return at::from_blob(
      const_cast<char*>(view.bytes.data()), view.shape, [owner = view.owner](void*) {},
      at::TensorOptions(type));
}

bool is_gguf(const std::string& path) {
  const auto file = std::filesystem::is_directory(path) ? nullptr : MappedFile::open(path).value_or(nullptr);
  return file && Gguf::looks_like(file->bytes());
}

std::string some_of(const std::vector<std::string>& names) {
  const std::size_t shown = std::min<std::size_t>(names.size(), 3);
  return fmt::format("{}{}",
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), "; "),
                     names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
}

}  // namespace

void Weights::take(const std::string& name, at::Tensor tensor, const WeightOptions& options) {
  const at::ScalarType type = options.type == WeightType::kF32    ? at::kFloat
                              : options.type == WeightType::kBF16 ? at::kBFloat16
                              : options.type == WeightType::kF64  ? at::kDouble
                                                                  : tensor.scalar_type();
  at::Tensor out;
  if (options.device.is_cpu()) {
    out = tensor.to(type);
    if (options.trainable && out.is_same(tensor)) out = tensor.clone();
  } else {
    const auto place = places_.find(name);
    out = place != places_.end() && place->second.scalar_type() == type
              ? place->second
              : at::empty(tensor.sizes(), tensor.options().dtype(type).device(options.device));
    out.copy_(tensor);
  }
  if (options.trainable) out.requires_grad_(true);
  tensors_.emplace(name, std::move(out));
}

// Room for the matrices that share an input, one behind the other. Where types are kept and differ, those of
// another type than the configuration's lie by themselves.
void Weights::place(const std::vector<FamilyTensor>& wanted, const WeightOptions& options) {
  if (options.device.is_cpu()) return;
  const at::ScalarType type = options.type == WeightType::kF32 ? at::kFloat : at::kBFloat16;
  std::unordered_map<std::string, const FamilyTensor*> by_name;
  for (const FamilyTensor& one : wanted) by_name[one.name] = &one;
  const auto together = [&](const std::vector<std::string>& names) {
    std::int64_t rows = 0;
    for (const std::string& name : names) {
      const auto found = by_name.find(name);
      if (found == by_name.end() || found->second->shape.size() != 2) return;
      rows += found->second->shape[0];
    }
    const std::int64_t columns = by_name[names[0]]->shape[1];
    const at::Tensor all = at::empty({rows, columns}, at::TensorOptions(type).device(options.device));
    std::int64_t from = 0;
    for (const std::string& name : names) {
      const std::int64_t count = by_name[name]->shape[0];
      places_[name] = all.narrow(0, from, count).detach();
      from += count;
    }
  };
  for (const std::vector<std::string>& names : of_one_input()) together(names);
}

// Names of the matrices that one input is multiplied with, of all layers.
std::vector<std::vector<std::string>> Weights::of_one_input() const {
  std::vector<std::vector<std::string>> out;
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const auto of = [&](const char* block, const std::vector<const char*>& matrices) {
      out.emplace_back();
      for (const char* one : matrices)
        out.back().push_back(fmt::format("{}layers.{}.{}.{}.weight", config_.prefix, i, block, one));
    };
    if (config_.kind(i) == LayerKind::kDelta)
      of("linear_attn", {"in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b"});
    else
      of("self_attn", {"q_proj", "k_proj", "v_proj"});
    of("mlp", {"gate_proj", "up_proj"});
  }
  return out;
}

Weights Weights::with(const std::unordered_map<std::string, at::Tensor>& changed) const {
  const at::NoGradGuard no_grad;
  Weights out = *this;
  for (const auto& [name, tensor] : changed) {
    TORCH_CHECK(has(name) && get(name).sizes() == tensor.sizes(), name, " is not a tensor of these sizes");
    out.tensors_[name] = tensor;
  }
  for (const std::vector<std::string>& names : of_one_input()) {
    std::vector<at::Tensor> parts;
    bool any = false;
    for (const std::string& name : names) {
      parts.push_back(out.get(name).detach());
      any = any || changed.count(name) > 0;
    }
    const bool alike = std::all_of(parts.begin(), parts.end(), [&](const at::Tensor& one) {
      return one.scalar_type() == parts[0].scalar_type();
    });
    if (!any || !alike || !parts[0].is_cuda()) continue;
    const at::Tensor all = at::cat(parts);
    std::int64_t from = 0;
    for (std::size_t i = 0; i < names.size(); from += parts[i++].size(0))
      out.tensors_[names[i]] = all.narrow(0, from, parts[i].size(0)).detach();
  }
  return out;
}

Result<Weights> Weights::open(const std::string& path, const WeightOptions& options) {
  Weights out;
  if (is_gguf(path)) {
    MC_ASSIGN_OR_RETURN(auto file, Gguf::open(path));
    static const std::vector<GgmlType> kMultiplied = {GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ8_0,
                                                      GgmlType::kQ4K, GgmlType::kQ6K};
    const bool packed =
        options.packed && options.type == WeightType::kKeep &&
        std::any_of(file->tensors().begin(), file->tensors().end(), [](const GgufTensor& one) {
          return std::count(kMultiplied.begin(), kMultiplied.end(), one.type) > 0;
        });
    MC_ASSIGN_OR_RETURN(
        GgufImport model,
        import_gguf(file, packed || options.type == WeightType::kF32 ? DType::kF32 : DType::kBF16,
                    packed ? kMultiplied : std::vector<GgmlType>()));
    const nlohmann::json config = nlohmann::json::parse(model.config);
    MC_ASSIGN_OR_RETURN(out.config_, parse_model_config(config));
    MC_ASSIGN_OR_RETURN(const auto wanted, family_tensors(config));
    out.place(wanted, options);
    for (const NewTensor& one : model.tensors) {
      at::ScalarType type = at::kByte;
      if (one.dtype != DType::kU8) {
        MC_ASSIGN_OR_RETURN(type, scalar_type(one.dtype, one.name));
      }
      MC_ASSIGN_OR_RETURN(const std::string_view bytes, one.bytes());
      at::Tensor tensor = at::empty(one.shape, type);
      std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
      out.take(one.name, std::move(tensor), options);
    }
    for (const FamilyTensor& one : wanted) {
      if (!out.has(one.name)) return fail(Code::kInvalidArgument, "{}: {} is missing", path, one.name);
      const at::Tensor& have = out.get(one.name);
      const Shape shape = is_packed(have) ? Shape{have.size(0), in_features(have)} : have.sizes().vec();
      if (shape != one.shape)
        return fail(Code::kInvalidArgument, "{}: {} is not {}, as the configuration makes it", path, one.name,
                    shape_text(one.shape));
      out.names_.push_back(one.name);
    }
    out.places_.clear();
    return out;
  }
  MC_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(path));
  MC_ASSIGN_OR_RETURN(out.config_, parse_model_config(checkpoint.config()));
  MC_ASSIGN_OR_RETURN(const auto wanted, family_tensors(checkpoint.config()));
  const TensorCheck check = check_tensors(checkpoint, wanted);
  if (!check.missing.empty())
    return fail(Code::kInvalidArgument, "{}: tensors are missing: {}", path, some_of(check.missing));
  if (!check.misshapen.empty()) return fail(Code::kInvalidArgument, "{}: {}", path, some_of(check.misshapen));
  out.place(wanted, options);
  for (const FamilyTensor& one : wanted) {
    MC_ASSIGN_OR_RETURN(at::Tensor tensor, mapped_tensor(*checkpoint.find(one.name)));
    out.take(one.name, std::move(tensor), options);
    out.names_.push_back(one.name);
  }
  out.places_.clear();
  return out;
}

}  // namespace musacoder::llm
