// The client of model endpoints against a scripted one, with a clock that moves when told to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/files.h"
#include "chat/endpoint.h"
#include "chat/limiter.h"
#include "chat/native.h"
#include "chat/recorded.h"
#include "chat/reply_cache.h"
#include "net/server.h"

namespace musacoder::chat {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

net::Reply completion(const std::vector<std::string>& texts) {
  json choices = json::array();
  for (const auto& text : texts)
    choices.push_back({{"index", choices.size()},
                       {"finish_reason", "stop"},
                       {"message", {{"role", "assistant"}, {"content", text}}}});
  return net::json_reply(200, json({{"model", "scripted"},
                                    {"choices", choices},
                                    {"usage", {{"prompt_tokens", 5}, {"completion_tokens", 7}}}})
                                  .dump());
}

net::Reply refused(int status, const std::string& message, const std::string& retry = "") {
  net::Reply reply = net::json_reply(status, json({{"error", {{"message", message}}}}).dump());
  if (!retry.empty()) reply.headers.emplace_back("Retry-After", retry);
  return reply;
}

// Answers requests in the order of its script, then with "end"; remembers them.
class Script : public net::Handler {
 public:
  std::optional<net::Reply> refuse_early(const net::Request&) override { return std::nullopt; }
  net::Reply handle(const net::Request& request) override {
    std::lock_guard lock(mutex);
    requests.push_back(request);
    if (script.empty()) return completion({"end"});
    net::Reply reply = script.front();
    script.pop_front();
    return reply;
  }
  net::Reply error_reply(const net::ApiError& error, const std::string&) const override {
    return net::json_reply(error.status, error.message);
  }
  std::string pattern_of(const net::Request&) const override { return "/"; }
  net::HttpMetrics& metrics() override { return metrics_; }
  json body(std::size_t i) { return json::parse(requests.at(i).body); }

  std::mutex mutex;
  std::deque<net::Reply> script;
  std::vector<net::Request> requests;

 private:
  net::HttpMetrics metrics_;
};

class ChatTest : public testing::Test {
 protected:
  ChatTest() : server_(script_, {.listen = {"127.0.0.1:0"}}) {
    if (auto started = server_.start(); !started) ADD_FAILURE() << started.error().message;
  }
  ~ChatTest() override { server_.stop(0.5); }
  std::unique_ptr<ChatModel> model(EndpointConfig config = {}) {
    config.url = "http://" + server_.addresses().at(0);
    if (config.model.empty()) config.model = "scripted";
    config.clock = &clock_;
    auto made = make_endpoint(config);
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }
  static Request hello(int n = 1) {
    return {.messages = {{"system", "S"}, {"user", "U"}},
            .sampling = {.n = n, .temperature = 0.5, .max_tokens = 9, .seed = 3}};
  }

  base::FakeClock clock_;
  Script script_;
  net::Server server_;
};

TEST_F(ChatTest, AsksAsOpenAiDoes) {
  script_.script = {completion({"one"})};
  auto reply = model({.key = "k3y"})->ask(hello());
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->answers.at(0).text, "one");
  EXPECT_EQ(reply->answers.at(0).finish, "stop");
  EXPECT_EQ(reply->usage.completion_tokens, 7);
  EXPECT_EQ(script_.requests.at(0).path, "/v1/chat/completions");
  EXPECT_EQ(net::bearer_of(script_.requests.at(0)), "k3y");
  const json body = script_.body(0);
  EXPECT_EQ(body["messages"],
            json::parse(R"([{"role":"system","content":"S"},{"role":"user","content":"U"}])"));
  EXPECT_EQ(body["model"], "scripted");
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_EQ(body["max_tokens"], 9);
  EXPECT_EQ(body["seed"], 3);
}

TEST_F(ChatTest, TriesAgainAsLateAsItIsTold) {
  script_.script = {refused(429, "slow down", "7"), refused(500, "oops"), completion({"one"})};
  const double begin = clock_.now();
  auto reply = model()->ask(hello());
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(script_.requests.size(), 3u);
  // 7 s as told, then the second wait of its own: 2 s, give or take a quarter.
  EXPECT_GE(clock_.now() - begin, 8.5);
  EXPECT_LE(clock_.now() - begin, 9.5);
}

TEST_F(ChatTest, GivesUpAndSaysWhatItHeard) {
  for (int i = 0; i < 3; ++i) script_.script.push_back(refused(503, "warming up"));
  auto reply = model({.tries = 3})->ask(hello());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("warming up (3 tries)"));
}

TEST_F(ChatTest, RefusalsAreNotRepeatedAndNameTheRemedyAndNoKey) {
  script_.script = {refused(401, "no")};
  auto without = model()->ask(hello());
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message, HasSubstr("OPENAI_API_KEY"));
  script_.script = {refused(401, "no")};
  auto with = model({.key = "k3y"})->ask(hello());
  ASSERT_FALSE(with);
  EXPECT_THAT(with.error().message, Not(HasSubstr("k3y")));
  script_.script = {refused(400, "This model's maximum context length is 10 tokens")};
  EXPECT_EQ(model()->ask(hello()).error().code, Code::kResourceExhausted);
  EXPECT_EQ(script_.requests.size(), 3u);
}

