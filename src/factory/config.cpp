#include "factory/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "base/hash.h"

namespace musacoder::factory {
namespace {

namespace fs = std::filesystem;

Result<std::string> word_of(const toml::node& node, const std::string& where) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  if (const auto real = node.value_exact<double>()) return fmt::format("{}", *real);
  if (const auto flag = node.value_exact<bool>()) return std::string(*flag ? "true" : "false");
  return fail(Code::kInvalidArgument, "{} is neither a text nor a number", where);
}

Result<std::vector<std::string>> words_of(const toml::table& table, const char* key,
                                          const std::string& where) {
  std::vector<std::string> words;
  const toml::node* node = table.get(key);
  if (!node) return words;
  if (!node->is_array()) return fail(Code::kInvalidArgument, "{}.{} is no list of words", where, key);
  for (const toml::node& item : *node->as_array()) {
    MC_ASSIGN_OR_RETURN(std::string word, word_of(item, fmt::format("{}.{}", where, key)));
    words.push_back(std::move(word));
  }
  return words;
}

Result<std::map<std::string, std::string>> table_of(const toml::table& table, const char* key,
                                                    const std::string& where) {
  std::map<std::string, std::string> out;
  const toml::node* node = table.get(key);
  if (!node) return out;
  if (!node->is_table()) return fail(Code::kInvalidArgument, "{}{} is no table", where, key);
  for (const auto& [name, value] : *node->as_table()) {
    MC_ASSIGN_OR_RETURN(out[std::string(name.str())],
                        word_of(value, fmt::format("{}{}.{}", where, key, std::string(name.str()))));
  }
  return out;
}

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 64 && std::isalpha(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

Status check_keys(const toml::table& table, const std::set<std::string>& known, const std::string& where) {
  for (const auto& [key, value] : table)
    if (!known.count(std::string(key.str())))
      return fail(Code::kInvalidArgument, "line {}: {} has no key '{}'; it has {}", value.source().begin.line,
                  where, std::string(key.str()), fmt::join(known, ", "));
  return ok();
}

Result<Stage> read_stage(const toml::table& table, std::size_t number) {
  Stage stage;
  stage.name = table["name"].value_or(std::string());
  const std::string where =
      stage.name.empty() ? fmt::format("stage {}", number) : fmt::format("stage {}", stage.name);
  MC_RETURN_IF_ERROR(check_keys(
      table, {"name", "kind", "command", "check", "inputs", "after", "env", "goes_on", "summary", "optional", "holds"},
      where));
  if (!is_name(stage.name))
    return fail(Code::kInvalidArgument, "{}: a `name` is letters, digits, - and _, and begins with a letter",
                where);
  stage.kind = table["kind"].value_or(stage.kind);
  stage.summary = table["summary"].value_or(stage.summary);
  stage.optional = table["optional"].value_or(false);
  MC_ASSIGN_OR_RETURN(stage.command, words_of(table, "command", where));
  MC_ASSIGN_OR_RETURN(stage.check, words_of(table, "check", where));
  MC_ASSIGN_OR_RETURN(stage.inputs, words_of(table, "inputs", where));
  MC_ASSIGN_OR_RETURN(stage.after, words_of(table, "after", where));
  MC_ASSIGN_OR_RETURN(stage.holds, words_of(table, "holds", where));
  MC_ASSIGN_OR_RETURN(stage.env, table_of(table, "env", where + "."));
  if (const toml::array* codes = table["goes_on"].as_array()) {
    stage.goes_on.clear();
    for (const auto& code : *codes) {
      if (!code.is_integer())
        return fail(Code::kInvalidArgument, "{}.goes_on is no list of exit codes", where);
      stage.goes_on.push_back(static_cast<int>(*code.value<std::int64_t>()));
    }
  }
  if (stage.command.empty()) return fail(Code::kInvalidArgument, "{} has no `command`", where);
  return stage;
}

// What a file's or folder's content is.
Result<std::string> content_hash(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return base::sha256_file(path);
  if (!fs::is_directory(path, error)) return fail(Code::kNotFound, "the input {} is not there", path);
  std::vector<std::string> files;
  for (auto it = fs::recursive_directory_iterator(path, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error))
    if (it->is_regular_file(error)) files.push_back(it->path().string());
  if (error) return fail(Code::kNotFound, "{}: {}", path, error.message());
  std::sort(files.begin(), files.end());
  base::Sha256 hash;
  for (const std::string& file : files) {
    MC_ASSIGN_OR_RETURN(const std::string one, base::sha256_file(file));
    hash.field(fs::path(file).lexically_relative(path).generic_string());
    hash.field(one);
  }
  return hash.hex();
}

// Puts folders and values in for {words}; names of stages that were used go to `needs`.
struct Expander {
  const Chain& chain;
  const std::map<std::string, std::string>& folders;  // of earlier stages
  std::string own;
  std::set<std::string> needs{};

  Result<std::string> expand(const std::string& word, const std::string& where) {
    std::string out;
    for (std::size_t at = 0; at < word.size(); ++at) {
      const char c = word[at];
      if ((c == '{' || c == '}') && at + 1 < word.size() && word[at + 1] == c) {
        out += c;
        ++at;
        continue;
      }
      if (c != '{') {
        out += c;
        continue;
      }
      const std::size_t end = word.find('}', at);
      if (end == std::string::npos)
        return fail(Code::kInvalidArgument, "{}: '{}' has a {{ without its }}", where, word);
      const std::string name = word.substr(at + 1, end - at - 1);
      at = end;
      if (name == "out")
        out += own;
      else if (name == "root")
        out += chain.folder;
      else if (name == "config")
        out += chain.config_folder;
      else if (const auto folder = folders.find(name); folder != folders.end())
        out += folder->second, needs.insert(name);
      else if (const auto value = chain.values.find(name); value != chain.values.end())
        out += value->second;
      else if (const auto local = chain.machine.find(name); local != chain.machine.end())
        out += local->second;
      else
        return fail(Code::kInvalidArgument,
                    "{}: {{{}}} is neither a stage before it nor a key of [values] or [machine]", where, name);
    }
    return out;
  }
};

Result<Chain> parse(const std::string& path, const std::string& text) {
  Chain chain;
  try {
    const toml::table file = toml::parse(text, path);
    MC_RETURN_IF_ERROR(check_keys(file, {"name", "folder", "values", "machine", "stage"}, "the file"));
    chain.name = file["name"].value_or(fs::path(path).stem().string());
    chain.folder = file["folder"].value_or("runs/" + chain.name);
    MC_ASSIGN_OR_RETURN(chain.values, table_of(file, "values", ""));
    MC_ASSIGN_OR_RETURN(chain.machine, table_of(file, "machine", ""));
    const toml::array* stages = file["stage"].as_array();
    if (!stages || stages->empty()) return fail(Code::kInvalidArgument, "there is no [[stage]]");
    for (const toml::node& node : *stages) {
      if (!node.is_table())
        return fail(Code::kInvalidArgument, "`stage` is no list of tables; write [[stage]]");
      MC_ASSIGN_OR_RETURN(Stage stage, read_stage(*node.as_table(), chain.stages.size() + 1));
      chain.stages.push_back(std::move(stage));
    }
  } catch (const toml::parse_error& error) {
    return fail(Code::kInvalidArgument, "line {}: {}", error.source().begin.line,
                std::string(error.description()));
  }
  return chain;
}

}  // namespace

Result<Chain> read_chain(const std::string& path, const std::vector<std::string>& set) {
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, 4u << 20));
  auto chain = parse(path, text);
  if (!chain) return fail(chain.error().code, "{}: {}", path, chain.error().message);
  for (const std::string& pair : set) {
    const auto equals = pair.find('=');
    const std::string key = pair.substr(0, equals);
    if (equals == std::string::npos ||
        (key != "folder" && !chain->values.count(key) && !chain->machine.count(key))) {
      std::vector<std::string> keys = {"folder"};
      for (const auto* table : {&chain->values, &chain->machine})
        for (const auto& [name, value] : *table) keys.push_back(name);
      return fail(Code::kInvalidArgument, "--set {}: give KEY=VALUE with one of {}", pair,
                  fmt::join(keys, ", "));
    }
    std::string& place = key == "folder"              ? chain->folder
                         : chain->machine.count(key) ? chain->machine[key]
                                                     : chain->values[key];
    place = pair.substr(equals + 1);
  }
  chain->folder = fs::absolute(chain->folder).lexically_normal().string();
  while (chain->folder.size() > 1 && chain->folder.ends_with('/')) chain->folder.pop_back();
  chain->config_folder = fs::absolute(path).parent_path().lexically_normal().string();
  std::set<std::string> names = {"out", "root", "config"};
  for (const auto* table : {&chain->values, &chain->machine})
    for (const auto& [key, value] : *table)
      if (!names.insert(key).second)
        return fail(Code::kInvalidArgument, "{}: [{}] cannot have the key '{}'", path,
                    table == &chain->values ? "values" : "machine", key);
  for (const Stage& stage : chain->stages)
    if (!names.insert(stage.name).second)
      return fail(Code::kInvalidArgument, "{}: the name '{}' is taken twice", path, stage.name);
  return chain;
}

