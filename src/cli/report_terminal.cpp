#include "cli/report_terminal.h"

#include <fmt/format.h>

#include <algorithm>

#include "judge/reward.h"
#include "judge/statuses.h"

namespace musacoder::cli {

namespace {

using base::Terminal;
using judge::LevelState;
using judge::Verdict;

constexpr const char* kClasses[] = {"ok", "compile_error", "runtime_error", "correctness_error", "cheating",
                                    "unsupported", "inconclusive", "invalid_task", "infra"};

std::string in_colour(const Terminal& term, const std::string& status, const std::string& text) {
  if (status == "ok") return term.green(text);
  return judge::is_candidate_fault(status) ? term.red(text) : term.yellow(text);
}

const char* mark_of(const std::string& status) {
  if (status == "ok") return "✓";
  return judge::is_candidate_fault(status) ? "✗" : "!";
}

std::string safe(const std::string& text) { return base::printable(text, false); }

std::string pad(const std::string& text, int columns) {
  const int missing = columns - base::display_width(text);
  return missing > 0 ? text + std::string(static_cast<std::size_t>(missing), ' ') : text;
}

// Words wrapped to the width, each line after `indent` columns.
std::string wrapped(const std::string& text, int width, int indent) {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  std::string out, line;
  auto flush = [&] {
    out += margin + line + "\n";
    line.clear();
  };
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    if (!line.empty() && indent + base::display_width(line) + 1 + base::display_width(word) > width) flush();
    line += (line.empty() ? "" : " ") + word;
    at = space + 1;
  }
  if (!line.empty()) flush();
  return out;
}

std::string section(const Terminal& term, const char* name, const std::vector<std::string>& lines, int width) {
  if (lines.empty()) return "";
  std::string out = "\n" + term.bold(name) + "\n";
  for (const auto& line : lines) {
    if (line.starts_with("    ")) {
      out += "    " + term.dim(base::ellipsize(line, width - 4)) + "\n";
      continue;
    }
    std::string text = wrapped(line, width, 4);
    if (text.size() < 4) continue;   // nothing but blanks
    text.replace(2, 1, "•");
    out += text;
  }
  return out;
}

// "L2" or "L2 correctness" → "L2 correctness".
std::string level_label(const std::string& name) {
  for (const char* label : {"L0 build", "L1 run", "L2 correctness", "L3 legality", "L4 time"})
    if (name.size() == 2 && name[1] == label[1]) return label;
  return safe(name);
}

std::string level_line(const Terminal& term, const judge::Level& level, int width) {
  std::string mark = term.dim("·"), name = pad(level_label(level.name), 14);
  if (level.state == LevelState::kPassed) mark = term.green("✓");
  if (level.state == LevelState::kFailed) mark = term.red("✗");
  if (level.state == LevelState::kNotRun) name = term.dim(name);
  std::string detail = level.detail.empty() && level.state == LevelState::kNotRun ? "not run" : safe(level.detail);
  return fmt::format("  {} {}  {}\n", mark, name, term.dim(base::ellipsize(detail, std::max(20, width - 20))));
}

std::string key_line(const Terminal& term, const char* key, const std::string& value, int width) {
  if (value.empty()) return "";
  std::string text = wrapped(value, width, 12);
  if (text.size() < 12) return "";   // nothing but blanks
  text.replace(0, 12, pad("", 2) + term.dim(pad(key, 10)));
  return text;
}

// Times of the candidate and of what it is compared with, and what may have disturbed them.
std::string timing_lines(const Terminal& term, const Verdict& v, int width) {
  const judge::Timing& t = *v.timing;
  std::string out = key_line(term, "call", fmt::format("{:.4g} ms median of {} (p10 {:.4g}, p90 {:.4g}); {} calls verified", t.candidate.median,
                                                       t.candidate.ms.size(), t.candidate.p10, t.candidate.p90, t.verified_calls), width);
  std::string others;
  for (const auto& [name, samples] : t.baselines)
    others += fmt::format("{}{} {:.4g} ms (×{:.3g})", others.empty() ? "" : ", ", safe(name), samples.median,
                          t.candidate.median > 0 ? samples.median / t.candidate.median : 0);
  for (const auto& [name, why] : t.unavailable) others += fmt::format("{}{} not available", others.empty() ? "" : ", ", safe(name));
  out += key_line(term, "baselines", others, width);
  for (const auto& remark : t.remarks) out += key_line(term, "remark", safe(remark), width);
  return out;
}

}  // namespace

