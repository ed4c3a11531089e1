// How the processes of a run find each other: torchrun's environment, set by it or by hand.
//
//   torchrun --no-python --nproc-per-node 4 musacoder-train sft run.toml
//   RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 musacoder-train sft run.toml      # and RANK=1
//   elsewhere
//
// RANK and WORLD_SIZE, LOCAL_RANK (which GPU), LOCAL_WORLD_SIZE (how many share the machine's cores),
// MASTER_ADDR and MASTER_PORT (a store that rank 0 serves, or torchrun's agent:
// TORCHELASTIC_USE_AGENT_STORE). Without WORLD_SIZE, or with 1, the process is by itself. Backends: gloo,
// from libtorch_cpu; nccl, from a library of our own above libtorch_cuda that is loaded only then and built
// where torch's wheel has CUDA's libraries. gloo takes the interface of GLOO_SOCKET_IFNAME, else the loopback
// for a local MASTER_ADDR, else that of the host's name.
//
// Errors: kInvalidArgument (a variable is missing or no number), kUnavailable (no connection within five
// minutes), kUnsupported (no nccl here).
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "train/parallel/communicator.h"

namespace musacoder::train {

struct RunPlace {
  int rank = 0, world = 1, local_rank = 0, local_world = 1;
  std::string address;
  int port = 0;
  bool agent_store = false;  // torchrun's agent serves the store
  std::string prefix;        // of keys in it: an attempt of torchrun's has its own
};
// From the environment.
Result<RunPlace> run_place();

// `timeout_s`: how long a process may keep the others waiting.
Result<std::unique_ptr<Communicator>> join_run(const RunPlace& place, const std::string& backend,
                                               at::Device device, double timeout_s);

}  // namespace musacoder::train
