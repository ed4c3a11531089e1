#include <CLI/CLI.hpp>

#include "cli/generate_commands.h"
#include "cli/judge_flags.h"

namespace musacoder::cli {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 something was verified, 1 candidates failed, 2 wrong usage, 3 no verdict about any "
    "candidate\n"
    "(infrastructure, unsupported, the model gave nothing), 4 the module is at fault.\n";

void add_prompt_options(CLI::App* app, std::string& form, std::string& one_shot, std::string& language) {
  app->add_option("--form", form,
                  form.empty() ? "of the prompt: full, or compact for small models that were trained with it; else compact for "
                                 "the default model, full for others"
                               : "of the prompt: full, or compact for small models that were trained with it")
      ->capture_default_str()
      ->check(CLI::IsMember({"full", "compact"}));
  app->add_option("--one-shot", one_shot,
                  "exemplar that the prompt shows (add, row_softmax, linear_relu); none: without")
      ->capture_default_str();
  app->add_option("--language", language, "what is asked for: cuda or musa")
      ->capture_default_str()
      ->check(CLI::IsMember({"cuda", "musa"}));
}

void add_module_options(CLI::App* app, SearchOptions& options) {
  app->add_option("--tasks", options.tasks, "task set that the module is an id of");
  app->add_option("--class", options.class_name,
                  "which class of the file; else Model, or the only module that no other uses");
  app->add_option("--inputs", options.inputs,
                  "what forward is called with, for a file without get_inputs: \"16x128xf32,8xi64<100,0.5\"");
  app->add_option(
      "--init", options.init,
      "what the module is constructed with, for a file without get_init_inputs: \"64, bias=False\"");
}

void add_search_options(CLI::App* app, SearchOptions& options) {
  add_module_options(app, options);
  app->add_option("-o,--out", options.out, "folder for the results");
  app->add_option("--samples", options.samples, "answers that are begun")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  app->add_option("--turns", options.turns, "answers of a sample, with the verifier's feedback between them")
      ->capture_default_str()
      ->check(CLI::Range(1, 20));
  app->add_option("--time", options.seconds, "seconds after which no more is asked or judged; 0: no limit")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e7));
  app->add_flag("--first", options.first, "stop at the first verified answer");
  add_prompt_options(app, options.form, options.one_shot, options.language);
  app->add_option("--lanes", options.lanes, "answers judged at the same time; 0: one a core")
      ->check(CLI::Range(0, 1024));
  app->add_flag("--json", options.json, "print the summary as JSON");
  app->add_flag("--quiet", options.quiet, "no progress");
  add_model_options(app, options.model);
  add_judge_options(app, options.judge);
}

void add_sample_options(CLI::App* app, SampleOptions& options) {
  app->add_option("--tasks", options.tasks, "task set: a folder, a .py file or a JSONL file")->required();
  app->add_option("--id", options.ids, "only this task; may be given several times")->allow_extra_args(false);
  app->add_option("--level", options.level, "only tasks of these levels")
      ->delimiter(',')
      ->allow_extra_args(false);
  app->add_option("--limit", options.limit, "only the first so many tasks; 0: all")
      ->check(CLI::Range(0, 1'000'000));
  app->add_option("-n,--samples", options.samples, "answers a task")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  app->add_option("--time", options.seconds,
                  "seconds after which it ends with code 4; the same command goes on")
      ->check(CLI::Range(0.0, 1e7));
  add_prompt_options(app, options.form, options.one_shot, options.language);
  app->add_flag("--json", options.json, "print JSON");
  app->add_flag("--quiet", options.quiet, "no progress");
  add_model_options(app, options.model);
}

}  // namespace

