// The `musacoder-train` program: reads the command line, calls one function, returns its exit code.
#include <CLI/CLI.hpp>

#include "train/bench.h"
#include "train/generate.h"
#include "train/memory_plan.h"
#include "train/parity.h"

namespace {

int finish(const char* command, const musacoder::Status& status) {
  if (status) return 0;
  fmt::print(stderr, "musacoder-train {}: {}\n", command, status.error().message);
  return status.error().code == musacoder::Code::kInternal ||
                 status.error().code == musacoder::Code::kResourceExhausted
             ? 3
             : 2;
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
  app->add_option("--type", options.engine.type,
                  "weights and cache: keep (as in the file; bf16 of GGUF), f32, bf16")
      ->capture_default_str()
      ->check(CLI::IsMember({"keep", "f32", "bf16"}));
  app->add_option("--device", options.engine.device, "cpu, cuda or cuda:N")->capture_default_str();
  app->add_option("--adapter", options.engine.adapter, "folder of LoRA adapters in peft's layout");
  app->add_option("--cache-tokens", options.engine.cache_tokens,
                  "room for all running answers and their prompts")
      ->capture_default_str();
  app->add_option("--max-running", options.engine.max_running, "answers at a time")->capture_default_str();
  app->add_option("--step-tokens", options.engine.step_tokens, "tokens in one pass of the model")
      ->capture_default_str();
  app->add_flag("!--no-prefix-sharing", options.engine.share_prefixes,
                "read every prompt whole, even where an earlier one began alike");
  app->add_option("--prefix-states", options.engine.prefix_states,
                  "DeltaNet models: states kept for prompts that begin alike")
      ->capture_default_str();
  app->add_flag("--json", options.json,
                "a JSON line for each answer: tokens, their log-probabilities, text, why it ended");
  app->add_flag("--speed", options.speed, "say on stderr how fast it went");
  app->footer(
      "Example: musacoder-train generate --model SmolLM2-135M.gguf --chat --prompt 'Who are you?' "
      "--temperature 0");
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
  app.footer("Exit codes: 0 done, 2 wrong usage or input, 3 resources or a fault of the program.");
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
  if (plan->parsed()) return finish("plan", musacoder::train::run_plan(planning));
  return 2;
}
