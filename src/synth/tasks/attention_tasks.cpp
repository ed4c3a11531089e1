// Tasks around attention and scans.
#include "synth/tasks/chains.h"
#include "synth/tasks/tasks.h"

namespace musacoder::synth {
namespace {

void attention(GraphBuilder& b, Seeded& draw, std::string& text) {
  const DType t = draw_float(draw);
  const bool heads = draw.chance(0.8), cross = draw.chance(0.25);
  std::vector<Dim> outer{b.dim("batch_size", draw.choose({1, 2, 4, 8, 16, 32}))};
  if (heads) outer.push_back(b.dim("num_heads", draw.choose({2, 4, 8, 12})));
  const Dim length = b.dim(cross ? "query_length" : "sequence_length", draw.choose({64, 100, 128, 256, 512}));
  const Dim keys = cross ? b.dim("key_length", draw.choose({48, 77, 128, 256})) : length;
  const Dim dim = b.dim(heads ? "head_dim" : "embedding_dimension", draw.choose({16, 32, 40, 64, 128}));
  std::vector<Dim> q = outer, k = outer;
  q.insert(q.end(), {length, dim});
  k.insert(k.end(), {keys, dim});
  std::vector<int> inputs{b.input("q", t, q), b.input("k", t, k), b.input("v", t, k)};
  Attrs attrs;
  text = "Scaled dot-product attention";
  if (!cross && draw.chance(0.4)) {
    attrs["is_causal"] = true;
    text = "Causal scaled dot-product attention";
  } else if (t == DType::kF32 && draw.chance(0.2)) {
    inputs.push_back(b.input("bias", t, {length, keys}));
    text += " with a bias on its scores";
  }
  if (draw.chance(0.15)) attrs["scale"] = draw.choose({0.1, 0.25, 0.5});
  b.output(b.op("scaled_dot_product_attention", inputs, attrs));
}

// Scores, softmax and sum written out.
void written_out(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({4, 8, 16})), length = b.dim("seq_len", draw.choose({32, 64, 128})), dim = b.dim("dim", draw.choose({32, 64}));
  const int q = b.input("q", DType::kF32, {batch, length, dim}), k = b.input("k", DType::kF32, {batch, length, dim}), v = b.input("v", DType::kF32, {batch, length, dim});
  int scores = b.op("matmul", {q, b.op("transpose", {k}, {{"dim0", -2}, {"dim1", -1}})});
  scores = b.op("mul", {scores}, {{"scalar", 0.125}});
  const bool relu = draw.chance(0.3);
  scores = relu ? b.op("relu", {scores}) : b.op("softmax", {scores}, {{"dim", -1}});
  b.output(b.op("matmul", {scores, v}));
  text = relu ? "Attention with ReLU in place of softmax" : "Attention step by step: scores, softmax, weighted sum";
}

// One projection to queries, keys and values, heads, attention, projection.
void self_attention(GraphBuilder& b, Seeded& draw, std::string& text) {
  const std::int64_t heads = draw.choose({2, 4, 8});
  const Dim batch = b.dim("batch_size", draw.choose({2, 4, 8, 16})), length = b.dim("seq_len", draw.choose({32, 64, 128}));
  const Dim width = b.dim("n_embd", heads * draw.choose({8, 16, 32}));
  const int x = b.input("x", DType::kF32, {batch, length, width});
  const auto split = [&](const char* name) {
    const int y = b.module(name, "Linear", "linear", {x}, {{"in_features", Attr::of(width)}, {"out_features", Attr::of(width)}});
    return b.op("transpose", {b.op("unflatten", {y}, {{"dim", 2}, {"factor", width.size / heads}})}, {{"dim0", 1}, {"dim1", 2}});
  };
  const int q = split("q_proj"), k = split("k_proj"), v = split("v_proj");
  const bool causal = draw.chance(0.5);
  int y = b.op("scaled_dot_product_attention", {q, k, v}, causal ? Attrs{{"is_causal", true}} : Attrs{});
  y = b.op("flatten", {b.op("contiguous", {b.op("transpose", {y}, {{"dim0", 1}, {"dim1", 2}})})}, {{"start_dim", 2}});
  b.output(b.module("out_proj", "Linear", "linear", {y}, {{"in_features", Attr::of(width)}, {"out_features", Attr::of(width)}}));
  text = std::string(causal ? "Causal multi-head" : "Multi-head") + " self-attention";
}

void scan(GraphBuilder& b, Seeded& draw, std::string& text) {
  const bool product = draw.chance(0.35);
  const int rank = static_cast<int>(draw.between(1, 3));
  const DType t = draw.chance(0.85) ? DType::kF32 : draw_float(draw);
  const std::vector<Dim> dims = draw_shape_small(b, draw, rank);
  const std::int64_t dim = draw.chance(0.6) ? rank - 1 : draw.between(0, rank - 1);
  const int x = b.input("x", t, dims, product ? Fill::kNearOne : draw.choose({Fill::kNormal, Fill::kUniform}));
  const Attr at = draw.chance(0.6) ? Attr::named("dim", dim) : Attr(dim - rank);
  b.output(b.op(product ? "cumprod" : "cumsum", {x}, {{"dim", at}}));
  text = product ? "Running product along an axis" : "Running sum along an axis";
}

void scan_form(GraphBuilder& b, Seeded& draw, std::string& text) {
  const std::vector<Dim> dims = draw_shape_small(b, draw, 2);
  int x = b.input("x", DType::kF32, dims);
  switch (draw.below(4)) {
    case 0:
      x = b.op("flip", {b.op("cumsum", {b.op("flip", {x}, {{"dims", std::vector<std::int64_t>{1}}})}, {{"dim", 1}})}, {{"dims", std::vector<std::int64_t>{1}}});
      text = "Running sum from the end";
      break;
    case 1:
      x = b.op("sub", {b.op("cumsum", {x}, {{"dim", 1}}), x});
      text = "Running sum without the element itself";
      break;
    case 2:
      x = b.op("cumsum", {b.op("mul", {x, b.input("mask", DType::kBool, dims, Fill::kMask)})}, {{"dim", 1}});
      text = "Running sum of what a mask lets through";
      break;
    default:
      x = b.op("cumsum", {x}, {{"dim", 1}});
      text = "Running sum followed by" + epilogue_chain(b, draw, x, {dims[1]}, 2);
  }
  b.output(x);
}

}  // namespace

const std::vector<Archetype>& attention_archetypes() {
  static const std::vector<Archetype> rows = {
      {"nn_layers", "attention", "attention.scaled_dot_product", attention},
      {"nn_layers", "attention", "attention.written_out", written_out},
      {"nn_layers", "attention", "attention.self", self_attention},
  };
  return rows;
}

const std::vector<Archetype>& scan_archetypes() {
  static const std::vector<Archetype> rows = {
      {"reduction", "scan", "scan.axis", scan},
      {"reduction", "scan", "scan.forms", scan_form},
  };
  return rows;
}

}  // namespace musacoder::synth
