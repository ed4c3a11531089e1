#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "base/paths.h"
#include "base/subprocess.h"
#include "base/terminal.h"
#include "cli/factory_command.h"
#include "cli/stop_flag.h"
#include "factory/run.h"

namespace musacoder::cli {
namespace {

using factory::StageReport;
using factory::StageState;

int refuse(const Error& error) {
  fmt::print(stderr, "musacoder factory: {}\n", base::printable(error.message));
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound ? 2 : 3;
}

factory::Tools tools() {
  factory::Tools found;
  found.musacoder = base::exe_path();
  found.train = (std::filesystem::path(found.musacoder).parent_path() / "musacoder-train").string();
  if (auto runtime = base::find_runtime_dir()) found.python = base::find_python(*runtime);
  return found;
}

std::string quoted(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) {
    const bool plain =
        !word.empty() &&
        word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%") ==
            std::string::npos;
    std::string escaped;
    for (const char c : word) escaped += c == '\'' ? "'\\''" : std::string(1, c);
    text += (text.empty() ? "" : " ") + (plain ? word : "'" + escaped + "'");
  }
  return text;
}

// What would be run; with the checks that the stages name.
int dry_run(const factory::Plan& plan, const std::vector<StageReport>& reports, bool quiet) {
  int failed = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& stage = plan.stages[i];
    fmt::print("{}. {} ({}): {}\n   {}\n", i + 1, stage.stage->name, stage.stage->kind,
               reports[i].state == StageState::kDone      ? "done, would be skipped"
               : reports[i].state == StageState::kStopped ? "would go on"
                                                          : "would be run",
               quoted(stage.argv));
    if (stage.check.empty()) continue;
    const auto result =
        base::run({.argv = stage.check, .output_limit = 1u << 20, .merge_stderr = true, .timeout_s = 600});
    if (!result || !result->exit.ok()) {
      ++failed;
      fmt::print("   check failed: {}\n{}\n", quoted(stage.check),
                 result ? base::printable(result->out) : result.error().message);
    } else if (!quiet) {
      fmt::print("   check: {}\n", quoted(stage.check));
      for (std::size_t at = 0; at < result->out.size();) {
        const std::size_t end = std::min(result->out.find('\n', at), result->out.size());
        fmt::print("     {}\n", base::printable(result->out.substr(at, end - at), false));
        at = end + 1;
      }
    }
  }
  return failed ? 1 : 0;
}

}  // namespace

