#include "judge/rows.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/json_lines.h"

namespace musacoder::judge {

using nlohmann::json;

namespace {

// "1" of "level1/19", "kernelbench/level_2/7".
std::string level_in_task(const std::string& task) {
  const std::size_t at = task.find("level");
  if (at == std::string::npos || (at > 0 && task[at - 1] != '/')) return "";
  std::size_t begin = at + 5;
  if (begin < task.size() && task[begin] == '_') ++begin;
  std::size_t end = begin;
  while (end < task.size() && task[end] >= '0' && task[end] <= '9') ++end;
  return end < task.size() && task[end] != '/' ? "" : task.substr(begin, end - begin);
}

}  // namespace

Result<VerdictRow> row_from_text(const std::string& text) {
  MC_ASSIGN_OR_RETURN(json parsed, base::parse_json(text));
  VerdictRow row;
  MC_ASSIGN_OR_RETURN(row.verdict, verdict_from_json(parsed));
  if (auto level = parsed.find("level"); level != parsed.end() && level->is_number_integer())
    row.level = std::to_string(level->get<std::int64_t>());
  else if (level != parsed.end() && level->is_string())
    row.level = level->get<std::string>();
  if (row.level.empty()) row.level = level_in_task(row.verdict.task);
  row.json = std::make_shared<const json>(std::move(parsed));
  return row;
}

std::string row_text(const VerdictRow& row, const char* key) {
  if (!row.json) return "";
  auto it = row.json->find(key);
  return it != row.json->end() && it->is_string() ? it->get<std::string>() : "";
}

Result<std::string> row_policy(const json& row) {
  auto it = row.find("policy");
  if (it == row.end() || it->is_null()) return std::string();
  if (*it == "strict" || *it == "report") return it->get<std::string>();
  return fail(Code::kInvalidArgument, "`policy` is \"strict\" or \"report\", not {}",
              it->dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80));
}

Result<RowsRead> read_rows(const std::string& path, const std::function<void(VerdictRow)>& use) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file || file.peek() == std::char_traits<char>::eof()) {
      if (!file.is_open()) return fail(Code::kNotFound, "cannot read {}: {}", path, std::strerror(errno));
      if (file.bad()) return fail(Code::kNotFound, "cannot read {}; give a file of verdict lines", path);
    }
  }
  std::istream& in = path == "-" ? std::cin : file;
  RowsRead read;
  std::unordered_set<std::string> keys;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    const bool torn = in.eof();
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto row = line.size() > kMaxRowBytes
                   ? Result<VerdictRow>(fail(Code::kInvalidArgument, "{} bytes in one line", line.size()))
                   : row_from_text(line);
    if (!row) {
      if (torn) {
        read.torn_last_line = true;
        continue;
      }
      if (read.malformed++ == 0) read.first_error = fmt::format("line {}: {}", number, row.error().message);
      continue;
    }
    const std::string key = row_text(*row, "row_key");
    if (!key.empty() && !keys.insert(key).second) {
      ++read.duplicates;
      continue;
    }
    row->line = number;
    ++read.rows;
    use(std::move(*row));
  }
  return read;
}

}  // namespace musacoder::judge
