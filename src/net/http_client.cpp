#include "net/http_client.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <mutex>
#include <nlohmann/json.hpp>
#include <variant>

#include "base/json_lines.h"
#include "base/terminal.h"

namespace musacoder::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kPieceBytes = 16u << 10;
using EventSink = std::function<bool(std::string_view)>;
using Fields = http::response<http::buffer_body>;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return out;
}

bool is_header_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
}

std::chrono::steady_clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

// One kept connection; one thread at a time.
class Connection {
 public:
  Connection(const ClientConfig& config, const Url& url, asio::ssl::context* tls)
      : config_(config), url_(url), tls_(tls) {}

  Result<ClientReply> send(const ClientRequest& request, const EventSink* event) {
    // A kept connection may have been closed meanwhile: then once more on a new one.
    const bool kept = open();
    began_ = false;
    auto reply = exchange(request, event);
    if (!reply && kept && !began_ && reply.error().code == Code::kUnavailable)
      reply = exchange(request, event);
    return reply;
  }

 private:
  using Plain = beast::tcp_stream;
  using Tls = beast::ssl_stream<beast::tcp_stream>;

  bool open() const { return !std::holds_alternative<std::monostate>(stream_); }
  void close() {
    stream_ = std::monostate{};
    buffer_.consume(buffer_.size());
  }

  Result<ClientReply> exchange(const ClientRequest& request, const EventSink* event) {
    Result<ClientReply> result = fail(Code::kUnavailable, "no reply");
    io_.restart();
    asio::co_spawn(
        io_, [&]() -> asio::awaitable<void> { result = co_await talk(request, event); }, asio::detached);
    if (!request.cancelled) {
      io_.run();
    } else {
      bool cancelled = false;
      while (!io_.stopped()) {
        io_.run_for(std::chrono::milliseconds(100));
        if (cancelled || io_.stopped() || !request.cancelled()) continue;
        cancelled = true;
        // Whatever waits ends now; a name that is being resolved is waited for.
        if (Tls* tls = std::get_if<Tls>(&stream_)) beast::get_lowest_layer(*tls).cancel();
        if (Plain* plain = std::get_if<Plain>(&stream_)) plain->cancel();
      }
      if (cancelled && !result) result = fail(Code::kDeadlineExceeded, "cancelled");
    }
    if (!result) close();
    return result;
  }

  tl::unexpected<Error> broken(const char* doing, const boost::system::error_code& error) const {
    if (error == http::error::body_limit)
      return fail(Code::kResourceExhausted, "the reply of {}:{} is larger than {}", url_.host, url_.port,
                  base::human_bytes(config_.max_reply_bytes));
    return fail(error == beast::error::timeout ? Code::kDeadlineExceeded : Code::kUnavailable, "{} {}:{}: {}",
                doing, url_.host, url_.port, error.message());
  }

  asio::awaitable<Status> connect() {
    asio::ip::tcp::resolver resolver(io_);
    auto [unresolved, addresses] = co_await resolver.async_resolve(url_.host, url_.port, kTuple);
    if (unresolved) co_return broken("cannot resolve", unresolved);
    Plain plain(io_);
    plain.expires_after(duration_of(config_.connect_s));
    auto [unreached, where] = co_await plain.async_connect(addresses, kTuple);
    if (unreached) co_return broken("cannot connect to", unreached);
    boost::system::error_code ignored;
    plain.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    if (!tls_) {
      stream_.emplace<Plain>(std::move(plain));
      co_return ok();
    }
    Tls tls(std::move(plain), *tls_);
    SSL_set_tlsext_host_name(tls.native_handle(), url_.host.c_str());
    tls.set_verify_callback(asio::ssl::host_name_verification(url_.host));
    auto [refused] = co_await tls.async_handshake(asio::ssl::stream_base::client, kTuple);
    if (refused) co_return broken("TLS failed with", refused);
    stream_.emplace<Tls>(std::move(tls));
    co_return ok();
  }

  asio::awaitable<Result<ClientReply>> talk(const ClientRequest& request, const EventSink* event) {
    if (!open())
      if (auto status = co_await connect(); !status) co_return tl::unexpected(status.error());
    if (Tls* tls = std::get_if<Tls>(&stream_)) co_return co_await converse(*tls, request, event);
    co_return co_await converse(std::get<Plain>(stream_), request, event);
  }

