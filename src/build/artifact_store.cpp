#include "build/artifact_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/json_lines.h"

namespace fs = std::filesystem;

namespace musacoder::build {
namespace {

constexpr std::string_view kMagic = "musacoder-artifact 1 ";
constexpr std::size_t kDigest = 64;
constexpr std::size_t kMaxManifest = 16u << 20;

class FolderStore : public ArtifactStore {
 public:
  explicit FolderStore(std::string dir) : dir_(std::move(dir)) { remove_old(); }

  Result<bool> has(const std::string& key) override {
    return is_artifact_key(key) && base::exists(path(key));
  }

  Result<std::optional<std::string>> get(const std::string& key) override {
    if (!is_artifact_key(key) || !base::exists(path(key))) return std::optional<std::string>();
    auto text = base::read_file(path(key), kMaxBundleBytes);
    if (!text) return std::optional<std::string>();  // removed meanwhile
    if (auto sound = check_bundle(key, *text); !sound) {
      std::error_code ignored;
      fs::remove(path(key), ignored);
      return tl::unexpected(sound.error());
    }
    (void)::utimensat(AT_FDCWD, path(key).c_str(), nullptr, 0);
    return std::optional<std::string>(std::move(*text));
  }

  Status put(const std::string& key, const std::string& bundle) override {
    MC_RETURN_IF_ERROR(check_bundle(key, bundle));
    if (base::exists(path(key))) return ok();
    MC_RETURN_IF_ERROR(base::make_dirs(fs::path(path(key)).parent_path()));
    if (++puts_ % 256 == 0) remove_old();
    return base::write_file_atomic(path(key), bundle, 0644);
  }

 private:
  std::string path(const std::string& key) const {
    return fmt::format("{}/{}/{}", dir_, key.substr(0, 2), key);
  }

  void remove_old() const {
    std::error_code error;
    for (fs::recursive_directory_iterator it(dir_, error), end; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      if (it->is_regular_file(ignored) &&
          fs::file_time_type::clock::now() - fs::last_write_time(it->path(), ignored) >
              std::chrono::hours(24 * 30))
        fs::remove(it->path(), ignored);
    }
  }

  const std::string dir_;
  std::atomic<unsigned> puts_{0};
};

}  // namespace

bool is_artifact_key(const std::string& key) {
  return key.size() == kDigest && std::all_of(key.begin(), key.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string pack_bundle(const Bundle& bundle) {
  const std::string rest = bundle.manifest + "\n" + bundle.module;
  return fmt::format("{}{}\n{}", kMagic, base::sha256_hex(rest), rest);
}

Result<Bundle> unpack_bundle(const std::string& key, const std::string& text) {
  const std::size_t head = kMagic.size() + kDigest + 1;
  if (!is_artifact_key(key)) return fail(Code::kInvalidArgument, "an artefact's address is 64 hex digits");
  if (text.size() > kMaxBundleBytes || text.size() < head || text.compare(0, kMagic.size(), kMagic) != 0 ||
      text[head - 1] != '\n')
    return fail(Code::kInvalidArgument, "artefact {}: not an artefact", key.substr(0, 12));
  std::string rest = text.substr(head);
  if (base::sha256_hex(rest) != text.substr(kMagic.size(), kDigest))
    return fail(Code::kInvalidArgument, "artefact {}: its hash differs, it is damaged", key.substr(0, 12));
  const auto line = rest.find('\n');
  if (line == std::string::npos || line > kMaxManifest)
    return fail(Code::kInvalidArgument, "artefact {}: no manifest", key.substr(0, 12));
  Bundle bundle{rest.substr(0, line), rest.substr(line + 1)};
  MC_ASSIGN_OR_RETURN(const auto manifest, base::parse_json(bundle.manifest));
  const auto result = manifest.is_object() ? manifest.find("result") : manifest.end();
  if (!manifest.is_object() || result == manifest.end() || !result->is_object() ||
      !result->contains("hash") || (*result)["hash"] != key)
    return fail(Code::kInvalidArgument, "artefact {}: its manifest belongs to another address",
                key.substr(0, 12));
  return bundle;
}

Status check_bundle(const std::string& key, const std::string& text) {
  MC_RETURN_IF_ERROR(unpack_bundle(key, text));
  return ok();
}

std::unique_ptr<ArtifactStore> make_folder_store(const std::string& dir) {
  return std::make_unique<FolderStore>(dir);
}

}  // namespace musacoder::build
