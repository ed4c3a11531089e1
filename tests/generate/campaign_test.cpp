// Samples, turns, budgets and the files of a campaign, with a model and a verifier that follow a script.
#include "generate/campaign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/files.h"
#include "generate/attempt_rows.h"
#include "generate/outcome.h"
#include "judge/rows.h"

namespace musacoder::generate {
namespace {

using testing::HasSubstr;

// Answers "T<turn>" and whatever `say` gives.
class ScriptedModel : public chat::ChatModel {
 public:
  Result<chat::Reply> ask(const chat::Request& request) override {
    ++asked;
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    if (delay_s > 0) {
      const auto end = base::Deadline::in(delay_s);
      while (!end.expired() && !(request.cancelled && request.cancelled())) base::real_clock().sleep(0.005);
    }
    --running;
    if (error && (fail_after == 0 || asked > fail_after)) return tl::unexpected(*error);
    const int turn = static_cast<int>(request.messages.size() / 2) + 1;
    chat::Reply reply;
    reply.answers.push_back(
        {.text = say ? say(turn, request.sampling.seed) : fmt::format("T{}", turn), .finish = "stop"});
    reply.usage = {10, 5};
    return reply;
  }
  std::string describe() const override { return "scripted"; }
  std::function<std::string(int, std::uint64_t)> say;
  std::optional<Error> error;
  int fail_after = 0;
  double delay_s = 0;
  std::atomic<int> asked{0}, running{0}, most{0};
};

using Statuses = std::map<std::string, std::string>;

// The status of an answer by its text; else values are wrong.
class ScriptedVerifier : public Verifier {
 public:
  explicit ScriptedVerifier(Statuses statuses, int lanes = 2)
      : statuses_(std::move(statuses)), lanes_(lanes) {}
  int lanes() const override { return lanes_; }
  Judged judge(int, const task::Task& task, const std::string& answer,
               const std::function<bool()>&) override {
    ++judged;
    if (delay_s > 0) base::real_clock().sleep(delay_s);
    Judged out;
    out.code = "code of " + answer;
    out.verdict.task = task.id;
    out.verdict.task_hash = std::string(64, 'a');
    out.verdict.candidate_hash = std::string(64, 'b');
    const auto found = statuses_.find(answer);
    out.verdict.status = found == statuses_.end() ? "correctness_error:values" : found->second;
    out.verdict.cause = "cause of " + answer;
    if (out.verdict.status == "ok")
      out.verdict.estimate =
          vgpu::TimeEstimate{.gpu = "h200", .ms = 1.0 / static_cast<double>(answer.size())};
    return out;
  }
  std::atomic<int> judged{0};
  double delay_s = 0;

