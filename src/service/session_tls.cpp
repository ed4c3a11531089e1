#include "service/session_impl.h"

namespace musacoder::service {

namespace {
using TlsStream = net::ssl::stream<Tcp::socket>;
}

void serve_tls(std::shared_ptr<ServerState> state, Tcp::socket socket, std::string peer,
               std::shared_ptr<net::ssl::context> context) {
  const auto executor = socket.get_executor();
  auto session = std::make_shared<HttpSession<TlsStream>>(state, TlsStream(std::move(socket), *context),
                                                          std::move(peer));
  net::co_spawn(
      executor,
      [session, state, context]() -> net::awaitable<void> {
        session->dog().arm(state->config.header_s);
        auto [error] = co_await session->stream().async_handshake(net::ssl::stream_base::server, kTuple);
        session->dog().disarm();
        if (error) {
          state->router.service().metrics().count_refusal("tls");
          co_return;
        }
        co_await session->run();
      },
      net::detached);
}

}  // namespace musacoder::service