Result<Plan> plan_chain(const Chain& chain, const Tools& tools) {
  Plan plan{.folder = chain.folder, .stages = {}};
  std::map<std::string, std::string> folders, digests;
  for (std::size_t i = 0; i < chain.stages.size(); ++i) {
    const Stage& stage = chain.stages[i];
    const std::string where = "stage " + stage.name;
    PlannedStage planned;
    planned.stage = &stage;
    planned.folder = fmt::format("{}/{:02}-{}", chain.folder, i + 1, stage.name);
    Expander expander{.chain = chain, .folders = folders, .own = planned.folder};
    base::Sha256 hash;
    hash.field("factory stage 1");
    // The digest is of words before folders are put in: a run's folder may be moved.
    const auto expand_all = [&](const std::vector<std::string>& words,
                                std::vector<std::string>& out) -> Status {
      for (const std::string& word : words) {
        MC_ASSIGN_OR_RETURN(std::string expanded, expander.expand(word, where));
        if (out.empty()) {
          if (expanded == "musacoder") expanded = tools.musacoder;
          if (expanded == "musacoder-train") expanded = tools.train;
          if (expanded == "python") expanded = tools.python;
        }
        out.push_back(std::move(expanded));
      }
      return ok();
    };
    MC_RETURN_IF_ERROR(expand_all(stage.command, planned.argv));
    MC_RETURN_IF_ERROR(expand_all(stage.check, planned.check));
    for (const std::string& word : stage.command) {
      hash.field(word);
      for (const auto& [key, value] : chain.values)
        if (word.find("{" + key + "}") != std::string::npos) hash.field(value);
    }
    for (const auto& [name, value] : stage.env) {
      MC_ASSIGN_OR_RETURN(const std::string expanded, expander.expand(value, where));
      planned.env.push_back(name + "=" + expanded);
      hash.field(name + "=" + value);
    }
    for (const std::string& input : stage.inputs) {
      MC_ASSIGN_OR_RETURN(const std::string expanded, expander.expand(input, where));
      // What a stage before it makes is told by that stage's digest.
      if (expanded.rfind(chain.folder + "/", 0) == 0) continue;
      auto content = content_hash(expanded);
      if (!content) return fail(content.error().code, "{}: {}", where, content.error().message);
      hash.field(*content);
    }
    for (const std::string& name : stage.after) {
      if (!folders.count(name))
        return fail(Code::kInvalidArgument, "{}: `after` names '{}', which is no stage before it", where,
                    name);
      expander.needs.insert(name);
    }
    for (const std::string& name : expander.needs) {
      planned.needs.push_back(name);
      hash.field(digests[name]);
    }
    planned.digest = hash.hex();
    folders[stage.name] = planned.folder;
    digests[stage.name] = planned.digest;
    plan.stages.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace musacoder::factory
