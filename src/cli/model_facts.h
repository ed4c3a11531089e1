// What can be said of a model without running it: `musacoder model inspect`.
//
//   MC_ASSIGN_OR_RETURN(json facts, model_facts("Qwen3-0.6B", {.check = true}));
//   facts["problems"];               // [] when all fits
//
// One JSON object for a folder, a .safetensors file and a .gguf alike:
//   path, format ("huggingface", "safetensors", "gguf"), architecture, model_type, sizes {…}, files [{name, bytes, tensors}],
//   tensors {count, parameters, bytes, by_type: {"BF16": {tensors, parameters, bytes}}}, list [{name, type, shape, bytes}] with
//   `tensors`, tokenizer {…} or null, chat_template {…} or null, notes [..], and with `check` problems [..].
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.h"

namespace musacoder::cli {

struct ModelFactsOptions {
  bool tensors = false;   // every tensor
  bool check = false;     // that everything fits, down to numbers that are not finite: reads all of the weights
};

// Fails where there is no model or its files cannot be read at all; what does not fit is a problem in the facts.
Result<nlohmann::json> model_facts(const std::string& path, const ModelFactsOptions& options);

}  // namespace musacoder::cli
