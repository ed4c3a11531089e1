// Element-wise regions: one thread an element, grid-stride loops, vectors with tails, several elements a thread, rows in two dimensions.
#include <algorithm>

#include "synth/graph/ops.h"
#include "synth/teacher/scalar.h"
#include "synth/teacher/schedule.h"
#include "synth/teacher/unit_text.h"

namespace musacoder::synth {
namespace {

const TensorType& widest(const Graph& graph, const Region& region) { return graph.type(region.outputs[0]); }

std::vector<Operand> operands_of(const Graph& graph, const Region& region, const UnitText& unit) {
  std::vector<Operand> all;
  const int rank = widest(graph, region).rank();
  for (int v : region.inputs) {
    std::vector<int> place = aligned_place(graph.type(v), rank);
    // Slopes of prelu lie along axis 1.
    for (int n : region.epilogue) {
      const Node& node = graph.nodes[static_cast<std::size_t>(n)];
      if (node.op == "prelu" && node.inputs[1] == v) place = {graph.type(v).numel() == 1 ? -1 : rank - graph.type(node.inputs[0]).rank() + 1};
    }
    all.push_back({v, unit.tensor(v), std::move(place)});
  }
  return all;
}

bool elementwise(const Graph& graph, const Region& region) {
  if (region.anchor >= 0 || region.inputs.empty() || region.outputs.empty()) return false;
  for (int n : region.epilogue)
    if (!has_scalar(graph.nodes[static_cast<std::size_t>(n)])) return false;
  for (int v : region.outputs)
    if (graph.type(v).sizes() != widest(graph, region).sizes()) return false;
  return true;
}

// All operands have the result's shape, or are single numbers: one index for all.
bool flat(const Graph& graph, const Region& region) {
  for (int n : region.epilogue)
    if (graph.nodes[static_cast<std::size_t>(n)].op == "prelu") return false;
  return std::all_of(region.inputs.begin(), region.inputs.end(), [&](int v) {
    return graph.type(v).numel() == 1 || graph.type(v).sizes() == widest(graph, region).sizes();
  });
}

// Body of one element at `at`: loads, statements, stores. Coordinates of broadcast operands are computed from the index.
struct Element {
  std::string text;
  std::vector<AccessFact> accesses;
  std::vector<IndexFact> indices;
};

Result<Element> element(const Graph& graph, const Region& region, UnitText& unit, Writer& writer, const Domain& domain, const std::string& at,
                        const std::vector<std::string>& known_coordinates) {
  Element e;
  std::vector<std::string> coordinates;
  const auto& axes = domain.axes();
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (!known_coordinates.empty()) {
      coordinates.push_back(known_coordinates[a]);
      continue;
    }
    coordinates.push_back(axes[a].coordinate);
    bool used = false;
    for (std::size_t o = 0; o < domain.operands().size(); ++o) used = used || (domain.has(o, a) && !domain.covers(o));
    if (!used) continue;
    std::string below;
    for (std::size_t later = a + 1; later < axes.size(); ++later) below += (below.empty() ? "" : " * ") + axes[later].size;
    std::string formula = below.empty() ? at : at + " / " + (below.find(' ') == std::string::npos ? below : "(" + below + ")");
    if (a > 0) formula = (below.empty() ? formula : "(" + formula + ")") + " % " + axes[a].size;
    e.text += fmt::format("const {} {} = {};\n", writer.index_type(), axes[a].coordinate, formula);
    e.indices.push_back({axes[a].coordinate, formula, "coordinate along " + axes[a].size});
  }
  ScalarCode code(graph, writer);
  for (std::size_t o = 0; o < domain.operands().size(); ++o) {
    const Operand& operand = domain.operands()[o];
    const std::string offset = domain.covers(o) ? at : domain.offset(o, coordinates);
    const std::string local = operand.tensor + (writer.style().names == 0 ? "_val" : writer.style().names == 1 ? "_v" : "_i");
    const DType dtype = graph.type(operand.value).dtype;
    e.text += fmt::format("const {} {} = {};\n", Writer::compute_type(dtype), local, Writer::load(dtype, fmt::format("{}[{}]", operand.tensor, offset)));
    e.accesses.push_back({operand.tensor, shape_text(graph.type(operand.value)), offset, false});
    code.bind(operand.value, local);
  }
  for (int n : region.epilogue) MC_RETURN_IF_ERROR(code.add(n));
  e.text += code.lines();
  for (int v : region.outputs) {
    const DType dtype = graph.type(v).dtype;
    e.text += fmt::format("{}[{}] = {};\n", unit.tensor(v), at, Writer::store(dtype, code.name(v)));
    e.accesses.push_back({unit.tensor(v), shape_text(graph.type(v)), at, true});
  }
  return e;
}

void tell(KernelFacts& facts, const Element& e) {
  facts.accesses.insert(facts.accesses.end(), e.accesses.begin(), e.accesses.end());
  facts.indices.insert(facts.indices.end(), e.indices.begin(), e.indices.end());
}

const char* index_word(const Writer& writer) {
  static const char* const words[] = {"idx", "i", "tid"};
  return words[static_cast<std::size_t>(writer.style().names) % 3];
}

// blockIdx.x in the type of indices, so that products with it do not overflow.
std::string block_index(const Writer& writer) { return writer.style().wide_index ? "static_cast<int64_t>(blockIdx.x)" : "blockIdx.x"; }

int indent_of(const Writer& writer) { return writer.style().tabs_of_two ? 2 : 4; }

// Number of elements as a size argument; the host expression of the largest operand, or the product of the axes.
void count_size(const Graph& graph, const Region& region, UnitText& unit, const Domain& domain, bool axes_needed) {
  std::string host = unit.tensor(region.outputs[0]) + ".numel()";
  if (axes_needed) unit.sizes_of(domain);
  unit.size("n", host, widest(graph, region).numel());
}

// What sets one walk over the elements apart from another: the loop around the work, the grid, what is said of them.
struct Walk {
  std::string body, words;
  std::vector<IndexFact> indices;
  std::vector<LoopFact> loops;
};

// A kernel of one walk over n elements. `walk` gets the index's name, the work of an element, n and the launch, whose grid it sets.
template <class F>
Result<Unit> over_elements(const Graph& graph, const Region& region, Writer& writer, const std::string& schedule, F walk) {
  UnitText unit(graph, region, writer, region_name(graph, region));
  const std::string at = index_word(writer);
  const Domain domain(graph, widest(graph, region), std::vector<bool>(widest(graph, region).dims.size()), operands_of(graph, region, unit), unit.names);
  count_size(graph, region, unit, domain, !flat(graph, region));
  MC_ASSIGN_OR_RETURN(const Element e, element(graph, region, unit, writer, domain, at, {}));
  Launch launch;
  launch.block = std::to_string(writer.style().threads);
  launch.block_size = writer.style().threads;
  const Walk done = walk(at, e, widest(graph, region).numel(), launch);
  unit.kernel(unit.kernel_name(), unit.all_pointers(), unit.all_sizes(), indented(done.body, indent_of(writer)), launch, done.words);
  for (const IndexFact& index : done.indices) unit.facts().indices.push_back(index);
  for (const LoopFact& loop : done.loops) unit.facts().loops.push_back(loop);
  unit.facts().bounds.push_back(at + " < n");
  tell(unit.facts(), e);
  return unit.finish(schedule);
}

class Simple final : public Schedule {
 public:
  std::string name() const override { return "elementwise.thread_per_element"; }
  bool takes(const Graph& graph, const Region& region) const override { return elementwise(graph, region); }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    return over_elements(graph, region, writer, name(), [&](const std::string& at, const Element& e, std::int64_t n, Launch& launch) {
      const std::string formula = block_index(writer) + " * blockDim.x + threadIdx.x";
      std::string body = fmt::format("const {} {} = {};\n", writer.index_type(), at, formula);
      body += writer.style().early_return ? fmt::format("if ({} >= n) return;\n{}", at, e.text)
                                          : fmt::format("if ({} < n) {{\n{}}}\n", at, indented(e.text, indent_of(writer)));
      launch.grid = "(n + threads - 1) / threads";
      launch.grid_size = (n + launch.block_size - 1) / launch.block_size;
      return Walk{body, region_words(graph, region) + ", one thread per element", {{at, formula, "one element of the result"}}, {}};
    });
  }
};

