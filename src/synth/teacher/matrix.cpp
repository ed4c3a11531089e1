// Schedules of matrix products: one thread an output, shared-memory tiles, register blocks, a warp or a block for each dot product, split K.
#include <string>

#include "synth/graph/ops.h"
#include "synth/teacher/anchor_unit.h"

namespace musacoder::synth {
namespace {

using Names = std::vector<std::pair<std::string, std::string>>;

// A product as kernels see it: (batch of) m × k times k × n.
struct Product {
  int a = -1, b = -1, bias = -1;
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool batched = false;         // the result has an axis of matrices
  bool a_batched = false, b_batched = false;
  bool b_rows_are_n = false;    // b is (n, k): linear
  bool vector = false;          // b is (k,): one column
  std::vector<int> merged;      // axes of the result
};

bool real(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

bool describe(const Graph& graph, const Region& region, Product& p) {
  const Node& node = graph.nodes[static_cast<std::size_t>(region.anchor)];
  static const char* const known[] = {"linear", "matmul", "bmm", "mm", "mv", "addmm", "baddbmm"};
  bool is_known = false;
  for (const char* name : known) is_known = is_known || node.op == name;
  if (!is_known) return false;
  const bool add = node.op == "addmm" || node.op == "baddbmm";
  p.a = node.inputs[add ? 1 : 0];
  p.b = node.inputs[add ? 2 : 1];
  if (add) p.bias = node.inputs[0];
  if (node.op == "linear" && node.inputs.size() > 2) p.bias = node.inputs[2];
  const TensorType &a = graph.type(p.a), &b = graph.type(p.b), &out = graph.type(node.outputs[0]);
  if (!real(out.dtype) || a.rank() < 2) return false;
  p.k = a.dims.back().size;
  if (node.op == "linear") {
    p.b_rows_are_n = true;
    p.n = b.dims[0].size;
    p.m = a.numel() / p.k;
    p.merged = {a.rank() - 1, 1};
  } else if (b.rank() == 1) {
    p.vector = true;
    p.m = a.numel() / p.k;
    p.merged = {a.rank() - 1};
  } else if (b.rank() == 2) {
    p.n = b.dims[1].size;
    p.m = a.numel() / p.k;
    p.merged = {a.rank() - 1, 1};
  } else {
    p.m = a.dims[static_cast<std::size_t>(a.rank()) - 2].size;
    p.n = b.dims.back().size;
    p.batched = true;
    p.b_batched = true;
    p.batch = b.numel() / (p.k * p.n);
    p.a_batched = a.rank() > 2;
    if (p.a_batched)
      for (int d = 0; d + 2 < b.rank(); ++d)
        if (a.rank() != b.rank() || a.dims[static_cast<std::size_t>(d)].size != b.dims[static_cast<std::size_t>(d)].size) return false;
    p.merged = {out.rank() - 2, 1, 1};
  }
  return epilogue_fits(graph, region, p.merged);
}

// Names and index texts of one product in one unit.
struct Setup {
  Product p;
  std::string a, b, bias, m, n, k, batch, row, col, mat;
  std::string a_row, a_col, b_row, b_col;  // strides, where an operand has them

  std::string at_a(const std::string& r, const std::string& i) const {
    if (!a_row.empty()) return fmt::format("{}{} * {} + {} * {}", p.a_batched ? mat + " * " + a + "_batch + " : "", r, a_row, i, a_col);
    return p.a_batched ? fmt::format("({} * {} + {}) * {} + {}", mat, m, r, k, i) : fmt::format("{} * {} + {}", r, k, i);
  }
  std::string at_b(const std::string& i, const std::string& c) const {
    if (p.vector) return i;
    if (!b_row.empty()) return fmt::format("{}{} * {} + {} * {}", p.b_batched ? mat + " * " + b + "_batch + " : "", i, b_row, c, b_col);
    if (p.b_rows_are_n) return fmt::format("{} * {} + {}", c, k, i);
    return p.b_batched ? fmt::format("({} * {} + {}) * {} + {}", mat, k, i, n, c) : fmt::format("{} * {} + {}", i, n, c);
  }
};

// Arguments and sizes. Strides are taken of operands that are views of two or three axes.
Setup setup(AnchorUnit& unit) {
  Setup s;
  describe(unit.graph(), unit.region(), s.p);
  Product& p = s.p;
  const TensorType &a = unit.type(p.a), &b = unit.type(p.b);
  const bool linear = p.b_rows_are_n;
  s.m = unit.word("m", "M", "rows");
  s.n = linear ? unit.word("n", "N", "out_features") : unit.word("n", "N", "cols");
  s.k = linear ? unit.word("k", "K", "in_features") : unit.word("k", "K", "inner");
  s.batch = unit.word("batch", "B", "batch_size");
  s.row = unit.word("row", "row", "r");
  s.col = unit.word("col", "col", "c");
  s.mat = unit.word("b_idx", "bz", "mat");
  const bool a_strided = !a.contiguous && (a.rank() == 2 || (a.rank() == 3 && p.a_batched));
  const bool b_strided = !b.contiguous && (b.rank() == 2 || b.rank() == 3) && !linear;
  s.a = unit.tensor(p.a, linear ? unit.word("x", "input", "x") : unit.word("a", "A", "lhs"), a_strided);
  s.b = unit.tensor(p.b, linear ? unit.word("w", "weight", "weight") : p.vector ? unit.word("x", "vec", "v") : unit.word("b", "B_mat", "rhs"), b_strided);
  if (p.bias >= 0) s.bias = unit.tensor(p.bias, "bias");
  unit.size(s.k, s.a + ".size(-1)", p.k);
  if (p.batched) {
    unit.size(s.m, s.a + ".size(-2)", p.m);
    unit.size(s.n, s.b + ".size(-1)", p.n);
    unit.size(s.batch, b.rank() == 3 ? s.b + ".size(0)" : fmt::format("{}.numel() / ({} * {})", s.b, s.k, s.n), p.batch);
  } else {
    unit.size(s.m, a.rank() == 2 ? s.a + ".size(0)" : fmt::format("{}.numel() / {}", s.a, s.k), p.m);
    if (!p.vector) unit.size(s.n, s.b + (linear ? ".size(0)" : ".size(1)"), p.n);
  }
  const auto strides = [&](const std::string& name, bool batched, std::string& row, std::string& col) {
    row = name + "_row";
    col = name + "_col";
    unit.stride(row, name + ".stride(-2)");
    unit.stride(col, name + ".stride(-1)");
    if (batched) unit.stride(name + "_batch", name + ".stride(0)");
  };
  if (a_strided) strides(s.a, p.a_batched, s.a_row, s.a_col);
  if (b_strided) strides(s.b, p.b_batched, s.b_row, s.b_col);
  const int rank = unit.type(unit.node().outputs[0]).rank();
  std::string shape;
  std::vector<OutAxis> axes;
  if (p.batched) axes.push_back({s.mat, s.batch, p.merged[0]});
  axes.push_back({s.row, s.m, p.merged[p.batched ? 1 : 0]});
  if (!p.vector) axes.push_back({s.col, s.n, 1});
  if (rank == static_cast<int>(axes.size())) {
    for (const OutAxis& axis : axes) shape += (shape.empty() ? "" : ", ") + axis.size;
    shape = "{" + shape + "}";
  } else {
    shape = "shape";
    unit.host(fmt::format("auto shape = {}.sizes().vec();", p.batched && !p.a_batched ? s.b : s.a));
    if (p.vector) unit.host("shape.pop_back();");
    else unit.host(fmt::format("shape.back() = {};", s.n));
    if (p.batched && !p.a_batched) unit.host(fmt::format("shape[shape.size() - 2] = {};", s.m));
  }
  unit.result(std::move(axes), shape);
  return s;
}

void inputs(AnchorKernel& kernel, const Setup& s) {
  kernel.reads(s.a, "");
  kernel.reads(s.b, "");
  if (s.p.batched) kernel.size(s.batch);
  kernel.size(s.m);
  if (!s.p.vector) kernel.size(s.n);
  kernel.size(s.k);
  for (const auto& [row, col, name, batched] :
       {std::tuple(s.a_row, s.a_col, s.a, s.p.a_batched), std::tuple(s.b_row, s.b_col, s.b, s.p.b_batched)}) {
    if (row.empty()) continue;
    kernel.sizes({row, col});
    if (batched) kernel.size(name + "_batch");
  }
}

// The sum with the bias of linear or the addend of addmm.
std::string with_bias(AnchorUnit& unit, AnchorKernel& kernel, const Setup& s, const std::string& sum) {
  const Node& node = unit.node();
  std::string value = sum;
  if (const double alpha = node.number("alpha", 1); alpha != 1) value = fmt::format("{} * {}", Writer::number(unit.dtype(), alpha), sum);
  if (s.bias.empty()) return value;
  kernel.reads(s.bias, "");
  const TensorType& type = unit.type(s.p.bias);
  std::string at = s.col;
  const int rank = type.rank();
  if (type.numel() != s.p.n) {
    // addmm's addend: (n,), (1, n), (m, n), (m, 1), with a batch before.
    const auto full = [&](int from_end, std::int64_t size) { return rank >= from_end && type.dims[static_cast<std::size_t>(rank - from_end)].size == size && size != 1; };
    at = full(1, s.p.n) ? s.col : "";
    if (full(2, s.p.m)) at = full(1, s.p.n) ? fmt::format("{} * {} + {}", s.row, s.n, s.col) : s.row;
    if (full(3, s.p.batch)) at = fmt::format("({} * {} + {}) * {} + {}", s.mat, s.m, s.row, s.n, s.col);
    if (at.empty()) at = "0";
  } else if (rank > 0 && s.p.n > 1 && type.dims.back().size != s.p.n) {
    at = s.row;
  }
  kernel.access(s.bias, "", at);
  const double beta = node.number("beta", 1);
  const std::string element = kernel.load(s.bias, at);
  return value + " + " + (beta == 1 ? element : fmt::format("{} * {}", Writer::number(unit.dtype(), beta), element));
}

std::string batch_line(AnchorKernel& kernel, const Setup& s) {
  return s.p.batched ? kernel.index(s.mat, "blockIdx.z", "one matrix of the batch") : "";
}

AnchorKernel::Launch launch2d(const Setup& s, const std::string& bx, std::int64_t x, const std::string& by, std::int64_t y) {
  AnchorKernel::Launch launch;
  launch.grid = {ceil_div_text(s.n, bx), ceil_div_text(s.m, by)};
  launch.grid_sizes = {ceil_div(s.p.n, x), ceil_div(s.p.m, y)};
  launch.block = {bx, by};
  launch.block_sizes = {x, y};
  if (s.p.batched) {
    launch.grid.push_back(s.batch);
    launch.grid_sizes.push_back(s.p.batch);
  }
  return launch;
}

// One thread an output element, on a 2D grid.
Result<Unit> naive(AnchorUnit& unit) {
  const Setup s = setup(unit);
  Seeded& draw = unit.writer().draw();
  AnchorKernel kernel(unit, s.p.b_rows_are_n ? unit.word("linear_kernel", "linear_naive_kernel", "dense_kernel") : unit.word("matmul_kernel", "matmul_naive_kernel", "gemm_kernel"));
  inputs(kernel, s);
  const std::int64_t bx = draw.choose({16, 32}), by = bx == 32 ? 8 : 16;
  std::string text = batch_line(kernel, s);
  text += kernel.index(s.col, "blockIdx.x * blockDim.x + threadIdx.x", "column of the result");
  text += kernel.index(s.row, "blockIdx.y * blockDim.y + threadIdx.y", "row of the result");
  const std::string i = unit.word("i", "k_idx", "p"), sum = unit.word("acc", "sum", "total");
  kernel.loop(i, "0", s.k, "1", "the products of one row and one column");
  kernel.access(s.a, "", s.at_a(s.row, i));
  kernel.access(s.b, "", s.at_b(i, s.col));
  const std::string product = draw.chance(0.3) ? "@sum@ = fmaf(@a@, @b@, @sum@);" : "@sum@ += @a@ * @b@;";
  std::string inside = replaced("float @sum@ = 0.0f;\n@unroll@for (int @i@ = 0; @i@ < @k@; ++@i@) {\n    " + product + "\n}\n",
                                {{"sum", sum}, {"i", i}, {"k", s.k}, {"unroll", draw.chance(0.2) ? "#pragma unroll 4\n" : ""},
                                 {"a", kernel.load(s.a, s.at_a(s.row, i))}, {"b", kernel.load(s.b, s.at_b(i, s.col))}});
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(with_bias(unit, kernel, s, sum)));
  kernel.body = text + kernel.guarded({{s.row, s.m}, {s.col, s.n}}, inside + tail);
  kernel.launch(launch2d(s, std::to_string(bx), bx, std::to_string(by), by));
  return unit.done();
}

// One thread an output element, on a flat grid.
Result<Unit> flat(AnchorUnit& unit) {
  const Setup s = setup(unit);
  AnchorKernel kernel(unit, unit.word("matmul_flat_kernel", "gemm_1d_kernel", "matrix_product_kernel"));
  inputs(kernel, s);
  const std::string count = unit.word("total", "num_outputs", "n_out");
  unit.size(count, s.p.batched ? fmt::format("{} * {} * {}", s.batch, s.m, s.n) : fmt::format("{} * {}", s.m, s.n), s.p.batch * s.p.m * s.p.n);
  kernel.size(count);
  std::string text = kernel.index("idx", "blockIdx.x * blockDim.x + threadIdx.x", "one element of the result");
  std::string inside = kernel.index(s.col, "idx % " + s.n, "column of the result");
  if (s.p.batched) {
    inside += kernel.index(s.row, fmt::format("(idx / {}) % {}", s.n, s.m), "row of the result");
    inside += kernel.index(s.mat, fmt::format("idx / ({} * {})", s.m, s.n), "one matrix of the batch");
  } else {
    inside += kernel.index(s.row, "idx / " + s.n, "row of the result");
  }
  kernel.loop("i", "0", s.k, "1", "the products of one row and one column");
  kernel.access(s.a, "", s.at_a(s.row, "i"));
  kernel.access(s.b, "", s.at_b("i", s.col));
  inside += replaced("float sum = 0.0f;\nfor (int i = 0; i < @k@; i++) {\n    sum += @a@ * @b@;\n}\n",
                     {{"k", s.k}, {"a", kernel.load(s.a, s.at_a(s.row, "i"))}, {"b", kernel.load(s.b, s.at_b("i", s.col))}});
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(with_bias(unit, kernel, s, "sum")));
  kernel.body = text + kernel.guarded({{"idx", count}}, inside + tail);
  const std::int64_t threads = unit.writer().style().threads;
  kernel.launch({{ceil_div_text(count, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(s.p.batch * s.p.m * s.p.n, threads)}, {threads}, "", 0});
  return unit.done();
}

// Square tiles of both operands in shared memory.
Result<Unit> tiled(AnchorUnit& unit) {
  const Setup s = setup(unit);
  Seeded& draw = unit.writer().draw();
  const std::int64_t size = draw.choose({16, 16, 32});
  const std::string tile = unit.constant(unit.word("TILE", "TILE_SIZE", "kTile"), size);
  AnchorKernel kernel(unit, s.p.b_rows_are_n ? unit.word("linear_tiled_kernel", "linear_shared_kernel", "dense_tiled_kernel") : unit.word("matmul_tiled_kernel", "matmul_shared_kernel", "tiled_gemm_kernel"));
  inputs(kernel, s);
  const bool rows_n = s.p.b_rows_are_n;
  std::string text = replaced("__shared__ float tile_a[@T@][@T@];\n__shared__ float tile_b[@T@][@T@@pad@];\n", {{"T", tile}, {"pad", rows_n ? " + 1" : ""}});
  text += batch_line(kernel, s);
  text += kernel.index(s.row, fmt::format("blockIdx.y * {} + threadIdx.y", tile), "row of the result");
  text += kernel.index(s.col, fmt::format("blockIdx.x * {} + threadIdx.x", tile), "column of the result");
  if (rows_n) text += kernel.index("w_row", fmt::format("blockIdx.x * {} + threadIdx.y", tile), "row of the weight that this thread loads");
  kernel.loop("k0", "0", s.k, tile, "tiles along the summed axis");
  kernel.loop("kk", "0", tile, "1", "products within a tile");
  const std::string a_k = rows_n ? "k_idx" : "a_col", b_k = rows_n ? "k_idx" : "b_row";
  kernel.access(s.a, "", s.at_a(s.row, a_k));
  kernel.access(s.b, "", s.at_b(b_k, rows_n ? "w_row" : s.col));
  kernel.bound(fmt::format("{} < {} && {} < {}", s.row, s.m, a_k, s.k));
  kernel.bound(rows_n ? fmt::format("w_row < {} && {} < {}", s.n, b_k, s.k) : fmt::format("{} < {} && {} < {}", b_k, s.k, s.col, s.n));
  text += replaced(
      "\nfloat acc = 0.0f;\n"
      "for (int k0 = 0; k0 < @k@; k0 += @T@) {\n"
      "    // Each thread loads one element of either tile; outside the matrices zeros are put in.\n" +
          std::string(rows_n ? "    const int k_idx = k0 + threadIdx.x;\n"
                               "    tile_a[threadIdx.y][threadIdx.x] = (@row@ < @m@ && k_idx < @k@) ? @a@ : 0.0f;\n"
                               "    tile_b[threadIdx.y][threadIdx.x] = (w_row < @n@ && k_idx < @k@) ? @b@ : 0.0f;\n"
                             : "    const int a_col = k0 + threadIdx.x;\n"
                               "    const int b_row = k0 + threadIdx.y;\n"
                               "    tile_a[threadIdx.y][threadIdx.x] = (@row@ < @m@ && a_col < @k@) ? @a@ : 0.0f;\n"
                               "    tile_b[threadIdx.y][threadIdx.x] = (b_row < @k@ && @col@ < @n@) ? @b@ : 0.0f;\n") +
          "    __syncthreads();\n"
          "    #pragma unroll\n"
          "    for (int kk = 0; kk < @T@; ++kk) {\n"
          "        acc += tile_a[threadIdx.y][kk] * " + (rows_n ? "tile_b[threadIdx.x][kk]" : "tile_b[kk][threadIdx.x]") + ";\n"
          "    }\n"
          "    __syncthreads();\n"
          "}\n",
      {{"k", s.k}, {"m", s.m}, {"n", s.n}, {"T", tile}, {"row", s.row}, {"col", s.col}, {"a", kernel.load(s.a, s.at_a(s.row, a_k))},
       {"b", kernel.load(s.b, s.at_b(b_k, rows_n ? "w_row" : s.col))}});
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(with_bias(unit, kernel, s, "acc")));
  kernel.body = text + kernel.guarded({{s.row, s.m}, {s.col, s.n}}, tail, false);
  AnchorKernel::Launch launch = launch2d(s, tile, size, tile, size);
  launch.shared_bytes = 4 * (size * size + size * (size + (rows_n ? 1 : 0)));
  kernel.launch(launch);
  return unit.done();
}

// A block of results in registers for each thread.
Result<Unit> registers(AnchorUnit& unit) {
  const Setup s = setup(unit);
  Seeded& draw = unit.writer().draw();
  const std::int64_t block = draw.choose({32, 64, 64}), depth = draw.choose({8, 16}), each = block / 16;
  const std::string bm = unit.constant("BM", block), bn = unit.constant("BN", block), bk = unit.constant("BK", depth);
  const std::string tm = unit.constant("TM", each), tn = unit.constant("TN", each);
  AnchorKernel kernel(unit, unit.word("matmul_register_kernel", "gemm_blocked_kernel", "block_gemm_kernel"));
  inputs(kernel, s);
  const bool rows_n = s.p.b_rows_are_n;
  const Names names{{"k", s.k},   {"m", s.m},   {"n", s.n},   {"BM", bm},       {"BN", bn},       {"BK", bk}, {"TM", tm},
                    {"TN", tn},   {"row", s.row}, {"col", s.col}, {"a", kernel.load(s.a, s.at_a("a_row", "a_k"))},
                    {"b", kernel.load(s.b, s.at_b("b_k", "b_col"))}};
  std::string text = replaced("__shared__ float tile_a[@BK@][@BM@ + 1];\n__shared__ float tile_b[@BK@][@BN@ + 1];\n", names);
  text += batch_line(kernel, s);
  text += kernel.index("tid", "threadIdx.y * blockDim.x + threadIdx.x", "thread of the block");
  text += kernel.index("row0", fmt::format("blockIdx.y * {}", bm), "first row of the block's tile");
  text += kernel.index("col0", fmt::format("blockIdx.x * {}", bn), "first column of the block's tile");
  kernel.loop("k0", "0", s.k, bk, "slices along the summed axis");
  kernel.loop("kk", "0", bk, "1", "products within a slice");
  kernel.access(s.a, "", s.at_a("a_row", "a_k"));
  kernel.access(s.b, "", s.at_b("b_k", "b_col"));
  kernel.bound(fmt::format("a_row < {} && a_k < {}", s.m, s.k));
  kernel.bound(fmt::format("b_k < {} && b_col < {}", s.k, s.n));
  text += replaced(
      "\nfloat acc[@TM@][@TN@];\n"
      "for (int i = 0; i < @TM@; ++i) {\n"
      "    for (int j = 0; j < @TN@; ++j) acc[i][j] = 0.0f;\n"
      "}\n\n"
      "for (int k0 = 0; k0 < @k@; k0 += @BK@) {\n"
      "    // The whole block loads a slice of both operands, zeros outside.\n"
      "    for (int e = tid; e < @BM@ * @BK@; e += blockDim.x * blockDim.y) {\n"
      "        const int a_row = row0 + e / @BK@;\n"
      "        const int a_k = k0 + e % @BK@;\n"
      "        tile_a[e % @BK@][e / @BK@] = (a_row < @m@ && a_k < @k@) ? @a@ : 0.0f;\n"
      "    }\n"
      "    for (int e = tid; e < @BK@ * @BN@; e += blockDim.x * blockDim.y) {\n" +
          std::string(rows_n ? "        const int b_col = col0 + e / @BK@;\n"
                               "        const int b_k = k0 + e % @BK@;\n"
                               "        tile_b[e % @BK@][e / @BK@] = (b_k < @k@ && b_col < @n@) ? @b@ : 0.0f;\n"
                             : "        const int b_col = col0 + e % @BN@;\n"
                               "        const int b_k = k0 + e / @BN@;\n"
                               "        tile_b[e / @BN@][e % @BN@] = (b_k < @k@ && b_col < @n@) ? @b@ : 0.0f;\n") +
          "    }\n"
          "    __syncthreads();\n"
          "    for (int kk = 0; kk < @BK@; ++kk) {\n"
          "        float frag_a[@TM@];\n"
          "        float frag_b[@TN@];\n"
          "        #pragma unroll\n"
          "        for (int i = 0; i < @TM@; ++i) frag_a[i] = tile_a[kk][threadIdx.y * @TM@ + i];\n"
          "        #pragma unroll\n"
          "        for (int j = 0; j < @TN@; ++j) frag_b[j] = tile_b[kk][threadIdx.x * @TN@ + j];\n"
          "        #pragma unroll\n"
          "        for (int i = 0; i < @TM@; ++i) {\n"
          "            #pragma unroll\n"
          "            for (int j = 0; j < @TN@; ++j) acc[i][j] += frag_a[i] * frag_b[j];\n"
          "        }\n"
          "    }\n"
          "    __syncthreads();\n"
          "}\n\n",
      names);
  const std::string row_line = kernel.index(s.row, replaced("row0 + threadIdx.y * @TM@ + i", names), "row of the result");
  const std::string col_line = kernel.index(s.col, replaced("col0 + threadIdx.x * @TN@ + j", names), "column of the result");
  kernel.bound(s.row + " < " + s.m);
  kernel.bound(s.col + " < " + s.n);
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(with_bias(unit, kernel, s, "acc[i][j]")));
  text += replaced("for (int i = 0; i < @TM@; ++i) {\n    ", names) + row_line +
          replaced("    if (@row@ >= @m@) break;\n    for (int j = 0; j < @TN@; ++j) {\n        ", names) + col_line +
          replaced("        if (@col@ >= @n@) break;\n", names) + indented(tail, 8) + "    }\n}\n";
  kernel.body = text;
  AnchorKernel::Launch launch = launch2d(s, bn, block, bm, block);
  launch.block = {"16", "16"};
  launch.block_sizes = {16, 16};
  launch.shared_bytes = 4 * 2 * depth * (block + 1);
  kernel.launch(launch);
  return unit.done();
}

