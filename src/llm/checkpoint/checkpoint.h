// A model in Hugging Face's layout: a folder with config.json and one or many safetensors files, mapped, not read.
//
//   MC_ASSIGN_OR_RETURN(Checkpoint model, Checkpoint::open("Qwen3-0.6B"));
//   model.config()["model_type"];                                    // "qwen3"
//   const TensorView* q = model.find("model.layers.0.self_attn.q_proj.weight");
//   std::memcpy(mine, q->bytes.data(), q->bytes.size());
//
// Also opens a single .safetensors file. Writing back: checkpoint_writer.h. GGUF: gguf_import.h.
// Errors: kNotFound (no such folder, a shard is missing), kInvalidArgument (what parse_safetensors() refuses; an index that
// does not fit its shards; a tensor in two shards), kUnsupported (weights in another format only).
// Thread safety: const after open().
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "llm/checkpoint/mapped_file.h"
#include "llm/checkpoint/tensor.h"

namespace musacoder::llm {

struct Shard {
  std::string name;                        // file name in the folder
  std::shared_ptr<const MappedFile> file;
  std::string_view head;                   // length and header as they stand in the file
  std::size_t first = 0, count = 0;        // its tensors in Checkpoint::tensors()
};

class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::string& path);

  const std::string& folder() const { return folder_; }
  // Shard by shard, each in the order of its bytes.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const std::vector<Shard>& shards() const { return shards_; }
  // nullptr: no tensor of this name.
  const TensorView* find(std::string_view name) const;
  // config.json; an empty object where there is none.
  const nlohmann::json& config() const { return *config_; }
  // Sum of the tensors' elements.
  std::uint64_t parameters() const;

 private:
  Status add_shard(const std::string& name);
  std::string folder_;
  std::vector<Shard> shards_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::shared_ptr<const nlohmann::json> config_;
};

}  // namespace musacoder::llm
