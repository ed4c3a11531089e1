// `musacoder sample`, `evaluate`, `rft`: answers of a model to many tasks, what they are worth, and data from
// them.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "cli/generate_commands.h"
#include "cli/judge_config.h"
#include "cli/scratch.h"
#include "cli/search_setup.h"
#include "cli/stop_flag.h"
#include "generate/attempt_rows.h"
#include "generate/evaluation.h"
#include "generate/rft.h"
#include "judge/reward.h"
#include "judge/rows.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;

std::string dump(const json& value, int indent = 2) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string text_of(const json& row, const char* key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_string() ? it->get<std::string>() : "";
}

int number_of(const json& row, const char* key, int otherwise) {
  const auto it = row.find(key);
  return it != row.end() && it->is_number_integer() ? it->get<int>() : otherwise;
}

// Families of tasks by the SHA-256 of their code: the rows' `family`, else the first folder of an id, else
// its level.
std::map<std::string, std::string> families_of(const std::string& path, const task::TaskSet& set) {
  std::map<std::string, std::string> families;
  for (const task::Task& task : set.tasks()) {
    const auto slash = task.id.find('/');
    families[base::sha256_hex(task.code)] = slash == std::string::npos ? "" : task.id.substr(0, slash);
  }
  if (!path.ends_with(".jsonl")) return families;
  std::ifstream in(path, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    const json row = json::parse(line, nullptr, false);
    if (!row.is_object() || text_of(row, "family").empty()) continue;
    for (const char* key : {"reference", "code"})
      if (const std::string code = text_of(row, key); !code.empty())
        families[base::sha256_hex(code)] = text_of(row, "family");
  }
  return families;
}

Result<std::vector<std::shared_ptr<const task::Task>>> chosen_tasks(const SampleOptions& options,
                                                                    const task::TaskSet& set) {
  std::vector<std::shared_ptr<const task::Task>> tasks;
  for (const std::string& id : options.ids) {
    const task::Task* task = set.find(id);
    if (!task) return fail(Code::kInvalidArgument, "{} has no task '{}'", options.tasks, id);
    tasks.push_back(std::make_shared<const task::Task>(*task));
  }
  if (options.ids.empty())
    for (const task::Task& task : set.tasks())
      if (options.level.empty() || std::count(options.level.begin(), options.level.end(), task.level))
        tasks.push_back(std::make_shared<const task::Task>(task));
  if (options.limit > 0 && tasks.size() > static_cast<std::size_t>(options.limit))
    tasks.resize(static_cast<std::size_t>(options.limit));
  if (tasks.empty())
    return fail(Code::kInvalidArgument, "{} holds no task that was asked for", options.tasks);
  return tasks;
}

struct Sampled {
  generate::CampaignEnd end;
  std::size_t already = 0, wanted = 0;
  std::string model;
  double start_s = 0;
};

