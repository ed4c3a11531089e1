// `musacoder data make`.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/paths.h"
#include "base/terminal.h"
#include "chat/endpoint.h"
#include "cli/data_commands.h"
#include "cli/judge_config.h"
#include "cli/scratch.h"
#include "synth/pipeline/endpoint_teacher.h"
#include "synth/pipeline/pipeline.h"
#include "synth/tasks/tasks.h"
#include "synth/teacher/program_teacher.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;

std::atomic<bool> g_stopped{false};

extern "C" void on_data_stop(int) { g_stopped = true; }

int failed(const Error& error) {
  fmt::print(stderr, "musacoder data make: {}\n", error.message);
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound || error.code == Code::kUnsupported ? 2 : 3;
}

void print_report(const synth::DataReport& report, const std::string& out) {
  fmt::print("{} tasks, {} kept; {} rows in {}; {} verdicts in {} ({:.1f} a minute)\n", report.tasks, report.kept, report.rows, out, report.judged_now,
             base::human_seconds(report.seconds), report.seconds > 0 ? 60 * static_cast<double>(report.judged_now) / report.seconds : 0.0);
  for (const auto& [why, count] : report.dropped) fmt::print("  dropped {:5}  {}\n", count, why);
  if (!report.contaminated.empty()) {
    base::Table table({"equal to", "tasks dropped"});
    for (const auto& [name, ids] : report.contaminated) table.add({name, std::to_string(ids.size())});
    fmt::print("\n{}", table.text());
  }
  base::Table answers({"teacher", "family", "answers", "verified", "share"}, {base::Align::kLeft, base::Align::kLeft, base::Align::kRight, base::Align::kRight, base::Align::kRight});
  for (const auto& [teacher, by_family] : report.answers)
    for (const auto& [family, share] : by_family)
      answers.add({teacher, family, std::to_string(share.tried), std::to_string(share.verified), fmt::format("{:.1f} %", 100.0 * static_cast<double>(share.verified) / static_cast<double>(share.tried))});
  if (answers.rows()) fmt::print("\n{}", answers.text());
  if (!report.mutations.empty()) {
    std::vector<std::string> header = {"fault"};
    const std::vector<std::string> classes = {"compile_error", "runtime_error", "correctness_error", "cheating", "ok", "inconclusive", "unsupported", "infra"};
    header.insert(header.end(), classes.begin(), classes.end());
    std::vector<base::Align> align(header.size(), base::Align::kRight);
    align[0] = base::Align::kLeft;
    base::Table table(header, align);
    for (const auto& [kind, by_class] : report.mutations) {
      std::vector<std::string> row = {kind};
      for (const std::string& name : classes) row.push_back(by_class.contains(name) ? std::to_string(by_class.at(name)) : "");
      table.add(std::move(row));
    }
    fmt::print("\n{}", table.text());
  }
  base::Table kinds({"kind", "rows"}, {base::Align::kLeft, base::Align::kRight});
  for (const auto& [kind, families] : report.rows_by_family) {
    std::size_t rows = 0;
    for (const auto& [family, count] : families) rows += count;
    kinds.add({kind, std::to_string(rows)});
  }
  fmt::print("\n{}", kinds.text());
  for (const auto& [why, count] : report.rollouts) fmt::print("  rollouts {:5}  {}\n", count, why);
  for (const auto& [pattern, counts] : report.rewrites)
    for (const auto& [what, count] : counts) fmt::print("  rewrites {:5}  {}: {}\n", count, pattern, what);
  if (report.styled > 0) fmt::print("  rows in other styles {:5}\n", report.styled);
  if (report.not_judged > 0) fmt::print("  answers not judged {:5}\n", report.not_judged);
  for (const auto& [why, count] : report.unanswered) fmt::print("  unanswered {:5}  {}\n", count, why);
  for (const auto& [why, count] : report.refused_rows) fmt::print("  rows refused {:5}  {}\n", count, why);
}

}  // namespace

