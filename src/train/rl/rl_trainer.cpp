#include "train/rl/rl_trainer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "llm/checkpoint/atomic_folder.h"
#include "llm/checkpoint/strict_json.h"
#include "train/config/rl_objective.h"
#include "train/rl/evaluation.h"
#include "train/rl/exchange.h"
#include "train/run/run_state.h"
#include "train/run/stop_signal.h"

namespace musacoder::train {
namespace {

// What the order of the prompts and the meaning of the saved state hang on.
constexpr const char* kFixedKeys[] = {"model.type", "run.seed", "lora.rank", "lora.alpha", "lora.targets"};
constexpr const char* kRollouts = "rollouts.json";
constexpr int kMostWithoutReward = 3;

nlohmann::ordered_json config_of(RlConfig config) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  const nlohmann::json all = config_json(rl_keys(config));
  for (const auto& [key, value] : all.items()) out[key] = value;
  return out;
}

std::int64_t updates_of(const RlConfig& config) { return config.mini_batches * config.batch_epochs; }

// Seconds of an action, added to a stage.
class Stage {
 public:
  Stage(std::map<std::string, double>& seconds, const char* name) : to_(seconds[name]) {}
  ~Stage() { to_ += watch_.seconds(); }

 private:
  double& to_;
  base::Stopwatch watch_;
};

}  // namespace

RlTrainer::RlTrainer(const RlConfig& config, RlParts parts, Communicator& all)
    : config_(config),
      parts_(std::move(parts)),
      all_(all),
      planner_(config, parts_.tasks, parts_.usable),
      update_(parts_.model, parts_.reference, all, config, objective_of(config).value()),
      folder_(config.run_dir) {
  const std::int64_t steps = config.steps * updates_of(config);
  const double warmup = config.warmup < 1 ? config.warmup * static_cast<double>(steps) : config.warmup;
  schedule_ = {config.schedule == "cosine"   ? Schedule::Kind::kCosine
               : config.schedule == "linear" ? Schedule::Kind::kLinear
                                             : Schedule::Kind::kConstant,
               std::max<std::int64_t>(1, steps), static_cast<std::int64_t>(std::ceil(warmup)), config.floor};
}

std::vector<GroupStart> RlTrainer::own(std::vector<GroupStart> starts) const {
  std::erase_if(starts, [this](const GroupStart& one) {
    return static_cast<int>(one.serial % static_cast<std::uint64_t>(all_.world())) != all_.rank();
  });
  return starts;
}

bool RlTrainer::anybody(bool here) {
  const at::Tensor count =
      at::full({1}, here ? 1.0 : 0.0, at::TensorOptions(at::kDouble).device(parts_.model.device()));
  all_.sum(count);
  return count.item<double>() > 0;
}

Status RlTrainer::resume() {
  if (first()) folder_.clean();
  MC_ASSIGN_OR_RETURN(const std::string newest, folder_.newest());
  if (newest.empty()) return publish();
  MC_ASSIGN_OR_RETURN(const auto json, RunFolder::read(newest));
  RolloutLoop::Left left;
  try {
    MC_RETURN_IF_ERROR(check_fixed(config_of(config_), json.at("config"), kFixedKeys, newest));
    if (json.at("tasks").get<std::uint64_t>() != fingerprint(parts_.tasks))
      return fail(
          Code::kInvalidArgument,
          "{} was trained on other tasks than tasks.train now gives; set it back, or name another run.dir",
          newest);
    state_.step = json.at("step").get<std::int64_t>();
    state_.optimizer_steps = json.at("optimizer_steps").get<std::int64_t>();
    state_.skipped = json.at("skipped").get<std::int64_t>();
    state_.skipped_in_row = json.at("skipped_in_row").get<std::int64_t>();
    state_.tokens = json.at("tokens").get<std::int64_t>();
    state_.trained_tokens = json.at("trained_tokens").get<std::int64_t>();
    state_.samples = json.at("samples").get<std::map<std::string, std::int64_t>>();
    set_random_state(json.at("random").get<std::string>());
    MC_RETURN_IF_ERROR(planner_.restore(nlohmann::json::parse(json.at("planner").dump())));
    const std::string path = newest + "/" + kRollouts;
    MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path));
    const auto rollouts = nlohmann::json::parse(text);
    for (const auto& one : rollouts.at("starts")) {
      MC_ASSIGN_OR_RETURN(left.starts.emplace_back(), start_from_json(one));
    }
    for (const auto& one : rollouts.at("groups")) {
      MC_ASSIGN_OR_RETURN(left.groups.emplace_back(), group_from_json(one));
    }
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kInvalidArgument, "{}: {}", newest, error.what());
  }
  MC_RETURN_IF_ERROR(parts_.model.restore(newest, state_.optimizer_steps));
  saved_step_ = state_.step;
  MC_RETURN_IF_ERROR(publish());
  outstanding_ = static_cast<std::int64_t>(left.starts.size() + left.groups.size());
  std::erase_if(left.groups, [this](const Group& one) {
    return static_cast<int>(one.start.serial % static_cast<std::uint64_t>(all_.world())) != all_.rank();
  });
  parts_.loop.put_back(std::move(left.groups));
  MC_RETURN_IF_ERROR(parts_.loop.start(own(left.starts)));
  if (first()) fmt::print(stderr, "going on from {}, step {}\n", newest, state_.step);
  return ok();
}

