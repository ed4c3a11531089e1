#include "synth/teacher/anchor_unit.h"

#include <algorithm>
#include <cctype>

#include "synth/teacher/scalar.h"

namespace musacoder::synth {
namespace {

// Which of the axes an operand of the epilogue has; empty: it does not fit.
std::vector<bool> covered(const TensorType& operand, const TensorType& out, const std::vector<int>& merged, bool& fits) {
  std::vector<bool> axes;
  const int missing = out.rank() - operand.rank();
  int at = 0;
  fits = missing >= 0;
  for (const int count : merged) {
    bool some = false, all = true;
    for (int d = at; d < at + count && fits; ++d) {
      const std::int64_t own = d < missing ? 1 : operand.dims[static_cast<std::size_t>(d - missing)].size;
      const std::int64_t full = out.dims[static_cast<std::size_t>(d)].size;
      if (own != 1 && own != full) fits = false;
      if (own != 1) some = true;
      else if (full != 1) all = false;
    }
    if (some && !all) fits = false;
    axes.push_back(some);
    at += count;
  }
  if (at != out.rank()) fits = false;
  return axes;
}

std::string horner(const std::vector<OutAxis>& axes, const std::vector<bool>& present) {
  std::string text;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (!present[k]) continue;
    if (text.empty()) {
      text = axes[k].coordinate;
      continue;
    }
    if (text.find(" + ") != std::string::npos) text = "(" + text + ")";
    text += " * " + axes[k].size + " + " + axes[k].coordinate;
  }
  return text.empty() ? "0" : text;
}

// Comments dropped and levels of two spaces where the style wants it.
std::string styled(const std::string& text, const CodeStyle& style) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t first = line.find_first_not_of(' ');
    if (first == std::string::npos) {
      out += "\n";
      continue;
    }
    if (!style.comments && line.compare(first, 2, "//") == 0) continue;
    if (style.tabs_of_two) line = std::string(first / 2, ' ') + line.substr(first);
    out += line + "\n";
  }
  return out;
}

std::string joined(const std::vector<std::string>& parts, const char* between = ", ") {
  std::string text;
  for (const std::string& p : parts) text += (text.empty() ? "" : between) + p;
  return text;
}

std::string wrapped(const std::string& head, const std::vector<std::string>& parts, const std::string& tail) {
  const std::string one = head + joined(parts) + tail;
  if (one.size() <= 100) return one;
  std::string text = head;
  std::string line;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const std::string part = parts[k] + (k + 1 < parts.size() ? "," : tail);
    if (line.size() + part.size() > 90) {
      text += "\n    " + line;
      line.clear();
    }
    line += (line.empty() ? "" : " ") + part;
  }
  return text + "\n    " + line;
}

}  // namespace

bool epilogue_fits(const Graph& graph, const Region& region, const std::vector<int>& merged) {
  if (region.anchor < 0 || !region.prologue.empty() || region.outputs.size() != 1) return false;
  const Node& anchor = graph.nodes[static_cast<std::size_t>(region.anchor)];
  const TensorType& out = graph.type(anchor.outputs[0]);
  if (graph.type(region.outputs[0]).sizes() != out.sizes()) return false;
  for (int n : region.epilogue) {
    const Node& node = graph.nodes[static_cast<std::size_t>(n)];
    if (!has_scalar(node)) return false;
    for (int v : node.inputs) {
      const Value& value = graph.values[static_cast<std::size_t>(v)];
      if (v == anchor.outputs[0] || (value.source == Source::kNode && std::count(region.epilogue.begin(), region.epilogue.end(), value.node) != 0)) continue;
      bool fits = false;
      if (value.source == Source::kNode && value.node == region.anchor) return false;
      covered(value.type, out, merged, fits);
      if (!fits || node.op == "prelu") return false;
    }
  }
  return true;
}

std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& names) {
  for (const auto& [name, with] : names) {
    const std::string token = "@" + name + "@";
    for (std::size_t at = text.find(token); at != std::string::npos; at = text.find(token, at + with.size())) text.replace(at, token.size(), with);
  }
  return text;
}

