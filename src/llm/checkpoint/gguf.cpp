#include "llm/checkpoint/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/terminal.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm {
namespace {

constexpr int kMaxArrayDepth = 4;
constexpr std::size_t kMaxName = 4096;
constexpr std::uint32_t kMaxDims = 4;   // GGML_MAX_DIMS

std::string shown(std::string_view text) { return base::printable(text.substr(0, 200), false); }

// Bytes of a number's type; 0 for strings and arrays.
std::size_t width_of(GgufType type) {
  switch (type) {
    case GgufType::kU8: case GgufType::kI8: case GgufType::kBool: return 1;
    case GgufType::kU16: case GgufType::kI16: return 2;
    case GgufType::kU32: case GgufType::kI32: case GgufType::kF32: return 4;
    case GgufType::kU64: case GgufType::kI64: case GgufType::kF64: return 8;
    default: return 0;
  }
}

}  // namespace

// Walks the file from front to back; every read is checked against what is left.
class GgufReader {
 public:
  GgufReader(std::string_view bytes, Gguf& out) : all_(bytes), left_(bytes), out_(out) {}

  Status read() {
    MC_ASSIGN_OR_RETURN(const std::string_view magic, take(4, "magic"));
    if (magic != "GGUF") return bad("does not begin with GGUF");
    MC_ASSIGN_OR_RETURN(out_.version_, number<std::uint32_t>("version"));
    if (out_.version_ == 1) return fail(Code::kUnsupported, "{}: version 1 of GGUF is not supported; convert it with llama.cpp", out_.where_);
    if (out_.version_ > 0xffff) return fail(Code::kUnsupported, "{}: a big-endian file is not supported", out_.where_);
    if (out_.version_ != 2 && out_.version_ != 3) return fail(Code::kUnsupported, "{}: version {} of GGUF is not known", out_.where_, out_.version_);
    MC_ASSIGN_OR_RETURN(const std::uint64_t tensors, number<std::uint64_t>("number of tensors"));
    MC_ASSIGN_OR_RETURN(const std::uint64_t pairs, number<std::uint64_t>("number of keys"));
    // The smallest pair has a length, a type and a byte; the smallest tensor a length, dimensions, a type and an offset.
    if (pairs > left_.size() / 13) return bad(fmt::format("{} keys cannot fit in {} bytes", pairs, left_.size()));
    if (tensors > left_.size() / 24) return bad(fmt::format("{} tensors cannot fit in {} bytes", tensors, left_.size()));
    for (std::uint64_t i = 0; i < pairs; ++i) MC_RETURN_IF_ERROR(read_pair());
    if (out_.integer("split.count").value_or(0) > 1)
      return fail(Code::kUnsupported, "{}: this is one file of a split model; join them with llama-gguf-split", out_.where_);
    for (std::uint64_t i = 0; i < tensors; ++i) MC_RETURN_IF_ERROR(read_tensor());
    return place_tensors();
  }

 private:
  tl::unexpected<Error> bad(const std::string& what) const { return fail(Code::kInvalidArgument, "{}: {}", out_.where_, what); }

  Result<std::string_view> take(std::uint64_t n, std::string_view what) {
    if (n > left_.size()) return bad(fmt::format("cut off at byte {} in {}: {} bytes wanted, {} left", all_.size() - left_.size(), what, n, left_.size()));
    const std::string_view part = left_.substr(0, n);
    left_.remove_prefix(n);
    return part;
  }
  template <typename T>
  Result<T> number(std::string_view what) {
    MC_ASSIGN_OR_RETURN(const std::string_view part, take(sizeof(T), what));
    T value;
    std::memcpy(&value, part.data(), sizeof(T));
    return value;
  }
  Result<std::string_view> text(std::string_view what) {
    MC_ASSIGN_OR_RETURN(const std::uint64_t length, number<std::uint64_t>(what));
    return take(length, what);
  }
  Result<std::string> name(std::string_view what) {
    MC_ASSIGN_OR_RETURN(const std::string_view bytes, text(what));
    if (bytes.empty() || bytes.size() > kMaxName) return bad(fmt::format("{} of {} bytes", what, bytes.size()));
    if (valid_prefix(bytes) != bytes.size()) return bad(fmt::format("{} '{}' is not UTF-8", what, shown(bytes)));
    return std::string(bytes);
  }

