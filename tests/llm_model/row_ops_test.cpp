// Row-independent kernels: libtorch's double-precision products are the reference; independence is to the
// bit.
#include "llm/kernels/row_ops.h"

#include <gtest/gtest.h>

#include "llm/kernels/cpu_kernels.h"

namespace musacoder::llm {
namespace {

class EachKernelSet : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    run_ = cpu_kernels_named(GetParam());
    if (!run_) GTEST_SKIP() << "this processor has no " << GetParam();
  }
  const CpuKernels* run_ = nullptr;
};

TEST_P(EachKernelSet, MultipliesAsTorchDoes) {
  at::manual_seed(1);
  for (const std::int64_t in : {1, 15, 16, 17, 64, 100})
    for (const std::int64_t rows : {1, 2, 3, 4, 7, 66})
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const std::int64_t out = 11;
        const at::Tensor x = at::randn({rows, in}), w = at::randn({out, in}).to(type);
        at::Tensor y = at::zeros({rows, out});
        if (type == at::kFloat)
          run_->linear_f32(x.const_data_ptr<float>(), rows, in, w.const_data_ptr<float>(), 0, out,
                           y.mutable_data_ptr<float>(), out);
        else
          run_->linear_bf16(x.const_data_ptr<float>(), rows, in,
                            reinterpret_cast<const std::uint16_t*>(w.const_data_ptr()), 0, out,
                            y.mutable_data_ptr<float>(), out);
        const at::Tensor want = at::linear(x.to(at::kDouble), w.to(at::kDouble));
        EXPECT_LT((y - want).abs().max().item<double>(), 1e-5 * static_cast<double>(in)) << in << " " << rows;
      }
}

TEST_P(EachKernelSet, AttendsAsTorchDoes) {
  at::manual_seed(2);
  const std::int64_t page = 4;
  for (const std::int64_t dim : {8, 16, 24, 64})
    for (const std::int64_t length : {1, 4, 9})
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const std::int64_t group = 3, pages = (length + page - 1) / page;
        const at::Tensor q = at::randn({group, dim}), k = at::randn({pages * page, dim}).to(type),
                         v = at::randn({pages * page, dim}).to(type);
        at::Tensor scores = at::zeros({group * length}), got = at::zeros({group, dim});
        std::vector<const void*> ks, vs;
        for (std::int64_t i = pages - 1; i >= 0; --i) {  // pages lie anywhere: here in reverse
          ks.push_back(k[i * page].const_data_ptr());
          vs.push_back(v[i * page].const_data_ptr());
        }
        const AttendArgs args{q.const_data_ptr<float>(),
                              ks.data(),
                              vs.data(),
                              length,
                              page,
                              dim,
                              group,
                              scores.mutable_data_ptr<float>(),
                              got.mutable_data_ptr<float>()};
        (type == at::kFloat ? run_->attend_f32 : run_->attend_bf16)(args);
        const auto ordered = [&](const at::Tensor& x) {
          return x.view({pages, page, dim}).flip(0).reshape({-1, dim}).narrow(0, 0, length).to(at::kDouble);
        };
        const at::Tensor want = at::mm(at::mm(q.to(at::kDouble), ordered(k).t()).softmax(1), ordered(v));
        EXPECT_LT((got - want).abs().max().item<double>(), 1e-5) << dim << " " << length;
      }
}

INSTANTIATE_TEST_SUITE_P(, EachKernelSet, testing::Values("avx512", "avx2", "base"),
                         [](const auto& info) { return std::string(info.param); });

TEST(RowLinear, ARowIsTheSameBitsInAnyCompany) {
  at::manual_seed(3);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = at::randn({70, 83}), w = at::randn({37, 83}).to(type), bias = at::randn({37});
    const at::Tensor all = row_linear(x, w, bias, at::kFloat);
    EXPECT_LT((all - at::linear(x, w.to(at::kFloat), bias)).abs().max().item<float>(), 1e-4);
    for (const std::int64_t from : {0, 1, 63, 69})
      for (const std::int64_t count : {1, 2, 3, 5, 6}) {
        if (from + count > 70) continue;
        EXPECT_TRUE(
            at::equal(row_linear(x.narrow(0, from, count), w, bias, at::kFloat), all.narrow(0, from, count)))
            << from << " " << count;
      }
  }
}

TEST(RowScale, IsTheInverseRootMeanSquareInAnyCompany) {
  at::manual_seed(4);
  for (const std::int64_t dim : {1, 24, 64, 100}) {
    const at::Tensor x = at::randn({5, 3, dim}), all = row_scale(x, 1e-3);
    const at::Tensor want = at::rsqrt(x.to(at::kDouble).square().mean(-1, true) + 1e-3);
    EXPECT_LT(((all - want) / want).abs().max().item<double>(), 1e-6);
    EXPECT_TRUE(at::equal(row_scale(x[4], 1e-3), all[4]));
    EXPECT_TRUE(at::equal(row_scale(x.transpose(0, 1), 1e-3), all.transpose(0, 1)));
  }
}

TEST(RowSilu, IsTorchsInAnyCompany) {
  at::manual_seed(5);
  const at::Tensor x = at::randn({9, 37}) * 20, all = row_silu(x);
  EXPECT_TRUE(at::allclose(all, at::silu(x.to(at::kDouble)).to(at::kFloat), 1e-6, 1e-7));
  for (const std::int64_t r : {0, 4, 8}) EXPECT_TRUE(at::equal(row_silu(x[r]), all[r]));
  EXPECT_EQ(row_silu(at::full({1}, -1e30)).item<float>(), 0);
}

TEST(RowRotation, IsCosineAndSineOfPositionTimesFrequency) {
  const Rotation got = row_rotation(at::tensor({0, 3}, at::kLong), at::tensor({1.0, 0.5}, at::kFloat));
  const at::Tensor angles = at::tensor({0.0, 0.0, 0.0, 0.0, 3.0, 1.5, 3.0, 1.5}).view({2, 4});
  EXPECT_TRUE(at::allclose(got.cos, angles.cos().to(at::kFloat)));
  EXPECT_TRUE(at::allclose(got.sin, angles.sin().to(at::kFloat)));
}

TEST(RowLinear, RoundsOnceAndTakesHalves) {
  const at::Tensor x = at::full({1, 3}, 1.0), w = at::tensor({0.5, 0.25, 2.0}).view({1, 3});
  EXPECT_EQ(row_linear(x, w.to(at::kHalf), {}, at::kFloat).item<float>(), 2.75f);
  EXPECT_EQ(row_linear(x.to(at::kBFloat16), w.to(at::kBFloat16), {}, at::kBFloat16).scalar_type(),
            at::kBFloat16);
}

}  // namespace
}  // namespace musacoder::llm
