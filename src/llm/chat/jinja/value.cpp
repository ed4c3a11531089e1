#include "llm/chat/jinja/value.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "llm/tokenizer/unicode.h"

namespace musacoder::llm::jinja {

namespace {
constexpr int kMaxNesting = 200;   // a list in a list in …: what reads values calls itself for each
}

struct Value::Object {
  std::string text;
  List list;
  Dict dict;
  std::function<Value(Call&)> function;
  int nesting = 0;   // of containers below
};

void Budget::step(std::uint64_t n) {
  if (n > steps) throw Fault("the template takes too many steps");
  steps -= n;
}
void Budget::make(std::uint64_t n) {
  if (n > bytes) throw Fault("the template makes too much text");
  bytes -= n;
}

Value::Value(std::string s) : kind_(Kind::kString), object_(std::make_shared<Object>()) { object_->text = std::move(s); }

Value Value::undefined(std::string why) {
  Value v(std::move(why));
  v.kind_ = Kind::kUndefined;
  return v;
}
int Value::nesting() const { return object_ ? object_->nesting : 0; }

Value Value::container(Kind kind, List list, Dict dict) {
  int deepest = 0;
  for (const Value& item : list) deepest = std::max(deepest, item.nesting());
  for (const auto& [key, item] : dict) deepest = std::max({deepest, key.nesting(), item.nesting()});
  if (deepest >= kMaxNesting) throw Fault("a value is nested too deeply");
  Value v;
  v.kind_ = kind;
  v.object_ = std::make_shared<Object>();
  v.object_->list = std::move(list);
  v.object_->dict = std::move(dict);
  v.object_->nesting = deepest + 1;
  return v;
}
Value Value::list(List items) { return container(Kind::kList, std::move(items), {}); }
Value Value::tuple(List items) { return container(Kind::kTuple, std::move(items), {}); }
Value Value::dict(Dict items) { return container(Kind::kDict, {}, std::move(items)); }
Value Value::name_space(Dict items) { return container(Kind::kNamespace, {}, std::move(items)); }
Value Value::callable(std::string name, std::function<Value(Call&)> function) {
  Value v(std::move(name));
  v.kind_ = Kind::kCallable;
  v.object_->function = std::move(function);
  return v;
}

const std::string& Value::as_string() const { return object_->text; }
const List& Value::as_list() const { return object_->list; }
const Dict& Value::as_dict() const { return object_->dict; }
const std::function<Value(Call&)>& Value::function() const { return object_->function; }

const Value* Value::find(const Value& key) const {
  for (const auto& [k, v] : object_->dict)
    if (equal(k, key)) return &v;
  return nullptr;
}
void Value::set(const Value& key, Value value) const {
  for (auto& [k, v] : object_->dict)
    if (equal(k, key)) {
      v = std::move(value);
      return;
    }
  object_->dict.emplace_back(key, std::move(value));
}
bool Value::same_object(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kNone: return true;
    case Kind::kBool: case Kind::kInt: return int_ == other.int_;
    case Kind::kFloat: return float_ == other.float_;
    case Kind::kString: return object_->text == other.object_->text;
    default: return object_ == other.object_;
  }
}

const Value* Call::argument(std::size_t place, std::string_view name) const {
  if (place < positional.size()) return &positional[place];
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}
void Call::expect(std::size_t most, std::initializer_list<std::string_view> names) const {
  if (positional.size() > most) throw Fault(fmt::format("{}() takes at most {} arguments, {} are given", name, most, positional.size()));
  for (const auto& [key, value] : named)
    if (std::find(names.begin(), names.end(), key) == names.end()) throw Fault(fmt::format("{}() has no argument '{}'", name, key));
}

