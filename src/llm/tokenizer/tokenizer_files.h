// Where a model keeps its tokenizer.
//
//   MC_ASSIGN_OR_RETURN(TokenizerSpec spec, read_tokenizer("Qwen3-0.6B"));   // a folder, a tokenizer.json, or a .gguf
//
// A folder: tokenizer.json, else vocab.json and merges.txt; on top tokenizer_config.json, special_tokens_map.json and
// added_tokens.json where they are.
#pragma once

#include <string>

#include "base/status.h"
#include "llm/tokenizer/spec.h"

namespace musacoder::llm {

Result<TokenizerSpec> read_tokenizer(const std::string& path);

}  // namespace musacoder::llm
