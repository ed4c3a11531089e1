// Operators that move elements and compute nothing, or little: views, copies to other places, indexing by tensors, resampling.
#include <algorithm>

#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

using Types = Result<std::vector<TensorType>>;

Types one(DType dtype, std::vector<Dim> dims, bool contiguous = true) {
  return std::vector<TensorType>{{dtype, std::move(dims), contiguous}};
}

Types transpose(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int a, axis(node.integer("dim0"), in[0].rank()));
  MC_ASSIGN_OR_RETURN(const int b, axis(node.integer("dim1"), in[0].rank()));
  std::vector<Dim> dims = in[0].dims;
  std::swap(dims[static_cast<std::size_t>(a)], dims[static_cast<std::size_t>(b)]);
  return one(in[0].dtype, std::move(dims), a == b && in[0].contiguous);
}

Types permute(const std::vector<TensorType>& in, const Node& node) {
  const std::vector<std::int64_t> order = node.list("dims");
  std::vector<std::int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<Dim> dims;
  for (std::size_t d = 0; d < order.size(); ++d) {
    if (order.size() != in[0].dims.size() || sorted[d] != static_cast<std::int64_t>(d))
      return fail(Code::kInvalidArgument, "permute of {}: dims are not a permutation", shape_text(in[0]));
    dims.push_back(in[0].dims[static_cast<std::size_t>(order[d])]);
  }
  return one(in[0].dtype, std::move(dims), sorted == order && in[0].contiguous);
}

Types flatten(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int from, axis(node.integer("start_dim", 0), in[0].rank()));
  MC_ASSIGN_OR_RETURN(const int to, axis(node.integer("end_dim", -1), in[0].rank()));
  if (from > to) return fail(Code::kInvalidArgument, "flatten from axis {} to {}", from, to);
  std::vector<Dim> dims;
  Dim merged = literal(1);
  for (int d = 0; d < in[0].rank(); ++d) {
    const Dim& own = in[0].dims[static_cast<std::size_t>(d)];
    if (d < from || d > to) {
      dims.push_back(own);
      continue;
    }
    merged = from == to ? own : literal(merged.size * own.size);
    if (d == to) dims.push_back(merged);
  }
  return one(in[0].dtype, std::move(dims), true);
}

Types unsqueeze(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("dim"), in[0].rank() + 1));
  std::vector<Dim> dims = in[0].dims;
  dims.insert(dims.begin() + at, literal(1));
  return one(in[0].dtype, std::move(dims), in[0].contiguous);
}

Types squeeze(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("dim"), in[0].rank()));
  std::vector<Dim> dims = in[0].dims;
  if (dims[static_cast<std::size_t>(at)].size != 1) return fail(Code::kInvalidArgument, "squeeze of axis {} of {}", at, shape_text(in[0]));
  dims.erase(dims.begin() + at);
  return one(in[0].dtype, std::move(dims), in[0].contiguous);
}

// Splits the axis "dim" into (axis / factor, factor), attr "factor", or into (parts, axis / parts), attr "parts".
Types unflatten(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("dim"), in[0].rank()));
  const bool by_parts = node.has("parts");
  const std::int64_t factor = node.integer(by_parts ? "parts" : "factor", 1);
  std::vector<Dim> dims = in[0].dims;
  const std::int64_t size = dims[static_cast<std::size_t>(at)].size;
  if (factor < 1 || size % factor != 0) return fail(Code::kInvalidArgument, "unflatten of {} by {}", size, factor);
  dims[static_cast<std::size_t>(at)] = literal(by_parts ? factor : size / factor);
  dims.insert(dims.begin() + at + 1, literal(by_parts ? size / factor : factor));
  return one(in[0].dtype, std::move(dims), in[0].contiguous);
}

Types expand(const std::vector<TensorType>& in, const Node& node) {
  const std::vector<std::int64_t> sizes = node.list("sizes");
  if (sizes.size() != in[0].dims.size()) return fail(Code::kInvalidArgument, "expand of {}: another number of axes", shape_text(in[0]));
  std::vector<Dim> dims = in[0].dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (sizes[d] == -1 || sizes[d] == dims[d].size) continue;
    if (dims[d].size != 1) return fail(Code::kInvalidArgument, "expand of axis {} of {}", d, shape_text(in[0]));
    dims[d] = literal(sizes[d]);
  }
  return one(in[0].dtype, std::move(dims), false);
}

Types contiguous(const std::vector<TensorType>& in, const Node&) { return one(in[0].dtype, in[0].dims); }