std::string verdict_report(const Verdict& v, const Terminal& term, const std::map<std::string, std::string>& sources) {
  const int width = std::clamp(term.width(), 60, 120);
  const judge::Feedback feedback = judge::make_feedback(v, {.round = 1, .sources = sources});

  std::string out = fmt::format("{}  {}   {}\n", in_colour(term, v.status, fmt::format("{} {}", mark_of(v.status), feedback.title)),
                                in_colour(term, v.status, safe(v.status)), term.bold(safe(v.task)));
  out += wrapped(feedback.what, width, 2) + "\n";
  for (const auto& level : v.levels) out += level_line(term, level, width);
  out += section(term, "Where", feedback.where, width);
  out += section(term, "Evidence", feedback.evidence, width);
  out += section(term, feedback.verified ? "To make it faster" : "Next step", feedback.look_at, width);

  const judge::Reward reward = judge::reward_of(v);
  out += "\n";
  out += key_line(term, "reward", v.reward ? fmt::format("{:g}  ({})", *v.reward, reward.explanation) : "none  (" + reward.explanation + ")", width);
  out += key_line(term, "device", fmt::format("{} {} {}, policy {}", safe(v.backend), v.backend == "vgpu" ? "presenting" : "on", safe(v.gpu), safe(v.policy)), width);
  if (v.timing && v.timing->measured) out += timing_lines(term, v, width);
  std::string scaled;
  for (const auto& constant : v.scaling)
    if (constant.from != constant.to)
      scaled += fmt::format("{}{} {} → {}", scaled.empty() ? "" : ", ", safe(constant.name), safe(constant.from), safe(constant.to));
  out += key_line(term, "sizes", scaled.empty() ? (v.scaled ? "scaled down" : "") : scaled, width);
  for (const auto& result : v.builds)
    if (result.headers == "full") {
      out += key_line(term, "headers", "torch's full headers: " + safe(result.headers_reason), width);
      break;
    }
  for (const auto& note : v.notes) out += key_line(term, "note", safe(note), width);
  std::string times;
  for (const auto& [stage, seconds] : v.seconds)
    if (stage != "total" && seconds >= 0.0005)
      times += fmt::format("{}{} {}", times.empty() ? "" : ", ", safe(stage), base::human_seconds(seconds));
  if (auto total = v.seconds.find("total"); total != v.seconds.end())
    times = base::human_seconds(total->second) + (times.empty() ? "" : "  (" + times + ")");
  out += key_line(term, "time", times, width);
  return out;
}

std::string class_summary(const std::map<std::string, std::size_t>& statuses, const Terminal& term) {
  std::map<std::string, std::size_t> classes;
  for (const auto& [status, count] : statuses) classes[judge::status_class(status)] += count;
  std::string out;
  auto add = [&](const std::string& name, std::size_t count) {
    out += (out.empty() ? "" : ", ") + in_colour(term, name, fmt::format("{} {}", count, name == "ok" ? "verified" : name));
  };
  for (const char* name : kClasses)
    if (auto it = classes.find(name); it != classes.end()) {
      add(it->first, it->second);
      classes.erase(it);
    }
  for (const auto& [name, count] : classes) add(safe(name), count);
  return out;
}

std::string verdict_table(const std::vector<TableRow>& rows, const Terminal& term) {
  using base::Align;
  base::Table table({"task", "status", "L0–L4", "q", "reward", "seconds", "cause"},
                    {Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kLeft});
  std::map<std::string, std::size_t> statuses;
  for (const auto& row : rows) {
    const Verdict& v = *row.verdict;
    ++statuses[v.status];
    std::string levels;
    for (const auto& level : v.levels)
      levels += level.state == LevelState::kPassed   ? term.green("✓")
                : level.state == LevelState::kFailed ? term.red("✗")
                                                     : term.dim("·");
    auto total = v.seconds.find("total");
    table.add({base::ellipsize(safe(row.name.empty() ? v.task : row.name), 36),
               in_colour(term, v.status, fmt::format("{} {}", mark_of(v.status), base::ellipsize(safe(v.status), 36))), levels,
               !v.trials.empty() ? fmt::format("{:.2f}", v.q) : "–", v.reward ? fmt::format("{:+.2f}", *v.reward) : "–",
               total == v.seconds.end() ? "–" : fmt::format("{:.1f}", total->second), safe(v.cause)});
  }
  return table.text(std::max(80, term.width())) + "\n" + class_summary(statuses, term) + "\n";
}

}  // namespace musacoder::cli