TEST_F(ChatTest, AsksForTheRestWhereFewerAnswersCome) {
  script_.script = {completion({"a"}), completion({"b", "c", "d"})};
  auto reply = model()->ask(hello(3));
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->answers.size(), 3u);
  EXPECT_EQ(reply->answers[2].text, "c");
  EXPECT_EQ(script_.body(1)["n"], 2);
  EXPECT_NE(script_.body(1)["seed"], script_.body(0)["seed"]);
  EXPECT_EQ(reply->usage.prompt_tokens, 10);
}

TEST_F(ChatTest, LearnsWhichFieldsAnEndpointTakes) {
  script_.script = {refused(400, "use 'max_completion_tokens' instead of 'max_tokens'"), completion({"a"}),
                    refused(400, "'temperature' does not support 0.5"), completion({"b"}), completion({"c"})};
  auto asked = model();
  ASSERT_TRUE(asked->ask(hello()));
  EXPECT_EQ(script_.body(1)["max_completion_tokens"], 9);
  EXPECT_FALSE(script_.body(1).contains("max_tokens"));
  ASSERT_TRUE(asked->ask(hello()));
  EXPECT_FALSE(script_.body(3).contains("temperature"));
  ASSERT_TRUE(asked->ask(hello()));
  EXPECT_FALSE(script_.body(4).contains("temperature"));
  EXPECT_EQ(script_.requests.size(), 5u);
}

TEST_F(ChatTest, KeepsRepliesOnDiskByRequest) {
  auto folder = base::TempDir::create("chat");
  ASSERT_TRUE(folder);
  script_.script = {completion({"first"}), completion({"second"})};
  const EndpointConfig config{.key = "k3y", .cache_folder = folder->path()};
  EXPECT_EQ(model(config)->ask(hello())->answers[0].text, "first");
  auto again = model(config)->ask(hello());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->answers[0].text, "first");
  EXPECT_TRUE(again->cached);
  Request other = hello();
  other.sampling.seed = 4;
  EXPECT_EQ(model(config)->ask(other)->answers[0].text, "second");
  EXPECT_EQ(script_.requests.size(), 2u);
}

TEST_F(ChatTest, TakesTheOnlyModelThatIsThere) {
  script_.script = {net::json_reply(200, R"({"data": [{"id": "coder"}]})"), completion({"a"})};
  EndpointConfig config{.url = "http://" + server_.addresses().at(0), .clock = &clock_};
  auto made = make_endpoint(config);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT((*made)->describe(), HasSubstr("coder at http://127.0.0.1"));
  script_.script = {net::json_reply(200, R"({"data": [{"id": "a"}, {"id": "b"}]})")};
  EXPECT_THAT(make_endpoint(config).error().message, HasSubstr("a, b"));
}

TEST_F(ChatTest, StopsAtTheDeadline) {
  script_.script = {refused(429, "later", "100")};
  Request request = hello();
  request.deadline = base::Deadline::in(5, clock_);
  auto reply = model()->ask(request);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(script_.requests.size(), 1u);
}

TEST(Recorded, AnswersWhatWasAskedBeforeAndNothingElse) {
  const auto folder = base::TempDir::create("recorded");
  const std::string path = folder->file("answers.jsonl");
  const auto row = [](std::uint64_t seed, const std::string& text) {
    return json({{"messages", {{{"role", "user"}, {"content", "Write."}}}}, {"seed", seed}, {"candidate", text},
                 {"model", "small"}, {"finish", "stop"}, {"tokens", 9}})
        .dump();
  };
  // The last line is what a killed process was writing.
  ASSERT_TRUE(base::write_file(path, row(1, "one") + "\n" + row(2, "two") + "\n{\"error\": \"gone\"}\n" +
                                         row(3, "three").substr(0, 30)));
  auto model = open_recorded(path);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT((*model)->describe(), HasSubstr("small (answers in "));
  Request request{.messages = {{"user", "Write."}}};
  request.sampling.seed = 2;
  const auto reply = (*model)->ask(request);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->answers.at(0).text, "two");
  EXPECT_EQ(reply->usage.completion_tokens, 9);
  request.sampling.seed = 3;
  EXPECT_EQ((*model)->ask(request).error().code, Code::kInvalidArgument);
  request.sampling.seed = 2;
  request.messages[0].content = "Write again.";
  EXPECT_THAT((*model)->ask(request).error().message, HasSubstr("no answer to this prompt"));

  EXPECT_EQ(open_recorded(folder->file("none")).error().code, Code::kNotFound);
  ASSERT_TRUE(base::write_file(path, row(1, "one") + "\n{\"seed\": -4}\n"));
  EXPECT_THAT(open_recorded(path).error().message, HasSubstr("answers.jsonl:2: no row"));
  ASSERT_TRUE(base::write_file(path, ""));
  EXPECT_THAT(open_recorded(path).error().message, HasSubstr("holds no answers"));
}

