#include "synth/graph/print.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>
#include <vector>

#include "synth/graph/modules.h"
#include "synth/graph/ops.h"
#include "synth/graph/python_text.h"
#include "synth/seeded.h"

namespace musacoder::synth {
namespace {

std::vector<std::string> identifiers(const std::string& expression) {
  std::vector<std::string> all;
  std::string word;
  for (char c : expression + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
      continue;
    }
    if (!word.empty() && !std::isdigit(static_cast<unsigned char>(word[0]))) all.push_back(word);
    word.clear();
  }
  return all;
}

std::string dim_text(const Dim& dim) { return dim.name.empty() ? std::to_string(dim.size) : dim.name; }

std::string dims_text(const std::vector<Dim>& dims) {
  std::string text;
  for (const Dim& d : dims) text += (text.empty() ? "" : ", ") + dim_text(d);
  return text;
}

class Printer {
 public:
  Printer(const Graph& graph, const PrintStyle& style) : graph_(graph), style_(style), draw_(mix(style.seed, "print")) {}

  InitText init() {
    collect_constants();
    InitText text;
    text.arguments = arguments_text();
    std::string body = state_text();
    for (const std::string& name : members_) body += fmt::format("        self.{} = {}\n", name, name);
    for (std::size_t at = 0; at < body.size(); at = body.find('\n', at) + 1) body.erase(at, 8);
    text.body = std::move(body);
    return text;
  }

  std::string file(std::string_view summary) {
    collect_constants();
    const std::string model = model_text(summary);
    const std::string constants = constants_text();
    std::string text = "import torch\nimport torch.nn as nn\n";
    if (functional_) text += "import torch.nn.functional as F\n";
    text += "\n";
    if (style_.constants_first && !constants.empty()) text += constants + "\n";
    text += "\n" + model + "\n\n";
    if (!style_.constants_first && !constants.empty()) text += constants + "\n\n";
    return text + inputs_text() + "\n\n" + init_inputs_text();
  }

 private:
  void note(const std::string& name) {
    if (name.empty() || std::count(order_.begin(), order_.end(), name) != 0) return;
    order_.push_back(name);
  }
  void note_init(const std::string& name) {
    note(name);
    if (std::count(init_.begin(), init_.end(), name) == 0) init_.push_back(name);
  }

  // Constants in the order in which the file needs them, and those that travel through get_init_inputs.
  void collect_constants() {
    for (int v : graph_.inputs) {
      const Value& value = graph_.values[static_cast<std::size_t>(v)];
      for (const Dim& d : value.type.dims)
        for (const std::string& name : identifiers(d.name)) note(name);
      for (const std::string& name : identifiers(value.limit.name)) note(name);
    }
    for (const Module& module : graph_.modules)
      for (const char* name : positional(module))
        for (const std::string& id : identifiers(module.args.at(name).constant)) attr_constant(id, module.args.at(name));
    for (const Value& value : graph_.values)
      if (value.source != Source::kInput && value.source != Source::kNode && value.module < 0) {
        const bool whole = has_shape_argument(value);
        for (const Dim& d : value.type.dims)
          for (const std::string& name : identifiers(d.name)) whole ? note(name) : note_init(name);
        if (!whole) continue;
        const std::string dims = dims_text(value.type.dims), name = value.name + "_shape";
        values_.emplace(name, value.type.rank() == 1 ? "(" + dims + ",)" : "(" + dims + ")");
        types_.emplace(name, "tuple");
        note_init(name);
      }
    for (const Node& node : graph_.nodes)
      if (node.module < 0)
        for (const auto& [name, attr] : node.attrs)
          for (const std::string& id : identifiers(attr.constant)) {
            attr_constant(id, attr);
            if (std::count(members_.begin(), members_.end(), id) == 0) members_.push_back(id);
          }
  }
  void attr_constant(const std::string& id, const Attr& attr) {
    if (graph_.constants.count(id) == 0) {
      values_.emplace(id, python_value(attr.value));
      static const char* const kTypes[] = {"bool", "int", "float", "str", "tuple"};
      types_.emplace(id, kTypes[attr.value.index()]);
    }
    note_init(id);
  }
  // A parameter of the Model itself whose shape is an argument of the constructor.
  bool has_shape_argument(const Value& value) const {
    return graph_.constructor.shape_arguments && value.source == Source::kParameter && value.type.rank() > 0 && value.layout == Layout::kContiguous &&
           (value.fill == Fill::kNormal || value.fill == Fill::kUniform || value.fill == Fill::kNearOne || value.fill == Fill::kSmall);
  }
  // The last arguments, as many as the constructor says, that are no sizes.
  bool has_default(const std::string& name) const {
    for (std::size_t k = 0; k < init_.size() && static_cast<int>(k) < graph_.constructor.defaults; ++k) {
      const std::string& last = init_[init_.size() - 1 - k];
      const auto type = types_.find(last);
      if (type == types_.end() || (type->second == "tuple" && last.ends_with("_shape"))) return false;
      if (last == name) return true;
    }
    return false;
  }
  bool in_place(const std::string& name) const { return style_.init_literals && types_.count(name) != 0 && !name.ends_with("_shape"); }
  std::string arguments_text() const {
    std::string text;
    for (const std::string& name : init_) {
      const auto type = types_.find(name);
      text += ", " + name;
      if (graph_.constructor.annotated) text += ": " + (type == types_.end() ? "int" : type->second);
      if (has_default(name)) text += (graph_.constructor.annotated ? " = " : "=") + values_.at(name);
    }
    return text;
  }