class GridStride final : public Schedule {
 public:
  std::string name() const override { return "elementwise.grid_stride"; }
  bool takes(const Graph& graph, const Region& region) const override { return elementwise(graph, region); }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    return over_elements(graph, region, writer, name(), [&](const std::string& at, const Element& e, std::int64_t n, Launch& launch) {
      const char* type = writer.index_type();
      const bool named = writer.style().names == 2;
      const std::string start = block_index(writer) + " * blockDim.x + threadIdx.x";
      std::string body;
      if (named) body = fmt::format("const {} stride = gridDim.x * blockDim.x;\n", type);
      const std::string step = named ? "stride" : "gridDim.x * blockDim.x";
      body += fmt::format("for ({0} {1} = {2}; {1} < n; {1} += {3}) {{\n{4}}}\n", type, at, start, step, indented(e.text, indent_of(writer)));
      const std::int64_t most = writer.draw().choose({1024, 2048, 4096, 65535});
      launch.grid = fmt::format("std::min<int64_t>((n + threads - 1) / threads, {})", most);
      launch.grid_size = std::min<std::int64_t>((n + launch.block_size - 1) / launch.block_size, most);
      return Walk{body, region_words(graph, region) + ", grid-stride loop", {},
                  {{at, start, "n", "gridDim.x * blockDim.x", "elements of the result, a grid apart"}}};
    });
  }
};

