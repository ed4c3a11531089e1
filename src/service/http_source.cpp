#include "service/http_source.h"

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
#include <vector>

#include "base/json_lines.h"
#include "service/requests.h"

namespace musacoder::service {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using nlohmann::json;

constexpr auto kTuple = net::as_tuple(net::use_awaitable);
constexpr std::size_t kMaxReplyBytes = build::kMaxBundleBytes;
constexpr const char* kJson = "application/json";
constexpr const char* kBytes = "application/octet-stream";

struct HttpReply {
  int status = 0;
  std::string body;
};

struct Ask {
  http::verb verb = http::verb::post;
  std::string path, body;
  const char* type = kJson;
};

// One kept connection; one thread at a time.
class Connection {
 public:
  Connection(const Url& url, net::ssl::context* tls) : url_(url), tls_(tls) {}

  Result<HttpReply> send(const Ask& ask, const std::string& token, double timeout_s) {
    // A kept connection may have been closed meanwhile: then once more on a new one.
    const bool kept = open();
    auto reply = exchange(ask, token, timeout_s);
    if (!reply && kept && reply.error().code == Code::kUnavailable) reply = exchange(ask, token, timeout_s);
    return reply;
  }

 private:
  using Plain = beast::tcp_stream;
  using Tls = beast::ssl_stream<beast::tcp_stream>;

  bool open() const { return !std::holds_alternative<std::monostate>(stream_); }

  Result<HttpReply> exchange(const Ask& ask, const std::string& token, double timeout_s) {
    Result<HttpReply> result = fail(Code::kUnavailable, "no reply");
    io_.restart();
    net::co_spawn(
        io_, [&]() -> net::awaitable<void> { result = co_await talk(ask, token, timeout_s); }, net::detached);
    io_.run();
    if (!result) {
      stream_ = std::monostate{};
      buffer_.consume(buffer_.size());
    }
    return result;
  }

  net::awaitable<Result<HttpReply>> talk(Ask ask, std::string token, double timeout_s) {
    const auto limit = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(timeout_s));
    auto broken = [&](const char* doing, const boost::system::error_code& error) -> Result<HttpReply> {
      return fail(error == beast::error::timeout ? Code::kDeadlineExceeded : Code::kUnavailable,
                  "{} {}:{}: {}", doing, url_.host, url_.port, error.message());
    };
    if (!open()) {
      net::ip::tcp::resolver resolver(io_);
      auto [unresolved, addresses] = co_await resolver.async_resolve(url_.host, url_.port, kTuple);
      if (unresolved) co_return broken("cannot resolve", unresolved);
      Plain plain(io_);
      plain.expires_after(std::chrono::seconds(10));
      auto [unreached, where] = co_await plain.async_connect(addresses, kTuple);
      if (unreached) co_return broken("cannot connect to", unreached);
      boost::system::error_code ignored;
      plain.socket().set_option(net::ip::tcp::no_delay(true), ignored);
      if (tls_) {
        Tls tls(std::move(plain), *tls_);
        SSL_set_tlsext_host_name(tls.native_handle(), url_.host.c_str());
        tls.set_verify_callback(net::ssl::host_name_verification(url_.host));
        auto [refused] = co_await tls.async_handshake(net::ssl::stream_base::client, kTuple);
        if (refused) co_return broken("TLS failed with", refused);
        stream_.emplace<Tls>(std::move(tls));
      } else {
        stream_.emplace<Plain>(std::move(plain));
      }
    }
    http::request<http::string_body> request(ask.verb, ask.path, 11);
    request.set(
        http::field::host,
        (url_.host.find(':') == std::string::npos ? url_.host : "[" + url_.host + "]") + ":" + url_.port);
    request.set(http::field::user_agent, "musacoder-worker");
    request.set(http::field::content_type, ask.type);
    if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
    request.body() = std::move(ask.body);
    request.prepare_payload();
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMaxReplyBytes);
    boost::system::error_code failed;
    if (Tls* tls = std::get_if<Tls>(&stream_)) {
      beast::get_lowest_layer(*tls).expires_after(limit);
      auto [w, wn] = co_await http::async_write(*tls, request, kTuple);
      failed = w;
      if (!failed) {
        auto [r, rn] = co_await http::async_read(*tls, buffer_, parser, kTuple);
        failed = r;
      }
    } else {
      Plain& plain = std::get<Plain>(stream_);
      plain.expires_after(limit);
      auto [w, wn] = co_await http::async_write(plain, request, kTuple);
      failed = w;
      if (!failed) {
        auto [r, rn] = co_await http::async_read(plain, buffer_, parser, kTuple);
        failed = r;
      }
    }
    if (failed) co_return broken("lost the connection to", failed);
    HttpReply reply{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
    if (!parser.keep_alive()) stream_ = std::monostate{};
    co_return reply;
  }

