#include "judge/feedback.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/terminal.h"
#include "judge/dialect_words.h"
#include "judge/statuses.h"

namespace musacoder::judge {

using nlohmann::json;

namespace {

constexpr std::size_t kMaxText = 600;       // one piece of foreign text
constexpr std::size_t kMaxDiagnostics = 5;
constexpr std::size_t kTracebackLines = 8;

std::string cut(std::string text, std::size_t limit = kMaxText) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;  // whole code points
  return text.substr(0, limit) + " …";
}

// Foreign text on one line.
std::string clean(std::string_view text, std::size_t limit = kMaxText) {
  std::string line;
  for (char c : text.substr(0, limit + 8)) line += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  return cut(base::printable(line, false), limit);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// The one triple-quoted string of a Python file that defines a __global__ function; "" when there is none or are several.
std::string inline_cuda_source(const std::string& python) {
  std::string found;
  for (std::size_t at = 0; at < python.size();) {
    const std::size_t begin = std::min(python.find("\"\"\"", at), python.find("'''", at));
    if (begin == std::string::npos) break;
    const std::size_t end = python.find(python.substr(begin, 3), begin + 3);
    if (end == std::string::npos) break;
    std::string text = python.substr(begin + 3, end - begin - 3);
    if (text.find("__global__") != std::string::npos) {
      if (!found.empty()) return "";
      found = std::move(text);
    }
    at = end + 3;
  }
  return found;
}

// The quoted source line, from the given sources, else from the compiler's own output; "" when it is not known.
std::string source_line(const Verdict& verdict, const FeedbackOptions& options, const std::string& file, int line) {
  if (line <= 0) return "";
  const std::string name = base_name(file);
  std::string text;
  if (auto it = options.sources.find(name); it != options.sources.end()) {
    text = it->second;
  } else if (auto python = options.sources.find("candidate.py"); python != options.sources.end() && (name.ends_with(".cu") || name.starts_with("cuda_sources") || name.starts_with("musa_sources"))) {
    text = inline_cuda_source(python->second);
  }
  if (!text.empty()) {
    const auto lines = lines_of(text);
    if (static_cast<std::size_t>(line) <= lines.size()) return clean(trimmed(lines[static_cast<std::size_t>(line) - 1]), 200);
    return "";
  }
  // nvcc: "cuda.cu(12): error: …" and the line after it; gcc: "main.cpp:12:5: error: …" and "   12 | code".
  for (const auto& result : verdict.builds) {
    const auto lines = lines_of(result.log);
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
      const bool nvcc = lines[i].find(fmt::format("{}({}):", name, line)) != std::string::npos;
      const bool gcc = lines[i].find(fmt::format("{}:{}:", name, line)) != std::string::npos;
      if (!nvcc && !gcc) continue;
      std::string next = lines[i + 1];
      if (gcc) {
        const std::size_t bar = next.find(" | ");
        if (bar == std::string::npos) continue;
        next = next.substr(bar + 3);
      }
      if (!trimmed(next).empty()) return clean(trimmed(next), 200);
    }
  }
  return "";
}

std::string place(const std::string& file, int line) {
  return line > 0 ? fmt::format("{}:{}", clean(base_name(file), 100), line) : clean(base_name(file), 100);
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{:.9g}", value);
}

std::string factor(double value) { return value >= 1000 ? fmt::format("{:.3g}", value) : fmt::format("{:.1f}", value); }

std::string join(const std::vector<std::string>& items, const char* separator = ", ") {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : separator) + item;
  return out;
}

// Names with counts in first-seen order: "aten::mm ×2, aten::relu".
std::string counted(const std::vector<std::string>& names, std::size_t limit = 8) {
  std::vector<std::pair<std::string, int>> counts;
  for (const auto& name : names) {
    auto it = std::find_if(counts.begin(), counts.end(), [&](const auto& entry) { return entry.first == name; });
    it == counts.end() ? void(counts.emplace_back(name, 1)) : void(++it->second);
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) {
    if (parts.size() == limit) {
      parts.push_back(fmt::format("and {} more", counts.size() - limit));
      break;
    }
    parts.push_back(count > 1 ? fmt::format("{} ×{}", clean(name, 80), count) : clean(name, 80));
  }
  return join(parts);
}

