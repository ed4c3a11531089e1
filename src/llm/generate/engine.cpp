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
  std::vector<Sample> samples;  // those that have not ended; empty while the prompt is read
  std::int64_t reserved = 0;    // pages it may still take
  std::uint64_t epoch = 0;      // of the prefixes, in which it began to be read
  bool reading() const { return prefilled < static_cast<std::int64_t>(request.prompt.size()); }
  int slots() const { return reading() ? request.samples : static_cast<int>(samples.size()); }
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

// Penalties are applied on the host, from the device's logits.
bool sampled_on_device(const SamplingParams& by) {
  return by.repetition_penalty == 1 && by.presence_penalty == 0 && by.frequency_penalty == 0;
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
        states_(weights.config(), options.max_running + kept_states()),
        prefixes_(cache_, states_, has_states(), kept_states()),
        ends_(end_ids(model, weights.config(), this->tokenizer())) {}

  const Tokenizer* tokenizer() const override { return tokenizer_ ? &*tokenizer_ : nullptr; }
  std::size_t vocabulary() const override { return static_cast<std::size_t>(decoder_.config().vocab); }
  bool idle() const override { return waiting_.empty() && running_.empty(); }
  Counts counts() const override {
    Counts out = counts_;
    out.free_tokens = room() * kPage;
    return out;
  }

  Result<std::uint64_t> add(GenerateRequest request) override;
  void cancel(std::uint64_t request) override;
  Result<std::vector<TokenEvent>> step() override;
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
  std::int64_t need(const GenerateRequest& request) const;
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
  Sampled pick(const Running& running, const Sample& sample, const float* logits);
  Status sample_into(Running& running, Sample& sample, const Sampled& next, std::vector<TokenEvent>& events);
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
  Counts counts_;
  std::unique_ptr<CudaStep> device_;  // null: on the CPU
};

// The prompt's full pages are shared, every sample has the rest to itself.
std::int64_t CpuEngine::need(const GenerateRequest& request) const {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t shared = prompt / kPage,
                     each = KvCache::pages_for(prompt + request.sampling.max_tokens) - shared;
  return shared + request.samples * each;
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
  if (!sampling.stop.empty() && !tokenizer_)
    return fail(Code::kInvalidArgument, "stop texts need a tokenizer, and the model has none that is read");
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
  if (need(request) > cache_.pages())
    return fail(Code::kResourceExhausted,
                "{} tokens of prompt and {} samples of up to {} need {} tokens of cache; there are {}: raise "
                "cache_tokens or lower max_tokens",
                prompt, request.samples, sampling.max_tokens, need(request) * kPage, cache_.pages() * kPage);
  waiting_.push_back({.id = next_id_, .request = std::move(request)});
  return next_id_++;
}

