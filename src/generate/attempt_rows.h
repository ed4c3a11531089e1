// Attempts as JSON lines: a verdict line (judge/rows.h) with what was asked and answered, so that `musacoder
// metrics`, `report` and `rft` read it; without a verdict, an answer that `musacoder bench --samples` and
// `verify --batch` take.
//
//   MC_ASSIGN_OR_RETURN(auto file, AttemptFile::open("attempts.jsonl"));
//   if (file->finished(task->code, 3)) skip();       // a sample that an earlier run ended
//   MC_RETURN_IF_ERROR(file->add(attempt, "reduction"));
//
// Keys: task, level, family, reference, candidate, sample, turn, seed, model, last, messages, finish,
// prompt_tokens, tokens, ask_s, judge_s, repeated, error, row_key; and the verdict's. Opening drops a torn
// last line and the rows of samples that were under way.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "base/files.h"
#include "generate/campaign.h"

namespace musacoder::generate {

nlohmann::json attempt_json(const Attempt& attempt, const std::string& family);

class AttemptFile {
 public:
  // Errors: those of files; kUnavailable where another process writes it.
  static Result<std::unique_ptr<AttemptFile>> open(const std::string& path);
  bool finished(const std::string& task_code, int sample) const;
  std::size_t finished_samples() const { return finished_.size(); }
  // Any thread.
  Status add(const Attempt& attempt, const std::string& family);

 private:
  AttemptFile() = default;
  Status lock();
  std::string path_;
  base::Fd fd_;
  std::set<std::string> finished_;
  std::mutex mutex_;
};

}  // namespace musacoder::generate