std::string triple(const std::array<std::uint32_t, 3>& xyz) { return fmt::format("({}, {}, {})", xyz[0], xyz[1], xyz[2]); }

// Trials that count: not skipped.
std::vector<const Trial*> counting(const Verdict& verdict) {
  std::vector<const Trial*> trials;
  for (const auto& trial : verdict.trials)
    if (trial.skipped.empty()) trials.push_back(&trial);
  return trials;
}

void add_trials(const Verdict& verdict, Feedback& feedback) {
  const auto trials = counting(verdict);
  if (trials.empty()) return;
  std::vector<std::string> passed, failed;
  for (const Trial* trial : trials) {
    std::string name = clean(trial->distribution, 40);
    if (trial->reverse_blocks) name += " (blocks in reverse order)";
    (trial->pass ? passed : failed).push_back(name);
  }
  std::string line = fmt::format("{} of {} trials passed", passed.size(), trials.size());
  if (!failed.empty()) line += "; failed on: " + counted(failed);
  if (!failed.empty() && !passed.empty()) line += "; passed on: " + counted(passed);
  feedback.evidence.push_back(line + ".");
}

bool looks_unwritten(double got) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(got));
  const std::uint32_t byte = bits & 0xFF;
  return std::isfinite(got) && byte != 0 && static_cast<double>(static_cast<float>(got)) == got && bits == byte * 0x01010101u;
}

// What the pattern of failures says about the cause.
void value_patterns(const Verdict& verdict, Feedback& feedback) {
  std::set<std::string> passed, failed;
  for (const Trial* trial : counting(verdict)) (trial->pass ? passed : failed).insert(trial->distribution);
  auto only = [&](const char* name) { return failed.size() == 1 && failed.count(name) && !passed.empty() && !passed.count(name); };
  auto& hints = feedback.look_at;
  // Wrong values in reverse order were wrong in forward order as well, or the judge would have found them nondeterministic.
  if (verdict.status == "correctness_error:nondeterministic")
    hints.push_back("It fails only when blocks run in another order: results must not depend on the order of blocks (missing "
                    "atomics, a second kernel, or memory that is read before it is written).");
  else if (only("large"))
    hints.push_back("It fails only on large values: overflow. Subtract the row maximum before exp, and accumulate in float32 or better.");
  else if (only("tiny"))
    hints.push_back("It fails only on tiny values: look for a missing or added epsilon, and for underflow.");
  else if (only("constant_rows"))
    hints.push_back("It fails only on constant rows: the variance is zero there. Compute it as the mean of squared deviations, "
                    "and add epsilon where the reference does.");
  const Trial* worst = telling_trial(verdict);
  if (!worst || !worst->worst) return;
  const double got = worst->worst->got, expected = worst->worst->expected;
  const double share = worst->total ? static_cast<double>(worst->mismatched) / static_cast<double>(worst->total) : 0;
  if (looks_unwritten(got))
    hints.push_back("The value looks like memory that nothing has written: does the grid cover every element of the output?");
  else if (std::isnan(got) && !std::isnan(expected))
    hints.push_back("NaN came out: 0/0, Inf − Inf, sqrt or log of a negative number, or uninitialised memory.");
  else if (got == 0 && expected != 0)
    hints.push_back("Zero came out: the element may never be written, or its sum never be reduced.");
  else if (expected != 0 && std::isfinite(got) && std::isfinite(expected) && std::abs(got + expected) < 1e-3 * std::abs(expected))
    hints.push_back("The sign is wrong.");
  if (share >= 0.99) hints.push_back("Nearly every element is wrong: compare the formula, not the edges.");
  else if (share > 0 && share < 0.05)
    hints.push_back("Few elements are wrong: look at edges, the last block, remainders after a vectorised loop, and padding.");
}

