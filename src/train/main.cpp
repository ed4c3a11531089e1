// The `musacoder-train` program: reads the command line, calls one function, returns its exit code.
#include <CLI/CLI.hpp>

#include "train/bench.h"
#include "train/config/rl_config.h"
#include "train/config/sft_config.h"
#include "train/generate.h"
#include "train/memory_plan.h"
#include "train/parity.h"
#include "train/report/report.h"
#include "train/rl/rl.h"
#include "train/serve.h"
#include "train/sft/sft.h"

namespace {

int finish(const char* command, const musacoder::Status& status) {
  if (status) return 0;
  fmt::print(stderr, "musacoder-train {}: {}\n", command, status.error().message);
  return status.error().code == musacoder::Code::kInternal ||
                 status.error().code == musacoder::Code::kResourceExhausted ||
                 status.error().code == musacoder::Code::kUnavailable
             ? 3
             : 2;
}

void add_engine_options(CLI::App* app, musacoder::llm::EngineOptions& options) {
  app->add_option(
         "--type", options.type,
         "weights and cache: keep (as in the file, quantised ones of GGUF in their blocks), f32, bf16")
      ->capture_default_str()
      ->check(CLI::IsMember({"keep", "f32", "bf16"}));
  app->add_option("--device", options.device, "cpu, cuda or cuda:N")->capture_default_str();
  app->add_option("--adapter", options.adapter, "folder of LoRA adapters in peft's layout");
  app->add_option("--cache-tokens", options.cache_tokens, "room for all running answers and their prompts")
      ->capture_default_str();
  app->add_option("--max-running", options.max_running, "answers at a time")->capture_default_str();
  app->add_option("--step-tokens", options.step_tokens, "tokens in one pass of the model")
      ->capture_default_str();
  app->add_flag("!--no-prefix-sharing", options.share_prefixes,
                "read every prompt whole, even where an earlier one began alike");
  app->add_option("--prefix-states", options.prefix_states,
                  "DeltaNet models: states kept for prompts that begin alike")
      ->capture_default_str();
}

// Of `sft` and `rl`: a TOML file, settings over it, and a run that a signal may stop.
template <typename Config, typename Options, typename Run>
int run_training(const char* command, const Options& options, bool keys, const Run& run,
                 std::vector<musacoder::train::ConfigKey> (*keys_of)(Config&)) {
  if (keys) {
    Config defaults;
    fmt::print("{}", musacoder::train::config_markdown(keys_of(defaults)));
    return 0;
  }
  if (options.config.empty())
    return finish(command, musacoder::fail(musacoder::Code::kInvalidArgument, "name a TOML file"));
  const auto outcome = run(options);
  if (!outcome) return finish(command, musacoder::Status(tl::unexpect, outcome.error()));
  return outcome->stopped ? 4 : 0;
}

template <typename Options>
void add_training_options(CLI::App* app, Options& options, bool& keys, const char* docs) {
  app->add_option("config", options.config, fmt::format("TOML file; every key is in {}", docs));
  app->add_option("--set", options.assignments, "key=value over the file's; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  app->add_flag("--keys", keys, "print the table of all keys");
}

void add_generate_options(CLI::App* app, musacoder::train::GenerateOptions& options) {
  musacoder::llm::SamplingParams& sampling = options.sampling;
  app->add_option("--model", options.model, "folder in Hugging Face's layout, or a GGUF file")->required();
  app->add_option("--prompt", options.prompts, "a prompt; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  app->add_option("--ids", options.ids, "a prompt's token ids, such as '1 2 3'; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  app->add_flag("--chat", options.chat, "prompts are a user's words to the model's chat template");
  app->add_option("-n,--samples", options.samples, "answers to each prompt")->capture_default_str();
  app->add_option("--max-tokens", sampling.max_tokens, "of an answer")->capture_default_str();
  app->add_option("--temperature", sampling.temperature, "0: the likeliest token")->capture_default_str();
  app->add_option("--top-k", sampling.top_k, "only the k likeliest tokens; 0: all")->capture_default_str();
  app->add_option("--top-p", sampling.top_p, "only the likeliest tokens that together reach p")
      ->capture_default_str();
  app->add_option("--min-p", sampling.min_p,
                  "only tokens of at least this part of the likeliest's probability")
      ->capture_default_str();
  app->add_option("--repetition-penalty", sampling.repetition_penalty, "over prompt and answer; 1: none")
      ->capture_default_str();
  app->add_option("--presence-penalty", sampling.presence_penalty, "over the answer's tokens; 0: none")
      ->capture_default_str();
  app->add_option("--frequency-penalty", sampling.frequency_penalty,
                  "over the answer's tokens, times their count; 0: none")
      ->capture_default_str();
  app->add_option("--seed", sampling.seed, "same seed, same answers, whatever runs beside them")
      ->capture_default_str();
  app->add_option("--stop", sampling.stop, "text that ends an answer; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  app->add_option("--stop-id", sampling.stop_ids, "token id that ends an answer; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  app->add_flag("--ignore-eos", sampling.ignore_eos, "go on where the model would end");
  add_engine_options(app, options.engine);
  app->add_flag("--json", options.json,
                "a JSON line for each answer: tokens, their log-probabilities, text, why it ended");
  app->add_flag("--speed", options.speed, "say on stderr how fast it went");
  app->footer(
      "Example: musacoder-train generate --model SmolLM2-135M.gguf --chat --prompt 'Who are you?' "
      "--temperature 0");
}

void add_serve_options(CLI::App* app, musacoder::train::ServeModelOptions& options) {
  musacoder::llm::ModelServerConfig& config = options.config;
  app->add_option("--model", config.model, "folder in Hugging Face's layout, or a GGUF file")->required();
  app->add_option("--name", config.name, "what clients call the model; default: its file name");
  app->add_option("--listen", options.listen, "HOST:PORT; port 0: any free one; may be given several times")
      ->take_all()
      ->allow_extra_args(false)
      ->capture_default_str();
  app->add_option(
      "--token-file", options.token_file,
      "file with the bearer token that clients must give; needed for other addresses than loopback");
  app->add_option("--tls-cert", options.tls_cert, "PEM file; with --tls-key");
  app->add_option("--tls-key", options.tls_key, "PEM file");
  app->add_option(
         "--weights-dir", config.weight_folders,
         "folder below which POST /v1/weights may read weights; may be given several times; none: no swaps")
      ->take_all()
      ->allow_extra_args(false);
  app->add_option("--max-open", config.max_open, "requests at a time, running and waiting; beyond them 429")
      ->capture_default_str();
  app->add_option("--request-s", config.request_s, "seconds for one request")->capture_default_str();
  app->add_option("--default-max-tokens", config.default_max_tokens,
                  "of chat answers whose request does not say; less where less fits")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
  app->add_flag("--plain-messages", config.plain_messages,
                "refuse messages that hold the chat format's own tokens, such as <|im_end|>");
  app->add_option("--max-body-mib", options.max_body_mib, "largest request")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app->add_option("--max-connections", options.max_connections, "beyond them 503")->capture_default_str();
  app->add_option("--drain-s", options.drain_s, "seconds that running requests get after SIGTERM")
      ->capture_default_str();
  add_engine_options(app, config.engine);
  app->footer(
      "Example: musacoder-train serve-model --model SmolLM2-135M.gguf --name smollm2\n"
      "         curl http://127.0.0.1:8812/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "           -d '{\"model\": \"smollm2\", \"messages\": [{\"role\": \"user\", \"content\": \"Who are "
      "you?\"}]}'");
}

void add_bench_options(CLI::App* app, musacoder::train::BenchOptions& options) {
  app->add_option("--model", options.model, "folder in Hugging Face's layout, or a GGUF file")->required();
  app->add_option("--device", options.device, "cpu, cuda or cuda:N")->capture_default_str();
  app->add_option("--type", options.type, "of weights and activations: bf16, f32")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "f32"}));
  app->add_option("--batch", options.batch, "sequences")->capture_default_str()->check(CLI::PositiveNumber);
  app->add_option("--length", options.length, "tokens of each")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  app->add_option("--steps", options.steps, "timed")->capture_default_str()->check(CLI::PositiveNumber);
  app->add_option("--warm-up", options.warm_up, "steps before")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app->add_option("--lr", options.learning_rate, "learning rate")->capture_default_str();
  app->add_flag("--recompute", options.recompute, "activation checkpointing");
  app->add_option("--trace", options.trace, "write a trace of one more step here, for chrome://tracing");
  app->footer("Example: musacoder-train bench --model DIR --device cuda --batch 32 --length 1024");
}

void add_plan_options(CLI::App* app, musacoder::train::PlanOptions& options) {
  app->add_option("--model", options.model, "folder in Hugging Face's layout, or its config.json alone")
      ->required();
  app->add_option("--type", options.type, "what is computed in: bf16, f32")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "f32"}));
  app->add_option("--tokens", options.tokens, "of one training pass")->capture_default_str();
  app->add_flag("--recompute", options.recompute, "keep the layers' inputs only");
  app->add_option("--lora-rank", options.lora_rank, "train adapters on all linears; 0: train all weights")
      ->capture_default_str();
  app->add_option("--processes", options.processes, "that divide the optimizer's state")
      ->capture_default_str();
  app->add_flag("--shard-parameters", options.shard_parameters, "divide weights and gradients too");
  app->add_option("--samples", options.samples, "running at a time in generation")->capture_default_str();
  app->add_option("--context", options.context, "tokens of each, prompt and answer")->capture_default_str();
  app->add_flag("--json", options.json, "one JSON object, in bytes");
  app->footer("Example: musacoder-train plan --model Qwen3.5-9B/config.json --tokens 40960 --recompute");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Language models for MusaCoder: generation and training on libtorch.\n"
      "Example: musacoder-train generate --model DIR --prompt 'The capital of France is'",
      "musacoder-train");
  app.footer(
      "Exit codes: 0 done, 2 wrong usage or input, 3 resources or a fault of the program, 4 stopped by a "
      "signal.");
  app.require_subcommand(1);

  std::string model, input, out;
  CLI::App* parity = app.add_subcommand(
      "parity",
      "write logits, loss, gradients and a training step for comparison with another implementation");
  parity->add_option("--model", model, "folder in Hugging Face's layout, or a GGUF file")->required();
  parity->add_option("--input", input, "JSON: {\"sequences\": [[ids, ...], ...], \"adamw\": {\"lr\": 0.001}}")
      ->required();
  parity->add_option("--out", out, "safetensors file to write")->required();
  parity->footer("Example: musacoder-train parity --model tiny --input in.json --out out.safetensors");

  musacoder::train::GenerateOptions generating;
  CLI::App* generate = app.add_subcommand("generate", "answer prompts");
  add_generate_options(generate, generating);

  musacoder::train::ServeModelOptions serving;
  CLI::App* serve = app.add_subcommand("serve-model", "a model behind OpenAI's HTTP API");
  add_serve_options(serve, serving);

  musacoder::train::SftOptions tuning;
  bool keys = false;
  CLI::App* sft =
      app.add_subcommand("sft", "fine-tune a model on conversations and texts (docs/training.md)");
  add_training_options(sft, tuning, keys, "docs/training.md");
  sft->add_flag("--dry-run", tuning.dry_run, "read model and data, say what would be trained, and end");
  sft->footer(
      "Ends with 4 when a signal stopped it behind a step and its checkpoint; the same command goes on.\n"
      "Example: musacoder-train sft configs/sft-smollm2.toml --set run.dir=runs/first --set "
      "optimizer.lr=3e-5");

  musacoder::train::RlOptions reinforcing;
  CLI::App* rl = app.add_subcommand("rl", "reinforcement learning from the verifier's rewards (docs/rl.md)");
  add_training_options(rl, reinforcing, keys, "docs/rl.md");
  rl->add_flag("--dry-run", reinforcing.dry_run, "read model and tasks, say what would be trained, and end");
  rl->footer(
      "Ends with 4 when a signal stopped it behind a step and its checkpoint; the same command goes on.\n"
      "Example: musacoder-train rl configs/rl-smollm2.toml --set run.dir=runs/rl --set "
      "objective.preset=dapo");

  musacoder::train::RunReportOptions reported;
  CLI::App* report =
      app.add_subcommand("report", "curves of one or more runs as one HTML page that needs no network");
  report->add_option("runs", reported.runs, "folders with a metrics.jsonl, such as run.dir of sft and rl")
      ->required();
  report->add_option("-o,--out", reported.out, "HTML file to write")->capture_default_str();
  report->add_option("--title", reported.title, "heading; default: the runs' names");
  report->footer("Example: musacoder-train report runs/rl runs/rl-without-mask -o compared.html");

  musacoder::train::BenchOptions benched;
  CLI::App* bench = app.add_subcommand("bench", "how fast a model trains here");
  add_bench_options(bench, benched);

  musacoder::train::PlanOptions planning;
  CLI::App* plan = app.add_subcommand("plan", "say what a model takes in memory, from its configuration");
  add_plan_options(plan, planning);

  CLI11_PARSE(app, argc, argv);
  if (bench->parsed()) return finish("bench", musacoder::train::run_bench(benched));
  if (parity->parsed()) return finish("parity", musacoder::train::run_parity(model, input, out));
  if (generate->parsed()) return finish("generate", musacoder::train::run_generate(generating));
  if (serve->parsed()) return finish("serve-model", musacoder::train::run_serve_model(std::move(serving)));
  if (sft->parsed())
    return run_training("sft", tuning, keys, musacoder::train::run_sft, musacoder::train::sft_keys);
  if (rl->parsed())
    return run_training("rl", reinforcing, keys, musacoder::train::run_rl, musacoder::train::rl_keys);
  if (report->parsed()) return finish("report", musacoder::train::run_report(reported));
  if (plan->parsed()) return finish("plan", musacoder::train::run_plan(planning));
  return 2;
}
