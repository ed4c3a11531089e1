// Every status a verdict can have, with what it means and what to look at: the one table from which feedback, reports and
// docs/verdicts.md are made (a test compares the page with it).
//
//   const StatusInfo& info = status_info("unsupported:ptx:wgmma.mma_async");
//   info.status == "unsupported:ptx:*";  info.meaning;  info.look_at;
//
// To add a status: one row in statuses.cpp, its row in docs/verdicts.md (`musacoder_verdict_rows --statuses` prints it).
// A new class needs its reward in reward.h and its exit code in verdict.h as well.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace musacoder::judge {

struct StatusInfo {
  std::string_view status;    // "compile_error:nvcc"; a last part "*" stands for any text
  std::string_view title;     // a few words for a heading
  std::string_view meaning;   // one sentence
  std::string_view look_at;   // the next step, one sentence
};

// In the order of the levels.
std::span<const StatusInfo> status_table();
// The row of a status: the exact one, else the longest "*" row that fits, else the class's own "*" row, else a row that
// says the status is unknown. Never fails; the reference lives as long as the program.
const StatusInfo& status_info(std::string_view status);
// True when the table has a row for it (exact or "*").
bool is_known_status(std::string_view status);

// What the reward does with a status: "1 + speed term", "-1", "-0.5 + 0.5 q; -1 when q = 0", "null".
std::string reward_rule(std::string_view status);

// The table as GitHub Markdown: status, meaning, reward, exit code, what to look at.
std::string status_table_markdown();

}  // namespace musacoder::judge
