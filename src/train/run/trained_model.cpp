#include "train/run/trained_model.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "llm/checkpoint/checkpoint_writer.h"
#include "llm/model/logprobs.h"

namespace musacoder::train {
namespace {

using namespace musacoder::llm;

// 1 + i for "...layers.i....", else 0.
std::int64_t unit_of(const std::string& name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = name.find(kLayers);
  if (at == std::string::npos) return 0;
  std::int64_t layer = -1;
  const char* from = name.data() + at + kLayers.size();
  std::from_chars(from, name.data() + name.size(), layer);
  return layer + 1;
}

at::ScalarType scalar_type(DType type) {
  return type == DType::kF32 ? at::kFloat : type == DType::kBF16 ? at::kBFloat16 : at::kHalf;
}

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

constexpr std::pair<Shards::Part, const char*> kParts[] = {
    {Shards::Part::kFirst, "first."}, {Shards::Part::kSecond, "second."}, {Shards::Part::kWeight, "weight."}};

}  // namespace

Result<std::unique_ptr<TrainedModel>> TrainedModel::open(const RunConfig& config, at::Device device,
                                                         Communicator& all) {
  std::unique_ptr<TrainedModel> out(new TrainedModel(all, device));
  out->path_ = config.model_path;
  const bool brain = config.model_type == "bf16", adapted = config.lora_rank > 0;
  ShardOptions options{.compute = brain && !adapted ? at::kBFloat16 : at::kFloat,
                       .device = device,
                       .adamw = {.learning_rate = config.lr,
                                 .beta1 = config.beta1,
                                 .beta2 = config.beta2,
                                 .epsilon = config.epsilon,
                                 .weight_decay = config.weight_decay},
                       .parameters = config.shard == "parameters"};
  // Layers that come and go are recomputed: their weights would be gone when the gradient wants them.
  out->recompute_ = config.recompute || options.parameters;
  out->sharded_ = options.parameters;
  auto source = Checkpoint::open(config.model_path);
  if (!source) {
    std::error_code error;
    if (source.error().code != Code::kNotFound && !std::filesystem::is_directory(config.model_path, error))
      return fail(Code::kInvalidArgument,
                  "{}: training starts from a folder; `musacoder model convert` makes one of a GGUF file",
                  config.model_path);
    return tl::unexpected<Error>(source.error());
  }
  out->source_ = std::move(*source);
  std::vector<TrainedTensor> trained;
  if (adapted) {
    MC_ASSIGN_OR_RETURN(out->weights_, Weights::open(config.model_path,
                                                     {.type = brain ? WeightType::kBF16 : WeightType::kF32, .device = device}));
    MC_ASSIGN_OR_RETURN(out->lora_,
                        Lora::create(out->weights_, {.rank = config.lora_rank,
                                                     .alpha = config.lora_alpha,
                                                     .targets = config.lora_targets,
                                                     .seed = static_cast<std::uint64_t>(config.seed)}));
    const std::vector<std::string> names = out->lora_->names();
    const std::vector<at::Tensor> tensors = out->lora_->parameters();
    for (std::size_t i = 0; i < names.size(); ++i)
      trained.push_back({names[i], tensors[i].requires_grad_(false), unit_of(names[i]), true});
  } else {
    // In the file's own type, mapped: float32 weights begin with all that the file has.
    MC_ASSIGN_OR_RETURN(out->weights_, Weights::open(config.model_path, {}));
    for (const std::string& name : out->weights_.names()) {
      const at::Tensor& tensor = out->weights_.get(name);
      trained.push_back({name, tensor, unit_of(name), tensor.dim() > 1});
    }
  }
  out->shards_ = std::make_unique<Shards>(std::move(trained), options, all);
  out->decoder_.emplace(out->weights_, out->lora_ ? &*out->lora_ : nullptr);
  return out;
}

std::int64_t TrainedModel::parameters() const {
  std::int64_t out = 0;
  for (const std::string& name : weights_.names()) out += weights_.get(name).numel();
  return out + (lora_ ? trained_parameters() : 0);
}

std::int64_t TrainedModel::trained_parameters() const {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < shards_->size(); ++i) out += shards_->tensor(i).numel();
  return out;
}

