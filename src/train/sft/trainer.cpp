#include "train/sft/trainer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/subprocess.h"
#include "train/run/run_state.h"
#include "train/run/stop_signal.h"

namespace musacoder::train {
namespace {

// What the order of the data and the meaning of the saved state hang on.
constexpr const char* kFixedKeys[] = {"model.type",  "run.seed",        "data.length",    "data.packing",
                                      "data.window", "mixture.weights", "mixture.shares", "train.batch_rows",
                                      "lora.rank",   "lora.alpha",      "lora.targets"};

nlohmann::ordered_json config_of(SftConfig config) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  const nlohmann::json all = config_json(sft_keys(config));
  for (const auto& [key, value] : all.items()) out[key] = value;
  return out;
}

nlohmann::ordered_json state_json(const RunState& state) {
  return {{"step", state.step},
          {"epoch", state.epoch},
          {"row", state.row},
          {"optimizer_steps", state.optimizer_steps},
          {"skipped", state.skipped},
          {"tokens", state.tokens},
          {"loss_tokens", state.loss_tokens},
          {"examples", state.examples},
          {"data", state.data},
          {"config", state.config},
          {"random", state.random}};
}

Result<RunState> read_state(const std::string& checkpoint) {
  MC_ASSIGN_OR_RETURN(const auto json, RunFolder::read(checkpoint));
  try {
    RunState out;
    const std::pair<const char*, std::int64_t*> numbers[] = {{"step", &out.step},
                                                             {"epoch", &out.epoch},
                                                             {"row", &out.row},
                                                             {"optimizer_steps", &out.optimizer_steps},
                                                             {"skipped", &out.skipped},
                                                             {"tokens", &out.tokens},
                                                             {"loss_tokens", &out.loss_tokens},
                                                             {"examples", &out.examples}};
    for (const auto& [name, value] : numbers) *value = json.at(name).get<std::int64_t>();
    out.data = json.at("data").get<std::uint64_t>();
    out.config = json.at("config");
    out.random = json.at("random").get<std::string>();
    return out;
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kInvalidArgument, "{}/trainer.json: {}", checkpoint, error.what());
  }
}

// "  eval/loss 2.2360", for the end of a line of progress.
std::string said(const Numbers& numbers) {
  std::string out;
  for (const auto& [name, value] : numbers) out += fmt::format("  {} {:.4f}", name, value);
  return out;
}

std::size_t parts(std::size_t count, std::size_t of) { return (count + of - 1) / of; }

}  // namespace

Trainer::Trainer(const SftConfig& config, Dataset data, std::optional<Dataset> eval, TrainedModel& model,
                 Communicator& all)
    : config_(config),
      data_(std::move(data)),
      eval_(std::move(eval)),
      model_(model),
      all_(all),
      mixture_{config.weights, config.shares},
      rows_{config.length, config.packing, config.window},
      folder_(config.run_dir) {
  state_.data = data_.fingerprint();
  state_.config = config_of(config);
  if (eval_) eval_plan_ = plan_in_order(*eval_, rows_);
  std::int64_t steps = config.steps;
  if (steps == 0)
    for (std::int64_t epoch = 0; static_cast<double>(epoch) < config.epochs; ++epoch) {
      const auto rows = plan_epoch(data_, mixture_, rows_, static_cast<std::uint64_t>(config.seed),
                                   static_cast<std::uint64_t>(epoch))
                            .rows.size();
      const double part = std::min(1.0, config.epochs - static_cast<double>(epoch));
      steps += static_cast<std::int64_t>(
          std::ceil(part * static_cast<double>(parts(rows, static_cast<std::size_t>(config.batch_rows)))));
    }
  const double warmup = config.warmup < 1 ? config.warmup * static_cast<double>(steps) : config.warmup;
  schedule_ = {config.schedule == "cosine"   ? Schedule::Kind::kCosine
               : config.schedule == "linear" ? Schedule::Kind::kLinear
                                             : Schedule::Kind::kConstant,
               steps, static_cast<std::int64_t>(std::ceil(warmup)), config.floor};
  load_epoch();
}