void add_generate_commands(CLI::App& app, int& code) {
  // Kept as long as the program: callbacks read them.
  static SearchOptions generate, repair, optimize, review;
  static SampleOptions sample, evaluate;
  static RftOptions rft;

  auto* generate_app =
      app.add_subcommand("generate", "a verified kernel for a PyTorch module, written by a model");
  generate_app->add_option("module", generate.module, "a Python file with an nn.Module; with --tasks an id")
      ->required();
  add_search_options(generate_app, generate);
  generate_app->footer(std::string(kExitCodes) +
                       "Examples:\n"
                       "  musacoder generate net.py --endpoint http://127.0.0.1:8000 --samples 16 --turns 3\n"
                       "  musacoder generate block.py --inputs 16x128xf32 --init \"128, bias=False\" --model "
                       "checkpoints/coder --time 600\n"
                       "  musacoder generate activation/1_relu --tasks tasks --first");
  generate_app->callback([&] { code = run_generate(generate); });

  const auto with_candidate = [](CLI::App* sub, SearchOptions& options, const char* what) {
    sub->add_option("candidate", options.candidate, what)->required();
    sub->add_option("--task", options.module, "the module's Python file; with --tasks an id")->required();
  };
  auto* repair_app =
      app.add_subcommand("repair", "make a candidate that fails pass, with the verifier's findings");
  with_candidate(repair_app, repair,
                 "the file that fails: .py with ModelNew, .cu, or a model's answer; - for stdin");
  add_search_options(repair_app, repair);
  repair_app->footer(std::string(kExitCodes) +
                     "Example:\n  musacoder repair candidate.py --task net.py --endpoint "
                     "https://models.example/v1 --model coder");
  repair_app->callback([&] { code = run_repair(repair); });

  auto* optimize_app = app.add_subcommand(
      "optimize", "make a verified candidate faster; it stays where nothing faster is verified");
  with_candidate(optimize_app, optimize, "the verified file");
  add_search_options(optimize_app, optimize);
  optimize_app->footer(
      std::string(kExitCodes) +
      "Example:\n  musacoder optimize candidate.py --task net.py --samples 8 --backend cuda");
  optimize_app->callback([&] { code = run_optimize(optimize); });

  auto* review_app =
      app.add_subcommand("review", "a model's analysis of a candidate beside the real verdict");
  with_candidate(review_app, review, "the file that is reviewed");
  add_search_options(review_app, review);
  review_app->footer(
      "Exit codes: 0 the review agrees with the verdict, 1 it does not or names none, 2 wrong usage, 3 no "
      "verdict,\n"
      "4 the module is at fault.\n"
      "Example:\n  musacoder review candidate.py --task net.py --model checkpoints/coder");
  review_app->callback([&] { code = run_review(review); });

  auto* sample_app = app.add_subcommand("sample", "a model's answers to a set of tasks, as JSON lines");
  add_sample_options(sample_app, sample);
  sample_app->add_option("-o,--out", sample.out, "JSONL that answers are appended to")->required();
  sample_app->footer(
      "Exit codes: 0 all answers are there, 2 wrong usage, 3 the model is gone, 4 stopped before the end.\n"
      "Example:\n  musacoder sample --tasks tasks -n 8 --model checkpoints/coder -o answers.jsonl\n"
      "  musacoder bench --tasks tasks --samples answers.jsonl");
  sample_app->callback([&] { code = run_sample(sample); });

  auto* evaluate_app = app.add_subcommand(
      "evaluate", "pass@k, avg@k and distinct implementations of a model on a set of tasks");
  add_sample_options(evaluate_app, evaluate);
  evaluate_app->add_option("-o,--out", evaluate.out, "folder: verdicts.jsonl, summary.json, summary.md")
      ->required();
  evaluate_app
      ->add_option("--turns", evaluate.turns,
                   "answers of a sample, with the verifier's feedback between them")
      ->capture_default_str()
      ->check(CLI::Range(1, 20));
  evaluate_app->add_option("--k", evaluate.k, "values of k; else 1 and --samples")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 100'000));
  evaluate_app->add_option("--lanes", evaluate.lanes, "answers judged at the same time; 0: one a core")
      ->check(CLI::Range(0, 1024));
  add_judge_options(evaluate_app, evaluate.judge);
  evaluate_app->footer(
      "Exit codes: 0 done, 2 wrong usage, 3 the model or the verifier is gone, 4 stopped before the end (the "
      "same command goes on).\n"
      "Examples:\n  musacoder evaluate --tasks heldout.jsonl -n 8 --model checkpoints/coder -o runs/eval\n"
      "  musacoder evaluate --tasks heldout.jsonl -n 8 --answers answers.jsonl -o runs/eval");
  evaluate_app->callback([&] { code = run_evaluate(evaluate); });

  auto* rft_app = app.add_subcommand(
      "rft", "training rows from verified answers, with pools of different implementations");
  rft_app->add_option("verdicts", rft.verdicts, "VERDICTS.jsonl of evaluate, generate or verify --batch")
      ->required();
  rft_app->add_option("-o,--out", rft.out, "folder: rft.jsonl, rft_best.jsonl, summary.json")->required();
  rft_app->add_option("--least", rft.least, "answers of a pool, where there are as many")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  rft_app->add_option("--most", rft.most, "answers of a pool")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  rft_app->add_option("--similarity", rft.similarity, "from which two answers are alike")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  rft_app->add_option("--form", rft.form, "of prompts, for rows without messages")
      ->capture_default_str()
      ->check(CLI::IsMember({"full", "compact"}));
  rft_app
      ->add_option("--with", rft.with,
                   "JSONL of earlier rows, put behind the new ones in both files; then it is no error that "
                   "nothing was verified")
      ->allow_extra_args(false);
  rft_app->add_flag("--json", rft.json, "print JSON");
  rft_app->footer(
      "Exit codes: 0 done, 1 nothing was verified (without --with), 2 wrong usage, 3 not written.\n"
      "Example:\n  musacoder rft runs/eval/verdicts.jsonl -o runs/rft");
  rft_app->callback([&] { code = run_rft(rft); });
}

}  // namespace musacoder::cli
