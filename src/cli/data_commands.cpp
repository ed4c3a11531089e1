#include "cli/data_commands.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <memory>

namespace musacoder::cli {
namespace {

// Keys of a TOML file as if they had been flags; what the command line says holds.
void read_config(CLI::App* app, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw CLI::ValidationError(path, std::string(error.description()));
  }
  const auto text = [&](const toml::node& node, const std::string& key) -> std::string {
    if (auto value = node.value_exact<std::string>()) return *value;
    if (auto value = node.value_exact<bool>()) return *value ? "true" : "false";
    if (auto value = node.value_exact<std::int64_t>()) return std::to_string(*value);
    if (auto value = node.value_exact<double>()) return fmt::format("{}", *value);
    throw CLI::ValidationError(path, "`" + key + "` is no text, number or list of those");
  };
  for (const auto& [name, node] : table) {
    std::string key(name.str());
    std::replace(key.begin(), key.end(), '_', '-');
    CLI::Option* option = app->get_option_no_throw("--" + key);
    if (!option) throw CLI::ValidationError(path, "there is no key `" + std::string(name.str()) + "`; `musacoder data make --help` lists them");
    if (option->count() > 0) continue;
    if (const toml::array* list = node.as_array()) {
      for (const auto& item : *list) option->add_result(text(item, key));
    } else {
      option->add_result(text(node, key));
    }
    option->run_callback();
  }
}

}  // namespace

