// Operators that move elements: every thread finds out where its element comes from; transposition through shared memory.
#include <algorithm>

#include "synth/graph/ops.h"
#include "synth/teacher/row_operands.h"
#include "synth/teacher/scalar.h"
#include "synth/teacher/schedule.h"
#include "synth/teacher/unit_text.h"

namespace musacoder::synth {
namespace {

int indent_of(const Writer& writer) { return writer.style().tabs_of_two ? 2 : 4; }

const Node& anchor_of(const Graph& graph, const Region& region) { return graph.nodes[static_cast<std::size_t>(region.anchor)]; }

const char* index_word(const Writer& writer) {
  static const char* const words[] = {"idx", "i", "tid"};
  return words[static_cast<std::size_t>(writer.style().names) % 3];
}

// Anchor, then element-wise operators of its result's shape.
bool movable(const Graph& graph, const Region& region) {
  if (region.anchor < 0 || !region.prologue.empty() || region.outputs.empty()) return false;
  const Node& node = anchor_of(graph, region);
  const OpClass cls = find_op(node.op)->cls;
  if (cls != OpClass::kMove && cls != OpClass::kIndex && cls != OpClass::kResample) return false;
  if (node.op == "pad" && node.text("mode", "constant") == "circular") return false;
  for (int n : region.epilogue) {
    const Node& own = graph.nodes[static_cast<std::size_t>(n)];
    if (!has_scalar(own) || own.op == "prelu") return false;
  }
  return std::all_of(region.outputs.begin(), region.outputs.end(),
                     [&](int v) { return graph.type(v).sizes() == graph.type(node.outputs[0]).sizes(); });
}

// Names and host expressions of a tensor's sizes, each an argument of the kernel.
std::vector<std::string> name_sizes(UnitText& unit, const TensorType& type, const std::string& tensor, const std::string& fallback,
                                    const char* const letters[], bool strides, std::vector<std::string>* stride_names) {
  std::vector<std::string> names;
  for (int d = 0; d < type.rank(); ++d) {
    const Dim& dim = type.dims[static_cast<std::size_t>(d)];
    const bool plain = !dim.name.empty() && dim.name.find(' ') == std::string::npos;
    names.push_back(unit.names.take(plain ? fallback + dim.name : fallback + letters[static_cast<std::size_t>(8 - type.rank() + d)]));
    unit.size(names.back(), fmt::format("{}.size({})", tensor, d), dim.size);
    if (!strides) continue;
    stride_names->push_back(unit.names.take("stride_" + std::to_string(d)));
    unit.size(stride_names->back(), fmt::format("{}.stride({})", tensor, d), -1);
  }
  return names;
}

const char* const kLetters[] = {"d0", "d1", "d2", "d3", "n", "c", "h", "w"};

std::string horner(const std::vector<std::string>& at, const std::vector<std::string>& sizes) {
  std::string text;
  for (std::size_t d = 0; d < at.size(); ++d) {
    const bool simple = text.find(' ') == std::string::npos;
    const bool own = at[d].find(' ') == std::string::npos;
    const std::string coordinate = own ? at[d] : "(" + at[d] + ")";
    text = d == 0 ? coordinate : fmt::format("{} * {} + {}", simple ? text : "(" + text + ")", sizes[d], coordinate);
  }
  return text.empty() ? "0" : text;
}

// What is read for the element at coordinates `at` of the result: statements, and an expression in the compute type.
struct Source {
  std::string lines, value;
};

class Mover {
 public:
  Mover(const Graph& graph, const Region& region, UnitText& unit, Writer& writer)
      : graph_(graph), node_(anchor_of(graph, region)), unit_(unit), writer_(writer) {}