void Trainer::load_epoch() {
  if (planned_epoch_ == state_.epoch) return;
  plan_ = plan_epoch(data_, mixture_, rows_, static_cast<std::uint64_t>(config_.seed),
                     static_cast<std::uint64_t>(state_.epoch));
  planned_epoch_ = state_.epoch;
}

std::string Trainer::describe() const {
  const RowCounts counts = count_rows(data_, plan_, 0, plan_.rows.size());
  std::string out = fmt::format(
      "{:.1f} M parameters{}, {:.2f} M of them trained, on {} process{}\n{} rows of data, {} examples in {} "
      "rows of up to "
      "{} tokens ({:.0f} % full) an epoch, {} tokens, {} with a loss\n",
      static_cast<double>(model_.parameters()) / 1e6, model_.adapted() ? " with adapters" : "",
      static_cast<double>(model_.trained_parameters()) / 1e6, all_.world(), all_.world() == 1 ? "" : "es",
      data_.rows, counts.examples, plan_.rows.size(), config_.length,
      100.0 * static_cast<double>(counts.tokens) / static_cast<double>(config_.length) /
          static_cast<double>(plan_.rows.size()),
      counts.tokens, counts.loss_tokens);
  if (data_.dropped + data_.cut + data_.split > 0)
    out += fmt::format("longer than data.length: {} left out, {} cut, {} texts in parts\n", data_.dropped,
                       data_.cut, data_.split);
  if (data_.families.size() > 1)
    for (std::size_t i = 0; i < data_.families.size(); ++i)
      out += fmt::format("  {}: {} examples an epoch\n", data_.families[i], plan_.family_examples[i]);
  return out + fmt::format("{} steps of {} rows, {} of them warm-up", schedule_.steps, config_.batch_rows,
                           schedule_.warmup);
}

Status Trainer::resume() {
  if (first()) folder_.clean();
  MC_ASSIGN_OR_RETURN(const std::string newest, folder_.newest());
  if (newest.empty()) return ok();
  MC_ASSIGN_OR_RETURN(RunState state, read_state(newest));
  MC_RETURN_IF_ERROR(check_fixed(state_.config, state.config, kFixedKeys, newest));
  if (state.data != state_.data)
    return fail(Code::kInvalidArgument,
                "{} was trained on other data than data.train now gives (files, tokenizer, template or "
                "length changed); "
                "set it back, or name another run.dir",
                newest);
  MC_RETURN_IF_ERROR(model_.restore(newest, state.optimizer_steps));
  state.config = state_.config;
  state_ = std::move(state);
  set_random_state(state_.random);
  saved_step_ = state_.step;
  load_epoch();
  if (first()) fmt::print(stderr, "going on from {}, step {}\n", newest, state_.step);
  return ok();
}

Trainer::StepResult Trainer::all_passes(std::size_t from, std::size_t to) {
  StepResult out;
  out.counts = count_rows(data_, plan_, from, to);
  const auto per_pass = static_cast<std::size_t>(config_.pass_rows),
             world = static_cast<std::size_t>(all_.world()), rank = static_cast<std::size_t>(all_.rank());
  const std::size_t rounds = parts(parts(to - from, per_pass), world);
  Shards& shards = model_.shards();
  // Read once at the end: a GPU is not waited for between passes.
  at::Tensor loss_sum = at::zeros({}, at::TensorOptions(at::kDouble).device(model_.device()));
  shards.begin_step();
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::size_t begin = std::min(to, from + (round * world + rank) * per_pass),
                      end = std::min(to, begin + per_pass);
    const RowBatch batch = make_batch(data_, plan_, begin, end);
    shards.begin_pass(round + 1 == rounds);
    const at::Tensor loss = model_.loss_sum(batch) / static_cast<double>(out.counts.loss_tokens);
    shards.begin_backward();
    loss.backward();
    shards.end_pass();
    loss_sum.add_(loss.detach());
  }
  const at::Tensor shared =
      at::stack({loss_sum, at::full_like(loss_sum, StopSignal::asked() ? 1.0 : 0.0)});
  all_.sum(shared);
  const at::Tensor here = shared.cpu();
  out.loss = here[0].item<double>();
  out.stop = here[1].item<double>() > 0;
  out.norm = shards.finish_gradients();
  return out;
}

