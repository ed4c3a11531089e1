// A model's tensors as libtorch's, from a Hugging Face folder or a GGUF file.
//
//   MC_ASSIGN_OR_RETURN(Weights weights, Weights::open("SmolLM2-135M", {}));
//   weights.get("model.norm.weight");                        // a view on the mapped file: no second copy
//   MC_ASSIGN_OR_RETURN(Weights mine, Weights::open(dir, {.type = WeightType::kF32, .trainable = true}));
//
// On the CPU, where the type is kept, tensors are views on the read-only mapping and must not be written to;
// trainable ones are copies with requires_grad. On a CUDA device (kernels/cuda/load.h) they are copied there
// from the mapping, those that are multiplied with the same input (q, k, v; gate, up; a DeltaNet layer's
// four) one behind the other, so that one product does for them (kernels/cuda/fused.h). Only the family's
// tensors are taken; others (MTP, vision) stay in the file. Errors: those of Checkpoint::open() and
// import_gguf(); kInvalidArgument: tensors missing or misshapen, by name.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "llm/checkpoint/families.h"
#include "llm/model/config.h"
#include "llm/torch.h"

namespace musacoder::llm {

enum class WeightType {
  kKeep,  // of GGUF: bf16, as quantised weights have no type of their own here; but see `packed`
  kF32,
  kBF16,
  kF64,  // to compare formulas without rounding; training on the CPU only
};

struct WeightOptions {
  WeightType type = WeightType::kKeep;
  bool trainable = false;
  at::Device device = at::kCPU;  // of open_device()
  // kKeep of GGUF with quantised weights: matrices stay in their blocks where kernels/row_ops.h multiplies
  // them (is_packed()), the rest is float32. For generation on the CPU; training and the library's products
  // know nothing of them.
  bool packed = false;
};

class Weights {
 public:
  static Result<Weights> open(const std::string& path, const WeightOptions& options);

  const ModelConfig& config() const { return config_; }
  // In the order of family_tensors().
  const std::vector<std::string>& names() const { return names_; }
  bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  // Must exist.
  const at::Tensor& get(const std::string& name) const { return tensors_.at(name); }
  // These tensors in place of its own, which must have their sizes; the rest is shared, and *this stays as it
  // is. On a CUDA device those that are multiplied with the same input lie together here too.
  Weights with(const std::unordered_map<std::string, at::Tensor>& changed) const;

 private:
  std::vector<std::vector<std::string>> of_one_input() const;
  void take(const std::string& name, at::Tensor tensor, const WeightOptions& options);
  void place(const std::vector<FamilyTensor>& wanted, const WeightOptions& options);
  ModelConfig config_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, at::Tensor> tensors_;
  std::unordered_map<std::string, at::Tensor> places_;  // on the device, of those that are to lie together
};

}  // namespace musacoder::llm
