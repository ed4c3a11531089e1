// Schedules of convolutions and transposed convolutions over one to three axes: one thread an output element, weights of a channel in shared
// memory, several output channels a thread, implicit matrix products in shared-memory tiles, and kernels for pointwise and depthwise ones.
#include <algorithm>

#include "synth/teacher/spatial.h"

namespace musacoder::synth {
namespace {

struct Conv {
  std::size_t axes = 0;
  bool transposed = false;
  std::int64_t n = 1, in = 1, out = 1, groups = 1, taps = 1, places = 1;  // taps: of the kernel; places: of the result, without channels
  std::vector<std::int64_t> kernel, in_size, out_size;
};

bool describe(const Graph& graph, const Region& region, Conv& c) {
  const Node& node = graph.nodes[static_cast<std::size_t>(region.anchor)];
  if (node.op.rfind("conv", 0) != 0) return false;
  c.transposed = node.op.rfind("conv_transpose", 0) == 0;
  const TensorType &x = graph.type(node.inputs[0]), &w = graph.type(node.inputs[1]), &y = graph.type(node.outputs[0]);
  if (y.dtype != DType::kF32 && y.dtype != DType::kF16 && y.dtype != DType::kBF16) return false;
  c.axes = x.dims.size() - 2;
  c.n = x.dims[0].size;
  c.in = x.dims[1].size;
  c.out = y.dims[1].size;
  c.groups = node.integer("groups", 1);
  for (std::size_t k = 0; k < c.axes; ++k) {
    c.kernel.push_back(w.dims[k + 2].size);
    c.in_size.push_back(x.dims[k + 2].size);
    c.out_size.push_back(y.dims[k + 2].size);
    c.taps *= c.kernel.back();
    c.places *= c.out_size.back();
  }
  return epilogue_fits(graph, region, std::vector<int>(c.axes + 2, 1));
}

struct Setup {
  Conv c;
  std::string x, w, bias, batch, in_ch, out_ch, in_group, out_group, group, n, oc, ic;
  std::vector<std::string> in, out, k, o, t;  // sizes of input, result and kernel; coordinates of result and kernel
  PerAxis stride, padding, dilation, more;