void add_values(const Verdict& verdict, const FeedbackOptions&, Feedback& feedback) {
  const Trial* worst = telling_trial(verdict);
  if (worst && !worst->worst && !worst->message.empty()) feedback.evidence.push_back(clean(worst->message));
  if (worst && worst->worst) {
    feedback.where.push_back(fmt::format("output {} at [{}], in the trial on {} inputs", worst->worst->output,
                                         fmt::join(worst->worst->index, ", "), clean(worst->distribution, 40)));
    feedback.evidence.push_back("Worst element: " + worst_text(*worst->worst) + ".");
  }
  if (worst && worst->total)
    feedback.evidence.push_back(fmt::format("{} of {} elements are wrong in that trial.", worst->mismatched, worst->total));
  add_trials(verdict, feedback);
  value_patterns(verdict, feedback);
}

void add_builds(const Verdict& verdict, const FeedbackOptions& options, Feedback& feedback) {
  for (const auto& result : verdict.builds) {
    if (result.ok) continue;
    std::vector<const build::Diagnostic*> errors;
    for (const auto& d : result.diagnostics)
      if (d.severity == build::Severity::kError) errors.push_back(&d);
    for (const build::Diagnostic* d : errors) {
      if (feedback.where.size() >= kMaxDiagnostics) break;
      if (d->file.empty()) continue;
      std::string quoted = source_line(verdict, options, d->file, d->line);
      if (quoted.empty()) quoted = source_line(verdict, options, "candidate.py", d->candidate_line);
      std::string where = place(d->file, d->line);
      if (d->candidate_line > 0) where += fmt::format(" (line {} of the answer's code)", d->candidate_line);
      feedback.where.push_back(where + (quoted.empty() ? "" : ": `" + quoted + "`"));
    }
    if (errors.size() > kMaxDiagnostics)
      feedback.evidence.push_back(fmt::format("{} errors in all; the first {}:", errors.size(), kMaxDiagnostics));
  }
  for (auto& line : diagnostic_lines(verdict, kMaxDiagnostics)) feedback.evidence.push_back(std::move(line));
  if (!feedback.evidence.empty()) return;
  for (const auto& result : verdict.builds) {
    if (result.ok || result.log.empty()) continue;
    auto lines = lines_of(result.log);
    for (std::size_t i = lines.size() > 6 ? lines.size() - 6 : 0; i < lines.size(); ++i)
      if (!trimmed(lines[i]).empty()) feedback.evidence.push_back(clean(trimmed(lines[i]), 300));
  }
}

void add_exception(const Verdict& verdict, const FeedbackOptions& options, Feedback& feedback) {
  if (verdict.exception_type.empty() && verdict.exception_message.empty()) return;
  feedback.evidence.push_back(fmt::format("{}: {}", clean(verdict.exception_type, 80), clean(verdict.exception_message)));
  if (verdict.exception_line > 0) {
    const std::string quoted = source_line(verdict, options, "candidate.py", verdict.exception_line);
    feedback.where.push_back(place("candidate.py", verdict.exception_line) + (quoted.empty() ? "" : ": `" + quoted + "`"));
  }
  std::vector<std::string> lines;
  for (const auto& line : lines_of(verdict.traceback))
    if (!trimmed(line).empty()) lines.push_back(clean(line, 200));
  if (lines.size() < 2) return;
  feedback.evidence.push_back("End of the traceback:");
  for (std::size_t i = lines.size() > kTracebackLines ? lines.size() - kTracebackLines : 0; i < lines.size(); ++i)
    feedback.evidence.push_back("    " + lines[i]);
}

