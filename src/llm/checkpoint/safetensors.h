// One safetensors file: 8 bytes of header length, a JSON header, the tensors' bytes
// (https://huggingface.co/docs/safetensors).
//
//   MC_ASSIGN_OR_RETURN(auto file, MappedFile::open("model.safetensors"));
//   MC_ASSIGN_OR_RETURN(Safetensors parsed, parse_safetensors(file->bytes(), file->path()));
//   parsed.tensors[0].name;
//
//   Safetensors::Metadata pt = {{"format", "pt"}};
//   MC_ASSIGN_OR_RETURN(std::string head, safetensors_header(infos, pt));   // then the tensors' bytes, in `infos`' order
//
// The header is hostile until shown otherwise. Accepted is what the reference implementation accepts: every tensor's bytes
// are as many as its type and shape say, and together they fill the rest of the file without overlap or hole. Refused with
// kInvalidArgument, the file's name and what is wrong: anything else, and a name given twice.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "llm/checkpoint/tensor.h"

namespace musacoder::llm {

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;   // as in the reference implementation

struct Safetensors {
  using Metadata = std::vector<std::pair<std::string, std::string>>;
  std::string_view head;             // length and header as they stand in the file, padding included
  Metadata metadata;                 // `__metadata__`
  std::vector<TensorView> tensors;   // in the order of their bytes; `owner` is left to the caller
};

// Views into `file`; `where` names it in errors.
Result<Safetensors> parse_safetensors(std::string_view file, std::string_view where);

// What a new file begins with, for tensors whose bytes will follow in this order; padded so that they start at a multiple
// of 8. Only name, dtype and shape are read.
Result<std::string> safetensors_header(const std::vector<TensorView>& tensors, const Safetensors::Metadata& metadata);

}  // namespace musacoder::llm
