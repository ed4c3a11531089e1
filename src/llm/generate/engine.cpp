#include "llm/generate/engine.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "llm/checkpoint/strict_json.h"
#include "llm/generate/cached_attention.h"
#include "llm/generate/kv_cache.h"
#include "llm/generate/stop_text.h"
#include "llm/kernels/row_ops.h"
#include "llm/model/decoder.h"
#include "llm/torch.h"

namespace musacoder::llm {
namespace {

struct Sample {
  Sample(int number, const Tokenizer* tokenizer, const std::vector<std::string>& stops)
      : index(number), stop(stops) {
    if (tokenizer) stream.emplace(*tokenizer, /*skip_special=*/true);
  }
  int index;
  PageTable table;
  std::vector<TokenId> answer;
  std::optional<StreamDecoder> stream;
  StopText stop;
};

struct Running {
  std::uint64_t id = 0;
  GenerateRequest request;
  std::int64_t prefilled = 0;   // tokens of the prompt that are in the cache
  PageTable prompt;             // until the samples take it over
  std::vector<Sample> samples;  // those that have not ended; none while the prompt is read first
  std::int64_t reserved = 0;    // pages it may still take
  // The prompt is not in the cache: it has just come, or its weights were swapped. Then there may be samples
  // already.
  bool reading() const { return prefilled < static_cast<std::int64_t>(request.prompt.size()); }
  bool fresh() const { return reading() && samples.empty(); }
  int slots() const { return fresh() ? request.samples : static_cast<int>(samples.size()); }
};

// The ids at which the model ends: of config.json, generation_config.json and the tokenizer.
std::set<TokenId> end_ids(const std::string& model, const ModelConfig& config, const Tokenizer* tokenizer) {
  std::set<TokenId> out;
  for (const std::int64_t id : config.eos) out.insert(static_cast<TokenId>(id));
  if (tokenizer)
    if (const auto id = tokenizer->named_id("eos_token")) out.insert(*id);
  const std::string path = model + "/generation_config.json";
  if (!std::filesystem::exists(path)) return out;
  const auto text = base::read_file(path, 1 << 20);
  const auto given = text ? parse_strict_json(*text, path) : tl::unexpected(text.error());
  if (!given || !given->is_object() || !given->contains("eos_token_id")) return out;
  const auto eos = (*given)["eos_token_id"];
  for (const auto& id : eos.is_array() ? eos : nlohmann::ordered_json::array({eos}))
    if (id.is_number_integer()) out.insert(id.get<TokenId>());
  return out;
}

class CpuEngine : public Engine {
 public:
  CpuEngine(const std::string& model, const Weights& weights, const Lora* lora,
            std::optional<Tokenizer> tokenizer, const EngineOptions& options)
      : options_(options),
        decoder_(weights, lora),
        tokenizer_(std::move(tokenizer)),
        sampler_(vocabulary()),
        cache_(weights.config(), decoder_.head().scalar_type() == at::kBFloat16 ? at::kBFloat16 : at::kFloat,
               options.cache_tokens),
        ends_(end_ids(model, weights.config(), this->tokenizer())) {}

  const Tokenizer* tokenizer() const override { return tokenizer_ ? &*tokenizer_ : nullptr; }
  std::size_t vocabulary() const override { return static_cast<std::size_t>(decoder_.config().vocab); }
  EngineLimits limits() const override {
    return {vocabulary(), decoder_.config().max_positions, cache_.pages() * kPage, options_.max_running};
  }
  bool idle() const override { return waiting_.empty() && running_.empty(); }
  Counts counts() const override {
    Counts out = counts_;
    out.free_tokens = cache_.free_pages() * kPage;
    return out;
  }

  Result<std::uint64_t> add(GenerateRequest request) override;
  void cancel(std::uint64_t request) override;
  Result<std::vector<TokenEvent>> step() override;
  Status swap_weights(const WeightSwap& swap) override;
  std::int64_t version() const override { return version_; }

 private:
  struct Row {  // one row of a step
    Running* owner;
    Sample* sample;  // nullptr: of the prompt
    TokenId token;
    std::int64_t position;
    bool wanted;  // its logits are
  };
  static std::int64_t pages_of(const GenerateRequest& request, std::int64_t samples);
  std::int64_t reserved() const;
  int slots() const;
  void admit();
  std::vector<Row> plan();
  at::Tensor logits_of(const std::vector<Row>& rows);
  void start_samples(Running& running);
  void forget_cache(Running& running);
  Status sample_into(Running& running, Sample& sample, const float* logits, std::vector<TokenEvent>& events);
  void remove_ended();

