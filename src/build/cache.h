// Build results by content address, on disk.
//
//   Cache cache(dir);
//   if (auto hit = cache.load(key)) return *hit;
//   cache.store(key, result, "/tmp/scratch/module.so");    // result.artifact becomes the cached path
//
// Layout: <dir>/build/<first two digits>/<key>/{module.so, manifest.json}. An entry is written to a temporary folder,
// flushed and renamed, so that concurrent writers and kill -9 leave a whole entry or none; the manifest holds the
// artefact's size and SHA-256, and an entry that does not match it is thrown away. Failed compiles are entries too.
// What is missing here is looked for in the store that machines share (artifact_store.h), and what is here is offered
// to it; a store that does not answer is a miss. Thread safe, and safe between processes.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/status.h"
#include "build/artifact_store.h"
#include "build/build.h"

namespace musacoder::build {

class Cache {
 public:
  explicit Cache(std::string dir, std::shared_ptr<ArtifactStore> shared = nullptr);
  std::optional<BuildResult> load(const std::string& key);
  // kResourceExhausted when the disk is full.
  Status store(const std::string& key, BuildResult& result, const std::string& module_path);

 private:
  std::string entry(const std::string& key) const;
  std::optional<BuildResult> load_local(const std::string& key);
  void fetch(const std::string& key);
  void offer(const std::string& key);
  std::string dir_;
  std::shared_ptr<ArtifactStore> shared_;
  std::mutex mutex_;
  std::set<std::string> offered_;  // known to be in the shared store
};

// Precompiled headers are large: entries of `parent` other than `keep` go when they were not touched within a week.
void remove_older(const std::string& parent, const std::string& keep);

std::string result_to_json(const BuildResult& result);
Result<BuildResult> result_from_json(const std::string& text);

}  // namespace musacoder::build
