// Which tensors a model family's text trunk consists of, by its config.json: names and shapes as `transformers` has them.
//
//   MC_ASSIGN_OR_RETURN(std::vector<FamilyTensor> wanted, family_tensors(checkpoint.config()));
//   check_tensors(checkpoint, wanted);      // what is missing, misshapen, and not of the trunk
//
// Families: llama, qwen2, qwen3, qwen3_5 (with its text_config, or qwen3_5_text alone). To add one: a branch in families.cpp
// and its row in tests/llm/families_test.cpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "llm/checkpoint/checkpoint.h"

namespace musacoder::llm {

struct FamilyTensor {
  std::string name;
  Shape shape;
};

struct TensorCheck {
  std::vector<std::string> missing;     // names
  std::vector<std::string> misshapen;   // "name: [2, 3], the configuration makes it [3, 2]"
  std::vector<std::string> others;      // tensors of the checkpoint that the trunk does not have: vision tower, MTP head, …
};

// kUnsupported: a family that is not known here. kInvalidArgument: a size that is missing or no sensible number.
Result<std::vector<FamilyTensor>> family_tensors(const nlohmann::json& config);
TensorCheck check_tensors(const Checkpoint& checkpoint, const std::vector<FamilyTensor>& wanted);

}  // namespace musacoder::llm
