// Walks through a candidate's ModelNew.forward and the host functions it calls, with shapes in place of tensors: which kernels are launched, with
// what grid, block, shared memory and size arguments. An independent second opinion on what a teacher says of its own kernels.
//
//   MC_ASSIGN_OR_RETURN(const HostWalk walk, walk_host(answer.file, graph));
//   walk.launches.at("relu_kernel").blocks;             // 256
//
// Knows straight-line host code and loops that launch: integer expressions of sizes, torch::empty and its kin, dim3, launches; in Python, calls of the extension
// and view methods. What else it meets is kUnsupported.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "synth/graph/graph.h"

namespace musacoder::synth {

struct WalkedLaunch {
  std::string grid, block;                       // as in the launch
  std::string grid_meaning, block_meaning;       // variables there replaced by what they were set to
  std::int64_t blocks = 0, threads = 0;
  std::int64_t dynamic_shared = 0, static_shared = 0;
  std::map<std::string, std::int64_t> sizes;     // integer variables of the host function by name
  std::string body;                              // of the kernel
};
struct HostWalk {
  std::map<std::string, WalkedLaunch> launches;  // by kernel; of one that is launched twice, the last
  std::vector<std::vector<std::int64_t>> outputs;  // shapes that forward returns
};
Result<HostWalk> walk_host(std::string_view file, const Graph& graph);

}  // namespace musacoder::synth
