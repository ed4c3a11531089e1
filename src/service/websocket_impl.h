// The service's WebSockets (docs/service.md), as a template over their stream. Included by two .cpp files
// only.
#pragma once

#include <boost/beast/core.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <deque>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/event_log.h"
#include "net/session.h"
#include "service/server.h"

namespace musacoder::service {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using base::log_event;
using net::Counted;
using net::kTuple;
using net::on_pool;
using net::ServerState;
using nlohmann::json;

template <typename Stream>
class WebSocketSession : public std::enable_shared_from_this<WebSocketSession<Stream>> {
 public:
  WebSocketSession(std::shared_ptr<ServerState> state, Router& router, Stream stream, Token token,
                   std::string id, bool open_env)
      : state_(std::move(state)),
        router_(router),
        ws_(std::move(stream)),
        token_(std::move(token)),
        id_(std::move(id)),
        open_env_(open_env) {}

  asio::awaitable<void> run(http::request<http::string_body> request) {
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
        asio::post(session->ws_.get_executor(),
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
      auto work = [self, t = std::move(text)]() mutable -> asio::awaitable<void> {
        if (self->open_env_)
          co_await self->open_env(std::move(t));
        else
          co_await self->message(std::move(t));
        --self->in_flight_;
      };
      asio::co_spawn(ws_.get_executor(), std::move(work), asio::detached);
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

  Service& service() { return router_.service(); }

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
    asio::co_spawn(
        ws_.get_executor(),
        [self, code]() -> asio::awaitable<void> {
          websocket::close_reason reason(code);
          [[maybe_unused]] auto [error] = co_await self->ws_.async_close(reason, kTuple);
        },
        asio::detached);
  }

  void wake_writer() {
    if (writing_ || outbox_.empty() || closed_) return;
    writing_ = true;
    auto self = this->shared_from_this();
    asio::co_spawn(
        ws_.get_executor(),
        [self]() -> asio::awaitable<void> {
          self->ws_.text(true);
          while (!self->outbox_.empty() && !self->closed_ && !self->closing_) {
            const std::string text = std::move(self->outbox_.front());
            self->outbox_.pop_front();
            self->outbox_bytes_ -= text.size();
            auto [error, n] = co_await self->ws_.async_write(asio::buffer(text), kTuple);
            if (error) break;
          }
          self->writing_ = false;
        },
        asio::detached);
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

  asio::awaitable<void> open_env(std::string text) {
    auto self = this->shared_from_this();
    if (const json parsed = json::parse(text, nullptr, false);
        parsed.is_object() && parsed.value("type", json()) == "close") {
      close(websocket::close_code::normal);
      co_return;
    }
    auto begin = [self, &text] { return self->router_.open_env_message(text, self->token_, self->episode_); };
    Reply reply = co_await on_pool(*state_, begin);
    std::optional<net::Reply> settled =
        co_await net::settle(*state_, to_net(router_.service(), std::move(reply)), nullptr);
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

  asio::awaitable<void> message(std::string text) {
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
          asio::post(session->ws_.get_executor(), [session, number] { session->look(number); });
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
    asio::co_spawn(
        ws_.get_executor(),
        [self, watch, number]() -> asio::awaitable<void> {
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
        asio::detached);
  }

  std::shared_ptr<ServerState> state_;
  Router& router_;
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

// The coroutine of a connection that was taken over; nothing when its token is not known.
template <typename Stream>
asio::awaitable<void> run_websocket(std::shared_ptr<ServerState> state, Router& router, Stream stream,
                                    const Request& request, http::request<http::string_body> head) {
  auto token = router.service().authenticate(net::bearer_of(request));
  if (!token) co_return;
  auto session = std::make_shared<WebSocketSession<Stream>>(
      std::move(state), router, std::move(stream), std::move(*token), request.id, request.path == "/ws");
  co_await session->run(std::move(head));
}

// Compiled apart: Beast over TLS takes its time.
asio::awaitable<void> run_tls_websocket(std::shared_ptr<ServerState> state, Router& router,
                                        net::TlsStream stream, const Request& request,
                                        http::request<http::string_body> head);

}  // namespace musacoder::service