namespace {

class AnchorSchedule final : public Schedule {
 public:
  AnchorSchedule(std::string name, std::string function, Takes takes, Write write)
      : name_(std::move(name)), function_(std::move(function)), takes_(takes), write_(write) {}
  std::string name() const override { return name_; }
  bool takes(const Graph& graph, const Region& region) const override { return region.anchor >= 0 && takes_(graph, region); }
  Result<Unit> write(const Graph& graph, const Region& region, Writer& writer) const override {
    AnchorUnit unit(graph, region, writer, name_, function_);
    return write_(unit);
  }

 private:
  std::string name_, function_;
  Takes takes_;
  Write write_;
};

}  // namespace

std::unique_ptr<Schedule> anchor_schedule(std::string name, std::string function, Takes takes, Write write) {
  return std::make_unique<AnchorSchedule>(std::move(name), std::move(function), takes, write);
}

std::string warp_sum(Writer& writer) {
  return writer.helper("warp_reduce_sum",
                       "__device__ __forceinline__ float NAME(float value) {\n"
                       "    for (int offset = 16; offset > 0; offset >>= 1) {\n"
                       "        value += __shfl_down_sync(0xffffffff, value, offset);\n"
                       "    }\n"
                       "    return value;\n"
                       "}\n");
}

std::string block_sum(Writer& writer) {
  const std::string warp = warp_sum(writer);
  return writer.helper("block_reduce_sum", "__device__ float NAME(float value, float* partial) {\n"
                       "    const int lane = threadIdx.x % 32;\n"
                       "    const int warp = threadIdx.x / 32;\n"
                       "    value = " + warp + "(value);\n"
                       "    if (lane == 0) partial[warp] = value;\n"
                       "    __syncthreads();\n"
                       "    const int warps = (blockDim.x + 31) / 32;\n"
                       "    value = threadIdx.x < warps ? partial[lane] : 0.0f;\n"
                       "    if (warp == 0) value = " + warp + "(value);\n"
                       "    return value;\n"
                       "}\n");
}

std::string ceil_div_text(const std::string& n, const std::string& by) {
  const bool number = !by.empty() && std::isdigit(static_cast<unsigned char>(by[0]));
  const std::string up = number ? std::to_string(std::stoll(by) - 1) : by + " - 1";
  return fmt::format("({} + {}) / {}", n, up, by);
}

AnchorUnit::AnchorUnit(const Graph& graph, const Region& region, Writer& writer, std::string schedule, const std::string& function)
    : graph_(graph), region_(region), writer_(writer) {
  unit_.schedule = std::move(schedule);
  unit_.function = writer.unique(function + word("", "_cuda", "_forward"));
  unit_.results = region.outputs;
  for (const char* name : {"row", "col", "acc", "sum", "i", "j", "k", "m", "n", "idx", "lane", "warp", "tid", "partial"}) taken_.emplace_back(name);
  out_ = free_name(word("out", "output", "result"));
}

std::string AnchorUnit::word(const char* first, const char* second, const char* third) const {
  const char* const all[] = {first, second, third};
  return all[static_cast<std::size_t>(writer_.style().names) % 3];
}

std::string AnchorUnit::free_name(const std::string& wanted) {
  std::string clean;
  for (char c : wanted) clean += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  std::string name = clean;
  for (int k = 2; std::count(taken_.begin(), taken_.end(), name) != 0; ++k) name = clean + "_" + std::to_string(k);
  taken_.push_back(name);
  return name;
}

std::string AnchorUnit::tensor(int value, const std::string& wanted, bool strided) {
  if (const auto it = names_.find(value); it != names_.end()) return it->second;
  const std::string name = free_name(wanted);
  names_[value] = name;
  tensors_[name] = value;
  parameters_.push_back("torch::Tensor " + name);
  unit_.arguments.push_back(value);
  host_ += writer_.checks(name, graph_.type(value).dtype);
  if (!graph_.type(value).contiguous && !strided) host_ += fmt::format("{0} = {0}.contiguous();\n", name);
  return name;
}

