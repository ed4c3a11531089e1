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
#include "llm/generate/cuda_step.h"
#include "llm/generate/delta_states.h"
#include "llm/generate/kv_cache.h"
#include "llm/generate/prefix_tree.h"
#include "llm/generate/stop_text.h"
#include "llm/kernels/cuda/load.h"
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
  std::int32_t state = -1;  // slot of its DeltaNet states
  std::vector<TokenId> answer;
  std::optional<StreamDecoder> stream;
  StopText stop;
};

struct Running {
  std::uint64_t id = 0;
  GenerateRequest request;
  std::int64_t prefilled = 0;  // tokens of the prompt that are in the cache
  PageTable prompt;            // until the samples take it over
  std::int32_t state = -1;     // until the samples take it over
  std::vector<std::int64_t>
      snapshots;                // lengths of the prompt at which its state is to be kept, the next one last
  std::vector<Sample> samples;  // those that have not ended; none while the prompt is read first
  std::int64_t reserved = 0;    // pages it may still take
  std::uint64_t epoch = 0;      // of the prefixes, in which it began to be read
  // The prompt is not in the cache: it has just come, or weights were swapped. Then there may be samples
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

// Penalties and biases are applied on the host, from the device's logits.
bool sampled_on_device(const SamplingParams& by) {
  return by.repetition_penalty == 1 && by.presence_penalty == 0 && by.frequency_penalty == 0 &&
         by.logit_bias.empty();
}

// A GPU's step multiplies with whole matrices: adapters are added to copies of them.
Result<Weights> for_device(const Weights& weights, const Lora* adapter, const at::Device& device) {
  if (!adapter || device.is_cpu()) return weights;
  return merged(weights, *adapter);
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
               options.cache_tokens, decoder_.head().device()),
        states_(weights.config(), options.max_running + kept_states(), decoder_.head().device()),
        prefixes_(cache_, states_, has_states(), kept_states()),
        ends_(end_ids(model, weights.config(), this->tokenizer())) {}

  const Tokenizer* tokenizer() const override { return tokenizer_ ? &*tokenizer_ : nullptr; }
  std::size_t vocabulary() const override { return static_cast<std::size_t>(decoder_.config().vocab); }
  EngineLimits limits() const override {
    return {vocabulary(), decoder_.config().max_positions, cache_.pages() * kPage, options_.max_running};
  }
  bool idle() const override { return waiting_.empty() && running_.empty(); }
  Counts counts() const override {
    Counts out = counts_;
    out.free_tokens = room() * kPage;
    return out;
  }

  Result<std::uint64_t> add(GenerateRequest request) override;
  void cancel(std::uint64_t request) override;
  Result<std::vector<TokenEvent>> step() override;
  Status swap_weights(const WeightSwap& swap) override;
  std::int64_t version() const override { return version_; }
  // To be called once before all else when the weights lie on a GPU.
  Status use_device(const Weights& weights);

 private:
  struct Row {  // one row of a step
    Running* owner;
    Sample* sample;  // nullptr: of the prompt
    TokenId token;
    std::int64_t position;
    bool wanted;  // its logits are
  };
  bool has_states() const { return decoder_.config().count(LayerKind::kDelta) > 0; }
  int kept_states() const { return has_states() && options_.share_prefixes ? options_.prefix_states : 0; }
  bool may_keep(const Running& one) const {
    return options_.share_prefixes && one.epoch == prefixes_.epoch();
  }
  std::int64_t room() const { return cache_.free_pages() + cache_.idle_pages(); }
  static std::int64_t pages_of(const GenerateRequest& request, std::int64_t samples);
  std::int64_t reserved() const;
  int slots() const;
  void admit();
  bool admit(Running& running);
  std::vector<Row> plan();
  at::Tensor logits_of(const std::vector<Row>& rows);
  void keep_prefix(Running& running);
  void keep_answer(Running& running, Sample& sample);
  void start_samples(Running& running);
  void release(Sample& sample);
  void release(Running& running);
  void read_again();
  Result<std::unique_ptr<CudaStep>> device_step(const Weights& weights) const;
  Sampled pick(const Running& running, const Sample& sample, const float* logits);
  Status sample_into(Running& running, Sample& sample, const Sampled& next, const float* logits,
                     std::vector<TokenEvent>& events);
  std::vector<Sampled> sampled_of(const std::vector<Row>& rows);
  void remove_ended();

