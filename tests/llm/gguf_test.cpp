#include "llm/checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <cstring>

#include "llm/tokenizer/gguf_tokenizer.h"
#include "support.h"

namespace musacoder::llm {
namespace {

// Files made by hand, number by number.
class Bytes {
 public:
  template <typename T>
  Bytes& put(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    text_.append(raw, sizeof(T));
    return *this;
  }
  Bytes& u32(std::uint32_t v) { return put(v); }
  Bytes& u64(std::uint64_t v) { return put(v); }
  Bytes& str(std::string_view s) {
    u64(s.size());
    text_ += s;
    return *this;
  }
  Bytes& raw(std::string_view s) {
    text_ += s;
    return *this;
  }
  Bytes& pad(std::size_t to) {
    while (text_.size() % to) text_ += '\0';
    return *this;
  }
  operator std::string() const { return text_; }

 private:
  std::string text_;
};

Bytes head(std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3) {
  return Bytes().raw("GGUF").u32(version).u64(tensors).u64(pairs);
}
Bytes& tensor(Bytes& b, std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type, std::uint64_t offset) {
  b.str(name).u32(static_cast<std::uint32_t>(dims.size()));
  for (const auto d : dims) b.u64(d);
  return b.u32(type).u64(offset);
}

TEST(Gguf, ReadsWhatIsThere) {
  for (const std::uint32_t version : {2u, 3u}) {
    Bytes b = head(2, 3, version);
    b.str("general.architecture").u32(8).str("llama");
    b.str("n").u32(1).put(std::int8_t{-3});
    b.str("general.alignment").u32(4).u32(64);
    tensor(b, "a", {2, 3}, 0, 0);
    tensor(b, "b", {}, 1, 64);
    b.pad(64).raw(std::string(24, 'x')).pad(64).put(std::uint16_t{0x3c00});
    const std::string text = b;
    const auto file = Gguf::parse(std::string_view(text), "f");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->version(), version);
    EXPECT_EQ((*file)->text("general.architecture"), "llama");
    EXPECT_EQ((*file)->integer("n"), -3);
    EXPECT_EQ((*file)->number("n"), -3.0);
    EXPECT_EQ((*file)->integer("general.architecture"), std::nullopt);
    EXPECT_EQ((*file)->find("a")->shape, (Shape{3, 2})) << "rows first";
    EXPECT_EQ((*file)->find("a")->bytes, std::string(24, 'x'));
    float one = 0;
    ASSERT_TRUE(dequantize(*(*file)->find("b"), 0, 1, &one)) << "a scalar is one element";
    EXPECT_EQ(one, 1.0f);
    EXPECT_FALSE(dequantize(*(*file)->find("b"), 0, 2, &one));
    EXPECT_FALSE(dequantize(*(*file)->find("b"), -1, 1, &one));
  }
}

TEST(Gguf, RefusesWhatDoesNotFit) {
  const auto with_tensors = [](auto... tensors) {
    Bytes b = head(sizeof...(tensors), 0);
    (tensors(b), ...);
    return std::string(b.pad(32).raw(std::string(64, 'x')));
  };
  const auto one = [](std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type, std::uint64_t offset) {
    return [=](Bytes& b) { tensor(b, name, dims, type, offset); };
  };
  const std::uint64_t big = ~0ull;
  struct {
    std::string file;
    const char* expect;
  } cases[] = {
      {"", "cut off"},
      {"GGML", "does not begin with GGUF"},
      {head(0, 0, 1), "version 1"},
      {head(0, 0, 0x03000000), "big-endian"},
      {head(0, 0, 4), "version 4"},
      {head(big, 0), "tensors cannot fit"},
      {head(0, big), "keys cannot fit"},
      {head(0, 1).u64(big).raw(std::string(20, 'k')), "cut off"},
      {head(0, 1).str("").u32(0).u64(0), "key of 0 bytes"},
      {head(0, 1).str("\xff\xfe").u32(0).u64(0), "not UTF-8"},
      {head(0, 1).str("k").u32(13).u64(0), "unknown type 13"},
      {head(0, 1).str("k").u32(7).raw("\x02").u64(0), "neither true nor false"},
      {head(0, 1).str("k").u32(8).u64(1ull << 40), "cut off"},
      {head(0, 1).str("k").u32(9).u32(8).u64(big), "elements cannot fit"},
      {head(0, 1).str("k").u32(9).u32(10).u64(1ull << 61), "elements cannot fit"},
      {head(0, 1).str("k").u32(9).u32(99).u64(1), "unknown type 99"},
      {head(0, 1).str("k").u32(9).u32(9).u64(1).u32(9).u64(1).u32(9).u64(1).u32(9).u64(1).u32(9).u64(1).u32(0).u64(0).u64(0), "nested deeper"},
      {head(0, 2).str("k").u32(0).raw("x").str("k").u32(0).raw("x"), "'k' is given twice"},
      {head(0, 1).str("split.count").u32(2).put(std::uint16_t{3}), "split model"},
      {head(0, 1).str("general.alignment").u32(4).u32(24), "power of two"},
      {head(0, 1).str("general.alignment").u32(4).u32(0), "power of two"},
      {head(0, 1).str("general.alignment").u32(8).str("64"), "power of two"},
      {with_tensors(one("a", {8}, 0, 0), one("a", {8}, 0, 32)), "'a' is given twice"},
      {with_tensors(one("a", {8}, 0, 0), one("b", {8}, 0, 0)), "begins at 0 where"},
      {with_tensors(one("a", {4}, 0, 0), one("b", {4}, 0, 16)), "begins at 16 where the one before it ends at 32"},
      {with_tensors(one("a", {4}, 0, 0), one("b", {4}, 0, 64)), "begins at 64"},
      {with_tensors(one("a", {4}, 0, 32)), "begins at 32"},
      {with_tensors(one("a", {8}, 0, 0), one("b", {9}, 0, 32)), "beyond the file"},
      {with_tensors(one("a", {16}, 0, 0), one("b", {0}, 0, 64), one("c", {1}, 0, 64)), "beyond the file"},
      {with_tensors(one("a", {17}, 0, 0)), "takes more than"},
      {with_tensors(one("a", {1ull << 32, 1ull << 32}, 0, 0)), "cannot be F32"},
      {with_tensors(one("a", {1ull << 61}, 28, 0)), "takes more than"},
      {with_tensors(one("a", {big}, 0, 0)), "dimension of"},
      {with_tensors(one("a", {1, 1, 1, 1, 1}, 0, 0)), "5 dimensions"},
      {with_tensors(one("a", {16}, 2, 0)), "[16] cannot be Q4_0"},
      {with_tensors(one("a", {}, 2, 0)), "[] cannot be Q4_0"},
      {with_tensors(one("a", {1}, 77, 0)), "unknown type 77"},
      {with_tensors(one("\xc0\x80", {1}, 0, 0)), "not UTF-8"},
  };
  for (const auto& c : cases) {
    const auto file = Gguf::parse(c.file, "f.gguf");
    ASSERT_FALSE(file) << c.expect;
    EXPECT_NE(file.error().message.find(c.expect), std::string::npos) << c.expect << "\n" << file.error().message;
    EXPECT_EQ(file.error().message.rfind("f.gguf: ", 0), 0u) << file.error().message;
  }
}

// tokenizer.ggml.* of a small vocabulary; `tokens` may be spoilt.
std::string vocabulary(std::vector<std::string> tokens, std::vector<std::string> merges, std::vector<std::int32_t> types, std::string pre = "gpt-2",
                       std::string kind = "gpt2", std::uint32_t bos = 0) {
  Bytes b = head(0, 6);
  b.str("tokenizer.ggml.model").u32(8).str(kind);
  b.str("tokenizer.ggml.pre").u32(8).str(pre);
  b.str("tokenizer.ggml.tokens").u32(9).u32(8).u64(tokens.size());
  for (const auto& t : tokens) b.str(t);
  b.str("tokenizer.ggml.merges").u32(9).u32(8).u64(merges.size());
  for (const auto& m : merges) b.str(m);
  b.str("tokenizer.ggml.token_type").u32(9).u32(5).u64(types.size());
  for (const auto t : types) b.put(t);
  b.str("tokenizer.ggml.bos_token_id").u32(4).u32(bos);
  return b;
}

Result<TokenizerSpec> spec_of(const std::string& bytes) {
  const auto file = Gguf::parse(std::string_view(bytes), "f.gguf");
  EXPECT_TRUE(file) << file.error().message;
  return read_gguf_tokenizer(**file);
}

TEST(GgufTokenizer, Reads) {
  const auto spec = spec_of(vocabulary({"<s>", "a", "b", "ab", "[PAD4]"}, {"a b"}, {3, 1, 1, 1, 5}));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->named.at("bos_token"), "<s>");
  ASSERT_EQ(spec->added.size(), 1u);
  EXPECT_TRUE(spec->added[0].special);
  EXPECT_EQ(spec->merges[0].merged, 3u);
  EXPECT_TRUE(spec->tokens[4].empty()) << "a placeholder is no token";
  EXPECT_TRUE(spec->before.empty());
}