  const Url url_;
  net::ssl::context* tls_;
  net::io_context io_{1};
  std::variant<std::monostate, Plain, Tls> stream_;
  beast::flat_buffer buffer_;
};

// Connections to one service; any thread.
class HttpClient {
 public:
  HttpClient(const HttpSourceConfig& config, const Url& url) : config_(config), url_(url) {}

  Status prepare() {
    if (!url_.tls) return ok();
    tls_ = std::make_unique<net::ssl::context>(net::ssl::context::tls_client);
    boost::system::error_code error;
    tls_->set_verify_mode(net::ssl::verify_peer);
    if (config_.ca_file.empty())
      tls_->set_default_verify_paths(error);
    else
      tls_->load_verify_file(config_.ca_file, error);
    if (error)
      return fail(Code::kInvalidArgument, "cannot use the certificates of {}: {}", config_.ca_file,
                  error.message());
    return ok();
  }

  Result<HttpReply> send(const Ask& ask, double extra_s = 0) {
    std::unique_ptr<Connection> connection;
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        connection = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!connection) connection = std::make_unique<Connection>(url_, tls_.get());
    auto reply = connection->send(ask, config_.token, config_.timeout_s + extra_s);
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
    return reply;
  }

  // What a reply that is not the one hoped for means.
  static Error refused(const std::string& path, const HttpReply& reply) {
    std::string message = fmt::format("{} answered {}", path, reply.status);
    if (auto parsed = base::parse_json(reply.body);
        parsed && parsed->is_object() && parsed->contains("error") && (*parsed)["error"].is_object())
      message += ": " + (*parsed)["error"].value("message", std::string());
    const Code code = reply.status == 409 ? Code::kNotFound
                      : reply.status == 429 || reply.status >= 500 || reply.status == 408
                          ? Code::kUnavailable
                          : Code::kInvalidArgument;
    return {code, message};
  }

 private:
  const HttpSourceConfig config_;
  const Url url_;
  std::unique_ptr<net::ssl::context> tls_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

class HttpSource : public WorkSource {
 public:
  HttpSource(const HttpSourceConfig& config, const Url& url) : client_(config, url) {}
  Status prepare() { return client_.prepare(); }

  Result<std::optional<Lease>> lease(const LeaseRequest& request, double wait_s) override {
    auto reply = call("/v1/lease",
                      {{"worker", request.worker},
                       {"wait_s", wait_s},
                       {"visibility_s", request.visibility_s},
                       {"prefer", request.prefer},
                       {"role", role_name(request.role)}},
                      wait_s);
    if (!reply) return tl::unexpected(reply.error());
    if (reply->is_null()) return std::optional<Lease>();
    try {
      const json& given = reply->at("lease");
      Lease lease;
      lease.id = given.at("id").get<std::string>();
      const json& job = given.at("job");
      if (job.value("version", 1) > kRecordVersion)
        return fail(Code::kUnsupported, "the server's jobs are of a newer version ({}): update this worker",
                    job.value("version", 1));
      lease.job.id = job.at("id").get<std::string>();
      lease.job.lease = lease.id;
      lease.job.lease_until = given.value("until", 0.0);
      lease.job.attempts = given.value("attempt", 1);
      lease.job.state = JobState::kRunning;
      lease.job.started_at = job.value("started_at", 0.0);
      MC_ASSIGN_OR_RETURN(lease.job.spec, spec_from_text(job.at("spec").get<std::string>()));
      return std::optional<Lease>(std::move(lease));
    } catch (const json::exception& error) {
      return fail(Code::kInvalidArgument, "the server's reply is no lease: {}", error.what());
    }
  }

  Result<HeartbeatReply> heartbeat(const std::string& lease, const std::string& stage,
                                   double visibility_s) override {
    auto reply = call("/v1/heartbeat",
                      {{"lease", lease}, {"stage", stage.substr(0, 128)}, {"visibility_s", visibility_s}}, 0);
    if (!reply) return tl::unexpected(reply.error());
    return HeartbeatReply{reply->value("cancel", false), reply->value("until", 0.0)};
  }

  Result<bool> complete(const std::string& lease, const Outcome& outcome) override {
    json given = {{"status", outcome.status}, {"feedback", outcome.feedback}, {"code", outcome.code}};
    if (!outcome.verdict.empty()) {
      MC_ASSIGN_OR_RETURN(given["verdict"], base::parse_json(outcome.verdict));
    }
    auto reply = call("/v1/complete", {{"lease", lease}, {"outcome", given}}, 0);
    if (!reply) return tl::unexpected(reply.error());
    return reply->value("accepted", false);
  }