  EngineOptions options_;
  Decoder decoder_;
  std::optional<Tokenizer> tokenizer_;
  Sampler sampler_;
  KvCache cache_;
  DeltaStates states_;
  PrefixTree prefixes_;
  std::set<TokenId> ends_;
  std::deque<Running> waiting_;
  std::deque<Running> running_;  // in the order of add(); a deque, so that pointers of a step's rows stay
  std::uint64_t next_id_ = 1;
  std::int64_t version_ = 0;
  Counts counts_;
  std::unique_ptr<CudaStep> device_;  // null: on the CPU
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
    release(one);
    return true;
  });
}

// Takes over what an earlier request has read, if there is room for the rest.
bool CpuEngine::admit(Running& running) {
  const std::vector<TokenId>& prompt = running.request.prompt;
  PrefixTree::Found found;
  if (options_.share_prefixes) found = prefixes_.find(prompt);
  const auto shared = static_cast<std::int64_t>(found.pages.size());
  running.prompt = cache_.begin_with(std::move(found.pages));  // no longer idle: counted before the room is
  const std::int64_t pages = pages_of(running.request, running.slots()) - shared;
  if (reserved() + pages > room()) {
    cache_.release(running.prompt);
    return false;
  }
  running.reserved = pages;
  running.epoch = prefixes_.epoch();
  running.prefilled = running.prompt.length;
  counts_.reused_tokens += running.prefilled;
  running.state = states_.take();
  if (found.state >= 0) states_.copy(found.state, running.state);
  if (kept_states() > 0) {
    const auto last = (static_cast<std::int64_t>(prompt.size()) - 1) / kPage;
    // Where another prompt has been the same so far and no state was kept, more may come that are; and at the
    // end, for the same prompt again.
    for (const std::int64_t page : {last, found.known})
      if (page > shared && (running.snapshots.empty() || page < last))
        running.snapshots.push_back(page * kPage);
  }
  return true;
}

void CpuEngine::admit() {
  while (!waiting_.empty()) {
    if (slots() + waiting_.front().slots() > options_.max_running || !admit(waiting_.front())) return;
    running_.push_back(std::move(waiting_.front()));
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
    const std::int64_t until = one.snapshots.empty() ? prompt : one.snapshots.back();
    for (; one.prefilled < until && !full(); ++one.prefilled)
      rows.push_back({&one, nullptr, one.request.prompt[static_cast<std::size_t>(one.prefilled)],
                      one.prefilled, one.prefilled + 1 == prompt && one.samples.empty()});
  }
  for (const Row& row : rows) {
    const std::int64_t before = room();
    cache_.extend(row.sample ? row.sample->table : row.owner->prompt, row.position + 1);
    row.owner->reserved -= before - room();
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
    if (const Sample* sample = rows[i].sample)
      cached.push_back({&sample->table, rows[i].position, sample->state});
    else
      cached.push_back({&rows[i].owner->prompt, rows[i].position, rows[i].owner->state});
    if (rows[i].wanted) wanted.push_back(static_cast<std::int64_t>(i));
  }
  batch.ids = at::tensor(ids, at::kLong);
  batch.positions = at::tensor(positions, at::kLong);
  CachedAttention attention(cache_, states_, std::move(cached));
  const at::Tensor hidden = decoder_.hidden(batch, attention, Rows::kIndependent);
  if (wanted.empty()) return at::empty({0, decoder_.config().vocab});
  return row_linear(hidden.index_select(0, at::tensor(wanted, at::kLong)), decoder_.head(), {}, at::kFloat);
}

// What has been read of a prompt, up to here, is kept for requests that begin alike.
void CpuEngine::keep_prefix(Running& running) {
  if (!may_keep(running)) return;
  const std::span<const TokenId> read(running.request.prompt.data(),
                                      static_cast<std::size_t>(running.prefilled));
  prefixes_.insert(read, running.prompt);
  if (running.snapshots.empty() || running.snapshots.back() != running.prefilled) return;
  running.snapshots.pop_back();
  prefixes_.keep_state(read, running.state);
}

// A conversation's next turn begins with the answer. There is no state of a page's end in the middle of an
// answer, so with DeltaNet layers its pages would be of no use.
void CpuEngine::keep_answer(Running& running, Sample& sample) {
  if (!may_keep(running) || has_states()) return;
  std::vector<TokenId> read = running.request.prompt;
  read.insert(read.end(), sample.answer.begin(), sample.answer.end());
  prefixes_.insert(read, sample.table);
}