int run_factory(const FactoryOptions& options) {
  auto chain = factory::read_chain(options.config, options.set);
  if (!chain) return refuse(chain.error());
  auto plan = factory::plan_chain(*chain, tools());
  if (!plan) return refuse(plan.error());
  for (const std::string& name : options.only)
    if (std::none_of(plan->stages.begin(), plan->stages.end(), [&](const auto& s) { return s.stage->name == name; }))
      return refuse({Code::kInvalidArgument, fmt::format("{} has no stage '{}'", options.config, name)});
  if (options.dry_run) return dry_run(*plan, factory::look_at(*plan), options.quiet);
  const StopFlag stop;
  base::ProgressLine line(stderr);
  const base::Terminal terminal(stderr);
  const base::Stopwatch watch;
  std::map<std::size_t, std::string> running;
  auto end = factory::run_plan(
      chain->name, *plan, {.seconds = options.seconds, .only = options.only, .parallel = options.parallel},
      {.progress =
           [&](std::size_t i, double seconds, const std::string& last) {
             if (options.quiet) return;
             running[i] = fmt::format("{} {}: {}", plan->stages[i].stage->name, base::human_seconds(seconds), last);
             std::string all;
             for (const auto& [index, text] : running) all += (all.empty() ? "" : " | ") + text;
             line.update(fmt::format("[{}/{}] {} in all; {}", i + 1, plan->stages.size(), base::human_seconds(watch.seconds()), all));
           },
       .ended =
           [&](const StageReport& report) {
             std::erase_if(running, [&](const auto& one) { return plan->stages[one.first].stage->name == report.name; });
             if (options.quiet) return;
             const bool good = report.state == StageState::kDone || report.state == StageState::kSkipped;
             std::string shown;
             for (const auto& [key, value] : report.shown) shown += fmt::format("  {} {}", key, value);
             line.print(fmt::format("{} {} {} {}{}", good ? terminal.green("✓") : terminal.red("✗"),
                                    report.name, factory::state_name(report.state),
                                    base::human_seconds(report.seconds),
                                    good ? shown : ": " + report.last_line));
           },
       .stop = [&] { return stop.raised(); }});
  line.finish("");
  if (!end) return refuse(end.error());
  if (options.json) {
    if (auto text = base::read_file(plan->folder + "/summary.json")) fmt::print("{}", *text);
  } else {
    fmt::print("{}\n{}/summary.html\n", factory::summary_text(end->stages, false), plan->folder);
  }
  if (end->state == factory::RunState::kFailed) {
    for (std::size_t i = 0; i < end->stages.size(); ++i)
      if (end->stages[i].state == StageState::kFailed && !plan->stages[i].stage->optional)
        fmt::print(stderr, "musacoder factory: stage {} ended with code {}: {}\nSee {}/log.txt\n",
                   end->stages[i].name, end->stages[i].code, end->stages[i].last_line,
                   plan->stages[i].folder);
    return 1;
  }
  if (end->state == factory::RunState::kStopped) {
    fmt::print(stderr, "musacoder factory: stopped before the end; the same command goes on\n");
    return 4;
  }
  return 0;
}

int show_factory(const FactoryOptions& options) {
  auto chain = factory::read_chain(options.config, options.set);
  if (!chain) return refuse(chain.error());
  auto plan = factory::plan_chain(*chain, tools());
  if (!plan) return refuse(plan.error());
  fmt::print("{}", factory::summary_text(factory::look_at(*plan), false));
  return 0;
}

void add_factory_commands(CLI::App& app, int& code) {
  static FactoryOptions run, show;
  auto* factory_app = app.add_subcommand("factory", "chains of commands, from data to a trained model");
  factory_app->require_subcommand(1);
  auto* run_app = factory_app->add_subcommand("run", "run what is not done yet");
  run_app->add_option("config", run.config, "TOML file (docs/factory.md)")->required();
  run_app->add_option("--set", run.set, "KEY=VALUE over the file's [values] and [machine], or folder=PATH")
      ->allow_extra_args(false);
  run_app->add_option("--only", run.only, "this stage alone; may be given several times")->allow_extra_args(false);
  run_app
      ->add_option("--time", run.seconds,
                   "seconds after which the running stage is told to stop; the same command goes on")
      ->check(CLI::Range(0.0, 1e8));
  run_app
      ->add_option("--parallel", run.parallel,
                   "stages at the same time: those that need nothing of each other and hold nothing in common")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  run_app->add_flag("--dry-run", run.dry_run, "print the commands and run the stages' checks");
  run_app->add_flag("--json", run.json, "print the summary as JSON");
  run_app->add_flag("--quiet", run.quiet, "no progress");
  run_app->footer(
      "Exit codes: 0 done, 1 a stage failed, 2 wrong usage, 3 the machine, 4 stopped before the end.\n"
      "Examples:\n"
      "  musacoder factory run configs/quickstart.toml\n"
      "  musacoder factory run configs/h200.toml --time 540\n"
      "  musacoder factory run configs/paper-27b.toml --dry-run");
  run_app->callback([&] { code = run_factory(run); });
  auto* show_app = factory_app->add_subcommand("show", "what is done, and what it showed");
  show_app->add_option("config", show.config, "TOML file")->required();
  show_app->add_option("--set", show.set, "as for run")->allow_extra_args(false);
  show_app->footer("Example:\n  musacoder factory show configs/h200.toml");
  show_app->callback([&] { code = show_factory(show); });
}

}  // namespace musacoder::cli
