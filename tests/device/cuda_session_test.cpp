// The judge's end of protocol C, against peers that are honest and peers that are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json_lines.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/report.h"

namespace musacoder::device {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json hello() { return {{"ok", true}, {"pid", 7}, {"cupti", 130001}, {"driver", 13000}, {"device", 0}}; }

json launch(const std::string& kernel, const std::string& origin, const std::string& module) {
  return {{"kernel", kernel},  {"module", module},     {"origin", origin},
          {"grid", {4, 1, 1}}, {"block", {256, 1, 1}}, {"count", 2},
          {"ns", 1500},        {"graph", false},       {"streams", 1}};
}

json report(json launches = json::array()) {
  return {{"ok", true},
          {"report",
           {{"launches", std::move(launches)},
            {"copies",
             {{"h2d_bytes", 1},
              {"d2h_bytes", 2},
              {"d2d_bytes", 3},
              {"memset_bytes", 4},
              {"h2d_after_d2h_bytes", 5}}},
            {"refused_ops", {"aten::mm"}},
            {"unsupported", json::array()},
            {"threads", 1},
            {"first_ns", 1764500000000000000},
            {"last_ns", 1764500000000001500},
            {"dropped", 0},
            {"internal", 6},
            {"error", ""},
            {"memory", {{"allocated_bytes", 4096}, {"retained_bytes", 1024}}},
            {"canary", true},
            {"context", true}}}};
}

json no_fault() { return {{"ok", true}, {"fault", nullptr}}; }

// Answers each request with what `script` gives for its op; "" ends the connection.
class Peer {
 public:
  explicit Peer(std::function<std::string(const json& request)> script, CudaSessionOptions options = {}) {
    auto pair = base::socket_pair();
    session = make_cuda_session(std::move(pair->first), std::move(pair->second), options);
    thread_ = std::thread([fd = session->take_client_fd(), script = std::move(script)] {
      base::JsonLines channel(base::Fd(fd), 64u << 20);
      for (;;) {
        auto request = channel.read(base::Deadline::in(20));
        if (!request) return;
        const std::string answer = script(*request);
        if (answer.empty() || !channel.write_line(answer, base::Deadline::in(20))) return;
      }
    });
  }
  ~Peer() {
    session->kill();
    thread_.join();
  }
  std::unique_ptr<Session> session;

 private:
  std::thread thread_;
};

std::function<std::string(const json&)> answering(const std::string& end,
                                                  const std::string& fault = no_fault().dump()) {
  return [=](const json& request) {
    const std::string op = request.value("op", "");
    return op == "hello" ? hello().dump() : op == "fault" ? fault : op == "quiet" ? R"({"ok":true})" : end;
  };
}

TEST(CudaSession, ReadsAnHonestReport) {
  Peer peer(answering(
      report({launch("relu(float*)", "own", "relu.so"), launch("sgemm_128", "vendor", "libcublasLt.so.13"),
              launch("fill", "framework", "libtorch_cuda.so"),
              launch("sgemm_128", "vendor", "libcublasLt.so.13")})
          .dump()));
  ASSERT_TRUE(peer.session->begin_window({.trial = 3}));
  auto got = peer.session->end_window();
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->protocol_error, "");
  ASSERT_EQ(got->launches.size(), 2u);
  EXPECT_EQ(got->launches[0].kernel, "relu(float*)");
  EXPECT_EQ(got->launches[0].origin, "own");
  EXPECT_EQ(got->launches[0].grid.x, 4u);
  EXPECT_EQ(got->launches[0].nanoseconds, 1500u);
  EXPECT_EQ(got->launches[1].origin, "framework");
  ASSERT_EQ(got->vendor_calls.size(), 1u);
  EXPECT_EQ(got->vendor_calls[0].library, "cublasLt");
  EXPECT_EQ(got->vendor_calls[0].function, "sgemm_128");
  EXPECT_EQ(got->vendor_calls[0].count, 4u);
  EXPECT_EQ(got->allocated_bytes, 4096u);
  EXPECT_EQ(got->retained_bytes, 1024u);
  EXPECT_THAT(got->refused_ops, ElementsAre("aten::mm"));
  EXPECT_EQ(got->h2d_bytes, 1u);
  EXPECT_EQ(got->h2d_after_d2h_bytes, 5u);
  EXPECT_EQ(got->internal, 6u);
  EXPECT_FALSE(got->fault);
  EXPECT_TRUE(peer.session->quiet(true));
  EXPECT_TRUE(peer.session->quiet(false));
  EXPECT_EQ(peer.session->take_client_fd(), -1);
}

