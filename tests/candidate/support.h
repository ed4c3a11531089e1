#pragma once

#include <cstdlib>
#include <string>

#include "candidate/candidate.h"

namespace musacoder::candidate {

inline ExtractOptions test_options() {
  const char* python = std::getenv("MUSACODER_PYTHON");
  ExtractOptions options;
  options.python = python && *python ? python : "/usr/bin/python3";
  options.runtime_dir = std::string(MC_SOURCE_DIR) + "/runtime";
  options.launcher = std::string(MC_BINARY_DIR) + "/runtime/bin/musacoder-sandbox";
  return options;
}

}  // namespace musacoder::candidate