bool truthy(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined: case Kind::kNone: return false;
    case Kind::kBool: case Kind::kInt: return v.as_int() != 0;
    case Kind::kFloat: return v.as_float() != 0;
    case Kind::kString: return !v.as_string().empty();
    case Kind::kList: case Kind::kTuple: return !v.as_list().empty();
    case Kind::kDict: return !v.as_dict().empty();
    case Kind::kNamespace: case Kind::kCallable: return true;
  }
  return false;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (!a.is(Kind::kFloat) && !b.is(Kind::kFloat)) return a.as_int() == b.as_int();
    return a.as_float() == b.as_float();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined: case Kind::kNone: return true;
    case Kind::kString: return a.as_string() == b.as_string();
    case Kind::kList: case Kind::kTuple:
      return a.as_list().size() == b.as_list().size() && std::equal(a.as_list().begin(), a.as_list().end(), b.as_list().begin(), equal);
    case Kind::kDict:
      return a.as_dict().size() == b.as_dict().size() && std::all_of(a.as_dict().begin(), a.as_dict().end(), [&](const auto& item) {
               const Value* other = b.find(item.first);
               return other && equal(item.second, *other);
             });
    default: return a.same_object(b);
  }
}

int compare(const Value& a, const Value& b) {
  const auto order = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.is_number() && b.is_number()) {
    if (!a.is(Kind::kFloat) && !b.is(Kind::kFloat)) return order(a.as_int(), b.as_int());
    return order(a.as_float(), b.as_float());
  }
  if (a.is_string() && b.is_string()) return order(a.as_string(), b.as_string());   // UTF-8 sorts as code points do
  if (a.is_sequence() && a.kind() == b.kind()) {
    const List &x = a.as_list(), &y = b.as_list();
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i])) return compare(x[i], y[i]);
    return order(x.size(), y.size());
  }
  throw Fault(fmt::format("'{}' and '{}' cannot be put in order", type_name(a), type_name(b)));
}

bool contains(const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) throw Fault(fmt::format("'in <string>' needs a string on the left, not {}", type_name(item)));
      return container.as_string().find(item.as_string()) != std::string::npos;
    case Kind::kList: case Kind::kTuple: {
      const List& list = container.as_list();
      return std::any_of(list.begin(), list.end(), [&](const Value& v) { return equal(v, item); });
    }
    case Kind::kDict:
      if (item.is_sequence() || item.is_mapping()) throw Fault(fmt::format("unhashable type: '{}'", type_name(item)));
      return container.find(item) != nullptr;
    case Kind::kUndefined: return false;
    default: throw Fault(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  }
}

List iterate(const Value& v, Budget& budget) {
  List items;
  switch (v.kind()) {
    case Kind::kUndefined: break;
    case Kind::kList: case Kind::kTuple: items = v.as_list(); break;
    case Kind::kDict:
      for (const auto& [key, value] : v.as_dict()) items.push_back(key);
      break;
    case Kind::kString:
      for (const std::string_view c : characters(v.as_string())) items.emplace_back(c);
      break;
    default: throw Fault(fmt::format("'{}' object is not iterable", type_name(v)));
  }
  budget.step(items.size());
  return items;
}

std::int64_t length(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined: return 0;
    case Kind::kString: return static_cast<std::int64_t>(character_count(v.as_string()));
    case Kind::kList: case Kind::kTuple: return static_cast<std::int64_t>(v.as_list().size());
    case Kind::kDict: return static_cast<std::int64_t>(v.as_dict().size());
    default: throw Fault(fmt::format("object of type '{}' has no length", type_name(v)));
  }
}

const char* type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kDict: return "dict";
    case Kind::kNamespace: return "Namespace";
    case Kind::kCallable: return "function";
  }
  return "object";
}

std::string float_repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  // The shortest digits that read back, in Python's layout: an exponent from 1e16 and below 1e-4.
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific).ptr;
  const std::string text(buffer, end);
  const std::size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent >= 16 || exponent < -4) return text.substr(0, e) + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::fixed).ptr;
  std::string plain(buffer, fixed);
  return plain.find('.') == std::string::npos ? plain + ".0" : plain;
}

std::string str(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined: return "";
    case Kind::kString: return v.as_string();
    default: return repr(v);
  }
}

