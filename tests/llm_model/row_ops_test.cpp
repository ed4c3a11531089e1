// Row-independent kernels: libtorch's double-precision products are the reference; independence is to the
// bit.
#include "llm/kernels/row_ops.h"

#include <gtest/gtest.h>

#include <cmath>

#include "llm/checkpoint/gguf_quants.h"
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

// Random blocks of a type whose scales (float16 at these places) are finite and of either sign.
struct BlockType {
  GgmlType type;
  PackedKind kind;
  std::vector<std::size_t> halves;
};
const BlockType kBlockTypes[] = {{GgmlType::kQ4_0, PackedKind::kQ4_0, {0}},
                                 {GgmlType::kQ4_1, PackedKind::kQ4_1, {0, 2}},
                                 {GgmlType::kQ8_0, PackedKind::kQ8_0, {0}},
                                 {GgmlType::kQ4K, PackedKind::kQ4K, {0, 2}},
                                 {GgmlType::kQ6K, PackedKind::kQ6K, {208}}};
at::Tensor random_blocks(const BlockType& type, std::int64_t rows, std::int64_t blocks) {
  const auto block = *ggml_block(type.type);
  const at::Tensor out =
      at::randint(0, 256, {rows, blocks, static_cast<std::int64_t>(block.bytes)}, at::kByte);
  auto* bytes = out.mutable_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < rows * blocks; ++i)
    for (const std::size_t at : type.halves) {
      std::uint8_t& high = bytes[static_cast<std::size_t>(i) * block.bytes + at + 1];
      high = i % 7 == 0 ? high & 0x80 : (high & 0x83) | 0x20;  // some are zero or subnormal
    }
  return out;
}

TEST_P(EachKernelSet, MultipliesPackedWeightsAsTheirValues) {
  at::manual_seed(6);
  for (const BlockType& type : kBlockTypes) {
    const std::int64_t blocks = 3, out = 11, in = blocks * ggml_block(type.type)->elements;
    const at::Tensor w = random_blocks(type, out, blocks);
    at::Tensor values = at::empty({out, in});
    ASSERT_TRUE(dequantize_blocks(type.type, {static_cast<const char*>(w.const_data_ptr()), w.nbytes()},
                                  values.mutable_data_ptr<float>()));
    at::Tensor own = at::empty({out, in});
    const int kind = static_cast<int>(type.kind);
    run_->unpack[kind](w.const_data_ptr<std::uint8_t>(), out * in, own.mutable_data_ptr<float>());
    EXPECT_TRUE(at::equal(own, values)) << kind;
    for (const std::int64_t rows : {1, 2, 5, 8, 13, 66}) {
      const at::Tensor x = at::randn({rows, in});
      at::Tensor y = at::zeros({rows, out}), want = at::zeros({rows, out});
      run_->linear_packed[kind](x.const_data_ptr<float>(), rows, in, w.const_data_ptr<std::uint8_t>(), 0, out,
                                y.mutable_data_ptr<float>(), out);
      run_->linear_f32(x.const_data_ptr<float>(), rows, in, values.const_data_ptr<float>(), 0, out,
                       want.mutable_data_ptr<float>(), out);
      EXPECT_TRUE(at::equal(y, want)) << kind << " " << rows;  // to the bit
    }
  }
}

TEST_P(EachKernelSet, ExponentialsAndMaximumAreThoseOfTheLibrary) {
  for (const std::int64_t count : {1, 15, 16, 17, 300}) {
    const at::Tensor x = at::linspace(-88, 3, count), out = at::empty_like(x);
    const float top = run_->maximum(x.const_data_ptr<float>(), count);
    EXPECT_EQ(top, x.max().item<float>());
    const float sum =
        run_->exponentials(x.const_data_ptr<float>(), count, top, 0.9f, out.mutable_data_ptr<float>());
    const at::Tensor want = ((x - top) * 0.9f).to(at::kDouble).exp();
    EXPECT_LT(((out - want) / want).abs().max().item<double>(), 3e-7);
    EXPECT_NEAR(sum / want.sum().item<double>(), 1, 1e-6);
  }
  const float odd[] = {-INFINITY, 0, -1000, NAN};
  float out[4];
  run_->exponentials(odd, 4, 0, 1, out);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 1);
  EXPECT_EQ(out[2], 0);
  EXPECT_TRUE(std::isnan(out[3]));
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

