// libmusacoder_ledger.so itself, from a launch to the judge's report, over a CUPTI, a runtime and a driver
// that are made up (fake/). One process has one ledger, so the cases share it; each takes its own report.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "base/json_lines.h"
#include "device/cuda/cuda_device.h"

#ifdef MC_LEDGER
namespace musacoder::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Caller {
  explicit Caller(const std::string& file)
      : library(::dlopen((std::string(MC_FAKE_CUDA) + file).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!library) ADD_FAILURE() << ::dlerror();
    get("by_stub", by_stub);
    get("by_handle", by_handle);
    get("by_driver", by_driver);
    get("load", load);
    get("capture", capture);
    get("take", take);
    get("give", give);
    get("through", through);
  }
  template <typename F>
  void get(const char* name, F& out) {
    out = reinterpret_cast<F>(::dlsym(library, name));
  }
  void* library;
  int (*by_stub)(const char*, int) = nullptr;
  int (*by_handle)(const char*) = nullptr;
  int (*by_driver)(void*, const char*) = nullptr;
  int (*load)(void*, void*) = nullptr;
  int (*capture)(const char*, unsigned long) = nullptr;
  int (*take)(unsigned long long, std::size_t) = nullptr;
  int (*give)(unsigned long long) = nullptr;
  int (*through)(int (*)(const char*), const char*) = nullptr;
};

template <typename F>
F fake(const char* name) {
  auto function = reinterpret_cast<F>(::dlsym(RTLD_DEFAULT, name));
  if (!function) ADD_FAILURE() << name;
  return function;
}

class LedgerWatch : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string lib = std::string(MC_FAKE_CUDA) + "/lib/";
    ::setenv("MUSACODER_OWN_PREFIX", MC_FAKE_CUDA "/own", 1);
    ::setenv("MUSACODER_CUPTI", (lib + "libcupti.so.13").c_str(), 1);
    for (const char* file :
         {"libcupti.so.13", "libcuda.so.1", "libcudart.so.13"})  // found by their names from now on
      ASSERT_TRUE(::dlopen((lib + file).c_str(), RTLD_NOW | RTLD_GLOBAL)) << ::dlerror();
    void* ledger = ::dlopen(MC_LEDGER, RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(ledger) << ::dlerror();
    start = reinterpret_cast<int (*)(int, char*, std::size_t)>(::dlsym(ledger, "mcl_start"));
    internal = reinterpret_cast<void (*)(int)>(::dlsym(ledger, "mcl_internal"));
    note = reinterpret_cast<void (*)(const char*, const char*)>(::dlsym(ledger, "mcl_note"));
    synchronized = reinterpret_cast<int (*)()>(::dlsym(ledger, "mcl_synchronized"));
    auto pair = base::socket_pair();
    session = make_cuda_session(std::move(pair->first), std::move(pair->second),
                                {.hello_seconds = 20, .answer_seconds = 20})
                  .release();
    char error[256] = "";
    ASSERT_NE(start(0, error, sizeof error), 0);
    EXPECT_THAT(error, HasSubstr("no stream socket"));
    ASSERT_EQ(start(session->take_client_fd(), error, sizeof error), 0) << error;
    candidate = new Caller("/own/candidate.so");
    torch = new Caller("/lib/libtorch_cuda.so");
    cublas = new Caller("/lib/libcublas.so.13");
    stranger = new Caller("/lib/stranger.so");
    auto before =
        session->begin_window({});  // without a context there is nothing to see, and that is no fault
    ASSERT_TRUE(before) << before.error().message;
    fake<void (*)(int)>("fake_context")(1);
    ASSERT_TRUE(session->end_window());
  }
  void SetUp() override { ASSERT_TRUE(session->begin_window({})); }
  WindowReport end() {
    auto got = session->end_window();
    if (!got) {
      ADD_FAILURE() << got.error().message;
      return {};
    }
    EXPECT_EQ(got->protocol_error, "");
    EXPECT_EQ(got->dropped, 0u);
    return std::move(*got);
  }
  // "own:candidate.so" of a report with one kind of launch
  static std::string only(const WindowReport& report) {
    if (report.launches.empty() && report.vendor_calls.size() == 1)
      return "vendor:" + report.vendor_calls[0].library;
    if (report.launches.size() != 1 || !report.vendor_calls.empty())
      return fmt::format("{} launches, {} vendor calls", report.launches.size(), report.vendor_calls.size());
    return report.launches[0].origin + ":" + report.launches[0].module;
  }

  static inline int (*start)(int, char*, std::size_t) = nullptr;
  static inline void (*internal)(int) = nullptr;
  static inline void (*note)(const char*, const char*) = nullptr;
  static inline int (*synchronized)() = nullptr;
  static inline Session* session = nullptr;
  static inline Caller *candidate = nullptr, *torch = nullptr, *cublas = nullptr, *stranger = nullptr;
};

