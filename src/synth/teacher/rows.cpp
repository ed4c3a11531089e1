// Row operators (softmax and its kin, layer and RMS norms, normalisation to unit length) and normalisations with statistics over other axes:
// phases of reductions over a row, then a pass that writes it.
#include <algorithm>

#include "synth/graph/ops.h"
#include "synth/teacher/row_kernel.h"
#include "synth/teacher/row_operands.h"
#include "synth/teacher/schedule.h"

namespace musacoder::synth {
namespace {

const Node& anchor_of(const Graph& graph, const Region& region) { return graph.nodes[static_cast<std::size_t>(region.anchor)]; }

// What is computed of a row: phases, and the element's result from VALUE and the states.
struct Formula {
  std::vector<Phase> phases;
  std::string result;      // expression with VALUE
  bool affine = false;     // weight and bias follow
};

enum class Way { kPasses, kOnline };

Result<Formula> formula_of(const Node& node, Way way) {
  Formula f;
  const std::string eps = Writer::number(DType::kF32, node.number("eps", 1e-5));
  if (node.op == "softmax" || node.op == "log_softmax" || node.op == "softmin") {
    const bool log = node.op == "log_softmax";
    if (way == Way::kOnline) {
      f.phases = {{online_exponentials("peak", "total_exp"), log ? "const float log_total = peak + logf(total_exp);\n" : "const float scale = 1.0f / total_exp;\n"}};
    } else {
      f.phases = {{maximum_of("peak", "VALUE"), ""},
                  {sum_of("total_exp", "expf(VALUE - peak)", "sum of exponentials relative to the maximum"),
                   log ? "const float log_total = peak + logf(total_exp);\n" : "const float scale = 1.0f / total_exp;\n"}};
    }
    f.result = log ? "VALUE - log_total" : "expf(VALUE - peak) * scale";
    return f;
  }
  if (node.op == "normalize") {
    if (way == Way::kOnline) return fail(Code::kUnsupported, "normalize has one way");
    const double p = node.number("p", 2);
    if (p != 1 && p != 2) return fail(Code::kUnsupported, "normalize of order {}", p);
    const std::string least = Writer::number(DType::kF32, node.number("eps", 1e-12));
    f.phases = {{sum_of("norm_sum", p == 1 ? "fabsf(VALUE)" : "VALUE * VALUE", p == 1 ? "sum of absolute values" : "sum of squares"),
                 fmt::format("const float divisor = fmaxf({}, {});\n", p == 1 ? "norm_sum" : "sqrtf(norm_sum)", least)}};
    f.result = "VALUE / divisor";
    return f;
  }
  if (node.op == "rms_norm") {
    if (way == Way::kOnline) return fail(Code::kUnsupported, "rms_norm has one way");
    f.phases = {{sum_of("squares", "VALUE * VALUE", "sum of squares"), fmt::format("const float scale = rsqrtf(squares / COUNT + {});\n", eps)}};
    f.result = "VALUE * scale";
    f.affine = true;
    return f;
  }
  if (node.op == "layer_norm" || node.op == "group_norm" || node.op == "instance_norm" || node.op == "batch_norm") {
    if (way == Way::kOnline)
      f.phases = {{welford("mean", "squares", "seen"), fmt::format("const float scale = rsqrtf(squares / COUNT + {});\n", eps)}};
    else
      f.phases = {{sum_of("sum", "VALUE", "sum of the elements"), "const float mean = sum / COUNT;\n"},
                  {sum_of("squares", "(VALUE - mean) * (VALUE - mean)", "sum of squared deviations from the mean"),
                   fmt::format("const float scale = rsqrtf(squares / COUNT + {});\n", eps)}};
    f.result = "(VALUE - mean) * scale";
    f.affine = true;
    return f;
  }
  return fail(Code::kUnsupported, "{} has no row formula", node.op);
}

// Weight and bias among the node's inputs: 1 and 2, in the order in which the module makes them.
std::vector<int> affine_inputs(const Node& node) {
  std::vector<int> all;
  for (std::size_t k = 1; k < node.inputs.size() && k < 3; ++k) all.push_back(node.inputs[k]);
  return all;
}

// How the anchor's input is taken apart: the axes as they are, or a channel axis as groups and channels of a group.
struct Space {
  TensorType full;
  std::vector<bool> walked;
  std::vector<std::string> hosts;   // "" : from operands
  bool grouped = false;
};

Space space_of(const Graph& graph, const Node& node, const std::string& tensor) {
  Space s;
  s.full = graph.type(node.inputs[0]);
  if (find_op(node.op)->cls == OpClass::kRow) {
    s.walked = walked_axes(graph, node);
    return s;
  }
  const auto rank = static_cast<std::size_t>(s.full.rank());
  s.walked.assign(rank, true);
  if (node.op == "instance_norm") s.walked[0] = s.walked[1] = false;
  if (node.op == "batch_norm") s.walked[1] = false;
  if (node.op == "group_norm") {
    s.grouped = true;
    const std::int64_t groups = node.integer("num_groups", 1), channels = s.full.dims[1].size;
    s.full.dims[1] = {groups, "num_groups"};
    s.full.dims.insert(s.full.dims.begin() + 2, {channels / groups, "channels_per_group"});
    s.walked = std::vector<bool>(rank + 1, true);
    s.walked[0] = s.walked[1] = false;
    s.hosts = {tensor + ".size(0)", "groups", tensor + ".size(1) / groups"};
    for (std::size_t d = 2; d < rank; ++d) s.hosts.push_back(fmt::format("{}.size({})", tensor, d));
  }
  return s;
}

// Weight and bias of norms lie along the channels, running statistics too.
bool channelwise(const Node& node, int value) {
  return find_op(node.op)->cls == OpClass::kNorm && std::count(node.inputs.begin() + 1, node.inputs.end(), value) != 0;
}

class RowOperator final : public Schedule {
 public:
  RowOperator(RowThreads by, Way way, bool cached) : by_(by), way_(way), cached_(cached) {}

