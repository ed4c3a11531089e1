#include "base/starvation.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "base/files.h"

namespace musacoder::base {
namespace {

namespace fs = std::filesystem;

std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    pid_t id = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), id).ptr == name.data() + name.size()) out.push_back(id);
  }
  return out;
}

pid_t parent_of(pid_t process) {
  const std::string stat = read_file("/proc/" + std::to_string(process) + "/stat", 4096).value_or("");
  // "12 (name, with anything in it) S 11 …"
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > stat.size()) return 0;
  pid_t parent = 0;
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), parent);
  return parent;
}

}  // namespace

std::vector<pid_t> process_tree(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (pid_t process : numbers_in("/proc"))
    if (const pid_t parent = parent_of(process); parent > 0) children.emplace(parent, process);
  std::set<pid_t> seen;
  std::vector<pid_t> out = {root};
  for (std::size_t i = 0; i < out.size(); ++i)
    for (auto [it, end] = children.equal_range(out[i]); it != end; ++it)
      if (seen.insert(it->second).second) out.push_back(it->second);
  return out;
}

CpuTimes cpu_times(const std::vector<pid_t>& processes) {
  CpuTimes out;
  for (pid_t process : processes) {
    const std::string tasks = "/proc/" + std::to_string(process) + "/task";
    for (pid_t thread : numbers_in(tasks)) {
      const std::string text = read_file(tasks + "/" + std::to_string(thread) + "/schedstat", 256).value_or("");
      std::uint64_t ran = 0, waited = 0;
      const char* end = text.data() + text.size();
      auto first = std::from_chars(text.data(), end, ran);
      if (first.ptr != end) std::from_chars(first.ptr + 1, end, waited);
      out.ran += static_cast<double>(ran) * 1e-9;
      out.waited += static_cast<double>(waited) * 1e-9;
    }
  }
  return out;
}

Starvation::Starvation(std::vector<pid_t> processes) {
  for (pid_t process : processes)
    if (process > 0) processes_.push_back(process);
  before_ = cpu_times(processes_);
}

double Starvation::seconds() const {
  const CpuTimes now = cpu_times(processes_);
  // Threads that ended took their counts with them.
  const double ran = std::max(0.0, now.ran - before_.ran), waited = std::max(0.0, now.waited - before_.waited);
  if (waited <= 0) return 0;
  return std::min(waited, watch_.seconds() * waited / (ran + waited));
}

}  // namespace musacoder::base
