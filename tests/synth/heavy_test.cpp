// Operators that sum over much: shapes against hand calculation, tasks of every family, and kernels that say about themselves what is so.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "synth/graph/graph.h"
#include "synth/tasks/tasks.h"
#include "synth/teacher/derivation.h"
#include "synth/teacher/program_teacher.h"
#include "synth/teacher/schedule.h"

namespace musacoder::synth {
namespace {

std::string shape_of(const char* op, std::vector<std::vector<std::int64_t>> inputs, Attrs attrs = {}) {
  GraphBuilder b;
  std::vector<int> values;
  for (const auto& sizes : inputs) {
    std::vector<Dim> dims;
    for (std::int64_t s : sizes) dims.push_back(literal(s));
    values.push_back(b.input("x" + std::to_string(values.size()), DType::kF32, dims));
  }
  const int y = b.op(op, values, std::move(attrs));
  const std::string text = shape_text(b.type(y));
  b.output(y);
  const Result<Graph> graph = b.build();
  return graph ? text : "error: " + graph.error().message;
}

using List = std::vector<std::int64_t>;

// (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1, worked by hand.
TEST(HeavyShapes, Convolutions) {
  EXPECT_EQ(shape_of("conv2d", {{2, 3, 32, 32}, {8, 3, 3, 3}}), "float32 (2, 8, 30, 30)");
  EXPECT_EQ(shape_of("conv2d", {{2, 3, 32, 31}, {8, 3, 3, 3}, {8}}, {{"stride", 2}, {"padding", 1}}), "float32 (2, 8, 16, 16)");
  EXPECT_EQ(shape_of("conv2d", {{2, 4, 20, 20}, {6, 2, 3, 5}}, {{"groups", 2}, {"dilation", List{2, 1}}, {"padding", List{0, 2}}}), "float32 (2, 6, 16, 20)");
  EXPECT_EQ(shape_of("conv1d", {{1, 2, 100}, {4, 2, 7}}, {{"stride", 3}}), "float32 (1, 4, 32)");
  EXPECT_EQ(shape_of("conv3d", {{1, 2, 8, 9, 10}, {4, 2, 3, 3, 3}}), "float32 (1, 4, 6, 7, 8)");
  EXPECT_EQ(shape_of("conv2d", {{2, 3, 2, 2}, {8, 3, 3, 3}}).rfind("error", 0), 0u);
  EXPECT_EQ(shape_of("conv2d", {{2, 3, 9, 9}, {8, 4, 3, 3}}).rfind("error", 0), 0u);
}

// (in - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1.
TEST(HeavyShapes, TransposedConvolutions) {
  EXPECT_EQ(shape_of("conv_transpose2d", {{2, 4, 5, 5}, {4, 8, 3, 3}}, {{"stride", 2}, {"padding", 1}, {"output_padding", 1}}), "float32 (2, 8, 10, 10)");
  EXPECT_EQ(shape_of("conv_transpose1d", {{1, 4, 10}, {4, 3, 4}}, {{"stride", 3}, {"groups", 2}}), "float32 (1, 6, 31)");
  EXPECT_EQ(shape_of("conv_transpose3d", {{1, 2, 4, 4, 4}, {2, 5, 3, 3, 3}}, {{"dilation", 2}}), "float32 (1, 5, 8, 8, 8)");
  EXPECT_EQ(shape_of("conv_transpose2d", {{2, 4, 5, 5}, {4, 8, 3, 3}}, {{"output_padding", 1}}).rfind("error", 0), 0u);
}

TEST(HeavyShapes, PoolingAttentionAndProducts) {
  EXPECT_EQ(shape_of("max_pool2d", {{2, 3, 9, 8}}, {{"kernel_size", 3}, {"stride", 2}, {"padding", 1}}), "float32 (2, 3, 5, 4)");
  EXPECT_EQ(shape_of("avg_pool1d", {{2, 3, 10}}, {{"kernel_size", 3}}), "float32 (2, 3, 3)");
  EXPECT_EQ(shape_of("adaptive_avg_pool3d", {{2, 3, 5, 6, 7}}, {{"output_size", List{1, 2, 3}}}), "float32 (2, 3, 1, 2, 3)");
  EXPECT_EQ(shape_of("max_pool2d", {{2, 3, 9, 8}}, {{"kernel_size", 2}, {"padding", 2}}).rfind("error", 0), 0u);
  EXPECT_EQ(shape_of("scaled_dot_product_attention", {{2, 4, 10, 16}, {2, 4, 7, 16}, {2, 4, 7, 24}}), "float32 (2, 4, 10, 24)");
  EXPECT_EQ(shape_of("scaled_dot_product_attention", {{2, 10, 16}, {2, 7, 8}, {2, 7, 8}}).rfind("error", 0), 0u);
  EXPECT_EQ(shape_of("addmm", {{5}, {4, 3}, {3, 5}}), "float32 (4, 5)");
  EXPECT_EQ(shape_of("addmm", {{6}, {4, 3}, {3, 5}}).rfind("error", 0), 0u);
  EXPECT_EQ(shape_of("diagonal_mm", {{4}, {4, 3}}), "float32 (4, 3)");
  EXPECT_EQ(shape_of("mv", {{4, 3}, {3}}), "float32 (4,)");
  EXPECT_EQ(shape_of("bmm", {{4, 3}, {3, 5}}).rfind("error", 0), 0u);
  EXPECT_EQ(shape_of("gru_cell", {{4, 3}, {4, 5}, {15, 3}, {15, 5}, {15}, {15}}), "float32 (4, 5)");
}

// Worked by hand: a GRU has three rows of weights a unit, an LSTM four.
TEST(HeavyShapes, RecurrentLayersAndHeads) {
  EXPECT_EQ(shape_of("gru", {{4, 9, 3}, {15, 3}, {15, 5}}, {{"bias", false}, {"batch_first", true}}), "float32 (4, 9, 5)");
  EXPECT_EQ(shape_of("lstm", {{9, 4, 3}, {2, 4, 5}, {2, 4, 5}, {20, 3}, {20, 5}, {20}, {20}, {20, 5}, {20, 5}, {20}, {20}}, {{"num_layers", 2}}), "float32 (9, 4, 5)");
  EXPECT_EQ(shape_of("lstm", {{9, 4, 3}, {1, 4, 5}, {20, 3}, {20, 5}, {20}, {20}}).rfind("error", 0), 0u);                            // a state alone
  EXPECT_EQ(shape_of("gru", {{9, 4, 3}, {1, 9, 5}, {15, 3}, {15, 5}, {15}, {15}}).rfind("error", 0), 0u);                              // of another batch
  EXPECT_EQ(shape_of("gru", {{9, 4, 3}, {15, 3}, {15, 5}, {15}, {15}, {15, 3}, {15, 5}, {15}, {15}}, {{"num_layers", 2}}).rfind("error", 0), 0u);
  EXPECT_EQ(shape_of("gru", {{9, 4, 3}, {20, 3}, {20, 5}, {20}, {20}}).rfind("error", 0), 0u);
  EXPECT_EQ(shape_of("multi_head_attention", {{7, 2, 12}, {9, 2, 12}, {9, 2, 12}, {36, 12}, {36}, {12, 12}, {12}}, {{"num_heads", 3}}), "float32 (7, 2, 12)");
  EXPECT_EQ(shape_of("multi_head_attention", {{7, 2, 12}, {9, 2, 12}, {9, 2, 12}, {36, 12}, {36}, {12, 12}, {12}}, {{"num_heads", 5}}).rfind("error", 0), 0u);
  EXPECT_EQ(shape_of("gru_layer", {{4, 9, 15}, {15, 5}, {4, 5}}, {{"batch_first", true}}), "float32 (4, 9, 5)");
  EXPECT_EQ(shape_of("lstm_layer", {{4, 9, 20}, {20, 5}, {20}, {4, 5}}, {{"batch_first", true}}).rfind("error", 0), 0u);
  EXPECT_EQ(shape_of("select", {{4, 9, 5}}, {{"axis", 1}, {"index", -1}}), "float32 (4, 5)");
  EXPECT_EQ(shape_of("select", {{4, 9, 5}}, {{"axis", 0}, {"index", 4}}).rfind("error", 0), 0u);
  EXPECT_EQ(shape_of("unflatten", {{4, 9, 12}}, {{"dim", 2}, {"parts", 3}}), "float32 (4, 9, 3, 4)");
}

std::vector<const Archetype*> heavy() {
  std::vector<const Archetype*> all;
  for (const auto* table : {&matrix_archetypes(), &conv_archetypes(), &pool_archetypes(), &attention_archetypes(), &scan_archetypes(), &network_archetypes()})
    for (const Archetype& a : *table) all.push_back(&a);
  return all;
}

// One schedule, and of those for these operators.
bool of_these(const std::string& schedule) {
  static const char* const kFamilies[] = {"matmul.", "mv.", "scaled_rows.", "dot.", "conv.", "pool.", "attention.", "cell.", "recurrent.", "scan."};
  return schedule.find('+') == std::string::npos &&
         std::any_of(std::begin(kFamilies), std::end(kFamilies), [&](const char* family) { return schedule.rfind(family, 0) == 0; });
}

// Every family can be drawn and answered, every schedule is used, and every index, bound and access that a kernel claims stands in it.
TEST(HeavyTasks, AreAnsweredAndFactsStandInTheKernels) {
  ProgramTeacher teacher;
  std::set<std::string> used;
  for (const Archetype* archetype : heavy()) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      const Result<DrawnTask> task = make_task(*archetype, seed);
      ASSERT_TRUE(task) << archetype->name << " " << seed << ": " << task.error().message;
      const auto answers = teacher.answer({task->file, task->graph}, {.seed = seed, .most = 3, .derive = true});
      ASSERT_TRUE(answers) << archetype->name << " " << seed << ": " << answers.error().message;
      for (const Answer& answer : *answers) {
        std::string rest = answer.schedule + "+";
        for (std::size_t at; (at = rest.find('+')) != std::string::npos; rest = rest.substr(at + 1)) used.insert(rest.substr(0, at));
        const Status agrees = check_derivation(answer.derivation, task->graph, answer.file);
        EXPECT_TRUE(agrees) << archetype->name << " " << seed << ", " << answer.schedule << ": " << agrees.error().message;
        if (!of_these(answer.schedule)) continue;
        for (const KernelFacts& kernel : answer.kernels) {
          const std::size_t begin = answer.file.find("__global__ void " + kernel.name + "(");
          ASSERT_NE(begin, std::string::npos) << kernel.name;
          const std::string text = answer.file.substr(begin, answer.file.find("\n}\n", begin) - begin);
          const auto stands = [&](const std::string& fact, const char* what) {
            EXPECT_NE(text.find(fact), std::string::npos) << archetype->name << " " << seed << ", " << kernel.name << ": " << what << " '" << fact << "' is not in\n" << text;
          };
          // A local with the name of a parameter hides it.
          const std::string head = text.substr(0, text.find(") {"));
          for (std::size_t at = text.find(") {"); (at = text.find("const int", at)) != std::string::npos; at += 9) {
            const std::size_t name = text.find(' ', at + 9) + 1;
            const std::string local = text.substr(name, text.find_first_of(" ;[=", name) - name);
            EXPECT_EQ((head + ",").find(" " + local + ","), std::string::npos) << archetype->name << " " << seed << ": " << local << " is a parameter and a local of\n" << text;
          }
          for (const IndexFact& i : kernel.indices) stands(i.name + " = " + i.formula + ";", "index");
          for (const std::string& bound : kernel.bounds) {
            // A guard may leave early where the fact says what stays.
            std::string other = bound;
            if (const std::size_t at = other.find(" < "); at != std::string::npos) other.replace(at, 3, " >= ");
            if (text.find(other) == std::string::npos) stands(bound, "bound");
          }
          for (const AccessFact& access : kernel.accesses)
            stands(access.tensor + "[" + access.index + "]", "access");
          EXPECT_GT(kernel.grid_size, 0);
          EXPECT_LE(kernel.block_size, 1024);
        }
      }
    }
  }
  for (const auto& schedule : all_schedules()) {
    if (of_these(schedule->name())) {
      EXPECT_EQ(used.count(schedule->name()), 1u) << schedule->name() << " was never drawn";
    }
  }
}

}  // namespace
}  // namespace musacoder::synth
