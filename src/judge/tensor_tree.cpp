#include "judge/tensor_tree.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

namespace musacoder::judge {
namespace {

using nlohmann::json;

constexpr int kMaxDims = 16;

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdull;
}

std::string node_kind(const json& node) {
  if (!node.is_object()) return "";
  auto it = node.find("t");
  return it != node.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string string_field(const json& node, const char* key) {
  auto it = node.find(key);
  return it != node.end() && it->is_string() ? it->get<std::string>() : "";
}

// Read-only mapping of a file of the run folder.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path) {
    int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return fail(Code::kUnavailable, "cannot open {}: {}", path, std::strerror(errno));
    struct stat info {};
    MappedFile file;
    if (fstat(fd, &info) == 0 && info.st_size > 0) {
      void* at = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED) {
        file.data_ = static_cast<const std::byte*>(at);
        file.size_ = static_cast<std::size_t>(info.st_size);
      }
    }
    ::close(fd);
    return file;
  }
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (data_) munmap(const_cast<std::byte*>(data_), size_);
  }
  Result<std::span<const std::byte>> range(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > size_ || bytes > size_ - offset)
      return fail(Code::kInternal, "range {}+{} lies outside a file of {} bytes", offset, bytes, size_);
    return std::span<const std::byte>(data_ + offset, bytes);
  }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

Result<std::uint64_t> parse_address(const json& node) {
  const std::string text = string_field(node, "addr");
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    return fail(Code::kInvalidArgument, "output tensor without a device address");
  return value;
}

}  // namespace

std::uint64_t dtype_bytes(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> kBytes = {
      {"float32", 4}, {"float64", 8}, {"float16", 2}, {"bfloat16", 2}, {"int8", 1},      {"uint8", 1},      {"int16", 2},
      {"int32", 4},   {"int64", 8},   {"bool", 1},    {"complex64", 8}, {"complex128", 16}, {"uint16", 2},   {"uint32", 4},
      {"uint64", 8},  {"float8_e4m3fn", 1}, {"float8_e5m2", 1}};
  auto it = kBytes.find(dtype);
  return it == kBytes.end() ? 0 : it->second;
}

std::string describe_tensor(const json& node) {
  std::string text = string_field(node, "dtype") + "[";
  bool first = true;
  if (auto shape = node.find("shape"); shape != node.end() && shape->is_array()) {
    for (const auto& size : *shape) {
      if (!first) text += ",";
      first = false;
      text += size.is_number_integer() ? std::to_string(size.get<std::int64_t>()) : "?";
    }
  }
  return text + "]";
}

Result<std::uint64_t> storage_extent_bytes(const json& node) {
  const std::uint64_t item = dtype_bytes(string_field(node, "dtype"));
  if (item == 0) return fail(Code::kInvalidArgument, "tensor of unknown dtype '{}'", string_field(node, "dtype"));
  auto shape = node.find("shape"), strides = node.find("strides");
  if (shape == node.end() || strides == node.end() || !shape->is_array() || !strides->is_array() ||
      shape->size() != strides->size() || shape->size() > kMaxDims)
    return fail(Code::kInvalidArgument, "tensor with a malformed shape or strides");
  __uint128_t last = 0;
  bool empty = false;
  for (std::size_t i = 0; i < shape->size(); ++i) {
    if (!(*shape)[i].is_number_integer() || !(*strides)[i].is_number_integer())
      return fail(Code::kInvalidArgument, "tensor with a malformed shape or strides");
    const auto size = (*shape)[i].get<std::int64_t>(), stride = (*strides)[i].get<std::int64_t>();
    if (size < 0 || stride < 0) return fail(Code::kInvalidArgument, "tensor with a negative size or stride");
    if (size == 0) empty = true;
    if (size > 0) last += static_cast<__uint128_t>(size - 1) * static_cast<__uint128_t>(stride);
    if (last > (static_cast<__uint128_t>(1) << 60)) return fail(Code::kInvalidArgument, "tensor of impossible extent");
  }
  return empty ? 0 : (static_cast<std::uint64_t>(last) + 1) * item;
}

Result<json> InputPlacer::place(const json& inputs, const std::string& run_dir, bool move) {
  std::size_t next = 0;
  MC_ASSIGN_OR_RETURN(json placed, place_node(inputs, run_dir, move, next));
  last_ = placed.dump();
  return placed;
}

Result<json> InputPlacer::place_node(const json& node, const std::string& run_dir, bool move, std::size_t& next) {
  const std::string kind = node_kind(node);
  if (kind == "list" || kind == "tuple" || kind == "dict") {
    json copy = node;
    for (auto& item : copy["items"]) {
      MC_ASSIGN_OR_RETURN(json placed, place_node(item, run_dir, move, next));
      item = std::move(placed);
    }
    return copy;
  }
  if (kind != "tensor") return node;

  const std::uint64_t bytes = node.value("nbytes", std::uint64_t{0});
  MC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(run_dir + "/" + string_field(node, "file")));
  MC_ASSIGN_OR_RETURN(auto data, file.range(node.value("offset", std::uint64_t{0}), bytes));
  if (next >= slots_.size()) slots_.resize(next + 1);
  Slot& slot = slots_[next];
  if (slot.address == 0 || slot.bytes != bytes || move) {
    const device::Address old = slot.address;
    MC_ASSIGN_OR_RETURN(slot.address, session_.allocate(bytes, fmt::format("input {} {}", next, describe_tensor(node))));
    slot.bytes = bytes;
    if (old) MC_RETURN_IF_ERROR(session_.free(old));
  }
  MC_RETURN_IF_ERROR(session_.write(slot.address, data));
  json placed = {{"t", "tensor"},
                 {"dtype", node["dtype"]},
                 {"shape", node["shape"]},
                 {"strides", node["strides"]},
                 {"addr", std::to_string(slot.address)},
                 {"device", "cuda"},
                 {"nbytes", bytes}};
  ++next;
  return placed;
}

