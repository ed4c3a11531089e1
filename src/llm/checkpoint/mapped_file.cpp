#include "llm/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/files.h"

namespace musacoder::llm {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    const int error = errno;
    return fail(base::code_of_errno(error), "cannot read {}: {}", path, std::strerror(error));
  }
  if (!S_ISREG(info.st_mode)) return fail(Code::kInvalidArgument, "{} is not a regular file", path);
  const auto size = static_cast<std::size_t>(info.st_size);
  const char* data = "";
  if (size > 0) {
    void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (mapping == MAP_FAILED) {
      const int error = errno;
      return fail(base::code_of_errno(error), "cannot map {} ({} bytes): {}", path, size, std::strerror(error));
    }
    data = static_cast<const char*>(mapping);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, {data, size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace musacoder::llm