Status RlTrainer::publish() {
  const Stage stage(seconds_, "publish");
  return parts_.loop.standing([this]() -> Status {
    parts_.model.copy_into(parts_.published);
    return parts_.rollouts.engine().swap_weights(
        {.weights = &parts_.published,
         .cache = config_.swap_cache == "recompute" ? llm::SwapCache::kRecompute : llm::SwapCache::kKeep,
         .version = state_.step});
  });
}

// Groups of all processes into those that are trained and those that are not, each counted once.
Status RlTrainer::sort_out(std::vector<Group> mine, std::vector<Summary> all, Batch& batch) {
  std::sort(all.begin(), all.end(), [](const Summary& a, const Summary& b) { return a.serial < b.serial; });
  for (Summary& one : all) {
    const auto nulls =
        std::count_if(one.rewards.begin(), one.rewards.end(), [](double r) { return std::isnan(r); });
    const auto others = static_cast<std::int64_t>(one.rewards.size()) - nulls;
    if (async() && state_.step - one.first_version > config_.staleness)
      one.fate = Fate::kStale;
    else if (one.null())
      one.fate = Fate::kNull;
    else if (config_.informative_only && one.equal())
      one.fate = Fate::kEqual;
    state_.samples[one.fate == Fate::kStale ? "stale" : "null"] += nulls;
    if (one.fate == Fate::kTrained) {
      state_.samples["trained"] += others - one.truncated;
      state_.samples["truncated"] += one.truncated;
    } else {
      state_.samples[one.fate == Fate::kStale ? "stale" : "equal"] += others;
    }
    state_.tokens += one.tokens;
    if (one.failed && planner_.retry_later(*one.failed)) ++batch.pushed;
    if (one.fate == Fate::kTrained) batch.kept.push_back(one);
  }
  // Not in the order in which they ended: that hangs on the verifier's moods.
  std::sort(mine.begin(), mine.end(),
            [](const Group& a, const Group& b) { return a.start.serial < b.start.serial; });
  for (Group& group : mine) {
    const auto at = std::find_if(batch.kept.begin(), batch.kept.end(),
                                 [&](const Summary& one) { return one.serial == group.start.serial; });
    if (static_cast<std::int64_t>(batch.shown.size()) < config_.log_answers) batch.shown.push_back(group);
    if (at != batch.kept.end()) batch.groups.push_back(std::move(group));
  }
  batch.all.insert(batch.all.end(), std::make_move_iterator(all.begin()), std::make_move_iterator(all.end()));
  return ok();
}

Result<RlTrainer::Batch> RlTrainer::collect() {
  const Stage stage(seconds_, "collect");
  Batch batch;
  const auto world = static_cast<std::size_t>(all_.world()), wanted = static_cast<std::size_t>(config_.batch);
  for (std::int64_t wave = 0; wave < config_.waves && batch.kept.size() < wanted; ++wave) {
    const std::size_t missing = wanted - batch.kept.size();
    const std::int64_t under_way =
        async() ? config_.batch * (config_.staleness + 1) : static_cast<std::int64_t>(missing);
    if (const std::int64_t more = under_way - outstanding_; more > 0) {
      MC_RETURN_IF_ERROR(parts_.loop.start(own(planner_.plan(static_cast<std::size_t>(more), state_.step))));
      outstanding_ += more;
    }
    const std::size_t share =
        async() ? (missing + world - 1) / world : std::numeric_limits<std::size_t>::max();
    auto mine = parts_.loop.take(share);
    // All processes are told, so that none waits for one that has an error.
    if (anybody(!mine)) {
      if (!mine) return tl::unexpected<Error>(mine.error());
      return fail(Code::kUnavailable, "another process could not go on with its rollouts");
    }
    std::vector<Summary> all;
    for (const std::string& text : exchange(all_, parts_.model.device(),
                                            to_json(summaries(*mine, parts_.tasks, config_, state_.step)))) {
      MC_ASSIGN_OR_RETURN(std::vector<Summary> theirs, summaries_from_json(text));
      all.insert(all.end(), std::make_move_iterator(theirs.begin()), std::make_move_iterator(theirs.end()));
    }
    outstanding_ -= static_cast<std::int64_t>(all.size());
    MC_RETURN_IF_ERROR(sort_out(std::move(*mine), std::move(all), batch));
  }
  const auto by_serial = [](const auto& a, const auto& b) { return a.serial < b.serial; };
  std::sort(batch.kept.begin(), batch.kept.end(), by_serial);
  std::sort(batch.groups.begin(), batch.groups.end(),
            [&](const Group& a, const Group& b) { return by_serial(a.start, b.start); });
  return batch;
}

