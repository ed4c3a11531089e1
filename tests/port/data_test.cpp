// Files that were written to be hard: there and back, and what must have changed on the way.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/files.h"
#include "support.h"

namespace musacoder::port {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kData = std::string(MC_SOURCE_DIR) + "/tests/port/data/";

std::string file(const std::string& name) { return *base::read_file(kData + name); }

TEST(HardFiles, ComeBack) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) {
    const std::string name = entry.path().filename().string();
    const std::string text = file(name);
    expect_round_trip(text, language_of(name), name);
    EXPECT_NE(ported(text, language_of(name)).text, text) << name;
    ++files;
  }
  EXPECT_GE(files, 7u);
}

TEST(HardFiles, MacrosAndStrings) {
  const std::string text = ported(file("macros.cu"), Language::kCpp).text;
  for (const char* part : {"// cudaMalloc in a comment",
                           "#include <musa_runtime.h> // cuda_runtime.h",
                           "#include<musa_fp16.h>",
                           "\"local/kernels.muh\"",
                           "__has_include(<musa_bf16.h>)",
                           "musaError_t status_ = (call); /* cudaSuccess? */",
                           "\"cudaError at %s:%d: %s\\n\"",
                           "musaGetErrorString(status_));            \\",
                           "#define CUDA_KERNEL_LOOP(i, n)",
                           "#define cudaMine(x) cuda##x",
                           "  cudaMalloc(\"x)\" )\" cudaFree\n)cuda\"",
                           "\"a \\\"cudaMalloc\\\" b\\\\\"",
                           "sizeof(musaStream_t)",
                           "struct cudaHolder { T cudaMember;",
                           "float* __restrict__ cudaPointer",
                           "MUSART_PI_F",
                           "::musaMemcpyDefault",
                           "&musaFree",
                           "at :: musa :: getDefaultMUSAStream",
                           "musa::std::array",
                           "mycuda::std::f",
                           "/* unterminated comment with cudaMalloc"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(HardFiles, PythonWithSources) {
  const std::string text = ported(file("candidate.py"), Language::kPython).text;
  for (const char* part : {"\"\"\"Docstring: a __global__ kernel calls cudaMalloc; device \"cuda\".\"\"\"",
                           "import os, torch  # cuda",
                           "# CUDAExtension",
                           "MUSA_HOME,",
                           "\"#include <musa_runtime.h>\\n\" \\\n",
                           "<torch_musa/csrc/core/MUSAStream.h>\\n'",
                           "// cudaFree {N!r:>{N}}",
                           "c10::musa::getCurrentMUSAStream()",
                           "cuda{N}Check()",
                           "\"%%d cudaFree\\\\n\"",
                           "musaError_t %s = musaSuccess;",
                           "old = \"void g() { musaDeviceSynchronize(); }\"",
                           "\"void h(musaStream_t);\"",
                           "R\"(cudaFree)\"; musaFree({N});",
                           "name=\"cuda_ext\"",
                           "{\"launch\": \"launch on cuda\"}",
                           "extra_musa_cflags",
                           "'-lmublas'",
                           "with_musa=True",
                           "not x.is_musa",
                           "'musa:0'",
                           "not cuda\"",
                           "torch.musa.amp",
                           "\"musa\").musa(non_blocking",
                           "\"MUSA_LAUNCH_BLOCKING\"",
                           "f\"musa:{x.get_device()}\"",
                           "{\"musa\": 1, 'cpu': 2}[\"musa\"]",
                           "lambda cuda: cuda.x",
                           "self.cuda_stream = torch.musa.Stream()"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(HardFiles, PlaceholdersArePartOfTheirWords) {
  const std::string text = ported(file("template.py"), Language::kPython).text;
  for (const char* part : {"<musa_runtime.h>", "${name}_cuda($type* x)", "cuda$suffix(x)", "musaFree($x)",
                           "$cudaMalloc", "\"\"\"{\"cuda\": \"cuda:0\"}\"\"\"", "'cuda' 'graph'",
                           "device: str = \"musa\", *, where=\"musa:12\"", "-> \"torch.cuda.Stream\"",
                           "after = 'musa'", "import torch, torch_musa"})
    EXPECT_THAT(text, HasSubstr(part));
}

}  // namespace
}  // namespace musacoder::port
