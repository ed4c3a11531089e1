// `musacoder-train generate`: answers to prompts on the terminal or as JSON lines.
//
//   musacoder-train generate --model SmolLM2-135M.gguf --prompt "The capital of France is" --samples 2
//   --temperature 0.8 musacoder-train generate --model DIR --ids "1 2 3" --temperature 0 --json
//
// All prompts run together. Text of a single sample is shown as it comes; otherwise each answer is shown
// whole, in the order of prompts and samples. With `json` a line for each answer: request, sample, tokens,
// logprobs, versions (of the weights, per token), text, finish.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "llm/generate/engine.h"

namespace musacoder::train {

struct GenerateOptions {
  std::string model;
  std::vector<std::string> prompts;
  std::vector<std::string> ids;  // each the ids of one prompt, separated by white space
  bool chat = false;             // prompts are a user's words to the model's chat template
  int samples = 1;
  llm::SamplingParams sampling;
  llm::EngineOptions engine;
  bool json = false;
  bool speed = false;  // say on stderr how fast it went
};

Status run_generate(const GenerateOptions& options);

}  // namespace musacoder::train
