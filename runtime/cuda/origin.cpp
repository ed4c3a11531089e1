#include "origin.h"

#include <climits>
#include <cstdlib>
#include <utility>

namespace musacoder::ledger {
namespace {

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string resolved(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) ? std::string(buffer) : path;
}

bool starts_with_any(std::string_view name, std::span<const std::string_view> prefixes) {
  for (const auto prefix : prefixes)
    if (name.starts_with(prefix)) return true;
  return false;
}

constexpr std::string_view kCudaNames[] = {
    "libcuda.so", "libcudart",  "libcupti", "libnvidia-", "libcudadebugger", "libnvrtc",   "libc.so",
    "libc-",      "libpthread", "libdl.so", "ld-linux",   "libstdc++.so",    "libgcc_s.so",
    "libmusa.so", "libmusart",  "libmupti", "libmtrtc"};
constexpr std::string_view kVendorNames[] = {
    "libcublas",  "libcudnn",  "libcufft",    "libcusparse", "libcusolver", "libcurand", "libnccl",
    "libcutlass", "libnvjpeg", "libcutensor", "libnvshmem",  "libnvblas",   "libcudss",
    "libmublas",  "libmudnn",  "libmufft",    "libmusparse", "libmusolver", "libmurand", "libmccl",
    "libmutlass", "libmtjpeg", "libmutensor"};
constexpr std::string_view kFrameworkNames[] = {"libtorch", "libc10", "libmusa_python", "libmusa_kernels"};

}  // namespace

const char* origin_name(Origin origin) {
  switch (origin) {
    case Origin::kOwn:
      return "own";
    case Origin::kFramework:
      return "framework";
    case Origin::kVendor:
      return "vendor";
    case Origin::kJit:
      return "jit";
    case Origin::kTorchVendor:
      return "torch_vendor";
    case Origin::kUnknown:
      break;
  }
  return "unknown";
}

DsoKind classify(std::string_view path, std::span<const std::string> own_prefixes) {
  if (path.empty()) return DsoKind::kNone;
  for (const auto& prefix : own_prefixes)
    if (!prefix.empty() && path.size() > prefix.size() && path.starts_with(prefix) &&
        path[prefix.size()] == '/')
      return DsoKind::kOwn;
  const std::string_view name = file_name(path);
  if (starts_with_any(name, kCudaNames)) return DsoKind::kCuda;
  if (starts_with_any(name, kVendorNames)) return DsoKind::kVendor;
  if (starts_with_any(name, kFrameworkNames)) return DsoKind::kFramework;
  return DsoKind::kOther;
}

std::vector<std::string> split_prefixes(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t colon = text.find(':');
    std::string part(text.substr(0, colon));
    text = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
    if (!part.empty()) out.push_back(std::move(part));
  }
  return out;
}

DsoTable::DsoTable(std::vector<std::string> own_prefixes, std::string self) : self_(resolved(self)) {
  for (auto& prefix : own_prefixes) {
    if (prefix.empty() || prefix[0] != '/') continue;
    std::string path = resolved(prefix);
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    if (path != "/") prefixes_.push_back(std::move(path));  // "/" would make everything the candidate's
  }
  objects_.push_back({});
}

std::uint32_t DsoTable::of_path(const std::string& path) {
  if (path.empty()) return 0;
  std::lock_guard lock(mutex_);
  if (auto it = ids_.find(path); it != ids_.end()) return it->second;
  if (objects_.size() >= kMaxObjects || ids_.size() >= 2 * kMaxObjects) return 0;
  const std::string real = resolved(path);
  std::uint32_t id = 0;
  if (auto it = ids_.find(real); it != ids_.end()) {
    id = it->second;
  } else {
    id = static_cast<std::uint32_t>(objects_.size());
    objects_.push_back(
        {std::string(file_name(real)), real == self_ ? DsoKind::kCuda : classify(real, prefixes_)});
    ids_.emplace(real, id);
  }
  ids_.emplace(path, id);
  return id;
}

DsoKind DsoTable::kind(std::uint32_t id) const {
  std::lock_guard lock(mutex_);
  return id < objects_.size() ? objects_[id].kind : DsoKind::kNone;
}

std::string DsoTable::module(std::uint32_t id) const {
  std::lock_guard lock(mutex_);
  return id < objects_.size() ? objects_[id].module : std::string();
}

namespace {

// Who called the vendor's library whose frames begin at or after `at`.
Origin caller_of_vendor(const DsoTable& table, std::span<const std::uint32_t> frames, std::size_t at) {
  for (; at < frames.size(); ++at) {
    const DsoKind kind = table.kind(frames[at]);
    if (kind == DsoKind::kVendor || kind == DsoKind::kCuda) continue;
    return kind == DsoKind::kFramework ? Origin::kTorchVendor : Origin::kVendor;
  }
  return Origin::kVendor;
}

}  // namespace

Attribution decide(const DsoTable& table, const LaunchSite& site) {
  const DsoKind stub = table.kind(site.stub);
  if (stub == DsoKind::kOwn) return {Origin::kOwn, site.stub};
  if (stub == DsoKind::kVendor) return {caller_of_vendor(table, site.frames, 0), site.stub};

  std::size_t at = 0;
  while (at < site.frames.size() && table.kind(site.frames[at]) == DsoKind::kCuda) ++at;
  const std::uint32_t first = at < site.frames.size() ? site.frames[at] : 0;
  const DsoKind kind = table.kind(first);
  if (kind == DsoKind::kVendor) return {caller_of_vendor(table, site.frames, at), first};
  if (kind == DsoKind::kFramework || stub == DsoKind::kFramework) {
    for (std::size_t i = at; i < site.frames.size(); ++i) {
      const DsoKind above = table.kind(site.frames[i]);
      if (above == DsoKind::kVendor) return {caller_of_vendor(table, site.frames, i), site.frames[i]};
      if (above == DsoKind::kOwn) break;
    }
    return {Origin::kFramework, stub == DsoKind::kFramework ? site.stub : first};
  }
  if (site.by_handle && (site.explicit_module || kind == DsoKind::kOther)) return {Origin::kJit, first};
  if (stub == DsoKind::kOther) return {Origin::kUnknown, site.stub};
  if (kind == DsoKind::kOwn) return {Origin::kOwn, first};
  return {Origin::kUnknown, first};
}

}  // namespace musacoder::ledger
