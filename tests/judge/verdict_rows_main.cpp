// Prints verdict lines for tests of what reads them.
//   musacoder_verdict_rows            one line for every status, then 50 random ones
//   musacoder_verdict_rows --many N   N lines as a batch writes them, with candidates
//   musacoder_verdict_rows --statuses the table of docs/verdicts.md
//   musacoder_verdict_rows --feedback the feedback of every status
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "judge/feedback.h"
#include "judge/statuses.h"
#include "verdict_samples.h"

using namespace musacoder::judge;

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "--statuses") {
    fmt::print("{}", status_table_markdown());
  } else if (mode == "--feedback") {
    for (const auto& verdict : samples::every_status())
      fmt::print("{}\n", feedback_text(make_feedback(verdict, {.round = 1, .sources = {{"candidate.py", samples::candidate_source()}}})));
  } else if (mode == "--many" && argc > 2) {
    const auto all = samples::every_status();
    const int count = std::atoi(argv[2]);
    for (int i = 0; i < count; ++i) {
      // About half verified, the rest spread over every status.
      const auto mixed = static_cast<std::uint64_t>(i) * 2654435761u % 1000003;
      const std::string status = mixed % 100 < 45 ? "ok" : mixed % 100 < 60 ? "correctness_error:values" : all[mixed % all.size()].status;
      const int level = 1 + i % 3;
      auto row = to_json(samples::verdict_of(status, fmt::format("level{}/{}", level, i / 8 % 100 + 1), mixed));
      row["row_key"] = fmt::format("{:08x}", i);
      row["level"] = level;
      row["run"] = fmt::format("model_{}", i % 5);
      row["sample"] = i % 8;
      row["candidate"] = samples::candidate_source();
      fmt::print("{}\n", row.dump());
    }
  } else {
    for (const auto& verdict : samples::every_status()) fmt::print("{}\n", to_json(verdict).dump());
    for (std::uint64_t seed = 1; seed <= 50; ++seed) fmt::print("{}\n", to_json(samples::random_verdict(seed)).dump());
  }
  return 0;
}
