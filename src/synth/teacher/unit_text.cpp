#include "synth/teacher/unit_text.h"

#include <algorithm>
#include <cctype>

#include "synth/graph/ops.h"

namespace musacoder::synth {
namespace {

std::string replace_word(std::string text, const std::string& word, const std::string& by) {
  const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
    const bool whole = (at == 0 || !part(text[at - 1])) && (at + word.size() >= text.size() || !part(text[at + word.size()]));
    if (!whole) {
      ++at;
      continue;
    }
    text.replace(at, word.size(), by);
    at += by.size();
  }
  return text;
}

bool number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
}

std::vector<int> nodes_of(const Region& region) {
  std::vector<int> all = region.prologue;
  if (region.anchor >= 0) all.push_back(region.anchor);
  all.insert(all.end(), region.epilogue.begin(), region.epilogue.end());
  return all;
}

}  // namespace

std::string region_name(const Graph& graph, const Region& region) {
  const std::vector<int> nodes = nodes_of(region);
  std::string text;
  std::size_t told = 0;
  for (int n : nodes) {
    if (told == 3) break;
    const std::string& op = graph.nodes[static_cast<std::size_t>(n)].op;
    if (text.size() >= op.size() && text.compare(text.size() - op.size(), op.size(), op) == 0) continue;
    text += (told == 0 ? "" : "_") + op;
    ++told;
  }
  return nodes.size() > 3 ? "fused_" + text : text;
}

std::string region_words(const Graph& graph, const Region& region) {
  std::map<int, std::string> text;
  const auto name = [&](int v) {
    const auto it = text.find(v);
    if (it != text.end()) return it->second;
    const Value& value = graph.values[static_cast<std::size_t>(v)];
    return value.source == Source::kNode ? "the result of " + graph.nodes[static_cast<std::size_t>(value.node)].op : value.name;
  };
  for (int n : nodes_of(region)) {
    const Node& node = graph.nodes[static_cast<std::size_t>(n)];
    std::string args;
    for (int v : node.inputs) args += (args.empty() ? "" : ", ") + name(v);
    if (const auto it = node.attrs.find("scalar"); it != node.attrs.end()) {
      const std::string number = fmt::format("{}", node.number("scalar"));
      args = node.flag("reversed") ? number + ", " + args : args + ", " + number;
    }
    std::string words = fmt::format("{}({})", node.op, args);
    if (words.size() > 60) words = node.op + "(…)";
    for (int v : node.outputs) text[v] = words;
  }
  return region.outputs.empty() ? "" : name(region.outputs[0]);
}

UnitText::UnitText(const Graph& graph, const Region& region, Writer& writer, const std::string& base)
    : graph_(graph), region_(region), writer_(writer) {
  base_ = writer.unique(base);
  unit_.function = writer.unique(base_ + (writer.style().names == 1 ? "_cuda" : "_forward"));
  for (int v : region.inputs) {
    const Value& value = graph.values[static_cast<std::size_t>(v)];
    std::string wanted = value.name;
    if (value.source == Source::kNode) wanted = graph.nodes[static_cast<std::size_t>(value.node)].op + "_out";
    const std::size_t dot = wanted.rfind('.');
    tensors_[v] = names.take(dot == std::string::npos ? wanted : wanted.substr(dot + 1));
    unit_.arguments.push_back(v);
  }
  static const char* const kResults[] = {"out", "output", "result"};
  const std::string result = kResults[static_cast<std::size_t>(writer.style().names) % 3];
  for (std::size_t k = 0; k < region.outputs.size(); ++k)
    tensors_[region.outputs[k]] = region.outputs.size() == 1 ? result : fmt::format("{}{}", result, k);
  unit_.results = region.outputs;
}

const std::string& UnitText::tensor(int value) const { return tensors_.at(value); }

void UnitText::size(const std::string& name, const std::string& host, std::int64_t value) {
  sizes_.push_back({name, writer_.index_type(), host, value, true});
}

