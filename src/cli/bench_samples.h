// The samples of `musacoder bench`: models' answers for the tasks of a suite, from a JSONL file or a run of
// KernelBench.
//
//   MC_ASSIGN_OR_RETURN(BenchSamples read, read_samples("samples.jsonl", suite));
//   for (const BenchSample& sample : read.samples) rows << batch_row(sample) << '\n';
//
// A JSONL row names its task by `task` (or `task_id`), by `level` with `id` (or `problem_id`), or by `name`,
// and has one of `candidate` and `answer` (text) and `samples` (a list of texts, or of objects with
// `candidate` or `answer`). A folder holds files level_<L>_problem_<P>_sample_<S>_kernel.py, as KernelBench's
// scripts/generate_samples.py writes them to runs/<name>; its other files (results, prompts, configuration)
// are passed over.
//
// Rows and files that cannot be used are listed with their place and the reason; the others are taken all the
// same.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/suite.h"

namespace musacoder::cli {

struct BenchSample {
  const task::Task* task = nullptr;  // of the suite, which must outlive this
  int index = 0;                     // within the task: the file name's in a folder, else by order from 0
  std::string candidate, candidate_name;
  std::string source;  // "samples.jsonl:12", "runs/x/level_1_problem_19_sample_0_kernel.py"
};

struct RefusedSample {
  std::string source, reason;
};

struct BenchSamples {
  std::vector<BenchSample> samples;
  std::vector<RefusedSample> refused;
  std::size_t other_levels = 0;      // samples of tasks in levels that are left out
  std::size_t other_references = 0;  // rows whose own `reference` is not the suite's code
};

// Errors: kNotFound; kInvalidArgument when a folder holds no file of KernelBench's form.
Result<BenchSamples> read_samples(const std::string& path, const Suite& suite);
BenchSamples read_sample_rows(std::istream& in, const std::string& source, const Suite& suite);

// The row for run_batch (cli/batch.h). The same text for the same task code, sample number and candidate, so
// that a second run finds the sample's verdict; equal candidates of a task differ by their number.
std::string batch_row(const BenchSample& sample);

}  // namespace musacoder::cli
