// A run's folder: its checkpoints, of which the newest whole one is where it goes on.
//
//   RunFolder folder("runs/first");
//   MC_ASSIGN_OR_RETURN(const std::string newest, folder.newest());        // empty: a new run
//   MC_RETURN_IF_ERROR(folder.write(step, state, bytes, [&](const std::string& to) { return model.save(to); }));
//   MC_RETURN_IF_ERROR(folder.keep(2));
//
//   runs/first/checkpoints/step-00000100/{model,optimizer}/, trainer.json     put in place by one rename
//   runs/first/checkpoints/latest -> step-00000100                            for people
//
// A process that is killed at any moment leaves whole checkpoints and perhaps a folder that the next start
// removes. Errors: kResourceExhausted (disk full; older checkpoints stay), kInvalidArgument (not a run's
// folder).
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.h"

namespace musacoder::train {

class RunFolder {
 public:
  explicit RunFolder(std::string run_dir) : dir_(std::move(run_dir)) {}
  std::string checkpoints() const { return dir_ + "/checkpoints"; }
  std::string of_step(std::int64_t step) const;
  // The newest checkpoint's folder; empty: there is none.
  Result<std::string> newest() const;
  // What write() was given as `state`. kUnsupported: of a format that this program does not know.
  static Result<nlohmann::ordered_json> read(const std::string& checkpoint);
  // `state`: where the run stands, besides its tensors; an object.
  Status write(std::int64_t step, const nlohmann::ordered_json& state, std::uint64_t bytes,
               const std::function<Status(const std::string& folder)>& save) const;
  // Removes all but the newest `count`; 0: none.
  Status keep(std::int64_t count) const;
  // What killed processes left.
  void clean() const;

 private:
  std::string dir_;
};

}  // namespace musacoder::train
