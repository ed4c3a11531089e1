// Whether the Python packages that candidates run on are still those that this process started with. When
// torch or numpy is removed or replaced under a running server, a candidate's import fails, and that is not
// its fault.
//
//   const Installation installation = Installation::of(python);
//   if (auto why = installation.changed(/*deep=*/true)) ...   // "numpy is gone from /…/site-packages"
//
// A deep look compares the names of all files of torch and numpy (tens of milliseconds), the other one only
// the packages' own folders and __init__.py (microseconds). Packages that were added meanwhile do not count,
// nor do __pycache__ folders. Thread safe once made.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace musacoder::judge {

class Installation {
 public:
  // Of the environment that the program `python` belongs to; one without site-packages never changes.
  static Installation of(const std::string& python);
  std::optional<std::string> changed(bool deep) const;

 private:
  std::string folder_;
  std::map<std::string, std::uint64_t> packages_;  // name of a top-level package or module → its identity
  std::map<std::string, std::uint64_t> files_;     // torch, numpy → hash of all file names
};

}  // namespace musacoder::judge
