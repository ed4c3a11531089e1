// The ledger's logic without CUPTI: whose kernel it is, how records add up, in which order the judge may ask.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "book.h"
#include "origin.h"
#include "service.h"

namespace musacoder::ledger {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

const std::string kVenv = "/venv/lib/python3.11/site-packages/";

class Attribute : public ::testing::Test {
 protected:
  Attribute() : table({"/cache/artefacts", "relative", "/"}, "/opt/lib/libmusacoder_ledger.so") {}
  std::uint32_t id(const std::string& path) { return table.of_path(path); }
  std::uint32_t self() { return id("/opt/lib/libmusacoder_ledger.so"); }
  std::uint32_t cupti() { return id(kVenv + "nvidia/cu13/lib/libcupti.so.13"); }
  std::uint32_t cudart() { return id(kVenv + "nvidia/cu13/lib/libcudart.so.13"); }
  std::uint32_t driver() { return id("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"); }
  std::uint32_t own() { return id("/cache/artefacts/ab/relu.so"); }
  std::uint32_t torch() { return id(kVenv + "torch/lib/libtorch_cuda.so"); }
  std::uint32_t python() { return id("/usr/bin/python3.11"); }
  std::uint32_t cublas() { return id(kVenv + "nvidia/cu13/lib/libcublasLt.so.13"); }
  Attribution of(std::vector<std::uint32_t> frames, std::uint32_t stub = 0, bool by_handle = false,
                 bool explicit_module = false) {
    return decide(
        table, {.frames = frames, .stub = stub, .by_handle = by_handle, .explicit_module = explicit_module});
  }
  DsoTable table;
};

TEST_F(Attribute, ObjectsByTheirPath) {
  EXPECT_EQ(table.kind(0), DsoKind::kNone);
  EXPECT_EQ(table.kind(self()), DsoKind::kCuda);
  EXPECT_EQ(table.kind(cupti()), DsoKind::kCuda);
  EXPECT_EQ(table.kind(driver()), DsoKind::kCuda);
  EXPECT_EQ(table.kind(own()), DsoKind::kOwn);
  EXPECT_EQ(table.kind(torch()), DsoKind::kFramework);
  EXPECT_EQ(table.kind(cublas()), DsoKind::kVendor);
  EXPECT_EQ(table.kind(python()), DsoKind::kOther);
  for (const char* name :
       {"libcublas.so.13", "libcudnn_engines_precompiled.so.9", "libcufft.so.12", "libcusparseLt.so.0",
        "libcusolver.so.12", "libcurand.so.10", "libnccl.so.2", "libcutlass.so", "libnvjpeg.so.13"})
    EXPECT_EQ(classify(kVenv + name, {}), DsoKind::kVendor) << name;
  EXPECT_EQ(classify(kVenv + "torch/lib/libc10_cuda.so", {}), DsoKind::kFramework);
  EXPECT_EQ(table.module(own()), "relu.so");
}

TEST_F(Attribute, TheFolderDecidesNotTheName) {
  // A candidate's object is its own, whatever it calls itself; and only below the folder, not beside it.
  EXPECT_EQ(table.kind(id("/cache/artefacts/x/libcublas.so.13")), DsoKind::kOwn);
  EXPECT_EQ(table.kind(id("/cache/artefacts/x/libcudart.so.13")), DsoKind::kOwn);
  EXPECT_EQ(table.kind(id("/cache/artefacts-of-others/relu.so")), DsoKind::kOther);
  EXPECT_EQ(table.kind(id("relative/relu.so")), DsoKind::kOther);
}

TEST_F(Attribute, LinksAreResolved) {
  const std::filesystem::path dir =
      std::filesystem::temp_directory_path() / fmt::format("mc_ledger_{}", ::getpid());
  std::filesystem::create_directories(dir / "real");
  std::filesystem::create_directory_symlink(dir / "real", dir / "link");
  std::fclose(std::fopen((dir / "real/k.so").c_str(), "w"));
  DsoTable linked({(dir / "link").string()});
  EXPECT_EQ(linked.kind(linked.of_path((dir / "real/k.so").string())), DsoKind::kOwn);
  EXPECT_EQ(linked.of_path((dir / "link/k.so").string()), linked.of_path((dir / "real/k.so").string()));
  std::filesystem::remove_all(dir);
}

TEST_F(Attribute, RuntimeLaunches) {
  const std::vector<std::uint32_t> cuda = {self(), cupti(), cudart()};
  const auto stack = [&](std::vector<std::uint32_t> rest) {
    rest.insert(rest.begin(), cuda.begin(), cuda.end());
    return rest;
  };
  EXPECT_EQ(of(stack({own(), python()})).origin, Origin::kOwn);
  EXPECT_EQ(of(stack({own(), python()})).dso, own());
  EXPECT_EQ(of(stack({torch(), torch(), python()})).origin, Origin::kFramework);
  EXPECT_EQ(of(stack({cublas(), torch(), python()})).origin, Origin::kTorchVendor);
  EXPECT_EQ(of(stack({cublas(), own()})).origin, Origin::kVendor);    // the candidate calls cuBLAS
  EXPECT_EQ(of(stack({torch(), own()})).origin, Origin::kFramework);  // the candidate calls at::mm
  EXPECT_EQ(of(stack({torch(), cublas(), torch()})).origin, Origin::kTorchVendor);
  EXPECT_EQ(of(stack({torch(), own(), cublas()})).origin, Origin::kFramework);
  EXPECT_EQ(of(stack({python()})).origin, Origin::kUnknown);
  const std::uint32_t libc = id("/usr/lib/x86_64-linux-gnu/libc.so.6");  // pthread_once inside the runtime
  EXPECT_EQ(of(stack({libc, cudart(), own()})).origin, Origin::kOwn);
  EXPECT_EQ(of(stack({libc})).origin, Origin::kUnknown);
  EXPECT_EQ(of(cuda).origin, Origin::kUnknown);
  EXPECT_EQ(of({}).origin, Origin::kUnknown);
  EXPECT_EQ(of(stack({0, own()})).origin, Origin::kUnknown);  // code that belongs to no object
}

TEST_F(Attribute, TheHostStubIsTheBetterWitness) {
  EXPECT_EQ(of({}, own()).origin, Origin::kOwn);
  EXPECT_EQ(of({cudart(), torch()}, own()).origin, Origin::kOwn);
  EXPECT_EQ(of({cudart(), own()}, cublas()).origin, Origin::kVendor);
  EXPECT_EQ(of({cudart(), own()}, torch()).origin, Origin::kFramework);
  EXPECT_EQ(of({cudart(), own()}, torch()).dso, torch());
  EXPECT_EQ(of({cudart(), torch()}, torch()).origin, Origin::kFramework);
  EXPECT_EQ(of({cudart(), own()}, python()).origin, Origin::kUnknown);  // a kernel of some other object
}

TEST_F(Attribute, LaunchesByHandle) {
  const std::uint32_t triton = id("/root/.triton/cache/x/__triton_launcher.so"),
                      ffi = id("/usr/lib/libffi.so.8");
  EXPECT_EQ(of({driver(), triton, python()}, 0, true, true).origin, Origin::kJit);
  EXPECT_EQ(of({driver(), ffi, python()}, 0, true).origin, Origin::kJit);
  EXPECT_EQ(of({driver(), own()}, 0, true, true).origin,
            Origin::kJit);  // NVRTC inside the candidate's object
  EXPECT_EQ(of({driver(), own()}, 0, true).origin, Origin::kOwn);
  EXPECT_EQ(of({driver(), torch()}, 0, true, true).origin, Origin::kFramework);
  EXPECT_EQ(of({driver(), cublas(), own()}, 0, true, true).origin, Origin::kVendor);
}

TEST_F(Attribute, ObjectsAreBounded) {
  for (std::uint32_t i = 0; i < DsoTable::kMaxObjects + 10; ++i) table.of_path("/many/" + std::to_string(i));
  EXPECT_EQ(table.of_path("/many/one-too-many"), 0u);
}

KernelRecord kernel(std::string_view name, std::uint64_t start, std::uint64_t end) {
  return {.name = name,
          .module = "relu.so",
          .origin = Origin::kOwn,
          .grid = {4, 1, 1},
          .block = {256, 1, 1},
          .start_ns = start,
          .end_ns = end,
          .stream = 7};
}

TEST(Book, GroupsKernels) {
  Book book;
  book.kernel(kernel("_Z4reluPf", 100, 130));
  book.kernel(kernel("_Z4reluPf", 200, 220));
  KernelRecord other = kernel("_Z4reluPf", 300, 301);
  other.block = {128, 1, 1};
  book.kernel(other);
  other.graph = true;
  other.stream = 8;
  book.kernel(other);
  const json report = book.take();
  ASSERT_EQ(report["launches"].size(), 3u);
  std::uint64_t count = 0, ns = 0;
  for (const auto& launch : report["launches"]) {
    EXPECT_EQ(launch["kernel"], "relu(float*)");
    EXPECT_EQ(launch["origin"], "own");
    EXPECT_EQ(launch["module"], "relu.so");
    count += launch["count"].get<std::uint64_t>();
    ns += launch["ns"].get<std::uint64_t>();
  }
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(ns, 52u);
  EXPECT_EQ(report["first_ns"], 100);
  EXPECT_EQ(report["last_ns"], 301);
  EXPECT_TRUE(book.take()["launches"].empty());
}

TEST(Book, StaysSmallAndSaysWhatItLeftOut) {
  Book book;
  const std::string evil(3000, '\x01');
  for (std::uint32_t i = 0; i < 10000; ++i) {
    KernelRecord record = kernel(evil, i + 1, i + 2);
    record.grid = {i + 1, 1, 1};
    book.kernel(record);
    book.note("refused", "aten::op" + std::to_string(i));
    book.note("unsupported", evil + std::to_string(i));
  }
  const json report = book.take();
  EXPECT_LT(report.dump().size(), 4u << 20);
  EXPECT_EQ(report["launches"].size(), kMaxGroups + 1);
  EXPECT_EQ(report["refused_ops"].size(), kMaxNotes);
  std::uint64_t count = 0;
  for (const auto& launch : report["launches"]) count += launch["count"].get<std::uint64_t>();
  EXPECT_EQ(count, 10000u);
}

TEST(Book, CopiesInOrderOfTime) {
  Book book;
  book.copy({CopyKind::kHostToDevice, 1000, 50, 60});  // comes first in the buffer, happened last
  book.copy({CopyKind::kHostToDevice, 64, 10, 20});
  book.copy({CopyKind::kDeviceToHost, 4096, 30, 40});
  book.copy({CopyKind::kDeviceToDevice, 7, 41, 42});
  book.copy({CopyKind::kSet, 9, 43, 44});
  json copies = book.take()["copies"];
  EXPECT_EQ(copies["h2d_bytes"], 1064);
  EXPECT_EQ(copies["d2h_bytes"], 4096);
  EXPECT_EQ(copies["d2d_bytes"], 7);
  EXPECT_EQ(copies["memset_bytes"], 9);
  EXPECT_EQ(copies["h2d_after_d2h_bytes"], 1000);
  book.copy({CopyKind::kDeviceToHost, 16, 30, 40});  // a scalar or two is nothing
  book.copy({CopyKind::kHostToDevice, 1000, 50, 60});
  EXPECT_EQ(book.take()["copies"]["h2d_after_d2h_bytes"], 0);
}

TEST(Book, NotesThreadsAndErrors) {
  Book book;
  book.note("refused", "aten::mm");
  book.note("booked", "aten::mm");
  book.note("booked", "aten::relu");
  book.note("unsupported", "cuda:x");
  book.note("nonsense", "y");
  book.note("refused", "");
  book.thread();
  book.internal(3);
  book.dropped(2);
  book.launch_error("cudaErrorInvalidConfiguration at k()");
  json report = book.take();
  EXPECT_THAT(report["refused_ops"], ElementsAre("aten::mm", "aten::relu"));
  EXPECT_THAT(report["unsupported"], ElementsAre("cuda:x"));
  EXPECT_EQ(report["threads"], 1);
  EXPECT_EQ(report["internal"], 3);
  EXPECT_EQ(report["dropped"], 2);
  EXPECT_EQ(report["error"], "cudaErrorInvalidConfiguration at k()");
  book.launch_error("x");
  book.launch_error("");
  EXPECT_EQ(book.take()["error"], "");
}

TEST(Book, NamesOfFaultsAndErrors) {
  EXPECT_STREQ(device_fault(700).kind, "out_of_bounds");
  EXPECT_STREQ(device_fault(716).kind, "misaligned");
  EXPECT_STREQ(device_fault(710).kind, "assert");
  EXPECT_STREQ(device_fault(702).kind, "timeout");
  for (int code : {0, 1, 2, 9, 98, 600, 701, 709}) EXPECT_STREQ(device_fault(code).kind, "") << code;
  EXPECT_EQ(error_name(9), "cudaErrorInvalidConfiguration");
  EXPECT_EQ(error_name(12345), "error 12345");
  EXPECT_EQ(demangled("plain_c_name"), "plain_c_name");
  EXPECT_EQ(demangled("_Znonsense"), "_Znonsense");
}

class FakeWatcher : public Watcher {
 public:
  json hello() override { return {{"pid", 1}, {"cupti", 2}, {"driver", 3}, {"device", 0}}; }
  json report() override {
    json out = Book().take();
    out["threads"] = ++reports;
    out["canary"] = true;
    return out;
  }
  json fault() override { return nullptr; }
  bool quiet(bool on) override { return quiet_ = on, true; }
  int reports = 0;
  bool quiet_ = false;
};

TEST(Service, WindowsOpenAndClose) {
  FakeWatcher watcher;
  Service service(watcher);
  const auto ask = [&](const char* line) { return json::parse(service.handle(line)); };
  EXPECT_EQ(ask(R"({"op":"hello","version":1})")["pid"], 1);
  EXPECT_EQ(ask(R"({"op":"end"})")["ok"], false);
  EXPECT_EQ(ask(R"({"op":"outside"})")["report"]["threads"], 1);
  EXPECT_EQ(ask(R"({"op":"begin","trial":0,"flags":["kernels"]})")["report"]["threads"], 2);
  EXPECT_EQ(ask(R"({"op":"begin"})")["ok"], false);
  EXPECT_EQ(ask(R"({"op":"outside"})")["report"]["threads"], 0);  // nothing is taken from an open window
  EXPECT_EQ(ask(R"({"op":"end"})")["report"]["threads"], 3);
  EXPECT_EQ(ask(R"({"op":"fault"})")["fault"], nullptr);
  EXPECT_EQ(ask(R"({"op":"quiet","on":true})")["ok"], true);
  EXPECT_TRUE(watcher.quiet_);
}

TEST(Service, NonsenseIsRefused) {
  FakeWatcher watcher;
  Service service(watcher);
  for (const char* line :
       {"", "x", "[]", "{}", R"({"op":1})", R"({"op":"x"})", R"({"op":"hello","version":2})",
        R"({"op":"hello","version":"1"})", R"({"op":"quiet"})", R"({"op":"quiet","on":1})"})
    EXPECT_EQ(json::parse(service.handle(line))["ok"], false) << line;
  EXPECT_EQ(watcher.reports, 0);
}

}  // namespace
}  // namespace musacoder::ledger
