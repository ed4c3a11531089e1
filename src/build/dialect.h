// MUSA sources for a compiler of CUDA: names are exchanged by the rename tables (port/port.h), every line stays on its line, and
// what the compiler then says is put into the candidate's own names again.
//
//   MC_ASSIGN_OR_RETURN(Extension cuda, sources_in_cuda(table, musa_extension));
//   result.message = in_musa(table, std::move(result.message));   // "identifier \"musaFoo\" is undefined"
//
// CUDA's names are unknown to a compiler of MUSA, so they must be to this one: a MUSA source that says cudaMalloc does not
// compile, and a branch of the preprocessor that CUDA alone takes is not taken. Such names get an ending (kForeign) before the
// exchange, which the messages lose again.
//
// Pure functions; any number of threads.
#pragma once

#include <string>

#include "base/status.h"
#include "build/build.h"
#include "port/rename_table.h"

namespace musacoder::build {

inline constexpr const char* kForeign = "_NotInMusa";

// Sources, files and flags of an extension in the MUSA dialect as CUDA's compiler is given them; labels stay MUSA's. What mcc
// would not take is in `remarks`, as warnings.
// Errors: kInvalidArgument for a source that is no text.
struct CudaSources {
  Extension extension;
  std::vector<Diagnostic> remarks;
};
Result<CudaSources> sources_in_cuda(const port::RenameTable& table, const Extension& musa);

// One C++ source, as above.
Result<std::string> source_in_cuda(const port::RenameTable& table, const std::string& musa);

// A compiler's message in MUSA's names. A name of CUDA that the source itself used is said to be one.
std::string in_musa(const port::RenameTable& table, const std::string& prose);

// The same for all that a build says.
void put_in_musa(const port::RenameTable& table, BuildResult& result);

}  // namespace musacoder::build