TEST(GgufTokenizer, RefusesWhatDoesNotFit) {
  const std::vector<std::string> tokens = {"<s>", "a", "b", "ab"};
  const std::vector<std::int32_t> types = {3, 1, 1, 1};
  struct {
    std::string file;
    const char* expect;
  } cases[] = {
      {vocabulary(tokens, {"a b"}, types, "gpt-2", "llama"), "kind 'llama'"},
      {vocabulary(tokens, {"a b"}, types, "jais"), "'jais' is not known"},
      {vocabulary(tokens, {"a b"}, {3, 1}), "token_type"},
      {vocabulary(tokens, {"ab"}, types), "'ab' is not two tokens"},
      {vocabulary(tokens, {"b a"}, types), "not of tokens in the vocabulary"},
      {vocabulary({"<s>", "a", "\xff", "ab"}, {}, types), "token 2"},
      {vocabulary({"<s>", "a", "a", "ab"}, {}, types), "'a' is given twice"},
      {vocabulary(tokens, {"a b"}, types, "gpt-2", "gpt2", 4), "bos_token_id 4"},
      {head(0, 0), "has no tokenizer"},
  };
  for (const auto& c : cases) {
    const auto spec = spec_of(c.file);
    ASSERT_FALSE(spec) << c.expect;
    EXPECT_NE(spec.error().message.find(c.expect), std::string::npos) << spec.error().message;
  }
}

}  // namespace
}  // namespace musacoder::llm
