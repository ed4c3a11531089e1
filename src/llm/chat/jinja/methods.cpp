// Attributes, items, and the methods of texts, lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "llm/chat/jinja/builtins.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm::jinja {
namespace {

using Method = Value (*)(const Value& self, Call& call);

const std::string& text_argument(const Call& call, std::size_t place, const char* name) {
  const Value* v = call.argument(place, name);
  if (!v || !v->is_string()) throw Fault(fmt::format("{}() needs a text", call.name));
  return v->as_string();
}
std::int64_t int_argument(const Call& call, std::size_t place, const char* name, std::int64_t otherwise) {
  const Value* v = call.argument(place, name);
  if (!v || v->is(Kind::kNone)) return otherwise;
  if (!v->is(Kind::kInt) && !v->is(Kind::kBool)) throw Fault(fmt::format("{}() needs a whole number, not {}", call.name, type_name(*v)));
  return v->as_int();
}

Value stripped(const Value& self, Call& call, bool left, bool right) {
  call.expect(1);
  const Value* chars = call.argument(0, "");
  const std::string& text = self.as_string();
  if (!chars || chars->is(Kind::kNone)) return Value(strip(text, left, right));
  return Value(strip_of(text, text_argument(call, 0, ""), left, right));
}

Value split(const Value& self, Call& call, bool from_right) {
  call.expect(2, {"sep", "maxsplit"});
  std::string_view text = self.as_string();
  const Value* separator = call.argument(0, "sep");
  std::int64_t left = int_argument(call, 1, "maxsplit", -1);
  List parts;
  if (!separator || separator->is(Kind::kNone)) {
    const auto space_at = [&](std::size_t i) { return is_space(code_point(text, i).value); };
    text = strip(text, !from_right || left < 0, from_right || left < 0);
    if (!from_right) {
      while (!(text = strip(text, true, false)).empty()) {
        std::size_t end = 0;
        while (end < text.size() && (left != 0) && !space_at(end)) end += code_point(text, end).length;
        if (left == 0) end = text.size();
        parts.emplace_back(text.substr(0, end));
        text.remove_prefix(end);
        if (left > 0) --left;
      }
    } else {
      while (!(text = strip(text, false, true)).empty()) {
        std::size_t begin = text.size();
        while (begin > 0) {
          std::size_t previous = begin - 1;
          while (previous > 0 && (static_cast<unsigned char>(text[previous]) & 0xc0) == 0x80) --previous;
          if (left != 0 && space_at(previous)) break;
          begin = previous;
        }
        parts.emplace_back(text.substr(begin));
        text = text.substr(0, begin);
        if (left > 0) --left;
      }
      std::reverse(parts.begin(), parts.end());
    }
    call.budget.step(parts.size());
    return Value::list(std::move(parts));
  }
  const std::string& by = text_argument(call, 0, "sep");
  if (by.empty()) throw Fault("split() by an empty separator");
  while (left != 0) {
    const std::size_t at = from_right ? text.rfind(by) : text.find(by);
    if (at == text.npos) break;
    parts.emplace_back(from_right ? text.substr(at + by.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + by.size());
    if (left > 0) --left;
    call.budget.step();
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return Value::list(std::move(parts));
}

Value split_lines(const Value& self, Call& call) {
  call.expect(1, {"keepends"});
  const Value* keep = call.argument(0, "keepends");
  const bool keep_ends = keep && truthy(*keep);
  const std::string_view text = self.as_string();
  List lines;
  for (std::size_t at = 0, begin = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    at += c.length;
    const bool ends = (c.value >= 0xa && c.value <= 0xd) || (c.value >= 0x1c && c.value <= 0x1e) || c.value == 0x85 || c.value == 0x2028 || c.value == 0x2029;
    if (!ends && at < text.size()) continue;
    const std::size_t content = ends ? at - c.length : at;
    if (c.value == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keep_ends ? at : content) - begin));
    begin = at;
  }
  return Value::list(std::move(lines));
}

// The part of a text that start and end, counted in characters, leave.
std::string_view part(std::string_view text, std::int64_t start, std::int64_t end) {
  const auto all = characters(text);
  const auto n = static_cast<std::int64_t>(all.size());
  const auto place = [&](std::int64_t i) { return std::clamp(i < 0 ? i + n : i, std::int64_t{0}, n); };
  start = place(start);
  end = std::max(start, place(end));
  const auto offset = [&](std::int64_t i) { return i == n ? text.size() : static_cast<std::size_t>(all[static_cast<std::size_t>(i)].data() - text.data()); };
  return text.substr(offset(start), offset(end) - offset(start));
}

Value has_end(const Value& self, Call& call, bool start) {
  call.expect(3);
  const std::string_view text = call.positional.size() > 1 ? part(self.as_string(), int_argument(call, 1, "", 0), int_argument(call, 2, "", INT64_MAX)) : self.as_string();
  const Value* what = call.argument(0, "");
  if (!what) throw Fault(fmt::format("{}() needs a text", call.name));
  const auto one = [&](const Value& v) {
    if (!v.is_string()) throw Fault(fmt::format("{}() needs a text or a tuple of texts, not {}", call.name, type_name(v)));
    const std::string& s = v.as_string();
    return s.size() <= text.size() && text.compare(start ? 0 : text.size() - s.size(), s.size(), s) == 0;
  };
  if (what->is(Kind::kTuple)) return Value(std::any_of(what->as_list().begin(), what->as_list().end(), one));
  return Value(one(*what));
}

Value find(const Value& self, Call& call, bool from_right, bool must) {
  call.expect(3);
  const std::string_view text = self.as_string();
  const std::string& what = text_argument(call, 0, "");
  const std::string_view within = part(text, int_argument(call, 1, "", 0), int_argument(call, 2, "", INT64_MAX));
  const std::size_t at = from_right ? within.rfind(what) : within.find(what);
  if (at == within.npos) {
    if (must) throw Fault("substring not found");
    return Value(-1);
  }
  const std::size_t before = static_cast<std::size_t>(within.data() - text.data()) + at;
  return Value(static_cast<std::int64_t>(character_count(text.substr(0, before))));
}

template <typename Predicate>
Value every(const Value& self, Predicate predicate) {
  const std::string_view text = self.as_string();
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    if (!predicate(c.value)) return Value(false);
    at += c.length;
  }
  return Value(!text.empty());
}

