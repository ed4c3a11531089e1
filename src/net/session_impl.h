// The coroutines of an HTTP connection, as a template over its stream. Included by session_plain.cpp and
// session_tls.cpp only, which instantiate it once each.
#pragma once

#include <array>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include "base/event_log.h"
#include "net/session.h"

namespace musacoder::net {

using base::log_event;

inline std::string plain_request_id(std::string_view given, ServerState& state) {
  if (!given.empty() && given.size() <= 64 &&
      given.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
          std::string_view::npos)
    return std::string(given);
  return state.next_request_id();
}

template <typename Stream>
class HttpSession : public std::enable_shared_from_this<HttpSession<Stream>> {
 public:
  HttpSession(std::shared_ptr<ServerState> state, Stream stream, std::string peer)
      : state_(std::move(state)),
        stream_(std::move(stream)),
        executor_(stream_.get_executor()),
        peer_(std::move(peer)),
        dog_(socket()) {}

  asio::awaitable<void> run() {
    Counted counted(state_->connections);
    hook_ = std::make_shared<std::function<void()>>([weak = this->weak_from_this()] {
      if (auto session = weak.lock()) asio::post(session->executor_, [session] { session->end_idle(); });
    });
    state_->add_hook(hook_);
    while (co_await one_request()) {
    }
    hook_.reset();
    if (!moved_) {
      boost::system::error_code ignored;
      socket().shutdown(Tcp::socket::shutdown_both, ignored);
      socket().close(ignored);
    }
  }

  Tcp::socket& socket() { return beast::get_lowest_layer(stream_); }
  Watchdog& dog() { return dog_; }
  Stream& stream() { return stream_; }

 private:
  using Parser = http::request_parser<http::string_body>;

  void end_idle() {
    boost::system::error_code ignored;
    if (idle_ && !moved_) socket().cancel(ignored);
  }