  // The constructor's arguments: by position, then by keyword, in the order of the table and then of the alphabet.
  static std::vector<const char*> positional(const Module& module) {
    std::vector<const char*> names;
    if (const ModuleInfo* info = find_module(module.kind))
      for (const char* name : info->positional)
        if (module.args.count(name) != 0) names.push_back(name);
    for (const auto& [name, attr] : module.args)
      if (std::none_of(names.begin(), names.end(), [&](const char* n) { return name == n; })) names.push_back(name.c_str());
    return names;
  }

  std::string module_text(const Module& module) const {
    const ModuleInfo* info = find_module(module.kind);
    std::string args;
    std::size_t place = 0;
    bool keyword = false;
    for (const char* name : positional(module)) {
      const Attr& attr = module.args.at(name);
      std::string value = attr.constant.empty() ? python_value(attr.value) : attr.constant;
      if (std::string_view(name) == "dtype") value = "torch." + std::get<std::string>(attr.value);
      if (std::string_view(name) == "kernel_size" && graph_.constructor.spread_kernel && !attr.constant.empty() && std::holds_alternative<std::int64_t>(attr.value)) {
        if (module.kind.find("2d") != std::string::npos) value = fmt::format("({0}, {0})", value);
        if (module.kind.find("3d") != std::string::npos) value = fmt::format("({0}, {0}, {0})", value);
      }
      if (static_cast<int>(place) >= graph_.constructor.keywords_from) keyword = true;
      if (info == nullptr || place >= info->positional.size() || std::string_view(info->positional[place]) != name) keyword = true;
      ++place;
      args += (args.empty() ? "" : ", ") + (keyword ? fmt::format("{}={}", name, value) : value);
    }
    return fmt::format("nn.{}({})", module.kind, args);
  }

