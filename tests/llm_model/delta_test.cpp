// Gated DeltaNet: chunks, rows one after the other, and a plain loop over tokens agree, gradients included.
#include <gtest/gtest.h>

#include <cmath>

#include "llm/kernels/delta_rows.h"
#include "llm/model/attention.h"
#include "llm/model/delta_rule.h"

namespace musacoder::llm {
namespace {

const std::vector<std::int64_t> kStarts = {0, 1, 6, 70, 70, 135, 265, 272};  // 1, 5, 64, 0, 65, 130, 7

struct Inputs {
  at::Tensor q, k, v, decay, beta;
  std::vector<at::Tensor> all() const { return {q, k, v, decay, beta}; }
};

Inputs random_inputs(std::int64_t tokens, std::int64_t key_heads, std::int64_t value_heads) {
  at::manual_seed(3);
  Inputs in;
  in.q = unit_rows(at::randn({tokens, key_heads, 8}));
  in.k = unit_rows(at::randn({tokens, key_heads, 8}));
  in.v = at::randn({tokens, value_heads, 6});
  in.decay =
      -at::rand({tokens, value_heads}) * at::tensor({0.01f, 0.3f, 5.0f, 1.0f}).narrow(0, 0, value_heads);
  in.beta = at::rand({tokens, value_heads});
  return in;
}

// The definition, a token at a time.
at::Tensor plain(const Inputs& in, const std::vector<std::int64_t>& starts) {
  const std::int64_t group = in.v.size(1) / in.q.size(1);
  std::vector<at::Tensor> out;
  for (std::size_t s = 1; s < starts.size(); ++s) {
    at::Tensor state = at::zeros({in.v.size(1), in.q.size(2), in.v.size(2)}, in.v.options());
    for (std::int64_t t = starts[s - 1]; t < starts[s]; ++t) {
      const at::Tensor q = in.q[t].repeat_interleave(group, 0), k = in.k[t].repeat_interleave(group, 0);
      state = state * in.decay[t].exp().view({-1, 1, 1});
      const at::Tensor known = at::einsum("hkv,hk->hv", {state, k});
      state = state + at::einsum("hk,hv->hkv", {k, (in.v[t] - known) * in.beta[t].unsqueeze(1)});
      out.push_back(at::einsum("hkv,hk->hv", {state, q}));
    }
  }
  return at::stack(out);
}

double off(const at::Tensor& got, const at::Tensor& want) {
  return ((got.to(at::kDouble) - want.to(at::kDouble)).norm() / want.to(at::kDouble).norm()).item<double>();
}

void compare(std::int64_t key_heads, std::int64_t value_heads, std::int64_t chunk) {
  Inputs in = random_inputs(kStarts.back(), key_heads, value_heads), exact;
  for (auto [one, wide] : {std::pair{&in.q, &exact.q},
                           {&in.k, &exact.k},
                           {&in.v, &exact.v},
                           {&in.decay, &exact.decay},
                           {&in.beta, &exact.beta}}) {
    *wide = one->to(at::kDouble).requires_grad_(true);
    one->requires_grad_(true);
  }
  const DeltaChunks chunks = delta_chunks(kStarts, at::kCPU, chunk);
  const at::Tensor got = gated_delta_rule(in.q, in.k, in.v, in.decay, in.beta, chunks),
                   want = plain(exact, kStarts);
  EXPECT_LE(off(got, want), 1e-6);
  const at::Tensor slope = at::randn(got.sizes());
  got.backward(slope);
  want.backward(slope.to(at::kDouble));
  const char* names[] = {"q", "k", "v", "decay", "beta"};
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_LE(off(in.all()[i].grad(), exact.all()[i].grad()), 3e-6) << names[i];
}

TEST(GatedDeltaRule, ChunksAndTheirGradientsAreThoseOfThePlainLoop) { compare(2, 4, 64); }
TEST(GatedDeltaRule, OneValueHeadToAKeyHead) { compare(4, 4, 64); }
TEST(GatedDeltaRule, ShortChunks) { compare(1, 3, 7); }

TEST(GatedDeltaRule, ChunksOfOneStepLieTogetherLongestFirst) {
  const DeltaChunks chunks = delta_chunks({0, 2, 7, 7, 10}, at::kCPU, 2);  // lengths 2, 5, 0, 3
  EXPECT_EQ(chunks.size, 2);
  EXPECT_EQ(chunks.begin, (std::vector<std::int64_t>{0, 3, 5, 6}));
  EXPECT_TRUE(at::equal(chunks.rows, at::tensor({2, 3, 7, 8, 0, 1, 4, 5, 9, 10, 6, 10}, at::kLong)));
  EXPECT_TRUE(at::equal(chunks.places, at::tensor({4, 5, 0, 1, 6, 7, 10, 2, 3, 8}, at::kLong)));
}

TEST(CausalConv, SeesItsOwnSequenceOnly) {
  const std::vector<std::int64_t> starts = {0, 2, 7};
  at::manual_seed(4);
  const at::Tensor x = at::randn({7, 3}).requires_grad_(true), taps = at::randn({3, 4}).requires_grad_(true);
  const at::Tensor got = causal_conv(x, taps, starts);
  const at::Tensor exact = x.detach().clone().requires_grad_(true),
                   exact_taps = taps.detach().clone().requires_grad_(true);
  std::vector<at::Tensor> parts;  // the library's convolution of each sequence by itself
  for (std::size_t i = 1; i < starts.size(); ++i) {
    const at::Tensor one = exact.narrow(0, starts[i - 1], starts[i] - starts[i - 1]).t().unsqueeze(0);
    parts.push_back(at::conv1d(at::constant_pad_nd(one, {3, 0}), exact_taps.unsqueeze(1), {},
                               at::IntArrayRef{1}, at::IntArrayRef{0}, at::IntArrayRef{1}, 3)
                        .squeeze(0)
                        .t());
  }
  const at::Tensor want = at::cat(parts, 0), slope = at::randn({7, 3});
  EXPECT_LE(off(got, want), 1e-6);
  got.backward(slope);
  want.backward(slope);
  EXPECT_LE(off(x.grad(), exact.grad()), 1e-6);
  EXPECT_LE(off(taps.grad(), exact_taps.grad()), 1e-6);
}

class DeltaRows : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(5);
    mixed = at::randn({tokens, sizes.channels()});
    taps = at::randn({sizes.channels(), 4});
    decay = -at::rand({tokens, 4});
    beta = at::rand({tokens, 4});
  }
  struct State {
    std::vector<float> window, state;
  };
  State fresh() const {
    return {std::vector<float>(static_cast<std::size_t>(3 * sizes.channels())),
            std::vector<float>(4 * 20 * 12)};
  }
  // Rows from .. from + counts[i] of each call belong to states[i].
  at::Tensor run(std::int64_t from, const std::vector<std::int64_t>& counts,
                 std::vector<State*> states) const {
    std::vector<DeltaSpan> spans;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      spans.push_back({at, counts[i], states[i]->window.data(), states[i]->state.data()});
      at += counts[i];
    }
    return delta_rows(sizes, mixed.narrow(0, from, at), taps, decay.narrow(0, from, at),
                      beta.narrow(0, from, at), spans);
  }
  static constexpr std::int64_t tokens = 90;
  DeltaConfig sizes{2, 4, 20, 12, 4};
  at::Tensor mixed, taps, decay, beta;
};

