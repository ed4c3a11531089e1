// What crosses the sockets and what is made of it, without a process: frames, fat binaries, records, strided copies.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "vgpu/server/fatbin.h"
#include "vgpu/server/ledger.h"
#include "vgpu/server/protocol.h"
#include "vgpu/server/records.h"
#include "vgpu/server/strided.h"

namespace musacoder::vgpu {
namespace {

using protocol::Reader;
using protocol::Writer;

TEST(Protocol, FieldsComeBackInOrder) {
  Writer out;
  out.u8(7);
  out.u32(1u << 31);
  out.i64(-5);
  out.f64(0.25);
  out.text("relu");
  Reader in(out.bytes());
  EXPECT_EQ(in.u8(), 7);
  EXPECT_EQ(in.u32(), 1u << 31);
  EXPECT_EQ(in.i64(), -5);
  EXPECT_EQ(in.f64(), 0.25);
  EXPECT_EQ(in.text(), "relu");
  EXPECT_TRUE(in.done());
}

TEST(Protocol, ShortHeadsGiveZerosAndFailForGood) {
  Writer out;
  out.u32(100);  // a text of 100 bytes that is not there
  Reader in(out.bytes());
  EXPECT_EQ(in.text(), "");
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.u64(), 0u);
  EXPECT_FALSE(in.done());
  Writer longer;
  longer.text("seven b");
  Reader limited(longer.bytes());
  EXPECT_EQ(limited.text(3), "");
  EXPECT_FALSE(limited.ok());
}

std::string fatbin_entry(std::uint16_t kind, std::uint32_t target, std::uint64_t flags, std::string payload) {
  payload.resize((payload.size() + 8) / 8 * 8, '\0');
  std::string entry(64, '\0');
  const std::uint16_t version = 0x101;
  const std::uint32_t header = 64;
  const std::uint64_t bytes = payload.size();
  std::memcpy(entry.data(), &kind, 2);
  std::memcpy(entry.data() + 2, &version, 2);
  std::memcpy(entry.data() + 4, &header, 4);
  std::memcpy(entry.data() + 8, &bytes, 8);
  std::memcpy(entry.data() + 28, &target, 4);
  std::memcpy(entry.data() + 40, &flags, 8);
  return entry + payload;
}

std::string fatbin(const std::string& body) {
  std::string out(16, '\0');
  const std::uint32_t magic = 0xBA55ED50u;
  const std::uint16_t version = 1, header = 16;
  const std::uint64_t bytes = body.size();
  std::memcpy(out.data(), &magic, 4);
  std::memcpy(out.data() + 4, &version, 2);
  std::memcpy(out.data() + 6, &header, 2);
  std::memcpy(out.data() + 8, &bytes, 8);
  return out + body;
}

TEST(FatBinary, TakesThePtxOfTheHighestTarget) {
  const std::string image = fatbin(fatbin_entry(2, 90, 0, "machine code") + fatbin_entry(1, 80, 0x11, ".version 8.0 old") +
                                   fatbin_entry(1, 90, 0x11, "\n.version 9.0 new"));
  auto ptx = find_ptx(image);
  ASSERT_TRUE(ptx) << ptx.error().message;
  EXPECT_EQ(*ptx, "\n.version 9.0 new");
  EXPECT_EQ(*find_ptx("// a comment\n.version 9.0\n"), "// a comment\n.version 9.0\n");
}

TEST(FatBinary, SaysWhyItCannot) {
  EXPECT_EQ(find_ptx("ELF").error().code, Code::kInvalidArgument);
  EXPECT_EQ(find_ptx("").error().code, Code::kInvalidArgument);
  auto compressed = find_ptx(fatbin(fatbin_entry(1, 90, 0x8011, "squeezed")));
  EXPECT_EQ(compressed.error().code, Code::kUnsupported);
  EXPECT_NE(compressed.error().message.find("--compress-mode=none"), std::string::npos);
  EXPECT_EQ(find_ptx(fatbin(fatbin_entry(2, 90, 0, "machine code"))).error().code, Code::kUnsupported);
}

TEST(FatBinary, SurvivesEveryTruncationAndNoise) {
  const std::string image = fatbin(fatbin_entry(1, 80, 0x11, ".version 8.0") + fatbin_entry(1, 90, 0x11, ".version 9.0"));
  for (std::size_t n = 0; n < image.size(); ++n) (void)find_ptx(std::string_view(image).substr(0, n));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string noisy = image;
    for (int k = 0; k < 3; ++k) noisy[random() % noisy.size()] = static_cast<char>(random());
    (void)find_ptx(noisy);
  }
}

