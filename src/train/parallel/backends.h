// The c10d backends that join.cpp chooses from. They throw what c10d throws.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "base/status.h"

namespace musacoder::train {

struct BackendPlace {
  int rank = 0, world = 1;
  std::string address;  // MASTER_ADDR
  std::chrono::milliseconds timeout{0};
};

c10::intrusive_ptr<c10d::Backend> gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               const BackendPlace& place);
// From runtime/lib/libmusacoder_nccl.so beside the program; kUnsupported where it is absent.
Result<c10::intrusive_ptr<c10d::Backend>> nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                       const BackendPlace& place);

// What that library offers: a new reference, which the caller owns.
using NcclBackendFunction = c10d::Backend* (*)(c10d::Store * store, int rank, int world,
                                               std::int64_t timeout_ms);
inline constexpr const char* kNcclFunction = "musacoder_nccl_backend";

}  // namespace musacoder::train
