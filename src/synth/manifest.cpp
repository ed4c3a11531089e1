#include "synth/manifest.h"

#include <nlohmann/json.hpp>

#include "base/files.h"

namespace musacoder::synth {
namespace {
using json = nlohmann::ordered_json;
}

Status write_manifest(const std::string& folder, const Manifest& manifest) {
  json out;
  out["version"] = kManifestVersion;
  out["generator"] = manifest.generator;
  out["verifier"] = manifest.verifier;
  out["seed"] = manifest.seed;
  std::uint64_t rows = 0;
  for (const Shard& shard : manifest.shards) rows += shard.rows;
  out["rows"] = rows;
  out["rows_by_kind"] = manifest.rows_by_kind;
  out["rows_by_family"] = manifest.rows_by_family;
  out["mixture"] = manifest.mixture;
  for (const auto& [name, text] : manifest.sections) {
    json value = json::parse(text, nullptr, false);
    if (value.is_discarded()) return fail(Code::kInternal, "the manifest's section '{}' is no JSON", name);
    out["sections"][name] = std::move(value);
  }
  out["shards"] = json::array();
  for (const Shard& shard : manifest.shards)
    out["shards"].push_back({{"file", shard.file}, {"sha256", shard.sha256}, {"rows", shard.rows}, {"bytes", shard.bytes}, {"raw_bytes", shard.raw_bytes}});
  return base::write_file_atomic(folder + "/manifest.json", out.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

Result<Manifest> read_manifest(const std::string& folder) {
  MC_ASSIGN_OR_RETURN(std::string text, base::read_file(folder + "/manifest.json", 256u << 20));
  try {
    const json in = json::parse(text);
    if (in.at("version").get<int>() != kManifestVersion)
      return fail(Code::kUnsupported, "{}/manifest.json has version {}; {} is known", folder, in.at("version").dump(), kManifestVersion);
    Manifest manifest;
    manifest.generator = in.at("generator").get<std::string>();
    manifest.verifier = in.at("verifier").get<std::string>();
    manifest.seed = in.at("seed").get<std::uint64_t>();
    manifest.rows_by_kind = in.at("rows_by_kind").get<std::map<std::string, std::uint64_t>>();
    manifest.rows_by_family = in.at("rows_by_family").get<std::map<std::string, std::uint64_t>>();
    manifest.mixture = in.at("mixture").get<std::map<std::string, double>>();
    if (auto sections = in.find("sections"); sections != in.end())
      for (const auto& [name, value] : sections->items()) manifest.sections[name] = value.dump();
    for (const json& shard : in.at("shards")) {
      Shard one{.file = shard.at("file").get<std::string>(),
                .sha256 = shard.at("sha256").get<std::string>(),
                .rows = shard.at("rows").get<std::uint64_t>(),
                .bytes = shard.at("bytes").get<std::uint64_t>(),
                .raw_bytes = shard.at("raw_bytes").get<std::uint64_t>()};
      if (one.file.empty() || one.file.find('/') != std::string::npos)
        return fail(Code::kInvalidArgument, "{}/manifest.json names a shard '{}' that is not in its folder", folder, one.file);
      manifest.shards.push_back(std::move(one));
    }
    return manifest;
  } catch (const json::exception& error) {
    return fail(Code::kInvalidArgument, "{}/manifest.json is no manifest: {}", folder, error.what());
  }
}

}  // namespace musacoder::synth