// Samples what is not yet in the file, with verdicts where `judge` is given.
Result<Sampled> sample_into(const char* command, const SampleOptions& options, const std::string& path,
                            bool judge) {
  MC_ASSIGN_OR_RETURN(judge::JudgeConfig config, judge_config(options.judge));
  MC_ASSIGN_OR_RETURN(const task::TaskSet set, task::TaskSet::load(options.tasks));
  MC_ASSIGN_OR_RETURN(const auto tasks, chosen_tasks(options, set));
  const auto families = families_of(options.tasks, set);
  MC_ASSIGN_OR_RETURN(auto file, generate::AttemptFile::open(path));
  Sampled sampled{.already = 0, .wanted = tasks.size() * static_cast<std::size_t>(options.samples)};
  std::vector<generate::Start> starts;
  for (const auto& task : tasks) {
    MC_ASSIGN_OR_RETURN(const std::string prompt,
                        prompt_of(*task, {options.form, options.one_shot, options.language}));
    for (int i = 0; i < options.samples; ++i) {
      if (file->finished(task->code, i))
        ++sampled.already;
      else
        starts.push_back({task, {{"user", prompt}}, i});
    }
  }
  if (starts.empty()) return sampled;
  base::Stopwatch watch;
  std::unique_ptr<generate::JudgeVerifier> verifier;
  MC_ASSIGN_OR_RETURN(OpenModel model, open_model(options.model, config.python));
  if (judge) {
    MC_ASSIGN_OR_RETURN(verifier, generate::JudgeVerifier::create(config, options.lanes));
  }
  sampled.start_s = watch.lap();
  sampled.model = model.model->describe();
  if (!options.quiet) {
    if (!model.warning.empty()) fmt::print(stderr, "{}\n", model.warning);
    fmt::print(stderr, "model: {}; {} samples of {} tasks, {} already there{}\n", sampled.model,
               sampled.wanted, tasks.size(), sampled.already, judge ? "; verified on " + config.backend : "");
  }
  generate::CampaignConfig campaign{
      .turns = options.turns, .sampling = model.sampling, .asking = options.model.asking};
  if (options.seconds > 0) campaign.deadline = base::Deadline::in(options.seconds);
  const StopFlag stop;
  base::ProgressLine line(stderr);
  double drawn = -1;
  Status written = ok();
  const auto describe = [&](const generate::CampaignProgress& p) {
    const double passed = watch.seconds();
    return fmt::format(
        "{}: {}/{} samples, {} verified, {:.1f} a minute, {:.0f} tokens/s, {} asking, {} judging, {} waiting",
        command, p.ended, p.samples, p.verified, 60 * static_cast<double>(p.ended) / std::max(passed, 1e-3),
        static_cast<double>(p.tokens) / std::max(passed, 1e-3), p.asking, p.judging, p.waiting);
  };
  sampled.end = run_campaign(
      starts, *model.model, verifier.get(), campaign,
      {.attempt =
           [&](const generate::Attempt& attempt) {
             const auto family = families.find(base::sha256_hex(attempt.task->code));
             if (auto status = file->add(attempt, family == families.end() ? "" : family->second);
                 !status && written)
               written = status;
           },
       .progress =
           [&](const generate::CampaignProgress& progress) {
             if (options.quiet || watch.seconds() - drawn < 0.2) return;
             drawn = watch.seconds();
             line.update(describe(progress));
           },
       .stop = [&] { return stop.raised() || !written; }});
  if (!options.quiet) line.finish(describe(sampled.end.progress));
  MC_RETURN_IF_ERROR(written);
  return sampled;
}

int end_code(const char* command, const Sampled& sampled) {
  if (!sampled.end.error) {
    fmt::print(stderr, "musacoder {}: the model: {}\n", command,
               base::printable(sampled.end.error.error().message));
    return 3;
  }
  if (sampled.end.stopped || sampled.end.out_of_time) {
    fmt::print(stderr, "musacoder {}: stopped before the end; the same command goes on\n", command);
    return 4;
  }
  return 0;
}

json sampling_json(const SampleOptions& options, const Sampled& sampled) {
  json said = {{"model", sampled.model},
               {"tasks", options.tasks},
               {"samples_per_task", options.samples},
               {"turns", options.turns},
               {"temperature", options.model.temperature},
               {"top_p", options.model.top_p},
               {"max_tokens", options.model.max_tokens},
               {"model_seed", options.model.model_seed},
               {"form", options.form},
               {"one_shot", options.one_shot},
               {"wanted", sampled.wanted},
               {"already", sampled.already},
               {"ended", sampled.end.progress.ended},
               {"tokens", sampled.end.progress.tokens},
               {"seconds", sampled.end.seconds},
               {"start_s", sampled.start_s},
               {"asking_s", sampled.end.asking_s},
               {"judging_s", sampled.end.judging_s}};
  if (!options.model.answers.empty()) {
    said["answers"] = options.model.answers;
    for (const char* key : {"temperature", "top_p", "max_tokens"}) said.erase(key);  // of whoever sampled them
  }
  return said;
}

