#include "llm/chat/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "llm/chat/jinja/lexer.h"

namespace musacoder::llm::jinja {
namespace {

constexpr int kMaxDepth = 100;       // of expressions and statements in each other
constexpr int kMaxTreeDepth = 400;   // of an expression's tree: a chain a.b.c… is as deep as it is long

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  Block run() {
    Block program = block({});
    if (!at(TokenKind::kEnd)) fault(fmt::format("unexpected '{}'", now().text));
    return program;
  }

 private:
  // Counts how deep the recursion is.
  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxDepth) parser_.fault("nested too deeply");
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  [[noreturn]] void fault(const std::string& message) const {
    Fault f(message);
    f.line = now().line;
    throw f;
  }

  const Token& now() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool at(TokenKind kind) const { return now().kind == kind; }
  bool is_op(std::string_view op) const { return at(TokenKind::kOperator) && now().text == op; }
  bool is_name(std::string_view name) const { return at(TokenKind::kName) && now().text == name; }
  Token take() { return at(TokenKind::kEnd) ? now() : tokens_[at_++]; }
  bool skip_op(std::string_view op) { return is_op(op) && (take(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (take(), true); }
  void want_op(std::string_view op) {
    if (!skip_op(op)) fault(fmt::format("'{}' is expected, not {}", op, shown()));
  }
  void want(TokenKind kind, const char* what) {
    if (!at(kind)) fault(fmt::format("{} is expected, not {}", what, shown()));
    take();
  }
  std::string want_name() {
    if (!at(TokenKind::kName)) fault(fmt::format("a name is expected, not {}", shown()));
    return take().text;
  }
  std::string shown() const {
    switch (now().kind) {
      case TokenKind::kEnd: return "the template's end";
      case TokenKind::kBlockEnd: return "'%}'";
      case TokenKind::kVariableEnd: return "'}}'";
      case TokenKind::kString: return "a text";
      default: return "'" + now().text + "'";
    }
  }

  ExprPtr make(Expr::Kind kind, std::string name = {}) const {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->line = now().line;
    e->name = std::move(name);
    return e;
  }
  ExprPtr make(Expr::Kind kind, std::string name, ExprPtr first, ExprPtr second = nullptr) const {
    auto e = make(kind, std::move(name));
    e->line = first->line;
    e->items.push_back(std::move(first));
    if (second) e->items.push_back(std::move(second));
    return sealed(std::move(e));
  }
  // A node with all its children.
  ExprPtr sealed(ExprPtr e) const {
    for (const auto& item : e->items)
      if (item) e->depth = std::max(e->depth, item->depth + 1);
    for (const Argument& argument : e->arguments) e->depth = std::max(e->depth, argument.value->depth + 1);
    if (e->depth > kMaxTreeDepth) fault("an expression is nested too deeply");
    return e;
  }

  // ---- statements ----

  // Until a block tag whose name is one of `ends`; that name is the current token then.
  Block block(std::initializer_list<std::string_view> ends) {
    const Deeper deeper(*this);
    Block out;
    for (;;) {
      if (at(TokenKind::kEnd)) {
        if (ends.size() > 0) fault(fmt::format("'{{% {} %}}' is missing", *(ends.end() - 1)));
        return out;
      }
      if (at(TokenKind::kData)) {
        auto s = statement(Stmt::kText);
        s->text = take().text;
        out.push_back(std::move(s));
      } else if (at(TokenKind::kVariableBegin)) {
        take();
        auto s = statement(Stmt::kPrint);
        s->a = tuple();
        want(TokenKind::kVariableEnd, "'}}'");
        out.push_back(std::move(s));
      } else if (at(TokenKind::kBlockBegin)) {
        take();
        for (const std::string_view end : ends)
          if (is_name(end)) return out;
        if (auto s = tag()) out.push_back(std::move(s));
      } else {
        fault(fmt::format("unexpected {}", shown()));
      }
    }
  }

  std::unique_ptr<Stmt> statement(Stmt::Kind kind) const {
    auto s = std::make_unique<Stmt>();
    s->kind = kind;
    s->line = now().line;
    return s;
  }
  void end_tag() { want(TokenKind::kBlockEnd, "'%}'"); }
  void end_block(std::string_view name) {
    if (!skip_name(name)) fault(fmt::format("'{}' is expected, not {}", name, shown()));
    end_tag();
  }

  std::unique_ptr<Stmt> tag() {
    const std::string name = at(TokenKind::kName) ? now().text : "";
    if (name == "if") return if_tag();
    if (name == "for") return for_tag();
    if (name == "set") return set_tag();
    if (name == "macro") return macro_tag();
    if (name == "call") return call_tag();
    if (name == "filter") return filter_tag();
    if (name == "with") return with_tag();
    if (name == "generation") return generation_tag();
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fault(fmt::format("'{}' outside of a loop", name));
      auto s = statement(name == "break" ? Stmt::kBreak : Stmt::kContinue);
      take();
      end_tag();
      return s;
    }
    for (const char* known : {"extends", "block", "include", "import", "from", "do", "autoescape", "trans", "print", "debug"})
      if (name == known) fault(fmt::format("'{{% {} %}}' is not supported in chat templates", name));
    fault(name.empty() ? fmt::format("a statement is expected, not {}", shown()) : fmt::format("'{}' is no statement, or stands where it does not belong", name));
  }

  std::unique_ptr<Stmt> if_tag() {
    const Deeper deeper(*this);
    auto s = statement(Stmt::kIf);
    take();
    s->a = tuple(false);
    end_tag();
    s->body = block({"elif", "else", "endif"});
    if (is_name("elif")) {
      s->otherwise.push_back(if_tag());
    } else if (skip_name("else")) {
      end_tag();
      s->otherwise = block({"endif"});
      end_block("endif");
    } else {
      end_block("endif");
    }
    return s;
  }

  // The target of for, set and with: a name, names with commas, or name.attribute.
  ExprPtr target(bool attributes) {
    const auto one = [&]() -> ExprPtr {
      if (skip_op("(")) {
        auto inner = target(false);
        want_op(")");
        return inner;
      }
      const int line = now().line;
      auto e = make(Expr::kName, want_name());
      e->line = line;
      if (attributes && skip_op(".")) e = make(Expr::kAttribute, want_name(), std::move(e));
      if (loops_ > 0 && e->kind == Expr::kName && e->name == "loop") fault("'loop' cannot be assigned to inside a loop");
      for (const char* word : {"true", "false", "none", "True", "False", "None", "not", "and", "or", "in", "is", "if", "else"})
        if (e->kind == Expr::kName && e->name == word) fault(fmt::format("'{}' cannot be assigned to", word));
      return e;
    };
    auto first = one();
    if (!is_op(",")) return first;
    auto all = make(Expr::kTuple);
    all->items.push_back(std::move(first));
    while (skip_op(",")) {
      if (is_name("in") || is_op("=") || is_op(")")) break;
      all->items.push_back(one());
    }
    return all;
  }

  std::unique_ptr<Stmt> for_tag() {
    auto s = statement(Stmt::kFor);
    take();
    s->target = target(false);
    if (!skip_name("in")) fault(fmt::format("'in' is expected, not {}", shown()));
    s->a = tuple(false);
    if (skip_name("if")) s->b = expression();
    if (is_name("recursive")) fault("recursive loops are not supported");
    end_tag();
    ++loops_;
    s->body = block({"else", "endfor"});
    --loops_;
    if (skip_name("else")) {
      end_tag();
      s->otherwise = block({"endfor"});
    }
    end_block("endfor");
    return s;
  }

  std::unique_ptr<Stmt> set_tag() {
    auto s = statement(Stmt::kSet);
    take();
    s->target = target(true);
    if (skip_op("=")) {
      s->a = tuple();
      end_tag();
      return s;
    }
    s->kind = Stmt::kSetBlock;
    if (is_op("|")) s->a = filters(nullptr);
    end_tag();
    s->body = block({"endset"});
    end_block("endset");
    return s;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> out;
    want_op("(");
    while (!is_op(")")) {
      if (!out.empty()) want_op(",");
      if (is_op(")")) break;
      Parameter p{want_name(), nullptr};
      if (skip_op("=")) p.otherwise = expression();
      else if (!out.empty() && out.back().otherwise) fault(fmt::format("parameter '{}' without a value stands after one with", p.name));
      out.push_back(std::move(p));
    }
    want_op(")");
    return out;
  }

  std::unique_ptr<Stmt> macro_tag() {
    auto s = statement(Stmt::kMacro);
    take();
    s->text = want_name();
    s->parameters = parameters();
    end_tag();
    function_body(*s, "endmacro");
    skip_name("endmacro");
    if (at(TokenKind::kName)) take();   // {% endmacro name %}
    end_tag();
    return s;
  }

  // A body that is a function of its own: break and continue do not reach out of it.
  void function_body(Stmt& s, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const bool varargs = std::exchange(varargs_, false), kwargs = std::exchange(kwargs_, false);
    s.body = block({end});
    s.varargs = std::exchange(varargs_, varargs);
    s.kwargs = std::exchange(kwargs_, kwargs);
    loops_ = loops;
  }

  std::unique_ptr<Stmt> call_tag() {
    auto s = statement(Stmt::kCallBlock);
    take();
    if (is_op("(")) s->parameters = parameters();
    s->a = expression();
    if (s->a->kind != Expr::kCall) fault("a call is expected after 'call'");
    end_tag();
    function_body(*s, "endcall");
    end_block("endcall");
    return s;
  }

  std::unique_ptr<Stmt> filter_tag() {
    auto s = statement(Stmt::kFilterBlock);
    take();
    s->a = filters(nullptr, true);
    end_tag();
    s->body = block({"endfilter"});
    end_block("endfilter");
    return s;
  }

  std::unique_ptr<Stmt> with_tag() {
    auto s = statement(Stmt::kWith);
    take();
    while (!at(TokenKind::kBlockEnd)) {
      if (!s->parameters.empty()) want_op(",");
      std::string name = want_name();
      want_op("=");
      s->parameters.push_back({std::move(name), expression()});
    }
    end_tag();
    s->body = block({"endwith"});
    end_block("endwith");
    return s;
  }

  std::unique_ptr<Stmt> generation_tag() {
    auto s = statement(Stmt::kGeneration);
    take();
    end_tag();
    function_body(*s, "endgeneration");
    end_block("endgeneration");
    return s;
  }

  // ---- expressions, from the loosest to the tightest ----

  bool ends_tuple() const { return at(TokenKind::kVariableEnd) || at(TokenKind::kBlockEnd) || at(TokenKind::kEnd) || is_op(")"); }

  // Expressions with commas between. `conditional`: with "a if b else c"; `brackets`: none at all is a tuple too.
  ExprPtr tuple(bool conditional = true, bool brackets = false) {
    auto all = make(Expr::kTuple);
    bool comma = false;
    for (;;) {
      if (!all->items.empty()) {
        if (!skip_op(",")) break;
        comma = true;
      }
      if (ends_tuple() || is_name("recursive")) break;
      all->items.push_back(conditional ? expression() : or_());
    }
    if (!comma && all->items.size() == 1) return std::move(all->items[0]);
    if (all->items.empty() && !brackets) fault(fmt::format("an expression is expected, not {}", shown()));
    return sealed(std::move(all));
  }

  ExprPtr expression() {
    const Deeper deeper(*this);
    auto e = or_();
    while (skip_name("if")) {
      auto condition = or_();
      auto whole = make(Expr::kConditional, "", std::move(e), std::move(condition));
      whole->items.push_back(skip_name("else") ? expression() : nullptr);
      e = sealed(std::move(whole));
    }
    return e;
  }

  ExprPtr or_() {
    auto e = and_();
    while (skip_name("or")) e = make(Expr::kBinary, "or", std::move(e), and_());
    return e;
  }
  ExprPtr and_() {
    auto e = not_();
    while (skip_name("and")) e = make(Expr::kBinary, "and", std::move(e), not_());
    return e;
  }
  ExprPtr not_() {
    const Deeper deeper(*this);
    if (skip_name("not")) return make(Expr::kUnary, "not", not_());
    return compare_();
  }
  ExprPtr compare_() {
    auto e = sum();
    ExprPtr chain;
    for (;;) {
      std::string op;
      if (at(TokenKind::kOperator) && (now().text == "==" || now().text == "!=" || now().text == "<" || now().text == "<=" || now().text == ">" || now().text == ">=")) op = take().text;
      else if (skip_name("in")) op = "in";
      else if (is_name("not") && next().kind == TokenKind::kName && next().text == "in") take(), take(), op = "not in";
      else break;
      if (!chain) chain = make(Expr::kCompare, "", std::move(e));
      chain->names.push_back(op);
      chain->items.push_back(sum());
    }
    return chain ? sealed(std::move(chain)) : std::move(e);
  }
  ExprPtr sum() {
    auto e = concatenation();
    while (is_op("+") || is_op("-")) {
      const std::string op = take().text;
      e = make(Expr::kBinary, op, std::move(e), concatenation());
    }
    return e;
  }
  ExprPtr concatenation() {
    auto e = product();
    while (skip_op("~")) e = make(Expr::kBinary, "~", std::move(e), product());
    return e;
  }
  ExprPtr product() {
    auto e = power();
    while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
      const std::string op = take().text;
      e = make(Expr::kBinary, op, std::move(e), power());
    }
    return e;
  }
  ExprPtr power() {
    auto e = unary(true);
    while (skip_op("**")) e = make(Expr::kBinary, "**", std::move(e), unary(true));
    return e;
  }
  ExprPtr unary(bool with_filters) {
    const Deeper deeper(*this);
    ExprPtr e;
    if (is_op("-") || is_op("+")) {
      const std::string op = take().text;
      e = make(Expr::kUnary, op, unary(false));
    } else {
      e = primary();
    }
    e = postfix(std::move(e));
    if (!with_filters) return e;
    for (;;) {
      if (is_op("|")) e = filters(std::move(e));
      else if (is_name("is")) e = test(std::move(e));
      else if (is_op("(")) e = call(std::move(e));
      else return e;
    }
  }

