// Rows, shards and manifests: what is written is read back, and what is malformed is refused.
#include "synth/record.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "synth/manifest.h"
#include "synth/shards.h"

namespace musacoder::synth {
namespace {

Row good() {
  return {.messages = {{"user", "a task"}, {"assistant", "```python\nclass ModelNew: ...\n```"}},
          .family = "reduction",
          .kind = "generate",
          .stage = 1,
          .task = base::sha256_hex("task"),
          .ops = {"aten::sum"},
          .source = {.teacher = "corpus", .schedule = "block", .from = "reduction/1_sum_rows", .seed = 7},
          .verdict = {.status = "ok", .candidate = base::sha256_hex("answer"), .backend = "vgpu", .reward = 1.0}};
}

TEST(Record, ReadsBackWhatItWrote) {
  Row row = good();
  row.group = "g";
  auto back = row_from_line(row_line(row));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(row_line(*back), row_line(row));
  EXPECT_EQ(back->source.seed, 7u);
  EXPECT_EQ(back->verdict.reward, 1.0);
  const auto json = nlohmann::json::parse(row_line(row));
  EXPECT_EQ(json["messages"][1]["role"], "assistant");
  EXPECT_EQ(json["group"], "g");
  row.verdict.reward.reset();
  EXPECT_TRUE(nlohmann::json::parse(row_line(row))["verdict"]["reward"].is_null());
}

TEST(Record, RefusesWhatCannotBeTaught) {
  EXPECT_TRUE(check_row(good()));
  const auto refused = [](auto change) {
    Row row = good();
    change(row);
    auto status = check_row(row);
    return status ? std::string() : status.error().message;
  };
  EXPECT_NE(refused([](Row& r) { r.messages.pop_back(); }), "");
  EXPECT_NE(refused([](Row& r) { r.messages.push_back({"user", "and now?"}); }), "");
  EXPECT_NE(refused([](Row& r) { r.messages.back().content = " \n"; }), "");
  EXPECT_NE(refused([](Row& r) { r.messages[0].role = "tool"; }), "");
  EXPECT_NE(refused([](Row& r) { r.kind = "generated"; }), "");
  EXPECT_NE(refused([](Row& r) { r.family.clear(); }), "");
  EXPECT_NE(refused([](Row& r) { r.task = "abc"; }), "");
  EXPECT_NE(refused([](Row& r) { r.verdict.candidate.clear(); }), "");
  EXPECT_NE(refused([](Row& r) { r.verdict.status = "correctness_error:values"; }), "");
  EXPECT_NE(refused([](Row& r) { r.messages[0].content += "<|im_end|>"; }).find("<|im_end|>"), std::string::npos);
  EXPECT_NE(refused([](Row& r) { r.kind = "review"; }), "");
  EXPECT_EQ(refused([](Row& r) {
              r.kind = "review";
              r.verdict.status = "runtime_error:race";
              r.messages.back().content = "the barrier is missing\n\nVERDICT: INCORRECT\n";
            }),
            "");
  EXPECT_EQ(refused([](Row& r) {
              r.kind = "qa";
              r.task.clear();
              r.verdict = {};
            }),
            "");
}

TEST(Record, ControlWords) {
  EXPECT_EQ(control_word("a <| b |> c"), "");
  EXPECT_EQ(control_word("x<|a-b|>"), "");
  EXPECT_EQ(control_word("kernel<<<grid, 256>>>(x); a<b||c>d"), "");
  EXPECT_EQ(control_word("a<|endoftext|>b"), "<|endoftext|>");
  EXPECT_EQ(control_word("template <s></s>"), "<s>");
}

TEST(Record, MalformedLinesNameTheirKey) {
  for (const auto& [line, word] : {std::pair{"[]", "object"}, {"{}", "messages"}, {R"({"messages":[1]})", "message"}, {R"({"messages":[{"role":"user"}]})", "content"},
                                   {R"({"messages":[],"family":1})", "family"}, {R"({"messages":[],"family":"a","kind":"qa","ops":[1]})", "ops"},
                                   {R"({"messages":[],"family":"a","kind":"qa","stage":"x"})", "stage"}, {"{\"messages", "object"}}) {
    auto row = row_from_line(line);
    ASSERT_FALSE(row) << line;
    EXPECT_NE(row.error().message.find(word), std::string::npos) << row.error().message;
  }
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  auto status = read_lines(path, [&](std::string_view line) {
    lines.emplace_back(line);
    return ok();
  });
  EXPECT_TRUE(status) << status.error().message;
  return lines;
}

TEST(Shards, BoundedWholeAndReadByOthers) {
  auto dir = base::TempDir::create("shards");
  ASSERT_TRUE(dir);
  ShardWriter writer(dir->path(), "rows", 1000);
  std::vector<std::string> written;
  for (int i = 0; i < 50; ++i) {
    written.push_back("{\"n\":" + std::to_string(i) + ",\"pad\":\"" + std::string(90, 'a' + i % 26) + "\"}");
    ASSERT_TRUE(writer.add(written.back()));
  }
  auto shards = writer.finish();
  ASSERT_TRUE(shards);
  EXPECT_EQ(shards->size(), 5u);  // 107 or 108 bytes a line: the tenth passes 1000
  std::vector<std::string> read;
  std::uint64_t rows = 0;
  for (const Shard& shard : *shards) {
    const auto lines = lines_of(dir->file(shard.file));
    EXPECT_EQ(lines.size(), shard.rows);
    rows += shard.rows;
    read.insert(read.end(), lines.begin(), lines.end());
    EXPECT_EQ(*base::sha256_file(dir->file(shard.file)), shard.sha256);
    // The zstd program reads them too.
    EXPECT_EQ(std::system(("zstd -q -t " + dir->file(shard.file) + " 2>/dev/null").c_str()), 0);
  }
  EXPECT_EQ(rows, 50u);
  EXPECT_EQ(read, written);
  EXPECT_FALSE(base::exists(dir->file("rows-00005.jsonl.zst")));
}

TEST(Shards, RefusesWhatIsCutOrForeign) {
  auto dir = base::TempDir::create("shards");
  ASSERT_TRUE(dir);
  ShardWriter writer(dir->path(), "rows", 1 << 20);
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(writer.add(std::to_string(i * 7919) + " some text"));
  auto shards = writer.finish();
  ASSERT_TRUE(shards);
  const std::string path = dir->file(shards->at(0).file);
  const std::string whole = *base::read_file(path);
  const auto ignore = [](std::string_view) { return ok(); };
  ASSERT_TRUE(base::write_file(path, whole.substr(0, whole.size() - 7)));
  EXPECT_FALSE(read_lines(path, ignore));
  ASSERT_TRUE(base::write_file(path, "no zstd"));
  EXPECT_FALSE(read_lines(path, ignore));
  EXPECT_FALSE(read_lines(dir->file("absent.jsonl"), ignore));
}

TEST(Manifests, ReadBackAndRefused) {
  auto dir = base::TempDir::create("manifest");
  ASSERT_TRUE(dir);
  Manifest manifest{.generator = "g 1",
                    .verifier = "v 1 vgpu",
                    .seed = 9,
                    .rows_by_kind = {{"generate", 3}},
                    .rows_by_family = {{"reduction", 3}},
                    .mixture = {{"reduction", 1.5}},
                    .sections = {{"guard", R"({"dropped":2})"}},
                    .shards = {{.file = "rows-00000.jsonl.zst", .sha256 = base::sha256_hex(""), .rows = 3, .bytes = 4, .raw_bytes = 5}}};
  ASSERT_TRUE(write_manifest(dir->path(), manifest));
  auto back = read_manifest(dir->path());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->rows_by_kind, manifest.rows_by_kind);
  EXPECT_EQ(back->mixture, manifest.mixture);
  EXPECT_EQ(back->sections.at("guard"), R"({"dropped":2})");
  EXPECT_EQ(back->shards.at(0).rows, 3u);
  for (const char* bad : {"{}", "[", R"({"version":2})"}) {
    ASSERT_TRUE(base::write_file(dir->file("manifest.json"), bad));
    EXPECT_FALSE(read_manifest(dir->path())) << bad;
  }
  manifest.shards[0].file = "../outside";
  ASSERT_TRUE(write_manifest(dir->path(), manifest));
  EXPECT_FALSE(read_manifest(dir->path()));
}

}  // namespace
}  // namespace musacoder::synth
