#include "llm/serve/model_server.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/event_log.h"
#include "base/hash.h"
#include "llm/model/lora.h"
#include "llm/model/weights.h"
#include "llm/serve/api_reply.h"
#include "net/json_fields.h"

namespace musacoder::llm {
namespace {

using net::api_error;
using net::ApiError;
using net::ApiResult;
using net::dump_json;
using net::json_reply;
using net::Reply;
using net::Request;
using nlohmann::json;

struct LoadedWeights {
  Weights weights;
  std::optional<Lora> adapter;
};

const prometheus::Histogram::BucketBoundaries kSeconds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                          2.5,  5,     10,   30,  60,   300};

class ModelMetrics {
 public:
  explicit ModelMetrics(prometheus::Registry& registry)
      : prompt_(
            counter(registry, "musacoder_prompt_tokens_total", "Prompt tokens passed through the model.")),
        generated_(counter(registry, "musacoder_generated_tokens_total", "Tokens sampled.")),
        steps_(counter(registry, "musacoder_engine_steps_total", "Passes of the model.")),
        open_(gauge(registry, "musacoder_open_requests", "Requests running and waiting.")),
        free_(gauge(registry, "musacoder_cache_free_tokens", "Room left in the key-value cache.")),
        version_(gauge(registry, "musacoder_weight_version", "Version of the weights.")),
        finished_(prometheus::BuildCounter()
                      .Name("musacoder_choices_finished_total")
                      .Help("Answers ended, by reason.")
                      .Register(registry)),
        first_(histogram(registry, "musacoder_first_token_seconds", "From the request to its first token.")),
        whole_(histogram(registry, "musacoder_answer_seconds", "From the request to its last token.")) {}

  void refresh(const EngineLoop::Stats& now) {
    std::lock_guard lock(mutex_);
    const auto raise = [](prometheus::Counter& counter, std::int64_t to) {
      counter.Increment(std::max(0.0, static_cast<double>(to) - counter.Value()));
    };
    raise(prompt_, now.counts.prompt_tokens);
    raise(generated_, now.counts.generated_tokens);
    raise(steps_, now.counts.steps);
    open_.Set(static_cast<double>(now.open));
    free_.Set(static_cast<double>(now.counts.free_tokens));
    version_.Set(static_cast<double>(now.version));
  }
  void finished(Finish finish) { finished_.Add({{"reason", finish_name(finish)}}).Increment(); }
  void first_token(double seconds) { first_.Observe(seconds); }
  void ended(double seconds) { whole_.Observe(seconds); }

 private:
  static prometheus::Counter& counter(prometheus::Registry& registry, const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
  }
  static prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
  }
  static prometheus::Histogram& histogram(prometheus::Registry& registry, const char* name,
                                          const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, kSeconds);
  }
  std::mutex mutex_;
  prometheus::Counter &prompt_, &generated_, &steps_;
  prometheus::Gauge &open_, &free_, &version_;
  prometheus::Family<prometheus::Counter>& finished_;
  prometheus::Histogram &first_, &whole_;
};

// A request under way: what the pending reply hands to the stream of events.
struct Course {
  Course(std::shared_ptr<Ticket> t, const ApiRequest& request, std::string model, const Tokenizer* tokenizer,
         ModelMetrics& m, std::string request_id)
      : ticket(std::move(t)),
        answer(request, std::move(model), tokenizer),
        metrics(m),
        id(std::move(request_id)) {}
  std::shared_ptr<Ticket> ticket;
  ApiAnswer answer;
  ModelMetrics& metrics;
  std::string id;
  base::Stopwatch watch;
  bool begun = false;

  void note(const Ticket::News& news) {
    if (!begun && !news.events.empty()) {
      begun = true;
      metrics.first_token(watch.seconds());
    }
    for (const TicketEvent& one : news.events)
      if (one.event.finish != Finish::kNone) metrics.finished(one.event.finish);
    if (news.ended && !news.error) metrics.ended(watch.seconds());
  }
};