  http::request<http::string_body> message_of(const ClientRequest& request) const {
    http::request<http::string_body> message(http::string_to_verb(request.method), url_.path + request.path,
                                             11);
    const bool v6 = url_.host.find(':') != std::string::npos;
    message.set(http::field::host, (v6 ? "[" + url_.host + "]" : url_.host) + ":" + url_.port);
    message.set(http::field::user_agent, config_.user_agent);
    message.set(http::field::content_type, request.type);
    if (!config_.token.empty()) message.set(http::field::authorization, "Bearer " + config_.token);
    for (const auto& [name, value] : request.headers) message.set(name, value);
    message.body() = request.body;
    message.prepare_payload();
    return message;
  }

  template <typename Stream>
  asio::awaitable<Result<ClientReply>> converse(Stream& stream, const ClientRequest& request,
                                                const EventSink* event) {
    const auto message = message_of(request);
    const auto limit = duration_of(request.timeout_s > 0 ? request.timeout_s : config_.timeout_s);
    auto& lowest = beast::get_lowest_layer(stream);
    lowest.expires_after(limit);
    auto [unsent, sent] = co_await http::async_write(stream, message, kTuple);
    if (unsent) co_return broken("lost the connection to", unsent);

    http::response_parser<http::buffer_body> parser;
    parser.body_limit(event ? boost::optional<std::uint64_t>() : config_.max_reply_bytes);
    auto [headless, head] = co_await http::async_read_header(stream, buffer_, parser, kTuple);
    if (headless) co_return broken("lost the connection to", headless);
    began_ = true;
    ClientReply reply;
    reply.status = static_cast<int>(parser.get().result_int());
    for (const auto& field : parser.get())
      reply.headers.emplace_back(lower(field.name_string()), std::string(field.value()));
    const bool events = event && reply.status == 200 &&
                        lower(reply.header("content-type")).rfind("text/event-stream", 0) == 0;
    EventParser event_parser;
    std::string piece(kPieceBytes, '\0');
    while (!parser.is_done()) {
      if (events) lowest.expires_after(limit);
      parser.get().body() = {piece.data(), piece.size(), true};
      auto [failed, n] = co_await http::async_read_some(stream, buffer_, parser, kTuple);
      if (failed && failed != http::error::need_buffer) co_return broken("lost the connection to", failed);
      const std::string_view got(piece.data(), piece.size() - parser.get().body().size);
      if (events) {
        if (event_parser.feed(got, *event)) continue;
        close();
        co_return reply;
      }
      if (reply.body.size() + got.size() > config_.max_reply_bytes)
        co_return broken("", http::error::body_limit);
      reply.body += got;
    }
    if (!parser.keep_alive()) close();
    co_return reply;
  }

  const ClientConfig& config_;
  const Url& url_;
  asio::ssl::context* tls_;
  asio::io_context io_{1};
  std::variant<std::monostate, Plain, Tls> stream_;
  beast::flat_buffer buffer_;
  bool began_ = false;  // the reply's header was read: not asked again
};

}  // namespace

struct HttpClient::Impl {
  ClientConfig config;
  Url url;
  std::unique_ptr<asio::ssl::context> tls;
  std::mutex mutex;
  std::vector<std::unique_ptr<Connection>> idle;

  Result<ClientReply> send(const ClientRequest& request, const EventSink* event) {
    if (http::string_to_verb(request.method) == http::verb::unknown)
      return fail(Code::kInvalidArgument, "'{}' is no HTTP method", request.method);
    if (!is_header_text(request.path) || request.path.find(' ') != std::string::npos)
      return fail(Code::kInvalidArgument, "'{}' is no path of a request",
                  base::printable(request.path, false));
    for (const auto& [name, value] : request.headers)
      if (name.empty() || !is_header_text(name) || !is_header_text(value))
        return fail(Code::kInvalidArgument, "the header '{}' holds a control character",
                    base::printable(name, false));
    std::unique_ptr<Connection> connection;
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        connection = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!connection) connection = std::make_unique<Connection>(config, url, tls.get());
    auto reply = connection->send(request, event);
    std::lock_guard lock(mutex);
    idle.push_back(std::move(connection));
    return reply;
  }
};

