#include "llm/chat/jinja/interpreter.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "llm/chat/jinja/builtins.h"

namespace musacoder::llm::jinja {

// One level down, for as long as it lives.
class Interpreter::Deeper {
 public:
  explicit Deeper(Budget& budget) : budget_(budget) {
    budget_.step();
    if (--budget_.depth < 0) {
      ++budget_.depth;
      throw Fault("the template is nested too deeply");
    }
  }
  ~Deeper() { ++budget_.depth; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Budget& budget_;
};

Interpreter::Interpreter(const Value& context, Budget& budget, double now_s) : globals_(std::make_shared<Scope>()), budget_(budget), now_s_(now_s) {
  for (const auto& [key, value] : context.as_dict()) globals_->names[key.as_string()] = value;
}

void Interpreter::run(const Block& program, std::string& out) {
  main_ = &out;
  auto scope = std::make_shared<Scope>();
  scope->outer = globals_;
  block(program, scope, out);
  scope->names.clear();   // macros hold their scope, and the scope them
}

void Interpreter::put(std::string_view text, std::string& out) {
  budget_.make(text.size());
  out.append(text);
}

Interpreter::Flow Interpreter::block(const Block& statements, const ScopePtr& scope, std::string& out) {
  for (const auto& s : statements)
    if (const Flow flow = statement(*s, scope, out); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

namespace {

ScopePtr inside(const ScopePtr& outer) {
  auto scope = std::make_shared<Scope>();
  scope->outer = outer;
  return scope;
}

}  // namespace

Interpreter::Flow Interpreter::statement(const Stmt& s, const ScopePtr& scope, std::string& out) try {
  const Deeper deeper(budget_);
  switch (s.kind) {
    case Stmt::kText: put(s.text, out); break;
    case Stmt::kPrint: put(str(evaluate(*s.a, scope)), out); break;
    case Stmt::kIf: return block(truthy(evaluate(*s.a, scope)) ? s.body : s.otherwise, scope, out);
    case Stmt::kFor: loop(s, scope, out); break;
    case Stmt::kSet: set(*s.target, evaluate(*s.a, scope), scope); break;
    case Stmt::kSetBlock: {
      std::string text;
      const Flow flow = block(s.body, inside(scope), text);
      if (flow != Flow::kNext) return flow;
      const Value made(std::move(text));
      set(*s.target, s.a ? filter(*s.a, scope, &made) : made, scope);
      break;
    }
    case Stmt::kMacro: scope->names[s.text] = macro(s, scope); break;
    case Stmt::kCallBlock: call_block(s, scope, out); break;
    case Stmt::kFilterBlock: {
      std::string text;
      const Flow flow = block(s.body, inside(scope), text);
      if (flow != Flow::kNext) return flow;
      const Value made(std::move(text));
      put(str(filter(*s.a, scope, &made)), out);
      break;
    }
    case Stmt::kWith: {
      auto inner = inside(scope);
      for (const Parameter& p : s.parameters) inner->names[p.name] = evaluate(*p.otherwise, scope);
      return block(s.body, inner, out);
    }
    case Stmt::kGeneration: {
      std::string text;
      block(s.body, inside(scope), text);
      const std::size_t begin = main_->size();
      generations.push_back({begin, begin + text.size()});
      put(text, out);
      break;
    }
    case Stmt::kBreak: return Flow::kBreak;
    case Stmt::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
} catch (Fault& fault) {
  if (fault.line == 0) fault.line = s.line;
  throw;
}

void Interpreter::loop(const Stmt& s, const ScopePtr& scope, std::string& out) {
  List items = iterate(evaluate(*s.a, scope), budget_);
  if (s.b) {
    List kept;
    for (Value& item : items) {
      auto inner = inside(scope);
      set(*s.target, item, inner);
      if (truthy(evaluate(*s.b, inner))) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    block(s.otherwise, inside(scope), out);
    return;
  }
  const auto n = static_cast<std::int64_t>(items.size());
  // What cycle() and changed() know; a template may keep them for longer than the loop lasts.
  struct State {
    std::size_t at = 0;
    Value last = Value::undefined("");
  };
  auto state = std::make_shared<State>();
  const Value cycle = Value::callable("cycle", [state](Call& c) -> Value {
    if (c.positional.empty()) throw Fault("cycle() needs values");
    return c.positional[state->at % c.positional.size()];
  });
  const Value changed = Value::callable("changed", [state](Call& c) {
    const Value now = Value::tuple(c.positional);
    const bool is_new = !equal(std::exchange(state->last, now), now);
    return Value(is_new);
  });
  for (std::int64_t at = 0; at < n; ++at) {
    budget_.step(4);
    const auto i = static_cast<std::size_t>(at);
    state->at = i;
    auto inner = inside(scope);
    inner->names["loop"] = Value::name_space({
        {Value("index"), Value(at + 1)}, {Value("index0"), Value(at)}, {Value("revindex"), Value(n - at)}, {Value("revindex0"), Value(n - at - 1)},
        {Value("first"), Value(at == 0)}, {Value("last"), Value(at + 1 == n)}, {Value("length"), Value(n)}, {Value("depth"), Value(1)},
        {Value("depth0"), Value(0)}, {Value("previtem"), at > 0 ? items[i - 1] : Value::undefined("there is no previous item")},
        {Value("nextitem"), at + 1 < n ? items[i + 1] : Value::undefined("there is no next item")}, {Value("cycle"), cycle}, {Value("changed"), changed},
    });
    set(*s.target, items[i], inner);
    const Flow flow = block(s.body, inner, out);
    inner->names.clear();
    if (flow == Flow::kBreak) break;
  }
}

namespace {

// A namespace that could reach itself would never be freed.
bool holds_state(const Value& v, Budget& budget) {
  budget.step();
  if (v.is(Kind::kNamespace) || v.is(Kind::kCallable)) return true;
  if (v.is_sequence())
    for (const Value& item : v.as_list())
      if (holds_state(item, budget)) return true;
  if (v.is_mapping())
    for (const auto& [key, item] : v.as_dict())
      if (holds_state(item, budget)) return true;
  return false;
}

}  // namespace

void Interpreter::set(const Expr& target, const Value& value, const ScopePtr& scope) {
  if (target.kind == Expr::kName) {
    scope->names[target.name] = value;
  } else if (target.kind == Expr::kAttribute) {
    const Value object = evaluate(*target.items[0], scope);
    if (!object.is(Kind::kNamespace)) throw Fault(fmt::format("cannot assign attribute '{}' of a {}: only a namespace takes one", target.name, type_name(object)));
    if (target.name.rfind('_', 0) == 0) throw Fault(fmt::format("a namespace cannot have '{}': it begins with an underscore", target.name));
    if (holds_state(value, budget_)) throw Fault("a namespace takes values, not functions or namespaces");
    object.set(Value(target.name), value);
  } else {
    const List items = iterate(value, budget_);
    if (items.size() != target.items.size()) throw Fault(fmt::format("{} values for {} names", items.size(), target.items.size()));
    for (std::size_t i = 0; i < items.size(); ++i) set(*target.items[i], items[i], scope);
  }
}

Value Interpreter::macro(const Stmt& s, const ScopePtr& scope) {
  // A weak hold: the scope that a macro stands in outlives every call of it, and a strong one would be a circle.
  return Value::callable(s.text.empty() ? "caller" : s.text, [this, &s, weak = std::weak_ptr<Scope>(scope)](Call& call) {
    const ScopePtr outer = weak.lock();
    if (!outer) throw Fault(fmt::format("{}() is called where what it stood in is gone", call.name));
    return run_macro(s, outer, call);
  });
}

Value Interpreter::run_macro(const Stmt& s, const ScopePtr& outer, Call& call) {
  const Deeper deeper(budget_);
  auto scope = inside(outer);
  std::vector<bool> taken(call.named.size());
  for (std::size_t i = 0; i < s.parameters.size(); ++i) {
    const Parameter& p = s.parameters[i];
    const Value* given = i < call.positional.size() ? &call.positional[i] : nullptr;
    for (std::size_t k = 0; k < call.named.size(); ++k)
      if (call.named[k].first == p.name) {
        if (given) throw Fault(fmt::format("{}() got two values for '{}'", call.name, p.name));
        given = &call.named[k].second;
        taken[k] = true;
      }
    if (given) scope->names[p.name] = *given;
    else scope->names[p.name] = p.otherwise ? evaluate(*p.otherwise, scope) : Value::undefined(fmt::format("parameter '{}' was not provided", p.name));
  }
  if (s.varargs) scope->names["varargs"] = Value::tuple(call.positional.size() > s.parameters.size() ? List(call.positional.begin() + static_cast<std::ptrdiff_t>(s.parameters.size()), call.positional.end()) : List());
  else if (call.positional.size() > s.parameters.size()) throw Fault(fmt::format("{}() takes {} arguments, {} are given", call.name, s.parameters.size(), call.positional.size()));
  Dict rest;
  for (std::size_t k = 0; k < call.named.size(); ++k) {
    if (taken[k]) continue;
    if (call.named[k].first == "caller") scope->names["caller"] = call.named[k].second;
    else if (s.kwargs) rest.emplace_back(Value(call.named[k].first), call.named[k].second);
    else throw Fault(fmt::format("{}() has no argument '{}'", call.name, call.named[k].first));
  }
  if (s.kwargs) scope->names["kwargs"] = Value::dict(std::move(rest));
  std::string text;
  block(s.body, scope, text);
  scope->names.clear();
  return Value(std::move(text));
}

void Interpreter::call_block(const Stmt& s, const ScopePtr& scope, std::string& out) {
  const Value caller = macro(s, scope);
  put(str(call(*s.a, scope, &caller)), out);
}

Value Interpreter::name(const std::string& name, const ScopePtr& scope) {
  for (const Scope* look = scope.get(); look; look = look->outer.get())
    if (const auto found = look->names.find(name); found != look->names.end()) return found->second;
  return global_function(name, now_s_);
}

Value Interpreter::evaluate(const Expr& e, const ScopePtr& scope) {
  const Deeper deeper(budget_);
  switch (e.kind) {
    case Expr::kConstant: return e.value;
    case Expr::kName: return name(e.name, scope);
    case Expr::kList: case Expr::kTuple: {
      List items;
      for (const auto& item : e.items) items.push_back(evaluate(*item, scope));
      return e.kind == Expr::kList ? Value::list(std::move(items)) : Value::tuple(std::move(items));
    }
    case Expr::kDict: {
      const Value all = Value::name_space({});
      for (std::size_t i = 0; i + 1 < e.items.size(); i += 2) {
        const Value key = evaluate(*e.items[i], scope);
        if (key.is(Kind::kList) || key.is_mapping()) throw Fault(fmt::format("unhashable type: '{}'", type_name(key)));
        all.set(key, evaluate(*e.items[i + 1], scope));
      }
      return Value::dict(all.as_dict());
    }
    case Expr::kAttribute: return attribute_of(evaluate(*e.items[0], scope), e.name);
    case Expr::kItem: {
      const Value object = evaluate(*e.items[0], scope);
      return item_of(object, evaluate(*e.items[1], scope));
    }
    case Expr::kSlice: return slice(e, scope);
    case Expr::kCall: return call(e, scope, nullptr);
    case Expr::kFilter: return filter(e, scope, nullptr);
    case Expr::kTest: return test(e, scope);
    case Expr::kUnary: {
      const Value v = evaluate(*e.items[0], scope);
      if (e.name == "not") return Value(!truthy(v));
      if (v.is_undefined()) throw Fault(v.as_string());
      if (!v.is_number()) throw Fault(fmt::format("'{}' of a {}", e.name, type_name(v)));
      if (e.name == "+") return v.is(Kind::kFloat) ? v : Value(v.as_int());
      if (v.is(Kind::kFloat)) return Value(-v.as_float());
      if (v.as_int() == INT64_MIN) throw Fault("a number does not fit 64 bits");
      return Value(-v.as_int());
    }
    case Expr::kBinary: return binary(e, scope);
    case Expr::kCompare: return compare_chain(e, scope);
    case Expr::kConditional:
      if (truthy(evaluate(*e.items[1], scope))) return evaluate(*e.items[0], scope);
      return e.items[2] ? evaluate(*e.items[2], scope) : Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
  }
  return Value();
}

namespace {

[[noreturn]] void no_operator(const std::string& op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b})
    if (v->is_undefined()) throw Fault(v->as_string());
  throw Fault(fmt::format("'{}' between a {} and a {}", op, type_name(a), type_name(b)));
}

Value whole_arithmetic(const std::string& op, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  bool beyond = false;
  if (op == "+") beyond = __builtin_add_overflow(a, b, &r);
  else if (op == "-") beyond = __builtin_sub_overflow(a, b, &r);
  else if (op == "*") beyond = __builtin_mul_overflow(a, b, &r);
  else if (op == "/") {
    if (b == 0) throw Fault("division by zero");
    return Value(static_cast<double>(a) / static_cast<double>(b));
  } else if (op == "//" || op == "%") {   // Python rounds down
    if (b == 0) throw Fault("division by zero");
    if (b == -1) {
      beyond = __builtin_sub_overflow(std::int64_t{0}, a, &r);
      if (op == "%") return Value(0);
    } else {
      const std::int64_t q = a / b, rest = a % b;
      const bool down = rest != 0 && (rest < 0) != (b < 0);
      r = op == "//" ? q - down : rest + (down ? b : 0);
    }
  } else {   // **
    if (b < 0) return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
    r = 1;
    for (std::int64_t base = a, n = b; n > 0 && !beyond; n >>= 1) {
      if (n & 1) beyond |= __builtin_mul_overflow(r, base, &r);
      if (n > 1) beyond |= __builtin_mul_overflow(base, base, &base);
    }
  }
  if (beyond) throw Fault("a number does not fit 64 bits");
  return Value(r);
}

Value float_arithmetic(const std::string& op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) throw Fault("division by zero");
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  const double r = std::fmod(a, b);
  return Value(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

// text * n, list * n
Value repeated(const Value& v, std::int64_t n, Budget& budget) {
  const std::uint64_t times = n < 0 ? 0 : static_cast<std::uint64_t>(n);
  if (v.is_string()) {
    std::uint64_t size = 0;
    if (__builtin_mul_overflow(times, v.as_string().size(), &size)) size = UINT64_MAX;
    budget.make(size);
    std::string out;
    out.reserve(size);
    for (std::uint64_t i = 0; i < times && size > 0; ++i) out += v.as_string();
    return Value(std::move(out));
  }
  std::uint64_t size = 0;
  if (__builtin_mul_overflow(times, v.as_list().size(), &size)) size = UINT64_MAX;
  budget.step(size);
  List out;
  for (std::uint64_t i = 0; i < times && size > 0; ++i) out.insert(out.end(), v.as_list().begin(), v.as_list().end());
  return v.is(Kind::kList) ? Value::list(std::move(out)) : Value::tuple(std::move(out));
}

}  // namespace

Value Interpreter::binary(const Expr& e, const ScopePtr& scope) {
  const Value a = evaluate(*e.items[0], scope);
  if (e.name == "and") return truthy(a) ? evaluate(*e.items[1], scope) : a;
  if (e.name == "or") return truthy(a) ? a : evaluate(*e.items[1], scope);
  const Value b = evaluate(*e.items[1], scope);
  if (e.name == "~") {
    std::string text = str(a) + str(b);
    budget_.make(text.size());
    return Value(std::move(text));
  }
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) return float_arithmetic(e.name, a.as_float(), b.as_float());
    return whole_arithmetic(e.name, a.as_int(), b.as_int());
  }
  if (e.name == "+" && a.is_string() && b.is_string()) {
    budget_.make(a.as_string().size() + b.as_string().size());
    return Value(a.as_string() + b.as_string());
  }
  if (e.name == "+" && a.is_sequence() && a.kind() == b.kind()) {
    List out = a.as_list();
    out.insert(out.end(), b.as_list().begin(), b.as_list().end());
    budget_.step(out.size());
    return a.is(Kind::kList) ? Value::list(std::move(out)) : Value::tuple(std::move(out));
  }
  const auto is_whole = [](const Value& v) { return v.is(Kind::kInt) || v.is(Kind::kBool); };
  if (e.name == "*" && (a.is_string() || a.is_sequence()) && is_whole(b)) return repeated(a, b.as_int(), budget_);
  if (e.name == "*" && (b.is_string() || b.is_sequence()) && is_whole(a)) return repeated(b, a.as_int(), budget_);
  if (e.name == "%" && a.is_string()) {
    std::string text = percent_format(a.as_string(), b);
    budget_.make(text.size());
    return Value(std::move(text));
  }
  no_operator(e.name, a, b);
}

Value Interpreter::compare_chain(const Expr& e, const ScopePtr& scope) {
  Value left = evaluate(*e.items[0], scope);
  for (std::size_t i = 0; i < e.names.size(); ++i) {
    const Value right = evaluate(*e.items[i + 1], scope);
    const std::string& op = e.names[i];
    bool holds = false;
    budget_.step(op.size() > 1 && (right.is_sequence() || right.is_mapping()) ? static_cast<std::uint64_t>(length(right)) : 1);
    if (op == "==") holds = equal(left, right);
    else if (op == "!=") holds = !equal(left, right);
    else if (op == "in") holds = contains(right, left);
    else if (op == "not in") holds = !contains(right, left);
    else {
      if (left.is_undefined() || right.is_undefined()) no_operator(op, left, right);
      const int order = compare(left, right);
      holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return Value(false);
    left = right;
  }
  return Value(true);
}

Value Interpreter::slice(const Expr& e, const ScopePtr& scope) {
  const Value object = evaluate(*e.items[0], scope);
  if (object.is_undefined()) throw Fault(object.as_string());
  if (!object.is_sequence() && !object.is_string()) throw Fault(fmt::format("a {} cannot be sliced", type_name(object)));
  const auto bound = [&](std::size_t i) -> std::pair<bool, std::int64_t> {
    if (!e.items[i]) return {false, 0};
    const Value v = evaluate(*e.items[i], scope);
    if (v.is(Kind::kNone)) return {false, 0};
    if (!v.is(Kind::kInt) && !v.is(Kind::kBool)) throw Fault(fmt::format("a slice by a {}", type_name(v)));
    return {true, v.as_int()};
  };
  const auto [has_start, given_start] = bound(1);
  const auto [has_stop, given_stop] = bound(2);
  const auto [has_step, given_step] = bound(3);
  const std::int64_t step = has_step ? given_step : 1, n = length(object);
  if (step == 0) throw Fault("a slice with a step of 0");
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto place = [&](std::int64_t i) { return std::min(std::max(i < 0 ? i + n : i, low), high); };
  const std::int64_t start = has_start ? place(given_start) : step > 0 ? 0 : n - 1, stop = has_stop ? place(given_stop) : step > 0 ? n : -1;
  const List all = iterate(object, budget_);
  List out;
  std::string text;
  std::int64_t i = start;
  for (bool beyond = false; !beyond && (step > 0 ? i < stop : i > stop); beyond = __builtin_add_overflow(i, step, &i)) {
    const Value& item = all[static_cast<std::size_t>(i)];
    if (object.is_string()) text += item.as_string();
    else out.push_back(item);
  }
  if (object.is_string()) return Value(std::move(text));
  return object.is(Kind::kList) ? Value::list(std::move(out)) : Value::tuple(std::move(out));
}

Call Interpreter::arguments(const Expr& e, const ScopePtr& scope, std::string name) {
  Call call{std::move(name), {}, {}, budget_};
  for (const Argument& argument : e.arguments) {
    const Value v = evaluate(*argument.value, scope);
    if (argument.unpack == 1) {
      for (Value& item : iterate(v, budget_)) call.positional.push_back(std::move(item));
    } else if (argument.unpack == 2) {
      if (!v.is_mapping()) throw Fault("** needs a dict");
      for (const auto& [key, value] : v.as_dict()) call.named.emplace_back(str(key), value);
    } else if (argument.name.empty()) {
      call.positional.push_back(v);
    } else {
      call.named.emplace_back(argument.name, v);
    }
  }
  return call;
}

Value Interpreter::call(const Expr& e, const ScopePtr& scope, const Value* caller) {
  const Value function = evaluate(*e.items[0], scope);
  if (function.is_undefined()) throw Fault(function.as_string());
  if (!function.is(Kind::kCallable)) throw Fault(fmt::format("a {} cannot be called", type_name(function)));
  Call call = arguments(e, scope, function.as_string());
  if (caller) call.named.emplace_back("caller", *caller);
  return function.function()(call);
}

Value Interpreter::filter(const Expr& e, const ScopePtr& scope, const Value* input) {
  const Filter* found = find_filter(e.name);
  if (!found) throw Fault(fmt::format("no filter named '{}'", e.name));
  // A filter block's innermost filter has no expression to work on; it gets `input`.
  Value v;
  if (!e.items[0]) v = *input;
  else if (input && e.items[0]->kind == Expr::kFilter) v = filter(*e.items[0], scope, input);
  else v = evaluate(*e.items[0], scope);
  Call call = arguments(e, scope, e.name);
  return (*found)(v, call);
}

Value Interpreter::test(const Expr& e, const ScopePtr& scope) {
  const Test* found = find_test(e.name);
  if (!found) throw Fault(fmt::format("no test named '{}'", e.name));
  const Value v = evaluate(*e.items[0], scope);
  Call call = arguments(e, scope, e.name);
  return Value((*found)(v, call));
}

}  // namespace musacoder::llm::jinja
