// Tasks around matrix products, alone and with chains of element-wise operators behind them.
#include "synth/tasks/chains.h"
#include "synth/tasks/tasks.h"

namespace musacoder::synth {
namespace {

DType some_float(Seeded& draw) { return draw.choose({DType::kF32, DType::kF32, DType::kF32, DType::kF32, DType::kF32, DType::kF16, DType::kBF16}); }
std::int64_t size(Seeded& draw) { return draw.choose({64, 96, 128, 192, 256, 384, 512, 768, 1024, 100, 250, 333, 1000}); }

void product(GraphBuilder& b, Seeded& draw, std::string& text) {
  const DType t = some_float(draw);
  const Dim m = b.dim("M", size(draw)), n = b.dim("N", size(draw)), k = b.dim("K", size(draw));
  const int x = b.input("A", t, {m, k}), y = b.input("B", t, {k, n});
  b.output(b.op(draw.choose({"mm", "matmul"}), {x, y}));
  text = "Matrix product of two matrices";
}

void square(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim n = b.dim("N", draw.choose({128, 256, 512, 1024, 2048}));
  const int x = b.input("A", DType::kF32, {n, n}), y = b.input("B", DType::kF32, {n, n});
  b.output(b.op("matmul", {x, y}));
  text = "Product of two square matrices";
}

void tall(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim m = b.dim("M", draw.choose({4096, 8192, 16384})), n = b.dim("N", draw.choose({8, 16, 32}));
  const bool wide = draw.chance(0.5);
  const int x = b.input("A", DType::kF32, wide ? std::vector<Dim>{m, n} : std::vector<Dim>{n, m});
  const int y = b.input("B", DType::kF32, wide ? std::vector<Dim>{n, n} : std::vector<Dim>{m, n});
  b.output(b.op("matmul", {x, y}));
  text = wide ? "Product of a tall and a small matrix" : "Product along a long inner axis with few rows and columns";
}

void inner_size(GraphBuilder& b, Seeded& draw, std::string& text) {
  const bool large = draw.chance(0.6);
  const Dim m = b.dim("M", draw.choose({32, 64, 128, 256})), n = b.dim("N", draw.choose({32, 64, 100, 256}));
  const Dim k = b.dim("K", large ? draw.choose({4096, 8192, 16384, 5000}) : draw.choose({4, 8, 16, 3}));
  b.output(b.op(draw.choose({"mm", "matmul"}), {b.input("A", DType::kF32, {m, k}), b.input("B", DType::kF32, {k, n})}));
  text = large ? "Matrix product with a large inner dimension" : "Matrix product with a small inner dimension";
}

void batched(GraphBuilder& b, Seeded& draw, std::string& text) {
  const DType t = some_float(draw);
  const Dim batch = b.dim("batch_size", draw.choose({4, 8, 16, 32, 64, 128}));
  const Dim m = b.dim("m", size(draw)), k = b.dim("k", size(draw)), n = b.dim("n", size(draw));
  b.output(b.op(draw.choose({"bmm", "matmul"}), {b.input("A", t, {batch, m, k}), b.input("B", t, {batch, k, n})}));
  text = "Batched matrix product";
}

void heads(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({2, 4, 8, 16})), heads = b.dim("num_heads", draw.choose({2, 4, 8, 12}));
  const Dim m = b.dim("seq_q", draw.choose({32, 64, 100, 128})), k = b.dim("dim", draw.choose({16, 32, 64})), n = b.dim("seq_k", draw.choose({32, 64, 128}));
  b.output(b.op("matmul", {b.input("q", DType::kF32, {batch, heads, m, k}), b.input("k", DType::kF32, {batch, heads, k, n})}));
  text = "Matrix product over two batch axes";
}

void by_matrix(GraphBuilder& b, Seeded& draw, std::string& text) {
  const bool four = draw.chance(0.4);
  std::vector<Dim> dims{b.dim("batch_size", draw.choose({4, 8, 16, 32}))};
  if (four) dims.push_back(b.dim("height", draw.choose({8, 16, 32})));
  dims.push_back(b.dim("seq_len", draw.choose({32, 64, 128})));
  const Dim l = b.dim("in_dim", draw.choose({32, 64, 128, 256})), k = b.dim("out_dim", draw.choose({32, 48, 64, 128}));
  dims.push_back(l);
  b.output(b.op("matmul", {b.input("x", DType::kF32, dims), b.input("weight", DType::kF32, {l, k})}));
  text = four ? "Product of a 4D tensor with a matrix along its last axis" : "Product of a 3D tensor with a matrix along its last axis";
}

void matrix_vector(GraphBuilder& b, Seeded& draw, std::string& text) {
  const DType t = some_float(draw);
  const Dim m = b.dim("M", draw.choose({256, 512, 1024, 1000})), k = b.dim("K", draw.choose({512, 1024, 4096, 8192, 3000}));
  b.output(b.op(draw.choose({"mv", "matmul"}), {b.input("A", t, {m, k}), b.input("x", t, {k})}));
  text = "Product of a matrix and a vector";
}

void transposed(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim m = b.dim("M", size(draw)), n = b.dim("N", size(draw)), k = b.dim("K", size(draw));
  const bool left = draw.chance(0.5), right = !left || draw.chance(0.4);
  int x = b.input("A", DType::kF32, left ? std::vector<Dim>{k, m} : std::vector<Dim>{m, k});
  int y = b.input("B", DType::kF32, right ? std::vector<Dim>{n, k} : std::vector<Dim>{k, n});
  if (left) x = b.op("transpose", {x}, {{"dim0", 0}, {"dim1", 1}});
  if (right) y = b.op("transpose", {y}, {{"dim0", 0}, {"dim1", 1}});
  b.output(b.op("matmul", {x, y}));
  text = left && right ? "Product of two transposed matrices" : left ? "Matrix product with the left operand transposed" : "Matrix product with the right operand transposed";
}

void batched_transposed(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({4, 8, 16})), m = b.dim("m", draw.choose({32, 64, 100})), n = b.dim("n", draw.choose({32, 64, 96})), k = b.dim("k", draw.choose({32, 64, 128}));
  const int x = b.input("x", DType::kF32, {batch, m, k}), y = b.input("y", DType::kF32, {batch, n, k});
  b.output(b.op("bmm", {x, b.op("transpose", {y}, {{"dim0", 1}, {"dim1", 2}})}));
  text = "Scores of all pairs of rows, batch by batch";
}

