#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

namespace fs = std::filesystem;

namespace musacoder::base {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) reset(other.release());
  return *this;
}

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Code code_of_errno(int error) {
  switch (error) {
    case ENOSPC: case EDQUOT: case EMFILE: case ENFILE: case ENOMEM: case EAGAIN: return Code::kResourceExhausted;
    case ENOENT: case ENOTDIR: return Code::kNotFound;
    case EINVAL: case EISDIR: case ENAMETOOLONG: return Code::kInvalidArgument;
    default: return Code::kInternal;
  }
}

Result<std::string> read_file(const std::string& path, std::uint64_t limit) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    int error = errno;
    return fail(code_of_errno(error), "cannot read {}: {}", path, std::strerror(error));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return fail(Code::kInvalidArgument, "{} is a folder; name a file", path);
    if (!S_ISREG(info.st_mode)) return fail(Code::kInvalidArgument, "{} is not a regular file", path);
    if (static_cast<std::uint64_t>(info.st_size) > limit)
      return fail(Code::kInvalidArgument, "{} has {} bytes; the limit is {}", path, info.st_size, limit);
  }
  std::string bytes;
  bytes.resize(static_cast<std::size_t>(info.st_size) + 1);
  std::size_t used = 0;
  for (;;) {
    if (used == bytes.size()) bytes.resize(bytes.size() * 2 + 4096);
    ssize_t n = ::read(fd.get(), bytes.data() + used, bytes.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(Code::kInternal, "cannot read {}: {}", path, std::strerror(errno));
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
    if (used > limit) return fail(Code::kInvalidArgument, "{} has more than {} bytes", path, limit);
  }
  bytes.resize(used);
  return bytes;
}

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      int error = errno;
      return fail(code_of_errno(error), "write failed: {}", std::strerror(error));
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return ok();
}

Status write_file(const std::string& path, std::string_view bytes, int mode) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!fd) {
    int error = errno;
    return fail(code_of_errno(error), "cannot write {}: {}", path, std::strerror(error));
  }
  if (auto status = write_all(fd.get(), bytes); !status)
    return fail(status.error().code, "{}: {}", path, status.error().message);
  if (::close(fd.release()) != 0) {
    int error = errno;
    return fail(code_of_errno(error), "cannot write {}: {}", path, std::strerror(error));
  }
  return ok();
}

Status write_file_atomic(const std::string& path, std::string_view bytes, int mode) {
  static std::atomic<unsigned> counter{0};
  std::string temp = fmt::format("{}.tmp.{}.{}", path, ::getpid(), counter++);
  Fd fd(::open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) {
    int error = errno;
    return fail(code_of_errno(error), "cannot write {}: {}", path, std::strerror(error));
  }
  auto status = write_all(fd.get(), bytes);
  int error = 0;
  if (status && ::fsync(fd.get()) != 0) error = errno;
  if (::close(fd.release()) != 0 && !error) error = errno;
  if (status && !error && ::rename(temp.c_str(), path.c_str()) != 0) error = errno;
  if (!status || error) {
    ::unlink(temp.c_str());
    if (!status) return fail(status.error().code, "{}: {}", path, status.error().message);
    return fail(code_of_errno(error), "cannot write {}: {}", path, std::strerror(error));
  }
  Fd folder(::open(fs::path(path).has_parent_path() ? fs::path(path).parent_path().c_str() : ".",
                   O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
  return ok();
}

Status write_folder(const std::string& path, const std::vector<FolderFile>& files, bool force) {
  const bool there = exists(path);
  if (there && !force) return fail(Code::kInvalidArgument, "{} exists; give another place, or -f to write over it", path);
  const std::string folder = there ? path : fmt::format("{}.partial-{}", path, ::getpid());
  auto write_all_files = [&]() -> Status {
    MC_RETURN_IF_ERROR(make_dirs(folder));
    for (const FolderFile& file : files) {
      const fs::path place = fs::path(folder) / file.name;
      MC_RETURN_IF_ERROR(make_dirs(place.parent_path().string()));
      MC_RETURN_IF_ERROR(write_file_atomic(place.string(), file.text, file.mode));
    }
    return ok();
  };
  const Status written = write_all_files();
  if (there) return written;
  std::error_code error;
  if (written) fs::rename(folder, path, error);
  if (!written || error) {
    (void)remove_tree(folder);
    return written ? Status(fail(Code::kInternal, "{}: {}", path, error.message())) : written;
  }
  return ok();
}

Status make_dirs(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error && !fs::is_directory(path))
    return fail(code_of_errno(error.value()), "cannot create folder {}: {}", path, error.message());
  return ok();
}

Status remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {
    // A folder without write permission inside stops the removal; open it up and try once more.
    std::error_code ignored;
    for (auto it = fs::recursive_directory_iterator(path, ignored); !ignored && it != fs::recursive_directory_iterator();
         it.increment(ignored))
      if (it->is_directory(ignored) && !it->is_symlink(ignored))
        fs::permissions(it->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
    error.clear();
    fs::remove_all(path, error);
  }
  if (error) return fail(code_of_errno(error.value()), "cannot remove {}: {}", path, error.message());
  return ok();
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool is_directory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool is_executable(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

std::uint64_t free_bytes(const std::string& path) {
  fs::path at = fs::absolute(path);
  for (;;) {
    struct statvfs info {};
    if (::statvfs(at.c_str(), &info) == 0) return std::uint64_t{info.f_bavail} * info.f_frsize;
    if (!at.has_parent_path() || at == at.parent_path()) return 0;
    at = at.parent_path();
  }
}

Result<TempDir> TempDir::create_in(const std::string& parent, const std::string& prefix) {
  MC_RETURN_IF_ERROR(make_dirs(parent));
  std::string path = fmt::format("{}/{}-XXXXXX", parent, prefix);
  if (!::mkdtemp(path.data())) {
    int error = errno;
    return fail(code_of_errno(error), "cannot create a temporary folder in {}: {}", parent, std::strerror(error));
  }
  return TempDir(path);
}

Result<TempDir> TempDir::create(const std::string& prefix, std::uint64_t need_bytes) {
  std::vector<std::string> places;
  if (const char* dir = std::getenv("MUSACODER_TMPDIR"); dir && *dir) places.push_back(dir);
  places.push_back("/dev/shm");
  if (const char* dir = std::getenv("TMPDIR"); dir && *dir) places.push_back(dir);
  places.push_back("/tmp");
  std::string tried;
  for (const auto& place : places) {
    std::uint64_t have = free_bytes(place);
    if (have < need_bytes) {
      tried += fmt::format("; {}: {} MiB free, {} MiB needed", place, have >> 20, need_bytes >> 20);
      continue;
    }
    auto dir = create_in(place, prefix);
    if (dir) return dir;
    tried += "; " + dir.error().message;
  }
  return fail(Code::kResourceExhausted, "no place for temporary files{}; set MUSACODER_TMPDIR to a folder with room",
              tried);
}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  if (this != &other) {
    if (!path_.empty()) (void)remove_tree(path_);
    path_ = std::move(other.path_);
    other.path_.clear();
  }
  return *this;
}

TempDir::~TempDir() {
  if (!path_.empty()) (void)remove_tree(path_);
}

std::string TempDir::release() {
  std::string path = std::move(path_);
  path_.clear();
  return path;
}

}  // namespace musacoder::base