void add_fault(const Verdict& verdict, const FeedbackOptions& options, Feedback& feedback) {
  const auto& fault = verdict.fault ? verdict.fault : verdict.ledger.fault;
  if (!fault) return;
  if (!fault->kernel.empty())
    feedback.where.push_back(fmt::format("kernel `{}`, block {}, thread {}", clean(fault->kernel, 200), triple(fault->block),
                                         triple(fault->thread)));
  if (!fault->file.empty()) {
    const std::string quoted = source_line(verdict, options, fault->file, static_cast<int>(fault->line));
    feedback.where.push_back(place(fault->file, static_cast<int>(fault->line)) + (quoted.empty() ? "" : ": `" + quoted + "`"));
  }
  if (fault->access_bytes)
    feedback.evidence.push_back(fmt::format("{} of {} bytes in {} memory.", fault->is_write ? "Write" : "Read", fault->access_bytes,
                                            fault->space.empty() ? "device" : clean(fault->space, 20)));
  if (!fault->tensor.empty()) {
    std::string line = fmt::format("Nearest tensor: {} ({} bytes); the access is at byte {}", clean(fault->tensor, 200),
                                   fault->tensor_bytes, fault->offset_bytes);
    const auto size = static_cast<std::int64_t>(fault->tensor_bytes);
    if (fault->offset_bytes == size) line += ", just past its end";
    else if (fault->offset_bytes > size) line += fmt::format(", {} bytes past its end", fault->offset_bytes - size);
    else if (fault->offset_bytes < 0) line += fmt::format(", {} bytes before its start", -fault->offset_bytes);
    feedback.evidence.push_back(line + ".");
  }
  const char* prefix = fault->kind == vgpu::FaultKind::kAssert    ? "Failed assertion: "
                       : fault->kind == vgpu::FaultKind::kTimeout ? "Stopped at its "
                                                                  : "";
  if (!fault->detail.empty()) feedback.evidence.push_back(prefix + clean(fault->detail));
  else if (feedback.evidence.empty() && !fault->message.empty()) feedback.evidence.push_back(clean(fault->message));
}

void add_legality(const Verdict& verdict, const FeedbackOptions&, Feedback& feedback) {
  if (!verdict.refused_ops.empty()) feedback.evidence.push_back("Torch operators called: " + counted(verdict.refused_ops) + ".");
  if (!verdict.cpu_ops.empty()) feedback.evidence.push_back("Operators run on the CPU: " + counted(verdict.cpu_ops) + ".");
  std::vector<std::string> calls;
  for (const auto& call : verdict.ledger.vendor_calls) calls.push_back(call.library + "::" + call.function);
  if (!calls.empty()) feedback.evidence.push_back("Library calls: " + counted(calls) + ".");
  if (verdict.ledger.launches.empty()) {
    feedback.evidence.push_back("None of the candidate's kernels ran during forward.");
  } else {
    std::vector<std::string> kernels;
    for (const auto& launch : verdict.ledger.launches) kernels.push_back(launch.kernel);
    feedback.evidence.push_back("Kernels that ran: " + counted(kernels) + ".");
  }
  if (!verdict.outside.launches.empty()) {
    std::vector<std::string> kernels;
    for (const auto& launch : verdict.outside.launches) kernels.push_back(launch.kernel);
    feedback.evidence.push_back("Kernels that ran outside the judged calls: " + counted(kernels) + ".");
  }
  if (verdict.ledger.h2d_after_d2h_bytes)
    feedback.evidence.push_back(fmt::format("{} bytes went to the host and {} bytes came back within the call: work done on the host.",
                                            verdict.ledger.d2h_bytes, verdict.ledger.h2d_after_d2h_bytes));
  for (const auto& result : verdict.builds)
    if (!result.ok) {
      feedback.evidence.push_back(fmt::format("A build failed before that ({}): {}", result.status, clean(result.message)));
      for (auto& line : diagnostic_lines(verdict, 2)) feedback.evidence.push_back(std::move(line));
      feedback.look_at.push_back("Mend the build; a fall-back to torch after a failed build is no candidate.");
      break;
    }
}

std::string human_count(double value) {
  for (const auto& [unit, name] : {std::pair{1e12, "trillion"}, std::pair{1e9, "billion"}, std::pair{1e6, "million"}})
    if (value >= unit) return fmt::format("{:.1f} {}", value / unit, name);
  return fmt::format("{:.0f}", value);
}

