// The programmatic teacher: plans, schedules, derivations and their check. Whether its kernels are right is judged by bench/synth/teacher.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "synth/tasks/tasks.h"
#include "synth/teacher/derivation.h"
#include "synth/teacher/domain.h"
#include "synth/teacher/host_walk.h"
#include "synth/teacher/plan.h"
#include "synth/teacher/program_teacher.h"

namespace musacoder::synth {
namespace {

TEST(Plan, FusesAroundAnchors) {
  GraphBuilder b;
  const int x = b.input("x", DType::kF32, {b.dim("rows", 64), b.dim("cols", 100)});
  const int sum = b.op("sum", {b.op("square", {x})}, {{"dim", -1}});
  b.output(b.op("sqrt", {sum}));
  const Graph g = *b.build();
  const auto fused = plan_graph(g, {.fuse = true});
  ASSERT_TRUE(fused.has_value()) << fused.error().message;
  ASSERT_EQ(fused->size(), 1u);
  EXPECT_EQ((*fused)[0].region.prologue, std::vector<int>{0});
  EXPECT_EQ((*fused)[0].region.anchor, 1);
  EXPECT_EQ((*fused)[0].region.epilogue, std::vector<int>{2});
  EXPECT_EQ(plan_graph(g, {.fuse = false})->size(), 3u);
}

// x − mean(x): x is read by both kernels, and the second must come after the first.
TEST(Plan, KeepsTheOrderOfWhatDepends) {
  GraphBuilder b;
  const int x = b.input("x", DType::kF32, {b.dim("rows", 64), b.dim("cols", 100)});
  const int h = b.op("tanh", {x});
  const int mean = b.op("mean", {h}, {{"dim", -1}, {"keepdim", true}});
  b.output(b.op("sub", {h, mean}));
  const Graph g = *b.build();
  const auto plan = plan_graph(g, {.fuse = true});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  std::set<int> known(g.inputs.begin(), g.inputs.end());
  for (const Step& step : *plan) {
    for (int v : step.region.inputs) EXPECT_TRUE(known.count(v)) << "value " << v << " is read before it is made";
    known.insert(step.region.outputs.begin(), step.region.outputs.end());
  }
  EXPECT_TRUE(known.count(g.outputs[0]));
}

TEST(Domain, MergesAxesThatAllTreatAlike) {
  GraphBuilder b;
  const int x = b.input("x", DType::kF32, {b.dim("n", 2), b.dim("c", 3), b.dim("h", 4), b.dim("w", 5)});
  const int bias = b.input("bias", DType::kF32, {b.dim("c", 3), literal(1), literal(1)});
  b.output(b.op("add", {x, bias}));
  const Graph g = *b.build();
  Names names;
  const Domain d(g, g.type(x), std::vector<bool>(4), {{x, "x", {0, 1, 2, 3}}, {bias, "bias", aligned_place(g.type(bias), 4)}}, names);
  ASSERT_EQ(d.axes().size(), 3u);  // n, c, h·w
  EXPECT_EQ(d.axes()[2].count, 20);
  EXPECT_EQ(d.axes()[2].host, "x.size(2) * x.size(3)");
  EXPECT_TRUE(d.covers(0));
  EXPECT_EQ(d.offset(1, {"n0", "c0", "i"}), "c0");
  EXPECT_EQ(d.offset(0, {"n0", "c0", "i"}), fmt::format("(n0 * {} + c0) * {} + i", d.axes()[1].size, d.axes()[2].size));
}

TEST(ProgramTeacher, AnswersDifferInSchedule) {
  const auto task = make_task(*find_archetype("activation.chain"), 3);
  ASSERT_TRUE(task.has_value());
  ProgramTeacher teacher;
  const auto answers = teacher.answer({task->file, task->graph}, {.seed = 1, .most = 3});
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  ASSERT_EQ(answers->size(), 3u);
  EXPECT_NE((*answers)[0].schedule, (*answers)[1].schedule);
  const auto again = teacher.answer({task->file, task->graph}, {.seed = 1, .most = 3});
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ((*answers)[k].file, (*again)[k].file);
}

TEST(ProgramTeacher, SaysWhatItCannotDo) {
  ProgramTeacher teacher;
  EXPECT_EQ(teacher.answer({"import torch", std::nullopt}, {}).error().code, Code::kUnsupported);
  GraphBuilder b;
  b.output(b.op("sum", {b.input("x", DType::kF64, {literal(64), literal(8)})}, {{"dim", 1}}));
  const auto refused = teacher.answer({"", *b.build()}, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("sum"), std::string::npos);
}

// A parameter of a kernel that its body declares again, which nvcc refuses; "" where there is none.
std::string declared_twice(const std::string& file) {
  static const std::regex kernel(R"(__global__ void[^(]*?(\w+)\(([^)]*)\)\s*\{)"), parameter(R"((\w+)\s*(?:,|$))"),
      local(R"((?:float|double|int|long long|bool|unsigned|auto|__half|half)\s+(\w+)\s*(?:=|;|\[))");
  for (auto it = std::sregex_iterator(file.begin(), file.end(), kernel); it != std::sregex_iterator(); ++it) {
    const std::string parameters = (*it)[2];
    std::set<std::string> names;
    for (auto one = std::sregex_iterator(parameters.begin(), parameters.end(), parameter); one != std::sregex_iterator(); ++one) names.insert((*one)[1]);
    std::size_t end = static_cast<std::size_t>(it->position() + it->length());
    const std::size_t begin = end;
    for (int depth = 1; depth > 0 && end < file.size(); ++end) depth += file[end] == '{' ? 1 : file[end] == '}' ? -1 : 0;
    const std::string body = file.substr(begin, end - begin);
    for (auto one = std::sregex_iterator(body.begin(), body.end(), local); one != std::sregex_iterator(); ++one)
      if (names.count((*one)[1])) return (*it)[1].str() + ": " + (*one)[1].str();
  }
  return "";
}

// What a row is divided by has another name than the sizes that tasks have.
TEST(ProgramTeacher, NormalisesAlongADimensionCalledLength) {
  GraphBuilder b;
  b.output(b.op("normalize", {b.input("x", DType::kF32, {b.dim("batch_size", 6), b.dim("channels", 48), b.dim("length", 200)})}, {{"dim", 1}}));
  const Graph graph = *b.build();
  for (const auto styles : {ProgramTeacher::Styles::kAll, ProgramTeacher::Styles::kOne}) {
    ProgramTeacher teacher(styles);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto answers = teacher.answer({"", graph}, {.seed = seed, .most = 2});
      ASSERT_TRUE(answers) << answers.error().message;
      for (const Answer& answer : *answers) EXPECT_EQ(declared_twice(answer.file), "") << answer.file;
    }
  }
}

// A cell state beside the sequence is a second result; what stands behind a sequence joins kernels that keep the state to themselves.
TEST(ProgramTeacher, AnswersRecurrentLayersWithAllTheirResults) {
  GraphBuilder b;
  const Dim batch = b.dim("batch_size", 3), steps = b.dim("seq_len", 5), in = b.dim("input_size", 6), hidden = b.dim("hidden_size", 70);
  const Attrs args{{"input_size", Attr::of(in)}, {"hidden_size", Attr::of(hidden)}, {"num_layers", 2}};
  const int x = b.input("x", DType::kF32, {steps, batch, in});
  const int sequence = b.module("lstm", "LSTM", "lstm", {x}, args);
  const int state = b.result(1), cell = b.result(2);
  b.output(b.op("relu", {sequence}));
  b.output(state);
  b.output(cell);
  const Graph graph = *b.build();
  ProgramTeacher teacher;
  std::set<std::string> schedules;
  bool pair = false;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const auto answers = teacher.answer({"", graph}, {.seed = seed, .most = 3, .derive = true});
    ASSERT_TRUE(answers) << answers.error().message;
    for (const Answer& answer : *answers) {
      const Status agrees = check_derivation(answer.derivation, graph, answer.file);
      EXPECT_TRUE(agrees) << answer.schedule << ": " << agrees.error().message << answer.file;
      EXPECT_EQ(declared_twice(answer.file), "");
      schedules.insert(answer.schedule);
      pair = pair || answer.file.find("std::vector<torch::Tensor> recurrent") != std::string::npos;
    }
  }
  EXPECT_TRUE(pair);
  for (const char* name : {"recurrent.block", "recurrent.warps", "recurrent.step"})
    EXPECT_TRUE(std::any_of(schedules.begin(), schedules.end(), [&](const std::string& s) { return s.find(name) != std::string::npos; })) << name;

