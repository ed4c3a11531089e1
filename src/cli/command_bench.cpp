// `musacoder bench`: reads the samples, has run_batch judge those without a verdict, prints the table of all
// of them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "base/terminal.h"
#include "cli/batch.h"
#include "cli/bench_samples.h"
#include "cli/bench_table.h"
#include "cli/commands.h"
#include "cli/judge_config.h"
#include "cli/suite.h"
#include "judge/rows.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kTold = 20;  // refused samples that are told one by one

void tell(const std::string& message) {
  fmt::print(stderr, "musacoder bench: {}\n", base::printable(message));
}

int usage(const std::string& message) {
  tell(message);
  return 2;
}

// "samples.verdicts.jsonl" of "samples.jsonl", "runs/x.verdicts.jsonl" of "runs/x/".
std::string default_out(std::string samples) {
  while (samples.size() > 1 && samples.back() == '/') samples.pop_back();
  if (samples.ends_with(".jsonl")) samples.resize(samples.size() - 6);
  return samples + ".verdicts.jsonl";
}

void tell_refused(const BenchSamples& read) {
  for (std::size_t i = 0; i < std::min(kTold, read.refused.size()); ++i)
    tell(fmt::format("{}: {}", read.refused[i].source, read.refused[i].reason));
  if (read.refused.size() > kTold)
    tell(fmt::format("{} more samples cannot be used; --json lists them", read.refused.size() - kTold));
  if (read.other_levels) tell(fmt::format("{} samples are of levels that are left out", read.other_levels));
  if (read.other_references)
    tell(
        fmt::format("{} rows have a `reference` that is not the suite's; they are judged against the suite's",
                    read.other_references));
}

void tell_tasks(const BenchReport& report) {
  if (report.unsampled.empty()) return;
  const bool counted = report.metrics.overall.unsampled > 0;
  tell(
      fmt::format("{} of {} tasks have no sample; {}", report.unsampled.size(), report.suite_tasks,
                  counted ? "they count as unsolved (--only-sampled leaves them out)" : "they are left out"));
}

// What the verdicts of these samples in the file were made with, where that is not what this run uses; else
// "".
std::string other_conditions(const judge::Verdict& verdict, const judge::JudgeConfig& config) {
  auto describe = [](const std::string& backend, const std::string& gpu, const std::string& policy) {
    return backend == "vgpu" ? fmt::format("backend vgpu ({}), policy {}", gpu, policy)
                             : fmt::format("backend {}, policy {}", backend, policy);
  };
  const std::string there = describe(verdict.backend, verdict.gpu, verdict.policy);
  // The virtual GPU is another one for candidates in the MUSA dialect.
  const std::string& gpu = verdict.dialect == "musa" ? config.musa_gpu : config.gpu;
  const std::string here = describe(config.backend, gpu, config.policy);
  return there == here ? "" : fmt::format("{}, this run is {}", there, here);
}

// Reads the verdicts in `path`, which may not be there yet. Errors: kInvalidArgument when samples of this run
// were judged under other conditions, since one table must not mix them.
Result<BenchReport> read_table(BenchTable table, const std::string& path, const judge::JudgeConfig& config) {
  if (!base::exists(path)) return table.report();
  std::string mixed;
  MC_ASSIGN_OR_RETURN(judge::RowsRead read, judge::read_rows(path, [&](const judge::VerdictRow& row) {
                        if (table.add(row) && mixed.empty()) mixed = other_conditions(row.verdict, config);
                      }));
  if (!mixed.empty())
    return fail(Code::kInvalidArgument, "{} holds verdicts of these samples by {}; give another --out", path,
                mixed);
  if (read.malformed)
    tell(
        fmt::format("{} lines of {} are no verdicts; the first: {}", read.malformed, path, read.first_error));
  return table.report();
}

// The command that prints the same numbers from the verdicts alone.
std::string metrics_command(const BenchOptions& options, const std::string& out) {
  std::string command = fmt::format("musacoder metrics {}", out);
  if (!options.only_sampled || !options.level.empty() || options.suite != "any") {
    command += fmt::format(" --suite {} --tasks {}", options.suite, options.tasks);
    if (!options.level.empty()) command += fmt::format(" --level {}", fmt::join(options.level, ","));
    if (options.only_sampled) command += " --only-sampled";
  }
  if (!options.k.empty()) command += fmt::format(" --k {}", fmt::join(options.k, ","));
  return command;
}

json refused_json(const BenchSamples& read) {
  json refused = json::array();
  for (const auto& sample : read.refused)
    refused.push_back({{"source", sample.source}, {"reason", sample.reason}});
  return refused;
}

}  // namespace

int run_bench(const BenchOptions& options) {
  auto config = judge_config(options.judge);
  if (!config) return usage(config.error().message);
  auto suite = Suite::load(options.suite, options.tasks, options.level);
  if (!suite) return usage(suite.error().message);
  auto read = read_samples(options.samples, *suite);
  if (!read) return usage(read.error().message);
  for (const std::string& remark : suite->remarks()) tell(remark);
  tell_refused(*read);
  if (read->samples.empty())
    return usage(fmt::format("{} holds no sample that can be used", options.samples));

  const std::string out = options.out.empty() ? default_out(options.samples) : options.out;
  const BenchTable table(*suite, read->samples, {.k = options.k, .only_sampled = options.only_sampled});
  auto before = read_table(table, out, *config);
  if (!before) return usage(before.error().message);
  tell_tasks(*before);
  if (!options.quiet)
    tell(fmt::format("{} samples, {} of them with a verdict in {}", before->samples, before->judged, out));

  std::stringstream rows;
  for (const BenchSample& sample : read->samples) rows << batch_row(sample) << '\n';
  auto summary = run_batch({.rows = "",
                            .out = out,
                            .tasks = "",
                            .store = "",
                            .lanes = options.lanes,
                            .quiet = options.quiet,
                            .judge = *config},
                           rows);
  if (!summary) {
    tell(summary.error().message);
    return batch_exit_code(summary.error());
  }
  auto report = read_table(table, out, *config);
  if (!report) return usage(report.error().message);

  if (report->other_verdicts)
    tell(fmt::format("{} verdicts in {} are of other samples and do not count here", report->other_verdicts,
                     out));
  if (options.json) {
    json all = to_json(*report);
    all.update({{"suite", options.suite},
                {"tasks", options.tasks},
                {"samples_from", options.samples},
                {"out", out},
                {"backend", config->backend},
                {"gpu", config->gpu},
                {"policy", config->policy},
                {"refused", refused_json(*read)},
                {"other_levels", read->other_levels},
                {"remarks", suite->remarks()},
                {"seconds", summary->seconds},
                {"interrupted", summary->interrupted}});
    fmt::print("{}\n", all.dump(2, ' ', false, json::error_handler_t::replace));
  } else {
    fmt::print("{}: {} samples of {} tasks, backend {}, policy {}\n\n{}", options.suite, report->samples,
               report->suite_tasks - report->unsampled.size(), config->backend, config->policy,
               (options.suite == "musa-kernelbench" ? musa_table(report->metrics) + "\n" : "") + bench_text(*report));
    if (report->judged == report->samples && !report->other_verdicts)
      fmt::print("\nThe same from the verdicts: {}\n", metrics_command(options, out));
  }
  if (summary->interrupted) tell("interrupted; the same command goes on where it stopped");
  return report->all_decided() ? 0 : 3;
}

}  // namespace musacoder::cli