Types narrow(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("dim"), in[0].rank()));
  std::vector<Dim> dims = in[0].dims;
  Dim& own = dims[static_cast<std::size_t>(at)];
  const std::int64_t start = node.integer("start"), length = node.integer("length");
  if (start < 0 || length < 1 || start + length > own.size)
    return fail(Code::kInvalidArgument, "narrow of {} from {} by {}", own.size, start, length);
  own = literal(length);
  return one(in[0].dtype, std::move(dims), in[0].contiguous && at == 0);
}

// One place of the axis "axis", attr "index", which may count from the end. The axis is gone.
Types select(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("axis"), in[0].rank()));
  std::vector<Dim> dims = in[0].dims;
  const std::int64_t size = dims[static_cast<std::size_t>(at)].size, index = node.integer("index");
  if (index < -size || index >= size) return fail(Code::kInvalidArgument, "place {} of an axis of {}", index, size);
  dims.erase(dims.begin() + at);
  return one(in[0].dtype, std::move(dims), in[0].contiguous && at == 0);
}

Types chunk(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("dim"), in[0].rank()));
  const std::int64_t parts = node.integer("chunks", 2);
  std::vector<Dim> dims = in[0].dims;
  Dim& own = dims[static_cast<std::size_t>(at)];
  if (parts < 1 || own.size % parts != 0) return fail(Code::kInvalidArgument, "{} in {} equal chunks", own.size, parts);
  own = literal(own.size / parts);
  return std::vector<TensorType>(static_cast<std::size_t>(parts), TensorType{in[0].dtype, dims, in[0].contiguous && at == 0});
}

Types cat(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("dim"), in[0].rank()));
  std::vector<Dim> dims = in[0].dims;
  for (std::size_t k = 1; k < in.size(); ++k) {
    if (in[k].dtype != in[0].dtype || in[k].rank() != in[0].rank())
      return fail(Code::kInvalidArgument, "cat of {} and {}", shape_text(in[0]), shape_text(in[k]));
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (static_cast<int>(d) != at && in[k].dims[d].size != dims[d].size)
        return fail(Code::kInvalidArgument, "cat of {} and {}", shape_text(in[0]), shape_text(in[k]));
    dims[static_cast<std::size_t>(at)] = literal(dims[static_cast<std::size_t>(at)].size + in[k].dims[static_cast<std::size_t>(at)].size);
  }
  return one(in[0].dtype, std::move(dims));
}

Types stack(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("dim"), in[0].rank() + 1));
  for (const TensorType& t : in)
    if (t.sizes() != in[0].sizes() || t.dtype != in[0].dtype) return fail(Code::kInvalidArgument, "stack of {} and {}", shape_text(in[0]), shape_text(t));
  std::vector<Dim> dims = in[0].dims;
  dims.insert(dims.begin() + at, literal(static_cast<std::int64_t>(in.size())));
  return one(in[0].dtype, std::move(dims));
}

// attr "pad" as F.pad takes it: (left, right) of the last axis, then of the one before; attr "mode".
Types pad(const std::vector<TensorType>& in, const Node& node) {
  const std::vector<std::int64_t> by = node.list("pad");
  std::vector<Dim> dims = in[0].dims;
  if (by.size() % 2 != 0 || by.size() / 2 > dims.size()) return fail(Code::kInvalidArgument, "pad of {} by {} numbers", shape_text(in[0]), by.size());
  const std::string mode = node.text("mode", "constant");
  for (std::size_t k = 0; k < by.size(); k += 2) {
    Dim& own = dims[dims.size() - 1 - k / 2];
    if (mode == "reflect" && (by[k] >= own.size || by[k + 1] >= own.size)) return fail(Code::kInvalidArgument, "reflection by more than the axis");
    if (by[k] + by[k + 1] != 0) own = literal(own.size + by[k] + by[k + 1]);
  }
  return one(in[0].dtype, std::move(dims));
}

Types same(const std::vector<TensorType>& in, const Node&) { return one(in[0].dtype, in[0].dims); }

Types along(const std::vector<TensorType>& in, const Node& node) {
  for (std::int64_t d : node.list("dims", {0})) MC_RETURN_IF_ERROR(axis(d, in[0].rank()));
  return same(in, node);
}

Types matrix(const std::vector<TensorType>& in, const Node& node) {
  if (in[0].rank() < 2) return fail(Code::kInvalidArgument, "{} of {}", node.op, shape_text(in[0]));
  return same(in, node);
}

Types repeat(const std::vector<TensorType>& in, const Node& node) {
  const std::vector<std::int64_t> times = node.list("repeats");
  if (times.size() != in[0].dims.size()) return fail(Code::kInvalidArgument, "repeat of {} needs a number for each axis", shape_text(in[0]));
  std::vector<Dim> dims = in[0].dims;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (times[d] != 1) dims[d] = literal(dims[d].size * times[d]);
  return one(in[0].dtype, std::move(dims));
}

