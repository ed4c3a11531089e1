// CMake and make.
#include "support.h"

namespace musacoder::port {
namespace {

TEST(BuildPort, SpeaksBothDialects) {
  const char* cuda =
      "# CUDA\nfind_package(CUDAToolkit REQUIRED)\nfind_package(CUDA)\nset(CUDA_NVCC_FLAGS "
      "\"${CUDA_NVCC_FLAGS} -O3\")\n"
      "cuda_add_executable(app main.cu src/kernels.cu \"more.cuh\")\ntarget_link_libraries(app "
      "${CUDA_LIBRARIES} CUDA::cudart cublas my_cuda)\n";
  const char* musa =
      "# CUDA\nfind_package(MUSAToolkit REQUIRED)\nfind_package(MUSA)\nset(MUSA_MCC_FLAGS "
      "\"${MUSA_MCC_FLAGS} -O3\")\n"
      "musa_add_executable(app main.mu src/kernels.mu \"more.muh\")\ntarget_link_libraries(app "
      "${MUSA_LIBRARIES} MUSA::musart mublas my_cuda)\n";
  EXPECT_EQ(ported(cuda, Language::kBuild).text, musa);
  EXPECT_EQ(ported(musa, Language::kBuild, Dialect::kCuda).text, cuda);
  EXPECT_EQ(ported(musa, Language::kBuild).text, musa);
}

TEST(BuildPort, SpeaksMake) {
  const char* cuda = "NVCC = nvcc\nall: k.o\nk.o: k.cu\n\t$(NVCC) -I$(CUDA_HOME)/include -c k.cu\n";
  const char* musa = "NVCC = mcc\nall: k.o\nk.o: k.mu\n\t$(NVCC) -I$(MUSA_HOME)/include -c k.mu\n";
  EXPECT_EQ(ported(cuda, Language::kBuild).text, musa);
  EXPECT_EQ(ported(musa, Language::kBuild, Dialect::kCuda).text, cuda);
}

TEST(BuildPort, PointsAtWhatCMakeLacks) {
  const Ported there =
      ported("project(x LANGUAGES CXX CUDA)\nset(CMAKE_CUDA_ARCHITECTURES 80)\n", Language::kBuild);
  ASSERT_EQ(there.attention.size(), 2u);
  EXPECT_EQ(there.attention[0].kind, "build");
  EXPECT_EQ(there.attention[1].kind, "architecture");
  EXPECT_EQ(there.attention[1].line, 2u);
}

}  // namespace
}  // namespace musacoder::port