TEST_F(DeltaRows, AreTheChunksResults) {
  State a = fresh(), b = fresh();
  const at::Tensor got = run(0, {71, 19}, {&a, &b});
  Packed batch;
  batch.starts = {0, 71, 90};
  PackedAttention training(batch);
  EXPECT_LE(off(got, training.delta(0, {sizes, mixed, taps, decay, beta})), 1e-6);
  mixed = mixed.to(at::kBFloat16);
  taps = taps.to(at::kBFloat16);
  a = fresh(), b = fresh();
  const at::Tensor brain = run(0, {71, 19}, {&a, &b});
  EXPECT_EQ(brain.scalar_type(), at::kBFloat16);
  EXPECT_LE(off(brain, training.delta(0, {sizes, mixed, taps, decay, beta})), 3e-3);  // last bits of bf16
}

TEST_F(DeltaRows, AreTheSameBitsHoweverTheyAreCut) {
  State whole = fresh();
  const at::Tensor want = run(0, {tokens}, {&whole});
  State parts = fresh(), other = fresh();
  std::vector<at::Tensor> got;
  std::int64_t at = 0;
  for (const std::int64_t count : {1, 2, 1, 40, 3, 43}) {
    // Beside rows of another sequence.
    const std::int64_t more = std::min<std::int64_t>(5, tokens - at - count);
    got.push_back(run(at, {count, more}, {&parts, &other}).narrow(0, 0, count));
    at += count;
  }
  EXPECT_TRUE(at::equal(at::cat(got, 0), want));
  EXPECT_EQ(parts.state, whole.state);
  EXPECT_EQ(parts.window, whole.window);
}

}  // namespace
}  // namespace musacoder::llm