  ExprPtr constant(Value value) const {
    auto e = make(Expr::kConstant);
    e->value = std::move(value);
    return e;
  }

  ExprPtr primary() {
    if (at(TokenKind::kName)) {
      const std::string& name = now().text;
      if (name == "true" || name == "True") return take(), constant(Value(true));
      if (name == "false" || name == "False") return take(), constant(Value(false));
      if (name == "none" || name == "None") return take(), constant(Value());
      varargs_ |= name == "varargs";
      kwargs_ |= name == "kwargs";
      auto e = make(Expr::kName, name);
      take();
      return e;
    }
    if (at(TokenKind::kString)) {
      std::string text;
      while (at(TokenKind::kString)) text += take().text;
      return constant(Value(std::move(text)));
    }
    if (at(TokenKind::kInteger)) {
      const std::string digits = now().text;
      std::int64_t value = 0;
      const auto end = digits.data() + digits.size();
      const auto parsed = std::from_chars(digits.data(), end, value);
      if (parsed.ec != std::errc() || parsed.ptr != end) fault(fmt::format("{} does not fit 64 bits", digits));
      take();
      return constant(Value(value));
    }
    if (at(TokenKind::kFloat)) {
      const std::string digits = take().text;
      double value = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return constant(Value(value));
    }
    if (skip_op("(")) {
      auto e = tuple(true, true);
      want_op(")");
      return e;
    }
    if (skip_op("[")) {
      auto e = make(Expr::kList);
      while (!is_op("]")) {
        if (!e->items.empty()) want_op(",");
        if (is_op("]")) break;
        e->items.push_back(expression());
      }
      want_op("]");
      return sealed(std::move(e));
    }
    if (skip_op("{")) {
      auto e = make(Expr::kDict);
      while (!is_op("}")) {
        if (!e->items.empty()) want_op(",");
        if (is_op("}")) break;
        e->items.push_back(expression());
        want_op(":");
        e->items.push_back(expression());
      }
      want_op("}");
      return sealed(std::move(e));
    }
    fault(fmt::format("an expression is expected, not {}", shown()));
  }

