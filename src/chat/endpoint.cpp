#include "chat/endpoint.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json_lines.h"
#include "chat/limiter.h"
#include "chat/reply_cache.h"
#include "net/http_client.h"

namespace musacoder::chat {
namespace {

using nlohmann::json;

std::string text_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// What an endpoint does not take, learnt from its refusals.
struct Dialect {
  std::atomic<bool> completion_tokens{false};  // max_completion_tokens in place of max_tokens
  std::atomic<bool> plain{false};              // neither temperature, top_p nor seed

  // True when something was learnt, and the request is worth sending again.
  bool learn(const std::string& refusal) {
    if (refusal.find("max_completion_tokens") != std::string::npos) return !completion_tokens.exchange(true);
    for (const char* field : {"temperature", "top_p", "seed"})
      if (refusal.find(field) != std::string::npos) return !plain.exchange(true);
    return false;
  }
  std::string apply(std::string body) const {
    if (!completion_tokens && !plain) return body;
    json request = json::parse(body, nullptr, false);
    if (completion_tokens) {
      request["max_completion_tokens"] = request["max_tokens"];
      request.erase("max_tokens");
    }
    if (plain)
      for (const char* field : {"temperature", "top_p", "seed"}) request.erase(field);
    return request.dump();
  }
};

class EndpointModel : public ChatModel {
 public:
  explicit EndpointModel(EndpointConfig config)
      : config_(std::move(config)),
        limiter_({config_.per_minute, config_.at_a_time, config_.clock}),
        cache_(config_.cache_folder) {}

  Status open() {
    MC_ASSIGN_OR_RETURN(const net::Url url, net::parse_url(config_.url));
    if (url.path.empty()) {
      while (config_.url.ends_with('/')) config_.url.pop_back();
      config_.url += "/v1";
    }
    MC_ASSIGN_OR_RETURN(client_, net::HttpClient::make({.url = config_.url,
                                                        .token = config_.key,
                                                        .ca_file = config_.ca_file,
                                                        .timeout_s = config_.timeout_s,
                                                        .max_reply_bytes = 256u << 20}));
    return config_.model.empty() ? find_model() : ok();
  }

  Result<Reply> ask(const Request& request) override {
    const std::string key = ReplyCache::key(config_.url, request_body(config_.model, request));
    if (auto kept = cache_.find(key)) return std::move(*kept);
    Reply all;
    Request left = request;
    const int wanted = std::max(1, request.sampling.n);
    for (int round = 0; static_cast<int>(all.answers.size()) < wanted; ++round) {
      left.sampling.n = wanted - static_cast<int>(all.answers.size());
      if (round > 0)
        left.sampling.seed =
            base::xxh3("round", request.sampling.seed + static_cast<std::uint64_t>(round)) >> 33;
      MC_ASSIGN_OR_RETURN(Reply reply, ask_once(left));
      if (reply.answers.empty())
        return fail(Code::kUnavailable, "{} gave a reply without an answer", config_.url);
      for (Answer& answer : reply.answers)
        if (static_cast<int>(all.answers.size()) < wanted) all.answers.push_back(std::move(answer));
      all.usage.prompt_tokens += reply.usage.prompt_tokens;
      all.usage.completion_tokens += reply.usage.completion_tokens;
      all.seconds += reply.seconds;
      all.model = reply.model;
    }
    MC_RETURN_IF_ERROR(cache_.put(key, all));
    return all;
  }

  std::string describe() const override {
    return config_.title.empty() ? fmt::format("{} at {}", config_.model, config_.url) : config_.title;
  }