  // False when the connection is over.
  asio::awaitable<bool> one_request() {
    if (state_->stopping) co_return false;
    if (buffer_.size() == 0) {
      idle_ = true;
      dog_.arm(state_->config.idle_s);
      auto [error, n] = co_await stream_.async_read_some(buffer_.prepare(4096), kTuple);
      dog_.disarm();
      idle_ = false;
      if (error) co_return false;
      buffer_.commit(n);
    }
    Counted counted(state_->active);
    const auto begin = std::chrono::steady_clock::now();
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(state_->config.max_header_bytes));
    parser.body_limit(state_->config.max_body_bytes);
    dog_.arm(state_->config.header_s);
    auto [header_error, header_bytes] = co_await http::async_read_header(stream_, buffer_, parser, kTuple);
    dog_.disarm();
    if (header_error) co_return co_await refuse_reading(header_error, "header");
    const auto& header = parser.get();
    Request request;
    auto parsed = parse_target(std::string_view(header.target().data(), header.target().size()));
    const std::string id = plain_request_id(
        std::string_view(header["X-Request-Id"].data(), header["X-Request-Id"].size()), *state_);
    if (!parsed)
      co_return co_await send_last(state_->handler.error_reply(parsed.error(), id), id, header.version());
    request = std::move(*parsed);
    fill(request, header, id);
    if (header.count(http::field::content_length) + header.count(http::field::transfer_encoding) > 1)
      co_return co_await send_last(
          state_->handler.error_reply(
              api_error(400, "more than one Content-Length or Transfer-Encoding").value(), id),
          id, header.version());
    if (header.count(http::field::host) > 1 || header.count(http::field::authorization) > 1)
      co_return co_await send_last(
          state_->handler.error_reply(api_error(400, "more than one Host or Authorization").value(), id), id,
          header.version());
    if (auto early = state_->handler.refuse_early(request)) {
      state_->handler.metrics().count_request(state_->handler.pattern_of(request), early->status, 0);
      // With an unread body the connection cannot go on.
      if (!parser.is_done()) co_return co_await send_last(std::move(*early), id, header.version());
      co_return co_await send(std::move(*early), id, header.version(), parser.keep_alive());
    }
    if (request.upgrade)
      if (Upgrader* upgrader = state_->handler.upgrader(request)) {
        moved_ = true;
        co_await upgrader->take(state_, std::move(stream_), request, parser.release());
        co_return false;
      }
    if (beast::iequals(header[http::field::expect], "100-continue")) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      dog_.arm(state_->config.write_s);
      auto [error, n] =
          co_await asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()), kTuple);
      dog_.disarm();
      if (error) co_return false;
    }
    if (!parser.is_done()) {
      dog_.arm(state_->config.body_s);
      auto [error, n] = co_await http::async_read(stream_, buffer_, parser, kTuple);
      dog_.disarm();
      if (error) co_return co_await refuse_reading(error, "body");
    }
    const bool keep_alive = parser.keep_alive();
    const unsigned version = parser.get().version();
    request.body = std::move(parser.get().body());
    auto work = [this, &request] { return state_->handler.handle(request); };
    Reply first = co_await on_pool(*state_, work);
    std::optional<Reply> reply = co_await settle(*state_, std::move(first), &socket());
    if (!reply) co_return false;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    state_->handler.metrics().count_request(state_->handler.pattern_of(request), reply->status, seconds);
    state_->handler.metrics().set_connections(state_->connections, state_->websockets);
    log_event(reply->status >= 500 ? base::LogLevel::kWarning : base::LogLevel::kDebug, "request",
              {{"request", id},
               {"peer", peer_},
               {"method", request.method},
               {"path", request.path},
               {"status", std::int64_t{reply->status}},
               {"seconds", seconds}});
    if (reply->events)
      co_return co_await stream_events(request, *reply->events, version, keep_alive && !state_->stopping);
    co_return co_await send(std::move(*reply), id, version, keep_alive && !state_->stopping);
  }

  void fill(Request& request, const http::request<http::string_body>& header, const std::string& id) {
    auto text = [&](auto field) {
      const auto value = header[field];
      return std::string(value.data(), value.size());
    };
    request.method = std::string(header.method_string().data(), header.method_string().size());
    request.id = id;
    request.peer = peer_;
    request.authorization = text(http::field::authorization);
    request.content_type = text(http::field::content_type);
    request.idempotency_key = text("Idempotency-Key");
    request.host = text(http::field::host);
    request.origin = text(http::field::origin);
    request.upgrade = beast::websocket::is_upgrade(header);
  }

  asio::awaitable<bool> refuse_reading(boost::system::error_code error, const char* what) {
    const std::string id = state_->next_request_id();
    if (error == http::error::end_of_stream || error == asio::error::eof ||
        error == asio::error::connection_reset || error == asio::ssl::error::stream_truncated)
      co_return false;
    ApiError refusal;
    if (dog_.fired())
      refusal = api_error(408, fmt::format("the request's {} came too slowly", what)).value();
    else if (error == http::error::header_limit || error == http::error::buffer_overflow)
      refusal =
          api_error(431, fmt::format("the header has more than {} bytes", state_->config.max_header_bytes))
              .value();
    else if (error == http::error::body_limit)
      refusal = api_error(413, fmt::format("the body has more than {} bytes", state_->config.max_body_bytes))
                    .value();
    else if (error == asio::error::operation_aborted)
      co_return false;
    else
      refusal = api_error(400, "this is not HTTP/1.1: " + error.message()).value();
    state_->handler.metrics().count_refusal(refusal.status == 408   ? "slow"
                                            : refusal.status == 400 ? "malformed"
                                                                    : "too_large");
    log_event(base::LogLevel::kInfo, "refused",
              {{"request", id},
               {"peer", peer_},
               {"reason", refusal.message},
               {"status", std::int64_t{refusal.status}}});
    co_return co_await send_last(state_->handler.error_reply(refusal, id), id, 11);
  }

  // Sends and closes; what the peer still sends is read for a moment, so that a reset does not overtake the
  // reply.
  asio::awaitable<bool> send_last(Reply reply, std::string id, unsigned version) {
    const bool sent = co_await send(std::move(reply), std::move(id), version, false);
    (void)sent;
    boost::system::error_code ignored;
    socket().shutdown(Tcp::socket::shutdown_send, ignored);
    dog_.arm(1);
    std::size_t taken = 0;
    for (std::array<char, 16384> sink; taken < (64u << 20);) {
      auto [error, n] = co_await socket().async_read_some(asio::buffer(sink), kTuple);
      if (error) break;
      taken += n;
    }
    dog_.disarm();
    co_return false;
  }

  asio::awaitable<bool> send(Reply reply, std::string id, unsigned version, bool keep_alive) {
    http::response<http::string_body> response(static_cast<http::status>(reply.status), version);
    response.set(http::field::server, "musacoder");
    response.set("X-Request-Id", id);
    response.set(http::field::cache_control, "no-store");
    for (const auto& [name, value] : reply.headers) response.set(name, value);
    if (reply.status != 204) {
      response.set(http::field::content_type, reply.type);
      response.body() = std::move(reply.body);
    }
    response.keep_alive(keep_alive);
    response.prepare_payload();
    dog_.arm(state_->config.write_s);
    auto [error, n] = co_await http::async_write(stream_, response, kTuple);
    dog_.disarm();
    co_return !error && keep_alive;
  }

  // Whether the connection can go on: with HTTP/1.1 the events come in chunks.
  asio::awaitable<bool> stream_events(const Request& request, EventSource& events, unsigned version,
                                      bool keep_alive) {
    const bool chunked = version == 11;
    const std::string head = fmt::format(
        "HTTP/1.1 200 OK\r\nServer: musacoder\r\nContent-Type: text/event-stream\r\nCache-Control: "
        "no-store\r\nX-Request-Id: {}\r\n{}{}\r\n",
        request.id, chunked ? "Transfer-Encoding: chunked\r\n" : "",
        chunked && keep_alive ? "" : "Connection: close\r\n");
    if (!co_await write_raw(head)) co_return false;
    auto signal = std::make_shared<Signal>(co_await asio::this_coro::executor);
    auto stop = std::make_shared<std::function<void()>>([signal] { signal->raise(); });
    state_->add_hook(stop);
    events.watch([signal] { signal->raise(); });
    auto quiet_since = std::chrono::steady_clock::now();
    while (!state_->stopping) {
      auto fetch = [&events] { return events.next(); };
      auto [text, ended] = co_await on_pool(*state_, fetch);
      if (text.empty() && !ended && std::chrono::steady_clock::now() - quiet_since > std::chrono::seconds(15))
        text = ": keep-alive\n\n";
      if (chunked && !text.empty()) text = fmt::format("{:x}\r\n{}\r\n", text.size(), text);
      if (chunked && ended) text += "0\r\n\r\n";
      if (!text.empty()) {
        if (!co_await write_raw(text)) co_return false;
        quiet_since = std::chrono::steady_clock::now();
      }
      if (ended) co_return chunked&& keep_alive;
      if (peer_is_gone(socket())) co_return false;
      co_await signal->wait(2);
    }
    co_return false;
  }

  asio::awaitable<bool> write_raw(const std::string& text) {
    dog_.arm(state_->config.write_s);
    auto [error, n] = co_await asio::async_write(stream_, asio::buffer(text), kTuple);
    dog_.disarm();
    co_return !error;
  }

  std::shared_ptr<ServerState> state_;
  Stream stream_;
  asio::any_io_executor executor_;  // the strand; outlives the stream's move to a WebSocket
  const std::string peer_;
  Watchdog dog_;
  beast::flat_buffer buffer_;
  bool idle_ = false, moved_ = false;
  ServerState::Hook hook_;
};

}  // namespace musacoder::net