// The rows of a file that have a verdict, with the kernels' text of verified ones.
Status read_judgements(const std::string& path, candidate::Extractor& extractor,
                       const std::function<void(const judge::VerdictRow&, const std::string& kernels)>& use) {
  MC_ASSIGN_OR_RETURN(const auto read, judge::read_rows(path, [&](const judge::VerdictRow& row) {
                        std::string kernels;
                        if (row.verdict.status == "ok")
                          if (auto found = extractor.extract(judge::row_text(row, "candidate")))
                            kernels = generate::kernel_text(*found);
                        use(row, kernels);
                      }));
  if (read.rows == 0 && read.malformed > 0)
    return fail(Code::kInvalidArgument, "{} holds no verdicts: {}", path, read.first_error);
  return ok();
}

Result<candidate::ExtractOptions> extract_options() {
  MC_ASSIGN_OR_RETURN(const judge::JudgeConfig config, judge_config({}));
  return candidate::ExtractOptions{.python = config.python, .runtime_dir = config.runtime_dir};
}

}  // namespace

int run_sample(const SampleOptions& options) {
  auto sampled = sample_into("sample", options, options.out, false);
  if (!sampled) return refuse_command("sample", sampled.error());
  if (options.json) fmt::print("{}\n", dump(sampling_json(options, *sampled)));
  return end_code("sample", *sampled);
}

int run_evaluate(const SampleOptions& options) {
  auto scratch = own_scratch();
  if (!scratch) return refuse_command("evaluate", scratch.error());
  if (auto made = base::make_dirs(options.out); !made) return refuse_command("evaluate", made.error());
  const std::string rows = options.out + "/verdicts.jsonl";
  auto sampled = sample_into("evaluate", options, rows, true);
  if (!sampled) return refuse_command("evaluate", sampled.error());
  auto extracting = extract_options();
  if (!extracting) return refuse_command("evaluate", extracting.error());
  candidate::Extractor extractor(*extracting);
  generate::EvaluationConfig config{.k =
                                        options.k.empty() ? std::vector<int>{1, options.samples} : options.k};
  generate::Evaluation evaluation(config);
  auto read = read_judgements(rows, extractor, [&](const judge::VerdictRow& row, const std::string& kernels) {
    evaluation.add({.task_key = row.verdict.task_hash.empty()
                                    ? base::sha256_hex(judge::row_text(row, "reference"))
                                    : row.verdict.task_hash,
                    .task = judge::row_text(row, "task"),
                    .family = judge::row_text(row, "family"),
                    .sample = number_of(*row.json, "sample", 0),
                    .turn = number_of(*row.json, "turn", 1),
                    .status = row.verdict.status,
                    .speedup_eager = row.verdict.speedup_eager,
                    .kernels = kernels});
  });
  if (!read) return refuse_command("evaluate", read.error());
  const auto report = evaluation.report();
  const int code = end_code("evaluate", *sampled);
  json summary = generate::to_json(report);
  summary["sampling"] = sampling_json(options, *sampled);
  summary["complete"] = code == 0;
  // The numbers that a chain of stages shows beside each other (docs/factory.md).
  const auto& overall = report.overall;
  json shown = {{"tasks", overall.tasks}, {"solved", overall.tasks_verified}};
  for (const auto& [k, interval] : overall.pass_at)
    if (interval.value) shown[fmt::format("pass@{}", k)] = *interval.value;
  if (overall.avg.value) shown[fmt::format("avg@{}", options.samples)] = *overall.avg.value;
  if (overall.faster.value) shown["faster"] = *overall.faster.value;
  if (overall.distinct.value) shown["distinct"] = *overall.distinct.value;
  summary["shown"] = shown;
  const std::string table = generate::evaluation_table(report, true);
  for (const auto& [name, text] :
       {std::pair<const char*, std::string>{"/summary.json", dump(summary) + "\n"}, {"/summary.md", table}})
    if (auto written = base::write_file_atomic(options.out + name, text); !written)
      return refuse_command("evaluate", written.error());
  fmt::print("{}", options.json ? dump(summary) + "\n" : generate::evaluation_table(report, false));
  if (!options.json)
    fmt::print("Intervals: 95 %, over tasks. {0}/summary.json, {0}/summary.md, {0}/verdicts.jsonl\n",
               options.out);
  return code;
}