// For verified candidates: what the ledger says about time.
void add_speed(const Verdict& verdict, Feedback& feedback) {
  const double calls = std::max<double>(1, static_cast<double>(counting(verdict).size()));
  std::uint64_t launches = 0, loads = 0, stores = 0, flops = 0, atomics = 0, divergent = 0, shared = 0;
  std::set<std::string> kernels;
  for (const auto& launch : verdict.ledger.launches) {
    launches += launch.count;
    kernels.insert(launch.kernel);
    loads += launch.counters.global_load_bytes;
    stores += launch.counters.global_store_bytes;
    flops += launch.counters.flops;
    atomics += launch.counters.atomics;
    divergent += launch.counters.divergent_branches;
    shared += launch.counters.shared_accesses;
  }
  const double per_call = static_cast<double>(launches) / calls;
  feedback.evidence.push_back(fmt::format("{:.3g} kernel launch{} a call, of {} kernel{}.", per_call, per_call == 1 ? "" : "es",
                                          kernels.size(), kernels.size() == 1 ? "" : "s"));
  if (loads + stores)
    feedback.evidence.push_back(fmt::format("Each call reads {} and writes {} of global memory and makes {} floating-point operations{}.",
                                            base::human_bytes(static_cast<std::uint64_t>(static_cast<double>(loads) / calls)),
                                            base::human_bytes(static_cast<std::uint64_t>(static_cast<double>(stores) / calls)),
                                            human_count(static_cast<double>(flops) / calls), verdict.scaled ? " (at reduced sizes)" : ""));
  auto speed = [&](const std::optional<double>& value, const char* name) {
    if (value) feedback.evidence.push_back(fmt::format("{:.2f} × as fast as {}.", *value, name));
  };
  speed(verdict.speedup_eager, "PyTorch eager");
  speed(verdict.speedup_compile, "torch.compile");
  if (!verdict.speedup_eager && !verdict.speedup_compile)
    feedback.evidence.push_back("No time was measured: this device measures none.");

  auto& hints = feedback.look_at;
  if (per_call > 1.5) hints.push_back("Fuse kernels: every launch costs time, and every intermediate result goes through global memory.");
  const double intensity = loads + stores ? static_cast<double>(flops) / static_cast<double>(loads + stores) : 0;
  if (loads + stores && intensity < 10)
    hints.push_back("The work is bound by memory: neighbouring threads must read neighbouring addresses, in wide (16-byte) "
                    "accesses, and each byte once.");
  else if (loads + stores && shared == 0)
    hints.push_back("Much arithmetic on few bytes without shared memory: tile through shared memory and registers.");
  if (atomics > launches * 1024) hints.push_back("Many atomics: reduce within a warp and a block first, then one atomic a block.");
  if (divergent > 0 && launches && divergent / launches > 256) hints.push_back("Branches diverge within warps: let whole warps take the same path.");
  if (verdict.ledger.d2d_bytes) hints.push_back("Copies between device tensors take time: write results where they are needed.");
  if (verdict.ledger.memset_bytes) hints.push_back("Outputs are filled before they are written: use empty instead of zeros where every element is written.");
  hints.push_back("Keep the host side of forward thin: no needless allocations, copies, synchronisation or checks.");
}

void add_class_details(const Verdict& verdict, const FeedbackOptions& options, Feedback& feedback) {
  const std::string name = status_class(verdict.status);
  if (name == "ok") return add_speed(verdict, feedback);
  if (name == "compile_error") {
    add_builds(verdict, options, feedback);
    return add_exception(verdict, options, feedback);
  }
  if (name == "runtime_error") {
    add_fault(verdict, options, feedback);
    add_exception(verdict, options, feedback);
    if (!verdict.ledger.printf_output.empty())
      feedback.evidence.push_back("Kernel output: " + clean(verdict.ledger.printf_output, 300));
    return;
  }
  if (name == "correctness_error") {
    if (verdict.status == "correctness_error:values" || verdict.status == "correctness_error:nondeterministic")
      return add_values(verdict, options, feedback);
    const Trial* worst = telling_trial(verdict);
    if (worst && !worst->message.empty()) feedback.evidence.push_back(clean(worst->message));
    return add_trials(verdict, feedback);
  }
  if (name == "cheating") return add_legality(verdict, options, feedback);
  add_fault(verdict, options, feedback);
  add_exception(verdict, options, feedback);
}

}  // namespace

const Trial* telling_trial(const Verdict& verdict) {
  const Trial* first = nullptr;
  for (const auto& trial : verdict.trials) {
    if (trial.pass || !trial.skipped.empty()) continue;
    if (trial.worst) return &trial;
    if (!first) first = &trial;
  }
  return first;
}

