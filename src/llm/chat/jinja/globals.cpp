// Functions that every template has.
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <memory>
#include <utility>

#include "llm/chat/jinja/builtins.h"

namespace musacoder::llm::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;   // as Jinja's sandbox

Value range(Call& call) {
  call.expect(3);
  for (const Value& v : call.positional)
    if (!v.is(Kind::kInt) && !v.is(Kind::kBool)) throw Fault(fmt::format("range() needs whole numbers, not {}", type_name(v)));
  const auto& p = call.positional;
  if (p.empty()) throw Fault("range() needs a number");
  const std::int64_t start = p.size() > 1 ? p[0].as_int() : 0, stop = p.size() > 1 ? p[1].as_int() : p[0].as_int(), step = p.size() > 2 ? p[2].as_int() : 1;
  if (step == 0) throw Fault("range() with a step of 0");
  List out;
  std::int64_t at = start;
  for (bool beyond = false; !beyond && (step > 0 ? at < stop : at > stop); beyond = __builtin_add_overflow(at, step, &at)) {
    if (static_cast<std::int64_t>(out.size()) >= kMaxRange) throw Fault(fmt::format("a range of more than {} numbers", kMaxRange));
    call.budget.step();
    out.emplace_back(at);
  }
  return Value::list(std::move(out));
}

// dict(…) and namespace(…): the items of a dict or a list of pairs, then those given by name.
Dict items_of(Call& call) {
  call.expect(1, {});
  Dict items;
  const Value all = Value::name_space({});
  if (!call.positional.empty()) {
    const Value& first = call.positional[0];
    if (first.is_mapping()) {
      for (const auto& [key, value] : first.as_dict()) all.set(key, value);
    } else {
      for (const Value& pair : iterate(first, call.budget)) {
        if (!pair.is_sequence() || pair.as_list().size() != 2) throw Fault(fmt::format("{}() needs a dict or pairs", call.name));
        all.set(pair.as_list()[0], pair.as_list()[1]);
      }
    }
  }
  return all.as_dict();
}

template <typename Make>
Value make_dict(Call& call, Make make) {
  auto named = std::move(call.named);
  call.named.clear();
  const Value all = Value::name_space(items_of(call));
  for (auto& [key, value] : named) all.set(Value(key), value);
  return make(all.as_dict());
}

std::string strftime_of(const std::string& format, double now_s) {
  const auto seconds = static_cast<std::time_t>(std::floor(now_s));
  std::tm local{};
  localtime_r(&seconds, &local);
  if (format.empty()) return "";
  // strftime's 0 is "empty" as well as "too small"; a mark in front tells them apart.
  std::string out(256, '\0');
  const std::string marked = "." + format;
  while (out.size() < (1u << 16)) {
    if (const std::size_t n = std::strftime(out.data(), out.size(), marked.c_str(), &local)) return out.substr(1, n - 1);
    out.resize(out.size() * 2);
  }
  throw Fault("strftime_now() of an endless format");
}

}  // namespace

Value global_function(std::string_view name, double now_s) {
  if (name == "range") return Value::callable("range", range);
  if (name == "dict") return Value::callable("dict", [](Call& c) { return make_dict(c, [](const Dict& items) { return Value::dict(items); }); });
  if (name == "namespace")
    return Value::callable("namespace", [](Call& c) {
      return make_dict(c, [](const Dict& items) {
        for (const auto& [key, value] : items)
          if (key.is_string() && key.as_string().rfind('_', 0) == 0) throw Fault(fmt::format("a namespace cannot have '{}': it begins with an underscore", key.as_string()));
        return Value::name_space(items);
      });
    });
  if (name == "joiner")
    return Value::callable("joiner", [](Call& c) {
      c.expect(1, {"sep"});
      const Value* sep = c.argument(0, "sep");
      auto used = std::make_shared<bool>(false);
      return Value::callable("joiner", [used, text = sep ? *sep : Value(", ")](Call&) { return std::exchange(*used, true) ? text : Value(""); });
    });
  if (name == "raise_exception")
    return Value::callable("raise_exception", [](Call& c) -> Value {
      const Value* message = c.argument(0, "message");
      throw Fault(message ? str(*message) : "raise_exception()");
    });
  if (name == "strftime_now")
    return Value::callable("strftime_now", [now_s](Call& c) {
      c.expect(1, {"format"});
      const Value* format = c.argument(0, "format");
      if (!format || !format->is_string()) throw Fault("strftime_now() needs a format");
      return Value(strftime_of(format->as_string(), now_s));
    });
  return Value::undefined(fmt::format("'{}' is undefined", name));
}

}  // namespace musacoder::llm::jinja