void AnchorUnit::size(const std::string& name, const std::string& host, std::int64_t value) {
  taken_.push_back(name);
  sizes_[name] = value;
  size_texts_[name] = host;
  host_ += fmt::format("const {} {} = {};\n", writer_.index_type(), name, host);
}

void AnchorUnit::stride(const std::string& name, const std::string& host) {
  size(name, host, 0);
  sizes_.erase(name);
}

void AnchorUnit::number(const std::string& name, const std::string& python, std::int64_t value) {
  taken_.push_back(name);
  sizes_[name] = value;
  size_texts_[name] = "";
  parameters_.push_back("int64_t " + name);
  unit_.extra.push_back(python);
}

std::string AnchorUnit::constant(const std::string& wanted, std::int64_t value) {
  const std::string name = writer_.unique(wanted);
  taken_.push_back(name);
  sizes_[name] = value;
  constants_ += fmt::format("constexpr int {} = {};\n", name, value);
  return name;
}

void AnchorUnit::result(std::vector<OutAxis> axes, const std::string& shape, const std::string& index) {
  axes_ = std::move(axes);
  out_shape_ = shape;
  const std::vector<bool> every(axes_.size(), true);
  out_index_ = index.empty() ? horner(axes_, every) : index;
}

Result<Unit> AnchorUnit::done() {
  // Epilogue operands are arguments too, so tensors come first and numbers after them, as Python passes them.
  std::stable_sort(parameters_.begin(), parameters_.end(), [](const std::string& a, const std::string& b) {
    return a.rfind("torch::Tensor", 0) == 0 && b.rfind("torch::Tensor", 0) != 0;
  });
  std::vector<std::string> results;
  for (int v : region_.outputs) {
    const auto other = others_.find(v);
    results.push_back(other == others_.end() ? out_ : other->second);
  }
  const bool one = results.size() == 1;
  const std::string type = one ? "torch::Tensor" : "std::vector<torch::Tensor>";
  unit_.signature = fmt::format("{} {}({})", type, unit_.function, joined(parameters_));
  unit_.kernels = (constants_.empty() ? "" : constants_ + "\n") + kernels_;
  const std::string header = wrapped(fmt::format("{} {}(", type, unit_.function), parameters_, ") {\n");
  const std::string returned = one ? results[0] : "{" + joined(results) + "}";
  unit_.host = header + styled(indented(host_ + "return " + returned + ";\n", 4), writer_.style()) + "}\n";
  return std::move(unit_);
}

AnchorKernel::AnchorKernel(AnchorUnit& unit, const std::string& base) : unit_(unit) {
  facts.name = unit.writer_.unique(base);
  facts.accumulator = unit.compute();
}

void AnchorKernel::reads(const std::string& tensor, const std::string& shape) {
  const DType dtype = unit_.graph_.type(unit_.tensors_.at(tensor)).dtype;
  inputs_.push_back({fmt::format("const {}* __restrict__ {}", dtype_c_name(dtype), tensor), Writer::pointer(dtype, tensor, true)});
  facts.reads += (facts.reads.empty() ? "" : ", ") + tensor;
  static_cast<void>(shape);
}

void AnchorKernel::scratch(const std::string& name, const std::string& shape, bool constant) {
  auto& list = constant ? inputs_ : outputs_;
  list.push_back({fmt::format("{}float* __restrict__ {}", constant ? "const " : "", name), name + ".data_ptr<float>()"});
  if (constant) facts.reads += (facts.reads.empty() ? "" : ", ") + name;
  static_cast<void>(shape);
}

void AnchorKernel::writes_result() {
  if (result_) return;
  result_ = true;
  const DType dtype = unit_.graph_.type(unit_.region_.outputs[0]).dtype;
  outputs_.push_back({fmt::format("{}* __restrict__ {}", dtype_c_name(dtype), unit_.out_), Writer::pointer(dtype, unit_.out_, false)});
}

