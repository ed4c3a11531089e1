// The human report of one verdict, and the table of many, as text for a terminal or a pipe.
//
//   Terminal term(stdout);
//   fmt::print("{}", verdict_report(verdict, term));
//   fmt::print("{}", verdict_table({{"relu", &verdict}}, term));
//
//   ✗ runtime_error:illegal_access   level1/19
//   A kernel touched memory outside every live tensor …
//
//     ✓ L0 build         0.9 s   slim headers
//     ✗ L1 run           …
//
// Strings from outside are made printable; colours only where the terminal wants them (base/terminal.h).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/terminal.h"
#include "judge/feedback.h"
#include "judge/verdict.h"

namespace musacoder::cli {

// `sources` as in judge::FeedbackOptions: texts that lines are quoted from.
std::string verdict_report(const judge::Verdict& verdict, const base::Terminal& terminal,
                           const std::map<std::string, std::string>& sources = {});

struct TableRow {
  std::string name = {};             // empty: the verdict's task
  const judge::Verdict* verdict = nullptr;
};
// Columns: task, status, L0–L4, q, reward, seconds, cause; a summary line of statuses at the end.
std::string verdict_table(const std::vector<TableRow>& rows, const base::Terminal& terminal);

// "31 verified, 12 compile_error, 3 unsupported" in a fixed order of classes, coloured.
std::string class_summary(const std::map<std::string, std::size_t>& statuses, const base::Terminal& terminal);

}  // namespace musacoder::cli
