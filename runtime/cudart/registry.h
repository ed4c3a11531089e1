// Kernels and variables of the loaded shared objects, as the code that nvcc generates registers them. Modules go to the
// server at the first use of anything in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "connection.h"

namespace musacoder::cudart {

struct Module;

struct Param {
  std::uint32_t offset = 0, bytes = 0;
};

struct Function {
  Module* module = nullptr;
  std::string name;               // mangled
  std::uint64_t generation = 0;   // of the connection that the fields below belong to
  std::uint32_t id = 0, static_shared_bytes = 0, local_bytes = 0, max_threads = 0, param_bytes = 0;
  std::vector<Param> params;
  int max_dynamic_shared = -1;    // set by cudaFuncSetAttribute
  int preferred_carveout = -1;
};

// A host stub's address or a kernel handle → the function, known to the server. Errors are explained, not recorded.
cudaError_t resolve(const void* function, Function** out);
// Device address and size of a variable's host shadow.
cudaError_t resolve_symbol(const void* symbol, std::uint64_t* address, std::uint64_t* bytes);

struct LaunchShape {
  std::uint32_t grid[3], block[3];
  std::uint64_t dynamic_shared = 0;
  bool cooperative = false;
};
cudaError_t launch(const void* function, const LaunchShape& shape, void** args);

}  // namespace musacoder::cudart
