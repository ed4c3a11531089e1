// Archetypes that move elements, index by tensors, or resample.
#include "synth/tasks/tasks.h"

namespace musacoder::synth {
namespace {

constexpr const char* kDomain = "layout";

int maybe_scaled(GraphBuilder& b, Seeded& draw, int x, std::string& summary) {
  if (draw.chance(0.35)) {
    summary += ", scaled";
    x = b.op("mul", {x}, {{"scalar", draw.choose({0.5, 2.0, -1.0})}});
  } else if (draw.chance(0.25)) {
    const char* op = draw.choose({"relu", "tanh", "silu"});
    summary += ", then " + words(op);
    x = b.op(op, {x});
  }
  summary += ".";
  return x;
}

void transpose(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({2, 2, 3, 4});
  int x = b.input("x", draw_float(draw), draw_shape(b, draw, rank));
  if (rank == 4 && draw.chance(0.6)) {
    x = b.op("permute", {x}, {{"dims", draw.chance(0.5) ? std::vector<std::int64_t>{0, 2, 3, 1} : std::vector<std::int64_t>{0, 2, 1, 3}}});
    summary = "Exchanges axes and copies to a new contiguous tensor";
  } else {
    const std::int64_t last = rank - 1, other = rank == 2 || draw.chance(0.7) ? rank - 2 : 0;
    x = b.op("transpose", {x}, {{"dim0", other}, {"dim1", last}});
    summary = fmt::format("Transposes axes {} and {} into a contiguous tensor", other, last);
  }
  x = b.op("contiguous", {x});
  b.output(maybe_scaled(b, draw, x, summary));
}

// Element-wise work on a tensor that is not contiguous.
void strided(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({2, 3}));
  const Layout layout = draw.choose({Layout::kTransposed, Layout::kSliced, Layout::kExpanded});
  int x = b.input("x", DType::kF32, dims, Fill::kNormal, layout);
  const int y = b.input("y", DType::kF32, dims);
  x = b.op(draw.choose({"mul", "add", "sub"}), {x, y});
  if (draw.chance(0.5)) x = b.op(draw.choose({"tanh", "relu", "gelu"}), {x});
  b.output(x);
  summary = "Element-wise arithmetic where the first tensor is a strided view.";
}

void cat(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const DType dtype = draw_float(draw);
  const std::vector<Dim> dims = draw_shape(b, draw, draw.choose({2, 3, 4}));
  const bool stacks = draw.chance(0.3);
  const std::int64_t parts = draw.between(2, 3);
  std::vector<int> in;
  const char* const names[] = {"a", "b", "c"};
  for (std::int64_t k = 0; k < parts; ++k) in.push_back(b.input(names[k], dtype, dims));
  const std::int64_t dim = draw.between(0, static_cast<std::int64_t>(dims.size()) - 1);
  summary = fmt::format("{} {} tensors along axis {}", stacks ? "Stacks" : "Joins", parts, dim);
  b.output(maybe_scaled(b, draw, b.op(stacks ? "stack" : "cat", in, {{"dim", dim}}), summary));
}

void pad(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({2, 3, 4});
  const int x = b.input("x", DType::kF32, draw_shape(b, draw, rank));
  const char* mode = rank == 2 ? "constant" : draw.choose({"constant", "constant", "reflect", "replicate"});
  std::vector<std::int64_t> by{draw.between(1, 4), draw.between(0, 4)};
  if (rank == 4) by.insert(by.end(), {draw.between(0, 3), draw.between(1, 3)});
  Attrs attrs{{"pad", by}};
  const bool constant = std::string(mode) == "constant";
  if (!constant) attrs["mode"] = mode;
  if (constant && draw.chance(0.5)) attrs["value"] = draw.choose({1.0, -1.0, 0.5});
  summary = fmt::format("Pads in mode {}", mode);
  b.output(maybe_scaled(b, draw, b.op("pad", {x}, attrs), summary));
}

void roll_flip(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({2, 3, 4});
  const int x = b.input("x", DType::kF32, draw_shape(b, draw, rank));
  const std::int64_t dim = draw.between(0, rank - 1);
  int y;
  if (draw.chance(0.5)) {
    y = b.op("roll", {x}, {{"shifts", draw.choose({1, 3, -2, 7, -5})}, {"dims", dim}});
    summary = fmt::format("Rolls along axis {}", dim);
  } else {
    y = b.op("flip", {x}, {{"dims", std::vector<std::int64_t>{dim}}});
    summary = fmt::format("Flips axis {}", dim);
  }
  b.output(maybe_scaled(b, draw, y, summary));
}

void triangle(GraphBuilder& b, Seeded& draw, std::string& summary) {
  std::vector<Dim> dims = draw_shape(b, draw, draw.choose({2, 3}));
  const int x = b.input("x", DType::kF32, dims);
  Attrs attrs;
  if (draw.chance(0.5)) attrs["diagonal"] = draw.choose({1, -1, 3, -2});
  const bool lower = draw.chance(0.5);
  summary = fmt::format("Keeps the {} triangle of each matrix", lower ? "lower" : "upper");
  b.output(maybe_scaled(b, draw, b.op(lower ? "tril" : "triu", {x}, attrs), summary));
}

void repeated(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const int rank = draw.choose({2, 3});
  const int x = b.input("x", DType::kF32, draw_shape_small(b, draw, rank));
  int y;
  if (draw.chance(0.5)) {
    std::vector<std::int64_t> times(static_cast<std::size_t>(rank), 1);
    times[draw.below(times.size())] = draw.between(2, 4);
    y = b.op("repeat", {x}, {{"repeats", times}});
    summary = "Tiles a tensor";
  } else {
    y = b.op("repeat_interleave", {x}, {{"repeats", Attr::named("repeats", draw.between(2, 4))}, {"dim", draw.between(0, rank - 1)}});
    summary = "Repeats every slice along one axis";
  }
  b.output(maybe_scaled(b, draw, y, summary));
}

void gather(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const Dim rows = b.dim("rows", draw.between(64, 4096)), cols = b.dim("cols", draw.between(64, 1024)), picks = b.dim("num_picks", draw.between(16, 256));
  const int x = b.input("x", DType::kF32, {rows, cols});
  int y;
  if (draw.chance(0.5)) {
    const int index = b.input("index", DType::kI64, {rows, picks}, Fill::kIndex, Layout::kContiguous, cols);
    y = b.op("gather", {x, index}, {{"dim", 1}});
    summary = "Picks elements of each row by index";
  } else {
    const bool rowwise = draw.chance(0.6);
    const int index = b.input("index", DType::kI64, {picks}, Fill::kIndex, Layout::kContiguous, rowwise ? rows : cols);
    y = b.op("index_select", {x, index}, {{"dim", rowwise ? 0 : 1}});
    summary = rowwise ? "Picks rows by index" : "Picks columns by index";
  }
  b.output(maybe_scaled(b, draw, y, summary));
}

void embedding(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const Dim batch = b.dim("batch_size", draw.choose({8, 16, 32})), length = b.dim("seq_len", draw.between(32, 512));
  const Dim vocabulary = b.dim("vocab_size", draw.between(500, 8000)), width = b.dim("embed_dim", draw.choose({64, 96, 128, 256}));
  const int ids = b.input("ids", DType::kI64, {batch, length}, Fill::kIndex, Layout::kContiguous, vocabulary);
  int y = b.module("embedding", "Embedding", "embedding", {ids}, {{"num_embeddings", Attr::of(vocabulary)}, {"embedding_dim", Attr::of(width)}});
  summary = "Looks tokens up in an embedding table";
  if (draw.chance(0.5)) {
    y = b.op("add", {y, b.parameter("position", DType::kF32, {length, width}, Fill::kSmall)});
    summary += " and adds learned positions";
  }
  b.output(maybe_scaled(b, draw, y, summary));
}

void shuffle(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const std::int64_t r = 2;
  const Dim n = b.dim("batch_size", draw.choose({8, 16, 32})), c = b.dim("channels", draw.choose({16, 32, 64}));
  const Dim h = b.dim("height", draw.choose({16, 28, 32, 48})), w = b.dim("width", draw.choose({16, 28, 32, 48}));
  const int x = b.input("x", DType::kF32, {n, c, h, w});
  const bool spread = draw.chance(0.6);
  summary = spread ? "Moves channels into space (pixel shuffle)" : "Moves space into channels (pixel unshuffle)";
  b.output(maybe_scaled(b, draw, b.op(spread ? "pixel_shuffle" : "pixel_unshuffle", {x}, {{"factor", r}}), summary));
}

void upsample(GraphBuilder& b, Seeded& draw, std::string& summary) {
  const Dim n = b.dim("batch_size", draw.choose({4, 8, 16})), c = b.dim("channels", draw.choose({8, 16, 32}));
  const Dim h = b.dim("height", draw.between(12, 64)), w = b.dim("width", draw.between(12, 64));
  const int x = b.input("x", DType::kF32, {n, c, h, w});
  const std::int64_t scale = draw.choose({2, 2, 3, 4});
  const bool nearest = draw.chance(0.4);
  Attrs attrs{{"scale_factor", draw.chance(0.5) ? Attr::named("scale_factor", scale) : Attr(scale)}};
  if (!nearest) attrs["align_corners"] = draw.chance(0.5);
  summary = fmt::format("Enlarges images {} times by {} interpolation", scale, nearest ? "nearest-neighbour" : "bilinear");
  b.output(maybe_scaled(b, draw, b.op(nearest ? "upsample_nearest" : "upsample_bilinear", {x}, attrs), summary));
}

}  // namespace

const std::vector<Archetype>& layout_archetypes() {
  static const std::vector<Archetype> table = {
      {kDomain, "layout", "layout.transpose", transpose},
      {kDomain, "layout", "layout.strided_input", strided},
      {kDomain, "layout", "layout.join", cat},
      {kDomain, "layout", "layout.pad", pad},
      {kDomain, "layout", "layout.roll_flip", roll_flip},
      {kDomain, "layout", "layout.triangle", triangle},
      {kDomain, "layout", "layout.repeat", repeated},
      {kDomain, "indexing", "layout.gather", gather},
      {kDomain, "indexing", "layout.embedding", embedding},
      {kDomain, "layout", "layout.pixel_shuffle", shuffle},
      {"interpolation_cast", "resample", "interpolation.upsample", upsample},
  };
  return table;
}

}  // namespace musacoder::synth
