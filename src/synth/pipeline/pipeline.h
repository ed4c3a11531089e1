// The data factory: tasks → contamination guard → filters → teachers → verdicts → rows of three stages → shards and a manifest.
//
//   DataConfig config{.out = "data", .tasks = {"tasks"}, .corpus = {"corpus/honest"}, .seed = 7};
//   MC_ASSIGN_OR_RETURN(DataReport report, make_data(config, *examiner, worker, writer, teachers, progress));
//
// Work that costs time (graphs, audits, answers of teachers, verdicts) is kept in journals below `out`/work as it is done; everything else is
// computed from them anew. So a run that was killed goes on where it was, and the same configuration and seed write the same bytes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "synth/pipeline/examiner.h"
#include "synth/pipeline/graph_worker.h"
#include "synth/pipeline/rows.h"
#include "synth/teacher/teacher.h"

namespace musacoder::synth {

// A task that a generator made, with what its teacher needs to know.
struct GeneratedTask {
  std::string id, code;
  std::optional<Graph> graph;
  std::vector<std::string> styles = {};   // the same task's file, written otherwise: what answers it answers these
};

struct DataConfig {
  std::string out;                        // folder; its manifest, shards and mixture are replaced
  std::vector<GeneratedTask> generated;   // before those of `tasks`
  std::vector<std::string> tasks;         // folders, .py and .jsonl files of tasks
  std::vector<std::string> corpus;        // folders of cases (docs/corpus.md): verified answers to those tasks
  std::string kernelbench;                // JSONL of the tasks that data must not hold; empty: no guard
  std::vector<int> guard_levels = {1, 2, 3};
  std::vector<std::string> held_out;      // task sets that data must not hold either: what a model is measured on
  std::function<bool()> stop;             // asked between tasks; true ends the run with kUnavailable, and the same call goes on
  std::vector<int> stages = {1, 2, 3};
  std::uint64_t seed = 1;
  int answers = 2;                        // of each teacher, a task
  int mutants = 8;                        // of each task's first verified answer
  int rollouts = 1;                       // multi-turn conversations, a task
  RolloutFilter rollout;
  double rewrite_gain = 1.2;              // by estimate
  bool cases = false;                     // unit tests a task, written into its file
  std::vector<std::string> general;       // JSONL with messages: the general slot
  double general_share = 0.3;             // of the mixture
  std::vector<std::string> documents;     // Markdown: knowledge questions
  std::string diagnostic;                 // JSONL with family and status: what a model can already do
  std::size_t limit = 0;                  // tasks; 0: all
  std::uint64_t shard_bytes = 64ull << 20;
  std::string generator = "musacoder";    // name and version, for the manifest
};

struct Share {
  std::size_t tried = 0, verified = 0;
};

struct DataReport {
  std::size_t tasks = 0, kept = 0, rows = 0;
  std::map<std::string, std::size_t> dropped;                       // reason → tasks
  std::map<std::string, std::vector<std::string>> contaminated;     // "level 1: 19_ReLU" → ids of our tasks that equal it
  std::map<std::string, std::map<std::string, Share>> answers;      // teacher → family
  std::size_t styled = 0;                                           // rows whose prompt shows the task in another style
  std::size_t not_judged = 0;                                       // answers without a verdict, where none was to be made
  std::map<std::string, std::size_t> unanswered;                    // "program: why not" → tasks
  std::map<std::string, std::map<std::string, std::size_t>> mutations;  // kind → status class ("ok": it changed nothing that shows)
  std::map<std::string, std::size_t> rollouts;                      // kept, or why not
  std::map<std::string, std::map<std::string, std::size_t>> rewrites;   // pattern → kept, no_gain, not_verified
  std::map<std::string, std::size_t> refused_rows;                  // why check_row() refused
  std::map<std::string, std::map<std::string, std::size_t>> rows_by_family;  // kind → family
  std::size_t judged_now = 0;                                       // verdicts of this process
  double seconds = 0;
};

// A line of progress: "verdicts 12/80".
using DataProgress = std::function<void(const std::string&)>;

// Errors: kInvalidArgument (configuration, malformed input), those of the examiner and of writing.
Result<DataReport> make_data(const DataConfig& config, Examiner& examiner, GraphWorker& worker, const RowWriter& writer, const std::vector<Teacher*>& teachers,
                             const DataProgress& progress = {});

// family → weight of the mixture: with a diagnostic's shares of solved tasks weak families up and strong ones down, between 1/4 and 4 and 1 on
// average; without, element-wise families 1/2 and the others 1. Families without a diagnostic get 1.
std::map<std::string, double> family_weights(const std::map<std::string, std::size_t>& rows, const std::map<std::string, Share>& diagnostic);

}  // namespace musacoder::synth
