#include "train/bench.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "llm/kernels/cuda/load.h"
#include "llm/kernels/cuda/optimizer.h"
#include "llm/model/decoder.h"
#include "llm/model/logprobs.h"
#include "llm/torch.h"
#include "train/adamw.h"
#include "train/trace.h"

namespace musacoder::train {
namespace {

using namespace musacoder::llm;

std::vector<std::vector<std::int64_t>> made_up(const BenchOptions& options, std::int64_t vocab) {
  std::vector<std::vector<std::int64_t>> out(static_cast<std::size_t>(options.batch));
  for (std::int64_t b = 0; b < options.batch; ++b)
    for (std::int64_t t = 0; t < options.length; ++t)
      out[static_cast<std::size_t>(b)].push_back((1000003 * b + 7919 * t + t * t % 97) % vocab);
  return out;
}

// AdamW with float32 masters on a GPU, the plain one elsewhere.
class Optimizer {
 public:
  Optimizer(std::vector<at::Tensor> parameters, double learning_rate)
      : fused_(fused_on(parameters[0])),
        plain_(fused_ ? std::vector<at::Tensor>() : parameters, {learning_rate}) {
    factors_.learning_rate = learning_rate;
    tensors_.parameters = std::move(parameters);
    if (!fused_) return;
    for (const at::Tensor& one : tensors_.parameters) {
      const at::Tensor master = one.detach().to(at::kFloat);
      tensors_.first.push_back(at::zeros_like(master));
      tensors_.second.push_back(at::zeros_like(master));
      if (one.scalar_type() != at::kFloat) tensors_.masters.push_back(master);
    }
  }
  void step() {
    if (fused_) {
      tensors_.gradients.clear();
      for (const at::Tensor& one : tensors_.parameters) tensors_.gradients.push_back(one.grad());
      step_.run(tensors_, factors_, 1.0);
      ++factors_.step;
    } else {
      clip_gradients(tensors_.parameters, 1.0);
      plain_.step();
    }
    clear_gradients(tensors_.parameters);
  }

 private:
  bool fused_;
  AdamW plain_;
  AdamWTensors tensors_;
  AdamWFactors factors_;
  FusedAdamW step_;
};

}  // namespace

Status run_bench(const BenchOptions& options) {
  using Clock = std::chrono::steady_clock;
  MC_ASSIGN_OR_RETURN(const at::Device device, open_device(options.device));
  MC_ASSIGN_OR_RETURN(
      const Weights weights,
      Weights::open(options.model, {.type = options.type == "f32" ? WeightType::kF32 : WeightType::kBF16,
                                    .trainable = true,
                                    .device = device}));
  try {
    const Decoder decoder(weights);
    std::vector<at::Tensor> parameters;
    std::int64_t count = 0;
    for (const std::string& name : weights.names()) {
      parameters.push_back(weights.get(name));
      count += parameters.back().numel();
    }
    Optimizer optimizer(parameters, options.learning_rate);
    const Packed on_host = pack(made_up(options, weights.config().vocab));
    const Packed batch = on_device(on_host, device);
    const at::Tensor targets = next_tokens(on_host).to(device);
    PackedAttention attention(batch);
    const auto step = [&] {
      const at::Tensor hidden = decoder.hidden(
          batch, attention, Rows::kFast, options.recompute ? Activations::kRecompute : Activations::kKeep);
      const at::Tensor loss = mean_loss(token_logprobs(hidden, decoder.head(), targets), targets);
      loss.backward();
      optimizer.step();
      return loss.detach();
    };
    at::Tensor first, last;
    for (int i = 0; i < options.warm_up; ++i) {
      last = step();
      if (i == 0) first = last;
    }
    synchronize(device);
    const auto began = Clock::now();
    for (int i = 0; i < options.steps; ++i) {
      last = step();
      if (!first.defined()) first = last;
    }
    synchronize(device);
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    const auto tokens = static_cast<double>(options.batch) * options.length * options.steps;
    const nlohmann::json line = {
        {"tokens_per_s", tokens / seconds},  {"ms_per_step", 1000 * seconds / options.steps},
        {"peak_bytes", peak_memory(device)}, {"first_loss", first.item<double>()},
        {"last_loss", last.item<double>()},  {"parameters", count},
        {"fused", fused_on(parameters[0])}};
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
    if (!options.trace.empty()) {
      Trace trace(device);
      step();
      synchronize(device);
      trace.save(options.trace);
    }
    return ok();
  } catch (const std::exception& error) {
    return fail(Code::kInternal, "{}: {}", options.model, error.what());
  }
}

}  // namespace musacoder::train
