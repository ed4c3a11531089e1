// Whatever a client sends, the server answers or hangs up, and then still serves its judge.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <thread>

#include "vgpu/server/fatbin.h"
#include "vgpu/server/protocol.h"
#include "vgpu/server/server.h"

using namespace musacoder::vgpu;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)find_ptx(std::string_view(reinterpret_cast<const char*>(data), size));
  auto server = Server::create({.memory_bytes = 16 << 20, .max_warp_instructions = 10000, .max_seconds = 1});
  int pair[2];
  if (!server || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
  std::thread client([&] {
    protocol::send_all(pair[0], data, size);
    ::shutdown(pair[0], SHUT_WR);
    char waste[4096];
    while (::recv(pair[0], waste, sizeof waste, 0) > 0) {
    }
  });
  (*server)->serve_client(pair[1]);
  client.join();
  ::close(pair[0]);
  ::close(pair[1]);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
  if (!protocol::send_frame(pair[0], static_cast<std::uint16_t>(protocol::Op::kCtlEndWindow), 0, "", nullptr, 0)) std::abort();
  ::shutdown(pair[0], SHUT_WR);
  (*server)->serve_control(pair[1]);
  protocol::FrameHeader reply;
  if (!protocol::receive_header(pair[0], &reply) || reply.status != 0) std::abort();
  ::close(pair[0]);
  ::close(pair[1]);
  return 0;
}
