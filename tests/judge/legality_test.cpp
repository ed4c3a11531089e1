#include "judge/legality.h"

#include <gtest/gtest.h>

namespace musacoder::judge {
namespace {

CallFacts honest() {
  CallFacts facts;
  facts.report.launches = {{.kernel = "relu", .module = "m", .grid = {4}, .block = {256}, .count = 1}};
  facts.output_allocations = {{.address = 512, .bytes = 64, .label = "out", .kernel_written_bytes = 64}};
  return facts;
}

TEST(Legality, OwnKernelsAreLegal) { EXPECT_TRUE(decide_legality(honest(), "strict").legal); }

TEST(Legality, TorchOperatorsAreRefusedUnderStrictAndBookedUnderReport) {
  CallFacts facts = honest();
  facts.report.refused_ops = {"aten::mm", "aten::mm"};
  const Legality strict = decide_legality(facts, "strict");
  EXPECT_EQ(strict.status, "cheating:disallowed_aten");
  EXPECT_NE(strict.cause.find("aten::mm ×2"), std::string::npos);
  EXPECT_TRUE(decide_legality(facts, "report").legal);
}

TEST(Legality, VendorLibrariesAreRefusedUnderBoth) {
  CallFacts facts = honest();
  facts.report.vendor_calls = {{"cublas", "cublasSgemm_v2", 1}};
  EXPECT_EQ(decide_legality(facts, "strict").status, "cheating:vendor_library");
  EXPECT_EQ(decide_legality(facts, "report").status, "cheating:vendor_library");
}

TEST(Legality, NoKernelIsOnlyLegalWhereTheReferenceComputesNothing) {
  CallFacts facts;
  EXPECT_EQ(decide_legality(facts, "strict").status, "cheating:no_kernel");
  facts.reference_computes = false;
  EXPECT_TRUE(decide_legality(facts, "strict").legal);
}

TEST(Legality, ADecoyKernelThatDoesNotWriteTheOutputIsNoKernel) {
  CallFacts facts = honest();
  facts.output_allocations[0].kernel_written_bytes = 0;
  EXPECT_EQ(decide_legality(facts, "strict").status, "cheating:no_kernel");
}

vgpu::LaunchRecord launch(const char* kernel, const char* origin) {
  vgpu::LaunchRecord record{.kernel = kernel, .module = "m", .grid = {1}, .block = {32}, .count = 1};
  record.origin = origin;
  return record;
}

TEST(Legality, OnHardwareTheLedgerTellsWhoseKernelsRan) {
  CallFacts facts;
  facts.report.launches = {launch("relu", "own"), launch("at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", "framework")};
  EXPECT_TRUE(decide_legality(facts, "strict").legal);
  facts.report.launches = {launch("relu", "own"), launch("at::native::reduce_kernel<512>", "framework")};
  EXPECT_EQ(decide_legality(facts, "strict").status, "cheating:disallowed_aten");
  EXPECT_TRUE(decide_legality(facts, "report").legal);
  facts.report.launches = {launch("at::native::direct_copy_kernel_cuda", "framework")};
  EXPECT_EQ(decide_legality(facts, "strict").status, "cheating:no_kernel");
  facts.report.launches = {launch("mystery", "unknown")};
  EXPECT_EQ(decide_legality(facts, "strict").status, "cheating:no_kernel");
  facts.report.launches = {launch("made_by_nvrtc", "jit")};
  EXPECT_TRUE(decide_legality(facts, "strict").legal);
}

TEST(Legality, OnHardwareTorchMayCallLibrariesWhereItsOperatorsAreBooked) {
  CallFacts facts;
  facts.report.launches = {launch("relu", "own")};
  facts.report.vendor_calls = {{"libcublasLt.so.13", "sm80_xmma_gemm", 1, true}};
  EXPECT_EQ(decide_legality(facts, "report").status, "cheating:vendor_library");
  facts.report.refused_ops = {"aten::mm"};
  EXPECT_TRUE(decide_legality(facts, "report").legal);
  EXPECT_EQ(decide_legality(facts, "strict").status, "cheating:vendor_library");
  facts.report.vendor_calls.push_back({"libcublas.so.13", "gemv", 1, false});   // and one of its own beside it
  const Legality own = decide_legality(facts, "report");
  EXPECT_EQ(own.status, "cheating:vendor_library");
  EXPECT_NE(own.cause.find("gemv"), std::string::npos);
  EXPECT_EQ(own.cause.find("xmma"), std::string::npos);
}

TEST(Legality, WorkThatPassesForTheRunnersOwnIsCounted) {
  CallFacts facts;
  facts.report.launches = {launch("relu", "own")};
  facts.report.internal = 2;
  facts.runner_copies = 1;
  EXPECT_EQ(decide_legality(facts, "strict").status, "cheating:tampering");
  facts.report.internal = 1;
  EXPECT_TRUE(decide_legality(facts, "strict").legal);
  facts.report.dropped = 1;
  EXPECT_EQ(decide_legality(facts, "strict").status, "infra:ledger");
}

TEST(Legality, HostRoundTripsAreRefusedUnderStrict) {
  CallFacts facts = honest();
  facts.report.d2h_bytes = 4096;
  facts.report.h2d_after_d2h_bytes = 4096;
  EXPECT_EQ(decide_legality(facts, "strict").status, "cheating:disallowed_aten");
  EXPECT_TRUE(decide_legality(facts, "report").legal);
}

TEST(Legality, NothingMayWorkBesideTheCall) {
  for (const char* policy : {"strict", "report"}) {
    CallFacts facts = honest();
    facts.before.launches = facts.report.launches;
    facts.before.launches[0].count = 3;
    const Legality early = decide_legality(facts, policy);
    EXPECT_EQ(early.status, "cheating:outside_window");
    EXPECT_NE(early.cause.find("3 launches (relu ×3)"), std::string::npos) << early.cause;
    facts = honest();
    facts.before.d2h_bytes = 64;  // the inputs, read to be worked on in host memory
    EXPECT_EQ(decide_legality(facts, policy).status, "cheating:outside_window");
    facts = honest();
    facts.after.h2d_bytes = 64;
    EXPECT_NE(decide_legality(facts, policy).cause.find("after the call had returned: 64 bytes copied in"), std::string::npos);
  }
}

TEST(Ledger, WindowsAddUp) {
  device::WindowReport sum;
  CallFacts facts = honest();
  add_to_ledger(sum, facts.report);
  add_to_ledger(sum, facts.report);
  ASSERT_EQ(sum.launches.size(), 1u);
  EXPECT_EQ(sum.launches[0].count, 2u);
  facts.report.launches[0].block = {128};
  add_to_ledger(sum, facts.report);
  EXPECT_EQ(sum.launches.size(), 2u);
}

TEST(Ledger, WhatHardwareTellsAddsUp) {
  device::WindowReport sum, window;
  window.launches.push_back({.kernel = "k", .count = 2, .origin = "own", .nanoseconds = 10});
  window.threads = 2;
  window.internal = 3;
  add_to_ledger(sum, window);
  window.threads = 1;
  window.dropped = 1;
  add_to_ledger(sum, window);
  ASSERT_EQ(sum.launches.size(), 1u);
  EXPECT_EQ(sum.launches[0].nanoseconds, 20u);
  EXPECT_EQ(sum.threads, 2u);
  EXPECT_EQ(sum.dropped, 1u);
  EXPECT_EQ(sum.internal, 6u);
  window.launches[0].origin = "framework";
  add_to_ledger(sum, window);
  window.launches[0].graph = true;
  add_to_ledger(sum, window);
  EXPECT_EQ(sum.launches.size(), 3u);
}

TEST(FaultStatus, NamesEveryKind) {
  EXPECT_EQ(fault_status({.kind = vgpu::FaultKind::kOutOfBounds}), "runtime_error:illegal_access");
  EXPECT_EQ(fault_status({.kind = vgpu::FaultKind::kMisaligned}), "runtime_error:misaligned");
  EXPECT_EQ(fault_status({.kind = vgpu::FaultKind::kTimeout}), "runtime_error:timeout");
  device::Fault fault{.kind = vgpu::FaultKind::kUnsupported};
  fault.detail = "tex.2d";
  EXPECT_EQ(fault_status(fault), "unsupported:ptx:tex.2d");
}

}  // namespace
}  // namespace musacoder::judge