TEST(Records, ReportsComeBackWhole) {
  WindowReport report;
  report.launches.push_back({.kernel = "relu(float*)", .module = "a.so", .grid = {4, 1, 1}, .block = {256, 1, 1}, .count = 3,
                             .warp_instructions = 99, .counters = {.warp_instructions = 99, .flops = 7, .barriers = 2}});
  report.vendor_calls.push_back({"cublas", "cublasSgemm_v2", 2});
  report.refused_ops = {"aten::mm"};
  report.h2d_after_d2h_bytes = 12;
  Fault fault;
  fault.kind = FaultKind::kMisaligned;
  fault.kernel = "k";
  fault.thread = {4, 5, 6};
  fault.offset_bytes = -4;
  fault.message = "m";
  report.fault = fault;
  report.unread_launch_error = "invalid";
  report.printf_output = "hello\n";
  report.launch_seconds = 0.5;
  report.unsupported = {"cuda:cudaGraphLaunch"};
  report.protocol_error = "bad";
  Writer out;
  encode(out, report);
  auto back = decode_report(out.bytes());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->launches.at(0).kernel, "relu(float*)");
  EXPECT_EQ(back->launches.at(0).grid.x, 4u);
  EXPECT_EQ(back->launches.at(0).counters.barriers, 2u);
  EXPECT_EQ(back->vendor_calls.at(0).function, "cublasSgemm_v2");
  EXPECT_EQ(back->refused_ops, report.refused_ops);
  EXPECT_EQ(back->h2d_after_d2h_bytes, 12u);
  ASSERT_TRUE(back->fault);
  EXPECT_EQ(back->fault->kind, FaultKind::kMisaligned);
  EXPECT_EQ(back->fault->thread[2], 6u);
  EXPECT_EQ(back->fault->offset_bytes, -4);
  EXPECT_EQ(back->unsupported, report.unsupported);
  EXPECT_EQ(back->protocol_error, "bad");
  for (std::size_t n = 0; n < out.bytes().size(); ++n)
    EXPECT_FALSE(decode_report(std::string_view(out.bytes()).substr(0, n))) << n;
}

TEST(Ledger, GroupsLaunchesAndKeepsWhatLiesBetweenWindows) {
  Ledger ledger;
  LaunchConfig config;
  config.grid.x = 2;
  config.block.x = 32;
  LaunchOutcome outcome{.fault = {}, .counters = {.warp_instructions = 10, .flops = 1}, .seconds = 0.1};
  ledger.launch("before", "m", config, outcome);
  ledger.report("refused", "aten::mm");   // operators may run there
  const WindowReport before = ledger.begin({});
  ASSERT_EQ(before.launches.size(), 1u);
  EXPECT_EQ(before.launches[0].kernel, "before");
  EXPECT_TRUE(before.refused_ops.empty());
  EXPECT_TRUE(ledger.take_outside().launches.empty());
  ledger.launch("k", "m", config, outcome);
  ledger.launch("k", "m", config, outcome);
  config.grid.x = 3;
  ledger.launch("k", "m", config, outcome);
  WindowReport report = ledger.end();
  ASSERT_EQ(report.launches.size(), 2u);
  EXPECT_EQ(report.launches[0].count, 2u);
  EXPECT_EQ(report.launches[0].counters.warp_instructions, 20u);
  EXPECT_NEAR(report.launch_seconds, 0.3, 1e-9);
  ledger.launch("after", "m", config, outcome);
  ledger.device_to_host(4);
  const WindowReport after = ledger.take_outside();
  ASSERT_EQ(after.launches.size(), 1u);
  EXPECT_EQ(after.d2h_bytes, 4u);
  EXPECT_TRUE(ledger.take_outside().launches.empty());
  ledger.begin({});
  EXPECT_TRUE(ledger.end().launches.empty());
}