  GraphBuilder one;
  const int y = one.input("x", DType::kF32, {one.dim("batch_size", 3), one.dim("seq_len", 5), one.dim("input_size", 6)});
  const int bias = one.parameter("bias", DType::kF32, {one.dim("hidden_size", 8)});
  one.output(one.op("tanh", {one.op("add", {one.module("gru", "GRU", "gru", {y}, {{"input_size", 6}, {"hidden_size", 8}, {"batch_first", true}}), bias})}));
  const Graph fused = *one.build();
  std::set<std::string> whole;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto answer = teacher.answer({"", fused}, {.seed = seed, .most = 1, .derive = true});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_NE((*answer)[0].derivation, "");
    whole.insert((*answer)[0].schedule.substr((*answer)[0].schedule.find('+') + 1));
  }
  EXPECT_EQ(whole, (std::set<std::string>{"recurrent.block", "recurrent.warps"}));
}

// Regions of drawn graphs whose epilogue reads the anchor's input again, or what the prologue computed.
TEST(ProgramTeacher, AnswersRandomGraphs) {
  ProgramTeacher teacher;
  for (std::uint64_t seed = 90000; seed < 90300; ++seed) {
    const auto task = random_task(seed);
    if (!task) continue;
    const auto answers = teacher.answer({task->file, task->graph}, {.seed = seed, .most = 3, .derive = true});
    ASSERT_TRUE(answers.has_value()) << seed << ": " << answers.error().message;
    for (const Answer& answer : *answers) EXPECT_EQ(declared_twice(answer.file), "") << seed;
  }
}

