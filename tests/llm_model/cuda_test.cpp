#include <gtest/gtest.h>

#include "llm/kernels/cuda/fused.h"
#include "llm/kernels/cuda/load.h"
#include "llm/model/attention.h"
#include "llm/model/packed.h"

namespace musacoder::llm {

TEST(Device, NamesAreChecked) {
  EXPECT_TRUE(open_device("cpu")->is_cpu());
  for (const char* name : {"", "gpu", "cuda:x", "meta"}) {
    const auto got = open_device(name);
    ASSERT_FALSE(got) << name;
    EXPECT_EQ(got.error().code, Code::kInvalidArgument) << name;
  }
}

// Where there is no GPU the libraries are loaded all the same, and the error says what is missing.
TEST(Device, MissingOnesAreNamed) {
  const auto got = open_device("cuda:63");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kUnsupported);
  EXPECT_NE(got.error().message.find("CUDA"), std::string::npos) << got.error().message;
}

TEST(Device, NothingOfTheCpuIsFused) {
  EXPECT_FALSE(fused_on(at::ones({2, 8})));
  EXPECT_FALSE(flash_takes(at::ones({2, 1, 8}, at::kBFloat16)));
  EXPECT_EQ(peak_memory(at::kCPU), 0);
}

TEST(Joinable, OnlyWhatLiesTogether) {
  const at::Tensor all = at::randn({9, 4});
  EXPECT_TRUE(joinable({all.narrow(0, 0, 2), all.narrow(0, 2, 3), all.narrow(0, 5, 4)}));
  EXPECT_FALSE(joinable({all.narrow(0, 2, 3), all.narrow(0, 0, 2)}));  // another order
  EXPECT_FALSE(joinable({all.narrow(0, 0, 2), all.narrow(0, 3, 2)}));  // a gap
  EXPECT_FALSE(joinable({all.narrow(0, 0, 2), at::randn({3, 4})}));    // another storage
  EXPECT_FALSE(joinable({all.narrow(1, 0, 2), all.narrow(1, 2, 2)}));  // columns
}

// One product and its gradients against those of each matrix by itself.
TEST(JoinedLinear, IsThatOfEachMatrix) {
  at::manual_seed(3);
  const at::Tensor all = at::randn({5, 4}), x = at::randn({3, 4}).requires_grad_(true),
                   to = at::randn({3, 5});
  const std::vector<at::Tensor> parts = {all.narrow(0, 0, 2).detach().requires_grad_(true),
                                         all.narrow(0, 2, 3).detach().requires_grad_(true)},
                                biases = {at::randn({2}).requires_grad_(true),
                                          at::randn({3}).requires_grad_(true)};
  const at::Tensor got = joined_linear(x, parts, biases);
  torch::autograd::backward({got}, {to});
  std::vector<at::Tensor> found;
  for (const at::Tensor* one : {&x, &parts[0], &parts[1], &biases[0], &biases[1]}) {
    found.push_back(one->grad().clone());
    one->mutable_grad() = at::Tensor();
  }
  const at::Tensor want =
      at::cat({at::linear(x, parts[0], biases[0]), at::linear(x, parts[1], biases[1])}, 1);
  torch::autograd::backward({want}, {to});
  EXPECT_TRUE(at::allclose(got, want));
  std::size_t i = 0;
  for (const at::Tensor* one : {&x, &parts[0], &parts[1], &biases[0], &biases[1]})
    EXPECT_TRUE(at::allclose(found[i++], one->grad())) << i;
}

TEST(Packed, NextTokensEndWithTheirSequence) {
  const Packed batch = pack({{4, 5, 6}, {7}, {}, {8, 9}});
  EXPECT_TRUE(next_tokens(batch).equal(at::tensor({5, 6, -1, -1, 9, -1}, at::kLong)));
  EXPECT_TRUE(on_device(batch, at::kCPU).ids.is_same(batch.ids));
}

}  // namespace musacoder::llm
