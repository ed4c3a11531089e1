#include "generate/outcome.h"

#include <algorithm>
#include <set>

#include "base/terminal.h"
#include "judge/statuses.h"

namespace musacoder::generate {
namespace {

// What to try, by what failed most.
const char* advice(const std::string& status_class) {
  if (status_class == "compile_error")
    return "Most answers did not compile. More samples (--samples), a lower --temperature, or a model that "
           "knows CUDA better.";
  if (status_class == "runtime_error")
    return "Most kernels faulted when they ran. More turns (--turns) give the model the fault with its "
           "place.";
  if (status_class == "correctness_error")
    return "Most kernels gave wrong values. More turns (--turns) show the model where; --one-shot shows it "
           "an example.";
  if (status_class == "cheating")
    return "Most answers left the work to PyTorch or a library. --form full says most plainly what is asked "
           "for.";
  return "";
}

}  // namespace

std::optional<CallTime> call_time(const judge::Verdict& verdict) {
  if (verdict.timing && verdict.timing->measured) return CallTime{verdict.timing->candidate.median, true};
  if (verdict.estimate) return CallTime{verdict.estimate->ms, false};
  return std::nullopt;
}

std::string time_text(const judge::Verdict& verdict) {
  const auto time = call_time(verdict);
  if (!time) return "time not known";
  if (!time->measured)
    return fmt::format("{:.4f} ms a call on {}, estimated (not measured)", time->ms, verdict.estimate->gpu);
  std::string text = fmt::format("{:.4f} ms a call, measured", time->ms);
  if (!verdict.timing->conditions.empty()) text += " on " + verdict.timing->conditions;
  if (verdict.speedup_eager) text += fmt::format(", {:.2f} × as fast as eager", *verdict.speedup_eager);
  return text;
}

Outcome outcome_of(const std::vector<Attempt>& attempts) {
  Outcome outcome;
  std::set<int> samples;
  bool decided = false;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const Attempt& attempt = attempts[i];
    if (!attempt.error.empty() && attempt.answer.text.empty()) ++outcome.unanswered;
    if (!attempt.verdict) continue;
    const judge::Verdict& verdict = *attempt.verdict;
    ++outcome.answers;
    ++outcome.statuses[verdict.status];
    const std::string status_class = judge::status_class(verdict.status);
    if (status_class == "invalid_task") outcome.task_fault = verdict.status;
    if (verdict.status == "ok" || judge::is_candidate_fault(verdict.status))
      decided = true;
    else if (outcome.machine_fault.empty())
      outcome.machine_fault = verdict.status + ": " + verdict.cause;
    if (verdict.status != "ok") continue;
    ++outcome.verified;
    samples.insert(attempt.sample);
    if (!outcome.best) {
      outcome.best = i;
      continue;
    }
    const auto time = call_time(verdict), best = call_time(*attempts[*outcome.best].verdict);
    if (time && (!best || time->ms < best->ms)) outcome.best = i;
  }
  outcome.samples_verified = samples.size();
  if (decided) outcome.machine_fault.clear();
  return outcome;
}

std::string failure_text(const Outcome& outcome, const std::vector<Attempt>& attempts, bool small_model) {
  std::string text;
  if (outcome.answers == 0) {
    text = "The model gave no answer that could be judged.\n";
    for (const Attempt& attempt : attempts)
      if (!attempt.error.empty()) {
        text += "  " + base::ellipsize(base::printable(attempt.error, false), 300) + "\n";
        break;
      }
    return text + "Try: a longer --time, a smaller --max-tokens, another model.\n";
  }
  if (!outcome.task_fault.empty()) {
    text =
        fmt::format("The module itself cannot be used: {}\n", judge::status_info(outcome.task_fault).meaning);
    for (const Attempt& attempt : attempts)
      if (attempt.verdict && attempt.verdict->status == outcome.task_fault) {
        text += "  " + base::printable(attempt.verdict->cause, false) + "\n";
        break;
      }
    return text + "Try: " + std::string(judge::status_info(outcome.task_fault).look_at) + "\n";
  }
  text = fmt::format("None of {} answers was verified.\n", outcome.answers);
  std::vector<std::pair<std::string, std::size_t>> by_count(outcome.statuses.begin(), outcome.statuses.end());
  std::stable_sort(by_count.begin(), by_count.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::map<std::string, std::size_t> classes;
  for (const auto& [status, count] : by_count) {
    classes[judge::status_class(status)] += count;
    std::string cause;
    for (const Attempt& attempt : attempts)
      if (attempt.verdict && attempt.verdict->status == status) {
        cause = base::ellipsize(base::printable(attempt.verdict->cause, false), 160);
        break;
      }
    text +=
        fmt::format("  {:3} × {} ({}), e.g. {}\n", count, judge::status_info(status).title, status, cause);
  }
  const auto most = std::max_element(classes.begin(), classes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (!outcome.machine_fault.empty())
    text += "None of this is a verdict about the answers. Try: `musacoder doctor`, or another --backend.\n";
  else if (const std::string tip = advice(most->first); !tip.empty())
    text += "Try: " + tip + "\n";
  if (small_model)
    text +=
        "The model that was asked is a general one of 135M parameters without an adapter for kernels; it is "
        "not expected to write any. Name "
        "another with --model or --endpoint.\n";
  return text;
}

int outcome_exit_code(const Outcome& outcome) {
  if (outcome.best) return 0;
  if (!outcome.task_fault.empty()) return 4;
  return outcome.answers == 0 || !outcome.machine_fault.empty() ? 3 : 1;
}

}  // namespace musacoder::generate
