#include "vgpu/server/fatbin.h"

#include <cstdint>
#include <cstring>

namespace musacoder::vgpu {
namespace {

constexpr std::uint32_t kMagic = 0xBA55ED50u;
constexpr std::uint64_t kCompressedFlags = 0xF000;  // LZ4 is 0x2000, zstd 0x8000

template <typename T>
T get(std::string_view bytes, std::size_t at) {
  T v;
  std::memcpy(&v, bytes.data() + at, sizeof v);
  return v;
}

bool looks_like_ptx(std::string_view bytes) {
  auto start = bytes.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return false;
  std::string_view text = bytes.substr(start);
  return text.starts_with("//") || text.starts_with("/*") || text.starts_with(".version");
}

std::string_view trim_nuls(std::string_view text) {
  auto end = text.find_last_not_of('\0');
  return end == std::string_view::npos ? std::string_view{} : text.substr(0, end + 1);
}

}  // namespace

Result<std::string_view> find_ptx(std::string_view bytes) {
  if (bytes.size() < 16 || get<std::uint32_t>(bytes, 0) != kMagic) {
    if (looks_like_ptx(bytes)) return trim_nuls(bytes);
    return fail(Code::kInvalidArgument, "{} bytes are neither a fat binary nor PTX text", bytes.size());
  }
  const std::uint16_t header_bytes = get<std::uint16_t>(bytes, 6);
  const std::uint64_t body_bytes = get<std::uint64_t>(bytes, 8);
  if (header_bytes < 16 || header_bytes > bytes.size() || body_bytes > bytes.size() - header_bytes)
    return fail(Code::kInvalidArgument, "the fat binary claims {} + {} bytes of {}", header_bytes, body_bytes, bytes.size());
  std::string_view body = bytes.substr(header_bytes, body_bytes), best;
  std::uint32_t best_target = 0;
  bool compressed = false;
  while (body.size() >= 64) {
    const std::uint16_t kind = get<std::uint16_t>(body, 0);
    const std::uint32_t entry_header = get<std::uint32_t>(body, 4);
    const std::uint64_t payload = get<std::uint64_t>(body, 8);
    if (kind == 0) break;  // padding
    if (entry_header < 64 || entry_header > body.size() || payload > body.size() - entry_header)
      return fail(Code::kInvalidArgument, "an entry of the fat binary claims {} + {} bytes of {}", entry_header, payload,
                  body.size());
    const std::uint32_t target = get<std::uint32_t>(body, 28);
    if (kind == 1) {
      if (get<std::uint64_t>(body, 40) & kCompressedFlags) {
        compressed = true;
      } else if (best.empty() || target > best_target) {
        best = trim_nuls(body.substr(entry_header, payload));
        best_target = target;
      }
    }
    body.remove_prefix(entry_header + payload);
  }
  if (!best.empty()) return best;
  if (compressed)
    return fail(Code::kUnsupported, "the PTX of the fat binary is compressed; build with nvcc --compress-mode=none");
  return fail(Code::kUnsupported, "the fat binary has no PTX; build with nvcc -arch=compute_90 -code=compute_90");
}

}  // namespace musacoder::vgpu