void AnchorKernel::parameter(const std::string& type, const std::string& name, const std::string& call) {
  more_.push_back({type + " " + name, call});
}

std::string AnchorKernel::index(const std::string& name, const std::string& formula, const std::string& meaning) {
  facts.indices.push_back({name, formula, meaning});
  return fmt::format("const {} {} = {};\n", unit_.writer_.index_type(), name, formula);
}

void AnchorKernel::access(const std::string& tensor, const std::string& shape, const std::string& index, bool write) {
  facts.accesses.push_back({tensor, shape, index, write});
}

void AnchorKernel::loop(const std::string& variable, const std::string& from, const std::string& to, const std::string& step,
                        const std::string& purpose) {
  facts.loops.push_back({variable, from, to, step, purpose});
}

std::string AnchorKernel::guarded(const std::vector<std::pair<std::string, std::string>>& conditions, const std::string& inside, bool may_return) {
  const bool early = may_return && unit_.writer_.style().early_return;
  std::string test;
  for (const auto& [a, b] : conditions) {
    const std::string one = early ? a + " >= " + b : a + " < " + b;
    facts.bounds.push_back(one);
    test += (test.empty() ? "" : early ? " || " : " && ") + one;
  }
  return early ? fmt::format("if ({}) return;\n", test) + inside : fmt::format("if ({}) {{\n", test) + indented(inside, 4) + "}\n";
}

std::string AnchorKernel::load(const std::string& tensor, const std::string& index) const {
  return Writer::load(unit_.graph_.type(unit_.tensors_.at(tensor)).dtype, fmt::format("{}[{}]", tensor, index));
}

