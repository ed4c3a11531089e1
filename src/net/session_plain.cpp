#include "net/session_impl.h"

namespace musacoder::net {

void serve_plain(std::shared_ptr<ServerState> state, Tcp::socket socket, std::string peer) {
  const auto executor = socket.get_executor();
  auto session =
      std::make_shared<HttpSession<Tcp::socket>>(std::move(state), std::move(socket), std::move(peer));
  asio::co_spawn(executor, [session]() -> asio::awaitable<void> { co_await session->run(); }, asio::detached);
}

}  // namespace musacoder::net
