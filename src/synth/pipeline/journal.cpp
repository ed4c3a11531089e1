#include "synth/pipeline/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/files.h"

namespace musacoder::synth {

using nlohmann::json;

struct Journal::Impl {
  std::string path;
  base::Fd file;
  mutable std::mutex mutex;
  std::unordered_map<std::string, std::string> entries;
};

Journal::Journal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Journal::Journal(Journal&&) noexcept = default;
Journal& Journal::operator=(Journal&&) noexcept = default;
Journal::~Journal() = default;

Result<Journal> Journal::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->file.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!impl->file) return fail(base::code_of_errno(errno), "cannot write {}: {}", path, std::strerror(errno));
  if (::flock(impl->file.get(), LOCK_EX | LOCK_NB) != 0) return fail(Code::kUnavailable, "{} is being written by another process", path);
  MC_ASSIGN_OR_RETURN(std::string text, base::read_file(path, 16ull << 30));
  std::size_t whole = 0;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = whole = end + 1) {
    const json line = json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!line.is_object() || !line.contains("key") || !line["key"].is_string() || !line.contains("value"))
      return fail(Code::kInvalidArgument, "{} holds a line that is no entry of a journal; move the file away", path);
    impl->entries[line["key"].get<std::string>()] = line["value"].dump();
  }
  if (whole < text.size() && ::ftruncate(impl->file.get(), static_cast<off_t>(whole)) != 0)
    return fail(Code::kUnavailable, "cannot cut the torn last line of {}: {}", path, std::strerror(errno));
  return Journal(std::move(impl));
}

const std::string* Journal::find(const std::string& key) const {
  std::lock_guard lock(impl_->mutex);
  auto it = impl_->entries.find(key);
  return it == impl_->entries.end() ? nullptr : &it->second;
}

Status Journal::put(const std::string& key, const std::string& json_text) {
  const std::string line = "{\"key\":" + json(key).dump() + ",\"value\":" + json_text + "}\n";
  std::lock_guard lock(impl_->mutex);
  MC_RETURN_IF_ERROR(base::write_all(impl_->file.get(), line));
  impl_->entries[key] = json_text;
  return ok();
}

std::size_t Journal::size() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->entries.size();
}

}  // namespace musacoder::synth