void CpuEngine::start_samples(Running& running) {
  if (running.samples.empty())
    for (int i = 0; i < running.request.samples; ++i)
      running.samples.emplace_back(i, tokenizer(), running.request.sampling.stop);
  for (Sample& sample : running.samples) {
    sample.table = cache_.fork(running.prompt);
    if (running.state >= 0) {
      sample.state = std::exchange(running.state, -1);
    } else {
      sample.state = states_.take();
      states_.copy(running.samples.front().state, sample.state);
    }
  }
  cache_.release(running.prompt);
}

void CpuEngine::release(Sample& sample) {
  cache_.release(sample.table);
  if (sample.state >= 0) states_.drop(std::exchange(sample.state, -1));
}

void CpuEngine::release(Running& running) {
  cache_.release(running.prompt);
  if (running.state >= 0) states_.drop(std::exchange(running.state, -1));
  for (Sample& sample : running.samples) release(sample);
}

// All that runs is read again from the prompt on, states included. It is admitted anew, before those that
// have not begun: requests that shared pages each need their own until one of them has been read, so there
// may not be room for all of them at once.
void CpuEngine::read_again() {
  for (; !running_.empty(); running_.pop_back()) {
    Running& one = running_.back();
    release(one);
    one.prefilled = one.reserved = 0;
    waiting_.push_front(std::move(one));
  }
}

Status CpuEngine::swap_weights(const WeightSwap& swap) try {
  ModelConfig now = decoder_.config(), next = swap.weights->config();
  now.eos = next.eos = {};
  next.prefix = now.prefix;  // a matter of the files' names
  if (now != next)
    return fail(Code::kInvalidArgument, "the new weights are of another model: sizes or settings differ");
  MC_ASSIGN_OR_RETURN(const Weights weights,
                      for_device(*swap.weights, swap.adapter, decoder_.head().device()));
  Decoder decoder(weights, device_ ? nullptr : swap.adapter);
  if (decoder.head().scalar_type() != decoder_.head().scalar_type())
    return fail(Code::kInvalidArgument, "the new weights are {}, those that run are {}",
                c10::toString(decoder.head().scalar_type()), c10::toString(decoder_.head().scalar_type()));
  if (decoder.head().device() != decoder_.head().device())
    return fail(Code::kInvalidArgument, "the new weights are on {}, those that run are on {}",
                decoder.head().device().str(), decoder_.head().device().str());
  if (device_) {
    MC_ASSIGN_OR_RETURN(device_, device_step(weights));
  }
  decoder_ = std::move(decoder);
  version_ = swap.version.value_or(version_ + 1);
  prefixes_.clear();
  for (Running& one : running_) one.snapshots.clear();  // of what may not be kept any more
  if (swap.cache == SwapCache::kRecompute) read_again();
  return ok();
} catch (const std::exception& error) {
  return fail(Code::kResourceExhausted, "no room for the new weights beside the old: {}", error.what());
}

Sampled CpuEngine::pick(const Running& running, const Sample& sample, const float* logits) {
  return sampler_.pick(logits, running.request.sampling, {running.request.prompt, sample.answer},
                       static_cast<std::uint64_t>(sample.index),
                       static_cast<std::uint64_t>(sample.answer.size()));
}

Result<std::unique_ptr<CudaStep>> CpuEngine::device_step(const Weights& weights) const {
  std::int64_t tokens = options_.cache_tokens;
  if (const std::int64_t limit = decoder_.config().max_positions; limit > 0) tokens = std::min(tokens, limit);
  return CudaStep::open(weights, cache_, states_,
                        {.rows = std::max(options_.step_tokens, options_.max_running),
                         .picks = options_.max_running,
                         .tokens = tokens});
}

Status CpuEngine::use_device(const Weights& weights) {
  MC_ASSIGN_OR_RETURN(device_, device_step(weights));
  return ok();
}