Result<Trainer::StepResult> Trainer::one_step() {
  if (state_.row >= static_cast<std::int64_t>(plan_.rows.size())) {
    ++state_.epoch;
    state_.row = 0;
    load_epoch();
  }
  const auto from = static_cast<std::size_t>(state_.row),
             to = std::min(plan_.rows.size(), from + static_cast<std::size_t>(config_.batch_rows));
  const StepResult out = all_passes(from, to);
  if (std::isfinite(out.norm) && std::isfinite(out.loss)) {
    skipped_in_row_ = 0;
    ++state_.optimizer_steps;
    model_.shards().step(config_.lr * schedule_.factor(state_.step), clip_scale(out.norm, config_.clip));
  } else {
    ++state_.skipped;
    if (++skipped_in_row_ == 10)
      return fail(Code::kInternal,
                  "ten steps in a row had a loss or gradient that is not finite, the last one step {} (loss "
                  "{}, norm {}); "
                  "lower optimizer.lr, or look at the data of these rows",
                  state_.step + 1, out.loss, out.norm);
  }
  ++state_.step;
  state_.row = static_cast<std::int64_t>(to);
  state_.tokens += out.counts.tokens;
  state_.loss_tokens += out.counts.loss_tokens;
  state_.examples += out.counts.examples;
  return out;
}

double Trainer::held_out_loss() {
  const at::NoGradGuard no_grad;
  const auto per_pass = static_cast<std::size_t>(config_.pass_rows),
             world = static_cast<std::size_t>(all_.world()), rank = static_cast<std::size_t>(all_.rank()),
             rows = eval_plan_.rows.size();
  const std::size_t rounds = parts(parts(rows, per_pass), world);
  double loss_sum = 0, count = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::size_t begin = std::min(rows, (round * world + rank) * per_pass),
                      end = std::min(rows, begin + per_pass);
    const RowBatch batch = make_batch(*eval_, eval_plan_, begin, end);
    loss_sum += model_.loss_sum(batch).item<double>();
    count += static_cast<double>(batch.loss_tokens);
  }
  const at::Tensor shared = at::tensor({loss_sum, count}, at::kDouble).to(model_.device());
  all_.sum(shared);
  const at::Tensor here = shared.cpu();
  return here[0].item<double>() / here[1].item<double>();
}

Status Trainer::checkpoint() {
  if (saved_step_ == state_.step) return ok();
  state_.random = random_state();
  Status status = ok();
  if (first()) {
    bool began = false;
    status = folder_.write(state_.step, state_json(state_), model_.bytes_to_save(), [&](const std::string& to) {
      began = true;
      return model_.save(to);
    });
    if (!began) model_.skip_save();  // the others are waiting to be asked
    if (status) status = folder_.keep(config_.checkpoint_keep);
  } else {
    MC_RETURN_IF_ERROR(model_.save(""));
  }
  const at::Tensor good =
      at::full({1}, status ? 1.0 : 0.0, at::TensorOptions(at::kDouble).device(model_.device()));
  all_.broadcast(good, 0);
  if (!status) return status;
  if (good.item<double>() == 0)
    return fail(Code::kUnavailable, "the first process could not write the checkpoint");
  saved_step_ = state_.step;
  if (first() && !config_.eval_command.empty()) run_command(folder_.of_step(state_.step));
  return ok();
}

void Trainer::run_command(const std::string& checkpoint) {
  base::SubprocessOptions options{.argv = {"/bin/sh", "-c", config_.eval_command}};
  options.env = base::clean_env();
  options.env.push_back("MUSACODER_MODEL=" + checkpoint + (model_.adapted() ? "/adapter" : "/model"));
  options.env.push_back(fmt::format("MUSACODER_STEP={}", state_.step));
  options.timeout_s = config_.eval_timeout_s;
  const auto result = base::run(options);
  if (!result || !result->exit.ok()) {
    base::log_warning("eval.command: {}",
                      result ? result->exit.describe() + ": " + result->err : result.error().message);
    return;
  }
  std::string out = result->out;
  out.erase(out.find_last_not_of(" \r\n") + 1);
  const auto line = nlohmann::json::parse(out.substr(out.rfind('\n') + 1), nullptr, false);
  if (!line.is_object()) {
    base::log_warning("eval.command: its last line is no JSON object");
    return;
  }
  for (const auto& [name, value] : line.items())
    if (value.is_number()) extra_.emplace_back("eval/" + name, value.get<double>());
}

