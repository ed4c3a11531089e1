#include "train/run/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files.h"
#include "llm/checkpoint/atomic_folder.h"
#include "llm/checkpoint/strict_json.h"

namespace fs = std::filesystem;

namespace musacoder::train {
namespace {

constexpr std::string_view kStep = "step-";
constexpr const char* kState = "trainer.json";

// The step of a checkpoint's name; -1: another name.
std::int64_t step_of(const std::string& name) {
  if (!name.starts_with(kStep)) return -1;
  std::int64_t step = -1;
  const char *from = name.data() + kStep.size(), *end = name.data() + name.size();
  const auto [at, error] = std::from_chars(from, end, step);
  return error == std::errc() && at == end ? step : -1;
}

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::int64_t step = step_of(entry.path().filename().string()); step >= 0) out.push_back(step);
  std::sort(out.begin(), out.end());
  return out;
}

// A link is put in place by a rename too, so that it always names something.
Status point_latest(const std::string& folder, const std::string& name) {
  const std::string link = folder + "/latest", fresh = fmt::format("{}.{}", link, ::getpid());
  (void)::unlink(fresh.c_str());
  if (::symlink(name.c_str(), fresh.c_str()) == 0 && ::rename(fresh.c_str(), link.c_str()) == 0) return ok();
  const int error = errno;
  (void)::unlink(fresh.c_str());
  return fail(base::code_of_errno(error), "cannot write {}: {}", link, std::strerror(error));
}

}  // namespace

std::string RunFolder::of_step(std::int64_t step) const {
  return fmt::format("{}/{}{:08}", checkpoints(), kStep, step);
}

Result<std::string> RunFolder::newest() const {
  const std::vector<std::int64_t> steps = steps_in(checkpoints());
  return steps.empty() ? std::string() : of_step(steps.back());
}

Result<nlohmann::ordered_json> RunFolder::read(const std::string& checkpoint) {
  const std::string path = checkpoint + "/" + kState;
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, 1 << 30));
  MC_ASSIGN_OR_RETURN(auto json, llm::parse_strict_json(text, path));
  if (!json.is_object() || !json.contains("format"))
    return fail(Code::kInvalidArgument, "{}: not the state of a run", path);
  if (json["format"] != 1)
    return fail(Code::kUnsupported, "{}: format {} is not known; this program writes 1", path,
                json["format"].dump());
  return json;
}

Status RunFolder::write(std::int64_t step, const nlohmann::ordered_json& state, std::uint64_t bytes,
                        const std::function<Status(const std::string&)>& save) const {
  const std::string target = of_step(step);
  MC_ASSIGN_OR_RETURN(llm::AtomicFolder out, llm::AtomicFolder::begin(target, bytes));
  MC_RETURN_IF_ERROR(save(out.path()));
  nlohmann::ordered_json json = {{"format", 1}};
  json.update(state);
  MC_RETURN_IF_ERROR(llm::write_file_synced(out.file(kState), {json.dump(1) + "\n"}));
  MC_RETURN_IF_ERROR(out.commit());
  return point_latest(checkpoints(), fs::path(target).filename().string());
}

Status RunFolder::keep(std::int64_t count) const {
  std::vector<std::int64_t> steps = steps_in(checkpoints());
  if (count <= 0 || static_cast<std::int64_t>(steps.size()) <= count) return ok();
  steps.resize(steps.size() - static_cast<std::size_t>(count));
  for (const std::int64_t step : steps) {
    // Out of the way first: a half removed folder must not look like a checkpoint.
    const std::string from = of_step(step),
                      away = checkpoints() + "/removed-" + fs::path(from).filename().string();
    MC_RETURN_IF_ERROR(base::remove_tree(away));
    if (::rename(from.c_str(), away.c_str()) != 0)
      return fail(base::code_of_errno(errno), "cannot remove {}: {}", from, std::strerror(errno));
    MC_RETURN_IF_ERROR(base::remove_tree(away));
  }
  return ok();
}

void RunFolder::clean() const {
  std::vector<std::string> unfinished, removed;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("removed-")) removed.push_back(entry.path().string());
    if (const std::size_t at = name.find(".tmp-"); at != std::string::npos)
      unfinished.push_back(checkpoints() + "/" + name.substr(0, at));
  }
  for (const std::string& path : removed) (void)base::remove_tree(path);
  // Beginning to write a folder removes what processes that are gone left of it.
  for (const std::string& path : unfinished) (void)llm::AtomicFolder::begin(path, 0);
}

}  // namespace musacoder::train