TEST(Ledger, HostWorkIsWhatComesAfterAReadBack) {
  Ledger ledger;
  ledger.begin({});
  ledger.host_to_device(100, false);
  ledger.device_to_host(4);
  ledger.host_to_device(100, true);
  ledger.device_to_host(16);
  ledger.host_to_device(10, false);
  ledger.host_to_device(5, true);  // what the client calls a creation does not hide it
  WindowReport report = ledger.end();
  EXPECT_EQ(report.h2d_bytes, 110u);
  EXPECT_EQ(report.creation_bytes, 105u);
  EXPECT_EQ(report.d2h_bytes, 20u);
  EXPECT_EQ(report.h2d_after_d2h_bytes, 15u);
}

TEST(Ledger, IsBoundedWhateverTheClientReports) {
  Ledger ledger;
  ledger.begin({});
  for (int i = 0; i < 5000; ++i) {
    EXPECT_TRUE(ledger.report("refused", "aten::mm"));
    EXPECT_TRUE(ledger.report("vendor", "cublas f" + std::to_string(i)));
    EXPECT_TRUE(ledger.report("unsupported", "cuda:" + std::to_string(i)));
  }
  EXPECT_TRUE(ledger.report("vendor", "cublas f0"));
  EXPECT_FALSE(ledger.report("praise", "none"));
  ledger.printf_output(std::string(3 << 20, 'x'));
  WindowReport report = ledger.end();
  EXPECT_EQ(report.refused_ops.size(), 1024u);
  EXPECT_EQ(report.vendor_calls.size(), 1024u);
  EXPECT_EQ(report.vendor_calls[0].count, 2u);
  EXPECT_EQ(report.unsupported.size(), 1024u);
  EXPECT_EQ(report.printf_output.size(), 1u << 20);
}

TEST(Ledger, LaunchErrorStaysUntilItIsReadOrReported) {
  Ledger ledger;
  ledger.begin({});
  ledger.launch_error("too many threads");
  ledger.launch_error_read();
  EXPECT_EQ(ledger.end().unread_launch_error, "");
  ledger.launch_error("too many threads");  // between windows
  ledger.begin({});
  EXPECT_EQ(ledger.end().unread_launch_error, "too many threads");
  ledger.begin({});
  EXPECT_EQ(ledger.end().unread_launch_error, "");
}

// ---- strided copies over plain memory: address 4096 is byte 0

struct Memory {
  std::vector<std::byte> bytes = std::vector<std::byte>(1 << 16);
  ViewBytes viewer() {
    return [this](std::uint64_t address, std::uint64_t n) -> Result<std::span<std::byte>> {
      if (address < 4096 || address - 4096 > bytes.size() || n > bytes.size() - (address - 4096))
        return fail(Code::kInvalidArgument, "outside");
      return std::span<std::byte>(bytes).subspan(address - 4096, n);
    };
  }
  template <typename T>
  T* at(std::uint64_t address) {
    return reinterpret_cast<T*>(bytes.data() + (address - 4096));
  }
};

StridedTensor tensor(std::uint64_t address, int dtype, std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
  StridedTensor t;
  t.address = address;
  t.dtype = dtype;
  t.ndim = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), t.sizes.begin());
  std::copy(strides.begin(), strides.end(), t.strides.begin());
  return t;
}

TEST(Strided, TransposesWhileConverting) {
  Memory memory;
  for (int i = 0; i < 6; ++i) memory.at<float>(4096)[i] = static_cast<float>(i) + 0.75f;
  auto done = copy_strided(memory.viewer(), tensor(8192, 3, {3, 2}, {2, 1}), tensor(4096, 6, {3, 2}, {1, 3}));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(*done, 24u);
  const int expected[] = {0, 3, 1, 4, 2, 5};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(memory.at<int>(8192)[i], expected[i]) << i;
}

TEST(Strided, BroadcastsAndOverlaps) {
  Memory memory;
  memory.at<float>(4096)[0] = 5;
  ASSERT_TRUE(copy_strided(memory.viewer(), tensor(8192, 6, {2, 3}, {3, 1}), tensor(4096, 6, {2, 3}, {0, 0})));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(memory.at<float>(8192)[i], 5);
  for (int i = 0; i < 8; ++i) memory.at<float>(4096)[i] = static_cast<float>(i);
  ASSERT_TRUE(copy_strided(memory.viewer(), tensor(4100, 6, {7}, {1}), tensor(4096, 6, {7}, {1})));
  for (int i = 1; i < 8; ++i) EXPECT_EQ(memory.at<float>(4096)[i], static_cast<float>(i - 1));
}

