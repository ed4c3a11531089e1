// The `musacoder` program: reads the command line, calls one function of commands.h, returns its exit code.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/data_commands.h"
#include "cli/factory_command.h"
#include "cli/generate_commands.h"
#include "cli/hand_over.h"
#include "cli/judge_flags.h"

#ifndef MUSACODER_VERSION
#define MUSACODER_VERSION "0.1.0"
#endif

namespace {

using namespace musacoder::cli;

constexpr const char* kFooter =
    "Exit codes: 0 verified or done, 1 the candidate is at fault, 2 wrong usage, 3 infrastructure, unsupported or\n"
    "inconclusive, 4 the task is at fault.\n"
    "Environment: MUSACODER_RUNTIME, MUSACODER_PYTHON, MUSACODER_CACHE, MUSACODER_NVCC, NO_COLOR.";

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
  auto add_suite = [](CLI::App* sub, std::string& suite, std::string& tasks, std::vector<int>& levels) {
    sub->add_option("--suite", suite, "kernelbench (levels 1 to 3 unless --level says so), musa-kernelbench (the same, answered in MUSA), or any (every task of --tasks)")
        ->capture_default_str()
        ->check(CLI::IsMember({"kernelbench", "musa-kernelbench", "any"}));
    sub->add_option("--level", levels, "only tasks of these levels, e.g. --level 1,2")->delimiter(',')->allow_extra_args(false);
    return sub->add_option("--tasks", tasks, "task set: a folder, a .py file or a JSONL file");
  };
  auto add_k = [](CLI::App* sub, std::vector<int>& k) {
    sub->add_option("--k", k, "values of k, e.g. --k 1,8")->delimiter(',')->allow_extra_args(false)->check(CLI::Range(1, 1'000'000));
  };
  add_k(metrics_app, metrics.k);
  add_suite(metrics_app, metrics.suite, metrics.tasks, metrics.level)
      ->description("task set: only verdicts of its tasks count, and tasks without any are unsolved");
  metrics_app->add_flag("--only-sampled", metrics.only_sampled, "leave out tasks of --tasks without a verdict instead of counting them as unsolved");
  metrics_app->add_flag("--json", metrics.json, "print JSON");
  metrics_app->footer(
      "Examples:\n"
      "  musacoder metrics verdicts.jsonl --k 1,8\n"
      "  musacoder metrics verdicts.jsonl --suite kernelbench --tasks kernelbench.jsonl");
  metrics_app->callback([&] { code = run_metrics(metrics); });

  BenchOptions bench;
  auto* bench_app = app.add_subcommand("bench", "a suite over samples, to the table of Pass@k, Avg@k and Faster");
  add_suite(bench_app, bench.suite, bench.tasks, bench.level)->required();
  bench_app->add_option("--samples", bench.samples, "JSONL with rows of task and candidate, answer or samples; or a run's folder of KernelBench")->required();
  bench_app->add_option("-o,--out", bench.out, "JSONL that verdicts are appended to; else SAMPLES.verdicts.jsonl");
  bench_app->add_flag("--only-sampled", bench.only_sampled, "leave out tasks without a sample instead of counting them as unsolved");
  add_k(bench_app, bench.k);
  bench_app->add_option("--lanes", bench.lanes, "samples judged at the same time; 0: one a core")->check(CLI::Range(0, 1024));
  bench_app->add_flag("--json", bench.json, "print JSON");
  bench_app->add_flag("--quiet", bench.quiet, "no progress line");
  add_judge_options(bench_app, bench.judge);
  bench_app->footer(
      "Exit codes: 0 every sample was decided, 3 some were not, 2 wrong usage.\n"
      "Examples:\n"
      "  musacoder bench --suite kernelbench --tasks kernelbench.jsonl --samples samples.jsonl --out verdicts.jsonl --k 1,8\n"
      "  musacoder bench --suite kernelbench --tasks kernelbench.jsonl --samples runs/my_run --level 1 --json");
  bench_app->callback([&] { code = run_bench(bench); });

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

