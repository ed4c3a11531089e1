#include "base/paths.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/files.h"
#include "base/subprocess.h"

namespace fs = std::filesystem;

namespace musacoder::base {
namespace {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string exe_path() {
  std::error_code error;
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? std::string() : path.string();
}

Result<std::string> find_runtime_dir() {
  std::vector<std::string> places;
  if (!env("MUSACODER_RUNTIME").empty()) {
    places.push_back(env("MUSACODER_RUNTIME"));
  } else {
    fs::path dir = fs::path(exe_path()).parent_path();
    places = {dir / "runtime", dir.parent_path() / "runtime", dir.parent_path() / "lib/musacoder"};
  }
  std::string tried;
  for (const auto& place : places) {
    if (is_directory(place + "/python")) return fs::absolute(place).lexically_normal().string();
    tried += (tried.empty() ? "" : ", ") + place;
  }
  return fail(Code::kNotFound, "the runtime folder was not found (tried {}); set MUSACODER_RUNTIME to it", tried);
}

std::string find_python(const std::string& runtime_dir) {
  if (!env("MUSACODER_PYTHON").empty()) return env("MUSACODER_PYTHON");
  if (!runtime_dir.empty()) {
    fs::path dir = fs::absolute(runtime_dir).lexically_normal();
    for (int i = 0; i < 4; ++i) {
      fs::path candidate = dir / ".venv/bin/python";
      if (is_executable(candidate)) return candidate;
      dir = dir.parent_path();
    }
  }
#ifdef MC_DEFAULT_PYTHON
  if (is_executable(MC_DEFAULT_PYTHON)) return MC_DEFAULT_PYTHON;
#endif
  std::string venv = env("VIRTUAL_ENV") + "/bin/python";
  if (venv.size() > 11 && is_executable(venv)) return venv;
  std::string found = find_program("python3");
  return found.empty() ? "python3" : found;
}

std::string cache_dir() {
  if (!env("MUSACODER_CACHE").empty()) return env("MUSACODER_CACHE");
  if (!env("XDG_CACHE_HOME").empty()) return env("XDG_CACHE_HOME") + "/musacoder";
  if (!env("HOME").empty() && is_directory(env("HOME"))) return env("HOME") + "/.cache/musacoder";
  return fmt::format("/tmp/musacoder-{}", ::getuid());
}

std::string site_packages(const std::string& python) {
  std::error_code error;
  // The symlink bin/python of a virtual environment must not be resolved: its parent is the environment.
  if (python.empty()) return "";
  fs::path lib = fs::absolute(python).lexically_normal().parent_path().parent_path() / "lib";
  for (fs::directory_iterator it(lib, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename();
    for (const char* folder : {"site-packages", "dist-packages"})
      if (name.starts_with("python3") && is_directory((it->path() / folder).string())) return it->path() / folder;
  }
  return "";
}

}  // namespace musacoder::base
