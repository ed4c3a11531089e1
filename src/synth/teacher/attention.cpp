// Schedules of attention: scores of one query in shared memory, online softmax with a warp for each query, online softmax over tiles of keys
// in shared memory. And one step of recurrent cells.
#include <algorithm>

#include "synth/teacher/spatial.h"

namespace musacoder::synth {
namespace {

bool real(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

struct Attention {
  std::int64_t heads = 1, queries = 1, keys = 1, dim = 1, value_dim = 1;
  bool causal = false, mask = false;
  std::vector<int> merged;
};

bool describe(const Graph& graph, const Region& region, Attention& a) {
  const Node& node = graph.nodes[static_cast<std::size_t>(region.anchor)];
  if (node.op != "scaled_dot_product_attention") return false;
  const TensorType &q = graph.type(node.inputs[0]), &k = graph.type(node.inputs[1]), &v = graph.type(node.inputs[2]);
  if (!real(q.dtype)) return false;
  const std::size_t rank = q.dims.size();
  a.queries = q.dims[rank - 2].size;
  a.dim = q.dims[rank - 1].size;
  a.keys = k.dims[rank - 2].size;
  a.value_dim = v.dims[rank - 1].size;
  a.heads = q.numel() / (a.queries * a.dim);
  a.causal = node.flag("is_causal");
  a.mask = node.inputs.size() > 3;
  // One mask for all heads.
  if (a.mask) {
    const TensorType& mask = graph.type(node.inputs[3]);
    if (mask.numel() != a.queries * a.keys || mask.rank() < 2 || mask.dims[mask.dims.size() - 2].size != a.queries) return false;
  }
  a.merged = {static_cast<int>(rank) - 2, 1, 1};
  return epilogue_fits(graph, region, a.merged);
}

struct Setup {
  Attention a;
  std::string q, k, v, mask, heads, queries, keys, dim, value_dim;
};

Setup setup(AnchorUnit& unit, const std::string& d) {
  Setup s;
  describe(unit.graph(), unit.region(), s.a);
  const Node& node = unit.node();
  s.q = unit.tensor(node.inputs[0], unit.word("q", "query", "Q"));
  s.k = unit.tensor(node.inputs[1], unit.word("key", "key", "K"));
  s.v = unit.tensor(node.inputs[2], unit.word("value", "val_tensor", "V"));
  if (s.a.mask) s.mask = unit.tensor(node.inputs[3], "mask");
  s.queries = unit.word("q_len", "seq_q", "L");
  s.keys = unit.word("kv_len", "seq_k", "S");
  s.dim = unit.word("dim", "head_dim", "E");
  s.heads = unit.word("heads", "batch_heads", "BH");
  unit.size(s.queries, s.q + ".size(-2)", s.a.queries);
  unit.size(s.dim, s.q + ".size(-1)", s.a.dim);
  unit.size(s.keys, s.k + ".size(-2)", s.a.keys);
  unit.size(s.heads, fmt::format("{}.numel() / ({} * {})", s.q, s.queries, s.dim), s.a.heads);
  s.value_dim = s.dim;
  if (s.a.value_dim != s.a.dim) {
    s.value_dim = unit.word("v_dim", "value_dim", "Ev");
    unit.size(s.value_dim, s.v + ".size(-1)", s.a.value_dim);
  }
  std::string shape = "shape";
  if (s.a.merged[0] == 1) {
    shape = fmt::format("{{{}, {}, {}}}", s.heads, s.queries, s.value_dim);
  } else {
    unit.host(fmt::format("auto shape = {}.sizes().vec();", s.q));
    if (s.value_dim != s.dim) unit.host(fmt::format("shape.back() = {};", s.value_dim));
  }
  unit.result({{"head", s.heads, s.a.merged[0]}, {"row", s.queries, 1}, {d, s.value_dim, 1}}, shape);
  return s;
}

void inputs(AnchorKernel& kernel, const Setup& s) {
  for (const std::string& name : {s.q, s.k, s.v}) kernel.reads(name, "");
  if (s.a.mask) kernel.reads(s.mask, "");
  kernel.sizes({s.heads, s.queries, s.keys, s.dim});
  if (s.value_dim != s.dim) kernel.size(s.value_dim);
}

std::string scale_line(const AnchorUnit& unit, const Setup& s) {
  const Node& node = unit.node();
  if (node.has("scale")) return fmt::format("const float scale = {};\n", Writer::number(DType::kF32, node.number("scale")));
  return fmt::format("const float scale = rsqrtf(static_cast<float>({}));\n", s.dim);
}

// Statements that turn `score` of key `j` into what takes part: scaled, masked.
std::string masked(const AnchorUnit& unit, AnchorKernel& kernel, const Setup& s, const std::string& j) {
  std::string text = "score *= scale;\n";
  if (s.a.causal) {
    text += fmt::format("if ({} > row) score = -INFINITY;\n", j);
    kernel.bound(j + " > row");
  }
  if (s.a.mask) {
    const std::string at = fmt::format("row * {} + {}", s.keys, j);
    kernel.access(s.mask, "", at);
    text += unit.type(unit.node().inputs[3]).dtype == DType::kBool ? fmt::format("if (!{}) score = -INFINITY;\n", kernel.load(s.mask, at))
                                                                    : fmt::format("score += {};\n", kernel.load(s.mask, at));
  }
  return text;
}

// A block for each query: its scores in shared memory, then softmax, then the sum of values.
Result<Unit> rows(AnchorUnit& unit) {
  const Setup s = setup(unit, "d");
  const std::int64_t threads = unit.writer().draw().choose({64, 128});
  AnchorKernel kernel(unit, unit.word("attention_kernel", "attention_row_kernel", "sdpa_kernel"));
  inputs(kernel, s);
  std::string text = "extern __shared__ float scores[];\n" + fmt::format("__shared__ float partial[{}];\n", threads);
  text += kernel.index("row", "blockIdx.x", "query");
  text += kernel.index("head", "blockIdx.y", "head of one sequence");
  text += kernel.index("tid", "threadIdx.x", "thread of the block");
  text += scale_line(unit, s);
  const std::string at_q = fmt::format("(head * {} + row) * {} + e", s.queries, s.dim), at_k = fmt::format("(head * {} + j) * {} + e", s.keys, s.dim);
  const std::string at_v = fmt::format("(head * {} + j) * {} + d", s.keys, s.value_dim);
  kernel.access(s.q, "", at_q);
  kernel.access(s.k, "", at_k);
  kernel.access(s.v, "", at_v);
  kernel.loop("j", "tid", s.keys, "blockDim.x", "keys of this thread");
  kernel.loop("e", "0", s.dim, "1", "products of one query and one key");
  kernel.loop("d", "tid", s.value_dim, "blockDim.x", "elements of the result");
  const std::string reduce = "for (int step = blockDim.x / 2; step > 0; step /= 2) {\n    if (tid < step) partial[tid] = @combine@;\n    __syncthreads();\n}\n";
  text += replaced("\n// Scores of the query against all keys.\n"
                   "float best = -INFINITY;\n"
                   "for (int j = tid; j < @S@; j += blockDim.x) {\n"
                   "    float score = 0.0f;\n"
                   "    for (int e = 0; e < @E@; ++e) score += @q@ * @k@;\n" + indented(masked(unit, kernel, s, "j"), 4) +
                   "    scores[j] = score;\n"
                   "    best = fmaxf(best, score);\n"
                   "}\n"
                   "partial[tid] = best;\n__syncthreads();\n" + replaced(reduce, {{"combine", "fmaxf(partial[tid], partial[tid + step])"}}) +
                   "best = partial[0];\n__syncthreads();\n\n"
                   "// Softmax without the division.\n"
                   "float sum = 0.0f;\n"
                   "for (int j = tid; j < @S@; j += blockDim.x) {\n"
                   "    const float weight = expf(scores[j] - best);\n"
                   "    scores[j] = weight;\n"
                   "    sum += weight;\n"
                   "}\n"
                   "partial[tid] = sum;\n__syncthreads();\n" + replaced(reduce, {{"combine", "partial[tid] + partial[tid + step]"}}) +
                   "sum = partial[0];\n\n",
                   {{"S", s.keys}, {"E", s.dim}, {"q", kernel.load(s.q, at_q)}, {"k", kernel.load(s.k, at_k)}});
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc / sum"));
  text += replaced("for (int d = tid; d < @V@; d += blockDim.x) {\n    float acc = 0.0f;\n    for (int j = 0; j < @S@; ++j) acc += scores[j] * @v@;\n" + indented(tail, 4) + "}\n",
                   {{"V", s.value_dim}, {"S", s.keys}, {"v", kernel.load(s.v, at_v)}});
  kernel.body = text;
  kernel.launch({{s.queries, s.heads}, {std::to_string(threads)}, {s.a.queries, s.a.heads}, {threads}, s.keys + " * sizeof(float)", 4 * (s.a.keys + threads)});
  return unit.done();
}

// A warp for each query walks over the keys once: running maximum, running sum, and the result rescaled when the maximum grows.
Result<Unit> online(AnchorUnit& unit) {
  const Setup s = setup(unit, "d");
  const std::int64_t each = ceil_div(std::max(s.a.dim, s.a.value_dim), 32);
  const std::string per = unit.constant(unit.word("PER_LANE", "DIMS_PER_LANE", "kPerLane"), each);
  const std::string sum = unit.writer().helper("warp_all_sum",
                                               "__device__ __forceinline__ float NAME(float value) {\n"
                                               "    for (int mask = 16; mask > 0; mask >>= 1) value += __shfl_xor_sync(0xffffffff, value, mask);\n"
                                               "    return value;\n"
                                               "}\n");
  AnchorKernel kernel(unit, unit.word("flash_warp_kernel", "attention_online_kernel", "online_softmax_attention_kernel"));
  inputs(kernel, s);
  std::string text = kernel.index("warp", "(blockIdx.x * blockDim.x + threadIdx.x) / 32", "query of one head");
  text += kernel.index("lane", "threadIdx.x % 32", "lane within the warp");
  std::string inside = kernel.index("head", "warp / " + s.queries, "head of one sequence") + kernel.index("row", "warp % " + s.queries, "query");
  inside += scale_line(unit, s);
  const std::string at_q = fmt::format("(head * {} + row) * {} + e", s.queries, s.dim), at_k = fmt::format("(head * {} + j) * {} + e", s.keys, s.dim);
  const std::string at_v = fmt::format("(head * {} + j) * {} + e", s.keys, s.value_dim);
  kernel.access(s.q, "", at_q);
  kernel.access(s.k, "", at_k);
  kernel.access(s.v, "", at_v);
  kernel.bound("e < " + s.dim);
  const std::string end = s.a.causal ? "last" : s.keys;
  kernel.loop("j", "0", end, "1", "keys");
  std::string text_mask = masked(unit, kernel, s, "j");
  if (s.a.causal) {
    inside += fmt::format("const int last = row + 1 < {0} ? row + 1 : {0};\n", s.keys);
    text_mask = "score *= scale;\n";  // the loop ends at the diagonal
    kernel.facts.bounds.erase(std::remove(kernel.facts.bounds.begin(), kernel.facts.bounds.end(), std::string("j > row")), kernel.facts.bounds.end());
  }
  inside += replaced("float q_reg[@P@];\nfloat acc[@P@];\n"
                     "for (int p = 0; p < @P@; ++p) {\n"
                     "    const int e = p * 32 + lane;\n"
                     "    q_reg[p] = e < @E@ ? @q@ : 0.0f;\n"
                     "    acc[p] = 0.0f;\n"
                     "}\n"
                     "float best = -INFINITY;\nfloat sum = 0.0f;\n"
                     "for (int j = 0; j < @end@; ++j) {\n"
                     "    float score = 0.0f;\n"
                     "    for (int p = 0; p < @P@; ++p) {\n"
                     "        const int e = p * 32 + lane;\n"
                     "        if (e < @E@) score += q_reg[p] * @k@;\n"
                     "    }\n"
                     "    score = @reduce@(score);\n" + indented(text_mask, 4) +
                     std::string(s.a.mask ? "    if (score == -INFINITY) continue;\n" : "") +
                     "    const float new_best = fmaxf(best, score);\n"
                     "    const float rescale = expf(best - new_best);\n"
                     "    const float weight = expf(score - new_best);\n"
                     "    sum = sum * rescale + weight;\n"
                     "    for (int p = 0; p < @P@; ++p) {\n"
                     "        const int e = p * 32 + lane;\n"
                     "        if (e < @V@) acc[p] = acc[p] * rescale + weight * @v@;\n"
                     "    }\n"
                     "    best = new_best;\n"
                     "}\n",
                     {{"P", per}, {"E", s.dim}, {"V", s.value_dim}, {"end", end}, {"q", kernel.load(s.q, at_q)}, {"k", kernel.load(s.k, at_k)}, {"v", kernel.load(s.v, at_v)}, {"reduce", sum}});
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc[p] / sum"));
  inside += replaced("for (int p = 0; p < @P@; ++p) {\n    const int d = p * 32 + lane;\n    if (d < @V@) {\n", {{"P", per}, {"V", s.value_dim}}) + indented(tail, 8) + "    }\n}\n";
  const std::string count = s.heads + " * " + s.queries;
  kernel.body = text + kernel.guarded({{"warp", count}}, inside);
  kernel.launch({{ceil_div_text(count, "4")}, {"128"}, {ceil_div(s.a.heads * s.a.queries, 4)}, {128}, "", 0});
  return unit.done();
}

// A thread for each query, keys and values of a tile in shared memory for the whole block.
Result<Unit> tiles(AnchorUnit& unit) {
  const Setup s = setup(unit, "d");
  const std::int64_t tile = 16, threads = unit.writer().draw().choose({32, 64}), most = std::max(s.a.dim, s.a.value_dim);
  const std::string keys = unit.constant(unit.word("TILE_KEYS", "KV_TILE", "kTileKeys"), tile), dim = unit.constant(unit.word("MAX_DIM", "HEAD_MAX", "kMaxDim"), most);
  AnchorKernel kernel(unit, unit.word("flash_attention_kernel", "flash_tile_kernel", "tiled_attention_kernel"));
  inputs(kernel, s);
  std::string text = replaced("__shared__ float tile_k[@T@][@D@];\n__shared__ float tile_v[@T@][@D@];\n", {{"T", keys}, {"D", dim}});
  text += kernel.index("row", "blockIdx.x * blockDim.x + threadIdx.x", "query");
  text += kernel.index("head", "blockIdx.y", "head of one sequence");
  text += scale_line(unit, s);
  const std::string at_q = fmt::format("(head * {} + row) * {} + e", s.queries, s.dim);
  const std::string at_k = fmt::format("(head * {} + j0 + e / {}) * {} + e % {}", s.keys, s.dim, s.dim, s.dim);
  const std::string at_v = fmt::format("(head * {} + j0 + e / {}) * {} + e % {}", s.keys, s.value_dim, s.value_dim, s.value_dim);
  kernel.access(s.q, "", at_q);
  kernel.access(s.k, "", at_k);
  kernel.access(s.v, "", at_v);
  kernel.loop("j0", "0", s.keys, keys, "tiles of keys");
  kernel.loop("jj", "0", "count", "1", "keys of a tile");
  kernel.bound("row < " + s.queries);
  text += replaced("float q_reg[@D@];\nfloat acc[@D@];\n"
                   "for (int e = 0; e < @E@; ++e) q_reg[e] = row < @L@ ? @q@ : 0.0f;\n"
                   "for (int e = 0; e < @V@; ++e) acc[e] = 0.0f;\n"
                   "float best = -INFINITY;\nfloat sum = 0.0f;\n"
                   "for (int j0 = 0; j0 < @S@; j0 += @T@) {\n"
                   "    const int count = @S@ - j0 < @T@ ? @S@ - j0 : @T@;\n"
                   "    for (int e = threadIdx.x; e < count * @E@; e += blockDim.x) tile_k[e / @E@][e % @E@] = @k@;\n"
                   "    for (int e = threadIdx.x; e < count * @V@; e += blockDim.x) tile_v[e / @V@][e % @V@] = @v@;\n"
                   "    __syncthreads();\n"
                   "    if (row < @L@) {\n"
                   "        for (int jj = 0; jj < count; ++jj) {\n" +
                   std::string(s.a.causal || s.a.mask ? "            const int j = j0 + jj;\n" : "") +
                   "            float score = 0.0f;\n"
                   "            for (int e = 0; e < @E@; ++e) score += q_reg[e] * tile_k[jj][e];\n" + indented(masked(unit, kernel, s, "j"), 12) +
                   std::string(s.a.causal || s.a.mask ? "            if (score == -INFINITY) continue;\n" : "") +
                   "            const float new_best = fmaxf(best, score);\n"
                   "            const float rescale = expf(best - new_best);\n"
                   "            const float weight = expf(score - new_best);\n"
                   "            sum = sum * rescale + weight;\n"
                   "            for (int e = 0; e < @V@; ++e) acc[e] = acc[e] * rescale + weight * tile_v[jj][e];\n"
                   "            best = new_best;\n"
                   "        }\n"
                   "    }\n"
                   "    __syncthreads();\n"
                   "}\n",
                   {{"T", keys}, {"D", dim}, {"E", s.dim}, {"V", s.value_dim}, {"L", s.queries}, {"S", s.keys}, {"q", kernel.load(s.q, at_q)}, {"k", kernel.load(s.k, at_k)}, {"v", kernel.load(s.v, at_v)}});
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc[d] / sum"));
  text += replaced("if (row < @L@) {\n    for (int d = 0; d < @V@; ++d) {\n", {{"L", s.queries}, {"V", s.value_dim}}) + indented(tail, 8) + "    }\n}\n";
  kernel.body = text;
  kernel.launch({{ceil_div_text(s.queries, std::to_string(threads)), s.heads}, {std::to_string(threads)}, {ceil_div(s.a.queries, threads), s.a.heads}, {threads}, "", 4 * 2 * tile * most});
  return unit.done();
}

bool takes_rows(const Graph& g, const Region& r) {
  Attention a;
  return describe(g, r, a) && a.keys <= 8192 && a.heads <= 65535;
}
bool takes_online(const Graph& g, const Region& r) {
  Attention a;
  return describe(g, r, a) && std::max(a.dim, a.value_dim) <= 256;
}
bool takes_tiles(const Graph& g, const Region& r) {
  Attention a;
  return describe(g, r, a) && std::max(a.dim, a.value_dim) <= 128 && a.heads <= 65535;
}

// nn.RNNCell and nn.GRUCell: a thread for each unit of each row makes all its gates.
Result<Unit> cell(AnchorUnit& unit) {
  const Node& node = unit.node();
  const bool gru = node.op == "gru_cell";
  const TensorType &xt = unit.type(node.inputs[0]), &ht = unit.type(node.inputs[1]);
  const std::string x = unit.tensor(node.inputs[0], unit.word("x", "input", "x")), h = unit.tensor(node.inputs[1], unit.word("h", "hidden", "h_prev"));
  const std::string wi = unit.tensor(node.inputs[2], "w_ih"), wh = unit.tensor(node.inputs[3], "w_hh");
  std::string bi, bh;
  if (node.inputs.size() > 4) {
    bi = unit.tensor(node.inputs[4], "b_ih");
    bh = unit.tensor(node.inputs[5], "b_hh");
  }
  const std::string batch = unit.word("batch", "B", "batch_size"), in = unit.word("in_size", "I", "input_size"), size = unit.word("hid", "H", "hidden_size");
  unit.size(batch, x + ".size(0)", xt.dims[0].size);
  unit.size(in, x + ".size(1)", xt.dims[1].size);
  unit.size(size, h + ".size(1)", ht.dims[1].size);
  unit.result({{"row", batch, 1}, {"col", size, 1}}, fmt::format("{{{}, {}}}", batch, size), "idx");
  AnchorKernel kernel(unit, gru ? unit.word("gru_kernel", "gru_cell_kernel", "gru_step_kernel") : unit.word("rnn_kernel", "rnn_cell_kernel", "rnn_step_kernel"));
  for (const std::string& name : {x, h, wi, wh}) kernel.reads(name, "");
  if (!bi.empty()) {
    kernel.reads(bi, "");
    kernel.reads(bh, "");
  }
  kernel.sizes({batch, in, size});
  const std::string head = kernel.index("idx", "blockIdx.x * blockDim.x + threadIdx.x", "one unit of one row");
  std::string inside = kernel.index("row", "idx / " + size, "row of the batch") + kernel.index("col", "idx % " + size, "hidden unit");
  const std::vector<std::string> gates = gru ? std::vector<std::string>{"reset", "update", "cand"} : std::vector<std::string>{"pre"};
  std::string sum_x, sum_h;
  for (std::size_t g = 0; g < gates.size(); ++g) {
    const std::string unit_row = g == 0 ? "col" : g == 1 ? fmt::format("{} + col", size) : fmt::format("2 * {} + col", size);
    inside += fmt::format("float {}_x = {};\nfloat {}_h = {};\n", gates[g], bi.empty() ? "0.0f" : kernel.load(bi, unit_row), gates[g], bh.empty() ? "0.0f" : kernel.load(bh, unit_row));
    const std::string row = g == 0 ? "col" : "(" + unit_row + ")";
    kernel.access(wi, "", fmt::format("{} * {} + i", row, in));
    kernel.access(wh, "", fmt::format("{} * {} + i", row, size));
    sum_x += fmt::format("    {}_x += xv * {};\n", gates[g], kernel.load(wi, fmt::format("{} * {} + i", row, in)));
    sum_h += fmt::format("    {}_h += hv * {};\n", gates[g], kernel.load(wh, fmt::format("{} * {} + i", row, size)));
  }
  kernel.access(x, "", fmt::format("row * {} + i", in));
  kernel.access(h, "", fmt::format("row * {} + i", size));
  kernel.loop("i", "0", in, "1", "products with the input");
  kernel.loop("i", "0", size, "1", "products with the hidden state");
  inside += fmt::format("for (int i = 0; i < {}; ++i) {{\n    const float xv = {};\n{}}}\n", in, kernel.load(x, fmt::format("row * {} + i", in)), sum_x);
  inside += fmt::format("for (int i = 0; i < {}; ++i) {{\n    const float hv = {};\n{}}}\n", size, kernel.load(h, fmt::format("row * {} + i", size)), sum_h);
  std::string value = "tanhf(pre_x + pre_h)";
  if (gru) {
    inside += "const float reset = 1.0f / (1.0f + expf(-(reset_x + reset_h)));\n"
              "const float update = 1.0f / (1.0f + expf(-(update_x + update_h)));\n"
              "const float cand = tanhf(cand_x + reset * cand_h);\n";
    value = fmt::format("(1.0f - update) * cand + update * {}", kernel.load(h, "idx"));
  }
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(value));
  kernel.body = head + kernel.guarded({{"idx", batch + " * " + size}}, inside + tail);
  const std::int64_t threads = unit.writer().style().threads;
  kernel.launch({{ceil_div_text(batch + " * " + size, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(xt.dims[0].size * ht.dims[1].size, threads)}, {threads}, "", 0});
  return unit.done();
}

bool takes_cell(const Graph& g, const Region& r) {
  const Node& node = g.nodes[static_cast<std::size_t>(r.anchor)];
  return (node.op == "rnn_cell" || node.op == "gru_cell") && node.inputs.size() != 5 && real(g.type(node.inputs[0]).dtype) && epilogue_fits(g, r, {1, 1});
}

}  // namespace

void add_attention_schedules(Schedules& all) {
  all.push_back(anchor_schedule("attention.rows", "attention", takes_rows, rows));
  all.push_back(anchor_schedule("attention.online", "attention", takes_online, online));
  all.push_back(anchor_schedule("attention.tiles", "flash_attention", takes_tiles, tiles));
  all.push_back(anchor_schedule("cell.thread", "recurrent_cell", takes_cell, cell));
}

}  // namespace musacoder::synth
