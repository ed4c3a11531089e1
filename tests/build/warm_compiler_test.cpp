// Warm compilers against nvcc itself, with the project's slim headers. Skipped where no nvcc is installed.
#include "build/warm_compiler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <regex>
#include <thread>

#include "base/files.h"
#include "base/subprocess.h"
#include "build/build.h"
#include "build/dryrun.h"
#include "build/toolchain.h"
#include "sandbox/launcher.h"

namespace musacoder::build {
namespace {

const std::string kRuntime = MC_BINARY_DIR "/runtime";
const std::string kImplicit = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n#line 1 \"cuda_sources[0]\"\n";

const std::string kExtension = kImplicit + "#include <torch/extension.h>\n";

std::string kernel_of(int constant) {
  return kImplicit + "// a comment\n#include <torch/extension.h>\n#define FACTOR " + std::to_string(constant) +
         "\ntemplate <typename T> __global__ void scale(const T* x, T* y, int n) {\n"
         "  __shared__ T tile[256];\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
         "  tile[threadIdx.x] = i < n ? x[i] : T(0);\n  __syncthreads();\n  if (i < n) y[i] = tile[threadIdx.x] * FACTOR;\n}\n"
         "torch::Tensor run(torch::Tensor x) {\n  TORCH_CHECK(x.is_cuda(), \"x\");\n  auto y = torch::empty_like(x);\n  int n = x.numel();\n"
         "  scale<float><<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);\n  return y;\n}\n";
}

// PTX without what names the translation unit.
std::string comparable(const std::string& ptx) {
  static const std::regex names("_[0-9a-f]{8}_[0-9]+_[A-Za-z0-9_]*cu_[0-9a-f]{8}(_[0-9]+)?"), paths("\"[^\"]*/(cuda_sources[^\"]*)\"");
  return std::regex_replace(std::regex_replace(ptx, names, "ID"), paths, "\"$1\"");
}

class WarmCompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* python = std::getenv("MUSACODER_PYTHON");
    auto tools = find_toolchain("", python ? python : "");
    if (!tools) GTEST_SKIP() << "no nvcc on this machine";
    tools_ = *tools;
    dir_ = std::move(*base::TempDir::create("warm-test"));
    WarmCompilers::Options o;
    o.launcher = sandbox::launcher_path(kRuntime);
    o.preload = kRuntime + "/lib/libmusacoder_warm.so";
    o.cache_dir = dir_.file("cache");
    o.fingerprint = tools_.fingerprint;
    o.policy.readable = tools_.readable;
    for (const char* part : {"/include", "/lib"}) o.policy.readable.push_back(std::filesystem::canonical(kRuntime + part));
    o.policy.readable.push_back(kRuntime + "/include");
    o.policy.wall_s = 60;
    o.policy.memory_bytes = 4ull << 30;
    o.policy.tmp_bytes = 64u << 20;
    options_ = o;
    warm_ = std::make_unique<WarmCompilers>(o);
  }

  WarmJob job(const std::string& text) {
    std::string here = dir_.file("job" + std::to_string(++jobs_));
    EXPECT_TRUE(base::make_dirs(here + "/src") && base::make_dirs(here + "/out"));
    EXPECT_TRUE(base::write_file(here + "/src/cuda.cu", text));
    std::vector<std::string> flags = {"-arch=compute_90", "-code=compute_90", "--compress-mode=none", "-lineinfo", "-cudart", "none", "-ccbin", tools_.gxx, "-O1",
                                      "-Xcompiler", "-fPIC", "-std=c++17", "--expt-relaxed-constexpr", "-DMUSACODER_LEAN_STD", "-DMUSACODER_LEAN_HALF",
                                      "-I", kRuntime + "/include", "-I", kRuntime + "/include/vendor"};
    return {tools_.nvcc, flags, {"-DTORCH_EXTENSION_NAME=name" + std::to_string(jobs_)}, text, here + "/src", here + "/src/cuda.cu", here + "/out/unit.o", here + "/out"};
  }