  EngineOptions options_;
  Decoder decoder_;
  std::optional<Tokenizer> tokenizer_;
  Sampler sampler_;
  KvCache cache_;
  std::set<TokenId> ends_;
  std::deque<Running> waiting_;
  std::deque<Running> running_;  // in the order of add(); a deque, so that pointers of a step's rows stay
  std::uint64_t next_id_ = 1;
  std::int64_t version_ = 0;
  Counts counts_;
};

// The prompt's full pages are shared, every sample has the rest to itself.
std::int64_t CpuEngine::pages_of(const GenerateRequest& request, std::int64_t samples) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t shared = prompt / kPage,
                     each = KvCache::pages_for(prompt + request.sampling.max_tokens) - shared;
  return shared + samples * each;
}

std::int64_t CpuEngine::reserved() const {
  std::int64_t out = 0;
  for (const Running& one : running_) out += one.reserved;
  return out;
}

int CpuEngine::slots() const {
  int out = 0;
  for (const Running& one : running_) out += one.slots();
  return out;
}

Result<std::uint64_t> CpuEngine::add(GenerateRequest request) {
  SamplingParams& sampling = request.sampling;
  MC_RETURN_IF_ERROR(check_sampling(sampling));
  if (request.prompt.empty()) return fail(Code::kInvalidArgument, "the prompt has no tokens");
  for (const TokenId id : request.prompt)
    if (id >= vocabulary())
      return fail(Code::kInvalidArgument, "the prompt's token {} is not below the vocabulary's size, {}", id,
                  vocabulary());
  for (const auto& [id, bias] : sampling.logit_bias)
    if (id >= vocabulary() || !(std::abs(bias) <= 100))
      return fail(Code::kInvalidArgument,
                  "logit_bias of token {} is {}; give tokens below {} and -100 to 100", id, bias,
                  vocabulary());
  if (!sampling.stop.empty() && !tokenizer_)
    return fail(Code::kInvalidArgument, "stop texts need a tokenizer, and the model has none that is read");
  if (request.top_logprobs < 0 || request.top_logprobs > kMostTopLogprobs)
    return fail(Code::kInvalidArgument, "top_logprobs is {}; give 0 to {}", request.top_logprobs,
                kMostTopLogprobs);
  if (request.samples < 1 || request.samples > options_.max_running)
    return fail(request.samples < 1 ? Code::kInvalidArgument : Code::kResourceExhausted,
                "{} samples; give 1 to {} (max_running)", request.samples, options_.max_running);
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (const std::int64_t limit = decoder_.config().max_positions; limit > 0) {
    if (prompt >= limit)
      return fail(Code::kInvalidArgument, "the prompt has {} tokens; the model has {} positions", prompt,
                  limit);
    sampling.max_tokens = static_cast<int>(std::min<std::int64_t>(sampling.max_tokens, limit - prompt));
  }
  if (pages_of(request, request.samples) > cache_.pages())
    return fail(Code::kResourceExhausted,
                "{} tokens of prompt and {} samples of up to {} need {} tokens of cache; there are {}: raise "
                "cache_tokens or lower max_tokens",
                prompt, request.samples, sampling.max_tokens, pages_of(request, request.samples) * kPage,
                cache_.pages() * kPage);
  waiting_.push_back({.id = next_id_, .request = std::move(request)});
  return next_id_++;
}

void CpuEngine::cancel(std::uint64_t request) {
  std::erase_if(waiting_, [&](const Running& one) { return one.id == request; });
  std::erase_if(running_, [&](Running& one) {
    if (one.id != request) return false;
    cache_.release(one.prompt);
    for (Sample& sample : one.samples) cache_.release(sample.table);
    return true;
  });
}

void CpuEngine::admit() {
  while (!waiting_.empty()) {
    const std::int64_t pages = pages_of(waiting_.front().request, waiting_.front().request.samples);
    if (slots() + waiting_.front().request.samples > options_.max_running ||
        reserved() + pages > cache_.free_pages())
      return;
    running_.push_back(std::move(waiting_.front()));
    running_.back().reserved = pages;
    waiting_.pop_front();
  }
}

std::vector<CpuEngine::Row> CpuEngine::plan() {
  std::vector<Row> rows;
  const auto full = [&] {
    return static_cast<int>(rows.size()) >= std::max(options_.step_tokens, options_.max_running);
  };
  const auto token_at = [](const Running& one, const Sample& sample, std::int64_t position) {
    const auto prompt = static_cast<std::int64_t>(one.request.prompt.size());
    return position < prompt ? one.request.prompt[static_cast<std::size_t>(position)]
                             : sample.answer[static_cast<std::size_t>(position - prompt)];
  };
  // A sample takes the tokens that the cache does not hold: the last one, or after a swap of weights all of
  // its answer.
  for (const bool behind : {false, true})
    for (Running& one : running_)
      for (Sample& sample : one.samples) {
        const auto known = static_cast<std::int64_t>(one.request.prompt.size() + sample.answer.size());
        if (one.reading() || behind != (sample.table.length + 1 < known)) continue;
        for (std::int64_t at = sample.table.length; at < known && !full(); ++at)
          rows.push_back({&one, &sample, token_at(one, sample, at), at, at + 1 == known});
      }
  for (Running& one : running_) {
    const auto prompt = static_cast<std::int64_t>(one.request.prompt.size());
    for (; one.prefilled < prompt && !full(); ++one.prefilled)
      rows.push_back({&one, nullptr, one.request.prompt[static_cast<std::size_t>(one.prefilled)],
                      one.prefilled, one.prefilled + 1 == prompt});
  }
  const std::int64_t free = cache_.free_pages();
  std::int64_t before = free;
  for (const Row& row : rows) {
    cache_.extend(row.sample ? row.sample->table : row.owner->prompt, row.position + 1);
    row.owner->reserved -= before - cache_.free_pages();
    before = cache_.free_pages();
  }
  return rows;
}

at::Tensor CpuEngine::logits_of(const std::vector<Row>& rows) {
  const at::NoGradGuard no_grad;
  Packed batch;
  std::vector<std::int64_t> ids, positions, wanted;
  std::vector<CachedRow> cached;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ids.push_back(rows[i].token);
    positions.push_back(rows[i].position);
    cached.push_back({rows[i].sample ? &rows[i].sample->table : &rows[i].owner->prompt, rows[i].position});
    if (rows[i].wanted) wanted.push_back(static_cast<std::int64_t>(i));
  }
  batch.ids = at::tensor(ids, at::kLong);
  batch.positions = at::tensor(positions, at::kLong);
  CachedAttention attention(cache_, std::move(cached));
  const at::Tensor hidden = decoder_.hidden(batch, attention, Rows::kIndependent);
  if (wanted.empty()) return at::empty({0, decoder_.config().vocab});
  return row_linear(hidden.index_select(0, at::tensor(wanted, at::kLong)), decoder_.head(), {}, at::kFloat);
}

