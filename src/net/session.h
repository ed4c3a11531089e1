// What connections are made of: coroutines on a strand each, over plain and TLS sockets. Private to the
// server and to those who take WebSockets over; a .cpp that includes this compiles for a while.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "net/server.h"

namespace musacoder::net {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using TlsStream = asio::ssl::stream<Tcp::socket>;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

// What connections share.
struct ServerState {
  ServerState(Handler& h, const ServerConfig& c)
      : handler(h), config(c), pool(static_cast<std::size_t>(c.handler_threads)) {}
  Handler& handler;
  const ServerConfig& config;
  asio::io_context io;
  asio::thread_pool pool;  // where routes run
  std::atomic<std::size_t> connections{0}, websockets{0}, active{0}, request_number{0};
  std::atomic<bool> stopping{false};

  // Called on shutdown, once each, to end connections that would wait for ever.
  using Hook = std::shared_ptr<std::function<void()>>;
  void add_hook(const Hook& hook);
  void run_hooks();
  std::string next_request_id();

 private:
  std::mutex hooks_mutex_;
  std::vector<std::weak_ptr<std::function<void()>>> hooks_;
};

// Runs `work` where it may block, and comes back to this connection's strand.
template <typename Work>
asio::awaitable<std::invoke_result_t<Work>> on_pool(ServerState& state, Work work) {
  using Value = std::invoke_result_t<Work>;
  auto task = [w = std::move(work)]() mutable -> asio::awaitable<Value> { co_return w(); };
  auto running = asio::co_spawn(state.pool, std::move(task), asio::use_awaitable);
  co_return co_await std::move(running);
}

// Cancels a socket's operations when they take too long; the socket stays open, so that 408 can still be
// said. Belongs to the connection's strand.
class Watchdog {
 public:
  explicit Watchdog(Tcp::socket& socket)
      : timer_(socket.get_executor()), shared_(std::make_shared<Shared>(Shared{&socket, 0, false})) {}
  ~Watchdog() { disarm(), shared_->socket = nullptr; }
  void arm(double seconds) {
    const std::uint64_t mine = ++shared_->generation;
    shared_->fired = false;
    timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(seconds)));
    timer_.async_wait([shared = shared_, mine](const boost::system::error_code& error) {
      if (error || shared->generation != mine || !shared->socket) return;
      shared->fired = true;
      boost::system::error_code ignored;
      shared->socket->cancel(ignored);
    });
  }
  void disarm() {
    ++shared_->generation;
    timer_.cancel();
  }
  bool fired() const { return shared_->fired; }

 private:
  struct Shared {
    Tcp::socket* socket;
    std::uint64_t generation;
    bool fired;
  };
  asio::steady_timer timer_;
  std::shared_ptr<Shared> shared_;
};

// A flag that a coroutine of the strand can wait for and any thread can raise.
struct Signal : std::enable_shared_from_this<Signal> {
  explicit Signal(asio::any_io_executor executor) : timer(executor) {}
  asio::steady_timer timer;
  bool raised = false;
  void raise() {  // any thread
    asio::post(timer.get_executor(), [self = shared_from_this()] {
      self->raised = true;
      self->timer.cancel();
    });
  }
  asio::awaitable<void> wait(double seconds) {
    if (!raised) {
      timer.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(seconds)));
      [[maybe_unused]] auto [error] = co_await timer.async_wait(kTuple);
    }
    raised = false;
  }
};

inline bool peer_is_gone(Tcp::socket& socket) {
  char byte;
  const ssize_t n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

// Counts a scope in an atomic.
struct Counted {
  explicit Counted(std::atomic<std::size_t>& c) : counter(c) { ++counter; }
  ~Counted() { --counter; }
  std::atomic<std::size_t>& counter;
};

// Waits for what a reply waits for and gives the final reply; nothing when the peer went away meanwhile.
inline asio::awaitable<std::optional<Reply>> settle(ServerState& state, Reply reply, Tcp::socket* socket) {
  while (reply.pending) {
    const std::shared_ptr<Pending> pending = std::move(reply.pending);
    auto signal = std::make_shared<Signal>(co_await asio::this_coro::executor);
    const base::Deadline deadline = base::Deadline::in(pending->seconds);
    pending->watch([signal] { signal->raise(); });
    for (;;) {
      const bool over = deadline.expired() || state.stopping;
      auto look = [&pending, over] { return pending->poll(over); };
      std::optional<Reply> ready = co_await on_pool(state, look);
      if (ready) {
        reply = std::move(*ready);
        break;
      }
      co_await signal->wait(std::min(1.0, deadline.remaining() + 0.001));
      if (socket && peer_is_gone(*socket)) co_return std::nullopt;
    }
  }
  co_return std::optional<Reply>(std::move(reply));
}

// Takes a connection over after the header of a WebSocket handshake was read.
class Upgrader {
 public:
  virtual ~Upgrader() = default;
  using Head = http::request<http::string_body>;
  virtual asio::awaitable<void> take(std::shared_ptr<ServerState> state, Tcp::socket socket,
                                     const Request& request, Head head) = 0;
  virtual asio::awaitable<void> take(std::shared_ptr<ServerState> state, TlsStream stream,
                                     const Request& request, Head head) = 0;
};

void serve_plain(std::shared_ptr<ServerState> state, Tcp::socket socket, std::string peer);
void serve_tls(std::shared_ptr<ServerState> state, Tcp::socket socket, std::string peer,
               std::shared_ptr<asio::ssl::context> context);

}  // namespace musacoder::net
