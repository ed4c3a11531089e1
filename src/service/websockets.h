// The WebSocket routes /v1/ws and /ws, as what net/server.h hands their connections to. `router` must outlive
// it.
#pragma once

#include <memory>

namespace musacoder::net {
class Upgrader;
}

namespace musacoder::service {

class Router;
std::shared_ptr<net::Upgrader> make_websockets(Router& router);

}  // namespace musacoder::service
