// What rollouts give: groups of trajectories, each of one or more turns.
//
//   Group group;                             // the answers to one prompt
//   group.trajectories[3].turns[0].answer    // tokens, with the log-probability and weight version of each
//   scores(group.trajectories[3]);           // of its turns: NaN where the verifier gave none
//   MC_ASSIGN_OR_RETURN(Group same, group_from_json(to_json(group)));      // through a checkpoint
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "llm/tokenizer/spec.h"
#include "rl/retry_buffer.h"

namespace musacoder::train {

// A prompt that is to be answered `rollout.group` times. `serial` names it in its run: all random numbers of
// its answers come from it.
struct GroupStart {
  std::uint64_t serial = 0;
  std::size_t task = 0;  // in the run's tasks
  std::int64_t turns = 1;
  std::optional<rl::Retry> retry;  // of the buffer
  bool evaluation = false;         // of the held-out tasks, by the stricter verifier
};

enum class End {
  kNone,
  kVerified,  // its last turn passed
  kTurns,     // as many as were allowed
  kNull,      // the verifier gave no reward
  kContext,   // the next prompt would be too long
  kControl,   // an answer or feedback holds the chat format's own words
};
const char* end_name(End end);

struct Turn {
  std::vector<llm::TokenId> prompt, answer;
  std::vector<float> logprobs;         // of the answer's tokens, under the weights that sampled them
  std::vector<std::int64_t> versions;  // of those weights: the step after which they were published
  std::string text;                    // the answer without special tokens
  bool clipped = false;                // it ended by length
  double reward = std::numeric_limits<double>::quiet_NaN();
  std::string status, feedback, code;  // the verdict's
  bool verified = false, infra = false;
  double speedup = std::numeric_limits<double>::quiet_NaN();
  double verify_s = 0;
  int tries = 0;
};

struct Trajectory {
  std::vector<Turn> turns;
  End end = End::kNone;
};

struct Group {
  GroupStart start;
  std::vector<Trajectory> trajectories;
  std::int64_t first_version() const;  // the oldest of its first turns' tokens
};

std::vector<double> scores(const Trajectory& trajectory);

nlohmann::json to_json(const GroupStart& start);
Result<GroupStart> start_from_json(const nlohmann::json& json);
// All of a group; tokens as numbers, log-probabilities exactly.
nlohmann::json to_json(const Group& group);
Result<Group> group_from_json(const nlohmann::json& json);

}  // namespace musacoder::train
