// `musacoder-train bench`: how fast a model trains here, as one JSON line.
//
//   musacoder-train bench --model DIR --device cuda --batch 32 --length 1024 --steps 20
//   {"tokens_per_s": ..., "ms_per_step": ..., "peak_bytes": ..., "first_loss": ..., "last_loss": ...}
//
// A step is forward, loss, backward, clipping and AdamW (float32 masters of bf16 weights) on a batch of
// made-up tokens: token t of sequence b is (1000003 b + 7919 t + t t mod 97) mod vocabulary, so that another
// implementation can take the same. Timed are `steps` steps after `warm_up`, from first to last.
#pragma once

#include <string>

#include "base/status.h"

namespace musacoder::train {

struct BenchOptions {
  std::string model;
  std::string device = "cpu";
  std::string type = "bf16";  // or f32
  int batch = 8, length = 1024, steps = 10, warm_up = 3;
  double learning_rate = 1e-5;
  bool recompute = false;
  std::string trace;  // file for a trace of one more step; empty: none
};

Status run_bench(const BenchOptions& options);

}  // namespace musacoder::train
