#include "train/config/sft_config.h"

#include <algorithm>

namespace musacoder::train {

std::vector<ConfigKey> sft_keys(SftConfig& c) {
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
      {"data.train", &c.data_train, "JSONL files"},
      {"data.eval", &c.data_eval, "JSONL files that are held out"},
      {"data.length", &c.length, "tokens of a row, into which examples are packed"},
      {"data.packing", &c.packing, "false: a row is one example"},
      {"data.window", &c.window,
       "rows that are open at a time while packing; more waste less and disturb the order more"},
      {"data.too_long",
       &c.too_long,
       "examples longer than `data.length`: left out and counted, an error, or their end cut off and counted",
       {"drop", "error", "cut"}},
      {"data.loss", &c.loss, "on the last answer, or on all tokens", {"answer", "all"}},
      {"data.control_text",
       &c.control_text,
       "messages that hold the chat format's own words",
       {"error", "allow"}},
      {"data.date", &c.date, "the day (Unix time) that templates which write the date are shown"},
      {"mixture.weights", &c.weights,
       "a table: how often an epoch goes through a family's examples; 1 where none is given"},
      {"mixture.shares", &c.shares,
       "a table: the part of an epoch's examples that is of a family, however many it has"},
      {"train.epochs", &c.epochs, "times through the mixture; a fraction ends within one"},
      {"train.steps", &c.steps, "steps of the optimizer; 0: as many as the epochs have"},
      {"train.batch_rows", &c.batch_rows, "rows of a step, over all processes"},
      {"train.pass_rows", &c.pass_rows,
       "rows of one forward and backward pass; a step takes as many passes as it needs"},
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
      {"eval.every", &c.eval_every, "steps between losses on `data.eval`, the first before all training; 0: only at the end"},
      {"eval.command", &c.eval_command,
       "run by /bin/sh after each checkpoint, with MUSACODER_MODEL and MUSACODER_STEP; numbers of a JSON "
       "object on its last line become metrics"},
      {"eval.timeout_s", &c.eval_timeout_s, "of the command"},
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

Status check(const SftConfig& c) {
  const auto refuse = [](const std::string& what) -> Status {
    return fail(Code::kInvalidArgument, "{}", what);
  };
  if (c.model_path.empty()) return refuse("model.path is missing: the folder of the model to train");
  if (c.run_dir.empty()) return refuse("run.dir is missing: where checkpoints and metrics go");
  if (c.data_train.empty()) return refuse("data.train is missing: a list of JSONL files");
  const std::pair<const char*, std::int64_t> positive[] = {{"data.length", c.length - 1},
                                                           {"data.window", c.window},
                                                           {"train.batch_rows", c.batch_rows},
                                                           {"train.pass_rows", c.pass_rows},
                                                           {"log.every", c.log_every}};
  for (const auto& [name, value] : positive)
    if (value < 1) return refuse(fmt::format("{} is too small", name));
  const std::pair<const char*, double> not_negative[] = {{"run.threads", c.threads},
                                                         {"train.steps", c.steps},
                                                         {"lora.rank", c.lora_rank},
                                                         {"checkpoint.every", c.checkpoint_every},
                                                         {"checkpoint.keep", c.checkpoint_keep},
                                                         {"eval.every", c.eval_every},
                                                         {"optimizer.lr", c.lr},
                                                         {"optimizer.weight_decay", c.weight_decay},
                                                         {"optimizer.clip", c.clip},
                                                         {"schedule.warmup", c.warmup},
                                                         {"schedule.floor", c.floor}};
  for (const auto& [name, value] : not_negative)
    if (!(value >= 0)) return refuse(fmt::format("{} is negative", name));
  if (!(c.epochs > 0)) return refuse("train.epochs must be above 0");
  if (!(c.epsilon > 0)) return refuse("optimizer.epsilon must be above 0");
  if (!(c.beta1 >= 0 && c.beta1 < 1 && c.beta2 >= 0 && c.beta2 < 1))
    return refuse("optimizer.beta1 and beta2 lie in 0 .. 1");
  if (c.floor > 1) return refuse("schedule.floor is a part of the learning rate: at most 1");
  double shares = 0;
  for (const auto& [family, weight] : c.weights)
    if (!(weight >= 0)) return refuse(fmt::format("mixture.weights.{} is negative", family));
  for (const auto& [family, share] : c.shares) {
    if (!(share >= 0)) return refuse(fmt::format("mixture.shares.{} is negative", family));
    if (c.weights.count(family))
      return refuse(fmt::format("family '{}' has a weight and a share; give one", family));
    shares += share;
  }
  if (shares > 1 + 1e-9) return refuse("mixture.shares add up to more than 1");
  if (c.lora_rank && c.shard == "parameters")
    return refuse("lora.rank and parallel.shard = \"parameters\" are not built together: adapters are small");
  if (c.eval_every && c.data_eval.empty()) return refuse("eval.every needs data.eval: a list of JSONL files");
  return ok();
}

}  // namespace musacoder::train