namespace {

bool printable(char32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC: case UTF8PROC_CATEGORY_CF: case UTF8PROC_CATEGORY_CS: case UTF8PROC_CATEGORY_CO: case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS: case UTF8PROC_CATEGORY_ZL: case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
  }
}

std::string string_repr(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos, has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    if (c.value == static_cast<char32_t>(quote) || c.value == '\\') out += '\\', out += static_cast<char>(c.value);
    else if (c.value == '\n') out += "\\n";
    else if (c.value == '\r') out += "\\r";
    else if (c.value == '\t') out += "\\t";
    else if (printable(c.value)) out.append(text.substr(at, c.length));
    else if (c.value < 0x100) out += fmt::format("\\x{:02x}", static_cast<unsigned>(c.value));
    else if (c.value < 0x10000) out += fmt::format("\\u{:04x}", static_cast<unsigned>(c.value));
    else out += fmt::format("\\U{:08x}", static_cast<unsigned>(c.value));
    at += c.length;
  }
  return out + quote;
}

std::string items_repr(const List& items) {
  std::string out;
  for (const Value& item : items) out += (out.empty() ? "" : ", ") + repr(item);
  return out;
}

std::string json_string(std::string_view text, bool ascii) {
  std::string out = "\"";
  const auto unit = [&](unsigned u) { out += fmt::format("\\u{:04x}", u); };
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    switch (c.value) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (c.value < 0x20 || (ascii && c.value > 0x7e && c.value < 0x10000)) unit(c.value);
        else if (ascii && c.value >= 0x10000) unit(0xd7c0 + (c.value >> 10)), unit(0xdc00 + (c.value & 0x3ff));
        else out.append(text.substr(at, c.length));
    }
    at += c.length;
  }
  return out + '"';
}

void write_json(const Value& v, const JsonStyle& style, int level, std::string& out) {
  const auto new_line = [&](int depth) {
    if (style.indent >= 0) out += '\n' + std::string(static_cast<std::size_t>(style.indent * depth), ' ');
  };
  switch (v.kind()) {
    case Kind::kNone: out += "null"; return;
    case Kind::kBool: out += v.as_int() ? "true" : "false"; return;
    case Kind::kInt: out += fmt::format("{}", v.as_int()); return;
    case Kind::kFloat:
      out += std::isnan(v.as_float()) ? "NaN" : std::isinf(v.as_float()) ? (v.as_float() < 0 ? "-Infinity" : "Infinity") : float_repr(v.as_float());
      return;
    case Kind::kString: out += json_string(v.as_string(), style.ensure_ascii); return;
    case Kind::kList: case Kind::kTuple: {
      if (v.as_list().empty()) {
        out += "[]";
        return;
      }
      out += '[';
      bool first = true;
      for (const Value& item : v.as_list()) {
        if (!first) out += style.item;
        first = false;
        new_line(level + 1);
        write_json(item, style, level + 1, out);
      }
      new_line(level);
      out += ']';
      return;
    }
    case Kind::kDict: {
      if (v.as_dict().empty()) {
        out += "{}";
        return;
      }
      Dict items = v.as_dict();
      if (style.sort_keys) std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
      out += '{';
      bool first = true;
      for (const auto& [key, value] : items) {
        if (!first) out += style.item;
        first = false;
        new_line(level + 1);
        std::string name;
        if (key.is_string()) name = key.as_string();
        else if (key.is_number() || key.is(Kind::kNone)) write_json(key, style, 0, name);
        else throw Fault(fmt::format("a key of type {} cannot be JSON", type_name(key)));
        out += json_string(name, style.ensure_ascii) + style.key;
        write_json(value, style, level + 1, out);
      }
      new_line(level);
      out += '}';
      return;
    }
    default: throw Fault(fmt::format("an object of type {} cannot be JSON", type_name(v)));
  }
}

std::string mapped_case(std::string_view text, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    append_utf8(out, static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c.value))));
    at += c.length;
  }
  return out;
}

}  // namespace

