// Who says whether an answer is right: some lanes that judge side by side.
//
//   MC_ASSIGN_OR_RETURN(auto verifier, JudgeVerifier::create(config, 2));
//   Judged judged = verifier->judge(0, task, answer, {});              // lane 0: one thread at a time
//
// Answers of a task are best given to one lane after each other, which keeps what its reference computed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "candidate/candidate.h"
#include "judge/judge.h"
#include "task/task.h"

namespace musacoder::generate {

struct Judged {
  judge::Verdict verdict;
  std::string code;  // what was found in the answer; the verdict's lines count in it
};

class Verifier {
 public:
  virtual ~Verifier() = default;
  virtual int lanes() const = 0;
  // Each lane by one thread at a time. `cancelled` is asked now and then; true ends in infra:cancelled.
  virtual Judged judge(int lane, const task::Task& task, const std::string& answer,
                       const std::function<bool()>& cancelled) = 0;
};

// Judges in this process. Lanes start with their first answer.
class JudgeVerifier : public Verifier {
 public:
  // `lanes` 0: one a core. Errors: those of judge::Shared::create.
  static Result<std::unique_ptr<JudgeVerifier>> create(const judge::JudgeConfig& config, int lanes);
  int lanes() const override { return static_cast<int>(judges_.size()); }
  Judged judge(int lane, const task::Task& task, const std::string& answer,
               const std::function<bool()>& cancelled) override;

 private:
  JudgeVerifier() = default;
  judge::JudgeConfig config_;
  std::shared_ptr<judge::Shared> shared_;
  std::vector<std::unique_ptr<judge::Judge>> judges_;
};

// The texts of a candidate that define or launch kernels, one behind the other; the whole code of a bare CUDA
// file; "" where none is found.
std::string kernel_text(const candidate::Candidate& candidate);

}  // namespace musacoder::generate
