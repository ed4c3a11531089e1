// Small networks of several layers, as KernelBench's third level has them.
#include <cmath>

#include "synth/tasks/chains.h"
#include "synth/tasks/tasks.h"

namespace musacoder::synth {
namespace {

int linear(GraphBuilder& b, const char* name, int x, const Dim& in, const Dim& out, bool bias = true) {
  Attrs args{{"in_features", Attr::of(in)}, {"out_features", Attr::of(out)}};
  if (!bias) args["bias"] = false;
  return b.module(name, "Linear", "linear", {x}, args);
}

int conv3(GraphBuilder& b, const char* name, int x, const Dim& in, const Dim& out, std::int64_t stride = 1, bool bias = true) {
  Attrs args{{"in_channels", Attr::of(in)}, {"out_channels", Attr::of(out)}, {"kernel_size", 3}, {"padding", 1}};
  if (stride != 1) args["stride"] = stride;
  if (!bias) args["bias"] = false;
  return b.module(name, "Conv2d", "conv2d", {x}, args);
}

const char* activation(Seeded& draw) { return draw.choose({"relu", "relu", "gelu", "silu", "tanh", "leaky_relu"}); }

void mlp(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({16, 64, 128, 256})), in = b.dim("input_size", draw.choose({64, 128, 256, 500}));
  const int layers = static_cast<int>(draw.between(2, 4));
  int x = b.input("x", DType::kF32, {batch, in});
  Dim width = in;
  const char* act = activation(draw);
  static const char* const kNames[] = {"fc1", "fc2", "fc3", "fc4"};
  static const char* const kSizes[] = {"hidden1", "hidden2", "hidden3", "hidden4"};
  for (int k = 0; k < layers; ++k) {
    const bool last = k + 1 == layers;
    const Dim out = b.dim(last ? "output_size" : kSizes[k], last ? draw.choose({10, 32, 100}) : draw.choose({64, 100, 128, 256}));
    x = linear(b, kNames[k], x, width, out);
    if (!last) x = b.op(act, {x});
    width = out;
  }
  if (draw.chance(0.3)) x = b.op("softmax", {x}, {{"dim", 1}});
  b.output(x);
  text = "A multi-layer perceptron with " + std::to_string(layers) + " layers";
}

void convnet(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({4, 8, 16, 32})), in = b.dim("in_channels", draw.choose({1, 3}));
  const Dim size = b.dim("image_size", draw.choose({16, 24, 28, 32}));
  const Dim c1 = b.dim("channels1", draw.choose({4, 6, 8})), c2 = b.dim("channels2", draw.choose({8, 12, 16})), classes = b.dim("num_classes", draw.choose({10, 20, 100}));
  int x = b.input("x", DType::kF32, {batch, in, size, size});
  const char* act = activation(draw);
  x = b.op("max_pool2d", {b.op(act, {conv3(b, "conv1", x, in, c1)})}, {{"kernel_size", 2}});
  x = b.op(act, {conv3(b, "conv2", x, c1, c2)});
  x = b.op("flatten", {b.op("adaptive_avg_pool2d", {x}, {{"output_size", 1}})}, {{"start_dim", 1}});
  b.output(linear(b, "fc", x, c2, classes));
  text = "A small convolutional classifier";
}

void residual(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({4, 8, 16})), in = b.dim("in_channels", draw.choose({4, 8, 16})), size = b.dim("image_size", draw.choose({14, 16, 28}));
  const bool wider = draw.chance(0.4), norm = draw.chance(0.5);
  const Dim out = wider ? b.dim("out_channels", 2 * in.size) : in;
  const int x = b.input("x", DType::kF32, {batch, in, size, size});
  const std::int64_t stride = wider ? 2 : 1;
  int y = conv3(b, "conv1", x, in, out, stride, !norm);
  if (norm) y = b.module("norm1", "GroupNorm", "group_norm", {y}, {{"num_groups", 2}, {"num_channels", Attr::of(out)}});
  y = conv3(b, "conv2", b.op("relu", {y}), out, out, 1, !norm);
  if (norm) y = b.module("norm2", "GroupNorm", "group_norm", {y}, {{"num_groups", 2}, {"num_channels", Attr::of(out)}});
  int skip = x;
  if (wider) skip = b.module("shortcut", "Conv2d", "conv2d", {x}, {{"in_channels", Attr::of(in)}, {"out_channels", Attr::of(out)}, {"kernel_size", 1}, {"stride", 2}, {"bias", false}});
  b.output(b.op("relu", {b.op("add", {y, skip})}));
  text = wider ? "A residual block that halves the image" : "A residual block";
}