  Result<bool> release(const std::string& lease, const std::string& fault) override {
    auto reply = call("/v1/release", {{"lease", lease}, {"fault", fault.substr(0, 4096)}}, 0);
    if (!reply) return tl::unexpected(reply.error());
    return reply->value("accepted", false);
  }

  Result<bool> compiled(const std::string& lease) override {
    auto reply = call("/v1/release", {{"lease", lease}, {"compiled", true}}, 0);
    if (!reply) return tl::unexpected(reply.error());
    return reply->value("accepted", false);
  }

 private:
  // The reply's JSON; null for 204.
  Result<json> call(const std::string& path, const json& body, double extra_s) {
    auto reply = client_.send({.path = path, .body = dump_json(body)}, extra_s);
    if (!reply) return tl::unexpected(reply.error());
    if (reply->status == 204) return json();
    auto parsed = base::parse_json(reply->body);
    if (reply->status == 200 && parsed && parsed->is_object()) return std::move(*parsed);
    return tl::unexpected(HttpClient::refused(path, *reply));
  }

  HttpClient client_;
};

class HttpArtifacts : public build::ArtifactStore {
 public:
  HttpArtifacts(const HttpSourceConfig& config, const Url& url) : client_(config, url) {}
  Status prepare() { return client_.prepare(); }

  Result<bool> has(const std::string& key) override {
    MC_ASSIGN_OR_RETURN(const HttpReply reply,
                        client_.send({.verb = http::verb::get, .path = path(key) + "?check=1"}));
    if (reply.status == 204) return true;
    if (reply.status == 404) return false;
    return tl::unexpected(HttpClient::refused(path(key), reply));
  }
  Result<std::optional<std::string>> get(const std::string& key) override {
    MC_ASSIGN_OR_RETURN(HttpReply reply, client_.send({.verb = http::verb::get, .path = path(key)}));
    if (reply.status == 404) return std::optional<std::string>();
    if (reply.status != 200) return tl::unexpected(HttpClient::refused(path(key), reply));
    MC_RETURN_IF_ERROR(build::check_bundle(key, reply.body));
    return std::optional<std::string>(std::move(reply.body));
  }
  Status put(const std::string& key, const std::string& bundle) override {
    MC_RETURN_IF_ERROR(build::check_bundle(key, bundle));
    MC_ASSIGN_OR_RETURN(
        const HttpReply reply,
        client_.send({.verb = http::verb::put, .path = path(key), .body = bundle, .type = kBytes}));
    if (reply.status != 200) return tl::unexpected(HttpClient::refused(path(key), reply));
    return ok();
  }

 private:
  static std::string path(const std::string& key) { return "/v1/artifacts/" + key; }
  HttpClient client_;
};

}  // namespace

Result<Url> parse_url(const std::string& text) {
  Url url;
  std::string rest;
  if (text.rfind("http://", 0) == 0)
    rest = text.substr(7);
  else if (text.rfind("https://", 0) == 0)
    rest = text.substr(8), url.tls = true;
  else
    return fail(Code::kInvalidArgument,
                "'{}' is no address of a service; give http://HOST:PORT or https://HOST:PORT", text);
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  const bool v6 = !rest.empty() && rest[0] == '[';
  const auto bracket = rest.find(']');
  const auto colon = rest.find(':', v6 && bracket != std::string::npos ? bracket : 0);
  url.host = rest.substr(0, colon);
  url.port = colon == std::string::npos ? (url.tls ? "443" : "80") : rest.substr(colon + 1);
  if (v6 && bracket != std::string::npos) url.host = rest.substr(1, bracket - 1);
  if (url.host.empty() || rest.find_first_of("/@?# ") != std::string::npos || url.port.empty() ||
      url.port.size() > 5 || url.port.find_first_not_of("0123456789") != std::string::npos)
    return fail(Code::kInvalidArgument,
                "'{}' is no address of a service; give http://HOST:PORT or https://HOST:PORT", text);
  return url;
}

Result<std::unique_ptr<WorkSource>> make_http_source(const HttpSourceConfig& config) {
  MC_ASSIGN_OR_RETURN(const Url url, parse_url(config.url));
  auto source = std::make_unique<HttpSource>(config, url);
  MC_RETURN_IF_ERROR(source->prepare());
  return std::unique_ptr<WorkSource>(std::move(source));
}

Result<std::unique_ptr<build::ArtifactStore>> make_http_artifact_store(const HttpSourceConfig& config) {
  MC_ASSIGN_OR_RETURN(const Url url, parse_url(config.url));
  auto store = std::make_unique<HttpArtifacts>(config, url);
  MC_RETURN_IF_ERROR(store->prepare());
  return std::unique_ptr<build::ArtifactStore>(std::move(store));
}

}  // namespace musacoder::service
