#include "judge/tensor_tree.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "judge/memory_session.h"

namespace musacoder::judge {
namespace {

using nlohmann::json;

json tensor(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, const char* dtype = "float32") {
  return {{"t", "tensor"}, {"dtype", dtype}, {"shape", shape}, {"strides", strides}};
}

TEST(StorageExtent, CountsToTheLastElementReached) {
  EXPECT_EQ(*storage_extent_bytes(tensor({2, 3}, {3, 1})), 24u);
  EXPECT_EQ(*storage_extent_bytes(tensor({2, 3}, {10, 2}, "float64")), 120u);   // (10 + 4 + 1) * 8
  EXPECT_EQ(*storage_extent_bytes(tensor({5, 4}, {0, 1}, "int8")), 4u);         // expanded
  EXPECT_EQ(*storage_extent_bytes(tensor({0, 4}, {4, 1})), 0u);
  EXPECT_EQ(*storage_extent_bytes(tensor({}, {}, "bfloat16")), 2u);
}

TEST(StorageExtent, RefusesHostileClaims) {
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_FALSE(storage_extent_bytes(tensor({huge, huge}, {huge, huge})));
  EXPECT_FALSE(storage_extent_bytes(tensor({-1}, {1})));
  EXPECT_FALSE(storage_extent_bytes(tensor({2}, {-1})));
  EXPECT_FALSE(storage_extent_bytes(tensor({2}, {1, 1})));
  EXPECT_FALSE(storage_extent_bytes(tensor({2}, {1}, "float31")));
  EXPECT_FALSE(storage_extent_bytes({{"t", "tensor"}, {"dtype", "int8"}, {"shape", {"2"}}, {"strides", {1}}}));
}

class TensorTree : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::move(*base::TempDir::create("tensor-tree-test"));
    std::vector<float> values = {1, 2, 3, 4, 5, 6};
    std::ofstream(dir_.file("in.bin"), std::ios::binary).write(reinterpret_cast<const char*>(values.data()), 24);
  }
  json inputs() {
    json x = tensor({2, 3}, {3, 1});
    x["file"] = "in.bin";
    x["offset"] = 0;
    x["nbytes"] = 24;
    return {{"t", "list"}, {"items", {x, {{"t", "int"}, {"v", 3}}, {{"t", "none"}}}}};
  }
  base::TempDir dir_;
  MemorySession session_;
};

TEST_F(TensorTree, InputsKeepTheirAddressUntilTheyMove) {
  InputPlacer placer(session_);
  json first = *placer.place(inputs(), dir_.path(), false);
  json again = *placer.place(inputs(), dir_.path(), false);
  json moved = *placer.place(inputs(), dir_.path(), true);
  EXPECT_EQ(first["items"][0]["addr"], again["items"][0]["addr"]);
  EXPECT_NE(first["items"][0]["addr"], moved["items"][0]["addr"]);
  EXPECT_EQ(first["items"][1]["v"], 3);
  EXPECT_EQ(session_.live(), 1u);
  EXPECT_EQ(session_.find(std::stoull(moved["items"][0]["addr"].get<std::string>()))->label, "input 0 float32[2,3]");
}

TEST_F(TensorTree, OutputsAreReadFromTheDevice) {
  InputPlacer placer(session_);
  json placed = *placer.place(inputs(), dir_.path(), false);
  json claim = placed["items"][0];
  auto fetched = fetch_outputs(claim, session_, dir_.path(), "out.bin");
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(fetched->bytes, 24u);
  EXPECT_EQ(*base::read_file(dir_.file("out.bin")), *base::read_file(dir_.file("in.bin")));
  EXPECT_EQ(fetch_outputs(claim, session_, dir_.path(), "out.bin")->digest, fetched->digest);
}

TEST_F(TensorTree, ClaimsOutsideLiveMemoryAreTheCandidatesFault) {
  InputPlacer placer(session_);
  json claim = (*placer.place(inputs(), dir_.path(), false))["items"][0];
  json longer = claim;
  longer["shape"] = {2, 4};
  longer["strides"] = {4, 1};
  EXPECT_EQ(fetch_outputs(longer, session_, dir_.path(), "o").error().code, Code::kInvalidArgument);
  json elsewhere = claim;
  elsewhere["addr"] = "18446744073709551615";
  EXPECT_EQ(fetch_outputs(elsewhere, session_, dir_.path(), "o").error().code, Code::kInvalidArgument);
  elsewhere["addr"] = "0x10";
  EXPECT_EQ(fetch_outputs(elsewhere, session_, dir_.path(), "o").error().code, Code::kInvalidArgument);
  EXPECT_EQ(fetch_outputs(json::array(), session_, dir_.path(), "o").error().code, Code::kInvalidArgument);
  json deep = claim;
  for (int i = 0; i < 100; ++i) deep = {{"t", "list"}, {"items", {deep}}};
  EXPECT_EQ(fetch_outputs(deep, session_, dir_.path(), "o").error().code, Code::kInvalidArgument);
}

TEST_F(TensorTree, CpuOutputsAreToldApart) {
  json claim = tensor({2}, {1});
  claim["device"] = "cpu";
  auto fetched = fetch_outputs(claim, session_, dir_.path(), "o");
  ASSERT_TRUE(fetched);
  EXPECT_EQ(fetched->cpu_outputs, std::vector<std::string>{"output 0 float32[2]"});
}

}  // namespace
}  // namespace musacoder::judge
