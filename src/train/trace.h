// What libtorch and the GPU did between two moments, as a file for chrome://tracing and
// https://ui.perfetto.dev.
//
//   Trace trace(device);  ...  trace.save("step.json");
#pragma once

#include <string>

#include "llm/torch.h"

namespace musacoder::train {

class Trace {
 public:
  explicit Trace(const at::Device& device);  // begins
  void save(const std::string& path);        // ends
};

}  // namespace musacoder::train