void squeeze_excite(GraphBuilder& b, Seeded& draw, std::string& text) {
  const std::int64_t ratio = draw.choose({2, 4});
  const Dim batch = b.dim("batch_size", draw.choose({4, 8, 16, 32})), c = b.dim("channels", ratio * draw.choose({4, 8, 16})), h = b.dim("height", draw.choose({14, 20, 28})), w = b.dim("width", draw.choose({14, 20, 28}));
  const Dim small = b.dim("squeezed", c.size / ratio);
  const int x = b.input("x", DType::kF32, {batch, c, h, w});
  int y = draw.chance(0.5) ? b.op("flatten", {b.op("adaptive_avg_pool2d", {x}, {{"output_size", 1}})}, {{"start_dim", 1}})
                           : b.op("mean", {x}, {{"dim", std::vector<std::int64_t>{2, 3}}});
  y = b.op("relu", {linear(b, "fc1", y, c, small, draw.chance(0.5))});
  y = b.op("sigmoid", {linear(b, "fc2", y, small, c, draw.chance(0.5))});
  y = b.op("unsqueeze", {b.op("unsqueeze", {y}, {{"dim", -1}})}, {{"dim", -1}});
  b.output(b.op("mul", {x, y}));
  text = "Squeeze-and-excitation: channels weighed by their own means";
}

void inverted_residual(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({4, 8, 16})), c = b.dim("channels", draw.choose({8, 12, 16})), size = b.dim("image_size", draw.choose({14, 16, 28}));
  const Dim wide = b.dim("expanded", c.size * draw.choose({2, 3}));
  const int x = b.input("x", DType::kF32, {batch, c, size, size});
  int y = b.op("relu6", {b.module("expand", "Conv2d", "conv2d", {x}, {{"in_channels", Attr::of(c)}, {"out_channels", Attr::of(wide)}, {"kernel_size", 1}})});
  y = b.op("relu6", {b.module("depthwise", "Conv2d", "conv2d", {y}, {{"in_channels", Attr::of(wide)}, {"out_channels", Attr::of(wide)}, {"kernel_size", 3}, {"padding", 1}, {"groups", Attr::of(wide)}})});
  y = b.module("project", "Conv2d", "conv2d", {y}, {{"in_channels", Attr::of(wide)}, {"out_channels", Attr::of(c)}, {"kernel_size", 1}});
  b.output(b.op("add", {x, y}));
  text = "An inverted residual block: expand, depthwise convolution, project";
}

void transformer(GraphBuilder& b, Seeded& draw, std::string& text) {
  const std::int64_t heads = draw.choose({2, 4});
  const Dim batch = b.dim("batch_size", draw.choose({2, 4, 8})), length = b.dim("seq_len", draw.choose({16, 32, 64})), width = b.dim("d_model", heads * draw.choose({8, 16}));
  const Dim inner = b.dim("d_ff", 2 * width.size);
  const int x = b.input("x", DType::kF32, {batch, length, width});
  int h = b.module("norm1", "LayerNorm", "layer_norm", {x}, {{"normalized_shape", Attr::of(width)}});
  const auto split = [&](const char* name) {
    return b.op("transpose", {b.op("unflatten", {linear(b, name, h, width, width)}, {{"dim", 2}, {"factor", width.size / heads}})}, {{"dim0", 1}, {"dim1", 2}});
  };
  const int q = split("wq"), k = split("wk"), v = split("wv");
  int y = b.op("scaled_dot_product_attention", {q, k, v}, draw.chance(0.6) ? Attrs{{"is_causal", true}} : Attrs{});
  y = b.op("flatten", {b.op("contiguous", {b.op("transpose", {y}, {{"dim0", 1}, {"dim1", 2}})})}, {{"start_dim", 2}});
  y = b.op("add", {x, linear(b, "wo", y, width, width)});
  h = b.module("norm2", "LayerNorm", "layer_norm", {y}, {{"normalized_shape", Attr::of(width)}});
  h = linear(b, "down", b.op(draw.choose({"gelu", "relu", "silu"}), {linear(b, "up", h, width, inner)}), inner, width);
  b.output(b.op("add", {y, h}));
  text = "A transformer block";
}

void gated_mlp(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({8, 16, 64})), in = b.dim("dim", draw.choose({64, 128, 96})), hidden = b.dim("hidden_dim", draw.choose({128, 256, 172}));
  int x = b.input("x", DType::kF32, {batch, in});
  const int residual = x;
  if (draw.chance(0.5)) x = b.module("norm", "RMSNorm", "rms_norm", {x}, {{"normalized_shape", Attr::of(in)}, {"eps", 1e-6}});
  const int gate = b.op(draw.choose({"silu", "gelu", "sigmoid"}), {linear(b, "w1", x, in, hidden, false)});
  int y = linear(b, "w2", b.op("mul", {gate, linear(b, "w3", x, in, hidden, false)}), hidden, in, false);
  if (draw.chance(0.5)) y = b.op("add", {y, residual});
  b.output(y);
  text = "A gated feed-forward layer";
}

