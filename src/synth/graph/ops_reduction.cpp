// Reductions over attr "dim" (an axis or a list; absent: all axes) with attr "keepdim", and scans along attr "dim".
#include <algorithm>

#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

using Types = Result<std::vector<TensorType>>;

Result<std::vector<Dim>> reduced(const TensorType& in, const Node& node) {
  std::vector<bool> gone(in.dims.size(), !node.has("dim"));
  for (std::int64_t d : node.list("dim")) {
    MC_ASSIGN_OR_RETURN(const int at, axis(d, in.rank()));
    gone[static_cast<std::size_t>(at)] = true;
  }
  std::vector<Dim> dims;
  for (std::size_t d = 0; d < in.dims.size(); ++d) {
    if (!gone[d]) dims.push_back(in.dims[d]);
    else if (node.flag("keepdim")) dims.push_back(literal(1));
  }
  return dims;
}

Types reduction(const std::vector<TensorType>& in, const Node& node, DType dtype) {
  MC_ASSIGN_OR_RETURN(std::vector<Dim> dims, reduced(in[0], node));
  return std::vector<TensorType>{{dtype, std::move(dims), true}};
}

Types sum(const std::vector<TensorType>& in, const Node& node) {
  return reduction(in, node, is_float(in[0].dtype) ? in[0].dtype : DType::kI64);
}
Types same_type(const std::vector<TensorType>& in, const Node& node) { return reduction(in, node, in[0].dtype); }
Types floating(const std::vector<TensorType>& in, const Node& node) {
  if (!is_float(in[0].dtype)) return fail(Code::kInvalidArgument, "{} needs a floating tensor, not {}", node.op, shape_text(in[0]));
  return reduction(in, node, in[0].dtype);
}
Types boolean(const std::vector<TensorType>& in, const Node& node) { return reduction(in, node, DType::kBool); }
Types counted(const std::vector<TensorType>& in, const Node& node) { return reduction(in, node, DType::kI64); }

Types with_index(const std::vector<TensorType>& in, const Node& node) {
  if (node.list("dim").size() != 1) return fail(Code::kInvalidArgument, "{} needs one dim", node.op);
  MC_ASSIGN_OR_RETURN(std::vector<TensorType> out, same_type(in, node));
  out.push_back(out[0]);
  out[1].dtype = DType::kI64;
  return out;
}

Types scan(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(axis(node.integer("dim"), in[0].rank()));
  const DType dtype = is_float(in[0].dtype) ? in[0].dtype : DType::kI64;
  return std::vector<TensorType>{{dtype, in[0].dims, true}};
}
Types scan_with_index(const std::vector<TensorType>& in, const Node& node) {
  MC_RETURN_IF_ERROR(axis(node.integer("dim"), in[0].rank()));
  return std::vector<TensorType>{{in[0].dtype, in[0].dims, true}, {DType::kI64, in[0].dims, true}};
}

constexpr OpClass kR = OpClass::kReduction;
constexpr OpClass kS = OpClass::kScan;

}  // namespace

