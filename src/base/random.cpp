#include "base/random.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>

namespace musacoder::base {

std::string random_hex(std::size_t bytes) {
  std::array<unsigned char, 32> buffer{};
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t n = getrandom(buffer.data() + have, bytes - have, 0);
    if (n > 0) have += static_cast<std::size_t>(n);
  }
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += fmt::format("{:02x}", buffer[i]);
  return text;
}

std::string random_id(const std::string& prefix) { return prefix + random_hex(16); }

}  // namespace musacoder::base
