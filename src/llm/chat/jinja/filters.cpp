// `… | filter`
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "llm/chat/jinja/builtins.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm::jinja {
namespace {

bool flag(const Call& call, std::size_t place, const char* name, bool otherwise = false) {
  const Value* v = call.argument(place, name);
  return v ? truthy(*v) : otherwise;
}
std::string text(const Call& call, std::size_t place, const char* name, const char* otherwise) {
  const Value* v = call.argument(place, name);
  return v ? str(*v) : otherwise;
}
std::int64_t whole(const Call& call, std::size_t place, const char* name, std::int64_t otherwise) {
  const Value* v = call.argument(place, name);
  if (!v || v->is(Kind::kNone)) return otherwise;
  if (!v->is(Kind::kInt) && !v->is(Kind::kBool)) throw Fault(fmt::format("{}: '{}' must be a whole number", call.name, name));
  return v->as_int();
}
Value item_or_self(const Value& item, const Value* path) { return path && !path->is(Kind::kNone) ? path_of(item, *path) : item; }
// What sort, min, max and unique compare: texts in lower case unless told otherwise.
Value folded(const Value& v, bool case_sensitive) { return !case_sensitive && v.is_string() ? Value(lower(v.as_string())) : v; }

Value tojson(const Value& v, Call& call) {
  call.expect(4, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ensure_ascii = flag(call, 0, "ensure_ascii"), .sort_keys = flag(call, 3, "sort_keys")};
  if (const std::int64_t indent = whole(call, 1, "indent", -1); indent >= 0) {
    if (indent > 64) throw Fault("tojson: an indent beyond 64");
    style.indent = static_cast<int>(indent);
    style.item = ",";
  }
  if (const Value* separators = call.argument(2, "separators"); separators && !separators->is(Kind::kNone)) {
    if (!separators->is_sequence() || separators->as_list().size() != 2) throw Fault("tojson: 'separators' are two texts");
    style.item = str(separators->as_list()[0]);
    style.key = str(separators->as_list()[1]);
  }
  std::string out = to_json(v, style);
  call.budget.make(out.size());
  call.budget.step(out.size() / 16);
  return Value(std::move(out));
}

Value trim(const Value& v, Call& call) {
  call.expect(1, {"chars"});
  const Value* chars = call.argument(0, "chars");
  const std::string s = str(v);
  return Value(chars && !chars->is(Kind::kNone) ? strip_of(s, str(*chars), true, true) : strip(s, true, true));
}

Value otherwise(const Value& v, Call& call) {
  call.expect(2, {"default_value", "boolean"});
  const bool replace = v.is_undefined() || (flag(call, 1, "boolean") && !truthy(v));
  if (!replace) return v;
  const Value* given = call.argument(0, "default_value");
  return given ? *given : Value("");
}

Value join(const Value& v, Call& call) {
  call.expect(2, {"d", "attribute"});
  const std::string between = text(call, 0, "d", "");
  std::string out;
  bool first = true;
  for (const Value& item : iterate(v, call.budget)) {
    const std::string one = str(item_or_self(item, call.argument(1, "attribute")));
    if (!first) out += between;
    first = false;
    out += one;
    call.budget.make(one.size() + between.size());
  }
  return Value(std::move(out));
}

Value items(const Value& v, Call& call) {
  call.expect(0);
  if (v.is_undefined()) return Value::list({});
  if (!v.is_mapping()) throw Fault("items: only a dict has items");
  List out;
  for (const auto& [key, value] : v.as_dict()) out.push_back(Value::tuple({key, value}));
  call.budget.step(out.size());
  return Value::list(std::move(out));
}

Value dictsort(const Value& v, Call& call) {
  call.expect(3, {"case_sensitive", "by", "reverse"});
  if (!v.is_mapping()) throw Fault(fmt::format("dictsort: a dict is expected, not {}", type_name(v)));
  const std::string by = text(call, 1, "by", "key");
  if (by != "key" && by != "value") throw Fault("dictsort: 'by' is 'key' or 'value'");
  const bool case_sensitive = flag(call, 0, "case_sensitive");
  std::vector<std::pair<Value, Value>> keyed;   // what is compared, the item
  for (const auto& [key, value] : v.as_dict()) keyed.emplace_back(folded(by == "key" ? key : value, case_sensitive), Value::tuple({key, value}));
  const bool reverse = flag(call, 2, "reverse");
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) { return reverse ? compare(b.first, a.first) < 0 : compare(a.first, b.first) < 0; });
  List out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  call.budget.step(out.size() * 8);
  return Value::list(std::move(out));
}

