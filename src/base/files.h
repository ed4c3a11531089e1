// Whole files with limits, atomic replacement, and folders that clean up after themselves.
//
//   MC_ASSIGN_OR_RETURN(std::string text, read_file("candidate.py", 1 << 20));
//   MC_RETURN_IF_ERROR(write_file_atomic("verdict.json", json));   // readers see the old or the new file, never half
//   MC_ASSIGN_OR_RETURN(TempDir dir, TempDir::create("build", 64 << 20));
//   use(dir.path());                                                // removed with all its content at scope end
//
// Errors: kNotFound, kInvalidArgument (too large, not a regular file), kResourceExhausted (disk or quota full).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace musacoder::base {

// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// The whole file. Refuses files larger than `limit` bytes with a message that names the size.
Result<std::string> read_file(const std::string& path, std::uint64_t limit = 1ull << 30);
// Creates or truncates.
Status write_file(const std::string& path, std::string_view bytes, int mode = 0644);
// A temporary file beside `path`, fsync, rename, fsync of the folder.
Status write_file_atomic(const std::string& path, std::string_view bytes, int mode = 0644);
// All of `bytes` to a descriptor; retries short writes and EINTR.
Status write_all(int fd, std::string_view bytes);
struct FolderFile {
  std::string name;  // relative to the folder, with folders of its own
  std::string text;
  int mode = 0644;
};
// A folder with these files. A new one is made beside its place and moved there when it is whole; into one that is there,
// which `force` allows (else kInvalidArgument), each file is written atomically, and what else it holds stays.
Status write_folder(const std::string& path, const std::vector<FolderFile>& files, bool force);
Status make_dirs(const std::string& path);
Status remove_tree(const std::string& path);
bool exists(const std::string& path);
bool is_directory(const std::string& path);
bool is_executable(const std::string& path);
// Free bytes for this user on the file system of `path` (or its nearest existing parent); 0 if unknown.
std::uint64_t free_bytes(const std::string& path);
// Code for an errno: ENOSPC, EDQUOT, EMFILE, ENOMEM → kResourceExhausted, ENOENT → kNotFound, else kInternal.
Code code_of_errno(int error);

class TempDir {
 public:
  // A new folder, mode 0700, in $MUSACODER_TMPDIR, else /dev/shm, else $TMPDIR, else /tmp: the first that is writable
  // and has `need_bytes` free. kResourceExhausted names every place tried.
  static Result<TempDir> create(const std::string& prefix, std::uint64_t need_bytes = 16 << 20);
  // In a given folder, which is created when missing.
  static Result<TempDir> create_in(const std::string& parent, const std::string& prefix);
  TempDir() = default;
  TempDir(TempDir&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TempDir& operator=(TempDir&& other) noexcept;
  ~TempDir();
  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Gives up ownership: the folder stays.
  std::string release();

 private:
  explicit TempDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace musacoder::base
