// Reductions: a thread, a warp or a block a row; tiles of neighbouring results; two passes where there are few rows.
#include <algorithm>

#include "synth/graph/ops.h"
#include "synth/teacher/row_kernel.h"
#include "synth/teacher/row_operands.h"
#include "synth/teacher/schedule.h"

namespace musacoder::synth {
namespace {

int indent_of(const Writer& writer) { return writer.style().tabs_of_two ? 2 : 4; }

const Node& anchor_of(const Graph& graph, const Region& region) { return graph.nodes[static_cast<std::size_t>(region.anchor)]; }

bool reduction(const Graph& graph, const Region& region) {
  if (region.anchor < 0) return false;
  const Node& node = anchor_of(graph, region);
  return find_op(node.op)->cls == OpClass::kReduction && reducer_of(graph, node).has_value() && placeable(graph, region, true) &&
         !region.outputs.empty();
}

struct Extent {
  std::int64_t rows = 1, columns = 1;
  bool last = true;  // the innermost axis (of more than one element) is walked
};
Extent extent(const Graph& graph, const Region& region) {
  const Node& node = anchor_of(graph, region);
  const std::vector<bool> walked = walked_axes(graph, node);
  const TensorType& in = graph.type(node.inputs[0]);
  Extent e;
  for (std::size_t d = 0; d < walked.size(); ++d) {
    (walked[d] ? e.columns : e.rows) *= in.dims[d].size;
    if (in.dims[d].size > 1) e.last = walked[d];
  }
  return e;
}

// Shape of results in terms of the operand that spans the anchor's input.
std::string result_shape(const Graph& graph, const Region& region, const UnitText& unit, int value) {
  const Node& node = anchor_of(graph, region);
  const TensorType& in = graph.type(node.inputs[0]);
  const std::vector<bool> walked = walked_axes(graph, node);
  const bool keep = node.flag("keepdim");
  std::vector<std::string> dims;
  for (int d = 0; d < in.rank(); ++d) {
    if (walked[static_cast<std::size_t>(d)]) {
      if (keep) dims.push_back("1");
      continue;
    }
    std::string size = "1";
    for (int v : region.inputs) {
      const TensorType& type = graph.type(v);
      const int own = d - (in.rank() - type.rank());
      if (own < 0 || type.dims[static_cast<std::size_t>(own)].size != in.dims[static_cast<std::size_t>(d)].size) continue;
      if (type.dims[static_cast<std::size_t>(own)].size == 1) continue;
      size = fmt::format("{}.size({})", unit.tensor(v), own);
      break;
    }
    dims.push_back(size);
  }
  // Epilogues may put axes of size 1 in front.
  const int rank = graph.type(value).rank();
  while (static_cast<int>(dims.size()) < rank) dims.insert(dims.begin(), "1");
  std::string text;
  for (const std::string& d : dims) text += (text.empty() ? "" : ", ") + d;
  return "{" + text + "}";
}

// What reduction kernels share: loading with the prologue, and writing results with the epilogue.
class Parts {
 public:
  Parts(const Graph& graph, const Region& region, UnitText& unit, Writer& writer)
      : graph_(graph), region_(region), unit_(unit), writer_(writer), walked_(walked_axes(graph, anchor_of(graph, region))),
        domain_(graph, full(), walked_, row_operands(graph, region, unit, walked_, true), unit.names) {
    for (int v : region.outputs) unit.result_shape(v, result_shape(graph, region, unit, v));
    unit.sizes_of(domain_);
  }
  const Domain& domain() const { return domain_; }

