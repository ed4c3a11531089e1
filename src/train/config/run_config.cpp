#include "train/config/run_config.h"

#include <utility>

namespace musacoder::train {

std::vector<ConfigKey> model_keys(RunConfig& c) {
  return {
      {"model.path", &c.model_path,
       "folder in Hugging Face's layout; a GGUF file is converted first with `musacoder model convert`"},
      {"model.type",
       &c.model_type,
       "what is computed in; with bf16, weights are kept and stepped in float32 beside it",
       {"f32", "bf16"}},
      {"run.dir", &c.run_dir, "where checkpoints and metrics go; what stands there is taken up again"},
      {"run.device", &c.device, "`cpu`, `cuda` or `cuda:N`; `cuda` takes the one of LOCAL_RANK"},
      {"run.seed", &c.seed, "of the order of the data and of new adapters"},
      {"run.threads", &c.threads, "0: one a core; results are the same bits for the same number"},
  };
}

std::vector<ConfigKey> optimizer_keys(RunConfig& c) {
  return {
      {"train.recompute", &c.recompute, "activation checkpointing: a layer keeps its input only"},
      {"optimizer.lr", &c.lr, "learning rate after the warm-up"},
      {"optimizer.beta1", &c.beta1, "AdamW's decay of the first moment"},
      {"optimizer.beta2", &c.beta2, "and of the second"},
      {"optimizer.epsilon", &c.epsilon, "AdamW's"},
      {"optimizer.weight_decay", &c.weight_decay, "on matrices; norms and biases have none"},
      {"optimizer.clip", &c.clip, "largest 2-norm of the gradient; 0: no limit"},
      {"schedule.kind", &c.schedule, "after the warm-up", {"cosine", "linear", "constant"}},
      {"schedule.warmup", &c.warmup, "below 1: part of all steps; from 1 on: steps"},
      {"schedule.floor", &c.floor, "part of the learning rate that is left at the end"},
      {"lora.rank", &c.lora_rank, "of adapters; 0: the whole model is trained"},
      {"lora.alpha", &c.lora_alpha, "adapters are scaled by alpha / rank"},
      {"lora.targets", &c.lora_targets, "linears that get an adapter"},
      {"checkpoint.every", &c.checkpoint_every, "steps between checkpoints; 0: only at the end"},
      {"checkpoint.keep", &c.checkpoint_keep, "newest checkpoints that stay; 0: all"},
  };
}

std::vector<ConfigKey> log_keys(RunConfig& c) {
  return {
      {"log.every", &c.log_every, "steps between lines of metrics"},
      {"log.tensorboard", &c.tensorboard, "event files in `run.dir`/tensorboard"},
      {"parallel.shard",
       &c.shard,
       "what is divided among processes: the optimizer's state (ZeRO-1), or weights and gradients too "
       "(ZeRO-3)",
       {"optimizer", "parameters"}},
      {"parallel.backend", &c.backend, "auto: nccl on a CUDA device, else gloo", {"auto", "gloo", "nccl"}},
  };
}

void add_keys(std::vector<ConfigKey>& keys, std::vector<ConfigKey> more) {
  for (ConfigKey& one : more) keys.push_back(std::move(one));
}

Status check_run(const RunConfig& c) {
  const auto refuse = [](const std::string& what) -> Status {
    return fail(Code::kInvalidArgument, "{}", what);
  };
  if (c.model_path.empty()) return refuse("model.path is missing: the folder of the model to train");
  if (c.run_dir.empty()) return refuse("run.dir is missing: where checkpoints and metrics go");
  if (c.log_every < 1) return refuse("log.every is too small");
  MC_RETURN_IF_ERROR(not_negative({{"run.threads", c.threads},
                                   {"lora.rank", c.lora_rank},
                                   {"checkpoint.every", c.checkpoint_every},
                                   {"checkpoint.keep", c.checkpoint_keep},
                                   {"optimizer.lr", c.lr},
                                   {"optimizer.weight_decay", c.weight_decay},
                                   {"optimizer.clip", c.clip},
                                   {"schedule.warmup", c.warmup},
                                   {"schedule.floor", c.floor}}));
  if (!(c.epsilon > 0)) return refuse("optimizer.epsilon must be above 0");
  if (!(c.beta1 >= 0 && c.beta1 < 1 && c.beta2 >= 0 && c.beta2 < 1))
    return refuse("optimizer.beta1 and beta2 lie in 0 .. 1");
  if (c.floor > 1) return refuse("schedule.floor is a part of the learning rate: at most 1");
  if (c.lora_rank && c.shard == "parameters")
    return refuse("lora.rank and parallel.shard = \"parameters\" are not built together: adapters are small");
  return ok();
}

Status not_negative(std::initializer_list<std::pair<const char*, double>> values) {
  for (const auto& [name, value] : values)
    if (!(value >= 0)) return fail(Code::kInvalidArgument, "{} is negative", name);
  return ok();
}

}  // namespace musacoder::train
