// `musacoder generate`, `repair`, `optimize`: a search for one module's kernel (generate/campaign.h).
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/terminal.h"
#include "cli/generate_commands.h"
#include "cli/judge_config.h"
#include "cli/report_html.h"
#include "cli/report_terminal.h"
#include "cli/scratch.h"
#include "cli/search_setup.h"
#include "cli/stop_flag.h"
#include "generate/attempt_rows.h"
#include "generate/outcome.h"
#include "judge/statuses.h"

namespace musacoder::cli {
namespace {

using generate::Attempt;
using nlohmann::json;

std::string dump(const json& value, int indent = 2) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

struct Search {
  const char* command;
  const SearchOptions& options;
  std::shared_ptr<const task::Task> task;
  judge::JudgeConfig config;
  std::unique_ptr<generate::JudgeVerifier> verifier;
  OpenModel model;
  std::vector<Attempt> attempts;
  base::Stopwatch watch{};

  int refuse(const Error& error) const { return refuse_command(command, error); }
};

// What a candidate that is given counts as: turn 0, which the model did not write.
Attempt given_candidate(Search& search, const std::string& text) {
  Attempt attempt;
  attempt.task = search.task;
  attempt.turn = 0;
  attempt.answer.text = text;
  const base::Stopwatch watch;
  generate::Judged judged = search.verifier->judge(0, *search.task, text, {});
  attempt.judge_s = watch.seconds();
  attempt.verdict = std::move(judged.verdict);
  attempt.code = judged.code.empty() ? text : std::move(judged.code);
  return attempt;
}

std::string attempt_line(const Attempt& attempt, const base::Terminal& terminal) {
  const std::string who =
      attempt.turn == 0 ? "given" : fmt::format("sample {} turn {}", attempt.sample + 1, attempt.turn);
  if (!attempt.verdict)
    return fmt::format("  {} {}: {}", terminal.dim("·"), who,
                       base::ellipsize(base::printable(attempt.error, false), 160));
  const judge::Verdict& verdict = *attempt.verdict;
  const bool verified = verdict.status == "ok";
  return fmt::format("  {} {}: {}{}", verified ? terminal.green("✓") : terminal.red("✗"), who, verdict.status,
                     verified ? "  " + generate::time_text(verdict)
                              : "  " + base::ellipsize(base::printable(verdict.cause, false), 110));
}

std::string progress_text(const generate::CampaignProgress& p, double passed, double budget) {
  return fmt::format(
      "{}{}: {} of {} samples ended, {} verified, {} asking, {} judging, {} waiting, {} tokens",
      base::human_seconds(passed), budget > 0 ? " of " + base::human_seconds(budget) : "", p.ended, p.samples,
      p.verified, p.asking, p.judging, p.waiting, p.tokens);
}

void run(Search& search, const std::vector<chat::Message>& messages, bool improve) {
  const SearchOptions& options = search.options;
  std::vector<generate::Start> starts;
  for (int i = 0; i < options.samples; ++i) starts.push_back({search.task, messages, i});
  generate::CampaignConfig config{.turns = options.turns,
                                  .sampling = search.model.sampling,
                                  .asking = options.model.asking,
                                  .improve = improve,
                                  .stop_when_verified = options.first};
  if (options.seconds > 0) config.deadline = base::Deadline::in(options.seconds);
  const StopFlag stop;
  base::ProgressLine line(stderr);
  const base::Terminal terminal(stderr);
  const bool tell = !options.quiet;
  double drawn = -1;
  generate::CampaignProgress last;
  auto end = run_campaign(
      starts, *search.model.model, search.verifier.get(), config,
      {.attempt =
           [&](const Attempt& attempt) {
             search.attempts.push_back(attempt);
             if (tell) line.print(attempt_line(attempt, terminal));
           },
       .progress =
           [&](const generate::CampaignProgress& progress) {
             last = progress;
             if (tell && search.watch.seconds() - drawn > 0.1)
               line.update(progress_text(progress, drawn = search.watch.seconds(), options.seconds));
           },
       .stop = [&] { return stop.raised(); }});
  if (tell)
    line.finish(progress_text(end.progress, search.watch.seconds(), options.seconds) +
                (end.stopped       ? "; stopped"
                 : end.out_of_time ? "; the time is over"
                                   : ""));
  if (!end.error)
    fmt::print(stderr, "musacoder {}: the model: {}\n", search.command,
               base::printable(end.error.error().message));
}

std::string out_folder(const SearchOptions& options, const char* suffix) {
  if (!options.out.empty()) return options.out;
  const std::filesystem::path module(options.module);
  return options.tasks.empty() ? (module.parent_path() / (module.stem().string() + suffix)).string()
                               : module.filename().string() + suffix;
}

// kernel.cu or .mu, model_new.py, verdict.json where something was verified; attempts.jsonl, report.html and
// report.json always.
Status write_results(const Search& search, const generate::Outcome& outcome, const std::string& folder) {
  MC_RETURN_IF_ERROR(base::make_dirs(folder));
  const auto file = [&](const char* name) { return folder + "/" + name; };
  HtmlReport page(fmt::format("musacoder {}: {}", search.command, search.task->id));
  std::string lines;
  for (const Attempt& attempt : search.attempts) {
    const std::string line = dump(generate::attempt_json(attempt, ""), -1);
    lines += line + "\n";
    if (!attempt.verdict) continue;
    MC_ASSIGN_OR_RETURN(judge::VerdictRow row, judge::row_from_text(line));
    page.add(std::move(row));
  }
  MC_RETURN_IF_ERROR(base::write_file_atomic(file("attempts.jsonl"), lines));
  MC_RETURN_IF_ERROR(base::write_file_atomic(file("report.html"), page.page()));
  for (const char* name : {"kernel.cu", "kernel.mu", "model_new.py", "verdict.json"})
    (void)base::remove_tree(file(name));  // of an earlier search
  if (!outcome.best) return ok();
  const Attempt& best = search.attempts[*outcome.best];
  candidate::Extractor extractor({.python = search.config.python, .runtime_dir = search.config.runtime_dir});
  MC_ASSIGN_OR_RETURN(const candidate::Candidate candidate, extractor.extract(best.answer.text));
  MC_RETURN_IF_ERROR(
      base::write_file_atomic(file("verdict.json"), dump(judge::to_json(*best.verdict)) + "\n"));
  MC_RETURN_IF_ERROR(base::write_file_atomic(
      file(best.verdict->dialect == "musa" ? "kernel.mu" : "kernel.cu"), generate::kernel_text(candidate)));
  return base::write_file_atomic(file("model_new.py"), candidate.code);
}

json summary_json(const Search& search, const generate::Outcome& outcome, const std::string& folder) {
  std::int64_t tokens = 0;
  double asked = 0, judged = 0;
  for (const Attempt& attempt : search.attempts) {
    tokens += attempt.usage.completion_tokens;
    asked += attempt.ask_s;
    judged += attempt.judge_s;
  }
  json best;
  if (outcome.best) {
    const Attempt& attempt = search.attempts[*outcome.best];
    best = {
        {"sample", attempt.sample}, {"turn", attempt.turn}, {"time", generate::time_text(*attempt.verdict)}};
    if (const auto time = generate::call_time(*attempt.verdict))
      best.update({{"ms", time->ms}, {"measured", time->measured}});
  }
  return {{"command", search.command},
          {"task", search.task->id},
          {"model", search.model.model ? search.model.model->describe() : ""},
          {"backend", search.config.backend},
          {"answers", outcome.answers},
          {"verified", outcome.verified},
          {"samples_verified", outcome.samples_verified},
          {"statuses", outcome.statuses},
          {"best", best},
          {"seconds", search.watch.seconds()},
          {"asking_s", asked},
          {"judging_s", judged},
          {"tokens", tokens},
          {"out", folder}};
}

int finish(const Search& search, const std::string& folder) {
  const generate::Outcome outcome = generate::outcome_of(search.attempts);
  if (auto written = write_results(search, outcome, folder); !written) {
    fmt::print(stderr, "musacoder {}: {}\n", search.command, written.error().message);
    return 3;
  }
  const json summary = summary_json(search, outcome, folder);
  if (auto written = base::write_file_atomic(folder + "/report.json", dump(summary) + "\n"); !written) {
    fmt::print(stderr, "musacoder {}: {}\n", search.command, written.error().message);
    return 3;
  }
  if (search.options.json) {
    fmt::print("{}\n", dump(summary));
  } else if (outcome.best) {
    const base::Terminal terminal(stdout);
    const Attempt& best = search.attempts[*outcome.best];
    const bool musa = best.verdict->dialect == "musa";
    fmt::print("{} {}: verified, {}\n", terminal.green("✓"), search.task->id,
               generate::time_text(*best.verdict));
    fmt::print("  {} of {} answers verified, in {}\n", outcome.verified, outcome.answers,
               base::human_seconds(search.watch.seconds()));
    if (best.turn == 0 && std::string(search.command) == "optimize")
      fmt::print("  Nothing faster than the given one was found; it is kept.\n");
    if (best.verdict->scaled)
      fmt::print("  Sizes were scaled down for the verification; verdict.json lists them.\n");
    fmt::print("  {0}/model_new.py  {0}/{1}  {0}/verdict.json  {0}/report.html\n", folder,
               musa ? "kernel.mu" : "kernel.cu");
  } else {
    fmt::print("{}Details: {}/report.html and attempts.jsonl\n",
               generate::failure_text(outcome, search.attempts, search.model.small), folder);
  }
  return generate::outcome_exit_code(outcome);
}

// Everything up to the first question. The exit code where it fails.
int prepare(Search& search) {
  auto config = judge_config(search.options.judge);
  if (!config) return search.refuse(config.error());
  search.config = std::move(*config);
  auto task = open_module(search.options, search.config);
  if (!task) return search.refuse(task.error());
  search.task = std::make_shared<const task::Task>(std::move(*task));
  auto model = open_model(search.options.model, search.config.python);
  if (!model) return search.refuse(model.error());
  search.model = std::move(*model);
  auto verifier = generate::JudgeVerifier::create(search.config, search.options.lanes);
  if (!verifier) return search.refuse(verifier.error());
  search.verifier = std::move(*verifier);
  if (!search.options.quiet) {
    if (!search.model.warning.empty()) fmt::print(stderr, "{}\n", search.model.warning);
    fmt::print(stderr, "model: {}; verified on {}{}\n", search.model.model->describe(), search.config.backend,
               search.config.backend == "vgpu" ? ", a GPU in software: times are estimates" : "");
  }
  return 0;
}

int with_candidate(Search& search, const std::function<int(Attempt&)>& use) {
  if (int code = prepare(search); code != 0) return code;
  auto text = read_candidate(search.options.candidate);
  if (!text) return search.refuse(text.error());
  Attempt given = given_candidate(search, *text);
  const judge::Verdict& verdict = *given.verdict;
  if (!search.options.quiet) fmt::print(stderr, "{}\n", attempt_line(given, base::Terminal(stderr)));
  if (verdict.status != "ok" && !judge::is_candidate_fault(verdict.status)) {
    fmt::print(stderr, "musacoder {}: there is no verdict about {}: {}\n", search.command,
               search.options.candidate, base::printable(verdict.cause));
    return judge::exit_code(verdict.status);
  }
  return use(given);
}

std::string form_of(const SearchOptions& options) {
  if (!options.form.empty()) return options.form;
  return options.model.model.empty() && options.model.endpoint.empty() ? "compact" : "full";
}

}  // namespace

int run_generate(const SearchOptions& options) {
  auto scratch = own_scratch();
  if (!scratch) return refuse_command("generate", scratch.error());
  Search search{.command = "generate", .options = options};
  if (int code = prepare(search); code != 0) return code;
  auto prompt = prompt_of(*search.task, {form_of(options), options.one_shot, options.language});
  if (!prompt) return search.refuse(prompt.error());
  run(search, {{"user", *prompt}}, false);
  return finish(search, out_folder(options, ".kernel"));
}

int run_repair(const SearchOptions& options) {
  auto scratch = own_scratch();
  if (!scratch) return refuse_command("repair", scratch.error());
  Search search{.command = "repair", .options = options};
  return with_candidate(search, [&](Attempt& given) {
    const std::string folder = out_folder(options, ".repaired");
    if (given.verdict->status == "ok") {
      if (!options.quiet) fmt::print(stderr, "It is verified as it is; there is nothing to repair.\n");
      search.attempts.push_back(std::move(given));
      return finish(search, folder);
    }
    auto prompt = prompt_of(*search.task, {form_of(options), options.one_shot, options.language});
    if (!prompt) return search.refuse(prompt.error());
    const auto messages = generate::next_turn({{"user", *prompt}}, "```python\n" + given.code + "\n```",
                                              *given.verdict, given.code, 1);
    search.attempts.push_back(std::move(given));
    run(search, messages, false);
    return finish(search, folder);
  });
}

int run_optimize(const SearchOptions& options) {
  auto scratch = own_scratch();
  if (!scratch) return refuse_command("optimize", scratch.error());
  Search search{.command = "optimize", .options = options};
  return with_candidate(search, [&](Attempt& given) {
    if (given.verdict->status != "ok") {
      fmt::print(
          stderr,
          "musacoder optimize: {} is not verified ({}); repair it first: musacoder repair {} --task {}\n",
          options.candidate, given.verdict->status, options.candidate, options.module);
      search.attempts.push_back(std::move(given));
      return 1;
    }
    const auto feedback = judge::make_feedback(*given.verdict, {.sources = {{"candidate.py", given.code}}});
    std::string findings = generate::time_text(*given.verdict) + "\n";
    for (const auto* list : {&feedback.evidence, &feedback.look_at})
      for (const std::string& item : *list) findings += "- " + item + "\n";
    auto prompt = task::fill_template(
        "optimize", {{"reference", search.task->code}, {"answer", given.code}, {"findings", findings}});
    if (!prompt) return search.refuse(prompt.error());
    search.attempts.push_back(std::move(given));
    run(search, {{"user", *prompt}}, true);
    return finish(search, out_folder(options, ".optimized"));
  });
}

int run_review(const SearchOptions& options) {
  auto scratch = own_scratch();
  if (!scratch) return refuse_command("review", scratch.error());
  Search search{.command = "review", .options = options};
  return with_candidate(search, [&](Attempt& given) {
    auto prompt = task::fill_template("review", {{"platform", options.language == "musa" ? "MUSA" : "CUDA"},
                                                 {"reference", search.task->code},
                                                 {"answer", given.code}});
    if (!prompt) return search.refuse(prompt.error());
    chat::Request request{.messages = {{"user", *prompt}}, .sampling = search.model.sampling};
    if (options.seconds > 0) request.deadline = base::Deadline::in(options.seconds);
    auto reply = search.model.model->ask(request);
    if (!reply) return search.refuse(reply.error());
    const std::string review = base::printable(reply->answers.at(0).text);
    const std::size_t at = review.rfind("VERDICT:");
    const std::string said = at == std::string::npos                                    ? ""
                             : review.substr(at).find("INCORRECT") != std::string::npos ? "INCORRECT"
                             : review.substr(at).find("CORRECT") != std::string::npos   ? "CORRECT"
                                                                                        : "";
    const bool correct = given.verdict->status == "ok", agrees = said == (correct ? "CORRECT" : "INCORRECT");
    if (options.json) {
      fmt::print("{}\n", dump(json{{"review", review},
                                   {"review_verdict", said},
                                   {"agrees", agrees},
                                   {"model", search.model.model->describe()},
                                   {"verdict", judge::to_json(*given.verdict)}}));
    } else {
      const base::Terminal terminal(stdout);
      fmt::print("{}\n{}\n\n{}\n{}\n{}\n", terminal.bold("The model's review"), review,
                 terminal.bold("The verifier's verdict, which decides"),
                 verdict_report(*given.verdict, terminal, {{"candidate.py", given.code}}),
                 said.empty()
                     ? "The review names no verdict."
                     : fmt::format("The review says {}, the verifier {}: they {}.", said,
                                   correct ? "CORRECT" : "INCORRECT", agrees ? "agree" : "disagree"));
    }
    return agrees ? 0 : 1;
  });
}

}  // namespace musacoder::cli