// Several elements a thread, a block apart, so that a warp's accesses stay together and loads overlap.
class Unrolled final : public Schedule {
 public:
  std::string name() const override { return "elementwise.items_per_thread"; }
  bool takes(const Graph& graph, const Region& region) const override { return elementwise(graph, region); }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    int items = 0;
    std::string items_name;
    MC_ASSIGN_OR_RETURN(Unit done, over_elements(graph, region, writer, name(), [&](const std::string& at, const Element& e, std::int64_t n, Launch& launch) {
      const int in = indent_of(writer);
      items = writer.draw().choose({2, 4, 8});
      const char* type = writer.index_type();
      items_name = writer.unique("kItemsPerThread");
      const std::string first = fmt::format("{} * blockDim.x * {} + threadIdx.x", block_index(writer), items_name);
      std::string body = fmt::format("const {} base = {};\n#pragma unroll\n", type, first);
      body += fmt::format("for (int k = 0; k < {}; ++k) {{\n", items_name);
      std::string inner = fmt::format("const {} {} = base + k * blockDim.x;\n", type, at);
      inner += fmt::format("if ({} < n) {{\n{}}}\n", at, indented(e.text, in));
      body += indented(inner, in) + "}\n";
      launch.grid = fmt::format("(n + threads * {0} - 1) / (threads * {0})", items_name);
      const std::int64_t per = launch.block_size * items;
      launch.grid_size = (n + per - 1) / per;
      return Walk{body, fmt::format("{}, {} elements per thread", region_words(graph, region), items),
                  {{"base", first, "first element of the thread"}, {at, "base + k * blockDim.x", "its elements, a block apart"}}, {}};
    }));
    done.kernels = fmt::format("constexpr int {} = {};\n\n{}", items_name, items, done.kernels);
    return done;
  }
};