void UnitText::sizes_of(const Domain& domain) {
  for (const Axis& axis : domain.axes()) size(axis.size, axis.host, axis.count);
}

void UnitText::extra(const std::string& type, const std::string& name, const std::string& python) {
  parameters_ += fmt::format(", {} {}", type, name);
  unit_.extra.push_back(python);
}

void UnitText::scratch(const std::string& name, DType dtype, const std::string& count) {
  const std::string like = tensor(region_.inputs[0]);
  scratches_ += fmt::format("auto {} = torch::empty({{{}}}, {}.options().dtype({}));\n", name, count, like, Writer::torch_type(dtype));
}

std::vector<UnitText::Pointer> UnitText::all_pointers() const {
  std::vector<Pointer> all;
  for (int v : region_.inputs) all.push_back({v, {}, changed_.count(v) != 0});
  for (int v : region_.outputs) all.push_back({v, {}, true});
  return all;
}

std::vector<std::string> UnitText::all_sizes() const {
  std::vector<std::string> all;
  for (const Size& s : sizes_) all.push_back(s.name);
  return all;
}

void UnitText::kernel(const std::string& name, const std::vector<Pointer>& pointers, const std::vector<std::string>& sizes,
                      const std::string& body, const Launch& launch, const std::string& comment) {
  const int indent = writer_.style().tabs_of_two ? 2 : 4;
  KernelFacts facts;
  facts.name = name;
  facts.grid = launch.grid;
  facts.block = launch.block;
  facts.grid_size = launch.grid_size;
  facts.block_size = launch.block_size;
  facts.shared_bytes = launch.shared_bytes;
  std::string parameters, arguments;
  for (const Pointer& p : pointers) {
    const bool own = p.value >= 0;
    const DType dtype = own ? graph_.type(p.value).dtype : DType::kF32;
    const std::string& tensor_name = own ? tensor(p.value) : p.scratch;
    const std::string type = own ? dtype_c_name(dtype) : p.type;
    parameters += fmt::format("{}{}{}* __restrict__ {}", parameters.empty() ? "" : ", ", p.write ? "" : "const ", type, tensor_name);
    arguments += (arguments.empty() ? "" : ", ") +
                 (own ? Writer::pointer(dtype, tensor_name, !p.write) : fmt::format("{}.data_ptr<{}>()", tensor_name, p.type));
    if (!p.write) facts.reads += (facts.reads.empty() ? "" : ", ") + tensor_name;
  }
  for (const std::string& s : sizes) {
    if (replace_word(body, s, "") == body) continue;  // an axis of which only the stride of others is needed
    const auto it = std::find_if(sizes_.begin(), sizes_.end(), [&](const Size& own) { return own.name == s; });
    parameters += fmt::format(", {} {}", it == sizes_.end() ? "int" : it->type, s);
    arguments += ", " + s;
    if (it != sizes_.end() && it->value >= 0) facts.sizes.push_back(fmt::format("{} = {}", s, it->value));
  }
  unit_.kernels += writer_.comment(comment, 0);
  std::string head = fmt::format("__global__ void {}({}) {{\n", name, parameters);
  if (head.size() > 100) {
    // One argument a line, as people break long lists.
    std::string broken;
    const std::string pad = std::string(static_cast<std::size_t>(indent), ' ');
    for (std::size_t at = 0; at < parameters.size();) {
      std::size_t end = parameters.find(", ", at);
      if (end == std::string::npos) end = parameters.size();
      broken += (broken.empty() ? "" : ",\n") + pad + parameters.substr(at, end - at);
      at = end + 2;
    }
    head = fmt::format("__global__ void {}(\n{}) {{\n", name, broken);
  }
  unit_.kernels += head + body + "}\n\n";

  std::string grid = launch.grid, block = launch.block;
  if (writer_.style().grid_variable) {
    const bool axes = block.find("dim3") != std::string::npos, grid_axes = grid.find("dim3") != std::string::npos;
    if (block != launch.block_name)
      launches_ += axes ? fmt::format("const dim3 {}{};\n", launch.block_name, block.substr(4)) : fmt::format("const int {} = {};\n", launch.block_name, block);
    launches_ += grid_axes ? fmt::format("const dim3 {}{};\n", launch.grid_name, grid.substr(4)) : fmt::format("const int {} = {};\n", launch.grid_name, grid);
    block = launch.block_name;
    grid = launch.grid_name;
  } else if (number(block)) {
    grid = replace_word(grid, launch.block_name, block);
    facts.grid = grid;
  }
  launches_ += fmt::format("{}({});\n", writer_.launch(name, grid, block, launch.shared), arguments);
  unit_.facts.push_back(std::move(facts));
}