Types repeat_interleave(const std::vector<TensorType>& in, const Node& node) {
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("dim"), in[0].rank()));
  std::vector<Dim> dims = in[0].dims;
  dims[static_cast<std::size_t>(at)] = literal(dims[static_cast<std::size_t>(at)].size * node.integer("repeats", 2));
  return one(in[0].dtype, std::move(dims));
}

Status needs_index(const TensorType& index, const Node& node) {
  if (index.dtype != DType::kI64) return fail(Code::kInvalidArgument, "{}: the index is {}", node.op, shape_text(index));
  return ok();
}

Types gather(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(needs_index(in[1], node));
  MC_RETURN_IF_ERROR(axis(node.integer("dim"), in[0].rank()));
  if (in[1].rank() != in[0].rank()) return fail(Code::kInvalidArgument, "gather of {} by {}", shape_text(in[0]), shape_text(in[1]));
  return one(in[0].dtype, in[1].dims);
}

Types index_select(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(needs_index(in[1], node));
  MC_ASSIGN_OR_RETURN(const int at, axis(node.integer("dim"), in[0].rank()));
  if (in[1].rank() != 1) return fail(Code::kInvalidArgument, "index_select by {}", shape_text(in[1]));
  std::vector<Dim> dims = in[0].dims;
  dims[static_cast<std::size_t>(at)] = in[1].dims[0];
  return one(in[0].dtype, std::move(dims));
}

// (indices, table)
Types embedding(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(needs_index(in[0], node));
  if (in[1].rank() != 2) return fail(Code::kInvalidArgument, "embedding from {}", shape_text(in[1]));
  std::vector<Dim> dims = in[0].dims;
  dims.push_back(in[1].dims[1]);
  return one(in[1].dtype, std::move(dims));
}

Types pixel_shuffle(const std::vector<TensorType>& in, const Node& node) {
  const std::int64_t r = node.integer("factor", 2);
  if (in[0].rank() != 4 || in[0].dims[1].size % (r * r) != 0) return fail(Code::kInvalidArgument, "pixel_shuffle of {} by {}", shape_text(in[0]), r);
  std::vector<Dim> dims = in[0].dims;
  dims[1] = literal(dims[1].size / (r * r));
  dims[2] = literal(dims[2].size * r);
  dims[3] = literal(dims[3].size * r);
  return one(in[0].dtype, std::move(dims));
}

Types pixel_unshuffle(const std::vector<TensorType>& in, const Node& node) {
  const std::int64_t r = node.integer("factor", 2);
  if (in[0].rank() != 4 || in[0].dims[2].size % r != 0 || in[0].dims[3].size % r != 0)
    return fail(Code::kInvalidArgument, "pixel_unshuffle of {} by {}", shape_text(in[0]), r);
  std::vector<Dim> dims = in[0].dims;
  dims[1] = literal(dims[1].size * r * r);
  dims[2] = literal(dims[2].size / r);
  dims[3] = literal(dims[3].size / r);
  return one(in[0].dtype, std::move(dims));
}

// attr "scale_factor": a whole number; (N, C, H, W).
Types interpolate(const std::vector<TensorType>& in, const Node& node) {
  const std::int64_t scale = node.integer("scale_factor", 2);
  if (in[0].rank() != 4 || !is_float(in[0].dtype)) return fail(Code::kInvalidArgument, "{} of {}", node.op, shape_text(in[0]));
  std::vector<Dim> dims = in[0].dims;
  for (std::size_t d : {2u, 3u}) dims[d] = literal(dims[d].size * scale);
  return one(in[0].dtype, std::move(dims));
}

constexpr OpClass kV = OpClass::kView;
constexpr OpClass kM = OpClass::kMove;
constexpr OpClass kI = OpClass::kIndex;

}  // namespace