const std::vector<OpInfo>& reduction_ops() {
  static const std::vector<OpInfo> rows = {
      {"sum", kR, 1, 1, sum, "aten::sum", {"torch.sum({0}[[, dim={dim}]][[, keepdim={keepdim}]])", "", "{0}.sum([[dim={dim}]][[, keepdim={keepdim}]])", "", ""}},
      {"mean", kR, 1, 1, floating, "aten::mean", {"torch.mean({0}[[, dim={dim}]][[, keepdim={keepdim}]])", "", "{0}.mean([[dim={dim}]][[, keepdim={keepdim}]])", "", ""}},
      {"amax", kR, 1, 1, same_type, "aten::amax", {"torch.amax({0}[[, dim={dim}]][[, keepdim={keepdim}]])", "", "{0}.amax([[dim={dim}]][[, keepdim={keepdim}]])", "", ""}},
      {"amin", kR, 1, 1, same_type, "aten::amin", {"torch.amin({0}[[, dim={dim}]][[, keepdim={keepdim}]])", "", "{0}.amin([[dim={dim}]][[, keepdim={keepdim}]])", "", ""}},
      {"prod", kR, 1, 1, sum, "aten::prod", {"torch.prod({0}[[, dim={dim}]][[, keepdim={keepdim}]])", "", "{0}.prod([[dim={dim}]][[, keepdim={keepdim}]])", "", ""}},
      {"var", kR, 1, 1, floating, "aten::var", {"torch.var({0}[[, dim={dim}]][[, correction={correction}]][[, keepdim={keepdim}]])", "", "{0}.var([[dim={dim}]][[, correction={correction}]][[, keepdim={keepdim}]])", "", ""}},
      {"std", kR, 1, 1, floating, "aten::std", {"torch.std({0}[[, dim={dim}]][[, correction={correction}]][[, keepdim={keepdim}]])", "", "{0}.std([[dim={dim}]][[, correction={correction}]][[, keepdim={keepdim}]])", "", ""}},
      {"norm", kR, 1, 1, floating, "aten::linalg_vector_norm", {"torch.linalg.vector_norm({0}[[, ord={p}]][[, dim={dim}]][[, keepdim={keepdim}]])", "", "{0}.norm([[p={p}]][[, dim={dim}]][[, keepdim={keepdim}]])", "", ""}},
      {"logsumexp", kR, 1, 1, floating, "aten::logsumexp", {"torch.logsumexp({0}, dim={dim}[[, keepdim={keepdim}]])", "", "{0}.logsumexp(dim={dim}[[, keepdim={keepdim}]])", "", ""}},
      {"any", kR, 1, 1, boolean, "aten::any", {"torch.any({0}[[, dim={dim}]][[, keepdim={keepdim}]])", "", "{0}.any([[dim={dim}]][[, keepdim={keepdim}]])", "", ""}},
      {"all", kR, 1, 1, boolean, "aten::all", {"torch.all({0}[[, dim={dim}]][[, keepdim={keepdim}]])", "", "{0}.all([[dim={dim}]][[, keepdim={keepdim}]])", "", ""}},
      {"count_nonzero", kR, 1, 1, counted, "aten::count_nonzero", {"torch.count_nonzero({0}[[, dim={dim}]])", "", "{0}.count_nonzero([[dim={dim}]])", "", ""}},
      {"argmax", kR, 1, 1, counted, "aten::argmax", {"torch.argmax({0}[[, dim={dim}]][[, keepdim={keepdim}]])", "", "{0}.argmax([[dim={dim}]][[, keepdim={keepdim}]])", "", ""}},
      {"argmin", kR, 1, 1, counted, "aten::argmin", {"torch.argmin({0}[[, dim={dim}]][[, keepdim={keepdim}]])", "", "{0}.argmin([[dim={dim}]][[, keepdim={keepdim}]])", "", ""}},
      {"max_with_index", kR, 1, 1, with_index, "aten::max", {"torch.max({0}, dim={dim}[[, keepdim={keepdim}]])", "", "{0}.max(dim={dim}[[, keepdim={keepdim}]])", "", ""}},
      {"min_with_index", kR, 1, 1, with_index, "aten::min", {"torch.min({0}, dim={dim}[[, keepdim={keepdim}]])", "", "{0}.min(dim={dim}[[, keepdim={keepdim}]])", "", ""}},
      {"cumsum", kS, 1, 1, scan, "aten::cumsum", {"torch.cumsum({0}, dim={dim})", "", "{0}.cumsum(dim={dim})", "", ""}},
      {"cumprod", kS, 1, 1, scan, "aten::cumprod", {"torch.cumprod({0}, dim={dim})", "", "{0}.cumprod(dim={dim})", "", ""}},
      {"cummax", kS, 1, 1, scan_with_index, "aten::cummax", {"torch.cummax({0}, dim={dim})", "", "{0}.cummax(dim={dim})", "", ""}},
      {"logcumsumexp", kS, 1, 1, scan, "aten::logcumsumexp", {"torch.logcumsumexp({0}, dim={dim})", "", "{0}.logcumsumexp(dim={dim})", "", ""}},
  };
  return rows;
}

}  // namespace musacoder::synth