// Pairs or quads of elements in one access, and a tail.
class Vectorised final : public Schedule {
 public:
  std::string name() const override { return "elementwise.vectorised"; }
  bool takes(const Graph& graph, const Region& region) const override {
    if (!elementwise(graph, region) || !flat(graph, region)) return false;
    const DType dtype = widest(graph, region).dtype;
    if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16 && dtype != DType::kI32) return false;
    if (widest(graph, region).numel() == 1) return false;
    const auto whole = [&](int v) { return graph.type(v).dtype == dtype; };
    if (!std::all_of(region.outputs.begin(), region.outputs.end(), whole)) return false;
    return std::all_of(region.inputs.begin(), region.inputs.end(), [&](int v) {
      const Value& value = graph.values[static_cast<std::size_t>(v)];
      // A view may start anywhere; vectors want multiples of their size.
      const bool view = value.source == Source::kNode &&
                        find_op(graph.nodes[static_cast<std::size_t>(value.node)].op)->cls == OpClass::kView && value.type.contiguous;
      return graph.type(v).numel() == 1 || (whole(v) && !view);
    });
  }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    UnitText unit(graph, region, writer, region_name(graph, region));
    const DType dtype = widest(graph, region).dtype;
    const bool half = dtype == DType::kF16 || dtype == DType::kBF16;
    const char* vector = dtype == DType::kF32 ? "float4" : dtype == DType::kI32 ? "int4" : dtype == DType::kF16 ? "__half2" : "__nv_bfloat162";
    const int lanes = half ? 2 : 4;
    const std::string at = index_word(writer);
    const char* type = writer.index_type();
    unit.size("n", unit.tensor(region.outputs[0]) + ".numel()", widest(graph, region).numel());
    const int in = indent_of(writer);
    static const char* const members[] = {"x", "y", "z", "w"};

    const auto wide = [&](int v) { return graph.type(v).numel() > 1; };
    std::string loads, work, stores, tail;
    std::vector<AccessFact> accesses;
    for (int v : region.inputs) {
      if (!wide(v)) continue;
      loads += fmt::format("const {0} {1}4 = reinterpret_cast<const {0}*>({1})[{2}];\n", vector, unit.tensor(v), at);
      accesses.push_back({unit.tensor(v), shape_text(graph.type(v)), at, false});
    }
    for (int v : region.outputs) loads += fmt::format("{} {}4;\n", vector, unit.tensor(v));
    const auto one = [&](const auto& load_of, const auto& store_to, int first) -> Result<std::string> {
      ScalarCode code(graph, writer);
      code.count_from(first);
      std::string text;
      for (int v : region.inputs) {
        const DType own = graph.type(v).dtype;
        const std::string local = fmt::format("{}_{}", unit.tensor(v), first);
        text += fmt::format("const {} {} = {};\n", Writer::compute_type(own), local, Writer::load(own, wide(v) ? load_of(v) : unit.tensor(v) + "[0]"));
        code.bind(v, local);
      }
      for (int n : region.epilogue) MC_RETURN_IF_ERROR(code.add(n));
      text += code.lines();
      for (int v : region.outputs) text += store_to(v, Writer::store(dtype, code.name(v)));
      return text;
    };
    for (int lane = 0; lane < lanes; ++lane) {
      MC_ASSIGN_OR_RETURN(const std::string text,
                          one([&](int v) { return fmt::format("{}4.{}", unit.tensor(v), members[lane]); },
                              [&](int v, const std::string& value) { return fmt::format("{}4.{} = {};\n", unit.tensor(v), members[lane], value); }, lane * 100));
      work += region.epilogue.size() > 1 || region.inputs.size() > 1 ? "{\n" + indented(text, in) + "}\n" : text;
    }
    for (int v : region.outputs) {
      stores += fmt::format("reinterpret_cast<{0}*>({1})[{2}] = {1}4;\n", vector, unit.tensor(v), at);
      accesses.push_back({unit.tensor(v), shape_text(graph.type(v)), at, true});
    }
    MC_ASSIGN_OR_RETURN(const std::string last, one([&](int v) { return unit.tensor(v) + "[j]"; },
                                                    [&](int v, const std::string& value) { return fmt::format("{}[j] = {};\n", unit.tensor(v), value); }, 900));
    const std::string formula = block_index(writer) + " * blockDim.x + threadIdx.x";
    std::string body = fmt::format("const {0} {1} = {2};\nconst {0} main = n / {3};\n", type, at, formula, lanes);
    body += fmt::format("if ({} < main) {{\n{}}}\n", at, indented(loads + work + stores, in));
    body += writer.comment(fmt::format("the last n % {} elements", lanes), 0);
    body += fmt::format("const {} j = main * {} + {};\nif (j < n) {{\n{}}}\n", type, lanes, at, indented(last, in));
    Launch launch;
    launch.block = std::to_string(writer.style().threads);
    launch.grid = fmt::format("(n / {0} + {1} + threads - 1) / threads", lanes, lanes - 1);
    launch.block_size = writer.style().threads;
    launch.grid_size = (widest(graph, region).numel() / lanes + lanes - 1 + launch.block_size - 1) / launch.block_size;
    unit.kernel(unit.kernel_name(), unit.all_pointers(), unit.all_sizes(), indented(body, in), launch,
                fmt::format("{}, {} elements per thread in one {} access", region_words(graph, region), lanes, vector));
    unit.facts().indices.push_back({at, formula, fmt::format("one vector of {} elements", lanes)});
    unit.facts().indices.push_back({"j", fmt::format("main * {} + {}", lanes, at), "an element of the tail"});
    unit.facts().bounds = {at + " < main", "j < n"};
    unit.facts().accesses = std::move(accesses);
    return unit.finish(name());
  }
};