 private:
  Status find_model() {
    MC_ASSIGN_OR_RETURN(const net::ClientReply reply,
                        send({.path = "/models", .method = "GET", .timeout_s = 30}, base::Deadline::in(60)));
    std::vector<std::string> names;
    if (const auto parsed = base::parse_json(reply.body);
        parsed && parsed->is_object() && parsed->contains("data"))
      for (const json& model : (*parsed)["data"])
        if (model.is_object()) names.push_back(text_at(model, "id"));
    if (names.size() == 1 && !names[0].empty()) {
      config_.model = names[0];
      return ok();
    }
    names.resize(std::min<std::size_t>(names.size(), 20));
    return fail(
        Code::kInvalidArgument, "{} {}; name one with --model", config_.url,
        names.empty() ? "lists no models" : fmt::format("lists several models ({})", fmt::join(names, ", ")));
  }

  Result<Reply> ask_once(const Request& request) {
    const std::string body = request_body(config_.model, request);
    MC_ASSIGN_OR_RETURN(Limiter::Turn turn, limiter_.wait(request.deadline, request.cancelled));
    const double begin = config_.clock->now();
    auto sent =
        send({.path = "/chat/completions", .body = dialect_.apply(body), .cancelled = request.cancelled},
             request.deadline);
    if (!sent && sent.error().code == Code::kInvalidArgument && dialect_.learn(sent.error().message))
      sent = send({.path = "/chat/completions", .body = dialect_.apply(body), .cancelled = request.cancelled},
                  request.deadline);
    if (!sent) return tl::unexpected(sent.error());
    auto reply = reply_from_body(sent->body);
    if (!reply) return fail(reply.error().code, "{}: {}", config_.url, reply.error().message);
    reply->seconds = config_.clock->now() - begin;
    return reply;
  }

  // A 200, after as many tries as it takes.
  Result<net::ClientReply> send(net::ClientRequest request, const base::Deadline& deadline) {
    const double one = request.timeout_s > 0 ? request.timeout_s : config_.timeout_s;
    std::string last;
    Code last_code = Code::kUnavailable;
    for (int attempt = 1;; ++attempt) {
      if (deadline.remaining() <= 0)
        return fail(Code::kDeadlineExceeded, "{}: the time is over{}", config_.url,
                    last.empty() ? "" : "; " + last);
      request.timeout_s = std::min(one, deadline.remaining());
      auto reply = client_->send(request);
      double wait =
          std::min(config_.longest_wait_s, config_.first_wait_s * std::pow(2.0, attempt - 1)) * jitter();
      if (reply) {
        if (reply->status == 200) return reply;
        last = fmt::format("{} answered {}: {}", config_.url, reply->status, net::reply_message(*reply));
        if (!may_pass(reply->status)) return tl::unexpected(refusal(*reply, last));
        if (const double asked = retry_after(reply->header("retry-after"), config_.clock->unix_time(), 600);
            asked > 0) {
          wait = asked;
          if (reply->status == 429) limiter_.pause(asked);
        }
      } else {
        last = reply.error().message;
        last_code = reply.error().code;
        if (request.cancelled && request.cancelled()) return reply;
        if (last_code != Code::kUnavailable && last_code != Code::kDeadlineExceeded) return reply;
      }
      if (attempt >= config_.tries) return fail(last_code, "{} ({} tries)", last, attempt);
      if (wait >= deadline.remaining())
        return fail(Code::kDeadlineExceeded, "no time is left to try again: {}", last);
      for (double left = wait; left > 0; left -= 0.25) {
        if (request.cancelled && request.cancelled())
          return fail(Code::kDeadlineExceeded, "cancelled; {}", last);
        config_.clock->sleep(std::min(left, 0.25));
      }
    }
  }

  static bool may_pass(int status) {
    return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
  }

  Error refusal(const net::ClientReply& reply, const std::string& message) const {
    if (reply.status == 401 || reply.status == 403)
      return {
          Code::kInvalidArgument,
          message + (config_.key.empty()
                         ? "; it wants a key: set OPENAI_API_KEY, or name another variable with --api-key-env"
                         : "; the key that was sent is not accepted")};
    if (reply.status == 404)
      return {Code::kInvalidArgument,
              message + fmt::format("; is '{}' the model's name there?", config_.model)};
    const bool long_prompt = reply.status == 413 || reply.body.find("context_length") != std::string::npos ||
                             reply.body.find("maximum context") != std::string::npos;
    return {long_prompt ? Code::kResourceExhausted : Code::kInvalidArgument, message};
  }

