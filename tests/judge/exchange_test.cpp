#include "judge/exchange.h"

#include <gtest/gtest.h>

namespace musacoder::judge {
namespace {

using nlohmann::json;

json tensor(json more) {
  json node = {{"t", "tensor"}, {"dtype", "float32"}, {"shape", {2, 3}}, {"strides", {3, 1}}};
  if (more.is_object()) node.update(more);
  return node;
}

TEST(ArenaExchange, OffsetsBecomeAddresses) {
  const json tree = {{"t", "list"}, {"items", {tensor({{"arena", 4096}, {"nbytes", 24}}), {{"t", "int"}, {"v", 3}}}}};
  auto placed = make_arena_exchange()->place({{"inputs", tree}, {"outputs", {{{"arena", 8192}, {"nbytes", 24}}}}, {"arena", {{"id", 1}}}}, false);
  ASSERT_TRUE(placed) << placed.error().message;
  EXPECT_EQ(placed->inputs["items"][0]["addr"], "4096");
  EXPECT_FALSE(placed->inputs["items"][0].contains("arena"));
  EXPECT_EQ(placed->inputs["items"][1]["v"], 3);
  EXPECT_EQ(placed->extra["slots"][0]["arena"], 8192);
  EXPECT_EQ(placed->extra["arena"]["id"], 1);
}

TEST(ArenaExchange, ClaimsKeepTheirKnownFieldsOnly) {
  auto clean = arena_claims({{"t", "tuple"}, {"items", {tensor({{"device", "cuda"}, {"slot", 0}, {"file", "/etc/passwd"}, {"arena", 1}})}}});
  ASSERT_TRUE(clean) << clean.error().message;
  const json& node = (*clean)["items"][0];
  EXPECT_EQ(node["slot"], 0);
  EXPECT_FALSE(node.contains("file"));
  EXPECT_FALSE(node.contains("arena"));
  auto cpu = arena_claims(tensor({{"device", "quantum"}}));
  ASSERT_TRUE(cpu);
  EXPECT_EQ((*cpu)["device"], "cpu");
}

TEST(ArenaExchange, MalformedClaimsAreRefused) {
  json deep = tensor({});
  for (int i = 0; i < 80; ++i) deep = {{"t", "list"}, {"items", {deep}}};
  const json bad[] = {json::array(), json("x"), {{"t", 1}}, {{"t", "list"}}, tensor({{"slot", -1}}), tensor({{"slot", "0"}}), tensor({{"slot", 1 << 20}}),
                      tensor({{"shape", {-1, 3}}}), tensor({{"strides", {1}}}), tensor({{"dtype", "float3"}}), deep,
                      {{"t", "dict"}, {"items", {tensor({})}}}, {{"t", "dict"}, {"keys", {1}}, {"items", {tensor({})}}}};
  for (const auto& claim : bad) {
    auto refused = arena_claims(claim);
    ASSERT_FALSE(refused) << claim.dump().substr(0, 200);
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace musacoder::judge
