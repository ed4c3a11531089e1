// Content addresses (SHA-256) and fast hashes (XXH3).
//
//   std::string key = sha256_hex("source text");       // 64 hex digits
//   Sha256 h; h.field("flags"); h.field(flags);        // length-prefixed: ("ab","c") differs from ("a","bc")
//   std::string id = h.hex();
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace musacoder::base {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::string_view bytes);
  // Adds the length (8 bytes, little endian) and then the bytes, so that a list of fields is unambiguous.
  void field(std::string_view bytes);
  // 64 lower-case hex digits. Ends this hash; call once.
  std::string hex();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string sha256_hex(std::string_view bytes);
Result<std::string> sha256_file(const std::string& path);

// XXH3, 64 bits: hash tables and duplicate search, never an address of untrusted content.
std::uint64_t xxh3(std::string_view bytes, std::uint64_t seed = 0);

}  // namespace musacoder::base