int run_data_make(const DataMakeOptions& options) {
  synth::DataConfig config{.out = options.out, .tasks = options.tasks, .corpus = options.corpus, .kernelbench = options.kernelbench, .held_out = options.held_out, .stages = options.stages, .seed = options.seed,
                           .answers = options.answers, .mutants = options.mutants, .rollouts = options.rollouts, .cases = options.cases, .general = options.general,
                           .general_share = options.general_share, .documents = options.documents, .diagnostic = options.diagnostic, .limit = options.limit,
                           .shard_bytes = static_cast<std::uint64_t>(options.shard_mb * 1e6), .generator = "musacoder " MUSACODER_VERSION};
  if (config.out.empty()) return failed({Code::kInvalidArgument, "say where to: -o FOLDER"});
  if (config.tasks.empty() && options.generate == 0) return failed({Code::kInvalidArgument, "give tasks: --generate N or --tasks FOLDER"});
  auto judge = judge_config(options.judge);
  if (!judge) return failed(judge.error());
  // The verifier's inputs follow the data's seed, never 0.
  judge->seed = options.judge.seed ? options.judge.seed : options.seed * 2 + 1;
  auto scratch = own_scratch();
  if (!scratch) return failed(scratch.error());
  auto prompts = task::Prompts::installed();
  if (!prompts) return failed(prompts.error());
  auto table = port::RenameTable::load(judge->runtime_dir + "/musa/renames");
  if (!table) return failed(table.error());
  if (auto made = base::make_dirs(options.out + "/work"); !made) return failed(made.error());

  std::unique_ptr<chat::ChatModel> model;
  std::vector<std::unique_ptr<synth::Teacher>> owned;
  if (!options.endpoint.empty()) {
    const char* key = std::getenv(options.key_env.c_str());
    auto made = chat::make_endpoint({.url = options.endpoint, .model = options.model, .key = key ? key : "", .per_minute = options.per_minute, .cache_folder = options.out + "/work/replies"});
    if (!made) return failed(made.error());
    model = std::move(*made);
    owned.push_back(std::make_unique<synth::EndpointTeacher>(*model, *prompts, *table, synth::EndpointTeacherOptions{.temperature = options.temperature, .max_tokens = options.max_tokens, .form = options.endpoint_form, .exemplar = options.endpoint_one_shot == "none" ? "" : options.endpoint_one_shot}));
  }
  synth::ProgramTeacher program(options.one_style ? synth::ProgramTeacher::Styles::kOne : synth::ProgramTeacher::Styles::kAll);
  std::vector<synth::Teacher*> teachers;
  if (options.generate > 0) {
    auto drawn = synth::draw_tasks({.count = static_cast<std::size_t>(options.generate), .seed = options.seed, .families = options.families, .random_share = options.random_share});
    if (!drawn) return failed(drawn.error());
    for (synth::DrawnTask& task : *drawn) {
      synth::GeneratedTask& made = config.generated.emplace_back();
      made.id = fmt::format("{}/{}", task.archetype.empty() ? "random" : task.archetype, task.seed);
      for (int other = 1; other < options.styles; ++other)
        if (std::string file = synth::in_style(task, static_cast<std::uint64_t>(other)); file != task.file) made.styles.push_back(std::move(file));
      made.code = std::move(task.file);
      made.graph = std::move(task.graph);
    }
    teachers.push_back(&program);
  }
  for (const auto& teacher : owned) teachers.push_back(teacher.get());

  std::signal(SIGINT, on_data_stop);
  std::signal(SIGTERM, on_data_stop);
  config.stop = [] { return g_stopped.load(); };
  auto examiner = synth::make_examiner(*judge, {.journal = options.out + "/work/verdicts.jsonl", .lanes = options.lanes, .stop = config.stop, .judged_only = options.judged_only});
  if (!examiner) return failed(examiner.error());
  const int lanes = options.lanes > 0 ? options.lanes : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  synth::GraphWorker worker({.runtime_dir = judge->runtime_dir, .python = judge->python, .processes = lanes});
  const synth::RowWriter writer(*prompts, *table, {.form = options.form, .exemplar = options.one_shot == "none" ? "" : options.one_shot});
  base::ProgressLine progress(stderr);
  auto report = synth::make_data(config, **examiner, worker, writer, teachers, [&](const std::string& text) {
    if (!options.quiet) progress.update(text);
  });
  if (!report) return failed(report.error());
  if (options.json) {
    const json line = {{"tasks", report->tasks}, {"kept", report->kept}, {"rows", report->rows}, {"dropped", report->dropped}, {"judged", report->judged_now}, {"seconds", report->seconds},
                             {"unanswered", report->unanswered}, {"mutations", report->mutations}, {"rollouts", report->rollouts}, {"rewrites", report->rewrites}, {"rows_by_family", report->rows_by_family}};
    fmt::print("{}\n", line.dump());
  } else if (!options.quiet) {
    progress.finish("done");
    print_report(*report, options.out);
  }
  return 0;
}

}  // namespace musacoder::cli
