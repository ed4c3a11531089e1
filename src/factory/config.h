// A chain of stages, from TOML (docs/factory.md has the table of keys).
//
//   MC_ASSIGN_OR_RETURN(Chain chain, read_chain("configs/quickstart.toml", {"steps=20"}));
//   MC_ASSIGN_OR_RETURN(Plan plan, plan_chain(chain, tools));
//   plan.stages[2].argv; plan.stages[2].digest;
//
// A stage is a command. In its words {out} is its own folder, {NAME} the folder of the earlier stage NAME,
// {root} the run's folder, {config} the folder of the TOML file, and every other {word} a key of [values] or of
// [machine]; {{ and }} are braces. The first word `musacoder`, `musacoder-train` or `python` names this installation's. A
// stage's digest is made of its command, environment, inputs' contents and the digests of the stages that it
// names, but not of what [machine] says: one that is done with the same digest is not run again, on another
// machine with other lanes and paths neither.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::factory {

struct Stage {
  std::string name;
  std::string kind = "other";  // for shares of time and the table: data, sft, rft, rl, evaluate, other
  std::vector<std::string> command;
  std::vector<std::string> check;   // run by --dry-run; empty: none
  std::vector<std::string> inputs;  // files and folders whose contents count
  std::vector<std::string> after;   // stages beside those in its words
  std::map<std::string, std::string> env;
  std::vector<int> goes_on = {4};        // exit codes of a command that stopped and is to be run again
  std::string summary = "summary.json";  // in its folder: the object `shown` stands in the table
  std::vector<std::string> holds;        // words, such as "gpu": of the stages that hold the same one, one runs at a time
  bool optional = false;                 // its failure does not end the chain
};

struct Chain {
  std::string name, folder, config_folder;
  std::map<std::string, std::string> values;
  std::map<std::string, std::string> machine;  // how it is run and where files lie: not part of what is made
  std::vector<Stage> stages;
};

// `set`: "key=value" over [values] and [machine], or "folder=…". Errors: kNotFound; kInvalidArgument with file and line or
// the key.
Result<Chain> read_chain(const std::string& path, const std::vector<std::string>& set);

struct Tools {
  std::string musacoder, train, python;  // paths
};

struct PlannedStage {
  const Stage* stage = nullptr;
  std::string folder, digest;
  std::vector<std::string> argv, check;  // expanded
  std::vector<std::string> env;          // "NAME=value" over the environment
  std::vector<std::string> needs;        // names of earlier stages
};

struct Plan {
  std::string folder;
  std::vector<PlannedStage> stages;
};

// `chain` must outlive the plan. Errors: kInvalidArgument for a word without a value, a stage that is named
// before it ran; kNotFound for an input that is not there.
Result<Plan> plan_chain(const Chain& chain, const Tools& tools);

}  // namespace musacoder::factory
