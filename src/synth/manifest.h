// manifest.json beside the shards of a data folder: what they hold, made by what from what, and their hashes.
//
//   Manifest manifest{.generator = "musacoder 0.1.0", .seed = 7, .shards = shards};
//   manifest.sections["guard"] = R"({"dropped": 12})";     // JSON texts of whoever counts
//   MC_RETURN_IF_ERROR(write_manifest(folder, manifest));
//   MC_ASSIGN_OR_RETURN(Manifest read, read_manifest(folder));
//
// It holds nothing that depends on when or how fast the data was made, so that the same configuration and seed give the same file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "synth/shards.h"

namespace musacoder::synth {

inline constexpr int kManifestVersion = 1;

struct Manifest {
  std::string generator, verifier;                     // program and version; verifier's with its backend
  std::uint64_t seed = 0;
  std::map<std::string, std::uint64_t> rows_by_kind, rows_by_family;
  std::map<std::string, double> mixture;               // family → weight, as `mixture.weights` of the trainer takes it
  std::map<std::string, std::string> sections;         // name → JSON text: configuration, tasks, guard, mutations, …
  std::vector<Shard> shards;
};

Status write_manifest(const std::string& folder, const Manifest& manifest);
// Errors: kNotFound; kInvalidArgument with what is malformed.
Result<Manifest> read_manifest(const std::string& folder);

}  // namespace musacoder::synth
