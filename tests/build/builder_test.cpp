// The builder with real compilers, against a small stand-in for the runtime folder: a torch/extension.h of a few lines and
// empty client libraries. Skipped where no nvcc is installed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/files.h"
#include "base/subprocess.h"
#include "build/build.h"

namespace musacoder::build {
namespace {

namespace fs = std::filesystem;

constexpr char kTorchHeader[] = R"(#pragma once
namespace at { struct Tensor { float* p; }; }
namespace torch { using at::Tensor; }
inline volatile void* sink;
struct Module { template <typename F> void def(const char*, F f, const char*) { sink = reinterpret_cast<void*>(f); } };
#define PYBIND11_MODULE(name, m) extern "C" void musacoder_module_init_v1(Module& m)
)";

class BuilderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<base::TempDir>(std::move(*base::TempDir::create("builder-test")));
    std::string rt = dir_->file("runtime");
    for (const char* folder : {"/include/torch", "/include/vendor", "/lib", "/bin", "/python"}) ASSERT_TRUE(base::make_dirs(rt + folder));
    for (const char* name : {"/include/torch/extension.h", "/include/torch/types.h"}) ASSERT_TRUE(base::write_file(rt + name, kTorchHeader));
    fs::create_symlink(MC_BINARY_DIR "/runtime/bin/musacoder-sandbox", rt + "/bin/musacoder-sandbox");
    // The CUDA runtime calls that a kernel launch compiles to.
    ASSERT_TRUE(base::write_file(rt + "/stub.c",
        "int cudaLaunchKernel; int __cudaPushCallConfiguration; int __cudaPopCallConfiguration; int __cudaRegisterFatBinary;"
        "int __cudaRegisterFatBinaryEnd; int __cudaUnregisterFatBinary; int __cudaRegisterFunction; int __cudaInitModule; int __cudaLaunchKernel;"
        "int __cudaGetKernel; int cudaGetDevice; int __cudaRegisterVar;"));
    for (const char* name : {"musacoder_cudart", "musacoder_torch"}) {
      base::SubprocessOptions o;
      o.argv = {"gcc", "-shared", "-fPIC", "-o", rt + "/lib/lib" + name + ".so", rt + "/stub.c"};
      auto made = base::run(o);
      ASSERT_TRUE(made && made->exit.ok());
    }
  }
  static void TearDownTestSuite() { dir_.reset(); }

  void SetUp() override {
    const char* python = std::getenv("MUSACODER_PYTHON");
    options_.python = python ? python : "";
    if (!find_nvcc(options_.python)) GTEST_SKIP() << "no nvcc on this machine";
    options_.runtime_dir = dir_->file("runtime");
    options_.cache_dir = dir_->file("cache");
    options_.timeout_s = 60;
  }

  static Extension good(const std::string& salt = "") {
    Extension e;
    e.name = "ext";
    e.cpp_sources = {"torch::Tensor f(torch::Tensor x);"};
    e.cuda_sources = {"// " + salt + "\n#include <torch/extension.h>\n__global__ void k(float* x) { x[threadIdx.x] *= 2; }\n"
                      "torch::Tensor f(torch::Tensor x) { k<<<1, 32>>>(x.p); return x; }"};
    e.functions = {{{"f", "f"}}};
    return e;
  }

  static std::unique_ptr<base::TempDir> dir_;
  BuildOptions options_;
};
std::unique_ptr<base::TempDir> BuilderTest::dir_;

TEST_F(BuilderTest, BuildsLinksAndRemembers) {
  Builder builder(options_);
  auto first = builder.build(good());
  ASSERT_TRUE(first.ok) << first.status << " " << first.message << "\n" << first.log;
  EXPECT_EQ(first.headers, "slim");
  EXPECT_FALSE(first.cached);
  EXPECT_TRUE(base::exists(first.artifact));
  EXPECT_FALSE(first.sandbox.empty());
  std::string module = base::read_file(first.artifact).value();
  EXPECT_NE(module.find("musacoder_module_init_v1"), std::string::npos);
  EXPECT_NE(module.find(".target sm_90"), std::string::npos) << "PTX is carried uncompressed";
  EXPECT_NE(module.find("cuda_sources[0]"), std::string::npos) << "and names the candidate's source";
  auto second = builder.build(good());
  EXPECT_TRUE(second.cached);
  EXPECT_EQ(second.artifact, first.artifact);
  EXPECT_LT(second.seconds, 1.0);
  auto other = good();
  other.extra_cuda_cflags = {"--use_fast_math"};
  EXPECT_FALSE(builder.build(other).cached);
}

