#include "train/data/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace musacoder::train {
namespace {

// Examples of given lengths in given families; the last token of each is the only one with a loss.
Dataset make(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& lengths_and_families,
             std::vector<std::string> families) {
  Dataset out;
  out.families = std::move(families);
  for (const auto& [length, family] : lengths_and_families) {
    out.examples.push_back({out.tokens.size(), length, length - 1, length, family, 0});
    for (std::uint32_t i = 0; i < length; ++i)
      out.tokens.push_back(static_cast<llm::TokenId>(out.tokens.size()));
  }
  return out;
}

Dataset two_families(int first, int second) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> all;
  for (int i = 0; i < first; ++i) all.push_back({3, 0});
  for (int i = 0; i < second; ++i) all.push_back({3, 1});
  return make(all, {"norm", "general"});
}

std::vector<int> times_drawn(const Dataset& data, const std::vector<std::uint32_t>& order) {
  std::vector<int> out(data.examples.size(), 0);
  for (const std::uint32_t i : order) ++out[i];
  return out;
}

TEST(DrawExamples, EachOnceWithoutAMixtureInAnOrderOfSeedAndEpoch) {
  const Dataset data = two_families(50, 30);
  const auto order = draw_examples(data, {}, 1, 0);
  EXPECT_EQ(order.size(), 80u);
  for (const int n : times_drawn(data, order)) EXPECT_EQ(n, 1);
  EXPECT_EQ(draw_examples(data, {}, 1, 0), order);
  EXPECT_NE(draw_examples(data, {}, 1, 1), order);
  EXPECT_NE(draw_examples(data, {}, 2, 0), order);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST(DrawExamples, WeightsAreTimesAnEpoch) {
  const Dataset data = two_families(40, 40);
  const auto drawn = times_drawn(data, draw_examples(data, {{{"norm", 2.5}, {"general", 0.25}}, {}}, 1, 0));
  const auto norm = std::vector<int>(drawn.begin(), drawn.begin() + 40);
  EXPECT_EQ(std::count(norm.begin(), norm.end(), 2), 20);
  EXPECT_EQ(std::count(norm.begin(), norm.end(), 3), 20);
  EXPECT_EQ(std::count(drawn.begin() + 40, drawn.end(), 1), 10);
  EXPECT_EQ(std::count(drawn.begin() + 40, drawn.end(), 0), 30);
}

TEST(DrawExamples, SharesAreOfTheEpoch) {
  const Dataset data = two_families(70, 500);
  const auto order = draw_examples(data, {{}, {{"general", 0.3}}}, 1, 0);
  EXPECT_EQ(order.size(), 100u);
  EXPECT_EQ(std::count_if(order.begin(), order.end(), [&](auto i) { return data.examples[i].family == 1; }),
            30);
  // Nothing but shares: as many examples as there are.
  EXPECT_EQ(draw_examples(data, {{}, {{"general", 0.5}, {"norm", 0.5}}}, 1, 0).size(), 570u);
}

TEST(DrawExamples, OneOfAGroupAnEpoch) {
  Dataset data = two_families(4, 6);
  for (std::size_t i = 4; i < 10; ++i) data.examples[i].group = 1 + i % 2;
  std::set<std::uint32_t> seen;
  for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
    const auto order = draw_examples(data, {}, 1, epoch);
    EXPECT_EQ(order.size(), 6u);
    std::set<std::uint64_t> groups;
    for (const std::uint32_t i : order)
      if (i >= 4) {
        groups.insert(data.examples[i].group);
        seen.insert(i);
      }
    EXPECT_EQ(groups.size(), 2u);
  }
  EXPECT_EQ(seen.size(), 6u) << "every member has its turn";
}

TEST(PackRows, FillsTheFullestRowThatHasRoom) {
  const Dataset data = make({{6, 0}, {5, 0}, {4, 0}, {3, 0}, {2, 0}, {9, 0}}, {"f"});
  const std::vector<std::uint32_t> order = {0, 1, 2, 3, 4, 5};
  using Rows = std::vector<std::vector<std::uint32_t>>;
  EXPECT_EQ(pack_rows(data, order, {.length = 10}), (Rows{{0, 2}, {1, 3, 4}, {5}}));
  EXPECT_EQ(pack_rows(data, order, {.length = 10, .packing = false}), (Rows{{0}, {1}, {2}, {3}, {4}, {5}}));
  // One open row only: what does not fit closes it.
  EXPECT_EQ(pack_rows(data, order, {.length = 10, .window = 1}), (Rows{{0}, {1, 2}, {3, 4}, {5}}));
}

TEST(PackRows, NoRowIsTooLongAndNothingIsLost) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> lengths;
  for (std::uint32_t i = 0; i < 500; ++i) lengths.push_back({2 + (i * 37) % 90, 0});
  const Dataset data = make(lengths, {"f"});
  const EpochPlan plan = plan_epoch(data, {}, {.length = 100}, 3, 0);
  std::map<std::uint32_t, int> seen;
  std::uint64_t total = 0;
  for (const auto& row : plan.rows) {
    std::uint64_t tokens = 0;
    for (const std::uint32_t i : row) {
      ++seen[i];
      tokens += data.examples[i].length;
    }
    EXPECT_LE(tokens, 100u);
    total += tokens;
  }
  EXPECT_EQ(seen.size(), 500u);
  EXPECT_EQ(total, data.tokens.size());
  EXPECT_LT(plan.rows.size(), data.tokens.size() / 100 * 105 / 100 + 2) << "rows are nearly full";
}

TEST(MakeBatch, TargetsAreNextTokensWithALoss) {
  Dataset data = make({{4, 0}, {3, 0}, {2, 0}}, {"f"});
  data.examples[0].loss_from = 2;
  const EpochPlan plan{{{0, 2}, {1}}, {}};
  const RowBatch batch = make_batch(data, plan, 0, 2);
  EXPECT_EQ(batch.packed.starts, (std::vector<std::int64_t>{0, 4, 6, 9}));
  EXPECT_TRUE(at::equal(batch.packed.ids, at::tensor({0, 1, 2, 3, 7, 8, 4, 5, 6}, at::kLong)));
  EXPECT_TRUE(at::equal(batch.packed.positions, at::tensor({0, 1, 2, 3, 0, 1, 0, 1, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(batch.targets, at::tensor({-1, 2, 3, -1, 8, -1, -1, 6, -1}, at::kLong)));
  EXPECT_EQ(batch.loss_tokens, 4);
  EXPECT_EQ(count_rows(data, plan, 0, 2).loss_tokens, 4);
  EXPECT_EQ(count_rows(data, plan, 0, 2).tokens, 9);
  EXPECT_EQ(make_batch(data, plan, 1, 1).loss_tokens, 0);
}

TEST(CheckMixture, NamesWhatIsWrong) {
  const Dataset data = two_families(3, 3);
  EXPECT_TRUE(check_mixture(data, {{{"norm", 2}}, {}}));
  EXPECT_EQ(check_mixture(data, {{{"norms", 2}}, {}}).error().message,
            "mixture: the data has no family 'norms'; did you mean 'norm'?");
  EXPECT_EQ(check_mixture(data, {{{"norm", 0}, {"general", 0}}, {}}).error().message,
            "the mixture leaves no examples");
}

}  // namespace
}  // namespace musacoder::train
