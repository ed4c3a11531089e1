#include "judge/installation.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "base/paths.h"

namespace fs = std::filesystem;

namespace musacoder::judge {
namespace {

constexpr const char* kNeeded[] = {"torch", "numpy"};

// Of a package its __init__.py, of a module the file; 0 when it is not there.
std::uint64_t identity(const std::string& path) {
  struct stat info{};
  const std::string init = path + "/__init__.py";
  if (::stat(init.c_str(), &info) != 0 && ::stat(path.c_str(), &info) != 0) return 0;
  // A folder changes its time with everything that is put into it.
  if (S_ISDIR(info.st_mode)) return 1;
  return std::hash<std::string>{}(fmt::format("{}:{}:{}:{}", info.st_ino, info.st_size, info.st_mtim.tv_sec,
                                              info.st_mtim.tv_nsec)) |
         1;
}

// In any order: folders are read as they lie on the disk.
std::uint64_t hash_of_names(const std::string& folder) {
  std::uint64_t sum = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (name == "__pycache__") {
      it.disable_recursion_pending();
      continue;
    }
    const std::string extension = it->path().extension();
    if (extension == ".py" || extension == ".so" || name.find(".so.") != std::string::npos)
      sum += std::hash<std::string>{}(it->path().string());
  }
  return sum;
}

}  // namespace

Installation Installation::of(const std::string& python) {
  Installation installation;
  installation.folder_ = base::site_packages(python);
  if (installation.folder_.empty()) return installation;
  std::error_code error;
  for (fs::directory_iterator it(installation.folder_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (name == "__pycache__" || name.find('-') != std::string::npos) continue;
    installation.packages_[name] = identity(it->path());
  }
  for (const char* name : kNeeded)
    if (installation.packages_.count(name))
      installation.files_[name] = hash_of_names(installation.folder_ + "/" + name);
  return installation;
}

std::optional<std::string> Installation::changed(bool deep) const {
  for (const auto& [name, was] : packages_) {
    const std::uint64_t is = identity(folder_ + "/" + name);
    if (is == was) continue;
    if (is == 0) return fmt::format("{} is gone from {}", name, folder_);
    return fmt::format("{} was replaced in {} since this process started", name, folder_);
  }
  if (deep)
    for (const auto& [name, was] : files_)
      if (hash_of_names(folder_ + "/" + name) != was)
        return fmt::format("files of {} in {} were removed or replaced since this process started", name,
                           folder_);
  return std::nullopt;
}

}  // namespace musacoder::judge