  Result<std::string> load(const std::vector<std::string>& at, std::string* value) {
    ScalarCode code(graph_, writer_);
    const int wanted = anchor_input(graph_, region_);
    MC_ASSIGN_OR_RETURN(std::string text, load_and_compute(graph_, region_.prologue, wanted, domain_, at, code, writer_, "_v", take_accesses()));
    *value = code.name(wanted);
    return text;
  }
  Result<std::string> store(const Reducer& reducer, const std::vector<std::string>& at) {
    const Node& node = anchor_of(graph_, region_);
    ScalarCode code(graph_, writer_);
    code.count_from(40);
    std::string text;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const DType dtype = graph_.type(node.outputs[k]).dtype;
      const std::string name = node.outputs.size() == 1 ? "reduced" : fmt::format("reduced{}", k);
      text += fmt::format("const {} {} = {};\n", Writer::compute_type(dtype), name, with_element(reducer.results[k], "", "", "cols"));
      code.bind(node.outputs[k], name);
    }
    MC_ASSIGN_OR_RETURN(const std::string more, load_and_compute(graph_, region_.epilogue, -1, domain_, at, code, writer_, "_k", take_accesses()));
    text += more;
    const std::string offset = domain_.offset_of(at, true);
    for (int v : region_.outputs) {
      const DType dtype = graph_.type(v).dtype;
      text += fmt::format("{}[{}] = {};\n", unit_.tensor(v), offset, Writer::store(dtype, code.name(v)));
      accesses_.push_back({unit_.tensor(v), shape_text(graph_.type(v)), offset, true});
    }
    return text;
  }
  std::vector<AccessFact>* take_accesses() { return &accesses_; }
  std::vector<AccessFact> accesses() const { return accesses_; }
  const TensorType& full() const { return graph_.type(anchor_input(graph_, region_)); }

 private:
  const Graph& graph_;
  const Region& region_;
  UnitText& unit_;
  Writer& writer_;
  std::vector<bool> walked_;
  Domain domain_;
  std::vector<AccessFact> accesses_;
};

class RowReduction final : public Schedule {
 public:
  explicit RowReduction(RowThreads by) : by_(by) {}
  std::string name() const override {
    switch (by_) {
      case RowThreads::kThread: return "reduce.thread_per_row";
      case RowThreads::kWarp: return "reduce.warp_per_row";
      case RowThreads::kBlockTree: return "reduce.block_tree";
      default: return "reduce.block_shuffle";
    }
  }
  bool takes(const Graph& graph, const Region& region) const override {
    if (!reduction(graph, region)) return false;
    const Extent e = extent(graph, region);
    // A thread a row reads neighbours only where the innermost axis stays; short rows may do without.
    return fits(by_, e.rows, e.columns) || (by_ == RowThreads::kWarp && e.columns <= 48);
  }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    UnitText unit(graph, region, writer, region_name(graph, region));
    Parts parts(graph, region, unit, writer);
    MC_ASSIGN_OR_RETURN(const Reducer reducer, reducer_of(graph, anchor_of(graph, region)));
    RowProgram program;
    program.domain = &parts.domain();
    program.phases = {{reducer, ""}};
    program.words = region_words(graph, region);
    program.load = [&](const std::vector<std::string>& at, std::string* value) { return parts.load(at, value); };
    program.row = [&](const std::vector<std::string>& at) { return parts.store(reducer, at); };
    MC_RETURN_IF_ERROR(write_rows(program, {by_, false}, unit, writer));
    unit.facts().accesses = parts.accesses();
    return unit.finish(name());
  }

 private:
  RowThreads by_;
};

