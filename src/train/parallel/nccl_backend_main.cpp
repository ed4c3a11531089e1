// libmusacoder_nccl.so: c10d's NCCL backend, linked to libtorch_cuda and therefore apart from the program, which starts
// without CUDA's libraries and loads this one when a run has several GPUs (join.cpp).
#define USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "train/parallel/backends.h"

extern "C" __attribute__((visibility("default"))) c10d::Backend* musacoder_nccl_backend(c10d::Store* store, int rank,
                                                                                        int world,
                                                                                        std::int64_t timeout_ms) {
  using Group = c10d::ProcessGroupNCCL;
  const auto options = Group::Options::create();
  options->timeout = std::chrono::milliseconds(timeout_ms);
  auto group = c10::make_intrusive<Group>(c10::intrusive_ptr<c10d::Store>::reclaim_copy(store), rank, world, options);
  return c10::intrusive_ptr<c10d::Backend>(std::move(group)).release();
}

static_assert(std::is_same_v<decltype(&musacoder_nccl_backend), musacoder::train::NcclBackendFunction>);