std::string repr(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "None";
    case Kind::kBool: return v.as_int() ? "True" : "False";
    case Kind::kInt: return fmt::format("{}", v.as_int());
    case Kind::kFloat: return float_repr(v.as_float());
    case Kind::kString: return string_repr(v.as_string());
    case Kind::kList: return "[" + items_repr(v.as_list()) + "]";
    case Kind::kTuple: return "(" + items_repr(v.as_list()) + (v.as_list().size() == 1 ? ",)" : ")");
    case Kind::kDict: {
      std::string out;
      for (const auto& [key, value] : v.as_dict()) out += (out.empty() ? "" : ", ") + repr(key) + ": " + repr(value);
      return "{" + out + "}";
    }
    case Kind::kNamespace: return "<Namespace>";
    case Kind::kCallable: return "<function " + v.as_string() + ">";
  }
  return "";
}

std::string to_json(const Value& value, const JsonStyle& style) {
  std::string out;
  write_json(value, style, 0, out);
  return out;
}

Value value_of(const nlohmann::ordered_json& json) {
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean: return Value(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer: return Value(json.get<std::int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) throw Fault(fmt::format("{} does not fit 64 bits", json.get<std::uint64_t>()));
      return Value(json.get<std::int64_t>());
    case nlohmann::ordered_json::value_t::number_float: return Value(json.get<double>());
    case nlohmann::ordered_json::value_t::string: return Value(json.get_ref<const std::string&>());
    case nlohmann::ordered_json::value_t::array: {
      List items;
      for (const auto& item : json) items.push_back(value_of(item));
      return Value::list(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      Dict items;
      for (const auto& [key, item] : json.items()) items.emplace_back(Value(key), value_of(item));
      return Value::dict(std::move(items));
    }
    default: return Value();
  }
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const unsigned n = code_point(text, at).length;
    out.push_back(text.substr(at, n));
    at += n;
  }
  return out;
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

bool is_space(char32_t c) { return (char_class(c) & kSpace) || (c >= 0x1c && c <= 0x1f); }

std::string_view strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const CodePoint c = code_point(text, 0);
    if (!is_space(c.value)) break;
    text.remove_prefix(c.length);
  }
  while (right && !text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
    if (!is_space(code_point(text, at).value)) break;
    text = text.substr(0, at);
  }
  return text;
}

std::string_view strip_of(std::string_view text, std::string_view chars, bool left, bool right) {
  const auto set = characters(chars);
  const auto in_set = [&](std::string_view c) { return std::find(set.begin(), set.end(), c) != set.end(); };
  while (left && !text.empty() && in_set(text.substr(0, code_point(text, 0).length))) text.remove_prefix(code_point(text, 0).length);
  while (right && !text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
    if (!in_set(text.substr(at))) break;
    text = text.substr(0, at);
  }
  return text;
}

std::string upper(std::string_view text) { return mapped_case(text, utf8proc_toupper); }
std::string lower(std::string_view text) { return mapped_case(text, utf8proc_tolower); }
std::string capitalize(std::string_view text) {
  if (text.empty()) return "";
  const unsigned first = code_point(text, 0).length;
  return mapped_case(text.substr(0, first), utf8proc_totitle) + lower(text.substr(first));
}

std::string replace(std::string_view text, std::string_view from, std::string_view to, std::int64_t count, Budget& budget) {
  std::string out;
  const auto put = [&](std::string_view part) {
    budget.make(part.size());
    out.append(part);
  };
  if (from.empty()) {   // before every character and at the end
    for (const std::string_view c : characters(text)) {
      if (count != 0) put(to), --count;
      put(c);
    }
    if (count != 0) put(to);
    return out;
  }
  for (; count != 0; --count) {
    const std::size_t at = text.find(from);
    if (at == text.npos) break;
    put(text.substr(0, at));
    put(to);
    text.remove_prefix(at + from.size());
  }
  put(text);
  return out;
}

}  // namespace musacoder::llm::jinja
