// Python: names, devices, the C++ in strings, and f-strings.
#include <gmock/gmock.h>

#include "support.h"

namespace musacoder::port {
namespace {

struct Case {
  const char* cuda;
  const char* musa;
};

const Case kCases[] = {
    {"from torch.utils.cpp_extension import load_inline\n",
     "from torch_musa.utils.musa_extension import load_inline\n"},
    {"import torch.utils.cpp_extension\ntorch.utils.cpp_extension.load()\n",
     "import torch_musa.utils.musa_extension\ntorch_musa.utils.musa_extension.load()\n"},
    {"from torch.utils import cpp_extension\ncpp_extension.load_inline()\n",
     "from torch_musa.utils import musa_extension\nmusa_extension.load_inline()\n"},
    {"from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CUDA_HOME\n",
     "from torch_musa.utils.musa_extension import BuildExtension, MUSAExtension, MUSA_HOME\n"},
    {"import torch\nx = torch.randn(3).cuda()\n", "import torch, torch_musa\nx = torch.randn(3).musa()\n"},
    {"import torch  # the framework\ny = x.to('cuda:0')\n",
     "import torch, torch_musa  # the framework\ny = x.to('musa:0')\n"},
    {"import torch; torch.cuda.synchronize()", "import torch, torch_musa; torch.musa.synchronize()"},
    {"import torch\nimport torch_npu\nx = 1\n", "import torch\nimport torch_npu\nx = 1\n"},
    {"assert x.is_cuda and torch.version.cuda\n", "assert x.is_musa and torch.version.musa\n"},
    {"with torch.cuda.device(0), torch.autocast(device_type=\"cuda\"): pass\n",
     "with torch.musa.device(0), torch.autocast(device_type=\"musa\"): pass\n"},
    {"d = f\"cuda:{rank}\" if n else f'cuda'\n", "d = f\"musa:{rank}\" if n else f'musa'\n"},
    {"a = 'cuda:%d' % i, 'cuda:{}'.format(i), 'cuda:' + str(i)\n",
     "a = 'musa:%d' % i, 'musa:{}'.format(i), 'musa:' + str(i)\n"},
    {"s = f\"{x.cuda()} and {torch.cuda.device_count():>{width}}\"\n",
     "s = f\"{x.musa()} and {torch.musa.device_count():>{width}}\"\n"},
    {"s = f'{d[\"cuda\"]}{{cuda}}'\n", "s = f'{d[\"musa\"]}{{cuda}}'\n"},
    {"activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]\n",
     "activities=[ProfilerActivity.CPU, ProfilerActivity.MUSA]\n"},
    {"dist.init_process_group('nccl')\n", "dist.init_process_group('mccl')\n"},
    {"os.environ['CUDA_VISIBLE_DEVICES'] = '0'\n", "os.environ['MUSA_VISIBLE_DEVICES'] = '0'\n"},
    {"CUDAExtension('m', ['a.cpp', 'src/k.cu'], extra_compile_args={'cxx': [], 'nvcc': ['-O3']}, "
     "libraries=['-lcublas'])\n",
     "MUSAExtension('m', ['a.cpp', 'src/k.mu'], extra_compile_args={'cxx': [], 'mcc': ['-O3']}, "
     "libraries=['-lmublas'])\n"},
    {"torch.backends.cudnn.allow_tf32 = False\n", "torch.backends.mudnn.allow_tf32 = False\n"},
    {"src = '''\n#include <cuda_runtime.h>\n__global__ void k() { cudaMalloc(0, 0); } // cudaFree\n'''\n",
     "src = '''\n#include <musa_runtime.h>\n__global__ void k() { musaMalloc(0, 0); } // cudaFree\n'''\n"},
    {"src = '#include <cuda.h>\\ncudaFree(p);\\n'\n", "src = '#include <musa.h>\\nmusaFree(p);\\n'\n"},
    {"src = ('#include <x>\\n'\n       'cudaFree(p);')\n",
     "src = ('#include <x>\\n'\n       'musaFree(p);')\n"},
    {"load_inline('m', 'void f(cudaStream_t);', ['cudaFree(p);'])\n",
     "load_inline('m', 'void f(musaStream_t);', ['musaFree(p);'])\n"},
    {"cpp = 'void f(cudaStream_t);'\nload_inline(name='cuda', cpp_sources=[cpp], cuda_sources=cpp + "
     "'cudaFree(p);')\n",
     "cpp = 'void f(musaStream_t);'\nload_inline(name='musa', cpp_sources=[cpp], musa_sources=cpp + "
     "'musaFree(p);')\n"},
    {"head: str = 'cudaFree(p);'\nbody = head\nbody += 'cudaFree(q);'\nload_inline('m', body, "
     "extra_cuda_cflags=['-O3'])\n",
     "head: str = 'musaFree(p);'\nbody = head\nbody += 'musaFree(q);'\nload_inline('m', body, "
     "extra_musa_cflags=['-O3'])\n"},
    {"src = f'''\n#include <cuda.h>\n__global__ void k_{name}() {{ cudaFree({x.cuda()}); cuda{y}Free(); "
     "}}\n'''\n",
     "src = f'''\n#include <musa.h>\n__global__ void k_{name}() {{ musaFree({x.musa()}); cuda{y}Free(); "
     "}}\n'''\n"},
    {"src = r'''#include <cuda.h>\nprintf(\"\\n\"); cudaFree(p);'''\n",
     "src = r'''#include <musa.h>\nprintf(\"\\n\"); musaFree(p);'''\n"},
    {"src = '''#include <x>\nprintf(\"it is cudaFree\\\\n\"); cudaFree(p); // don't\ncudaFree(q);'''\n",
     "src = '''#include <x>\nprintf(\"it is cudaFree\\\\n\"); musaFree(p); // don't\nmusaFree(q);'''\n"},
};

TEST(PythonPort, SpeaksBothDialects) {
  for (const Case& c : kCases) {
    EXPECT_EQ(python(c.cuda), c.musa);
    EXPECT_EQ(python(c.musa, Dialect::kCuda), c.cuda);
    EXPECT_EQ(python(c.musa), c.musa) << "twice";
  }
}

const char* const kStays[] = {
    "\"\"\"Uses a __global__ kernel and cudaMalloc on cuda.\"\"\"\nx = 1\n",
    "raise ValueError('expected a cuda tensor, see torch.cuda')\n",
    "cuda_helper = 1; cudaThing = my_cuda; def_cuda(cuda)\n",
    "functions=['relu_cuda', 'cuda_forward']\n",
    "# torch.cuda.synchronize()\n",
    "name = 'cuda_kernel'; other = 'cuda device'; url = 'https://a/b.cu?x'\n",
    "obj.cuda = 3; mod.cuda.thing(); cuda.synchronize()\n",
    "torch.backends.cuda.matmul.allow_tf32 = True\n",
    "torch.cuda.x  # MUSACODER_PORT_LINE\n",
};

TEST(PythonPort, LeavesWhatIsNotCudas) {
  for (const char* text : kStays) EXPECT_EQ(python(text), text);
}

TEST(PythonPort, BringsNoImportWhereNoneIsNeeded) {
  EXPECT_EQ(python("import torch\nx = torch.zeros(1)\n"), "import torch\nx = torch.zeros(1)\n");
  EXPECT_EQ(python("import torch\nimport torch_musa\nd = 'cuda'\n"),
            "import torch\nimport torch_musa\nd = 'musa'\n");
}

TEST(PythonPort, SaysThatAMusaImportDoesNotComeBack) {
  const Ported there = ported("import torch_musa\nd = 'musa'\n", Language::kPython, Dialect::kCuda);
  EXPECT_EQ(there.text, "import torch\nd = 'cuda'\n");
  EXPECT_FALSE(there.reversible());
}

TEST(PythonPort, RenamesInStringsWhenAsked) {
  EXPECT_EQ(ported("raise ValueError('no cudaMalloc on cuda:1')\n", Language::kPython, Dialect::kMusa,
                   {.in_strings = true})
                .text,
            "raise ValueError('no musaMalloc on musa:1')\n");
}

TEST(PythonPort, TakesBrokenPython) {
  for (const char* text : {"f'{", "f'''{\"", "'''", "\"\\", "f'{x!r:{y'", "def f(:\n  'cuda",
                           "f\"{f'{f\"{x}\"}'}\"", "}}])", "\\"})
    expect_round_trip(text, Language::kPython, text);
}

TEST(LanguageOfText, TellsBareSourcesFromPython) {
  EXPECT_EQ(
      language_of_text("#include <torch/extension.h>\n// x\ntemplate <int N>\n__global__ void k() {}\n"),
      Language::kCpp);
  EXPECT_EQ(language_of_text("#include <a>\nclass X { int y; };\n"), Language::kCpp);
  EXPECT_EQ(language_of_text("#!/usr/bin/env python\nimport torch\nsrc = '''\n#include <a>\n'''\n"),
            Language::kPython);
  EXPECT_EQ(language_of_text("class Model(nn.Module):\n  pass\n"), Language::kPython);
}

TEST(LanguageOf, GoesByTheFilesName) {
  EXPECT_EQ(language_of("a/b.cu"), Language::kCpp);
  EXPECT_EQ(language_of("b.muh"), Language::kCpp);
  EXPECT_EQ(language_of("x.py"), Language::kPython);
  EXPECT_EQ(language_of("src/CMakeLists.txt"), Language::kBuild);
  EXPECT_EQ(language_of("README.md"), Language::kAnswer);
  EXPECT_EQ(language_of("notes.txt"), Language::kText);
}

TEST(AnswerPort, PortsTheCodeBlocksOfAnAnswer) {
  const char* cuda =
      "<think>\nI'd use cudaFree on cuda.\n</think>\nHere's it:\n```python\nimport torch\nx = "
      "x.cuda()\n```\nand\n~~~ CUDA\n"
      "cudaFree(p);\n```\ncudaFree(q);\n~~~~\n```\n#include <cuda.h>\n```\n```text\ncudaFree\n```\n   "
      "```py\nd = 'cuda'";
  const char* musa =
      "<think>\nI'd use cudaFree on cuda.\n</think>\nHere's it:\n```python\nimport torch, torch_musa\nx = "
      "x.musa()\n```\nand\n~~~ CUDA\n"
      "musaFree(p);\n```\nmusaFree(q);\n~~~~\n```\n#include <musa.h>\n```\n```text\ncudaFree\n```\n   "
      "```py\nd = 'musa'";
  EXPECT_EQ(language_of_text(cuda), Language::kAnswer);
  EXPECT_EQ(ported(cuda, Language::kAnswer).text, musa);
  EXPECT_EQ(ported(musa, Language::kAnswer, Dialect::kCuda).text, cuda);
  EXPECT_EQ(ported(cuda, Language::kAnswer).renames[0].line, 6u);
  EXPECT_EQ(language_of_text("import torch\ns = '''\n```\n'''\n"), Language::kPython);
  EXPECT_EQ(ported("cudaFree\n", Language::kAnswer, Dialect::kMusa, {.in_strings = true}).text, "musaFree\n");
}

}  // namespace
}  // namespace musacoder::port
