#include "service/websocket_impl.h"
#include "service/websockets.h"

namespace musacoder::service {
namespace {

class Websockets : public net::Upgrader {
 public:
  explicit Websockets(Router& router) : router_(router) {}
  asio::awaitable<void> take(std::shared_ptr<ServerState> state, net::Tcp::socket socket,
                             const Request& request, Head head) override {
    return run_websocket(std::move(state), router_, std::move(socket), request, std::move(head));
  }
  asio::awaitable<void> take(std::shared_ptr<ServerState> state, net::TlsStream stream,
                             const Request& request, Head head) override {
    return run_tls_websocket(std::move(state), router_, std::move(stream), request, std::move(head));
  }

 private:
  Router& router_;
};

}  // namespace

std::shared_ptr<net::Upgrader> make_websockets(Router& router) {
  return std::make_shared<Websockets>(router);
}

}  // namespace musacoder::service