void strided(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim m = b.dim("M", size(draw)), n = b.dim("N", size(draw)), k = b.dim("K", size(draw));
  const Layout layout = draw.choose({Layout::kTransposed, Layout::kSliced});
  b.output(b.op("matmul", {b.input("A", DType::kF32, {m, k}, Fill::kNormal, layout), b.input("B", DType::kF32, {k, n})}));
  text = "Matrix product whose left operand is a strided view";
}

void triangular(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim n = b.dim("N", draw.choose({128, 256, 512, 1000}));
  const char* part = draw.choose({"tril", "triu"});
  int x = b.input("A", DType::kF32, {n, n}), y = b.input("B", DType::kF32, {n, n});
  if (draw.chance(0.5)) x = b.op(part, {x});
  b.output(b.op(part, {b.op("matmul", {x, y})}));
  text = std::string("Triangular part of a matrix product (") + part + ")";
}

void diagonal(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim n = b.dim("N", size(draw)), m = b.dim("M", size(draw));
  b.output(b.op("diagonal_mm", {b.input("d", DType::kF32, {n}), b.input("B", DType::kF32, {n, m})}));
  text = "Product of a diagonal matrix, given by its diagonal, and a matrix";
}

void vectors(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim n = b.dim("N", draw.choose({512, 1024, 4096, 5000}));
  if (draw.chance(0.5)) {
    const Dim m = b.dim("M", draw.choose({128, 256, 1000}));
    b.output(b.op("outer", {b.input("a", DType::kF32, {m}), b.input("b", DType::kF32, {n})}));
    text = "Outer product of two vectors";
  } else {
    b.output(b.op("dot", {b.input("a", DType::kF32, {n}), b.input("b", DType::kF32, {n})}));
    text = "Inner product of two vectors";
  }
}

void addition(GraphBuilder& b, Seeded& draw, std::string& text) {
  const bool many = draw.chance(0.35);
  const Dim m = b.dim("M", size(draw)), n = b.dim("N", size(draw)), k = b.dim("K", size(draw));
  Attrs attrs;
  if (draw.chance(0.5)) attrs["alpha"] = draw.choose({0.5, 2.0, 0.1});
  if (draw.chance(0.5)) attrs["beta"] = draw.choose({0.5, 2.0, -1.0});
  if (many) {
    const Dim batch = b.dim("batch_size", draw.choose({4, 8, 16}));
    b.output(b.op("baddbmm", {b.input("c", DType::kF32, {batch, m, n}), b.input("a", DType::kF32, {batch, m, k}), b.input("b", DType::kF32, {batch, k, n})}, attrs));
  } else {
    const int c = draw.chance(0.5) ? b.input("bias", DType::kF32, {n}) : b.input("c", DType::kF32, {m, n});
    b.output(b.op("addmm", {c, b.input("a", DType::kF32, {m, k}), b.input("b", DType::kF32, {k, n})}, attrs));
  }
  text = "Scaled matrix product added to a scaled tensor";
}

