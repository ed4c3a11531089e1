// One pass of a model over rows of running sequences on a GPU: hidden states, logits and sampled tokens, by
// the kernels of kernels/cuda/decode.h alone.
//
//   MC_ASSIGN_OR_RETURN(auto step, CudaStep::open(weights, cache, states, {.rows = 256, .picks = 64}));
//   const auto sampled = step->run({{&table, 17, token, slot}}, {{.row = 0, .sampling = &params, .uniform =
//   u}});
//
// Keys and values go into `cache`, DeltaNet layers' states into `states`; both must lie on the weights'
// device. Rows of one sequence are neighbours, in the order of their positions. A step in which every row
// gives one token runs as a CUDA graph, of which there is one for each of a few numbers of rows; others are
// launched piece by piece. A row's result is the same bits in any company, and in either way. Adapters are to
// be merged before (lora.h). Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "llm/generate/delta_states.h"
#include "llm/generate/kv_cache.h"
#include "llm/generate/sampling.h"
#include "llm/model/weights.h"

namespace musacoder::llm {

class CudaStep {
 public:
  struct Sizes {
    std::int64_t rows = 0, picks = 0;  // of one step, at most
    std::int64_t tokens = 0;           // of one sequence, at most
  };
  struct Row {
    const PageTable* table = nullptr;  // long enough for `position`
    std::int64_t position = 0;
    TokenId token = 0;
    std::int32_t state = 0;  // the sequence's slot in the states
  };
  struct Pick {
    std::int64_t row = 0;  // of the rows
    const SamplingParams* sampling = nullptr;
    double uniform = 0;  // uniform_of()
  };
  // kUnsupported: sizes, types or layers that the kernels do not take, by name.
  static Result<std::unique_ptr<CudaStep>> open(const Weights& weights, const KvCache& cache,
                                                const DeltaStates& states, const Sizes& sizes);
  virtual ~CudaStep() = default;

  // Throws std::exception on a fault of CUDA. Penalties are not applied: logits() and a Sampler are for
  // those.
  virtual std::vector<Sampled> run(const std::vector<Row>& rows, const std::vector<Pick>& picks) = 0;
  // Of pick `pick` of the last run: [vocab] float32, in the host's memory.
  virtual std::vector<float> logits(std::int64_t pick) const = 0;
};

}  // namespace musacoder::llm
