// What a person is told to look at, with its line; and what is no reason to look.
#include <gmock/gmock.h>

#include "support.h"

namespace musacoder::port {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> kinds(std::string_view text, Language language = Language::kCpp,
                               Dialect to = Dialect::kMusa) {
  std::vector<std::string> all;
  for (const Attention& item : ported(text, language, to).attention)
    all.push_back(fmt::format("{}:{}", item.line, item.kind));
  return all;
}

TEST(Attention, WarpsOfThirtyTwo) {
  EXPECT_THAT(
      kinds("int lane = threadIdx.x % 32;\nint w = tid / 32;\nint l = tid & 31;\nint q = thread_id >> 5;"),
      ElementsAre("1:warp_size", "2:warp_size", "3:warp_size", "4:warp_size"));
  EXPECT_THAT(kinds("#define WARP 32\nconstexpr int kWarps = 32;\nx = __shfl_down_sync(0xFFFFFFFFu, x, 1);"),
              ElementsAre("1:warp_size", "2:warp_size", "3:warp_size"));
  EXPECT_THAT(kinds("v = __shfl_xor_sync(mask, f(v, 1), 8, 16);"), ElementsAre("1:warp_size"));
  EXPECT_THAT(kinds("for (int offset = 16; offset > 0; offset >>= 1)\n v += __shfl_down_sync(m, v, offset);"),
              ElementsAre("1:warp_size"));
  EXPECT_THAT(kinds("int blocks = (n + 31) / 32; int rows = size / 32; float t[32]; for (int i = 16; i > 0; "
                    "--i) {} v = __shfl_sync(m, v, 0);"),
              ElementsAre("1:warp_size"))
      << "the loop alone, since the text has shuffles";
  EXPECT_THAT(
      kinds("int blocks = (n + 31) / 32; int rows = size / 32; float t[32]; for (int i = 16; i > 0; --i) {}"),
      IsEmpty());
}

TEST(Attention, WhatHasNoCounterpart) {
  EXPECT_THAT(kinds("asm volatile(\"add.s32 %0;\" : \"=r\"(x));"), ElementsAre("1:inline_ptx"));
  EXPECT_THAT(kinds("#include <mma.h>\nnvcuda::wmma::fragment<int> f;"),
              ElementsAre("1:matrix_instructions", "2:matrix_instructions", "2:matrix_instructions"));
  EXPECT_THAT(kinds("float v = tex2D<float>(t, x, y);\ntexture<float> old;\nint texture = 3;"),
              ElementsAre("1:texture", "2:texture"));
  EXPECT_THAT(kinds("auto g = cooperative_groups::this_grid();"), ElementsAre("1:grid_sync"));
  EXPECT_THAT(
      kinds("__global__ void parent() {\n  child<<<1, 32>>>();\n}\nvoid host() { parent<<<1, 1>>>(); }"),
      ElementsAre("2:dynamic_parallelism"));
  EXPECT_THAT(
      kinds("#include <cub/cub.cuh>\n#include <thrust/sort.h>\n#include <cusparseLt.h>\n#include <cudnn.h>"),
      ElementsAre("1:libraries", "2:libraries", "3:libraries", "4:libraries"));
  EXPECT_THAT(kinds("nvmlInit_v2();\nnvmlDeviceGetCount(&n);"), ElementsAre("1:libraries", "2:libraries"));
  EXPECT_THAT(kinds("#if __CUDA_ARCH__ >= 700\n#endif"), ElementsAre("1:architecture"));
}

TEST(Attention, UnknownNamesAreOnlyThoseThatTheTextDoesNotDeclare) {
  EXPECT_THAT(kinds("cudaMallocEverywhere(&p);"), ElementsAre("1:unknown_name"));
  EXPECT_THAT(kinds("void cudaMatmul(float* a);\nvoid f() { cudaMatmul(p); int cuCount = 0; cuCount++; "
                    "x.cudaThing(); }"),
              IsEmpty());
}

TEST(Attention, UnknownNamesOfMusaOnTheWayBack) {
  EXPECT_THAT(kinds("musaMallocEverywhere(&p); musaFree(p);\nint muCount = 0; muCount++;", Language::kCpp,
                    Dialect::kCuda),
              ElementsAre("1:unknown_name"));
}

TEST(Attention, TellsTheUsesOfAConstantOnce) {
  EXPECT_THAT(kinds("int a = WARP_SIZE;\nint b = WARP_SIZE;"), ElementsAre("1:warp_size"));
}

TEST(Attention, PythonsSwitches) {
  EXPECT_THAT(kinds("from torch import cuda\n", Language::kPython), ElementsAre("1:import"));
  EXPECT_THAT(kinds("flags = '-O3 --use_fast_math -lineinfo'\n", Language::kPython),
              ElementsAre("1:compiler_flag", "1:compiler_flag"));
  EXPECT_THAT(kinds("m = torch.compile(m)\n", Language::kPython), ElementsAre("1:torch_compile"));
  EXPECT_THAT(kinds("torch.backends.cudnn.benchmark = True\n", Language::kPython),
              ElementsAre("1:torch_backend"));
  EXPECT_THAT(kinds("torch.backends.cuda.matmul.allow_tf32 = True\n", Language::kPython),
              ElementsAre("1:torch_backend", "1:tf32"));
  EXPECT_THAT(kinds("load_inline('m', extra_cuda_cflags=['-O3', '--use_fast_math', '-arch=sm_80'])\n",
                    Language::kPython),
              ElementsAre("1:compiler_flag", "1:compiler_flag"));
  EXPECT_THAT(kinds("re.compile('x')\n", Language::kPython), IsEmpty());
}

TEST(Attention, InsideTheSourcesOfACandidateHasTheFilesLine) {
  EXPECT_THAT(
      kinds("import torch\nsrc = '''\n#include <cuda.h>\n__global__ void k() {\n  asm(\"\");\n}\n'''\n",
            Language::kPython),
      ElementsAre("5:inline_ptx"));
}

TEST(Attention, IsForTheWayToMusaAndCanBeSwitchedOff) {
  EXPECT_THAT(kinds("int lane = threadIdx.x % 32; asm(\"\");", Language::kCpp, Dialect::kCuda), IsEmpty());
  EXPECT_THAT(
      ported("asm(\"\"); musaFree(p); cudaFree(p);", Language::kCpp, Dialect::kMusa, {.attention = false})
          .attention,
      IsEmpty());
  EXPECT_THAT(kinds("asm(\"\");  // MUSACODER_PORT_LINE"), IsEmpty());
}

}  // namespace
}  // namespace musacoder::port
