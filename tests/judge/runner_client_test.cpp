// The C++ side of zygote and runner, against the real zygote with an in-memory twin of the device (tests/python/twins).
#include "judge/runner_client.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "base/files.h"
#include "base/subprocess.h"

namespace musacoder::judge {
namespace {

using base::Deadline;
using nlohmann::json;

constexpr std::uint64_t kBase = 0x700000000000;   // tests/python/twins/device_twin.py
constexpr std::size_t kMemory = 8u << 20;

std::string python() {
  const char* path = std::getenv("MUSACODER_PYTHON");
  return path ? path : "";
}

bool has_torch() {
  if (python().empty()) return false;
  auto found = base::run({.argv = {python(), "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"}});
  return found && found->exit.ok();
}

class RunnerClientTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!has_torch()) return;
    auto started = ZygoteClient::start({.runtime_dir = std::string(MC_SOURCE_DIR) + "/runtime",
                                        .python = python(),
                                        .sandbox = false,
                                        .torch_device = "device_twin",
                                        .extra_path = std::string(MC_SOURCE_DIR) + "/tests/python/twins"});
    ASSERT_TRUE(started) << started.error().message;
    zygote_ = std::move(*started);
  }
  static void TearDownTestSuite() { zygote_.reset(); }

  void SetUp() override {
    if (!zygote_) GTEST_SKIP() << "MUSACODER_PYTHON names no Python with torch";
    auto folder = base::TempDir::create("runner-client");
    ASSERT_TRUE(folder) << folder.error().message;
    folder_ = std::move(*folder);
    memory_.reset(::memfd_create("device", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(memory_.get(), kMemory), 0);
    runner_ = spawn();
  }

  std::unique_ptr<RunnerClient> spawn() {
    auto runner = zygote_->spawn({.writable = folder_.path()}, memory_.get());
    EXPECT_TRUE(runner) << runner.error().message;
    return runner ? std::move(*runner) : nullptr;
  }

  RunnerReply load(const std::string& code, double seconds = 20) {
    return runner_->load({.code = code, .filename = "candidate.py", .bare_cuda = std::nullopt}, builder_, Deadline::in(seconds));
  }

  std::vector<float> at(const json& node, std::size_t count) {
    std::vector<float> out(count);
    const auto offset = static_cast<off_t>(std::stoull(node["addr"].get<std::string>()) - kBase);
    EXPECT_EQ(::pread(memory_.get(), out.data(), count * 4, offset), static_cast<ssize_t>(count * 4));
    return out;
  }

  static std::unique_ptr<ZygoteClient> zygote_;
  base::TempDir folder_;
  base::Fd memory_;
  std::unique_ptr<RunnerClient> runner_;
  std::vector<build::Extension> built_;
  BuildCallback builder_ = [this](const build::Extension& extension) {
    built_.push_back(extension);
    build::BuildResult result;
    result.ok = extension.name != "bad";
    result.log = "cuda.cu(3): error: expected a ;";
    result.artifact = folder_.file("built.py");
    (void)base::write_file(result.artifact, "def twice(x):\n    return (x * 2).cuda()\n");
    return result;
  };
};

std::unique_ptr<ZygoteClient> RunnerClientTest::zygote_;

const std::string kEmpty = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x): return x\n";
const json kNoArgs = {{"t", "list"}, {"items", json::array()}};
const json kNoKwargs = {{"t", "dict"}, {"keys", json::array()}, {"items", json::array()}};

TEST_F(RunnerClientTest, ConvertsTheModuleOfACase) {
  RunnerReply reply = load(
      "import torch\nclass ModelNew(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
      "        self.w = torch.nn.Parameter(torch.zeros(2))\n        self.register_buffer('n', torch.zeros(1, dtype=torch.int64))\n");
  ASSERT_EQ(reply.kind, ReplyKind::kDone) << reply.exception.message;
  for (const auto& [dtype, expected] : {std::pair{"", "float32"}, {"float16", "float16"}, {"bfloat16", "bfloat16"}}) {
    reply = runner_->construct(kNoArgs, kNoKwargs, 5, builder_, Deadline::in(20), dtype);
    ASSERT_EQ(reply.kind, ReplyKind::kDone) << reply.exception.message;
    ASSERT_EQ(reply.state.size(), 2u);
    EXPECT_EQ(reply.state[0].dtype, expected);
    EXPECT_EQ(reply.state[1].dtype, "int64");
  }
}

