// MUSA sources for CUDA's compiler, and its messages in MUSA's names.
#include "build/dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "build/flags.h"
#include "build/mcc.h"
#include "build/sources.h"

namespace musacoder::build {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const port::RenameTable& table() {
  static const port::RenameTable loaded = *port::RenameTable::load(MC_SOURCE_DIR "/runtime/musa/renames");
  return loaded;
}

std::string cuda(const std::string& musa) { return source_in_cuda(table(), musa).value_or("failed"); }

TEST(Dialect, ExchangesNamesAndKeepsLines) {
  const std::string musa =
      "#include <musa_runtime.h>\n#include \"torch_musa/csrc/core/MUSAGuard.h\"\n// musaMalloc stays in a comment\n"
      "void f(musaStream_t s) { c10::musa::MUSAGuard g(0);\n  musaMemsetAsync(p, 0, 4, s); puts(\"musaMalloc\"); }\n__mt_bfloat16 b;\n";
  const std::string expected =
      "#include <cuda_runtime.h>\n#include \"c10/cuda/CUDAGuard.h\"\n// musaMalloc stays in a comment\n"
      "void f(cudaStream_t s) { c10::cuda::CUDAGuard g(0);\n  cudaMemsetAsync(p, 0, 4, s); puts(\"musaMalloc\"); }\n__nv_bfloat16 b;\n";
  EXPECT_EQ(cuda(musa), expected);
}

TEST(Dialect, MakesCudasNamesUnknown) {
  EXPECT_EQ(cuda("cudaMalloc(&p, 4); musaFree(p);\n"), "cudaMalloc_NotInMusa(&p, 4); cudaFree(p);\n");
  EXPECT_EQ(cuda("#include <cuda_fp16.h>\n"), "#include <cuda_fp16.h_NotInMusa>\n");
  EXPECT_EQ(cuda("#ifdef __CUDACC__\n#elif defined(__MUSACC__)\n"), "#ifdef __CUDACC___NotInMusa\n#elif defined(__CUDACC__)\n");
  // A name that a source defines for itself is its own.
  EXPECT_EQ(cuda("#define cudaStream_t musaStream_t\ncudaStream_t s;\n"), "#define cudaStream_t cudaStream_t\ncudaStream_t s;\n");
  EXPECT_EQ(cuda("if (x.is_cuda()) y.is_privateuseone();\n"), "if (x.is_xpu()) y.is_cuda();\n");
  EXPECT_EQ(cuda("int cuda_helper = my_cuda_thing;\n"), "int cuda_helper = my_cuda_thing;\n");
}

TEST(Dialect, PutsMessagesBack) {
  EXPECT_EQ(in_musa(table(), "identifier \"cudaFoo\" is undefined"), "identifier \"cudaFoo\" is undefined");   // no name of CUDA's
  EXPECT_EQ(in_musa(table(), "argument of type \"cudaStream_t\""), "argument of type \"musaStream_t\"");
  EXPECT_EQ(in_musa(table(), "identifier \"cudaMalloc_NotInMusa\" is undefined"),
            "identifier \"cudaMalloc\" is undefined (cudaMalloc is CUDA's; MUSA has musaMalloc)");
  EXPECT_EQ(in_musa(table(), "cuda_fp16.h_NotInMusa: No such file or directory"),
            "cuda_fp16.h: No such file or directory (cuda_fp16.h is CUDA's; MUSA has musa_fp16.h)");
}

TEST(Dialect, ExtensionsKeepTheirLabels) {
  Extension e;
  e.musa = true;
  e.cpp_sources = {"torch::Tensor f(torch::Tensor x);"};
  e.cuda_sources = {"#include <musa_runtime.h>\n"};
  e.extra_cuda_cflags = {"-O3", "--offload-arch=mp_31", "-arch=sm_90"};
  e.extra_ldflags = {"-lmublas"};
  auto sources = sources_in_cuda(table(), e);
  ASSERT_TRUE(sources);
  EXPECT_THAT(sources->extension.extra_ldflags, ElementsAre("-lcublas"));
  EXPECT_THAT(sources->extension.extra_cuda_cflags, ElementsAre("-O3"));
  ASSERT_EQ(sources->remarks.size(), 1u);
  EXPECT_THAT(sources->remarks[0].message, HasSubstr("-arch=sm_90: mcc names an architecture with --offload-arch=mp_31"));
  auto units = make_units(sources->extension);
  ASSERT_TRUE(units);
  EXPECT_THAT(units->units[1].text, HasSubstr("#line 1 \"musa_sources[0]\"\n#include <cuda_runtime.h>"));
  EXPECT_EQ(source_of(e, "musa_sources[0]"), &e.cuda_sources[0]);
  EXPECT_EQ(source_of(e, "cuda_sources[0]"), nullptr);
}

TEST(Dialect, FilesAreCompiledUnderTheirOwnNames) {
  Extension e;
  e.musa = e.from_files = true;
  e.files = {{"kernel.mu", "#include \"tile.muh\"\n"}, {"tile.muh", "#include <musa.h>\n"}};
  auto sources = sources_in_cuda(table(), e);
  ASSERT_TRUE(sources);
  auto units = make_units(sources->extension);
  ASSERT_TRUE(units);
  ASSERT_EQ(units->units.size(), 1u);
  EXPECT_EQ(units->units[0].file, "kernel.mu.cu");
  EXPECT_THAT(units->units[0].text, HasSubstr("#line 1 \"kernel.mu\"\n#include \"tile.cuh\""));
  EXPECT_TRUE(std::any_of(units->headers.begin(), units->headers.end(),
                          [](const auto& header) { return header.first == "tile.cuh" && header.second == "#include <cuda.h>\n"; }));
}

TEST(Dialect, MccsFlags) {
  auto flags = mcc_flags_for_nvcc({"-O2 -mtgpu", "-Od3", "-fmusa-flush-denormals-to-zero", "-x", "musa", "-DN=3", "-ffast-math", "-march=native", "-gencode", "arch=compute_90,code=sm_90",
                                   "-ccbin", "g++", "--use_fast_math"});
  EXPECT_THAT(flags.nvcc, ElementsAre("-O2", "-DN=3", "-use_fast_math", "--use_fast_math"));
  ASSERT_EQ(flags.remarks.size(), 3u);
  EXPECT_THAT(flags.remarks[0], HasSubstr("-gencode arch=compute_90,code=sm_90: mcc names"));
  EXPECT_THAT(flags.remarks[1], HasSubstr("no -ccbin"));
  EXPECT_THAT(flags.remarks[2], HasSubstr("nvcc's flag"));
}

TEST(Mcc, CommandsHaveWhatItTakes) {
  const auto argv = mcc_command({.home = "/m", .mcc = "/m/bin/mcc"}, {.architecture = "mp_22", .source = "k.mu.cu", .object = "k.o", .includes = {"-I", "/i"}, .defines = {"-DA=1"},
                                 .own_flags = {"-O3 -mtgpu", "-Od3", "-arch=sm_90", "-ccbin", "gcc", "-fmusa-flush-denormals-to-zero", "--use_fast_math", "-DN=2", "-fplugin=x.so", "-ffast-math"}});
  EXPECT_THAT(argv, ElementsAre("/m/bin/mcc", "-x", "musa", "-c", "k.mu.cu", "-o", "k.o", "--offload-arch=mp_22", "-fPIC", "-O2", "-fno-caret-diagnostics", "-fno-color-diagnostics",
                                "-DA=1", "-I", "/i", "-std=c++17", "-O3", "-mtgpu", "-Od3", "-fmusa-flush-denormals-to-zero", "-DN=2", "-ffast-math"));
  EXPECT_EQ(mcc_command({}, {.own_flags = {"-std=c++20"}}).back(), "-std=c++20");
}

TEST(Mcc, CudasNamesStandForMusas) {
  auto temp = base::TempDir::create("mcc-names");
  ASSERT_TRUE(temp);
  auto dir = cuda_names_for_mcc(table(), temp->path());
  ASSERT_TRUE(dir) << dir.error().message;
  const std::string text = *base::read_file(*dir + "/cuda_runtime.h", 8 << 20);
  const auto has = [](const std::string& in, const char* line) { return in.find(line) != std::string::npos; };   // the files are long
  EXPECT_TRUE(has(text, "#include <musa_runtime.h>\n"));
  EXPECT_TRUE(has(text, "#define cudaMalloc musaMalloc\n"));
  EXPECT_TRUE(has(*base::read_file(*dir + "/cuda_bf16.h", 8 << 20), "#define __nv_bfloat16 __mt_bfloat16\n"));
  EXPECT_TRUE(has(*base::read_file(*dir + "/cublas_v2.h", 8 << 20), "#define cublasCreate_v2 mublasCreate_v2\n"));
  EXPECT_EQ(*cuda_names_for_mcc(table(), temp->path()), *dir);   // made once
}

TEST(Dialect, ProtocolNamesIt) {
  EXPECT_TRUE(extension_from_json(R"({"dialect":"musa"})")->musa);
  EXPECT_FALSE(extension_from_json(R"({"dialect":"cuda"})")->musa);
  EXPECT_FALSE(extension_from_json(R"({"dialect":"hip"})"));
}

}  // namespace
}  // namespace musacoder::build