Result<UpdateResult> RlTrainer::train(const Batch& batch) {
  const Stage stage(seconds_, "train");
  const std::vector<Response> responses = score(batch.groups, config_);
  std::map<std::uint64_t, std::size_t> part_of_group;  // the same on all processes
  for (std::size_t i = 0; i < batch.kept.size(); ++i)
    part_of_group[batch.kept[i].serial] =
        i * static_cast<std::size_t>(config_.mini_batches) / batch.kept.size();
  std::vector<std::size_t> part_of;
  for (const Response& one : responses) part_of.push_back(part_of_group.at(one.group->start.serial));
  const std::int64_t before = state_.step * updates_of(config_);
  UpdateResult out = update_.run(responses, part_of, state_.step, [&](std::int64_t n) {
    return config_.lr * schedule_.factor(std::min(schedule_.steps - 1, before + n));
  });
  state_.optimizer_steps += out.optimizer_steps;
  state_.skipped += out.skipped;
  state_.skipped_in_row = out.optimizer_steps > 0 ? 0 : state_.skipped_in_row + out.skipped;
  if (state_.skipped_in_row >= 10)
    return fail(Code::kInternal,
                "ten updates in a row had a loss or gradient that is not finite, the last in step {}; lower "
                "optimizer.lr, or "
                "look at {}/answers.jsonl",
                state_.step + 1, config_.run_dir);
  for (const auto& [name, value] : out.numbers)
    if (name == "train/tokens") state_.trained_tokens += static_cast<std::int64_t>(value);
  return out;
}

Status RlTrainer::evaluate() {
  const Stage stage(seconds_, "evaluate");
  std::vector<GroupStart> starts;
  for (std::size_t i = 0; i < parts_.eval_usable.size(); ++i)
    if (static_cast<int>(i % static_cast<std::size_t>(all_.world())) == all_.rank())
      // The same numbers each time, so that evaluations differ by the weights alone.
      starts.push_back({.serial = kEvaluationBit | i,
                        .task = parts_.eval_usable[i],
                        .turns = config_.eval_turns,
                        .evaluation = true});
  auto groups = parts_.loop.evaluate(starts);
  if (anybody(!groups)) {
    if (!groups) return tl::unexpected<Error>(groups.error());
    return fail(Code::kUnavailable, "another process could not go on with its evaluation");
  }
  nlohmann::json mine = nlohmann::json::array();
  for (const Group& one : *groups) mine.push_back(to_json(evaluated(one, parts_.eval_tasks)));
  std::vector<EvaluatedTask> all;
  for (const std::string& text : exchange(all_, parts_.model.device(), mine.dump()))
    for (const auto& one : nlohmann::json::parse(text)) all.push_back(evaluated_from_json(one));
  std::sort(all.begin(), all.end(),
            [](const EvaluatedTask& a, const EvaluatedTask& b) { return a.id < b.id; });
  const Numbers numbers = evaluation_numbers(all, config_.eval_samples);
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  return ok();
}

Result<nlohmann::ordered_json> RlTrainer::state_json() {
  return nlohmann::ordered_json{{"step", state_.step},
                                {"optimizer_steps", state_.optimizer_steps},
                                {"skipped", state_.skipped},
                                {"skipped_in_row", state_.skipped_in_row},
                                {"tokens", state_.tokens},
                                {"trained_tokens", state_.trained_tokens},
                                {"samples", state_.samples},
                                {"planner", planner_.to_json()},
                                {"tasks", fingerprint(parts_.tasks)},
                                {"prompt", parts_.prompt_version},
                                {"random", random_state()},
                                {"config", config_of(config_)}};
}

