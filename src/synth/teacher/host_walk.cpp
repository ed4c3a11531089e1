#include "synth/teacher/host_walk.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace musacoder::synth {
namespace {

using Shape = std::vector<std::int64_t>;

// Inside this file forms that are not known end the walk.
struct Unknown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

bool part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return std::string(text);
}

// Splits at `by` outside of brackets.
std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> all;
  int depth = 0;
  std::string own;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == by && depth == 0) {
      all.push_back(trimmed(own));
      own.clear();
    } else {
      own += c;
    }
  }
  if (!trimmed(own).empty()) all.push_back(trimmed(own));
  return all;
}

std::size_t closing(std::string_view text, std::size_t open) {
  const char a = text[open], b = a == '(' ? ')' : a == '{' ? '}' : ']';
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == a) ++depth;
    if (text[i] == b && --depth == 0) return i;
  }
  throw Unknown("a bracket is not closed");
}

std::int64_t numel(const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t s : shape) n *= s;
  return n;
}

struct Scope {
  std::map<std::string, std::int64_t> numbers;
  std::map<std::string, Shape> tensors;
  std::map<std::string, std::string> texts;       // of variables: how they were written
  std::map<std::string, std::vector<std::int64_t>> dims;  // dim3 variables
};

// Integer expressions of host code.
class Expression {
 public:
  Expression(std::string_view text, const Scope& scope) : text_(text), scope_(scope) {}
  std::int64_t value() {
    const std::int64_t v = choice();
    skip();
    if (at_ != text_.size()) throw Unknown("not an integer expression: " + std::string(text_));
    return v;
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(std::string_view word) {
    skip();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) throw Unknown("expected '" + std::string(word) + "' in " + std::string(text_));
  }
  std::int64_t choice() {
    const std::int64_t condition = comparison();
    if (!take("?")) return condition;
    const std::int64_t yes = choice();
    expect(":");
    const std::int64_t no = choice();
    return condition != 0 ? yes : no;
  }
  std::int64_t comparison() {
    const std::int64_t left = sum();
    if (take("<=")) return left <= sum();
    if (take(">=")) return left >= sum();
    if (take("==")) return left == sum();
    skip();
    if (text_.substr(at_, 2) != "<<" && take("<")) return left < sum();
    if (text_.substr(at_, 2) != ">>" && take(">")) return left > sum();
    return left;
  }
  std::int64_t sum() {
    std::int64_t v = product();
    while (true) {
      if (take("+")) v += product();
      else if (take("-")) v -= product();
      else return v;
    }
  }
  std::int64_t product() {
    std::int64_t v = factor();
    while (true) {
      skip();
      if (take("*")) v *= factor();
      else if (take("/")) v /= divisor();
      else if (take("%")) v %= divisor();
      else return v;
    }
  }
  std::int64_t divisor() {
    const std::int64_t v = factor();
    if (v == 0) throw Unknown("division by zero in " + std::string(text_));
    return v;
  }
  std::string word() {
    skip();
    std::string w;
    while (at_ < text_.size() && (part(text_[at_]) || text_.substr(at_, 2) == "::")) {
      if (text_[at_] == ':') w += text_[at_++];
      w += text_[at_++];
    }
    return w;
  }
  std::int64_t factor() {
    skip();
    if (take("-")) return -factor();
    if (take("(")) {
      const std::int64_t v = choice();
      expect(")");
      return v;
    }
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      std::int64_t v = 0;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) v = v * 10 + (text_[at_++] - '0');
      while (at_ < text_.size() && (text_[at_] == 'L' || text_[at_] == 'u' || text_[at_] == 'U' || text_[at_] == 'l')) ++at_;
      return v;
    }
    const std::string name = word();
    if (name == "static_cast") {
      expect("<");
      while (at_ < text_.size() && text_[at_] != '>') ++at_;
      expect(">");
      expect("(");
      const std::int64_t v = choice();
      expect(")");
      return v;
    }
    if (name == "int" || name == "int64_t") {
      expect("(");
      const std::int64_t v = choice();
      expect(")");
      return v;
    }
    if (name == "sizeof") {
      expect("(");
      const std::string type = word();
      expect(")");
      return type == "double" || type == "int64_t" ? 8 : type == "__half" || type == "__nv_bfloat16" ? 2 : type == "bool" || type == "char" ? 1 : 4;
    }
    if (name == "std::min" || name == "std::max") {
      if (take("<")) {
        word();
        expect(">");
      }
      expect("(");
      const std::int64_t a = choice();
      expect(",");
      const std::int64_t b = choice();
      expect(")");
      return name == "std::min" ? std::min(a, b) : std::max(a, b);
    }
    if (const auto n = scope_.numbers.find(name); n != scope_.numbers.end()) return n->second;
    const auto t = scope_.tensors.find(name);
    if (t == scope_.tensors.end()) throw Unknown("unknown name '" + name + "' in " + std::string(text_));
    expect(".");
    const std::string method = word();
    expect("(");
    if (method == "numel") {
      expect(")");
      return numel(t->second);
    }
    if (method == "dim") {
      expect(")");
      return static_cast<std::int64_t>(t->second.size());
    }
    if (method != "size") throw Unknown("unknown method ." + method);
    if (take(")")) return static_cast<std::int64_t>(t->second.size());  // of a vector of sizes
    std::int64_t d = choice();
    expect(")");
    if (d < 0) d += static_cast<std::int64_t>(t->second.size());
    if (d < 0 || d >= static_cast<std::int64_t>(t->second.size())) throw Unknown("size of an axis that is not there in " + std::string(text_));
    return t->second[static_cast<std::size_t>(d)];
  }

  std::string_view text_;
  const Scope& scope_;
  std::size_t at_ = 0;
};