Result<std::string> AnchorKernel::finish(const std::string& value) {
  const Graph& graph = unit_.graph_;
  const Region& region = unit_.region_;
  const Node& anchor = unit_.node();
  const TensorType& out = graph.type(anchor.outputs[0]);
  writes_result();
  std::vector<int> merged;
  std::string shape;
  for (const OutAxis& axis : unit_.axes_) {
    merged.push_back(axis.dims);
    shape += (shape.empty() ? "" : ", ") + axis.size;
  }
  access(unit_.out_, "(" + shape + ")", unit_.out_index_, true);
  const DType stored = graph.type(region.outputs[0]).dtype;
  if (region.epilogue.empty()) return fmt::format("{}[{}] = {};\n", unit_.out_, unit_.out_index_, Writer::store(stored, value));

  ScalarCode code(graph, unit_.writer_);
  std::string text;
  const std::string start = unit_.word("val", "value", "res");
  const bool plain = std::all_of(value.begin(), value.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
  if (!plain) text += fmt::format("const {} {} = {};\n", unit_.compute(), start, value);
  code.bind(anchor.outputs[0], plain ? value : start);
  for (int n : region.epilogue) {
    for (int v : graph.nodes[static_cast<std::size_t>(n)].inputs) {
      if (code.bound(v)) continue;
      bool fits = false;
      const std::vector<bool> present = covered(graph.type(v), out, merged, fits);
      if (!fits) return fail(Code::kUnsupported, "an operand of the epilogue, {}, does not lie along the result's axes", shape_text(graph.type(v)));
      const Value& own = graph.values[static_cast<std::size_t>(v)];
      std::string wanted = own.name.empty() ? "other" : own.name;
      const std::string name = unit_.tensor(v, wanted);
      if (facts.reads.find(name) == std::string::npos ||
          std::none_of(inputs_.begin(), inputs_.end(), [&](const Parameter& p) { return p.call.find(name + ".data_ptr") != std::string::npos; }))
        reads(name, "");
      const bool full = graph.type(v).sizes() == out.sizes();
      const std::string at = full ? unit_.out_index_ : horner(unit_.axes_, present);
      std::string own_shape;
      for (std::size_t k = 0; k < present.size(); ++k)
        if (present[k]) own_shape += (own_shape.empty() ? "" : ", ") + unit_.axes_[k].size;
      access(name, "(" + own_shape + ")", at);
      const std::string element = load(name, at);
      if (graph.type(v).numel() == 1 || element.size() < 24) {
        code.bind(v, element);
        continue;
      }
      const std::string local = unit_.free_name(name + "_v");
      text += fmt::format("const {} {} = {};\n", Writer::compute_type(graph.type(v).dtype), local, element);
      code.bind(v, local);
    }
    MC_RETURN_IF_ERROR(code.add(n));
  }
  text += code.lines();
  return text + fmt::format("{}[{}] = {};\n", unit_.out_, unit_.out_index_, Writer::store(stored, code.name(region.outputs[0])));
}

void AnchorKernel::launch(const Launch& launch) {
  const CodeStyle& style = unit_.writer_.style();
  std::vector<std::string> signature, call;
  for (const auto* list : {&inputs_, &outputs_})
    for (const Parameter& p : *list) {
      signature.push_back(p.text);
      call.push_back(p.call);
    }
  for (const std::string& name : sizes_) {
    signature.push_back(fmt::format("{} {}", unit_.writer_.index_type(), name));
    call.push_back(name);
    if (unit_.sizes_.count(name) == 0) continue;
    const std::string& host = unit_.size_texts_.at(name);
    facts.sizes.push_back(host.empty() ? fmt::format("{} = {}", name, unit_.sizes_.at(name)) : fmt::format("{} = {} = {}", name, host, unit_.sizes_.at(name)));
  }
  for (const Parameter& p : more_) {
    signature.push_back(p.text);
    call.push_back(p.call);
  }
  unit_.kernels_ += wrapped(fmt::format("__global__ void {}(", facts.name), signature, ") {\n") + styled(indented(body, 4), style) + "}\n\n";

  facts.grid = joined(launch.grid);
  facts.block = joined(launch.block);
  facts.grid_size = facts.block_size = 1;
  for (std::int64_t s : launch.grid_sizes) facts.grid_size *= s;
  for (std::int64_t s : launch.block_sizes) facts.block_size *= s;
  facts.shared_bytes = launch.shared_bytes;

  std::string& host = unit_.host_;
  if (result_ && host.find(fmt::format("auto {} = torch::", unit_.out_)) == std::string::npos) {
    const DType stored = unit_.graph_.type(unit_.region_.outputs[0]).dtype;
    std::string base;
    for (int v : unit_.unit_.arguments)
      if (base.empty() && unit_.graph_.type(v).dtype == stored) base = unit_.names_.at(v) + ".options()";
    if (base.empty()) base = fmt::format("{}.options().dtype({})", unit_.names_.at(unit_.unit_.arguments[0]), Writer::torch_type(stored));
    host += fmt::format("auto {} = torch::empty({}, {});\n", unit_.out_, unit_.out_shape_, base);
  }
  std::string grid = launch.grid[0], block = launch.block[0];
  const bool flat = launch.grid.size() == 1 && launch.block.size() == 1;
  const bool second = host.find("<<<") != std::string::npos;
  const std::string suffix = second ? "_2" : "";
  if (flat) {
    if (style.grid_variable) {
      const std::string threads = unit_.word("threads", "block_size", "threads_per_block") + suffix, blocks = unit_.word("blocks", "grid_size", "num_blocks") + suffix;
      host += fmt::format("const int {} = {};\nconst int {} = {};\n", threads, block, blocks, grid);
      grid = blocks;
      block = threads;
    }
  } else {
    const std::string g = unit_.word("grid", "blocks", "grid_dim") + suffix, b = unit_.word("block", "threads", "block_dim") + suffix;
    host += fmt::format("const dim3 {}({});\nconst dim3 {}({});\n", b, joined(launch.block), g, joined(launch.grid));
    grid = g;
    block = b;
  }
  const std::string line = wrapped(unit_.writer_.launch(facts.name, grid, block, launch.shared) + "(", call, ");\n");
  host += launch.loop.empty() ? line : launch.loop + " {\n" + indented(line, 4) + "}\n";
  unit_.unit_.facts.push_back(std::move(facts));
}

}  // namespace musacoder::synth