class CompletionEvents : public net::EventSource {
 public:
  explicit CompletionEvents(std::shared_ptr<Course> course) : course_(std::move(course)) {}
  void watch(std::function<void()> wake) override { course_->ticket->watch(std::move(wake)); }
  Piece next() override {
    Piece out;
    if (first_) out.text = course_->answer.first_chunks();
    first_ = false;
    const Ticket::News news = course_->ticket->take();
    course_->note(news);
    for (const TicketEvent& event : news.events) out.text += course_->answer.chunk(event);
    if (!news.ended) return out;
    out.ended = true;
    out.text += news.error
                    ? "data: " + openai_error(api_error_of_engine(*news.error), course_->id).body + "\n\n"
                    : course_->answer.last_chunks();
    return out;
  }

 private:
  std::shared_ptr<Course> course_;
  bool first_ = true;
};

class CompletionPending : public net::Pending {
 public:
  CompletionPending(std::shared_ptr<Course> course, bool stream, double request_s)
      : course_(std::move(course)), stream_(stream) {
    seconds = request_s;
  }
  void watch(std::function<void()> wake) override { course_->ticket->watch(std::move(wake), !stream_); }
  std::optional<Reply> poll(bool over) override {
    if (stream_) {  // what is wrong is said before the stream begins
      const Ticket::News news = course_->ticket->look();
      if (news.error) return openai_error(api_error_of_engine(*news.error), course_->id);
      if (news.accepted) {
        Reply reply;
        reply.events = std::make_shared<CompletionEvents>(course_);
        return reply;
      }
    } else {
      const Ticket::News news = course_->ticket->take();
      course_->note(news);
      if (news.error) return openai_error(api_error_of_engine(*news.error), course_->id);
      for (const TicketEvent& event : news.events) course_->answer.add(event);
      if (news.ended) return json_reply(200, course_->answer.whole());
    }
    if (!over) return std::nullopt;
    return openai_error(
        api_error(503, "the request took longer than this server gives it, or the server stops").value(),
        course_->id);
  }

 private:
  std::shared_ptr<Course> course_;
  bool stream_;
};

// Weights that are read on a thread of their own and then swapped in between two steps.
class SwapPending : public net::Pending {
 public:
  SwapPending(EngineLoop& loop, std::future<Result<LoadedWeights>> loading, SwapCache cache,
              std::optional<std::int64_t> version, std::shared_ptr<std::atomic<bool>> busy, std::string id)
      : loop_(loop),
        loading_(std::move(loading)),
        cache_(cache),
        version_(version),
        busy_(std::move(busy)),
        id_(std::move(id)) {
    seconds = 3600;
  }
  ~SwapPending() override { *busy_ = false; }
  // Reading takes seconds: the session looks once a second, and at once when the swap is done.
  void watch(std::function<void()> wake) override { wake_ = std::move(wake); }
  std::optional<Reply> poll(bool over) override {
    if (!ticket_) {
      if (loading_.wait_for(over ? std::chrono::hours(1) : std::chrono::milliseconds(100)) !=
          std::future_status::ready)
        return std::nullopt;
      auto loaded = loading_.get();
      if (!loaded) return refusal(loaded.error());
      auto weights = std::make_shared<LoadedWeights>(std::move(*loaded));
      ticket_ = loop_.between_steps([weights, cache = cache_, wanted = version_,
                                     now = now_](Engine& engine) -> Status {
        MC_RETURN_IF_ERROR(engine.swap_weights({.weights = &weights->weights,
                                                .adapter = weights->adapter ? &*weights->adapter : nullptr,
                                                .cache = cache,
                                                .version = wanted}));
        *now = engine.version();
        return ok();
      });
      ticket_->watch(wake_);
    }
    const Ticket::News news = ticket_->look();
    if (news.error) return refusal(*news.error);
    if (news.ended)
      return json_reply(200, dump_json({{"version", now_->load()},
                                        {"cache", cache_ == SwapCache::kKeep ? "keep" : "recompute"},
                                        {"seconds", watch_.seconds()}}));
    if (!over) return std::nullopt;
    return openai_error(api_error(503, "the swap was not done in time").value(), id_);
  }

