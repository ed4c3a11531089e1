#include "net/http_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "net/server.h"

namespace musacoder::net {
namespace {

using namespace std::chrono_literals;

class Words : public EventSource {
 public:
  explicit Words(int n) : left_(n) {}
  void watch(std::function<void()> wake) override { (wake_ = std::move(wake))(); }
  Piece next() override {
    if (left_-- <= 0) return {"data: [DONE]\n\n", true};
    wake_();
    return {"data: {\"n\":" + std::to_string(left_) + "}\n\n", false};
  }

 private:
  std::function<void()> wake_;
  int left_;
};

class Echo : public Handler {
 public:
  std::optional<Reply> refuse_early(const Request&) override { return std::nullopt; }
  Reply handle(const Request& request) override {
    ++requests;
    if (request.path == "/v1/slow") std::this_thread::sleep_for(400ms);
    if (request.path == "/v1/large") return json_reply(200, std::string(5000, 'x'));
    if (request.path == "/v1/none") return json_reply(404, R"({"error": {"message": "no such thing"}})");
    if (request.path == "/v1/busy") {
      Reply reply = json_reply(429, R"({"error": "later"})");
      reply.headers.emplace_back("Retry-After", "2");
      return reply;
    }
    if (request.path == "/v1/words") {
      Reply reply;
      reply.events = std::make_shared<Words>(3);
      return reply;
    }
    return json_reply(200, request.method + " " + request.path + "?" + request.query("q") + " " +
                               request.body + " " + bearer_of(request));
  }
  Reply error_reply(const ApiError& error, const std::string&) const override {
    return json_reply(error.status, error.message);
  }
  std::string pattern_of(const Request&) const override { return "/"; }
  HttpMetrics& metrics() override { return metrics_; }
  std::atomic<int> requests{0};

 private:
  HttpMetrics metrics_;
};

struct Running {
  explicit Running(const std::string& listen = "127.0.0.1:0") : server(echo, {.listen = {listen}}) {
    if (auto started = server.start(); !started) ADD_FAILURE() << started.error().message;
    address = server.addresses().at(0);
  }
  ~Running() { server.stop(0.5); }
  Echo echo;
  Server server;
  std::string address;
};

std::unique_ptr<HttpClient> client_of(const Running& running, ClientConfig config = {}) {
  config.url = "http://" + running.address + "/v1/";
  auto client = HttpClient::make(config);
  EXPECT_TRUE(client) << client.error().message;
  return std::move(*client);
}

TEST(ParseUrl, Parts) {
  auto url = parse_url("https://models.example/v1/");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->host, "models.example");
  EXPECT_EQ(url->port, "443");
  EXPECT_EQ(url->path, "/v1");
  url = parse_url("http://[::1]:8811");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, "8811");
  EXPECT_EQ(url->path, "");
}

TEST(ParseUrl, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "host:80", "ftp://host", "http://", "http://host:", "http://host:123456",
                           "http://host:8a", "http://name@host", "http://host/a?b=c", "http://host/a#b",
                           "http://host/a b", "http://host/\r\nX: y", "http://host\\path"})
    EXPECT_FALSE(parse_url(text)) << text;
}

TEST(EventParser, JoinsPiecesAndLines) {
  EventParser parser;
  std::vector<std::string> got;
  auto take = [&](std::string_view data) {
    got.emplace_back(data);
    return true;
  };
  // Cut anywhere, with each kind of line end, comments and other fields.
  for (const char* piece : {"da", "ta: a\nda", "ta:b\n", "\n: comment\nid: 7\nevent: x\ndata\r",
                            "\n\r\nretry: 1\n\n", "data:  c\r\r", "data: lost"})
    EXPECT_TRUE(parser.feed(piece, take));
  EXPECT_EQ(got, (std::vector<std::string>{"a\nb", "", " c"}));
}