  // Sizes of the first operand; host shape of the result.
  Status prepare() {
    const TensorType& in = graph_.type(main());
    const bool strided = node_.op == "contiguous";
    in_sizes_ = name_sizes(unit_, in, unit_.tensor(main()), "", kLetters, strided, &strides_);
    if (node_.op == "repeat_interleave") unit_.extra("int64_t", "repeats", attr("repeats", 2));
    if (node_.op == "upsample_nearest" || node_.op == "upsample_bilinear") unit_.extra("int64_t", "scale", attr("scale_factor", 2));
    if (node_.op == "pixel_shuffle" || node_.op == "pixel_unshuffle") unit_.extra("int64_t", "factor", attr("factor", 2));
    if (node_.op == "cat") {
      std::string total;
      for (std::size_t k = 0; k < node_.inputs.size(); ++k) {
        const std::string each = fmt::format("part{}", k);
        unit_.size(each, fmt::format("{}.size({})", unit_.tensor(node_.inputs[k]), axis()), graph_.type(node_.inputs[k]).dims[axis()].size);
        total += (total.empty() ? "" : " + ") + each;
      }
      cat_total_ = total;
    }
    return ok();
  }

  std::string host_shape() const {
    const TensorType& in = graph_.type(main());
    const std::string x = unit_.tensor(main());
    std::vector<std::string> dims;
    for (int d = 0; d < in.rank(); ++d) dims.push_back(fmt::format("{}.size({})", x, d));
    if (node_.op == "cat") {
      std::string sum;
      for (int v : node_.inputs) sum += (sum.empty() ? "" : " + ") + fmt::format("{}.size({})", unit_.tensor(v), axis());
      dims[axis()] = sum;
    } else if (node_.op == "stack") {
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis()), std::to_string(node_.inputs.size()));
    } else if (node_.op == "pad") {
      const auto by = node_.list("pad");
      for (std::size_t k = 0; k < by.size(); k += 2) dims[dims.size() - 1 - k / 2] += fmt::format(" + {}", by[k] + by[k + 1]);
    } else if (node_.op == "repeat") {
      const auto times = node_.list("repeats");
      for (std::size_t d = 0; d < dims.size(); ++d)
        if (times[d] != 1) dims[d] += fmt::format(" * {}", times[d]);
    } else if (node_.op == "repeat_interleave") {
      dims[axis()] += " * repeats";
    } else if (node_.op == "gather") {
      for (int d = 0; d < in.rank(); ++d) dims[static_cast<std::size_t>(d)] = fmt::format("{}.size({})", unit_.tensor(node_.inputs[1]), d);
    } else if (node_.op == "index_select") {
      dims[axis()] = unit_.tensor(node_.inputs[1]) + ".size(0)";
    } else if (node_.op == "embedding") {
      dims.clear();
      for (int d = 0; d < graph_.type(node_.inputs[0]).rank(); ++d) dims.push_back(fmt::format("{}.size({})", unit_.tensor(node_.inputs[0]), d));
      dims.push_back(x + ".size(1)");
    } else if (node_.op == "pixel_shuffle") {
      dims = {x + ".size(0)", x + ".size(1) / (factor * factor)", x + ".size(2) * factor", x + ".size(3) * factor"};
    } else if (node_.op == "pixel_unshuffle") {
      dims = {x + ".size(0)", x + ".size(1) * factor * factor", x + ".size(2) / factor", x + ".size(3) / factor"};
    } else if (node_.op.rfind("upsample", 0) == 0) {
      dims[2] += " * scale";
      dims[3] += " * scale";
    }
    std::string text;
    for (const std::string& d : dims) text += (text.empty() ? "" : ", ") + d;
    return "{" + text + "}";
  }

  // The tensor whose elements are moved.
  int main() const { return node_.op == "embedding" ? node_.inputs[1] : node_.inputs[0]; }
  const std::vector<std::string>& in_sizes() const { return in_sizes_; }
  std::vector<std::string> more_arguments() const {
    if (node_.op == "repeat_interleave") return {"repeats"};
    if (node_.op.rfind("upsample", 0) == 0) return {"scale"};
    if (node_.op.rfind("pixel", 0) == 0) return {"factor"};
    return {};
  }