const std::vector<OpInfo>& layout_ops() {
  static const std::vector<OpInfo> rows = {
      {"transpose", kV, 1, 1, transpose, "aten::transpose", {"torch.transpose({0}, {dim0}, {dim1})", "", "{0}.transpose({dim0}, {dim1})", "", ""}},
      {"permute", kV, 1, 1, permute, "aten::permute", {"torch.permute({0}, {dims:tuple})", "", "{0}.permute({dims:items})", "", ""}},
      {"flatten", kV, 1, 1, flatten, "aten::view", {"torch.flatten({0}[[, start_dim={start_dim}]][[, end_dim={end_dim}]])", "", "{0}.flatten([[start_dim={start_dim}]][[, end_dim={end_dim}]])", "", ""}},
      {"unsqueeze", kV, 1, 1, unsqueeze, "aten::unsqueeze", {"torch.unsqueeze({0}, {dim})", "", "{0}.unsqueeze({dim})", "", ""}},
      {"squeeze", kV, 1, 1, squeeze, "aten::squeeze", {"torch.squeeze({0}, {dim})", "", "{0}.squeeze({dim})", "", ""}},
      {"unflatten", kV, 1, 1, unflatten, "aten::view", {"", "", "{0}.unflatten({dim}, ([[-1, {factor}]][[{parts}, -1]]))", "", ""}},
      {"expand", kV, 1, 1, expand, "aten::expand", {"", "", "{0}.expand({sizes:items})", "", ""}},
      {"narrow", kV, 1, 1, narrow, "aten::slice", {"torch.narrow({0}, {dim}, {start}, {length})", "", "{0}.narrow({dim}, {start}, {length})", "", ""}},
      {"select", kV, 1, 1, select, "aten::select", {"torch.select({0}, {axis}, {index})", "", "{0}.select({axis}, {index})", "", ""}},
      {"chunk", kV, 1, 1, chunk, "aten::split", {"torch.chunk({0}, {chunks}, dim={dim})", "", "{0}.chunk({chunks}, dim={dim})", "", ""}},
      {"contiguous", kM, 1, 1, contiguous, "aten::clone", {"", "", "{0}.contiguous()", "", ""}},
      {"cat", kM, 2, 8, cat, "aten::cat", {"torch.cat([{*}], dim={dim})", "", "", "", ""}},
      {"stack", kM, 2, 8, stack, "aten::stack", {"torch.stack([{*}], dim={dim})", "", "", "", ""}},
      {"pad", kM, 1, 1, pad, "aten::constant_pad_nd", {"", "F.pad({0}, {pad:tuple}[[, mode={mode}]][[, value={value}]])", "", "", ""}},
      {"flip", kM, 1, 1, along, "aten::flip", {"torch.flip({0}, dims={dims:list})", "", "{0}.flip({dims:items})", "", ""}},
      {"roll", kM, 1, 1, along, "aten::roll", {"torch.roll({0}, shifts={shifts}, dims={dims})", "", "{0}.roll({shifts}, {dims})", "", ""}},
      {"tril", kM, 1, 1, matrix, "aten::tril", {"torch.tril({0}[[, diagonal={diagonal}]])", "", "{0}.tril([[diagonal={diagonal}]])", "", ""}},
      {"triu", kM, 1, 1, matrix, "aten::triu", {"torch.triu({0}[[, diagonal={diagonal}]])", "", "{0}.triu([[diagonal={diagonal}]])", "", ""}},
      {"repeat", kM, 1, 1, repeat, "aten::repeat", {"", "", "{0}.repeat({repeats:items})", "", ""}},
      {"repeat_interleave", kM, 1, 1, repeat_interleave, "aten::repeat_interleave", {"torch.repeat_interleave({0}, {repeats}, dim={dim})", "", "{0}.repeat_interleave({repeats}, dim={dim})", "", ""}},
      {"gather", kI, 2, 2, gather, "aten::gather", {"torch.gather({0}, {dim}, {1})", "", "{0}.gather({dim}, {1})", "", ""}},
      {"index_select", kI, 2, 2, index_select, "aten::index_select", {"torch.index_select({0}, {dim}, {1})", "", "{0}.index_select({dim}, {1})", "", ""}},
      {"embedding", kI, 2, 2, embedding, "aten::embedding", {"", "F.embedding({0}, {1})", "", "", ""}},
      {"pixel_shuffle", OpClass::kResample, 1, 1, pixel_shuffle, "aten::pixel_shuffle", {"torch.pixel_shuffle({0}, {factor})", "F.pixel_shuffle({0}, {factor})", "", "", "nn.PixelShuffle({factor})"}},
      {"pixel_unshuffle", OpClass::kResample, 1, 1, pixel_unshuffle, "aten::pixel_unshuffle", {"torch.pixel_unshuffle({0}, {factor})", "F.pixel_unshuffle({0}, {factor})", "", "", "nn.PixelUnshuffle({factor})"}},
      {"upsample_nearest", OpClass::kResample, 1, 1, interpolate, "aten::upsample_nearest2d", {"", "F.interpolate({0}, scale_factor={scale_factor}, mode='nearest')", "", "", "nn.Upsample(scale_factor={scale_factor}, mode='nearest')"}},
      {"upsample_bilinear", OpClass::kResample, 1, 1, interpolate, "aten::upsample_bilinear2d", {"", "F.interpolate({0}, scale_factor={scale_factor}, mode='bilinear', align_corners={align_corners})", "", "", "nn.Upsample(scale_factor={scale_factor}, mode='bilinear', align_corners={align_corners})"}},
  };
  return rows;
}

}  // namespace musacoder::synth
