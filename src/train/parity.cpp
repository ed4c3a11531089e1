#include "train/parity.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "llm/checkpoint/atomic_folder.h"
#include "llm/checkpoint/safetensors.h"
#include "llm/checkpoint/strict_json.h"
#include "llm/kernels/cuda/load.h"
#include "llm/model/decoder.h"
#include "llm/model/logprobs.h"
#include "llm/torch.h"
#include "train/adamw.h"

namespace musacoder::train {
namespace {

using namespace musacoder::llm;
using nlohmann::json;

struct Named {
  std::string name;
  at::Tensor tensor;
};

Status write_tensors(std::vector<Named> all, const std::string& path) {
  std::vector<TensorView> views;
  std::vector<std::string_view> pieces = {{}};
  for (Named& one : all) {
    one.tensor = one.tensor.detach().to(at::kCPU, at::kFloat).contiguous();
    const std::string_view bytes(static_cast<const char*>(one.tensor.const_data_ptr()), one.tensor.nbytes());
    views.push_back({one.name, DType::kF32, one.tensor.sizes().vec(), bytes});
    pieces.push_back(bytes);
  }
  MC_ASSIGN_OR_RETURN(const std::string head, safetensors_header(views, {{"format", "pt"}}));
  pieces[0] = head;
  const std::string unfinished = fmt::format("{}.tmp-{}", path, ::getpid());
  MC_RETURN_IF_ERROR(write_file_synced(unfinished, pieces));
  if (std::rename(unfinished.c_str(), path.c_str()) == 0) return ok();
  const int error = errno;
  std::remove(unfinished.c_str());
  return fail(Code::kInvalidArgument, "{}: {}", path, std::strerror(error));
}

Result<std::vector<std::vector<std::int64_t>>> read_sequences(const json& input, const std::string& where,
                                                              std::int64_t vocab) {
  std::vector<std::vector<std::int64_t>> out;
  const auto given = input.find("sequences");
  if (given == input.end() || !given->is_array() || given->empty())
    return fail(Code::kInvalidArgument, "{}: \"sequences\" must be an array of arrays of token ids", where);
  for (const json& one : *given) {
    if (!one.is_array() || one.empty())
      return fail(Code::kInvalidArgument, "{}: a sequence is no array or empty", where);
    out.emplace_back();
    for (const json& id : one) {
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= vocab)
        return fail(Code::kInvalidArgument, "{}: {} is no token id below {}", where, id.dump(), vocab);
      out.back().push_back(id.get<std::int64_t>());
    }
  }
  return out;
}

// A misspelt key would otherwise compare something else than was meant.
Status check_keys(const json& input, const std::string& where) {
  for (const auto& [key, value] : input.items())
    if (key != "sequences" && key != "type" && key != "chunk_bytes" && key != "recompute" && key != "adamw" &&
        key != "lora" && key != "device")
      return fail(
          Code::kInvalidArgument,
          "{}: \"{}\" is not known; known are sequences, type, device, chunk_bytes, recompute, adamw, lora",
          where, key);
  return ok();
}

Result<WeightType> weight_type(const json& input, const std::string& where) {
  const std::string given = input.value("type", "f32");
  for (const auto& [name, type] :
       {std::pair{"f32", WeightType::kF32}, {"bf16", WeightType::kBF16}, {"f64", WeightType::kF64}})
    if (given == name) return type;
  return fail(Code::kInvalidArgument, "{}: type '{}' is not known; give f32, bf16 or f64", where, given);
}

Status compute(const std::string& model, const json& input, const std::string& where,
               const std::string& out) {
  MC_RETURN_IF_ERROR(check_keys(input, where));
  MC_ASSIGN_OR_RETURN(const WeightType type, weight_type(input, where));
  MC_ASSIGN_OR_RETURN(const at::Device device, open_device(input.value("device", "cpu")));
  MC_ASSIGN_OR_RETURN(
      const Weights weights,
      Weights::open(model, {.type = type, .trainable = !input.contains("lora"), .device = device}));
  MC_ASSIGN_OR_RETURN(const auto sequences, read_sequences(input, where, weights.config().vocab));
  std::optional<Lora> lora;
  if (const auto folder = input.find("lora"); folder != input.end()) {
    MC_ASSIGN_OR_RETURN(lora, Lora::open(weights, folder->get<std::string>()));
  }
  const Decoder decoder(weights, lora ? &*lora : nullptr);
  const Packed on_host = pack(sequences), batch = on_device(on_host, device);
  const at::Tensor targets = next_tokens(on_host).to(device);
  PackedAttention attention(batch);
  const std::vector<std::string> names = lora ? lora->names() : weights.names();
  std::vector<at::Tensor> parameters;
  if (lora)
    parameters = lora->parameters();
  else
    for (const std::string& name : names) parameters.push_back(weights.get(name));
  const Activations activations =
      input.value("recompute", false) ? Activations::kRecompute : Activations::kKeep;
  const std::int64_t chunk_bytes = input.value("chunk_bytes", kLogitBytes);

  std::vector<Named> results;
  const auto backward = [&](bool keep) {
    const at::Tensor hidden = decoder.hidden(batch, attention, Rows::kFast, activations);
    const at::Tensor logprobs = token_logprobs(hidden, decoder.head(), targets, 1, chunk_bytes);
    const at::Tensor loss = mean_loss(logprobs, targets);
    loss.backward();
    if (!keep) return;
    const at::NoGradGuard no_grad;
    results.push_back({"logits", at::linear(hidden, decoder.head())});
    results.push_back({"logprobs", logprobs});
    results.push_back({"loss", loss});
    for (std::size_t i = 0; i < parameters.size(); ++i)
      results.push_back({"grad." + names[i], parameters[i].grad().clone()});
  };
  backward(true);
  if (const auto given = input.find("adamw"); given != input.end()) {
    AdamWConfig config;
    config.learning_rate = given->value("lr", config.learning_rate);
    config.epsilon = given->value("eps", config.epsilon);
    config.weight_decay = given->value("weight_decay", config.weight_decay);
    const auto betas = given->value("betas", std::vector<double>{config.beta1, config.beta2});
    if (betas.size() != 2) return fail(Code::kInvalidArgument, "{}: \"betas\" must be two numbers", where);
    config.beta1 = betas[0];
    config.beta2 = betas[1];
    AdamW optimizer(parameters, config);
    for (int left = given->value("steps", 1); left > 0; --left) {
      if (const auto limit = given->find("max_grad_norm"); limit != given->end())
        clip_gradients(parameters, limit->get<double>());
      optimizer.step();
      clear_gradients(parameters);
      if (left > 1) backward(false);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i)
      results.push_back({"step." + names[i], parameters[i]});
  }
  return write_tensors(std::move(results), out);
}

}  // namespace

Status run_parity(const std::string& model, const std::string& input, const std::string& out) {
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(input, 64 << 20));
  MC_ASSIGN_OR_RETURN(const json given, parse_strict_json(text, input));
  try {
    return compute(model, given, input, out);
  } catch (const json::exception& error) {
    return fail(Code::kInvalidArgument, "{}: {}", input, error.what());
  } catch (const std::exception& error) {  // libtorch's own errors
    return fail(Code::kInternal, "{}: {}", model, error.what());
  }
}

}  // namespace musacoder::train