  Result<Source> source(std::vector<std::string> at, const std::vector<std::string>& out_sizes) const {
    const char* type = writer_.index_type();
    const std::string x = unit_.tensor(main());
    const DType dtype = graph_.type(main()).dtype;
    const char* compute = Writer::compute_type(dtype);
    const auto element = [&](const std::vector<std::string>& where) { return Writer::load(dtype, fmt::format("{}[{}]", x, horner(where, in_sizes_))); };
    Source s;
    if (node_.op == "contiguous") {
      std::string offset;
      for (std::size_t d = 0; d < at.size(); ++d) offset += (offset.empty() ? "" : " + ") + at[d] + " * " + strides_[d];
      s.value = Writer::load(dtype, fmt::format("{}[{}]", x, offset));
    } else if (node_.op == "flip") {
      for (std::int64_t d : node_.list("dims")) {
        const auto k = static_cast<std::size_t>(d < 0 ? d + static_cast<std::int64_t>(at.size()) : d);
        at[k] = fmt::format("{} - 1 - {}", in_sizes_[k], at[k]);
      }
      s.value = element(at);
    } else if (node_.op == "roll") {
      const std::int64_t d = node_.integer("dims");
      const auto k = static_cast<std::size_t>(d < 0 ? d + static_cast<std::int64_t>(at.size()) : d);
      const std::int64_t shift = node_.integer("shifts");
      const std::string size = in_sizes_[k];
      s.lines = fmt::format("const {} from = (({} - ({})) % {} + {}) % {};\n", type, at[k], shift, size, size, size);
      at[k] = "from";
      s.value = element(at);
    } else if (node_.op == "tril" || node_.op == "triu") {
      const std::size_t r = at.size() - 2, c = at.size() - 1;
      const std::int64_t diagonal = node_.integer("diagonal", 0);
      const std::string condition = fmt::format("{} - {} {} {}", at[c], at[r], node_.op == "tril" ? "<=" : ">=", diagonal);
      s.value = fmt::format("{} ? {} : {}", condition, element(at), Writer::number(dtype, 0));
    } else if (node_.op == "repeat") {
      for (std::size_t d = 0; d < at.size(); ++d)
        if (node_.list("repeats")[d] != 1) at[d] = fmt::format("{} % {}", at[d], in_sizes_[d]);
      s.value = element(at);
    } else if (node_.op == "repeat_interleave") {
      at[axis()] = at[axis()] + " / repeats";
      s.value = element(at);
    } else if (node_.op == "pad") {
      return padded(at);
    } else if (node_.op == "cat") {
      std::string rest = at[axis()];
      s.lines = fmt::format("{} moved;\n", compute);
      std::string before;
      for (std::size_t k = 0; k < node_.inputs.size(); ++k) {
        std::vector<std::string> sizes = in_sizes_, where = at;
        sizes[axis()] = fmt::format("part{}", k);
        where[axis()] = before.empty() ? rest : rest + " - " + (before.find(' ') == std::string::npos ? before : "(" + before + ")");
        const std::string value = Writer::load(dtype, fmt::format("{}[{}]", unit_.tensor(node_.inputs[k]), horner(where, sizes)));
        before += (before.empty() ? "" : " + ") + sizes[axis()];
        const bool last = k + 1 == node_.inputs.size();
        const std::string branch = last ? "else" : fmt::format("{}if ({} < {})", k == 0 ? "" : "else ", rest, before);
        s.lines += fmt::format("{} moved = {};\n", branch, value);
      }
      s.value = "moved";
    } else if (node_.op == "stack") {
      const std::string which = at[axis()];
      std::vector<std::string> where = at;
      where.erase(where.begin() + static_cast<std::ptrdiff_t>(axis()));
      s.lines = fmt::format("const {} from = {};\n{} moved;\n", type, horner(where, in_sizes_), compute);
      for (std::size_t k = 0; k < node_.inputs.size(); ++k) {
        const bool last = k + 1 == node_.inputs.size();
        s.lines += fmt::format("{} moved = {};\n", last ? "else" : fmt::format("{}if ({} == {})", k == 0 ? "" : "else ", which, k),
                               Writer::load(dtype, unit_.tensor(node_.inputs[k]) + "[from]"));
      }
      s.value = "moved";
    } else if (node_.op == "gather") {
      s.lines = fmt::format("const int64_t picked = {}[{}];\n", unit_.tensor(node_.inputs[1]), horner(at, out_sizes));
      at[axis()] = "picked";
      s.value = element(at);
    } else if (node_.op == "index_select") {
      s.lines = fmt::format("const int64_t picked = {}[{}];\n", unit_.tensor(node_.inputs[1]), at[axis()]);
      at[axis()] = "picked";
      s.value = element(at);
    } else if (node_.op == "embedding") {
      const std::vector<std::string> places(at.begin(), at.end() - 1), sizes(out_sizes.begin(), out_sizes.end() - 1);
      s.lines = fmt::format("const int64_t token = {}[{}];\n", unit_.tensor(node_.inputs[0]), horner(places, sizes));
      s.value = element({"token", at.back()});
    } else if (node_.op == "pixel_shuffle") {
      s.lines = fmt::format("const {0} from_c = ({1} * factor + {2} % factor) * factor + {3} % factor;\n", type, at[1], at[2], at[3]);
      s.value = element({at[0], "from_c", at[2] + " / factor", at[3] + " / factor"});
    } else if (node_.op == "pixel_unshuffle") {
      s.lines = fmt::format("const {0} from_c = {1} / (factor * factor);\nconst {0} from_h = {2} * factor + {1} / factor % factor;\nconst {0} from_w = {3} * factor + {1} % factor;\n",
                            type, at[1], at[2], at[3]);
      s.value = element({at[0], "from_c", "from_h", "from_w"});
    } else if (node_.op == "upsample_nearest") {
      s.value = element({at[0], at[1], at[2] + " / scale", at[3] + " / scale"});
    } else if (node_.op == "upsample_bilinear") {
      return bilinear(at, out_sizes);
    } else {
      return fail(Code::kUnsupported, "{} has no kernel here", node_.op);
    }
    return s;
  }