TEST_F(LedgerWatch, OwnKernelsByStub) {
  for (int i = 0; i < 3; ++i) candidate->by_stub("_Z4reluPf", 0);
  EXPECT_EQ(synchronized(), 0);
  const WindowReport report = end();
  ASSERT_EQ(only(report), "own:candidate.so");
  EXPECT_EQ(report.launches[0].kernel, "relu(float*)");
  EXPECT_EQ(report.launches[0].count, 3u);
  EXPECT_EQ(report.launches[0].nanoseconds, 15u);
  EXPECT_EQ(report.launches[0].grid.x, 4u);
  EXPECT_EQ(report.launches[0].block.x, 256u);
  EXPECT_FALSE(report.launches[0].graph);
  EXPECT_EQ(report.threads, 1u);
}

TEST_F(LedgerWatch, OwnKernelsByTheStack) {
  candidate->by_handle("_Z4reluPf");
  EXPECT_EQ(only(end()), "own:candidate.so");
}

TEST_F(LedgerWatch, FrameworkVendorAndStranger) {
  torch->by_handle("fill");
  EXPECT_EQ(only(end()), "framework:libtorch_cuda.so");
  SetUp();
  cublas->by_handle("gemm");
  EXPECT_EQ(only(end()), "vendor:cublas");
  SetUp();
  cublas->by_stub("gemm", 0);
  EXPECT_EQ(only(end()), "vendor:cublas");
  SetUp();
  stranger->by_handle("_Z1xv");
  EXPECT_EQ(only(end()), "unknown:stranger.so");
}

TEST_F(LedgerWatch, WhoCallsWhom) {
  candidate->through(cublas->by_handle, "gemm2");  // the candidate calls cuBLAS
  EXPECT_EQ(only(end()), "vendor:cublas");
  SetUp();
  candidate->through(torch->by_handle, "add");  // the candidate calls torch
  EXPECT_EQ(only(end()), "framework:libtorch_cuda.so");
  SetUp();
  torch->through(cublas->by_handle, "gemm2");  // the same kernel, and torch calls cuBLAS: what was seen before does not count
  WindowReport report = end();
  EXPECT_EQ(only(report), "vendor:cublas");
  EXPECT_TRUE(report.vendor_calls.at(0).by_torch);
  SetUp();
  candidate->through(cublas->by_handle, "gemm2");
  report = end();
  EXPECT_EQ(only(report), "vendor:cublas");
  EXPECT_FALSE(report.vendor_calls.at(0).by_torch);
  SetUp();
  torch->through(candidate->by_handle, "_Z3ownv");  // torch's dispatcher calls the candidate
  EXPECT_EQ(only(end()), "own:candidate.so");
}

TEST_F(LedgerWatch, MemoryThatTheCandidateKeeps) {
  const std::uint64_t before = end().retained_bytes;
  SetUp();
  candidate->take(0x7000, 4096);
  candidate->take(0x9000, 512);
  torch->take(0xa000, 1 << 20);  // torch's pool is not the candidate's
  candidate->give(0x9000);
  candidate->give(0xdead);
  WindowReport report = end();
  EXPECT_EQ(report.allocated_bytes, 4608u);
  EXPECT_EQ(report.retained_bytes, before + 4096);
  SetUp();
  report = end();
  EXPECT_EQ(report.allocated_bytes, 0u);
  EXPECT_EQ(report.retained_bytes, before + 4096) << "it is still there";
  ASSERT_TRUE(session->quiet(true));
  candidate->give(0x7000);  // while the ledger rests
  ASSERT_TRUE(session->quiet(false));
  SetUp();
  EXPECT_EQ(end().retained_bytes, before);
}

TEST_F(LedgerWatch, HandlesOfModulesLoadedByHand) {
  int module = 0, function = 0, other = 0;
  stranger->load(&module, &function);  // Triton's way
  stranger->by_driver(&function, "triton_kernel");
  EXPECT_EQ(only(end()), "jit:stranger.so");
  SetUp();
  candidate->load(&module, &function);  // NVRTC in the candidate's object
  candidate->by_driver(&function, "nvrtc_kernel");
  EXPECT_EQ(only(end()), "jit:candidate.so");
  SetUp();
  candidate->by_driver(&other, "driver_kernel");
  EXPECT_EQ(only(end()), "own:candidate.so");
}

