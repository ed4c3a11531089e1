// Faults put into working candidates: where they are found, what they leave alone, and that they can be drawn again.
#include "synth/mutation.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/files.h"

namespace musacoder::synth {
namespace {

const char* const kCandidate = R"PY(import torch
from torch.utils.cpp_extension import load_inline

# if (i >= n) return; in a comment is no place, and "__syncthreads();" here neither
cuda_source = """
#include <torch/extension.h>
__global__ void add_kernel(const float* a, const float* b, float* out, int n) {
  // if (i >= n) return;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = a[i] + b[i];
}
torch::Tensor add(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty_like(a);
  const int n = a.numel(), threads = 256;
  add_kernel<<<(n + threads - 1) / threads, threads>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), a.numel());
  return out;
}
"""
cpp_source = "torch::Tensor add(torch::Tensor a, torch::Tensor b);"
extension = load_inline(name="add", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["add"])

class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return extension.add(a, b)
)PY";

std::string only(const char* kind) {
  const auto found = mutants_of_kind(kCandidate, kind);
  EXPECT_EQ(found.size(), 1u) << kind;
  return found.empty() ? "" : found[0].file;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Mutation, FaultsByHand) {
  EXPECT_FALSE(has(only("bounds_removed"), "  if (i >= n) return;\n  out"));
  EXPECT_TRUE(has(only("bounds_removed"), "// if (i >= n) return;\n  int i"));
  EXPECT_TRUE(has(only("bounds_off_by_one"), "  if (i > n) return;"));
  EXPECT_TRUE(has(only("index_lost"), "int i = blockIdx.x + threadIdx.x;"));
  EXPECT_TRUE(has(only("grid_short"), "<<<n / threads, threads>>>"));
  EXPECT_TRUE(has(only("block_too_large"), "threads = 2048;"));
  EXPECT_TRUE(has(only("sign_wrong"), "a[i] - b[i]"));
  EXPECT_TRUE(has(only("kernel_renamed"), "void add_kernel_impl(const float"));
  EXPECT_TRUE(has(only("declared_otherwise"), "\"torch::Tensor add(torch::Tensor a);\""));
  EXPECT_TRUE(has(only("declared_other_name"), "\"torch::Tensor add_forward(torch::Tensor a"));
  EXPECT_TRUE(has(only("functions_mismatch"), "functions=[\"forward_kernel\", \"add\"]"));
  EXPECT_TRUE(has(only("class_renamed"), "class Model(torch"));
  EXPECT_TRUE(has(only("scaled_by_torch"), "return (extension.add(a, b)) * 1.0\n"));
  EXPECT_TRUE(has(only("added_by_torch"), "return out.add(0);\n}"));
  EXPECT_TRUE(has(only("input_in_place"), "auto out = a;"));
  EXPECT_TRUE(has(only("argument_dropped"), "extension.add(a)\n"));
  EXPECT_TRUE(mutants_of_kind(kCandidate, "barrier_removed").empty());
  EXPECT_TRUE(mutants_of_kind(kCandidate, "no such kind").empty());
}

TEST(Mutation, ToldWhereAndWhat) {
  const auto found = mutants_of_kind(kCandidate, "bounds_removed");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].line, 10);
  EXPECT_EQ(found[0].before, "if (i >= n) return;");
  EXPECT_EQ(found[0].after, "");
  EXPECT_FALSE(found[0].fault.empty());
}

TEST(Mutation, DrawnAgainTheSameAndManyKindsFirst) {
  const auto first = mutants(kCandidate, 5, 12), again = mutants(kCandidate, 5, 12), other = mutants(kCandidate, 6, 12);
  ASSERT_EQ(first.size(), 12u);
  std::set<std::string> kinds, files;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].file, again[i].file);
    kinds.insert(first[i].kind);
    files.insert(first[i].file);
  }
  EXPECT_EQ(kinds.size(), 12u);
  EXPECT_EQ(files.size(), 12u);
  EXPECT_EQ(files.count(kCandidate), 0u);
  EXPECT_NE(first[0].file + first[1].file, other[0].file + other[1].file);
  EXPECT_LT(mutants(kCandidate, 5, 1000).size(), 100u);
  EXPECT_TRUE(mutants("", 1, 5).empty());
  EXPECT_TRUE(mutants("no code at all", 1, 5).empty());
}

TEST(Mutation, SlowVariants) {
  std::map<std::string, std::string> found;
  for (const Mutant& slow : slow_variants(kCandidate, 1, 10)) found[slow.kind] = slow.file;
  EXPECT_TRUE(has(found["tiny_blocks"], "threads = 32;"));
  EXPECT_TRUE(has(found["needless_synchronisation"], "a.numel());\n  cudaDeviceSynchronize();"));
  EXPECT_TRUE(has(found["uncoalesced"], "threadIdx.x * gridDim.x + blockIdx.x"));
  EXPECT_TRUE(has(found["atomics"], "atomicExch(&out[i], a[i] + b[i]);"));
  const std::string& twice = found["many_launches"];
  EXPECT_NE(twice.find("add_kernel<<<"), twice.rfind("add_kernel<<<"));
}

// Every kind has a place somewhere among the candidates of the corpus.
TEST(Mutation, EveryKindOccurs) {
  std::set<std::string> kinds;
  for (const auto& file : std::filesystem::recursive_directory_iterator(std::string(MC_SOURCE_DIR) + "/corpus")) {
    if (file.path().filename() != "candidate.py") continue;
    for (const Mutant& mutant : mutants(*base::read_file(file.path().string()), 1, 1000)) kinds.insert(mutant.kind);
  }
  for (const MutationKind& kind : mutation_kinds()) EXPECT_TRUE(kinds.count(std::string(kind.name))) << kind.name;
}

}  // namespace
}  // namespace musacoder::synth