  ServeOptions serve;
  bool no_lanes = false;
  auto* serve_app = app.add_subcommand("serve", "the verifier as a service over HTTP and WebSocket");
  serve_app->add_option("--listen", serve.listen, "address and port; again for more; port 0 takes a free one")->capture_default_str();
  serve_app->add_option("--token-file", serve.token_file, "TOML with bearer tokens, roles and quotas; needed beyond loopback");
  serve_app->add_option("--tls-cert", serve.tls_cert, "certificate chain, PEM");
  serve_app->add_option("--tls-key", serve.tls_key, "its key, PEM");
  serve_app->add_option("--tasks", serve.tasks, "task set that clients name tasks of: a folder, a .py file or a JSONL file");
  serve_app->add_option("--queue", serve.queue, "sqlite:PATH (durable) or memory")->capture_default_str();
  serve_app->add_option("--store", serve.store, "SQLite file that verdicts are added to");
  serve_app->add_option("--lanes", serve.lanes, "candidates judged at the same time in this process; 0: one a core")->check(CLI::Range(0, 1024));
  serve_app->add_flag("--no-lanes", no_lanes, "judge nothing here: leave it to `musacoder worker`");
  serve_app->add_option("--max-queued", serve.max_queued, "waiting jobs; more are refused with 503")->capture_default_str();
  serve_app->add_option("--max-connections", serve.max_connections, "open connections")->capture_default_str();
  serve_app->add_option("--max-body", serve.max_body_mib, "largest request body, MiB")->capture_default_str()->check(CLI::Range(1, 1024));
  serve_app->add_option("--body-timeout", serve.body_s, "seconds for a body to arrive")->capture_default_str();
  serve_app->add_option("--drain", serve.drain_s, "seconds for running jobs to end at shutdown")->capture_default_str();
  serve_app->add_option("--keep-days", serve.keep_days, "days that ended jobs stay in the queue; 0: for ever")->capture_default_str();
  serve_app->add_option("--artifacts", serve.artifacts, "folder for the builds that workers share; else below the cache");
  serve_app->add_option("--visibility", serve.visibility_s, "seconds without a sign of life after which a lane's job goes to another")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 600.0));
  serve_app->add_option("--max-faults", serve.max_faults, "tries that end in infra:* before a job ends as failed")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  serve_app->add_option("--max-deaths", serve.max_deaths, "workers that die under a job before it is set aside as infra:poison")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  add_judge_options(serve_app, serve.judge);
  serve_app->footer(
      "Examples:\n"
      "  musacoder serve --tasks tasks --store verdicts.db\n"
      "  musacoder serve --listen 0.0.0.0:8811 --token-file tokens.toml --tls-cert cert.pem --tls-key key.pem --no-lanes");
  serve_app->callback([&] {
    if (no_lanes) serve.lanes = -1;
    code = run_serve(serve);
  });

  WorkerOptions worker;
  auto* worker_app = app.add_subcommand("worker", "lanes for a service, in a process of their own");
  worker_app->add_option("--queue", worker.queue, "sqlite:PATH, nats://HOST:PORT[/PREFIX], http://HOST:PORT or https://HOST:PORT")->required();
  worker_app->add_option("--role", worker.role, "compile: build only, for workers that execute; execute: leave building to those; both")
      ->capture_default_str()
      ->check(CLI::IsMember({"compile", "execute", "both"}));
  worker_app->add_option("--gpu-arch", worker.gpu_arch, "role compile: builds for lanes on NVIDIA GPUs of this compute capability too, e.g. 90; no GPU is needed")
      ->check(CLI::IsMember({"75", "80", "86", "87", "89", "90", "100", "103", "120"}));
  worker_app->add_option("--artifacts", worker.artifacts,
                         "where workers share what they built: dir:PATH, nats://…, http://…; else the queue's server, or the cache folder");
  worker_app->add_option("--token-file", worker.token_file, "file with the worker's token; else $MUSACODER_TOKEN");
  worker_app->add_option("--tls-ca", worker.ca_file, "certificates that https is checked with, PEM; else the system's");
  worker_app->add_option("--name", worker.name, "name in logs and on the dashboard");
  worker_app->add_option("--lanes", worker.lanes, "candidates judged at the same time; 0: one a core")->capture_default_str()->check(CLI::Range(0, 1024));
  worker_app->add_option("--drain", worker.drain_s, "seconds for running jobs to end at shutdown")->capture_default_str();
  worker_app->add_option("--visibility", worker.visibility_s, "seconds without a sign of life after which its job goes to another")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 600.0));
  add_judge_options(worker_app, worker.judge);
  worker_app->footer("Examples:\n  musacoder worker --queue sqlite:musacoder-queue.db\n  MUSACODER_TOKEN=... musacoder worker --queue https://verifier:8811 --lanes 4\n"
                     "  musacoder worker --queue nats://queue:4222 --role compile --lanes 0");
  worker_app->callback([&] { code = run_worker(worker); });

  StoreOptions store;
  auto* store_app = app.add_subcommand("store", "look into verdict stores");
  store_app->require_subcommand(1);
  auto add_filters = [&](CLI::App* sub) {
    sub->add_option("file", store.file, "VERDICTS.db")->required();
    sub->add_option("--task", store.task, "only this task");
    sub->add_option("--status", store.status, "only this status, e.g. compile_error:nvcc");
    sub->add_option("--class", store.status_class, "only this class of status, e.g. cheating");
    sub->add_option("--text", store.text, "only those whose task, status, cause or labels hold this text");
    sub->add_option("--days", store.days, "only the last days");
  };
  auto* query_app = store_app->add_subcommand("query", "list verdicts, newest first");
  add_filters(query_app);
  query_app->add_option("--limit", store.limit, "rows; 0: all")->capture_default_str();
  query_app->add_flag("--json", store.json, "one JSON line a verdict");
  query_app->footer("Example:\n  musacoder store query verdicts.db --class cheating --days 1");
  query_app->callback([&] { code = run_store_query(store); });
  auto* export_app = store_app->add_subcommand("export", "write verdicts as JSONL, CSV or Parquet");
  add_filters(export_app);
  export_app->add_option("--format", store.format, "jsonl (what metrics and report read), csv, or parquet (needs pyarrow and -o)")
      ->capture_default_str()
      ->check(CLI::IsMember({"jsonl", "csv", "parquet"}));
  export_app->add_option("-o,--out", store.out, "file; else stdout");
  export_app->footer("Example:\n  musacoder store export verdicts.db --format csv -o verdicts.csv");
  export_app->callback([&] { code = run_store_export(store); });
  auto* prune_app = store_app->add_subcommand("prune", "remove old verdicts and give the space back");
  prune_app->add_option("file", store.file, "VERDICTS.db")->required();
  prune_app->add_option("--older-than", store.days, "days")->required()->check(CLI::NonNegativeNumber);
  prune_app->add_flag("--infra", store.infra_only, "only infrastructure faults");
  prune_app->footer("Example:\n  musacoder store prune verdicts.db --older-than 90");
  prune_app->callback([&] { code = run_store_prune(store); });
  auto* backup_app = store_app->add_subcommand("backup", "a consistent copy while the store is in use");
  backup_app->add_option("file", store.file, "VERDICTS.db")->required();
  backup_app->add_option("out", store.out, "COPY.db")->required();
  backup_app->footer("Example:\n  musacoder store backup verdicts.db verdicts-2026-11-30.db");
  backup_app->callback([&] { code = run_store_backup(store); });

  PortCommandOptions port;
  auto* port_app = app.add_subcommand("port", "CUDA files, folders and candidates to MUSA and back");
  EditionCommandOptions edition;
  port_app->add_option("paths", port.paths, "files (.cu, .cpp, .py, CMakeLists.txt, rows in .jsonl) and folders");
  port_app->add_option("--to", port.to, "whose names the text shall have")->capture_default_str()->check(CLI::IsMember({"musa", "cuda"}));
  port_app->add_option("-o,--out", port.out, "file or folder to write; one file without it goes to stdout");
  port_app->add_flag("--in-place", port.in_place, "replace the files where they stand; .cu becomes .mu");
  port_app->add_flag("--diff", port.diff, "print a unified diff, write nothing");
  port_app->add_flag("--dry-run", port.dry_run, "print the report, write nothing");
  port_app->add_flag("-f,--force", port.force, "write over what is there");
  port_app->add_option("--report", port.report, "JSON file with every rename and everything a person has to look at");
  port_app->add_flag("--json", port.json, "print that instead of text");
  port_app->add_flag("--quiet", port.quiet, "no report");
  port_app->add_flag("--strict", port.strict, "exit code 1 when a person has to look at something");
  port_app->add_flag("--in-strings", port.in_strings, "names in strings, and in text files of a folder, too");
  port_app->add_flag("--in-comments", port.in_comments, "names in comments too");
  port_app->add_flag("--keep-marks", port.keep_marks, "mark C++ names that are the target's already, so that the way back leaves them alone");
  port_app->add_flag("--hidden", port.hidden, "hidden files and what git ignores, too");
  port_app->add_option("--language", port.language, "of every file, instead of what its name says")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpp", "python", "build", "answer", "text"}));
  port_app->add_option("--field", port.fields, "fields of JSONL rows that hold texts; else candidate");
  port_app->add_option("--tables", port.tables, "folder with other rename tables");
  auto* kernelbench = port_app->add_option("--kernelbench", edition.tasks, "make the MUSA edition of this task set in the folder -o: tasks, prompts, exemplars, manifest");
  port_app->add_option("--level", edition.level, "levels of the edition, e.g. --level 1,2; else 1, 2 and 3")->delimiter(',')->allow_extra_args(false)->needs(kernelbench);
  port_app->add_option("--one-shot", edition.one_shot, "exemplar in the edition's prompts; none: without")->capture_default_str()->needs(kernelbench);
  port_app->add_flag("!--no-verify", edition.verify, "do not verify the exemplars")->needs(kernelbench);
  port_app->footer(
      "Exit codes: 0 done, 1 with --strict when a person has to look at something, 2 wrong usage, 3 not written.\n"
      "Examples:\n"
      "  musacoder port kernel.cu > kernel.mu\n"
      "  musacoder port src/kernels -o src/kernels_musa --report port.json\n"
      "  musacoder port candidate.py --diff\n"
      "  musacoder port samples.jsonl -o samples_musa.jsonl\n"
      "  musacoder port kernel.mu --to cuda -o kernel.cu\n"
      "  musacoder port --kernelbench kernelbench.jsonl -o musa-kernelbench");
  port_app->callback([&] {
    if (edition.tasks.empty() == port.paths.empty()) {
      std::fputs("musacoder port: give files and folders, or --kernelbench and a task set\n", stderr);
      code = 2;
      return;
    }
    edition.out = port.out;
    edition.force = port.force;
    edition.json = port.json;
    edition.quiet = port.quiet;
    code = edition.tasks.empty() ? run_port(port) : run_edition(edition);
  });

  PromptCommandOptions prompt;
  auto* prompt_app = app.add_subcommand("prompt", "the prompt that asks a model for a candidate");
  prompt_app->add_option("task", prompt.task, "task file (.py), or with --tasks an id such as level1/19")->required();
  prompt_app->add_option("--tasks", prompt.tasks, "task set: a folder, a .py file or a JSONL file");
  prompt_app->add_option("--backend", prompt.backend, "cuda or musa")->capture_default_str()->check(CLI::IsMember({"cuda", "musa"}));
  prompt_app->add_option("--one-shot", prompt.one_shot, "exemplar that is shown; none: without")->capture_default_str();
  prompt_app->add_option("--form", prompt.form, "full, or compact for small models that were trained with it")->capture_default_str()->check(CLI::IsMember({"full", "compact"}));
  prompt_app->add_flag("--json", prompt.json, "print JSON");
  prompt_app->footer("Examples:\n  musacoder prompt tasks/activation/1_relu.py --backend musa\n  musacoder prompt level1/19 --tasks kernelbench.jsonl --one-shot none");
  prompt_app->callback([&] { code = run_prompt(prompt); });

  ModelInspectOptions inspect;
  ModelTokenizeOptions tokenize;
  ModelConvertOptions convert;
  auto* model_app = app.add_subcommand("model", "look at models on disk: weights, tokenizers, chat templates");
  model_app->require_subcommand(1);
  auto* inspect_app = model_app->add_subcommand("inspect", "architecture, tensors, types, tokenizer facts");
  inspect_app->add_option("model", inspect.model, "a Hugging Face folder, a .safetensors or a .gguf file")->required();
  inspect_app->add_flag("--tensors", inspect.tensors, "list every tensor");
  inspect_app->add_flag("--check", inspect.check, "verify that all of it fits and every weight is a finite number");
  inspect_app->add_flag("--json", inspect.json, "print JSON");
  inspect_app->footer("Exit codes: 0 done, 1 --check found something, 2 wrong usage.\nExample:\n  musacoder model inspect Qwen3-0.6B --check");
  inspect_app->callback([&] { code = run_model_inspect(inspect); });
  auto* tokenize_app = model_app->add_subcommand("tokenize", "text to token ids, or back");
  tokenize_app->add_option("model", tokenize.model, "a Hugging Face folder, a tokenizer.json or a .gguf file")->required();
  tokenize_app->add_option("text", tokenize.text, "the text; else stdin");
  auto* chat_option = tokenize_app->add_option("--chat", tokenize.chat, "JSON file with messages (and tools, variables), through the model's chat template; - for stdin");
  tokenize_app->add_option("--variables", tokenize.variables, "JSON object for the template, e.g. {\"enable_thinking\": false}")->needs(chat_option);
  tokenize_app->add_flag("--generation-prompt", tokenize.generation_prompt, "end where the model is to answer")->needs(chat_option);
  tokenize_app->add_flag("--text", tokenize.show_text, "print the chat template's text instead of its tokens")->needs(chat_option);
  tokenize_app->add_flag("--plain", tokenize.plain, "recognise no added token: what <|im_end|> looks like in a text from outside");
  tokenize_app->add_flag("--no-template-tokens", tokenize.no_template_tokens, "without what the tokenizer puts around a text, such as <s>");
  tokenize_app->add_flag("--lines", tokenize.lines, "each line of stdin is a text of its own");
  auto* decode_flag = tokenize_app->add_flag("--decode", tokenize.decode, "ids in, text out");
  tokenize_app->add_flag("--skip-special", tokenize.skip_special, "leave special tokens out of the text")->needs(decode_flag);
  tokenize_app->add_flag("--ids", tokenize.ids, "print the ids alone");
  tokenize_app->add_flag("--json", tokenize.json, "print JSON: ids and pieces");
  tokenize_app->footer(
      "Examples:\n"
      "  musacoder model tokenize Qwen3-0.6B 'Hello <|im_end|>'\n"
      "  musacoder model tokenize smollm2.gguf --chat messages.json --generation-prompt --ids\n"
      "  musacoder model tokenize Qwen3-0.6B --lines --json < texts.txt");
  tokenize_app->callback([&] { code = run_model_tokenize(tokenize); });
  auto* convert_app = model_app->add_subcommand("convert", "a GGUF file to a Hugging Face folder");
  convert_app->add_option("model", convert.model, "MODEL.gguf (llama, qwen2, qwen3)")->required();
  convert_app->add_option("out", convert.out, "folder; an older checkpoint there is replaced")->required();
  convert_app->add_option("--dtype", convert.dtype, "type of the weights")->capture_default_str()->check(CLI::IsMember({"bfloat16", "float32"}));
  convert_app->add_option("--shard-gb", convert.shard_gb, "largest file, in 10^9 bytes")->capture_default_str()->check(CLI::Range(0.001, 1e6));
  convert_app->add_flag("--without-tokenizer", convert.without_tokenizer, "the weights alone, where the tokenizer cannot be read");
  convert_app->footer("Example:\n  musacoder model convert SmolLM2-135M-Instruct.Q4_1.gguf smollm2");
  convert_app->callback([&] { code = run_model_convert(convert); });

  add_generate_commands(app, code);
  add_factory_commands(app, code);

  auto* serve_model_app = app.add_subcommand("serve-model", "a language model behind OpenAI's HTTP API (hands over to musacoder-train)");
  serve_model_app->set_help_flag();   // all of it is musacoder-train's
  serve_model_app->prefix_command();
  serve_model_app->callback([&] { code = hand_over("serve-model", serve_model_app->remaining()); });

  add_data_commands(app, code);

  std::string shell;
  auto* completion_app = app.add_subcommand("completion", "print a completion script for bash, zsh or fish");
  completion_app->add_option("shell", shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion_app->footer("Example:\n  musacoder completion bash > ~/.local/share/bash-completion/completions/musacoder");
  completion_app->callback([&] { code = print_completion(app, shell); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::system_error& error) {  // of a print: whoever reads our output has gone (| head), or the disk is full
    if (error.code().value() != EPIPE) std::fprintf(stderr, "musacoder: the output cannot be written: %s\n", error.what());
    return 3;
  }
  return code;
}