const std::vector<const char*> kHeavy = {"matmul", "fused", "conv", "pool", "attention", "scan", "network"};

// Every archetype is answered, and what is said of the kernels agrees with them.
TEST(Derivation, AgreesForEveryArchetype) {
  ProgramTeacher teacher;
  int texts = 0;
  for (const Archetype& archetype : archetypes())
    for (std::uint64_t seed = 40; seed < 44; ++seed) {
      const auto task = make_task(archetype, seed);
      if (!task) continue;
      const auto answers = teacher.answer({task->file, task->graph}, {.seed = seed, .most = 2, .derive = true});
      ASSERT_TRUE(answers.has_value()) << archetype.name << " " << seed << ": " << answers.error().message;
      for (const Answer& answer : *answers) {
        EXPECT_EQ(declared_twice(answer.file), "") << archetype.name << " " << seed;
        const Status agrees = check_derivation(derivation_text(task->graph, answer.kernels, seed), task->graph, answer.file);
        EXPECT_FALSE(agrees.has_value() && answer.derivation.empty());
        // Host code of heavy operators may have forms that the walk does not know; what it can follow must agree.
        const std::string name = archetype.name;
        const bool heavy = std::any_of(kHeavy.begin(), kHeavy.end(), [&](const char* with) { return name.rfind(with, 0) == 0; });
        if (heavy && !agrees && agrees.error().code == Code::kUnsupported) continue;
        EXPECT_TRUE(agrees.has_value()) << archetype.name << " " << seed << " " << answer.schedule << ": " << agrees.error().message;
        ++texts;
      }
    }
  EXPECT_GT(texts, 200);
}

