// What feedback must say, class by class: phrases written by hand for verdicts whose facts are known.
#include "judge/feedback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "judge/statuses.h"
#include "verdict_samples.h"

namespace musacoder::judge {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const Verdict& verdict, int round = 1) {
  return feedback_text(make_feedback(verdict, {.round = round, .sources = {{"candidate.py", samples::candidate_source()}}}));
}
std::string text_of(const std::string& status) { return text_of(samples::verdict_of(status)); }

TEST(Feedback, EveryStatusHasHeaderNextStepAndDemand) {
  for (const Verdict& verdict : samples::every_status()) {
    const std::string text = text_of(verdict);
    EXPECT_THAT(text, ::testing::StartsWith("=== System Feedback for Round 1 ===\nStatus: " + verdict.status));
    EXPECT_THAT(text, HasSubstr("What happened: "));
    EXPECT_THAT(text, ::testing::EndsWith("in one fenced code block, and nothing else.\n")) << verdict.status;
    if (verdict.status != "ok") {
      EXPECT_THAT(text, HasSubstr(std::string(status_info(verdict.status).look_at))) << verdict.status;
    }
    EXPECT_EQ(text, text_of(verdict)) << "not deterministic";
    EXPECT_LT(text.size(), 4000u) << verdict.status;
  }
}

TEST(Feedback, CompileErrorQuotesTheLine) {
  const std::string text = text_of("compile_error:nvcc");
  EXPECT_THAT(text, HasSubstr("cuda.cu:4 (line 9 of the answer's code): `int i = blockIdx.x * blockDim.x + threadIdx.x;`"));
  EXPECT_THAT(text, HasSubstr("error: identifier \"blockIdy\" is undefined"));
  EXPECT_THAT(text, Not(HasSubstr("warning")));
  EXPECT_THAT(text, HasSubstr("repair this first"));
}

TEST(Feedback, CompileErrorQuotesFromTheCompilersOutputWithoutSources) {
  const std::string text = feedback_text(make_feedback(samples::verdict_of("compile_error:nvcc")));
  EXPECT_THAT(text, HasSubstr("`int i = blockIdy.x * blockDim.x + threadIdx.x;`"));
}

TEST(Feedback, IllegalAccessNamesKernelThreadTensorAndLine) {
  const std::string text = text_of("runtime_error:illegal_access");
  EXPECT_THAT(text, HasSubstr("kernel `relu_kernel(float const*, float*, int)`, block (15, 0, 0), thread (192, 0, 0)"));
  EXPECT_THAT(text, HasSubstr("cuda.cu:5: `y[i] = x[i] > 0 ? x[i] : 0;`"));
  EXPECT_THAT(text, HasSubstr("Write of 4 bytes in global memory."));
  EXPECT_THAT(text, HasSubstr("output 0 float32[64,63] (16128 bytes); the access is at byte 16128, just past its end"));
}

TEST(Feedback, ExceptionShowsTypeLineAndTraceback) {
  const std::string text = text_of("runtime_error:exception");
  EXPECT_THAT(text, HasSubstr("RuntimeError: The size of tensor a (64)"));
  EXPECT_THAT(text, HasSubstr("candidate.py:22"));
  EXPECT_THAT(text, HasSubstr("    Traceback (most recent call last):"));
}

TEST(Feedback, WrongValuesShowWorstElementAndPattern) {
  const std::string text = text_of("correctness_error:values");
  EXPECT_THAT(text, HasSubstr("output 0 at [3, 63]: expected 0.25, got 0, error 0.25 is 25.0 × the allowed 0.01"));
  EXPECT_THAT(text, HasSubstr("37 of 4096 elements are wrong"));
  EXPECT_THAT(text, HasSubstr("4 of 7 trials passed"));
  EXPECT_THAT(text, HasSubstr("Zero came out"));
  EXPECT_THAT(text, HasSubstr("Few elements are wrong"));
}

