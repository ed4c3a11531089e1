// What the kernels of one answer share: style, names, conversions between types, and the texts around a launch.
//
//   Writer w(code_style_of(seed), seed);
//   const std::string kernel = w.unique("row_softmax_kernel");      // once in the file
//   w.load(DType::kF16, "x[i]");                                    // "__half2float(x[i])"
//   w.store(DType::kF16, "value");                                  // "__float2half(value)"
//
// Sums and functions of half and bfloat16 are computed in float, integers narrower than 32 bits in int.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "synth/graph/graph.h"
#include "synth/seeded.h"

namespace musacoder::synth {

struct CodeStyle {
  int threads = 256;            // of blocks where the schedule is free
  bool comments = true;
  bool early_return = true;     // if (idx >= n) return;  else  if (idx < n) { … }
  bool checks = false;          // TORCH_CHECK on device, type, contiguity
  bool stream = false;          // launches on the current stream
  bool grid_variable = true;    // const int blocks = …; kernel<<<blocks, threads>>>  else the expressions in the launch
  bool wide_index = false;      // int64_t for element counts and indices, else int
  int names = 0;                // 0..2: which words indices and sizes get
  bool tabs_of_two = false;     // indent of two, else of four
  // The file around the kernels:
  bool bindings_declared = true;   // cpp_sources holds declarations only; else cpp_sources is a list with one string a function
  bool functions_list = true;      // functions=[…], else a dict of name and docstring
  bool module_level = true;        // load_inline at module level; else a helper function is called there
  bool one_source = true;          // kernels in one string; else a string a unit, joined
};
CodeStyle code_style_of(std::uint64_t seed);
CodeStyle one_code_style();  // the same for every answer: long names, no comments, early returns

class Writer {
 public:
  Writer(CodeStyle style, std::uint64_t seed) : style_(style), draw_(mix(seed, "writer")) {}
  const CodeStyle& style() const { return style_; }
  Seeded& draw() { return draw_; }
  // `base`, or base_2, base_3 … : names at file scope are used once.
  std::string unique(const std::string& base);
  // A device function that several kernels of the file may call, written once before them; returns its name. `code` says NAME for it.
  std::string helper(const std::string& name, const std::string& code);
  const std::string& helpers() const { return helpers_; }

  // Types in which a dtype is computed ("float") and kept ("__half").
  static const char* compute_type(DType dtype);
  static std::string load(DType dtype, const std::string& element);
  static std::string store(DType dtype, const std::string& value);
  // A literal in the compute type: "0.5f", "3", "-INFINITY".
  static std::string number(DType dtype, double value);
  // `const __half*` from a tensor argument: reinterpret_cast<const __half*>(x.data_ptr<at::Half>()).
  static std::string pointer(DType dtype, const std::string& tensor, bool constant);
  static const char* torch_type(DType dtype);  // "torch::kFloat16"

  const char* index_type() const { return style_.wide_index ? "int64_t" : "int"; }
  std::string comment(std::string_view text, int indent) const;  // "" where the style has none; ends with a line break
  // kernel<<<grid, block, shared, stream>>>( for the style; `shared` "" for none.
  std::string launch(const std::string& kernel, const std::string& grid, const std::string& block, const std::string& shared) const;
  // TORCH_CHECKs of a tensor argument, lines with line breaks; "" where the style has none.
  std::string checks(const std::string& tensor, DType dtype) const;

 private:
  CodeStyle style_;
  Seeded draw_;
  std::set<std::string> used_, known_helpers_;
  std::string helpers_;
};

// `text` with every line indented by so many spaces (blank lines left alone).
std::string indented(std::string_view text, int spaces);

}  // namespace musacoder::synth