  std::vector<std::string> in_sizes() const { return with(batch, in_ch, in); }
  std::vector<std::string> out_sizes() const { return with(batch, out_ch, out); }
  std::vector<std::string> coordinates() const { return with(n, oc, o); }
  static std::vector<std::string> with(const std::string& a, const std::string& b, const std::vector<std::string>& rest) {
    std::vector<std::string> all{a, b};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }
  std::string at_x(const std::string& channel, const std::vector<std::string>& places) const { return flat_index(with(n, channel, places), in_sizes()); }
  // Weights are (out, in / groups, …), transposed ones (in, out / groups, …).
  std::string at_w(const std::string& first, const std::string& second) const {
    return flat_index(with(first, second, t), with("", c.transposed ? out_group : in_group, k));
  }
};

Setup setup(AnchorUnit& unit, bool flat) {
  Setup s;
  describe(unit.graph(), unit.region(), s.c);
  const Conv& c = s.c;
  const Node& node = unit.node();
  const std::vector<std::string> letters = axis_letters(c.axes);
  s.x = unit.tensor(node.inputs[0], unit.word("x", "input", "x"));
  s.w = unit.tensor(node.inputs[1], unit.word("w", "weight", "weight"));
  if (node.inputs.size() > 2) s.bias = unit.tensor(node.inputs[2], "bias");
  s.batch = unit.word("batch", "N", "batch_size");
  s.in_ch = unit.word("in_ch", "C_in", "in_channels");
  s.out_ch = unit.word("out_ch", "C_out", "out_channels");
  s.n = unit.word("n", "b", "n_idx");
  s.oc = unit.word("oc", "co", "oc");
  s.ic = unit.word("ic", "ci", "ic");
  s.stride = per_axis(unit, "stride", "stride", c.axes, 1, 1);
  s.padding = per_axis(unit, "padding", unit.word("pad", "padding", "padding"), c.axes, 0, 0);
  if (c.transposed) s.more = per_axis(unit, "output_padding", unit.word("out_pad", "output_padding", "extra"), c.axes, 0, 0);
  s.dilation = per_axis(unit, "dilation", unit.word("dil", "dilation", "dilation"), c.axes, 1, 1);
  unit.size(s.batch, s.x + ".size(0)", c.n);
  unit.size(s.in_ch, s.x + ".size(1)", c.in);
  const std::int64_t in_group = c.in / c.groups, out_group = c.out / c.groups;
  s.in_group = s.in_ch;
  s.out_group = s.out_ch;
  if (c.transposed) {
    if (c.groups > 1) {
      s.in_group = unit.word("in_per_group", "cin_group", "channels_per_group");
      s.out_group = unit.word("out_per_group", "cout_group", "outputs_per_group");
      unit.number("groups", node.module >= 0 ? fmt::format("self.{}.groups", unit.graph().modules[static_cast<std::size_t>(node.module)].name) : std::to_string(c.groups), c.groups);
      unit.size(s.out_group, s.w + ".size(1)", out_group);
      unit.size(s.in_group, s.in_ch + " / groups", in_group);
      unit.size(s.out_ch, s.out_group + " * groups", c.out);
    } else {
      unit.size(s.out_ch, s.w + ".size(1)", c.out);
    }
  } else {
    unit.size(s.out_ch, s.w + ".size(0)", c.out);
    if (c.groups > 1) {
      s.in_group = unit.word("in_per_group", "cin_group", "channels_per_group");
      s.out_group = unit.word("out_per_group", "cout_group", "outputs_per_group");
      unit.size(s.in_group, s.w + ".size(1)", in_group);
      unit.size(s.out_group, fmt::format("{} / ({} / {})", s.out_ch, s.in_ch, s.in_group), out_group);
    }
  }
  const bool square = std::all_of(c.kernel.begin(), c.kernel.end(), [&](std::int64_t v) { return v == c.kernel[0]; });
  for (std::size_t a = 0; a < c.axes; ++a) {
    s.in.push_back("in_" + letters[a]);
    s.o.push_back("o" + letters[a]);
    s.t.push_back("k" + letters[a]);
    unit.size(s.in[a], fmt::format("{}.size({})", s.x, a + 2), c.in_size[a]);
    s.k.push_back(square ? unit.word("ksize", "K", "kernel_size") : unit.word("k_", "K_", "kernel_") + letters[a]);
    if (a == 0 || !square) unit.size(s.k[a], fmt::format("{}.size({})", s.w, a + 2), c.kernel[a]);
  }
  std::string shape = s.batch + ", " + s.out_ch;
  for (std::size_t a = 0; a < c.axes; ++a) {
    s.out.push_back("out_" + letters[a]);
    const std::string pad = s.padding.names[a].empty() ? "" : " - 2 * " + s.padding.names[a];
    const std::string span = s.dilation.names[a].empty() ? s.k[a] : fmt::format("{} * ({} - 1) + 1", s.dilation.names[a], s.k[a]);
    std::string formula;
    if (c.transposed) {
      formula = s.stride.names[a].empty() ? s.in[a] + " - 1" : fmt::format("({} - 1) * {}", s.in[a], s.stride.names[a]);
      formula += pad + " + " + span + (s.more.names[a].empty() ? "" : " + " + s.more.names[a]);
    } else {
      const std::string more = s.padding.names[a].empty() ? s.in[a] : fmt::format("{} + 2 * {}", s.in[a], s.padding.names[a]);
      const std::string less = s.dilation.names[a].empty() ? " - " + s.k[a] : fmt::format(" - {} * ({} - 1) - 1", s.dilation.names[a], s.k[a]);
      formula = s.stride.names[a].empty() ? more + less + " + 1" : fmt::format("({}{}) / {} + 1", more, less, s.stride.names[a]);
    }
    unit.size(s.out[a], formula, c.out_size[a]);
    shape += ", " + s.out[a];
  }
  std::vector<OutAxis> axes{{s.n, s.batch, 1}, {s.oc, s.out_ch, 1}};
  for (std::size_t a = 0; a < c.axes; ++a) axes.push_back({s.o[a], s.out[a], 1});
  unit.result(std::move(axes), "{" + shape + "}", flat ? "idx" : "");
  return s;
}

void inputs(AnchorKernel& kernel, const Setup& s, bool batch_too, bool grouped) {
  kernel.reads(s.x, "");
  kernel.reads(s.w, "");
  if (!s.bias.empty()) kernel.reads(s.bias, "");
  if (batch_too) kernel.size(s.batch);
  kernel.sizes({s.in_ch, s.out_ch});
  if (grouped && s.c.groups > 1) kernel.sizes({s.in_group, s.out_group});
  for (const auto& list : {s.in, s.out}) for (const std::string& name : list) kernel.size(name);
  std::vector<std::string> known;
  const auto once = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (name.empty() || std::count(known.begin(), known.end(), name) != 0) continue;
      known.push_back(name);
      kernel.size(name);
    }
  };
  once(s.k);
  once(s.stride.names);
  once(s.padding.names);
  once(s.dilation.names);
}