at::Tensor TrainedModel::logprobs(const Packed& given, const at::Tensor& all_targets, double temperature,
                                  Adapters adapters) {
  // The attention's places live as long as the graph: recomputed layers attend again in the backward pass.
  const Packed packed = on_device(given, device_);
  const auto attention = std::make_shared<PackedAttention>(packed);
  const Decoder* decoder = &*decoder_;
  if (adapters == Adapters::kOff && lora_) {
    if (!plain_decoder_) plain_decoder_.emplace(weights_);
    decoder = &*plain_decoder_;
  }
  at::Tensor hidden =
      decoder->hidden(packed, *attention, Rows::kFast,
                      recompute_ ? Activations::kRecompute : Activations::kKeep, shards_.get());
  at::Tensor targets = all_targets.to(device_);
  const at::Tensor rows = targets.ge(0).nonzero().squeeze(1);
  if (rows.numel() > 0) {  // no logits where nothing is asked for
    hidden = hidden.index_select(0, rows);
    targets = targets.index_select(0, rows);
  }
  const at::Tensor out = token_logprobs(hidden, decoder->head(), targets, temperature);
  if (recompute_ && out.requires_grad())
    out.register_hook([attention](const at::Tensor& gradient) { return gradient; });
  return out;
}

at::Tensor TrainedModel::loss_sum(const RowBatch& batch) {
  return -logprobs(batch.packed, batch.targets).sum();
}

void TrainedModel::copy_into(const Weights& copy) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < shards_->size() && !lora_; ++i)
    copy.get(shards_->name(i)).copy_(sharded_ ? shards_->whole(i, Shards::Part::kWeight) : shards_->tensor(i));
  if (!lora_) return;
  for (const std::string& name : weights_.names()) {
    constexpr std::string_view kWeight = ".weight";
    at::Tensor value = weights_.get(name);
    if (name.ends_with(kWeight))
      if (const Lora::Pair* pair = lora_->find(name.substr(0, name.size() - kWeight.size())))
        value = value.to(at::kFloat) + lora_->scale() * at::matmul(pair->b, pair->a);
    copy.get(name).copy_(value);
  }
}

// Where weights are saved in a type that rounds them, float32 ones stand beside the moments.
bool TrainedModel::rounded(std::size_t index) const {
  return !lora_ && source_->find(shards_->name(index))->dtype != DType::kF32;
}

// Rank 0 asks all others for their parts of a tensor by its number; -1 ends it.
Result<at::Tensor> TrainedModel::ask(std::size_t index, Shards::Part part) {
  at::Tensor question =
      at::tensor({static_cast<std::int64_t>(index), static_cast<std::int64_t>(part)}, at::kLong).to(device_);
  all_.broadcast(question, 0);
  return shards_->whole(index, part);
}

void TrainedModel::serve() {
  at::Tensor question = at::zeros({2}, at::TensorOptions(at::kLong).device(device_));
  while (true) {
    all_.broadcast(question, 0);
    const at::Tensor here = question.cpu();
    const std::int64_t index = here[0].item<std::int64_t>();
    if (index < 0) return;
    shards_->whole(static_cast<std::size_t>(index), static_cast<Shards::Part>(here[1].item<std::int64_t>()));
  }
}

Status TrainedModel::save(const std::string& folder) {
  Status status = ok();
  if (all_.rank() == 0) {
    status = write(folder);
    skip_save();
  } else {
    serve();
  }
  return status;
}

void TrainedModel::skip_save() {
  all_.broadcast(at::full({2}, -1, at::TensorOptions(at::kLong).device(device_)), 0);
}

