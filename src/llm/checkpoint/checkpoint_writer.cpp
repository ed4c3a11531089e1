#include "llm/checkpoint/checkpoint_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/files.h"
#include "base/terminal.h"
#include "llm/checkpoint/atomic_folder.h"

namespace fs = std::filesystem;

namespace musacoder::llm {
namespace {

std::string shown(std::string_view name) { return base::printable(name, false); }

// A file that is written piece by piece, its first error kept until end().
class Out {
 public:
  explicit Out(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
    if (!fd_) status_ = failed(errno);
  }
  void put(std::string_view bytes) {
    if (!status_) return;
    if (auto status = base::write_all(fd_.get(), bytes); !status)
      status_ = fail(status.error().code, "cannot write {}: {}", path_, status.error().message);
  }
  Status end() {
    if (status_ && ::fsync(fd_.get()) != 0) status_ = failed(errno);
    if (status_ && ::close(fd_.release()) != 0) status_ = failed(errno);
    return status_;
  }
  const Status& status() const { return status_; }

 private:
  Status failed(int error) const { return fail(base::code_of_errno(error), "cannot write {}: {}", path_, std::strerror(error)); }
  std::string path_;
  base::Fd fd_;
  Status status_ = ok();
};

Status put_tensor(Out& out, const NewTensor& tensor) {
  MC_ASSIGN_OR_RETURN(std::string_view bytes, tensor.bytes());
  const auto elements = element_count(tensor.shape);
  const auto want = elements ? dtype_bytes(tensor.dtype, static_cast<std::uint64_t>(*elements)) : std::nullopt;
  if (!want || *want != bytes.size())
    return fail(Code::kInvalidArgument, "tensor '{}': {} {} was given {} bytes", shown(tensor.name), dtype_name(tensor.dtype),
                shape_text(tensor.shape), bytes.size());
  out.put(bytes);
  return out.status();
}

bool plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

Status write_files(const AtomicFolder& out, const std::vector<NewFile>& files) {
  for (const auto& [name, text] : files) {
    if (!plain_name(name)) return fail(Code::kInvalidArgument, "'{}' is not a file name", shown(name));
    MC_RETURN_IF_ERROR(write_file_synced(out.file(name), {text}));
  }
  return ok();
}

bool is_weights(const fs::path& path) {
  static const std::set<std::string> kinds = {".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack", ".safetensors"};
  return kinds.count(path.extension().string()) > 0 || path.filename().string().find(".bin.index.json") != std::string::npos;
}

Status copy_file(const fs::path& from, const std::string& to) {
  MC_ASSIGN_OR_RETURN(auto file, MappedFile::open(from.string()));
  return write_file_synced(to, {file->bytes()});
}

// Everything of a folder but what `skip` names. Links are followed: the hub's cache is made of them.
Status copy_rest(const fs::path& from, const std::string& to, const std::set<std::string>& skip, bool without_weights) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const std::string name = entry.path().filename().string();
    if (skip.count(name)) continue;
    if (entry.is_directory()) {
      if (name[0] == '.') continue;
      if (!fs::create_directory(to + "/" + name, error))
        return fail(base::code_of_errno(error.value()), "cannot create folder {}/{}: {}", to, name, error.message());
      MC_RETURN_IF_ERROR(copy_rest(entry.path(), to + "/" + name, {}, without_weights));
    } else if (entry.is_regular_file() && !(without_weights && is_weights(entry.path()))) {
      MC_RETURN_IF_ERROR(copy_file(entry.path(), to + "/" + name));
    }
  }
  if (error) return fail(base::code_of_errno(error.value()), "cannot read {}: {}", from.string(), error.message());
  return ok();
}

std::uint64_t folder_bytes(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error))
    if (entry.is_regular_file(error)) bytes += entry.file_size(error);
  return bytes;
}

}  // namespace

NewTensor same_tensor(const TensorView& tensor) {
  return {tensor.name, tensor.dtype, tensor.shape,
          [bytes = tensor.bytes, owner = tensor.owner]() -> Result<std::string_view> { return bytes; }};
}