struct Softmax {
  DrawnTask task;
  Answer answer;
};
Softmax softmax_answer() {
  GraphBuilder b;
  b.output(b.op("softmax", {b.input("x", DType::kF32, {b.dim("batch_size", 96), b.dim("features", 200)})}, {{"dim", -1}}));
  Softmax s;
  s.task.graph = *b.build();
  ProgramTeacher teacher;
  s.answer = teacher.answer({"", s.task.graph}, {.seed = 5, .most = 1, .derive = true})->at(0);
  return s;
}

std::string with(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what << " is not in\n" << text;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

TEST(Derivation, RefusesEveryStatementThatIsChanged) {
  const Softmax s = softmax_answer();
  const std::string& text = s.answer.derivation;
  const Status agrees = check_derivation(text, s.task.graph, s.answer.file);
  ASSERT_TRUE(agrees.has_value()) << agrees.error().message;
  // Each statement in turn: its numbers by one more, the last letter of its first formula by another.
  int changed = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    const std::size_t start = at;
    at = end + 1;
    bool statement = false;
    for (const char* form : {"- Tensor `x", "- Kernel", "- Size", "- Index", "- Reads", "- Writes", "- Loop", "- Guard"}) statement = statement || line.rfind(form, 0) == 0;
    if (!statement) continue;
    std::string other = line;
    const std::size_t digit = other.find_last_of("0123456789");
    const bool number = line.rfind("- Size", 0) == 0 || line.rfind("- Kernel", 0) == 0 || line.rfind("- Tensor", 0) == 0;
    if (number) {
      other[digit] = other[digit] == '9' ? '8' : static_cast<char>(other[digit] + 1);
    } else {
      // Behind the first backtick of the second formula, or of the only one.
      std::size_t tick = other.find('`');
      if (line.rfind("- Index", 0) == 0 || line.rfind("- Loop", 0) == 0) tick = other.find('`', other.find('`', tick + 1) + 1);
      other.insert(tick + 1, "q");
    }
    const std::string perturbed = text.substr(0, start) + other + text.substr(end);
    EXPECT_FALSE(check_derivation(perturbed, s.task.graph, s.answer.file).has_value()) << "not noticed: " << other;
    ++changed;
  }
  EXPECT_GT(changed, 8);
}

TEST(Derivation, RefusesAnotherKernelOrTask) {
  const Softmax s = softmax_answer();
  // The bound of every loop.
  std::string file = s.answer.file;
  for (std::size_t at; (at = file.find("i < cols;")) != std::string::npos;) file = with(file, "i < cols;", "i <= cols;");
  EXPECT_FALSE(check_derivation(s.answer.derivation, s.task.graph, file).has_value());
  GraphBuilder b;
  b.output(b.op("softmax", {b.input("x", DType::kF32, {b.dim("batch_size", 97), b.dim("features", 200)})}, {{"dim", -1}}));
  const Status other = check_derivation(s.answer.derivation, *b.build(), s.answer.file);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(check_derivation("", s.task.graph, s.answer.file).has_value());
  EXPECT_EQ(check_derivation(s.answer.derivation, s.task.graph, "print('no kernel')").error().code, Code::kUnsupported);
}

