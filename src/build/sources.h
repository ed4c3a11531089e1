// The translation units that torch.utils.cpp_extension would write for an extension, with #line directives so that
// diagnostics and PTX .loc entries name the candidate's own sources ("cuda_sources[0]", line 12).
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "build/build.h"

namespace musacoder::build {

struct Unit {
  std::string file;     // "main.cpp", "cuda.cu", or the file's own name
  bool cuda = false;    // compiled by nvcc, else by g++
  std::string text;
};

struct Units {
  std::vector<Unit> units;
  std::vector<std::pair<std::string, std::string>> headers;   // name → text, placed beside the units
};

// kInvalidArgument says what is wrong with the extension: no sources, a file name outside the folder, …
Result<Units> make_units(const Extension& extension);

// Macros that let the slim headers leave out what these sources do not speak of (runtime/include/musacoder/std.h):
// MUSACODER_LEAN_STD and MUSACODER_LEAN_HALF. Cautious: when in doubt the headers stay whole.
std::vector<std::string> lean_macros(const Units& units);

}  // namespace musacoder::build
