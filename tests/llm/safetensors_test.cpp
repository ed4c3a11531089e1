#include "llm/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support.h"

namespace musacoder::llm {
namespace {

TEST(Safetensors, ReadsTypesShapesAndBytes) {
  const std::string header =
      R"({"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"none":{"dtype":"I64","shape":[3,0],"data_offsets":[8,8]}}   )";
  const std::string file = safetensors_of(header, std::string("\0\0\x80\x3f\x80\x3f\0\x40", 8));
  const auto parsed = parse_safetensors(file, "x");
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->tensors.size(), 3u);
  EXPECT_EQ(parsed->head, file.substr(0, 8 + header.size()));
  EXPECT_EQ(parsed->metadata, (Safetensors::Metadata{{"format", "pt"}}));
  const TensorView &a = parsed->tensors[0], &b = parsed->tensors[1], &none = parsed->tensors[2];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.elements(), 1);
  float one = 0;
  std::memcpy(&one, a.bytes.data(), 4);
  EXPECT_EQ(one, 1.0f);
  EXPECT_EQ(b.shape, (Shape{2, 1}));
  EXPECT_EQ(b.offset, 8 + header.size() + 4);
  EXPECT_EQ(b.bytes.data(), file.data() + b.offset);
  EXPECT_EQ(none.elements(), 0);
  EXPECT_TRUE(none.bytes.empty());
}

TEST(Safetensors, RefusesWhatDoesNotFit) {
  struct {
    const char *header, *expect;
    std::size_t data = 8;
  } cases[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "'a' is given twice"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "before the end"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "4 bytes after"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "4 bytes at the end"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "takes 12 bytes"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "cut off", 7},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "do not lie in"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,18446744073709551615]}})", "do not lie in"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551616]}})", "not two whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "dimension -2"},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "dimension 2.0"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]}})", "dimension 9223372036854775808"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", "can be counted"},
      {R"({"a":{"dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8]}})", "can be counted"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,8]}})", "whole bytes"},
      {R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", "unknown dtype \"Q4\""},
      {R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", "unknown dtype 7"},
      {R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "shape is not an array"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", "not two whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", "needs dtype"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "nothing else"},
      {R"({"__metadata__":{"a":1}})", "'a' is not a text", 0},
      {R"({"__metadata__":[]})", "not an object", 0},
      {"{\"\xff\":{}}", "not JSON", 0},
      {"[]", "does not begin with {", 0},
      {"{\"a\":", "not JSON", 0},
      {R"({"a":[[[[[[[[[1]]]]]]]]]})", "nested deeper", 0},
  };
  for (const auto& c : cases) {
    const auto parsed = parse_safetensors(safetensors_of(c.header, std::string(c.data, 'x')), "f.safetensors");
    ASSERT_FALSE(parsed) << c.header;
    EXPECT_NE(parsed.error().message.find(c.expect), std::string::npos) << c.header << "\n" << parsed.error().message;
    EXPECT_NE(parsed.error().message.find("f.safetensors"), std::string::npos) << parsed.error().message;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  }
}

TEST(Safetensors, RefusesLengthsBeyondTheFile) {
  const std::string eight = std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  for (const std::string& file : {std::string(), std::string("1234567"), eight + "{}", std::string("\x03\0\0\0\0\0\0\0{}", 10)}) {
    const auto parsed = parse_safetensors(file, "f");
    EXPECT_FALSE(parsed);
  }
  EXPECT_TRUE(parse_safetensors(safetensors_of("{}", ""), "f"));
}

TEST(Safetensors, HeaderReadsBack) {
  std::vector<TensorView> infos = {{.name = "w\n\xe4\xbd\xa0", .dtype = DType::kF8E4M3, .shape = {3}}, {.name = "s", .dtype = DType::kF64, .shape = {}}};
  const auto head = safetensors_header(infos, {{"k", "v"}});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->size() % 8, 0u);
  const std::string file = *head + std::string(11, 'x');
  const auto parsed = parse_safetensors(file, "f");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->tensors[0].name, infos[0].name);
  EXPECT_EQ(parsed->tensors[1].bytes.size(), 8u);
  EXPECT_FALSE(safetensors_header({{.name = "\xff"}}, {}));
  EXPECT_FALSE(safetensors_header({{.name = "a", .shape = {-1}}}, {}));
}

TEST(DType, SizesAndConversions) {
  EXPECT_EQ(dtype_bytes(DType::kF6E2M3, 4), 3u);
  EXPECT_EQ(dtype_bytes(DType::kF6E2M3, 3), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kU64, 1ull << 60), std::nullopt);
  EXPECT_EQ(parse_dtype("F8_E4M3"), DType::kF8E4M3);
  EXPECT_EQ(parse_dtype("bf16"), std::nullopt);
  // IEEE 754 binary16 by hand: one, the largest, the smallest subnormal, the largest subnormal, minus zero.
  EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0x83ff), -1023 * 0x1p-24f);
  EXPECT_TRUE(std::signbit(f16_to_f32(0x8000)));
  EXPECT_EQ(f16_to_f32(0xfc00), -INFINITY);
  EXPECT_TRUE(std::isnan(f16_to_f32(0x7e00)));
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80) << "a tie goes to the even one";
  EXPECT_EQ(f32_to_bf16(1.0f + 0x3p-8f), 0x3f82);
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(f32_to_bf16(3.4e38f), 0x7f80) << "beyond the largest: infinity";
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  for (std::uint32_t b = 0; b < 0x10000; ++b)
    if (!std::isnan(bf16_to_f32(static_cast<std::uint16_t>(b)))) {
      EXPECT_EQ(f32_to_bf16(bf16_to_f32(static_cast<std::uint16_t>(b))), b);
    }
}

}  // namespace
}  // namespace musacoder::llm
