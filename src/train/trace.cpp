#include "train/trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>

namespace musacoder::train {

Trace::Trace(const at::Device& device) {
  using namespace torch::profiler::impl;
  const ProfilerConfig config(ProfilerState::KINETO);
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (device.is_cuda()) activities.insert(ActivityType::CUDA);
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
}

void Trace::save(const std::string& path) { torch::autograd::profiler::disableProfiler()->save(path); }

}  // namespace musacoder::train