// Two axes: columns along x, rows along y, without divisions.
class Rows final : public Schedule {
 public:
  std::string name() const override { return "elementwise.rows_and_columns"; }
  bool takes(const Graph& graph, const Region& region) const override {
    if (!elementwise(graph, region) || flat(graph, region)) return false;
    Names names;
    std::vector<Operand> operands;
    for (int v : region.inputs) operands.push_back({v, "x", aligned_place(graph.type(v), widest(graph, region).rank())});
    for (int n : region.epilogue)
      if (graph.nodes[static_cast<std::size_t>(n)].op == "prelu") return false;
    return Domain(graph, widest(graph, region), std::vector<bool>(widest(graph, region).dims.size()), operands, names).axes().size() == 2;
  }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    UnitText unit(graph, region, writer, region_name(graph, region));
    const Domain domain(graph, widest(graph, region), std::vector<bool>(widest(graph, region).dims.size()), operands_of(graph, region, unit), unit.names);
    unit.sizes_of(domain);
    const std::string rows = domain.axes()[0].size, columns = domain.axes()[1].size;
    const std::string at = index_word(writer);
    MC_ASSIGN_OR_RETURN(const Element e, element(graph, region, unit, writer, domain, at, {"row", "col"}));
    const int in = indent_of(writer);
    const char* type = writer.index_type();
    std::string body = "const int col = blockIdx.x * blockDim.x + threadIdx.x;\n";
    body += fmt::format("if (col >= {}) return;\n", columns);
    body += fmt::format("for (int row = blockIdx.y; row < {}; row += gridDim.y) {{\n", rows);
    const std::string formula = fmt::format("{} * {} + col", writer.style().wide_index ? "static_cast<int64_t>(row)" : "row", columns);
    body += indented(fmt::format("const {} {} = {};\n", type, at, formula) + e.text, in) + "}\n";
    Launch launch;
    launch.block = std::to_string(std::min(writer.style().threads, 256));
    launch.block_size = std::min(writer.style().threads, 256);
    launch.grid = fmt::format("dim3(({0} + threads - 1) / threads, std::min<int64_t>({1}, 65535))", columns, rows);
    launch.grid_size = (domain.axes()[1].count + launch.block_size - 1) / launch.block_size * std::min<std::int64_t>(domain.axes()[0].count, 65535);
    unit.kernel(unit.kernel_name(), unit.all_pointers(), unit.all_sizes(), indented(body, in), launch,
                region_words(graph, region) + ": columns along x, rows along y");
    unit.facts().indices.push_back({"col", "blockIdx.x * blockDim.x + threadIdx.x", "column"});
    unit.facts().indices.push_back({at, formula, "element of the result"});
    unit.facts().loops.push_back({"row", "blockIdx.y", rows, "gridDim.y", "rows, gridDim.y apart"});
    unit.facts().bounds = {"col < " + columns, "row < " + rows};
    tell(unit.facts(), e);
    return unit.finish(name());
  }
};

}  // namespace

void add_elementwise_schedules(Schedules& all) {
  all.push_back(std::make_unique<Simple>());
  all.push_back(std::make_unique<GridStride>());
  all.push_back(std::make_unique<Vectorised>());
  all.push_back(std::make_unique<Unrolled>());
  all.push_back(std::make_unique<Rows>());
}

}  // namespace musacoder::synth
