#include "llm/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "llm/tokenizer/added_tokens.h"
#include "llm/tokenizer/unicode.h"
#include "support.h"

// What the differential tests in tests/python show for thousands of texts is not repeated here: these run without the
// reference libraries, on vocabularies small enough to work out by hand.
namespace musacoder::llm {
namespace {

using Ids = std::vector<TokenId>;

// Bytes a..e and space, merges "a b", "ab c", "d e", "Ġ d"; <s> is special, <t> is not.
TokenizerSpec small() {
  TokenizerSpec spec;
  spec.tokens = {"a", "b", "c", "d", "e", "Ġ", "ab", "abc", "de", "Ġd", "<s>", "<t>", "ä", "½", "ł"};
  spec.merges = {{0, 1, 6}, {6, 2, 7}, {3, 4, 8}, {5, 3, 9}};
  spec.added = {{.id = 10, .content = "<s>", .special = true}, {.id = 11, .content = "<t>"}};
  spec.splits = {{.kind = SplitStep::kRegex, .pattern = scanner_pattern(Scanner::kQwen2)}, {.kind = SplitStep::kByteLevel, .use_regex = false}};
  spec.decoders = {{}};
  return spec;
}

TEST(Tokenizer, MergesInOrderOfRank) {
  const auto t = Tokenizer::create(small()).value();
  EXPECT_EQ(*t.encode("abc"), (Ids{7}));
  EXPECT_EQ(*t.encode("abab"), (Ids{6, 6}));
  EXPECT_EQ(*t.encode("bcab"), (Ids{1, 2, 6}));
  EXPECT_EQ(*t.encode("a de"), (Ids{0, 5, 8})) << "d e comes before Ġ d";
  EXPECT_EQ(*t.encode("a dd"), (Ids{0, 9, 3}));
  EXPECT_EQ(*t.encode(""), Ids{});
  EXPECT_EQ(*t.encode("xay"), (Ids{0})) << "symbols without a token and without an unknown token are dropped";
  EXPECT_EQ(t.decode({7, 5, 8, 10, 99, 0}), "abc de<s>a") << "an id without a token gives nothing";
  EXPECT_EQ(t.decode({7, 10, 11}, true), "abc<t>");
}

TEST(Tokenizer, LongWordsMergeAsShortOnes) {
  const auto t = Tokenizer::create(small()).value();
  std::string text;
  Ids want;
  for (int i = 0; i < 500; ++i) {
    text += i % 3 == 0 ? "abc" : i % 3 == 1 ? "de" : "e";
    want.push_back(i % 3 == 0 ? 7 : i % 3 == 1 ? 8 : 4);
  }
  EXPECT_EQ(*t.encode(text), want);
  // Equal pairs that overlap: from the left.
  auto spec = small();
  spec.tokens.push_back("aa");
  spec.merges = {{0, 0, 15}};
  const auto u = Tokenizer::create(std::move(spec)).value();
  for (const std::size_t n : {1, 2, 3, 8, 9, 300, 301}) {
    const Ids ids = *u.encode(std::string(n, 'a'));
    EXPECT_EQ(ids.size(), n / 2 + n % 2) << n;
    EXPECT_EQ(ids.back(), n % 2 ? 0u : 15u) << n;
  }
}

TEST(Tokenizer, TextFromOutsideIsNoSpecialToken) {
  const auto t = Tokenizer::create(small()).value();
  const std::string text = "ab<s><t>";
  EXPECT_EQ(*t.encode(text), (Ids{6, 10, 11}));
  EXPECT_EQ(*t.encode(text, {.specials = Specials::kNone}), (Ids{6, 11}));
  EXPECT_EQ(*t.encode(text, {.specials = Specials::kPlain}), (Ids{6}));
  EXPECT_EQ(*t.encode(text, {.specials = Specials::kListed, .allowed = {"<s>"}}), (Ids{6, 10}));
}

TEST(Tokenizer, PutsTheTemplateAround) {
  auto spec = small();
  spec.before = {10};
  spec.after = {11, 10};
  const auto t = Tokenizer::create(std::move(spec)).value();
  EXPECT_EQ(*t.encode("ab"), (Ids{10, 6, 11, 10}));
  EXPECT_EQ(*t.encode("ab", {.template_tokens = false}), (Ids{6}));
}

TEST(Tokenizer, KnowsWhereTokensAre) {
  auto spec = small();
  spec.normalizers = {{NormalizeStep::kNfc, {}, {}}};
  spec.before = {10};
  spec.after = {11};
  const auto t = Tokenizer::create(std::move(spec)).value();
  const auto spans = [&](std::string_view text) {
    std::string out;
    const auto found = t.encode_spans(text);
    for (const TokenSpan& s : *found) out += fmt::format("{}:{}-{} ", s.id, s.begin, s.end);
    return out;
  };
  EXPECT_EQ(spans("abc<s> de"), "10:0-0 7:0-3 10:3-6 5:6-7 8:7-9 11:9-9 ");
  EXPECT_EQ(spans("ab你"), "10:0-0 6:0-2 12:2-3 13:3-4 14:4-5 11:5-5 ");
  // a + U+0301 becomes á, which has no token here; what is beside it in its part shares its place.
  EXPECT_EQ(spans("<s>b a\u0301<s>"), "10:0-0 10:0-3 1:3-8 5:3-8 10:8-11 11:11-11 ");
  // \xff is read as U+FFFD, ef bf bd in UTF-8, of which only bd (½) has a token here.
  EXPECT_EQ(spans("a\xff" "b"), "10:0-0 0:0-3 13:0-3 1:0-3 11:3-3 ");
  EXPECT_EQ(spans(""), "10:0-0 11:0-0 ");
}

TEST(Tokenizer, StreamsWholeCharacters) {
  const auto t = Tokenizer::create(small()).value();
  // 你 is e4 bd a0, whose stand-ins are ä ½ ł.
  StreamDecoder stream(t);
  EXPECT_EQ(stream.put(0), "a");
  EXPECT_EQ(stream.put(12), "");
  EXPECT_EQ(stream.put(13), "");
  EXPECT_EQ(stream.put(14), "你");
  EXPECT_EQ(stream.put(12), "");
  EXPECT_EQ(stream.put(0), "\xef\xbf\xbd" "a") << "the rest will not come any more";
  EXPECT_EQ(stream.put(13), "\xef\xbf\xbd");
  EXPECT_EQ(stream.put(12), "");
  EXPECT_EQ(stream.end(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.end(), "");
  StreamDecoder quiet(t, true);
  EXPECT_EQ(quiet.put(10), "");
  EXPECT_EQ(quiet.put(11), "<t>");
}

TEST(Tokenizer, ManyThreadsGiveTheSame) {
  const auto t = Tokenizer::create(small()).value();
  std::vector<std::string> texts;
  for (int i = 0; i < 2000; ++i) texts.push_back(std::string(static_cast<std::size_t>(i % 17), 'a') + "b cde abc");
  const auto one = t.encode_batch(texts, {}, 1), four = t.encode_batch(texts, {}, 4);
  ASSERT_TRUE(one && four);
  EXPECT_EQ(*one, *four);
  EXPECT_EQ((*one)[5], *t.encode(texts[5]));
}

TEST(Tokenizer, EndlessExpressionsGiveUp) {
  auto spec = small();
  spec.splits[0].pattern = "(?:a+)+$";
  const auto t = Tokenizer::create(std::move(spec)).value();
  const auto ids = t.encode(std::string(5000, 'a') + "b");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, Code::kResourceExhausted);
  EXPECT_FALSE(t.encode_batch({"ab", std::string(5000, 'a') + "b"}));
}

TEST(AddedTokens, FlagsAndLongestFirst) {
  std::vector<AddedToken> tokens = {{.id = 1, .content = "ab"}, {.id = 2, .content = "abc"}, {.id = 3, .content = "w", .single_word = true},
                                    {.id = 4, .content = "#", .lstrip = true, .rstrip = true}};
  const AddedTokenFinder finder(tokens, {"ab", "abc", "w", "#"});
  const auto found = [&](std::string_view text) {
    std::string out;
    finder.find(text, [](const AddedToken&) { return true; }, [&](std::size_t b, std::size_t e, const AddedToken* t) {
      out += (t ? std::to_string(t->id) : "") + "[" + std::string(text.substr(b, e - b)) + "]";
    });
    return out;
  };
  EXPECT_EQ(found("abcab"), "2[abc]1[ab]");
  EXPECT_EQ(found("xw w.wé"), "[xw ]3[w][.wé]");
  EXPECT_EQ(found("x \n # \t#y"), "[x]4[ \n # \t]4[#][y]");
  EXPECT_EQ(found(""), "");
}

TEST(Unicode, ReplacesMaximalParts) {
  // The Unicode Standard, section 3.9, tables 3-8 to 3-11.
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(valid_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(valid_utf8("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(valid_utf8("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(valid_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), r + r + r + r + "A");
  EXPECT_EQ(incomplete_tail("a\xe4\xbd"), 2u);
  EXPECT_EQ(incomplete_tail("a\xf0\x9f\x99"), 3u);
  EXPECT_EQ(incomplete_tail("a\xe4\xbd\xa0"), 0u);
  EXPECT_EQ(incomplete_tail("\xe0\x80"), 0u) << "nothing that comes can make it a character";
  EXPECT_EQ(incomplete_tail("\xff"), 0u);
}

TEST(Splitter, OtherExpressionsAndBehaviours) {
  const auto words = [](const std::string& pattern, SplitBehaviour behaviour, bool invert, std::string_view text) {
    const auto splitter = Splitter::regex(pattern, behaviour, invert).value();
    EXPECT_FALSE(splitter.scanned());
    std::vector<std::string_view> out;
    EXPECT_TRUE(splitter.run(text, out));
    std::string joined;
    for (const auto w : out) joined += "[" + std::string(w) + "]";
    return joined;
  };
  using B = SplitBehaviour;
  // The examples of Hugging Face's documentation of SplitDelimiterBehavior.
  EXPECT_EQ(words("-", B::kRemoved, false, "the-final--countdown"), "[the][final][countdown]");
  EXPECT_EQ(words("-", B::kIsolated, false, "the-final--countdown"), "[the][-][final][-][-][countdown]");
  EXPECT_EQ(words("-", B::kMergedWithPrevious, false, "the-final--countdown"), "[the-][final-][-][countdown]");
  EXPECT_EQ(words("-", B::kMergedWithNext, false, "the-final--countdown"), "[the][-final][-][-countdown]");
  EXPECT_EQ(words("-", B::kContiguous, false, "the-final--countdown"), "[the][-][final][--][countdown]");
  EXPECT_EQ(words("\\w+", B::kRemoved, true, "a b.c"), "[a][b][c]");
  EXPECT_EQ(words("x*", B::kIsolated, false, "你xx"), "[你][xx]") << "empty matches split nothing";
  EXPECT_FALSE(Splitter::regex("(", B::kIsolated, false));
}

}  // namespace
}  // namespace musacoder::llm
