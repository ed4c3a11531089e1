#include "llm/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "llm/checkpoint/strict_json.h"

namespace musacoder::llm {
namespace {

using Json = nlohmann::ordered_json;
static_assert(std::endian::native == std::endian::little, "tensors are used in the file's byte order");

std::string shown(std::string_view name) { return base::printable(name.substr(0, 200), false); }

Result<TensorView> parse_entry(const std::string& name, const Json& entry, std::string_view data, std::uint64_t data_at,
                               std::string_view where) {
  auto bad = [&](const std::string& what) {
    return fail(Code::kInvalidArgument, "{}: tensor '{}': {}", where, shown(name), what);
  };
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    return bad("needs dtype, shape and data_offsets and nothing else");
  const Json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  TensorView tensor{.name = name};
  const auto type = dtype.is_string() ? parse_dtype(dtype.get_ref<const std::string&>()) : std::nullopt;
  if (!type) return bad(fmt::format("unknown dtype {}", shown(dtype.dump(-1, ' ', true))));
  tensor.dtype = *type;
  if (!shape.is_array()) return bad("shape is not an array");
  for (const Json& d : shape) {
    if (!d.is_number_unsigned() || d.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
      return bad(fmt::format("dimension {} is not a whole number from 0 up", shown(d.dump(-1, ' ', true))));
    tensor.shape.push_back(static_cast<std::int64_t>(d.get<std::uint64_t>()));
  }
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    return bad("data_offsets are not two whole numbers from 0 up");
  const std::uint64_t begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data.size())
    return bad(fmt::format("data_offsets [{}, {}] do not lie in the file's {} bytes of data{}", begin, end, data.size(),
                           begin <= end ? "; the file is cut off or its header is wrong" : ""));
  const auto elements = element_count(tensor.shape);
  const auto bytes = elements ? dtype_bytes(tensor.dtype, static_cast<std::uint64_t>(*elements)) : std::nullopt;
  if (!bytes) return bad(fmt::format("{} elements of {} do not fill whole bytes that can be counted", shape_text(tensor.shape),
                                     dtype_name(tensor.dtype)));
  if (*bytes != end - begin)
    return bad(fmt::format("{} {} takes {} bytes, its data_offsets [{}, {}] give it {}", dtype_name(tensor.dtype),
                           shape_text(tensor.shape), *bytes, begin, end, end - begin));
  tensor.bytes = data.substr(begin, end - begin);
  tensor.offset = data_at + begin;
  return tensor;
}

}  // namespace

Result<Safetensors> parse_safetensors(std::string_view file, std::string_view where) {
  std::uint64_t length = 0;
  if (file.size() < 8) return fail(Code::kInvalidArgument, "{}: {} bytes are too few for a safetensors file", where, file.size());
  std::memcpy(&length, file.data(), 8);
  if (length > kMaxSafetensorsHeader)
    return fail(Code::kInvalidArgument, "{}: a header of {} bytes is beyond the format's {}; is this a safetensors file?", where,
                length, kMaxSafetensorsHeader);
  if (length > file.size() - 8)
    return fail(Code::kInvalidArgument, "{}: the header has {} bytes, the file only {}; it is cut off", where, length, file.size() - 8);
  const std::string_view text = file.substr(8, length), data = file.substr(8 + length);
  if (text.empty() || text[0] != '{') return fail(Code::kInvalidArgument, "{}: the header does not begin with {{", where);
  MC_ASSIGN_OR_RETURN(Json header, parse_strict_json(text, where, 8));

  Safetensors result{.head = file.substr(0, 8 + length)};
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) return fail(Code::kInvalidArgument, "{}: __metadata__ is not an object", where);
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return fail(Code::kInvalidArgument, "{}: __metadata__ '{}' is not a text", where, shown(key));
        result.metadata.emplace_back(key, value.get<std::string>());
      }
      continue;
    }
    MC_ASSIGN_OR_RETURN(TensorView tensor, parse_entry(name, entry, data, 8 + length, where));
    result.tensors.push_back(std::move(tensor));
  }
  std::stable_sort(result.tensors.begin(), result.tensors.end(), [](const TensorView& a, const TensorView& b) {
    return std::pair(a.offset, a.bytes.size()) < std::pair(b.offset, b.bytes.size());
  });
  std::uint64_t at = 8 + length;
  for (const TensorView& tensor : result.tensors) {
    if (tensor.offset != at)
      return fail(Code::kInvalidArgument, "{}: tensor '{}' begins {} bytes {} the end of the one before it", where, shown(tensor.name),
                  tensor.offset > at ? tensor.offset - at : at - tensor.offset, tensor.offset > at ? "after" : "before");
    at += tensor.bytes.size();
  }
  if (at != file.size())
    return fail(Code::kInvalidArgument, "{}: {} bytes at the end belong to no tensor", where, file.size() - at);
  return result;
}

Result<std::string> safetensors_header(const std::vector<TensorView>& tensors, const Safetensors::Metadata& metadata) {
  Json header = Json::object();
  auto& entries = header.get_ref<Json::object_t&>();
  if (!metadata.empty()) {
    Json& place = header["__metadata__"] = Json::object();
    for (const auto& [key, value] : metadata) place[key] = value;
  }
  std::uint64_t at = 0;
  for (const TensorView& tensor : tensors) {
    const auto elements = element_count(tensor.shape);
    const auto bytes = elements ? dtype_bytes(tensor.dtype, static_cast<std::uint64_t>(*elements)) : std::nullopt;
    if (!bytes)
      return fail(Code::kInvalidArgument, "tensor '{}': {} {} has no size in bytes", shown(tensor.name), dtype_name(tensor.dtype),
                  shape_text(tensor.shape));
    entries.push_back({tensor.name, Json{{"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {at, at + *bytes}}}});
    at += *bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    return fail(Code::kInvalidArgument, "a tensor's name or a metadata text is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxSafetensorsHeader)
    return fail(Code::kInvalidArgument, "a header of {} bytes is beyond safetensors' {}; use more shards", text.size(), kMaxSafetensorsHeader);
  const std::uint64_t length = text.size();
  std::string head(8, '\0');
  std::memcpy(head.data(), &length, 8);
  return head + text;
}

}  // namespace musacoder::llm
