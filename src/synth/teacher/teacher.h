// Teachers answer tasks: kernels, the ModelNew around them, and the way to them. Nothing they say is believed: every answer is judged by
// MooreEval before it becomes data.
//
//   ProgramTeacher teacher;                                          // knows schedules; needs the task's graph
//   Result<std::vector<Answer>> answers = teacher.answer({task_file, graph}, {.seed = 7, .most = 3});
//
// The other teacher behind this interface asks a model (endpoint_teacher.h); it needs the file alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "synth/graph/graph.h"

namespace musacoder::synth {

// What a kernel does, as far as the one who wrote it knows: for derivations, and for checks that texts agree with kernels.
struct IndexFact {
  std::string name;     // as in the kernel: "row", "idx"
  std::string formula;  // "blockIdx.x * blockDim.x + threadIdx.x", as in the kernel
  std::string meaning;  // "one element of the output"
};
struct AccessFact {
  std::string tensor;   // argument of the kernel
  std::string shape;    // symbolic: "(N, C, H, W)"
  std::string index;    // as in the kernel: "row * cols + col"
  bool write = false;
};
struct LoopFact {
  std::string variable, from, to, step;  // as in the kernel
  std::string purpose;
};
struct KernelFacts {
  std::string name;
  std::string grid, block;               // host expressions, as in the launch: "(n + threads - 1) / threads", "256"
  std::int64_t grid_size = 0, block_size = 0;  // for the task's own sizes: product of the axes
  std::int64_t shared_bytes = 0;
  std::string reads;                     // "x, weight": in words
  std::vector<IndexFact> indices;
  std::vector<AccessFact> accesses;
  std::vector<LoopFact> loops;
  std::vector<std::string> bounds;       // conditions that guard accesses, as in the kernel: "idx < n"
  std::vector<std::string> sizes;        // "n = 16 * 16384 = 262144": each size argument and its value
  std::string accumulator;               // type of sums: "float"; "" where nothing is summed
};

struct Answer {
  std::string file;                      // Python: ModelNew with load_inline
  std::string schedule;                  // "row_reduce.warp", one name for each kernel joined with "+"
  std::vector<KernelFacts> kernels;
  std::string derivation;                // six steps (derivation.h); "" where the teacher has none
};

struct TaskItem {
  std::string file;                      // the task, Python
  std::optional<Graph> graph;            // where it came from a generator
};
struct AnswerRequest {
  std::uint64_t seed = 0;
  int most = 1;                          // different answers: schedules first, then styles
  bool derive = false;                   // write derivations too
};

class Teacher {
 public:
  virtual ~Teacher() = default;
  virtual std::string name() const = 0;
  // At least one answer, or kUnsupported (names what it cannot do), or kUnavailable (ends a run; all others leave the task unanswered). Thread safe.
  virtual Result<std::vector<Answer>> answer(const TaskItem& task, const AnswerRequest& request) = 0;

  // Conversations: a file, what a verifier said of it, the next file.
  struct Said {
    std::string file, feedback;
  };
  virtual bool converses() const { return false; }
  // The file after those so far; "" where the reply holds none. Errors as answer(); kUnsupported of a teacher that does not converse. Thread safe.
  virtual Result<std::string> next(const TaskItem&, const std::vector<Said>&, std::uint64_t) { return fail(Code::kUnsupported, "{} answers once", name()); }
};

}  // namespace musacoder::synth
