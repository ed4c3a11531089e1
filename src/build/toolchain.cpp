#include "build/toolchain.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/subprocess.h"
#include "build/build.h"
#include "build/mcc.h"

namespace fs = std::filesystem;

namespace musacoder::build {
namespace {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string real(const std::string& path) {
  std::error_code error;
  fs::path resolved = fs::canonical(path, error);
  return error ? path : resolved.string();
}

// Folders with a toolkit's layout inside a Python environment: site-packages/nvidia/{cu13,cuda_nvcc,…}.
std::vector<std::string> wheel_roots(const std::string& python) {
  std::vector<std::string> roots;
  std::string site = base::site_packages(python);
  if (site.empty()) return roots;
  std::error_code error;
  for (fs::directory_iterator it(site + "/nvidia", error), end; !error && it != end; it.increment(error)) roots.push_back(it->path());
  std::sort(roots.begin(), roots.end());
  return roots;
}

std::string stamp(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return path + " absent";
  return fmt::format("{} {} {}", fs::path(path).filename().string(), info.st_size, info.st_mtim.tv_sec);
}

std::string version_of(const std::string& program) {
  auto result = base::run({.argv = {program, "--version"}, .timeout_s = 20});
  return result && result->exit.ok() ? result->out : "";
}

}  // namespace

Result<std::string> find_nvcc(const std::string& python) {
  std::vector<std::string> tried;
  auto usable = [&](const std::string& path) {
    if (path.empty()) return false;
    if (base::is_executable(path)) return true;
    tried.push_back(path);
    return false;
  };
  if (std::string given = env("MUSACODER_NVCC"); !given.empty()) {
    if (usable(given)) return given;
    return fail(Code::kNotFound, "MUSACODER_NVCC names {}, which is not a program", given);
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string home = env(name); !home.empty() && usable(home + "/bin/nvcc")) return home + "/bin/nvcc";
  if (std::string found = base::find_program("nvcc"); usable(found)) return found;
  if (usable("/usr/local/cuda/bin/nvcc")) return std::string("/usr/local/cuda/bin/nvcc");
  for (const auto& root : wheel_roots(python))
    if (base::is_executable(root + "/bin/nvcc")) return root + "/bin/nvcc";
  return fail(Code::kNotFound,
              "no CUDA compiler (nvcc) was found in $MUSACODER_NVCC, $CUDA_HOME, PATH, /usr/local/cuda or the nvidia wheels of {}; "
              "run scripts/setup, or install nvidia-cuda-nvcc 13.0 with pip",
              python);
}

Result<Toolchain> find_toolchain(const std::string& nvcc, const std::string& python) {
  Toolchain tools;
  if (!nvcc.empty()) {
    if (!base::is_executable(nvcc)) return fail(Code::kNotFound, "{} is not a program", nvcc);
    tools.nvcc = nvcc;
  } else {
    MC_ASSIGN_OR_RETURN(tools.nvcc, find_nvcc(python));
  }
  for (const char* name : {"g++-12", "g++"})
    if (tools.gxx.empty()) tools.gxx = base::find_program(name, "/usr/local/bin:/usr/bin:/bin");
  if (tools.gxx.empty()) tools.gxx = base::find_program("g++");
  if (tools.gxx.empty()) return fail(Code::kNotFound, "no C++ compiler (g++) was found; install g++");
  tools.mold = base::find_program("mold", "/usr/local/bin:/usr/bin:/bin");

  fs::path root = fs::path(real(tools.nvcc)).parent_path().parent_path();
  tools.ptxas = (root / "bin/ptxas").string();
  if (!base::is_executable(tools.ptxas)) tools.ptxas.clear();
  tools.readable.push_back(root);
  // /usr/local/cuda and its like: the path by which nvcc was called must lead somewhere inside too.
  tools.readable.push_back(fs::path(tools.nvcc).parent_path().parent_path());
  bool has_headers = false;
  for (const char* place : {"include", "targets/x86_64-linux/include"}) has_headers |= base::exists((root / place / "cuda_runtime.h").string());
  for (const auto& wheel : wheel_roots(python)) {
    bool runtime = base::exists(wheel + "/include/cuda_runtime.h"), cccl = base::exists(wheel + "/include/cub/cub.cuh") || base::exists(wheel + "/include/cccl/cub/cub.cuh");
    bool other_root = real(wheel) != root;
    if (!has_headers && (runtime || cccl) && other_root) tools.include_dirs.push_back(wheel + "/include");
    if (!has_headers && base::is_directory(wheel + "/include/cccl")) tools.include_dirs.push_back(wheel + "/include/cccl");
    if (!has_headers) tools.readable.push_back(wheel);
    has_headers = has_headers || (runtime && !other_root);
  }
  if (!has_headers && tools.include_dirs.empty())
    return fail(Code::kNotFound, "nvcc at {} has no cuda_runtime.h beside it; install nvidia-cuda-runtime 13.0 with pip", tools.nvcc);

  // The libraries that torch brings come first: a process holds one of each.
  for (const auto& wheel : wheel_roots(python))
    if (base::is_directory(wheel + "/lib")) tools.library_dirs.push_back(wheel + "/lib");
  for (const char* place : {"lib64", "targets/x86_64-linux/lib", "lib64/stubs", "lib/stubs"})
    if (base::is_directory((root / place).string())) tools.library_dirs.push_back((root / place).string());
  for (const char* place : {"/usr/lib/x86_64-linux-gnu", "/usr/local/nvidia/lib64"})
    if (base::is_directory(place)) tools.library_dirs.push_back(place);
  tools.cudart = find_library(tools, "cudart");
  for (const auto& dir : tools.library_dirs) tools.readable.push_back(dir);

  base::Sha256 hash;
  hash.field(tools.cudart);
  hash.field(version_of(tools.nvcc));
  hash.field(version_of(tools.gxx));
  for (const auto& file : {tools.nvcc, (root / "bin/cudafe++").string(), (root / "nvvm/bin/cicc").string(), tools.gxx, tools.mold})
    hash.field(stamp(file));
  for (const auto& dir : tools.include_dirs) hash.field(dir);
  tools.fingerprint = hash.hex();
  return tools;
}

Result<Toolchain> find_musa_toolchain() {
  const MusaToolkit toolkit = find_musa_toolkit();
  if (toolkit.mcc.empty())
    return fail(Code::kNotFound, "no MUSA compiler: there is no bin/mcc in $MUSA_HOME, $MUSA_PATH, PATH or /usr/local/musa; install the MUSA toolkit");
  Toolchain tools;
  for (const char* name : {"g++-12", "g++"})
    if (tools.gxx.empty()) tools.gxx = base::find_program(name, "/usr/local/bin:/usr/bin:/bin");
  if (tools.gxx.empty()) return fail(Code::kNotFound, "no C++ compiler (g++) was found; install g++");
  tools.mold = base::find_program("mold", "/usr/local/bin:/usr/bin:/bin");
  tools.cudart = toolkit.runtime;
  tools.include_dirs.push_back(toolkit.home + "/include");
  for (const char* folder : {"/lib", "/lib64"})
    if (base::is_directory(toolkit.home + folder)) tools.library_dirs.push_back(toolkit.home + folder);
  for (const auto& dir : {toolkit.home, real(toolkit.home), fs::path(real(toolkit.mcc)).parent_path().parent_path().string()}) tools.readable.push_back(dir);
  // Parts of a toolkit may be links to where they are installed.
  std::error_code error;
  for (fs::directory_iterator it(toolkit.home, error), end; !error && it != end; it.increment(error))
    if (it->is_symlink(error) && it->is_directory(error)) tools.readable.push_back(real(it->path()));
  base::Sha256 hash;
  for (const auto& part : {version_of(toolkit.mcc), version_of(tools.gxx), stamp(toolkit.mcc), stamp(tools.gxx), tools.cudart}) hash.field(part);
  tools.fingerprint = hash.hex();
  return tools;
}

std::string find_library(const Toolchain& tools, const std::string& name) {
  const std::string exact = "lib" + name + ".so";
  for (const auto& dir : tools.library_dirs) {
    std::string best;
    std::error_code error;
    for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
      const std::string file = it->path().filename();
      // libcudart.so, libcudart.so.13; not libcudart_static or libcublasLt.
      if (file != exact && !(file.starts_with(exact + ".") && file.find_first_not_of("0123456789.", exact.size()) == std::string::npos)) continue;
      if (best.empty() || file.size() < best.size()) best = file;
    }
    if (!best.empty()) return dir + "/" + best;
  }
  return "";
}

std::string hash_tree(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::follow_directory_symlink, error), end;
       !error && it != end; it.increment(error))
    if (it->is_regular_file(error)) files.push_back(it->path());
  if (files.empty()) return "";
  std::sort(files.begin(), files.end());
  base::Sha256 hash;
  for (const auto& file : files) {
    hash.field(fs::path(file).lexically_relative(folder).string());
    hash.field(base::sha256_file(file).value_or(""));
  }
  return hash.hex();
}

}  // namespace musacoder::build
