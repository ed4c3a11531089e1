#include "cli/judge_flags.h"

#include <CLI/CLI.hpp>

namespace musacoder::cli {

void add_judge_options(CLI::App* app, JudgeOptions& options) {
  app->add_option("--backend", options.backend, "where candidates run: cuda (an NVIDIA GPU), musa (a Moore Threads GPU), vgpu (a GPU in software), auto (cuda where there is one)")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "vgpu", "cuda", "musa"}));
  app->add_option("--gpu", options.gpu, "GPU model that vgpu presents; MUSA candidates see an s5000 whatever NVIDIA model is named")
      ->capture_default_str()
      ->check(CLI::IsMember({"h200", "a100", "s5000", "s4000", "s80"}));
  app->add_option("--policy", options.policy, "strict: torch operators are refused; report: they are booked")
      ->capture_default_str()
      ->check(CLI::IsMember({"strict", "report"}));
  app->add_option("--trials", options.trials, "correctness trials (seeds and distributions)")
      ->capture_default_str()
      ->check(CLI::Range(5, 100));
  app->add_option("--seed", options.seed, "seed of the inputs; 0 draws one from the system");
  app->add_option("--set", options.set, "pin a constant of the task, e.g. --set batch_size=4")->type_name("NAME=VALUE")->allow_extra_args(false);
  app->add_flag("--full-size", options.full_size, "do not scale shapes down");
  app->add_option("--work-budget", options.work_budget, "work of one reference call (FLOPs + bytes) after scaling")
      ->capture_default_str();
  app->add_flag("!--no-audit", options.audit, "skip the task audit with trivial candidates");
  app->add_flag("!--no-timing", options.timing, "cuda: do not measure time");
  app->add_option("--timed-calls", options.timed_calls, "cuda: calls that are timed and verified")->capture_default_str()->check(CLI::Range(2, 1000));
  app->add_option("--baselines", options.baselines, "cuda: what candidates are timed against: eager, eager_tf32, compile, compile_tf32; none")
      ->delimiter(',')
      ->allow_extra_args(false)   // what follows is the task
      ->capture_default_str()
      ->check(CLI::IsMember({"eager", "eager_tf32", "compile", "compile_tf32", "none"}));
  app->add_flag("--sanitize{memcheck}", options.sanitize,
                "real GPU: once more at reduced sizes below compute-sanitizer (--sanitize=memcheck,racecheck,synccheck; memcheck where none is "
                "named), or with the virtual GPU's checks where it is not installed");
  app->add_option("--timeout", options.candidate_seconds, "seconds for one candidate, builds excluded")->capture_default_str();
}

}  // namespace musacoder::cli
