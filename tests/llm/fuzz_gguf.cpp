// Any bytes are a GGUF file whose tensors lie in it, or an error that names it; and so for the tokenizer and the weights in it.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "llm/checkpoint/gguf_import.h"
#include "llm/tokenizer/gguf_tokenizer.h"
#include "llm/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace musacoder;
  using namespace musacoder::llm;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto file = Gguf::parse(bytes, "here");
  const auto named = [](const Error& error) {
    if (error.message.find("here") == std::string::npos) std::abort();   // no message without its place
  };
  if (!file) {
    named(file.error());
    return 0;
  }
  for (const GgufTensor& tensor : (*file)->tensors()) {
    if (tensor.offset + tensor.bytes.size() > size || tensor.bytes.data() != bytes.data() + tensor.offset) std::abort();
    const auto block = ggml_block(tensor.type);
    if (!block || !block->readable) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    if (!dequantize(tensor, 0, tensor.elements(), values.data())) std::abort();
  }
  if (auto model = import_gguf(*file, DType::kBF16); !model) named(model.error());
  else for (const NewTensor& tensor : model->tensors) if (!tensor.bytes()) std::abort();
  auto spec = read_gguf_tokenizer(**file);
  if (!spec) {
    named(spec.error());
    return 0;
  }
  if (const auto tokenizer = Tokenizer::create(std::move(*spec))) {
    const auto ids = tokenizer->encode("It's 42 \xe4\xbd\xa0\xff <s>\n");
    if (!ids) std::abort();
    (void)tokenizer->decode(*ids);
  }
  return 0;
}