Status RlTrainer::checkpoint() {
  if (saved_step_ == state_.step) return ok();
  const Stage stage(seconds_, "checkpoint");
  const RolloutLoop::Left left = parts_.loop.left();
  nlohmann::json mine = {{"starts", nlohmann::json::array()}, {"groups", nlohmann::json::array()}};
  for (const GroupStart& one : left.starts)
    if (!one.evaluation) mine["starts"].push_back(to_json(one));
  for (const Group& one : left.groups) mine["groups"].push_back(to_json(one));
  const auto dump = [](const nlohmann::json& value) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  nlohmann::json everyones = {{"starts", nlohmann::json::array()}, {"groups", nlohmann::json::array()}};
  for (const std::string& text : exchange(all_, parts_.model.device(), dump(mine))) {
    const auto theirs = nlohmann::json::parse(text);
    for (const char* key : {"starts", "groups"})
      everyones[key].insert(everyones[key].end(), theirs[key].begin(), theirs[key].end());
  }
  Status status = ok();
  if (first()) {
    MC_ASSIGN_OR_RETURN(const auto state, state_json());
    const std::string rollouts = dump(everyones);
    bool began = false;
    status = folder_.write(state_.step, state, parts_.model.bytes_to_save() + rollouts.size(),
                           [&](const std::string& to) -> Status {
                             began = true;
                             MC_RETURN_IF_ERROR(parts_.model.save(to));
                             return llm::write_file_synced(to + "/" + kRollouts, {rollouts});
                           });
    if (!began) parts_.model.skip_save();  // the others are waiting to be asked
    if (status) status = folder_.keep(config_.checkpoint_keep);
  } else {
    MC_RETURN_IF_ERROR(parts_.model.save(""));
  }
  if (anybody(!status)) {
    if (!status) return status;
    return fail(Code::kUnavailable, "the first process could not write the checkpoint");
  }
  saved_step_ = state_.step;
  return ok();
}

void RlTrainer::report(const Batch& batch, UpdateResult update) {
  add_numbers(numbers_, batch.all, config_);
  numbers_.insert(numbers_.end(), update.numbers.begin(), update.numbers.end());
  const auto put = [this](std::string name, double value) { numbers_.emplace_back(std::move(name), value); };
  put("groups/used", static_cast<double>(batch.kept.size()));
  put("groups/all", static_cast<double>(batch.all.size()));
  put("train/lr", config_.lr * schedule_.factor(std::min(schedule_.steps - 1,
                                                         (state_.step + 1) * updates_of(config_) - 1)));
  put("train/updates", static_cast<double>(update.optimizer_steps));
  put("train/skipped", static_cast<double>(state_.skipped));
  put("train/empty_updates", static_cast<double>(update.empty));
  put("train/epoch", planner_.epoch());
  const rl::RetryBuffer::Counts& retry = planner_.buffer().counts();
  put("retry/buffer", static_cast<double>(planner_.buffer().size()));
  put("retry/pushed", static_cast<double>(retry.pushed));
  put("retry/drawn", static_cast<double>(retry.drawn));
  put("retry/evicted", static_cast<double>(retry.evicted));
  put("retry/refused", static_cast<double>(retry.refused));
  for (const auto& [fate, count] : state_.samples) put("account/" + fate, static_cast<double>(count));
  put("account/in_flight", static_cast<double>(outstanding_ * config_.group));
  put("verify/restarts", parts_.verifier_restarts());
}

Status RlTrainer::after_step(bool end) {
  if ((config_.eval_every > 0 && state_.step % config_.eval_every == 0) ||
      (end && !parts_.eval_usable.empty() && state_.step == config_.steps))
    MC_RETURN_IF_ERROR(evaluate());
  // Before the checkpoint: a run that is killed between the two drops the line and writes it again.
  if (first() && (end || state_.step % config_.log_every == 0))
    MC_RETURN_IF_ERROR(metrics_->write(state_.step, numbers_));
  if (end || (config_.checkpoint_every > 0 && state_.step % config_.checkpoint_every == 0))
    MC_RETURN_IF_ERROR(checkpoint());
  return ok();
}

// A verifier that is always at fault would let a run go on for nothing.
Status RlTrainer::check_rewards(const Batch& batch) {
  const bool nothing =
      !batch.all.empty() && std::all_of(batch.all.begin(), batch.all.end(), [](const Summary& one) {
        return std::all_of(one.statuses.begin(), one.statuses.end(),
                           [](const std::string& s) { return s.starts_with("infra:"); });
      });
  without_reward_ = nothing ? without_reward_ + 1 : 0;
  if (without_reward_ < kMostWithoutReward) return ok();
  return fail(
      Code::kUnavailable,
      "in {} steps in a row every job of the verifier ended in {}; {}/answers.jsonl and its log say why",
      without_reward_, batch.all[0].statuses[0], config_.run_dir);
}

