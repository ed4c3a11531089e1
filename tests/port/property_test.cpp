// Any text: lines stay, porting twice changes nothing, and what is said to be reversible comes back.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "support.h"

namespace musacoder::port {
namespace {

// Pieces that texts are made of: both dialects' names, quotes and their ends, comments, marks, and names of
// no one.
const std::vector<std::string> kPieces = {
    "cudaMalloc",
    "musaMalloc",
    "cudaStream_t",
    "cuda",
    "musa",
    "torch",
    ".",
    "::",
    "->",
    "at",
    "c10",
    "is_cuda",
    "is_privateuseone",
    "is_musa",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "f\"",
    "f'",
    "R\"(",
    ")\"",
    "r'",
    "\\",
    "\n",
    " ",
    "\t",
    "//",
    "/*",
    "*/",
    "#",
    "#include <cuda_runtime.h>\n",
    "#include <musa.h>\n",
    "#include <cublas.h>\n",
    "#include \"a.cuh\"\n",
    "#define ",
    "cuda:0",
    "musa:1",
    "import torch",
    "import torch, torch_musa",
    "import torch_musa",
    "utils",
    "cpp_extension",
    "musa_extension",
    "cuda_sources",
    "musa_sources",
    "=",
    ",",
    ":",
    "+",
    ";",
    "load_inline",
    "__global__",
    "CUDA_CHECK",
    "__CUDA_ARCH__",
    "__MUSA_ARCH__",
    "kCUDA",
    "namespace",
    "my_cuda_thing",
    "cudnn",
    "allow_tf32",
    "backends",
    "nvcc",
    "mcc",
    "a.cu",
    "b.mu",
    "CUPTI_X",
    "MUPTI_X",
    "__nv_abs",
    "cute",
    "mute",
    "nppiAdd",
    "$",
    "MUSACODER_PORT_LINE",
    "MUSACODER_PORT_OFF",
    "MUSACODER_PORT_ON",
    "/*MUSACODER_PORT_KEEP*/",
    "0xffffffff",
    "1'0",
    "é",
    "\r\n",
    "find_package",
    "${",
    "CUDA_LIBRARIES",
    "\n```python\n",
    "\n```\n",
    "~~~cuda\n",
};

rc::Gen<std::string> text() {
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kPieces)),
                      [](const std::vector<std::string>& pieces) {
                        std::string all;
                        for (const std::string& piece : pieces) all += piece;
                        return all;
                      });
}

void check(const std::string& text, Language language, Dialect to, const PortOptions& options) {
  const Ported there = ported(text, language, to, options);
  RC_ASSERT(std::count(there.text.begin(), there.text.end(), '\n') ==
            std::count(text.begin(), text.end(), '\n'));
  // A mark is spent on the way back.
  if (!options.keep_marks && text.find("MUSACODER_PORT_KEEP") == std::string::npos)
    RC_ASSERT(ported(there.text, language, to, options).text == there.text);
  if (there.reversible()) RC_ASSERT(ported(there.text, language, other(to), options).text == text);
}

RC_GTEST_PROP(Property, EveryTextComesBackUnlessTheReportSaysSo, ()) {
  const std::string given = *text();
  for (const Language language :
       {Language::kCpp, Language::kPython, Language::kBuild, Language::kText, Language::kAnswer})
    for (const Dialect to : {Dialect::kMusa, Dialect::kCuda}) {
      check(given, language, to, {});
      check(given, language, to, {.in_strings = true, .in_comments = true});
    }
  check(given, Language::kCpp, Dialect::kMusa, {.keep_marks = true});
}

RC_GTEST_PROP(Property, EveryByteIsTaken, ()) {
  std::string given = *rc::gen::arbitrary<std::string>();
  given.erase(std::remove(given.begin(), given.end(), '\0'), given.end());
  for (const Language language :
       {Language::kCpp, Language::kPython, Language::kBuild, Language::kText, Language::kAnswer})
    check(given, language, Dialect::kMusa, {});
}

}  // namespace
}  // namespace musacoder::port
