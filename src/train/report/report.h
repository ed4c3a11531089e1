// Runs as one HTML page: curves of everything in their metrics.jsonl, tiles of where they stand, what they
// were told, and some answers.
//
//   MC_RETURN_IF_ERROR(run_report({.runs = {"runs/rl", "runs/rl-no-mask"}, .out = "compared.html"}));
//
// The page holds its data, style and script and asks for nothing else; it follows the system's light or dark
// colours and is usable by keyboard. Texts of answers are shown as text, never as HTML. Errors: kNotFound (no
// metrics.jsonl), kInvalidArgument with file:line.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::train {

struct RunReportOptions {
  std::vector<std::string> runs;
  std::string out = "report.html", title;
};
Status run_report(const RunReportOptions& options);

// The page of these runs; for tests.
Result<std::string> report_page(const RunReportOptions& options);

}  // namespace musacoder::train
