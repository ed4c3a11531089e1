// The learning rate of each step: linear warm-up, then cosine, linear or constant.
//
//   const Schedule schedule{Schedule::Kind::kCosine, /*steps=*/1000, /*warmup=*/30, /*floor=*/0.1};
//   schedule.factor(0);           // 1 / 30: the first step already moves
//   schedule.factor(999);         // near 0.1
//
// Warm-up: (step + 1) / warmup. After it, with p = (step - warmup) / (steps - warmup) in 0 .. 1:
// floor + (1 - floor) * (1 + cos(pi p)) / 2, or floor + (1 - floor) * (1 - p).
#pragma once

#include <cstdint>

namespace musacoder::train {

struct Schedule {
  enum class Kind { kCosine, kLinear, kConstant };
  Kind kind = Kind::kCosine;
  std::int64_t steps = 1, warmup = 0;
  double floor = 0;
  // Of the learning rate, in step 0 .. steps - 1.
  double factor(std::int64_t step) const;
};

}  // namespace musacoder::train