  std::string name() const override {
    static const char* const by[] = {"thread_per_row", "warp_per_row", "block_tree", "block_shuffle"};
    return fmt::format("rows.{}{}{}", by[static_cast<int>(by_)], way_ == Way::kOnline ? ".online" : "", cached_ ? ".cached" : "");
  }

  bool takes(const Graph& graph, const Region& region) const override {
    if (region.anchor < 0 || region.outputs.empty()) return false;
    const Node& node = anchor_of(graph, region);
    const OpClass cls = find_op(node.op)->cls;
    if (cls != OpClass::kRow && cls != OpClass::kNorm) return false;
    if (node.op == "batch_norm" && !node.flag("training", false)) return false;
    if (graph.type(node.inputs[0]).dtype == DType::kF64 || !formula_of(node, way_) || !placeable(graph, region, false)) return false;
    if (cls == OpClass::kNorm)
      for (int v : region.inputs) {
        // Neighbours with other shapes than the whole would need the channel axis in two parts.
        if (v == node.inputs[0] || channelwise(node, v)) continue;
        if (graph.type(v).sizes() != graph.type(node.inputs[0]).sizes()) return false;
      }
    if (cls == OpClass::kNorm && cached_ && node.op == "batch_norm") return false;
    const Space s = space_of(graph, node, "x");
    std::int64_t rows = 1, columns = 1;
    bool last = true;
    for (std::size_t d = 0; d < s.walked.size(); ++d) {
      (s.walked[d] ? columns : rows) *= s.full.dims[d].size;
      if (s.full.dims[d].size > 1) last = s.walked[d];
    }
    if (columns < 2) return false;
    if (cached_ && (columns > 8192 || by_ == RowThreads::kThread || by_ == RowThreads::kWarp)) return false;
    if (by_ == RowThreads::kThread && last && columns > 256) return false;
    return fits(by_, rows, columns) || (by_ == RowThreads::kWarp && columns <= 48);
  }

  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    const Node& node = anchor_of(graph, region);
    UnitText unit(graph, region, writer, region_name(graph, region));
    std::string whole;  // the argument that spans the input
    for (int v : region.inputs)
      if (whole.empty() && graph.type(v).sizes() == graph.type(node.inputs[0]).sizes()) whole = unit.tensor(v);
    if (whole.empty()) whole = unit.tensor(region.inputs[0]);
    const Space space = space_of(graph, node, whole);
    if (space.grouped) {
      const auto groups = node.attrs.find("num_groups");
      const std::string member = node.module >= 0 ? fmt::format("self.{}.num_groups", graph.modules[static_cast<std::size_t>(node.module)].name)
                                 : groups->second.constant.empty() ? std::to_string(node.integer("num_groups"))
                                                                   : "self." + groups->second.constant;
      unit.extra("int64_t", "groups", member);
    }
    std::vector<Operand> operands = row_operands(graph, region, unit, walked_axes_or_none(graph, node), false);
    for (Operand& o : operands) {
      if (channelwise(node, o.value)) {
        o.place = {1};
        if (space.grouped) o.place = {1, 2};
      } else if (space.grouped && graph.type(o.value).sizes() == graph.type(node.inputs[0]).sizes()) {
        o.place.clear();
        for (int d = 0; d < space.full.rank(); ++d) o.place.push_back(d);
      }
    }
    Domain domain(graph, space.full, space.walked, operands, unit.names, space.hosts);
    unit.sizes_of(domain);
    MC_ASSIGN_OR_RETURN(Formula formula, formula_of(node, way_));
    std::vector<AccessFact> accesses;