std::int64_t evaluate(std::string_view text, const Scope& scope) { return Expression(text, scope).value(); }

struct HostFunction {
  std::vector<std::pair<std::string, std::string>> parameters;  // type, name
  std::string body;
};

class Walker {
 public:
  Walker(std::string_view file, const Graph& graph) : file_(file), graph_(graph) {}

  HostWalk walk() {
    constants();
    functions();
    forward();
    return std::move(walk_);
  }

 private:
  void constants() {
    for (std::string_view head : {"constexpr int ", "#define "}) {
      for (std::size_t at = 0; (at = file_.find(head, at)) != std::string_view::npos;) {
        at += head.size();
        const std::size_t end = file_.find_first_of(";\n", at);
        std::string line(file_.substr(at, end - at));
        const std::size_t equals = head[0] == '#' ? line.find(' ') : line.find('=');
        if (equals == std::string::npos) continue;
        try {
          globals_.numbers[trimmed(line.substr(0, equals))] = evaluate(trimmed(line.substr(equals + 1)), globals_);
        } catch (const Unknown&) {
          continue;  // a macro that is no number
        }
      }
    }
  }

  void functions() {
    for (std::string_view head : {"torch::Tensor ", "std::vector<torch::Tensor> "}) {
      for (std::size_t at = 0; (at = file_.find(head, at)) != std::string_view::npos;) {
        at += head.size();
        std::size_t open = at;
        while (open < file_.size() && part(file_[open])) ++open;
        if (open == at || open >= file_.size() || file_[open] != '(') continue;
        const std::string name(file_.substr(at, open - at));
        const std::size_t close = closing(file_, open);
        std::size_t brace = close + 1;
        while (brace < file_.size() && std::isspace(static_cast<unsigned char>(file_[brace])) != 0) ++brace;
        if (brace >= file_.size() || file_[brace] != '{') continue;
        HostFunction function;
        for (const std::string& p : split(file_.substr(open + 1, close - open - 1), ',')) {
          const std::size_t space = p.rfind(' ');
          if (space == std::string::npos) throw Unknown("parameter " + p);
          function.parameters.emplace_back(trimmed(p.substr(0, space)), trimmed(p.substr(space + 1)));
        }
        function.body = std::string(file_.substr(brace + 1, closing(file_, brace) - brace - 1));
        functions_[name] = std::move(function);
      }
    }
  }

