#include "base/json_lines.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace musacoder::base {
namespace {

bool too_deep(std::string_view text, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

// Waits until fd is ready for `events`.
Status wait_for(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd item{fd, events, 0};
    int n = ::poll(&item, 1, deadline.poll_ms());
    if (n > 0) return ok();
    if (n < 0 && errno != EINTR) return fail(Code::kInternal, "poll failed: {}", std::strerror(errno));
    if (deadline.expired()) return fail(Code::kDeadlineExceeded, "the peer did not answer in time");
  }
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, int max_depth) {
  if (too_deep(text, max_depth)) return fail(Code::kInvalidArgument, "JSON is nested deeper than {} levels", max_depth);
  auto value = nlohmann::json::parse(text, nullptr, false);
  if (value.is_discarded()) {
    std::string head(text.substr(0, 80));
    for (char& c : head)
      if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) c = '?';
    return fail(Code::kInvalidArgument, "not JSON: {}{}", head, text.size() > 80 ? "…" : "");
  }
  return value;
}

JsonLines::JsonLines(Fd fd, std::size_t limit) : fd_(std::move(fd)), limit_(limit) {}

Result<std::string> JsonLines::read_line(const Deadline& deadline) {
  if (!fd_) return fail(Code::kUnavailable, "the channel is closed");
  for (;;) {
    std::size_t end = buffer_.find('\n', scanned_);
    if (end != std::string::npos) {
      if (end > limit_) return fail(Code::kResourceExhausted, "a line has more than {} bytes", limit_);
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      scanned_ = 0;
      return line;
    }
    scanned_ = buffer_.size();
    if (buffer_.size() > limit_) return fail(Code::kResourceExhausted, "a line has more than {} bytes", limit_);
    MC_RETURN_IF_ERROR(wait_for(fd_.get(), POLLIN, deadline));
    char chunk[1 << 16];
    ssize_t n = ::read(fd_.get(), chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return fail(Code::kUnavailable, "the peer is gone: {}", std::strerror(errno));
    if (n == 0) return fail(Code::kUnavailable, "the peer closed the channel");
    buffer_.append(chunk, static_cast<std::size_t>(n));
  }
}

Result<nlohmann::json> JsonLines::read(const Deadline& deadline) {
  MC_ASSIGN_OR_RETURN(std::string line, read_line(deadline));
  return parse_json(line);
}

Status JsonLines::write(const nlohmann::json& value, const Deadline& deadline, const std::vector<int>& fds) {
  return write_line(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), deadline, fds);
}

Status JsonLines::write_line(std::string_view line, const Deadline& deadline, const std::vector<int>& fds) {
  if (!fd_) return fail(Code::kUnavailable, "the channel is closed");
  if (line.size() > limit_) return fail(Code::kResourceExhausted, "a line has more than {} bytes", limit_);
  if (fds.size() > 16) return fail(Code::kInvalidArgument, "at most 16 descriptors travel with a line");
  std::string text(line);
  text += '\n';
  std::size_t sent = 0;
  bool with_fds = !fds.empty(), is_socket = true;
  while (sent < text.size()) {
    ssize_t n = 0;
    if (is_socket) {
      msghdr message{};
      iovec part{text.data() + sent, text.size() - sent};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
      if (with_fds) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
      }
      n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == ENOTSOCK) {
        if (with_fds) return fail(Code::kInvalidArgument, "descriptors need a Unix socket");
        is_socket = false;
        continue;
      }
    } else {
      MC_RETURN_IF_ERROR(wait_for(fd_.get(), POLLOUT, deadline));
      n = ::write(fd_.get(), text.data() + sent, std::min<std::size_t>(text.size() - sent, 4096));
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      MC_RETURN_IF_ERROR(wait_for(fd_.get(), POLLOUT, deadline));
      continue;
    }
    if (n < 0) return fail(Code::kUnavailable, "the peer is gone: {}", std::strerror(errno));
    sent += static_cast<std::size_t>(n);
    with_fds = false;
  }
  return ok();
}

Result<std::pair<Fd, Fd>> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    int error = errno;
    return fail(code_of_errno(error), "cannot create a socket pair: {}", std::strerror(error));
  }
  return std::pair<Fd, Fd>(Fd(fds[0]), Fd(fds[1]));
}

}  // namespace musacoder::base