Value sorted(const Value& v, Call& call) {
  call.expect(3, {"reverse", "case_sensitive", "attribute"});
  const bool reverse = flag(call, 0, "reverse"), case_sensitive = flag(call, 1, "case_sensitive");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : iterate(v, call.budget)) keyed.emplace_back(folded(item_or_self(item, call.argument(2, "attribute")), case_sensitive), item);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) { return reverse ? compare(b.first, a.first) < 0 : compare(a.first, b.first) < 0; });
  List out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  call.budget.step(out.size() * 8);
  return Value::list(std::move(out));
}

Value unique(const Value& v, Call& call) {
  call.expect(2, {"case_sensitive", "attribute"});
  List out, seen;
  for (const Value& item : iterate(v, call.budget)) {
    Value key = folded(item_or_self(item, call.argument(1, "attribute")), flag(call, 0, "case_sensitive"));
    call.budget.step(seen.size());
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return equal(s, key); })) continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return Value::list(std::move(out));
}

Value extreme(const Value& v, Call& call, int sign) {
  call.expect(2, {"case_sensitive", "attribute"});
  const List all = iterate(v, call.budget);
  if (all.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key = [&](const Value& item) { return folded(item_or_self(item, call.argument(1, "attribute")), flag(call, 0, "case_sensitive")); };
  const Value* best = &all[0];
  for (const Value& item : all)
    if (compare(key(item), key(*best)) * sign > 0) best = &item;
  return *best;
}

Value sum(const Value& v, Call& call) {
  call.expect(2, {"attribute", "start"});
  const Value* start = call.argument(1, "start");
  double total = 0;
  std::int64_t exact = 0;
  bool is_float = false;
  const auto add = [&](const Value& one) {
    if (!one.is_number()) throw Fault(fmt::format("sum: a {} is no number", type_name(one)));
    is_float |= one.is(Kind::kFloat);
    total += one.as_float();
    if (!one.is(Kind::kFloat) && __builtin_add_overflow(exact, one.as_int(), &exact)) throw Fault("sum: does not fit 64 bits");
  };
  if (start) add(*start);
  for (const Value& item : iterate(v, call.budget)) add(item_or_self(item, call.argument(0, "attribute")));
  return is_float ? Value(total) : Value(exact);
}

// map('filter', …) or map(attribute='a', default=…)
Value map(const Value& v, Call& call) {
  List out;
  const Value* path = call.positional.empty() ? call.argument(SIZE_MAX, "attribute") : nullptr;
  if (call.positional.empty() && !path) throw Fault("map: a filter or an attribute is needed");
  const Filter* filter = path ? nullptr : find_filter(str(call.positional[0]));
  if (!path && !filter) throw Fault(fmt::format("map: no filter named '{}'", str(call.positional[0])));
  for (const Value& item : iterate(v, call.budget)) {
    if (path) {
      Value found = path_of(item, *path);
      const Value* given = call.argument(SIZE_MAX, "default");
      out.push_back(found.is_undefined() && given ? *given : found);
    } else {
      Call inner{str(call.positional[0]), List(call.positional.begin() + 1, call.positional.end()), call.named, call.budget};
      out.push_back((*filter)(item, inner));
    }
  }
  return Value::list(std::move(out));
}

// select, reject, selectattr, rejectattr
Value choose(const Value& v, Call& call, bool by_attribute, bool keep) {
  std::size_t next = 0;
  const Value* path = nullptr;
  if (by_attribute) {
    if (call.positional.empty()) throw Fault(fmt::format("{}: an attribute is needed", call.name));
    path = &call.positional[next++];
  }
  const Test* test = nullptr;
  std::string name;
  if (next < call.positional.size()) {
    name = str(call.positional[next++]);
    test = find_test(name);
    if (!test) throw Fault(fmt::format("{}: no test named '{}'", call.name, name));
  }
  List out;
  for (const Value& item : iterate(v, call.budget)) {
    const Value tested = item_or_self(item, path);
    Call inner{name, List(call.positional.begin() + static_cast<std::ptrdiff_t>(next), call.positional.end()), call.named, call.budget};
    if ((test ? (*test)(tested, inner) : truthy(tested)) == keep) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Value to_int(const Value& v, Call& call) {
  call.expect(2, {"default", "base"});
  const Value* given = call.argument(0, "default");
  const Value fallback = given ? *given : Value(0);
  const std::int64_t base = whole(call, 1, "base", 10);
  if (v.is(Kind::kInt)) return v;
  if (v.is(Kind::kBool)) return Value(v.as_int());
  double d = 0;
  if (v.is(Kind::kFloat)) {
    d = v.as_float();
  } else if (v.is_string()) {
    std::string_view s = strip(v.as_string(), true, true);
    if (s.substr(0, 1) == "+") s.remove_prefix(1);
    std::int64_t i = 0;
    if (base < 2 || base > 36) return fallback;
    const auto parsed = std::from_chars(s.data(), s.data() + s.size(), i, static_cast<int>(base));
    if (!s.empty() && parsed.ec == std::errc() && parsed.ptr == s.data() + s.size()) return Value(i);
    const auto as_float = std::from_chars(s.data(), s.data() + s.size(), d);
    if (s.empty() || as_float.ec != std::errc() || as_float.ptr != s.data() + s.size()) return fallback;
  } else {
    return fallback;
  }
  return std::isfinite(d) && std::abs(d) < 9.2e18 ? Value(static_cast<std::int64_t>(d)) : fallback;
}

Value to_float(const Value& v, Call& call) {
  call.expect(1, {"default"});
  const Value* given = call.argument(0, "default");
  if (v.is_number()) return Value(v.as_float());
  if (v.is_string()) {
    std::string_view s = strip(v.as_string(), true, true);
    if (s.substr(0, 1) == "+") s.remove_prefix(1);
    double d = 0;
    const auto parsed = std::from_chars(s.data(), s.data() + s.size(), d);
    if (!s.empty() && parsed.ec == std::errc() && parsed.ptr == s.data() + s.size()) return Value(d);
  }
  return given ? *given : Value(0.0);
}

Value round(const Value& v, Call& call) {
  call.expect(2, {"precision", "method"});
  if (!v.is_number()) throw Fault(fmt::format("round: a number is expected, not {}", type_name(v)));
  const std::int64_t precision = whole(call, 0, "precision", 0);
  const std::string method = text(call, 1, "method", "common");
  if (method != "common" && method != "ceil" && method != "floor") throw Fault("round: the method is common, ceil or floor");
  if (method == "common") {   // exactly, by way of the decimal text, as Python rounds
    if (precision < 0 || precision > 300) throw Fault("round: a precision from 0 to 300");
    if (!v.is(Kind::kFloat)) return v;
    const std::string shown = fmt::format("{:.{}f}", v.as_float(), precision);
    double d = 0;
    std::from_chars(shown.data(), shown.data() + shown.size(), d);
    return Value(d);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  return Value((method == "ceil" ? std::ceil(v.as_float() * scale) : std::floor(v.as_float() * scale)) / scale);
}

Value indent(const Value& v, Call& call) {
  call.expect(3, {"width", "first", "blank"});
  const Value* width = call.argument(0, "width");
  std::string margin = "    ";
  if (width) {
    if (width->is_string()) margin = width->as_string();
    else if (const auto n = whole(call, 0, "width", 4); n >= 0 && n <= 1024) margin = std::string(static_cast<std::size_t>(n), ' ');
    else throw Fault("indent: a width from 0 to 1024");
  }
  const bool first = flag(call, 1, "first"), blank = flag(call, 2, "blank");
  Call none{"splitlines", {}, {}, call.budget};
  const Value lines = attribute_of(Value(str(v) + "\n"), "splitlines").function()(none);
  std::string out;
  for (std::size_t i = 0; i < lines.as_list().size(); ++i) {
    const std::string& line = lines.as_list()[i].as_string();
    if (i > 0) out += '\n';
    if (i == 0 ? first : (blank || !line.empty())) out += margin;
    out += line;
    call.budget.make(line.size() + margin.size());
  }
  return Value(std::move(out));
}

Value reversed(const Value& v, Call& call) {
  call.expect(0);
  List all = iterate(v, call.budget);
  std::reverse(all.begin(), all.end());
  if (!v.is_string()) return Value::list(std::move(all));
  std::string out;
  for (const Value& c : all) out += c.as_string();
  return Value(std::move(out));
}

// Jinja's own rule: words begin after white space and after - ( { [ <
Value title(const Value& v, Call& call) {
  call.expect(0);
  std::string out, word;
  const auto flush = [&] {
    out += capitalize(word);
    word.clear();
  };
  const std::string s = str(v);
  for (const std::string_view c : characters(s)) {
    const char32_t value = code_point(c, 0).value;
    if (is_space(value) || value == '-' || value == '(' || value == '{' || value == '[' || value == '<') flush(), out += c;
    else word += c;
  }
  flush();
  return Value(std::move(out));
}

Value escape(const Value& v, Call& call) {
  call.expect(0);
  std::string out;
  for (const char c : str(v)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  call.budget.make(out.size());
  return Value(std::move(out));
}

Value batch(const Value& v, Call& call) {
  call.expect(2, {"linecount", "fill_with"});
  const std::int64_t n = whole(call, 0, "linecount", 0);
  if (n < 1) throw Fault("batch: a count of at least 1");
  List rows, row;
  for (const Value& item : iterate(v, call.budget)) {
    if (static_cast<std::int64_t>(row.size()) == n) rows.push_back(Value::list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (const Value* fill = call.argument(1, "fill_with"); fill && !row.empty() && !fill->is(Kind::kNone))
    while (static_cast<std::int64_t>(row.size()) < n) call.budget.step(), row.push_back(*fill);
  if (!row.empty()) rows.push_back(Value::list(std::move(row)));
  return Value::list(std::move(rows));
}

Value absolute(const Value& v, Call& call) {
  call.expect(0);
  if (!v.is_number()) throw Fault(fmt::format("abs: a number is expected, not {}", type_name(v)));
  if (v.is(Kind::kFloat)) return Value(std::abs(v.as_float()));
  if (v.as_int() == INT64_MIN) throw Fault("abs: does not fit 64 bits");
  return Value(std::int64_t{v.as_int() < 0 ? -v.as_int() : v.as_int()});
}

Value edge(const Value& v, Call& call, bool first) {
  call.expect(0);
  const List all = iterate(v, call.budget);
  if (all.empty()) return Value::undefined(first ? "No first item, sequence was empty." : "No last item, sequence was empty.");
  return first ? all.front() : all.back();
}

const std::map<std::string_view, Filter> kFilters = {
    {"abs", absolute},
    {"attr", [](const Value& v, Call& c) { return c.expect(1, {"name"}), attribute_of(v, text(c, 0, "name", "")); }},
    {"batch", batch},
    {"capitalize", [](const Value& v, Call& c) { return c.expect(0), Value(capitalize(str(v))); }},
    {"center",
     [](const Value& v, Call& c) {
       Call inner{"center", {Value(whole(c, 0, "width", 80))}, {}, c.budget};
       return attribute_of(Value(str(v)), "center").function()(inner);
     }},
    {"count", [](const Value& v, Call& c) { return c.expect(0), Value(length(v)); }},
    {"d", otherwise},
    {"default", otherwise},
    {"dictsort", dictsort},
    {"e", escape},
    {"escape", escape},
    {"first", [](const Value& v, Call& c) { return edge(v, c, true); }},
    {"float", to_float},
    {"format", [](const Value& v, Call& c) { return Value(percent_format(str(v), Value::tuple(c.positional))); }},
    {"indent", indent},
    {"int", to_int},
    {"items", items},
    {"join", join},
    {"last", [](const Value& v, Call& c) { return edge(v, c, false); }},
    {"length", [](const Value& v, Call& c) { return c.expect(0), Value(length(v)); }},
    {"list", [](const Value& v, Call& c) { return c.expect(0), Value::list(iterate(v, c.budget)); }},
    {"lower", [](const Value& v, Call& c) { return c.expect(0), Value(lower(str(v))); }},
    {"map", map},
    {"max", [](const Value& v, Call& c) { return extreme(v, c, 1); }},
    {"min", [](const Value& v, Call& c) { return extreme(v, c, -1); }},
    {"reject", [](const Value& v, Call& c) { return choose(v, c, false, false); }},
    {"rejectattr", [](const Value& v, Call& c) { return choose(v, c, true, false); }},
    {"replace",
     [](const Value& v, Call& c) {
       c.expect(3, {"old", "new", "count"});
       return Value(replace(str(v), text(c, 0, "old", ""), text(c, 1, "new", ""), whole(c, 2, "count", -1), c.budget));
     }},
    {"reverse", reversed},
    {"round", round},
    {"safe", [](const Value& v, Call& c) { return c.expect(0), Value(str(v)); }},
    {"select", [](const Value& v, Call& c) { return choose(v, c, false, true); }},
    {"selectattr", [](const Value& v, Call& c) { return choose(v, c, true, true); }},
    {"sort", sorted},
    {"string", [](const Value& v, Call& c) { return c.expect(0), Value(str(v)); }},
    {"sum", sum},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim},
    {"unique", unique},
    {"upper", [](const Value& v, Call& c) { return c.expect(0), Value(upper(str(v))); }},
    {"wordcount",
     [](const Value& v, Call& c) {
       c.expect(0);
       Call none{"split", {}, {}, c.budget};
       return Value(length(attribute_of(Value(str(v)), "split").function()(none)));
     }},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : &found->second;
}

std::string percent_format(std::string_view format, const Value& values) {
  List given = values.is(Kind::kTuple) ? values.as_list() : List{values};
  std::size_t used = 0;
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    std::size_t end = i + 1;
    while (end < format.size() && std::string_view("0123456789.-+ ").find(format[end]) != std::string_view::npos) ++end;
    if (end >= format.size()) throw Fault("incomplete format");
    const std::string flags(format.substr(i + 1, end - i - 1));
    i = end;
    if (format[end] == '%' && flags.empty()) {
      out += '%';
      continue;
    }
    if (used >= given.size()) throw Fault("not enough arguments for format string");
    const Value& v = given[used++];
    const auto precision_of = [&](int otherwise) {
      if (flags.empty()) return otherwise;
      if (flags[0] != '.' || flags.size() > 4 || flags.find_first_not_of("0123456789", 1) != flags.npos) throw Fault(fmt::format("'%{}{}' is not supported", flags, format[end]));
      return flags.size() == 1 ? 0 : std::stoi(flags.substr(1));
    };
    switch (format[end]) {
      case 's': case 'r':
        if (!flags.empty()) throw Fault(fmt::format("'%{}{}' is not supported", flags, format[end]));
        out += format[end] == 's' ? str(v) : repr(v);
        break;
      case 'd': case 'i':
        if (!flags.empty() || !v.is_number()) throw Fault(fmt::format("'%{}{}' of a {} is not supported", flags, format[end], type_name(v)));
        out += fmt::format("{}", v.is(Kind::kFloat) ? static_cast<std::int64_t>(std::clamp(v.as_float(), -9e18, 9e18)) : v.as_int());
        break;
      case 'f':
        if (!v.is_number()) throw Fault(fmt::format("'%f' of a {}", type_name(v)));
        out += fmt::format("{:.{}f}", v.as_float(), std::min(precision_of(6), 100));
        break;
      default: throw Fault(fmt::format("'%{}{}' is not supported", flags, format[end]));
    }
  }
  if (used < given.size() && !values.is_mapping()) throw Fault("not all arguments converted during string formatting");
  return out;
}

}  // namespace musacoder::llm::jinja