Status Trainer::after_step(const StepResult& result, double seconds) {
  const bool end = state_.step == schedule_.steps || result.stop;
  if (eval_ &&
      ((config_.eval_every > 0 && state_.step % config_.eval_every == 0) || state_.step == schedule_.steps))
    extra_.emplace_back("eval/loss", held_out_loss());
  // Before the checkpoint: a run that is killed between the two drops the line and writes it again.
  if (first()) MC_RETURN_IF_ERROR(write_step(result, seconds, end));
  extra_.clear();
  if (end || (config_.checkpoint_every > 0 && state_.step % config_.checkpoint_every == 0))
    MC_RETURN_IF_ERROR(checkpoint());
  // What eval.command said of that checkpoint is a line of its own.
  if (first() && !extra_.empty()) {
    MC_RETURN_IF_ERROR(metrics_->write(state_.step, extra_));
    progress_->print(fmt::format("step {}", state_.step) + said(extra_));
  }
  extra_.clear();
  return ok();
}

Status Trainer::write_step(const StepResult& result, double seconds, bool end) {
  const double rate = static_cast<double>(result.counts.tokens) / std::max(1e-9, seconds),
               lr = config_.lr * schedule_.factor(state_.step - 1);
  if (end || state_.step % config_.log_every == 0 || !extra_.empty()) {
    Numbers numbers = {
        {"train/loss", result.loss},
        {"train/lr", lr},
        {"train/grad_norm", result.norm},
        {"train/tokens", static_cast<double>(result.counts.tokens)},
        {"train/loss_tokens", static_cast<double>(result.counts.loss_tokens)},
        {"train/tokens_per_s", rate},
        {"train/all_tokens", static_cast<double>(state_.tokens)},
        {"train/epoch", static_cast<double>(state_.epoch) +
                            static_cast<double>(state_.row) / static_cast<double>(plan_.rows.size())},
        {"train/skipped", static_cast<double>(state_.skipped)}};
    numbers.insert(numbers.end(), extra_.begin(), extra_.end());
    MC_RETURN_IF_ERROR(metrics_->write(state_.step, numbers));
  }
  std::string line = fmt::format("step {}/{}  loss {:.4f}  lr {:.2e}  {:.0f} tokens/s", state_.step,
                                 schedule_.steps, result.loss, lr, rate);
  line += said(extra_);
  if (!extra_.empty()) progress_->print(line);
  progress_->update(line + fmt::format("  {} left", short_duration(seconds * static_cast<double>(schedule_.steps -
                                                                                           state_.step))));
  return ok();
}

Result<SftOutcome> Trainer::run() {
  if (first()) {
    MC_ASSIGN_OR_RETURN(auto metrics, Metrics::open(config_.run_dir, {.resumed_at = saved_step_,
                                                                      .tensorboard = config_.tensorboard}));
    metrics_.emplace(std::move(metrics));
    progress_.emplace(stderr);
  }
  const StopSignal stop_signal;
  SftOutcome out;
  if (eval_ && config_.eval_every > 0 && state_.step == 0) {  // what there is to be better than
    const double loss = held_out_loss();
    if (first()) {
      MC_RETURN_IF_ERROR(metrics_->write(0, {{"eval/loss", loss}}));
      progress_->print(fmt::format("step 0/{}  eval/loss {:.4f}", schedule_.steps, loss));
    }
  }
  while (state_.step < schedule_.steps && !out.stopped) {
    const base::Stopwatch watch;
    MC_ASSIGN_OR_RETURN(const StepResult result, one_step());
    MC_RETURN_IF_ERROR(after_step(result, watch.seconds()));
    out.stopped = result.stop && state_.step < schedule_.steps;
  }
  out.step = state_.step;
  if (first())
    progress_->finish(fmt::format("{} step {} of {}: {}", out.stopped ? "stopped behind" : "trained",
                                  state_.step, schedule_.steps, folder_.of_step(state_.step)));
  return out;
}

}  // namespace musacoder::train
