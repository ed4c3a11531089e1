// The parts of the builder that start no compiler.
#include <gtest/gtest.h>

#include "base/files.h"
#include "build/build.h"
#include "build/cache.h"
#include "build/diagnostics.h"
#include "build/flags.h"
#include "build/headers.h"
#include "build/sources.h"

namespace musacoder::build {
namespace {

using Strings = std::vector<std::string>;

TEST(Extension, ReadsTheProtocolsForm) {
  auto e = extension_from_json(R"({"name":"x","cpp_sources":["a"],"cuda_sources":"b","functions":{"f":"doc"},
    "extra_cuda_cflags":["-O3"],"with_cuda":true,"no_implicit_headers":false,"kind":"inline","files":{}})");
  ASSERT_TRUE(e) << e.error().message;
  EXPECT_EQ(e->cuda_sources, Strings{"b"});
  EXPECT_EQ(e->functions->at(0).second, "doc");
  EXPECT_FALSE(extension_from_json(R"({"functions":null})")->functions.has_value());
  EXPECT_EQ(extension_from_json(R"({"functions":["f","g"]})")->functions->size(), 2u);
}

TEST(Extension, RefusesWhatIsNotThatForm) {
  for (const char* bad : {"", "[]", R"({"cpp_sources":[1]})", R"({"functions":3})", R"({"kind":"else"})", R"({"files":{"a":1}})", R"({"name":[]})"})
    EXPECT_FALSE(extension_from_json(bad)) << bad;
}

TEST(Sources, MatchTorchsLoadInline) {
  Extension e;
  e.cpp_sources = {"int f();"};
  e.cuda_sources = {"__global__ void k() {}", "int f() { return 1; }"};
  e.functions = {{{"f", "says \"hi\""}}};
  auto units = make_units(e);
  ASSERT_TRUE(units);
  ASSERT_EQ(units->units.size(), 2u);
  EXPECT_EQ(units->units[0].text,
            "#include <torch/extension.h>\n#line 1 \"cpp_sources[0]\"\nint f();\n#line 1 \"functions\"\n"
            "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\nm.def(\"f\", &f, \"says \\\"hi\\\"\");\n}\n");
  EXPECT_TRUE(units->units[1].text.starts_with("#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n#line 1 \"cuda_sources[0]\"\n"));
  EXPECT_NE(units->units[1].text.find("#line 1 \"cuda_sources[1]\"\nint f()"), std::string::npos);
}

TEST(Sources, SkipsAnEmptyMainAndRefusesNothing) {
  Extension e;
  e.cpp_sources = {"  \n"};
  e.cuda_sources = {"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}"};
  EXPECT_EQ(make_units(e)->units.size(), 1u);
  EXPECT_FALSE(make_units(Extension{}));
}

TEST(Sources, FilesStayInTheirFolder) {
  Extension e;
  e.from_files = true;
  e.files = {{"a.cu", "x"}, {"b.cpp", "y"}, {"c.h", "z"}};
  auto units = make_units(e);
  ASSERT_TRUE(units);
  EXPECT_EQ(units->units.size(), 2u);
  EXPECT_EQ(units->headers.size(), 1u);
  e.files = {{"../a.cu", "x"}};
  EXPECT_FALSE(make_units(e));
  e.files = {{"/etc/a.cu", "x"}};
  EXPECT_FALSE(make_units(e));
}

TEST(Flags, NvccKeepsMeaningAndDropsTheRest) {
  auto flags = filter_nvcc_flags({"-O3", "--use_fast_math", "-gencode", "arch=compute_80,code=sm_80", "-gencode=arch=compute_90a,code=sm_90a",
                                  "-arch=sm_75", "-DX=1", "-std=c++20", "--expt-relaxed-constexpr", "-Xptxas", "-v", "--ptxas-options=-v",
                                  "-Xptxas=-v", "-lineinfo", "-ccbin", "clang", "-Xcompiler", "-O3,-fopenmp,-Wall", "--ftz=true", "-lcublas",
                                  "-maxrregcount=32", "--maxrregcount", "64", "-Xcompiler -march=native", "-D", "Y", "-U__CUDA_NO_HALF_OPERATORS__",
                                  "--options-file=/etc/passwd"});
  EXPECT_TRUE(flags.arch_specific);
  EXPECT_EQ(flags.kept, (Strings{"--use_fast_math", "-DX=1", "--std=c++20", "--expt-relaxed-constexpr", "-Xcompiler", "-fopenmp", "-Xcompiler",
                                 "-Wall", "--ftz=true", "--maxrregcount=32", "--maxrregcount=64", "-Xcompiler", "-march=native", "-DY",
                                 "-U__CUDA_NO_HALF_OPERATORS__"}));
}

TEST(Flags, CxxDropsWhatCouldLoadCode) {
  EXPECT_EQ(filter_cxx_flags({"-O3", "-fplugin=x.so", "-B/tmp", "-specs=x", "@file", "-Wl,-z,now", "-DA", "-D", "B", "-ffast-math", "-include", "x.h",
                              "-std=c++20", "-I/tmp", "-wrapper", "sh"}),
            (Strings{"-DA", "-DB", "-ffast-math", "-std=c++20"}));
  EXPECT_EQ(linked_libraries({"-lcublas", "-L/x", "-lcuda -lm"}), (Strings{"cublas", "cuda", "m"}));
}

TEST(Diagnostics, NvccFrontEnd) {
  auto list = parse_diagnostics(
      "cuda_sources[0](12): error: identifier \"foo\" is undefined\n    foo(1);\n    ^\n\n"
      "cuda_sources[0](14): warning #177-D: variable \"x\" was declared but never referenced\n"
      "cuda_sources[1](3): error: expected a \";\"\n"
      "/tmp/x/src/kernel.cuh(3): catastrophic error: cannot open source file \"foo.h\"\n"
      "2 errors detected in the compilation of \"cuda.cu\".\n");
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].file, "cuda_sources[0]");
  EXPECT_EQ(list[0].line, 12);
  EXPECT_EQ(list[0].kind, "undefined_identifier");
  EXPECT_EQ(list[0].message, "identifier \"foo\" is undefined");
  EXPECT_EQ(list[1].severity, Severity::kWarning);
  EXPECT_EQ(list[2].kind, "syntax");
  EXPECT_EQ(list[3].file, "kernel.cuh");
  EXPECT_EQ(list[3].kind, "missing_header");
  EXPECT_EQ(classify(list), "compile_error:nvcc");
}

