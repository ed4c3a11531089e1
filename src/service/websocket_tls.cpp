#include "service/websocket_impl.h"

namespace musacoder::service {

asio::awaitable<void> run_tls_websocket(std::shared_ptr<ServerState> state, Router& router,
                                        net::TlsStream stream, const Request& request,
                                        http::request<http::string_body> head) {
  return run_websocket(std::move(state), router, std::move(stream), request, std::move(head));
}

}  // namespace musacoder::service
