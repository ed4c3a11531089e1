// The sandboxed process that executes tasks for their graphs.
#include "synth/pipeline/graph_worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/paths.h"

namespace musacoder::synth {
namespace {

GraphWorker& worker() {
  static GraphWorker* made = new GraphWorker({.runtime_dir = std::string(MC_BINARY_DIR) + "/runtime", .python = base::find_python(std::string(MC_BINARY_DIR) + "/runtime"), .timeout_s = 20});
  return *made;
}

std::string task(const std::string& forward, const std::string& head = "") {
  return "import torch, torch.nn as nn\n" + head + "\nclass Model(nn.Module):\n    def forward(self, x):\n        " + forward +
         "\ndef get_inputs():\n    return [torch.rand(rows, 12)]\ndef get_init_inputs():\n    return []\nrows = 5\n";
}

TEST(GraphWorker, TellsWhatATaskComputes) {
  auto graph = worker().graph(*base::read_file(std::string(MC_SOURCE_DIR) + "/tasks/nn_layers/3_mlp.py"));
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->family, "matmul_chain");
  EXPECT_EQ(graph->hash.size(), 32u);
  EXPECT_EQ(graph->ops, (std::vector<std::string>{"aten::addmm", "aten::relu", "aten::t", "aten::tanh"}));
  EXPECT_NE(graph->shapes.find("x = input: shape (batch, 40), strides (40, 1), float32, contiguous"), std::string::npos) << graph->shapes;
  EXPECT_NE(graph->hint.find("inner product of 56 terms"), std::string::npos);
}

TEST(GraphWorker, TasksCannotReachOutAndFaultsAreTheirOwn) {
  for (const auto& [code, word] : {std::pair{task("raise ValueError('no such thing')"), "no such thing"},
                                   {task("return x", "open('/etc/hostname2', 'w')"), "Error"},
                                   {task("return x", "import os; os.listdir('" + std::string(MC_SOURCE_DIR) + "/src')"), "Error"},
                                   {task("return x", "import socket; socket.create_connection(('127.0.0.1', 80))"), "Error"},
                                   {task("return x", "import os; os._exit(3)"), "ended its process"},
                                   {std::string("not python ("), "not Python"}}) {
    auto graph = worker().graph(code);
    ASSERT_FALSE(graph) << code;
    EXPECT_EQ(graph.error().code, Code::kInvalidArgument) << graph.error().message;
    EXPECT_NE(graph.error().message.find(word), std::string::npos) << graph.error().message;
  }
  auto after = worker().graph(task("return x + 1"));
  EXPECT_TRUE(after) << after.error().message;
}

// More than a pipe holds: nobody reads what tasks and torch say while they run.
TEST(GraphWorker, TalkativeTasksAreNotHeldUp) {
  const std::string says = "import sys; sys.stderr.write('e' * 300000); sys.stderr.flush(); print('o' * 300000)";
  for (int i = 0; i < 2; ++i) {
    auto graph = worker().graph(task("return x + " + std::to_string(i + 2), says));
    EXPECT_TRUE(graph) << graph.error().message;
  }
}

TEST(GraphWorker, ProposesUnitTests) {
  auto cases = worker().cases(task("return x.log()"), 3);
  ASSERT_TRUE(cases) << cases.error().message;
  EXPECT_NE(cases->code.find("MUSACODER_CASES = ["), std::string::npos) << cases->code;
  EXPECT_LE(cases->kept.size(), 8u);
  auto among = [&](const std::string& name) { return std::find(cases->kept.begin(), cases->kept.end(), name) != cases->kept.end(); };
  EXPECT_TRUE(among("single rows"));
  EXPECT_TRUE(among("float16") || among("bfloat16"));
  EXPECT_FALSE(among("all zeros"));   // the logarithm of zero
  const std::pair<std::string, std::string> dropped{"all zeros", "gives values that are not finite"};
  EXPECT_NE(std::find(cases->dropped.begin(), cases->dropped.end(), dropped), cases->dropped.end());
  auto same = worker().cases(task("return x.log()"), 3);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->code, cases->code);
}

// Two threads, two processes: what one task waits for, another can do meanwhile. One process: the second call waits for the first.
TEST(GraphWorker, SeveralAtATime) {
  GraphWorker two({.runtime_dir = std::string(MC_BINARY_DIR) + "/runtime", .python = base::find_python(std::string(MC_BINARY_DIR) + "/runtime"), .timeout_s = 30, .processes = 2});
  EXPECT_EQ(two.processes(), 2);
  for (int warm = 0; warm < 2; ++warm) {  // both have been started after this
    auto beside = std::async(std::launch::async, [&] { return two.graph(task("import time; time.sleep(0.5); return x")); });
    EXPECT_TRUE(two.graph(task("import time; time.sleep(0.5); return x * 2")));
    EXPECT_TRUE(beside.get());
  }
  std::vector<std::future<Result<TaskGraph>>> all;
  for (const char* forward : {"return x + 1", "return x.no_such()", "return x * 2", "import os; os._exit(3)", "return x - 1", "return x.sum()"})
    all.push_back(std::async(std::launch::async, [&two, forward] { return two.graph(task(forward)); }));
  std::vector<bool> good;
  for (auto& one : all) good.push_back(one.get().has_value());
  EXPECT_EQ(good, (std::vector<bool>{true, false, true, false, true, true}));
}

}  // namespace
}  // namespace musacoder::synth