void CpuEngine::cancel(std::uint64_t request) {
  std::erase_if(waiting_, [&](const Running& one) { return one.id == request; });
  std::erase_if(running_, [&](Running& one) {
    if (one.id != request) return false;
    cache_.release(one.prompt);
    if (one.state >= 0) states_.drop(one.state);
    for (Sample& sample : one.samples) release(sample);
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
  const std::int64_t pages = need(running.request) - shared;
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
    if (slots() + waiting_.front().request.samples > options_.max_running || !admit(waiting_.front())) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

std::vector<CpuEngine::Row> CpuEngine::plan() {
  std::vector<Row> rows;
  for (Running& one : running_)
    for (Sample& sample : one.samples)
      rows.push_back({&one, &sample, sample.answer.back(), sample.table.length, true});
  for (Running& one : running_) {
    const auto prompt = static_cast<std::int64_t>(one.request.prompt.size());
    const std::int64_t until = one.snapshots.empty() ? prompt : one.snapshots.back();
    for (; one.prefilled < until &&
           static_cast<int>(rows.size()) < std::max(options_.step_tokens, options_.max_running);
         ++one.prefilled)
      rows.push_back({&one, nullptr, one.request.prompt[static_cast<std::size_t>(one.prefilled)],
                      one.prefilled, one.prefilled + 1 == prompt});
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
  for (int i = 0; i < running.request.samples; ++i) {
    Sample& sample = running.samples.emplace_back(i, tokenizer(), running.request.sampling.stop);
    sample.table = cache_.fork(running.prompt);
    sample.state = i == 0 ? running.state : states_.take();
    if (i > 0) states_.copy(running.state, sample.state);
  }
  running.state = -1;
  cache_.release(running.prompt);
}

void CpuEngine::release(Sample& sample) {
  cache_.release(sample.table);
  states_.drop(sample.state);
}

Sampled CpuEngine::pick(const Running& running, const Sample& sample, const float* logits) {
  return sampler_.pick(logits, running.request.sampling, {running.request.prompt, sample.answer},
                       static_cast<std::uint64_t>(sample.index),
                       static_cast<std::uint64_t>(sample.answer.size()));
}

Status CpuEngine::use_device(const Weights& weights) {
  std::int64_t tokens = options_.cache_tokens;
  if (const std::int64_t limit = decoder_.config().max_positions; limit > 0) tokens = std::min(tokens, limit);
  MC_ASSIGN_OR_RETURN(device_, CudaStep::open(weights, cache_,
                                              {.rows = std::max(options_.step_tokens, options_.max_running),
                                               .picks = options_.max_running,
                                               .tokens = tokens}));
  return ok();
}

// Of each sample that gets a token, in the order of step().
std::vector<Sampled> CpuEngine::sampled_of(const std::vector<Row>& rows) {
  std::vector<CudaStep::Row> given;
  std::vector<CudaStep::Pick> picks;
  for (const Row& row : rows) {
    given.push_back({row.sample ? &row.sample->table : &row.owner->prompt, row.position, row.token});
    if (!row.wanted) continue;
    const int count = row.sample ? 1 : row.owner->request.samples;
    for (int i = 0; i < count; ++i) {
      const SamplingParams& sampling = row.owner->request.sampling;
      const auto index = static_cast<std::uint64_t>(row.sample ? row.sample->index : i),
                 step = static_cast<std::uint64_t>(row.sample ? row.sample->answer.size() : 0);
      picks.push_back({static_cast<std::int64_t>(given.size()) - 1, &sampling,
                       uniform_of(sampling.seed, index, step)});
    }
  }
  return device_->run(given, picks);
}

Status CpuEngine::sample_into(Running& running, Sample& sample, const Sampled& next,
                              std::vector<TokenEvent>& events) {
  const SamplingParams& sampling = running.request.sampling;
  if (!std::isfinite(next.logprob))
    return fail(Code::kInternal,
                "the model's logits are not finite; `musacoder model inspect --check` looks at its weights");
  sample.answer.push_back(next.token);
  ++counts_.generated_tokens;
  TokenEvent event{
      .request = running.id, .sample = sample.index, .token = next.token, .logprob = next.logprob};
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
    if (!device_) return sample_into(running, sample, pick(running, sample, row_logits), events);
    const std::int64_t at = next++;
    return sample_into(running, sample,
                       sampled_on_device(running.request.sampling)
                           ? sampled[static_cast<std::size_t>(at)]
                           : pick(running, sample, device_->logits(at).data()),
                       events);
  };
  for (const Row& row : rows) {
    if (!row.sample) ++counts_.prompt_tokens;
    if (!row.wanted) continue;
    if (row.sample) {
      MC_RETURN_IF_ERROR(take(*row.owner, *row.sample));
    } else {
      start_samples(*row.owner);
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

Result<std::unique_ptr<Engine>> Engine::open(const std::string& model, const EngineOptions& options) {
  WeightType type = WeightType::kKeep;
  if (options.type == "f32")
    type = WeightType::kF32;
  else if (options.type == "bf16")
    type = WeightType::kBF16;
  else if (options.type != "keep")
    return fail(Code::kInvalidArgument, "type '{}' is not known; give keep, f32 or bf16", options.type);
  if (options.cache_tokens < 1 || options.max_running < 1 || options.step_tokens < 1)
    return fail(Code::kInvalidArgument, "cache_tokens, max_running and step_tokens must be 1 or more");
  MC_ASSIGN_OR_RETURN(const at::Device device, open_device(options.device));
  if (device.is_cuda() && !options.adapter.empty())
    return fail(Code::kUnsupported, "adapters are not built for generation on a GPU");
  MC_ASSIGN_OR_RETURN(const Weights weights, Weights::open(model, {.type = type, .device = device}));
  std::optional<Lora> lora;
  if (!options.adapter.empty()) {
    MC_ASSIGN_OR_RETURN(lora, Lora::open(weights, options.adapter));
  }
  auto tokenizer = Tokenizer::open(model);
  if (!tokenizer && tokenizer.error().code != Code::kNotFound) return tl::unexpected(tokenizer.error());
  try {
    auto engine = std::make_unique<CpuEngine>(
        model, weights, lora ? &*lora : nullptr,
        tokenizer ? std::optional<Tokenizer>(std::move(*tokenizer)) : std::nullopt, options);
    if (device.is_cuda()) MC_RETURN_IF_ERROR(engine->use_device(weights));
    return engine;
  } catch (const std::exception& error) {
    return fail(Code::kResourceExhausted, "{}: no room for the model and {} tokens of cache: {}", model,
                options.cache_tokens, error.what());
  }
}

}  // namespace musacoder::llm
