#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "base/clock.h"
#include "candidate/answer.h"
#include "candidate/candidate.h"
#include "candidate/cuda_scan.h"
#include "candidate/support.h"

namespace musacoder::candidate {
namespace {

const std::string kModel =
    "import torch\nimport torch.nn as nn\nfrom torch.utils.cpp_extension import load_inline\n"
    "src = \"\"\"\n#include <torch/extension.h>\n__global__ void k() { int n = 4096; }\n\"\"\"\n"
    "ext = load_inline(name='k', cpp_sources='', cuda_sources=src, functions=['f'])\n"
    "class ModelNew(nn.Module):\n    def forward(self, x):\n        return torch.relu(ext.f(x))\n";
const std::string kCuda = "#include <torch/extension.h>\n__global__ void k(float* x) {}\ntorch::Tensor run(torch::Tensor x) { return x; }\n";
const std::string kModule = kCuda + "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"run\", &run); }\n";

std::string fence(const std::string& language, const std::string& code) { return "```" + language + "\n" + code + "```\n"; }

Extractor& extractor() {
  static Extractor shared(test_options());
  return shared;
}

Candidate extracted(const std::string& answer, const std::string& name = "") {
  auto candidate = extractor().extract(answer, name);
  EXPECT_TRUE(candidate) << candidate.error().message;
  return candidate.value_or(Candidate{});
}

struct Case {
  const char* name;
  std::string answer, status;
  std::string code;      // expected; "" : not checked
  std::string message;   // expected part of it
};

class Extract : public testing::TestWithParam<Case> {};

TEST_P(Extract, GivesTheStatusAndTheCode) {
  const Case& test = GetParam();
  const Candidate candidate = extracted(test.answer);
  EXPECT_EQ(candidate.status, test.status) << candidate.message;
  if (!test.code.empty()) {
    EXPECT_EQ(candidate.code, test.code) << candidate.source;
  }
  EXPECT_NE(candidate.message.find(test.message), std::string::npos) << candidate.message;
  EXPECT_EQ(candidate.hash.size(), 64u);
  EXPECT_EQ(candidate.message.empty(), candidate.status == "ok");
}

const std::string kOther = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x): return x\n";
const std::string kUsage = "import torch\nmodel = ModelNew()\nprint(model(torch.ones(3)))\n";

INSTANTIATE_TEST_SUITE_P(
    Answers, Extract,
    testing::Values(
        Case{"file", kModel, "ok", kModel, ""},
        Case{"file_with_byte_order_mark", "\xef\xbb\xbf" + kModel, "ok", kModel, ""},
        Case{"windows_lines", "import torch\r\nclass ModelNew(torch.nn.Module):\r\n    def forward(self, x): return x\r\n", "ok", kOther, ""},
        Case{"file_without_last_newline", kModel.substr(0, kModel.size() - 1), "ok", kModel, ""},
        Case{"file_with_leading_lines", "\n\n" + kModel, "ok", "\n\n" + kModel, ""},
        Case{"file_with_a_fence_in_a_string", "doc = '''\n```python\nx\n```\n'''\n" + kModel, "ok", "doc = '''\n```python\nx\n```\n'''\n" + kModel, ""},
        Case{"file_with_a_marker_in_a_string", kModel + "# <think>\ns = '''\n<think>\n'''\nt = '</s>'\n", "ok", "", ""},
        Case{"fence", "Here:\n" + fence("python", kModel) + "Done.", "ok", kModel, ""},
        Case{"fence_without_language", fence("", kModel), "ok", kModel, ""},
        Case{"tilde_fence", "~~~python\n" + kModel + "~~~\n", "ok", kModel, ""},
        Case{"long_fence", "`````python\n" + kModel + "`````\n", "ok", kModel, ""},
        Case{"upper_case_language", fence("Python", kModel), "ok", kModel, ""},
        Case{"language_with_attributes", fence("python title=\"a.py\"", kModel), "ok", kModel, ""},
        Case{"fence_after_text_on_its_line", "Answer: " + fence("python", kModel), "ok", kModel, ""},
        Case{"indented_fence", "1. So:\n   ```python\n   import torch\n   class ModelNew(torch.nn.Module):\n       def forward(self, x): return x\n   ```\n",
             "ok", kOther, ""},
        Case{"unclosed_fence", "```python\n" + kModel, "ok", kModel, ""},
        Case{"closing_marks_at_the_end_of_a_line", "```python\n" + kModel.substr(0, kModel.size() - 1) + "```", "ok", kModel, ""},
        Case{"last_of_two_models", fence("python", kModel) + "Better:\n" + fence("python", kOther), "ok", kOther, ""},
        Case{"model_before_usage", fence("python", kModel) + "Use it:\n" + fence("python", kUsage) + fence("bash", "python a.py\n"), "ok", kModel, ""},
        Case{"model_before_cuda", fence("python", kModel) + fence("cuda", kModule), "ok", kModel, ""},
        Case{"unclosed_block_before_the_model", "```cpp\nint f();\n" + fence("python", kModel), "ok", kModel, ""},
        Case{"thinking", "<think>\nmaybe\n" + fence("python", kOther) + "</think>\n" + fence("python", kModel), "ok", kModel, ""},
        Case{"thinking_opened_by_the_template", "maybe\n" + fence("python", kOther) + "</think>\n\n" + fence("python", kModel), "ok", kModel, ""},
        Case{"two_thinking_blocks", "<think>a</think>\n<think>\n```python\n</think>\n" + fence("python", kModel), "ok", kModel, ""},
        Case{"other_thinking_markers", "[THINK]a[/THINK]" + fence("python", kModel), "ok", kModel, ""},
        Case{"channels", "<|channel|>analysis<|message|>hm\n" + fence("python", kOther) + "<|end|><|start|>assistant<|channel|>final<|message|>" +
                             fence("python", kModel) + "<|return|>", "ok", kModel, ""},
        Case{"answer_before_unclosed_thinking", fence("python", kModel) + "<think>\nwas that right?\n", "ok", kModel, ""},
        Case{"think_in_prose", "I use <think> tags never.\n" + fence("python", kModel), "ok", kModel, ""},
        Case{"code_after_thinking", "<think>a</think>\n" + kModel, "ok", kModel, ""},
        Case{"end_marker", fence("python", kModel) + "<|im_end|>", "ok", kModel, ""},
        Case{"end_marker_in_an_open_fence", "```python\n" + kModel + "<|endoftext|>", "ok", kModel, ""},
        Case{"end_marker_after_code", kModel + "</s>", "ok", kModel, ""},
        Case{"turn_header", "<|im_start|>assistant\n" + kModel + "<|im_end|>\n", "ok", kModel, ""},
        Case{"text_after_the_turn", fence("python", kModel) + "<|im_end|>\n<|im_start|>user\n" + fence("python", kOther), "ok", kModel, ""},
        Case{"bare_cuda", kModule, "ok", kModule, ""},
        Case{"bare_cuda_fence", "Kernel:\n" + fence("cuda", kModule), "ok", kModule, ""},
        Case{"bare_cuda_is_bound", kCuda, "ok", kCuda + "\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"run\", &run, \"run\"); }\n", ""},
        Case{"bare_cuda_binds_nothing", "#include <cuda.h>\n__global__ void k() {}\n", "compile_error:interface", "", "PYBIND11_MODULE"},
        Case{"module_only_in_a_comment", "#include <cuda.h>\n// PYBIND11_MODULE(a, m) {}\nconst char* s = \"torch::Tensor forward() {\";\n",
             "compile_error:interface", "", "PYBIND11_MODULE"},
        Case{"empty", "", "compile_error:extract", "", "empty"},
        Case{"blank", " \n\n\t", "compile_error:extract", "", "empty"},
        Case{"prose", "I cannot do this.\nSorry.", "compile_error:extract", "", "no code"},
        Case{"one_word", "Sorry", "compile_error:extract", "", "no code"},
        Case{"only_thinking", "<think>\n" + fence("python", kModel), "compile_error:extract", "", "thinking"},
        Case{"only_closed_thinking", "<think>\n" + fence("python", kModel) + "</think>\n", "compile_error:extract", "", ""},
        Case{"only_markers", "<|im_end|>", "compile_error:extract", "", ""},
        Case{"binary", std::string("\x7f""ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", 16), "compile_error:extract", "", "binary"},
        Case{"not_utf8", kModel + "# caf\xe9\n", "compile_error:extract", "", "UTF-8"},
        Case{"other_languages", fence("bash", "ls\n") + fence("json", "{}\n"), "compile_error:extract", "", "none of the 2"},
        Case{"no_model", "import torch\nclass Model(torch.nn.Module):\n    pass\n", "compile_error:interface", "", "no class ModelNew; the classes are Model"},
        Case{"no_model_in_fence", fence("python", kUsage), "compile_error:interface", "", "no class ModelNew"},
        Case{"model_in_a_function", "import torch\ndef f():\n    class ModelNew(torch.nn.Module): pass\n", "compile_error:interface", "", "inside"},
        Case{"model_in_a_string", "import torch\ns = '''\nclass ModelNew(torch.nn.Module): pass\n'''\n", "compile_error:interface", "", "no class"},
        Case{"model_under_if", "import torch\nif True:\n    class ModelNew(torch.nn.Module):\n        def forward(self, x): return x\n", "ok", "", ""},
        Case{"model_by_name", "import torch\nclass A(torch.nn.Module):\n    def forward(self, x): return x\nModelNew = A\n", "ok", "", ""},
        Case{"no_forward", "import torch\nclass ModelNew(torch.nn.Module):\n    pass\n", "compile_error:interface", "", "forward"},
        Case{"no_base", "class ModelNew:\n    def forward(self, x): return x\n", "compile_error:interface", "", "torch.nn.Module"},
        Case{"syntax", "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x) return x\n", "compile_error:syntax", "", "expected ':'"},
        Case{"syntax_in_fence", fence("python", "import torch\nclass ModelNew(torch.nn.Module):\n    def f(self:\n"), "compile_error:syntax", "", "does not parse"},
        Case{"too_deep", "import torch\nclass ModelNew: pass\nx = " + std::string(100000, '(') + "\n", "compile_error:syntax", "", "parse"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Extract, NamesTheLineOfASyntaxError) {
  const Candidate candidate = extracted("\nimport torch\nclass ModelNew(torch.nn.Module):\n    x = = 1\n");
  EXPECT_EQ(candidate.status, "compile_error:syntax");
  EXPECT_EQ(candidate.line, 4);
}

TEST(Extract, LimitsTheCodeAndNotTheAnswer) {
  const base::Stopwatch watch;
  const std::string thoughts(100u << 20, 'a');
  EXPECT_EQ(extracted("<think>" + thoughts + "</think>\n" + fence("python", kModel)).code, kModel);
  EXPECT_EQ(extracted(fence("python", "# " + std::string(2u << 20, 'x') + "\n" + kModel)).status, "compile_error:extract");
  EXPECT_EQ(extracted(thoughts).status, "compile_error:extract");
  std::string markers;
  while (markers.size() < 20u << 20) markers += "</think>\n<think>\n```\n~~~~python\n";
  EXPECT_EQ(extracted(markers).status, "compile_error:extract");
  std::string lone;
  while (lone.size() < 20u << 20) lone += "</think>\n";
  EXPECT_EQ(extracted(lone + fence("python", kModel)).code, kModel);
  std::string blocks;
  while (blocks.size() < 20u << 20) blocks += fence("cpp", "{ class ModelNewish\n");
  EXPECT_EQ(extracted(blocks + fence("python", kModel)).code, kModel);
  std::printf("  %.2f s\n", watch.seconds());
}

TEST(Extract, TakesTheNameOfAFile) {
  EXPECT_EQ(extracted(kCuda, "kernel.cu").kind, Kind::kBareCuda);
  EXPECT_EQ(extracted("int x;\n", "kernel.cu").status, "compile_error:interface");
}

TEST(Extract, KnowsFacts) {
  const Candidate candidate = extracted(kModel);
  const Facts& facts = candidate.facts;
  ASSERT_EQ(facts.builds.size(), 1u);
  EXPECT_EQ(facts.builds[0].line, 8);
  EXPECT_FALSE(facts.builds[0].in_try);
  ASSERT_EQ(facts.torch_calls.size(), 1u);
  EXPECT_EQ(facts.torch_calls[0].name, "torch.relu");
  EXPECT_EQ(facts.constants_cuda, (std::vector<std::int64_t>{4096}));
  EXPECT_EQ(facts.model_new.forward, (std::vector<std::string>{"x"}));
  EXPECT_EQ(python_line_of(facts, "\n#include <torch/extension.h>\n__global__ void k() { int n = 4096; }\n", 3), 6);
  const Candidate guarded = extracted("import torch\nfrom torch.utils.cpp_extension import load_inline as li\ntry:\n    e = li('a', '')\n"
                                      "except Exception:\n    e = None\n" + kOther);
  ASSERT_EQ(guarded.facts.builds.size(), 1u);
  EXPECT_TRUE(guarded.facts.builds[0].in_try);
  EXPECT_FALSE(guarded.notes.empty());
}

TEST(Extract, EqualCodeHasEqualHashes) {
  EXPECT_EQ(extracted(kModel).hash, extracted("Here.\n" + fence("python", kModel)).hash);
  EXPECT_NE(extracted(kModel).hash, extracted(kOther).hash);
}

TEST(Extract, SaysWhenThereIsNoPython) {
  ExtractOptions options = test_options();
  options.python = "/nonexistent/python3";
  EXPECT_FALSE(extract(kModel, options));
}

TEST(CudaScan, FindsWhatIsBound) {
  EXPECT_TRUE(scan_cuda(kModule).has_module);
  EXPECT_EQ(scan_cuda(kCuda).host_functions, (std::vector<std::string>{"run"}));
  EXPECT_EQ(scan_cuda("namespace a { std::vector<at::Tensor> f(int x) { if (x) { return {}; } return {}; } }\n"
                      "at::Tensor g(int);\n__device__ at::Tensor d() {}\nextern \"C\" { torch::Tensor h() {} }").host_functions,
            (std::vector<std::string>{"f", "h"}));
  EXPECT_TRUE(scan_cuda("const char* s = R\"x(PYBIND11_MODULE(a, b) { )x\";").balanced);
  EXPECT_FALSE(scan_cuda("const char* s = R\"x(PYBIND11_MODULE(a, b) { )x\";").has_module);
  EXPECT_FALSE(scan_cuda("void f() {").balanced);
}

// ---- properties

std::string soup() {
  static const char* const kPieces[] = {"```", "```python\n", "~~~", "\n", "<think>", "</think>", "class ModelNew(", "<|im_end|>", "`",
                                        "x", " ", "</s>", "<|channel|>final<|message|>", "\r\n", "import torch\n", "{", "}", "\"", "#include"};
  std::string text;
  const int count = *rc::gen::inRange(0, 60);
  for (int i = 0; i < count; ++i) text += kPieces[*rc::gen::inRange<std::size_t>(0, std::size(kPieces))];
  return text;
}

TEST(AnswerProperties, BlocksAreBoundedAndTheBodyIsPartOfTheAnswer) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = soup();
    const AnswerText cut = cut_answer(text);
    RC_ASSERT(cut.body.empty() || (cut.body.data() >= text.data() && cut.body.data() + cut.body.size() <= text.data() + text.size()));
    const auto blocks = fenced_blocks(cut.body, 100, 8);
    RC_ASSERT(blocks.size() <= 8u);
    for (const Block& block : blocks) RC_ASSERT(block.code.size() <= 102u);
    (void)scan_cuda(text);
  }));
}

TEST(AnswerProperties, AFencedProgramComesBackUnchanged) {
  EXPECT_TRUE(rc::check([] {
    const auto letters = rc::gen::container<std::string>(rc::gen::elementOf(std::string("abc =()\n\t#'\"`x<>|/")));
    std::string code = *letters + "\n";
    const int length = *rc::gen::inRange(12, 20);   // longer than any run of marks inside is likely to be
    RC_PRE(code.find(std::string(static_cast<std::size_t>(length), '`')) == std::string::npos);
    RC_PRE(code.find("```") == std::string::npos);
    const std::string marks(static_cast<std::size_t>(length), '`');
    const auto blocks = fenced_blocks("text\n" + marks + "python\n" + code + marks + "\nmore", 1 << 20);
    RC_ASSERT(blocks.size() == 1u);
    RC_ASSERT(blocks[0].code == code);
    RC_ASSERT(blocks[0].closed);
  }));
}

}  // namespace
}  // namespace musacoder::candidate