  // Shapes of what the function returns.
  std::vector<Shape> call(const std::string& name, const std::vector<std::string>& arguments, const std::map<std::string, Shape>& python) {
    const auto it = functions_.find(name);
    if (it == functions_.end()) throw Unknown("the extension has no function " + name);
    const HostFunction& function = it->second;
    if (function.parameters.size() != arguments.size())
      throw Unknown(fmt::format("{} takes {} arguments, and is given {}", name, function.parameters.size(), arguments.size()));
    Scope scope = globals_;
    for (std::size_t k = 0; k < arguments.size(); ++k) {
      const auto& [type, parameter] = function.parameters[k];
      if (type.find("Tensor") != std::string::npos) scope.tensors[parameter] = tensor(arguments[k], python);
      else if (type.find("double") == std::string::npos && type.find("float") == std::string::npos) scope.numbers[parameter] = number(arguments[k]);
    }
    std::string body;
    for (const std::string& line : split(function.body, '\n')) {
      const std::size_t comment = line.find("//");
      body += line.substr(0, comment) + " ";
    }
    for (std::string statement : split(body, ';')) {
      statement = after_loop(statement, scope);
      if (statement.rfind("return", 0) == 0) {
        std::string what = trimmed(statement.substr(6));
        if (!what.empty() && what[0] == '{') what = what.substr(1, what.size() - 2);
        std::vector<Shape> shapes;
        for (const std::string& one : split(what, ',')) shapes.push_back(host_tensor(one, scope));
        return shapes;
      }
      run(statement, scope);
    }
    throw Unknown(name + " returns nothing");
  }

  // Goes once through the body of `for (int t = from; t < to; ++t) { … }`, and returns the statement behind it.
  std::string after_loop(const std::string& statement, const Scope& scope) {
    if (statement.rfind("for (", 0) != 0) return statement;
    const std::size_t close = closing(statement, 4), open = statement.find('{', close);
    if (open == std::string::npos) throw Unknown("loop " + statement);
    const std::vector<std::string> head = split(statement.substr(5, close - 5), ';');
    const std::size_t equals = head[0].find(" = ");
    if (head.size() != 3 || equals == std::string::npos) throw Unknown("loop " + statement);
    Scope inside = scope;
    const std::string left = head[0].substr(0, equals);
    const std::string variable = left.substr(left.rfind(' ') + 1);
    inside.numbers[variable] = evaluate(head[0].substr(equals + 3), scope);
    if (evaluate(head[1], inside) == 0) throw Unknown("a loop that does nothing: " + statement);
    const std::size_t end = closing(statement, open);
    for (const std::string& own : split(statement.substr(open + 1, end - open - 1), ';')) run(own, inside);
    return after_loop(trimmed(statement.substr(end + 1)), scope);
  }

  Shape host_tensor(const std::string& text, const Scope& scope) const {
    if (const auto it = scope.tensors.find(text); it != scope.tensors.end()) return it->second;
    for (std::string_view maker : {"torch::empty_like(", "torch::zeros_like("})
      if (text.rfind(maker, 0) == 0) return host_tensor(split(text.substr(maker.size(), text.size() - maker.size() - 1), ',')[0], scope);
    for (std::string_view maker : {"torch::empty(", "torch::zeros(", "torch::full("}) {
      if (text.rfind(maker, 0) != 0) continue;
      const std::string shape = split(text.substr(maker.size(), text.size() - maker.size() - 1), ',')[0];
      if (const std::size_t dot = shape.find(".sizes()"); dot != std::string::npos) return host_tensor(shape.substr(0, dot), scope);
      if (const auto own = scope.tensors.find(shape); own != scope.tensors.end()) return own->second;
      if (shape.empty() || shape[0] != '{') throw Unknown("shape " + shape);
      Shape all;
      for (const std::string& d : split(shape.substr(1, shape.size() - 2), ',')) all.push_back(evaluate(d, scope));
      return all;
    }
    if (const std::size_t dot = text.find(".contiguous()"); dot != std::string::npos) return host_tensor(text.substr(0, dot), scope);
    throw Unknown("tensor " + text);
  }

