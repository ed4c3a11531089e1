// musacoder-vgpud: one virtual GPU in a process of its own. Started by the judge (control.h), not by people.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "vgpu/server/lockdown.h"
#include "vgpu/server/server.h"

namespace {

constexpr const char kUsage[] =
    "usage: musacoder-vgpud --control-fd N --client-fd M [--gpu h200] [--threads 1] [--memory BYTES]\n"
    "                       [--max-warp-instructions N] [--max-seconds S]\n"
    "Serves a virtual GPU on two connected sockets until the control socket closes. The judge starts it.\n";

template <typename T>
bool parse(std::string_view text, T& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

int main(int argc, char** argv) {
  int control_fd = -1, client_fd = -1;
  musacoder::vgpu::ServerOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    const std::string_view value = i + 1 < argc ? argv[++i] : "";
    bool good = false;
    if (name == "--control-fd") good = parse(value, control_fd);
    if (name == "--client-fd") good = parse(value, client_fd);
    if (name == "--gpu") good = !(options.gpu = value).empty();
    if (name == "--threads") good = parse(value, options.threads) && options.threads >= 1 && options.threads <= 1024;
    if (name == "--memory") good = parse(value, options.memory_bytes);
    if (name == "--max-warp-instructions") good = parse(value, options.max_warp_instructions);
    if (name == "--max-seconds") good = parse(value, options.max_seconds) && options.max_seconds >= 0;
    if (!good) {
      std::fprintf(stderr, "musacoder-vgpud: bad option %s '%s'\n%s", std::string(name).c_str(), std::string(value).c_str(), kUsage);
      return 1;
    }
  }
  if (::fcntl(control_fd, F_GETFD) < 0 || ::fcntl(client_fd, F_GETFD) < 0) {
    std::fprintf(stderr, "musacoder-vgpud: --control-fd and --client-fd must be open sockets\n%s", kUsage);
    return 1;
  }
  // It reads what hostile processes send: nothing to gain, nothing to dump.
  std::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);

  auto server = musacoder::vgpu::Server::create(options);
  if (!server) {
    std::fprintf(stderr, "musacoder-vgpud: %s\n", server.error().message.c_str());
    return 3;
  }
  musacoder::vgpu::lock_down();
  (*server)->run(control_fd, client_fd);
  ::_exit(0);
}
