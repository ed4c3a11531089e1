// `is …`
#include <fmt/format.h>

#include <map>

#include "llm/chat/jinja/builtins.h"

namespace musacoder::llm::jinja {
namespace {

const Value& other(const Call& call) {
  const Value* v = call.argument(0, "");
  if (!v) throw Fault(fmt::format("the test '{}' needs a value to compare with", call.name));
  return *v;
}
std::int64_t whole(const Value& v, const Call& call) {
  if (!v.is(Kind::kInt) && !v.is(Kind::kBool)) throw Fault(fmt::format("the test '{}' needs a whole number, not {}", call.name, type_name(v)));
  return v.as_int();
}
// Python's modulo: of the divisor's sign.
std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) throw Fault("division by zero");
  if (b == -1) return 0;
  const std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
bool is_true(const Value& v) { return v.is(Kind::kBool) && v.as_int(); }
bool is_false(const Value& v) { return v.is(Kind::kBool) && !v.as_int(); }

const std::map<std::string_view, Test> kTests = {
    {"defined", [](const Value& v, Call&) { return !v.is_undefined(); }},
    {"undefined", [](const Value& v, Call&) { return v.is_undefined(); }},
    {"none", [](const Value& v, Call&) { return v.is(Kind::kNone); }},
    {"string", [](const Value& v, Call&) { return v.is_string(); }},
    {"mapping", [](const Value& v, Call&) { return v.is_mapping(); }},
    {"sequence", [](const Value& v, Call&) { return v.is_string() || v.is_sequence() || v.is_mapping() || v.is_undefined(); }},
    {"iterable", [](const Value& v, Call&) { return v.is_string() || v.is_sequence() || v.is_mapping() || v.is_undefined(); }},
    {"number", [](const Value& v, Call&) { return v.is_number(); }},
    {"integer", [](const Value& v, Call&) { return v.is(Kind::kInt); }},
    {"float", [](const Value& v, Call&) { return v.is(Kind::kFloat); }},
    {"boolean", [](const Value& v, Call&) { return v.is(Kind::kBool); }},
    {"true", [](const Value& v, Call&) { return is_true(v); }},
    {"false", [](const Value& v, Call&) { return is_false(v); }},
    {"callable", [](const Value& v, Call&) { return v.is(Kind::kCallable); }},
    {"escaped", [](const Value&, Call&) { return false; }},
    {"sameas", [](const Value& v, Call& c) { return v.same_object(other(c)); }},
    {"in", [](const Value& v, Call& c) { return contains(other(c), v); }},
    {"odd", [](const Value& v, Call& c) { return modulo(whole(v, c), 2) == 1; }},
    {"even", [](const Value& v, Call& c) { return modulo(whole(v, c), 2) == 0; }},
    {"divisibleby", [](const Value& v, Call& c) { return modulo(whole(v, c), whole(other(c), c)) == 0; }},
    {"lower", [](const Value& v, Call&) { return lower(str(v)) == str(v) && upper(str(v)) != str(v); }},
    {"upper", [](const Value& v, Call&) { return upper(str(v)) == str(v) && lower(str(v)) != str(v); }},
    {"filter", [](const Value& v, Call&) { return v.is_string() && find_filter(v.as_string()); }},
    {"test", [](const Value& v, Call&) { return v.is_string() && find_test(v.as_string()); }},
};

const std::map<std::string_view, int> kOrders = {
    {"eq", 0}, {"equalto", 0}, {"==", 0}, {"ne", 1}, {"!=", 1}, {"lt", 2}, {"lessthan", 2}, {"<", 2}, {"le", 3}, {"<=", 3},
    {"gt", 4}, {"greaterthan", 4}, {">", 4}, {"ge", 5}, {">=", 5},
};

std::map<std::string_view, Test> order_tests() {
  std::map<std::string_view, Test> tests;
  for (const auto& [name, kind] : kOrders)
    tests[name] = [kind = kind](const Value& v, Call& c) {
      const Value& w = other(c);
      switch (kind) {
        case 0: return equal(v, w);
        case 1: return !equal(v, w);
        case 2: return compare(v, w) < 0;
        case 3: return compare(v, w) <= 0;
        case 4: return compare(v, w) > 0;
        default: return compare(v, w) >= 0;
      }
    };
  return tests;
}

}  // namespace

const Test* find_test(std::string_view name) {
  static const std::map<std::string_view, Test> orders = order_tests();
  for (const auto* table : {&kTests, &orders})
    if (const auto found = table->find(name); found != table->end()) return &found->second;
  return nullptr;
}

}  // namespace musacoder::llm::jinja
