#include "task/reference_client.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/files.h"

namespace musacoder::task {
namespace {

using nlohmann::json;

const char* kAdd = R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.bias = nn.Parameter(torch.ones(8) * bias)

    def forward(self, x, y):
        return x + y * self.bias

batch_size = 65536
dim = 8

def get_inputs():
    return [torch.rand(batch_size, dim), torch.rand(batch_size, dim)]

def get_init_inputs():
    return [2.0]
)";

class ReferenceClientTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* python = std::getenv("MUSACODER_PYTHON");
    dir_ = new base::TempDir(std::move(*base::TempDir::create("reference")));
    auto client = ReferenceClient::start({.runtime_dir = MC_SOURCE_DIR "/runtime",
                                          .python = python && *python ? python : "python3",
                                          .run_dir = dir_->path()});
    if (client) client_ = client->release();
    else why_ = client.error().message;
  }
  static void TearDownTestSuite() {
    delete client_;
    delete dir_;
  }
  void SetUp() override {
    if (!client_) GTEST_SKIP() << "no Python with torch: " << why_;
  }
  static json ask(const json& request, double seconds = 60) {
    auto reply = client_->request(request, seconds);
    EXPECT_TRUE(reply) << reply.error().message;
    return reply ? *reply : json::object();
  }
  static json open(const std::string& code, json more = json::object()) {
    json request = {{"op", "open"}, {"task", "t"}, {"code", code}};
    request.update(more);
    return ask(request);
  }

  static inline base::TempDir* dir_ = nullptr;
  static inline ReferenceClient* client_ = nullptr;
  static inline std::string why_;
};

TEST_F(ReferenceClientTest, OpensScalesAndCompares) {
  const json task = open(kAdd);
  ASSERT_TRUE(task.value("ok", false)) << task.dump();
  EXPECT_TRUE(task["scaled"].get<bool>());
  EXPECT_TRUE(task["computes"].get<bool>());
  ASSERT_EQ(task["scaling"].size(), 1u);
  EXPECT_EQ(task["scaling"][0]["name"], "batch_size");
  EXPECT_EQ(task["scaling"][0]["from"], 65536);
  ASSERT_EQ(task["state"].size(), 1u);
  EXPECT_EQ(task["state"][0]["name"], "bias");
  EXPECT_EQ(task["state"][0]["nbytes"], 32);
  EXPECT_TRUE(base::exists(dir_->file(task["state"][0]["file"].get<std::string>())));

  const json trial = ask({{"op", "trial"}, {"handle", task["handle"]}, {"index", 1}, {"seed", 7}});
  ASSERT_TRUE(trial.value("ok", false)) << trial.dump();
  EXPECT_EQ(trial["distribution"], "normal");
  const json x = trial["inputs"]["items"][0], y = trial["inputs"]["items"][1];
  auto bytes = base::read_file(dir_->file(x["file"].get<std::string>()));
  ASSERT_TRUE(bytes);
  const auto at = [&](const json& node, std::size_t i) {
    float value;
    std::memcpy(&value, bytes->data() + node["offset"].get<std::size_t>() + 4 * i, 4);
    return value;
  };
  const std::size_t count = x["nbytes"].get<std::size_t>() / 4;
  std::vector<float> sum(count);
  for (std::size_t i = 0; i < count; ++i) sum[i] = at(x, i) + at(y, i) * 2.0f;
  const auto outputs = [&](const std::vector<float>& values) {
    EXPECT_TRUE(base::write_file(dir_->file("outputs.bin"),
                                 {reinterpret_cast<const char*>(values.data()), values.size() * 4}));
    json node = x;
    node["file"] = "outputs.bin";
    node["offset"] = 0;
    node["device"] = "cuda";
    return node;
  };
  json compare = {{"op", "compare"}, {"handle", task["handle"]}, {"index", 1}, {"outputs", outputs(sum)},
                  {"inputs_after", trial["inputs"]}};
  json verdict = ask(compare);
  EXPECT_TRUE(verdict.value("pass", false)) << verdict.dump();
  EXPECT_EQ(verdict["total"], count);

  sum[5] += 0.01f;
  compare["outputs"] = outputs(sum);
  verdict = ask(compare);
  EXPECT_FALSE(verdict["pass"].get<bool>());
  EXPECT_EQ(verdict["status"], "correctness_error:values");
  EXPECT_EQ(verdict["worst"]["index"], json::parse("[0,5]"));
  EXPECT_GT(verdict["worst"]["ratio"].get<double>(), 100);

  json shorter = outputs(sum);
  shorter["shape"][0] = 3;
  compare["outputs"] = shorter;
  EXPECT_EQ(ask(compare)["status"], "correctness_error:shape");
  compare["outputs"] = {{"t", "tuple"}, {"items", json::array({outputs(sum)})}};
  EXPECT_EQ(ask(compare)["status"], "correctness_error:arity");

  const json audit = ask({{"op", "audit"}, {"handle", task["handle"]}});
  EXPECT_EQ(audit["status"], "ok") << audit.dump();
  EXPECT_TRUE(ask({{"op", "close"}, {"handle", task["handle"]}})["ok"].get<bool>());
}