  Result<std::uint64_t> scalar(GgufType type, std::string_view key) {
    MC_ASSIGN_OR_RETURN(const std::string_view part, take(width_of(type), key));
    std::uint64_t raw = 0;
    std::memcpy(&raw, part.data(), part.size());
    switch (type) {
      case GgufType::kI8: return static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int8_t>(raw)));
      case GgufType::kI16: return static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int16_t>(raw)));
      case GgufType::kI32: return static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(raw)));
      case GgufType::kF32: return std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(raw))));
      case GgufType::kBool:
        if (raw > 1) return bad(fmt::format("key '{}': {} is neither true nor false", shown(key), raw));
        return raw;
      default: return raw;
    }
  }

  Result<GgufValue> value(GgufType type, std::string_view key, int depth) {
    GgufValue result{.type = type};
    if (type == GgufType::kString) {
      MC_ASSIGN_OR_RETURN(result.text, text(key));
      return result;
    }
    if (type != GgufType::kArray) {
      if (width_of(type) == 0) return bad(fmt::format("key '{}' has the unknown type {}", shown(key), static_cast<std::uint32_t>(type)));
      MC_ASSIGN_OR_RETURN(result.bits, scalar(type, key));
      return result;
    }
    if (depth >= kMaxArrayDepth) return bad(fmt::format("key '{}': arrays nested deeper than {}", shown(key), kMaxArrayDepth));
    MC_ASSIGN_OR_RETURN(const std::uint32_t element, number<std::uint32_t>(key));
    MC_ASSIGN_OR_RETURN(result.count, number<std::uint64_t>(key));
    result.element = static_cast<GgufType>(element);
    const bool is_text = result.element == GgufType::kString, is_array = result.element == GgufType::kArray;
    const std::size_t width = is_text ? 8 : is_array ? 12 : width_of(result.element);
    if (width == 0) return bad(fmt::format("key '{}' is an array of the unknown type {}", shown(key), element));
    if (result.count > left_.size() / width) return bad(fmt::format("key '{}': {} elements cannot fit in {} bytes", shown(key), result.count, left_.size()));
    if (is_text) {
      result.texts.reserve(result.count);
      for (std::uint64_t i = 0; i < result.count; ++i) {
        MC_ASSIGN_OR_RETURN(const std::string_view one, text(key));
        result.texts.push_back(one);
      }
    } else if (is_array) {
      for (std::uint64_t i = 0; i < result.count; ++i) {
        MC_ASSIGN_OR_RETURN(GgufValue one, value(GgufType::kArray, key, depth + 1));
        result.arrays.push_back(std::move(one));
      }
    } else {
      MC_ASSIGN_OR_RETURN(result.data, take(result.count * width, key));
    }
    return result;
  }

  Status read_pair() {
    MC_ASSIGN_OR_RETURN(std::string key, name("key"));
    if (!out_.keys_.emplace(key, out_.metadata_.size()).second) return bad(fmt::format("key '{}' is given twice", shown(key)));
    MC_ASSIGN_OR_RETURN(const std::uint32_t type, number<std::uint32_t>(key));
    MC_ASSIGN_OR_RETURN(GgufValue read, value(static_cast<GgufType>(type), key, 0));
    out_.metadata_.emplace_back(std::move(key), std::move(read));
    return ok();
  }

  Status read_tensor() {
    GgufTensor tensor;
    MC_ASSIGN_OR_RETURN(tensor.name, name("tensor"));
    if (!out_.names_.emplace(tensor.name, out_.tensors_.size()).second) return bad(fmt::format("tensor '{}' is given twice", shown(tensor.name)));
    MC_ASSIGN_OR_RETURN(const std::uint32_t dims, number<std::uint32_t>(tensor.name));
    if (dims > kMaxDims) return bad(fmt::format("tensor '{}' has {} dimensions; {} is the most", shown(tensor.name), dims, kMaxDims));
    for (std::uint32_t i = 0; i < dims; ++i) {
      MC_ASSIGN_OR_RETURN(const std::uint64_t d, number<std::uint64_t>(tensor.name));
      if (d > std::uint64_t{INT64_MAX}) return bad(fmt::format("tensor '{}' has a dimension of {}", shown(tensor.name), d));
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(d));
    }
    MC_ASSIGN_OR_RETURN(const std::uint32_t type, number<std::uint32_t>(tensor.name));
    tensor.type = static_cast<GgmlType>(type);
    MC_ASSIGN_OR_RETURN(tensor.offset, number<std::uint64_t>(tensor.name));
    out_.tensors_.push_back(std::move(tensor));
    return ok();
  }

  // Tensors follow each other in the order of their descriptions, each padded to the alignment: what ggml itself demands.
  Status place_tensors() {
    std::uint64_t alignment = 32;
    if (const GgufValue* given = out_.value("general.alignment")) {
      alignment = given->type == GgufType::kU32 ? given->bits : 0;
      if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > (1u << 20))
        return bad("general.alignment is not a power of two up to 2^20");
    }
    const auto padded = [&](std::uint64_t n) { return (n + alignment - 1) & ~(alignment - 1); };
    const std::uint64_t base = padded(all_.size() - left_.size());
    const std::uint64_t room = base <= all_.size() ? all_.size() - base : 0;
    std::uint64_t expected = 0;
    for (GgufTensor& tensor : out_.tensors_) {
      const auto block = ggml_block(tensor.type);
      if (!block) return bad(fmt::format("tensor '{}' has the unknown type {}", shown(tensor.name), static_cast<std::uint32_t>(tensor.type)));
      const auto elements = element_count(tensor.shape);
      const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
      if (!elements || row % block->elements != 0)
        return bad(fmt::format("tensor '{}': {} cannot be {}", shown(tensor.name), shape_text(tensor.shape), block->name));
      std::uint64_t bytes = 0;
      if (__builtin_mul_overflow(static_cast<std::uint64_t>(*elements / block->elements), std::uint64_t{block->bytes}, &bytes) || bytes > room)
        return bad(fmt::format("tensor '{}': {} {} takes more than the file's {} bytes of data; it is cut off or wrong", shown(tensor.name), block->name,
                               shape_text(tensor.shape), room));
      if (tensor.offset != expected)
        return bad(fmt::format("tensor '{}' begins at {} where the one before it ends at {}", shown(tensor.name), tensor.offset, expected));
      if (tensor.offset > room || bytes > room - tensor.offset)
        return bad(fmt::format("tensor '{}' ends {} bytes beyond the file; it is cut off", shown(tensor.name), tensor.offset + bytes - room));
      tensor.bytes = all_.substr(base + tensor.offset, bytes);
      tensor.offset += base;
      expected = padded(expected + bytes);
    }
    return ok();
  }

  std::string_view all_, left_;
  Gguf& out_;
};