TEST(CudaSession, MemoryIsNotItsBusiness) {
  Peer peer(answering(report().dump()));
  EXPECT_EQ(peer.session->allocate(4, "x").error().code, Code::kUnsupported);
  EXPECT_EQ(peer.session->free(1).error().code, Code::kUnsupported);
  EXPECT_EQ(peer.session->write(1, {}).error().code, Code::kUnsupported);
  EXPECT_EQ(peer.session->read(1, {}).error().code, Code::kUnsupported);
  EXPECT_EQ(peer.session->find(1).error().code, Code::kUnsupported);
}

TEST(CudaSession, AFaultComesWithTheReportOnceAndStays) {
  json silent = report();
  silent["report"]["canary"] = false;  // the context is gone, and with it the canary
  const json fault = {{"ok", true},
                      {"fault",
                       {{"kind", "out_of_bounds"},
                        {"code", 700},
                        {"name", "cudaErrorIllegalAddress"},
                        {"kernel", "bad(float*)"}}}};
  Peer peer(answering(silent.dump(), fault.dump()));
  auto got = peer.session->end_window();
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_TRUE(got->fault);
  EXPECT_EQ(got->fault->kind, vgpu::FaultKind::kOutOfBounds);
  EXPECT_EQ(got->fault->kernel, "bad(float*)");
  EXPECT_THAT(got->fault->message, HasSubstr("cudaErrorIllegalAddress (700)"));
  EXPECT_FALSE(peer.session->outside()->fault);
  ASSERT_TRUE(peer.session->last_fault());
  EXPECT_TRUE(peer.session->last_fault()->has_value());
}

TEST(CudaSession, SilenceOfCuptiIsNoReport) {
  json silent = report();
  silent["report"]["canary"] = false;
  Peer peer(answering(silent.dump()));
  auto got = peer.session->end_window();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kUnavailable);
  EXPECT_THAT(got.error().message, HasSubstr("CUPTI is silent"));
}

TEST(CudaSession, ARefusalIsOursToMend) {
  Peer peer(answering(R"({"ok":false,"message":"no window is open"})"));
  auto got = peer.session->end_window();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kUnavailable);
  EXPECT_THAT(got.error().message, HasSubstr("no window is open"));
}

TEST(CudaSession, SilenceEndsAtTheDeadlineAndALateAnswerIsNotTakenForAnother) {
  Peer peer(
      [](const json& request) {
        if (request.value("op", "") == "hello") return hello().dump();
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return report().dump();
      },
      {.hello_seconds = 5, .answer_seconds = 0.1});
  EXPECT_EQ(peer.session->begin_window({}).error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(peer.session->end_window().error().code, Code::kDeadlineExceeded);
}

TEST(CudaSession, AProcessThatIsGoneIsUnavailable) {
  Peer peer([](const json&) { return std::string(); });
  EXPECT_EQ(peer.session->begin_window({}).error().code, Code::kUnavailable);
  EXPECT_EQ(peer.session->last_fault().error().code, Code::kUnavailable);
}

TEST(CudaSession, KillWakesWhoWaits) {
  auto pair = base::socket_pair();
  auto session = make_cuda_session(std::move(pair->first), std::move(pair->second), {.hello_seconds = 60});
  const base::Fd client(session->take_client_fd());
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    session->kill();
  });
  EXPECT_EQ(session->begin_window({}).error().code, Code::kUnavailable);
  killer.join();
  EXPECT_EQ(session->end_window().error().code, Code::kUnavailable);
}