  void run(const std::string& statement, Scope& scope) {
    if (statement.empty() || statement.rfind("TORCH_CHECK", 0) == 0 || statement.rfind("C10_CUDA", 0) == 0 || statement.rfind("AT_", 0) == 0) return;
    if (statement.find("<<<") != std::string::npos) return launch(statement, scope);
    if (const std::size_t at = statement.find("dim3 "); at != std::string::npos && at <= 6) {
      const std::size_t open = statement.find('(');
      const std::string name = trimmed(statement.substr(at + 5, open - at - 5));
      const std::string inside = statement.substr(open + 1, closing(statement, open) - open - 1);
      for (const std::string& d : split(inside, ',')) scope.dims[name].push_back(evaluate(d, scope));
      scope.texts[name] = "(" + inside + ")";
      return;
    }
    const std::size_t equals = statement.find(" = ");
    if (equals == std::string::npos && sizes_shortened(statement, scope)) return;
    if (equals == std::string::npos) throw Unknown("statement " + statement);
    const std::string left = trimmed(statement.substr(0, equals)), right = trimmed(statement.substr(equals + 3));
    if (size_replaced(left, right, scope)) return;
    const std::size_t space = left.rfind(' ');
    const std::string name = space == std::string::npos ? left : left.substr(space + 1);
    if (const std::size_t vec = right.find(".sizes().vec()"); vec != std::string::npos) {
      scope.tensors[name] = host_tensor(right.substr(0, vec), scope);
      return;
    }
    if (right.find("torch::") == 0 || right.find(".contiguous()") != std::string::npos) {
      scope.tensors[name] = host_tensor(right, scope);
      return;
    }
    if (left.find("stream") != std::string::npos || left.find("float") == 0 || left.find("const float") == 0) return;
    if (right.find(".stride(") != std::string::npos) return;  // depends on views; nothing is said of it
    scope.numbers[name] = evaluate(right, scope);
    scope.texts[name] = right;
  }

  // Vectors of sizes: shape.pop_back(), shape.back() = n, shape[shape.size() - 2] = m.
  static bool sizes_shortened(const std::string& statement, Scope& scope) {
    const std::size_t dot = statement.find(".pop_back()");
    const auto it = dot == std::string::npos ? scope.tensors.end() : scope.tensors.find(statement.substr(0, dot));
    if (it == scope.tensors.end() || it->second.empty()) return false;
    it->second.pop_back();
    return true;
  }
  static bool size_replaced(const std::string& left, const std::string& right, Scope& scope) {
    const std::size_t end = left.find_first_of(".[");
    const auto it = end == std::string::npos ? scope.tensors.end() : scope.tensors.find(left.substr(0, end));
    if (it == scope.tensors.end() || it->second.empty()) return false;
    std::int64_t at = static_cast<std::int64_t>(it->second.size()) - 1;
    if (left[end] == '[') at = evaluate(left.substr(end + 1, closing(left, end) - end - 1), scope);
    else if (left.substr(end) != ".back()") return false;
    it->second.at(static_cast<std::size_t>(at)) = evaluate(right, scope);
    return true;
  }

  void launch(const std::string& statement, const Scope& scope) {
    const std::size_t open = statement.find("<<<"), close = statement.find(">>>");
    if (close == std::string::npos) throw Unknown("launch " + statement);
    std::string kernel = trimmed(statement.substr(0, open));
    if (const std::size_t arguments = kernel.find('<'); arguments != std::string::npos) kernel = kernel.substr(0, arguments);
    const std::vector<std::string> config = split(statement.substr(open + 3, close - open - 3), ',');
    if (config.size() < 2) throw Unknown("launch " + statement);
    WalkedLaunch own;
    own.grid = config[0];
    own.block = config[1];
    own.grid_meaning = resolved(config[0], scope);
    own.block_meaning = resolved(config[1], scope);
    own.blocks = volume(config[0], scope);
    own.threads = volume(config[1], scope);
    if (config.size() > 2) own.dynamic_shared = evaluate(config[2], scope);
    own.sizes = scope.numbers;
    own.body = kernel_body(kernel);
    own.static_shared = static_shared(own.body, scope);
    walk_.launches[kernel] = std::move(own);
  }
  static std::string resolved(const std::string& text, const Scope& scope) {
    const auto it = scope.texts.find(text);
    return it == scope.texts.end() ? text : it->second;
  }
  static std::int64_t volume(const std::string& text, const Scope& scope) {
    if (const auto it = scope.dims.find(text); it != scope.dims.end()) return numel(it->second);
    if (text.rfind("dim3(", 0) == 0) {
      std::int64_t n = 1;
      for (const std::string& d : split(text.substr(5, text.size() - 6), ',')) n *= evaluate(d, scope);
      return n;
    }
    return evaluate(text, scope);
  }