TEST_F(BuilderTest, NamesTheLineOfAnError) {
  Builder builder(options_);
  auto e = good();
  e.cuda_sources = {"// one\n", "\n\nint f() { return undefined_thing; }\n"};
  auto result = builder.build(e);
  EXPECT_EQ(result.status, "compile_error:nvcc") << result.log;
  ASSERT_FALSE(result.diagnostics.empty());
  EXPECT_EQ(result.diagnostics[0].file, "cuda_sources[1]");
  EXPECT_EQ(result.diagnostics[0].line, 3);
  EXPECT_EQ(result.diagnostics[0].kind, "undefined_identifier");
  EXPECT_EQ(result.log.find("/dev/shm"), std::string::npos) << result.log;
  auto again = builder.build(e);
  EXPECT_TRUE(again.cached);
  EXPECT_EQ(again.status, result.status);
  EXPECT_EQ(again.diagnostics.size(), result.diagnostics.size());
}

TEST_F(BuilderTest, ClassesOfFailure) {
  Builder builder(options_);
  auto syntax = good();
  syntax.cuda_sources = {"__global__ void k(float* x) { x[0] = 1 }\n"};
  EXPECT_EQ(builder.build(syntax).status, "compile_error:syntax");
  auto header = good();
  header.cuda_sources = {"#include <no_such_header.h>\n"};
  EXPECT_EQ(builder.build(header).status, "compile_error:missing_header");
  auto link = good();
  link.cuda_sources = {"__global__ void k(float* x) {}\n"};
  auto unlinked = builder.build(link);
  EXPECT_EQ(unlinked.status, "compile_error:link") << unlinked.log;
  EXPECT_NE(unlinked.message.find("f("), std::string::npos) << unlinked.message;
  auto undeclared = good();
  undeclared.cpp_sources = {""};
  EXPECT_EQ(builder.build(undeclared).status, "compile_error:nvcc") << "as torch: functions must be declared in cpp_sources";
  Extension nothing;
  EXPECT_EQ(builder.build(nothing).status, "compile_error:nvcc");
}

TEST_F(BuilderTest, PtxasHasItsSay) {
  Builder builder(options_);
  auto e = good();
  e.cuda_sources[0] += "\n__global__ void big(float* x) { __shared__ float s[20000]; s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[19999 - threadIdx.x]; }";
  auto result = builder.build(e);
  EXPECT_EQ(result.status, "compile_error:nvcc") << result.log;
  EXPECT_NE(result.message.find("shared"), std::string::npos) << result.message;
  auto bad_asm = good();
  bad_asm.cuda_sources[0] += "\n__global__ void a(int* x) { asm(\"bogus.instr %0;\" : \"=r\"(x[0])); }";
  EXPECT_EQ(builder.build(bad_asm).status, "compile_error:nvcc");
}

TEST_F(BuilderTest, EndlessCompileIsStopped) {
  options_.timeout_s = 2;
  Builder builder(options_);
  Extension e;
  e.cpp_sources = {"template <int N> struct F { static constexpr long v = F<N - 1>::v + F<N - 2 - (N > 2)>::v; };\n"
                   "constexpr long spin(long n) { long s = 0; for (long i = 0; i < n; ++i) for (long j = 0; j < 200000; ++j) s += i ^ j; return s; }\n"
                   "constexpr long a = spin(100000000);\nlong b = a;"};
  e.extra_cflags = {"-fconstexpr-loop-limit=2000000000", "-fconstexpr-ops-limit=200000000000"};
  auto result = builder.build(e);
  EXPECT_EQ(result.status, "compile_error:timeout") << result.message << result.log;
}

TEST_F(BuilderTest, CompilerSeesOnlyWhatItNeeds) {
  Builder builder(options_);
  std::string secret = dir_->file("secret.txt");
  ASSERT_TRUE(base::write_file(secret, "int leaked;"));
  auto e = good();
  e.cuda_sources[0] += "\n#include \"" + secret + "\"\n";
  EXPECT_EQ(builder.build(e).status, "compile_error:missing_header");
}

TEST_F(BuilderTest, ManyThreadsAndACrashLeaveAWholeCache) {
  options_.cache_dir = dir_->file("cache-crash");
  pid_t pid = ::fork();
  if (pid == 0) {
    Builder builder(options_);
    builder.build(good("crash"));
    ::_exit(0);
  }
  ::usleep(700000);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  Builder builder(options_);
  std::vector<BuildResult> results(3);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) threads.emplace_back([&] { result = builder.build(good("crash")); });
  }
  for (const auto& result : results) {
    EXPECT_TRUE(result.ok) << result.message;
    EXPECT_EQ(result.artifact, results[0].artifact);
  }
}

TEST_F(BuilderTest, MissingLibraryIsOurFault) {
  options_.runtime_dir = dir_->file("runtime-broken");
  options_.cache_dir = dir_->file("cache-broken");
  fs::copy(dir_->file("runtime"), options_.runtime_dir, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  fs::remove(options_.runtime_dir + "/lib/libmusacoder_cudart.so");
  Builder builder(options_);
  auto result = builder.build(good());
  EXPECT_EQ(result.status, "infra:build");
  EXPECT_NE(result.message.find("libmusacoder_cudart.so"), std::string::npos);
  EXPECT_FALSE(builder.build(good()).cached);
}

}  // namespace
}  // namespace musacoder::build
