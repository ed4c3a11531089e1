// What came of a search for one module: the fastest verified candidate, and what went wrong with the others.
//
//   Outcome outcome = outcome_of(attempts);
//   if (outcome.best) write(attempts[*outcome.best]); else fmt::print("{}", failure_text(outcome, attempts));
//
// Times are measured (real hardware) or estimated (virtual GPU); within one search all are of one kind, and
// each says of which. Pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "generate/campaign.h"

namespace musacoder::generate {

struct CallTime {
  double ms = 0;
  bool measured = false;
};
// Of a verified candidate; nullopt where neither is known.
std::optional<CallTime> call_time(const judge::Verdict& verdict);
// "0.0123 ms a call, measured on …, 1.8 × eager", "0.0123 ms a call on h200, estimated (not measured)", "time
// not known".
std::string time_text(const judge::Verdict& verdict);

struct Outcome {
  std::optional<std::size_t> best;  // index into the attempts: the fastest verified; of equals the first
  std::size_t answers = 0, verified = 0, samples_verified = 0, unanswered = 0;
  std::map<std::string, std::size_t> statuses;
  std::string task_fault;     // status of the task's own fault, "" none
  std::string machine_fault;  // cause, where no attempt got a verdict about its candidate
};
Outcome outcome_of(const std::vector<Attempt>& attempts);

// Plain words for when nothing was verified: what failed, by class with an example of each, and what to try.
std::string failure_text(const Outcome& outcome, const std::vector<Attempt>& attempts, bool small_model);

// 0 something was verified, 1 candidates failed, 3 no verdict about any (infrastructure, unsupported, the
// model gave nothing), 4 the task is at fault.
int outcome_exit_code(const Outcome& outcome);

}  // namespace musacoder::generate