  std::string kernel_body(const std::string& kernel) const {
    for (std::size_t at = 0; (at = file_.find(kernel + "(", at)) != std::string_view::npos; ++at) {
      if (at > 0 && part(file_[at - 1])) continue;
      const std::size_t line = file_.rfind("__global__", at);
      if (line == std::string_view::npos || file_.substr(line, at - line).find_first_of(";{}") != std::string_view::npos) continue;
      const std::size_t brace = file_.find('{', closing(file_, at + kernel.size()));
      return std::string(file_.substr(brace, closing(file_, brace) - brace + 1));
    }
    throw Unknown("there is no kernel " + kernel);
  }

  // Bytes of `__shared__ float tile[32][33];`, helpers' own left out.
  static std::int64_t static_shared(const std::string& body, const Scope& scope) {
    std::int64_t bytes = 0;
    for (std::size_t at = 0; (at = body.find("__shared__ ", at)) != std::string::npos;) {
      const bool dynamic = at >= 7 && body.substr(at - 7, 7) == "extern ";
      at += 11;
      if (dynamic) continue;
      const std::size_t end = body.find(';', at);
      const std::string text = body.substr(at, end - at);
      const std::size_t space = text.find(' ');
      for (const std::string& one : split(text.substr(space + 1), ',')) {
        std::int64_t count = evaluate("sizeof(" + text.substr(0, space) + ")", scope);
        for (std::size_t open = 0; (open = one.find('[', open)) != std::string::npos; ++open)
          count *= evaluate(one.substr(open + 1, closing(one, open) - open - 1), scope);
        bytes += count;
      }
    }
    return bytes;
  }

  // Python.
  Shape tensor(const std::string& text, const std::map<std::string, Shape>& python) const {
    std::string base = text;
    std::vector<std::string> methods;
    // The first call ends the path of names.
    const std::size_t open = text.find('(');
    if (open != std::string::npos) {
      const std::size_t dot = text.rfind('.', open);
      if (dot == std::string::npos) throw Unknown("tensor " + text);
      base = text.substr(0, dot);
      for (std::size_t at = dot; at < text.size();) {
        const std::size_t bracket = text.find('(', at);
        const std::size_t end = closing(text, bracket);
        methods.push_back(text.substr(at + 1, end - at));
        at = end + 1;
      }
    }
    Shape shape;
    if (const auto it = python.find(base); it != python.end()) {
      shape = it->second;
    } else if (base.rfind("self.", 0) == 0) {
      const auto value = std::find_if(graph_.values.begin(), graph_.values.end(), [&](const Value& v) { return v.name == base.substr(5) && v.source != Source::kNode; });
      if (value == graph_.values.end()) throw Unknown("the task has no " + base);
      shape = value->type.sizes();
    } else {
      throw Unknown("tensor " + text);
    }
    for (const std::string& method : methods) shape = viewed(shape, method);
    return shape;
  }

