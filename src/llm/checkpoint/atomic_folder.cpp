#include "llm/checkpoint/atomic_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/files.h"

namespace fs = std::filesystem;

namespace musacoder::llm {
namespace {

Status sync_folder(const std::string& path) {
  base::Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) {
    const int error = errno;
    return fail(base::code_of_errno(error), "cannot sync folder {}: {}", path, std::strerror(error));
  }
  return ok();
}

// Whether a folder may be replaced: nobody's thesis is to vanish because --out named the wrong place.
Status check_replaceable(const fs::path& target) {
  std::error_code error;
  const auto kind = fs::status(target, error).type();
  if (kind == fs::file_type::not_found) return ok();
  if (kind != fs::file_type::directory)
    return fail(Code::kInvalidArgument, "{} is there and is not a folder; name another place", target.string());
  bool empty = true, checkpoint = false;
  for (const auto& entry : fs::directory_iterator(target, error)) {
    empty = false;
    checkpoint |= entry.path().filename() == "config.json" || entry.path().extension() == ".safetensors";
  }
  if (error) return fail(base::code_of_errno(error.value()), "cannot read {}: {}", target.string(), error.message());
  if (!empty && !checkpoint)
    return fail(Code::kInvalidArgument, "{} holds other things than a checkpoint and is not replaced; empty it or name another folder",
                target.string());
  return ok();
}

// What this machine's unfinished siblings of a folder are called up to the process's number. The host is part of it, for on
// a shared file system another machine's process is not one that is gone.
std::string sibling_prefix(const std::string& name) {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return name + ".tmp-" + host + "-";
}

// Siblings that a killed process left behind: NAME.tmp-HOST-PID-N with no such process.
void remove_leftovers(const fs::path& target) {
  const std::string prefix = sibling_prefix(target.filename().string());
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(target.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) != 0) continue;
    int pid = 0;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + prefix.size(), end, pid);
    if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '-' || pid <= 0) continue;
    if (::kill(pid, 0) != 0 && errno == ESRCH) (void)base::remove_tree(entry.path().string());
  }
}

}  // namespace

Result<AtomicFolder> AtomicFolder::begin(const std::string& target, std::uint64_t need_bytes) {
  std::error_code error;
  fs::path full = fs::absolute(target, error);
  if (full.filename().empty()) full = full.parent_path();   // "folder/"
  std::error_code absent;
  if (fs::is_symlink(full, absent)) full = fs::canonical(full, error);   // the link stays, what it names is replaced
  if (error || !full.has_filename() || full.filename() == "." || full.filename() == "..")
    return fail(Code::kInvalidArgument, "'{}' does not name a folder that can be written", target);
  MC_RETURN_IF_ERROR(base::make_dirs(full.parent_path().string()));
  MC_RETURN_IF_ERROR(check_replaceable(full));
  remove_leftovers(full);
  const std::uint64_t have = base::free_bytes(full.parent_path().string());
  if (need_bytes > have)
    return fail(Code::kResourceExhausted, "{} needs {} MiB and its file system has {} MiB free", target, (need_bytes >> 20) + 1, have >> 20);
  static std::atomic<unsigned> counter{0};
  const std::string work = fmt::format("{}{}-{}", sibling_prefix(full.string()), ::getpid(), counter++);
  if (!fs::create_directory(work, error))
    return fail(base::code_of_errno(error.value()), "cannot create folder {}: {}", work, error.message());
  return AtomicFolder(full.string(), work);
}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept : target_(std::move(other.target_)), work_(std::move(other.work_)) {
  other.work_.clear();
}

AtomicFolder::~AtomicFolder() {
  if (!work_.empty()) (void)base::remove_tree(work_);
}

Status AtomicFolder::commit() {
  MC_RETURN_IF_ERROR(sync_folder(work_));
  MC_RETURN_IF_ERROR(check_replaceable(target_));
  bool exchanged = false;
  int error = 0;
  if (::renameat2(AT_FDCWD, work_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) != 0) {
    error = errno;
    if (error == EEXIST && ::renameat2(AT_FDCWD, work_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
      exchanged = true;
      error = 0;
    } else if (error == EEXIST || error == EINVAL || error == ENOSYS) {
      // A file system without these renames: the old folder steps aside first. Killed in between, it is found as NAME.old.
      const std::string aside = target_ + ".old";
      (void)base::remove_tree(aside);
      error = 0;
      if (::rename(target_.c_str(), aside.c_str()) != 0 && errno != ENOENT) error = errno;
      if (!error && ::rename(work_.c_str(), target_.c_str()) != 0) {
        error = errno;
        (void)::rename(aside.c_str(), target_.c_str());
      }
      if (!error) (void)base::remove_tree(aside);
    }
  }
  if (error) return fail(base::code_of_errno(error), "cannot put {} in place: {}", target_, std::strerror(error));
  const std::string old = std::move(work_);
  work_.clear();
  MC_RETURN_IF_ERROR(sync_folder(fs::path(target_).parent_path().string()));
  return exchanged ? base::remove_tree(old) : ok();
}

Status write_file_synced(const std::string& path, const std::vector<std::string_view>& pieces) {
  base::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  int error = fd ? 0 : errno;
  for (const std::string_view piece : pieces) {
    if (error) break;
    if (auto status = base::write_all(fd.get(), piece); !status)
      return fail(status.error().code, "cannot write {}: {}", path, status.error().message);
  }
  if (!error && ::fsync(fd.get()) != 0) error = errno;
  if (!error && ::close(fd.release()) != 0) error = errno;
  if (error) return fail(base::code_of_errno(error), "cannot write {}: {}", path, std::strerror(error));
  return ok();
}

}  // namespace musacoder::llm
