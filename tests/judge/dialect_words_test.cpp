// A verdict in the names of a MUSA candidate.
#include "judge/dialect_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "judge/feedback.h"

namespace musacoder::judge {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const port::RenameTable& table() {
  static const port::RenameTable loaded = *port::RenameTable::load(MC_SOURCE_DIR "/runtime/musa/renames");
  return loaded;
}

Verdict sample() {
  Verdict v;
  v.dialect = "musa";
  v.status = "runtime_error:exception";
  v.cause = "forward raised RuntimeError: CUDA error: cudaErrorInvalidValue (line 7)";
  v.exception_message = "CUDA error: cudaErrorInvalidValue; load_inline has no cuda_sources";
  v.traceback = "  File candidate.py, line 7\n    cudaMalloc_wrapper(cudaStream_t)\nRuntimeError: CUDA error: x\n";
  v.ledger.vendor_calls = {{"cublas", "cublasSgemm_v2", 1}};
  v.ledger.unread_launch_error = "cudaErrorInvalidConfiguration at k()";
  v.levels = {{"L1", LevelState::kFailed, "cudaMemcpyAsync failed"}};
  return v;
}

TEST(DialectWords, AVerdictSpeaksMusa) {
  Verdict v = sample();
  put_in_musa(table(), v);
  EXPECT_EQ(v.cause, "forward raised RuntimeError: MUSA error: musaErrorInvalidValue (line 7)");
  // Python's words are the candidate's.
  EXPECT_EQ(v.exception_message, "MUSA error: musaErrorInvalidValue; load_inline has no cuda_sources");
  EXPECT_THAT(v.traceback, HasSubstr("cudaMalloc_wrapper(cudaStream_t)"));
  EXPECT_THAT(v.traceback, HasSubstr("MUSA error: x"));
  EXPECT_EQ(v.ledger.vendor_calls[0].library, "mublas");
  EXPECT_EQ(v.ledger.vendor_calls[0].function, "mublasSgemm_v2");
  EXPECT_EQ(v.ledger.unread_launch_error, "musaErrorInvalidConfiguration at k()");
  EXPECT_EQ(v.levels[0].detail, "musaMemcpyAsync failed");
  EXPECT_EQ(v.status, "runtime_error:exception");
}

TEST(DialectWords, WhatABuildSaysIsLeftAlone) {
  Verdict v = sample();
  v.builds.emplace_back();
  v.builds[0].message = "musa_sources[0]:3: identifier \"cudaMalloc\" is undefined (cudaMalloc is CUDA's; MUSA has musaMalloc)";
  v.cause = v.builds[0].message;
  put_in_musa(table(), v);
  EXPECT_EQ(v.cause, v.builds[0].message);
}

TEST(DialectWords, FeedbackSpeaksMusa) {
  Verdict v;
  v.status = "compile_error:nvcc";
  v.dialect = "musa";
  const Feedback musa = make_feedback(v);
  EXPECT_EQ(musa.title, "MUSA compile error");
  EXPECT_THAT(musa.what, HasSubstr("mcc refused the MUSA source"));
  v.dialect = "cuda";
  EXPECT_EQ(make_feedback(v).title, "CUDA compile error");
  v.status = "compile_error:link";
  v.dialect = "musa";
  EXPECT_THAT(make_feedback(v).look_at.back(), HasSubstr("needs a definition in musa_sources"));
}

TEST(DialectWords, WholeWordsOnly) {
  EXPECT_EQ(worded("CUDA and CUDAGuard and MY_CUDA", "musa"), "MUSA and CUDAGuard and MY_CUDA");
  EXPECT_EQ(worded("CUDA", "cuda"), "CUDA");
}

TEST(DialectWords, WarpAssumptionsNameTheirLines) {
  candidate::Candidate bare;
  bare.kind = candidate::Kind::kBareCuda;
  bare.code = "#include <musa_runtime.h>\n__global__ void k(float* x) {\n  int lane = threadIdx.x % 32;\n  x[0] = __shfl_down_sync(0xffffffff, x[0], 16, 32);\n}\n";
  const std::string text = warp_assumptions(table(), bare);
  EXPECT_THAT(text, HasSubstr("assumes warps of 32 threads"));
  EXPECT_THAT(text, HasSubstr("(line 3)"));
  EXPECT_THAT(text, HasSubstr("(line 4)"));
  EXPECT_THAT(text, HasSubstr("S80 and S4000"));

  candidate::Candidate in_python;
  in_python.facts.literals = {{.line = 10, .exact = true, .text = "\n#define WARP_SIZE 32\n"}};
  EXPECT_THAT(warp_assumptions(table(), in_python), HasSubstr("WARP_SIZE (line 11)"));
  in_python.facts.literals = {{.line = 10, .exact = true, .text = "int n = 32 * warpSize;\n"}};
  EXPECT_EQ(warp_assumptions(table(), in_python), "");
}

}  // namespace
}  // namespace musacoder::judge