  Shape viewed(Shape shape, const std::string& method) const {
    const std::size_t open = method.find('(');
    const std::string name = method.substr(0, open);
    std::vector<std::int64_t> args;
    std::vector<std::string> texts = split(method.substr(open + 1, method.size() - open - 2), ',');
    for (std::string& t : texts) {
      if (const std::size_t equals = t.find('='); equals != std::string::npos) t = trimmed(t.substr(equals + 1));
      if (!t.empty() && t[0] == '(')
        for (const std::string& inner : split(t.substr(1, t.size() - 2), ',')) args.push_back(number(inner));
      else args.push_back(number(t));
    }
    const auto rank = static_cast<std::int64_t>(shape.size());
    const auto place = [&](std::size_t k, std::int64_t of) {
      if (k >= args.size()) throw Unknown("view " + method);
      const std::int64_t d = args[k] < 0 ? args[k] + of : args[k];
      if (d < 0 || d >= of) throw Unknown("view " + method);
      return static_cast<std::ptrdiff_t>(d);
    };
    if (name == "contiguous") return shape;
    if (name == "transpose") {
      std::swap(shape[static_cast<std::size_t>(place(0, rank))], shape[static_cast<std::size_t>(place(1, rank))]);
      return shape;
    }
    if (name == "permute") {
      Shape out;
      for (std::size_t k = 0; k < shape.size(); ++k) out.push_back(shape[static_cast<std::size_t>(place(k, rank))]);
      return out;
    }
    if (name == "unsqueeze") {
      shape.insert(shape.begin() + place(0, rank + 1), 1);
      return shape;
    }
    if (name == "squeeze") {
      shape.erase(shape.begin() + place(0, rank));
      return shape;
    }
    if (name == "select") {
      shape.erase(shape.begin() + place(0, rank));
      return shape;
    }
    if (name == "narrow") {
      shape[static_cast<std::size_t>(place(0, rank))] = args.at(2);
      return shape;
    }
    if (name == "chunk") {
      shape[static_cast<std::size_t>(place(1, rank))] /= args.at(0);
      return shape;
    }
    if (name == "expand") {
      for (std::size_t k = 0; k < shape.size() && k < args.size(); ++k)
        if (args[k] != -1) shape[k] = args[k];
      return shape;
    }
    if (name == "unflatten") {
      const std::ptrdiff_t d = place(0, rank);
      // (-1, factor) or (parts, -1)
      const std::int64_t size = shape[static_cast<std::size_t>(d)], parts = args.at(1), factor = args.at(2);
      shape[static_cast<std::size_t>(d)] = parts == -1 ? size / factor : parts;
      shape.insert(shape.begin() + d + 1, factor == -1 ? size / parts : factor);
      return shape;
    }
    if (name == "flatten") {
      const std::int64_t from = args.empty() ? 0 : place(0, rank), to = args.size() < 2 ? rank - 1 : place(1, rank);
      Shape out(shape.begin(), shape.begin() + from);
      std::int64_t n = 1;
      for (std::int64_t d = from; d <= to; ++d) n *= shape[static_cast<std::size_t>(d)];
      out.push_back(n);
      out.insert(out.end(), shape.begin() + to + 1, shape.end());
      return out;
    }
    throw Unknown("view " + method);
  }

