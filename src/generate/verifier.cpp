#include "generate/verifier.h"

#include <algorithm>
#include <thread>

namespace musacoder::generate {

Result<std::unique_ptr<JudgeVerifier>> JudgeVerifier::create(const judge::JudgeConfig& config, int lanes) {
  std::unique_ptr<JudgeVerifier> verifier(new JudgeVerifier());
  verifier->config_ = config;
  MC_ASSIGN_OR_RETURN(verifier->shared_, judge::Shared::create(config));
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  verifier->judges_.resize(static_cast<std::size_t>(lanes > 0 ? lanes : cores));
  return verifier;
}

Judged JudgeVerifier::judge(int lane, const task::Task& task, const std::string& answer,
                            const std::function<bool()>& cancelled) {
  auto& judge = judges_.at(static_cast<std::size_t>(lane));
  Judged judged;
  if (!judge) {
    auto created = judge::Judge::create(config_, shared_);
    if (!created) {
      judged.verdict.task = task.id;
      judged.verdict.status = "infra:start";
      judged.verdict.cause = created.error().message;
      return judged;
    }
    judge = std::move(*created);
  }
  judged.verdict =
      judge->judge({.task_id = task.id, .task_code = task.code, .answer = answer, .cancelled = cancelled});
  judged.code = judge->last_code();
  return judged;
}

std::string kernel_text(const candidate::Candidate& candidate) {
  if (candidate.kind == candidate::Kind::kBareCuda) return candidate.code;
  std::string text;
  for (const auto& literal : candidate.facts.literals) {
    if (literal.text.find("__global__") == std::string::npos && literal.text.find("<<<") == std::string::npos)
      continue;
    if (!text.empty()) text += "\n";
    text += literal.text.substr(literal.text.find_first_not_of('\n') == std::string::npos
                                    ? literal.text.size()
                                    : literal.text.find_first_not_of('\n'));
  }
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

}  // namespace musacoder::generate
