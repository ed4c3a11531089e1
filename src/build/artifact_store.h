// Build results shared between machines: what one worker compiled, another loads.
//
//   auto store = make_folder_store("/mnt/artifacts");
//   store->put(key, bundle);                       // key: the build's address (build.h), 64 hex digits
//   MC_ASSIGN_OR_RETURN(auto found, store->get(key));
//
// A bundle is one text: "musacoder-artifact 1 SHA256-OF-THE-REST\n", the build's manifest as one line of
// JSON, the shared object. Whoever sends or receives one checks it (check_bundle): its hash, and that its
// manifest belongs to the address. That guards against damage, not against a worker that lies: those who may
// write are trusted. Implementations: a folder (here), NATS and HTTP (service/artifacts.h). All are thread
// safe. Errors: kUnavailable, kResourceExhausted, kInvalidArgument (a damaged bundle).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "build/build.h"

namespace musacoder::build {

inline constexpr std::size_t kMaxBundleBytes = 256u << 20;

class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;
  virtual Result<bool> has(const std::string& key) = 0;
  // Checked; null when there is none.
  virtual Result<std::optional<std::string>> get(const std::string& key) = 0;
  // The first one stays.
  virtual Status put(const std::string& key, const std::string& bundle) = 0;
};

bool is_artifact_key(const std::string& key);
struct Bundle {
  std::string manifest, module;  // JSON text; the shared object, "" of a failed build
};
std::string pack_bundle(const Bundle& bundle);
Result<Bundle> unpack_bundle(const std::string& key, const std::string& text);
Status check_bundle(const std::string& key, const std::string& text);

// Any folder that the workers share: <dir>/<two digits>/<key>. Entries that were not read for 30 days go.
std::unique_ptr<ArtifactStore> make_folder_store(const std::string& dir);

}  // namespace musacoder::build
