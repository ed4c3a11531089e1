#include "port/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/terminal.h"

namespace musacoder::port {
namespace {

using json = nlohmann::ordered_json;

std::map<std::string, std::size_t> groups_of(const std::vector<PortedFile>& files) {
  std::map<std::string, std::size_t> groups;
  for (const PortedFile& file : files)
    for (const Rename& rename : file.renames) ++groups[rename.group];
  return groups;
}

bool breaks_way_back(const Attention& item) {
  return item.kind == "ambiguous" || item.kind == "one_way" || item.kind == "already_ported";
}

// name → {to, group, count}
json names_of(const PortedFile& file) {
  std::map<std::string, json> names;
  for (const Rename& rename : file.renames) {
    json& name = names[rename.from];
    if (name.is_null()) name = {{"to", rename.to}, {"group", rename.group}, {"count", 0}};
    name["count"] = name["count"].get<std::size_t>() + 1;
  }
  json all = json::object();
  for (auto& [from, name] : names) all[from] = std::move(name);
  return all;
}

}  // namespace

bool reversible(const std::vector<PortedFile>& files) {
  return std::all_of(files.begin(), files.end(), [](const PortedFile& file) {
    return std::none_of(file.attention.begin(), file.attention.end(), breaks_way_back);
  });
}

std::string report_text(const std::vector<PortedFile>& files, Dialect to, std::size_t listed) {
  std::size_t changed = 0, renames = 0;
  for (const PortedFile& file : files) {
    changed += file.changed();
    renames += file.renames.size();
  }
  std::string out =
      fmt::format("{} of {} files changed, {} names to {}", changed, files.size(), renames, dialect_name(to));
  const auto groups = groups_of(files);
  std::string list;
  for (const auto& [group, count] : groups)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", group, count);
  out += list.empty() ? "\n" : ": " + list + "\n";

  std::map<std::string, std::vector<std::pair<const PortedFile*, const Attention*>>> kinds;
  for (const PortedFile& file : files)
    for (const Attention& item : file.attention) kinds[item.kind].emplace_back(&file, &item);
  for (const auto& [kind, items] : kinds) {
    out += fmt::format("\n{} ({}):\n", kind, items.size());
    std::string last_why;
    for (std::size_t i = 0; i < std::min(listed, items.size()); ++i) {
      const auto& [file, item] = items[i];
      const std::string why = item->why == last_why ? "" : ": " + item->why;
      last_why = item->why;
      const std::string row = item->row ? fmt::format("row {}:", item->row) : "";
      out += fmt::format("  {}:{}{}:{} {}{}\n", base::printable(file->path, false), row, item->line,
                         item->column, base::printable(item->what, false), why);
    }
    if (items.size() > listed)
      out += fmt::format("  … and {} more; --json lists them all\n", items.size() - listed);
  }
  return out;
}

json report_json(const RenameTable& table, const std::vector<PortedFile>& files, Dialect to) {
  json report{{"to", dialect_name(to)}, {"tables", table.hash()}, {"reversible", reversible(files)}};
  json groups = json::object();
  for (const auto& [group, count] : groups_of(files)) groups[group] = count;
  std::map<std::string, std::size_t> kinds;
  json list = json::array();
  for (const PortedFile& file : files) {
    json attention = json::array();
    for (const Attention& item : file.attention) {
      ++kinds[item.kind];
      attention.push_back({{"line", item.line},
                           {"column", item.column},
                           {"kind", item.kind},
                           {"what", item.what},
                           {"why", item.why}});
      if (item.row) attention.back()["row"] = item.row;
    }
    json file_groups = json::object();
    for (const auto& [group, count] : groups_of({file})) file_groups[group] = count;
    list.push_back({{"path", file.path},
                    {"to", file.relative},
                    {"text", file.text},
                    {"changed", file.changed()},
                    {"renames", file.renames.size()},
                    {"groups", std::move(file_groups)},
                    {"names", names_of(file)},
                    {"attention", std::move(attention)}});
  }
  report["groups"] = std::move(groups);
  json counted = json::object();
  for (const auto& [kind, count] : kinds) counted[kind] = count;
  report["attention_kinds"] = std::move(counted);
  report["files"] = std::move(list);
  return report;
}

}  // namespace musacoder::port