TEST(ReplyFromBody, ReadsReasoningAndLogprobsAndRefusesTheRest) {
  auto reply = reply_from_body(
      R"({"choices": [{"finish_reason": null, "logprobs": {"content": [{"token": "a", "logprob": -0.5}]},
    "message": {"content": null, "reasoning_content": "hm"}}]})");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->answers[0].reasoning, "hm");
  EXPECT_EQ(reply->answers[0].text, "");
  EXPECT_EQ(reply->answers[0].logprobs, std::vector<double>{-0.5});
  for (const char* body :
       {"", "[]", "{}", R"({"choices": 1})", R"({"choices": [1]})", R"({"choices": [{}]})", "<html>"})
    EXPECT_FALSE(reply_from_body(body)) << body;
}

TEST(RetryAfter, SecondsAndDates) {
  EXPECT_EQ(retry_after("2.5", 0, 60), 2.5);
  EXPECT_EQ(retry_after("1000", 0, 60), 60);
  EXPECT_EQ(retry_after("Thu, 01 Jan 1970 00:00:30 GMT", 10, 60), 20);
  EXPECT_EQ(retry_after("Thu, 01 Jan 1970 00:00:05 GMT", 10, 60), 0);
  for (const char* text : {"", "soon", "-3", "nan", "3 s"}) EXPECT_EQ(retry_after(text, 0, 60), 0) << text;
}

TEST(Limiter, SpacesRequestsEvenly) {
  base::FakeClock clock;
  Limiter limiter({.per_minute = 30, .clock = &clock});
  std::vector<double> at;
  for (int i = 0; i < 3; ++i) {
    auto turn = limiter.wait(base::Deadline::never());
    ASSERT_TRUE(turn);
    at.push_back(clock.now() - 1000);
  }
  EXPECT_NEAR(at[0], 0, 1e-9);
  EXPECT_NEAR(at[1], 2, 1e-9);
  EXPECT_NEAR(at[2], 4, 1e-9);
  limiter.pause(60);
  EXPECT_FALSE(limiter.wait(base::Deadline::in(5, clock)));
}

TEST(Limiter, LetsSoManyAtATime) {
  Limiter limiter({.at_a_time = 2});
  std::atomic<int> now{0}, most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] {
      auto turn = limiter.wait(base::Deadline::never());
      const int here = ++now;
      for (int seen = most; here > seen && !most.compare_exchange_weak(seen, here);) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      --now;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(most, 2);
}

// A program in the model server's place.
struct FakeServer {
  explicit FakeServer(const std::string& script) {
    auto made = base::TempDir::create("native");
    EXPECT_TRUE(made);
    folder = std::move(*made);
    EXPECT_TRUE(base::write_file(folder.file("program"), "#!/bin/sh\n" + script, 0755));
    EXPECT_TRUE(base::write_file(folder.file("model.gguf"), "x"));
  }
  NativeConfig config() const {
    return {.model = folder.file("model.gguf"), .program = folder.file("program"), .start_s = 5};
  }
  base::TempDir folder;
};

TEST(Native, SaysWhatTheModelsProcessSaidLast) {
  FakeServer server("echo 'tensor blk.0 is missing' >&2; exit 2\n");
  auto model = start_native(server.config());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnavailable);
  EXPECT_THAT(model.error().message, HasSubstr("tensor blk.0 is missing"));
}

TEST(Native, WaitsOnlySoLongAndNamesWhatIsNotThere) {
  FakeServer server("exec sleep 100\n");
  auto config = server.config();
  config.start_s = 0.2;
  EXPECT_EQ(start_native(config).error().code, Code::kDeadlineExceeded);
  config.model = "/nowhere";
  EXPECT_THAT(start_native(config).error().message, HasSubstr("/nowhere"));
  config.program = "/nothing";
  EXPECT_THAT(start_native(config).error().message, HasSubstr("--endpoint"));
}

TEST_F(ChatTest, NativeModelsAreAskedWhereTheyListenWithATokenOfTheirOwn) {
  FakeServer server(
      "for a in \"$@\"; do [ \"$last\" = --token-file ] && cp \"$a\" \"$(dirname $0)/token\"; last=$a; done\n"
      "echo listening on http://" +
      server_.addresses().at(0) + "\nexec sleep 100\n");
  auto model = start_native(server.config());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->ask(hello())->answers.at(0).text, "end");
  const std::string token = *base::read_file(server.folder.file("token"));
  EXPECT_EQ(net::bearer_of(script_.requests.at(0)) + "\n", token);
  EXPECT_EQ(token.size(), 65u);
  EXPECT_EQ(script_.body(0)["model"], "model.gguf");
  EXPECT_THAT((*model)->describe(), HasSubstr("run here on cpu"));
}

}  // namespace
}  // namespace musacoder::chat
