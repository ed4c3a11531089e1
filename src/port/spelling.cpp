#include "port/spelling.h"

namespace musacoder::port {
namespace {

bool fits_right(const SpellingRule& rule, std::string_view rest) {
  if (!rule.upper && !rule.lower && !rule.underscore) return true;
  if (rest.empty()) return false;
  const char c = rest[0];
  if (c == '_') return rule.underscore;
  if (c >= 'a' && c <= 'z') return rule.lower;
  return rule.upper;  // capitals and digits
}

}  // namespace

std::string Spelling::apply(std::string_view name, bool forward) const {
  std::string out;
  for (std::size_t i = 0; i < name.size();) {
    const SpellingRule* fitting = nullptr;
    for (const SpellingRule& rule : rules_) {
      const std::string& from = forward ? rule.from : rule.to;
      if (name.substr(i, from.size()) != from) continue;
      if (rule.edge && i > 0 && name[i - 1] != '_') continue;
      if (!fits_right(rule, name.substr(i + from.size()))) continue;
      fitting = &rule;
      break;
    }
    if (!fitting) {
      out += name[i++];
      continue;
    }
    out += forward ? fitting->to : fitting->from;
    i += (forward ? fitting->from : fitting->to).size();
  }
  return out;
}

}  // namespace musacoder::port
