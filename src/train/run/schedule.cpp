#include "train/run/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace musacoder::train {

double Schedule::factor(std::int64_t step) const {
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (kind == Kind::kConstant) return 1;
  const double p = std::clamp(
      static_cast<double>(step - warmup) / static_cast<double>(std::max<std::int64_t>(1, steps - warmup)),
      0.0, 1.0);
  const double left = kind == Kind::kCosine ? (1 + std::cos(std::numbers::pi * p)) / 2 : 1 - p;
  return floor + (1 - floor) * left;
}

}  // namespace musacoder::train