  std::string tensor_text(const Value& value) const {
    const TensorType& type = value.type;
    std::vector<Dim> dims = type.dims;
    if (value.source == Source::kParameter && has_shape_argument(value)) dims = {{1, value.name + "_shape"}};
    if (value.layout == Layout::kTransposed) std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    if (value.layout == Layout::kExpanded && !dims.empty()) dims[0] = literal(1);
    std::string shape = dims_text(dims);
    if (value.layout == Layout::kSliced && !dims.empty()) {
      dims.back().name = "2 * " + dim_text(dims.back());
      shape = dims_text(dims);
    }
    const std::string tuple = dims.size() == 1 ? "(" + shape + ",)" : "(" + shape + ")";
    const std::string dtype = type.dtype == DType::kF32 ? "" : fmt::format(", dtype=torch.{}", dtype_name(type.dtype));
    const std::string plain_normal = fmt::format("torch.randn({}{})", shape, dtype);
    const std::string plain_uniform = fmt::format("torch.rand({}{})", shape, dtype);
    std::string text;
    bool sum = false;
    switch (value.fill) {
      case Fill::kNormal: text = plain_normal; break;
      case Fill::kUniform: text = plain_uniform; break;
      case Fill::kPositive: text = plain_uniform + " + 0.5"; sum = true; break;
      case Fill::kSigned: text = plain_uniform + " * 2 - 1"; sum = true; break;
      case Fill::kWide: text = plain_normal + " * 8"; sum = true; break;
      case Fill::kProbability: text = fmt::format("torch.softmax({}, dim=-1)", plain_normal); break;
      case Fill::kIndex: text = fmt::format("torch.randint(0, {}, {})", dim_text(value.limit), tuple); break;
      case Fill::kInteger: {
        const bool u8 = type.dtype == DType::kU8;
        const std::string kind = type.dtype == DType::kI64 ? "" : dtype;
        text = fmt::format("torch.randint({}, {}, {}{})", u8 ? "0" : "-" + dim_text(value.limit), dim_text(value.limit), tuple, kind);
        break;
      }
      case Fill::kMask: text = fmt::format("torch.rand({}) > 0.5", shape); sum = true; break;
      case Fill::kSign: text = fmt::format("torch.where(torch.rand({}) > 0.5, 1.0, -1.0)", shape); break;
      case Fill::kNearOne: text = "1.0 + 0.1 * " + plain_normal; sum = true; break;
      case Fill::kSmall: text = "0.1 * " + plain_normal; sum = true; break;
    }
    if (value.layout == Layout::kContiguous) return text;
    if (sum) text = "(" + text + ")";
    if (value.layout == Layout::kTransposed) return text + ".transpose(-2, -1)";
    if (value.layout == Layout::kSliced) return text + "[..., ::2]";
    return text + ".expand(" + dims_text(type.dims) + ")";
  }

  std::string constants_text() const {
    std::string text;
    for (const std::string& name : order_) {
      if (has_default(name) || in_place(name)) continue;
      const auto size = graph_.constants.find(name);
      const auto other = values_.find(name);
      text += fmt::format("{} = {}\n", name, size != graph_.constants.end() ? std::to_string(size->second)
                                             : other != values_.end()     ? other->second
                                                                          : "1");
    }
    return text;
  }

  std::string inputs_text() const {
    std::string text = "def get_inputs():\n";
    std::string names;
    const bool direct = graph_.inputs.size() == 1 || style_.nested;
    for (int v : graph_.inputs) {
      const Value& value = graph_.values[static_cast<std::size_t>(v)];
      if (!direct) text += fmt::format("    {} = {}\n", value.name, tensor_text(value));
      names += (names.empty() ? "" : ", ") + (direct ? tensor_text(value) : value.name);
    }
    return text + "    return [" + names + "]\n";
  }

  std::string init_inputs_text() const {
    std::string names;
    for (const std::string& name : init_)
      if (!has_default(name)) names += (names.empty() ? "" : ", ") + (in_place(name) ? values_.at(name) : name);
    return "def get_init_inputs():\n    return [" + names + "]\n";
  }

  std::string state_text() {
    std::string text;
    for (const Module& module : graph_.modules) text += fmt::format("        self.{} = {}\n", module.name, module_text(module));
    for (const Value& value : graph_.values) {
      if (value.source == Source::kInput || value.source == Source::kNode || value.module >= 0) continue;
      text += value.source == Source::kParameter
                  ? fmt::format("        self.{} = nn.Parameter({})\n", value.name, tensor_text(value))
                  : fmt::format("        self.register_buffer(\"{}\", {})\n", value.name, tensor_text(value));
    }
    return text;
  }

  std::string model_text(std::string_view summary) {
    const std::string forward = forward_text();
    std::string setup = state_text();
    // What only nn members are made of is mostly not kept by the model itself.
    for (const std::string& name : members_)
      if (style_.seed % 4 == 0 || reads_member(forward, name)) setup += fmt::format("        self.{} = {}\n", name, name);
    for (const auto& [member, text] : stateless_) setup += fmt::format("        self.{} = {}\n", member, text);
    std::string text = "class Model(nn.Module):\n";
    if (style_.docstring_in_class) text += fmt::format("    \"\"\"\n    {}\n    \"\"\"\n\n", summary);
    if (!setup.empty() || style_.old_super) {
      text += fmt::format("    def __init__(self{}):\n        {}\n{}\n", arguments_text(),
                          style_.old_super ? "super(Model, self).__init__()" : "super().__init__()", setup);
    }
    return text + forward;
  }