TEST(Strided, ScalarsEmptyAndDimensionless) {
  Memory memory;
  ASSERT_TRUE(fill_strided(memory.viewer(), tensor(4096, 5, {4}, {2}), {.kind = Scalar::kReal, .real = 1.5}));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(memory.at<std::uint16_t>(4096)[i], i % 2 ? 0 : 0x3e00) << i;
  ASSERT_TRUE(fill_strided(memory.viewer(), tensor(8192, 10, {}, {}), {.kind = Scalar::kComplex, .real = 1, .imag = -2}));
  EXPECT_EQ(memory.at<double>(8192)[1], -2);
  EXPECT_EQ(*fill_strided(memory.viewer(), tensor(1, 6, {4, 0}, {1, 1}), {}), 0u);
  EXPECT_EQ(*copy_strided(memory.viewer(), tensor(1, 6, {0}, {1}), tensor(1, 7, {0}, {1})), 0u);
}

TEST(Strided, RefusesHostileDescriptions) {
  Memory memory;
  const auto good = tensor(4096, 6, {4}, {1});
  const std::int64_t big = std::numeric_limits<std::int64_t>::max();
  for (const auto& bad : {tensor(4096, 99, {4}, {1}), tensor(4096, -1, {4}, {1}), tensor(4096, 6, {-4}, {1}),
                          tensor(4096, 6, {4}, {-1}), tensor(4096, 6, {4}, {0}), tensor(4096, 6, {big}, {big}),
                          tensor(4096, 6, {big, big, big}, {1, 1, 1}), tensor(4096, 6, {4}, {big / 2}),
                          tensor(4096 + (1 << 16), 6, {4}, {1}), tensor(~0ull, 6, {4}, {1}),
                          tensor(4096, 6, {2, 2}, {1, 1})}) {
    EXPECT_FALSE(fill_strided(memory.viewer(), bad, {}));
    EXPECT_FALSE(copy_strided(memory.viewer(), bad, good));
  }
  auto deep = good;
  deep.ndim = 17;
  EXPECT_FALSE(fill_strided(memory.viewer(), deep, {}));
  EXPECT_FALSE(fill_strided(memory.viewer(), good, {.kind = 9}));
  EXPECT_FALSE(copy_strided(memory.viewer(), good, tensor(4096, 6, {5}, {1})));
}

TEST(Elements, HalfRoundsToNearestEvenEverywhere) {
  const ElementType &f32 = *element_type(6), &f16 = *element_type(5);
  auto half = [&](float v) {
    std::uint16_t out;
    convert_run(f16, reinterpret_cast<std::byte*>(&out), 2, f32, reinterpret_cast<const std::byte*>(&v), 4, 1);
    return out;
  };
  EXPECT_EQ(half(1.0f), 0x3c00);
  EXPECT_EQ(half(-0.0f), 0x8000);
  EXPECT_EQ(half(65504.0f), 0x7bff);
  EXPECT_EQ(half(65519.99f), 0x7bff);
  EXPECT_EQ(half(65520.0f), 0x7c00);
  EXPECT_EQ(half(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(half(std::numeric_limits<float>::quiet_NaN()) & 0x7c00, 0x7c00);
  EXPECT_EQ(half(0x1p-24f), 1);
  EXPECT_EQ(half(0x1p-25f), 0);           // a tie goes to even
  EXPECT_EQ(half(0x1.8p-25f), 1);
  EXPECT_EQ(half(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(half(1.0f + 0x1.8p-10f), 0x3c02);
  for (unsigned bits = 0; bits < 65536; ++bits) {  // there and back is the identity
    const auto in = static_cast<std::uint16_t>(bits);
    float wide;
    convert_run(f32, reinterpret_cast<std::byte*>(&wide), 4, f16, reinterpret_cast<const std::byte*>(&in), 2, 1);
    if (!std::isnan(wide)) {
      ASSERT_EQ(half(wide), in);
    }
  }
}

}  // namespace
}  // namespace musacoder::vgpu
