// `musacoder-train serve-model`: a model behind OpenAI's HTTP API, until a signal.
//
//   musacoder-train serve-model --model SmolLM2-135M.gguf --listen 127.0.0.1:8812
//
// Its first line on stdout says where it listens, stderr has JSON lines. At SIGTERM no new requests are
// taken, those that run are finished within `drain_s`; a second signal ends them. Errors: kInvalidArgument
// (options, model), kUnavailable (address in use), kInternal (the engine failed).
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "llm/serve/model_server.h"

namespace musacoder::train {

struct ServeModelOptions {
  llm::ModelServerConfig config;  // `name`: default the model's file name
  std::string token_file;         // its first line is the bearer token
  std::vector<std::string> listen = {"127.0.0.1:8812"};
  std::string tls_cert, tls_key;
  std::size_t max_body_mib = 8, max_connections = 1000;
  double drain_s = 60;
};

Status run_serve_model(ServeModelOptions options);

}  // namespace musacoder::train