  static bool reads_member(const std::string& text, const std::string& name) {
    const std::string wanted = "self." + name;
    for (std::size_t at = 0; (at = text.find(wanted, at)) != std::string::npos; at += wanted.size()) {
      const char next = at + wanted.size() < text.size() ? text[at + wanted.size()] : '\0';
      if (std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_') return true;
    }
    return false;
  }

  std::string forward_text() {
    std::string header = "    def forward(self";
    for (int v : graph_.inputs) header += ", " + graph_.values[static_cast<std::size_t>(v)].name + (style_.hints ? ": torch.Tensor" : "");
    header += style_.hints && graph_.outputs.size() == 1 ? ") -> torch.Tensor:\n" : "):\n";
    std::string doc;
    if (style_.document_arguments) {
      doc = "        \"\"\"\n        Args:\n";
      for (int v : graph_.inputs) {
        const Value& value = graph_.values[static_cast<std::size_t>(v)];
        doc += fmt::format("            {}: tensor of shape ({}), {}\n", value.name, dims_text(value.type.dims), dtype_name(value.type.dtype));
      }
      doc += "\n        Returns:\n";
      for (int v : graph_.outputs) {
        std::string sizes;
        for (std::int64_t s : graph_.type(v).sizes()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(s);
        doc += fmt::format("            tensor of shape ({}), {}\n", sizes, dtype_name(graph_.type(v).dtype));
      }
      doc += "        \"\"\"\n";
    }
    return header + doc + body_text();
  }

  // Text of a value where it is used.
  std::string use(int value) {
    const auto it = text_.find(value);
    if (it != text_.end()) return it->second;
    const Value& v = graph_.values[static_cast<std::size_t>(value)];
    if (v.source == Source::kInput) return v.name;
    return "self." + v.name;
  }

  std::string attr_text(const Node&, const Attr& attr) const {
    return attr.constant.empty() ? python_value(attr.value) : "self." + attr.constant;
  }

  std::string call(std::size_t index) {
    const Node& node = graph_.nodes[index];
    if (node.module >= 0) {
      // Parameters follow the tensors that forward passes on.
      std::vector<std::string> passed;
      for (int v : node.inputs)
        if (graph_.values[static_cast<std::size_t>(v)].module != node.module) passed.push_back(use(v));
      const Module& module = graph_.modules[static_cast<std::size_t>(node.module)];
      return fmt::format("self.{}({})", module.name, fill_template(find_module(module.kind)->arguments, passed, {}, {}));
    }
    if (node.op == "select" && style_.symbols) return subscript(node);
    const OpInfo* info = find_op(node.op);
    std::vector<std::string> operands;
    for (int v : node.inputs) operands.push_back(use(v));
    if (const auto it = node.attrs.find("scalar"); it != node.attrs.end()) {
      const std::string number = attr_text(node, it->second);
      node.flag("reversed") ? void(operands.insert(operands.begin(), number)) : operands.push_back(number);
    }
    const auto texts = [&](const Node& n) {
      std::map<std::string, std::string> all;
      for (const auto& [name, attr] : n.attrs) all[name] = attr_text(n, attr);
      return all;
    };
    const Spelling& s = info->spelling;
    const bool plain = std::all_of(node.attrs.begin(), node.attrs.end(),
                                   [](const auto& a) { return a.first == "scalar" || a.first == "reversed"; });
    const bool symbol = s.symbol[0] != '\0' && plain && (style_.symbols || node.flag("reversed") || s.function[0] == '\0');
    std::vector<const char*> preference;
    if (symbol) preference.push_back(s.symbol);
    switch (style_.calls) {
      case PrintStyle::Calls::kFunctions: preference.insert(preference.end(), {s.function, s.functional, s.method}); break;
      case PrintStyle::Calls::kFunctional: preference.insert(preference.end(), {s.functional, s.function, s.method}); break;
      case PrintStyle::Calls::kMethods: preference.insert(preference.end(), {s.method, s.function, s.functional}); break;
      case PrintStyle::Calls::kMembers: preference.insert(preference.end(), {s.module, s.function, s.functional, s.method}); break;
    }
    const char* chosen = *std::find_if(preference.begin(), preference.end(), [](const char* p) { return p[0] != '\0'; });
    const std::string text = fill_template(chosen, operands, node.attrs, texts(node));
    if (chosen == s.module && chosen != s.symbol) {
      const std::string member = stateless_member(node.op, text);
      std::string args;
      for (const std::string& o : operands) args += (args.empty() ? "" : ", ") + o;
      return fmt::format("self.{}({})", member, args);
    }
    functional_ = functional_ || text.find("F.") != std::string::npos;
    return text;
  }

  // x[-1], x[:, -1] or x[:, -1, :]
  std::string subscript(const Node& node) {
    const int rank = graph_.type(node.inputs[0]).rank(), at = static_cast<int>((node.integer("axis") + rank) % rank);
    std::string places;
    for (int d = 0; d < at; ++d) places += ":, ";
    places += attr_text(node, node.attrs.at("index"));
    for (int d = at + 1; d < rank && at > 0 && style_.seed % 3 != 0; ++d) places += ", :";
    return fill_template("{0}[" + places + "]", {use(node.inputs[0])}, {}, {});
  }

  std::string stateless_member(const std::string& op, const std::string& text) {
    // In __init__ the constants are arguments.
    std::string own = text;
    for (std::size_t at; (at = own.find("self.")) != std::string::npos;) own.erase(at, 5);
    for (const auto& [member, known] : stateless_)
      if (known == own) return member;
    std::string name = op;
    for (int k = 2; taken_member(name); ++k) name = op + std::to_string(k);
    stateless_.emplace_back(name, own);
    return name;
  }
  bool taken_member(const std::string& name) const {
    return std::any_of(stateless_.begin(), stateless_.end(), [&](const auto& m) { return m.first == name; }) ||
           std::any_of(graph_.modules.begin(), graph_.modules.end(), [&](const Module& m) { return m.name == name; }) ||
           std::any_of(graph_.values.begin(), graph_.values.end(), [&](const Value& v) { return v.name == name; }) ||
           std::count(members_.begin(), members_.end(), name) != 0;
  }

  bool dead_after(int value, std::size_t node) const {
    if (graph_.is_output(value)) return false;
    const std::vector<int> users = graph_.users(value);
    return std::all_of(users.begin(), users.end(), [&](int u) { return static_cast<std::size_t>(u) <= node; });
  }

  // Whether forward goes on with the first result alone.
  bool one_result(const Node& node) const {
    return std::all_of(node.outputs.begin() + 1, node.outputs.end(), [&](int v) { return graph_.users(v).empty() && !graph_.is_output(v); });
  }
  // How the results of an nn member are taken apart; "" where there is one.
  const char* results_of(const Node& node) const {
    if (node.module < 0) return "";
    const char* results = find_module(graph_.modules[static_cast<std::size_t>(node.module)].kind)->results;
    return std::string_view(results) == "{0}" ? "" : results;
  }

  std::string local(const Node& node, std::size_t index, std::size_t result) {
    static const std::vector<std::vector<std::string>> kStates = {{"out", "output", "seq"}, {"h_n", "hn", "hidden"}, {"c_n", "cn", "cell"}};
    if (node.op == "gru" || node.op == "lstm")
      if (const std::string& name = kStates[result][style_.seed % 3]; fresh(name)) return name;
    if (style_.rebind && node.outputs.size() == 1)
      for (int v : node.inputs) {
        const auto known = text_.find(v);
        const bool variable = graph_.values[static_cast<std::size_t>(v)].source == Source::kInput || locals_.count(v) != 0;
        if (variable && dead_after(v, index)) return known == text_.end() ? use(v) : known->second;
      }
    static const std::vector<std::vector<std::string>> kPools = {{"y", "z", "u", "w", "s"}, {"h", "out", "res", "tmp", "acc"}, {"t", "a1", "b1", "c1", "d1"}};
    const std::vector<std::string>& pool = kPools[style_.seed % kPools.size()];
    for (const std::string& name : pool)
      if (fresh(name)) return name;
    for (int k = 1;; ++k)
      if (const std::string name = pool[0] + std::to_string(k); fresh(name)) return name;
  }
  bool fresh(const std::string& name) {
    if (std::any_of(graph_.values.begin(), graph_.values.end(), [&](const Value& v) { return v.name == name; })) return false;
    return used_.insert(name).second;
  }

  std::string body_text() {
    std::string text;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const std::string expression = call(n);
      const std::string_view results = results_of(node);
      const bool single = node.outputs.size() == 1 || (!results.empty() && one_result(node));
      const bool once = single && graph_.users(node.outputs[0]).size() == 1 && !graph_.is_output(node.outputs[0]);
      const std::vector<int> users = graph_.users(node.outputs[0]);
      const bool twice_there = once && std::count(graph_.nodes[static_cast<std::size_t>(users[0])].inputs.begin(),
                                                  graph_.nodes[static_cast<std::size_t>(users[0])].inputs.end(), node.outputs[0]) > 1;
      const bool last = n + 1 == graph_.nodes.size() && graph_.outputs.size() == 1 && graph_.outputs[0] == node.outputs[0];
      if ((last && single && (style_.nested || !style_.rebind)) || (style_.nested && once && !twice_there && expression.size() < 60)) {
        text_[node.outputs[0]] = expression + (results.empty() ? "" : "[0]");
        continue;
      }
      std::string names;
      std::vector<std::pair<int, std::string>> made;
      std::vector<std::string> taken;
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        const int v = node.outputs[k];
        const bool unused = graph_.users(v).empty() && !graph_.is_output(v);
        taken.push_back(unused ? "_" : local(node, n, k));
        names += (names.empty() ? "" : ", ") + taken.back();
        made.emplace_back(v, taken.back());
      }
      if (!results.empty()) {
        names = fill_template(results, taken, {}, {});
        if (const std::size_t none = names.find("(_, _)"); none != std::string::npos) names.replace(none, 6, "_");
      }
      for (const auto& [v, name] : made) {
        text_[v] = name;
        locals_.insert(v);
      }
      text += fmt::format("        {} = {}\n", names, expression);
    }
    std::string result;
    for (int v : graph_.outputs) result += (result.empty() ? "" : ", ") + use(v);
    return text + "        return " + result + "\n";
  }