// Of each sample that gets a token, in the order of step().
std::vector<Sampled> CpuEngine::sampled_of(const std::vector<Row>& rows) {
  std::vector<CudaStep::Row> given;
  std::vector<CudaStep::Pick> picks;
  for (const Row& row : rows) {
    given.push_back({row.sample ? &row.sample->table : &row.owner->prompt, row.position, row.token,
                     row.sample ? row.sample->state : row.owner->state});
    if (!row.wanted) continue;
    const int count = row.sample ? 1 : row.owner->request.samples;
    for (int i = 0; i < count; ++i) {
      const SamplingParams& sampling = row.owner->request.sampling;
      const auto index = static_cast<std::uint64_t>(row.sample ? row.sample->index : i),
                 step = static_cast<std::uint64_t>(row.sample ? row.sample->answer.size() : 0);
      picks.push_back(
          {static_cast<std::int64_t>(given.size()) - 1, &sampling, uniform_of(sampling.seed, index, step)});
    }
  }
  return device_->run(given, picks);
}

// `logits`: null where the request asks for nothing that needs them.
Status CpuEngine::sample_into(Running& running, Sample& sample, const Sampled& next, const float* logits,
                              std::vector<TokenEvent>& events) {
  const SamplingParams& sampling = running.request.sampling;
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
  if (event.finish != Finish::kNone) {
    keep_answer(running, sample);
    release(sample);
  }
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
  at::Tensor logits;
  std::vector<Sampled> sampled;
  if (device_)
    sampled = sampled_of(rows);
  else
    logits = logits_of(rows);
  ++counts_.steps;
  for (Running& one : running_)
    if (one.state >= 0) keep_prefix(one);
  const float* row_logits = device_ ? nullptr : logits.const_data_ptr<float>();
  std::int64_t next = 0;  // of `sampled`
  const auto take = [&](Running& running, Sample& sample) {
    if (!device_) return sample_into(running, sample, pick(running, sample, row_logits), row_logits, events);
    const std::int64_t at = next++;
    const bool sampled_there = sampled_on_device(running.request.sampling);
    std::vector<float> fetched;
    if (!sampled_there || running.request.top_logprobs > 0) fetched = device_->logits(at);
    return sample_into(
        running, sample,
        sampled_there ? sampled[static_cast<std::size_t>(at)] : pick(running, sample, fetched.data()),
        fetched.data(), events);
  };
  for (const Row& row : rows) {
    if (!row.sample) {
      ++counts_.prompt_tokens;
      if (row.position + 1 == static_cast<std::int64_t>(row.owner->request.prompt.size()))
        start_samples(*row.owner);
    }
    if (!row.wanted) continue;
    if (row.sample) {
      MC_RETURN_IF_ERROR(take(*row.owner, *row.sample));
    } else {
      for (Sample& sample : row.owner->samples) MC_RETURN_IF_ERROR(take(*row.owner, sample));
    }
    if (!device_) row_logits += vocabulary();
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
  MC_ASSIGN_OR_RETURN(const at::Device device, open_device(options.device));
  return Weights::open(model, {.type = type, .device = device, .packed = device.is_cpu()});
}

Result<std::unique_ptr<Engine>> Engine::open(const std::string& model, const EngineOptions& options) {
  if (options.cache_tokens < 1 || options.max_running < 1 || options.step_tokens < 1)
    return fail(Code::kInvalidArgument, "cache_tokens, max_running and step_tokens must be 1 or more");
  MC_ASSIGN_OR_RETURN(const at::Device device, open_device(options.device));
  MC_ASSIGN_OR_RETURN(Weights weights, read_weights(model, options));
  std::optional<Lora> lora;
  if (!options.adapter.empty()) {
    MC_ASSIGN_OR_RETURN(lora, Lora::open(weights, options.adapter));
  }
  auto tokenizer = Tokenizer::open(model);
  if (!tokenizer && tokenizer.error().code != Code::kNotFound) return tl::unexpected(tokenizer.error());
  try {
    MC_ASSIGN_OR_RETURN(weights, for_device(weights, lora ? &*lora : nullptr, device));
    auto engine = std::make_unique<CpuEngine>(
        model, weights, lora && device.is_cpu() ? &*lora : nullptr,
        tokenizer ? std::optional<Tokenizer>(std::move(*tokenizer)) : std::nullopt, options);
    if (device.is_cuda()) MC_RETURN_IF_ERROR(engine->use_device(weights));
    return engine;
  } catch (const std::exception& error) {
    return fail(Code::kResourceExhausted, "{}: no room for the model and {} tokens of cache: {}", model,
                options.cache_tokens, error.what());
  }
}

}  // namespace musacoder::llm