 private:
  std::size_t axis() const {
    const std::int64_t rank = graph_.type(node_.op == "stack" ? node_.outputs[0] : main()).rank(), dim = node_.integer("dim", 0);
    return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  }
  std::string attr(const char* name, std::int64_t otherwise) const {
    const auto it = node_.attrs.find(name);
    if (it == node_.attrs.end()) return std::to_string(otherwise);
    return it->second.constant.empty() ? std::to_string(node_.integer(name)) : "self." + it->second.constant;
  }

  Result<Source> padded(std::vector<std::string> at) const {
    const auto by = node_.list("pad");
    const std::string mode = node_.text("mode", "constant");
    const char* type = writer_.index_type();
    const DType dtype = graph_.type(main()).dtype;
    Source s;
    std::string inside;
    for (std::size_t k = 0; k < by.size(); k += 2) {
      if (by[k] == 0 && by[k + 1] == 0) continue;
      const std::size_t d = at.size() - 1 - k / 2;
      const std::string name = fmt::format("from{}", d), size = in_sizes_[d];
      std::string value = fmt::format("{} - {}", at[d], by[k]);
      if (mode == "replicate") value = fmt::format("min(max({0} - {1}, ({2})0), {3} - 1)", at[d], by[k], type, size);
      s.lines += fmt::format("{}{} {} = {};\n", mode == "reflect" ? "" : "const ", type, name, value);
      if (mode == "reflect") s.lines += fmt::format("if ({0} < 0) {0} = -{0};\nif ({0} >= {1}) {0} = 2 * ({1} - 1) - {0};\n", name, size);
      inside += fmt::format("{}{} >= 0 && {} < {}", inside.empty() ? "" : " && ", name, name, size);
      at[d] = name;
    }
    const std::string element = Writer::load(dtype, fmt::format("{}[{}]", unit_.tensor(main()), horner(at, in_sizes_)));
    s.value = mode == "constant" ? fmt::format("({}) ? {} : {}", inside, element, Writer::number(dtype, node_.number("value", 0))) : element;
    return s;
  }