void CpuEngine::start_samples(Running& running) {
  if (running.samples.empty())
    for (int i = 0; i < running.request.samples; ++i)
      running.samples.emplace_back(i, tokenizer(), running.request.sampling.stop);
  for (Sample& sample : running.samples) sample.table = cache_.fork(running.prompt);
  cache_.release(running.prompt);
}

// All of it is read again, from the prompt on; its room stays its own.
void CpuEngine::forget_cache(Running& running) {
  cache_.release(running.prompt);
  for (Sample& sample : running.samples) cache_.release(sample.table);
  running.reserved = pages_of(running.request, running.slots());
  running.prefilled = 0;
}

Status CpuEngine::swap_weights(const WeightSwap& swap) {
  ModelConfig now = decoder_.config(), next = swap.weights->config();
  now.eos = next.eos = {};
  if (now != next)
    return fail(Code::kInvalidArgument, "the new weights are of another model: sizes or settings differ");
  Decoder decoder(*swap.weights, swap.adapter);
  if (decoder.head().scalar_type() != decoder_.head().scalar_type())
    return fail(Code::kInvalidArgument, "the new weights are {}, those that run are {}",
                c10::toString(decoder.head().scalar_type()), c10::toString(decoder_.head().scalar_type()));
  decoder_ = std::move(decoder);
  version_ = swap.version.value_or(version_ + 1);
  if (swap.cache == SwapCache::kRecompute)
    for (Running& one : running_) forget_cache(one);
  return ok();
}

Status CpuEngine::sample_into(Running& running, Sample& sample, const float* logits,
                              std::vector<TokenEvent>& events) {
  const SamplingParams& sampling = running.request.sampling;
  const auto step = static_cast<std::uint64_t>(sample.answer.size());
  const Sampled next = sampler_.pick(logits, sampling, {running.request.prompt, sample.answer},
                                     static_cast<std::uint64_t>(sample.index), step);
  if (!std::isfinite(next.logprob))
    return fail(Code::kInternal,
                "the model's logits are not finite; `musacoder model inspect --check` looks at its weights");
  sample.answer.push_back(next.token);
  ++counts_.generated_tokens;
  TokenEvent event{
      .request = running.id, .sample = sample.index, .token = next.token, .logprob = next.logprob};
  event.version = version_;
  if (running.request.top_logprobs > 0)
    event.top = sampler_.likeliest(logits, sampling, running.request.top_logprobs);
  const bool end = (!sampling.ignore_eos && ends_.count(next.token)) ||
                   std::count(sampling.stop_ids.begin(), sampling.stop_ids.end(), next.token);
  if (sample.stream && !end) event.text = sample.stop.put(sample.stream->put(next.token));
  if (end || sample.stop.stopped())
    event.finish = Finish::kStop;
  else if (static_cast<int>(sample.answer.size()) >= sampling.max_tokens)
    event.finish = Finish::kLength;
  if (event.finish != Finish::kNone && sample.stream) {
    event.text += sample.stop.put(sample.stream->end());
    event.text += sample.stop.end();
    if (sample.stop.stopped()) event.finish = Finish::kStop;
  }
  if (event.finish != Finish::kNone) cache_.release(sample.table);
  events.push_back(std::move(event));
  return ok();
}

