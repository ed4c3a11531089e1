// The model of a run: what is trained of it, its loss, and its way to disk.
//
//   MC_ASSIGN_OR_RETURN(auto model, TrainedModel::open(config, device, communicator));
//   at::Tensor sum = model->loss_sum(batch);          // over the batch's loss tokens; differentiable
//   model->shards().step(...);
//   MC_RETURN_IF_ERROR(model->save("run/checkpoints/step-00000100.tmp"));
//
// A folder holds `model` (Hugging Face's layout, weights in the types of the model it began from) or
// `adapter` (peft's layout), and `optimizer` (moments, and float32 weights where the model's own type rounds
// them), whole tensors all: any number of processes reads what any other number wrote. save() and restore()
// are called by all processes; rank 0 writes. Thread safety: none.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "llm/checkpoint/checkpoint.h"
#include "llm/model/decoder.h"
#include "llm/model/lora.h"
#include "llm/model/weights.h"
#include "train/config/run_config.h"
#include "train/data/plan.h"
#include "train/parallel/communicator.h"
#include "train/parallel/shards.h"

namespace musacoder::train {

class TrainedModel {
 public:
  static Result<std::unique_ptr<TrainedModel>> open(const RunConfig& config, at::Device device,
                                                    Communicator& all);
  enum class Adapters { kOn, kOff };
  // Of the rows whose target is not -1, in their order, float32; differentiable. Where there is none, one 0 a
  // row that the weights hang on all the same, for a process that keeps others company. `temperature`: what
  // logits are divided by. Adapters off: of the model that training began from.
  at::Tensor logprobs(const llm::Packed& packed, const at::Tensor& targets, double temperature = 1,
                      Adapters adapters = Adapters::kOn);
  // -log p, summed over the targets of a batch; float32.
  at::Tensor loss_sum(const RowBatch& batch);
  Shards& shards() { return *shards_; }
  const llm::ModelConfig& config() const { return weights_.config(); }
  at::Device device() const { return device_; }
  std::int64_t parameters() const;
  std::int64_t trained_parameters() const;
  bool adapted() const { return lora_.has_value(); }

  // What is trained, as one whole model without adapters, into tensors of the same names and sizes and of any
  // type. All processes call it.
  void copy_into(const llm::Weights& copy);

  // Writes into a folder that is there and empty; bytes_to_save() is what it needs.
  Status save(const std::string& folder);
  // In its place where rank 0 has no folder to write into, for the sake of the others.
  void skip_save();
  std::uint64_t bytes_to_save() const;
  // Weights, moments and the count of steps.
  Status restore(const std::string& folder, std::int64_t optimizer_steps);

 private:
  TrainedModel(Communicator& all, at::Device device) : all_(all), device_(device) {}
  Status write(const std::string& folder);
  Status write_optimizer(const std::string& folder);
  Result<at::Tensor> ask(std::size_t index, Shards::Part part);
  void serve();
  bool rounded(std::size_t index) const;

  Communicator& all_;
  at::Device device_;
  std::string path_;
  std::optional<llm::Checkpoint> source_;
  llm::Weights weights_;
  std::optional<llm::Lora> lora_;
  std::optional<llm::Decoder> decoder_, plain_decoder_;
  std::unique_ptr<Shards> shards_;
  bool recompute_ = false, sharded_ = false;
};

}  // namespace musacoder::train
