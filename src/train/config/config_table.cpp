#include "train/config/config_table.h"

// Malformed files end in toml++'s exception; its assertions would end the program first in builds that have
// them.
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/files.h"

namespace musacoder::train {
namespace {

struct Place {
  std::string file;
  unsigned line = 0;
  std::string text() const { return line ? fmt::format("{}:{}", file, line) : file; }
};

const char* kind_name(const ConfigKey& key) {
  constexpr const char* kNames[] = {"a text in quotes", "a whole number",  "a number",
                                    "true or false",    "a list of texts", "a table of numbers"};
  return kNames[key.at.index()];
}

const ConfigKey* find_key(const std::vector<ConfigKey>& keys, const std::string& name) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

tl::unexpected<Error> unknown_key(const std::vector<ConfigKey>& keys, const std::string& name,
                                  const Place& place) {
  std::vector<std::string> names;
  for (const ConfigKey& key : keys) names.push_back(key.name);
  const std::string near = nearest_name(name, names);
  return fail(Code::kInvalidArgument, "{}: there is no key '{}'{}", place.text(), name,
              near.empty() ? std::string() : fmt::format("; did you mean '{}'?", near));
}

tl::unexpected<Error> wrong_kind(const ConfigKey& key, const Place& place) {
  return fail(Code::kInvalidArgument, "{}: '{}' must be {}", place.text(), key.name, kind_name(key));
}

std::optional<double> number_of(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return static_cast<double>(whole->get());
  if (const auto* real = node.as_floating_point()) return real->get();
  return std::nullopt;
}

Status assign(const ConfigKey& key, const toml::node& node, const Place& place) {
  if (auto* const* text = std::get_if<std::string*>(&key.at)) {
    const auto* given = node.as_string();
    if (!given) return wrong_kind(key, place);
    if (!key.choices.empty() &&
        std::find(key.choices.begin(), key.choices.end(), given->get()) == key.choices.end())
      return fail(Code::kInvalidArgument, "{}: '{}' is one of {}, not '{}'", place.text(), key.name,
                  fmt::join(key.choices, ", "), given->get());
    **text = given->get();
  } else if (auto* const* whole = std::get_if<std::int64_t*>(&key.at)) {
    const auto* given = node.as_integer();
    if (!given) return wrong_kind(key, place);
    **whole = given->get();
  } else if (auto* const* real = std::get_if<double*>(&key.at)) {
    const auto given = number_of(node);
    if (!given) return wrong_kind(key, place);
    **real = *given;
  } else if (auto* const* flag = std::get_if<bool*>(&key.at)) {
    const auto* given = node.as_boolean();
    if (!given) return wrong_kind(key, place);
    **flag = given->get();
  } else if (auto* const* list = std::get_if<std::vector<std::string>*>(&key.at)) {
    const auto* given = node.as_array();
    if (!given) return wrong_kind(key, place);
    std::vector<std::string> out;
    for (const auto& one : *given) {
      if (!one.as_string()) return wrong_kind(key, place);
      out.push_back(one.as_string()->get());
    }
    **list = std::move(out);
  } else if (auto* const* map = std::get_if<NumberMap*>(&key.at)) {
    const auto* given = node.as_table();
    if (!given) return wrong_kind(key, place);
    for (const auto& [name, value] : *given) {
      const auto number = number_of(value);
      if (!number) return wrong_kind(key, place);
      (**map)[std::string(name.str())] = *number;
    }
  }
  return ok();
}

Status read_table(const std::vector<ConfigKey>& keys, const toml::table& table, const std::string& prefix,
                  const std::string& file) {
  for (const auto& [name, value] : table) {
    const std::string full = prefix + std::string(name.str());
    const Place place{file, file.empty() ? 0 : static_cast<unsigned>(value.source().begin.line)};
    if (const ConfigKey* key = find_key(keys, full)) {
      MC_RETURN_IF_ERROR(assign(*key, value, place));
    } else if (const auto* inner = value.as_table();
               inner && std::any_of(keys.begin(), keys.end(),
                                    [&](const ConfigKey& one) { return one.name.starts_with(full + "."); })) {
      MC_RETURN_IF_ERROR(read_table(keys, *inner, full + ".", file));
    } else {
      return unknown_key(keys, full, place);
    }
  }
  return ok();
}

Result<toml::table> parse(const std::string& text, const std::string& where) {
  try {
    return toml::parse(text, where);
  } catch (const toml::parse_error& error) {
    return fail(Code::kInvalidArgument, "{}:{}: {}", where, error.source().begin.line, error.description());
  }
}

nlohmann::json value_of(const ConfigKey& key) {
  return std::visit([](const auto* value) { return nlohmann::json(*value); }, key.at);
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  // The right key under the wrong section is many edits away.
  const std::string last = name.substr(name.rfind('.') + 1);
  for (const std::string& other : candidates)
    if (name.find('.') != std::string::npos && other.substr(other.rfind('.') + 1) == last) return other;
  std::string best;
  std::size_t best_edits = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& other : candidates) {
    std::vector<std::size_t> row(other.size() + 1);  // edits from the prefix of `name` so far to each prefix
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const std::size_t substituted = diagonal + (name[i - 1] == other[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < best_edits) {
      best_edits = row.back();
      best = other;
    }
  }
  return best;
}

Status read_config_text(const std::vector<ConfigKey>& keys, const std::string& text,
                        const std::string& where) {
  MC_ASSIGN_OR_RETURN(const toml::table table, parse(text, where));
  return read_table(keys, table, "", where);
}

Status read_config(const std::vector<ConfigKey>& keys, const std::string& path) {
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, 4 << 20));
  return read_config_text(keys, text, path);
}

