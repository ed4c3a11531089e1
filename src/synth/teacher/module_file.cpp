#include "synth/teacher/module_file.h"

#include <map>
#include <set>

#include "synth/graph/ops.h"
#include "synth/graph/python_text.h"

namespace musacoder::synth {
namespace {

std::string includes(const std::string& code, const Writer& writer) {
  std::string text = "#include <torch/extension.h>\n#include <cuda_runtime.h>\n";
  if (code.find("__half") != std::string::npos) text += "#include <cuda_fp16.h>\n";
  if (code.find("__nv_bfloat16") != std::string::npos || code.find("bfloat162") != std::string::npos) text += "#include <cuda_bf16.h>\n";
  if (writer.style().stream) text += "#include <ATen/cuda/CUDAContext.h>\n";
  if (code.find("std::min") != std::string::npos || code.find("std::max") != std::string::npos) text += "#include <algorithm>\n";
  if (code.find("std::vector") != std::string::npos) text += "#include <vector>\n";
  return text;
}

class Forward {
 public:
  Forward(const Graph& graph, Writer& writer, std::string extension) : graph_(graph), writer_(writer), extension_(std::move(extension)) {
    for (int v : graph.inputs) {
      text_[v] = graph.values[static_cast<std::size_t>(v)].name;
      used_.insert(text_[v]);
    }
  }

  void view(int index) {
    const Node& node = graph_.nodes[static_cast<std::size_t>(index)];
    const OpInfo* info = find_op(node.op);
    std::vector<std::string> operands;
    for (int v : node.inputs) operands.push_back(use(v));
    std::map<std::string, std::string> texts;
    for (const auto& [name, attr] : node.attrs) texts[name] = attr.constant.empty() ? python_value(attr.value) : "self." + attr.constant;
    assign(node.outputs, fill_template(info->spelling.method, operands, node.attrs, texts));
  }

  void call(const Unit& unit) {
    std::string args;
    for (int v : unit.arguments) args += (args.empty() ? "" : ", ") + use(v);
    for (const std::string& extra : unit.extra) args += (args.empty() ? "" : ", ") + extra;
    assign(unit.results, fmt::format("{}.{}({})", extension_, unit.function, args));
  }

  std::string lines() {
    std::string result;
    for (int v : graph_.outputs) result += (result.empty() ? "" : ", ") + use(v);
    // The last assignment is the returned expression where that is all it is.
    if (graph_.outputs.size() == 1 && !last_name_.empty() && last_name_ == result && !writer_.style().checks) {
      lines_.erase(last_at_);
      return lines_ + "return " + last_expression_ + "\n";
    }
    return lines_ + "return " + result + "\n";
  }

 private:
  std::string use(int value) {
    const auto it = text_.find(value);
    return it != text_.end() ? it->second : "self." + graph_.values[static_cast<std::size_t>(value)].name;
  }
  void assign(const std::vector<int>& values, const std::string& expression) {
    std::string names;
    for (int v : values) {
      const Node& node = graph_.nodes[static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(v)].node)];
      std::string name = writer_.style().names == 0 ? "h" : writer_.style().names == 1 ? node.op + "_out" : "t";
      const std::string base = name;
      for (int k = 1; used_.count(name) != 0; ++k) name = base + std::to_string(k);
      used_.insert(name);
      text_[v] = name;
      names += (names.empty() ? "" : ", ") + name;
    }
    last_at_ = lines_.size();
    last_name_ = names;
    last_expression_ = expression;
    lines_ += names + " = " + expression + "\n";
  }

  const Graph& graph_;
  Writer& writer_;
  std::string extension_, lines_, last_name_, last_expression_;
  std::size_t last_at_ = 0;
  std::map<int, std::string> text_;
  std::set<std::string> used_;
};

}  // namespace

std::string module_file(const Graph& graph, const InitText& init, const std::vector<Part>& parts, Writer& writer) {
  const CodeStyle& style = writer.style();
  std::string kernels, declarations, declared_list, functions;
  for (const Part& part : parts) {
    if (part.view) continue;
    kernels += part.unit.kernels + part.unit.host + "\n";
    declarations += part.unit.signature + ";\n";
    declared_list += fmt::format("        \"{};\",\n", part.unit.signature);
    functions += fmt::format("{}\"{}\"", functions.empty() ? "" : ", ", part.unit.function);
  }
  const std::string code = writer.helpers() + kernels;
  std::string text = "import torch\nimport torch.nn as nn\nfrom torch.utils.cpp_extension import load_inline\n\n";
  const std::string source = style.names == 1 ? "CUDA_SRC" : "cuda_source", cpp = style.names == 1 ? "CPP_SRC" : "cpp_source";
  text += fmt::format("{} = r\"\"\"\n{}\n{}\"\"\"\n\n", source, includes(code, writer), code);
  text += fmt::format("{} = r\"\"\"\n{}\"\"\"\n\n", cpp, declarations);

  static const char* const kExtensions[] = {"ops", "_ext", "kernels"};
  const std::string extension = kExtensions[static_cast<std::size_t>(style.names) % 3];
  std::string name = "generated";
  for (const Part& part : parts)
    if (!part.view) {
      name = part.unit.function;
      break;
    }
  if (!style.functions_list) {
    std::string dict;
    for (const Part& part : parts)
      if (!part.view) dict += fmt::format("{}\"{}\": \"{}\"", dict.empty() ? "" : ", ", part.unit.function, part.unit.function);
    functions = "{" + dict + "}";
  } else {
    functions = "[" + functions + "]";
  }
  const std::string call = fmt::format("load_inline(\n    name=\"{}\",\n    cpp_sources={},\n    cuda_sources={},\n    functions={},\n{}    verbose=False,\n)",
                                       name, style.bindings_declared ? cpp : "[" + cpp + "]", style.bindings_declared ? source : "[" + source + "]", functions,
                                       style.early_return ? "" : "    extra_cuda_cflags=[\"-O3\"],\n");
  if (style.module_level) {
    text += extension + " = " + call + "\n\n\n";
  } else {
    text += "def build():\n" + indented("return " + call + "\n", 4) + "\n\n" + extension + " = build()\n\n\n";
  }

  text += "class ModelNew(nn.Module):\n";
  if (!init.body.empty() || !init.arguments.empty())
    text += fmt::format("    def __init__(self{}):\n        super().__init__()\n{}\n", init.arguments, indented(init.body, 8));
  std::string arguments;
  for (int v : graph.inputs) arguments += ", " + graph.values[static_cast<std::size_t>(v)].name;
  Forward forward(graph, writer, extension);
  for (const Part& part : parts) part.view ? forward.view(part.node) : forward.call(part.unit);
  return text + fmt::format("    def forward(self{}):\n{}", arguments, indented(forward.lines(), 8));
}

}  // namespace musacoder::synth
