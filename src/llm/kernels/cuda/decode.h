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

// Attention of each row over its sequence's cache up to its own position: out [rows, heads, dim]. page_tokens
// 16; at most 8 heads to a kv head.
int mc_paged_attention(int type, const void* q, const void* keys, const void* values,
                       const std::int32_t* positions, const std::int32_t* tables, std::int64_t table_width,
                       void* out, std::int64_t rows, std::int64_t heads, std::int64_t kv_heads,
                       std::int64_t dim, float scale, void* stream);

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
