// RenameTable::load: TOML into the maps, with every complaint naming file and key.
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "base/paths.h"
#include "port/rename_table.h"
#include "port/tokens.h"

namespace musacoder::port {
namespace {

constexpr int kVersion = 1;
constexpr std::uint64_t kMaxFileBytes = 8u << 20;

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n", i);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \t\r\n", begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    i = end;
  }
  return words;
}

}  // namespace

class TableReader {
 public:
  explicit TableReader(std::string folder) : folder_(std::move(folder)) {}

  Result<RenameTable> read() {
    std::set<std::string> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, error))
      if (entry.path().extension() == ".toml") files.insert(entry.path().filename().string());
    if (error)
      return fail(Code::kNotFound, "{}: {}; the rename tables belong there", folder_, error.message());
    MC_RETURN_IF_ERROR(read_file("rules.toml", [this](const toml::table& file) { rules(file); }));
    MC_RETURN_IF_ERROR(read_file("attention.toml", [this](const toml::table& file) { attention(file); }));
    for (const std::string& file : files)
      if (file.starts_with("names_"))
        MC_RETURN_IF_ERROR(read_file(file, [this](const toml::table& table) { names(table); }));
    table_.hash_ = hash_.hex();
    return std::move(table_);
  }

 private:
  // The first complaint; later ones are consequences.
  void complain(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  Status read_file(const std::string& name, const std::function<void(const toml::table&)>& use) {
    const std::string path = folder_ + "/" + name;
    MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, kMaxFileBytes));
    hash_.field(name);
    hash_.field(text);
    try {
      const toml::table file = toml::parse(text, path);
      use(file);
    } catch (const toml::parse_error& error) {
      return fail(Code::kInvalidArgument, "{}:{}: {}", path, error.source().begin.line,
                  std::string(error.description()));
    }
    if (!error_.empty()) return fail(Code::kInvalidArgument, "{}: {}", path, error_);
    return ok();
  }

  int group(const std::string& name) {
    auto& groups = table_.groups_;
    const auto found = std::find(groups.begin(), groups.end(), name);
    if (found != groups.end()) return static_cast<int>(found - groups.begin());
    groups.push_back(name);
    return static_cast<int>(groups.size() - 1);
  }

  std::string text_of(const toml::table& table, std::string_view key, const std::string& where) {
    const auto value = table[key].value<std::string>();
    if (!value || value->empty()) complain(fmt::format("{}: `{}` is missing or no text", where, key));
    return value.value_or("");
  }

  // Calls `use` for every table of an array; `key` names the array in complaints.
  void each(const toml::node_view<const toml::node>& node, const std::string& key,
            const std::function<void(const toml::table&, const std::string&)>& use) {
    if (!node) return;
    const toml::array* array = node.as_array();
    if (!array) return complain(fmt::format("`{}` is no array of tables", key));
    for (std::size_t i = 0; i < array->size(); ++i) {
      const std::string where = fmt::format("{}[{}]", key, i);
      const toml::table* table = array->get(i)->as_table();
      if (!table) return complain(where + " is no table");
      use(*table, where);
    }
  }

  std::vector<std::string> texts(const toml::node_view<const toml::node>& node, const std::string& key) {
    std::vector<std::string> all;
    if (!node) return all;
    const toml::array* array = node.as_array();
    if (!array) {
      complain(fmt::format("`{}` is no array of texts", key));
      return all;
    }
    for (const auto& element : *array) {
      const auto value = element.value<std::string>();
      if (!value || value->empty())
        complain(fmt::format("`{}` holds what is no text", key));
      else
        all.push_back(*value);
    }
    return all;
  }

  // A pair in both directions. A target that another name has: one of them must say one_way, and the other
  // one comes back.
  void pair(RenameTable::Map* maps, const std::string& from, const std::string& to, int group, bool one_way,
            const std::string& where) {
    if (from.empty() || to.empty()) return;
    const auto [there, fresh] = maps[1].try_emplace(from, RenameTable::Entry{to, group});
    if (!fresh) {
      if (there->second.to != to)
        complain(fmt::format("{}: {} is already {}", where, from, there->second.to));
      return;
    }
    if (one_way) {
      table_.one_way_.push_back(from);
      return;
    }
    const auto [back, back_fresh] = maps[0].try_emplace(to, RenameTable::Entry{from, group});
    if (!back_fresh)
      complain(fmt::format("{}: {} and {} would both become {}; one of them must be one_way", where, from,
                           back->second.to, to));
  }

  void pairs(const toml::node_view<const toml::node>& node, const std::string& key, RenameTable::Map* maps,
             const std::string& group_name) {
    each(node, key, [&](const toml::table& entry, const std::string& where) {
      const std::string own = entry["group"].value_or(group_name);
      pair(maps, text_of(entry, "from", where), text_of(entry, "to", where), group(own),
           entry["one_way"].value_or(false), where);
    });
  }

  void rules(const toml::table& file) {
    version(file);
    spelling(file);
    pairs(file["exact"], "exact", table_.names_, "runtime");
    each(file["older"], "older", [&](const toml::table& entry, const std::string&) { names(entry); });
    each(file["open"], "open", [&](const toml::table& entry, const std::string& where) {
      const std::string prefix = text_of(entry, "prefix", where);
      // A capital stands for what follows, so that rules which look to the right apply.
      std::string to = table_.spelling_.to_musa(prefix + "A");
      to.pop_back();
      if (to == prefix) complain(fmt::format("{}: no spelling rule changes `{}`", where, prefix));
      table_.open_.push_back(
          {group(text_of(entry, "group", where)), prefix, to, entry["any"].value_or(false)});
    });
    table_.suffixes_ = texts(file["suffixes"], "suffixes");
    each(file["context"], "context",
         [&](const toml::table& entry, const std::string& where) { context(entry, where); });
    headers(file);
    python(file);
    pairs(file["prose"]["words"], "prose.words", table_.prose_words_, "prose");
    pairs(file["build"]["words"], "build.words", table_.build_words_, "build");
    each(file["build"]["open"], "build.open", [&](const toml::table& entry, const std::string& where) {
      table_.build_open_.push_back(
          {group("build"), text_of(entry, "prefix", where), text_of(entry, "to", where), true});
    });
  }

  void version(const toml::table& file) {
    if (file["version"].value_or(0) != kVersion)
      complain(fmt::format("`version` is not {}, the only one this program reads", kVersion));
  }

  void spelling(const toml::table& file) {
    std::vector<SpellingRule> rules;
    each(file["spelling"], "spelling", [&](const toml::table& entry, const std::string& where) {
      SpellingRule rule{.from = text_of(entry, "from", where), .to = text_of(entry, "to", where)};
      const std::string left = entry["left"].value_or("");
      if (!left.empty() && left != "edge")
        complain(fmt::format("{}: left is \"edge\" or absent, not \"{}\"", where, left));
      rule.edge = left == "edge";
      std::string right = entry["right"].value_or("");
      std::replace(right.begin(), right.end(), '|', ' ');
      for (const std::string& part : words_of(right)) {
        if (part == "upper")
          rule.upper = true;
        else if (part == "lower")
          rule.lower = true;
        else if (part == "_")
          rule.underscore = true;
        else
          complain(fmt::format("{}: right knows upper, lower and _, not \"{}\"", where, part));
      }
      rules.push_back(std::move(rule));
    });
    if (rules.empty()) complain("there is no `spelling`");
    table_.spelling_ = Spelling(std::move(rules));
  }

  std::vector<Context::Pattern> patterns(const toml::table& entry, const std::string& key,
                                         const std::string& where) {
    std::vector<Context::Pattern> all;
    for (const std::string& text : texts(entry[key], where + "." + key)) all.push_back(words_of(text));
    return all;
  }

  void context(const toml::table& entry, const std::string& where) {
    const std::string language = text_of(entry, "language", where);
    if (language != "cpp" && language != "python")
      complain(fmt::format("{}: language is cpp or python, not \"{}\"", where, language));
    auto* maps = language == "cpp" ? table_.cpp_contexts_ : table_.python_contexts_;
    Context forward{text_of(entry, "group", where), text_of(entry, "from", where),
                    text_of(entry, "to", where), patterns(entry, "before", where),
                    patterns(entry, "after", where)};
    if (forward.before.empty() && forward.after.empty())
      complain(where + ": give before, after or both; a word without a condition belongs into a list");
    Context back = forward;
    std::swap(back.from, back.to);
    if (entry.contains("before_musa")) back.before = patterns(entry, "before_musa", where);
    if (entry.contains("after_musa")) back.after = patterns(entry, "after_musa", where);
    maps[1][forward.from].push_back(forward);
    maps[0][back.from].push_back(back);
  }

  void headers(const toml::table& file) {
    const auto node = file["headers"];
    pairs(node["torch"], "headers.torch", table_.headers_, "torch");
    pairs(node["exact"], "headers.exact", table_.headers_, "headers");
    auto list = [&](const std::string& key, std::vector<std::pair<std::string, std::string>>& into) {
      each(node[key], "headers." + key, [&](const toml::table& entry, const std::string& where) {
        into.emplace_back(text_of(entry, "from", where), text_of(entry, "to", where));
      });
    };
    list("folders", table_.folders_);
    list("extensions", table_.extensions_);
  }

  void python(const toml::table& file) {
    const auto node = file["python"];
    pairs(node["words"], "python.words", table_.python_words_, "python");
    pairs(node["strings"], "python.strings", table_.python_strings_, "strings");
    auto both = [&](const std::string& key, std::string* into) {
      const toml::table* entry = node[key].as_table();
      if (!entry) return complain(fmt::format("`python.{}` is missing", key));
      into[0] = text_of(*entry, "from", "python." + key);
      into[1] = text_of(*entry, "to", "python." + key);
    };
    both("device", table_.device_);
    both("import", table_.import_);
    table_.source_keywords_ = texts(node["source_keywords"], "python.source_keywords");
    table_.source_marks_ = texts(node["source_marks"], "python.source_marks");
    each(node["source_calls"], "python.source_calls",
         [&](const toml::table& entry, const std::string& where) {
           RenameTable::SourceCall call{.name = text_of(entry, "name", where), .places = {}};
           if (const toml::array* places = entry["places"].as_array())
             for (const auto& place : *places) call.places.push_back(place.value_or(0));
           table_.source_calls_.push_back(std::move(call));
         });
  }

  // One list of names; what they become is the spelling's business, except where rules.toml was exact about
  // them.
  void names(const toml::table& file) {
    const std::string group_name = text_of(file, "group", "the list");
    const std::string listed = text_of(file, "names", "the list");
    const bool headers = group_name == "headers";
    RenameTable::Map* maps = headers ? table_.headers_ : table_.names_;
    for (const std::string& name : words_of(listed)) {
      if (!headers && !std::all_of(name.begin(), name.end(), is_word_char)) {
        complain(fmt::format("`names`: {} is no identifier", name));
        continue;
      }
      if (maps[1].count(name)) continue;  // exact
      const std::string to = table_.spelling_.to_musa(name);
      if (to != name) pair(maps, name, to, group(group_name), false, "`names`");
    }
  }

  void attention(const toml::table& file) {
    version(file);
    each(file["attention"], "attention", [&](const toml::table& entry, const std::string& where) {
      const AttentionRule rule{text_of(entry, "kind", where), text_of(entry, "why", where)};
      for (const auto& word : texts(entry["words"], where + ".words"))
        table_.cpp_attention_.emplace(word, rule);
      for (const auto& word : texts(entry["python"], where + ".python"))
        table_.python_attention_.emplace(word, rule);
      for (const auto& prefix : texts(entry["prefixes"], where + ".prefixes"))
        table_.cpp_prefix_attention_.emplace_back(prefix, rule);
      for (const auto& prefix : texts(entry["headers"], where + ".headers"))
        table_.header_attention_.emplace_back(prefix, rule);
    });
  }

  std::string folder_, error_;
  RenameTable table_;
  base::Sha256 hash_;
};

Result<RenameTable> RenameTable::load(const std::string& folder) { return TableReader(folder).read(); }

Result<RenameTable> RenameTable::installed() {
  MC_ASSIGN_OR_RETURN(const std::string runtime, base::find_runtime_dir());
  return load(runtime + "/musa/renames");
}

}  // namespace musacoder::port