  // An integer as Python sees it: a literal, or an attribute that the task's constructor keeps.
  std::int64_t number(const std::string& text) const {
    if (text.rfind("self.", 0) != 0) return evaluate(text, globals_);
    // self.conv.stride[0]: members keep one number for each axis, whether they were given one or a tuple.
    const std::size_t bracket = text.find('[');
    const std::string path = text.substr(5, bracket == std::string::npos ? bracket : bracket - 5);
    const auto integer = [&](const Attr& attr) {
      if (const auto* i = std::get_if<std::int64_t>(&attr.value)) return *i;
      if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attr.value); list != nullptr && bracket != std::string::npos)
        return list->at(static_cast<std::size_t>(evaluate(text.substr(bracket + 1, text.size() - bracket - 2), globals_)));
      throw Unknown(text + " is no integer");
    };
    if (const std::size_t dot = path.find('.'); dot != std::string::npos) {
      const std::string argument = path.substr(dot + 1);
      for (const Module& m : graph_.modules) {
        if (m.name != path.substr(0, dot)) continue;
        if (const auto it = m.args.find(argument); it != m.args.end()) return integer(it->second);
        // What torch takes where the constructor says nothing.
        if (argument == "stride" || argument == "dilation" || argument == "groups") return 1;
        if (argument == "padding" || argument == "output_padding") return 0;
      }
      throw Unknown("the task has no " + text);
    }
    if (const auto it = graph_.constants.find(path); it != graph_.constants.end()) return it->second;
    for (const Node& n : graph_.nodes)
      for (const auto& [name, attr] : n.attrs)
        if (attr.constant == path) return integer(attr);
    throw Unknown("the task has no " + text);
  }

  void forward() {
    const std::size_t cls = file_.find("class ModelNew");
    const std::size_t def = cls == std::string_view::npos ? cls : file_.find("def forward(self", cls);
    if (def == std::string_view::npos) throw Unknown("there is no ModelNew.forward");
    const std::size_t open = file_.find('(', def), close = closing(file_, open);
    const std::vector<std::string> parameters = split(file_.substr(open + 1, close - open - 1), ',');
    if (parameters.size() != graph_.inputs.size() + 1) throw Unknown("forward takes another number of tensors than the task");
    std::map<std::string, Shape> python;
    for (std::size_t k = 1; k < parameters.size(); ++k)
      python[trimmed(parameters[k].substr(0, parameters[k].find(':')))] = graph_.type(graph_.inputs[k - 1]).sizes();
    const std::size_t body = file_.find('\n', close) + 1;
    std::string pending;
    for (const std::string& line : split_lines(file_.substr(body))) {
      if (line.empty() || line[0] == '#') continue;
      pending += line;
      if (std::count(pending.begin(), pending.end(), '(') != std::count(pending.begin(), pending.end(), ')')) continue;
      const std::string statement = std::move(pending);
      pending.clear();
      if (statement.rfind("return ", 0) == 0) {
        const std::string what = trimmed(statement.substr(7));
        for (const std::string& one : split(what, ','))
          for (Shape& shape : results(one, python)) walk_.outputs.push_back(std::move(shape));
        return;
      }
      const std::size_t equals = statement.find(" = ");
      if (equals == std::string::npos) throw Unknown("statement " + statement);
      const std::vector<std::string> names = split(statement.substr(0, equals), ',');
      std::vector<Shape> shapes = results(trimmed(statement.substr(equals + 3)), python);
      if (shapes.size() == 1)
        for (const std::string& name : names) python[name] = shapes[0];  // chunk: equal parts
      else
        for (std::size_t k = 0; k < names.size(); ++k) python[names[k]] = shapes.at(k);
    }
    throw Unknown("forward returns nothing");
  }
  static std::vector<std::string> split_lines(std::string_view text) {
    std::vector<std::string> all;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = text.find('\n', at);
      if (end == std::string_view::npos) end = text.size();
      all.push_back(trimmed(text.substr(at, end - at)));
      at = end + 1;
    }
    return all;
  }

  std::vector<Shape> results(const std::string& text, const std::map<std::string, Shape>& python) {
    const std::size_t open = text.find('(');
    if (open != std::string::npos) {
      const std::size_t dot = text.rfind('.', open);
      const std::string name = dot == std::string::npos ? text.substr(0, open) : text.substr(dot + 1, open - dot - 1);
      if (functions_.count(name) != 0 && closing(text, open) + 1 == text.size())
        return call(name, split(text.substr(open + 1, text.size() - open - 2), ','), python);
    }
    return {tensor(text, python)};
  }

  std::string_view file_;
  const Graph& graph_;
  Scope globals_;
  std::map<std::string, HostFunction> functions_;
  HostWalk walk_;
};

}  // namespace

Result<HostWalk> walk_host(std::string_view file, const Graph& graph) {
  try {
    return Walker(file, graph).walk();
  } catch (const Unknown& e) {
    return fail(Code::kUnsupported, "the host code cannot be followed: {}", e.what());
  } catch (const std::exception& e) {
    return fail(Code::kUnsupported, "the host code cannot be followed: {}", e.what());
  }
}

}  // namespace musacoder::synth
