#include "train/config/rl_config.h"

#include <algorithm>

#include "train/config/rl_objective.h"

namespace musacoder::train {
namespace {

template <typename T>
using Names = std::vector<std::pair<const char*, T>>;

const Names<rl::Clip> kClips = {
    {"ppo", rl::Clip::kPpo}, {"cispo", rl::Clip::kCispo}, {"none", rl::Clip::kNone}};
const Names<rl::RatioLevel> kLevels = {{"token", rl::RatioLevel::kToken},
                                       {"sequence", rl::RatioLevel::kSequence},
                                       {"sequence_token", rl::RatioLevel::kSequenceToken}};
const Names<rl::Pair> kPairs = {{"current_old", rl::Pair::kCurrentOld},
                                {"current_rollout", rl::Pair::kCurrentRollout},
                                {"old_rollout", rl::Pair::kOldRollout}};
const Names<rl::Correction> kCorrections = {{"none", rl::Correction::kNone},
                                            {"token_truncated", rl::Correction::kTokenTruncated},
                                            {"token_masked", rl::Correction::kTokenMasked},
                                            {"sequence_truncated", rl::Correction::kSequenceTruncated},
                                            {"sequence_masked", rl::Correction::kSequenceMasked}};
const Names<rl::SequenceMask> kMasks = {{"none", rl::SequenceMask::kNone},
                                        {"geometric", rl::SequenceMask::kGeometric},
                                        {"mirrorpop", rl::SequenceMask::kMirrorPop},
                                        {"k2", rl::SequenceMask::kK2},
                                        {"opsm", rl::SequenceMask::kOpsm}};
const Names<rl::Normalisation> kNormalisations = {
    {"token_mean", rl::Normalisation::kTokenMean},
    {"sequence_mean_token_mean", rl::Normalisation::kSeqMeanTokenMean},
    {"sequence_mean_token_sum", rl::Normalisation::kSeqMeanTokenSum},
    {"sequence_sum_token_constant", rl::Normalisation::kSeqSumTokenNorm}};
const Names<rl::Kl> kKls = {{"k1", rl::Kl::kK1}, {"k2", rl::Kl::kK2}, {"k3", rl::Kl::kK3}};
const Names<rl::AdvantageKind> kAdvantages = {{"grpo", rl::AdvantageKind::kGrpo},
                                              {"dr_grpo", rl::AdvantageKind::kDrGrpo},
                                              {"rloo", rl::AdvantageKind::kRloo},
                                              {"none", rl::AdvantageKind::kNone}};

template <typename T>
std::vector<std::string> with_preset(const Names<T>& names) {
  std::vector<std::string> out = {"preset"};
  for (const auto& [name, value] : names) out.push_back(name);
  return out;
}

template <typename T>
std::vector<std::string> names_of(const Names<T>& names) {
  std::vector<std::string> out = with_preset(names);
  out.erase(out.begin());
  return out;
}

template <typename T>
void put(const Names<T>& names, const std::string& name, T& into) {
  for (const auto& [one, value] : names)
    if (one == name) into = value;
}

void put(double given, double& into) {
  if (given != kOfPreset) into = given;
}

std::vector<ConfigKey> rollout_keys(RlConfig& c) {
  return {
      {"tasks.train", &c.tasks_train, "JSONL files, folders or .py files in KernelBench's format"},
      {"tasks.eval", &c.tasks_eval, "the same, held out"},
      {"tasks.prompt",
       &c.prompt_form,
       "the template's form; compact is for small models",
       {"full", "compact"}},
      {"tasks.exemplar", &c.exemplar, "an example of runtime/prompts that the prompt shows; empty: none"},
      {"tasks.dialect", &c.dialect, "what kernels are asked for in", {"cuda", "musa"}},
      {"tasks.date", &c.date, "the day (Unix time) that templates which write the date are shown"},
      {"rollout.mode",
       &c.mode,
       "sync: a step's rollouts end before it is trained, the same bits each time; async: rollouts go on "
       "meanwhile",
       {"sync", "async"}},
      {"rollout.group", &c.group, "answers to a prompt"},
      {"rollout.batch", &c.batch, "prompts of a step, over all processes"},
      {"rollout.turns", &c.turns, "turns at most; a trajectory ends with its first verified one"},
      {"rollout.warmup_steps", &c.warmup_steps, "steps of one turn before those of `rollout.turns`"},
      {"rollout.temperature", &c.temperature, "of sampling; log-probabilities in training are at it too"},
      {"rollout.top_p", &c.top_p, "only the likeliest tokens that together reach it"},
      {"rollout.top_k", &c.top_k, "only the k likeliest tokens; 0: all"},
      {"rollout.prompt_tokens", &c.prompt_tokens,
       "longest prompt; tasks beyond it are left out and counted, later turns end"},
      {"rollout.response_tokens", &c.response_tokens, "longest answer of a turn"},
      {"rollout.type",
       &c.rollout_type,
       "what rollouts are computed in; same: as training",
       {"same", "f32", "bf16"}},
      {"rollout.publish_every", &c.publish_every,
       "steps after which rollouts get new weights; above 1 they lag on purpose"},
      {"rollout.staleness", &c.staleness, "async: most steps that a trained token's weights may be behind"},
      {"rollout.swap_cache",
       &c.swap_cache,
       "async: what becomes of running answers' keys and values when weights change: kept, or read again "
       "with the new ones",
       {"keep", "recompute"}},
      {"rollout.max_running", &c.max_running, "answers at a time"},
      {"rollout.cache_tokens", &c.cache_tokens,
       "room for keys and values; 0: for all that may run at a time"},
      {"rollout.informative_only", &c.informative_only,
       "dynamic sampling: groups of equal rewards are dropped and others drawn"},
      {"rollout.waves", &c.waves, "draws at most for a step's prompts, where some are dropped"},
  };
}

std::vector<ConfigKey> objective_keys(RlConfig& c) {
  return {
      {"reward.kind",
       &c.reward,
       "a trajectory's return: PrimeEcho's, or its first, last or best turn's score",
       {"echo", "first", "last", "best"}},
      {"reward.alpha", &c.alpha, "PrimeEcho: the first turn's part (eq. 9)"},
      {"reward.first_bonus", &c.first_bonus, "PrimeEcho: for a success at turn 1 (eq. 10)"},
      {"reward.second_bonus", &c.second_bonus, "PrimeEcho: for the first success at turn 2"},
      {"reward.overlong_cache", &c.overlong_cache,
       "DAPO's soft punishment over an answer's last so many tokens; 0: none"},
      {"advantage.kind", &c.advantage, "from the returns of a group", names_of(kAdvantages)},
      {"advantage.epsilon", &c.advantage_epsilon, "grpo: added to the deviation"},
      {"advantage.sample_std", &c.sample_std, "grpo: the deviation's divisor is n - 1"},
      {"objective.preset", &c.preset,
       "the method; what follows overrides its parts, -1 and preset leave them", rl::preset_names()},
      {"objective.ratio_level", &c.ratio_level, "ratios of tokens, or one of a whole response",
       with_preset(kLevels)},
      {"objective.ratio", &c.ratio, "which log-probabilities the ratio is of", with_preset(kPairs)},
      {"objective.clip", &c.clip_kind, "how the ratio is bounded", with_preset(kClips)},
      {"objective.clip_low", &c.clip_low, "ratios below 1 - this are clipped"},
      {"objective.clip_high", &c.clip_high, "and above 1 + this"},
      {"objective.clip_dual", &c.clip_dual, "dual clip for negative advantages; 0: off"},
      {"objective.correction", &c.correction, "weights for the mismatch of rollout and training",
       with_preset(kCorrections)},
      {"objective.correction_low", &c.correction_low, "masked: below"},
      {"objective.correction_high", &c.correction_high, "truncated to, or masked above"},
      {"objective.mask", &c.mask, "whole responses that are left out", with_preset(kMasks)},
      {"objective.mask_pair", &c.mask_pair, "whose log ratio the mask looks at", with_preset(kPairs)},
      {"objective.mask_low", &c.mask_low, "geometric: of the mean ratio"},
      {"objective.mask_high", &c.mask_high, "geometric"},
      {"objective.mask_delta", &c.mask_delta, "mirrorpop, k2, opsm: bound of the mean"},
      {"objective.normalisation", &c.normalisation, "what the sum over tokens is divided by",
       with_preset(kNormalisations)},
      {"objective.kl", &c.kl, "coefficient of the KL to the reference; 0: no reference is kept"},
      {"objective.kl_kind", &c.kl_kind, "its estimate", names_of(kKls)},
      {"objective.reference", &c.reference,
       "folder of the reference; empty: model.path (with adapters: the same weights without them)"},
  };
}

std::vector<ConfigKey> step_keys(RlConfig& c) {
  return {
      {"train.steps", &c.steps, "batches of rollouts"},
      {"train.mini_batches", &c.mini_batches, "parts of a batch, a step of the optimizer each"},
      {"train.batch_epochs", &c.batch_epochs, "times through each batch"},
      {"train.pass_tokens", &c.pass_tokens,
       "tokens of one forward and backward pass, prompts included; a response is never divided"},
      {"train.turns",
       &c.train_turns,
       "turns whose tokens are trained; PrimeEcho: the first",
       {"first", "all"}},
      {"train.old_logprobs",
       &c.old_logprobs,
       "recomputed before the first update of a batch; auto: where a batch has several",
       {"auto", "always"}},
      {"train.mask_truncated", &c.mask_truncated,
       "answers that were cut off are not trained (their reward counts in the group)"},
  };
}

std::vector<ConfigKey> outside_keys(RlConfig& c) {
  return {
      {"retry.probability", &c.retry_probability,
       "Buffered Dynamic Retry: of a prompt to come from the buffer (eq. 16); 0: off"},
      {"retry.start_step", &c.retry_start, "before it nothing is drawn"},
      {"retry.capacity", &c.retry_capacity, "prompts in the buffer"},
      {"retry.most_retries", &c.retry_most, "of one prompt"},
      {"verifier.url", &c.verifier_url,
       "a running `musacoder serve`; empty: one is started beside each process"},
      {"verifier.token_file", &c.verifier_token_file, "file with the bearer token of `verifier.url`"},
      {"verifier.program", &c.verifier_program, "what is started; empty: `musacoder` beside this program"},
      {"verifier.args", &c.verifier_args, "its further arguments, such as [\"--trials\", \"5\"]"},
      {"verifier.lanes", &c.verifier_lanes, "candidates that it judges at a time; 0: one a core"},
      {"verifier.connections", &c.verifier_connections, "jobs that are with it at a time"},
      {"verifier.retries", &c.verifier_retries,
       "of a job that ended in infra:*; after them its reward is null"},
      {"verifier.timeout_s", &c.verifier_timeout_s,
       "of one job with all its waiting; after it the reward is null"},
      {"eval.every", &c.eval_every,
       "steps between evaluations on `tasks.eval`, the first before all training; 0: only at the end"},
      {"eval.samples", &c.eval_samples, "answers to each task: pass@1 and pass@samples"},
      {"eval.turns", &c.eval_turns, "turns at most"},
      {"eval.temperature", &c.eval_temperature, "of sampling"},
      {"eval.top_p", &c.eval_top_p, "of sampling"},
      {"eval.verifier_url", &c.eval_url,
       "a stricter service; empty: one is started with `eval.verifier_args`, or `verifier.url` is asked with "
       "another seed"},
      {"eval.verifier_args", &c.eval_args,
       "arguments of that service: more trials and another seed than what pays"},
  };
}

}  // namespace

std::vector<ConfigKey> rl_keys(RlConfig& c) {
  std::vector<ConfigKey> out = model_keys(c);
  add_keys(out, rollout_keys(c));
  add_keys(out, objective_keys(c));
  add_keys(out, step_keys(c));
  add_keys(out, optimizer_keys(c));
  add_keys(out, outside_keys(c));
  add_keys(out, log_keys(c));
  add_keys(out, {{"log.answers", &c.log_answers, "answers of each step that are written to answers.jsonl"}});
  return out;
}

Status check(const RlConfig& c) {
  const auto refuse = [](const std::string& what) -> Status {
    return fail(Code::kInvalidArgument, "{}", what);
  };
  MC_RETURN_IF_ERROR(check_run(c));
  if (c.tasks_train.empty()) return refuse("tasks.train is missing: JSONL files, folders or .py files");
  const std::pair<const char*, std::int64_t> positive[] = {{"rollout.group", c.group},
                                                           {"rollout.batch", c.batch},
                                                           {"rollout.turns", c.turns},
                                                           {"rollout.prompt_tokens", c.prompt_tokens},
                                                           {"rollout.response_tokens", c.response_tokens},
                                                           {"rollout.publish_every", c.publish_every},
                                                           {"rollout.max_running", c.max_running},
                                                           {"rollout.waves", c.waves},
                                                           {"train.mini_batches", c.mini_batches},
                                                           {"train.batch_epochs", c.batch_epochs},
                                                           {"train.pass_tokens", c.pass_tokens},
                                                           {"verifier.connections", c.verifier_connections},
                                                           {"eval.samples", c.eval_samples},
                                                           {"eval.turns", c.eval_turns}};
  for (const auto& [name, value] : positive)
    if (value < 1) return refuse(fmt::format("{} is too small", name));
  MC_RETURN_IF_ERROR(not_negative({{"rollout.warmup_steps", c.warmup_steps},
                                   {"rollout.top_k", c.top_k},
                                   {"rollout.staleness", c.staleness},
                                   {"rollout.cache_tokens", c.cache_tokens},
                                   {"reward.overlong_cache", c.overlong_cache},
                                   {"advantage.epsilon", c.advantage_epsilon},
                                   {"objective.kl", c.kl},
                                   {"train.steps", c.steps},
                                   {"retry.start_step", c.retry_start},
                                   {"retry.capacity", c.retry_capacity},
                                   {"retry.most_retries", c.retry_most},
                                   {"verifier.lanes", c.verifier_lanes},
                                   {"verifier.retries", c.verifier_retries},
                                   {"eval.every", c.eval_every},
                                   {"log.answers", c.log_answers}}));
  if (!(c.temperature > 0)) return refuse("rollout.temperature must be above 0: rollouts are samples");
  if (!(c.top_p > 0 && c.top_p <= 1)) return refuse("rollout.top_p lies in 0 .. 1");
  if (!(c.retry_probability >= 0 && c.retry_probability <= 1))
    return refuse("retry.probability lies in 0 .. 1");
  if (!(c.verifier_timeout_s > 0)) return refuse("verifier.timeout_s must be above 0");
  if (c.overlong_cache > c.response_tokens)
    return refuse("reward.overlong_cache is a part of rollout.response_tokens");
  if (c.group > c.max_running)
    return refuse(
        fmt::format("rollout.max_running ({}) must hold a whole group ({})", c.max_running, c.group));
  if (c.mini_batches > c.batch) return refuse("train.mini_batches: a batch has no more parts than prompts");
  for (const auto& [name, every] :
       {std::pair("checkpoint.every", c.checkpoint_every), std::pair("eval.every", c.eval_every)})
    if (every % c.publish_every != 0)
      return refuse(fmt::format(
          "{} ({}) must be a multiple of rollout.publish_every ({}): between two the rollouts' weights "
          "are in no checkpoint",
          name, every, c.publish_every));
  if (c.mode == "async" && c.publish_every > c.staleness + 1)
    return refuse("rollout.publish_every beyond rollout.staleness + 1 would drop every rollout as too old");
  if (c.eval_every && c.tasks_eval.empty()) return refuse("eval.every needs tasks.eval");
  MC_RETURN_IF_ERROR(rl::check(echo_of(c)));
  return objective_of(c).map([](const auto&) {});
}

Result<rl::ObjectiveConfig> objective_of(const RlConfig& c) {
  MC_ASSIGN_OR_RETURN(rl::ObjectiveConfig out, rl::preset(c.preset));
  put(kLevels, c.ratio_level, out.level);
  put(kPairs, c.ratio, out.ratio);
  put(kClips, c.clip_kind, out.clip.kind);
  put(c.clip_low, out.clip.low);
  put(c.clip_high, out.clip.high);
  put(c.clip_dual, out.clip.dual);
  put(kCorrections, c.correction, out.correction.kind);
  put(c.correction_low, out.correction.low);
  put(c.correction_high, out.correction.high);
  put(kMasks, c.mask, out.sequence_mask.kind);
  put(kPairs, c.mask_pair, out.sequence_mask.pair);
  put(c.mask_low, out.sequence_mask.low);
  put(c.mask_high, out.sequence_mask.high);
  put(c.mask_delta, out.sequence_mask.delta);
  put(kNormalisations, c.normalisation, out.normalisation);
  put(kKls, c.kl_kind, out.kl);
  out.kl_coefficient = c.kl;
  out.token_constant = static_cast<double>(c.response_tokens);
  return out;
}

rl::AdvantageConfig advantage_of(const RlConfig& c) {
  rl::AdvantageConfig out{.epsilon = c.advantage_epsilon, .sample_std = c.sample_std};
  put(kAdvantages, c.advantage, out.kind);
  return out;
}

rl::EchoConfig echo_of(const RlConfig& c) {
  return {.alpha = c.alpha, .first_bonus = c.first_bonus, .second_bonus = c.second_bonus};
}

rl::RetryConfig retry_of(const RlConfig& c) {
  return {.capacity = static_cast<std::size_t>(c.retry_capacity),
          .probability = c.retry_probability,
          .start_step = c.retry_start,
          .most_retries = static_cast<int>(c.retry_most)};
}

std::int64_t turns_at(const RlConfig& c, std::int64_t step) { return step < c.warmup_steps ? 1 : c.turns; }

}  // namespace musacoder::train
