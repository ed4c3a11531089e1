// `musacoder verify --batch ROWS.jsonl --out VERDICTS.jsonl`: many candidates over several lanes.
//
// Row keys: `reference` (task code) or `task` (path or id in --tasks), `candidate` (answer text), `policy` (strict or
// report, over the command line's); every other key is carried through to the verdict's line. A finished verdict is one appended line; after kill -9 the same command goes on:
// rows whose key (hash of row) stands in the output are not judged again, and a line cut short is dropped.
#pragma once

#include <functional>
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

}  // namespace musacoder::cli
