// The compilers: where they are, which folders they read, and a fingerprint that changes when they do.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::build {

struct Toolchain {
  std::string nvcc, gxx, ptxas, mold;        // mold "" when absent
  std::string cudart;                        // the real runtime's shared library, "" when there is none
  std::vector<std::string> library_dirs;     // with NVIDIA's libraries: the toolkit's and the python environment's
  std::vector<std::string> include_dirs;     // for nvcc and g++: where cuda_runtime.h is, when not beside nvcc
  std::vector<std::string> readable;         // folders that the sandbox must show
  std::string fingerprint;                   // versions and sizes of the programs
};

// `nvcc` empty: find_nvcc. kNotFound names what is missing and what to install.
Result<Toolchain> find_toolchain(const std::string& nvcc, const std::string& python);

// The same for Moore Threads' tool chain: mcc stands in nvcc's place (`nvcc` is empty), `cudart` is libmusart.
Result<Toolchain> find_musa_toolchain();

// Path of a library of NVIDIA's by its bare name ("cublas"), with whatever version; "" when there is none.
std::string find_library(const Toolchain& tools, const std::string& name);

// SHA-256 over names and contents of all files below a folder; "" when it is absent. Follows symlinks.
std::string hash_tree(const std::string& folder);

}  // namespace musacoder::build