 private:
  Statuses statuses_;
  int lanes_;
};

std::vector<Start> starts(int samples, int tasks = 1) {
  std::vector<Start> out;
  for (int t = 0; t < tasks; ++t) {
    auto task = std::make_shared<task::Task>();
    task->id = fmt::format("set/{}", t);
    task->code = fmt::format("code {}", t);
    for (int s = 0; s < samples; ++s) out.push_back({task, {{"user", "prompt"}}, s});
  }
  return out;
}

struct Ended {
  CampaignEnd end;
  std::vector<Attempt> attempts;
};
Ended run(const std::vector<Start>& begin, chat::ChatModel& model, Verifier* verifier,
          const CampaignConfig& config, std::function<bool()> stop = {}) {
  Ended ended;
  ended.end = run_campaign(
      begin, model, verifier, config,
      {.attempt = [&](const Attempt& a) { ended.attempts.push_back(a); }, .stop = std::move(stop)});
  return ended;
}

TEST(Campaign, FailuresGoBackToTheModelWithTheVerifiersFindings) {
  ScriptedModel model;
  ScriptedVerifier verifier(Statuses{{"T3", "ok"}});
  const auto ended = run(starts(2), model, &verifier, {.turns = 3});
  ASSERT_EQ(ended.attempts.size(), 6u);
  EXPECT_EQ(ended.end.progress.ended, 2u);
  EXPECT_EQ(ended.end.progress.verified, 2u);
  EXPECT_EQ(ended.end.progress.tokens, 30);
  for (const Attempt& attempt : ended.attempts) {
    EXPECT_EQ(attempt.last, attempt.turn == 3);
    ASSERT_EQ(attempt.messages.size(), static_cast<std::size_t>(2 * attempt.turn - 1));
    if (attempt.turn == 1) continue;
    EXPECT_EQ(attempt.messages[1].role, "assistant");
    EXPECT_EQ(attempt.messages[1].content, "T1");
    EXPECT_THAT(attempt.messages[2].content, HasSubstr("correctness_error:values"));
    EXPECT_THAT(attempt.messages[2].content, HasSubstr("cause of T1"));
  }
  // The other sample gave the same answers: their verdicts may serve it.
  EXPECT_LE(verifier.judged, 6);
}

TEST(Campaign, ASampleEndsWhereItIsVerifiedOrNobodyKnows) {
  ScriptedModel model;
  ScriptedVerifier verified(Statuses{{"T1", "ok"}}), unknown(Statuses{{"T1", "unsupported:ptx:x"}}),
      faulty(Statuses{{"T1", "infra:device"}});
  EXPECT_EQ(run(starts(1), model, &verified, {.turns = 3}).attempts.size(), 1u);
  EXPECT_EQ(run(starts(1), model, &unknown, {.turns = 3}).attempts.size(), 1u);
  EXPECT_EQ(run(starts(1), model, &faulty, {.turns = 3}).attempts.size(), 1u);
  EXPECT_EQ(run(starts(1), model, &verified, {.turns = 3, .improve = true}).attempts.size(), 3u);
}

TEST(Campaign, AsksWhileOthersAreJudged) {
  ScriptedModel model;
  model.delay_s = 0.05;
  model.say = [](int, std::uint64_t seed) { return fmt::format("{}", seed); };
  ScriptedVerifier verifier(Statuses{}, 1);
  verifier.delay_s = 0.05;
  const auto ended = run(starts(6), model, &verifier, {.turns = 1, .asking = 3});
  EXPECT_EQ(model.most, 3);
  EXPECT_EQ(verifier.judged, 6);
  // Asking one after the other takes 0.3 s, judging 0.3 s; side by side it is nearer to 0.35 s.
  EXPECT_NEAR(ended.end.asking_s, 0.3, 0.25);
  std::set<std::uint64_t> seeds;
  for (const auto& attempt : ended.attempts) seeds.insert(attempt.seed);
  EXPECT_EQ(seeds.size(), 6u);
}

TEST(Campaign, EqualAnswersAreJudgedOnce) {
  ScriptedModel model;
  ScriptedVerifier verifier(Statuses{}, 1);
  const auto ended = run(starts(5), model, &verifier, {});
  EXPECT_EQ(verifier.judged, 1);
  EXPECT_EQ(ended.attempts.size(), 5u);
  for (const auto& attempt : ended.attempts) EXPECT_EQ(attempt.verdict->status, "correctness_error:values");
}

TEST(Campaign, StopsAtTheFirstVerifiedWithoutWaitingForTheOthers) {
  ScriptedModel model;
  std::atomic<int> n{0};
  model.say = [&](int, std::uint64_t) { return fmt::format("{}", ++n); };
  ScriptedVerifier verifier(Statuses{{"1", "ok"}}, 1);
  // The first answer comes at once, the others would take a minute.
  class Slow : public chat::ChatModel {
   public:
    explicit Slow(ScriptedModel& inner) : inner_(inner) {}
    Result<chat::Reply> ask(const chat::Request& request) override {
      if (n_++ > 0)
        for (int i = 0; i < 12000 && !request.cancelled(); ++i) base::real_clock().sleep(0.005);
      if (request.cancelled()) return fail(Code::kDeadlineExceeded, "cancelled");
      return inner_.ask(request);
    }
    std::string describe() const override { return "slow"; }

   private:
    ScriptedModel& inner_;
    std::atomic<int> n_{0};
  } slow(model);
  const base::Stopwatch watch;
  const auto ended = run(starts(4), slow, &verifier, {.asking = 4, .stop_when_verified = true});
  EXPECT_LT(watch.seconds(), 10);
  EXPECT_EQ(ended.end.progress.verified, 1u);
  EXPECT_TRUE(ended.end.error);
}

TEST(Campaign, KeepsToItsTimeAndToStop) {
  ScriptedModel model;
  model.delay_s = 60;
  ScriptedVerifier verifier(Statuses{});
  auto ended = run(starts(3), model, &verifier, {.deadline = base::Deadline::in(0.1)});
  EXPECT_TRUE(ended.end.out_of_time);
  EXPECT_TRUE(ended.end.error);
  ended = run(starts(3), model, &verifier, {}, [] { return true; });
  EXPECT_TRUE(ended.end.stopped);
}

TEST(Campaign, WhatTheTimeCutShortIsNoEndOfItsSample) {
  ScriptedModel model;
  ScriptedVerifier slow(Statuses{{"T1", "infra:cancelled"}}), wrong(Statuses{});
  slow.delay_s = wrong.delay_s = 0.3;
  // Judged when the time is over: no verdict. Failed with turns left: not the last one.
  auto ended = run(starts(1), model, &slow, {.turns = 2, .deadline = base::Deadline::in(0.1)});
  ASSERT_EQ(ended.attempts.size(), 1u);
  EXPECT_FALSE(ended.attempts[0].verdict);
  EXPECT_THAT(ended.attempts[0].error, HasSubstr("while it was judged"));
  ended = run(starts(1), model, &wrong, {.turns = 2, .deadline = base::Deadline::in(0.1)});
  ASSERT_EQ(ended.attempts.size(), 1u);
  EXPECT_FALSE(ended.attempts[0].last);
  EXPECT_EQ(ended.attempts[0].verdict->status, "correctness_error:values");
}

TEST(Campaign, AModelThatRefusesEndsItAndOneThatStumblesDoesNot) {
  ScriptedModel model;
  ScriptedVerifier verifier(Statuses{});
  model.error = Error{Code::kInvalidArgument, "no such model"};
  auto ended = run(starts(5), model, &verifier, {.asking = 1});
  ASSERT_FALSE(ended.end.error);
  EXPECT_EQ(ended.end.error.error().message, "no such model");
  EXPECT_EQ(model.asked, 1);

  ScriptedModel gone;
  gone.error = Error{Code::kUnavailable, "gone"};
  ended = run(starts(9), gone, &verifier, {.asking = 1});
  EXPECT_FALSE(ended.end.error);
  EXPECT_EQ(gone.asked, 3);

  ScriptedModel full;
  full.error = Error{Code::kResourceExhausted, "too long"};
  ended = run(starts(5), full, &verifier, {.asking = 1});
  EXPECT_TRUE(ended.end.error);
  EXPECT_EQ(ended.end.progress.ended, 5u);
}

TEST(Campaign, WithoutAVerifierAnswersAreAllThereIs) {
  ScriptedModel model;
  const auto ended = run(starts(2, 3), model, nullptr, {.turns = 3});
  EXPECT_EQ(ended.attempts.size(), 6u);
  for (const auto& attempt : ended.attempts) {
    EXPECT_FALSE(attempt.verdict);
    EXPECT_TRUE(attempt.last);
  }
}

TEST(TurnSeed, DependsOnAllAndOnNothingElse) {
  EXPECT_EQ(turn_seed(1, "code", 2, 3), turn_seed(1, "code", 2, 3));
  std::set<std::uint64_t> seeds = {turn_seed(1, "code", 2, 3), turn_seed(2, "code", 2, 3),
                                   turn_seed(1, "kode", 2, 3), turn_seed(1, "code", 3, 3),
                                   turn_seed(1, "code", 2, 4)};
  EXPECT_EQ(seeds.size(), 5u);
  for (const auto seed : seeds) {
    EXPECT_GT(seed, 0u);
    EXPECT_LT(seed, 1ull << 31);
  }
}

TEST(AttemptFile, GoesOnWhereItStopped) {
  auto folder = base::TempDir::create("attempts");
  ASSERT_TRUE(folder);
  const std::string path = folder->file("a.jsonl");
  ScriptedModel model;
  ScriptedVerifier verifier(Statuses{{"T2", "ok"}});
  const auto ended = run(starts(2), model, &verifier, {.turns = 2});
  ASSERT_EQ(ended.attempts.size(), 4u);
  {
    auto file = AttemptFile::open(path);
    ASSERT_TRUE(file);
    EXPECT_FALSE(AttemptFile::open(path));  // another writer
    for (const Attempt& attempt : ended.attempts)
      if (attempt.sample == 0 || attempt.turn == 1) ASSERT_TRUE((*file)->add(attempt, "family"));
  }
  // Sample 1 was under way, and a line was cut short.
  std::ofstream(path, std::ios::app) << "{\"reference\": \"co";
  auto file = AttemptFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE((*file)->finished("code 0", 0));
  EXPECT_FALSE((*file)->finished("code 0", 1));
  EXPECT_FALSE((*file)->finished("code 1", 0));
  std::size_t rows = 0;
  auto read = judge::read_rows(path, [&](const judge::VerdictRow& row) {
    ++rows;
    EXPECT_EQ(judge::row_text(row, "family"), "family");
    EXPECT_EQ(judge::row_text(row, "candidate"), fmt::format("T{}", rows));
    EXPECT_EQ((*row.json)["sample"], 0);
  });
  ASSERT_TRUE(read);
  EXPECT_EQ(rows, 2u);
  EXPECT_EQ(read->malformed, 0u);
}

TEST(Outcome, KeepsTheFastestAndCountsTheRest) {
  ScriptedModel model;
  std::atomic<int> n{0};
  model.say = [&](int, std::uint64_t) { return std::string(static_cast<std::size_t>(++n), 'x'); };
  ScriptedVerifier verifier(Statuses{{"x", "ok"}, {"xxx", "ok"}, {"xx", "compile_error:nvcc"}}, 1);
  const auto ended = run(starts(4), model, &verifier, {.asking = 1});
  const Outcome outcome = outcome_of(ended.attempts);
  ASSERT_TRUE(outcome.best);
  EXPECT_EQ(ended.attempts[*outcome.best].answer.text, "xxx");
  EXPECT_EQ(outcome.verified, 2u);
  EXPECT_EQ(outcome.answers, 4u);
  EXPECT_EQ(outcome.statuses.at("compile_error:nvcc"), 1u);
  EXPECT_EQ(outcome_exit_code(outcome), 0);
  EXPECT_THAT(time_text(*ended.attempts[*outcome.best].verdict), HasSubstr("estimated"));
}

TEST(Outcome, SaysWhatFailedAndWhatToTry) {
  ScriptedModel model;
  ScriptedVerifier wrong(Statuses{}), task_fault(Statuses{{"T1", "invalid_task:trivial"}}),
      machine(Statuses{{"T1", "infra:device"}});
  auto attempts = run(starts(3), model, &wrong, {}).attempts;
  auto outcome = outcome_of(attempts);
  EXPECT_EQ(outcome_exit_code(outcome), 1);
  std::string text = failure_text(outcome, attempts, true);
  EXPECT_THAT(text, HasSubstr("None of 3 answers"));
  EXPECT_THAT(text, HasSubstr("correctness_error:values"));
  EXPECT_THAT(text, HasSubstr("cause of T1"));
  EXPECT_THAT(text, HasSubstr("--turns"));
  EXPECT_THAT(text, HasSubstr("135M"));
  attempts = run(starts(1), model, &task_fault, {}).attempts;
  outcome = outcome_of(attempts);
  EXPECT_EQ(outcome_exit_code(outcome), 4);
  EXPECT_THAT(failure_text(outcome, attempts, false), HasSubstr("module itself"));
  attempts = run(starts(1), model, &machine, {}).attempts;
  outcome = outcome_of(attempts);
  EXPECT_EQ(outcome_exit_code(outcome), 3);
  EXPECT_THAT(failure_text(outcome, attempts, false), HasSubstr("musacoder doctor"));
  EXPECT_EQ(outcome_exit_code(outcome_of({})), 3);
}

}  // namespace
}  // namespace musacoder::generate