void cell(GraphBuilder& b, Seeded& draw, std::string& text) {
  const bool gru = draw.chance(0.5);
  const Dim batch = b.dim("batch_size", draw.choose({8, 16, 64})), in = b.dim("input_size", draw.choose({32, 64, 100})), hidden = b.dim("hidden_size", draw.choose({32, 64, 128}));
  const int x = b.input("x", DType::kF32, {batch, in}), h = b.input("h", DType::kF32, {batch, hidden});
  int y = b.module("cell", gru ? "GRUCell" : "RNNCell", gru ? "gru_cell" : "rnn_cell", {x, h}, {{"input_size", Attr::of(in)}, {"hidden_size", Attr::of(hidden)}});
  if (draw.chance(0.5)) y = linear(b, "fc", y, hidden, b.dim("output_size", draw.choose({10, 16, 50})));
  b.output(y);
  text = gru ? "One step of a gated recurrent unit" : "One step of a recurrent network";
}

// Input and hidden state side by side through one layer, as a recurrent network written by hand has it.
void plain_rnn(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({8, 16, 64, 256})), in = b.dim("input_size", draw.choose({64, 100, 256})), hidden = b.dim("hidden_size", draw.choose({64, 128, 256})), out = b.dim("output_size", draw.choose({16, 50, 128}));
  const int x = b.input("x", DType::kF32, {batch, in}), h = b.input("hidden", DType::kF32, {batch, hidden});
  const int y = b.op("tanh", {b.op("add", {linear(b, "i2h", x, in, hidden), linear(b, "h2h", h, hidden, hidden, false)})});
  b.output(linear(b, "h2o", y, hidden, out));
  text = "One step of a recurrent network with an output layer";
}

// The gates of an LSTM from one layer, cut into four.
void lstm_step(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({8, 16, 64})), in = b.dim("input_size", draw.choose({32, 64, 100})), hidden = b.dim("hidden_size", draw.choose({32, 64, 128}));
  const Dim four{4 * hidden.size, "4 * hidden_size"};
  const int x = b.input("x", DType::kF32, {batch, in}), h = b.input("h", DType::kF32, {batch, hidden}), c = b.input("c", DType::kF32, {batch, hidden});
  const int gates = b.op("add", {linear(b, "wx", x, in, four), linear(b, "wh", h, hidden, four)});
  const int first = b.op("chunk", {gates}, {{"chunks", 4}, {"dim", 1}});
  const int i = b.op("sigmoid", {first});
  const int f = b.op("sigmoid", {first + 1}), g = b.op("tanh", {first + 2}), o = b.op("sigmoid", {first + 3});
  const int next = b.op("add", {b.op("mul", {f, c}), b.op("mul", {i, g})});
  b.output(b.op("mul", {o, b.op("tanh", {next})}));
  text = "One step of an LSTM: its new hidden state";
}