TEST_F(LedgerWatch, GraphNodes) {
  candidate->capture("_Z5graphPf", 0x501);
  EXPECT_EQ(fake<int (*)(std::uint64_t, std::uint64_t)>("fake_instantiate")(0x501, 0x601), 0);
  const auto launch = fake<int (*)(const char*, std::uint64_t)>("fake_graph_launch");
  launch("_Z5graphPf", 0x601);
  WindowReport report = end();
  ASSERT_EQ(only(report), "own:candidate.so");
  EXPECT_TRUE(report.launches[0].graph);
  SetUp();
  launch("_Z5graphPf", 0x777);  // a node that nobody saw: by the kernel's name
  EXPECT_EQ(only(end()), "own:candidate.so");
  SetUp();
  launch("_Z7strangev", 0x778);
  EXPECT_EQ(only(end()), "unknown:");
  SetUp();
  launch("_Z12kept_by_namePf", 0x779);  // by the name in the candidate's object
  EXPECT_EQ(only(end()), "own:candidate.so");
}

TEST_F(LedgerWatch, TheRunnersOwnWorkIsCountedNotListed) {
  const auto copy = fake<int (*)(int, std::uint64_t)>("fake_memcpy");
  internal(1);
  torch->by_handle("fill");
  copy(1, 1000);
  internal(1);
  internal(-1);
  copy(2, 1000);
  internal(-5);
  copy(1, 64);
  copy(2, 4096);
  copy(1, 32);
  const WindowReport report = end();
  EXPECT_TRUE(report.launches.empty());
  EXPECT_EQ(report.internal, 3u);
  EXPECT_EQ(report.h2d_bytes, 96u);
  EXPECT_EQ(report.d2h_bytes, 4096u);
  EXPECT_EQ(report.h2d_after_d2h_bytes, 32u);
  EXPECT_EQ(report.memset_bytes, 0u);  // the canary is nobody's
  EXPECT_EQ(report.threads, 0u);
}

TEST_F(LedgerWatch, ThreadsAndNotes) {
  std::thread([] { candidate->by_stub("_Z4reluPf", 0); }).join();
  candidate->by_stub("_Z4reluPf", 0);
  note("refused", "aten::mm");
  note("booked", "aten::mm");
  const WindowReport report = end();
  EXPECT_EQ(report.threads, 2u);
  EXPECT_THAT(report.refused_ops, ElementsAre("aten::mm"));
}

TEST_F(LedgerWatch, LaunchErrorsThatNobodyReads) {
  const auto last_error = fake<int (*)()>("fake_get_last_error");
  candidate->by_stub("_Z4reluPf", 9);
  WindowReport report = end();
  EXPECT_EQ(report.unread_launch_error, "cudaErrorInvalidConfiguration at relu(float*)");
  EXPECT_TRUE(report.launches.empty());
  SetUp();
  candidate->by_stub("_Z4reluPf", 9);
  last_error();
  EXPECT_EQ(end().unread_launch_error, "");
  SetUp();
  candidate->by_stub("_Z4reluPf", 9);
  std::thread([&] { last_error(); }).join();  // another thread's last error is not this one
  EXPECT_NE(end().unread_launch_error, "");
}

TEST_F(LedgerWatch, RestsWhileQuiet) {
  candidate->by_stub("_Z4reluPf", 0);
  EXPECT_EQ(only(end()), "own:candidate.so");
  ASSERT_TRUE(session->quiet(true));
  candidate->by_stub("_Z4reluPf", 0);
  EXPECT_EQ(session->begin_window({}).error().code, Code::kUnavailable);  // no canary: nothing can be said
  ASSERT_TRUE(session->quiet(false));
  auto after = session->end_window();
  ASSERT_TRUE(after);
  EXPECT_TRUE(after->launches.empty());
  SetUp();
  candidate->by_stub("_Z4reluPf", 0);
  EXPECT_EQ(only(end()), "own:candidate.so");
}

TEST_F(LedgerWatch, SilenceIsNoticed) {
  fake<void (*)(int)>("fake_lose_records")(1);
  candidate->by_stub("_Z4reluPf", 0);
  auto got = session->end_window();
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("CUPTI is silent"));
  fake<void (*)(int)>("fake_lose_records")(0);
  SetUp();
  candidate->by_stub("_Z4reluPf", 0);
  EXPECT_EQ(only(end()), "own:candidate.so");
}

TEST_F(LedgerWatch, ZFaultsStay) {  // last: a fault ends a process's work on a GPU
  candidate->by_stub("_Z3badPf", 0);
  fake<int (*)(int)>("fake_synchronize")(700);
  const WindowReport report = end();
  ASSERT_TRUE(report.fault);
  EXPECT_EQ(report.fault->kind, vgpu::FaultKind::kOutOfBounds);
  EXPECT_EQ(report.fault->kernel, "bad(float*)");
  fake<int (*)(int)>("fake_synchronize")(719);
  EXPECT_EQ((*session->last_fault())->kind, vgpu::FaultKind::kOutOfBounds);  // the first
}

}  // namespace
}  // namespace musacoder::device
#endif
