#include "train/rl/rollouts.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/hash.h"
#include "train/data/random.h"

namespace musacoder::train {
namespace {

// What generation is not kept waiting for while the engine has work.
constexpr double kNoWait = 0;

std::string class_of(const std::string& status) { return status.substr(0, status.find(':')); }

}  // namespace

Rollouts::Rollouts(llm::Engine& engine, const Asker& asker, const std::vector<RlTask>& tasks,
                   const std::vector<RlTask>& eval_tasks, Verifier& verifier, Verifier* eval_verifier,
                   const RolloutOptions& options)
    : engine_(engine),
      asker_(asker),
      tasks_(tasks),
      eval_tasks_(eval_tasks),
      verifier_(verifier),
      eval_verifier_(eval_verifier),
      options_(options) {}

Status Rollouts::start(GroupStart start) {
  const std::uint64_t serial = start.serial;
  const RlTask& task = tasks_of(start)[start.task];
  const auto samples = static_cast<std::size_t>(start.evaluation ? options_.eval_samples : options_.group);
  MC_ASSIGN_OR_RETURN(Conversation talk, asker_.ask(task));
  if (start.retry) {
    MC_ASSIGN_OR_RETURN(Conversation again, asker_.ask_again(task, *start.retry));
    MC_ASSIGN_OR_RETURN(const auto prompt, asker_.encode(again));
    const auto length = static_cast<std::int64_t>(prompt.size());
    // A failed answer may be too long to be shown, or hold the chat format's own words: then the task alone
    // is asked.
    if (length > options_.prompt_tokens || engine_.limits().room(length, static_cast<int>(samples)) < 1 ||
        asker_.has_control_text(start.retry->candidate) || asker_.has_control_text(start.retry->feedback))
      start.retry.reset();
    else
      talk = std::move(again);
  }
  Running running{.group = {.start = std::move(start)}, .talks = std::vector(samples, talk), .open = samples};
  running.group.trajectories.resize(samples);
  for (Trajectory& one : running.group.trajectories) one.turns.emplace_back();
  const auto at = groups_.emplace(serial, std::move(running)).first;
  ++counts_.groups;
  counts_.samples += static_cast<std::int64_t>(samples);
  if (auto asked = ask(at->second, {serial, 0, true}, static_cast<int>(samples)); !asked) {
    groups_.erase(at);
    return asked;
  }
  return ok();
}

// The answer, or all first answers, to where the conversation stands.
Status Rollouts::ask(Running& running, const Place& place, int samples) {
  const bool evaluation = running.group.start.evaluation;
  MC_ASSIGN_OR_RETURN(auto prompt, asker_.encode(running.talks[place.trajectory]));
  auto& trajectories = running.group.trajectories;
  const std::size_t turn = trajectories[place.trajectory].turns.size();
  Random seed({options_.seed, place.serial, turn, place.all ? 0 : place.trajectory + 1});
  llm::SamplingParams sampling{.max_tokens = static_cast<int>(options_.response_tokens),
                               .temperature = evaluation ? options_.eval_temperature : options_.temperature,
                               .top_k = evaluation ? 0 : options_.top_k,
                               .top_p = evaluation ? options_.eval_top_p : options_.top_p,
                               .seed = seed.next()};
  const std::int64_t room = engine_.limits().room(static_cast<std::int64_t>(prompt.size()), samples);
  if (room < 1)
    return fail(Code::kResourceExhausted,
                "a prompt of {} tokens with {} answers does not fit: raise rollout.cache_tokens or lower "
                "rollout.group",
                prompt.size(), samples);
  sampling.max_tokens = static_cast<int>(std::min<std::int64_t>(sampling.max_tokens, room));
  for (std::size_t i = place.all ? 0 : place.trajectory; i < trajectories.size(); ++i) {
    trajectories[i].turns.back().prompt = prompt;
    if (!place.all) break;
  }
  counts_.prompt_tokens += static_cast<std::int64_t>(prompt.size());
  MC_ASSIGN_OR_RETURN(const std::uint64_t request,
                      engine_.add({.prompt = std::move(prompt), .samples = samples, .sampling = sampling}));
  asked_[request] = place;
  return ok();
}

Status Rollouts::take(const llm::TokenEvent& event) {
  const auto asked = asked_.find(event.request);
  if (asked == asked_.end()) return ok();  // given up
  const std::uint64_t serial = asked->second.serial;
  const std::size_t trajectory =
      asked->second.all ? static_cast<std::size_t>(event.sample) : asked->second.trajectory;
  Running& running = groups_.at(serial);
  Turn& turn = running.group.trajectories[trajectory].turns.back();
  turn.answer.push_back(event.token);
  turn.logprobs.push_back(event.logprob);
  turn.versions.push_back(event.version);
  turn.text += event.text;
  ++counts_.tokens;
  if (event.finish == llm::Finish::kNone) return ok();
  turn.clipped = event.finish == llm::Finish::kLength;
  submit(serial, trajectory);
  return ok();
}

void Rollouts::submit(std::uint64_t serial, std::size_t trajectory) {
  const Running& running = groups_.at(serial);
  const GroupStart& start = running.group.start;
  const RlTask& task = tasks_of(start)[start.task];
  const auto& turns = running.group.trajectories[trajectory].turns;
  const std::uint64_t ticket = next_ticket_++;
  judging_[ticket] = {serial, trajectory, false};
  const std::size_t round = turns.size() + (start.retry ? 1 : 0);
  Verifier& verifier = start.evaluation ? *eval_verifier_ : verifier_;
  verifier.submit(
      ticket,
      {.task = task.id,
       .reference = task.code,
       .candidate = turns.back().text,
       // The same place of a run may be answered otherwise after a restart: the answer is part of the key.
       .key = fmt::format("{}-{:x}-{}-{}-{:x}", options_.run, serial, trajectory, turns.size(),
                          base::xxh3(turns.back().text)),
       .round = static_cast<int>(round)});
}

void Rollouts::close(Running& running, std::size_t trajectory, End end) {
  running.group.trajectories[trajectory].end = end;
  if (--running.open > 0) return;
  const std::uint64_t serial = running.group.start.serial;
  ended_.push_back(std::move(running.group));
  groups_.erase(serial);
}

Status Rollouts::judged(const Place& place, VerifyOutcome outcome) {
  Running& running = groups_.at(place.serial);
  Trajectory& trajectory = running.group.trajectories[place.trajectory];
  Turn& turn = trajectory.turns.back();
  turn.reward = outcome.reward;
  turn.status = std::move(outcome.status);
  turn.feedback = std::move(outcome.feedback);
  turn.code = std::move(outcome.code);
  turn.verified = outcome.verified;
  turn.infra = outcome.infra;
  turn.speedup = outcome.speedup;
  turn.verify_s = outcome.seconds;
  turn.tries = outcome.tries;
  ++counts_.turns;
  ++counts_.verdicts;
  counts_.tries += outcome.tries;
  ++counts_.statuses[class_of(turn.status)];
  if (std::isnan(turn.reward))
    close(running, place.trajectory, End::kNull);
  else if (turn.verified)
    close(running, place.trajectory, End::kVerified);
  else if (static_cast<std::int64_t>(trajectory.turns.size()) >= running.group.start.turns)
    close(running, place.trajectory, End::kTurns);
  else
    return next_turn(running, place.trajectory);
  return ok();
}

Status Rollouts::next_turn(Running& running, std::size_t index) {
  Trajectory& trajectory = running.group.trajectories[index];
  const Turn& last = trajectory.turns.back();
  const std::string answer = without_reasoning(last.text);
  if (asker_.has_control_text(answer) || asker_.has_control_text(last.feedback)) {
    close(running, index, End::kControl);
    return ok();
  }
  Conversation& talk = running.talks[index];
  talk.push_back({"assistant", answer});
  talk.push_back({"user", last.feedback});
  MC_ASSIGN_OR_RETURN(const auto prompt, asker_.encode(talk));
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (length > options_.prompt_tokens || engine_.limits().room(length, 1) < 1) {
    close(running, index, End::kContext);
    return ok();
  }
  trajectory.turns.emplace_back();
  return ask(running, {running.group.start.serial, index, false}, 1);
}

Result<std::vector<Group>> Rollouts::advance(double wait_s) {
  const bool generating = !engine_.idle();
  if (generating) {
    const base::Stopwatch watch;
    MC_ASSIGN_OR_RETURN(const auto events, engine_.step());
    counts_.generate_s += watch.seconds();
    for (const llm::TokenEvent& event : events) MC_RETURN_IF_ERROR(take(event));
  }
  const auto of_evaluations = static_cast<std::size_t>(std::count_if(
      judging_.begin(), judging_.end(), [](const auto& one) { return one.second.serial & kEvaluationBit; }));
  for (Verifier* verifier : {&verifier_, eval_verifier_}) {
    if (!verifier) continue;
    const std::size_t jobs = verifier == eval_verifier_ ? of_evaluations : running_jobs() - of_evaluations;
    if (jobs == 0) continue;
    const base::Stopwatch watch;
    const double wait = generating ? kNoWait : wait_s;
    for (auto& [ticket, outcome] : verifier->collect(wait)) {
      const auto at = judging_.find(ticket);
      if (at == judging_.end()) continue;
      const Place place = at->second;
      judging_.erase(at);
      MC_RETURN_IF_ERROR(judged(place, std::move(outcome)));
    }
    if (!generating) counts_.wait_s += watch.seconds();
  }
  return std::exchange(ended_, {});
}

std::vector<GroupStart> Rollouts::in_flight() const {
  std::vector<GroupStart> out;
  for (const auto& [serial, running] : groups_) out.push_back(running.group.start);
  return out;
}

}  // namespace musacoder::train