 private:
  Reply refusal(const Error& error) const {
    ApiError out = net::api_error_of(error);
    if (error.code == Code::kUnsupported) out = api_error(400, error.message).value();
    return openai_error(out, id_);
  }
  EngineLoop& loop_;
  std::future<Result<LoadedWeights>> loading_;
  SwapCache cache_;
  std::optional<std::int64_t> version_;
  std::shared_ptr<std::atomic<bool>> busy_;
  std::string id_;
  std::shared_ptr<std::atomic<std::int64_t>> now_ = std::make_shared<std::atomic<std::int64_t>>(0);
  std::shared_ptr<Ticket> ticket_;
  std::function<void()> wake_;
  base::Stopwatch watch_;
};

Result<LoadedWeights> load(const std::string& model, const std::string& adapter,
                           const EngineOptions& options) {
  MC_ASSIGN_OR_RETURN(Weights weights, Engine::read_weights(model, options));
  std::optional<Lora> lora;
  if (!adapter.empty()) {
    MC_ASSIGN_OR_RETURN(lora, Lora::open(weights, adapter));
  }
  return LoadedWeights{std::move(weights), std::move(lora)};
}

// The path without links and dots, if it lies below one of the folders.
std::optional<std::string> allowed_path(const std::string& path, const std::vector<std::string>& folders) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  if (error) return std::nullopt;
  for (const std::string& folder : folders) {
    const auto root = std::filesystem::canonical(folder, error);
    if (error) continue;
    const auto inside = real.lexically_relative(root);
    if (!inside.empty() && *inside.begin() != "..") return real.string();
  }
  return std::nullopt;
}

struct Route {
  const char *method, *path;
  bool open;  // no token needed
};
// "/v1/models/" stands for all names below it.
constexpr Route kRoutes[] = {{"POST", "/v1/chat/completions", false},
                             {"POST", "/v1/completions", false},
                             {"GET", "/v1/models", false},
                             {"GET", "/v1/models/", false},
                             {"GET", "/v1/weights", false},
                             {"POST", "/v1/weights", false},
                             {"GET", "/metrics", false},
                             {"GET", "/health", true},
                             {"GET", "/ready", true}};

bool fits(const Route& route, const std::string& path) {
  const std::string_view pattern = route.path;
  return pattern.back() == '/' ? path.size() > pattern.size() && path.compare(0, pattern.size(), pattern) == 0
                               : path == pattern;
}

}  // namespace

struct ModelServer::Impl {
  Impl(std::unique_ptr<Engine> engine, ModelServerConfig c, std::optional<ChatTemplate> t)
      : config(std::move(c)),
        chat(std::move(t)),
        token_hash(config.token.empty() ? "" : base::sha256_hex(config.token)),
        loop(std::move(engine)),
        metrics(http.registry()) {
    served = {.name = config.name,
              .tokenizer = loop.tokenizer(),
              .chat = chat ? &*chat : nullptr,
              .limits = loop.limits(),
              .default_max_tokens = config.default_max_tokens,
              .plain_messages = config.plain_messages};
  }

  const Route* match(const Request& request, std::string* allow) const {
    for (const Route& route : kRoutes) {
      if (!fits(route, request.path)) continue;
      if (request.method == route.method) return &route;
      if (allow) *allow += (allow->empty() ? "" : ", ") + std::string(route.method);
    }
    return nullptr;
  }

  json model_json() const {
    return {{"id", config.name},
            {"object", "model"},
            {"created", started},
            {"owned_by", "musacoder"},
            {"max_model_len", loop.limits().positions},
            {"weight_version", loop.stats().version}};
  }

