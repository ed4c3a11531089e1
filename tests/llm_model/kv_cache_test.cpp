// Pages: who owns them, when they are copied, and that all come back.
#include "llm/generate/kv_cache.h"

#include <gtest/gtest.h>

namespace musacoder::llm {
namespace {

ModelConfig sizes() {
  ModelConfig config;
  config.layers = 2;
  config.kv_heads = 1;
  config.head_dim = 4;
  return config;
}

float& first_key(const KvCache& cache, const PageTable& table, std::int64_t layer, std::size_t page) {
  return *static_cast<float*>(cache.keys(layer, table.pages[page], 0));
}

TEST(KvCache, PagesAreTakenAsTokensNeedThemAndComeBack) {
  KvCache cache(sizes(), at::kFloat, 100);
  EXPECT_EQ(cache.pages(), 7);  // 100 / 16, rounded up
  PageTable table;
  cache.extend(table, 1);
  cache.extend(table, 16);
  EXPECT_EQ(table.pages.size(), 1u);
  cache.extend(table, 17);
  EXPECT_EQ(table.pages.size(), 2u);
  EXPECT_EQ(cache.free_pages(), 5);
  cache.release(table);
  EXPECT_EQ(cache.free_pages(), 7);
  EXPECT_EQ(table.length, 0);
}

TEST(KvCache, AForkSharesFullPagesAndCopiesTheOpenOneWhenItGrows) {
  KvCache cache(sizes(), at::kFloat, 160);
  PageTable one;
  cache.extend(one, 20);
  first_key(cache, one, 1, 1) = 42;
  PageTable two = cache.fork(one);
  EXPECT_EQ(cache.free_pages(), 8);
  cache.extend(two, 21);
  EXPECT_EQ(cache.free_pages(), 7);
  EXPECT_EQ(two.pages[0], one.pages[0]);
  EXPECT_NE(two.pages[1], one.pages[1]);
  EXPECT_EQ(first_key(cache, two, 1, 1), 42);
  first_key(cache, two, 1, 1) = 7;
  EXPECT_EQ(first_key(cache, one, 1, 1), 42);
  const std::int32_t own = one.pages[1];
  cache.extend(one, 21);  // nobody else has it any more: no copy
  EXPECT_EQ(one.pages[1], own);
  cache.release(one);
  EXPECT_EQ(cache.free_pages(), 8);  // the shared page is still in use
  cache.release(two);
  EXPECT_EQ(cache.free_pages(), 10);
}

TEST(KvCache, LayersKeysAndValuesDoNotOverlap) {
  KvCache cache(sizes(), at::kBFloat16, 32);
  std::vector<char*> places;
  for (std::int64_t layer = 0; layer < 2; ++layer)
    for (std::int64_t page = 0; page < 2; ++page) {
      places.push_back(static_cast<char*>(cache.keys(layer, page, 0)));
      places.push_back(static_cast<char*>(cache.values(layer, page, 0)));
    }
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i) EXPECT_EQ(places[i] - places[i - 1], kPage * 4 * 2);
}

}  // namespace
}  // namespace musacoder::llm