TEST_F(RunnerClientTest, GoesTheWholeWay) {
  RunnerReply reply = load(
      "import torch\nfrom torch.utils.cpp_extension import load_inline\n"
      "ext = load_inline('k', 'decl', 'kernel', functions=['twice'])\n"
      "class ModelNew(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
      "        self.w = torch.nn.Parameter(torch.zeros(2, 3))\n    def forward(self, x): return ext.twice(x), 3\n");
  ASSERT_EQ(reply.kind, ReplyKind::kDone) << reply.detail << reply.exception.message;
  ASSERT_EQ(built_.size(), 1u);
  EXPECT_EQ(built_[0].cuda_sources, (std::vector<std::string>{"kernel"}));
  ASSERT_TRUE(built_[0].functions.has_value());
  EXPECT_EQ((*built_[0].functions)[0].first, "twice");

  reply = runner_->construct(kNoArgs, kNoKwargs, 5, builder_, Deadline::in(20));
  ASSERT_EQ(reply.kind, ReplyKind::kDone) << reply.exception.message;
  ASSERT_EQ(reply.state.size(), 1u);
  EXPECT_EQ(reply.state[0].name, "w");
  EXPECT_EQ(reply.state[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(reply.training);

  ASSERT_TRUE(base::write_file(folder_.file("state"), std::string(24, '\0')));
  const json state = {{{"name", "w"}, {"kind", "parameter"}, {"dtype", "float32"}, {"shape", {2, 3}}, {"file", folder_.file("state")},
                       {"offset", 0}, {"nbytes", 24}},
                      {{"name", "b"}, {"kind", "buffer"}, {"dtype", "float32"}, {"shape", {1}}, {"file", folder_.file("state")},
                       {"offset", 0}, {"nbytes", 4}}};
  reply = runner_->parameters(state, Deadline::in(20));
  ASSERT_EQ(reply.kind, ReplyKind::kDone) << reply.exception.message;
  EXPECT_EQ(reply.parameters.matched, (std::vector<std::string>{"w"}));
  EXPECT_EQ(reply.parameters.missing, (std::vector<std::string>{"b"}));
  EXPECT_FALSE(reply.parameters.complete());

  const float values[3] = {1, 2, 3};
  ASSERT_EQ(::pwrite(memory_.get(), values, sizeof values, 256), 12);
  const json x = {{"t", "tensor"}, {"dtype", "float32"}, {"shape", {3}}, {"strides", {1}}, {"device", "cuda"}, {"addr", std::to_string(kBase + 256)}};
  for (int trial = 0; trial < 2; ++trial) {
    ASSERT_EQ(runner_->prepare(Deadline::in(20)).kind, ReplyKind::kDone);
    reply = runner_->forward(trial, 1ull << 63, {{"t", "list"}, {"items", {x}}}, builder_, Deadline::in(20));
    ASSERT_EQ(reply.kind, ReplyKind::kDone) << reply.exception.message;
    const json& items = (*reply.outputs)["items"];
    EXPECT_EQ(items[1]["v"], 3);
    EXPECT_EQ(at(items[0], 3), (std::vector<float>{2, 4, 6}));
  }
  const RunnerExit exit = runner_->stop();
  EXPECT_TRUE(exit.known);
  EXPECT_EQ(exit.signal, SIGKILL);
  EXPECT_EQ(load(kEmpty).kind, ReplyKind::kEnded);
}

TEST_F(RunnerClientTest, TellsOfExceptionsWithTheirLine) {
  RunnerReply reply = load("import torch\nfrom torch.utils.cpp_extension import load_inline\nload_inline('bad', '', 'k')\n");
  ASSERT_EQ(reply.kind, ReplyKind::kException);
  EXPECT_EQ(reply.exception.type, "RuntimeError");
  EXPECT_EQ(reply.exception.message, "Error building extension 'bad': cuda.cu(3): error: expected a ;");
  EXPECT_EQ(reply.exception.line, 3);
  EXPECT_EQ(reply.exception.stage, "load");
  EXPECT_EQ(load(kEmpty).kind, ReplyKind::kDone);
  reply = load("import triton\n");
  EXPECT_EQ(reply.languages, (std::vector<std::string>{"triton"}));
}

TEST_F(RunnerClientTest, LeavesBuildsOutOfTheDeadline) {
  BuildCallback quick = builder_;
  builder_ = [&](const build::Extension& extension) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return quick(extension);
  };
  const RunnerReply reply = load("from torch.utils.cpp_extension import load_inline\nload_inline('k', '', 'k')\n" + kEmpty, 1.4);
  EXPECT_EQ(reply.kind, ReplyKind::kDone) << reply.detail;
  EXPECT_GE(reply.build_seconds, 1.5);
}

TEST_F(RunnerClientTest, StopsAnEndlessLoop) {
  EXPECT_EQ(load("while True: pass\n", 0.3).kind, ReplyKind::kTimedOut);
  EXPECT_EQ(runner_->stop().signal, SIGKILL);
}

TEST_F(RunnerClientTest, SaysHowAProcessEnded) {
  EXPECT_EQ(load("print('bye', flush=True)\nimport os\nos._exit(3)\n").kind, ReplyKind::kEnded);
  RunnerExit exit = runner_->wait_then_stop(5);
  EXPECT_EQ(exit.describe(), "exit status 3");
  EXPECT_EQ(exit.output, "bye\n");
  runner_ = spawn();
  EXPECT_EQ(load("import ctypes\nctypes.string_at(0)\n").kind, ReplyKind::kEnded);
  exit = runner_->wait_then_stop(5);
  EXPECT_EQ(exit.signal, SIGSEGV);
  EXPECT_NE(exit.output.find("candidate.py"), std::string::npos);
}

// Sends lines on the protocol's descriptor, as a candidate can that looks for it.
std::string forged(const std::string& line, const std::string& after) {
  return "import os, json, stat, time\nfor fd in range(3, 1024):\n    try:\n        if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, " +
         json(line + "\n").dump() + ".encode())\n    except OSError: pass\n" + after;
}

TEST_F(RunnerClientTest, RefusesForgedAnswers) {
  struct Case {
    std::string line;
    bool tampering;
  };
  const std::vector<Case> cases = {{R"({"event":"loaded"})", true},
                                   {R"({"event":"output","call":"0000000000000000"})", true},
                                   {"[]", true},
                                   {"not json", false},
                                   {std::string(5u << 20, 'x'), false}};
  for (const Case& test : cases) {
    runner_ = spawn();
    const RunnerReply reply = load(forged(test.line, kEmpty));
    EXPECT_EQ(reply.kind, ReplyKind::kMalformed) << test.line.substr(0, 40);
    EXPECT_EQ(reply.tampering, test.tampering) << test.line.substr(0, 40);
    runner_->stop();
  }
}

TEST_F(RunnerClientTest, RefusesAnswersThatComeUnasked) {
  ASSERT_EQ(load("import threading, time, os, stat\ndef late():\n    time.sleep(0.2)\n    os.write(next(fd for fd in range(1023, 2, -1) if "
                 "os.path.exists(f'/proc/self/fd/{fd}')), b'{\"event\":\"constructed\"}\\n')\n"
                 "threading.Thread(target=late, daemon=True).start()\n" + kEmpty).kind, ReplyKind::kDone);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  const RunnerReply reply = runner_->construct(kNoArgs, kNoKwargs, 1, builder_, Deadline::in(10));
  EXPECT_EQ(reply.kind, ReplyKind::kMalformed);
  EXPECT_TRUE(reply.tampering);
}

TEST_F(RunnerClientTest, ALaneOutlivesItsZygote) {
  ASSERT_EQ(load("import os\nopen('zygote', 'w').write(str(os.getppid()))\n" + kEmpty).kind, ReplyKind::kDone);
  auto pid = base::read_file(folder_.file("zygote"));
  ASSERT_TRUE(pid);
  ASSERT_EQ(::kill(std::stoi(*pid), SIGKILL), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(runner_->stop().known);
  runner_ = spawn();
  ASSERT_TRUE(runner_);
  EXPECT_EQ(load(kEmpty).kind, ReplyKind::kDone);
}

TEST_F(RunnerClientTest, SaysWhyAZygoteDoesNotStart) {
  auto none = ZygoteClient::start({.runtime_dir = std::string(MC_SOURCE_DIR) + "/runtime", .python = "/nonexistent/python"});
  EXPECT_FALSE(none);
  auto no_device = ZygoteClient::start({.runtime_dir = std::string(MC_SOURCE_DIR) + "/runtime", .python = python(), .sandbox = false,
                                        .torch_device = "no_such_device"});
  ASSERT_FALSE(no_device);
  EXPECT_NE(no_device.error().message.find("no_such_device"), std::string::npos) << no_device.error().message;
}

}  // namespace
}  // namespace musacoder::judge