void add_data_commands(CLI::App& app, int& code) {
  auto* data = app.add_subcommand("data", "training data: made, looked at, checked");
  data->require_subcommand(1);

  auto make = std::make_shared<DataMakeOptions>();
  auto* m = data->add_subcommand("make", "tasks, answers, verdicts → rows of three stages, in shards with a manifest");
  m->add_option("config", make->config, "TOML file whose keys are the flags below; flags hold over it");
  m->add_option("-o,--out", make->out, "folder; a run that was stopped goes on there");
  m->add_option("--tasks", make->tasks, "task sets: folders, .py and .jsonl files");
  m->add_option("--generate", make->generate, "tasks drawn from archetypes and random graphs, answered by the programmatic teacher")->check(CLI::Range(0, 10'000'000));
  m->add_option("--families", make->families, "of drawn tasks, e.g. reduction,norm; else all")->delimiter(',');
  m->add_option("--random-share", make->random_share, "of drawn tasks: random operator graphs")->capture_default_str()->check(CLI::Range(0.0, 1.0));
  m->add_option("--corpus", make->corpus, "folders of cases: their verified candidates are answers to the tasks");
  m->add_option("--kernelbench", make->kernelbench, "JSONL of KernelBench: tasks that compute the same as one of levels 1 to 3 are dropped and counted");
  m->add_option("--held-out", make->held_out, "task sets that a model will be measured on: tasks that compute the same as one of theirs are dropped and counted");
  m->add_option("--stages", make->stages, "1: tasks and answers, 2: shapes, hints and derivations, 3: repairs, conversations, reviews, profiles, rewrites")->delimiter(',')->check(CLI::Range(1, 3));
  m->add_flag("--judged-only", make->judged_only, "judge nothing: rows from the verdicts that an earlier run of this command left before it was stopped");
  m->add_option("--data-seed", make->seed, "of everything that is drawn")->capture_default_str()->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62));
  m->add_option("--answers", make->answers, "of each teacher, a task")->capture_default_str()->check(CLI::Range(1, 64));
  m->add_option("--styles", make->styles, "ways of writing a drawn task that its rows show; an epoch takes one of them")->capture_default_str()->check(CLI::Range(1, 16));
  m->add_flag("--one-style", make->one_style, "the programmatic teacher writes all its answers in one style, for small models");
  m->add_option("--mutants", make->mutants, "faults put into a task's first verified answer")->capture_default_str()->check(CLI::Range(0, 1000));
  m->add_option("--rollouts", make->rollouts, "multi-turn conversations a task")->capture_default_str()->check(CLI::Range(0, 100));
  m->add_flag("--cases", make->cases, "make unit tests for tasks (sizes, values, layouts, dtypes) and write them into their files");
  m->add_option("--general", make->general, "JSONL files with messages: the general slot");
  m->add_option("--general-share", make->general_share, "of the mixture")->capture_default_str()->check(CLI::Range(0.0, 0.95));
  m->add_option("--documents", make->documents, "Markdown files: questions and answers about their sections");
  m->add_option("--diagnostic", make->diagnostic, "verdict lines with `family` (or `reference`) of the model to be taught: weak families get more weight");
  m->add_option("--limit", make->limit, "tasks; 0: all");
  m->add_option("--shard-mb", make->shard_mb, "10^6 bytes of a shard, uncompressed")->capture_default_str()->check(CLI::Range(0.001, 1e5));
  m->add_option("--form", make->form, "of the prompts in rows: compact or full")->capture_default_str()->check(CLI::IsMember({"compact", "full"}));
  m->add_option("--one-shot", make->one_shot, "exemplar in the rows' prompts; none: without")->capture_default_str();
  m->add_option("--endpoint", make->endpoint, "teacher: an OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1");
  m->add_option("--model", make->model, "the endpoint's model; else the only one that it lists");
  m->add_option("--api-key-env", make->key_env, "environment variable that holds the endpoint's key")->capture_default_str();
  m->add_option("--per-minute", make->per_minute, "requests to the endpoint; 0: no limit");
  m->add_option("--temperature", make->temperature, "of the endpoint's answers")->capture_default_str();
  m->add_option("--max-tokens", make->max_tokens, "of each of the endpoint's answers")->capture_default_str();
  m->add_option("--endpoint-form", make->endpoint_form, "of the prompts for the endpoint")->capture_default_str()->check(CLI::IsMember({"compact", "full"}));
  m->add_option("--endpoint-one-shot", make->endpoint_one_shot, "exemplar in the prompts for the endpoint")->capture_default_str();
  m->add_option("--lanes", make->lanes, "candidates judged at the same time; 0: one a core");
  m->add_option("--backend", make->judge.backend, "where candidates are judged")->capture_default_str()->check(CLI::IsMember({"auto", "vgpu", "cuda"}));
  m->add_option("--gpu", make->judge.gpu, "GPU model that vgpu presents and estimates are for")->capture_default_str()->check(CLI::IsMember({"h200", "a100", "s5000"}));
  m->add_option("--trials", make->judge.trials, "of each candidate")->capture_default_str()->check(CLI::Range(5, 100));
  m->add_flag("--json", make->json, "print the report as JSON");
  m->add_flag("-q,--quiet", make->quiet, "print nothing");
  m->footer("Examples:\n  musacoder data make -o data --generate 500 --kernelbench kernelbench.jsonl\n  musacoder data make -o data --tasks tasks --corpus corpus/honest --stages 1,3\n  musacoder data make factory.toml --limit 100");
  m->callback([m, make, &code] {
    if (!make->config.empty()) read_config(m, make->config);
    code = run_data_make(*make);
  });

  auto look = std::make_shared<DataLookOptions>();
  const auto filters = [&](CLI::App* sub) {
    sub->add_option("folder", look->folder, "of data make; or a .jsonl or .jsonl.zst file")->required();
    sub->add_option("--kind", look->kind, "only rows of this kind");
    sub->add_option("--family", look->family, "only rows of this family");
    sub->add_flag("--json", look->json, "print JSON");
  };
  auto* stats = data->add_subcommand("stats", "rows by kind and family, lengths, tasks, statuses");
  filters(stats);
  stats->footer("Example:\n  musacoder data stats data");
  stats->callback([look, &code] { code = run_data_stats(*look); });
  auto* show = data->add_subcommand("show", "print rows as conversations, or --raw as JSON lines");
  filters(show);
  show->add_option("--skip", look->skip, "rows before the first that is printed");
  show->add_option("--limit", look->limit, "rows; 0: all")->capture_default_str();
  show->add_flag("--raw", look->raw, "the lines as they are: what `musacoder-train sft` reads");
  show->add_option("-o,--out", look->out, "file for --raw; else stdout");
  show->footer("Examples:\n  musacoder data show data --kind repair_runtime\n  musacoder data show data --raw --limit 0 -o train.jsonl");
  show->callback([look, &code] { code = run_data_show(*look); });
  auto* validate = data->add_subcommand("validate", "hashes of all shards, form of all rows; --verify judges some again");
  filters(validate);
  validate->add_option("--verify", look->verify, "rows, drawn at random, whose answer is judged again");
  validate->add_option("--draw-seed", look->seed, "of that draw")->capture_default_str();
  validate->footer("Exit codes: 0 all is well, 1 something is not, 2 wrong usage, 3 infrastructure.\nExample:\n  musacoder data validate data --verify 20");
  validate->callback([look, &code] { code = run_data_validate(*look); });

  auto harvest = std::make_shared<DataHarvestOptions>();
  auto* h = data->add_subcommand("harvest", "nn.Modules of Python files as tasks");
  h->add_option("paths", harvest->paths, "folders and .py files")->required();
  h->add_option("-o,--out", harvest->out, "folder for task files")->required();
  h->add_option("--kernelbench", harvest->kernelbench, "leave out what computes the same as one of its tasks");
  h->add_flag("--json", harvest->json, "print JSON");
  h->footer("Example:\n  musacoder data harvest ~/models -o harvested");
  h->callback([harvest, &code] { code = run_data_harvest(*harvest); });
}

}  // namespace musacoder::cli