Value title(const Value& self, Call& call) {
  call.expect(0);
  std::string out;
  bool inside = false;
  for (const std::string_view c : characters(self.as_string())) {
    const bool letter = char_class(code_point(c, 0).value) & kLetter;
    out += !letter ? std::string(c) : inside ? lower(c) : capitalize(c);
    inside = letter;
  }
  return Value(std::move(out));
}

Value partition(const Value& self, Call& call, bool from_right) {
  call.expect(1);
  const std::string_view text = self.as_string();
  const std::string& by = text_argument(call, 0, "");
  if (by.empty()) throw Fault("partition() by an empty separator");
  const std::size_t at = from_right ? text.rfind(by) : text.find(by);
  if (at == text.npos) return Value::tuple(from_right ? List{Value(""), Value(""), self} : List{self, Value(""), Value("")});
  return Value::tuple({Value(text.substr(0, at)), Value(by), Value(text.substr(at + by.size()))});
}

Value padded(const Value& self, Call& call, int side) {
  call.expect(2);
  const std::int64_t width = int_argument(call, 0, "", 0), n = length(self);
  const std::string fill = call.positional.size() > 1 ? text_argument(call, 1, "") : " ";
  if (width <= n) return self;
  const auto room = static_cast<std::uint64_t>(width - n);
  call.budget.make(room * fill.size());
  // str.center puts the odd one left only where the width is odd too
  const std::uint64_t before = side < 0 ? 0 : side > 0 ? room : room / 2 + (room & static_cast<std::uint64_t>(width) & 1);
  std::string out;
  for (std::uint64_t i = 0; i < before; ++i) out += fill;
  out += self.as_string();
  for (std::uint64_t i = before; i < room; ++i) out += fill;
  return Value(std::move(out));
}