// One warp for each element of the result: both rows lie contiguously, so the lanes read side by side, four numbers at a time where the
// length allows.
Result<Unit> warp_dot(AnchorUnit& unit) {
  const Setup s = setup(unit);
  const bool vector = s.p.vector, f32 = unit.dtype() == DType::kF32 && unit.writer().draw().chance(0.7);
  const std::string sum = warp_sum(unit.writer());
  AnchorKernel kernel(unit, vector ? unit.word("matvec_warp_kernel", "mv_warp_kernel", "gemv_kernel") : unit.word("linear_warp_kernel", "dot_warp_kernel", "dense_warp_kernel"));
  inputs(kernel, s);
  std::string text = kernel.index("warp", "(blockIdx.x * blockDim.x + threadIdx.x) / 32", "one element of the result");
  text += kernel.index("lane", "threadIdx.x % 32", "lane within the warp");
  std::string inside;
  if (vector) {
    inside = kernel.index(s.row, "warp", "row of the result");
  } else {
    inside = kernel.index(s.row, "warp / " + s.n, "row of the result") + kernel.index(s.col, "warp % " + s.n, "column of the result");
  }
  kernel.access(s.a, "", s.at_a(s.row, "i"));
  kernel.access(s.b, "", s.at_b("i", s.col));
  kernel.loop("i", "lane", s.k, "32", "the products of this lane");
  const Names names{{"k", s.k}, {"a", kernel.load(s.a, s.at_a(s.row, "i"))}, {"b", kernel.load(s.b, s.at_b("i", s.col))}, {"A", s.a}, {"B", s.b},
                    {"a0", s.at_a(s.row, "0").substr(0, s.at_a(s.row, "0").size() - 4)}, {"b0", vector ? "" : " + " + s.col + " * " + s.k}, {"sum", sum}};
  const std::string scalar = "for (int i = lane; i < @k@; i += 32) {\n    acc += @a@ * @b@;\n}\n";
  const std::string wide =
      "if (@k@ % 4 == 0) {\n"
      "    const float4* a4 = reinterpret_cast<const float4*>(@A@ + @a0@);\n"
      "    const float4* b4 = reinterpret_cast<const float4*>(@B@@b0@);\n"
      "    for (int q = lane; q < @k@ / 4; q += 32) {\n"
      "        const float4 p = a4[q];\n"
      "        const float4 w = b4[q];\n"
      "        acc += p.x * w.x + p.y * w.y + p.z * w.z + p.w * w.w;\n"
      "    }\n"
      "} else {\n" + indented(scalar, 4) + "}\n";
  inside += replaced("float acc = 0.0f;\n" + (f32 ? wide : scalar) + "acc = @sum@(acc);\n", names);
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(with_bias(unit, kernel, s, "acc")));
  inside += "if (lane == 0) {\n" + indented(tail, 4) + "}\n";
  const std::string count = vector ? s.m : s.m + " * " + s.n;
  kernel.body = text + kernel.guarded({{"warp", count}}, inside);
  const std::int64_t threads = unit.writer().draw().choose({128, 256}), warps = threads / 32;
  kernel.launch({{ceil_div_text(count, std::to_string(warps))}, {std::to_string(threads)}, {ceil_div(s.p.m * s.p.n, warps)}, {threads}, "", 0});
  return unit.done();
}