Status RlTrainer::one_step() {
  const base::Stopwatch watch;
  MC_ASSIGN_OR_RETURN(const Batch batch, collect());
  // Before anything can end the run: it may show why.
  if (first())
    MC_RETURN_IF_ERROR(answers_->write(state_.step + 1, batch.shown, parts_.tasks, config_.log_answers));
  MC_RETURN_IF_ERROR(check_rewards(batch));
  MC_ASSIGN_OR_RETURN(UpdateResult update, train(batch));
  report(batch, std::move(update));
  ++state_.step;
  if (state_.step % config_.publish_every == 0) MC_RETURN_IF_ERROR(publish());
  const double seconds = std::max(1e-9, watch.seconds());
  const Rollouts::Counts now = parts_.loop.counts();
  double tokens = 0, verdicts = 0, trained = 0;
  for (const Summary& one : batch.all) {
    tokens += static_cast<double>(one.tokens);
    verdicts += static_cast<double>(one.statuses.size());
  }
  for (const auto& [name, value] : numbers_)
    if (name == "train/tokens") trained = value;
  numbers_.emplace_back("time/step", seconds);
  numbers_.emplace_back("time/generate", now.generate_s - counts_before_.generate_s);
  numbers_.emplace_back("time/verify_wait", now.wait_s - counts_before_.wait_s);
  for (const auto& [name, spent] : seconds_) numbers_.emplace_back("time/" + name, spent);
  numbers_.emplace_back("rollout/tokens", tokens);
  numbers_.emplace_back("rollout/tokens_per_s", tokens / seconds);
  numbers_.emplace_back("train/tokens_per_s", trained / std::max(1e-9, seconds_["train"]));
  numbers_.emplace_back("verify/per_minute", 60 * verdicts / seconds);
  seconds_.clear();
  counts_before_ = now;
  return ok();
}

Result<RlOutcome> RlTrainer::run() {
  if (first()) {
    MC_ASSIGN_OR_RETURN(auto metrics, Metrics::open(config_.run_dir, {.resumed_at = saved_step_,
                                                                      .tensorboard = config_.tensorboard}));
    metrics_.emplace(std::move(metrics));
    MC_ASSIGN_OR_RETURN(auto answers, AnswerLog::open(config_.run_dir, saved_step_));
    answers_.emplace(std::move(answers));
    progress_.emplace(stderr);
  }
  const StopSignal stop_signal;
  RlOutcome out;
  if (state_.step == 0 && config_.eval_every > 0 && saved_step_ < 0) {  // what there is to be better than
    MC_RETURN_IF_ERROR(evaluate());
    if (first()) MC_RETURN_IF_ERROR(metrics_->write(state_.step, numbers_));
  }
  while (state_.step < config_.steps && !out.stopped) {
    numbers_.clear();
    MC_RETURN_IF_ERROR(one_step());
    // Only where a checkpoint has the rollouts' weights too.
    out.stopped = anybody(StopSignal::asked()) && state_.step % config_.publish_every == 0 &&
                  state_.step < config_.steps;
    const bool end = out.stopped || state_.step == config_.steps;
    MC_RETURN_IF_ERROR(after_step(end));
    if (!first()) continue;
    std::map<std::string, double> now(numbers_.begin(), numbers_.end());
    std::string line = fmt::format(
        "step {}/{}  reward {:.3f}  right {:.0f} %  length {:.0f}  grad {:.3g}  |ratio| p99 {:.2g}  {:.1f} s",
        state_.step, config_.steps, now["reward/mean"], 100 * now["turns/first_accuracy"],
        now["rollout/length"], now["train/grad_norm"], now["ratio/abs_p99"], now["time/step"]);
    if (now.count("eval/pass@1")) line += fmt::format("  eval pass@1 {:.3f}", now["eval/pass@1"]);
    if (now.count("eval/pass@1"))
      progress_->print(line);
    else
      progress_->update(line);
  }
  out.step = state_.step;
  if (first())
    progress_->finish(fmt::format("{} step {} of {}: {}", out.stopped ? "stopped behind" : "trained",
                                  state_.step, config_.steps, folder_.of_step(state_.step)));
  return out;
}

}  // namespace musacoder::train