Value zfill(const Value& self, Call& call) {
  call.expect(1);
  const std::int64_t width = int_argument(call, 0, "", 0), n = length(self);
  if (width <= n) return self;
  call.budget.make(static_cast<std::uint64_t>(width - n));
  std::string text = self.as_string();
  text.insert(!text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0, std::string(static_cast<std::size_t>(width - n), '0'));
  return Value(std::move(text));
}

Value format(const Value& self, Call& call) {
  std::string out;
  const std::string& text = self.as_string();
  std::size_t automatic = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] == '{' || text[i] == '}') && i + 1 < text.size() && text[i + 1] == text[i]) {
      out += text[i++];
    } else if (text[i] == '{') {
      const std::size_t end = text.find('}', i);
      const std::string field = text.substr(i + 1, end == text.npos ? 0 : end - i - 1);
      const bool number = field.find_first_not_of("0123456789") == field.npos;
      if (end == text.npos || field.find_first_of(":!.[") != field.npos) throw Fault("format() with more than {}, {0} or {name} is not supported");
      const Value* v = number && field.size() < 6 ? call.argument(field.empty() ? automatic++ : static_cast<std::size_t>(std::stoi(field)), "") : call.argument(SIZE_MAX, field);
      if (!v) throw Fault(fmt::format("format() lacks the argument '{}'", field));
      out += str(*v);
      i = end;
    } else {
      out += text[i];
    }
    if (out.size() > 1 << 20) call.budget.make(1 << 20);
  }
  return Value(std::move(out));
}

Value join(const Value& self, Call& call) {
  call.expect(1);
  if (call.positional.empty()) throw Fault("join() needs a list");
  std::string out;
  bool first = true;
  for (const Value& v : iterate(call.positional[0], call.budget)) {
    if (!v.is_string()) throw Fault(fmt::format("join() of a list with a {}", type_name(v)));
    if (!first) out += self.as_string();
    first = false;
    out += v.as_string();
    call.budget.make(v.as_string().size() + self.as_string().size());
  }
  return Value(std::move(out));
}