  Result<Source> bilinear(const std::vector<std::string>& at, const std::vector<std::string>& out_sizes) const {
    const bool corners = node_.flag("align_corners");
    const DType dtype = graph_.type(main()).dtype;
    Source s;
    const char* const letters[] = {"h", "w"};
    for (std::size_t k = 0; k < 2; ++k) {
      const char* l = letters[k];
      const std::string &out = at[2 + k], &size = in_sizes_[2 + k];
      if (corners)
        s.lines += fmt::format("const float pos_{0} = {3} > 1 ? {1} * static_cast<float>({2} - 1) / ({3} - 1) : 0.0f;\n", l, out, size, out_sizes[2 + k]);
      else
        s.lines += fmt::format("const float pos_{0} = fmaxf(({1} + 0.5f) / scale - 0.5f, 0.0f);\n", l, out);
      s.lines += fmt::format("const int low_{0} = static_cast<int>(pos_{0});\nconst int high_{0} = low_{0} + (low_{0} < {1} - 1 ? 1 : 0);\nconst float part_{0} = pos_{0} - low_{0};\n", l, size);
    }
    const std::string x = unit_.tensor(main());
    s.lines += fmt::format("const int plane = {};\n", horner({at[0], at[1]}, {in_sizes_[0], in_sizes_[1]}));
    const auto corner = [&](const char* h, const char* w) {
      return Writer::load(dtype, fmt::format("{}[(plane * {} + {}) * {} + {}]", x, in_sizes_[2], h, in_sizes_[3], w));
    };
    s.lines += fmt::format("const float upper = (1.0f - part_w) * {} + part_w * {};\n", corner("low_h", "low_w"), corner("low_h", "high_w"));
    s.lines += fmt::format("const float lower = (1.0f - part_w) * {} + part_w * {};\n", corner("high_h", "low_w"), corner("high_h", "high_w"));
    s.value = "(1.0f - part_h) * upper + part_h * lower";
    return s;
  }

  const Graph& graph_;
  const Node& node_;
  UnitText& unit_;
  Writer& writer_;
  std::vector<std::string> in_sizes_, strides_;
  std::string cat_total_;
};

class PerElement final : public Schedule {
 public:
  explicit PerElement(bool grid_stride) : grid_stride_(grid_stride) {}
  std::string name() const override { return grid_stride_ ? "move.grid_stride" : "move.thread_per_element"; }
  bool takes(const Graph& graph, const Region& region) const override {
    return movable(graph, region) && graph.type(region.outputs[0]).rank() >= 1 && graph.type(region.outputs[0]).rank() <= 5;
  }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    const Node& node = anchor_of(graph, region);
    UnitText unit(graph, region, writer, region_name(graph, region));
    if (node.op == "contiguous") unit.keep_strides(node.inputs[0]);
    Mover mover(graph, region, unit, writer);
    MC_RETURN_IF_ERROR(mover.prepare());
    const std::string shape = mover.host_shape();
    for (int v : region.outputs) unit.result_shape(v, shape);
    const TensorType& out = graph.type(node.outputs[0]);
    const std::string result = unit.tensor(region.outputs[0]), at = index_word(writer);
    const char* type = writer.index_type();
    const int in = indent_of(writer);
    // Sizes of the result: those of the input where they agree in place, else its own.
    std::vector<std::string> sizes, coordinates;
    const std::vector<std::string> in_sizes = mover.in_sizes();
    const TensorType& main = graph.type(mover.main());
    for (int d = 0; d < out.rank(); ++d) {
      const auto k = static_cast<std::size_t>(d);
      const bool same = main.rank() == out.rank() && main.dims[k].size == out.dims[k].size && node.op != "embedding" &&
                        node.op != "gather" && node.op != "index_select" && node.op != "cat";
      if (same) {
        sizes.push_back(in_sizes[k]);
      } else {
        sizes.push_back(unit.names.take("out_" + std::string(kLetters[static_cast<std::size_t>(8 - out.rank() + d)])));
        unit.size(sizes.back(), fmt::format("{}.size({})", result, d), out.dims[k].size);
      }
      coordinates.push_back(unit.names.take(std::string("at_") + kLetters[static_cast<std::size_t>(8 - out.rank() + d)]));
    }
    for (const std::string& more : mover.more_arguments()) unit.size(more, more, -1);
    unit.size("n", result + ".numel()", out.numel());
    std::string text;
    std::vector<IndexFact> indices;
    for (int d = 0; d < out.rank(); ++d) {
      const auto k = static_cast<std::size_t>(d);
      std::string below;
      for (std::size_t later = k + 1; later < sizes.size(); ++later) below += (below.empty() ? "" : " * ") + sizes[later];
      std::string formula = below.empty() ? at : at + " / " + (below.find(' ') == std::string::npos ? below : "(" + below + ")");
      if (k > 0) formula = (below.empty() ? formula : "(" + formula + ")") + " % " + sizes[k];
      text += fmt::format("const {} {} = {};\n", type, coordinates[k], formula);
      indices.push_back({coordinates[k], formula, "coordinate of the result"});
    }
    MC_ASSIGN_OR_RETURN(const Source source, mover.source(coordinates, sizes));
    const DType dtype = graph.type(node.outputs[0]).dtype;
    text += source.lines + fmt::format("const {} element = {};\n", Writer::compute_type(dtype), source.value);
    ScalarCode code(graph, writer);
    code.bind(node.outputs[0], "element");
    std::vector<Operand> operands;
    for (int v : region.inputs)
      if (std::count(node.inputs.begin(), node.inputs.end(), v) == 0 || reads(graph, region.epilogue, v))
        operands.push_back({v, unit.tensor(v), aligned_place(graph.type(v), out.rank())});
    for (const Operand& operand : operands) {
      std::vector<std::string> where, own;
      for (int place : operand.place)
        if (place >= 0) {
          where.push_back(coordinates[static_cast<std::size_t>(place)]);
          own.push_back(sizes[static_cast<std::size_t>(place)]);
        }
      const DType kind = graph.type(operand.value).dtype;
      text += fmt::format("const {} {}_e = {};\n", Writer::compute_type(kind), operand.tensor,
                          Writer::load(kind, fmt::format("{}[{}]", operand.tensor, horner(where, own))));
      code.bind(operand.value, operand.tensor + "_e");
    }
    for (int n : region.epilogue) MC_RETURN_IF_ERROR(code.add(n));
    text += code.lines();
    for (int v : region.outputs) text += fmt::format("{}[{}] = {};\n", unit.tensor(v), at, Writer::store(graph.type(v).dtype, code.name(v)));

