#include "llm/generate/cuda_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "llm/generate/cuda_layers.h"
#include "llm/kernels/cuda/load.h"

namespace musacoder::llm {
namespace {

const void* data(const at::Tensor& x) { return x.defined() ? x.const_data_ptr() : nullptr; }

// How many rows a graph is made for when `rows` are to be run.
std::int64_t bucket_of(std::int64_t rows) {
  if (rows <= 8) return rows <= 1 ? 1 : rows <= 2 ? 2 : rows <= 4 ? 4 : 8;
  const std::int64_t step = rows <= 64 ? 8 : 32;
  return (rows + step - 1) / step * step;
}

class Pinned {
 public:
  explicit Pinned(std::int64_t bytes) : memory_(cuda_kernels().mc_host_alloc(bytes)) {
    TORCH_CHECK(memory_, "no ", bytes, " bytes of host memory for the device to copy from");
  }
  ~Pinned() { cuda_kernels().mc_host_free(memory_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  char* at(std::int64_t offset) const { return static_cast<char*>(memory_) + offset; }

 private:
  void* memory_;
};

class CudaStepImpl : public CudaStep {
 public:
  CudaStepImpl(const Weights& weights, const KvCache& cache, const DeltaStates& states, const Sizes& sizes);
  ~CudaStepImpl() override {
    for (const auto& [bucket, graph] : graphs_) cuda_kernels().mc_graph_free(graph);
  }
  std::vector<Sampled> run(const std::vector<Row>& rows, const std::vector<Pick>& picks) override;
  std::vector<float> logits(std::int64_t pick) const override;

 private:
  struct Count {
    std::int64_t rows, spans, picks;
  };
  void launch(const Count& count, void* stream);
  void attend(std::int64_t layer, const CudaAttention& w, std::int64_t rows, void* stream);
  void recur(std::int64_t layer, const CudaDelta& w, const Count& count, void* stream);
  std::int64_t fill_spans(const std::vector<Row>& rows, std::int64_t used);
  void linear(int kind, const void* x, const at::Tensor& weight, const at::Tensor& bias, const void* add,
              void* y, std::int64_t rows, std::int64_t out, void* stream) const;
  void* graph_for(std::int64_t bucket);
  const MusaCoderPick* device_picks() const {
    return reinterpret_cast<const MusaCoderPick*>(static_cast<const char*>(inputs_.const_data_ptr()));
  }
  const std::int32_t* device_ints(std::int64_t offset) const {
    return reinterpret_cast<const std::int32_t*>(static_cast<const char*>(inputs_.const_data_ptr()) + offset);
  }

  ModelConfig config_;
  const KvCache& cache_;
  const DeltaStates& states_;
  std::int64_t most_rows_, most_picks_, width_;
  int type_;
  std::vector<CudaLayer> layers_;
  at::Tensor embedding_, last_norm_, head_, frequencies_;
  // `product_`, `seen_`: of either kind of layer, what its matrices give and what its last one is given.
  at::Tensor x_, normed_, product_, q_, convolved_, seen_, inner_, taken_, logits_, picked_;
  // What a step is given, in one piece: picks, ids, positions, spans, each row's span, page tables.
  std::int64_t ids_at_, positions_at_, spans_at_, span_of_at_, tables_at_;
  at::Tensor inputs_;
  Pinned host_inputs_, host_picked_;
  std::map<std::int64_t, void*> graphs_;
};

CudaStepImpl::CudaStepImpl(const Weights& weights, const KvCache& cache, const DeltaStates& states,
                           const Sizes& sizes)
    : config_(weights.config()),
      cache_(cache),
      states_(states),
      most_rows_(bucket_of(sizes.rows)),
      most_picks_(bucket_of(sizes.picks)),
      width_(KvCache::pages_for(sizes.tokens)),
      type_(kernel_type(weights.get(config_.prefix + "embed_tokens.weight"))),
      layers_(cuda_layers(weights)),
      ids_at_(most_picks_ * static_cast<std::int64_t>(sizeof(MusaCoderPick))),
      positions_at_(ids_at_ + 4 * most_rows_),
      spans_at_(positions_at_ + 4 * most_rows_),
      span_of_at_(spans_at_ + most_rows_ * static_cast<std::int64_t>(sizeof(MusaCoderSpan))),
      tables_at_(span_of_at_ + 4 * most_rows_),
      host_inputs_(tables_at_ + 4 * most_rows_ * width_),
      host_picked_(most_picks_ * static_cast<std::int64_t>(sizeof(MusaCoderPicked))) {
  const at::NoGradGuard no_grad;
  embedding_ = weights.get(config_.prefix + "embed_tokens.weight");
  last_norm_ = weights.get(config_.prefix + "norm.weight");
  head_ = config_.tied ? embedding_ : weights.get("lm_head.weight");
  frequencies_ =
      at::tensor(rotary_frequencies(config_.rotary, config_.rotary_dim), at::kFloat).to(embedding_.device());
  const at::TensorOptions same = embedding_.options().requires_grad(false);
  const DeltaConfig& delta = config_.delta;
  const std::int64_t q_width = config_.heads * config_.head_dim, values = delta.value_heads * delta.value_dim;
  std::int64_t product = 0;
  for (const CudaLayer& layer : layers_)
    product = std::max(product, (layer.delta ? layer.delta->product : layer.attention.qkv).size(0));
  x_ = at::empty({most_rows_, config_.hidden}, same);
  normed_ = at::empty_like(x_);
  product_ = at::empty({most_rows_, product}, same);
  q_ = at::empty({most_rows_, q_width}, same);
  convolved_ = at::empty({most_rows_, delta.channels()}, same);
  seen_ = at::empty({most_rows_, std::max(q_width, values)}, same);
  inner_ = at::empty({most_rows_, config_.inner}, same);
  taken_ = at::empty({most_picks_, config_.hidden}, same);
  logits_ = at::empty({most_picks_, config_.vocab}, same.dtype(at::kFloat));
  picked_ =
      at::empty({most_picks_ * static_cast<std::int64_t>(sizeof(MusaCoderPicked))}, same.dtype(at::kByte));
  inputs_ = at::empty({tables_at_ + 4 * most_rows_ * width_}, same.dtype(at::kByte));
  synchronize(embedding_.device());
}

void CudaStepImpl::linear(int kind, const void* x, const at::Tensor& weight, const at::Tensor& bias,
                          const void* add, void* y, std::int64_t rows, std::int64_t out, void* stream) const {
  check_cuda(cuda_kernels().mc_row_linear(type_, kind, x, data(weight), data(bias), add, y, rows,
                                          weight.size(1), out, stream),
             "row_linear");
}

// From normed_ into seen_, [rows, heads head_dim].
void CudaStepImpl::attend(std::int64_t layer, const CudaAttention& w, std::int64_t rows, void* stream) {
  const CudaKernels& run = cuda_kernels();
  const std::int32_t *positions = device_ints(positions_at_), *tables = device_ints(tables_at_);
  void *keys = cache_.keys(layer, 0, 0), *values = cache_.values(layer, 0, 0);
  const std::int64_t dim = config_.head_dim, width = w.qkv.size(0);
  const auto eps = static_cast<float>(config_.norm_eps);
  linear(kLinearPlain, data(normed_), w.qkv, w.qkv_bias, nullptr, product_.mutable_data_ptr(), rows, width,
         stream);
  if (config_.output_gate || config_.centred_norm || config_.rotary_dim != dim || dim > 128) {
    const MusaCoderHeads sizes{.heads = config_.heads,
                               .kv_heads = config_.kv_heads,
                               .dim = dim,
                               .rotary = config_.rotary_dim,
                               .page_tokens = kPage,
                               .eps = eps,
                               .gated = config_.output_gate,
                               .centred = config_.centred_norm};
    check_cuda(run.mc_part_rotate_into_cache(type_, &sizes, data(product_), data(w.q_norm), data(w.k_norm),
                                             frequencies_.const_data_ptr<float>(), positions, tables, width_,
                                             q_.mutable_data_ptr(), keys, values, rows, stream),
               "part_rotate_into_cache");
  } else {
    check_cuda(run.mc_rotate_into_cache(type_, data(product_), data(w.q_norm), data(w.k_norm),
                                        frequencies_.const_data_ptr<float>(), positions, tables, width_,
                                        q_.mutable_data_ptr(), keys, values, rows, config_.heads,
                                        config_.kv_heads, dim, kPage, eps, stream),
               "rotate_into_cache");
  }
  const char* gate = config_.output_gate ? static_cast<const char*>(data(product_)) +
                                               dim * static_cast<std::int64_t>(product_.element_size())
                                         : nullptr;
  check_cuda(run.mc_paged_attention(type_, data(q_), keys, values, positions, tables, width_, gate, width,
                                    seen_.mutable_data_ptr(), rows, config_.heads, config_.kv_heads, dim,
                                    1 / std::sqrt(static_cast<float>(dim)), stream),
             "paged_attention");
}

// From normed_ into seen_, [rows, value_heads value_dim].
void CudaStepImpl::recur(std::int64_t layer, const CudaDelta& w, const Count& count, void* stream) {
  const CudaKernels& run = cuda_kernels();
  const auto* spans = reinterpret_cast<const MusaCoderSpan*>(device_ints(spans_at_));
  const DeltaConfig& delta = config_.delta;
  const MusaCoderDelta sizes{.key_heads = delta.key_heads,
                             .value_heads = delta.value_heads,
                             .key_dim = delta.key_dim,
                             .value_dim = delta.value_dim,
                             .kernel = delta.kernel,
                             .width = w.product.size(0),
                             .slot_floats = states_.slot_bytes() / 4,
                             .eps = static_cast<float>(config_.norm_eps),
                             .round_norm = w.round_norm};
  linear(kLinearPlain, data(normed_), w.product, {}, nullptr, product_.mutable_data_ptr(), count.rows,
         sizes.width, stream);
  check_cuda(run.mc_delta_conv(type_, &sizes, data(product_), w.taps.const_data_ptr<float>(),
                               states_.window(0, layer), spans, device_ints(span_of_at_),
                               convolved_.mutable_data_ptr(), count.rows, stream),
             "delta_conv");
  check_cuda(run.mc_delta_rule(
                 type_, &sizes, data(product_), data(convolved_), w.a_log.const_data_ptr<float>(),
                 w.dt_bias.const_data_ptr<float>(), w.norm.const_data_ptr<float>(), states_.state(0, layer),
                 states_.window(0, layer), spans, seen_.mutable_data_ptr(), count.spans, stream),
             "delta_rule");
}

// x_ is the residual stream, in place.
void CudaStepImpl::launch(const Count& count, void* stream) {
  const CudaKernels& run = cuda_kernels();
  void* x = x_.mutable_data_ptr();
  const auto norm = [&](const at::Tensor& weight, const void* from, void* to, std::int64_t rows) {
    check_cuda(run.mc_rms_norm_forward(type_, from, nullptr, data(weight), nullptr, to, nullptr, rows,
                                       config_.hidden, static_cast<float>(config_.norm_eps),
                                       config_.centred_norm, stream),
               "rms_norm");
  };
  const std::int64_t rows = count.rows, picks = count.picks;
  check_cuda(run.mc_embed(type_, data(embedding_), device_ints(ids_at_), x, rows, config_.hidden, stream),
             "embed");
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const CudaLayer& w = layers_[static_cast<std::size_t>(i)];
    norm(w.input_norm, x, normed_.mutable_data_ptr(), rows);
    if (w.delta)
      recur(i, *w.delta, count, stream);
    else
      attend(i, w.attention, rows, stream);
    linear(kLinearAdd, data(seen_), w.delta ? w.delta->out : w.attention.o,
           w.delta ? at::Tensor() : w.attention.o_bias, x, x, rows, config_.hidden, stream);
    norm(w.post_norm, x, normed_.mutable_data_ptr(), rows);
    linear(kLinearSwiglu, data(normed_), w.gate_up, {}, nullptr, inner_.mutable_data_ptr(), rows,
           config_.inner, stream);
    linear(kLinearAdd, data(inner_), w.down, {}, x, x, rows, config_.hidden, stream);
  }
  if (picks == 0) return;
  check_cuda(
      run.mc_take_rows(type_, x, device_picks(), taken_.mutable_data_ptr(), picks, config_.hidden, stream),
      "take_rows");
  norm(last_norm_, data(taken_), taken_.mutable_data_ptr(), picks);
  linear(kLinearFloat, data(taken_), head_, {}, nullptr, logits_.mutable_data_ptr(), picks, config_.vocab,
         stream);
  check_cuda(
      run.mc_pick(logits_.const_data_ptr<float>(), device_picks(),
                  static_cast<MusaCoderPicked*>(picked_.mutable_data_ptr()), picks, config_.vocab, stream),
      "pick");
}

void* CudaStepImpl::graph_for(std::int64_t bucket) {
  const auto found = graphs_.find(bucket);
  if (found != graphs_.end()) return found->second;
  void *stream = nullptr, *graph = nullptr;
  check_cuda(cuda_kernels().mc_graph_begin(&stream), "graph_begin");
  launch({.rows = bucket, .spans = bucket, .picks = bucket}, stream);
  check_cuda(cuda_kernels().mc_graph_end(stream, &graph), "graph_end");
  return graphs_[bucket] = graph;
}

// Which rows are of one sequence; each that is none is a span by itself. How many spans there are.
std::int64_t CudaStepImpl::fill_spans(const std::vector<Row>& rows, std::int64_t used) {
  auto* spans = reinterpret_cast<MusaCoderSpan*>(host_inputs_.at(spans_at_));
  auto* span_of = reinterpret_cast<std::int32_t*>(host_inputs_.at(span_of_at_));
  std::int32_t count = 0;
  for (std::int64_t i = 0; i < used; ++i) {
    const bool there = i < static_cast<std::int64_t>(rows.size());
    const std::int32_t slot = there ? rows[static_cast<std::size_t>(i)].state : -1;
    if (i == 0 || slot < 0 || spans[count - 1].slot != slot)
      spans[count++] = {.first = static_cast<std::int32_t>(i), .count = 0, .slot = slot};
    ++spans[count - 1].count;
    span_of[i] = count - 1;
  }
  return count;
}

std::vector<Sampled> CudaStepImpl::run(const std::vector<Row>& rows, const std::vector<Pick>& picks) {
  const auto count = static_cast<std::int64_t>(rows.size()), wanted = static_cast<std::int64_t>(picks.size());
  TORCH_CHECK(count <= most_rows_ && wanted <= most_picks_, "a step of ", count, " rows and ", wanted,
              " tokens; there is room for ", most_rows_, " and ", most_picks_);
  bool plain = count == wanted && bucket_of(count) <= std::min(most_rows_, most_picks_);
  for (std::int64_t i = 0; i < wanted && plain; ++i) plain = picks[static_cast<std::size_t>(i)].row == i;
  const std::int64_t used = plain ? bucket_of(count) : count, used_picks = plain ? used : wanted;

  auto* host_picks = reinterpret_cast<MusaCoderPick*>(host_inputs_.at(0));
  auto* ids = reinterpret_cast<std::int32_t*>(host_inputs_.at(ids_at_));
  auto* positions = reinterpret_cast<std::int32_t*>(host_inputs_.at(positions_at_));
  auto* tables = reinterpret_cast<std::int32_t*>(host_inputs_.at(tables_at_));
  for (std::int64_t i = 0; i < used_picks; ++i) {
    host_picks[i] = {.temperature = 0, .top_p = 1, .min_p = 0, .top_k = 0, .uniform = 0, .row = -1};
    if (i >= wanted) continue;
    const Pick& one = picks[static_cast<std::size_t>(i)];
    const SamplingParams& sampling = *one.sampling;
    host_picks[i] = {.temperature = static_cast<float>(sampling.temperature),
                     .top_p = static_cast<float>(sampling.top_p),
                     .min_p = static_cast<float>(sampling.min_p),
                     .top_k = sampling.top_k,
                     .uniform = std::min(static_cast<float>(one.uniform), 0x1.fffffep-1f),
                     .row = static_cast<std::int32_t>(one.row)};
  }
  for (std::int64_t i = 0; i < used; ++i) {
    const bool there = i < count;
    const Row row = there ? rows[static_cast<std::size_t>(i)] : Row{};
    ids[i] = there ? static_cast<std::int32_t>(row.token) : 0;
    positions[i] = there ? static_cast<std::int32_t>(row.position) : -1;
    if (!there) continue;
    const auto pages = static_cast<std::size_t>(KvCache::pages_for(row.position + 1));
    std::memcpy(tables + i * width_, row.table->pages.data(), pages * sizeof(std::int32_t));
  }
  const std::int64_t spans = fill_spans(rows, used);
  plain = plain && spans == used;
  void* stream = cuda_stream(x_);
  char* to = static_cast<char*>(inputs_.mutable_data_ptr());
  check_cuda(cuda_kernels().mc_copy(to, host_inputs_.at(0), tables_at_ + 4 * count * width_, stream), "copy");
  if (plain)
    check_cuda(cuda_kernels().mc_graph_run(graph_for(used), stream), "graph");
  else
    launch({.rows = used, .spans = spans, .picks = used_picks}, stream);
  std::vector<Sampled> out(picks.size());
  const auto bytes = wanted * static_cast<std::int64_t>(sizeof(MusaCoderPicked));
  if (wanted > 0)
    check_cuda(cuda_kernels().mc_copy(host_picked_.at(0), data(picked_), bytes, stream), "copy");
  check_cuda(cuda_kernels().mc_wait(stream), "a step on the GPU");
  const auto* picked = reinterpret_cast<const MusaCoderPicked*>(host_picked_.at(0));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = {static_cast<TokenId>(picked[i].token), picked[i].logprob};
  return out;
}

std::vector<float> CudaStepImpl::logits(std::int64_t pick) const {
  const at::Tensor row = logits_[pick].to(at::kCPU);
  const float* from = row.const_data_ptr<float>();
  return {from, from + row.numel()};
}

}  // namespace

Result<std::unique_ptr<CudaStep>> CudaStep::open(const Weights& weights, const KvCache& cache,
                                                 const DeltaStates& states, const Sizes& sizes) {
  if (!have_cuda_kernels())
    return fail(Code::kUnsupported,
                "generation on a GPU: its kernels are not installed (libmusacoder_llm_cuda.so; it is built "
                "where nvcc is found)");
  MC_RETURN_IF_ERROR(check_cuda_layers(weights));
  try {
    return std::make_unique<CudaStepImpl>(weights, cache, states, sizes);
  } catch (const std::exception& error) {
    return fail(Code::kResourceExhausted, "no room for a step on the GPU: {}", error.what());
  }
}

}  // namespace musacoder::llm
