#include "port/files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/subprocess.h"

namespace musacoder::port {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxFileBytes = 1ull << 30;
constexpr std::size_t kLookedAt = 8192;  // bytes in which a zero byte makes a file no text, as git does

// What git would track below a folder; nothing where git does not know it.
std::optional<std::set<std::string>> tracked_by_git(const std::string& folder) {
  base::SubprocessOptions options{
      .argv = {"git", "-C", folder, "ls-files", "--cached", "--others", "--exclude-standard", "-z"}};
  options.output_limit = 256u << 20;
  const auto result = base::run(options);
  if (!result || !result->exit.ok() || result->truncated) return std::nullopt;
  std::set<std::string> files;
  for (std::size_t at = 0; at < result->out.size();) {
    const std::size_t end = result->out.find('\0', at);
    files.insert(result->out.substr(at, end - at));
    at = end + 1;
  }
  return files;
}

Status find_below(const std::string& folder, bool hidden, std::vector<Input>& inputs) {
  const auto tracked = hidden ? std::nullopt : tracked_by_git(folder);
  std::vector<std::string> found;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool skipped = !hidden && name.starts_with(".");
    if (at->is_directory() && !at->is_symlink()) {
      if (skipped || name == ".git") at.disable_recursion_pending();
    } else if (!skipped && at->is_regular_file() && !at->is_symlink()) {
      std::string relative = fs::relative(at->path(), folder).string();
      if (!tracked || tracked->count(relative)) found.push_back(std::move(relative));
    }
  }
  if (error) return fail(Code::kNotFound, "{}: {}", folder, error.message());
  std::sort(found.begin(), found.end());
  for (const std::string& relative : found) inputs.push_back({folder + "/" + relative, relative, true});
  return ok();
}

void append(PortedFile& file, Ported ported, std::string& out, std::size_t row = 0) {
  out += ported.text;
  for (Attention& item : ported.attention) item.row = row;
  std::move(ported.renames.begin(), ported.renames.end(), std::back_inserter(file.renames));
  std::move(ported.attention.begin(), ported.attention.end(), std::back_inserter(file.attention));
}

// Past the JSON string that begins at `at`.
std::size_t string_end(std::string_view line, std::size_t at) {
  for (++at; at < line.size() && line[at] != '"'; ++at)
    if (line[at] == '\\') ++at;
  return std::min(at + 1, line.size());
}

// Where the string of a row's own member stands, with its quotes; `line` is a valid JSON object.
std::optional<std::pair<std::size_t, std::size_t>> member(std::string_view line, std::string_view name) {
  int depth = 0;
  for (std::size_t at = 0; at < line.size();) {
    const char c = line[at];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c != '"') {
      ++at;
      continue;
    }
    const std::size_t end = string_end(line, at);
    const std::size_t colon = line.find_first_not_of(" \t\r", end);
    const bool key = depth == 1 && colon != std::string_view::npos && line[colon] == ':' &&
                     json::parse(line.substr(at, end - at)) == json(name);
    at = end;
    if (!key) continue;
    const std::size_t value = line.find_first_not_of(" \t\r", colon + 1);
    if (value != std::string_view::npos && line[value] == '"')
      return std::pair(value, string_end(line, value));
  }
  return std::nullopt;
}

// One row: only the ported texts change, so that the rest of it keeps its bytes.
Result<std::string> port_row(const RenameTable& table, std::string line, std::size_t number, Dialect to,
                             const FileOptions& options, PortedFile& file) {
  if (auto plain = base::parse_json(line); !plain || !plain->is_object())
    return fail(Code::kInvalidArgument, "{}:{}: the row is no JSON object", file.path, number);
  const bool ascii =
      std::all_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  bool known = false;
  for (const std::string& field : options.fields) {
    const auto place = member(line, field);
    if (!place) continue;
    known = true;
    const auto& [begin, end] = *place;
    const std::string text = json::parse(line.substr(begin, end - begin));
    auto ported = port_text(table, text, options.language.value_or(language_of_text(text)), to, options.port);
    if (!ported)
      return fail(ported.error().code, "{}:{}: {}: {}", file.path, number, field, ported.error().message);
    std::string after;
    append(file, std::move(*ported), after, number);
    if (after != text) line.replace(begin, end - begin, json(after).dump(-1, ' ', ascii));
  }
  if (!known)
    return fail(Code::kInvalidArgument, "{}:{}: the row has none of the fields {}; name them with --field",
                file.path, number, fmt::join(options.fields, ", "));
  return line;
}

Status port_rows(const RenameTable& table, Dialect to, const FileOptions& options, PortedFile& file) {
  std::size_t number = 0;
  for (std::size_t at = 0; at < file.before.size();) {
    const std::size_t end = std::min(file.before.find('\n', at), file.before.size());
    std::string line = file.before.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      MC_ASSIGN_OR_RETURN(line, port_row(table, line, number, to, options, file));
    }
    file.after += line;
    if (end < file.before.size()) file.after += '\n';
  }
  return ok();
}

std::string with_file_name(const RenameTable& table, const std::string& relative, Dialect to) {
  const auto renamed = table.file_name(relative, to);
  return renamed ? renamed->to : relative;
}

}  // namespace