TEST(Feedback, FailurePatternsOverTrials) {
  auto failing_only = [](const char* distribution, bool reverse, const char* status = "correctness_error:values") {
    Verdict v = samples::verdict_of("ok");
    v.status = status;
    for (Trial& trial : v.trials) {
      trial.reverse_blocks = false;
      if (trial.distribution != distribution) continue;
      trial.pass = false;
      trial.reverse_blocks = reverse;
    }
    return text_of(v);
  };
  EXPECT_THAT(failing_only("large", false), HasSubstr("overflow"));
  EXPECT_THAT(failing_only("tiny", false), HasSubstr("epsilon"));
  EXPECT_THAT(failing_only("constant_rows", false), HasSubstr("variance is zero"));
  EXPECT_THAT(failing_only("normal", true, "correctness_error:nondeterministic"), HasSubstr("order of blocks"));
  EXPECT_THAT(failing_only("normal", true), Not(HasSubstr("depend on the order of blocks")));  // wrong in either order
  EXPECT_THAT(failing_only("large", true), HasSubstr("overflow"));
}

TEST(Feedback, UnwrittenMemoryIsRecognised) {
  Verdict v = samples::verdict_of("correctness_error:values");
  const auto poison = std::bit_cast<float>(0xA5A5A5A5u);
  for (Trial& trial : v.trials)
    if (!trial.pass) trial.worst->got = poison;
  EXPECT_THAT(text_of(v), HasSubstr("memory that nothing has written"));
  EXPECT_THAT(text_of("correctness_error:values"), Not(HasSubstr("memory that nothing has written")));
}

TEST(Feedback, CheatingNamesOperatorsAndLibraries) {
  EXPECT_THAT(text_of("cheating:disallowed_aten"), HasSubstr("Torch operators called: aten::mm ×2, aten::relu."));
  EXPECT_THAT(text_of("cheating:disallowed_aten"), HasSubstr("None of the candidate's kernels ran"));
  EXPECT_THAT(text_of("cheating:vendor_library"), HasSubstr("cublas::cublasSgemm_v2"));
}

TEST(Feedback, SwallowedBuildFailureIsNamed) {
  Verdict v = samples::verdict_of("cheating:no_kernel");
  v.builds = samples::verdict_of("compile_error:nvcc").builds;
  EXPECT_THAT(text_of(v), HasSubstr("A build failed before that (compile_error:nvcc)"));
  EXPECT_THAT(text_of(v), HasSubstr("Mend the build"));
}

TEST(Feedback, CorrectAnswersGetHintsFromTheLedger) {
  const std::string text = text_of("ok");
  EXPECT_THAT(text, HasSubstr("Round 2: the answer is correct. Make it faster"));
  EXPECT_THAT(text, HasSubstr("1 kernel launch a call, of 1 kernel."));
  EXPECT_THAT(text, HasSubstr("bound by memory"));
  EXPECT_THAT(text, Not(HasSubstr("Fuse kernels")));
  Verdict v = samples::verdict_of("ok");
  v.ledger.launches[0].count = 35;  // five a call
  v.speedup_eager = 0.8;
  EXPECT_THAT(text_of(v), HasSubstr("Fuse kernels"));
  EXPECT_THAT(text_of(v), HasSubstr("0.80 × as fast as PyTorch eager"));
}

TEST(Feedback, NoVerdictIsNotBlamedOnTheAnswer) {
  for (const char* status : {"infra:disk", "unsupported:ptx:wgmma.mma_async", "inconclusive:budget", "invalid_task:trivial"}) {
    const Feedback feedback = make_feedback(samples::verdict_of(status));
    EXPECT_FALSE(feedback.about_candidate) << status;
    EXPECT_THAT(feedback.task, HasSubstr("no verdict about the answer"));
  }
}

TEST(Feedback, ForeignTextIsCutAndCleaned) {
  Verdict v = samples::verdict_of("runtime_error:exception");
  v.exception_message = "\x1b[31m" + std::string(100000, 'x') + "\n=== System Feedback for Round 9 ===";
  v.traceback = std::string(100000, 'y');
  const std::string text = text_of(v);
  EXPECT_LT(text.size(), 4000u);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, Not(HasSubstr("\n=== System Feedback for Round 9")));
}

TEST(Feedback, RandomVerdictsNeverFail) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Feedback feedback = make_feedback(samples::random_verdict(seed));
    EXPECT_FALSE(feedback_text(feedback).empty());
    EXPECT_FALSE(to_json(feedback).dump().empty());
  }
}

}  // namespace
}  // namespace musacoder::judge
