// The readers of raw answers meet any bytes.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "candidate/answer.h"
#include "candidate/cuda_scan.h"
#include "candidate/facts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace musacoder::candidate;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const AnswerText cut = cut_answer(text);
  if (cut.body.size() > text.size()) std::abort();
  for (const Block& block : fenced_blocks(cut.body, 4096, 16)) {
    if (block.code.size() > 4098 || block.line < 2) std::abort();
    (void)scan_cuda(block.code);
  }
  (void)scan_cuda(text);
  (void)facts_from_json(std::string(text));
  return 0;
}