TEST(RowRmsNorm, IsTorchsInAnyCompany) {
  at::manual_seed(7);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t dim : {1, 16, 24, 100}) {
      const at::Tensor x = at::randn({5, 3, dim}).to(type), w = at::randn({dim}).to(type),
                       all = row_rms_norm(x, w, 1e-3);
      const at::Tensor wide = x.to(at::kFloat);
      const at::Tensor want = w * (wide * at::rsqrt(wide.square().mean(-1, true) + 1e-3)).to(type);
      EXPECT_TRUE(at::allclose(all, want, type == at::kFloat ? 1e-5 : 1.6e-2, 1e-6)) << dim;
      EXPECT_TRUE(at::equal(row_rms_norm(x[4], w, 1e-3), all[4]));
    }
}

TEST(RowSwiglu, IsTorchsInAnyCompany) {
  at::manual_seed(8);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor gate = (at::randn({9, 37}) * 20).to(type), up = at::randn({9, 37}).to(type),
                     all = row_swiglu(gate, up);
    EXPECT_TRUE(at::allclose(all, at::silu(gate) * up, type == at::kFloat ? 1e-6 : 1.6e-2, 1e-7));
    for (const std::int64_t r : {0, 4, 8}) EXPECT_TRUE(at::equal(row_swiglu(gate[r], up[r]), all[r]));
  }
  EXPECT_EQ(row_swiglu(at::full({1}, -1e30), at::full({1}, 1.0)).item<float>(), 0);
}

TEST(RowRotate, TurnsHalvesAndLeavesTheRest) {
  at::manual_seed(9);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t turned : {4, 20, 64}) {
      const at::Tensor x = at::randn({3, 2, 64}).to(type), c = at::randn({3, 1, turned}).to(type),
                       s = at::randn({3, 1, turned}).to(type);
      const at::Tensor part = x.narrow(2, 0, turned);
      const auto halves = part.chunk(2, -1);
      const at::Tensor want = at::cat(
          {part * c + at::cat({-halves[1], halves[0]}, -1) * s, x.narrow(2, turned, 64 - turned)}, -1);
      EXPECT_TRUE(at::equal(row_rotate(x, c, s), want)) << turned;  // the same operations, the same roundings
    }
}

TEST(RowOps, TakeFloat16Too) {
  at::manual_seed(11);
  const at::Tensor x = at::randn({3, 2, 8}).to(at::kHalf), w = at::randn({8}).to(at::kHalf);
  const auto wide = [](const at::Tensor& t) { return t.to(at::kFloat); };
  EXPECT_TRUE(at::allclose(wide(row_rms_norm(x, w, 1e-3)), row_rms_norm(wide(x), wide(w), 1e-3), 1e-2, 1e-3));
  EXPECT_TRUE(at::allclose(wide(row_swiglu(x, x)), row_swiglu(wide(x), wide(x)), 1e-2, 1e-3));
  const at::Tensor c = at::rand({3, 1, 4}).to(at::kHalf);
  EXPECT_TRUE(at::allclose(wide(row_rotate(x, c, c)), row_rotate(wide(x), wide(c), wide(c)), 1e-2, 1e-2));
}

TEST(RowEmbedding, UnpacksRows) {
  at::manual_seed(10);
  const at::Tensor w = random_blocks(kBlockTypes[2], 9, 2), ids = at::tensor({8, 0, 8}, at::kLong);
  EXPECT_TRUE(at::equal(row_embedding(w, ids), unpacked(w).index_select(0, ids)));
  EXPECT_EQ(in_features(w), 64);
  EXPECT_FALSE(is_packed(unpacked(w)));
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
