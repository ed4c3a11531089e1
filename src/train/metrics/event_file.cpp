#include "train/metrics/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

namespace musacoder::train {
namespace {

std::string fixed(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out + static_cast<char>(value);
}

// Protocol Buffers' wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
std::string key(int field, int type) { return varint(static_cast<std::uint64_t>(field << 3 | type)); }
std::string bytes_field(int field, std::string_view bytes) {
  return key(field, 2) + varint(bytes.size()) + std::string(bytes);
}

std::string event_head(double wall_time, std::int64_t step) {
  return key(1, 1) + fixed(std::bit_cast<std::uint64_t>(wall_time), 8) + key(2, 0) +
         varint(static_cast<std::uint64_t>(step));
}

std::string masked(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return fixed(((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78u : 0);
    }
    return table;
  }();
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

Result<EventFile> EventFile::create(const std::string& folder, base::Clock& clock,
                                    std::int64_t restart_step) {
  MC_RETURN_IF_ERROR(base::make_dirs(folder));
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) std::strcpy(host, "localhost");
  const double now = clock.unix_time();
  const std::string path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.0", folder,
                                       static_cast<std::int64_t>(now), host, ::getpid());
  base::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) return fail(base::code_of_errno(errno), "cannot write {}: {}", path, std::strerror(errno));
  EventFile out(std::move(fd), path, clock);
  MC_RETURN_IF_ERROR(out.put(event_head(now, 0) + bytes_field(3, "brain.Event:2")));
  if (restart_step >= 0) {
    const std::string start = key(1, 0) + varint(1);  // SessionLog.START
    MC_RETURN_IF_ERROR(out.put(event_head(now, restart_step) + bytes_field(7, start)));
  }
  return out;
}

Status EventFile::write(std::int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [tag, value] : values)
    summary += bytes_field(1, bytes_field(1, tag) + key(2, 5) +
                                  fixed(std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4));
  return put(event_head(clock_->unix_time(), step) + bytes_field(5, summary));
}

Status EventFile::put(std::string_view event) {
  const std::string length = fixed(event.size(), 8);
  const Status written =
      base::write_all(fd_.get(), length + masked(length) + std::string(event) + masked(event));
  if (!written) return fail(written.error().code, "cannot write {}: {}", path_, written.error().message);
  return ok();
}

}  // namespace musacoder::train
