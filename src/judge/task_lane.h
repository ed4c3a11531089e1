// Tasks as the judge sees them: opened at a reference runner, their trials, their audit.
//
//   MC_ASSIGN_OR_RETURN(auto lane, TaskLane::start({.runtime_dir = rt, …}, config));
//   auto hold = lane->hold();
//   MC_ASSIGN_OR_RETURN(auto task, lane->open("level1/19", code, {}, 3e7));
//   MC_ASSIGN_OR_RETURN(auto prepared, lane->ask({{"op", "trial"}, {"handle", task->handle()}, …}, 60));
//
// On the virtual GPU every judge has a lane of its own and one task open. On real hardware all judges of a GPU share one: its
// reference runner holds the GPU's memory and clock, and who holds the lane has the GPU to itself, among processes too.
//
// A failure that already is a verdict travels as an Error whose message begins with the status (ended_status).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "judge/judge.h"
#include "task/reference_client.h"

namespace musacoder::judge {

// Status and sentence of an error of TaskLane: "invalid_task:timeout", "infra:reference_runner".
std::pair<std::string, std::string> ended_status(const Error& error);

// One opened task. Kept open while somebody holds it.
struct OpenTask {
  std::string key, id, code;
  std::map<std::string, std::int64_t> pins;
  double work_budget = 0;
  nlohmann::json inputs;            // of a case: "values", "layout", "dtype" (docs/protocols.md §2); null for the task's own
  nlohmann::json reply;             // of `open`
  int generation = 0;               // which start of the runner knows the handle
  nlohmann::json handle() const { return reply.value("handle", nlohmann::json()); }
  bool computes() const { return reply.value("computes", true); }
  std::string dtype() const { return inputs.is_object() ? inputs.value("dtype", "") : ""; }
};

class TaskLane {
 public:
  // Errors: those of ReferenceClient::start; kUnavailable.
  static Result<std::shared_ptr<TaskLane>> start(const JudgeConfig& config);

  // Everything below is for one thread at a time: hold the lane.
  class Hold {
   public:
    explicit Hold(TaskLane& lane);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    TaskLane& lane_;
  };
  [[nodiscard]] Hold hold() { return Hold(*this); }

  Result<std::shared_ptr<OpenTask>> open(const std::string& id, const std::string& code,
                                         const std::map<std::string, std::int64_t>& pins, double work_budget,
                                         const nlohmann::json& inputs = nullptr);
  // Opens it again when the runner was started anew since.
  Status ensure(OpenTask& task);
  Result<nlohmann::json> ask(const nlohmann::json& request, double seconds);
  // The audit's findings, from memory, the cache folder, or the runner.
  Result<nlohmann::json> audit(const OpenTask& task);

  const std::string& run_dir() const { return run_dir_.path(); }   // files between judge and runner; candidates never see it
  std::string run_file(const std::string& name) const { return run_dir_.file(name); }
  bool on_device() const { return on_device_; }

  // Copies the files of an opened task's `state` into `folder`, which a candidate may read, so that it cannot reach the reference's;
  // the entries then name the copies. An error's `trouble`: "run_folder" where a file is not there, "disk" where none can be written.
  Status copy_state(nlohmann::json& state, const std::string& folder, std::string& trouble) const;

  std::set<std::string> axes_too_large;   // task and size that do not fit the budget

 private:
  JudgeConfig config_;
  bool on_device_ = false;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t last_ = 0, serving_ = 0;           // tickets: who asked first holds first, so that candidates of a task stay together
  base::Fd gpu_lock_;                              // a file that all processes of this user lock while they use the GPU
  base::TempDir run_dir_;
  std::unique_ptr<task::ReferenceClient> reference_;
  std::vector<std::shared_ptr<OpenTask>> tasks_;   // the latest used last
  std::map<std::string, nlohmann::json> audits_;   // by task key

  Status open_at_runner(OpenTask& task);
  Status make_room();
};

}  // namespace musacoder::judge
