#include "synth/graph/python_text.h"

#include <cctype>
#include <cmath>
#include <cstdlib>

namespace musacoder::synth {
namespace {

std::string items(const std::vector<std::int64_t>& list) {
  std::string text;
  for (std::int64_t v : list) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return text;
}

// Whether a method or an operator can follow as it is: a name, a call, an index.
bool plain(const std::string& text) {
  int depth = 0;
  for (char c : text) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (depth == 0 && (c == ' ' || c == '-' || c == '~')) return false;
  }
  return true;
}

class Filler {
 public:
  Filler(const std::vector<std::string>& operands, const Attrs& attrs, const std::map<std::string, std::string>& texts)
      : operands_(operands), attrs_(attrs), texts_(texts) {}

  // False where something is missing.
  bool fill(std::string_view pattern, std::string& out) const {
    bool complete = true;
    for (std::size_t i = 0; i < pattern.size();) {
      if (pattern.substr(i, 2) == "[[" && i + 2 < pattern.size() && pattern.find("]]", i) != std::string_view::npos &&
          pattern.substr(i, 3) != "[[[") {
        const std::size_t end = pattern.find("]]", i);
        std::string group;
        if (fill(pattern.substr(i + 2, end - i - 2), group)) out += group;
        i = end + 2;
      } else if (pattern[i] == '{') {
        const std::size_t end = pattern.find('}', i);
        const bool call = end + 1 < pattern.size() && pattern[end + 1] == '.';
        complete = place(pattern.substr(i + 1, end - i - 1), symbol(pattern) || call, out) && complete;
        i = end + 1;
      } else {
        out += pattern[i++];
      }
    }
    return complete;
  }

 private:
  static bool symbol(std::string_view pattern) { return pattern.find('(') == std::string_view::npos && pattern.find('=') == std::string_view::npos; }

  bool place(std::string_view key, bool careful, std::string& out) const {
    if (key == "*") {
      std::string all;
      for (const std::string& o : operands_) all += (all.empty() ? "" : ", ") + o;
      out += all;
      return true;
    }
    if (std::isdigit(static_cast<unsigned char>(key[0]))) {
      const auto index = static_cast<std::size_t>(std::atoi(std::string(key).c_str()));
      if (index >= operands_.size()) return false;
      out += careful && !plain(operands_[index]) ? "(" + operands_[index] + ")" : operands_[index];
      return true;
    }
    const std::size_t colon = key.find(':');
    const std::string name(key.substr(0, colon));
    const auto it = attrs_.find(name);
    if (it == attrs_.end()) return false;
    const std::string_view form = colon == std::string_view::npos ? "" : key.substr(colon + 1);
    std::vector<std::int64_t> list;
    if (const auto* l = std::get_if<std::vector<std::int64_t>>(&it->second.value)) list = *l;
    if (const auto* i = std::get_if<std::int64_t>(&it->second.value)) list = {*i};
    const bool named = !it->second.constant.empty();
    if (form == "raw") out += std::get<std::string>(it->second.value);
    else if (form == "tuple") out += named ? "(" + texts_.at(name) + ",)" : "(" + items(list) + (list.size() == 1 ? ",)" : ")");
    else if (form == "list") out += "[" + items(list) + "]";
    else if (form == "items") out += items(list);
    else out += texts_.at(name);
    return true;
  }

  const std::vector<std::string>& operands_;
  const Attrs& attrs_;
  const std::map<std::string, std::string>& texts_;
};

}  // namespace

std::string python_value(const Attr::Value& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "True" : "False";
  if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const auto* s = std::get_if<std::string>(&value)) return "\"" + *s + "\"";
  if (const auto* l = std::get_if<std::vector<std::int64_t>>(&value)) return "(" + items(*l) + (l->size() == 1 ? ",)" : ")");
  const double d = std::get<double>(value);
  if (std::isinf(d)) return d > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  std::string text = fmt::format("{}", d);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string fill_template(std::string_view pattern, const std::vector<std::string>& operands, const Attrs& attrs,
                          const std::map<std::string, std::string>& texts) {
  std::string text;
  Filler(operands, attrs, texts).fill(pattern, text);
  for (std::size_t at; (at = text.find("(, ")) != std::string::npos;) text.erase(at + 1, 2);
  return text;
}

}  // namespace musacoder::synth
