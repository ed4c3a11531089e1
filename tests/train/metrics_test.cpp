#include "train/metrics/metrics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

namespace musacoder::train {
namespace {

TEST(Crc32c, IsThatOfRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

class MetricsTest : public testing::Test {
 protected:
  std::vector<nlohmann::json> lines() const {
    std::istringstream text(base::read_file(dir_.file("metrics.jsonl")).value());
    std::vector<nlohmann::json> out;
    for (std::string line; std::getline(text, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
  base::TempDir dir_ = base::TempDir::create("metrics-test").value();
};

TEST_F(MetricsTest, ARunThatIsTakenUpDropsWhatItWillWriteAgain) {
  {
    auto metrics = Metrics::open(dir_.path(), {});
    ASSERT_TRUE(metrics);
    for (int step = 1; step <= 4; ++step)
      ASSERT_TRUE(metrics->write(step, {{"train/loss", 1.5 / step}, {"n", 3}}));
    ASSERT_TRUE(metrics->write(5, {{"train/loss", std::nan("")}}));
  }
  EXPECT_EQ(lines().size(), 5u);
  EXPECT_EQ(lines()[3]["train/loss"], 0.375);
  EXPECT_TRUE(lines()[3]["n"].is_number_integer());
  EXPECT_TRUE(lines()[4]["train/loss"].is_null());
  ASSERT_TRUE(base::write_file(dir_.file("metrics.jsonl"),
                               base::read_file(dir_.file("metrics.jsonl")).value() + "{\"step\": 6, \"tr"));
  auto metrics = Metrics::open(dir_.path(), {.resumed_at = 3});
  ASSERT_TRUE(metrics) << metrics.error().message;
  EXPECT_EQ(lines().size(), 3u);
  ASSERT_TRUE(metrics->write(4, {{"train/loss", 1}}));
  EXPECT_EQ(lines().size(), 4u);
}

// The format is read by an independent reader in tests/python/test_sft.py.
TEST_F(MetricsTest, EventFilesHaveRecords) {
  base::FakeClock clock;
  auto events = EventFile::create(dir_.path(), clock, 7);
  ASSERT_TRUE(events);
  ASSERT_TRUE(events->write(8, {{"a", 1}}));
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
    bytes = base::read_file(entry.path().string()).value();
  // wall_time (9), step (2) and: file_version (2 + 13), session_log (2 + 2), summary (2 + (2 + (2 + 1) + 5))
  const std::size_t sizes[] = {11 + 15, 11 + 4, 11 + 12};
  std::size_t at = 0;
  for (const std::size_t size : sizes) {
    ASSERT_LT(at + 12, bytes.size());
    EXPECT_EQ(static_cast<unsigned char>(bytes[at]), size);
    at += 8 + 4 + size + 4;
  }
  EXPECT_EQ(at, bytes.size());
}

}  // namespace
}  // namespace musacoder::train