std::vector<std::string> meanings(std::size_t axes) {
  std::vector<std::string> all{"image of the batch", "output channel"};
  for (const std::string& letter : axis_letters(axes))
    all.push_back(letter == "h" ? "row of the result" : letter == "w" ? "column of the result" : letter == "d" ? "slice of the result" : "place of the result");
  return all;
}

// Loops over input channels ("": there is one) and kernel places around `step`, which may use the input element's coordinates (i + letter).
std::string loops(AnchorKernel& kernel, const Setup& s, const std::string& channels, const std::string& step) {
  const std::vector<std::string> letters = axis_letters(s.c.axes);
  std::string text;
  int depth = 0;
  if (!channels.empty()) {
    text = fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{\n", s.ic, channels);
    kernel.loop(s.ic, "0", channels, "1", "input channels");
    depth = 4;
  }
  for (std::size_t a = 0; a < s.c.axes; ++a) {
    const std::string own = "i" + letters[a];
    text += indented(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{\n", s.t[a], s.k[a]), depth);
    kernel.loop(s.t[a], "0", s.k[a], "1", "places of the kernel");
    depth += 4;
    if (s.c.transposed) {
      std::string from = s.padding.names[a].empty() ? s.o[a] : s.o[a] + " + " + s.padding.names[a];
      from += " - " + (s.dilation.names[a].empty() ? s.t[a] : s.t[a] + " * " + s.dilation.names[a]);
      if (s.stride.names[a].empty()) {
        text += indented(fmt::format("const int {0} = {1};\nif ({0} < 0 || {0} >= {2}) continue;\n", own, from, s.in[a]), depth);
      } else {
        text += indented(fmt::format("const int {0}_s = {1};\nif ({0}_s < 0 || {0}_s % {2} != 0) continue;\nconst int {0} = {0}_s / {2};\nif ({0} >= {3}) continue;\n", own, from, s.stride.names[a], s.in[a]), depth);
      }
      kernel.bound(own + " >= " + s.in[a]);
    } else {
      text += indented(fmt::format("const int {} = {};\n", own, window_position(s.o[a], s.stride.names[a], s.padding.names[a], s.t[a], s.dilation.names[a])), depth);
      if (!s.padding.names[a].empty()) {
        const std::string outside = fmt::format("{0} < 0 || {0} >= {1}", own, s.in[a]);
        text += indented(fmt::format("if ({}) continue;\n", outside), depth);
        kernel.bound(outside);
      }
    }
  }
  text += indented(step, depth);
  for (; depth > 0; depth -= 4) text += std::string(static_cast<std::size_t>(depth - 4), ' ') + "}\n";
  return text;
}

std::vector<std::string> input_places(const Setup& s) {
  std::vector<std::string> all;
  for (const std::string& letter : axis_letters(s.c.axes)) all.push_back("i" + letter);
  return all;
}

std::string channel_of(const Setup& s) { return s.c.groups > 1 ? fmt::format("group * {} + {}", s.in_group, s.ic) : s.ic; }
std::string channel_line(AnchorKernel& kernel, const Setup& s) {
  return s.c.groups > 1 ? kernel.index("group", s.oc + " / " + s.out_group, "group of the output channel") : "";
}
std::string at_x(const Setup& s) {
  return s.at_x(channel_of(s), input_places(s));
}
std::string at_w(const Setup& s) {
  if (!s.c.transposed) return s.at_w(s.oc, s.ic);
  return s.c.groups > 1 ? s.at_w("(" + channel_of(s) + ")", fmt::format("{} % {}", s.oc, s.out_group)) : s.at_w(s.ic, s.oc);
}
std::string start(AnchorKernel& kernel, const Setup& s) {
  if (s.bias.empty()) return "float acc = 0.0f;\n";
  kernel.access(s.bias, "", s.oc);
  return fmt::format("float acc = {};\n", kernel.load(s.bias, s.oc));
}

// One thread an output element.
Result<Unit> direct(AnchorUnit& unit) {
  const Setup s = setup(unit, true);
  const char* kind = s.c.transposed ? "conv_transpose" : "conv";
  const std::string total = unit.word("total", "n_out", "num_outputs");
  unit.size(total, product_text(s.out_sizes()), s.c.n * s.c.out * s.c.places);
  AnchorKernel kernel(unit, fmt::format("{}{}d_{}kernel", kind, s.c.axes, unit.word("", "direct_", "naive_")));
  inputs(kernel, s, false, true);
  kernel.size(total);
  const std::string head = kernel.index("idx", "blockIdx.x * blockDim.x + threadIdx.x", "one element of the result");
  std::string inside = decoded(kernel, "idx", s.coordinates(), s.out_sizes(), meanings(s.c.axes)) + channel_line(kernel, s);
  kernel.access(s.x, "", at_x(s));
  kernel.access(s.w, "", at_w(s));
  inside += start(kernel, s) + loops(kernel, s, s.in_group, fmt::format("acc += {} * {};\n", kernel.load(s.x, at_x(s)), kernel.load(s.w, at_w(s))));
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  kernel.body = head + kernel.guarded({{"idx", total}}, inside + tail);
  const std::int64_t threads = unit.writer().style().threads;
  kernel.launch({{ceil_div_text(total, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(unit.value_of(total), threads)}, {threads}, "", 0});
  return unit.done();
}

std::string place_decode(AnchorKernel& kernel, const Setup& s) {
  std::vector<std::string> words = meanings(s.c.axes);
  words.erase(words.begin(), words.begin() + 2);
  if (s.c.axes == 1) return kernel.index(s.o[0], "pos", words[0]);
  return decoded(kernel, "pos", s.o, s.out, words);
}

// A block works on one output channel of one image, with that channel's weights in shared memory.
Result<Unit> shared_weights(AnchorUnit& unit) {
  const Setup s = setup(unit, false);
  const std::string places = unit.word("places", "spatial", "out_size"), taps = unit.word("taps", "w_per_channel", "weights");
  unit.size(places, product_text(s.out), s.c.places);
  std::vector<std::string> each{s.in_group};
  each.insert(each.end(), s.k.begin(), s.k.end());
  const std::int64_t count = s.c.in / s.c.groups * s.c.taps;
  unit.size(taps, product_text(each), count);
  AnchorKernel kernel(unit, fmt::format("conv{}d_shared_weight_kernel", s.c.axes));
  inputs(kernel, s, false, true);
  kernel.sizes({places, taps});
  std::string text = "extern __shared__ float shared_w[];\n";
  text += kernel.index("pos", "blockIdx.x * blockDim.x + threadIdx.x", "one place of the result");
  text += kernel.index(s.oc, "blockIdx.y", "output channel");
  text += kernel.index(s.n, "blockIdx.z", "image of the batch");
  text += channel_line(kernel, s);
  kernel.loop("i", "threadIdx.x", taps, "blockDim.x", "weights of the channel");
  const std::string from = fmt::format("{} * {} + i", s.oc, taps);
  kernel.access(s.w, "", from);
  text += replaced("// Every thread of the block needs all weights of this channel.\n"
                   "for (int i = threadIdx.x; i < @taps@; i += blockDim.x) {\n    shared_w[i] = @w@;\n}\n__syncthreads();\n",
                   {{"taps", taps}, {"w", kernel.load(s.w, from)}});
  std::string inside = place_decode(kernel, s) + start(kernel, s);
  std::vector<std::string> local{s.ic};
  local.insert(local.end(), s.t.begin(), s.t.end());
  kernel.access(s.x, "", at_x(s));
  inside += loops(kernel, s, s.in_group, fmt::format("acc += {} * shared_w[{}];\n", kernel.load(s.x, at_x(s)), flat_index(local, each)));
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  kernel.body = text + kernel.guarded({{"pos", places}}, inside + tail);
  const std::int64_t threads = unit.writer().draw().choose({64, 128, 256});
  kernel.launch({{ceil_div_text(places, std::to_string(threads)), s.out_ch, s.batch}, {std::to_string(threads)},
                 {ceil_div(s.c.places, threads), s.c.out, s.c.n}, {threads}, taps + " * sizeof(float)", 4 * count});
  return unit.done();
}

// Each thread makes the same place of several output channels, so that an input element is read once for all of them.
Result<Unit> several_channels(AnchorUnit& unit) {
  const Setup s = setup(unit, false);
  const std::int64_t count = unit.writer().draw().choose({2, 4, 4});
  const std::string per = unit.constant(unit.word("OC_PER_THREAD", "CHANNELS", "kChannels"), count);
  const std::string places = unit.word("places", "spatial", "out_size");
  unit.size(places, product_text(s.out), s.c.places);
  AnchorKernel kernel(unit, fmt::format("conv{}d_{}kernel", s.c.axes, unit.word("multi_", "channel_block_", "blocked_")));
  inputs(kernel, s, false, false);
  kernel.size(places);
  std::string text = kernel.index("pos", "blockIdx.x * blockDim.x + threadIdx.x", "one place of the result");
  text += kernel.index("oc0", fmt::format("blockIdx.y * {}", per), "first output channel of the thread");
  text += kernel.index(s.n, "blockIdx.z", "image of the batch");
  std::string inside = place_decode(kernel, s);
  inside += replaced("float acc[@per@];\n#pragma unroll\nfor (int j = 0; j < @per@; ++j) acc[j] = @zero@;\n",
                     {{"per", per}, {"zero", s.bias.empty() ? "0.0f" : fmt::format("oc0 + j < {} ? {} : 0.0f", s.out_ch, kernel.load(s.bias, "oc0 + j"))}});
  const std::string weight = flat_index(Setup::with("(oc0 + j)", s.ic, s.t), Setup::with("", s.in_group, s.k));
  kernel.access(s.x, "", at_x(s));
  kernel.access(s.w, "", weight);
  kernel.bound("oc0 + j < " + s.out_ch);
  inside += loops(kernel, s, s.in_group,
                  replaced("const float xv = @x@;\n#pragma unroll\nfor (int j = 0; j < @per@; ++j) {\n    if (oc0 + j < @out@) acc[j] += xv * @w@;\n}\n",
                           {{"x", kernel.load(s.x, at_x(s))}, {"per", per}, {"out", s.out_ch}, {"w", kernel.load(s.w, weight)}}));
  const std::string line = kernel.index(s.oc, "oc0 + j", "output channel");
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc[j]"));
  inside += replaced("#pragma unroll\nfor (int j = 0; j < @per@; ++j) {\n    @line@    if (@oc@ < @out@) {\n", {{"per", per}, {"line", line}, {"oc", s.oc}, {"out", s.out_ch}}) +
            indented(tail, 8) + "    }\n}\n";
  kernel.body = text + kernel.guarded({{"pos", places}}, inside);
  const std::int64_t threads = unit.writer().draw().choose({64, 128, 256});
  kernel.launch({{ceil_div_text(places, std::to_string(threads)), ceil_div_text(s.out_ch, per), s.batch}, {std::to_string(threads)},
                 {ceil_div(s.c.places, threads), ceil_div(s.c.out, count), s.c.n}, {threads}, "", 0});
  return unit.done();
}

// The convolution as a matrix product whose left operand is never written: rows are places of the result, the summed axis runs over input
// channels and places of the kernel.
Result<Unit> implicit_gemm(AnchorUnit& unit) {
  const Setup s = setup(unit, false);
  const std::string tile = unit.constant(unit.word("TILE", "TILE_DIM", "kTile"), 16);
  const std::string rows = unit.word("rows", "gemm_m", "num_places"), inner = unit.word("inner", "gemm_k", "patch");
  std::vector<std::string> row_sizes{s.batch}, inner_sizes{s.in_ch};
  row_sizes.insert(row_sizes.end(), s.out.begin(), s.out.end());
  inner_sizes.insert(inner_sizes.end(), s.k.begin(), s.k.end());
  unit.size(rows, product_text(row_sizes), s.c.n * s.c.places);
  unit.size(inner, product_text(inner_sizes), s.c.in * s.c.taps);
  AnchorKernel kernel(unit, fmt::format("conv{}d_implicit_gemm_kernel", s.c.axes));
  inputs(kernel, s, false, false);
  kernel.sizes({rows, inner});
  std::string text = replaced("__shared__ float patch_tile[@T@][@T@];\n__shared__ float weight_tile[@T@][@T@ + 1];\n", {{"T", tile}});
  text += kernel.index("row", fmt::format("blockIdx.y * {} + threadIdx.y", tile), "one place of one image of the result");
  text += kernel.index(s.oc, fmt::format("blockIdx.x * {} + threadIdx.x", tile), "output channel");
  text += kernel.index("w_row", fmt::format("blockIdx.x * {} + threadIdx.y", tile), "output channel whose weight this thread loads");
  std::vector<std::string> names{s.n}, words{"image of the batch"};
  names.insert(names.end(), s.o.begin(), s.o.end());
  for (std::size_t a = 0; a < s.c.axes; ++a) words.push_back("place of the result");
  text += decoded(kernel, "row", names, row_sizes, words);
  std::vector<std::string> k_names{s.ic}, k_words{"input channel"};
  k_names.insert(k_names.end(), s.t.begin(), s.t.end());
  for (std::size_t a = 0; a < s.c.axes; ++a) k_words.push_back("place of the kernel");
  const std::string k_decode = decoded(kernel, "kx", k_names, inner_sizes, k_words);
  std::string place_lines, test;
  const std::vector<std::string> letters = axis_letters(s.c.axes);
  for (std::size_t a = 0; a < s.c.axes; ++a) {
    place_lines += fmt::format("const int i{} = {};\n", letters[a], window_position(s.o[a], s.stride.names[a], s.padding.names[a], s.t[a], s.dilation.names[a]));
    test += fmt::format("{0}i{1} >= 0 && i{1} < {2}", test.empty() ? "" : " && ", letters[a], s.in[a]);
  }
  kernel.bound(test);
  kernel.bound(fmt::format("row < {} && kx < {}", rows, inner));
  kernel.bound(fmt::format("w_row < {} && kx < {}", s.out_ch, inner));
  kernel.loop("k0", "0", inner, tile, "tiles along the summed axis");
  kernel.loop("kk", "0", tile, "1", "products within a tile");
  const std::string weight = fmt::format("w_row * {} + kx", inner);
  kernel.access(s.x, "", at_x(s));
  kernel.access(s.w, "", weight);
  text += replaced("\nfloat acc = 0.0f;\n"
                   "for (int k0 = 0; k0 < @inner@; k0 += @T@) {\n"
                   "    const int kx = k0 + threadIdx.x;\n"
                   "    float value = 0.0f;\n"
                   "    if (row < @rows@ && kx < @inner@) {\n" + indented(k_decode + place_lines, 8) +
                   "        if (@test@) value = @x@;\n"
                   "    }\n"
                   "    patch_tile[threadIdx.y][threadIdx.x] = value;\n"
                   "    weight_tile[threadIdx.y][threadIdx.x] = (w_row < @out@ && kx < @inner@) ? @w@ : 0.0f;\n"
                   "    __syncthreads();\n"
                   "    #pragma unroll\n"
                   "    for (int kk = 0; kk < @T@; ++kk) acc += patch_tile[threadIdx.y][kk] * weight_tile[threadIdx.x][kk];\n"
                   "    __syncthreads();\n"
                   "}\n",
                   {{"inner", inner}, {"T", tile}, {"rows", rows}, {"test", test}, {"x", kernel.load(s.x, at_x(s))}, {"out", s.out_ch}, {"w", kernel.load(s.w, weight)}});
  std::string value = "acc";
  if (!s.bias.empty()) {
    kernel.access(s.bias, "", s.oc);
    value = "acc + " + kernel.load(s.bias, s.oc);
  }
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish(value));
  kernel.body = text + kernel.guarded({{"row", rows}, {s.oc, s.out_ch}}, tail, false);
  kernel.launch({{ceil_div_text(s.out_ch, tile), ceil_div_text(rows, tile)}, {tile, tile}, {ceil_div(s.c.out, 16), ceil_div(s.c.n * s.c.places, 16)}, {16, 16}, "", 4 * 16 * 33});
  return unit.done();
}

// 1 × 1: for each image the weights times a matrix of channels and places.
Result<Unit> pointwise(AnchorUnit& unit) {
  const Setup s = setup(unit, false);
  const std::string tile = unit.constant(unit.word("TILE", "TILE_DIM", "kTile"), 16);
  const std::string places = unit.word("places", "spatial", "pixels");
  unit.size(places, product_text(s.out), s.c.places);
  AnchorKernel kernel(unit, unit.word("pointwise_kernel", "conv1x1_kernel", "pointwise_conv_kernel"));
  kernel.reads(s.x, "");
  kernel.reads(s.w, "");
  if (!s.bias.empty()) kernel.reads(s.bias, "");
  kernel.sizes({s.in_ch, s.out_ch});
  if (s.c.axes > 1) for (const std::string& name : s.out) kernel.size(name);
  kernel.size(places);
  if (s.c.axes == 1) kernel.size(s.out[0]);
  std::string text = replaced("__shared__ float tile_w[@T@][@T@];\n__shared__ float tile_x[@T@][@T@];\n", {{"T", tile}});
  text += kernel.index("pos", fmt::format("blockIdx.x * {} + threadIdx.x", tile), "one place of the result");
  text += kernel.index(s.oc, fmt::format("blockIdx.y * {} + threadIdx.y", tile), "output channel");
  text += kernel.index(s.n, "blockIdx.z", "image of the batch");
  const std::string from_w = fmt::format("{} * {} + k0 + threadIdx.x", s.oc, s.in_ch), from_x = fmt::format("({} * {} + k0 + threadIdx.y) * {} + pos", s.n, s.in_ch, places);
  kernel.access(s.w, "", from_w);
  kernel.access(s.x, "", from_x);
  kernel.loop("k0", "0", s.in_ch, tile, "tiles of input channels");
  kernel.loop("kk", "0", tile, "1", "products within a tile");
  kernel.bound(fmt::format("{} < {} && k0 + threadIdx.x < {}", s.oc, s.out_ch, s.in_ch));
  kernel.bound(fmt::format("k0 + threadIdx.y < {} && pos < {}", s.in_ch, places));
  if (!s.bias.empty()) kernel.access(s.bias, "", s.oc);
  text += s.bias.empty() ? "\nfloat acc = 0.0f;\n" : fmt::format("\nfloat acc = {} < {} ? {} : 0.0f;\n", s.oc, s.out_ch, kernel.load(s.bias, s.oc));
  text += replaced("for (int k0 = 0; k0 < @in@; k0 += @T@) {\n"
                   "    tile_w[threadIdx.y][threadIdx.x] = (@oc@ < @out@ && k0 + threadIdx.x < @in@) ? @w@ : 0.0f;\n"
                   "    tile_x[threadIdx.y][threadIdx.x] = (k0 + threadIdx.y < @in@ && pos < @places@) ? @x@ : 0.0f;\n"
                   "    __syncthreads();\n"
                   "    #pragma unroll\n"
                   "    for (int kk = 0; kk < @T@; ++kk) acc += tile_w[threadIdx.y][kk] * tile_x[kk][threadIdx.x];\n"
                   "    __syncthreads();\n"
                   "}\n",
                   {{"in", s.in_ch}, {"out", s.out_ch}, {"T", tile}, {"oc", s.oc}, {"places", places}, {"w", kernel.load(s.w, from_w)}, {"x", kernel.load(s.x, from_x)}});
  const std::string place = place_decode(kernel, s);
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  kernel.body = text + kernel.guarded({{s.oc, s.out_ch}, {"pos", places}}, place + tail, false);
  kernel.launch({{ceil_div_text(places, tile), ceil_div_text(s.out_ch, tile), s.batch}, {tile, tile},
                 {ceil_div(s.c.places, 16), ceil_div(s.c.out, 16), s.c.n}, {16, 16}, "", 4 * 2 * 16 * 16});
  return unit.done();
}

// One channel in, one out: the window alone.
Result<Unit> depthwise(AnchorUnit& unit) {
  const Setup s = setup(unit, true);
  const std::string total = unit.word("total", "n_out", "num_outputs");
  unit.size(total, product_text(s.out_sizes()), s.c.n * s.c.out * s.c.places);
  AnchorKernel kernel(unit, fmt::format("depthwise{}d_kernel", s.c.axes));
  inputs(kernel, s, false, false);
  kernel.size(total);
  const std::string head = kernel.index("idx", "blockIdx.x * blockDim.x + threadIdx.x", "one element of the result");
  std::string inside = decoded(kernel, "idx", s.coordinates(), s.out_sizes(), meanings(s.c.axes));
  const std::string x = s.at_x(s.oc, input_places(s));
  std::vector<std::string> names{s.oc}, sizes{""};
  names.insert(names.end(), s.t.begin(), s.t.end());
  sizes.insert(sizes.end(), s.k.begin(), s.k.end());
  const std::string w = flat_index(names, sizes);
  kernel.access(s.x, "", x);
  kernel.access(s.w, "", w);
  inside += start(kernel, s) + loops(kernel, s, "", fmt::format("acc += {} * {};\n", kernel.load(s.x, x), kernel.load(s.w, w)));
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("acc"));
  kernel.body = head + kernel.guarded({{"idx", total}}, inside + tail);
  const std::int64_t threads = unit.writer().style().threads;
  kernel.launch({{ceil_div_text(total, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(unit.value_of(total), threads)}, {threads}, "", 0});
  return unit.done();
}

bool takes_any(const Graph& g, const Region& r) {
  Conv c;
  return describe(g, r, c);
}
bool takes_shared(const Graph& g, const Region& r) {
  Conv c;
  return describe(g, r, c) && !c.transposed && c.in / c.groups * c.taps <= 8192 && c.out <= 65535 && c.n <= 65535;
}
bool takes_several(const Graph& g, const Region& r) {
  Conv c;
  return describe(g, r, c) && !c.transposed && c.groups == 1 && c.out >= 4 && c.n <= 65535;
}
bool takes_gemm(const Graph& g, const Region& r) {
  Conv c;
  return describe(g, r, c) && !c.transposed && c.groups == 1 && c.in * c.taps >= 16 && c.n * c.places <= 65535 * 16;
}
bool takes_pointwise(const Graph& g, const Region& r) {
  Conv c;
  if (!describe(g, r, c) || c.transposed || c.groups != 1 || c.taps != 1 || c.n > 65535) return false;
  const Node& node = g.nodes[static_cast<std::size_t>(r.anchor)];
  for (std::int64_t v : spread(node, "stride", c.axes, 1)) if (v != 1) return false;
  for (std::int64_t v : spread(node, "padding", c.axes, 0)) if (v != 0) return false;
  return true;
}
bool takes_depthwise(const Graph& g, const Region& r) {
  Conv c;
  return describe(g, r, c) && !c.transposed && c.groups > 1 && c.groups == c.in && c.in == c.out;
}

}  // namespace

void add_conv_schedules(Schedules& all) {
  all.push_back(anchor_schedule("conv.direct", "conv", takes_any, direct));
  all.push_back(anchor_schedule("conv.shared_weights", "conv_shared", takes_shared, shared_weights));
  all.push_back(anchor_schedule("conv.several_channels", "conv_blocked", takes_several, several_channels));
  all.push_back(anchor_schedule("conv.implicit_gemm", "conv_gemm", takes_gemm, implicit_gemm));
  all.push_back(anchor_schedule("conv.pointwise", "conv_pointwise", takes_pointwise, pointwise));
  all.push_back(anchor_schedule("conv.depthwise", "conv_depthwise", takes_depthwise, depthwise));
}

}  // namespace musacoder::synth