  static std::string nvcc_log(const WarmJob& job) {
    base::SubprocessOptions o;
    o.argv = {job.nvcc, "-c", job.source, "-o", job.object, "--keep", "--keep-dir", job.out_dir};
    o.argv.insert(o.argv.end(), job.flags.begin(), job.flags.end());
    o.merge_stderr = true;
    auto done = base::run(o);
    return done ? done->out : done.error().message;
  }
  static std::string nvcc_ptx(const WarmJob& job) {
    std::string log = nvcc_log(job);
    auto ptx = base::read_file(job.out_dir + "/cuda.ptx");
    EXPECT_TRUE(ptx) << log;
    return ptx.value_or("");
  }
  // "cuda_sources[0](1): error: …", without a folder before the name.
  static std::string first_error(const std::string& log) {
    std::size_t at = log.find("error"), from = log.rfind('\n', at) + 1;
    std::string line = log.substr(from, log.find('\n', at) - from);
    std::size_t name = line.find("cuda_sources");
    return name == std::string::npos ? line : line.substr(name);
  }

  Toolchain tools_;
  base::TempDir dir_;
  WarmCompilers::Options options_;
  std::unique_ptr<WarmCompilers> warm_;
  int jobs_ = 0;
};

TEST_F(WarmCompilerTest, TwoThatStartAtOnceShareWholePrefixes) {
  WarmJob jobs[2] = {job(kernel_of(7)), job(kernel_of(8))};
  WarmCompilers other(options_);
  WarmCompilers* both[2] = {warm_.get(), &other};
  bool right[2] = {false, false};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&, i] {
        if (!both[i]->wait_until_warm(jobs[i], 120)) return;
        auto made = both[i]->compile(jobs[i]);
        right[i] = made && made->ok && base::exists(jobs[i].object);
      });
  }
  EXPECT_TRUE(right[0] && right[1]);
}

TEST_F(WarmCompilerTest, MakesWhatNvccMakesAndSurvivesBadSources) {
  WarmJob first = job(kernel_of(3));
  EXPECT_FALSE(warm_->compile(first));                       // the first source of its kind
  ASSERT_TRUE(warm_->wait_until_warm(first, 120));
  auto done = warm_->compile(first);
  ASSERT_TRUE(done && done->ok) << (done ? done->log : "");
  EXPECT_TRUE(base::exists(first.object));
  std::string ptx = base::read_file(first.out_dir + "/cuda.ptx").value_or("");
  ASSERT_NE(ptx.find(".visible .entry"), std::string::npos);
  WarmJob cold = job(kernel_of(3));
  EXPECT_EQ(comparable(ptx), comparable(nvcc_ptx(cold)));

  // Errors come in nvcc's words, from whichever step finds them; nothing remains of them in the servers.
  for (const char* text : {"__global__ void k( { }\n", "#include \"not_there.h\"\n", "#error no\n", "__global__ void k() { not_there(); }\n",
                           "__device__ void k() { static_assert(sizeof(int) == 3, \"odd\"); }\n", "void f() { int x = \"s\"; }\n"}) {
    WarmJob bad = job(kExtension + text);
    auto failed = warm_->compile(bad);
    ASSERT_TRUE(failed) << text;
    EXPECT_FALSE(failed->ok) << text;
    EXPECT_NE(failed->log.find("error"), std::string::npos) << text;
    std::string cold = nvcc_log(bad);
    EXPECT_NE(cold.find(first_error(failed->log)), std::string::npos) << text << "\nwarm: " << failed->log << "\nnvcc: " << cold;
  }
  // A template that never ends is the front end's own error or its limit; the servers serve on.
  auto endless = warm_->compile(job(kExtension + "template <int N> struct E { static const int v = E<N + 1>::v; };\n__global__ void k(int* x) { *x = E<0>::v; }\n"));
  EXPECT_FALSE(endless && endless->ok);
  auto good = warm_->compile(job(kernel_of(4)));
  EXPECT_TRUE(good && good->ok);

  // Children share nothing: eight at a time, each with its own constant.
  std::vector<WarmJob> many;
  for (int i = 0; i < 8; ++i) many.push_back(job(kernel_of(1000 + i)));
  std::vector<char> right(many.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < many.size(); ++i)
      threads.emplace_back([&, i] {
        float factor = static_cast<float>(1000 + i);
        std::uint32_t bits;
        std::memcpy(&bits, &factor, sizeof bits);
        char text[16];
        std::snprintf(text, sizeof text, "0f%08X", bits);
        auto made = warm_->compile(many[i]);
        right[i] = made && made->ok && base::read_file(many[i].out_dir + "/cuda.ptx").value_or("").find(text) != std::string::npos;
      });
  }
  for (std::size_t i = 0; i < many.size(); ++i) EXPECT_TRUE(right[i]) << i;

  // Another process finds the prefixes in the cache, and another set of flags is another kind.
  WarmJob fast = job(kernel_of(5));
  fast.flags.push_back("--use_fast_math");
  EXPECT_FALSE(warm_->compile(fast));
}

