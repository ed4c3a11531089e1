// The stand-in GPU: one virtual GPU for several processes, as a real one is. `standin_gpu SOCKET` listens there; every
// connection is a client, and all see the same memory.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "vgpu/server/server.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: standin_gpu SOCKET\n", stderr), 1;
  std::signal(SIGPIPE, SIG_IGN);
  musacoder::vgpu::ServerOptions options;
  options.gpu = "s5000";
  options.memory_bytes = 4ull << 30;
  options.max_seconds = 20;
  auto server = musacoder::vgpu::Server::create(options);
  if (!server) return std::fprintf(stderr, "standin_gpu: %s\n", server.error().message.c_str()), 3;
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
  ::unlink(argv[1]);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(listener, 64) != 0)
    return std::perror("standin_gpu"), 3;
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    const int client = ::accept(listener, nullptr, nullptr);
    if (client < 0) continue;
    std::thread([&server, client] {
      (*server)->serve_client(client);
      ::close(client);
    }).detach();
  }
}