// One block for each row of a matrix-vector product.
Result<Unit> block_mv(AnchorUnit& unit) {
  const Setup s = setup(unit);
  const std::string sum = block_sum(unit.writer());
  AnchorKernel kernel(unit, unit.word("matvec_block_kernel", "mv_block_kernel", "gemv_block_kernel"));
  inputs(kernel, s);
  std::string text = "__shared__ float partial[32];\n" + kernel.index(s.row, "blockIdx.x", "row of the result");
  kernel.access(s.a, "", s.at_a(s.row, "i"));
  kernel.access(s.b, "", "i");
  kernel.loop("i", "threadIdx.x", s.k, "blockDim.x", "the products of this thread");
  text += replaced("float acc = 0.0f;\nfor (int i = threadIdx.x; i < @k@; i += blockDim.x) {\n    acc += @a@ * @b@;\n}\nacc = @sum@(acc, partial);\n",
                   {{"k", s.k}, {"a", kernel.load(s.a, s.at_a(s.row, "i"))}, {"b", kernel.load(s.b, "i")}, {"sum", sum}});
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  kernel.body = text + "if (threadIdx.x == 0) {\n" + indented(tail, 4) + "}\n";
  const std::int64_t threads = unit.writer().style().threads;
  kernel.launch({{s.m}, {std::to_string(threads)}, {s.p.m}, {threads}, "", 128});
  return unit.done();
}

