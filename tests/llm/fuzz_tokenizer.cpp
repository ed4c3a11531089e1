// The first line of the input is a tokenizer.json, the rest a text. Any JSON is a tokenizer or an error that names it; what a
// tokenizer encodes can be decoded and is streamed as it is decoded; and untrusted text becomes no added token.
#include <cstdint>
#include <cstdlib>
#include <set>

#include "llm/tokenizer/tokenizer.h"
#include "llm/tokenizer/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace musacoder;
  using namespace musacoder::llm;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t line = bytes.find('\n');
  const std::string_view text = line == bytes.npos ? std::string_view() : bytes.substr(line + 1);
  auto spec = read_tokenizer_json(bytes.substr(0, line), "here");
  if (!spec) {
    if (spec.error().message.find("here") == std::string::npos) std::abort();
    return 0;
  }
  const std::string written = tokenizer_json(*spec);
  const auto tokenizer = Tokenizer::create(std::move(*spec));
  if (!tokenizer) return 0;
  for (const Specials specials : {Specials::kAll, Specials::kNone, Specials::kPlain}) {
    const auto ids = tokenizer->encode(text, {.specials = specials, .template_tokens = specials == Specials::kAll});
    if (!ids) continue;   // an expression without end
    const std::string all = tokenizer->decode(*ids);
    if (valid_prefix(all) != all.size()) std::abort();
    StreamDecoder stream(*tokenizer);
    std::string streamed;
    for (const TokenId id : *ids) streamed += stream.put(id);
    if (tokenizer->spec().byte_level() && streamed + stream.end() != all) std::abort();
  }
  // What was written is a tokenizer again.
  if (!read_tokenizer_json(written, "written")) std::abort();
  return 0;
}