Result<std::vector<Input>> find_files(const std::vector<std::string>& paths, bool hidden) {
  std::vector<Input> inputs;
  for (std::string path : paths) {
    if (!base::exists(path)) return fail(Code::kNotFound, "{} does not exist", path);
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    if (base::is_directory(path))
      MC_RETURN_IF_ERROR(find_below(path, hidden, inputs));
    else
      inputs.push_back({path, fs::path(path).filename().string(), false});
  }
  return inputs;
}

Result<PortedFile> port_file(const RenameTable& table, const Input& input, Dialect to,
                             const FileOptions& options) {
  PortedFile file{.path = input.path,
                  .relative = input.relative,
                  .before = {},
                  .after = {},
                  .renames = {},
                  .attention = {}};
  MC_ASSIGN_OR_RETURN(file.before, base::read_file(input.path, kMaxFileBytes));
  file.language = options.language.value_or(language_of(input.relative));
  const bool text = file.before.find('\0') == std::string::npos || file.before.find('\0') > kLookedAt;
  if (text && input.relative.ends_with(".jsonl") && !input.from_folder) {
    file.text = true;
    MC_RETURN_IF_ERROR(port_rows(table, to, options, file));
    return file;
  }
  // A README says what it says; names in it are only touched when it was asked for.
  const bool is_meant = (file.language != Language::kText && file.language != Language::kAnswer) ||
                        !input.from_folder || options.port.in_strings;
  if (!text || !is_meant || file.before.size() > kMaxTextBytes) {
    file.after = file.before;
    file.relative = with_file_name(table, input.relative, to);
    return file;
  }
  file.text = true;
  auto ported = port_text(table, file.before, file.language, to, options.port);
  if (!ported) return fail(ported.error().code, "{}: {}", input.path, ported.error().message);
  append(file, std::move(*ported), file.after);
  file.relative = with_file_name(table, input.relative, to);
  return file;
}

Status write_files(const std::vector<PortedFile>& files, const std::string& out, bool force) {
  std::map<std::string, std::string> places;
  for (const PortedFile& file : files)
    if (const auto [at, fresh] = places.emplace(file.relative, file.path); !fresh)
      return fail(Code::kInvalidArgument, "{} and {} would both be written to {}", at->second, file.path,
                  file.relative);
  std::vector<base::FolderFile> written;
  for (const PortedFile& file : files)
    written.push_back({file.relative, file.after, base::is_executable(file.path) ? 0755 : 0644});
  return base::write_folder(out, written, force);
}

Status replace_files(const std::vector<PortedFile>& files, bool force) {
  auto place_of = [](const PortedFile& file) {
    return (fs::path(file.path).parent_path() / fs::path(file.relative).filename()).string();
  };
  for (const PortedFile& file : files)
    if (const std::string place = place_of(file); place != file.path && base::exists(place) && !force)
      return fail(Code::kInvalidArgument, "{} exists, and {} would be written over it; -f does", place,
                  file.path);
  for (const PortedFile& file : files) {
    const std::string place = place_of(file);
    if (place == file.path && !file.changed()) continue;
    MC_RETURN_IF_ERROR(
        base::write_file_atomic(place, file.after, base::is_executable(file.path) ? 0755 : 0644));
    std::error_code error;
    if (place != file.path && !fs::remove(file.path, error))
      return fail(Code::kInternal, "{}: {}", file.path, error.message());
  }
  return ok();
}

std::string diff_of(const PortedFile& file, int context) {
  auto lines_of = [](const std::string& text) {
    std::vector<std::string_view> lines;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      lines.push_back(std::string_view(text).substr(at, end - at));
      at = end + 1;
    }
    return lines;
  };
  const auto before = lines_of(file.before), after = lines_of(file.after);
  if (!file.changed() || before.size() != after.size()) return "";
  const std::string there = (fs::path(file.path).parent_path() / fs::path(file.relative).filename()).string();
  std::string out = fmt::format("--- {}\n+++ {}\n", file.path, there);
  const std::size_t size = before.size(), around = static_cast<std::size_t>(context);
  for (std::size_t i = 0; i < size;) {
    if (before[i] == after[i]) {
      ++i;
      continue;
    }
    // A hunk: changes that are at most twice the context apart.
    const std::size_t begin = i > around ? i - around : 0;
    std::size_t last = i;
    for (std::size_t k = i; k < size && k <= last + 2 * around; ++k)
      if (before[k] != after[k]) last = k;
    const std::size_t end = std::min(size, last + around + 1);
    out += fmt::format("@@ -{0},{1} +{0},{1} @@\n", begin + 1, end - begin);
    for (std::size_t k = begin; k < end;) {
      if (before[k] == after[k]) {
        out += fmt::format(" {}\n", before[k++]);
        continue;
      }
      std::size_t to = k;
      while (to < end && before[to] != after[to]) ++to;
      for (std::size_t j = k; j < to; ++j) out += fmt::format("-{}\n", before[j]);
      for (std::size_t j = k; j < to; ++j) out += fmt::format("+{}\n", after[j]);
      k = to;
    }
    if (end == size && !file.before.ends_with('\n')) out += "\\ No newline at end of file\n";
    i = end;
  }
  return out;
}

}  // namespace musacoder::port
