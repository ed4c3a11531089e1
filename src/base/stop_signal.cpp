#include "base/stop_signal.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace musacoder::base {
namespace {

std::atomic<int> g_write_fd{-1};

extern "C" void on_stop(int) {
  const int saved = errno;
  const int fd = g_write_fd;
  [[maybe_unused]] const ssize_t n = fd >= 0 ? ::write(fd, "x", 1) : 0;
  errno = saved;
}

}  // namespace

StopSignal::StopSignal() {
  int fds[2] = {-1, -1};
  if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return;
  read_fd_ = fds[0];
  g_write_fd = fds[1];
  struct sigaction action{};
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

StopSignal::~StopSignal() {
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  const int fd = g_write_fd.exchange(-1);
  if (fd >= 0) ::close(fd);
  if (read_fd_ >= 0) ::close(read_fd_);
}

bool StopSignal::wait(double seconds) {
  for (;;) {
    pollfd item{read_fd_, POLLIN, 0};
    const int ready = ::poll(&item, 1, seconds < 0 ? -1 : static_cast<int>(seconds * 1000));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char byte;
    return ::read(read_fd_, &byte, 1) == 1;
  }
}

}  // namespace musacoder::base
