// Filters, tests, methods and global functions: what a template finds without being given it.
//
//   const Filter* trim = find_filter("trim");
//   Call call{"trim", {}, {}, budget};
//   (*trim)(Value("  x "), call);                     // "x"
//   attribute_of(Value("a b"), "split");              // a bound method
//
// To add one: a row in the table of filters.cpp, tests.cpp or methods.cpp, and a case in tests/python/test_llm_chat.py, which
// compares with jinja2. What a table lacks is a Fault that names it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "llm/chat/jinja/value.h"

namespace musacoder::llm::jinja {

using Filter = std::function<Value(const Value& input, Call& call)>;
using Test = std::function<bool(const Value& input, Call& call)>;

const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);

// object.name: a method, else the item of that name; undefined where there is neither.
Value attribute_of(const Value& object, std::string_view name);
// object[key]
Value item_of(const Value& object, const Value& key);
// Items through "a.b.0", as the `attribute` of map, sort and others.
Value path_of(const Value& object, const Value& path);

// range, dict, namespace, joiner, raise_exception, strftime_now; undefined: no such function. `now_s`: seconds
// since 1970 for strftime_now, in local time.
Value global_function(std::string_view name, double now_s);

// "…" % values, and str.format.
std::string percent_format(std::string_view format, const Value& values);

}  // namespace musacoder::llm::jinja