TEST(WarmPrefix, IsWhatTheSourceBeginsWith) {
  EXPECT_EQ(warm_prefix("int x;\n#include <torch/extension.h>\n"), "");
  EXPECT_EQ(warm_prefix("// hello\n/* more\n text */\n\n#include <vector>\n#include <torch/extension.h>\nint x;\n"), "#include <torch/extension.h>\n");
  EXPECT_EQ(warm_prefix(kImplicit + "#define N 3\n#include <torch/extension.h>\n"), kImplicit.substr(0, kImplicit.find("#line")));
  EXPECT_EQ(warm_prefix(""), "");
  EXPECT_EQ(warm_prefix("/* never closed\n#include <torch/extension.h>\n"), "");
}

TEST(DryRun, FindsTheStepsAndRefusesOthers) {
  const std::string usual =
      "#$ _SPACE_= \n#$ TOP=/opt/cuda\n#$ CICC_PATH=/opt/cuda/nvvm/bin\n#$ PATH=/usr/bin:/bin\n"
      "#$ \"/usr/bin/g++\" -E -x c++ \"-I/a b\" -D \"X=1\" \"x.cu\" -o \"k/x.cpp4.ii\"\n#$ cudafe++ --m64 \"k/x.cpp4.ii\"\n"
      "#$ /usr/bin/g++ -E -x c++ -D__CUDA_ARCH__=900 \"x.cu\" -o \"k/x.cpp1.ii\"\n#$ \"$CICC_PATH/cicc\" -arch compute_90 \"k/x.cpp1.ii\" -o \"k/x.ptx\"\n"
      "#$ ptxas -arch=compute_90 \"k/x.ptx\"\n#$ fatbinary --create=\"k/x.fatbin\"\n#$ /usr/bin/g++ -c -x c++ \"k/x.cudafe1.cpp\" -o \"x.o\"\n";
  auto run = parse_dryrun(usual);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->cicc[0], "/opt/cuda/nvvm/bin/cicc");
  EXPECT_EQ(run->host_cpp[4], "-I/a b");
  EXPECT_EQ(run->host_cpp[6], "X=1");
  EXPECT_EQ(run->device_cpp[4], "-D__CUDA_ARCH__=900");
  EXPECT_EQ(run->fatbinary[1], "--create=k/x.fatbin");
  EXPECT_FALSE(parse_dryrun(""));
  EXPECT_FALSE(parse_dryrun(usual + "#$ \"$CICC_PATH/cicc\" -arch compute_80 \"k/y.ii\"\n"));
  EXPECT_FALSE(parse_dryrun(usual + "#$ nvlink x.o\n"));
}

}  // namespace
}  // namespace musacoder::build