TEST(Diagnostics, Gnu) {
  auto list = parse_diagnostics(
      "cpp_sources[0]: In function 'int f()':\n"
      "cpp_sources[0]:2:10: error: 'g' was not declared in this scope\n"
      "cpp_sources[0]:1:10: fatal error: nope.h: No such file or directory\n"
      "functions:3:11: error: expected ';' before '}' token\n"
      "/usr/include/c++/12/bits/x.h:5: note: declared here\n");
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].kind, "undefined_identifier");
  EXPECT_EQ(list[1].kind, "missing_header");
  EXPECT_EQ(list[2].kind, "syntax");
  EXPECT_EQ(list[2].file, "functions");
  EXPECT_EQ(list[3].severity, Severity::kNote);
  EXPECT_EQ(list[3].file, "x.h");
}

TEST(Diagnostics, LinkersAndPtxas) {
  auto mold = parse_diagnostics("mold: error: undefined symbol: f(at::Tensor)\n>>> referenced by main.o\ncollect2: error: ld returned 1 exit status\n");
  ASSERT_EQ(mold.size(), 1u);
  EXPECT_EQ(classify(mold), "compile_error:link");
  auto gnu = parse_diagnostics("/usr/bin/ld: unit.o: in function `g()':\nmain.cpp:(.text+0x5): undefined reference to `f()'\ncollect2: error: ld returned 1 exit status\n");
  ASSERT_EQ(gnu.size(), 1u);
  EXPECT_EQ(gnu[0].message, "undefined reference to `f()'");
  auto ptxas = parse_diagnostics("ptxas /x/cuda.ptx, line 27; error   : Unknown symbol 'foo'\nptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)\nptxas fatal   : Ptx assembly aborted due to errors\n");
  ASSERT_EQ(ptxas.size(), 3u);
  EXPECT_EQ(ptxas[0].line, 27);
  EXPECT_EQ(ptxas[0].kind, "ptxas");
  EXPECT_EQ(classify(ptxas), "compile_error:nvcc");
}

TEST(Diagnostics, JunkIsNoError) {
  EXPECT_TRUE(parse_diagnostics("").empty());
  EXPECT_TRUE(parse_diagnostics(std::string(100000, ':')).empty());
  EXPECT_EQ(classify({}), "");
}

struct FakeTorch : ::testing::Test {
  base::TempDir dir = std::move(*base::TempDir::create("torch"));
  void SetUp() override {
    (void)base::make_dirs(dir.file("torch/include/ATen"));
    (void)base::write_file(dir.file("torch/include/ATen/Extra.h"), "struct Tensor { Tensor fancy_method() const; };\n#define TORCH_FANCY 1\n");
  }
  std::string lacking(const std::string& log) {
    TorchNames names(dir.file("torch"), dir.file("cache"));
    return lacking_in_slim(parse_diagnostics(log), names);
  }
};

