// Which candidates are taken for MUSA's, and by what.
#include <gtest/gtest.h>

#include "candidate/candidate.h"
#include "candidate/support.h"

namespace musacoder::candidate {
namespace {

const std::string kModel = "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n";

struct Case {
  const char* name;
  std::string answer, file_name;
  Dialect dialect;
  std::string why;   // part of it
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string python(const std::string& lines) { return "import torch\n" + lines + kModel; }

const Case kCases[] = {
    {"Import", python("import torch_musa\n"), "", Dialect::kMusa, "import torch_musa (line 2)"},
    {"ImportFromSubmodule", python("from torch_musa.utils.musa_extension import load_inline\n"), "", Dialect::kMusa, "import torch_musa"},
    {"Keyword", python("from somewhere import load_inline\next = load_inline(name='a', cpp_sources='', musa_sources='k')\n"), "", Dialect::kMusa,
     "musa_sources (line 3)"},
    {"Header", python("src = r'''\n#include <musa_runtime.h>\n__global__ void k() {}\n'''\n"), "", Dialect::kMusa, "#include <musa_runtime.h> (line 3)"},
    {"TorchMusaHeader", python("src = r'''\n#include \"torch_musa/csrc/core/MUSAGuard.h\"\n'''\n"), "", Dialect::kMusa, "MUSAGuard.h"},
    {"File", python("from torch.utils.cpp_extension import load\next = load('a', ['a.cpp', 'k.mu'])\n"), "", Dialect::kMusa, "the file k.mu (line 3)"},
    {"Method", python("x = torch.ones(2).musa()\n"), "", Dialect::kMusa, ".musa() (line 2)"},
    {"Device", python("x = torch.ones(2, device='musa:0')\n"), "", Dialect::kMusa, "device \"musa:0\""},
    {"Module", python("torch.musa.synchronize()\n"), "", Dialect::kMusa, "torch.musa"},
    {"Attribute", python("assert torch.ones(2).is_musa\n"), "", Dialect::kMusa, "is_musa"},
    {"GuardedImportAndKeyword",
     python("try:\n    from torch_musa.utils.musa_extension import load_inline\nexcept ImportError:\n"
            "    from torch.utils.cpp_extension import load_inline\next = load_inline('a', '', musa_sources='k')\n"),
     "", Dialect::kMusa, "musa_sources"},
    {"BareByName", "#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x) { return x; }\n", "kernel.mu", Dialect::kMusa, "by its name"},
    {"BareByHeader", "#include <torch/extension.h>\n#include \"musa_fp16.h\"\n__global__ void k() {}\ntorch::Tensor forward(torch::Tensor x) { return x; }\n", "",
     Dialect::kMusa, "#include <musa_fp16.h>"},
    {"BareByFence", "Here it is:\n```musa\n#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x) { return x; }\n```\n", "", Dialect::kMusa, "by its name"},
    // Words say nothing.
    {"Plain", python("from torch.utils.cpp_extension import load_inline\next = load_inline('a', '', cuda_sources='k')\n"), "", Dialect::kCuda, ""},
    {"WordInComment", python("# import torch_musa, device=\"musa\"\n"), "", Dialect::kCuda, ""},
    {"WordInString", python("help = 'musa_sources and torch.musa and musa_runtime.h'\nnote = \"musa\"\n"), "", Dialect::kCuda, ""},
    {"IncludeInComment", python("src = r'''\n// #include <musa_runtime.h>\n/*\n#include <musa.h>\n*/\n#include <cuda_runtime.h>\n__global__ void k() {}\n'''\n"), "",
     Dialect::kCuda, ""},
    {"OwnName", python("musa_runtime = 3\ndef musa_helper(musa): return musa\nmusa_helper(musa_runtime)\n"), "", Dialect::kCuda, ""},
    {"BareWithComment", "// musa_runtime.h\n#include <torch/extension.h>\n__global__ void k() {}\ntorch::Tensor forward(torch::Tensor x) { return x; }\n", "a.cu",
     Dialect::kCuda, ""},
    // CUDA's builder with a source for both vendors, and torch_musa where it is.
    {"CudaForBoth",
     python("try:\n    import torch_musa\nexcept ImportError:\n    pass\nfrom torch.utils.cpp_extension import load_inline\n"
            "src = '#ifdef USE_MUSA\\n#include <musa_runtime.h>\\n#endif\\n'\next = load_inline('a', '', cuda_sources=src)\n"),
     "", Dialect::kCuda, ""},
};

class DialectTest : public ::testing::TestWithParam<Case> {
 protected:
  static Extractor& extractor() {
    static Extractor shared(test_options());
    return shared;
  }
};

TEST_P(DialectTest, IsTakenFromFacts) {
  const Case& c = GetParam();
  auto candidate = extractor().extract(c.answer, c.file_name);
  ASSERT_TRUE(candidate) << candidate.error().message;
  ASSERT_EQ(candidate->status, "ok") << candidate->message;
  EXPECT_EQ(dialect_name(candidate->dialect), std::string(dialect_name(c.dialect))) << candidate->dialect_why;
  EXPECT_NE(candidate->dialect_why.find(c.why), std::string::npos) << candidate->dialect_why;
  EXPECT_EQ(candidate->dialect_why.empty(), c.dialect == Dialect::kCuda);
}

INSTANTIATE_TEST_SUITE_P(All, DialectTest, ::testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.name); });

TEST(DialectHash, DiffersForTheSameBareFile) {
  const std::string code = "#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x) { return x; }\n";
  Extractor extractor(test_options());
  EXPECT_NE(extractor.extract(code, "a.cu")->hash, extractor.extract(code, "a.mu")->hash);
}

}  // namespace
}  // namespace musacoder::candidate