    const std::string start = writer.style().wide_index ? "static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x" : "blockIdx.x * blockDim.x + threadIdx.x";
    std::string body;
    Launch launch;
    launch.block = std::to_string(writer.style().threads);
    launch.block_size = writer.style().threads;
    launch.grid = "(n + threads - 1) / threads";
    launch.grid_size = (out.numel() + launch.block_size - 1) / launch.block_size;
    if (grid_stride_) {
      body = fmt::format("for ({0} {1} = {2}; {1} < n; {1} += gridDim.x * blockDim.x) {{\n{3}}}\n", type, at, start, indented(text, in));
      launch.grid = "std::min<int64_t>((n + threads - 1) / threads, 4096)";
      launch.grid_size = std::min<std::int64_t>(launch.grid_size, 4096);
    } else {
      body = fmt::format("const {} {} = {};\n", type, at, start);
      body += writer.style().early_return ? fmt::format("if ({} >= n) return;\n{}", at, text) : fmt::format("if ({} < n) {{\n{}}}\n", at, indented(text, in));
    }
    unit.kernel(unit.kernel_name(), unit.all_pointers(), unit.all_sizes(), indented(body, in), launch,
                region_words(graph, region) + ", every thread looks up where its element comes from");
    if (grid_stride_) unit.facts().loops.push_back({at, start, "n", "gridDim.x * blockDim.x", "elements of the result"});
    else unit.facts().indices.push_back({at, start, "one element of the result"});
    unit.facts().indices.insert(unit.facts().indices.end(), indices.begin(), indices.end());
    unit.facts().bounds.push_back(at + " < n");
    unit.facts().accesses.push_back({result, shape_text(out), at, true});
    return unit.finish(name());
  }

 private:
  bool grid_stride_;
};

