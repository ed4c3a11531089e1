// A GGUF file, versions 2 and 3: metadata and tensors, mapped, not read
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
//
//   MC_ASSIGN_OR_RETURN(auto file, Gguf::open("model.gguf"));
//   file->text("general.architecture");                  // "llama"
//   file->number("llama.block_count");                   // 30
//   const GgufTensor* w = file->find("blk.0.attn_q.weight");
//   std::vector<float> row(576);
//   MC_RETURN_IF_ERROR(dequantize(*w, 0, row.size(), row.data()));
//
// The file is hostile until shown otherwise. Refused with kInvalidArgument, the file's name and what is wrong: lengths and
// counts beyond the file, keys and tensors given twice, names that are not UTF-8, arrays nested deeper than four, tensors
// that overlap, leave holes, are not aligned or do not lie in the file. kUnsupported: version 1, big endian, one file of a
// split model. Thread safety: const.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "llm/checkpoint/gguf_quants.h"
#include "llm/checkpoint/mapped_file.h"
#include "llm/checkpoint/tensor.h"

namespace musacoder::llm {

enum class GgufType : std::uint32_t {
  kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64,
};

struct GgufValue {
  GgufType type = GgufType::kU8;
  std::uint64_t bits = 0;                     // numbers: integers sign-extended, floats as a double's bits; kBool 0 or 1
  std::string_view text;                      // kString; bytes as in the file
  GgufType element = GgufType::kU8;           // kArray, with the next lines
  std::uint64_t count = 0;
  std::string_view data;                      // of numbers and booleans, little endian
  std::vector<std::string_view> texts;        // of strings
  std::vector<GgufValue> arrays;              // of arrays
};

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::kF32;
  Shape shape;                 // row-major as in PyTorch: the file's dimensions in reverse
  std::string_view bytes;
  std::uint64_t offset = 0;    // of `bytes` in the file

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t d : shape) n *= d;
    return n;
  }
};

class Gguf {
 public:
  static Result<std::shared_ptr<const Gguf>> open(const std::string& path);
  // Views into `bytes`, which must outlive the result; `where` names it in errors.
  static Result<std::shared_ptr<const Gguf>> parse(std::string_view bytes, std::string_view where);
  static bool looks_like(std::string_view bytes) { return bytes.substr(0, 4) == "GGUF"; }

  const std::string& where() const { return where_; }
  std::uint32_t version() const { return version_; }
  const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(std::string_view name) const;
  const GgufValue* value(std::string_view key) const;
  // nullopt: no such key, or of another type.
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;      // integers too
  std::optional<bool> boolean(std::string_view key) const;

 private:
  friend class GgufReader;
  std::shared_ptr<const MappedFile> file_;
  std::string where_;
  std::uint32_t version_ = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, std::size_t> keys_, names_;
};

// `count` elements from element `first` on as float32. Both must be multiples of the type's block. kUnsupported: a type that
// is not listed in gguf_quants.h as readable.
Status dequantize(const GgufTensor& tensor, std::int64_t first, std::int64_t count, float* out);

}  // namespace musacoder::llm