  ApiResult<Reply> complete(const Request& request, bool chat_route) {
    if (draining) {
      ApiError error = api_error(503, "the server is stopping").value();
      error.retry_after_s = 5;
      return tl::unexpected(error);
    }
    if (loop.stats().open >= config.max_open) {
      http.count_refusal("open_requests");
      ApiError error =
          api_error(429, fmt::format("{} requests are open, the most this server takes", config.max_open))
              .value();
      error.retry_after_s = 1;
      return tl::unexpected(error);
    }
    MC_API_ASSIGN_OR_RETURN(const json body, net::parse_body(request));
    MC_API_ASSIGN_OR_RETURN(ApiRequest parsed,
                            chat_route ? parse_chat(body, served) : parse_completion(body, served));
    const bool stream = parsed.stream;
    const ApiRequest shape = parsed;
    auto course = std::make_shared<Course>(loop.submit(std::move(parsed.prompts)), shape, config.name,
                                           loop.tokenizer(), metrics, request.id);
    Reply reply;
    reply.pending = std::make_shared<CompletionPending>(std::move(course), stream, config.request_s);
    return reply;
  }

  ApiResult<Reply> swap(const Request& request) {
    if (config.weight_folders.empty())
      return api_error(403, "this server swaps no weights; start it with --weights-dir DIR");
    MC_API_ASSIGN_OR_RETURN(const json body, net::parse_body(request));
    if (!body.is_object()) return api_error(400, "the body is an object with `model`");
    for (const auto& [key, value] : body.items())
      if (key != "model" && key != "adapter" && key != "cache" && key != "version")
        return api_error(400, fmt::format("unrecognized request argument: {}", key.substr(0, 100)),
                         key.substr(0, 100));
    MC_API_ASSIGN_OR_RETURN(const auto model, net::text_field(body, "model", 4096));
    if (!model) return api_error(400, "`model` is missing: a folder or a GGUF file", "model");
    MC_API_ASSIGN_OR_RETURN(const auto adapter, net::text_field(body, "adapter", 4096));
    MC_API_ASSIGN_OR_RETURN(const auto cache, net::text_field(body, "cache", 16));
    if (cache && *cache != "keep" && *cache != "recompute")
      return api_error(400, "`cache` is keep or recompute", "cache");
    MC_API_ASSIGN_OR_RETURN(const auto version,
                            net::integer_field(body, "version", 0, std::int64_t{1} << 53));
    const auto model_path = allowed_path(*model, config.weight_folders);
    if (!model_path) return api_error(403, "`model` does not exist below a folder of --weights-dir", "model");
    std::optional<std::string> adapter_path;
    if (adapter && !(adapter_path = allowed_path(*adapter, config.weight_folders)))
      return api_error(403, "`adapter` does not exist below a folder of --weights-dir", "adapter");
    if (swapping->exchange(true)) return api_error(409, "weights are being swapped already");
    base::log_event(base::LogLevel::kInfo, "weights_loading",
                    {{"request", request.id}, {"model", *model_path}});
    Reply reply;
    reply.pending = std::make_shared<SwapPending>(
        loop,
        std::async(std::launch::async,
                   [model_path, adapter_path, options = config.engine] {
                     return load(*model_path, adapter_path.value_or(""), options);
                   }),
        cache == "recompute" ? SwapCache::kRecompute : SwapCache::kKeep, version, swapping, request.id);
    return reply;
  }

  ApiResult<Reply> answer(const Request& request) {
    const std::string& path = request.path;
    if (path == "/v1/chat/completions" || path == "/v1/completions")
      return complete(request, path != "/v1/completions");
    if (path == "/v1/models")
      return json_reply(200, dump_json({{"object", "list"}, {"data", {model_json()}}}));
    if (path == "/v1/weights")
      return request.method == "POST" ? swap(request)
                                      : json_reply(200, dump_json({{"version", loop.stats().version}}));
    if (path == "/metrics") {
      metrics.refresh(loop.stats());
      Reply reply = json_reply(200, http.text());
      reply.type = net::kMetricsType;
      return reply;
    }
    if (path == "/health")
      return loop.alive() ? json_reply(200, R"({"status":"healthy"})")
                          : json_reply(500, R"({"status":"failed"})");
    if (path == "/ready") return json_reply(draining ? 503 : 200, dump_json({{"ready", !draining}}));
    if (path.substr(sizeof("/v1/models/") - 1) == config.name)
      return json_reply(200, dump_json(model_json()));
    ApiError error = api_error(404, fmt::format("this server has '{}'", config.name), "model").value();
    error.code = "model_not_found";
    return tl::unexpected(error);
  }

