// Checkpoints out: changed weights into the layout they came from, or a new model.
//
//   // Train `mine`, leave the rest: vision tower, MTP head, tokenizer, README go through byte for byte.
//   std::vector<NewTensor> changed;
//   for (auto& p : mine) changed.push_back({p.name, DType::kBF16, p.shape, [&p] { return p.bytes_as_bf16(); }});
//   MC_RETURN_IF_ERROR(save_checkpoint(source, "out/step-100", changed));
//
//   NewCheckpoint fresh{.tensors = all, .files = {{"config.json", config.dump(2)}}};
//   MC_RETURN_IF_ERROR(write_checkpoint(fresh, "out/model"));
//
// Both put the folder in place at once (atomic_folder.h) and may replace the folder that `source` was opened from.
// Nothing changed gives identical files: headers and shards are kept as they stand in the source.
// Errors: as AtomicFolder, kInvalidArgument for tensors that do not fit, and whatever a tensor's `bytes` returns.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "llm/checkpoint/checkpoint.h"
#include "llm/checkpoint/safetensors.h"

namespace musacoder::llm {

struct NewTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  // Called once, when its place in the file is reached; the bytes must stay until the next tensor is asked for. So a
  // trainer can convert one tensor at a time.
  std::function<Result<std::string_view>()> bytes;
};

// A tensor as it stands in a file.
NewTensor same_tensor(const TensorView& tensor);

using NewFile = std::pair<std::string, std::string>;   // name without folders, content

// `changed` must have the source's type and shape. With changes, weights that the source's folder holds in other formats
// (.bin, .pth, .gguf, .onnx, further .safetensors) are left out: they would be the old model's. `files` replace or
// add to the source's. Folders in the source are copied, except those whose name begins with a dot.
Status save_checkpoint(const Checkpoint& source, const std::string& folder, const std::vector<NewTensor>& changed,
                       const std::vector<NewFile>& files = {});

struct NewCheckpoint {
  std::vector<NewTensor> tensors;
  std::vector<NewFile> files;
  std::uint64_t max_shard_bytes = 5'000'000'000;   // a larger tensor gets a shard of its own
  Safetensors::Metadata metadata = {{"format", "pt"}};
};
// Tensors are put into shards in the given order, as Hugging Face does, and within a shard in the order of the reference
// implementation's writer. One shard: model.safetensors; more: model-00001-of-0000N.safetensors and an index.
Status write_checkpoint(const NewCheckpoint& model, const std::string& folder);

}  // namespace musacoder::llm