HttpClient::HttpClient() : impl_(std::make_unique<Impl>()) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::make(const ClientConfig& config) {
  std::unique_ptr<HttpClient> client(new HttpClient());
  Impl& impl = *client->impl_;
  impl.config = config;
  MC_ASSIGN_OR_RETURN(impl.url, parse_url(config.url));
  if (!is_header_text(config.token) || config.token.find(' ') != std::string::npos)
    return fail(Code::kInvalidArgument,
                "the token holds a blank or a character that is not ASCII; look for a line break at its end");
  if (!impl.url.tls) return client;
  impl.tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  boost::system::error_code error;
  impl.tls->set_verify_mode(asio::ssl::verify_peer);
  if (config.ca_file.empty())
    impl.tls->set_default_verify_paths(error);
  else
    impl.tls->load_verify_file(config.ca_file, error);
  if (error)
    return fail(Code::kInvalidArgument, "cannot use the certificates of {}: {}", config.ca_file,
                error.message());
  return client;
}

Result<ClientReply> HttpClient::send(const ClientRequest& request) { return impl_->send(request, nullptr); }

Result<ClientReply> HttpClient::stream(const ClientRequest& request, const EventSink& event) {
  return impl_->send(request, &event);
}

std::string ClientReply::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return "";
}

bool EventParser::feed(std::string_view piece, const EventSink& event) {
  for (const char c : piece) {
    const bool second_of_pair = after_cr_ && c == '\n';
    after_cr_ = c == '\r';
    if (second_of_pair) continue;
    if (c != '\n' && c != '\r') {
      line_ += c;
      continue;
    }
    const std::string line = std::exchange(line_, "");
    if (line.empty()) {
      const std::string data = std::exchange(data_, "");
      if (std::exchange(has_data_, false) && !event(data)) return false;
    } else if (line.rfind("data", 0) == 0 && (line.size() == 4 || line[4] == ':')) {
      if (has_data_) data_ += '\n';
      has_data_ = true;
      const std::size_t start = line.size() > 5 && line[5] == ' ' ? 6 : 5;
      if (line.size() > start) data_ += line.substr(start);
    }
  }
  return true;
}

std::string reply_message(const ClientReply& reply) {
  if (auto parsed = base::parse_json(reply.body);
      parsed && parsed->is_object() && parsed->contains("error")) {
    const auto& error = (*parsed)["error"];
    if (error.is_string()) return base::printable(error.get<std::string>(), false);
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      return base::printable(error["message"].get<std::string>(), false);
  }
  return base::printable(base::ellipsize(reply.body.substr(0, 1000), 200), false);
}

Result<Url> parse_url(const std::string& text) {
  const auto wrong = [&]() {
    return fail(Code::kInvalidArgument,
                "'{}' is no address of a service; give http://HOST:PORT or https://HOST:PORT",
                base::printable(text, false));
  };
  Url url;
  std::string rest;
  if (text.rfind("http://", 0) == 0)
    rest = text.substr(7);
  else if (text.rfind("https://", 0) == 0)
    rest = text.substr(8), url.tls = true;
  else
    return wrong();
  if (const auto slash = rest.find('/'); slash != std::string::npos) {
    url.path = rest.substr(slash);
    rest.resize(slash);
    while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();
  }
  const bool v6 = !rest.empty() && rest[0] == '[';
  const auto bracket = rest.find(']');
  const auto colon = rest.find(':', v6 && bracket != std::string::npos ? bracket : 0);
  url.host = rest.substr(0, colon);
  url.port = colon == std::string::npos ? (url.tls ? "443" : "80") : rest.substr(colon + 1);
  if (v6 && bracket != std::string::npos) url.host = rest.substr(1, bracket - 1);
  if (url.host.empty() || (rest + url.path).find_first_of("@?# \\") != std::string::npos ||
      !is_header_text(rest + url.path) || url.port.empty() || url.port.size() > 5 ||
      url.port.find_first_not_of("0123456789") != std::string::npos)
    return wrong();
  return url;
}

}  // namespace musacoder::net