const std::map<std::string_view, Method> kTextMethods = {
    {"strip", [](const Value& s, Call& c) { return stripped(s, c, true, true); }},
    {"lstrip", [](const Value& s, Call& c) { return stripped(s, c, true, false); }},
    {"rstrip", [](const Value& s, Call& c) { return stripped(s, c, false, true); }},
    {"split", [](const Value& s, Call& c) { return split(s, c, false); }},
    {"rsplit", [](const Value& s, Call& c) { return split(s, c, true); }},
    {"splitlines", split_lines},
    {"startswith", [](const Value& s, Call& c) { return has_end(s, c, true); }},
    {"endswith", [](const Value& s, Call& c) { return has_end(s, c, false); }},
    {"find", [](const Value& s, Call& c) { return find(s, c, false, false); }},
    {"rfind", [](const Value& s, Call& c) { return find(s, c, true, false); }},
    {"index", [](const Value& s, Call& c) { return find(s, c, false, true); }},
    {"rindex", [](const Value& s, Call& c) { return find(s, c, true, true); }},
    {"replace",
     [](const Value& s, Call& c) {
       c.expect(3, {"count"});
       return Value(replace(s.as_string(), text_argument(c, 0, ""), text_argument(c, 1, ""), int_argument(c, 2, "count", -1), c.budget));
     }},
    {"count",
     [](const Value& s, Call& c) {
       c.expect(1);
       const std::string &text = s.as_string(), &what = text_argument(c, 0, "");
       if (what.empty()) return Value(length(s) + 1);
       std::int64_t n = 0;
       for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++n;
       return Value(n);
     }},
    {"upper", [](const Value& s, Call& c) { return c.expect(0), Value(upper(s.as_string())); }},
    {"lower", [](const Value& s, Call& c) { return c.expect(0), Value(lower(s.as_string())); }},
    {"casefold", [](const Value& s, Call& c) { return c.expect(0), Value(lower(s.as_string())); }},
    {"capitalize", [](const Value& s, Call& c) { return c.expect(0), Value(capitalize(s.as_string())); }},
    {"title", title},
    {"join", join},
    {"format", format},
    {"partition", [](const Value& s, Call& c) { return partition(s, c, false); }},
    {"rpartition", [](const Value& s, Call& c) { return partition(s, c, true); }},
    {"ljust", [](const Value& s, Call& c) { return padded(s, c, -1); }},
    {"rjust", [](const Value& s, Call& c) { return padded(s, c, 1); }},
    {"center", [](const Value& s, Call& c) { return padded(s, c, 0); }},
    {"zfill", zfill},
    {"removeprefix",
     [](const Value& s, Call& c) {
       const std::string &text = s.as_string(), &what = text_argument(c, 0, "");
       return text.rfind(what, 0) == 0 ? Value(text.substr(what.size())) : s;
     }},
    {"removesuffix",
     [](const Value& s, Call& c) {
       const std::string &text = s.as_string(), &what = text_argument(c, 0, "");
       const bool has = what.size() <= text.size() && text.compare(text.size() - what.size(), what.size(), what) == 0;
       return has ? Value(text.substr(0, text.size() - what.size())) : s;
     }},
    {"isspace", [](const Value& s, Call&) { return every(s, is_space); }},
    {"isdigit", [](const Value& s, Call&) { return every(s, [](char32_t c) { return c < 0x80 ? c >= '0' && c <= '9' : (char_class(c) & kNumber) != 0; }); }},
    {"isalpha", [](const Value& s, Call&) { return every(s, [](char32_t c) { return (char_class(c) & kLetter) != 0; }); }},
    {"isalnum", [](const Value& s, Call&) { return every(s, [](char32_t c) { return (char_class(c) & (kLetter | kNumber)) != 0; }); }},
    {"isupper", [](const Value& s, Call&) { return Value(upper(s.as_string()) == s.as_string() && lower(s.as_string()) != s.as_string()); }},
    {"islower", [](const Value& s, Call&) { return Value(lower(s.as_string()) == s.as_string() && upper(s.as_string()) != s.as_string()); }},
};

Value pairs(const Dict& dict) {
  List items;
  for (const auto& [key, value] : dict) items.push_back(Value::tuple({key, value}));
  return Value::list(std::move(items));
}

const std::map<std::string_view, Method> kDictMethods = {
    {"get",
     [](const Value& s, Call& c) {
       c.expect(2);
       if (c.positional.empty()) throw Fault("get() needs a key");
       const Value* found = s.find(c.positional[0]);
       return found ? *found : c.positional.size() > 1 ? c.positional[1] : Value();
     }},
    {"items", [](const Value& s, Call& c) { return c.expect(0), c.budget.step(s.as_dict().size()), pairs(s.as_dict()); }},
    {"keys", [](const Value& s, Call& c) { return c.expect(0), Value::list(iterate(s, c.budget)); }},
    {"values",
     [](const Value& s, Call& c) {
       c.expect(0);
       List items;
       for (const auto& [key, value] : s.as_dict()) items.push_back(value);
       return Value::list(std::move(items));
     }},
    {"copy", [](const Value& s, Call& c) { return c.expect(0), Value::dict(s.as_dict()); }},
};

