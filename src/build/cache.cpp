#include "build/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/json_lines.h"
#include "base/log.h"

namespace fs = std::filesystem;

namespace musacoder::build {
namespace {

using nlohmann::json;

constexpr int kManifestVersion = 1;
const char* const kSeverities[] = {"error", "warning", "note"};

// A folder of a writer that was killed is removed after this long.
constexpr double kStaleSeconds = 3600;

void remove_stale(const std::string& dir) {
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    struct stat info {};
    if (::stat(it->path().c_str(), &info) == 0 && std::difftime(std::time(nullptr), info.st_mtime) > kStaleSeconds)
      (void)base::remove_tree(it->path());
  }
}

Status copy_flushed(const std::string& from, const std::string& to) {
  MC_ASSIGN_OR_RETURN(std::string bytes, base::read_file(from));
  return base::write_file_atomic(to, bytes, 0644);
}

}  // namespace

std::string result_to_json(const BuildResult& r) {
  json diagnostics = json::array();
  for (const auto& d : r.diagnostics)
    diagnostics.push_back({{"severity", kSeverities[static_cast<int>(d.severity)]},
                           {"file", d.file}, {"line", d.line}, {"message", d.message}, {"kind", d.kind}});
  return json{{"ok", r.ok}, {"status", r.status}, {"message", r.message}, {"diagnostics", diagnostics}, {"log", r.log},
              {"hash", r.hash}, {"headers", r.headers}, {"headers_reason", r.headers_reason}, {"seconds", r.seconds},
              {"warm", r.warm}, {"sandbox", r.sandbox}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<BuildResult> result_from_json(const std::string& text) {
  MC_ASSIGN_OR_RETURN(json v, base::parse_json(text));
  try {
    BuildResult r;
    r.ok = v.at("ok"), r.status = v.at("status"), r.message = v.at("message"), r.log = v.at("log"), r.hash = v.at("hash");
    r.headers = v.at("headers"), r.headers_reason = v.at("headers_reason"), r.seconds = v.at("seconds"), r.warm = v.value("warm", false);
    r.sandbox = v.at("sandbox").get<std::vector<std::string>>();
    for (const auto& d : v.at("diagnostics")) {
      Diagnostic one;
      for (int s = 0; s < 3; ++s)
        if (d.at("severity") == kSeverities[s]) one.severity = static_cast<Severity>(s);
      one.file = d.at("file"), one.line = d.at("line"), one.message = d.at("message"), one.kind = d.at("kind");
      r.diagnostics.push_back(std::move(one));
    }
    return r;
  } catch (const json::exception& error) {
    return fail(Code::kInvalidArgument, "a build manifest is damaged: {}", error.what());
  }
}

void remove_older(const std::string& parent, const std::string& keep) {
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    auto age = fs::file_time_type::clock::now() - fs::last_write_time(it->path(), error);
    if (!error && it->path() != keep && age > std::chrono::hours(24 * 7)) (void)base::remove_tree(it->path());
  }
}

Cache::Cache(std::string dir, std::shared_ptr<ArtifactStore> shared) : dir_(std::move(dir)), shared_(std::move(shared)) {
  remove_stale(dir_ + "/build/tmp");
}

std::string Cache::entry(const std::string& key) const { return fmt::format("{}/build/{}/{}", dir_, key.substr(0, 2), key); }

std::optional<BuildResult> Cache::load(const std::string& key) {
  auto found = load_local(key);
  if (!shared_) return found;
  if (!found) {
    fetch(key);
    return load_local(key);
  }
  offer(key);
  return found;
}

// From the shared store into this one.
void Cache::fetch(const std::string& key) {
  auto text = shared_->get(key);
  if (!text) {
    base::log_warning("artefact {} cannot be fetched: {}", key.substr(0, 12), text.error().message);
    return;
  }
  if (!*text) return;
  auto bundle = unpack_bundle(key, **text);
  auto temp = base::TempDir::create_in(dir_ + "/build/tmp", "new");
  if (!bundle || !temp || !base::write_file_atomic(temp->file("manifest.json"), bundle->manifest) ||
      (!bundle->module.empty() && !base::write_file_atomic(temp->file("module.so"), bundle->module, 0644)))
    return;
  ::chmod(temp->path().c_str(), 0755);
  const std::string folder = entry(key);
  if (base::make_dirs(fs::path(folder).parent_path()) && ::rename(temp->path().c_str(), folder.c_str()) == 0)
    temp->release();
  std::lock_guard lock(mutex_);
  offered_.insert(key);
}

void Cache::offer(const std::string& key) {
  {
    std::lock_guard lock(mutex_);
    if (!offered_.insert(key).second) return;
  }
  auto there = shared_->has(key);
  if (there && *there) return;
  auto manifest = base::read_file(entry(key) + "/manifest.json", 16u << 20);
  auto module = base::read_file(entry(key) + "/module.so", kMaxBundleBytes);
  const Status done = !there      ? Status(tl::unexpected(there.error()))
                      : !manifest ? Status(tl::unexpected(manifest.error()))
                                  : shared_->put(key, pack_bundle({*manifest, module.value_or("")}));
  if (done) return;
  base::log_warning("artefact {} cannot be shared: {}", key.substr(0, 12), done.error().message);
  std::lock_guard lock(mutex_);
  offered_.erase(key);
}

std::optional<BuildResult> Cache::load_local(const std::string& key) {
  std::string folder = entry(key), manifest = folder + "/manifest.json", module = folder + "/module.so";
  if (!base::is_directory(folder)) return std::nullopt;
  auto read = [&]() -> Result<BuildResult> {
    MC_ASSIGN_OR_RETURN(std::string text, base::read_file(manifest, 16u << 20));
    MC_ASSIGN_OR_RETURN(json value, base::parse_json(text));
    if (!value.is_object() || value.value("version", 0) != kManifestVersion) return fail(Code::kInvalidArgument, "another version");
    MC_ASSIGN_OR_RETURN(BuildResult result, result_from_json(value["result"].dump()));
    if (result.ok) {
      MC_ASSIGN_OR_RETURN(std::string digest, base::sha256_file(module));
      if (digest != value.value("sha256", "")) return fail(Code::kInvalidArgument, "the artefact's hash differs");
      result.artifact = module;
    }
    result.cached = true;
    return result;
  };
  auto result = read();
  if (result) return *result;
  // Damaged: move it out of the way first, so that no other reader meets a half-removed folder.
  base::log_warning("build cache: entry {} is damaged and is rebuilt: {}", key.substr(0, 12), result.error().message);
  (void)base::make_dirs(dir_ + "/build/tmp");
  std::string aside = fmt::format("{}/build/tmp/damaged-{}-{}", dir_, ::getpid(), key);
  if (::rename(folder.c_str(), aside.c_str()) == 0) (void)base::remove_tree(aside);
  return std::nullopt;
}

Status Cache::store(const std::string& key, BuildResult& result, const std::string& module_path) {
  MC_ASSIGN_OR_RETURN(base::TempDir temp, base::TempDir::create_in(dir_ + "/build/tmp", "new"));
  ::chmod(temp.path().c_str(), 0755);
  json manifest = {{"version", kManifestVersion}};
  if (result.ok) {
    MC_RETURN_IF_ERROR(copy_flushed(module_path, temp.file("module.so")));
    MC_ASSIGN_OR_RETURN(std::string digest, base::sha256_file(temp.file("module.so")));
    manifest["sha256"] = digest;
  }
  manifest["result"] = json::parse(result_to_json(result));
  MC_RETURN_IF_ERROR(base::write_file_atomic(temp.file("manifest.json"), manifest.dump()));
  std::string folder = entry(key);
  MC_RETURN_IF_ERROR(base::make_dirs(fs::path(folder).parent_path()));
  if (::rename(temp.path().c_str(), folder.c_str()) == 0) {
    temp.release();
  } else if (errno == ENOTEMPTY || errno == EEXIST) {
    // Another writer was first; its entry has the same content.
    if (auto other = load(key)) {
      result = *other;
      result.cached = false;
      return ok();
    }
    if (::rename(temp.path().c_str(), folder.c_str()) != 0)
      return fail(Code::kInternal, "build cache: cannot place {}: {}", folder, std::strerror(errno));
    temp.release();
  } else {
    int error = errno;
    return fail(base::code_of_errno(error), "build cache: cannot place {}: {}", folder, std::strerror(error));
  }
  if (result.ok) result.artifact = folder + "/module.so";
  if (shared_) offer(key);
  return ok();
}

}  // namespace musacoder::build