Status set_config(const std::vector<ConfigKey>& keys, const std::string& assignment) {
  const std::string where = fmt::format("--set {}", assignment);
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    return fail(Code::kInvalidArgument, "{}: write key=value", where);
  const std::string name = assignment.substr(0, equals), value = assignment.substr(equals + 1);
  const ConfigKey* key = find_key(keys, name);
  const auto as_toml = parse("value = " + value + "\n", where);
  if (!key) {
    const std::size_t dot = name.rfind('.');
    const ConfigKey* map = dot == std::string::npos ? nullptr : find_key(keys, name.substr(0, dot));
    auto* const* numbers = map ? std::get_if<NumberMap*>(&map->at) : nullptr;
    if (!numbers) return unknown_key(keys, name, {where});
    const auto number = as_toml ? number_of(*as_toml->get("value")) : std::nullopt;
    if (!number) return fail(Code::kInvalidArgument, "{}: '{}' must be a number", where, name);
    (**numbers)[name.substr(dot + 1)] = *number;
    return ok();
  }
  if (std::holds_alternative<std::string*>(key->at) && !(as_toml && as_toml->get("value")->is_string()))
    return assign(*key, toml::value<std::string>(value), {where});
  if (!as_toml) return tl::unexpected<Error>(as_toml.error());
  return assign(*key, *as_toml->get("value"), {where});
}

Status read_config(const std::vector<ConfigKey>& keys, const std::string& path,
                   const std::vector<std::string>& assignments) {
  MC_RETURN_IF_ERROR(read_config(keys, path));
  for (const std::string& assignment : assignments) MC_RETURN_IF_ERROR(set_config(keys, assignment));
  return ok();
}

nlohmann::json config_json(const std::vector<ConfigKey>& keys) {
  nlohmann::json out = nlohmann::json::object();
  for (const ConfigKey& key : keys) out[key.name] = value_of(key);
  return out;
}

std::string config_markdown(const std::vector<ConfigKey>& keys) {
  std::string out = "| key | default | meaning |\n|---|---|---|\n";
  for (const ConfigKey& key : keys) {
    const std::string choices =
        key.choices.empty() ? "" : fmt::format(" (`{}`)", fmt::join(key.choices, "`, `"));
    out += fmt::format("| `{}` | `{}` | {}{} |\n", key.name, value_of(key).dump(), key.meaning, choices);
  }
  return out;
}

}  // namespace musacoder::train
