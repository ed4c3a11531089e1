// Build results by content address, on disk.
//
//   Cache cache(dir);
//   if (auto hit = cache.load(key)) return *hit;
//   cache.store(key, result, "/tmp/scratch/module.so");    // result.artifact becomes the cached path
//
// Layout: <dir>/build/<first two digits>/<key>/{module.so, manifest.json}. An entry is written to a temporary folder,
// flushed and renamed, so that concurrent writers and kill -9 leave a whole entry or none; the manifest holds the
// artefact's size and SHA-256, and an entry that does not match it is thrown away. Failed compiles are entries too.
// Thread safe, and safe between processes.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "build/build.h"

namespace musacoder::build {

class Cache {
 public:
  explicit Cache(std::string dir);
  std::optional<BuildResult> load(const std::string& key);
  // kResourceExhausted when the disk is full.
  Status store(const std::string& key, BuildResult& result, const std::string& module_path);

 private:
  std::string entry(const std::string& key) const;
  std::string dir_;
};

// Precompiled headers are large: entries of `parent` other than `keep` go when they were not touched within a week.
void remove_older(const std::string& parent, const std::string& keep);

std::string result_to_json(const BuildResult& result);
Result<BuildResult> result_from_json(const std::string& text);

}  // namespace musacoder::build