// What a recurrent network makes of a sequence: nn.GRU or nn.LSTM as people call them, and what they take from the results.
void sequence(GraphBuilder& b, Seeded& draw, std::string& text) {
  const bool lstm = draw.chance(0.5), batch_first = draw.chance(0.65), state_given = draw.chance(0.35), bias = draw.chance(0.8);
  const std::int64_t layers = draw.chance(0.35) ? 2 : 1;
  const Dim batch = b.dim("batch_size", draw.choose({1, 2, 4, 5, 8, 10})), length = b.dim(draw.choose({"seq_len", "seq_length"}), draw.choose({6, 8, 12, 16, 20, 32}));
  const Dim in = b.dim("input_size", draw.choose({10, 16, 24, 32, 50, 64})), hidden = b.dim("hidden_size", draw.choose({16, 20, 32, 48, 64, 100}));
  const int x = b.input("x", DType::kF32, batch_first ? std::vector<Dim>{batch, length, in} : std::vector<Dim>{length, batch, in});
  Attrs args{{"input_size", Attr::of(in)}, {"hidden_size", Attr::of(hidden)}};
  std::vector<int> inputs{x};
  if (state_given) {
    const Dim depth = b.dim("num_layers", layers);
    args["num_layers"] = Attr::of(depth);
    inputs.push_back(b.input("h0", DType::kF32, {depth, batch, hidden}));
    if (lstm) inputs.push_back(b.input("c0", DType::kF32, {depth, batch, hidden}));
  } else if (layers > 1 || draw.chance(0.3)) {
    args["num_layers"] = draw.chance(0.5) ? Attr::named("num_layers", layers) : Attr(layers);
  }
  if (!bias) args["bias"] = false;
  if (batch_first || draw.chance(0.3)) args["batch_first"] = batch_first;
  const char* name = lstm ? draw.choose({"lstm", "lstm", "rnn"}) : draw.choose({"gru", "gru", "rnn"});
  const int sequence = b.module(name, lstm ? "LSTM" : "GRU", lstm ? "lstm" : "gru", inputs, args);
  const int state = b.result(1), cell = lstm ? b.result(2) : -1;
  text = fmt::format("{} of {} over a sequence", lstm ? "An LSTM" : "A gated recurrent unit", layers == 1 ? "one layer" : "two layers");
  if (state_given) text += " from a given state";
  const auto last_step = [&] {
    if (draw.chance(0.3)) return b.op("select", {state}, {{"axis", 0}, {"index", -1}});
    return b.op("select", {sequence}, {{"axis", batch_first ? 1 : 0}, {"index", -1}});
  };
  switch (draw.below(lstm ? 7 : 6)) {
    case 0:
    case 1:
      b.output(sequence);
      text += ": its outputs";
      break;
    case 2:
      b.output(draw.chance(0.5) ? state : last_step());
      text += ": its last hidden state";
      break;
    case 3:
      b.output(sequence);
      b.output(state);
      if (lstm && draw.chance(0.4)) b.output(cell);
      text += ": its outputs and its last state";
      break;
    case 6:
      b.output(cell);
      text += ": its last cell state";
      break;
    default:
      b.output(linear(b, "fc", last_step(), hidden, b.dim("output_size", draw.choose({1, 5, 10, 16})), draw.chance(0.8)));
      text += ", and a linear layer on its last step";
  }
}

// Heads of self-attention: nn.MultiheadAttention, or the same by hand with one projection for queries, keys and values.
void self_attention(GraphBuilder& b, Seeded& draw, std::string& text) {
  const std::int64_t heads = draw.choose({2, 3, 4, 8});
  const bool module = draw.chance(0.7), batch_first = !module || draw.chance(0.65), bias = draw.chance(0.8);
  const Dim batch = b.dim("batch_size", draw.choose({2, 3, 4, 5, 8})), length = b.dim("seq_len", draw.choose({10, 16, 24, 32, 49, 64}));
  const Dim width = b.dim("embed_dim", heads * draw.choose({4, 8, 10, 16, 32}));
  const Attr count = Attr::named("num_heads", heads);
  const int x = b.input("x", DType::kF32, batch_first ? std::vector<Dim>{batch, length, width} : std::vector<Dim>{length, batch, width});
  const bool residual = draw.chance(0.5), before = residual && draw.chance(0.4), after = residual && !before && draw.chance(0.8);
  const auto norm = [&](int value) { return b.module("norm", "LayerNorm", "layer_norm", {value}, {{"normalized_shape", Attr::of(width)}}); };
  const int from = before ? norm(x) : x;
  int y = -1;
  text = "Multi-head self-attention";
  if (module) {
    Attrs args{{"embed_dim", Attr::of(width)}, {"num_heads", count}};
    if (!bias) args["bias"] = false;
    if (batch_first || draw.chance(0.2)) args["batch_first"] = batch_first;
    y = b.module(draw.choose({"attn", "attention", "self_attn", "mha"}), "MultiheadAttention", "multi_head_attention", {from, from, from}, args);
  } else {
    const Dim three{3 * width.size, "3 * embed_dim"};
    const int all = b.op("chunk", {linear(b, draw.choose({"qkv", "c_attn", "in_proj"}), from, width, three, bias)}, {{"chunks", 3}, {"dim", 2}});
    const auto split = [&](int value) { return b.op("transpose", {b.op("unflatten", {value}, {{"dim", 2}, {"parts", count}})}, {{"dim0", 1}, {"dim1", 2}}); };
    const int q = split(all), k = split(all + 1), v = split(all + 2);
    if (draw.chance(0.4)) {
      y = b.op("scaled_dot_product_attention", {q, k, v});
    } else {
      int scores = b.op("matmul", {q, b.op("transpose", {k}, {{"dim0", -2}, {"dim1", -1}})});
      scores = b.op("div", {scores}, {{"scalar", std::sqrt(static_cast<double>(width.size / heads))}});
      y = b.op("matmul", {b.op("softmax", {scores}, {{"dim", -1}}), v});
      text += ", step by step";
    }
    y = b.op("flatten", {b.op("contiguous", {b.op("transpose", {y}, {{"dim0", 1}, {"dim1", 2}})})}, {{"start_dim", 2}});
    y = linear(b, draw.choose({"proj", "c_proj", "out_proj"}), y, width, width, bias);
  }
  if (residual) y = b.op("add", {x, y});
  if (after) y = norm(y);
  b.output(y);
  if (residual) text += before || after ? " with a residual connection and a layer normalisation" : " with a residual connection";
}

