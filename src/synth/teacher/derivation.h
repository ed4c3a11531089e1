// The six steps from a task to its kernels, written from what the teacher knows, and a check that a text agrees with kernels.
//
//   const std::string text = derivation_text(graph, answer.kernels, seed);
//   Status agrees = check_derivation(text, task_graph, answer.file);        // kInvalidArgument names the first disagreement
//
// The steps: overall analysis; scalar formula; shapes; index and memory mapping; boundaries and types; likely errors
// (arXiv 2606.04847 §3.2.1). Statements that can be wrong have a line and a form each:
//
//   - Tensor `x`: float32 (128, 512)
//   - Kernel `relu_kernel` is launched with grid `(n + threads - 1) / threads` and block `256`: 256 blocks of 256 threads, 0 bytes of shared memory
//   - Size `n` = 65536
//   - Index `idx` = `blockIdx.x * blockDim.x + threadIdx.x`: one element of the result
//   - Reads `x[idx]`      - Writes `out[idx]`
//   - Loop over `i` from `lane` to `cols` in steps of `32`: …
//   - Guard `idx < n`
//   - Accumulates in `float`
//
// The check takes none of it from the writer. It reads the statements back from the text, finds the formulas again in the kernel's body,
// and recomputes shapes, sizes, grid, block and shared memory by walking through ModelNew.forward and the host functions with the task's
// shapes (host_walk.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "synth/graph/graph.h"
#include "synth/teacher/teacher.h"

namespace musacoder::synth {

std::string derivation_text(const Graph& graph, const std::vector<KernelFacts>& kernels, std::uint64_t seed);

// `file`: the answer's Python file. kUnsupported: the file's host code has forms that the walk does not know.
Status check_derivation(std::string_view text, const Graph& graph, std::string_view file);

}  // namespace musacoder::synth
