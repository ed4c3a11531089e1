#include "net/session_impl.h"

namespace musacoder::net {

void serve_tls(std::shared_ptr<ServerState> state, Tcp::socket socket, std::string peer,
               std::shared_ptr<asio::ssl::context> context) {
  const auto executor = socket.get_executor();
  auto session = std::make_shared<HttpSession<TlsStream>>(state, TlsStream(std::move(socket), *context),
                                                          std::move(peer));
  asio::co_spawn(
      executor,
      [session, state, context]() -> asio::awaitable<void> {
        session->dog().arm(state->config.header_s);
        auto [error] = co_await session->stream().async_handshake(asio::ssl::stream_base::server, kTuple);
        session->dog().disarm();
        if (error) {
          state->handler.metrics().count_refusal("tls");
          co_return;
        }
        co_await session->run();
      },
      asio::detached);
}

}  // namespace musacoder::net