// What no honest library sends is reported as misuse, in this report and all that follow.
void expect_misuse(const std::string& answer, const std::string& label) {
  Peer peer(answering(answer));
  auto got = peer.session->end_window();
  ASSERT_TRUE(got) << label << ": " << got.error().message;
  EXPECT_NE(got->protocol_error, "") << label;
  EXPECT_THAT(got->launches, IsEmpty()) << label;
  auto again = peer.session->outside();
  ASSERT_TRUE(again) << label;
  EXPECT_EQ(again->protocol_error, got->protocol_error) << label;
  EXPECT_EQ(peer.session->last_fault().error().code, Code::kInvalidArgument) << label;
}

TEST(CudaSession, GarbageIsMisuse) {
  expect_misuse("\x01\xff garbage", "bytes");
  expect_misuse("[]", "list");
  expect_misuse("{}", "no ok");
  expect_misuse(R"({"ok":1})", "ok is a number");
  expect_misuse(R"({"ok":true})", "no report");
  expect_misuse(R"({"ok":true,"report":[]})", "report is a list");
  expect_misuse(std::string(100, '['), "deep");
  expect_misuse(std::string((4u << 20) + 10, 'x'), "a line beyond the limit");
}

TEST(CudaSession, WrongFieldsAreMisuse) {
  const json honest = report({launch("k", "own", "k.so")});
  const std::pair<const char*, json> changes[] = {
      {"/report/launches", 3},
      {"/report/launches", json::array({1})},
      {"/report/launches", json(std::vector<json>(5000, launch("k", "own", "k.so")))},
      {"/report/launches/0/count", -1},
      {"/report/launches/0/count", 0},
      {"/report/launches/0/count", 1.5},
      {"/report/launches/0/count", std::uint64_t{1} << 60},
      {"/report/launches/0/ns", "7"},
      {"/report/launches/0/origin", "mine"},
      {"/report/launches/0/grid", json::array({1, 2})},
      {"/report/launches/0/grid", json::array({1, 2, -3})},
      {"/report/launches/0/block", json::array({1, 2, std::uint64_t{1} << 40})},
      {"/report/launches/0/graph", 1},
      {"/report/launches/0/kernel", json::array()},
      {"/report/launches/0/kernel", std::string(5000, 'k')},
      {"/report/copies/h2d_bytes", -4},
      {"/report/copies", nullptr},
      {"/report/refused_ops", json::array({1})},
      {"/report/threads", true},
      {"/report/dropped", -1},
      {"/report/error", nullptr},
      {"/report/canary", "yes"},
      {"/report/first_ns", 1764500000000009999},
  };
  for (const auto& [path, value] : changes) {
    json changed = honest;
    changed[json::json_pointer(path)] = value;
    expect_misuse(changed.dump(), fmt::format("{} = {}", path, value.dump().substr(0, 40)));
  }
  for (const char* key : {"launches", "copies", "refused_ops", "unsupported", "threads", "dropped",
                          "internal", "error", "memory", "canary"}) {
    json changed = honest;
    changed["report"].erase(key);
    expect_misuse(changed.dump(), key);
  }
}

TEST(CudaSession, WrongGreetingsAndFaultsAreMisuse) {
  Peer rude(
      [](const json&) { return std::string(R"({"ok":true,"pid":-1,"cupti":1,"driver":1,"device":0})"); });
  EXPECT_THAT(rude.session->begin_window({})->protocol_error, HasSubstr("pid"));
  for (const char* fault : {R"({"ok":true})", R"({"ok":true,"fault":7})",
                            R"({"ok":true,"fault":{"kind":"none","code":7,"name":"x","kernel":"k"}})",
                            R"({"ok":true,"fault":{"kind":"trap","code":-7,"name":"x","kernel":"k"}})"}) {
    Peer peer(answering(report().dump(), fault));
    EXPECT_EQ(peer.session->last_fault().error().code, Code::kInvalidArgument) << fault;
    EXPECT_NE(peer.session->end_window()->protocol_error, "") << fault;
  }
}

TEST(CudaSession, TextsOfThePeerArePrintable) {
  EXPECT_EQ(printable("a\x1b[31m\nb"), "a?[31m?b");
  EXPECT_EQ(library_name("libcudnn_ops.so.9"), "cudnn_ops");
  EXPECT_EQ(library_name("relu.so"), "relu");
}

}  // namespace
}  // namespace musacoder::device