// contiguous() of a transposition of the last two axes: tiles through shared memory, so that reads and writes both stay together.
class TransposeTile final : public Schedule {
 public:
  std::string name() const override { return "move.transpose_tile"; }
  bool takes(const Graph& graph, const Region& region) const override {
    if (!movable(graph, region) || !region.epilogue.empty()) return false;
    const Node& node = anchor_of(graph, region);
    if (node.op != "contiguous") return false;
    const Value& from = graph.values[static_cast<std::size_t>(node.inputs[0])];
    const int rank = from.type.rank();
    if (rank < 2) return false;
    if (from.source == musacoder::synth::Source::kInput) return from.layout == Layout::kTransposed;
    if (from.source != musacoder::synth::Source::kNode) return false;
    const Node& view = graph.nodes[static_cast<std::size_t>(from.node)];
    if (view.op != "transpose" || !graph.type(view.inputs[0]).contiguous) return false;
    std::int64_t a = view.integer("dim0"), b = view.integer("dim1");
    a = a < 0 ? a + rank : a;
    b = b < 0 ? b + rank : b;
    return std::min(a, b) == rank - 2 && std::max(a, b) == rank - 1;
  }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    const Node& node = anchor_of(graph, region);
    UnitText unit(graph, region, writer, "transpose");
    const int x = node.inputs[0];
    unit.keep_strides(x);
    const std::string in_name = unit.tensor(x), out_name = unit.tensor(region.outputs[0]);
    unit.result_shape(region.outputs[0], in_name + ".sizes()");
    const TensorType& out = graph.type(node.outputs[0]);
    const int rank = out.rank(), in = indent_of(writer), tall = writer.draw().choose({4, 8, 16});
    const std::int64_t height = out.dims[static_cast<std::size_t>(rank - 2)].size, width = out.dims[static_cast<std::size_t>(rank - 1)].size;
    unit.size("height", fmt::format("{}.size({})", out_name, rank - 2), height);
    unit.size("width", fmt::format("{}.size({})", out_name, rank - 1), width);
    unit.size("planes", fmt::format("{}.numel() / (height * width)", out_name), out.numel() / (height * width));
    const char* kept = dtype_c_name(out.dtype);
    std::string body = fmt::format("__shared__ {} tile[32][33];\n", kept) + writer.comment("33: a column of the tile then lies in 32 different banks", 0);
    std::string loop;
    loop += fmt::format("const {} base = static_cast<{}>(plane) * height * width;\n", writer.index_type(), writer.index_type());
    loop += "int across = blockIdx.y * 32 + threadIdx.x;\nint down = blockIdx.x * 32 + threadIdx.y;\n";
    loop += fmt::format("for (int k = 0; k < 32; k += {0}) {{\n  if (across < height && down + k < width) tile[threadIdx.y + k][threadIdx.x] = {1}[base + static_cast<{2}>(down + k) * height + across];\n}}\n__syncthreads();\n", tall, in_name, writer.index_type());
    loop += "across = blockIdx.x * 32 + threadIdx.x;\ndown = blockIdx.y * 32 + threadIdx.y;\n";
    loop += fmt::format("for (int k = 0; k < 32; k += {0}) {{\n  if (across < width && down + k < height) {1}[base + static_cast<{2}>(down + k) * width + across] = tile[threadIdx.x][threadIdx.y + k];\n}}\n__syncthreads();\n", tall, out_name, writer.index_type());
    body += "for (int plane = blockIdx.z; plane < planes; plane += gridDim.z) {\n" + indented(loop, in) + "}\n";
    Launch launch;
    launch.block = fmt::format("dim3(32, {})", tall);
    launch.block_size = 32 * tall;
    launch.grid = "dim3((width + 31) / 32, (height + 31) / 32, std::min<int64_t>(planes, 65535))";
    launch.grid_size = (width + 31) / 32 * ((height + 31) / 32) * std::min<std::int64_t>(out.numel() / (height * width), 65535);
    launch.shared_bytes = static_cast<std::int64_t>(32 * 33 * dtype_bytes(out.dtype));
    unit.kernel(unit.kernel_name(), unit.all_pointers(), unit.all_sizes(), indented(body, in), launch,
                "transposition of the last two axes: tiles of 32 x 32 pass through shared memory");
    unit.facts().loops.push_back({"plane", "blockIdx.z", "planes", "gridDim.z", "matrices of the batch"});
    unit.facts().bounds = {"plane < planes", "across < width", "down + k < height"};
    return unit.finish(name());
  }
};

}  // namespace

void add_layout_schedules(Schedules& all) {
  all.push_back(std::make_unique<PerElement>(false));
  all.push_back(std::make_unique<PerElement>(true));
  all.push_back(std::make_unique<TransposeTile>());
}

}  // namespace musacoder::synth
