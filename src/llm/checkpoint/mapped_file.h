// A file mapped read-only: its bytes without reading or copying them.
//
//   MC_ASSIGN_OR_RETURN(auto file, MappedFile::open("model.safetensors"));
//   std::string_view head = file->bytes().substr(0, 8);
//
// The mapping outlives a rename or removal of the file. Whoever truncates the file in place while it is mapped makes
// reads of the lost part fail with SIGBUS; writers here never do (atomic_folder.h). Thread safe: read only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace musacoder::llm {

class MappedFile {
 public:
  // kNotFound, kInvalidArgument (a folder, a device, a pipe), kResourceExhausted.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, std::string_view bytes) : path_(std::move(path)), bytes_(bytes) {}
  std::string path_;
  std::string_view bytes_;
};

}  // namespace musacoder::llm
