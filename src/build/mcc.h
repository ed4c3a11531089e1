// Moore Threads' tool chain: where it is, and how its compiler is asked for what nvcc is asked for elsewhere.
//
//   MusaToolkit toolkit = find_musa_toolkit();                       // $MUSA_HOME, $MUSA_PATH, PATH, /usr/local/musa
//   MC_ASSIGN_OR_RETURN(std::string names, cuda_names_for_mcc(table, cache_dir));
//   std::vector<std::string> argv = mcc_command(toolkit, {.architecture = "mp_31", …});
//
// Sources come to mcc as they come to nvcc: in CUDA's names, against the same slim headers. A folder of generated headers
// stands before them (cuda_runtime.h, cuda_fp16.h, …), each of which includes its MUSA counterpart and defines CUDA's names as
// MUSA's, from the same rename tables. Untested with the vendor's mcc; the stand-in of tests/musa checks the arguments.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "port/rename_table.h"

namespace musacoder::build {

struct MusaToolkit {
  std::string home;     // "" when there is none
  std::string mcc;      // "" when there is none
  std::string runtime;  // libmusart.so, "" when there is none
};
MusaToolkit find_musa_toolkit();

// The folder of generated headers, made once for each version of the tables below `cache_dir`. Errors: those of writing.
Result<std::string> cuda_names_for_mcc(const port::RenameTable& table, const std::string& cache_dir);

struct MccCommand {
  std::string architecture;                // "mp_31"
  std::string source, object;
  std::vector<std::string> includes;       // "-I…", "-isystem …"
  std::vector<std::string> defines;        // "-D…"
  std::vector<std::string> own_flags;      // the candidate's, not yet filtered
};
// No -ccbin, no -arch: mcc has neither.
std::vector<std::string> mcc_command(const MusaToolkit& toolkit, const MccCommand& command);

// What is kept of a candidate's flags for mcc: macros, language level, floating-point rules, mcc's own code generation.
std::vector<std::string> filter_mcc_flags(const std::vector<std::string>& flags);

}  // namespace musacoder::build