Result<std::shared_ptr<const Gguf>> Gguf::parse(std::string_view bytes, std::string_view where) {
  auto result = std::make_shared<Gguf>();
  result->where_ = where;
  MC_RETURN_IF_ERROR(GgufReader(bytes, *result).read());
  return result;
}

Result<std::shared_ptr<const Gguf>> Gguf::open(const std::string& path) {
  MC_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
  auto result = std::make_shared<Gguf>();
  result->where_ = path;
  result->file_ = file;
  MC_RETURN_IF_ERROR(GgufReader(file->bytes(), *result).read());
  return result;
}

const GgufTensor* Gguf::find(std::string_view name) const {
  const auto found = names_.find(std::string(name));
  return found == names_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* Gguf::value(std::string_view key) const {
  const auto found = keys_.find(std::string(key));
  return found == keys_.end() ? nullptr : &metadata_[found->second].second;
}

std::optional<std::string_view> Gguf::text(std::string_view key) const {
  const GgufValue* found = value(key);
  return found && found->type == GgufType::kString ? std::optional(found->text) : std::nullopt;
}

std::optional<std::int64_t> Gguf::integer(std::string_view key) const {
  const GgufValue* found = value(key);
  if (!found) return std::nullopt;
  switch (found->type) {
    case GgufType::kString: case GgufType::kArray: case GgufType::kF32: case GgufType::kF64: case GgufType::kBool: return std::nullopt;
    case GgufType::kU64:
      if (found->bits > std::uint64_t{INT64_MAX}) return std::nullopt;
      [[fallthrough]];
    default: return static_cast<std::int64_t>(found->bits);
  }
}

std::optional<double> Gguf::number(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found && (found->type == GgufType::kF32 || found->type == GgufType::kF64)) return std::bit_cast<double>(found->bits);
  const auto whole = integer(key);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<bool> Gguf::boolean(std::string_view key) const {
  const GgufValue* found = value(key);
  return found && found->type == GgufType::kBool ? std::optional(found->bits != 0) : std::nullopt;
}

Status dequantize(const GgufTensor& tensor, std::int64_t first, std::int64_t count, float* out) {
  const auto block = ggml_block(tensor.type);
  if (!block || !block->readable)
    return fail(Code::kUnsupported, "tensor '{}': type {} is not read here; convert the model to one of F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K, Q6_K",
                shown(tensor.name), block ? block->name : "?");
  const std::int64_t per_block = block->elements;
  if (first < 0 || count < 0 || first % per_block != 0 || count % per_block != 0 || first > tensor.elements() || count > tensor.elements() - first)
    return fail(Code::kInvalidArgument, "tensor '{}': elements {} to {} are not whole blocks in it", shown(tensor.name), first, first + count);
  const auto bytes = tensor.bytes.substr(static_cast<std::size_t>(first / per_block) * block->bytes, static_cast<std::size_t>(count / per_block) * block->bytes);
  (void)dequantize_blocks(tensor.type, bytes, out);
  return ok();
}

}  // namespace musacoder::llm
