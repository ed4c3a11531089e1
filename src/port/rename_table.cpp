#include "port/rename_table.h"

#include <algorithm>

namespace musacoder::port {
namespace {

bool is_upper_or_digit(char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// Without "_v2", "_v12000": the version that headers add to a name. The same when there is none.
std::string_view without_version(std::string_view name) {
  std::size_t i = name.size();
  while (i > 0 && name[i - 1] >= '0' && name[i - 1] <= '9') --i;
  return i < name.size() && name.substr(0, i).ends_with("_v") ? name.substr(0, i - 2) : name;
}

}  // namespace

const char* dialect_name(Dialect dialect) { return dialect == Dialect::kMusa ? "musa" : "cuda"; }

std::optional<Renamed> RenameTable::find(const Map& map, std::string_view word,
                                         const std::vector<std::string>& groups) {
  const auto found = map.find(std::string(word));
  if (found == map.end()) return std::nullopt;
  return Renamed{found->second.to, groups[found->second.group]};
}

// Listed, or made by the headers from a listed name: cuMemAlloc_v2_params_st.
std::optional<Renamed> RenameTable::listed_or_suffixed(std::string_view word, Dialect to) const {
  const Map& map = names_[to == Dialect::kMusa];
  if (auto hit = find(map, word, groups_)) return hit;
  std::string_view stem = word;
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (const std::string& suffix : suffixes_)
      if (stem.ends_with(suffix)) {
        stem.remove_suffix(suffix.size());
        shorter = true;
      }
    if (!shorter && stem.size() == word.size()) return std::nullopt;  // a version alone is no suffix
    if (auto hit = find(map, stem, groups_))
      return Renamed{hit->to + std::string(word.substr(stem.size())), hit->group};
    const std::string_view plain = without_version(stem);
    shorter |= plain.size() < stem.size();
    stem = plain;
    if (auto hit = find(map, stem, groups_))
      return Renamed{hit->to + std::string(word.substr(stem.size())), hit->group};
  }
  return std::nullopt;
}

std::optional<Renamed> RenameTable::name(std::string_view word, Dialect to) const {
  if (auto hit = listed_or_suffixed(word, to)) return hit;
  if (word.find('$') != std::string_view::npos)
    return std::nullopt;  // a placeholder: no one knows the whole name
  const bool musa = to == Dialect::kMusa;
  for (const Open& open : open_) {
    const std::string& prefix = musa ? open.from : open.to;
    if (!word.starts_with(prefix) || word.size() == prefix.size() ||
        !(open.any || is_upper_or_digit(word[prefix.size()])))
      continue;
    std::string there = musa ? spelling_.to_musa(word) : spelling_.to_cuda(word);
    const std::string back = musa ? spelling_.to_cuda(there) : spelling_.to_musa(there);
    if (there == word || back != word) continue;  // no way back: better left alone
    return Renamed{std::move(there), groups_[open.group]};
  }
  return std::nullopt;
}

std::optional<Renamed> RenameTable::header(std::string_view path, bool own, Dialect to) const {
  const bool musa = to == Dialect::kMusa;
  if (auto hit = find(headers_[musa], path, groups_)) return hit;
  std::optional<Renamed> file = own ? file_name(path, to) : std::nullopt;
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) return file;
  for (const auto& [cuda, mu] : folders_)
    if (path.substr(0, slash) == (musa ? cuda : mu))
      return Renamed{(musa ? mu : cuda) +
                         std::string(file ? std::string_view(file->to).substr(slash) : path.substr(slash)),
                     "cutlass"};
  return file;
}

std::optional<Renamed> RenameTable::file_name(std::string_view name, Dialect to) const {
  for (const auto& [cuda, musa] : extensions_) {
    const std::string& from = to == Dialect::kMusa ? cuda : musa;
    if (name.size() > from.size() && name.ends_with(from) && name[name.size() - from.size() - 1] != '/')
      return Renamed{
          std::string(name.substr(0, name.size() - from.size())) + (to == Dialect::kMusa ? musa : cuda),
          "files"};
  }
  return std::nullopt;
}

