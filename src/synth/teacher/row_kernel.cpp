#include "synth/teacher/row_kernel.h"

#include <algorithm>
#include <set>

namespace musacoder::synth {
namespace {

int indent_of(const Writer& writer) { return writer.style().tabs_of_two ? 2 : 4; }

std::string state_lines(const Reducer& reducer) {
  std::string text;
  for (const State& s : reducer.state) text += fmt::format("{} {} = {};\n", s.type, s.name, s.start);
  return text;
}

}  // namespace

std::string split_coordinates(const Domain& domain, bool reduced, const std::string& flat, const char* type,
                              std::vector<std::string>& coordinates, std::vector<IndexFact>* facts) {
  std::vector<std::size_t> own;
  for (std::size_t a = 0; a < domain.axes().size(); ++a)
    if (domain.axes()[a].reduced == reduced) own.push_back(a);
  if (own.size() == 1) {
    coordinates[own[0]] = flat;
    return {};
  }
  std::string text;
  for (std::size_t k = 0; k < own.size(); ++k) {
    std::string below;
    for (std::size_t later = k + 1; later < own.size(); ++later) below += (below.empty() ? "" : " * ") + domain.axes()[own[later]].size;
    std::string formula = below.empty() ? flat : flat + " / " + (below.find(' ') == std::string::npos ? below : "(" + below + ")");
    if (k > 0) formula = (below.empty() ? formula : "(" + formula + ")") + " % " + domain.axes()[own[k]].size;
    const std::string& name = domain.axes()[own[k]].coordinate;
    text += fmt::format("const {} {} = {};\n", type, name, formula);
    if (facts != nullptr) facts->push_back({name, formula, "coordinate along " + domain.axes()[own[k]].size});
    coordinates[own[k]] = name;
  }
  return text;
}

bool fits(RowThreads by, std::int64_t rows, std::int64_t columns) {
  switch (by) {
    case RowThreads::kThread: return columns <= 4096 && rows >= 32;
    case RowThreads::kWarp: return columns <= 65536;
    default: return columns >= 48;
  }
}

std::string warp_merge(const Reducer& reducer) {
  std::string inner;
  for (const State& s : reducer.state)
    inner += fmt::format("const {0} other_{1} = __shfl_xor_sync(0xffffffff, {1}, step);\n", s.type, s.name);
  return "for (int step = 16; step > 0; step >>= 1) {\n" + indented(inner + reducer.merge, 2) + "}\n";
}

std::string block_merge(const Reducer& reducer, RowThreads by, int threads, const std::string& suffix, bool broadcast) {
  std::string text;
  std::string store, load, own;
  const auto shared = [&](const State& s) { return "shared_" + s.name + suffix; };
  if (by == RowThreads::kBlockTree) {
    for (const State& s : reducer.state) {
      text += fmt::format("__shared__ {} {}[{}];\n", s.type, shared(s), threads);
      store += fmt::format("{}[threadIdx.x] = {};\n", shared(s), s.name);
      load += fmt::format("const {} other_{} = {}[threadIdx.x + step];\n", s.type, s.name, shared(s));
      own += fmt::format("{} = {}[0];\n", s.name, shared(s));
    }
    text += store + "__syncthreads();\n";
    text += "for (int step = blockDim.x / 2; step > 0; step >>= 1) {\n  if (threadIdx.x < step) {\n" + indented(load + reducer.merge + store, 4) +
            "  }\n  __syncthreads();\n}\n";
    if (broadcast) text += own;
    return text;
  }
  text += warp_merge(reducer);
  for (const State& s : reducer.state) {
    text += fmt::format("__shared__ {} {}[{}];\n", s.type, shared(s), threads / 32);
    store += fmt::format("  {}[threadIdx.x / 32] = {};\n", shared(s), s.name);
    load += fmt::format("  {0} = threadIdx.x < {1} ? {2}[threadIdx.x] : {3};\n", s.name, threads / 32, shared(s), s.start);
    own += fmt::format("{} = {}[0];\n", s.name, shared(s));
  }
  text += "if (threadIdx.x % 32 == 0) {\n" + store + "}\n__syncthreads();\nif (threadIdx.x < 32) {\n" + load + indented(warp_merge(reducer), 2);
  if (!broadcast) return text + "}\n";
  std::string zero;
  for (const State& s : reducer.state) zero += fmt::format("    {}[0] = {};\n", shared(s), s.name);
  return text + "  if (threadIdx.x == 0) {\n" + zero + "  }\n}\n__syncthreads();\n" + own;
}

Status write_rows(const RowProgram& program, const RowStyle& style, UnitText& unit, Writer& writer) {
  const Domain& domain = *program.domain;
  const int in = indent_of(writer);
  const char* type = writer.index_type();
  const std::int64_t rows = domain.count(false), columns = domain.count(true);
  const bool block = style.by == RowThreads::kBlockTree || style.by == RowThreads::kBlockShuffle;
  int threads = writer.style().threads;
  if (block)
    while (threads > 64 && threads / 2 >= columns) threads /= 2;
  if (style.by == RowThreads::kWarp) threads = writer.draw().choose({128, 256});

  std::vector<std::string> coordinates(domain.axes().size());
  std::vector<IndexFact> indices;
  std::string body, row_formula;
  const std::string rows_text = domain.host_count(false), columns_text = domain.host_count(true);
  const bool many_rows = rows_text != "1";
  const std::string row = "row";
  Launch launch;
  launch.block = std::to_string(threads);
  launch.block_size = threads;
  std::string bound;
  switch (style.by) {
    case RowThreads::kThread:
      row_formula = "blockIdx.x * blockDim.x + threadIdx.x";
      launch.grid = "(rows + threads - 1) / threads";
      launch.grid_size = (rows + threads - 1) / threads;
      bound = "row < rows";
      break;
    case RowThreads::kWarp:
      row_formula = "(blockIdx.x * blockDim.x + threadIdx.x) / 32";
      launch.grid = "(rows * 32 + threads - 1) / threads";
      launch.grid_size = (rows * 32 + threads - 1) / threads;
      bound = "row < rows";
      break;
    default:
      row_formula = "blockIdx.x";
      launch.grid = "rows";
      launch.grid_size = rows;
  }
  unit.size("rows", rows_text, rows);
  unit.size("cols", columns_text, columns);
  body += fmt::format("const {} {} = {};\n", type, row, row_formula);
  indices.push_back({row, row_formula, block ? "one block per row" : style.by == RowThreads::kWarp ? "one warp per row" : "one thread per row"});
  if (style.by == RowThreads::kWarp) {
    body += "const int lane = threadIdx.x % 32;\n";
    indices.push_back({"lane", "threadIdx.x % 32", "place in the warp"});
  }
  if (!bound.empty()) body += fmt::format("if (row >= rows) return;\n");
  if (many_rows) body += split_coordinates(domain, false, row, type, coordinates, &indices);

  const std::string first = style.by == RowThreads::kThread ? "0" : style.by == RowThreads::kWarp ? "lane" : "threadIdx.x";
  const std::string step = style.by == RowThreads::kThread ? "1" : style.by == RowThreads::kWarp ? "32" : "blockDim.x";
  const std::string head = fmt::format("for (int i = {0}; i < cols; {1}) {{\n", first, step == "1" ? "++i" : "i += " + step);
  std::vector<std::string> at = coordinates;
  const std::string inner_split = split_coordinates(domain, true, "i", type, at, &indices);

  if (style.cached) body += "extern __shared__ float cache[];\n";
  std::vector<LoopFact> loops;
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    const Phase& phase = program.phases[p];
    std::string value, loop;
    if (style.cached && p > 0) {
      value = "cache[i]";
    } else {
      MC_ASSIGN_OR_RETURN(const std::string load, program.load(at, &value));
      loop += inner_split + load;
      if (style.cached) loop += fmt::format("cache[i] = {};\n", value);
    }
    loop += with_element(phase.reducer.step, value, "i", "cols");
    body += writer.comment(phase.reducer.words, 0);
    body += state_lines(phase.reducer) + head + indented(loop, in) + "}\n";
    loops.push_back({"i", first, "cols", step, phase.reducer.words});
    const bool last = p + 1 == program.phases.size();
    if (style.by == RowThreads::kWarp) body += warp_merge(phase.reducer);
    if (block) body += block_merge(phase.reducer, style.by, threads, program.phases.size() > 1 ? std::to_string(p) : "", !last || program.each != nullptr);
    body += with_element(phase.after, "VALUE", "i", "cols");
    // The next phase writes to shared memory of its own; what was read here is not overwritten.
  }
  if (program.each) {
    std::string value, loop;
    if (style.cached) {
      value = "cache[i]";
      loop = inner_split;
    } else {
      MC_ASSIGN_OR_RETURN(const std::string load, program.load(at, &value));
      loop = inner_split + load;
    }
    MC_ASSIGN_OR_RETURN(const std::string text, program.each(at, value));
    body += head + indented(loop + text, in) + "}\n";
    loops.push_back({"i", first, "cols", step, "writes the row"});
  }
  if (program.row) {
    MC_ASSIGN_OR_RETURN(const std::string text, program.row(coordinates));
    const char* who = style.by == RowThreads::kWarp ? "lane == 0" : block ? "threadIdx.x == 0" : nullptr;
    body += who == nullptr ? text : fmt::format("if ({}) {{\n{}}}\n", who, indented(text, in));
  }
  std::int64_t shared = 0;
  if (block)
    for (const Phase& phase : program.phases)
      for (const State& s : phase.reducer.state)
        shared += (style.by == RowThreads::kBlockTree ? threads : threads / 32) * (s.type == "int64_t" || s.type == "double" ? 8 : 4);
  if (style.cached) {
    launch.shared = "cols * sizeof(float)";
    shared += columns * 4;
  }
  launch.shared_bytes = shared;
  const char* who = block ? "one block per row" : style.by == RowThreads::kWarp ? "one warp per row" : "one thread per row";
  unit.kernel(unit.kernel_name(), unit.all_pointers(), unit.all_sizes(), indented(body, in), launch, program.words + ", " + who);
  KernelFacts& facts = unit.facts();
  facts.indices = std::move(indices);
  facts.loops = std::move(loops);
  if (!bound.empty()) facts.bounds.push_back(bound);
  facts.bounds.push_back("i < cols");
  facts.accumulator = program.phases.empty() ? "" : program.phases[0].reducer.state[0].type;
  return ok();
}

}  // namespace musacoder::synth