    RowProgram program;
    program.domain = &domain;
    program.phases = formula.phases;
    program.words = region_words(graph, region);
    const int wanted = node.inputs[0];
    program.load = [&](const std::vector<std::string>& at, std::string* value) -> Result<std::string> {
      ScalarCode code(graph, writer);
      MC_ASSIGN_OR_RETURN(std::string text, load_and_compute(graph, region.prologue, wanted, domain, at, code, writer, "_v", accesses.empty() ? &accesses : nullptr));
      *value = code.name(wanted);
      if (node.op == "softmin") {
        text += fmt::format("const float negated = -{};\n", *value);
        *value = "negated";
      }
      return text;
    };
    program.each = [&](const std::vector<std::string>& at, const std::string& value) -> Result<std::string> {
      ScalarCode code(graph, writer);
      code.count_from(40);
      std::string result = with_element(formula.result, value, "i", "cols");
      const std::vector<int> affine = formula.affine ? affine_inputs(node) : std::vector<int>{};
      for (std::size_t k = 0; k < affine.size(); ++k) {
        const DType dtype = graph.type(affine[k]).dtype;
        std::size_t o = 0;
        while (domain.operands()[o].value != affine[k]) ++o;
        const std::string element = Writer::load(dtype, fmt::format("{}[{}]", unit.tensor(affine[k]), domain.offset(o, at)));
        result = k == 0 ? result + " * " + element : result + " + " + element;
        accesses.push_back({unit.tensor(affine[k]), shape_text(graph.type(affine[k])), domain.offset(o, at), false});
      }
      std::string text = fmt::format("const float normalised = {};\n", result);
      if (node.op.find("soft") != std::string::npos) text = fmt::format("const float share = {};\n", result);
      code.bind(node.outputs[0], node.op.find("soft") != std::string::npos ? "share" : "normalised");
      MC_ASSIGN_OR_RETURN(const std::string more, load_and_compute(graph, region.epilogue, -1, domain, at, code, writer, "_e", &accesses));
      text += more;
      const std::string offset = domain.offset_of(at, false);
      for (int v : region.outputs) {
        text += fmt::format("{}[{}] = {};\n", unit.tensor(v), offset, Writer::store(graph.type(v).dtype, code.name(v)));
        accesses.push_back({unit.tensor(v), shape_text(graph.type(v)), offset, true});
      }
      return text;
    };
    if (node.op == "batch_norm" && node.inputs.size() == 5) {
      unit.changes(node.inputs[3]);
      unit.changes(node.inputs[4]);
      const double momentum = node.number("momentum", 0.1);
      program.row = [&, momentum](const std::vector<std::string>& at) -> Result<std::string> {
        std::string channel;
        for (std::size_t a = 0; a < domain.axes().size(); ++a)
          if (!domain.axes()[a].reduced) channel = at[a];
        const std::string mean = unit.tensor(node.inputs[3]), variance = unit.tensor(node.inputs[4]);
        const std::string keep = Writer::number(DType::kF32, 1 - momentum), take = Writer::number(DType::kF32, momentum);
        return fmt::format("{0}[{2}] = {3} * {0}[{2}] + {4} * mean;\n{1}[{2}] = {3} * {1}[{2}] + {4} * squares / (cols - 1);\n", mean, variance,
                           channel, keep, take);
      };
    }
    MC_RETURN_IF_ERROR(write_rows(program, {by_, cached_}, unit, writer));
    unit.facts().accesses = std::move(accesses);
    return unit.finish(name());
  }

 private:
  static std::vector<bool> walked_axes_or_none(const Graph& graph, const Node& node) {
    if (find_op(node.op)->cls == OpClass::kRow) return walked_axes(graph, node);
    return std::vector<bool>(graph.type(node.inputs[0]).dims.size(), false);
  }
  RowThreads by_;
  Way way_;
  bool cached_;
};

}  // namespace

void add_row_schedules(Schedules& all) {
  for (RowThreads by : {RowThreads::kWarp, RowThreads::kBlockTree, RowThreads::kBlockShuffle, RowThreads::kThread})
    for (Way way : {Way::kPasses, Way::kOnline}) all.push_back(std::make_unique<RowOperator>(by, way, false));
  for (Way way : {Way::kPasses, Way::kOnline}) all.push_back(std::make_unique<RowOperator>(RowThreads::kBlockShuffle, way, true));
}

}  // namespace musacoder::synth
