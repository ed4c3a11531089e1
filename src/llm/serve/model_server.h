// A model behind OpenAI's HTTP API: /v1/completions, /v1/chat/completions, /v1/models, and /v1/weights to
// swap weights in flight; /health, /ready, /metrics. The routes as functions; net/server.h gives them a
// network.
//
//   ModelServer handler(std::move(engine), {.name = "smollm2", .model = "SmolLM2-135M.gguf"});
//   net::Server server(handler, {.listen = {"127.0.0.1:8812"}});
//   ...
//   handler.set_draining();     // no new requests: 503 with Retry-After
//   server.stop(60);            // those that run are finished
//
// Errors have OpenAI's form. Too many open requests are 429 with Retry-After. A client that has gone away has
// its request cancelled. Thread safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "llm/generate/engine.h"
#include "net/server.h"

namespace musacoder::llm {

struct ModelServerConfig {
  std::string name;                         // what clients call it
  std::string model;                        // folder or file: its chat template is read
  std::string token;                        // bearer token; empty: none is asked for
  EngineOptions engine;                     // of weights that are swapped in
  std::vector<std::string> weight_folders;  // below which /v1/weights may read; empty: it is refused
  std::size_t max_open = 256;               // requests at a time, running and waiting
  double request_s = 3600;                  // for one request
  int default_max_tokens = 4096;            // of chat answers that do not say
  bool plain_messages = false;              // refuse messages that hold the chat format's own tokens
};

class ModelServer : public net::Handler {
 public:
  // kInvalidArgument: a chat template that is there and cannot be read.
  static Result<std::unique_ptr<ModelServer>> create(std::unique_ptr<Engine> engine,
                                                     ModelServerConfig config);
  ~ModelServer() override;

  std::optional<net::Reply> refuse_early(const net::Request& request) override;
  net::Reply handle(const net::Request& request) override;
  net::Reply error_reply(const net::ApiError& error, const std::string& request_id) const override;
  std::string pattern_of(const net::Request& request) const override;
  net::HttpMetrics& metrics() override;

  void set_draining();
  // The engine failed: nothing will be answered any more.
  bool failed() const;

 private:
  struct Impl;
  explicit ModelServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::llm