TEST_F(ReferenceClientTest, PinsConstantsByHand) {
  const json task = open(kAdd, {{"set", {{"batch_size", 12}}}});
  EXPECT_EQ(task["input_tree"]["items"][0]["shape"], json::parse("[12,8]")) << task.dump();
  EXPECT_EQ(task["scaling"][0]["how"], "set");
  const json wrong = open(kAdd, {{"set", {{"width", 12}}}});
  EXPECT_EQ(wrong["status"], "invalid_task:set");
  EXPECT_NE(wrong["message"].get<std::string>().find("batch_size"), std::string::npos);
}

TEST_F(ReferenceClientTest, NamesEveryFaultOfATask) {
  const std::string model = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x * 2\n";
  struct {
    std::string code, status;
  } cases[] = {
      {"def f(:\n", "invalid_task:syntax"},
      {"x = 1\n", "invalid_task:interface"},
      {model + "import einopsy\ndef get_inputs(): return [torch.rand(3)]\n", "invalid_task:missing_module"},
      {model + "def get_inputs(): raise ValueError('no')\n", "invalid_task:exception"},
      {model + "def get_inputs(): raise SystemExit(0)\n", "invalid_task:exception"},
      {model + "import urllib.request\nurllib.request.urlopen('http://example.com')\ndef get_inputs(): return []\n",
       "invalid_task:unavailable"},
      {model + "import os\ndef get_inputs(): os._exit(0)\n", "invalid_task:crash"},
      {model + "def get_inputs(): return [torch.empty(int(2e13))]\n", "invalid_task:memory"},
  };
  for (const auto& c : cases) {
    const json reply = open(c.code);
    EXPECT_FALSE(reply.value("ok", true)) << c.code;
    EXPECT_EQ(reply.value("status", ""), c.status) << reply.dump();
  }
  EXPECT_TRUE(open(kAdd).value("ok", false));
}

TEST_F(ReferenceClientTest, StopsLoopsAndGoesOn) {
  const std::string model = "import torch, time\nclass Model(torch.nn.Module):\n    def forward(self, x): return x * 2\n";
  base::Stopwatch watch;
  const json inside = ask({{"op", "open"}, {"task", "t"}, {"code", model + "def get_inputs():\n    while True: pass\n"}}, 1.5);
  EXPECT_EQ(inside["status"], "invalid_task:timeout") << inside.dump();
  EXPECT_LT(watch.seconds(), 8);
  const std::string stubborn =
      model + "def get_inputs():\n    while True:\n        try:\n            time.sleep(9)\n        except BaseException: pass\n";
  auto reply = client_->request({{"op", "open"}, {"task", "t"}, {"code", stubborn}}, 1.0);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kDeadlineExceeded);
  EXPECT_TRUE(open(kAdd).value("ok", false));
}

TEST_F(ReferenceClientTest, AnswersBadRequests) {
  EXPECT_EQ(ask({{"op", "fly"}})["status"], "infra:bad_request");
  EXPECT_EQ(ask({{"op", "trial"}, {"handle", 999}, {"index", 0}, {"seed", 1}})["status"], "infra:bad_request");
  EXPECT_EQ(ask({{"op", "open"}})["status"], "infra:bad_request");
}

}  // namespace
}  // namespace musacoder::task