void dense_block(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({4, 8, 16})), c = b.dim("channels", draw.choose({4, 8, 12})), growth = b.dim("growth_rate", draw.choose({4, 8})), size = b.dim("image_size", draw.choose({14, 16, 24}));
  const int x = b.input("x", DType::kF32, {batch, c, size, size});
  const int y = b.op("relu", {conv3(b, "conv1", x, c, growth)});
  const int both = b.op("cat", {x, y}, {{"dim", 1}});
  const Dim wide{c.size + growth.size, "channels + growth_rate"};
  b.output(b.op("cat", {both, b.op("relu", {conv3(b, "conv2", both, wide, growth)})}, {{"dim", 1}}));
  text = "Two layers of a densely connected block";
}

void fire(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({4, 8, 16})), c = b.dim("in_channels", draw.choose({3, 8, 16})), squeeze = b.dim("squeeze_channels", draw.choose({4, 6})), e = b.dim("expand_channels", draw.choose({8, 16})), size = b.dim("image_size", draw.choose({14, 16, 28}));
  int x = b.input("x", DType::kF32, {batch, c, size, size});
  x = b.op("relu", {b.module("squeeze", "Conv2d", "conv2d", {x}, {{"in_channels", Attr::of(c)}, {"out_channels", Attr::of(squeeze)}, {"kernel_size", 1}})});
  const int one = b.op("relu", {b.module("expand1x1", "Conv2d", "conv2d", {x}, {{"in_channels", Attr::of(squeeze)}, {"out_channels", Attr::of(e)}, {"kernel_size", 1}})});
  const int three = b.op("relu", {conv3(b, "expand3x3", x, squeeze, e)});
  b.output(b.op("cat", {one, three}, {{"dim", 1}}));
  text = "Squeeze to few channels, expand by two kernels side by side";
}

void patches(GraphBuilder& b, Seeded& draw, std::string& text) {
  const std::int64_t patch = draw.choose({4, 8});
  const Dim batch = b.dim("batch_size", draw.choose({2, 4, 8})), c = b.dim("in_channels", 3), size = b.dim("image_size", patch * draw.choose({4, 6, 8})), width = b.dim("embed_dim", draw.choose({32, 48, 64}));
  int x = b.input("x", DType::kF32, {batch, c, size, size});
  x = b.module("proj", "Conv2d", "conv2d", {x}, {{"in_channels", Attr::of(c)}, {"out_channels", Attr::of(width)}, {"kernel_size", Attr::named("patch_size", patch)}, {"stride", Attr::named("patch_size", patch)}});
  x = b.op("contiguous", {b.op("transpose", {b.op("flatten", {x}, {{"start_dim", 2}})}, {{"dim0", 1}, {"dim1", 2}})});
  b.output(b.module("norm", "LayerNorm", "layer_norm", {x}, {{"normalized_shape", Attr::of(width)}}));
  text = "Patches of an image as normalised vectors";
}

}  // namespace

const std::vector<Archetype>& network_archetypes() {
  static const std::vector<Archetype> rows = {
      {"nn_layers", "network", "network.mlp", mlp},
      {"nn_layers", "network", "network.convnet", convnet},
      {"nn_layers", "network", "network.residual", residual},
      {"nn_layers", "network", "network.squeeze_excite", squeeze_excite},
      {"nn_layers", "network", "network.inverted_residual", inverted_residual},
      {"nn_layers", "network", "network.transformer", transformer},
      {"nn_layers", "network", "network.gated_mlp", gated_mlp},
      {"nn_layers", "network", "network.cell", cell},
      {"nn_layers", "network", "network.plain_rnn", plain_rnn},
      {"nn_layers", "network", "network.lstm_step", lstm_step},
      {"nn_layers", "network", "network.sequence", sequence},
      {"nn_layers", "network", "network.self_attention", self_attention},
      {"nn_layers", "network", "network.dense_block", dense_block},
      {"nn_layers", "network", "network.fire", fire},
      {"nn_layers", "network", "network.patches", patches},
  };
  return rows;
}

}  // namespace musacoder::synth