void dense(GraphBuilder& b, Seeded& draw, std::string& text) {
  const DType t = some_float(draw);
  const Dim batch = b.dim("batch_size", draw.choose({16, 32, 64, 128, 256, 1024})), in = b.dim("in_features", size(draw)), out = b.dim("out_features", size(draw));
  std::vector<Dim> dims{batch, in};
  if (draw.chance(0.3)) dims.insert(dims.begin() + 1, b.dim("seq_len", draw.choose({8, 16, 32})));
  Attrs args{{"in_features", Attr::of(in)}, {"out_features", Attr::of(out)}};
  if (draw.chance(0.25)) args["bias"] = false;
  b.output(b.module(draw.choose({"linear", "fc", "proj", "gemm"}), "Linear", "linear", {b.input("x", t, dims)}, args));
  text = "A linear layer";
}

// A linear layer (or a product) and what follows it, element by element, then perhaps along a row.
void dense_chain(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({16, 64, 128, 256, 1024})), in = b.dim("in_features", size(draw)), out = b.dim("out_features", size(draw));
  int x = b.input("x", DType::kF32, {batch, in});
  if (draw.chance(0.8)) x = b.module(draw.choose({"linear", "fc", "gemm", "matmul"}), "Linear", "linear", {x}, {{"in_features", Attr::of(in)}, {"out_features", Attr::of(out)}});
  else x = b.op("matmul", {x, b.parameter("weight", DType::kF32, {in, out})});
  text = "A linear layer followed by" + epilogue_chain(b, draw, x, {out}, static_cast<int>(draw.between(1, 4)));
  text += row_tail(b, draw, x);
  b.output(x);
}

// A linear layer, something element by element, a norm over the features.
void dense_norm(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({64, 128, 256, 512})), in = b.dim("in_features", draw.choose({64, 128, 256, 512}));
  const std::int64_t groups = draw.choose({4, 8, 16});
  const Dim out = b.dim("out_features", groups * draw.choose({8, 16, 32}));
  int x = b.module("linear", "Linear", "linear", {b.input("x", DType::kF32, {batch, in})}, {{"in_features", Attr::of(in)}, {"out_features", Attr::of(out)}});
  text = "A linear layer followed by";
  if (draw.chance(0.6)) text += epilogue_chain(b, draw, x, {out}, 1) + ",";
  switch (draw.below(3)) {
    case 0: {
      const Dim g = b.dim("num_groups", groups);
      x = b.module("norm", "GroupNorm", "group_norm", {x}, {{"num_groups", Attr::of(g)}, {"num_channels", Attr::of(out)}});
      text += " group normalisation";
      break;
    }
    case 1:
      x = b.module("norm", "LayerNorm", "layer_norm", {x}, {{"normalized_shape", Attr::of(out)}});
      text += " layer normalisation";
      break;
    default:
      x = b.op("softmax", {x}, {{"dim", 1}});
      text += " softmax";
  }
  if (draw.chance(0.5)) text += "," + epilogue_chain(b, draw, x, {out}, 1);
  b.output(x);
}

void batched_chain(GraphBuilder& b, Seeded& draw, std::string& text) {
  const Dim batch = b.dim("batch_size", draw.choose({8, 16, 32})), m = b.dim("m", draw.choose({32, 64, 128})), k = b.dim("k", draw.choose({32, 64, 128})), n = b.dim("n", draw.choose({32, 64, 100}));
  int x = b.op("bmm", {b.input("a", DType::kF32, {batch, m, k}), b.input("b", DType::kF32, {batch, k, n})});
  text = "A batched matrix product followed by" + epilogue_chain(b, draw, x, {n}, static_cast<int>(draw.between(1, 3)));
  b.output(x);
}

}  // namespace

const std::vector<Archetype>& matrix_archetypes() {
  static const std::vector<Archetype> rows = {
      {"maths", "matmul", "matmul.two_matrices", product},
      {"maths", "matmul", "matmul.square", square},
      {"maths", "matmul", "matmul.tall_or_long", tall},
      {"maths", "matmul", "matmul.inner_size", inner_size},
      {"maths", "matmul", "matmul.batched", batched},
      {"maths", "matmul", "matmul.two_batch_axes", heads},
      {"maths", "matmul", "matmul.last_axis", by_matrix},
      {"maths", "matmul", "matmul.vector", matrix_vector},
      {"maths", "matmul", "matmul.transposed", transposed},
      {"maths", "matmul", "matmul.batched_transposed", batched_transposed},
      {"maths", "matmul", "matmul.strided", strided},
      {"maths", "matmul", "matmul.triangular", triangular},
      {"maths", "matmul", "matmul.diagonal", diagonal},
      {"maths", "matmul", "matmul.two_vectors", vectors},
      {"maths", "matmul", "matmul.added", addition},
      {"nn_layers", "matmul", "matmul.linear", dense},
      {"nn_layers", "fused_matmul", "matmul.linear_chain", dense_chain},
      {"nn_layers", "fused_matmul", "matmul.linear_norm", dense_norm},
      {"maths", "fused_matmul", "matmul.batched_chain", batched_chain},
  };
  return rows;
}

}  // namespace musacoder::synth