// A sample that has ended holds no pages; what it did not need of its request's reservation is given back
// with it.
void CpuEngine::remove_ended() {
  for (Running& one : running_) {
    if (one.reading()) continue;
    std::erase_if(one.samples, [](const Sample& sample) { return sample.table.length == 0; });
    const auto most = static_cast<std::int64_t>(one.request.prompt.size()) + one.request.sampling.max_tokens;
    std::int64_t left = 0;
    for (const Sample& sample : one.samples) left += KvCache::pages_for(most) - sample.table.length / kPage;
    one.reserved = std::min(one.reserved, left);
  }
  std::erase_if(running_, [](const Running& one) { return !one.reading() && one.samples.empty(); });
}

Result<std::vector<TokenEvent>> CpuEngine::step() try {
  admit();
  const std::vector<Row> rows = plan();
  std::vector<TokenEvent> events;
  if (rows.empty()) return events;
  const at::Tensor logits = logits_of(rows);
  ++counts_.steps;
  const float* row_logits = logits.const_data_ptr<float>();
  for (const Row& row : rows) {
    if (!row.sample) ++counts_.prompt_tokens;
    if (!row.wanted) continue;
    if (row.sample) {
      MC_RETURN_IF_ERROR(sample_into(*row.owner, *row.sample, row_logits, events));
    } else {
      const bool first = row.owner->samples.empty();
      start_samples(*row.owner);
      for (Sample& sample : row.owner->samples)
        if (first) MC_RETURN_IF_ERROR(sample_into(*row.owner, sample, row_logits, events));
    }
    row_logits += vocabulary();
  }
  remove_ended();
  return events;
} catch (const std::exception& error) {
  return fail(Code::kInternal, "a step of the model failed: {}", error.what());
}

}  // namespace

const char* finish_name(Finish finish) {
  return finish == Finish::kStop ? "stop" : finish == Finish::kLength ? "length" : "none";
}

std::int64_t EngineLimits::room(std::int64_t prompt, int samples) const {
  const std::int64_t shared = prompt / kPage, each = (cache_tokens / kPage - shared) / std::max(1, samples);
  const std::int64_t cached = (shared + each) * kPage - prompt;
  return positions > 0 ? std::min(cached, positions - prompt) : cached;
}

Result<Weights> Engine::read_weights(const std::string& model, const EngineOptions& options) {
  WeightType type = WeightType::kKeep;
  if (options.type == "f32")
    type = WeightType::kF32;
  else if (options.type == "bf16")
    type = WeightType::kBF16;
  else if (options.type != "keep")
    return fail(Code::kInvalidArgument, "type '{}' is not known; give keep, f32 or bf16", options.type);
  return Weights::open(model, {.type = type, .packed = true});
}

Result<std::unique_ptr<Engine>> Engine::open(const std::string& model, const EngineOptions& options) {
  if (options.cache_tokens < 1 || options.max_running < 1 || options.step_tokens < 1)
    return fail(Code::kInvalidArgument, "cache_tokens, max_running and step_tokens must be 1 or more");
  MC_ASSIGN_OR_RETURN(const Weights weights, read_weights(model, options));
  std::optional<Lora> lora;
  if (!options.adapter.empty()) {
    MC_ASSIGN_OR_RETURN(lora, Lora::open(weights, options.adapter));
  }
  auto tokenizer = Tokenizer::open(model);
  if (!tokenizer && tokenizer.error().code != Code::kNotFound) return tl::unexpected(tokenizer.error());
  try {
    return std::make_unique<CpuEngine>(
        model, weights, lora ? &*lora : nullptr,
        tokenizer ? std::optional<Tokenizer>(std::move(*tokenizer)) : std::nullopt, options);
  } catch (const std::exception& error) {
    return fail(Code::kResourceExhausted, "{}: no room for the model and {} tokens of cache: {}", model,
                options.cache_tokens, error.what());
  }
}

}  // namespace musacoder::llm
