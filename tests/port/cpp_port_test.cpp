// C++: what is renamed, what stays, and that nothing inside strings, comments and longer names is touched.
#include <gmock/gmock.h>

#include "support.h"

namespace musacoder::port {
namespace {

struct Case {
  const char* cuda;
  const char* musa;
};

// Expected texts are written by hand from the vendor's documents.
const Case kCases[] = {
    {"cudaMalloc(&p, n);", "musaMalloc(&p, n);"},
    {"cudaStream_t s = nullptr;", "musaStream_t s = nullptr;"},
    {"CUdeviceptr d; cuMemAlloc(&d, n); CUresult r = CUDA_SUCCESS;",
     "MUdeviceptr d; muMemAlloc(&d, n); MUresult r = MUSA_SUCCESS;"},
    {"cublasHandle_t h; cublasSgemm(h, CUBLAS_OP_N);", "mublasHandle_t h; mublasSgemm(h, MUBLAS_OP_N);"},
    {"cublasLtMatmulDesc_t d = CUBLASLT_MATMUL_DESC_TRANSA;",
     "mublasLtMatmulDesc_t d = MUBLASLT_MATMUL_DESC_TRANSA;"},
    {"cudnnCreate(&h); CUDNN_DATA_FLOAT;", "mudnnCreate(&h); MUDNN_DATA_FLOAT;"},
    {"cufftExecC2C(p, a, b, CUFFT_FORWARD);", "mufftExecC2C(p, a, b, MUFFT_FORWARD);"},
    {"curandState s; curand_init(1, 2, 3, &s); curand_uniform(&s);",
     "murandState s; murand_init(1, 2, 3, &s); murand_uniform(&s);"},
    {"cusparseSpMM(h); cusolverDnSgetrf(h);", "musparseSpMM(h); musolverDnSgetrf(h);"},
    {"cuptiActivityEnable(CUPTI_ACTIVITY_KIND_KERNEL);", "muptiActivityEnable(MUPTI_ACTIVITY_KIND_KERNEL);"},
    {"ncclAllReduce(a, b, n, ncclFloat);", "mcclAllReduce(a, b, n, mcclFloat);"},
    {"nvrtcCompileProgram(p, 0, 0); nvtxRangePushA(s);", "mtrtcCompileProgram(p, 0, 0); mttxRangePushA(s);"},
    {"__nv_bfloat16 a; __nv_bfloat162 b; half2 c; __half d;",
     "__mt_bfloat16 a; __mt_bfloat162 b; half2 c; __half d;"},
    {"#if __CUDA_ARCH__ >= 800 && defined(__CUDACC__)", "#if __MUSA_ARCH__ >= 800 && defined(__MUSACC__)"},
    {"make_cuComplex(1, 2); make_cudaExtent(1, 2, 3);", "make_muComplex(1, 2); make_musaExtent(1, 2, 3);"},
    {"float inf = CUDART_INF_F;", "float inf = MUSART_INF_F;"},
    {"#include <cuda_runtime.h>", "#include <musa_runtime.h>"},
    {"# include \"cuda_fp16.h\" // half", "# include \"musa_fp16.h\" // half"},
    {"#include <cublas_v2.h>\n#include <curand_kernel.h>", "#include <mublas.h>\n#include <murand_kernel.h>"},
    {"#include <c10/cuda/CUDAGuard.h>", "#include <torch_musa/csrc/core/MUSAGuard.h>"},
    {"#include <ATen/cuda/CUDAContext.h>", "#include <torch_musa/csrc/aten/musa/MUSAContext.h>"},
    {"#include <cub/cub.cuh>\n#include \"mine.cuh\"", "#include <cub/cub.cuh>\n#include \"mine.muh\""},
    {"#if __has_include(<cuda_fp8.h>)", "#if __has_include(<musa_fp8.h>)"},
    {"#include <cute/tensor.hpp>\nusing namespace cute; cute::Tensor t; int cute = 1;",
     "#include <mute/tensor.hpp>\nusing namespace mute; mute::Tensor t; int cute = 1;"},
    {"cutlass::gemm::device::Gemm g; CUTLASS_HOST_DEVICE void f();",
     "mutlass::gemm::device::Gemm g; MUTLASS_HOST_DEVICE void f();"},
    {"auto s = at::cuda::getCurrentCUDAStream();", "auto s = at::musa::getCurrentMUSAStream();"},
    {"const c10::cuda::OptionalCUDAGuard g(device_of(x));",
     "const c10::musa::OptionalMUSAGuard g(device_of(x));"},
    {"namespace cuda { int x; }", "namespace musa { int x; }"},
    {"C10_CUDA_KERNEL_LAUNCH_CHECK(); C10_CUDA_CHECK(e); AT_CUDA_CHECK(e);",
     "C10_MUSA_KERNEL_LAUNCH_CHECK(); C10_MUSA_CHECK(e); AT_MUSA_CHECK(e);"},
    {"TORCH_CHECK(x.is_cuda(), \"x must be a CUDA tensor\");",
     "TORCH_CHECK(x.is_privateuseone(), \"x must be a CUDA tensor\");"},
    {"torch::device(torch::kCUDA); at::DeviceType::CUDA;",
     "torch::device(torch::kPrivateUse1); at::DeviceType::PrivateUse1;"},
    {"TORCH_LIBRARY_IMPL(mine, CUDA, m) {}", "TORCH_LIBRARY_IMPL(mine, PrivateUse1, m) {}"},
    {"torch::Device(\"cuda:1\")", "torch::Device(\"musa:1\")"},
    {"k<<<g, b, 0, s>>>(p); __syncthreads(); __shfl_down_sync(m, v, 1);",
     "k<<<g, b, 0, s>>>(p); __syncthreads(); __shfl_down_sync(m, v, 1);"},
    {"cuda\\\nMalloc(p);", "cuda\\\nMalloc(p);"},
    {"#define CALL(x) do { \\\n  cudaError_t e = (x); \\\n} while (0)",
     "#define CALL(x) do { \\\n  musaError_t e = (x); \\\n} while (0)"},
    {"cuMemAlloc_v2_params p; cudaMemcpy_ptds_v7000_params q;",
     "muMemAlloc_v2_params p; musaMemcpy_ptds_v7000_params q;"},
};

TEST(CppPort, SpeaksBothDialects) {
  for (const Case& c : kCases) {
    EXPECT_EQ(cpp(c.cuda), c.musa);
    EXPECT_EQ(cpp(c.musa, Dialect::kCuda), c.cuda);
    EXPECT_EQ(cpp(c.musa), c.musa) << "twice";
  }
}

// The text's own names, whatever they begin with; strings, characters and comments; parts of longer names.
const char* const kStays[] = {
    "int cudagraph_helper, my_cuda_thing, cuda_kernel_name, cudaMallocOrDie, CUDA_CHECK_MINE;",
    "torch::Tensor relu_cuda(torch::Tensor x);",
    "void cudaMatmul(float* a); m.def(\"is_cuda\", &f);",
    "const char* s = \"cudaMalloc\"; char c = 'c'; // cudaMalloc\n/* cudaFree\n cudaFree */",
    "auto s = R\"x(cudaMalloc(\")x\"; ",
    "auto s = u8R\"(cudaFree)\" \"\\\"cudaFree\";",
    "#define CUDA_CHECK(x) x\nCUDA_CHECK(1);",
    "#define CUDA_KERNEL_LOOP(i, n) for (int i = 0; i < n; ++i)\nCUDA_KERNEL_LOOP(j, 3) {}",
    "#define CUDA_NUM_THREADS 256\nint n = CUDA_NUM_THREADS;",
    "constexpr int CUDA_NUM_THREADS = 256;",
    "int cuda = 3; x.cuda = cuda + 1;",
    "#include \"cuda_helpers.h\"\n#include <my/cuda.h>",
    "// MUSACODER_PORT_OFF\ncudaFree(p);\n// MUSACODER_PORT_ON\n",
    "cudaFree(p);  // MUSIFY_EXCL_LINE",
    "/* MUSIFY_EXCL_START */ cudaFree(p);\ncudaFree(q);\n// MUSIFY_EXCL_STOP",
    "int n = 1'000'000; it's cudaish",
    "$cudaMalloc cudaMalloc$ cudaMallocé",
};

TEST(CppPort, LeavesTheTextsOwnNames) {
  for (const char* text : kStays) {
    EXPECT_EQ(cpp(text), text);
    EXPECT_EQ(cpp(text, Dialect::kCuda), text);
  }
}

TEST(CppPort, ExclusionEndsWhereItSays) {
  EXPECT_EQ(cpp("// MUSIFY_EXCL_START\ncudaFree(a);\n// MUSIFY_EXCL_STOP\ncudaFree(b);"),
            "// MUSIFY_EXCL_START\ncudaFree(a);\n// MUSIFY_EXCL_STOP\nmusaFree(b);");
}

TEST(CppPort, RenamesInStringsAndCommentsWhenAsked) {
  const char* text = "f(\"cudaMalloc failed on cuda:0\"); // cudaMalloc, see cuda_runtime.h";
  EXPECT_EQ(ported(text, Language::kCpp, Dialect::kMusa, {.in_strings = true}).text,
            "f(\"musaMalloc failed on musa:0\"); // cudaMalloc, see cuda_runtime.h");
  EXPECT_EQ(ported(text, Language::kCpp, Dialect::kMusa, {.in_comments = true}).text,
            "f(\"cudaMalloc failed on cuda:0\"); // musaMalloc, see musa_runtime.h");
}

TEST(CppPort, SaysWhereTheWayBackWouldDiffer) {
  const char* text = "cudaFree(a);\nmusaFree(b);\n#include <cublas.h>\n";
  const Ported there = ported(text, Language::kCpp);
  EXPECT_FALSE(there.reversible());
  ASSERT_EQ(there.attention.size(), 2u);
  EXPECT_EQ(there.attention[0].kind, "ambiguous");
  EXPECT_EQ(there.attention[0].what, "musaFree");
  EXPECT_EQ(there.attention[0].line, 2u);
  EXPECT_EQ(there.attention[1].kind, "one_way");
  EXPECT_EQ(there.attention[1].line, 3u);
}

TEST(CppPort, KeepsNamesOfTheOtherDialectWithMarks) {
  const char* text = "cudaFree(a); musaFree(b);\n#define F(x) musaFree(x)\n";
  const PortOptions marks{.keep_marks = true};
  const Ported there = ported(text, Language::kCpp, Dialect::kMusa, marks);
  EXPECT_EQ(
      there.text,
      "musaFree(a); musaFree/*MUSACODER_PORT_KEEP*/(b);\n#define F(x) musaFree/*MUSACODER_PORT_KEEP*/(x)\n");
  EXPECT_TRUE(there.reversible());
  EXPECT_EQ(ported(there.text, Language::kCpp, Dialect::kMusa, marks).text, there.text);
  EXPECT_EQ(cpp(there.text, Dialect::kCuda), text);
}

TEST(CppPort, ReportsLinesColumnsAndGroups) {
  const Ported there = ported("int a;\n  cudaFree(p); cublasCreate(&h);\n", Language::kCpp);
  ASSERT_EQ(there.renames.size(), 2u);
  EXPECT_EQ(there.renames[0].line, 2u);
  EXPECT_EQ(there.renames[0].column, 3u);
  EXPECT_EQ(there.renames[0].from, "cudaFree");
  EXPECT_EQ(there.renames[0].to, "musaFree");
  EXPECT_THAT(there.by_group(),
              testing::ElementsAre(testing::Pair("cublas", 1u), testing::Pair("runtime", 1u)));
}

TEST(CppPort, RefusesWhatIsNoText) {
  const auto result = port_text(table(), std::string_view("cuda\0Free", 9), Language::kCpp, Dialect::kMusa);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  EXPECT_THAT(result.error().message, testing::HasSubstr("byte 4"));
}

TEST(RenameWords, SpeaksOfACandidateInItsOwnNames) {
  EXPECT_EQ(
      rename_words(table(),
                   "kernel.mu(3): error: identifier \"cudaMaloc\" is undefined; did you mean 'cudaMalloc'?",
                   Dialect::kMusa),
      "kernel.mu(3): error: identifier \"cudaMaloc\" is undefined; did you mean 'musaMalloc'?");
  EXPECT_EQ(rename_words(table(), "cuda_runtime.h: at::cuda::getCurrentCUDAStream, torch.cuda, kernel.cu:7",
                         Dialect::kMusa),
            "musa_runtime.h: at::musa::getCurrentMUSAStream, torch.musa, kernel.mu:7");
  EXPECT_EQ(rename_words(table(), "musaErrorIllegalAddress on musa:0", Dialect::kCuda),
            "cudaErrorIllegalAddress on cuda:0");
  EXPECT_EQ(rename_words(table(), "", Dialect::kMusa), "");
}

}  // namespace
}  // namespace musacoder::port
