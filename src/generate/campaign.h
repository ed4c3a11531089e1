// Asks a model for answers to tasks and verifies them meanwhile: samples side by side, each with some turns
// in which the verifier's feedback goes back to the model.
//
//   std::vector<Start> starts = {{.task = task, .messages = {{"user", prompt}}, .sample = 0}, …};
//   CampaignConfig config{.turns = 3, .asking = 8};
//   CampaignEnd end = run_campaign(starts, model, &verifier, config, {.attempt = [&](const Attempt& a) {
//   write(a); }});
//
// What waits for the model and what waits for the verifier stand in two queues, so that neither is kept
// waiting: `asking` threads ask, a thread a lane judges. Later turns are asked first, then starts in their
// order; a lane prefers the task it judged last. Answers with equal text to one task are judged once. A
// sample ends with the first verified answer (unless `improve`), after `turns`, or when there is no verdict
// about the candidate to learn from. Without a verifier every sample has one turn and no verdict.
//
// The model's refusals end the campaign (CampaignEnd::error), what was finished stays; conversations that are
// too long end their sample alone. Deterministic but for the order in which attempts end, given the model and
// the verifier are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_model.h"
#include "generate/verifier.h"
#include "task/task.h"

namespace musacoder::generate {

struct Start {
  std::shared_ptr<const task::Task> task;
  std::vector<chat::Message> messages;  // what the first turn asks
  int sample = 0;
};

struct Attempt {
  std::shared_ptr<const task::Task> task;
  int sample = 0, turn = 1;  // turn from 1
  std::uint64_t seed = 0;
  std::vector<chat::Message> messages;  // what was asked
  chat::Answer answer;
  chat::Usage usage;
  std::string model;  // as its server calls it
  double ask_s = 0, judge_s = 0;
  bool cached = false;    // the reply
  bool repeated = false;  // the verdict is that of an equal answer
  bool last = false;      // of its sample
  std::optional<judge::Verdict> verdict;
  std::string code;   // of the candidate
  std::string error;  // why there is no answer; ""
};

struct CampaignConfig {
  int turns = 1;
  chat::Sampling sampling{};  // its n is not read; its seed is the campaign's
  int asking = 8;             // requests at a time
  bool improve = false;       // verified answers are asked to be faster, too
  bool stop_when_verified = false;
  base::Deadline deadline = base::Deadline::never();
};

struct CampaignProgress {
  std::size_t samples = 0, ended = 0;  // of `starts`
  std::size_t answers = 0, judged = 0, verified = 0;
  std::size_t asking = 0, judging = 0, waiting = 0;  // now; waiting for a lane
  std::int64_t tokens = 0;                           // written
};

struct CampaignHooks {
  std::function<void(const Attempt&)> attempt{};  // each as it ends; one at a time
  std::function<void(const CampaignProgress&)>
      progress{};                // when something changed, and twice a second; one at a time
  std::function<bool()> stop{};  // asked often; true ends it as the deadline does
};

struct CampaignEnd {
  CampaignProgress progress;
  bool out_of_time = false, stopped = false;
  Status error = ok();  // the model refused, or is gone
  double seconds = 0;
  double asking_s = 0, judging_s = 0;  // summed over threads
};

CampaignEnd run_campaign(const std::vector<Start>& starts, chat::ChatModel& model, Verifier* verifier,
                         const CampaignConfig& config, const CampaignHooks& hooks);

// The seed of a turn: of the campaign's, the task's code, sample and turn; below 2^31, never 0.
std::uint64_t turn_seed(std::uint64_t seed, const std::string& task_code, int sample, int turn);
// What the next turn asks after an answer: the conversation, the answer and feedback about it.
std::vector<chat::Message> next_turn(const std::vector<chat::Message>& asked, const std::string& answer,
                                     const judge::Verdict& verdict, const std::string& code, int round);

}  // namespace musacoder::generate