Result<json> InputPlacer::read_back(const std::string& run_dir, const std::string& name) {
  json tree = json::parse(last_, nullptr, false);
  if (tree.is_discarded()) return fail(Code::kInternal, "read_back before place");
  std::ofstream out(run_dir + "/" + name, std::ios::binary | std::ios::trunc);
  std::uint64_t offset = 0;
  std::vector<std::byte> buffer;
  std::function<Status(json&)> visit = [&](json& node) -> Status {
    const std::string kind = node_kind(node);
    if (kind == "list" || kind == "tuple" || kind == "dict") {
      for (auto& item : node["items"]) MC_RETURN_IF_ERROR(visit(item));
      return ok();
    }
    if (kind != "tensor") return ok();
    MC_ASSIGN_OR_RETURN(auto address, parse_address(node));
    buffer.resize(node.value("nbytes", std::uint64_t{0}));
    MC_RETURN_IF_ERROR(session_.read(address, buffer));
    out.write(reinterpret_cast<const char*>(buffer.data()), static_cast<std::streamsize>(buffer.size()));
    node["file"] = name;
    node["offset"] = offset;
    node.erase("addr");
    offset += buffer.size();
    return ok();
  };
  MC_RETURN_IF_ERROR(visit(tree));
  out.close();
  if (!out) return fail(Code::kResourceExhausted, "cannot write {}/{}: {}", run_dir, name, std::strerror(errno));
  return tree;
}

Result<FetchedOutputs> fetch_outputs(const json& claims, device::Session& session, const std::string& run_dir,
                                     const std::string& name, const FetchLimits& limits) {
  FetchedOutputs fetched;
  std::ofstream out(run_dir + "/" + name, std::ios::binary | std::ios::trunc);
  std::vector<std::byte> buffer;
  std::size_t nodes = 0;
  int tensors = 0;
  std::uint64_t digest = 0x6d757361;

  std::function<Status(json&, int)> visit = [&](json& node, int depth) -> Status {
    if (++nodes > limits.max_nodes || depth > 64)
      return fail(Code::kInvalidArgument, "outputs nest too deep or hold more than {} values", limits.max_nodes);
    const std::string kind = node_kind(node);
    if (kind.empty()) return fail(Code::kInvalidArgument, "malformed output description");
    if (kind == "list" || kind == "tuple" || kind == "dict") {
      auto items = node.find("items");
      if (items == node.end() || !items->is_array()) return fail(Code::kInvalidArgument, "malformed output description");
      for (auto& item : *items) MC_RETURN_IF_ERROR(visit(item, depth + 1));
      return ok();
    }
    if (kind != "tensor") {
      digest = mix(digest, std::hash<std::string>{}(node.dump()));
      return ok();
    }
    const int index = tensors++;
    MC_ASSIGN_OR_RETURN(const std::uint64_t bytes, storage_extent_bytes(node));
    if (string_field(node, "device") != "cuda") {
      fetched.cpu_outputs.push_back(fmt::format("output {} {}", index, describe_tensor(node)));
      node["device"] = "cpu";
      return ok();
    }
    if (bytes > limits.max_bytes - std::min(limits.max_bytes, fetched.bytes))
      return fail(Code::kInvalidArgument, "outputs larger than {} bytes", limits.max_bytes);
    buffer.resize(bytes);
    if (bytes > 0) {
      MC_ASSIGN_OR_RETURN(auto address, parse_address(node));
      auto allocation = session.find(address);
      if (!allocation || bytes > allocation->bytes || address - allocation->address > allocation->bytes - bytes)
        return fail(Code::kInvalidArgument, "output {} {} does not lie in live device memory", index, describe_tensor(node));
      MC_RETURN_IF_ERROR(session.read(address, buffer));
      fetched.allocations.push_back(*allocation);
    }
    out.write(reinterpret_cast<const char*>(buffer.data()), static_cast<std::streamsize>(bytes));
    digest = mix(digest, std::hash<std::string>{}(describe_tensor(node)));
    digest = mix(digest, std::hash<std::string_view>{}({reinterpret_cast<const char*>(buffer.data()), bytes}));
    json place = {{"t", "tensor"},      {"dtype", node["dtype"]}, {"shape", node["shape"]}, {"strides", node["strides"]},
                  {"device", "cuda"},   {"file", name},           {"offset", fetched.bytes}, {"nbytes", bytes}};
    if (auto type = node.find("type"); type != node.end() && type->is_string()) place["type"] = *type;
    node = std::move(place);
    fetched.bytes += bytes;
    return ok();
  };

  json tree = claims;
  MC_RETURN_IF_ERROR(visit(tree, 0));
  out.close();
  if (!out) return fail(Code::kResourceExhausted, "cannot write {}/{}: {}", run_dir, name, std::strerror(errno));
  fetched.tree = tree.dump();
  fetched.digest = digest;
  return fetched;
}

}  // namespace musacoder::judge
