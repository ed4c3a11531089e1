// A checkpoint comes from whoever published it: any bytes are a file of tensors that lie in it, or an error that names it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "llm/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace musacoder::llm;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse_safetensors(file, "here");
  if (!parsed) {
    if (parsed.error().message.find("here") == std::string::npos) std::abort();   // no message without its place
    return 0;
  }
  std::size_t bytes = parsed->head.size();
  for (const TensorView& tensor : parsed->tensors) {
    if (tensor.offset + tensor.bytes.size() > size || tensor.bytes.data() != file.data() + tensor.offset) std::abort();
    if (dtype_bytes(tensor.dtype, static_cast<std::uint64_t>(tensor.elements())) != tensor.bytes.size()) std::abort();
    bytes += tensor.bytes.size();
  }
  if (bytes != size) std::abort();
  // What was read can be written, and reads the same.
  const auto head = safetensors_header(parsed->tensors, parsed->metadata);
  if (!head) std::abort();
  const std::string copy = *head + std::string(file.substr(parsed->head.size()));
  const auto again = parse_safetensors(copy, "copy");
  if (!again || again->tensors.size() != parsed->tensors.size()) std::abort();
  return 0;
}