// Worked by hand: 1000 elements of float32 in blocks of 128.
TEST(HostWalk, RecomputesALaunch) {
  GraphBuilder b;
  b.output(b.op("relu", {b.input("x", DType::kF32, {literal(10), literal(100)})}));
  const char* file = R"py(
cuda_source = r"""
constexpr int kThreads = 128;
__global__ void relu_kernel(const float* x, float* out, int n) {
  __shared__ float tile[4][33];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fmaxf(x[i], 0.0f);
}
torch::Tensor relu(torch::Tensor x) {
  auto out = torch::empty_like(x);
  const int n = x.size(0) * x.size(1);  // all of it
  const int blocks = std::min<int64_t>((n + kThreads - 1) / kThreads, 4096);
  relu_kernel<<<blocks, kThreads, n * sizeof(float)>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
class ModelNew(nn.Module):
    def forward(self, x):
        h = x.transpose(0, 1)
        return ops.relu(h.transpose(0, 1))
)py";
  const auto walk = walk_host(file, *b.build());
  ASSERT_TRUE(walk.has_value()) << walk.error().message;
  const WalkedLaunch& launch = walk->launches.at("relu_kernel");
  EXPECT_EQ(launch.blocks, 8);
  EXPECT_EQ(launch.threads, 128);
  EXPECT_EQ(launch.dynamic_shared, 4000);
  EXPECT_EQ(launch.static_shared, 4 * 33 * 4);
  EXPECT_EQ(launch.sizes.at("n"), 1000);
  EXPECT_EQ(walk->outputs, (std::vector<std::vector<std::int64_t>>{{10, 100}}));
}

TEST(HostWalk, FollowsVectorsOfSizesAndTuplesOfModules) {
  GraphBuilder b;
  const int x = b.input("x", DType::kF32, {literal(3), literal(5), literal(7)});
  b.output(b.module("conv", "Conv1d", "conv1d", {x}, {{"in_channels", 5}, {"out_channels", 4}, {"kernel_size", 3}, {"stride", 2}}));
  const char* file = R"py(
torch::Tensor f(torch::Tensor x, torch::Tensor w, int64_t stride, int64_t padding) {
  auto shape = x.sizes().vec();
  shape[shape.size() - 2] = w.size(0);
  shape.back() = (x.size(2) + 2 * padding - w.size(2)) / stride + 1;
  auto out = torch::empty(shape, x.options());
  return out;
}
class ModelNew(nn.Module):
    def forward(self, x):
        return ops.f(x, self.conv.weight, self.conv.stride[0], self.conv.padding[0])
)py";
  const auto walk = walk_host(file, *b.build());
  ASSERT_TRUE(walk.has_value()) << walk.error().message;
  EXPECT_EQ(walk->outputs, (std::vector<std::vector<std::int64_t>>{{3, 4, 3}}));
}

// A launch for each step, and views that take axes away and apart.
TEST(HostWalk, FollowsLoopsThatLaunch) {
  GraphBuilder b;
  const int x = b.input("x", DType::kF32, {literal(3), literal(5), literal(12)});
  b.output(b.module("attn", "MultiheadAttention", "multi_head_attention", {x, x, x}, {{"embed_dim", 12}, {"num_heads", 4}}));
  const char* file = R"py(
__global__ void step_kernel(const float* x, float* out, int n, int t) { }
torch::Tensor f(torch::Tensor x) {
  const int n = x.size(0) * x.size(1);
  auto out = torch::empty({n, x.size(2)}, x.options());
  for (int t = 0; t < n; ++t) {
    step_kernel<<<(n + 3) / 4, 4>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, t);
  }
  return out;
}
class ModelNew(nn.Module):
    def forward(self, x):
        h = x.unflatten(2, (self.attn.num_heads, -1))
        h1 = h.select(0, -1)
        return ops.f(h1)
)py";
  const auto walk = walk_host(file, *b.build());
  ASSERT_TRUE(walk.has_value()) << walk.error().message;
  EXPECT_EQ(walk->launches.at("step_kernel").blocks, 5);
  EXPECT_EQ(walk->launches.at("step_kernel").threads, 4);
  EXPECT_EQ(walk->outputs, (std::vector<std::vector<std::int64_t>>{{20, 3}}));
}

}  // namespace
}  // namespace musacoder::synth
