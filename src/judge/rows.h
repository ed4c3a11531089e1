// Verdict lines (JSONL) as `musacoder verify --batch` writes them, with every key that the batch row carried.
//
//   RowsRead read = *read_rows("verdicts.jsonl", [&](VerdictRow row) { metrics.add(row); });
//   if (read.malformed) warn("{} lines are no verdicts, the first: {}", read.malformed, read.first_error);
//
// A line that is no verdict is counted and skipped; a last line without its newline that cannot be read is a write that
// was cut short (kill -9) and is counted apart. A later line with the same `row_key` replaces nothing: it is a duplicate
// and skipped. Memory: one line at a time, at most kMaxRowBytes long.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "judge/verdict.h"

namespace musacoder::judge {

inline constexpr std::size_t kMaxRowBytes = 64u << 20;

struct VerdictRow {
  Verdict verdict;
  std::string level;                           // "1" from the row's `level` or a task id "level1/19"; "" when unknown
  std::size_t line = 0;                        // 1-based in the file
  std::shared_ptr<const nlohmann::json> json;  // the whole row, unknown keys included
};

struct RowsRead {
  std::size_t rows = 0, malformed = 0, duplicates = 0;
  bool torn_last_line = false;
  std::string first_error;                     // "line 3: ..."
};

// "-" reads stdin. Errors: kNotFound.
Result<RowsRead> read_rows(const std::string& path, const std::function<void(VerdictRow)>& use);

// One row from JSON text. Errors: kInvalidArgument with the field, kUnsupported for another verdict version.
Result<VerdictRow> row_from_text(const std::string& text);

// A text value of the row ("candidate", "reference", "source"), or "" when it is absent or no text.
std::string row_text(const VerdictRow& row, const char* key);

// The `policy` of a row that is still to be judged: "strict" or "report", "" when the row has none or null, so that the
// command line's holds. Errors: kInvalidArgument with what stands there instead.
Result<std::string> row_policy(const nlohmann::json& row);

}  // namespace musacoder::judge
