// Schedules of pooling: one thread an output element, and a block for each plane where a whole plane is pooled to one number.
#include <algorithm>

#include "synth/teacher/spatial.h"

namespace musacoder::synth {
namespace {

struct Pool {
  std::size_t axes = 0;
  bool max = false, adaptive = false, channels = false;  // channels: (N, C, …), else planes of any number of axes
  std::int64_t planes = 1, places = 1, window = 1;
  std::vector<int> merged;
};

bool describe(const Graph& graph, const Region& region, Pool& p) {
  const Node& node = graph.nodes[static_cast<std::size_t>(region.anchor)];
  const std::size_t at = node.op.find("_pool");
  if (at == std::string::npos) return false;
  p.axes = static_cast<std::size_t>(node.op[at + 5] - '0');
  p.max = node.op.find("max") != std::string::npos;
  p.adaptive = node.op.rfind("adaptive", 0) == 0;
  const TensorType &x = graph.type(node.inputs[0]), &y = graph.type(node.outputs[0]);
  if (y.dtype != DType::kF32 && y.dtype != DType::kF16 && y.dtype != DType::kBF16) return false;
  p.channels = x.dims.size() == p.axes + 2;
  const std::size_t outer = x.dims.size() - p.axes;
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    if (d < outer) p.planes *= x.dims[d].size;
    else {
      p.places *= y.dims[d].size;
      p.window *= x.dims[d].size;
    }
  }
  p.merged = p.channels ? std::vector<int>{1, 1} : std::vector<int>{static_cast<int>(outer)};
  p.merged.resize(p.merged.size() + p.axes, 1);
  return epilogue_fits(graph, region, p.merged);
}

struct Setup {
  Pool p;
  std::string x;
  std::vector<std::string> outer, outer_sizes, in, out, o;
};

Setup setup(AnchorUnit& unit) {
  Setup s;
  describe(unit.graph(), unit.region(), s.p);
  const Node& node = unit.node();
  const TensorType& x = unit.type(node.inputs[0]);
  const std::vector<std::string> letters = axis_letters(s.p.axes);
  s.x = unit.tensor(node.inputs[0], unit.word("x", "input", "x"));
  const int rank = x.rank();
  if (s.p.channels) {
    s.outer = {unit.word("n", "b", "batch_idx"), unit.word("c", "ch", "channel")};
    s.outer_sizes = {unit.word("batch", "N", "batch_size"), unit.word("ch_count", "C", "channels")};
    unit.size(s.outer_sizes[0], s.x + ".size(0)", x.dims[0].size);
    unit.size(s.outer_sizes[1], s.x + ".size(1)", x.dims[1].size);
  } else {
    s.outer = {"plane"};
    s.outer_sizes = {"planes"};
    std::string inner;
    for (std::size_t a = 0; a < s.p.axes; ++a) inner += (inner.empty() ? "" : " * ") + fmt::format("{}.size({})", s.x, static_cast<int>(a) - static_cast<int>(s.p.axes));
    unit.size("planes", fmt::format("{}.numel() / ({})", s.x, inner), s.p.planes);
  }
  for (std::size_t a = 0; a < s.p.axes; ++a) {
    const std::size_t d = static_cast<std::size_t>(rank) - s.p.axes + a;
    s.in.push_back("in_" + letters[a]);
    s.out.push_back("out_" + letters[a]);
    s.o.push_back("o" + letters[a]);
    unit.size(s.in[a], fmt::format("{}.size({})", s.x, d), x.dims[d].size);
  }
  return s;
}

// After the sizes of the result are known.
void shape(AnchorUnit& unit, const Setup& s, const std::string& flat) {
  std::vector<OutAxis> axes;
  std::string text;
  for (std::size_t k = 0; k < s.outer.size(); ++k) {
    axes.push_back({s.outer[k], s.outer_sizes[k], s.p.merged[k]});
    text += (text.empty() ? "" : ", ") + s.outer_sizes[k];
  }
  for (std::size_t a = 0; a < s.p.axes; ++a) {
    axes.push_back({s.o[a], s.out[a], 1});
    text += ", " + s.out[a];
  }
  if (s.p.merged[0] == 1) {
    unit.result(std::move(axes), "{" + text + "}", flat);
    return;
  }
  unit.host(fmt::format("auto shape = {}.sizes().vec();", s.x));
  for (std::size_t a = 0; a < s.p.axes; ++a) unit.host(fmt::format("shape[shape.size() - {}] = {};", s.p.axes - a, s.out[a]));
  unit.result(std::move(axes), "shape", flat);
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::string> meanings(const Setup& s) {
  std::vector<std::string> all = s.p.channels ? std::vector<std::string>{"image of the batch", "channel"} : std::vector<std::string>{"one plane"};
  for (const std::string& letter : axis_letters(s.p.axes)) all.push_back(letter == "h" ? "row of the result" : letter == "w" ? "column of the result" : "place of the result");
  return all;
}

// One thread an output element, windows of fixed size.
Result<Unit> direct(AnchorUnit& unit) {
  const Setup s = setup(unit);
  const Pool& p = s.p;
  const Node& node = unit.node();
  const std::vector<std::string> letters = axis_letters(p.axes);
  const std::vector<std::int64_t> sizes = spread(node, "kernel_size", p.axes, 1);
  const bool alike = std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t v) { return v == sizes[0]; });
  PerAxis window, stride, padding, dilation;
  for (std::size_t a = 0; a < p.axes; ++a) {
    window.names.push_back(alike ? unit.word("ksize", "K", "kernel_size") : unit.word("k_", "K_", "kernel_") + letters[a]);
    if (a == 0 || !alike) unit.number(window.names[a], argument_text(node, "kernel_size", a, sizes[a]), sizes[a]);
  }
  if (node.has("stride")) {
    stride = per_axis(unit, "stride", "stride", p.axes, 1, 1);
  } else {
    stride.names = window.names;  // torch's default
    stride.values = sizes;
  }
  padding = per_axis(unit, "padding", unit.word("pad", "padding", "padding"), p.axes, 0, 0);
  dilation = per_axis(unit, "dilation", "dilation", p.axes, 1, 1);
  for (std::size_t a = 0; a < p.axes; ++a) {
    const std::string more = padding.names[a].empty() ? s.in[a] : fmt::format("{} + 2 * {}", s.in[a], padding.names[a]);
    const std::string less = dilation.names[a].empty() ? " - " + window.names[a] : fmt::format(" - {} * ({} - 1) - 1", dilation.names[a], window.names[a]);
    const TensorType& y = unit.type(node.outputs[0]);
    unit.size(s.out[a], stride.names[a].empty() ? more + less + " + 1" : fmt::format("({}{}) / {} + 1", more, less, stride.names[a]),
              y.dims[y.dims.size() - p.axes + a].size);
  }
  shape(unit, s, "idx");
  const std::string total = unit.word("total", "n_out", "num_outputs");
  unit.size(total, product_text(joined(s.outer_sizes, s.out)), p.planes * p.places);
  AnchorKernel kernel(unit, fmt::format("{}_pool{}d_kernel", p.max ? "max" : "avg", p.axes));
  kernel.reads(s.x, "");
  for (std::size_t k = 1; k < s.outer_sizes.size(); ++k) kernel.size(s.outer_sizes[k]);
  for (const std::string& name : joined(s.in, s.out)) kernel.size(name);
  std::vector<std::string> known;
  for (const auto* list : {&window.names, &stride.names, &padding.names, &dilation.names})
    for (const std::string& name : *list)
      if (!name.empty() && std::count(known.begin(), known.end(), name) == 0) {
        known.push_back(name);
        kernel.size(name);
      }
  kernel.size(total);
  const std::string head = kernel.index("idx", "blockIdx.x * blockDim.x + threadIdx.x", "one element of the result");
  std::string inside = decoded(kernel, "idx", joined(s.outer, s.o), joined(s.outer_sizes, s.out), meanings(s));
  const std::string acc = p.max ? unit.word("best", "max_val", "maximum") : unit.word("acc", "sum", "total_sum");
  inside += fmt::format("float {} = {};\n", acc, p.max ? "-INFINITY" : "0.0f");
  std::vector<std::string> places;
  int depth = 0;
  std::string closing;
  for (std::size_t a = 0; a < p.axes; ++a) {
    const std::string k = "k" + letters[a], i = "i" + letters[a];
    places.push_back(i);
    inside += indented(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{\n", k, window.names[a]), depth);
    kernel.loop(k, "0", window.names[a], "1", "places of the window");
    closing = std::string(static_cast<std::size_t>(depth), ' ') + "}\n" + closing;
    depth += 4;
    inside += indented(fmt::format("const int {} = {};\n", i, window_position(s.o[a], stride.names[a], padding.names[a], k, dilation.names[a])), depth);
    if (!padding.names[a].empty()) {
      const std::string outside = fmt::format("{0} < 0 || {0} >= {1}", i, s.in[a]);
      inside += indented(fmt::format("if ({}) continue;\n", outside), depth);
      kernel.bound(outside);
    }
  }
  const std::string from = flat_index(joined(s.outer, places), joined(s.outer_sizes, s.in));
  kernel.access(s.x, "", from);
  inside += indented(p.max ? fmt::format("{0} = fmaxf({0}, {1});\n", acc, kernel.load(s.x, from)) : fmt::format("{} += {};\n", acc, kernel.load(s.x, from)), depth) + closing;
  std::string count;
  for (std::size_t a = 0; a < p.axes; ++a) count += (count.empty() ? "" : " * ") + window.names[a];
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(p.max ? acc : p.axes == 1 ? acc + " / " + count : fmt::format("{} / ({})", acc, count)));
  kernel.body = head + kernel.guarded({{"idx", total}}, inside + tail);
  const std::int64_t threads = unit.writer().style().threads;
  kernel.launch({{ceil_div_text(total, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(unit.value_of(total), threads)}, {threads}, "", 0});
  return unit.done();
}

// One thread an output element, windows that share the input out evenly.
Result<Unit> adaptive(AnchorUnit& unit) {
  const Setup s = setup(unit);
  const Pool& p = s.p;
  const std::vector<std::string> letters = axis_letters(p.axes);
  const std::vector<std::int64_t> sizes = spread(unit.node(), "output_size", p.axes, 1);
  for (std::size_t a = 0; a < p.axes; ++a) unit.number(s.out[a], argument_text(unit.node(), "output_size", a, sizes[a]), sizes[a]);
  shape(unit, s, "idx");
  const std::string total = unit.word("total", "n_out", "num_outputs");
  unit.size(total, product_text(joined(s.outer_sizes, s.out)), p.planes * p.places);
  AnchorKernel kernel(unit, fmt::format("adaptive_{}_pool{}d_kernel", p.max ? "max" : "avg", p.axes));
  kernel.reads(s.x, "");
  for (std::size_t k = 1; k < s.outer_sizes.size(); ++k) kernel.size(s.outer_sizes[k]);
  for (const std::string& name : joined(s.in, s.out)) kernel.size(name);
  kernel.size(total);
  const std::string head = kernel.index("idx", "blockIdx.x * blockDim.x + threadIdx.x", "one element of the result");
  std::string inside = decoded(kernel, "idx", joined(s.outer, s.o), joined(s.outer_sizes, s.out), meanings(s));
  std::string loops, closing, count;
  std::vector<std::string> places;
  int depth = 0;
  for (std::size_t a = 0; a < p.axes; ++a) {
    const std::string from = letters[a] + "_begin", to = letters[a] + "_end", i = "i" + letters[a];
    inside += kernel.index(from, fmt::format("({} * {}) / {}", s.o[a], s.in[a], s.out[a]), "first place of the window");
    inside += kernel.index(to, fmt::format("(({} + 1) * {} + {} - 1) / {}", s.o[a], s.in[a], s.out[a], s.out[a]), "end of the window");
    loops += indented(fmt::format("for (int {0} = {1}; {0} < {2}; ++{0}) {{\n", i, from, to), depth);
    kernel.loop(i, from, to, "1", "places of the window");
    closing = std::string(static_cast<std::size_t>(depth), ' ') + "}\n" + closing;
    depth += 4;
    places.push_back(i);
    count += (count.empty() ? "" : " * ") + fmt::format("({} - {})", to, from);
  }
  const std::string acc = p.max ? "best" : "acc";
  const std::string from = flat_index(joined(s.outer, places), joined(s.outer_sizes, s.in));
  kernel.access(s.x, "", from);
  inside += fmt::format("float {} = {};\n", acc, p.max ? "-INFINITY" : "0.0f") + loops +
            indented(p.max ? fmt::format("best = fmaxf(best, {});\n", kernel.load(s.x, from)) : fmt::format("acc += {};\n", kernel.load(s.x, from)), depth) + closing;
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(p.max ? acc : fmt::format("acc / ({})", count)));
  kernel.body = head + kernel.guarded({{"idx", total}}, inside + tail);
  const std::int64_t threads = unit.writer().style().threads;
  kernel.launch({{ceil_div_text(total, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(unit.value_of(total), threads)}, {threads}, "", 0});
  return unit.done();
}

// A plane to one number: a block for each.
Result<Unit> global(AnchorUnit& unit) {
  const Setup s = setup(unit);
  const Pool& p = s.p;
  for (std::size_t a = 0; a < p.axes; ++a) unit.size(s.out[a], "1", 1);
  shape(unit, s, "plane");
  const std::string area = unit.word("area", "plane_size", "spatial");
  unit.size(area, product_text(s.in), p.window);
  std::string sum;
  if (!p.max) sum = block_sum(unit.writer());
  AnchorKernel kernel(unit, fmt::format("global_{}_pool_kernel", p.max ? "max" : "avg"));
  kernel.reads(s.x, "");
  if (p.channels) kernel.size(s.outer_sizes[1]);
  kernel.size(area);
  std::string text = kernel.index("plane", "blockIdx.x", "one channel of one image");
  const std::string from = fmt::format("plane * {} + i", area);
  kernel.access(s.x, "", from);
  kernel.loop("i", "threadIdx.x", area, "blockDim.x", "elements of the plane");
  std::string value;
  if (p.max) {
    text += replaced("__shared__ float partial[256];\nfloat best = -INFINITY;\nfor (int i = threadIdx.x; i < @area@; i += blockDim.x) {\n    best = fmaxf(best, @x@);\n}\n"
                     "partial[threadIdx.x] = best;\n__syncthreads();\n"
                     "for (int step = blockDim.x / 2; step > 0; step /= 2) {\n"
                     "    if (threadIdx.x < step) partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + step]);\n"
                     "    __syncthreads();\n}\n",
                     {{"area", area}, {"x", kernel.load(s.x, from)}});
    value = "partial[0]";
  } else {
    text += replaced("__shared__ float partial[32];\nfloat acc = 0.0f;\nfor (int i = threadIdx.x; i < @area@; i += blockDim.x) {\n    acc += @x@;\n}\nacc = @sum@(acc, partial);\n",
                     {{"area", area}, {"x", kernel.load(s.x, from)}, {"sum", sum}});
    value = fmt::format("acc / {}", area);
  }
  // The epilogue may have operands of one number a channel.
  std::string decode;
  if (p.channels && !unit.region().epilogue.empty())
    decode = kernel.index(s.outer[1], "plane % " + s.outer_sizes[1], "channel") + kernel.index(s.outer[0], "plane / " + s.outer_sizes[1], "image of the batch");
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(value));
  kernel.body = text + "if (threadIdx.x == 0) {\n" + indented(decode + tail, 4) + "}\n";
  const std::int64_t threads = unit.writer().draw().choose({64, 128, 256});
  kernel.launch({{product_text(s.outer_sizes)}, {std::to_string(threads)}, {p.planes}, {threads}, "", p.max ? 1024 : 128});
  return unit.done();
}

bool takes_direct(const Graph& g, const Region& r) {
  Pool p;
  return describe(g, r, p) && !p.adaptive;
}
bool takes_adaptive(const Graph& g, const Region& r) {
  Pool p;
  return describe(g, r, p) && p.adaptive;
}
bool takes_global(const Graph& g, const Region& r) {
  Pool p;
  return describe(g, r, p) && p.adaptive && p.places == 1;
}

}  // namespace

void add_pool_schedules(Schedules& all) {
  all.push_back(anchor_schedule("pool.direct", "pool", takes_direct, direct));
  all.push_back(anchor_schedule("pool.adaptive", "adaptive_pool", takes_adaptive, adaptive));
  all.push_back(anchor_schedule("pool.global", "global_pool", takes_global, global));
}

}  // namespace musacoder::synth
