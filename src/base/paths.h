// Where the installation's parts are: runtime folder, Python with torch, cache.
//
//   MC_ASSIGN_OR_RETURN(std::string runtime, find_runtime_dir());
//   std::string python = find_python(runtime);
//
// The same rules serve a build tree, an installed tree and the portable bundle.
#pragma once

#include <string>

#include "base/status.h"

namespace musacoder::base {

// Path of the running program.
std::string exe_path();

// The folder with include/, lib/, bin/ and python/: $MUSACODER_RUNTIME, else <exe dir>/runtime, else
// <exe dir>/../runtime, else <exe dir>/../lib/musacoder. kNotFound names the places tried.
Result<std::string> find_runtime_dir();

// A Python that has torch: $MUSACODER_PYTHON, else the first of .venv/bin/python beside or up to three folders above the
// runtime folder, the one found at configure time, $VIRTUAL_ENV/bin/python, python3 on PATH. Not checked for torch here.
std::string find_python(const std::string& runtime_dir);

// $MUSACODER_CACHE, else $XDG_CACHE_HOME/musacoder, else ~/.cache/musacoder, else /tmp/musacoder-<uid>. Not created.
std::string cache_dir();

// The site-packages folders of a Python environment, by its folder layout alone (no process is started).
std::string site_packages(const std::string& python);

}  // namespace musacoder::base
