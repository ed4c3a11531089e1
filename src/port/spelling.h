// How parts of a name are spelled on the other side: "cudaMemcpy" → "musaMemcpy", "make_cuComplex" →
// "make_muComplex", "CUDA_ERROR_NVLINK_UNCORRECTABLE" → "MUSA_ERROR_MTLINK_UNCORRECTABLE".
//
//   Spelling spelling({{"cuda", "musa"}, {"cu", "mu", true, {kUpper}}});
//   spelling.to_musa("cudaMemcpy_cuX");   // "musaMemcpy_muX"
//
// At each position the first rule that fits is applied; what no rule fits is kept. Whether a name is to be
// respelled at all is the table's business.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace musacoder::port {

struct SpellingRule {
  std::string from, to;
  bool edge = false;                                      // only at the name's beginning or after "_"
  bool upper = false, lower = false, underscore = false;  // what must follow; none set: anything
};

class Spelling {
 public:
  Spelling() = default;
  explicit Spelling(std::vector<SpellingRule> rules) : rules_(std::move(rules)) {}
  std::string to_musa(std::string_view name) const { return apply(name, true); }
  std::string to_cuda(std::string_view name) const { return apply(name, false); }

 private:
  std::string apply(std::string_view name, bool forward) const;
  std::vector<SpellingRule> rules_;
};

}  // namespace musacoder::port