  double jitter() {
    std::lock_guard lock(mutex_);
    jitter_ = base::xxh3("jitter", jitter_);
    return 0.75 + 0.5 * static_cast<double>(jitter_ >> 11) / static_cast<double>(1ull << 53);
  }

  EndpointConfig config_;
  Limiter limiter_;
  ReplyCache cache_;
  Dialect dialect_;
  std::unique_ptr<net::HttpClient> client_;
  std::mutex mutex_;
  std::uint64_t jitter_ = 1;
};

}  // namespace

Result<std::unique_ptr<ChatModel>> make_endpoint(const EndpointConfig& config) {
  auto model = std::make_unique<EndpointModel>(config);
  MC_RETURN_IF_ERROR(model->open());
  return std::unique_ptr<ChatModel>(std::move(model));
}

std::string request_body(const std::string& model, const Request& request) {
  json messages = json::array();
  for (const Message& message : request.messages)
    messages.push_back({{"role", message.role}, {"content", message.content}});
  json body = {{"model", model},
               {"messages", std::move(messages)},
               {"temperature", request.sampling.temperature},
               {"top_p", request.sampling.top_p},
               {"max_tokens", request.sampling.max_tokens},
               {"n", std::max(1, request.sampling.n)},
               // Several servers take 31 bits.
               {"seed", request.sampling.seed & 0x7fffffff}};
  if (request.sampling.logprobs) body["logprobs"] = true;
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Reply> reply_from_body(const std::string& body) {
  MC_ASSIGN_OR_RETURN(const json parsed, base::parse_json(body));
  if (!parsed.is_object() || !parsed.contains("choices") || !parsed["choices"].is_array())
    return fail(Code::kInvalidArgument, "the reply is no chat completion: it has no `choices`");
  Reply reply;
  reply.model = text_at(parsed, "model");
  if (const auto usage = parsed.find("usage"); usage != parsed.end() && usage->is_object()) {
    const auto count = [&](const char* key) {
      const auto it = usage->find(key);
      return it != usage->end() && it->is_number_integer() ? it->get<std::int64_t>() : std::int64_t{0};
    };
    reply.usage = {count("prompt_tokens"), count("completion_tokens")};
  }
  for (const json& choice : parsed["choices"]) {
    if (!choice.is_object() || !choice.contains("message") || !choice["message"].is_object())
      return fail(Code::kInvalidArgument, "the reply is no chat completion: a choice has no `message`");
    const json& message = choice["message"];
    Answer answer;
    answer.text = text_at(message, "content");
    answer.reasoning = text_at(message, "reasoning_content");
    if (answer.reasoning.empty()) answer.reasoning = text_at(message, "reasoning");
    answer.finish = text_at(choice, "finish_reason");
    if (const auto logprobs = choice.find("logprobs"); logprobs != choice.end() && logprobs->is_object())
      if (const auto content = logprobs->find("content"); content != logprobs->end() && content->is_array())
        for (const json& token : *content)
          if (token.is_object() && token.contains("logprob") && token["logprob"].is_number())
            answer.logprobs.push_back(token["logprob"].get<double>());
    reply.answers.push_back(std::move(answer));
  }
  return reply;
}

double retry_after(const std::string& header, double unix_now, double most) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), seconds);
  if (error != std::errc() || end != header.data() + header.size()) {
    std::tm date{};
    const char* rest = ::strptime(header.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
    if (!rest) return 0;
    seconds = static_cast<double>(::timegm(&date)) - unix_now;
  }
  return std::isfinite(seconds) ? std::clamp(seconds, 0.0, most) : 0;
}

}  // namespace musacoder::chat
