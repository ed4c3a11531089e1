// What `nvcc --dryrun` says it would run for one source and one architecture, as argument lists.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::build {

struct DryRun {
  std::vector<std::string> host_cpp, cudafe;       // -E for the host, then the split
  std::vector<std::string> device_cpp, cicc;       // -E for the device, then PTX
  std::vector<std::string> ptxas;                  // PTX into machine code; empty where the PTX itself is the result
  std::vector<std::string> fatbinary, gxx;         // either into a C array, then the host compiler
};

// Programs have full paths or are looked up in the PATH that nvcc prints. kUnsupported when the commands are not the usual
// ones: another nvcc, several architectures.
Result<DryRun> parse_dryrun(const std::string& output);

}  // namespace musacoder::build
