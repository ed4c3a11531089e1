// A GGUF model as a Hugging Face checkpoint: names, layout and configuration of `transformers`, weights as float32 or bf16.
//
//   MC_ASSIGN_OR_RETURN(auto file, Gguf::open("SmolLM2-135M.gguf"));
//   MC_ASSIGN_OR_RETURN(GgufImport model, import_gguf(file, DType::kBF16));
//   model.config;                                    // JSON text for config.json
//   MC_RETURN_IF_ERROR(write_checkpoint({.tensors = model.tensors, .files = {{"config.json", model.config}}}, "smollm2"));
//
// Architectures: llama, qwen2, qwen3. llama.cpp's converter interleaves the two halves of each head's rows of q and k for
// llama (https://github.com/ggml-org/llama.cpp/blob/master/convert_hf_to_gguf.py, LlamaModel.permute); that is undone.
// Tensors are dequantised one at a time, when their bytes are asked for. What was rounded to four bits stays rounded.
// Errors: kUnsupported (another architecture, a tensor type that is not read, experts), kInvalidArgument (sizes that
// contradict the metadata, tensors that are missing or not known).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "llm/checkpoint/checkpoint_writer.h"
#include "llm/checkpoint/gguf.h"

namespace musacoder::llm {

struct GgufImport {
  std::string config;                // config.json
  std::string generation_config;     // generation_config.json
  std::vector<NewTensor> tensors;    // by Hugging Face names, in the file's order
  std::vector<std::string> notes;    // what a user should know, e.g. a tensor that was left out
};

// `type`: kF32 or kBF16. With `keep_blocks`, matrices whose type is one of those stay as they are: kU8 [rows, blocks of a row,
// bytes of a block], rows in Hugging Face's order.
Result<GgufImport> import_gguf(std::shared_ptr<const Gguf> file, DType type, const std::vector<GgmlType>& keep_blocks = {});

}  // namespace musacoder::llm
