#include "service/session_impl.h"

namespace musacoder::service {

void serve_plain(std::shared_ptr<ServerState> state, Tcp::socket socket, std::string peer) {
  const auto executor = socket.get_executor();
  auto session =
      std::make_shared<HttpSession<Tcp::socket>>(std::move(state), std::move(socket), std::move(peer));
  net::co_spawn(executor, [session]() -> net::awaitable<void> { co_await session->run(); }, net::detached);
}

}  // namespace musacoder::service
