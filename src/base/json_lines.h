// JSON lines over a socket or pipe: one object a line, bounded in length and depth, with deadlines.
//
//   JsonLines channel(std::move(fd));
//   MC_RETURN_IF_ERROR(channel.write({{"op", "hello"}}, Deadline::in(5)));
//   MC_ASSIGN_OR_RETURN(auto reply, channel.read(Deadline::in(5)));
//
// The peer may be hostile: a line longer than the limit, nested deeper than kMaxDepth or not JSON is an error, never a
// crash. Errors: kUnavailable (peer closed), kDeadlineExceeded, kResourceExhausted (line too long), kInvalidArgument
// (not JSON). After kResourceExhausted or kInvalidArgument the stream may still hold hostile bytes: drop the peer.
// One reader and one writer thread at a time.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/status.h"

namespace musacoder::base {

inline constexpr int kMaxDepth = 64;

// Parses one JSON text; refuses nesting deeper than `max_depth`, so that recursive readers of the result are safe.
Result<nlohmann::json> parse_json(std::string_view text, int max_depth = kMaxDepth);

class JsonLines {
 public:
  // Owns fd. `limit` bytes bound a line in both directions.
  explicit JsonLines(Fd fd, std::size_t limit = 4u << 20);
  JsonLines(JsonLines&&) noexcept = default;
  JsonLines& operator=(JsonLines&&) noexcept = default;

  Result<nlohmann::json> read(const Deadline& deadline);
  Result<std::string> read_line(const Deadline& deadline);
  // Sends the line; with `fds`, the descriptors travel with its first byte (SCM_RIGHTS, Unix sockets only).
  Status write(const nlohmann::json& value, const Deadline& deadline, const std::vector<int>& fds = {});
  Status write_line(std::string_view line, const Deadline& deadline, const std::vector<int>& fds = {});
  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }
  // True when a whole line is buffered, so that read() returns without waiting.
  bool has_line() const { return buffer_.find('\n', scanned_) != std::string::npos; }

 private:
  Fd fd_;
  std::size_t limit_;
  std::string buffer_;
  std::size_t scanned_ = 0;
};

// A connected pair of Unix stream sockets, close-on-exec.
Result<std::pair<Fd, Fd>> socket_pair();

}  // namespace musacoder::base
