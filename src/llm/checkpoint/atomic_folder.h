// A folder that appears, or replaces another, whole or not at all.
//
//   MC_ASSIGN_OR_RETURN(AtomicFolder out, AtomicFolder::begin("checkpoints/step-100", total_bytes));
//   MC_RETURN_IF_ERROR(write_file_synced(out.file("config.json"), {text}));
//   MC_RETURN_IF_ERROR(out.commit());       // readers see the old folder or the new one
//
// The content is made in a sibling folder, so on the same file system, synced to disk and exchanged by one rename. Without
// commit() it is removed. A process killed in between leaves the old folder and a sibling named NAME.tmp-*; the next begin()
// for the same name on the same machine removes those that no living process owns.
//
// Errors: kResourceExhausted (too little room; the disk got full), kInvalidArgument (the target is a file, or a folder that
// holds something else than a checkpoint).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace musacoder::llm {

class AtomicFolder {
 public:
  // `need_bytes` is asked of the file system before anything is written. An existing target is replaced when it is empty or
  // has a config.json or *.safetensors in it.
  static Result<AtomicFolder> begin(const std::string& target, std::uint64_t need_bytes);
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();
  const std::string& path() const { return work_; }
  std::string file(std::string_view name) const { return work_ + "/" + std::string(name); }
  Status commit();

 private:
  AtomicFolder(std::string target, std::string work) : target_(std::move(target)), work_(std::move(work)) {}
  std::string target_, work_;
};

// A new file from pieces, one after another, and fsync.
Status write_file_synced(const std::string& path, const std::vector<std::string_view>& pieces);

}  // namespace musacoder::llm