// A thread for each row of a matrix-vector product.
Result<Unit> thread_mv(AnchorUnit& unit) {
  const Setup s = setup(unit);
  AnchorKernel kernel(unit, unit.word("matvec_kernel", "mv_kernel", "matrix_vector_kernel"));
  inputs(kernel, s);
  const std::string text = kernel.index(s.row, "blockIdx.x * blockDim.x + threadIdx.x", "row of the result");
  kernel.access(s.a, "", s.at_a(s.row, "i"));
  kernel.access(s.b, "", "i");
  kernel.loop("i", "0", s.k, "1", "the products of one row");
  const std::string inside = replaced("float acc = 0.0f;\nfor (int i = 0; i < @k@; ++i) {\n    acc += @a@ * @b@;\n}\n",
                                      {{"k", s.k}, {"a", kernel.load(s.a, s.at_a(s.row, "i"))}, {"b", kernel.load(s.b, "i")}});
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  kernel.body = text + kernel.guarded({{s.row, s.m}}, inside + tail);
  const std::int64_t threads = unit.writer().style().threads;
  kernel.launch({{ceil_div_text(s.m, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(s.p.m, threads)}, {threads}, "", 0});
  return unit.done();
}

// The summed axis in parts: partial sums into a scratch tensor, then a second kernel adds them. No atomics.
Result<Unit> split_k(AnchorUnit& unit) {
  const Setup s = setup(unit);
  const std::int64_t most = unit.writer().draw().choose({8, 16}), part = unit.writer().draw().choose({128, 256});
  const std::int64_t splits = std::min(most, ceil_div(s.p.k, part)), chunk = ceil_div(s.p.k, splits);
  unit.size("splits", fmt::format("std::min<int64_t>({}, ({} + {}) / {})", most, s.k, part - 1, part), splits);
  unit.size("chunk", fmt::format("({} + splits - 1) / splits", s.k), chunk);
  unit.host(fmt::format("auto partial = torch::empty({{splits, {}, {}}}, {}.options().dtype(torch::kFloat32));", s.m, s.n, s.a));

  AnchorKernel first(unit, unit.word("split_k_kernel", "matmul_partial_kernel", "gemm_split_kernel"));
  inputs(first, s);
  first.sizes({"chunk"});
  first.scratch("partial", "", false);
  std::string text = first.index(s.col, "blockIdx.x * blockDim.x + threadIdx.x", "column of the result");
  text += first.index(s.row, "blockIdx.y * blockDim.y + threadIdx.y", "row of the result");
  text += first.index("split", "blockIdx.z", "part of the summed axis");
  std::string inside = first.index("k_begin", "split * chunk", "first product of the part");
  inside += first.index("k_end", fmt::format("k_begin + chunk < {0} ? k_begin + chunk : {0}", s.k), "end of the part");
  first.access(s.a, "", s.at_a(s.row, "i"));
  first.access(s.b, "", s.at_b("i", s.col));
  first.loop("i", "k_begin", "k_end", "1", "the products of one part");
  const std::string slot = fmt::format("(split * {} + {}) * {} + {}", s.m, s.row, s.n, s.col);
  first.access("partial", "", slot, true);
  inside += replaced("float acc = 0.0f;\nfor (int i = k_begin; i < k_end; ++i) {\n    acc += @a@ * @b@;\n}\npartial[@slot@] = acc;\n",
                     {{"a", first.load(s.a, s.at_a(s.row, "i"))}, {"b", first.load(s.b, s.at_b("i", s.col))}, {"slot", slot}});
  first.body = text + first.guarded({{s.row, s.m}, {s.col, s.n}}, inside);
  AnchorKernel::Launch launch = launch2d(s, "16", 16, "16", 16);
  launch.grid.push_back("splits");
  launch.grid_sizes.push_back(splits);
  first.launch(launch);

  AnchorKernel second(unit, unit.word("reduce_splits_kernel", "sum_partials_kernel", "combine_kernel"));
  second.scratch("partial", "", true);
  second.sizes({s.m, s.n, "splits"});
  text = second.index("idx", "blockIdx.x * blockDim.x + threadIdx.x", "one element of the result");
  inside = second.index(s.row, "idx / " + s.n, "row of the result") + second.index(s.col, "idx % " + s.n, "column of the result");
  second.loop("p", "0", "splits", "1", "the parts of the sum");
  second.access("partial", "", fmt::format("p * {} * {} + idx", s.m, s.n));
  inside += replaced("float sum = 0.0f;\nfor (int p = 0; p < splits; ++p) {\n    sum += partial[p * @m@ * @n@ + idx];\n}\n", {{"m", s.m}, {"n", s.n}});
  MC_ASSIGN_OR_RETURN(const std::string tail, second.finish(with_bias(unit, second, s, "sum")));
  second.body = text + second.guarded({{"idx", s.m + " * " + s.n}}, inside + tail);
  const std::int64_t threads = unit.writer().style().threads;
  second.launch({{ceil_div_text(s.m + " * " + s.n, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(s.p.m * s.p.n, threads)}, {threads}, "", 0});
  return unit.done();
}

// diag(d) @ b, outer(a, b): one product an element.
Result<Unit> scaled_rows(AnchorUnit& unit) {
  const bool outer = unit.node().op == "outer";
  const int left = unit.node().inputs[0], right = unit.node().inputs[1];
  const std::string a = unit.tensor(left, outer ? unit.word("a", "u", "lhs") : unit.word("d", "diag", "diagonal"));
  const std::string b = unit.tensor(right, outer ? unit.word("b", "v_vec", "rhs") : unit.word("b", "mat", "matrix"));
  const TensorType& out = unit.type(unit.node().outputs[0]);
  const std::int64_t rows = out.dims[0].size, cols = out.dims[1].size;
  const std::string m = unit.word("m", "rows", "num_rows"), n = unit.word("n", "cols", "num_cols");
  unit.size(m, a + ".size(0)", rows);
  unit.size(n, b + (outer ? ".size(0)" : ".size(1)"), cols);
  unit.result({{"row", m}, {"col", n}}, fmt::format("{{{}, {}}}", m, n), "idx");
  AnchorKernel kernel(unit, outer ? "outer_kernel" : unit.word("diag_matmul_kernel", "scale_rows_kernel", "diagonal_product_kernel"));
  kernel.facts.accumulator.clear();
  kernel.reads(a, "");
  kernel.reads(b, "");
  kernel.sizes({m, n});
  const std::string text = kernel.index("idx", "blockIdx.x * blockDim.x + threadIdx.x", "one element of the result");
  const std::string inside = kernel.index("row", "idx / " + n, "row of the result") + kernel.index("col", "idx % " + n, "column of the result");
  kernel.access(a, "", "row");
  kernel.access(b, "", outer ? "col" : "idx");
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(kernel.load(a, "row") + " * " + kernel.load(b, outer ? "col" : "idx")));
  kernel.body = text + kernel.guarded({{"idx", m + " * " + n}}, inside + tail);
  const std::int64_t threads = unit.writer().style().threads;
  kernel.launch({{ceil_div_text(m + " * " + n, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(rows * cols, threads)}, {threads}, "", 0});
  return unit.done();
}

// dot(a, b): one block sums all.
Result<Unit> dot(AnchorUnit& unit) {
  const std::string a = unit.tensor(unit.node().inputs[0], unit.word("a", "x", "lhs")), b = unit.tensor(unit.node().inputs[1], unit.word("b", "y", "rhs"));
  const std::int64_t count = unit.type(unit.node().inputs[0]).numel();
  const std::string n = unit.word("n", "size", "length");
  unit.size(n, a + ".numel()", count);
  unit.result({}, "{}");
  const std::string sum = block_sum(unit.writer());
  AnchorKernel kernel(unit, unit.word("dot_kernel", "dot_product_kernel", "inner_product_kernel"));
  kernel.reads(a, "");
  kernel.reads(b, "");
  kernel.size(n);
  kernel.access(a, "", "i");
  kernel.access(b, "", "i");
  kernel.loop("i", "threadIdx.x", n, "blockDim.x", "the products of this thread");
  const std::string text = replaced("__shared__ float partial[32];\nfloat acc = 0.0f;\nfor (int i = threadIdx.x; i < @n@; i += blockDim.x) {\n    acc += @a@ * @b@;\n}\nacc = @sum@(acc, partial);\n",
                                    {{"n", n}, {"a", kernel.load(a, "i")}, {"b", kernel.load(b, "i")}, {"sum", sum}});
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  kernel.body = text + "if (threadIdx.x == 0) {\n" + indented(tail, 4) + "}\n";
  kernel.launch({{"1"}, {"1024"}, {1}, {1024}, "", 128});
  return unit.done();
}

bool is_op(const Graph& graph, const Region& region, const char* op) { return graph.nodes[static_cast<std::size_t>(region.anchor)].op == op; }

// A view that starts inside its tensor may be unaligned.
bool aligned(const Graph& graph, int value) {
  const Value& v = graph.values[static_cast<std::size_t>(value)];
  return v.type.contiguous && (v.source != Source::kNode || find_op(graph.nodes[static_cast<std::size_t>(v.node)].op)->cls != OpClass::kView);
}

bool takes_matrix(const Graph& g, const Region& r) {
  Product p;
  return describe(g, r, p) && !p.vector;
}
bool takes_registers(const Graph& g, const Region& r) {
  Product p;
  return describe(g, r, p) && !p.vector && p.m >= 16 && p.n >= 16;
}
bool takes_split(const Graph& g, const Region& r) {
  Product p;
  return describe(g, r, p) && !p.vector && !p.batched && p.k >= 512 && p.m * p.n <= 1 << 20;
}
bool takes_warp(const Graph& g, const Region& r) {
  Product p;
  return describe(g, r, p) && !p.batched && (p.vector || p.b_rows_are_n) && p.k >= 64 && aligned(g, p.a) && aligned(g, p.b) && p.m * p.n <= 1 << 20;
}
bool takes_vector(const Graph& g, const Region& r) {
  Product p;
  return describe(g, r, p) && p.vector;
}
bool takes_scaled(const Graph& g, const Region& r) {
  return (is_op(g, r, "diagonal_mm") || is_op(g, r, "outer")) && real(g.type(r.outputs[0]).dtype) && epilogue_fits(g, r, {1, 1});
}
bool takes_dot(const Graph& g, const Region& r) { return is_op(g, r, "dot") && real(g.type(r.outputs[0]).dtype) && epilogue_fits(g, r, {}); }

}  // namespace

void add_matrix_schedules(Schedules& all) {
  all.push_back(anchor_schedule("matmul.naive", "matmul", takes_matrix, naive));
  all.push_back(anchor_schedule("matmul.flat", "matmul", takes_matrix, flat));
  all.push_back(anchor_schedule("matmul.tiled", "matmul_tiled", takes_matrix, tiled));
  all.push_back(anchor_schedule("matmul.registers", "matmul_blocked", takes_registers, registers));
  all.push_back(anchor_schedule("matmul.split_k", "matmul_split_k", takes_split, split_k));
  all.push_back(anchor_schedule("matmul.warp_dot", "matmul_warp", takes_warp, warp_dot));
  all.push_back(anchor_schedule("mv.thread", "matvec", takes_vector, thread_mv));
  all.push_back(anchor_schedule("mv.block", "matvec", takes_vector, block_mv));
  all.push_back(anchor_schedule("scaled_rows.flat", "scaled_rows", takes_scaled, scaled_rows));
  all.push_back(anchor_schedule("dot.block", "dot_product", takes_dot, dot));
}

}  // namespace musacoder::synth