  ExprPtr postfix(ExprPtr e) {
    for (;;) {
      if (skip_op(".")) {
        if (at(TokenKind::kInteger)) {
          auto index = primary();
          e = make(Expr::kItem, "", std::move(e), std::move(index));
        } else {
          e = make(Expr::kAttribute, want_name(), std::move(e));
        }
      } else if (skip_op("[")) {
        e = subscript(std::move(e));
      } else if (is_op("(")) {
        e = call(std::move(e));
      } else {
        return e;
      }
    }
  }

  ExprPtr subscript(ExprPtr object) {
    ExprPtr first;
    if (!is_op(":")) first = expression();
    if (skip_op("]")) return make(Expr::kItem, "", std::move(object), std::move(first));
    if (is_op(",")) fault("an index of several parts is not supported");
    auto e = make(Expr::kSlice, "", std::move(object));
    e->items.push_back(std::move(first));
    want_op(":");
    e->items.push_back(is_op(":") || is_op("]") ? nullptr : expression());
    ExprPtr step;
    if (skip_op(":") && !is_op("]")) step = expression();
    e->items.push_back(std::move(step));
    want_op("]");
    return sealed(std::move(e));
  }

  std::vector<Argument> arguments() {
    std::vector<Argument> out;
    want_op("(");
    while (!is_op(")")) {
      if (!out.empty()) want_op(",");
      if (is_op(")")) break;
      Argument argument;
      if (skip_op("**")) argument.unpack = 2;
      else if (skip_op("*")) argument.unpack = 1;
      else if (at(TokenKind::kName) && next().kind == TokenKind::kOperator && next().text == "=") {
        argument.name = take().text;
        take();
      } else if (!out.empty() && !out.back().name.empty()) {
        fault("an argument by position stands after one by name");
      }
      argument.value = expression();
      out.push_back(std::move(argument));
    }
    want_op(")");
    return out;
  }