TEST(HttpClient, SendsMethodPathBodyAndToken) {
  Running running;
  auto client = client_of(running, {.token = "s3cret"});
  auto reply = client->send({.path = "/x?q=5", .body = "hello"});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "POST /v1/x?5 hello s3cret");
  EXPECT_EQ(reply->header("content-type"), "application/json");
  reply = client->send({.path = "/x", .method = "GET"});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body, "GET /v1/x?  s3cret");
}

TEST(HttpClient, RepliesOfEveryStatusAreReplies) {
  Running running;
  auto client = client_of(running);
  auto reply = client->send({.path = "/none"});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 404);
  EXPECT_EQ(reply_message(*reply), "no such thing");
  reply = client->send({.path = "/busy"});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header("retry-after"), "2");
  EXPECT_EQ(reply_message(*reply), "later");
}

TEST(HttpClient, StreamsEventsUntilToldToStop) {
  Running running;
  auto client = client_of(running);
  std::vector<std::string> got;
  auto take = [&](std::string_view data) {
    got.emplace_back(data);
    return true;
  };
  auto reply = client->stream({.path = "/words"}, take);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->body, "");
  EXPECT_EQ(got, (std::vector<std::string>{"{\"n\":2}", "{\"n\":1}", "{\"n\":0}", "[DONE]"}));
  int n = 0;
  EXPECT_TRUE(client->stream({.path = "/words"}, [&](std::string_view) { return ++n < 2; }));
  EXPECT_EQ(n, 2);
  // What is no stream comes whole, and the connection still serves.
  auto refused = client->stream({.path = "/none"}, take);
  ASSERT_TRUE(refused);
  EXPECT_EQ(reply_message(*refused), "no such thing");
}

TEST(HttpClient, LimitsTimeAndSize) {
  Running running;
  auto client = client_of(running, {.timeout_s = 0.1, .max_reply_bytes = 1000});
  auto late = client->send({.path = "/slow"});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  EXPECT_TRUE(client->send({.path = "/slow", .timeout_s = 5}));
  auto large = client->send({.path = "/large", .timeout_s = 5});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::kResourceExhausted) << large.error().message;
  EXPECT_TRUE(client->send({.path = "/x", .timeout_s = 5}));
}

TEST(HttpClient, EndsWhenItIsCancelled) {
  Running running;
  auto client = client_of(running);
  const auto begin = std::chrono::steady_clock::now();
  auto reply = client->send({.path = "/slow", .cancelled = [] { return true; }});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 350ms);
  EXPECT_TRUE(client->send({.path = "/x", .cancelled = [] { return false; }}));
}

TEST(HttpClient, OpensAConnectionAnewThatBrokeWhileIdle) {
  auto first = std::make_unique<Running>();
  auto client = client_of(*first);
  const std::string address = first->address;
  ASSERT_TRUE(client->send({.path = "/x"}));
  first.reset();
  auto nobody = client->send({.path = "/x"});
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Code::kUnavailable);
  Running second(address);
  EXPECT_TRUE(client->send({.path = "/x"}));
}

TEST(HttpClient, RefusesWhatWouldBreakAHeaderAndNamesNoToken) {
  auto client = HttpClient::make({.url = "http://127.0.0.1:1", .token = "s3cret\r\nX: y"});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().message.find("s3cret"), std::string::npos);
  client = HttpClient::make({.url = "http://127.0.0.1:1", .token = "s3cret"});
  ASSERT_TRUE(client);
  auto refused = (*client)->send({.path = "/x"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message.find("s3cret"), std::string::npos);
  EXPECT_FALSE((*client)->send({.path = "/a b"}));
  EXPECT_FALSE((*client)->send({.path = "/a", .headers = {{"X", "a\nb"}}}));
}

TEST(HttpClient, ServesManyThreads) {
  Running running;
  auto client = client_of(running);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t]() {
      for (int i = 0; i < 10; ++i) {
        const std::string body = std::to_string(t) + "-" + std::to_string(i);
        auto reply = client->send({.path = "/x", .body = body});
        if (reply && reply->body == "POST /v1/x? " + body + " ") ++good;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
}

}  // namespace
}  // namespace musacoder::net
