#include "synth/teacher/row_operands.h"

#include <algorithm>

#include "synth/graph/ops.h"

namespace musacoder::synth {

bool reads(const Graph& graph, const std::vector<int>& nodes, int value) {
  return std::any_of(nodes.begin(), nodes.end(), [&](int n) {
    const auto& inputs = graph.nodes[static_cast<std::size_t>(n)].inputs;
    return std::count(inputs.begin(), inputs.end(), value) != 0;
  });
}

int anchor_input(const Graph& graph, const Region& region) { return graph.nodes[static_cast<std::size_t>(region.anchor)].inputs[0]; }

std::vector<bool> walked_axes(const Graph& graph, const Node& node) {
  const TensorType& in = graph.type(node.inputs[0]);
  const auto rank = static_cast<std::size_t>(in.rank());
  std::vector<bool> walked(rank, false);
  if (node.has("normalized_shape")) {
    for (std::size_t d = rank - node.list("normalized_shape").size(); d < rank; ++d) walked[d] = true;
    return walked;
  }
  const OpInfo* info = find_op(node.op);
  if (!node.has("dim")) {
    if (info->cls == OpClass::kRow) walked[rank - 1] = true;
    else walked.assign(rank, true);
    return walked;
  }
  for (std::int64_t d : node.list("dim")) walked[static_cast<std::size_t>(d < 0 ? d + in.rank() : d)] = true;
  return walked;
}

std::vector<Operand> row_operands(const Graph& graph, const Region& region, const UnitText& unit, const std::vector<bool>& walked, bool kept) {
  const Node& anchor = graph.nodes[static_cast<std::size_t>(region.anchor)];
  const int rank = graph.type(anchor.inputs[0]).rank();
  const TensorType& result = graph.type(anchor.outputs[0]);
  std::vector<Operand> all;
  for (int v : region.inputs) {
    Operand operand{v, unit.tensor(v), aligned_place(graph.type(v), rank)};
    const bool along = reads(graph, region.prologue, v) || std::count(anchor.inputs.begin(), anchor.inputs.end(), v) != 0;
    if (kept && !along && result.rank() != rank) {
      // Axes of the result are those that are not walked, in order.
      std::vector<int> axes;
      for (int d = 0; d < rank; ++d)
        if (!walked[static_cast<std::size_t>(d)]) axes.push_back(d);
      operand.place.clear();
      const TensorType& type = graph.type(v);
      const int shift = static_cast<int>(axes.size()) - type.rank();
      for (int d = 0; d < type.rank(); ++d)
        operand.place.push_back(type.dims[static_cast<std::size_t>(d)].size == 1 ? -1 : axes[static_cast<std::size_t>(d + shift)]);
    }
    all.push_back(std::move(operand));
  }
  return all;
}

Result<std::string> load_and_compute(const Graph& graph, const std::vector<int>& nodes, int wanted, const Domain& domain,
                                     const std::vector<std::string>& coordinates, ScalarCode& code, Writer& writer,
                                     const std::string& suffix, std::vector<AccessFact>* accesses) {
  std::string text;
  for (std::size_t o = 0; o < domain.operands().size(); ++o) {
    const Operand& operand = domain.operands()[o];
    if (code.bound(operand.value) || !(operand.value == wanted || reads(graph, nodes, operand.value))) continue;
    const DType dtype = graph.type(operand.value).dtype;
    const std::string local = operand.tensor + suffix, offset = domain.offset(o, coordinates);
    text += fmt::format("const {} {} = {};\n", Writer::compute_type(dtype), local, writer.load(dtype, fmt::format("{}[{}]", operand.tensor, offset)));
    if (accesses != nullptr) accesses->push_back({operand.tensor, shape_text(graph.type(operand.value)), offset, false});
    code.bind(operand.value, local);
  }
  for (int n : nodes) MC_RETURN_IF_ERROR(code.add(n));
  return text + code.lines();
}

bool placeable(const Graph& graph, const Region& region, bool kept) {
  const Node& anchor = graph.nodes[static_cast<std::size_t>(region.anchor)];
  const auto scalar = [&](int n) {
    const Node& node = graph.nodes[static_cast<std::size_t>(n)];
    return has_scalar(node) && node.op != "prelu";
  };
  if (!std::all_of(region.prologue.begin(), region.prologue.end(), scalar) || !std::all_of(region.epilogue.begin(), region.epilogue.end(), scalar))
    return false;
  const TensorType& in = graph.type(anchor.inputs[0]);
  const TensorType& out = graph.type(anchor.outputs[0]);
  // Prologues compute the anchor's whole input; epilogues have the shape of its result.
  for (int n : region.prologue) {
    const Node& node = graph.nodes[static_cast<std::size_t>(n)];
    for (int v : node.outputs)
      if (v == anchor.inputs[0] && graph.type(v).sizes() != in.sizes()) return false;
  }
  for (int v : region.outputs)
    if (graph.type(v).sizes() != (kept ? out : in).sizes()) return false;
  // Epilogues run in a loop of their own, in which the prologue's results are gone.
  for (int n : region.prologue)
    for (int v : graph.nodes[static_cast<std::size_t>(n)].outputs)
      if (reads(graph, region.epilogue, v)) return false;
  // Row operators may read what the prologue reads again in their epilogue; reductions may not.
  if (kept) {
    const std::vector<int> before = region.prologue;
    for (int v : region.inputs)
      if (reads(graph, region.epilogue, v) &&
          (reads(graph, before, v) || std::count(anchor.inputs.begin(), anchor.inputs.end(), v) != 0))
        return false;
    for (int v : region.inputs)
      if (reads(graph, region.epilogue, v) && graph.type(v).rank() > out.rank()) return false;
  }
  return true;
}

}  // namespace musacoder::synth
