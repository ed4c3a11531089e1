// Who says what an answer is worth: many jobs at once, answered in any order.
//
//   verifier.submit(17, {.reference = task.code, .candidate = answer, .key = "run-17"});
//   for (auto& [ticket, outcome] : verifier.collect(0.5)) use(ticket, outcome);
//
// Nothing here blocks but collect(), and that for no longer than it was told. A fault of the verifier is
// never a reward: it comes as an outcome whose reward is NaN and whose `infra` is true, after as many tries
// as were allowed. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace musacoder::train {

struct VerifyRequest {
  std::string task;       // a name, for people
  std::string reference;  // the task's code
  std::string candidate;  // the model's whole answer
  std::string key;        // the same key and content is the same job
  int round = 1;          // of a dialogue, for the feedback's header
};

struct VerifyOutcome {
  double reward = std::numeric_limits<double>::quiet_NaN();  // NaN: null
  bool verified = false;
  bool infra = false;      // the verifier's own fault, after all tries
  bool undecided = false;  // unsupported, inconclusive, invalid_task: trying again does not help
  std::string status;      // the verdict's, such as correctness_error:values
  std::string feedback;    // for the model
  std::string code;        // what was found in the answer; empty: none
  double speedup = std::numeric_limits<double>::quiet_NaN();  // over eager, measured; NaN on the virtual GPU
  double seconds = 0;                                         // from submit() on
  int tries = 1;
};

class Verifier {
 public:
  virtual ~Verifier() = default;
  virtual void submit(std::uint64_t ticket, VerifyRequest request) = 0;
  // Those that ended since, in the order in which they did; waits up to `wait_s` for the first.
  virtual std::vector<std::pair<std::uint64_t, VerifyOutcome>> collect(double wait_s) = 0;
};

}  // namespace musacoder::train
