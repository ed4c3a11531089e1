#include "llm/checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/terminal.h"
#include "llm/checkpoint/safetensors.h"
#include "llm/checkpoint/strict_json.h"

namespace fs = std::filesystem;

namespace musacoder::llm {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kSingle = "model.safetensors";

// The shards that an index names, in its order of first mention sorted by name, after checking that they are plain names.
Result<std::set<std::string>> shard_names(const nlohmann::ordered_json& index, const std::string& where) {
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return fail(Code::kInvalidArgument, "{}: has no weight_map", where);
  std::set<std::string> names;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!file.is_string()) return fail(Code::kInvalidArgument, "{}: the shard of '{}' is not a text", where, base::printable(tensor, false));
    const auto& name = file.get_ref<const std::string&>();
    if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
      return fail(Code::kInvalidArgument, "{}: '{}' is not the name of a file in the same folder", where, base::printable(name, false));
    names.insert(name);
  }
  if (names.empty()) return fail(Code::kInvalidArgument, "{}: its weight_map is empty", where);
  return names;
}

std::string other_weights(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".bin" || extension == ".gguf" || extension == ".pth" || extension == ".pt" || extension == ".safetensors")
      return entry.path().filename().string();
  }
  return "";
}

}  // namespace

Status Checkpoint::add_shard(const std::string& name) {
  const std::string path = folder_ + "/" + name;
  MC_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
  MC_ASSIGN_OR_RETURN(Safetensors parsed, parse_safetensors(file->bytes(), path));
  Shard shard{.name = name, .file = file, .head = parsed.head, .first = tensors_.size(), .count = parsed.tensors.size()};
  for (TensorView& tensor : parsed.tensors) {
    tensor.owner = file;
    const auto [at, fresh] = by_name_.emplace(tensor.name, tensors_.size());
    if (!fresh) return fail(Code::kInvalidArgument, "{}: tensor '{}' is in another shard too", path, base::printable(tensor.name, false));
    tensors_.push_back(std::move(tensor));
  }
  shards_.push_back(std::move(shard));
  return ok();
}

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  Checkpoint result;
  result.config_ = std::make_shared<nlohmann::json>(nlohmann::json::object());
  if (!base::exists(path)) return fail(Code::kNotFound, "{} does not exist", path);
  if (!base::is_directory(path)) {
    const fs::path file(path);
    result.folder_ = file.has_parent_path() ? file.parent_path().string() : ".";
    MC_RETURN_IF_ERROR(result.add_shard(file.filename().string()));
    return result;
  }
  result.folder_ = path;
  if (base::exists(path + "/config.json")) {
    MC_ASSIGN_OR_RETURN(std::string text, base::read_file(path + "/config.json", 64 << 20));
    auto config = base::parse_json(text);
    if (!config || !config->is_object()) return fail(Code::kInvalidArgument, "{}/config.json: {}", path, config ? "not an object" : config.error().message);
    result.config_ = std::make_shared<nlohmann::json>(std::move(*config));
  }
  const std::string index_path = path + "/" + kIndex;
  if (base::exists(index_path)) {
    MC_ASSIGN_OR_RETURN(std::string text, base::read_file(index_path, 256 << 20));
    MC_ASSIGN_OR_RETURN(auto index, parse_strict_json(text, index_path));
    MC_ASSIGN_OR_RETURN(auto names, shard_names(index, index_path));
    for (const std::string& name : names) MC_RETURN_IF_ERROR(result.add_shard(name));
    for (const auto& [tensor, file] : index["weight_map"].items()) {
      const auto found = result.by_name_.find(tensor);
      const auto shard = std::find_if(result.shards_.begin(), result.shards_.end(), [&](const Shard& s) {
        return found != result.by_name_.end() && found->second >= s.first && found->second < s.first + s.count;
      });
      if (shard == result.shards_.end() || shard->name != file.get_ref<const std::string&>())
        return fail(Code::kInvalidArgument, "{}: tensor '{}' is not in {}", index_path, base::printable(tensor, false),
                    file.get_ref<const std::string&>());
    }
    return result;
  }
  if (base::exists(path + "/" + kSingle)) {
    MC_RETURN_IF_ERROR(result.add_shard(kSingle));
    return result;
  }
  if (const std::string other = other_weights(path); !other.empty())
    return fail(Code::kUnsupported, "{} has no {} or {}; {} cannot be opened as this folder's weights", path, kSingle, kIndex, other);
  return fail(Code::kNotFound, "{} has neither {} nor {}", path, kSingle, kIndex);
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::uint64_t Checkpoint::parameters() const {
  std::uint64_t n = 0;
  for (const TensorView& tensor : tensors_) n += static_cast<std::uint64_t>(tensor.elements());
  return n;
}

}  // namespace musacoder::llm
