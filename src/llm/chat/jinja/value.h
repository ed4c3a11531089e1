// The values that templates compute with: Python's, as far as chat templates use them.
//
//   Value list = Value::list({Value(1), Value("two")});
//   str(list);                    // "[1, 'two']"
//   to_json(list, {});            // "[1, \"two\"]"
//   value_of(json);               // from nlohmann's ordered JSON, key order kept
//
// Values are cheap to copy and immutable but for namespaces. Integers have 64 bits and containers 200 levels; more is a Fault. Everything in this
// folder reports failure by throwing Fault, which Template (template.h) turns into an Error; Budget bounds what a hostile
// template may use. Thread safety: values may be shared among threads as long as no namespace is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace musacoder::llm::jinja {

// What went wrong in a template. `line` is filled in on the way out: the innermost statement's.
struct Fault : std::runtime_error {
  explicit Fault(const std::string& message) : std::runtime_error(message) {}
  int line = 0;
};

// What a rendering may still use. Each evaluated node is a step; each byte of a made string counts.
struct Budget {
  std::uint64_t steps = 20'000'000, bytes = 512u << 20;
  int depth = 500;   // of nested expressions, statements and macro calls
  void step(std::uint64_t n = 1);
  void make(std::uint64_t n);
};

enum class Kind { kUndefined, kNone, kBool, kInt, kFloat, kString, kList, kTuple, kDict, kNamespace, kCallable };

class Value;
struct Call;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<Value, Value>>;   // in order of insertion

class Value {
 public:
  Value() : kind_(Kind::kNone) {}
  explicit Value(bool b) : kind_(Kind::kBool), int_(b) {}
  explicit Value(std::int64_t i) : kind_(Kind::kInt), int_(i) {}
  explicit Value(int i) : Value(std::int64_t{i}) {}
  explicit Value(double d) : kind_(Kind::kFloat), float_(d) {}
  explicit Value(std::string s);
  explicit Value(std::string_view s) : Value(std::string(s)) {}
  explicit Value(const char* s) : Value(std::string(s)) {}
  static Value undefined(std::string why);   // "'x' is undefined"
  static Value list(List items);
  static Value tuple(List items);
  static Value dict(Dict items);
  static Value name_space(Dict items);
  static Value callable(std::string name, std::function<Value(Call&)> function);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_number() const { return kind_ == Kind::kBool || kind_ == Kind::kInt || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_mapping() const { return kind_ == Kind::kDict; }

  // The content; the kind must fit.
  std::int64_t as_int() const { return int_; }           // kBool, kInt
  double as_float() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }
  const std::string& as_string() const;                  // kString; kUndefined: why; kCallable: its name
  const List& as_list() const;                           // kList, kTuple
  const Dict& as_dict() const;                           // kDict, kNamespace
  const std::function<Value(Call&)>& function() const;   // kCallable
  const Value* find(const Value& key) const;             // kDict, kNamespace; nullptr: no such key
  void set(const Value& key, Value value) const;         // kNamespace
  bool same_object(const Value& other) const;            // Python's `is`

 private:
  struct Object;
  static Value container(Kind kind, List list, Dict dict);
  int nesting() const;
  Kind kind_;
  union {
    std::int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<Object> object_;
};

// Arguments of a call.
struct Call {
  std::string name;
  List positional;
  std::vector<std::pair<std::string, Value>> named;
  Budget& budget;

  // The argument at `place` or called `name`; nullptr where it is not given. Each is taken once.
  const Value* argument(std::size_t place, std::string_view name) const;
  // Fault when there are more arguments than `most` or one is not called as in `names`.
  void expect(std::size_t most, std::initializer_list<std::string_view> names = {}) const;
};

bool truthy(const Value& value);
bool equal(const Value& a, const Value& b);
// < 0, 0, > 0. Fault where Python would not compare the two.
int compare(const Value& a, const Value& b);
bool contains(const Value& container, const Value& item);
// Items of a list or tuple, keys of a dict, characters of a text, nothing of an undefined value. Fault for the rest.
List iterate(const Value& value, Budget& budget);
// len(); Fault for what has none.
std::int64_t length(const Value& value);
// "str", "int", "dict", … as error messages name it
const char* type_name(const Value& value);

std::string str(const Value& value);
std::string repr(const Value& value);
std::string float_repr(double value);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  int indent = -1;                       // < 0: one line
  std::string item = ", ", key = ": ";   // separators
};
std::string to_json(const Value& value, const JsonStyle& style);
Value value_of(const nlohmann::ordered_json& json);

// Python's idea of a text's characters.
std::vector<std::string_view> characters(std::string_view text);
std::size_t character_count(std::string_view text);
bool is_space(char32_t c);   // str.isspace()
std::string_view strip(std::string_view text, bool left, bool right);
std::string_view strip_of(std::string_view text, std::string_view chars, bool left, bool right);
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string replace(std::string_view text, std::string_view from, std::string_view to, std::int64_t count, Budget& budget);

}  // namespace musacoder::llm::jinja
