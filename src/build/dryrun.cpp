#include "build/dryrun.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "base/subprocess.h"

namespace musacoder::build {
namespace {

using Variables = std::map<std::string, std::string>;

// Words of one printed command: blanks separate, double quotes group, $NAME is a variable printed before.
std::vector<std::string> words_of(std::string_view line, const Variables& variables) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, any = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      any = true;
    } else if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if (c == '$') {
      std::size_t end = i + 1;
      while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '_')) ++end;
      auto it = variables.find(std::string(line.substr(i + 1, end - i - 1)));
      if (it != variables.end()) word += it->second;
      any = true;
      i = end - 1;
    } else if (!quoted && std::isspace(static_cast<unsigned char>(c))) {
      if (any) words.push_back(word);
      word.clear();
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  if (any) words.push_back(word);
  return words;
}

bool has(const std::vector<std::string>& words, std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); }

}  // namespace

Result<DryRun> parse_dryrun(const std::string& output) {
  DryRun result;
  Variables variables;
  std::vector<std::string> cpp;          // the latest preprocessor step, not yet claimed by what reads its output
  auto take = [](std::vector<std::string>& slot, std::vector<std::string> words) {
    bool free = slot.empty();
    slot = std::move(words);
    return free;
  };
  for (std::size_t from = 0; from < output.size();) {
    std::size_t to = std::min(output.find('\n', from), output.size());
    std::string_view line(output.data() + from, to - from);
    from = to + 1;
    if (!line.starts_with("#$ ")) continue;
    line.remove_prefix(3);
    std::size_t equals = line.find('=');
    if (equals != std::string_view::npos && std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(equals),
                                                        [](unsigned char c) { return std::isalnum(c) || c == '_'; })) {
      std::string value(line.substr(equals + 1));
      variables[std::string(line.substr(0, equals))] = value;
      continue;
    }
    std::vector<std::string> words = words_of(line, variables);
    if (words.empty()) continue;
    std::string name = std::filesystem::path(words[0]).filename();
    if (words[0].find('/') == std::string::npos) {
      std::string path = base::find_program(words[0], variables.count("PATH") ? variables["PATH"] : "");
      if (!path.empty()) words[0] = path;
    }
    bool fresh = true;
    if (name == "cudafe++") {
      if (cpp.empty()) return fail(Code::kUnsupported, "nvcc --dryrun: cudafe++ without a preprocessor before it");
      result.host_cpp = std::exchange(cpp, {});
      fresh = take(result.cudafe, std::move(words));
    } else if (name == "cicc") {
      if (cpp.empty()) return fail(Code::kUnsupported, "nvcc --dryrun: cicc without a preprocessor before it");
      result.device_cpp = std::exchange(cpp, {});
      fresh = take(result.cicc, std::move(words));
    } else if (name == "fatbinary") {
      fresh = take(result.fatbinary, std::move(words));
    } else if (name == "ptxas") {
      fresh = take(result.ptxas, std::move(words));
    } else if (name == "rm") {
      continue;
    } else if (has(words, "-E")) {
      cpp = std::move(words);
    } else if (has(words, "-c")) {
      fresh = take(result.gxx, std::move(words));
    } else {
      return fail(Code::kUnsupported, "nvcc --dryrun: unknown step {}", name);
    }
    if (!fresh) return fail(Code::kUnsupported, "nvcc --dryrun: {} twice", name);
  }
  for (const auto* step : {&result.host_cpp, &result.cudafe, &result.device_cpp, &result.cicc, &result.fatbinary, &result.gxx})
    if (step->empty()) return fail(Code::kUnsupported, "nvcc --dryrun printed no {} step", step == &result.cicc ? "cicc" : "host or device");
  return result;
}

}  // namespace musacoder::build