std::string UnitText::allocation(int value) const {
  const TensorType& type = graph_.type(value);
  const std::string& name = tensor(value);
  const auto given = shapes_.find(value);
  const auto options = [&](int like) {
    const DType have = graph_.type(like).dtype;
    return tensor(like) + ".options()" + (have == type.dtype ? "" : fmt::format(".dtype({})", Writer::torch_type(type.dtype)));
  };
  if (given != shapes_.end()) return fmt::format("auto {} = torch::empty({}, {});\n", name, given->second, options(region_.inputs[0]));
  std::vector<std::string> dims(type.dims.size(), "1");
  std::vector<int> from(type.dims.size(), -1);
  for (int v : region_.inputs) {
    const TensorType& in = graph_.type(v);
    if (in.sizes() == type.sizes() && in.dtype == type.dtype) return fmt::format("auto {} = torch::empty_like({});\n", name, tensor(v));
    if (in.sizes() == type.sizes()) return fmt::format("auto {} = torch::empty({}.sizes(), {});\n", name, tensor(v), options(v));
    for (int d = 0; d < in.rank(); ++d) {
      const auto at = static_cast<std::size_t>(type.rank() - in.rank() + d);
      if (type.rank() < in.rank() || in.dims[static_cast<std::size_t>(d)].size == 1 || from[at] >= 0) continue;
      from[at] = v;
      dims[at] = fmt::format("{}.size({})", tensor(v), d);
    }
  }
  std::string shape;
  for (const std::string& d : dims) shape += (shape.empty() ? "" : ", ") + d;
  return fmt::format("auto {} = torch::empty({{{}}}, {});\n", name, shape, options(region_.inputs[0]));
}

Unit UnitText::finish(const std::string& schedule) {
  unit_.schedule = schedule;
  const int indent = writer_.style().tabs_of_two ? 2 : 4;
  std::string parameters;
  for (int v : region_.inputs) parameters += (parameters.empty() ? "" : ", ") + std::string("torch::Tensor ") + tensor(v);
  parameters += parameters_;
  const std::string returned = region_.outputs.size() == 1 ? "torch::Tensor" : "std::vector<torch::Tensor>";
  unit_.signature = fmt::format("{} {}({})", returned, unit_.function, parameters);
  std::string body;
  for (int v : region_.inputs) body += writer_.checks(tensor(v), graph_.type(v).dtype);
  for (int v : region_.inputs)
    if (!graph_.type(v).contiguous && strided_.count(v) == 0) body += fmt::format("{0} = {0}.contiguous();\n", tensor(v));
  for (int v : region_.outputs) body += allocation(v);
  for (const Size& s : sizes_)
    if (s.host != s.name) body += fmt::format("const {} {} = {};\n", s.type, s.name, s.host);
  body += host_ + scratches_ + launches_;
  std::string result;
  for (int v : region_.outputs) result += (result.empty() ? "" : ", ") + tensor(v);
  body += region_.outputs.size() == 1 ? "return " + result + ";\n" : "return {" + result + "};\n";
  unit_.host = fmt::format("{} {{\n{}}}\n", unit_.signature, indented(body, indent));
  return std::move(unit_);
}

}  // namespace musacoder::synth