  ExprPtr call(ExprPtr function) {
    auto e = make(Expr::kCall, "", std::move(function));
    e->arguments = arguments();
    return sealed(std::move(e));
  }

  // `| name(arguments)`, again and again; `bare`: the first has no bar, as in a filter block.
  ExprPtr filters(ExprPtr input, bool bare = false) {
    while (bare || skip_op("|")) {
      bare = false;
      auto e = make(Expr::kFilter);
      e->name = want_name();
      e->items.push_back(std::move(input));
      while (skip_op(".")) e->name += "." + want_name();
      if (is_op("(")) e->arguments = arguments();
      input = sealed(std::move(e));
    }
    return input;
  }

  ExprPtr test(ExprPtr input) {
    take();   // is
    const bool negated = skip_name("not");
    auto e = make(Expr::kTest, want_name(), std::move(input));
    while (skip_op(".")) e->name += "." + want_name();
    const bool word = at(TokenKind::kName) && !is_name("else") && !is_name("or") && !is_name("and");
    if (is_op("(")) {
      e->arguments = arguments();
    } else if (word || at(TokenKind::kString) || at(TokenKind::kInteger) || at(TokenKind::kFloat) || is_op("[") || is_op("{")) {
      if (is_name("is")) fault("tests cannot be chained with 'is'");
      // Jinja takes whatever name follows as the test's argument; only words that begin an operator are left alone.
      if (!is_name("if") && !is_name("in") && !is_name("not") && !is_name("recursive")) {
        Argument argument;
        argument.value = postfix(primary());
        e->arguments.push_back(std::move(argument));
      }
    }
    e = sealed(std::move(e));
    return negated ? make(Expr::kUnary, "not", std::move(e)) : std::move(e);
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
  bool varargs_ = false, kwargs_ = false;   // mentioned in the function that is being read
};

}  // namespace

Block parse_template(std::string_view source) { return Parser(source).run(); }

}  // namespace musacoder::llm::jinja