const std::map<std::string_view, Method> kListMethods = {
    {"index",
     [](const Value& s, Call& c) {
       c.expect(1);
       if (c.positional.empty()) throw Fault("index() needs a value");
       const List& list = s.as_list();
       const auto at = std::find_if(list.begin(), list.end(), [&](const Value& v) { return equal(v, c.positional[0]); });
       if (at == list.end()) throw Fault(fmt::format("{} is not in list", repr(c.positional[0])));
       return Value(static_cast<std::int64_t>(at - list.begin()));
     }},
    {"count",
     [](const Value& s, Call& c) {
       c.expect(1);
       if (c.positional.empty()) throw Fault("count() needs a value");
       return Value(static_cast<std::int64_t>(std::count_if(s.as_list().begin(), s.as_list().end(), [&](const Value& v) { return equal(v, c.positional[0]); })));
     }},
    {"copy", [](const Value& s, Call& c) { return c.expect(0), Value::list(s.as_list()); }},
};

// What would change a value in place; Jinja's sandbox forbids it too.
constexpr std::string_view kMutators[] = {"append", "extend", "insert", "remove", "clear", "reverse", "sort", "pop", "popitem", "setdefault", "update"};

Value bound(const Value& self, std::string_view name, const std::map<std::string_view, Method>& methods) {
  const auto found = methods.find(name);
  if (found == methods.end()) {
    if (!self.is_string() && std::find(std::begin(kMutators), std::end(kMutators), name) != std::end(kMutators))
      return Value::undefined(fmt::format("access to '{}' of a {} is not allowed: templates cannot change values", name, type_name(self)));
    return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(self), name));
  }
  return Value::callable(std::string(name), [self, method = found->second](Call& call) { return method(self, call); });
}

}  // namespace

Value attribute_of(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kUndefined: throw Fault(object.as_string());
    case Kind::kString: return bound(object, name, kTextMethods);
    case Kind::kList: case Kind::kTuple: return bound(object, name, kListMethods);
    case Kind::kNamespace: {
      const Value* found = object.find(Value(name));
      return found ? *found : Value::undefined(fmt::format("the namespace has no attribute '{}'", name));
    }
    case Kind::kDict: {
      if (kDictMethods.count(name)) return bound(object, name, kDictMethods);
      const Value* found = object.find(Value(name));
      return found ? *found : bound(object, name, kDictMethods);
    }
    default: return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(object), name));
  }
}

Value item_of(const Value& object, const Value& key) {
  if (object.is_undefined()) throw Fault(object.as_string());
  if (object.is_mapping()) {
    if (key.is_sequence() || key.is_mapping()) throw Fault(fmt::format("unhashable type: '{}'", type_name(key)));
    if (const Value* found = object.find(key)) return *found;
  } else if ((object.is_sequence() || object.is_string()) && (key.is(Kind::kInt) || key.is(Kind::kBool))) {
    const std::int64_t n = length(object), i = key.as_int() < 0 ? key.as_int() + n : key.as_int();
    if (i < 0 || i >= n) return Value::undefined(fmt::format("'{} object' has no element {}", type_name(object), key.as_int()));
    if (object.is_sequence()) return object.as_list()[static_cast<std::size_t>(i)];
    return Value(characters(object.as_string())[static_cast<std::size_t>(i)]);
  }
  if (key.is_string()) return attribute_of(object, key.as_string());
  return Value::undefined(fmt::format("'{} object' has no element {}", type_name(object), repr(key)));
}

Value path_of(const Value& object, const Value& path) {
  if (path.is(Kind::kInt)) return item_of(object, path);
  if (!path.is_string()) throw Fault(fmt::format("an attribute is named by a text, not {}", type_name(path)));
  Value at = object;
  std::string_view rest = path.as_string();
  for (;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    at = item_of(at, number ? Value(std::stoi(std::string(part))) : Value(part));
    if (dot == rest.npos) return at;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace musacoder::llm::jinja
