// The tokenizer inside a GGUF file: llama.cpp's "gpt2" kind, which is byte-level BPE.
//
//   MC_ASSIGN_OR_RETURN(auto file, Gguf::open("model.gguf"));
//   MC_ASSIGN_OR_RETURN(TokenizerSpec spec, read_gguf_tokenizer(*file));
//   gguf_chat_template(*file);                  // empty: none
//
// The file names its pre-tokenizer (tokenizer.ggml.pre) without its expression. Known here: qwen2, qwen35, llama-bpe (also
// llama3, llama-v3), smollm, gpt-2. Settings that GGUF leaves out are those of the families' own tokenizer.json: NFC for
// Qwen, ignore_merges for Llama-3. Placeholders for unused ids have no token. kUnsupported: another kind or name.
#pragma once

#include <string>

#include "base/status.h"
#include "llm/checkpoint/gguf.h"
#include "llm/tokenizer/spec.h"

namespace musacoder::llm {

Result<TokenizerSpec> read_gguf_tokenizer(const Gguf& file);
std::string gguf_chat_template(const Gguf& file);

}  // namespace musacoder::llm
