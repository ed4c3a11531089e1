// Schedules of scans: a thread for each line, a warp with shuffles, a block by doubling distances, a block by up- and down-sweeps.
#include "synth/teacher/spatial.h"

namespace musacoder::synth {
namespace {

struct Scan {
  std::int64_t outer = 1, length = 1, inner = 1;
  std::vector<int> merged;  // outer, line, inner
  bool product = false;
};

bool describe(const Graph& graph, const Region& region, Scan& s) {
  const Node& node = graph.nodes[static_cast<std::size_t>(region.anchor)];
  if (node.op != "cumsum" && node.op != "cumprod") return false;
  const TensorType& x = graph.type(node.inputs[0]);
  const std::int64_t at = node.integer("dim") < 0 ? node.integer("dim") + x.rank() : node.integer("dim");
  const DType t = graph.type(node.outputs[0]).dtype;
  if (t != DType::kF32 && t != DType::kF16 && t != DType::kBF16 && t != DType::kI64) return false;
  if (x.dtype == DType::kBool) return false;
  for (int d = 0; d < x.rank(); ++d) (d < at ? s.outer : d == at ? s.length : s.inner) *= x.dims[static_cast<std::size_t>(d)].size;
  s.merged = {static_cast<int>(at), 1, x.rank() - 1 - static_cast<int>(at)};
  s.product = node.op == "cumprod";
  return epilogue_fits(graph, region, s.merged);
}

struct Setup {
  Scan s;
  std::string x, outer, length, inner, lines, combine, identity, type;
  std::string at(const std::string& i) const {
    return s.merged[2] == 0 ? fmt::format("line * {} + {}", length, i) : fmt::format("(o * {} + {}) * {} + j", length, i, inner);
  }
  std::string fold(const std::string& a, const std::string& b) const { return a + (s.product ? " * " : " + ") + b; }
};

Setup setup(AnchorUnit& unit, const std::string& i) {
  Setup s;
  describe(unit.graph(), unit.region(), s.s);
  const Node& node = unit.node();
  const TensorType& x = unit.type(node.inputs[0]);
  s.x = unit.tensor(node.inputs[0], unit.word("x", "input", "x"));
  s.type = unit.compute();
  s.identity = Writer::number(unit.dtype(), s.s.product ? 1 : 0);
  s.combine = s.s.product ? "*" : "+";
  s.length = unit.word("n", "length", "scan_size");
  s.lines = unit.word("lines", "num_lines", "num_rows");
  unit.size(s.length, fmt::format("{}.size({})", s.x, s.s.merged[0]), s.s.length);
  unit.size(s.lines, fmt::format("{}.numel() / {}", s.x, s.length), s.s.outer * s.s.inner);
  std::vector<OutAxis> axes;
  if (s.s.merged[2] == 0) {
    axes.push_back({"line", s.lines, s.s.merged[0]});
    axes.push_back({i, s.length, 1});
  } else {
    s.inner = unit.word("inner", "inner_size", "stride");
    std::string product;
    for (int d = s.s.merged[0] + 1; d < x.rank(); ++d) product += (product.empty() ? "" : " * ") + fmt::format("{}.size({})", s.x, d);
    unit.size(s.inner, product, s.s.inner);
    if (s.s.merged[0] > 0) axes.push_back({"o", "outer", s.s.merged[0]});
    axes.push_back({i, s.length, 1});
    axes.push_back({"j", s.inner, s.s.merged[2]});
  }
  unit.result(std::move(axes), s.x + ".sizes()", s.at(i));
  return s;
}

void inputs(AnchorKernel& kernel, const Setup& s) {
  kernel.reads(s.x, "");
  kernel.sizes({s.lines, s.length});
  if (s.s.merged[2] != 0) kernel.size(s.inner);
}

std::string places(AnchorKernel& kernel, const Setup& s) {
  if (s.s.merged[2] == 0) return "";
  return kernel.index("o", "line / " + s.inner, "position before the scanned axis") + kernel.index("j", "line % " + s.inner, "position behind the scanned axis");
}

Result<Unit> sequential(AnchorUnit& unit) {
  const Setup s = setup(unit, "i");
  AnchorKernel kernel(unit, unit.word("scan_kernel", "cumulative_kernel", "scan_sequential_kernel"));
  inputs(kernel, s);
  const std::string head = kernel.index("line", "blockIdx.x * blockDim.x + threadIdx.x", "one line along the scanned axis");
  std::string inside = places(kernel, s);
  kernel.access(s.x, "", s.at("i"));
  kernel.loop("i", "0", s.length, "1", "elements of the line");
  inside += fmt::format("{} acc = {};\n", s.type, s.identity);
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  inside += fmt::format("for (int i = 0; i < {}; ++i) {{\n    acc {}= {};\n{}}}\n", s.length, s.combine, kernel.load(s.x, s.at("i")), indented(tail, 4));
  kernel.body = head + kernel.guarded({{"line", s.lines}}, inside);
  const std::int64_t threads = unit.writer().draw().choose({64, 128, 256});
  kernel.launch({{ceil_div_text(s.lines, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(s.s.outer * s.s.inner, threads)}, {threads}, "", 0});
  return unit.done();
}

// 32 elements at a time: lanes add what stands 1, 2, 4, 8, 16 before them, and the last lane's value is carried on.
Result<Unit> warp(AnchorUnit& unit) {
  const Setup s = setup(unit, "i");
  AnchorKernel kernel(unit, unit.word("scan_warp_kernel", "warp_scan_kernel", "scan_shuffle_kernel"));
  inputs(kernel, s);
  const std::string head = kernel.index("line", "(blockIdx.x * blockDim.x + threadIdx.x) / 32", "one line along the scanned axis") + kernel.index("lane", "threadIdx.x % 32", "lane within the warp");
  std::string inside = places(kernel, s);
  kernel.access(s.x, "", s.at("i"));
  kernel.loop("base", "0", s.length, "32", "pieces of a warp's width");
  kernel.bound("i < " + s.length);
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  inside += replaced("@T@ carry = @zero@;\n"
                     "for (int base = 0; base < @n@; base += 32) {\n"
                     "    const int i = base + lane;\n"
                     "    @T@ acc = i < @n@ ? @x@ : @zero@;\n"
                     "    for (int offset = 1; offset < 32; offset *= 2) {\n"
                     "        const @T@ before = __shfl_up_sync(0xffffffff, acc, offset);\n"
                     "        if (lane >= offset) acc @op@= before;\n"
                     "    }\n"
                     "    acc @op@= carry;\n"
                     "    if (i < @n@) {\n" + indented(tail, 8) + "    }\n"
                     "    carry = __shfl_sync(0xffffffff, acc, 31);\n"
                     "}\n",
                     {{"T", s.type}, {"zero", s.identity}, {"n", s.length}, {"x", kernel.load(s.x, s.at("i"))}, {"op", s.combine}});
  kernel.body = head + kernel.guarded({{"line", s.lines}}, inside);
  kernel.launch({{ceil_div_text(s.lines, "4")}, {"128"}, {ceil_div(s.s.outer * s.s.inner, 4)}, {128}, "", 0});
  return unit.done();
}

// A block for each line; within a piece every thread adds what stands 1, 2, 4, … before it, between barriers.
Result<Unit> block(AnchorUnit& unit) {
  const Setup s = setup(unit, "i");
  const std::int64_t threads = unit.writer().draw().choose({64, 128, 256});
  const std::string width = unit.constant(unit.word("BLOCK", "SCAN_BLOCK", "kBlock"), threads);
  AnchorKernel kernel(unit, unit.word("scan_block_kernel", "block_scan_kernel", "hillis_steele_kernel"));
  inputs(kernel, s);
  std::string text = fmt::format("__shared__ {} buffer[{}];\n", s.type, width);
  text += kernel.index("line", "blockIdx.x", "one line along the scanned axis") + places(kernel, s);
  kernel.access(s.x, "", s.at("i"));
  kernel.loop("base", "0", s.length, width, "pieces of a block's width");
  kernel.bound("i < " + s.length);
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  text += replaced("@T@ carry = @zero@;\n"
                   "for (int base = 0; base < @n@; base += @W@) {\n"
                   "    const int i = base + threadIdx.x;\n"
                   "    buffer[threadIdx.x] = i < @n@ ? @x@ : @zero@;\n"
                   "    __syncthreads();\n"
                   "    for (int offset = 1; offset < @W@; offset *= 2) {\n"
                   "        const @T@ before = threadIdx.x >= offset ? buffer[threadIdx.x - offset] : @zero@;\n"
                   "        __syncthreads();\n"
                   "        buffer[threadIdx.x] @op@= before;\n"
                   "        __syncthreads();\n"
                   "    }\n"
                   "    const @T@ acc = @fold@;\n"
                   "    if (i < @n@) {\n" + indented(tail, 8) + "    }\n"
                   "    carry @op@= buffer[@W@ - 1];\n"
                   "    // The buffer is filled anew only when everybody has read its last element.\n"
                   "    __syncthreads();\n"
                   "}\n",
                   {{"T", s.type}, {"zero", s.identity}, {"n", s.length}, {"W", width}, {"x", kernel.load(s.x, s.at("i"))}, {"op", s.combine}, {"fold", s.fold("buffer[threadIdx.x]", "carry")}});
  kernel.body = text;
  kernel.launch({{s.lines}, {width}, {s.s.outer * s.s.inner}, {threads}, "", threads * static_cast<std::int64_t>(s.type == "float" ? 4 : 8)});
  return unit.done();
}

// Up-sweep and down-sweep over a tree in shared memory, two elements a thread (Blelloch, "Prefix Sums and Their Applications", 1990).
Result<Unit> sweeps(AnchorUnit& unit) {
  const Setup s = setup(unit, "i");
  const std::int64_t threads = unit.writer().draw().choose({64, 128});
  const std::string width = unit.constant(unit.word("PIECE", "ELEMENTS", "kElements"), 2 * threads);
  AnchorKernel kernel(unit, unit.word("scan_sweep_kernel", "blelloch_kernel", "blelloch_scan_kernel"));
  inputs(kernel, s);
  std::string text = fmt::format("__shared__ {} tree[{}];\n", s.type, width);
  text += kernel.index("line", "blockIdx.x", "one line along the scanned axis") + kernel.index("tid", "threadIdx.x", "thread of the block") + places(kernel, s);
  kernel.access(s.x, "", s.at("e"));
  kernel.loop("base", "0", s.length, width, "pieces of two elements a thread");
  kernel.bound("i < " + s.length);
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  text += replaced("@T@ carry = @zero@;\n"
                   "for (int base = 0; base < @n@; base += @W@) {\n"
                   "    for (int p = tid; p < @W@; p += blockDim.x) {\n"
                   "        const int e = base + p;\n"
                   "        tree[p] = e < @n@ ? @x@ : @zero@;\n"
                   "    }\n"
                   "    __syncthreads();\n"
                   "    // Up: sums of pairs, of pairs of pairs, …\n"
                   "    for (int step = 1; step < @W@; step *= 2) {\n"
                   "        const int right = (tid + 1) * step * 2 - 1;\n"
                   "        if (right < @W@) tree[right] @op@= tree[right - step];\n"
                   "        __syncthreads();\n"
                   "    }\n"
                   "    const @T@ piece = tree[@W@ - 1];\n"
                   "    __syncthreads();\n"
                   "    if (tid == 0) tree[@W@ - 1] = @zero@;\n"
                   "    __syncthreads();\n"
                   "    // Down: each node hands on what stands before it.\n"
                   "    for (int step = @W@ / 2; step > 0; step /= 2) {\n"
                   "        const int right = (tid + 1) * step * 2 - 1;\n"
                   "        if (right < @W@) {\n"
                   "            const @T@ left = tree[right - step];\n"
                   "            tree[right - step] = tree[right];\n"
                   "            tree[right] @op@= left;\n"
                   "        }\n"
                   "        __syncthreads();\n"
                   "    }\n"
                   "    // The tree holds sums without the element itself.\n"
                   "    for (int p = tid; p < @W@; p += blockDim.x) {\n"
                   "        const int i = base + p;\n"
                   "        if (i < @n@) {\n"
                   "            const @T@ acc = @fold@;\n" + indented(tail, 12) +
                   "        }\n"
                   "    }\n"
                   "    carry @op@= piece;\n"
                   "    __syncthreads();\n"
                   "}\n",
                   {{"T", s.type}, {"zero", s.identity}, {"n", s.length}, {"W", width}, {"x", kernel.load(s.x, s.at("e"))}, {"op", s.combine},
                    {"fold", s.fold(s.fold("carry", "tree[p]"), kernel.load(s.x, s.at("i")))}});
  kernel.body = text;
  kernel.launch({{s.lines}, {std::to_string(threads)}, {s.s.outer * s.s.inner}, {threads}, "", 2 * threads * static_cast<std::int64_t>(s.type == "float" ? 4 : 8)});
  return unit.done();
}

bool takes_scan(const Graph& g, const Region& r) {
  Scan s;
  return describe(g, r, s);
}
bool takes_parallel(const Graph& g, const Region& r) {
  Scan s;
  return describe(g, r, s) && s.length >= 32;
}

}  // namespace

void add_scan_schedules(Schedules& all) {
  all.push_back(anchor_schedule("scan.sequential", "scan", takes_scan, sequential));
  all.push_back(anchor_schedule("scan.warp", "scan", takes_parallel, warp));
  all.push_back(anchor_schedule("scan.block", "scan", takes_parallel, block));
  all.push_back(anchor_schedule("scan.sweeps", "scan", takes_parallel, sweeps));
}

}  // namespace musacoder::synth
