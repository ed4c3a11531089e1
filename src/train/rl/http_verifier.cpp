#include "train/rl/http_verifier.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "net/http_client.h"

namespace musacoder::train {
namespace {

using nlohmann::json;

constexpr double kLongPoll_s = 10;

VerifyOutcome infra(std::string status, std::string why) {
  VerifyOutcome out;
  out.infra = true;
  out.status = std::move(status);
  out.feedback = std::move(why);
  return out;
}

std::string text_of(const json& view, const char* key) {
  const auto found = view.find(key);
  return found != view.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double number_of(const json& view, const char* key) {
  const auto found = view.find(key);
  return found != view.end() && found->is_number() ? found->get<double>()
                                                   : std::numeric_limits<double>::quiet_NaN();
}

bool flag_of(const json& view, const char* key) {
  const auto found = view.find(key);
  return found != view.end() && found->is_boolean() && found->get<bool>();
}

bool ended(const json& view) {
  const std::string state = text_of(view, "state");
  return !state.empty() && state != "queued" && state != "running";
}

VerifyOutcome outcome_of(const json& view) {
  VerifyOutcome out;
  out.status = text_of(view, "status");
  out.infra = flag_of(view, "infra") || out.status.empty() || out.status.starts_with("infra:");
  out.undecided = flag_of(view, "undecided");
  out.verified = flag_of(view, "verified");
  out.feedback = text_of(view, "feedback");
  if (out.infra && out.feedback.empty()) out.feedback = text_of(view, "error");
  out.code = text_of(view, "code");
  if (!out.infra && !out.undecided) out.reward = number_of(view, "reward");
  if (const auto verdict = view.find("verdict"); verdict != view.end() && verdict->is_object())
    out.speedup = number_of(*verdict, "speedup_eager");
  return out;
}

// What the service asks to wait, or what it takes from the last wait on its own.
double back_off(const net::ClientReply& reply, double otherwise) {
  const std::string text = reply.header("retry-after");
  int seconds = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), seconds).ec == std::errc() && seconds > 0)
    return std::min(30, seconds);
  return otherwise;
}

bool try_again(int status) { return status == 408 || status == 429 || status >= 500; }

}  // namespace

HttpVerifier::HttpVerifier(EndpointSource endpoint, const HttpVerifierOptions& options)
    : endpoint_(std::move(endpoint)), options_(options) {
  for (int i = 0; i < options_.connections; ++i) threads_.emplace_back([this] { work(); });
}

HttpVerifier::~HttpVerifier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void HttpVerifier::submit(std::uint64_t ticket, VerifyRequest request) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({ticket, std::move(request), base::Stopwatch()});
  }
  wake_.notify_one();
}

std::vector<std::pair<std::uint64_t, VerifyOutcome>> HttpVerifier::collect(double wait_s) {
  std::unique_lock lock(mutex_);
  if (done_.empty() && wait_s > 0)
    ended_.wait_for(lock, std::chrono::duration<double>(wait_s), [this] { return !done_.empty(); });
  return std::exchange(done_, {});
}

void HttpVerifier::work() {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    VerifyOutcome outcome = judge(job);
    outcome.seconds = job.watch.seconds();
    {
      const std::lock_guard lock(mutex_);
      done_.emplace_back(job.ticket, std::move(outcome));
    }
    ended_.notify_one();
  }
}

// False: there is no point in waiting, this verifier ends.
bool HttpVerifier::pause(double seconds) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return stopping_; });
}

VerifyOutcome HttpVerifier::judge(const Job& job) {
  const auto deadline = base::Deadline::in(options_.timeout_s);
  VerifyOutcome last;
  for (int attempt = 0; attempt <= options_.retries; ++attempt) {
    const std::string key = job.request.key.empty() ? "" : fmt::format("{}-{}", job.request.key, attempt);
    auto outcome = once(job, key, deadline);
    last = outcome ? std::move(*outcome) : infra("infra:unreachable", outcome.error().message);
    last.tries = attempt + 1;
    if (!last.infra || last.status == "infra:refused" || deadline.expired() || !pause(0)) break;
  }
  return last;
}

// One job from submission to its end. An error: time is over.
Result<VerifyOutcome> HttpVerifier::once(const Job& job, const std::string& key,
                                         const base::Deadline& deadline) {
  json body = {{"candidate", job.request.candidate},
               {"reference", job.request.reference},
               {"round", job.request.round}};
  if (!job.request.task.empty()) body["task"] = job.request.task;
  if (!key.empty()) body["idempotency_key"] = key;
  if (options_.seed) body["seed"] = options_.seed;
  const std::string text = body.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string id, why = "the service did not answer";
  double wait_s = 0.25;
  std::unique_ptr<net::HttpClient> client;
  ServiceEndpoint at;
  while (!deadline.expired()) {
    const auto endpoint = endpoint_();
    if (endpoint && (!client || endpoint->url != at.url)) {
      at = *endpoint;
      auto made = net::HttpClient::make({.url = at.url, .token = at.token, .timeout_s = 30});
      if (!made) return infra("infra:refused", made.error().message);
      client = std::move(*made);
      id.clear();  // another service knows nothing of the job
    }
    if (!endpoint) {
      why = endpoint.error().message;
    } else {
      const auto reply =
          id.empty() ? client->send({.path = "/v1/jobs?source=1", .body = text})
                     : client->send({.path = fmt::format("/v1/jobs/{}?source=1&wait={:.0f}", id,
                                                         std::min(kLongPoll_s, deadline.remaining() + 1)),
                                     .method = "GET",
                                     .timeout_s = kLongPoll_s + 30});
      if (!reply) {
        why = reply.error().message;
      } else if (reply->status == 404 && !id.empty()) {
        id.clear();
        why = "the service has forgotten the job";
        continue;
      } else if (reply->status == 200 || reply->status == 202) {
        const json view = json::parse(reply->body, nullptr, false);
        if (!view.is_object()) return infra("infra:refused", "the service's reply is no JSON object");
        // A submission's view has no sources: they come with the question for the job.
        if (ended(view) && !id.empty()) return outcome_of(view);
        id = text_of(view, "id");
        if (id.empty()) return infra("infra:refused", "the service's reply has no id");
        wait_s = 0.25;
        continue;
      } else if (!try_again(reply->status)) {
        return infra("infra:refused", fmt::format("{}: {}", reply->status, net::reply_message(*reply)));
      } else {
        why = fmt::format("{}: {}", reply->status, net::reply_message(*reply));
        wait_s = back_off(*reply, wait_s);
      }
    }
    if (!pause(std::min(wait_s, deadline.remaining()))) break;
    wait_s = std::min(5.0, wait_s * 2);
  }
  return fail(Code::kDeadlineExceeded, "no verdict within {:.0f} s: {}", options_.timeout_s, why);
}

}  // namespace musacoder::train
