// Compiler output → diagnostics and the class of the failure.
#pragma once

#include <string>
#include <vector>

#include "build/build.h"

namespace musacoder::build {

// Understands g++, cudafe++ (nvcc's front end), ptxas and ld (GNU, mold). At most 200 diagnostics, errors first as they
// came; the source lines and carets that compilers print between them are left out.
std::vector<Diagnostic> parse_diagnostics(const std::string& log);

// Of the first error: "compile_error:missing_header", ":link", ":syntax", else ":nvcc". "" when there is no error.
std::string classify(const std::vector<Diagnostic>& diagnostics);

}  // namespace musacoder::build