int run_rft(const RftOptions& options) {
  auto extracting = extract_options();
  if (!extracting) return refuse_command("rft", extracting.error());
  candidate::Extractor extractor(*extracting);
  generate::RftData data({.least = options.least, .most = options.most, .similarity = options.similarity});
  for (const std::string& path : options.verdicts) {
    Status prompted = ok();
    auto read =
        read_judgements(path, extractor, [&](const judge::VerdictRow& row, const std::string& kernels) {
          if (row.verdict.status != "ok" || kernels.empty()) return;
          const json& json_row = *row.json;
          generate::RftAnswer answer{.task = judge::row_text(row, "task"),
                                     .task_hash = row.verdict.task_hash,
                                     .family = judge::row_text(row, "family"),
                                     .answer = judge::row_text(row, "candidate"),
                                     .kernels = kernels,
                                     .candidate_hash = row.verdict.candidate_hash,
                                     .backend = row.verdict.backend,
                                     .model = judge::row_text(row, "model"),
                                     .reward = judge::reward_of(row.verdict).value};
          if (json_row.contains("seed") && json_row["seed"].is_number_unsigned())
            answer.seed = json_row["seed"].get<std::uint64_t>();
          if (row.verdict.speedup_eager)
            answer.speed = *row.verdict.speedup_eager;
          else if (row.verdict.estimate && row.verdict.estimate->ms > 0)
            answer.speed = 1 / row.verdict.estimate->ms;
          // What was asked first; an answer of a later turn stands for itself.
          if (json_row.contains("messages") && json_row["messages"].is_array())
            for (const json& message : json_row["messages"]) {
              if (!message.is_object() || text_of(message, "role") == "assistant") break;
              answer.messages.push_back({text_of(message, "role"), text_of(message, "content")});
            }
          if (answer.messages.empty()) {
            const task::Task task{.code = judge::row_text(row, "reference")};
            auto prompt = prompt_of(task, {options.form, "none", row.verdict.dialect});
            if (!prompt) {
              prompted = tl::unexpected(prompt.error());
              return;
            }
            answer.messages.push_back({"user", *prompt});
          }
          data.add(std::move(answer));
        });
    if (!read) return refuse_command("rft", read.error());
    if (!prompted) return refuse_command("rft", prompted.error());
  }
  const generate::RftRows rows = data.rows();
  std::string with;
  for (const std::string& path : options.with) {
    auto text = base::read_file(path, 4ull << 30);
    if (!text) return refuse_command("rft", text.error());
    with += *text;
    if (!with.empty() && with.back() != '\n') with += '\n';
  }
  if (rows.lines.empty()) {
    fmt::print(stderr, "musacoder rft: nothing in {} is verified, so there is nothing to learn from\n",
               fmt::join(options.verdicts, ", "));
    if (with.empty()) return 1;
  }
  const auto joined = [](const std::vector<std::string>& lines) {
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    return text;
  };
  json summary = generate::to_json(rows.summary);
  summary["shown"] = {
      {"rows", rows.summary.rows}, {"tasks", rows.summary.tasks}, {"distinct", rows.summary.distinct}};
  if (auto made = base::make_dirs(options.out); !made) return refuse_command("rft", made.error());
  for (const auto& [name, text] :
       {std::pair<const char*, std::string>{"/rft.jsonl", joined(rows.lines) + with},
        {"/rft_best.jsonl", joined(rows.best) + with},
        {"/summary.json", dump(summary) + "\n"}})
    if (auto written = base::write_file_atomic(options.out + name, text); !written) {
      (void)refuse_command("rft", written.error());
      return 3;
    }
  const auto& s = rows.summary;
  if (options.json)
    fmt::print("{}\n", dump(summary));
  else
    fmt::print(
        "{} verified answers of {} tasks, {} different texts: {:.2f} distinct implementations a task, "
        "entropy {:.3f} nats\n"
        "  {}/rft.jsonl: {} rows in pools; {:.2f} distinct a pool, entropy {:.3f}\n"
        "  {}/rft_best.jsonl: {} rows, the best of each task; 1 distinct, entropy 0\n",
        s.verified, s.tasks, s.different, s.distinct, s.entropy, options.out, s.rows, s.pool_distinct,
        s.pool_entropy, options.out, s.best_rows);
  return 0;
}

}  // namespace musacoder::cli
