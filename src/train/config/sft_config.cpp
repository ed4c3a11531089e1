#include "train/config/sft_config.h"

#include <algorithm>

namespace musacoder::train {

std::vector<ConfigKey> sft_keys(SftConfig& c) {
  std::vector<ConfigKey> out = model_keys(c);
  add_keys(out, {
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
  });
  add_keys(out, optimizer_keys(c));
  add_keys(out, {
      {"eval.every", &c.eval_every, "steps between losses on `data.eval`, the first before all training; 0: only at the end"},
      {"eval.command", &c.eval_command,
       "run by /bin/sh after each checkpoint, with MUSACODER_MODEL and MUSACODER_STEP; numbers of a JSON "
       "object on its last line become metrics"},
      {"eval.timeout_s", &c.eval_timeout_s, "of the command"},
  });
  add_keys(out, log_keys(c));
  return out;
}

Status check(const SftConfig& c) {
  const auto refuse = [](const std::string& what) -> Status {
    return fail(Code::kInvalidArgument, "{}", what);
  };
  MC_RETURN_IF_ERROR(check_run(c));
  if (c.data_train.empty()) return refuse("data.train is missing: a list of JSONL files");
  const std::pair<const char*, std::int64_t> positive[] = {{"data.length", c.length - 1},
                                                           {"data.window", c.window},
                                                           {"train.batch_rows", c.batch_rows},
                                                           {"train.pass_rows", c.pass_rows}};
  for (const auto& [name, value] : positive)
    if (value < 1) return refuse(fmt::format("{} is too small", name));
  MC_RETURN_IF_ERROR(not_negative({{"train.steps", c.steps}, {"eval.every", c.eval_every}}));
  if (!(c.epochs > 0)) return refuse("train.epochs must be above 0");
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
  if (c.eval_every && c.data_eval.empty()) return refuse("eval.every needs data.eval: a list of JSONL files");
  return ok();
}

}  // namespace musacoder::train
