// From verified answers, faults and verdicts to rows of training data. Pure: nothing is judged or asked here, and the texts say only
// what verdicts, counters and the faults' own descriptions hold.
//
//   RowWriter writer(prompts, table, {.form = "compact"});
//   MC_ASSIGN_OR_RETURN(Row row, writer.generate(task, answer));
//   MC_ASSIGN_OR_RETURN(Row repair, writer.repair(task, broken, answer, seed));     // kind by MooreEval's class of the fault
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "synth/mutation.h"
#include "synth/pipeline/examiner.h"
#include "synth/pipeline/graph_worker.h"
#include "synth/record.h"
#include "task/prompt.h"

namespace musacoder::synth {

struct TaskEntry {
  std::string id, code, hash;       // hash: SHA-256 of the code
  TaskGraph graph;
};

// An answer with what MooreEval said of it.
struct Judged {
  std::string file, schedule, derivation, teacher;
  std::uint64_t seed = 0;
  Examined verdict;
};

struct Turn {
  std::string file;
  Examined verdict;
};

// "5 + 3" (arXiv 2606.04847 §3.3.1): infrastructure's turns removed; kept where the last turn is correct and, where several are, at least
// `gain` times as fast as the first correct one; at most `turns` turns, and `extra` more where the last of those is a repair. Empty: dropped,
// and `why` says so ("last_wrong", "no_gain", "too_long", "one_turn").
struct RolloutFilter {
  int turns = 5, extra = 3;
  double gain = 1.2;
};
std::vector<Turn> keep_rollout(std::vector<Turn> turns, const RolloutFilter& filter, std::string& why);

struct RowOptions {
  std::string form = "compact";     // of the prompt (task/prompt.h)
  std::string exemplar;             // its name; empty: none
};

class RowWriter {
 public:
  RowWriter(const task::Prompts& prompts, const port::RenameTable& table, RowOptions options) : prompts_(prompts), table_(table), options_(std::move(options)) {}

  // Errors: kInvalidArgument for a reference that is no text, and what check_row() finds.
  Result<Row> generate(const TaskEntry& task, const Judged& answer) const;
  // Stage 2: the prompt with shapes and hint; the answer with its derivation where there is one.
  Result<Row> derive(const TaskEntry& task, const Judged& answer) const;
  Result<Row> repair(const TaskEntry& task, const Mutant& mutant, const Examined& broken, const Judged& answer) const;
  Result<Row> multi_turn(const TaskEntry& task, const std::vector<Turn>& turns, const std::string& schedule, std::uint64_t seed) const;
  // Of a faulty candidate, or (mutant null) of a right one.
  Result<Row> review(const TaskEntry& task, const std::string& file, const Mutant* mutant, const Examined& verdict) const;
  // Two rows: predict and diagnose.
  Result<std::vector<Row>> profile(const TaskEntry& task, const Judged& answer) const;
  Result<Row> rewrite(const TaskEntry& task, const Judged& slow, const std::string& pattern, const Judged& fast) const;
  // What a failure means: question and answer from a verdict and the fault behind it.
  Result<Row> failure_question(const TaskEntry& task, const Mutant& mutant, const Examined& broken) const;

 private:
  Result<std::string> prompt(const TaskEntry& task, bool blocks) const;
  const task::Prompts& prompts_;
  const port::RenameTable& table_;
  RowOptions options_;
};

// Sections of a Markdown document as questions and answers; sections without enough text are left out.
std::vector<Row> document_questions(const std::string& name, const std::string& markdown);

// "[Tensor Shape Information]" and "[Kernel Generation Hint]" put behind a prompt's last block of Python, which is the reference.
std::string with_blocks(const std::string& prompt, const TaskGraph& graph);

// What the counters of a call say, as lines of a table.
std::string counters_text(const Examined& verdict);

// repair_compile, repair_runtime, repair_values or repair_legality; "" for what is no candidate's fault.
std::string repair_kind(const std::string& status);

}  // namespace musacoder::synth
