// C entry points of the generation kernels (kernels.h says what holds for all).
//
// A row is one token of some sequence: `positions` [rows] int32 says where it stands, negative for a row that
// is none. `tables` [rows, table_width] int32 are its sequence's pages; a cache is [pages, kv_heads,
// page_tokens, dim] of T. A row's results are the same bits whatever rows are beside it: every sum's order is
// given by inner lengths and positions alone.
#pragma once

#include "llm/kernels/cuda/kernels.h"

extern "C" {
#pragma GCC visibility push(default)

// out [rows, dim] = table[ids]
int mc_embed(int type, const void* table, const std::int32_t* ids, void* out, std::int64_t rows,
             std::int64_t dim, void* stream);

// y = x weight^T (+ bias) with x [rows, in], weight [out, in]; `in` a multiple of 32 (of 1 in float32).
enum MusaCoderLinear : int {
  kLinearPlain = 0,
  kLinearAdd = 1,     // y of T, rounded, then added to `add` [rows, out]; y may be `add`
  kLinearSwiglu = 2,  // weight [2 out, in], gate first: silu(gate) up
  kLinearFloat = 3    // y is float32
};
int mc_row_linear(int type, int kind, const void* x, const void* weight, const void* bias, const void* add,
                  void* y, std::int64_t rows, std::int64_t in, std::int64_t out, void* stream);

// qkv [rows, (heads + 2 kv_heads) dim] -> q [rows, heads, dim], normed and rotated by the row's position;
// keys and values go into their pages. `frequencies` [dim / 2] float32. dim: 64 or 128.
int mc_rotate_into_cache(int type, const void* qkv, const void* q_weight, const void* k_weight,
                         const float* frequencies, const std::int32_t* positions, const std::int32_t* tables,
                         std::int64_t table_width, void* q, void* keys, void* values, std::int64_t rows,
                         std::int64_t heads, std::int64_t kv_heads, std::int64_t dim,
                         std::int64_t page_tokens, float eps, void* stream);

// The same with heads that are rotated in part, and gates: qkv [rows, (heads (2 with gates) + 2 kv_heads)
// dim], each head of q followed by its gate.
struct MusaCoderHeads {
  std::int64_t heads, kv_heads, dim;  // dim: 64, 128 or 256
  std::int64_t rotary;                // the first dimensions of a head, which are rotated; even
  std::int64_t page_tokens;
  float eps;
  int gated;
  int centred;  // norms' weights lie around zero
};
// `frequencies` [rotary / 2] float32. The gates stay where they are.
int mc_part_rotate_into_cache(int type, const MusaCoderHeads* sizes, const void* qkv, const void* q_weight,
                              const void* k_weight, const float* frequencies, const std::int32_t* positions,
                              const std::int32_t* tables, std::int64_t table_width, void* q, void* keys,
                              void* values, std::int64_t rows, void* stream);

// Attention of each row over its sequence's cache up to its own position: out [rows, heads, dim]. page_tokens
// 16; dim: 64, 128 or 256. With `gate` (else null), times the sigmoid of element [row gate_width + head 2
// dim] and those behind it.
int mc_paged_attention(int type, const void* q, const void* keys, const void* values,
                       const std::int32_t* positions, const std::int32_t* tables, std::int64_t table_width,
                       const void* gate, std::int64_t gate_width, void* out, std::int64_t rows,
                       std::int64_t heads, std::int64_t kv_heads, std::int64_t dim, float scale,
                       void* stream);

// A gated DeltaNet layer's rows, each after those before it in its sequence. Rows of one sequence lie one
// behind the other: they are a span.
struct MusaCoderSpan {
  std::int32_t first, count;  // rows
  std::int32_t slot;          // of the sequence's states; negative: rows that are none
};
struct MusaCoderDelta {
  std::int64_t key_heads, value_heads, key_dim, value_dim, kernel;
  std::int64_t width;        // of `product`
  std::int64_t slot_floats;  // from a slot's states to the next one's
  float eps;
  int round_norm;  // the norm's result is rounded to T before the gate
};
// Whether the rule is built: key_dim 16, 32, 64 or 128; value_dim a multiple of 16, at most 128.
int mc_delta_takes(std::int64_t key_dim, std::int64_t value_dim);
// `product` [rows, width] of T: q, k and v (key_heads key_dim twice, value_heads value_dim; the channels),
// then z [value_heads, value_dim], a and b [value_heads]. out [rows, channels] = silu of the convolution of
// its channels. `taps` [kernel, channels] float32; `windows` of slot 0, [kernel - 1, channels] float32: the
// rows before the span's first, the latest last, left as they are. `span_of` [rows]: which span a row is in.
int mc_delta_conv(int type, const MusaCoderDelta* sizes, const void* product, const float* taps,
                  const float* windows, const MusaCoderSpan* spans, const std::int32_t* span_of, void* out,
                  std::int64_t rows, void* stream);
// The gated delta rule (model/delta_rule.h), the norm of each head and the gate: out [rows, value_heads,
// value_dim], states (of slot 0, [value_heads, key_dim, value_dim] float32) and windows moved on. `a_log`,
// `dt_bias` [value_heads] and `norm_weight` [value_dim] are float32. `count`: of the spans.
int mc_delta_rule(int type, const MusaCoderDelta* sizes, const void* product, const void* convolved,
                  const float* a_log, const float* dt_bias, const float* norm_weight, float* states,
                  float* windows, const MusaCoderSpan* spans, void* out, std::int64_t count, void* stream);

struct MusaCoderPick {
  float temperature;  // 0: the likeliest token
  float top_p, min_p;
  std::int32_t top_k;  // 0: all
  float uniform;       // in [0, 1)
  std::int32_t row;    // of the hidden states; negative: none
};
struct MusaCoderPicked {
  std::int32_t token;
  float logprob;  // at the temperature (1 for 0), of all tokens
};
// Tokens out of rows of float32 logits [count, vocab].
int mc_pick(const float* logits, const MusaCoderPick* picks, MusaCoderPicked* out, std::int64_t count,
            std::int64_t vocab, void* stream);
// out [count, dim] of T: the rows that `picks` name; zeros for none.
int mc_take_rows(int type, const void* x, const MusaCoderPick* picks, void* out, std::int64_t count,
                 std::int64_t dim, void* stream);

// Memory of the host that the device copies from without waiting; null: none to be had.
void* mc_host_alloc(std::int64_t bytes);
void mc_host_free(void* memory);
int mc_copy(void* to, const void* from, std::int64_t bytes, void* stream);
int mc_wait(void* stream);

// Launches between begin and end on the stream that begin gives are kept instead of run, to be run any number
// of times by mc_graph_run on any stream.
int mc_graph_begin(void** stream);
int mc_graph_end(void* stream, void** graph);
int mc_graph_run(void* graph, void* stream);
void mc_graph_free(void* graph);
#pragma GCC visibility pop
}