Status save_checkpoint(const Checkpoint& source, const std::string& folder, const std::vector<NewTensor>& changed,
                       const std::vector<NewFile>& files) {
  std::unordered_map<std::string_view, const NewTensor*> by_name;
  for (const NewTensor& tensor : changed) {
    const TensorView* old = source.find(tensor.name);
    if (!old) return fail(Code::kInvalidArgument, "tensor '{}' is not in {}", shown(tensor.name), source.folder());
    if (old->dtype != tensor.dtype || old->shape != tensor.shape)
      return fail(Code::kInvalidArgument, "tensor '{}' is {} {} in {} and {} {} here", shown(tensor.name), dtype_name(old->dtype),
                  shape_text(old->shape), source.folder(), dtype_name(tensor.dtype), shape_text(tensor.shape));
    if (!by_name.emplace(tensor.name, &tensor).second)
      return fail(Code::kInvalidArgument, "tensor '{}' is given twice", shown(tensor.name));
  }
  MC_ASSIGN_OR_RETURN(AtomicFolder out, AtomicFolder::begin(folder, folder_bytes(source.folder())));
  std::set<std::string> done;
  for (const Shard& shard : source.shards()) {
    done.insert(shard.name);
    Out file(out.file(shard.name));
    file.put(shard.head);
    for (std::size_t i = shard.first; i < shard.first + shard.count; ++i) {
      const TensorView& tensor = source.tensors()[i];
      const auto found = by_name.find(tensor.name);
      if (found == by_name.end()) file.put(tensor.bytes);
      else MC_RETURN_IF_ERROR(put_tensor(file, *found->second));
    }
    MC_RETURN_IF_ERROR(file.end());
  }
  for (const auto& [name, text] : files) {
    if (!done.insert(name).second) return fail(Code::kInvalidArgument, "file '{}' is given twice or holds weights", shown(name));
  }
  MC_RETURN_IF_ERROR(write_files(out, files));
  MC_RETURN_IF_ERROR(copy_rest(source.folder(), out.path(), done, !changed.empty()));
  return out.commit();
}

Status write_checkpoint(const NewCheckpoint& model, const std::string& folder) {
  struct Part {
    std::vector<const NewTensor*> tensors;
    std::uint64_t bytes = 0;
  };
  std::vector<Part> parts(1);
  std::set<std::string_view> names;
  std::uint64_t total = 0, parameters = 0;
  for (const NewTensor& tensor : model.tensors) {
    const auto elements = element_count(tensor.shape);
    const auto bytes = elements ? dtype_bytes(tensor.dtype, static_cast<std::uint64_t>(*elements)) : std::nullopt;
    if (!bytes) return fail(Code::kInvalidArgument, "tensor '{}': {} {} has no size in bytes", shown(tensor.name), dtype_name(tensor.dtype), shape_text(tensor.shape));
    if (!names.insert(tensor.name).second) return fail(Code::kInvalidArgument, "tensor '{}' is given twice", shown(tensor.name));
    if (!parts.back().tensors.empty() && parts.back().bytes + *bytes > model.max_shard_bytes) parts.emplace_back();
    parts.back().tensors.push_back(&tensor);
    parts.back().bytes += *bytes;
    total += *bytes;
    parameters += static_cast<std::uint64_t>(*elements);
  }
  std::uint64_t extra = 1 << 20;
  for (const auto& [name, text] : model.files) extra += text.size();
  MC_ASSIGN_OR_RETURN(AtomicFolder out, AtomicFolder::begin(folder, total + extra));

  std::map<std::string, std::string> weight_map;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::sort(parts[i].tensors.begin(), parts[i].tensors.end(), [](const NewTensor* a, const NewTensor* b) {
      return a->dtype != b->dtype ? a->dtype > b->dtype : a->name < b->name;
    });
    const std::string name = parts.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, parts.size());
    std::vector<TensorView> infos;
    for (const NewTensor* tensor : parts[i].tensors) {
      infos.push_back({.name = tensor->name, .dtype = tensor->dtype, .shape = tensor->shape});
      weight_map[tensor->name] = name;
    }
    MC_ASSIGN_OR_RETURN(std::string head, safetensors_header(infos, model.metadata));
    Out file(out.file(name));
    file.put(head);
    for (const NewTensor* tensor : parts[i].tensors) MC_RETURN_IF_ERROR(put_tensor(file, *tensor));
    MC_RETURN_IF_ERROR(file.end());
  }
  if (parts.size() > 1) {
    const nlohmann::json index = {{"metadata", {{"total_parameters", parameters}, {"total_size", total}}}, {"weight_map", weight_map}};
    MC_RETURN_IF_ERROR(write_file_synced(out.file("model.safetensors.index.json"), {index.dump(2) + "\n"}));
  }
  MC_RETURN_IF_ERROR(write_files(out, model.files));
  return out.commit();
}

}  // namespace musacoder::llm
