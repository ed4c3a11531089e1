// The coroutines of a connection; see session.h. Included by two .cpp files only.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <deque>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/json_lines.h"
#include "service/log.h"
#include "service/requests.h"
#include "service/session.h"

namespace musacoder::service {

namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using nlohmann::json;

constexpr auto kTuple = net::as_tuple(net::use_awaitable);

// Runs `work` where it may block, and comes back to this connection's strand.
template <typename Work>
net::awaitable<std::invoke_result_t<Work>> on_pool(ServerState& state, Work work) {
  using Value = std::invoke_result_t<Work>;
  auto task = [w = std::move(work)]() mutable -> net::awaitable<Value> { co_return w(); };
  auto running = net::co_spawn(state.pool, std::move(task), net::use_awaitable);
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
  net::steady_timer timer_;
  std::shared_ptr<Shared> shared_;
};

// A flag that a coroutine of the strand can wait for and any thread can raise.
struct Signal : std::enable_shared_from_this<Signal> {
  explicit Signal(net::any_io_executor executor) : timer(executor) {}
  net::steady_timer timer;
  bool raised = false;
  void raise() {  // any thread
    net::post(timer.get_executor(), [self = shared_from_this()] {
      self->raised = true;
      self->timer.cancel();
    });
  }
  net::awaitable<void> wait(double seconds) {
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
inline net::awaitable<std::optional<Reply>> settle(ServerState& state, Reply reply, Tcp::socket* socket) {
  while (reply.wait) {
    Wait wait = std::move(*reply.wait);
    Service& service = state.router.service();
    auto signal = std::make_shared<Signal>(co_await net::this_coro::executor);
    const base::Deadline deadline = base::Deadline::in(wait.seconds);
    bool all = false;
    if (wait.jobs.empty()) {
      Subscription subscription = service.subscribe_work([signal] { signal->raise(); });
      bool woken = false;
      while (!woken && !deadline.expired() && !state.stopping && !service.draining()) {
        co_await signal->wait(std::min(1.0, deadline.remaining() + 0.001));
        // A lost race for the job is no reason to answer: look whether something waits.
        auto look = [&service] {
          auto stats = service.queue().stats();
          return !stats || stats->queued > 0;
        };
        woken = co_await on_pool(state, look);
        if (socket && peer_is_gone(*socket)) co_return std::nullopt;
      }
    } else {
      auto left = std::make_shared<std::set<std::string>>(wait.jobs.begin(), wait.jobs.end());
      auto on_change = [signal, left](const Change& change) {
        if (!has_ended(change.state)) return;
        net::post(signal->timer.get_executor(), [signal, left, id = change.id] {
          left->erase(id);
          if (left->empty()) signal->raised = true, signal->timer.cancel();
        });
      };
      Subscription subscription = service.subscribe(wait.jobs, on_change);
      auto look = [&service, ids = wait.jobs] {
        std::vector<std::string> ended;
        for (const auto& id : ids)
          if (auto job = service.queue().get(id); job && *job && has_ended((*job)->state))
            ended.push_back(id);
        return ended;
      };
      const std::vector<std::string> ended = co_await on_pool(state, look);
      for (const auto& id : ended) left->erase(id);
      while (!left->empty() && !deadline.expired() && !state.stopping) {
        co_await signal->wait(std::min(1.0, deadline.remaining() + 0.001));
        if (socket && peer_is_gone(*socket)) co_return std::nullopt;
      }
      all = left->empty();
    }
    auto finish = [&wait, all] { return wait.then(all); };
    reply = co_await on_pool(state, finish);
  }
  co_return std::optional<Reply>(std::move(reply));
}

inline std::string plain_request_id(std::string_view given, ServerState& state) {
  if (!given.empty() && given.size() <= 64 &&
      given.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
          std::string_view::npos)
    return std::string(given);
  return state.next_request_id();
}

template <typename Stream>
class WebSocketSession : public std::enable_shared_from_this<WebSocketSession<Stream>> {
 public:
  WebSocketSession(std::shared_ptr<ServerState> state, Stream stream, Token token, std::string id,
                   bool open_env)
      : state_(std::move(state)),
        ws_(std::move(stream)),
        token_(std::move(token)),
        id_(std::move(id)),
        open_env_(open_env) {}

  net::awaitable<void> run(http::request<http::string_body> request) {
    Counted counted(state_->websockets);
    websocket::stream_base::timeout timeout =
        websocket::stream_base::timeout::suggested(beast::role_type::server);
    timeout.idle_timeout = std::chrono::seconds(60);
    timeout.keep_alive_pings = true;
    ws_.set_option(timeout);
    ws_.read_message_max(state_->config.max_body_bytes);
    ws_.set_option(websocket::stream_base::decorator([id = id_](websocket::response_type& response) {
      response.set(http::field::server, "musacoder");
      response.set("X-Request-Id", id);
    }));
    auto [accepted] = co_await ws_.async_accept(request, kTuple);
    if (accepted) co_return;
    auto self = this->shared_from_this();
    hook_ = std::make_shared<std::function<void()>>([weak = std::weak_ptr(self)] {
      if (auto session = weak.lock())
        net::post(session->ws_.get_executor(),
                  [session] { session->close(websocket::close_code::going_away); });
    });
    state_->add_hook(hook_);
    beast::flat_buffer buffer;
    for (;;) {
      auto [error, n] = co_await ws_.async_read(buffer, kTuple);
      if (error) {
        if (error == beast::error::timeout || error == websocket::error::closed) break;
        log_event(base::LogLevel::kInfo, "websocket_ended", {{"request", id_}, {"reason", error.message()}});
        break;
      }
      if (!ws_.got_text()) {
        close(websocket::close_code::unknown_data);
        break;
      }
      std::string text = beast::buffers_to_string(buffer.data());
      buffer.consume(buffer.size());
      if (in_flight_ >= kMaxInFlight) {
        send(error_text(json(), service().overloaded(
                                    429, "64 messages of this connection are being worked on", "websocket")));
        continue;
      }
      ++in_flight_;
      auto work = [self, t = std::move(text)]() mutable -> net::awaitable<void> {
        if (self->open_env_)
          co_await self->open_env(std::move(t));
        else
          co_await self->message(std::move(t));
        --self->in_flight_;
      };
      net::co_spawn(ws_.get_executor(), std::move(work), net::detached);
    }
    closed_ = true;
    watches_.clear();
    wake_writer();
  }

 private:
  static constexpr int kMaxInFlight = 64;
  static constexpr std::size_t kMaxWatches = 4096, kMaxOutbox = 64u << 20;

  struct Watch {
    std::string job, ref;
    Subscription subscription;
    bool busy = false, again = false;
    std::uint64_t sent = 0;  // revision of the last view
  };

  Service& service() { return state_->router.service(); }

  static std::string error_text(const json& ref, const ApiError& error) {
    json body = json::parse(error_reply(error, "").body);
    json message = {{"type", "error"}, {"error", body["error"]}};
    message["error"]["status"] = error.status;
    if (!ref.is_null()) message["ref"] = ref;
    return dump_json(message);
  }

  void close(websocket::close_code code) {
    if (closing_) return;
    closing_ = true;
    auto self = this->shared_from_this();
    net::co_spawn(
        ws_.get_executor(),
        [self, code]() -> net::awaitable<void> {
          websocket::close_reason reason(code);
          [[maybe_unused]] auto [error] = co_await self->ws_.async_close(reason, kTuple);
        },
        net::detached);
  }

  void wake_writer() {
    if (writing_ || outbox_.empty() || closed_) return;
    writing_ = true;
    auto self = this->shared_from_this();
    net::co_spawn(
        ws_.get_executor(),
        [self]() -> net::awaitable<void> {
          self->ws_.text(true);
          while (!self->outbox_.empty() && !self->closed_ && !self->closing_) {
            const std::string text = std::move(self->outbox_.front());
            self->outbox_.pop_front();
            self->outbox_bytes_ -= text.size();
            auto [error, n] = co_await self->ws_.async_write(net::buffer(text), kTuple);
            if (error) break;
          }
          self->writing_ = false;
        },
        net::detached);
  }

  void send(std::string text) {
    if (closed_ || closing_) return;
    outbox_bytes_ += text.size();
    if (outbox_bytes_ > kMaxOutbox) {  // a peer that does not read
      close(websocket::close_code::policy_error);
      return;
    }
    outbox_.push_back(std::move(text));
    wake_writer();
  }

  net::awaitable<void> open_env(std::string text) {
    auto self = this->shared_from_this();
    if (const json parsed = json::parse(text, nullptr, false);
        parsed.is_object() && parsed.value("type", json()) == "close") {
      close(websocket::close_code::normal);
      co_return;
    }
    auto begin = [self, &text] {
      return self->state_->router.open_env_message(text, self->token_, self->episode_);
    };
    Reply reply = co_await on_pool(*state_, begin);
    std::optional<Reply> settled = co_await settle(*state_, std::move(reply), nullptr);
    if (settled) send(std::move(settled->body));
  }

  struct Answer {
    std::vector<std::string> texts;
    std::vector<std::string> watch;  // jobs
    std::string ref;
  };

  // On a pool thread.
  Answer answer(const std::string& text) {
    Answer result;
    json ref;
    auto refuse = [&](const ApiError& error) {
      result.texts.push_back(error_text(ref, error));
      return result;
    };
    auto parsed = parse_text(text);
    if (!parsed) return refuse(parsed.error());
    if (!parsed->is_object()) return refuse(api_error(422, "a message is a JSON object with `type`").value());
    auto ref_text = text_field(*parsed, "ref", 128);
    if (!ref_text) return refuse(ref_text.error());
    if (*ref_text) ref = **ref_text;
    result.ref = ref_text->value_or("");
    auto with_ref = [&](const char* type) {
      json message = {{"type", type}};
      if (!ref.is_null()) message["ref"] = ref;
      return message;
    };
    const json type = parsed->value("type", json());
    if (type == "ping") {
      result.texts.push_back(dump_json(with_ref("pong")));
    } else if (type == "submit") {
      const bool many = parsed->contains("jobs");
      const json body = many ? json{{"jobs", (*parsed)["jobs"]}} : parsed->value("job", json());
      auto list = parse_jobs(body, context_of(service(), token_));
      if (!list) return refuse(list.error());
      auto submitted = service().submit(list->specs, token_);
      if (!submitted) return refuse(submitted.error());
      std::string views;
      for (const auto& one : *submitted) {
        views += (views.empty() ? "" : ",") + service().view(one.job, false);
        result.watch.push_back(one.job.id);
      }
      std::string message = dump_json(with_ref("accepted"));
      message.back() = ',';
      result.texts.push_back(message + "\"jobs\":[" + views + "]}");
    } else if (type == "watch" || type == "cancel") {
      auto id = text_field(*parsed, "id", 64);
      if (!id) return refuse(id.error());
      if (!*id) return refuse(api_error(422, "`id` is missing", "id").value());
      auto job = type == "watch" ? service().get(**id, token_) : service().cancel(**id, token_);
      if (!job) return refuse(job.error());
      if (type == "watch") {
        result.watch.push_back(job->id);
      } else {
        std::string message = dump_json(with_ref("cancelled"));
        message.back() = ',';
        result.texts.push_back(message + "\"job\":" + service().view(*job, false) + "}");
      }
    } else {
      return refuse(api_error(422, "`type` is submit, watch, cancel or ping", "type").value());
    }
    return result;
  }

  net::awaitable<void> message(std::string text) {
    auto self = this->shared_from_this();
    auto work = [self, &text] { return self->answer(text); };
    Answer result = co_await on_pool(*state_, work);
    for (auto& one : result.texts) send(std::move(one));
    for (const auto& id : result.watch) {
      if (watches_.size() >= kMaxWatches) {
        send(error_text(result.ref, service().overloaded(429, "this connection watches 4096 jobs, its limit",
                                                         "websocket")));
        break;
      }
      const std::uint64_t number = ++next_watch_;
      auto watch = std::make_shared<Watch>();
      watch->job = id;
      watch->ref = result.ref;
      watches_[number] = watch;
      watch->subscription = service().subscribe({id}, [weak = std::weak_ptr(self), number](const Change&) {
        if (auto session = weak.lock())
          net::post(session->ws_.get_executor(), [session, number] { session->look(number); });
      });
      look(number);
    }
  }

  // Sends the watched job's present state; once at a time a job, so that states come in order.
  void look(std::uint64_t number) {
    auto it = watches_.find(number);
    if (it == watches_.end()) return;
    auto watch = it->second;
    if (watch->busy) {
      watch->again = true;
      return;
    }
    watch->busy = true;
    auto self = this->shared_from_this();
    net::co_spawn(
        ws_.get_executor(),
        [self, watch, number]() -> net::awaitable<void> {
          do {
            watch->again = false;
            auto fetch = [self, watch]() -> std::pair<std::string, bool> {
              auto job = self->service().get(watch->job, self->token_);
              if (!job || job->revision == watch->sent) return {"", false};
              watch->sent = job->revision;
              const bool ended = has_ended(job->state);
              json head = {{"type", ended ? "result" : "progress"}};
              if (!watch->ref.empty()) head["ref"] = watch->ref;
              std::string text = dump_json(head);
              text.back() = ',';
              return {text + "\"job\":" + self->service().view(*job, ended) + "}", ended};
            };
            auto [text, ended] = co_await on_pool(*self->state_, fetch);
            if (!text.empty()) self->send(std::move(text));
            if (ended) {
              self->watches_.erase(number);
              co_return;
            }
          } while (watch->again);
          watch->busy = false;
        },
        net::detached);
  }

  std::shared_ptr<ServerState> state_;
  websocket::stream<Stream> ws_;
  const Token token_;
  const std::string id_;
  const bool open_env_;
  std::string episode_;
  std::deque<std::string> outbox_;
  std::size_t outbox_bytes_ = 0;
  bool writing_ = false, closing_ = false, closed_ = false;
  int in_flight_ = 0;
  std::uint64_t next_watch_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<Watch>> watches_;
  ServerState::Hook hook_;
};

template <typename Stream>
class HttpSession : public std::enable_shared_from_this<HttpSession<Stream>> {
 public:
  HttpSession(std::shared_ptr<ServerState> state, Stream stream, std::string peer)
      : state_(std::move(state)),
        stream_(std::move(stream)),
        executor_(stream_.get_executor()),
        peer_(std::move(peer)),
        dog_(socket()) {}

  net::awaitable<void> run() {
    Counted counted(state_->connections);
    hook_ = std::make_shared<std::function<void()>>([weak = this->weak_from_this()] {
      if (auto session = weak.lock()) net::post(session->executor_, [session] { session->end_idle(); });
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
  net::awaitable<bool> one_request() {
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
    if (!parsed) co_return co_await send_last(error_reply(parsed.error(), id), id, header.version());
    request = std::move(*parsed);
    fill(request, header, id);
    if (header.count(http::field::content_length) + header.count(http::field::transfer_encoding) > 1)
      co_return co_await send_last(
          error_reply(api_error(400, "more than one Content-Length or Transfer-Encoding").value(), id), id,
          header.version());
    if (header.count(http::field::host) > 1 || header.count(http::field::authorization) > 1)
      co_return co_await send_last(
          error_reply(api_error(400, "more than one Host or Authorization").value(), id), id,
          header.version());
    if (auto early = state_->router.refuse_early(request)) {
      state_->router.service().metrics().count_request(state_->router.pattern_of(request), early->status, 0);
      // With an unread body the connection cannot go on.
      if (!parser.is_done()) co_return co_await send_last(std::move(*early), id, header.version());
      co_return co_await send(std::move(*early), id, header.version(), parser.keep_alive());
    }
    if (websocket::is_upgrade(header) && (request.path == "/v1/ws" || request.path == "/ws")) {
      co_await upgrade(request, parser.release());
      co_return false;
    }
    if (beast::iequals(header[http::field::expect], "100-continue")) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      dog_.arm(state_->config.write_s);
      auto [error, n] =
          co_await net::async_write(stream_, net::buffer(kContinue.data(), kContinue.size()), kTuple);
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
    auto work = [this, &request] { return state_->router.handle(request); };
    Reply first = co_await on_pool(*state_, work);
    std::optional<Reply> reply = co_await settle(*state_, std::move(first), &socket());
    if (!reply) co_return false;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    state_->router.service().metrics().count_request(state_->router.pattern_of(request), reply->status,
                                                     seconds);
    state_->router.service().metrics().set_connections(state_->connections, state_->websockets);
    log_event(reply->status >= 500 ? base::LogLevel::kWarning : base::LogLevel::kDebug, "request",
              {{"request", id},
               {"peer", peer_},
               {"method", request.method},
               {"path", request.path},
               {"status", std::int64_t{reply->status}},
               {"seconds", seconds}});
    if (!reply->stream_job.empty()) {
      co_await stream_events(request, reply->stream_job);
      co_return false;
    }
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
    request.upgrade = websocket::is_upgrade(header);
  }

  net::awaitable<bool> refuse_reading(boost::system::error_code error, const char* what) {
    const std::string id = state_->next_request_id();
    if (error == http::error::end_of_stream || error == net::error::eof ||
        error == net::error::connection_reset || error == net::ssl::error::stream_truncated)
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
    else if (error == net::error::operation_aborted)
      co_return false;
    else
      refusal = api_error(400, "this is not HTTP/1.1: " + error.message()).value();
    state_->router.service().metrics().count_refusal(refusal.status == 408   ? "slow"
                                                     : refusal.status == 400 ? "malformed"
                                                                             : "too_large");
    log_event(base::LogLevel::kInfo, "refused",
              {{"request", id},
               {"peer", peer_},
               {"reason", refusal.message},
               {"status", std::int64_t{refusal.status}}});
    co_return co_await send_last(error_reply(refusal, id), id, 11);
  }

  // Sends and closes; what the peer still sends is read for a moment, so that a reset does not overtake the
  // reply.
  net::awaitable<bool> send_last(Reply reply, std::string id, unsigned version) {
    const bool sent = co_await send(std::move(reply), std::move(id), version, false);
    (void)sent;
    boost::system::error_code ignored;
    socket().shutdown(Tcp::socket::shutdown_send, ignored);
    dog_.arm(1);
    std::size_t taken = 0;
    for (std::array<char, 16384> sink; taken < (64u << 20);) {
      auto [error, n] = co_await socket().async_read_some(net::buffer(sink), kTuple);
      if (error) break;
      taken += n;
    }
    dog_.disarm();
    co_return false;
  }

  net::awaitable<bool> send(Reply reply, std::string id, unsigned version, bool keep_alive) {
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

  net::awaitable<void> stream_events(const Request& request, std::string job_id) {
    Service& service = state_->router.service();
    const std::string head = fmt::format(
        "HTTP/1.1 200 OK\r\nServer: musacoder\r\nContent-Type: text/event-stream\r\nCache-Control: "
        "no-store\r\nX-Request-Id: {}\r\n"
        "Connection: close\r\n\r\n",
        request.id);
    if (!co_await write_raw(head)) co_return;
    auto signal = std::make_shared<Signal>(co_await net::this_coro::executor);
    auto stop = std::make_shared<std::function<void()>>([signal] { signal->raise(); });
    state_->add_hook(stop);
    Subscription subscription = service.subscribe({job_id}, [signal](const Change&) { signal->raise(); });
    std::uint64_t sent = 0;
    auto quiet_since = std::chrono::steady_clock::now();
    while (!state_->stopping) {
      auto fetch = [&service, &job_id, &sent]() -> std::pair<std::string, bool> {
        auto job = service.queue().get(job_id);
        if (!job || !*job) return {"", true};
        if ((*job)->revision == sent) return {"", false};
        sent = (*job)->revision;
        const bool ended = has_ended((*job)->state);
        return {fmt::format("event: {}\nid: {}\ndata: {}\n\n", state_name((*job)->state), sent,
                            service.view(**job, ended)),
                ended};
      };
      auto [text, ended] = co_await on_pool(*state_, fetch);
      if (text.empty() && std::chrono::steady_clock::now() - quiet_since > std::chrono::seconds(15))
        text = ": keep-alive\n\n";
      if (!text.empty()) {
        if (!co_await write_raw(text)) co_return;
        quiet_since = std::chrono::steady_clock::now();
      }
      if (ended || peer_is_gone(socket())) co_return;
      co_await signal->wait(2);
    }
  }

  net::awaitable<bool> write_raw(const std::string& text) {
    dog_.arm(state_->config.write_s);
    auto [error, n] = co_await net::async_write(stream_, net::buffer(text), kTuple);
    dog_.disarm();
    co_return !error;
  }

  net::awaitable<void> upgrade(const Request& request, http::request<http::string_body> header) {
    std::string bearer;
    if (request.authorization.size() > 7) bearer = request.authorization.substr(7);
    if (bearer.empty()) bearer = request.query("access_token");
    auto token = state_->router.service().authenticate(bearer);
    if (!token) co_return;
    moved_ = true;
    auto session = std::make_shared<WebSocketSession<Stream>>(state_, std::move(stream_), std::move(*token),
                                                              request.id, request.path == "/ws");
    co_await session->run(std::move(header));
  }

  std::shared_ptr<ServerState> state_;
  Stream stream_;
  net::any_io_executor executor_;  // the strand; outlives the stream's move to a WebSocket
  const std::string peer_;
  Watchdog dog_;
  beast::flat_buffer buffer_;
  bool idle_ = false, moved_ = false;
  ServerState::Hook hook_;
};

}  // namespace musacoder::service