std::optional<Renamed> RenameTable::python_word(std::string_view word, Dialect to) const {
  return find(python_words_[to == Dialect::kMusa], word, groups_);
}

std::optional<Renamed> RenameTable::python_string(std::string_view body, Dialect to) const {
  return find(python_strings_[to == Dialect::kMusa], body, groups_);
}

std::optional<Renamed> RenameTable::prose_word(std::string_view word, Dialect to) const {
  return find(prose_words_[to == Dialect::kMusa], word, groups_);
}

std::optional<Renamed> RenameTable::device(std::string_view body, Dialect to) const {
  const std::string& from = device_[to == Dialect::kCuda];
  if (from.empty() || !body.starts_with(from)) return std::nullopt;
  const std::string_view rest = body.substr(from.size());
  const bool numbered =
      rest.size() > 1 && rest[0] == ':' && rest.find_first_not_of("0123456789", 1) == std::string_view::npos;
  // What Python puts the number in for: "cuda:%d" % i, "cuda:{}".format(i), "cuda:" + str(i).
  const bool to_be_numbered = rest == ":" || rest == ":%d" || rest == ":%s" || rest == ":{}";
  if (!rest.empty() && !numbered && !to_be_numbered) return std::nullopt;
  return Renamed{device_[to == Dialect::kMusa] + std::string(rest), "device"};
}

std::optional<Renamed> RenameTable::build_word(std::string_view word, Dialect to) const {
  const bool musa = to == Dialect::kMusa;
  if (auto hit = find(build_words_[musa], word, groups_)) return hit;
  for (const Open& open : build_open_) {
    const std::string& prefix = musa ? open.from : open.to;
    if (word.starts_with(prefix) && word.size() > prefix.size() &&
        word.find_first_of("./-$") == std::string_view::npos)
      return Renamed{(musa ? open.to : open.from) + std::string(word.substr(prefix.size())), "build"};
  }
  return file_name(word, to);
}

const std::vector<Context>* RenameTable::cpp_contexts(std::string_view word, Dialect to) const {
  const auto& map = cpp_contexts_[to == Dialect::kMusa];
  const auto found = map.find(std::string(word));
  return found == map.end() ? nullptr : &found->second;
}

const std::vector<Context>* RenameTable::python_contexts(std::string_view word, Dialect to) const {
  const auto& map = python_contexts_[to == Dialect::kMusa];
  const auto found = map.find(std::string(word));
  return found == map.end() ? nullptr : &found->second;
}

const AttentionRule* RenameTable::word_attention(std::string_view word, bool python) const {
  const auto& map = python ? python_attention_ : cpp_attention_;
  const auto found = map.find(std::string(word));
  if (found != map.end()) return &found->second;
  if (!python)
    for (const auto& [prefix, rule] : cpp_prefix_attention_)
      if (word.starts_with(prefix) && word.size() > prefix.size() && is_upper_or_digit(word[prefix.size()]))
        return &rule;
  return nullptr;
}

const AttentionRule* RenameTable::header_attention(std::string_view path) const {
  for (const auto& [prefix, rule] : header_attention_)
    if (path.starts_with(prefix)) return &rule;
  return nullptr;
}

bool RenameTable::is_one_way(std::string_view cuda_name) const {
  return std::find(one_way_.begin(), one_way_.end(), cuda_name) != one_way_.end();
}

std::map<std::string, std::pair<std::string, std::string>> RenameTable::listed() const {
  std::map<std::string, std::pair<std::string, std::string>> all;
  for (const Map* map : {&names_[1], &headers_[1]})
    for (const auto& [from, entry] : *map) all.emplace(from, std::pair(groups_[entry.group], entry.to));
  return all;
}

}  // namespace musacoder::port
