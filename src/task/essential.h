// Python as small models are shown it.
//
//   essential_python("\"\"\"Adds.\"\"\"\nimport torch  # for Model\n")      // "import torch\n"
//
// Without docstrings (every statement that is nothing but a string, unless it is all that its block holds), comments, and the blank lines
// that they leave. Text whose strings do not end, which is no Python, stays as it is, as does text that would be empty.
#pragma once

#include <string>

namespace musacoder::task {

std::string essential_python(const std::string& code);

}  // namespace musacoder::task