  ModelServerConfig config;
  std::optional<ChatTemplate> chat;
  const std::string token_hash;
  const std::int64_t started = static_cast<std::int64_t>(base::real_clock().unix_time());
  net::HttpMetrics http;
  EngineLoop loop;
  ModelMetrics metrics;
  ServedModel served;
  std::atomic<bool> draining{false};
  std::shared_ptr<std::atomic<bool>> swapping = std::make_shared<std::atomic<bool>>(false);
};

Result<std::unique_ptr<ModelServer>> ModelServer::create(std::unique_ptr<Engine> engine,
                                                         ModelServerConfig config) {
  auto chat = ChatTemplate::open(config.model);
  if (!chat && chat.error().code != Code::kNotFound) return tl::unexpected(chat.error());
  return std::unique_ptr<ModelServer>(new ModelServer(
      std::make_unique<Impl>(std::move(engine), std::move(config),
                             chat ? std::optional<ChatTemplate>(std::move(*chat)) : std::nullopt)));
}

ModelServer::ModelServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelServer::~ModelServer() = default;

std::optional<Reply> ModelServer::refuse_early(const Request& request) {
  const auto refuse = [&](const ApiError& error, const char* reason) {
    impl_->http.count_refusal(reason);
    base::log_event(base::LogLevel::kInfo, "refused",
                    {{"request", request.id},
                     {"peer", request.peer},
                     {"reason", std::string(reason)},
                     {"method", request.method},
                     {"path", request.path}});
    return std::optional<Reply>(openai_error(error, request.id));
  };
  if (auto foreign = net::find_foreign(request, !impl_->token_hash.empty()))
    return refuse(foreign->error, foreign->reason);
  std::string allow;
  const Route* route = impl_->match(request, &allow);
  if (!route && !allow.empty()) {
    auto reply = refuse(
        api_error(405, fmt::format("{} is not served here; {} is", request.method.substr(0, 16), allow))
            .value(),
        "method");
    reply->headers.emplace_back("Allow", allow);
    return reply;
  }
  if (!route)
    return refuse(api_error(404,
                            "there is no such route; /v1/completions, /v1/chat/completions, /v1/models, "
                            "/v1/weights, /health, /ready and /metrics are")
                      .value(),
                  "route");
  // By hash, so that timing says nothing about the token.
  if (route->open || impl_->token_hash.empty() ||
      base::sha256_hex(net::bearer_of(request)) == impl_->token_hash)
    return std::nullopt;
  auto reply = refuse(api_error(401, "the bearer token is missing or wrong").value(), "token");
  reply->headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

Reply ModelServer::handle(const Request& request) {
  if (auto refused = refuse_early(request)) return std::move(*refused);
  auto reply = impl_->answer(request);
  return reply ? std::move(*reply) : openai_error(reply.error(), request.id);
}

Reply ModelServer::error_reply(const ApiError& error, const std::string& request_id) const {
  return openai_error(error, request_id);
}

std::string ModelServer::pattern_of(const Request& request) const {
  const Route* route = impl_->match(request, nullptr);
  return route ? route->path : "other";
}

net::HttpMetrics& ModelServer::metrics() { return impl_->http; }
void ModelServer::set_draining() { impl_->draining = true; }
bool ModelServer::failed() const { return !impl_->loop.alive(); }

}  // namespace musacoder::llm
