#include "candidate/facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_lines.h"

namespace musacoder::candidate {
namespace {

using nlohmann::json;

std::string text_of(const json& node, const char* key) {
  auto it = node.find(key);
  return it != node.end() && it->is_string() ? it->get<std::string>() : std::string();
}

int line_of(const json& node, const char* key = "line") {
  auto it = node.find(key);
  return it != node.end() && it->is_number_integer() ? it->get<int>() : 0;
}

std::vector<std::string> strings_of(const json& node, const char* key) {
  std::vector<std::string> out;
  if (auto it = node.find(key); it != node.end() && it->is_array())
    for (const json& item : *it)
      if (item.is_string()) out.push_back(item.get<std::string>());
  return out;
}

std::vector<std::int64_t> integers_of(const json& node, const char* key) {
  std::vector<std::int64_t> out;
  if (auto it = node.find(key); it != node.end() && it->is_array())
    for (const json& item : *it)
      if (item.is_number_integer()) out.push_back(item.get<std::int64_t>());
  return out;
}

const json& list_of(const json& node, const char* key) {
  static const json empty = json::array();
  auto it = node.find(key);
  return it != node.end() && it->is_array() ? *it : empty;
}

bool flag_of(const json& node, const char* key) {
  auto it = node.find(key);
  return it != node.end() && it->is_boolean() && it->get<bool>();
}

Facts read_facts(const json& root) {
  Facts facts;
  facts.parsed = flag_of(root, "ok");
  if (auto it = root.find("error"); it != root.end() && it->is_object()) {
    facts.syntax_line = line_of(*it);
    facts.syntax_message = text_of(*it, "message");
  }
  for (const json& item : list_of(root, "classes"))
    facts.classes.push_back({text_of(item, "name"), line_of(item), strings_of(item, "bases"), strings_of(item, "methods")});
  for (const json& item : list_of(root, "imports")) facts.imports.push_back({text_of(item, "module"), line_of(item)});
  if (text_of(root, "dialect") == "musa") facts.dialect = Dialect::kMusa;
  if (auto it = root.find("dialect_why"); it != root.end() && it->is_object()) facts.dialect_why = {text_of(*it, "what"), line_of(*it)};
  for (const json& item : list_of(root, "torch_calls")) facts.torch_calls.push_back({text_of(item, "name"), line_of(item)});
  for (const json& item : list_of(root, "builds"))
    facts.builds.push_back({text_of(item, "call"), text_of(item, "name"), text_of(item, "function"), line_of(item),
                            flag_of(item, "in_try")});
  for (const json& item : list_of(root, "literals"))
    facts.literals.push_back({line_of(item), flag_of(item, "exact"), text_of(item, "text")});
  facts.constants_python = integers_of(root, "constants_python");
  facts.constants_cuda = integers_of(root, "constants_cuda");
  if (auto it = root.find("model_new"); it != root.end() && it->is_object()) {
    facts.model_new = {flag_of(*it, "usable"), text_of(*it, "why"), line_of(*it), strings_of(*it, "bases"), std::nullopt};
    if (auto forward = it->find("forward"); forward != it->end() && forward->is_array())
      facts.model_new.forward = strings_of(*it, "forward");
  }
  return facts;
}

}  // namespace

Result<Facts> facts_from_json(const std::string& text) {
  MC_ASSIGN_OR_RETURN(json root, base::parse_json(text));
  if (!root.is_object()) return fail(Code::kInvalidArgument, "facts must be a JSON object");
  return read_facts(root);
}

std::optional<int> python_line_of(const Facts& facts, const std::string& source, int line) {
  if (line < 1) return std::nullopt;
  // A source is one literal, or several joined; find the one that covers the line.
  for (const LiteralFact& literal : facts.literals) {
    if (!literal.exact || literal.text.empty()) continue;
    const std::size_t at = source.find(literal.text);
    if (at == std::string::npos) continue;
    const int first = 1 + static_cast<int>(std::count(source.begin(), source.begin() + static_cast<long>(at), '\n'));
    const int rows = static_cast<int>(std::count(literal.text.begin(), literal.text.end(), '\n'));
    if (line >= first && line <= first + rows) return literal.line + line - first;
  }
  return std::nullopt;
}

}  // namespace musacoder::candidate