Status TrainedModel::write(const std::string& folder) {
  if (lora_) {
    MC_RETURN_IF_ERROR(lora_->save(folder + "/adapter"));
    return write_optimizer(folder);
  }
  std::vector<NewTensor> changed;
  at::Tensor holder;
  for (std::size_t i = 0; i < shards_->size(); ++i) {
    const TensorView& old = *source_->find(shards_->name(i));
    changed.push_back({old.name, old.dtype, old.shape,
                       [this, i, &holder, type = scalar_type(old.dtype)]() -> Result<std::string_view> {
                         MC_ASSIGN_OR_RETURN(const at::Tensor exact, ask(i, Shards::Part::kWeight));
                         holder = exact.to(type).contiguous();
                         return bytes_of(holder);
                       }});
  }
  MC_RETURN_IF_ERROR(save_checkpoint(*source_, folder + "/model", changed));
  return write_optimizer(folder);
}

Status TrainedModel::write_optimizer(const std::string& folder) {
  NewCheckpoint state;
  at::Tensor holder;
  for (const auto& [part, prefix] : kParts)
    for (std::size_t i = 0; i < shards_->size(); ++i) {
      if (part == Shards::Part::kWeight && !rounded(i)) continue;
      state.tensors.push_back({prefix + shards_->name(i), DType::kF32, shards_->shape(i),
                               [this, i, part = part, &holder]() -> Result<std::string_view> {
                                 MC_ASSIGN_OR_RETURN(const at::Tensor exact, ask(i, part));
                                 holder = exact.contiguous();
                                 return bytes_of(holder);
                               }});
    }
  return write_checkpoint(state, folder + "/optimizer");
}

std::uint64_t TrainedModel::bytes_to_save() const {
  std::uint64_t out = 1 << 20;
  for (std::size_t i = 0; i < shards_->size(); ++i)
    out += static_cast<std::uint64_t>(shards_->tensor(i).numel()) * (rounded(i) ? 12 : 8);
  if (lora_) return out + static_cast<std::uint64_t>(trained_parameters()) * 4;
  for (const Shard& shard : source_->shards()) out += shard.file->bytes().size();
  return out;
}

Status TrainedModel::restore(const std::string& folder, std::int64_t optimizer_steps) {
  MC_ASSIGN_OR_RETURN(const Checkpoint state, Checkpoint::open(folder + "/optimizer"));
  std::optional<Checkpoint> model;
  std::optional<Lora> adapter;
  if (lora_) {
    MC_ASSIGN_OR_RETURN(adapter, Lora::open(weights_, folder + "/adapter"));
  } else {
    MC_ASSIGN_OR_RETURN(model, Checkpoint::open(folder + "/model"));
  }
  const auto take = [&](std::size_t i, Shards::Part part, const Checkpoint& from,
                        const std::string& name) -> Status {
    const TensorView* view = from.find(name);
    if (!view || view->dtype != DType::kF32 || view->shape != shards_->shape(i))
      return fail(Code::kInvalidArgument, "{}: '{}' is missing or of another shape or type", from.folder(),
                  name);
    at::Tensor value = at::empty(view->shape, at::kFloat);
    std::memcpy(value.data_ptr(), view->bytes.data(), view->bytes.size());
    shards_->restore(i, part, value);
    return ok();
  };
  for (std::size_t i = 0; i < shards_->size(); ++i) {
    const std::string& name = shards_->name(i);
    MC_RETURN_IF_ERROR(take(i, Shards::Part::kFirst, state, "first." + name));
    MC_RETURN_IF_ERROR(take(i, Shards::Part::kSecond, state, "second." + name));
    if (adapter)
      shards_->restore(i, Shards::Part::kWeight, adapter->parameters()[i].detach());
    else if (rounded(i))
      MC_RETURN_IF_ERROR(take(i, Shards::Part::kWeight, state, "weight." + name));
    else
      MC_RETURN_IF_ERROR(take(i, Shards::Part::kWeight, *model, name));
  }
  shards_->publish(optimizer_steps);
  return ok();
}

}  // namespace musacoder::train