// Results side by side along x, parts of the walked axis along y: reads stay together where the innermost axis is kept.
class Tile final : public Schedule {
 public:
  std::string name() const override { return "reduce.tile_of_columns"; }
  bool takes(const Graph& graph, const Region& region) const override {
    if (!reduction(graph, region)) return false;
    const Extent e = extent(graph, region);
    return !e.last && e.rows >= 32 && e.columns >= 16;
  }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    UnitText unit(graph, region, writer, region_name(graph, region));
    Parts parts(graph, region, unit, writer);
    MC_ASSIGN_OR_RETURN(const Reducer reducer, reducer_of(graph, anchor_of(graph, region)));
    const Domain& domain = parts.domain();
    const int in = indent_of(writer), tall = writer.draw().choose({4, 8, 16});
    const char* type = writer.index_type();
    unit.size("rows", domain.host_count(false), domain.count(false));
    unit.size("cols", domain.host_count(true), domain.count(true));
    std::vector<std::string> coordinates(domain.axes().size());
    std::string body = fmt::format("const {} row = blockIdx.x * 32 + threadIdx.x;\n", type);
    for (const State& s : reducer.state) body += fmt::format("{} {} = {};\n", s.type, s.name, s.start);
    const std::string kept_split = split_coordinates(domain, false, "row", type, coordinates, nullptr);
    std::string value;
    const std::string inner_split = split_coordinates(domain, true, "i", type, coordinates, nullptr);
    MC_ASSIGN_OR_RETURN(const std::string load, parts.load(coordinates, &value));
    std::string loop = fmt::format("for (int i = threadIdx.y; i < cols; i += {}) {{\n", tall);
    loop += indented(inner_split + load + with_element(reducer.step, value, "i", "cols"), in) + "}\n";
    body += "if (row < rows) {\n" + indented(kept_split + loop, in) + "}\n";
    std::string store, fetch;
    for (const State& s : reducer.state) {
      body += fmt::format("__shared__ {} tile_{}[{}][32];\n", s.type, s.name, tall);
      store += fmt::format("tile_{0}[threadIdx.y][threadIdx.x] = {0};\n", s.name);
      fetch += fmt::format("const {0} other_{1} = tile_{1}[k][threadIdx.x];\n", s.type, s.name);
    }
    MC_ASSIGN_OR_RETURN(const std::string write, parts.store(reducer, coordinates));
    body += store + "__syncthreads();\n";
    std::string finish = fmt::format("for (int k = 1; k < {}; ++k) {{\n", tall) + indented(fetch + reducer.merge, in) + "}\n" + kept_split + write;
    body += "if (threadIdx.y == 0 && row < rows) {\n" + indented(finish, in) + "}\n";
    Launch launch;
    launch.block = fmt::format("dim3(32, {})", tall);
    launch.block_size = 32 * tall;
    launch.grid = "(rows + 31) / 32";
    launch.grid_size = (domain.count(false) + 31) / 32;
    launch.shared_bytes = 0;
    for (const State& s : reducer.state) launch.shared_bytes += 32 * tall * (s.type == "int64_t" ? 8 : 4);
    unit.kernel(unit.kernel_name(), unit.all_pointers(), unit.all_sizes(), indented(body, in), launch,
                region_words(graph, region) + ": 32 neighbouring results a block, " + std::to_string(tall) + " parts of the walked axis each");
    unit.facts().indices.push_back({"row", "blockIdx.x * 32 + threadIdx.x", "one result"});
    unit.facts().loops.push_back({"i", "threadIdx.y", "cols", std::to_string(tall), reducer.words});
    unit.facts().bounds = {"row < rows", "i < cols"};
    unit.facts().accesses = parts.accesses();
    unit.facts().accumulator = reducer.state[0].type;
    return unit.finish(name());
  }
};