std::string worst_text(const WorstElement& worst) {
  std::string text = fmt::format("output {} at [{}]: expected {}, got {}", worst.output, fmt::join(worst.index, ", "),
                                 number(worst.expected), number(worst.got));
  if (std::isfinite(worst.ratio) && std::isfinite(worst.error))
    text += fmt::format(", error {} is {} × the allowed {}", number(worst.error), factor(worst.ratio), number(worst.budget));
  return text;
}

std::vector<std::string> diagnostic_lines(const Verdict& verdict, std::size_t limit) {
  static constexpr const char* kNames[] = {"error", "warning", "note"};
  std::vector<std::string> lines;
  std::set<std::string> seen;
  for (auto severity : {build::Severity::kError, build::Severity::kWarning}) {
    if (!lines.empty()) break;  // warnings only where there is no error to show
    for (const auto& result : verdict.builds) {
      if (result.ok) continue;
      for (const auto& d : result.diagnostics) {
        if (d.severity != severity || lines.size() >= limit) continue;
        std::string line = fmt::format("{}{}: {}", d.file.empty() ? "" : place(d.file, d.line) + ": ",
                                       kNames[static_cast<int>(d.severity)], clean(d.message, 300));
        if (seen.insert(line).second) lines.push_back(std::move(line));
      }
      if (severity == build::Severity::kError && result.diagnostics.empty() && !result.message.empty() && lines.size() < limit)
        lines.push_back(clean(result.message, 300));
    }
  }
  return lines;
}

Feedback make_feedback(const Verdict& verdict, const FeedbackOptions& options) {
  const StatusInfo& info = status_info(verdict.status);
  Feedback feedback;
  feedback.round = options.round;
  feedback.status = clean(verdict.status, 120);
  feedback.title = worded(info.title, verdict.dialect);
  feedback.verified = verdict.status == "ok";
  feedback.about_candidate = feedback.verified || is_candidate_fault(verdict.status);
  feedback.what = worded(info.meaning, verdict.dialect);
  const std::string cause = trimmed(clean(verdict.cause));
  if (!cause.empty() && cause != info.meaning) feedback.what = cause + (cause.ends_with('.') ? "" : ".");
  add_class_details(verdict, options, feedback);
  if (!feedback.verified) feedback.look_at.push_back(worded(info.look_at, verdict.dialect));
  if (verdict.scaled && feedback.verified)
    feedback.evidence.push_back("It was verified at smaller sizes than the task's; it must hold for the task's sizes too.");

  if (feedback.verified) {
    feedback.task = fmt::format("Round {}: the answer is correct. Make it faster without changing outputs, parameters or the interface.",
                                options.round + 1);
  } else if (feedback.about_candidate) {
    feedback.task = fmt::format("Round {}: repair this first; speed comes after correctness. Keep what already works.", options.round + 1);
  } else {
    feedback.task = "This is no verdict about the answer; the same answer may be verified again elsewhere.";
  }
  feedback.demand = "Answer with the complete Python file that defines ModelNew, in one fenced code block, and nothing else.";
  return feedback;
}

std::string feedback_text(const Feedback& feedback) {
  std::string out = fmt::format("=== System Feedback for Round {} ===\n", feedback.round);
  out += fmt::format("Status: {} ({})\n", feedback.status, feedback.title);
  out += fmt::format("What happened: {}\n", feedback.what);
  auto section = [&](const char* name, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    out += fmt::format("{}:\n", name);
    for (const auto& line : lines) out += line.starts_with("    ") ? line + "\n" : "- " + line + "\n";
  };
  section("Where", feedback.where);
  section("Evidence", feedback.evidence);
  section(feedback.verified ? "Where time may be lost" : "What to look at", feedback.look_at);
  out += fmt::format("\n{}\n{}\n", feedback.task, feedback.demand);
  return out;
}

json to_json(const Feedback& f) {
  return {{"round", f.round},       {"status", f.status},   {"title", f.title},       {"verified", f.verified},
          {"about_candidate", f.about_candidate},           {"what", f.what},         {"where", f.where},
          {"evidence", f.evidence}, {"look_at", f.look_at}, {"task", f.task},         {"demand", f.demand}};
}

}  // namespace musacoder::judge
