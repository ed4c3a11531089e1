#include "llm/generate/cuda_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "llm/kernels/cuda/fused.h"
#include "llm/kernels/cuda/load.h"

namespace musacoder::llm {
namespace {

struct Layer {
  at::Tensor input_norm, qkv, qkv_bias, q_norm, k_norm, o, o_bias, post_norm, gate_up, down;
};

// Matrices one behind the other, as they lie already or by a copy; undefined ones: undefined.
at::Tensor together(const std::vector<at::Tensor>& parts) {
  if (!parts[0].defined()) return {};
  if (!joinable(parts)) return at::cat(parts).contiguous();
  std::int64_t rows = 0;
  for (const at::Tensor& one : parts) rows += one.size(0);
  return parts[0].as_strided({rows, parts[0].size(1)}, {parts[0].size(1), 1}, parts[0].storage_offset());
}

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
  CudaStepImpl(const Weights& weights, const KvCache& cache, const Sizes& sizes);
  ~CudaStepImpl() override {
    for (const auto& [bucket, graph] : graphs_) cuda_kernels().mc_graph_free(graph);
  }
  std::vector<Sampled> run(const std::vector<Row>& rows, const std::vector<Pick>& picks) override;
  std::vector<float> logits(std::int64_t pick) const override;

 private:
  void launch(std::int64_t rows, std::int64_t picks, void* stream);
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
  std::int64_t most_rows_, most_picks_, width_;
  int type_;
  std::vector<Layer> layers_;
  at::Tensor embedding_, last_norm_, head_, frequencies_;
  at::Tensor x_, normed_, qkv_, q_, seen_, inner_, taken_, logits_, picked_;
  // What a step is given, in one piece: picks, ids, positions, page tables.
  std::int64_t ids_at_, positions_at_, tables_at_;
  at::Tensor inputs_;
  Pinned host_inputs_, host_picked_;
  std::map<std::int64_t, void*> graphs_;
};

CudaStepImpl::CudaStepImpl(const Weights& weights, const KvCache& cache, const Sizes& sizes)
    : config_(weights.config()),
      cache_(cache),
      most_rows_(bucket_of(sizes.rows)),
      most_picks_(bucket_of(sizes.picks)),
      width_(KvCache::pages_for(sizes.tokens)),
      type_(kernel_type(weights.get("model.embed_tokens.weight"))),
      ids_at_(most_picks_ * static_cast<std::int64_t>(sizeof(MusaCoderPick))),
      positions_at_(ids_at_ + 4 * most_rows_),
      tables_at_(positions_at_ + 4 * most_rows_),
      host_inputs_(tables_at_ + 4 * most_rows_ * width_),
      host_picked_(most_picks_ * static_cast<std::int64_t>(sizeof(MusaCoderPicked))) {
  const at::NoGradGuard no_grad;
  embedding_ = weights.get("model.embed_tokens.weight");
  last_norm_ = weights.get("model.norm.weight");
  head_ = config_.tied ? embedding_ : weights.get("lm_head.weight");
  frequencies_ =
      at::tensor(rotary_frequencies(config_.rotary, config_.head_dim), at::kFloat).to(embedding_.device());
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const auto of = [&](const std::string& name) {
      const std::string whole = fmt::format("model.layers.{}.{}", i, name);
      return weights.has(whole) ? weights.get(whole) : at::Tensor();
    };
    const auto attention = [&](const std::string& kind) {
      return together(
          {of("self_attn.q_proj." + kind), of("self_attn.k_proj." + kind), of("self_attn.v_proj." + kind)});
    };
    layers_.push_back(
        {of("input_layernorm.weight"), attention("weight"), attention("bias"), of("self_attn.q_norm.weight"),
         of("self_attn.k_norm.weight"), of("self_attn.o_proj.weight"), of("self_attn.o_proj.bias"),
         of("post_attention_layernorm.weight"),
         together({of("mlp.gate_proj.weight"), of("mlp.up_proj.weight")}), of("mlp.down_proj.weight")});
  }
  const at::TensorOptions same = embedding_.options().requires_grad(false);
  const std::int64_t q_width = config_.heads * config_.head_dim;
  x_ = at::empty({most_rows_, config_.hidden}, same);
  normed_ = at::empty_like(x_);
  qkv_ = at::empty({most_rows_, q_width + 2 * config_.kv_heads * config_.head_dim}, same);
  q_ = at::empty({most_rows_, q_width}, same);
  seen_ = at::empty_like(q_);
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

// x_ is the residual stream, in place.
void CudaStepImpl::launch(std::int64_t rows, std::int64_t picks, void* stream) {
  const CudaKernels& run = cuda_kernels();
  const std::int32_t *ids = device_ints(ids_at_), *positions = device_ints(positions_at_),
                     *tables = device_ints(tables_at_);
  void* x = x_.mutable_data_ptr();
  const auto eps = static_cast<float>(config_.norm_eps);
  const auto norm = [&](const at::Tensor& weight, const void* from, void* to, std::int64_t count) {
    check_cuda(run.mc_rms_norm_forward(type_, from, nullptr, data(weight), nullptr, to, nullptr, count,
                                       config_.hidden, eps, 0, stream),
               "rms_norm");
  };
  check_cuda(run.mc_embed(type_, data(embedding_), ids, x, rows, config_.hidden, stream), "embed");
  const float scale = 1 / std::sqrt(static_cast<float>(config_.head_dim));
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const Layer& w = layers_[static_cast<std::size_t>(i)];
    void *keys = cache_.keys(i, 0, 0), *values = cache_.values(i, 0, 0);
    norm(w.input_norm, x, normed_.mutable_data_ptr(), rows);
    linear(kLinearPlain, data(normed_), w.qkv, w.qkv_bias, nullptr, qkv_.mutable_data_ptr(), rows,
           qkv_.size(1), stream);
    check_cuda(run.mc_rotate_into_cache(type_, data(qkv_), data(w.q_norm), data(w.k_norm),
                                        frequencies_.const_data_ptr<float>(), positions, tables, width_,
                                        q_.mutable_data_ptr(), keys, values, rows, config_.heads,
                                        config_.kv_heads, config_.head_dim, kPage, eps, stream),
               "rotate_into_cache");
    check_cuda(run.mc_paged_attention(type_, data(q_), keys, values, positions, tables, width_,
                                      seen_.mutable_data_ptr(), rows, config_.heads, config_.kv_heads,
                                      config_.head_dim, scale, stream),
               "paged_attention");
    linear(kLinearAdd, data(seen_), w.o, w.o_bias, x, x, rows, config_.hidden, stream);
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
  launch(bucket, bucket, stream);
  check_cuda(cuda_kernels().mc_graph_end(stream, &graph), "graph_end");
  return graphs_[bucket] = graph;
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
  void* stream = cuda_stream(x_);
  char* to = static_cast<char*>(inputs_.mutable_data_ptr());
  check_cuda(cuda_kernels().mc_copy(to, host_inputs_.at(0), tables_at_ + 4 * count * width_, stream), "copy");
  if (plain)
    check_cuda(cuda_kernels().mc_graph_run(graph_for(used), stream), "graph");
  else
    launch(used, used_picks, stream);
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
                                                 const Sizes& sizes) {
  const ModelConfig& config = weights.config();
  const auto refused = [](const std::string& what) {
    return fail(Code::kUnsupported, "generation on a GPU: {}", what);
  };
  if (!have_cuda_kernels())
    return refused(
        "its kernels are not installed (libmusacoder_llm_cuda.so; it is built where nvcc is found)");
  if (config.family != "llama" && config.family != "qwen2" && config.family != "qwen3")
    return refused(fmt::format("models of type {} are not built", config.family));
  const at::Tensor& embedding = weights.get("model.embed_tokens.weight");
  if (!fused_on(embedding)) return refused("weights must be bf16 or float32");
  for (const std::string& name : weights.names())
    if (weights.get(name).scalar_type() != embedding.scalar_type())
      return refused(fmt::format("{} is of another type than the embedding", name));
  for (const char* name : {"gate_proj", "up_proj", "down_proj"})
    if (weights.has(fmt::format("model.layers.0.mlp.{}.bias", name))) return refused("biases in the MLP");
  if (config.head_dim != 64 && config.head_dim != 128)
    return refused(fmt::format("heads of {}; 64 and 128 are built", config.head_dim));
  if (config.heads > 8 * config.kv_heads) return refused("more than 8 heads to a kv head");
  if (!fused_norm_takes(config.hidden) || config.hidden % 32 != 0 || config.inner % 32 != 0)
    return refused("hidden and inner sizes must be multiples of 32, hidden at most 8192");
  try {
    return std::make_unique<CudaStepImpl>(weights, cache, sizes);
  } catch (const std::exception& error) {
    return fail(Code::kResourceExhausted, "no room for a step on the GPU: {}", error.what());
  }
}

}  // namespace musacoder::llm
