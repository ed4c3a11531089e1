// The `musacoder` program: reads the command line, calls one function of commands.h, returns its exit code.
#include <CLI/CLI.hpp>
#include <csignal>

#include "cli/commands.h"
#include "cli/completion.h"

#ifndef MUSACODER_VERSION
#define MUSACODER_VERSION "0.1.0"
#endif

namespace {

using namespace musacoder::cli;

constexpr const char* kFooter =
    "Exit codes: 0 verified or done, 1 the candidate is at fault, 2 wrong usage, 3 infrastructure, unsupported or\n"
    "inconclusive, 4 the task is at fault.\n"
    "Environment: MUSACODER_RUNTIME, MUSACODER_PYTHON, MUSACODER_CACHE, MUSACODER_NVCC, NO_COLOR.";

void add_judge_options(CLI::App* app, JudgeOptions& options) {
  app->add_option("--backend", options.backend, "where candidates run")->capture_default_str()->check(CLI::IsMember({"vgpu"}));
  app->add_option("--gpu", options.gpu, "GPU model that is presented")
      ->capture_default_str()
      ->check(CLI::IsMember({"h200", "a100", "s5000"}));
  app->add_option("--policy", options.policy, "strict: torch operators are refused; report: they are booked")
      ->capture_default_str()
      ->check(CLI::IsMember({"strict", "report"}));
  app->add_option("--trials", options.trials, "correctness trials (seeds and distributions)")
      ->capture_default_str()
      ->check(CLI::Range(5, 100));
  app->add_option("--seed", options.seed, "seed of the inputs; 0 draws one from the system");
  app->add_option("--set", options.set, "pin a constant of the task, e.g. --set batch_size=4")->type_name("NAME=VALUE");
  app->add_flag("--full-size", options.full_size, "do not scale shapes down");
  app->add_option("--work-budget", options.work_budget, "work of one reference call (FLOPs + bytes) after scaling")
      ->capture_default_str();
  app->add_flag("!--no-audit", options.audit, "skip the task audit with trivial candidates");
  app->add_option("--timeout", options.candidate_seconds, "seconds for one candidate, builds excluded")->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app{"MooreEval: verify CUDA kernels that replace PyTorch modules, with or without a GPU.", "musacoder"};
  app.require_subcommand(1);
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("musacoder ") + MUSACODER_VERSION);
  int code = 0;

  VerifyOptions verify;
  auto* verify_app = app.add_subcommand("verify", "judge one candidate, or many with --batch");
  verify_app->add_option("task", verify.task, "task file (.py), or with --tasks an id such as level1/19");
  verify_app->add_option("candidate", verify.candidate, "candidate: .py with ModelNew, .cu, or a model's raw answer; - for stdin");
  verify_app->add_option("--tasks", verify.tasks, "task set: a folder, a .py file or a JSONL file");
  verify_app->add_option("--id", verify.id, "task of --tasks, e.g. level1/19");
  verify_app->add_flag("--json", verify.json, "print the verdict as JSON");
  verify_app->add_flag("--feedback", verify.feedback, "print the feedback text for the model as well");
  verify_app->add_option("--store", verify.store, "SQLite file that verdicts are added to");
  verify_app->add_option("--batch", verify.batch, "JSONL with rows of reference|task and candidate");
  verify_app->add_option("--out", verify.out, "JSONL that batch verdicts are appended to");
  verify_app->add_option("--lanes", verify.lanes, "candidates judged at the same time in a batch; 0: one a core");
  verify_app->add_flag("--quiet", verify.quiet, "no progress line");
  add_judge_options(verify_app, verify.judge);
  verify_app->footer(
      "Examples:\n"
      "  musacoder verify tasks/activation/1_relu.py corpus/quickstart/right_relu/candidate.py\n"
      "  musacoder verify --tasks kernelbench.jsonl --id level1/19 answer.md --json\n"
      "  musacoder verify --batch rows.jsonl --out verdicts.jsonl");
  verify_app->callback([&] { code = run_verify(verify); });

  TasksOptions tasks;
  auto* tasks_app = app.add_subcommand("tasks", "look at a task set");
  tasks_app->require_subcommand(1);
  auto* list_app = tasks_app->add_subcommand("list", "ids, levels and names");
  list_app->add_option("--tasks", tasks.tasks, "task set: a folder, a .py file or a JSONL file")->required();
  list_app->add_flag("--json", tasks.json, "one JSON line a task");
  list_app->footer("Example:\n  musacoder tasks list --tasks tasks");
  list_app->callback([&] { code = run_tasks_list(tasks); });
  auto* audit_app = tasks_app->add_subcommand("audit", "run trivial candidates against tasks: none may pass");
  audit_app->add_option("--tasks", tasks.tasks, "task set: a folder, a .py file or a JSONL file")->required();
  audit_app->add_option("--id", tasks.id, "only this task, e.g. level1/19");
  audit_app->add_option("--level", tasks.level, "only tasks of this level");
  audit_app->add_flag("--json", tasks.json, "one JSON line a task");
  audit_app->add_option("--lanes", tasks.lanes, "tasks audited at the same time; 0: one a core");
  add_judge_options(audit_app, tasks.judge);
  audit_app->footer("Example:\n  musacoder tasks audit --tasks kernelbench.jsonl --id level1/19 --json");
  audit_app->callback([&] { code = run_tasks_audit(tasks); });

  MetricsOptions metrics;
  auto* metrics_app = app.add_subcommand("metrics", "Pass@k, Avg@k, Faster and fast_p of verdicts");
  metrics_app->add_option("verdicts", metrics.verdicts, "VERDICTS.jsonl")->required();
  metrics_app->add_option("--k", metrics.k, "values of k, e.g. --k 1,8")->delimiter(',');
  metrics_app->add_flag("--json", metrics.json, "print JSON");
  metrics_app->footer("Example:\n  musacoder metrics verdicts.jsonl --k 1,8");
  metrics_app->callback([&] { code = run_metrics(metrics); });

  ReportOptions report;
  auto* report_app = app.add_subcommand("report", "one self-contained HTML page of verdicts");
  report_app->add_option("verdicts", report.verdicts, "VERDICTS.jsonl")->required();
  report_app->add_option("-o,--out", report.out, "HTML file")->capture_default_str();
  report_app->footer("Example:\n  musacoder report verdicts.jsonl -o report.html");
  report_app->callback([&] { code = run_report(report); });

  DoctorOptions doctor;
  auto* doctor_app = app.add_subcommand("doctor", "what this machine can and cannot do, and why");
  doctor_app->add_flag("--json", doctor.json, "print JSON");
  doctor_app->footer("Example:\n  musacoder doctor");
  doctor_app->callback([&] { code = run_doctor(doctor); });

  std::string shell;
  auto* completion_app = app.add_subcommand("completion", "print a completion script for bash, zsh or fish");
  completion_app->add_option("shell", shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion_app->footer("Example:\n  musacoder completion bash > ~/.local/share/bash-completion/completions/musacoder");
  completion_app->callback([&] { code = print_completion(app, shell); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return code;
}