  const Graph& graph_;
  const PrintStyle& style_;
  Seeded draw_;
  std::vector<std::string> order_, init_, members_;
  std::map<std::string, std::string> values_, types_;  // of constants that are no sizes
  std::vector<std::pair<std::string, std::string>> stateless_;
  std::map<int, std::string> text_;
  std::set<int> locals_;
  std::set<std::string> used_;
  bool functional_ = false;
};

}  // namespace

PrintStyle style_of(std::uint64_t seed) {
  Seeded draw(mix(seed, "print style"));
  PrintStyle style;
  style.calls = draw.choose({PrintStyle::Calls::kFunctions, PrintStyle::Calls::kFunctions, PrintStyle::Calls::kFunctional,
                             PrintStyle::Calls::kMethods, PrintStyle::Calls::kMembers});
  style.symbols = draw.chance(0.75);
  style.hints = draw.chance(0.5);
  style.docstring_in_class = draw.chance(0.8);
  style.document_arguments = draw.chance(0.4);
  style.constants_first = draw.chance(0.25);
  style.nested = draw.chance(0.25);
  style.rebind = !style.nested && draw.chance(0.7);
  style.old_super = draw.chance(0.5);
  style.init_literals = draw.chance(0.2);
  style.seed = draw.next();
  return style;
}

InitText init_text(const Graph& graph) {
  const PrintStyle style;
  return Printer(graph, style).init();
}

std::string print_task(const Graph& graph, const PrintStyle& style, std::string_view summary) {
  return Printer(graph, style).file(summary);
}

}  // namespace musacoder::synth