TEST_F(FakeTorch, FallsBackOnlyForWhatTorchReallyHas) {
  EXPECT_EQ(lacking("cuda_sources[0](1): catastrophic error: cannot open source file \"ATen/Extra.h\"\n"), "header ATen/Extra.h");
  EXPECT_EQ(lacking("cuda_sources[0](1): catastrophic error: cannot open source file \"ATen/Nope.h\"\n"), "");
  EXPECT_EQ(lacking("cuda_sources[0](1): catastrophic error: cannot open source file \"../../etc/passwd\"\n"), "");
  EXPECT_NE(lacking("cuda_sources[0](1): error: class \"at::Tensor\" has no member \"fancy_method\"\n"), "");
  EXPECT_EQ(lacking("cuda_sources[0](1): error: class \"at::Tensor\" has no member \"invented_method\"\n"), "");
  EXPECT_NE(lacking("cpp_sources[0]:1:2: error: 'class at::Tensor' has no member named 'fancy_method'\n"), "");
  EXPECT_NE(lacking("cuda_sources[0](1): error: identifier \"TORCH_FANCY\" is undefined\n"), "");
  EXPECT_EQ(lacking("cuda_sources[0](1): error: identifier \"fancy_method\" is undefined\n"), "");
  EXPECT_EQ(lacking("cuda_sources[0](1): error: expected a \";\"\n"), "");
  EXPECT_EQ(lacking("mold: error: undefined symbol: fancy_method(at::Tensor)\n"), "");
}

// The words are torch's, but no header makes these right: 39 % of the time of judging a small model's answers went there.
TEST_F(FakeTorch, ConversionsAreNoMatterOfHeaders) {
  (void)base::write_file(dir.file("torch/include/ATen/Words.h"), "int float const vector Tensor ArrayRef TensorOptions options S module_ def std at c10 pybind11 void SignatureOf\n");
  for (const char* message : {"cuda_sources[0](1): error: no suitable conversion function from \"at::Tensor\" to \"int\" exists\n",
                              "cuda_sources[0](1): error: no suitable conversion function from \"at::Tensor\" to \"const float *\" exists\n",
                              "cuda_sources[0](1): error: no suitable user-defined conversion from \"at::Tensor\" to \"std::vector<at::Tensor, std::allocator<at::Tensor>>\" exists\n",
                              "cuda_sources[0](1): error: no suitable constructor exists to convert from \"float\" to \"at::Tensor\"\n",
                              "cuda_sources[0](1): error: no instance of constructor \"c10::ArrayRef<T>::ArrayRef [with T=int64_t]\" matches the argument list\n",
                              "cuda_sources[0](1): error: no instance of constructor \"at::Tensor::Tensor\" matches the argument list\n",
                              "functions:1:2: error: return-statement with no value, in function returning 'at::Tensor' [-fpermissive]\n",
                              "functions:1:2: error: no matching function for call to 'pybind11::module_::def(const char [15], <unresolved overloaded function type>, const char [15])'\n",
                              "functions:1:2: error: incomplete type 'S' {aka 'musacoder::bind::SignatureOf<at::Tensor (*)(...), void>'} used in nested name specifier\n"})
    EXPECT_EQ(lacking(message), "") << message;
  // Options have more constructors than the slim ones.
  EXPECT_NE(lacking("cuda_sources[0](1): error: no suitable constructor exists to convert from \"int\" to \"at::TensorOptions\"\n"), "");
}

TEST(Cache, RoundTripAndDamage) {
  auto dir = base::TempDir::create("cache");
  ASSERT_TRUE(dir);
  ASSERT_TRUE(base::write_file(dir->file("m.so"), "module bytes"));
  Cache cache(dir->file("c"));
  std::string key(64, 'a');
  EXPECT_FALSE(cache.load(key));
  BuildResult result;
  result.ok = true;
  result.hash = key;
  result.headers = "slim";
  Diagnostic warning;
  warning.severity = Severity::kWarning, warning.file = "f", warning.line = 3;
  result.diagnostics.push_back(warning);
  ASSERT_TRUE(cache.store(key, result, dir->file("m.so")));
  auto hit = cache.load(key);
  ASSERT_TRUE(hit);
  EXPECT_TRUE(hit->cached);
  EXPECT_EQ(hit->artifact, result.artifact);
  EXPECT_EQ(hit->diagnostics[0].line, 3);
  EXPECT_EQ(base::read_file(hit->artifact).value(), "module bytes");
  // A second writer of the same address gets the first one's entry.
  ASSERT_TRUE(cache.store(key, result, dir->file("m.so")));
  ASSERT_TRUE(base::write_file(hit->artifact, "module BYTES"));
  EXPECT_FALSE(cache.load(key));
  EXPECT_FALSE(base::exists(hit->artifact));
  ASSERT_TRUE(cache.store(key, result, dir->file("m.so")));
  ASSERT_TRUE(base::write_file(dir->file("c/build/aa/" + key + "/manifest.json"), "{"));
  EXPECT_FALSE(cache.load(key));
}

}  // namespace
}  // namespace musacoder::build
