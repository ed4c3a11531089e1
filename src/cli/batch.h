// `musacoder verify --batch ROWS.jsonl --out VERDICTS.jsonl`: many candidates over several lanes.
//
// Row keys: `reference` (task code) or `task` (path or id in --tasks), `candidate` (answer text), `policy` (strict or
// report, over the command line's); every other key is carried through to the verdict's line. A finished verdict is one
// appended line; after kill -9 the same command goes on: rows whose key (row_key) stands in the output are not judged
// again, and a line cut short is dropped.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "base/status.h"
#include "judge/judge.h"

namespace musacoder::cli {

struct BatchOptions {
  std::string rows, out;
  std::string tasks;             // TaskSet that `task` ids are looked up in; may be empty
  std::string store;             // SQLite file; may be empty
  int lanes = 0;                 // 0: one a core
  bool quiet = false;
  bool keep_candidate = true;    // write `candidate` and `reference` into the verdict line, for report pages
  judge::JudgeConfig judge;
};

struct BatchSummary {
  std::size_t rows = 0, skipped = 0, judged = 0, malformed = 0;
  std::map<std::string, std::size_t> statuses;   // of this run
  double seconds = 0;
  bool interrupted = false;
};

// Errors: unreadable rows, unwritable output, no lane could start. Everything else ends in a verdict line.
Result<BatchSummary> run_batch(const BatchOptions& options);
// The same with the rows from a stream; `options.rows` is not read.
Result<BatchSummary> run_batch(const BatchOptions& options, std::istream& rows);

// `row_key` of a row's verdict: a hash of the row's line, without its newline.
std::string row_key(std::string_view line);

// A command's exit code for an error of run_batch: 2 when what was given is at fault, else 3.
int batch_exit_code(const Error& error);

}  // namespace musacoder::cli