// Two kernels: blocks reduce parts of the rows, then one block a row reduces the parts.
class TwoPass final : public Schedule {
 public:
  std::string name() const override { return "reduce.two_pass"; }
  bool takes(const Graph& graph, const Region& region) const override {
    if (!reduction(graph, region)) return false;
    const Extent e = extent(graph, region);
    return e.columns >= 2048 && e.rows <= 256;
  }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    UnitText unit(graph, region, writer, region_name(graph, region));
    Parts parts(graph, region, unit, writer);
    MC_ASSIGN_OR_RETURN(const Reducer reducer, reducer_of(graph, anchor_of(graph, region)));
    const Domain& domain = parts.domain();
    const int in = indent_of(writer), threads = 256;
    const char* type = writer.index_type();
    const std::int64_t rows = domain.count(false), columns = domain.count(true);
    const int most = writer.draw().choose({32, 64, 128});
    unit.size("rows", domain.host_count(false), rows);
    unit.size("cols", domain.host_count(true), columns);
    const std::int64_t count = std::min<std::int64_t>(most, (columns + 1023) / 1024);
    unit.size("parts", fmt::format("std::min<int64_t>({}, (cols + 1023) / 1024)", most), count);
    std::vector<UnitText::Pointer> first, second;
    for (int v : region.inputs) first.push_back({v});
    for (const State& s : reducer.state) {
      const DType dtype = s.type == "float" ? DType::kF32 : s.type == "int" ? DType::kI32 : s.type == "bool" ? DType::kBool : DType::kI64;
      unit.scratch("partial_" + s.name, dtype, "rows, parts");
      const char* kept = dtype_c_name(dtype);
      first.push_back({-1, "partial_" + s.name, true, kept});
      second.push_back({-1, "partial_" + s.name, false, kept});
    }
    // Pass 1.
    std::vector<std::string> at(domain.axes().size());
    std::string body = fmt::format("const {} row = blockIdx.y;\n", type);
    const std::string row_split = split_coordinates(domain, false, "row", type, at, nullptr);
    const std::string column_split = split_coordinates(domain, true, "i", type, at, nullptr);
    std::string value, states, store, fetch;
    MC_ASSIGN_OR_RETURN(const std::string load, parts.load(at, &value));
    for (const State& s : reducer.state) {
      states += fmt::format("{} {} = {};\n", s.type, s.name, s.start);
      store += fmt::format("partial_{0}[row * gridDim.x + blockIdx.x] = {0};\n", s.name);
      fetch += fmt::format("const {0} other_{1} = partial_{1}[row * parts + k];\n", s.type, s.name);
    }
    const std::string step = "gridDim.x * blockDim.x";
    body += row_split + states + fmt::format("for ({0} i = blockIdx.x * blockDim.x + threadIdx.x; i < cols; i += {1}) {{\n", type, step) +
            indented(column_split + load + with_element(reducer.step, value, "i", "cols"), in) + "}\n";
    body += block_merge(reducer, RowThreads::kBlockShuffle, threads, "", false);
    body += "if (threadIdx.x == 0) {\n" + indented(store, in) + "}\n";
    Launch launch;
    launch.block = std::to_string(threads);
    launch.block_size = threads;
    launch.grid = "dim3(parts, rows)";
    launch.grid_size = count * rows;
    for (const State& s : reducer.state) launch.shared_bytes += threads / 32 * (s.type == "int64_t" ? 8 : 4);
    unit.kernel(writer.unique(unit.kernel_name() + "_partial"), first, unit.all_sizes(), indented(body, in), launch,
                "first pass: every block reduces a part of a row");
    unit.facts().indices.push_back({"row", "blockIdx.y", "one row"});
    unit.facts().loops.push_back({"i", "blockIdx.x * blockDim.x + threadIdx.x", "cols", step, reducer.words});
    unit.facts().bounds = {"i < cols"};
    unit.facts().accesses = parts.accesses();
    unit.facts().accumulator = reducer.state[0].type;
    // Pass 2.
    for (int v : region.inputs)
      if (std::any_of(region.epilogue.begin(), region.epilogue.end(), [&](int n) {
            const auto& own = graph.nodes[static_cast<std::size_t>(n)].inputs;
            return std::count(own.begin(), own.end(), v) != 0;
          }))
        second.push_back({v});
    for (int v : region.outputs) second.push_back({v, {}, true});
    std::string last = fmt::format("const {} row = blockIdx.x * blockDim.x + threadIdx.x;\nif (row >= rows) return;\n", type) + row_split;
    for (const State& s : reducer.state) last += fmt::format("{} {} = {};\n", s.type, s.name, s.start);
    last += "for (int k = 0; k < parts; ++k) {\n" + indented(fetch + reducer.merge, in) + "}\n";
    MC_ASSIGN_OR_RETURN(const std::string write, parts.store(reducer, at));
    Launch finish;
    finish.block = "64";
    finish.block_size = 64;
    finish.grid = "(rows + 63) / 64";
    finish.grid_size = (rows + 63) / 64;
    finish.block_name = "final_threads";
    finish.grid_name = "final_blocks";
    unit.kernel(writer.unique(unit.kernel_name() + "_final"), second, unit.all_sizes(), indented(last + write, in), finish,
                "second pass: one thread per row adds up the parts");
    unit.facts().indices.push_back({"row", "blockIdx.x * blockDim.x + threadIdx.x", "one row"});
    unit.facts().loops.push_back({"k", "0", "parts", "1", "parts of the row"});
    unit.facts().bounds = {"row < rows", "k < parts"};
    unit.facts().accumulator = reducer.state[0].type;
    return unit.finish(name());
  }
};

}  // namespace

void add_reduction_schedules(Schedules& all) {
  for (RowThreads by : {RowThreads::kWarp, RowThreads::kThread, RowThreads::kBlockTree, RowThreads::kBlockShuffle})
    all.push_back(std::make_unique<RowReduction>(by));
  all.push_back(std::make_unique<Tile>());
  all.push_back(std::make_unique<TwoPass>());
}

}  // namespace musacoder::synth
