#include "cli/scratch.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/event_log.h"
#include "service/queue.h"

namespace musacoder::cli {
namespace {

// Short: sockets below it have paths of at most 107 bytes.
constexpr const char* kPrefix = "mc-lanes";
constexpr const char* kOwner = "owner";
constexpr double kNamelessS = 60;

void remove_left_over(const std::string& parent) {
  DIR* dir = opendir(parent.c_str());
  if (!dir) return;
  std::vector<std::string> found;
  while (const dirent* entry = readdir(dir))
    if (std::string(entry->d_name).rfind(kPrefix, 0) == 0) found.push_back(parent + "/" + entry->d_name);
  closedir(dir);
  for (const auto& path : found) {
    struct stat info{};
    if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
    auto owner = base::read_file(path + "/" + kOwner, 1024);
    // Without an owner it was made a moment ago, or by one that was killed just then.
    const bool left = owner ? service::worker_is_gone(*owner)
                            : std::difftime(std::time(nullptr), info.st_mtime) > kNamelessS;
    if (!left) continue;
    if (base::remove_tree(path))
      base::log_event(base::LogLevel::kInfo, "left_over_removed",
                         {{"path", path}, {"owner", owner.value_or("")}});
  }
}

}  // namespace

Result<base::TempDir> own_scratch() {
  for (const char* place : std::initializer_list<const char*>{std::getenv("MUSACODER_TMPDIR"), "/dev/shm",
                                                              std::getenv("TMPDIR"), "/tmp"})
    if (place && *place) remove_left_over(place);
  MC_ASSIGN_OR_RETURN(base::TempDir scratch, base::TempDir::create(kPrefix, 64 << 20));
  MC_RETURN_IF_ERROR(base::write_file(scratch.file(kOwner), service::worker_identity(0)));
  setenv("MUSACODER_TMPDIR", scratch.path().c_str(), 1);
  return scratch;
}

}  // namespace musacoder::cli
